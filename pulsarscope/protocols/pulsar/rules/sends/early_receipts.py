"""Receipts that are read before their SENDs, which came after lost bytes or were captured later."""

from __future__ import annotations

import msgspec

from pulsarscope.model.bounded_tables import remember
from pulsarscope.model.records import ExchangeRow, FrameRow

_KEYS_MAX = 1_000
"""Keys of a connection whose latest early receipts are remembered."""


class EarlyReceipts(msgspec.Struct):
    """The early receipts of one connection."""

    by_key: dict[str, tuple[int, int]] = {}
    """By producer_id:sequence_id, the time of the latest receipt, ns, and their number: the chunks of a message share a sequence id."""

    def add(self, row: FrameRow) -> None:
        """Add a receipt without a SEND."""
        fields = row.fields or {}
        key = f"{fields.get('producer_id', -1)}:{fields.get('sequence_id', -1)}"
        _, number = self.by_key.get(key, (0, 0))
        remember(self.by_key, key, (row.time, number + 1), _KEYS_MAX)

    def answers(self, row: ExchangeRow, within_ns: int) -> bool:
        """Return True when one of them answers a SEND captured less than `within_ns` before or after it; each answers one SEND."""
        key = row.key or ""
        time, number = self.by_key.pop(key, (0, 0))
        if number > 1:
            self.by_key[key] = time, number - 1
        return number > 0 and abs(row.time - time) < within_ns
