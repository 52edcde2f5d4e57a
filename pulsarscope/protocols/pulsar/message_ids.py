"""Message ids in the forms that rules and tables compare."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pulsarscope.model.records import FrameRow
from pulsarscope.protocols.pulsar.ack_sets import left_of

Position = tuple[int, int]
"""(ledger, entry), which orders the entries of a topic."""


def position_of(message_id: Mapping[str, Any] | None) -> Position:
    """Return the position in a MessageIdData; (-1, -1) for None."""
    return (-1, -1) if message_id is None else (message_id.get("ledgerId", -1), message_id.get("entryId", -1))


def positions_of(message_ids: Iterable[Mapping[str, Any]] | None) -> list[Position]:
    """Return the positions of a repeated MessageIdData."""
    # As `position_of`, without a call for each: an ACK may name thousands.
    return [(message_id.get("ledgerId", -1), message_id.get("entryId", -1)) for message_id in message_ids or ()]


def entry_key(message_id: Any) -> str | None:
    """Return "ledger:entry" of a stored entry; None for the 0:0 of non-persistent topics and the -1:-1 of dropped duplicates."""
    if type(message_id) is not dict:
        return None
    ledger, entry = message_id.get("ledgerId", -1), message_id.get("entryId", -1)
    return f"{ledger}:{entry}" if ledger > 0 and entry >= 0 else None


def batch_size(row: FrameRow) -> int:
    """Return the number of messages in the entry of a MESSAGE, including acknowledged ones."""
    size: int = (row.metadata or {}).get("num_messages_in_batch", 1)
    return max(size, 1)


def permits_of(row: FrameRow) -> int:
    """Return the permits that a MESSAGE uses: one for each message of its entry that its ack_set does not mark as acknowledged."""
    messages, ack_set = batch_size(row), (row.fields or {}).get("ack_set")
    return left_of(ack_set, messages) if ack_set else messages


def indexes_of(bits: int, limit: int) -> list[int]:
    """Return the indexes of the lowest set bits, at most `limit`."""
    indexes: list[int] = []
    while bits and len(indexes) < limit:
        lowest = bits & -bits
        indexes.append(lowest.bit_length() - 1)
        bits ^= lowest
    return indexes
