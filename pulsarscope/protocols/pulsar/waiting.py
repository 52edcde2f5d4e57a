"""Delivered entries that wait for their acknowledgment."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from pulsarscope.model.bounded_tables import remember
from pulsarscope.protocols.pulsar.message_ids import Position, position_of

_SETTLED_MAX = 100
"""Settled positions that stay in the order until it is rebuilt."""

EARLY_MAX = 1_000
"""Most ACKs of one consumer that wait for their messages."""

LATE_NS = 100_000_000
"""Time by which one direction of a capture may lag behind the other, as where two hosts with clocks of their own captured one each. An
acknowledged message is only redelivered when its consumer has subscribed anew."""

_NEVER = -(1 << 62)

Entry = TypeVar("Entry")

Place = tuple[int, int]
"""File and packet, which increase even if a clock is set back."""

NOWHERE: Place = (-1, 0)


class Waiting(Generic[Entry]):
    """Entries by position."""

    def __init__(self) -> None:
        self.entries: dict[Position, Entry] = {}
        self._order: list[Position] = []
        """Positions of `entries`, ascending, with some that are settled."""

    def add(self, position: Position, entry: Entry) -> None:
        """Add a waiting entry."""
        self.entries[position] = entry
        if len(self._order) > 2 * len(self.entries) + _SETTLED_MAX:
            self._order = sorted(self.entries)
        else:
            insort(self._order, position)

    def take_order_before(self, position: Position) -> list[Position]:
        """Remove and return the positions before one. Each is examined once, however many cumulative acknowledgments come."""
        count = bisect_left(self._order, position)
        earlier = self._order[:count]
        del self._order[:count]
        return earlier

    def settle(self, ack: Mapping[str, Any]) -> Iterator[tuple[Position, Entry]]:
        """Remove and yield the entries that the fields of an ACK settle: whole entries, and all before a cumulative ACK."""
        for message_id in ack.get("message_id") or ():
            if type(message_id) is not dict or not is_stored(position := position_of(message_id)):
                continue
            settled = [] if message_id.get("ack_set") else [position]
            if ack.get("ack_type") == "Cumulative":
                settled += self.take_order_before(position)
            for each in settled:
                if (entry := self.entries.pop(each, None)) is not None:
                    yield each, entry


class EarlyAcks(msgspec.Struct):
    """ACKs of messages that a consumer does not hold. Messages after lost bytes are read later than their ACKs.

    So are messages that were captured later, because a tap may delay one direction.
    """

    acks: dict[Position, tuple[Place, int, list[int] | None]] = msgspec.field(default_factory=dict)
    """Place, time in nanoseconds and ack_set by position."""
    kept_at: int = _NEVER
    """Time of the latest kept ACK."""
    cumulative: tuple[Place, Position] = NOWHERE, (-1, -1)
    """Place and position of the latest cumulative ACK."""
    latest: Place = NOWHERE
    """Place of the latest ACK of any message."""

    def add(self, position: Position, place: Place, time: int, ack_set: list[int] | None) -> None:
        """Keep an ACK."""
        remember(self.acks, position, (place, time, ack_set), EARLY_MAX)
        self.kept_at = time

    def may_have(self, place: Place, time: int) -> bool:
        """Return True if the ACK of a message at this place and time may have been read before the message."""
        return place <= self.latest or time - self.kept_at <= LATE_NS

    def of(self, position: Position, place: Place, time: int) -> tuple[bool, list[int] | None]:
        """Return whether a message at this place and time is acknowledged, and what its ACK leaves of a batch."""
        acked, acked_at, ack_set = self.acks.pop(position, (NOWHERE, _NEVER, None))
        if acked >= place or time - acked_at <= LATE_NS:
            return True, ack_set
        until, furthest = self.cumulative
        return until >= place and position < furthest, None


def is_stored(position: Position) -> bool:
    """Return True for the position of a stored entry, unlike the 0:0 and -1:-1 of messages of non-persistent topics."""
    return position > (0, 0)
