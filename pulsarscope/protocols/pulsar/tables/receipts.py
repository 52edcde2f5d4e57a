"""Receipts, for the tables of the storage that holds the entries."""

from __future__ import annotations

from pulsarscope.model.records import FrameRow
from pulsarscope.protocols.pulsar.message_ids import position_of


def read_receipt(row: FrameRow) -> tuple[int, int] | None:
    """Return the ledger and entry in a SEND_RECEIPT; None for other frames, topics without storage, and dropped duplicates."""
    if row.command != "SEND_RECEIPT":
        return None
    ledger, entry = position_of((row.fields or {}).get("message_id"))
    return (ledger, entry) if ledger > 0 and entry >= 0 else None
