"""Entries larger than the broker takes."""

from __future__ import annotations

from typing import ClassVar

from pulsarscope.dissect.rules import ConnectionRule, Handlers, RuleContext, Where, where_of
from pulsarscope.model.findings import ERROR, Code, table
from pulsarscope.model.records import ConnectionRow, FrameRow
from pulsarscope.protocols.pulsar.rules.phrases import count, frames, some

CODES = table(
    Code(
        "message-too-large",
        ERROR,
        "session",
        "A SEND is larger than the broker's maxMessageSize.",
        "The broker refuses it or closes the connection: use chunking or compression, or raise maxMessageSize on all brokers.",
    ),
)

PLACES_MAX = 10
"""Such SENDs of one connection that are told by name."""


class Sizes(ConnectionRule):
    """See `pulsarscope.dissect.rules.ConnectionRule`."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._limit: int | None = None
        """CONNECTED.max_message_size in bytes."""
        self._places: list[Where] = []
        self._count = self._largest = 0
        self._names: dict[str, None] = {}

    def _connected(self, row: FrameRow) -> None:
        announced = (row.fields or {}).get("max_message_size")
        self._limit = announced if isinstance(announced, int) and announced > 0 else None

    def _send(self, row: FrameRow) -> None:
        size = row.payload_size or 0
        if self._limit is None or size <= self._limit:
            return
        self._count += 1
        self._largest = max(self._largest, size)
        if len(self._places) < PLACES_MAX:
            self._places.append(where_of(row))
            self._names[f"{row.producer_name or 'an unnamed producer'} to {row.topic or 'an unknown topic'}"] = None

    def end(self, row: ConnectionRow, last: Where) -> None:  # noqa: ARG002 - the contract's
        """See `ConnectionRule`."""
        if self._places:
            text = (
                f"{count(self._count, 'SEND')} of {self._context.client} ({some([*self._names])}) with up to {self._largest:,} bytes "
                f"of payload: the broker allows {self._limit:,}."
            )
            evidence = {
                "frames": frames(where.name for where in self._places),
                "count": self._count,
                "largest": self._largest,
                "max_message_size": self._limit,
            }
            self._context.report("message-too-large", self._places[0], text, evidence)

    frames: ClassVar[Handlers] = {"CONNECTED": _connected, "SEND": _send}
