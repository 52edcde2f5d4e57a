"""Sizes of the batches that a connection delivered: an ack set alone does not show where its batch ends."""

from __future__ import annotations

from typing import Any

from pulsarscope.model.bounded_tables import NOTHING, remember

BATCHES_MAX = 4096
"""Most batches remembered for one connection: clients acknowledge within seconds, and permits bound what they get at once."""


class BatchSizes:
    """The latest batches by ledger and entry."""

    __slots__ = ("_sizes",)

    def __init__(self) -> None:
        self._sizes: dict[tuple[Any, Any], int] = NOTHING

    def delivered(self, message_id: dict[str, Any], size: int) -> None:
        """Remember a batch."""
        self._sizes = self._sizes or {}
        remember(self._sizes, (message_id.get("ledgerId"), message_id.get("entryId")), size, BATCHES_MAX)

    def acknowledged(self, fields: dict[str, Any]) -> dict[str, Any] | None:
        """Return the additional columns of an ACK: the sizes of its batches, if it acknowledges parts of any."""
        ids = fields.get("message_id") or ()
        if not any(message_id.get("ack_set") for message_id in ids):
            return None
        return {"batch_sizes": [one.get("batch_size") or self._sizes.get((one.get("ledgerId"), one.get("entryId"))) for one in ids]}
