"""Entries that a consumer holds: it got them and has not acknowledged them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from pulsarscope.dissect.contract.rules import Where
from pulsarscope.model.bounded_tables import remember
from pulsarscope.model.records import FrameRow
from pulsarscope.protocols.pulsar.message_ids import Position, batch_size, positions_of
from pulsarscope.protocols.pulsar.rules.consumers.again import Received
from pulsarscope.protocols.pulsar.rules.consumers.behind import Pace
from pulsarscope.protocols.pulsar.rules.consumers.deliveries import Acknowledged
from pulsarscope.protocols.pulsar.rules.consumers.order import Doubles
from pulsarscope.protocols.pulsar.rules.consumers.pauses import Turns
from pulsarscope.protocols.pulsar.rules.subscriptions.consumers import REVIEW_NS, SHARED_TYPES, ConsumerState
from pulsarscope.protocols.pulsar.rules.subscriptions.stuck import is_collecting
from pulsarscope.protocols.pulsar.rules.subscriptions.subscription_limit import EMIT_STEP
from pulsarscope.protocols.pulsar.rules.subscriptions.unknown_acks import IdleAcks, UnknownAcks
from pulsarscope.protocols.pulsar.waiting import EarlyAcks

SPANS_MAX = 1_000
"""Number of latest chunked messages followed for a consumer."""


def acknowledgeable(row: FrameRow, indexes: int | None) -> int:
    """Return the number of messages in the entry of a MESSAGE that a consumer may acknowledge; `indexes`: bitmap of those that remain.

    All chunks of a message count with the last of them: before that, the application does not get it.
    """
    if indexes is not None:
        return indexes.bit_count()
    metadata = row.metadata or {}
    if (chunks := metadata.get("num_chunks_from_msg", 1)) > 1:
        return chunks if metadata.get("chunk_id", 0) == chunks - 1 else 0
    return batch_size(row)


class UnackedEntry(msgspec.Struct):
    """An entry that a consumer has not acknowledged."""

    where: Where
    number: int
    """Number of the delivery to this consumer, from 1."""
    messages: int
    """Unacknowledged messages."""
    indexes: int | None = None
    """Bitmap of their batch indexes, None for all; its size on the wire bounds it."""
    uuid: str | None = None
    """Uuid of the chunked message to which it belongs."""
    done: int = 0
    """Number of its messages that this consumer acknowledged."""


class ChunkSpans(msgspec.Struct):
    """The chunked messages that a consumer got."""

    interrupted: dict[str, bool] = msgspec.field(default_factory=dict)
    """By uuid: True if a chunk of another message came between its chunks."""
    latest: str | None = None
    """Uuid of the latest chunk."""

    def add(self, metadata: Mapping[str, Any] | None) -> str | None:
        """Add the chunk in an entry, and return the uuid of its message; None for an entry without a chunk."""
        uuid: str | None = metadata.get("uuid") if metadata and metadata.get("num_chunks_from_msg", 1) > 1 else None
        if uuid is None:
            return None
        known = self.interrupted.get(uuid)
        if not known:
            remember(self.interrupted, uuid, known is not None and self.latest != uuid, SPANS_MAX)
        self.latest = uuid
        return uuid


class UnackedState(ConsumerState):
    """A consumer and its unacknowledged entries."""

    entries: dict[Position, UnackedEntry] = msgspec.field(default_factory=dict)
    """Entries by position, in the order of their latest delivery."""
    taken: int = 0
    """Number of entries removed from this dict: the more there are, the longer it takes to find the first remaining one."""
    deliveries: int = 0
    messages: int = 0
    """Unacknowledged messages."""
    done: int = 0
    """Acknowledged messages of entries that it still holds."""
    doubles: Doubles | None = None
    acknowledged_at: int = 0
    """Time of its latest ACK in nanoseconds; 0 when there was none."""
    acks: int = 0
    first_ack: Where | None = None
    turns: Turns = msgspec.field(default_factory=Turns)
    pace: Pace = msgspec.field(default_factory=Pace)
    untracked: int = 0
    """Number of deliveries that are neither in `entries` nor acknowledged: returned by the client, or beyond the bound."""
    emitted: int = 0
    """Unacknowledged messages in its latest fact."""
    unknown: UnknownAcks | None = None
    """Entries that it acknowledged but had not got; None until it gets something."""
    received: Received = msgspec.field(default_factory=Received)
    idle: IdleAcks = msgspec.field(default_factory=IdleAcks)
    early: EarlyAcks = msgspec.field(default_factory=EarlyAcks)
    chunks: ChunkSpans = msgspec.field(default_factory=ChunkSpans)
    furthest: int = 0
    """Highest number of a delivery that it has acknowledged."""
    flowed_at: int = 0
    """Time of its latest FLOW in nanoseconds."""
    longest_held: int = 0
    """Longest time from a delivery to its ACK, in nanoseconds."""
    longest_returned: int = 0
    """Longest time from a delivery to a REDELIVER_UNACKNOWLEDGED_MESSAGES that names it, in nanoseconds."""
    most_held: int = 0
    """Most unacknowledged messages at an ACK."""
    reported: bool = False
    hole_reported: bool = False
    behind: bool = False
    """True if reported as slower than its messages arrive."""
    asks_last: bool = False
    """True if it requested the last message id, as readers do."""
    is_encrypted: bool = False
    """True if its first message is end-to-end encrypted."""

    def returned(self, row: FrameRow) -> list[Position]:
        """Return the entries that a REDELIVER_UNACKNOWLEDGED_MESSAGES returns: those that it names, or all."""
        named = positions_of((row.fields or {}).get("message_ids"))
        held = [row.time - self.entries[position].where.time for position in named if position in self.entries]
        self.longest_returned = max(self.longest_returned, *held, 0)
        return named or [*self.entries]

    def next_emitted(self, messages: Sequence[int], start: int, stop: int, limit: float) -> int:
        """Return the index of the first delivery, from `start` on, after which the number of held messages is a fact; `stop` if none.

        `messages`: those of each delivery; `limit`: see the threshold consumer-not-acking-limit.
        """
        if self.kind in SHARED_TYPES:
            held = self.messages
            for at in range(start, stop):
                held += messages[at]
                if held >= limit or abs(held - self.emitted) >= EMIT_STEP:
                    return at
        return stop

    def hold(self, group: Any, wheres: Iterable[tuple[Any, ...]], start: int, stop: int) -> None:
        """Hold some deliveries of a group, with ascending positions after all earlier ones; `wheres`: their places.

        `group` has the form of `deliveries.Delivered`, as the compiled reader has its own.
        """
        positions, messages = group.positions[start:stop], group.messages[start:stop]
        self.received.extend(positions[0], positions[-1], len(positions))
        if self.unknown is not None:
            self.unknown.extent.extend(positions[0], positions[-1])
        total, number, entries = sum(messages), self.deliveries, self.entries
        self.pace.add(total, group.published[stop - 1], group.times[start], is_first=not entries)
        for position, held, where in zip(positions, messages, wheres, strict=True):
            number += 1
            entries[position] = UnackedEntry(tuple.__new__(Where, where), number, held)
        self.deliveries = number
        self.messages += total

    def acknowledge(self, acks: Sequence[Acknowledged], start: int, stop: int, due: int, settling_ns: int) -> int:
        """Acknowledge entries as a whole; return the index of the first of these ACKs, from `start` to `stop`, that does more than that.

        `due`: time of the next comparison with other consumers; `settling_ns`: see `Received.note`.
        """
        entries, taken, messages, most_held, before = self.entries, self.taken, self.messages, self.most_held, self.acknowledged_at
        number, step, second, is_shared = self.acks, self.pace.step, self.turns.second, self.kind in SHARED_TYPES
        due = min(due, self.received.noted_at + settling_ns)
        furthest, longest_held = self.furthest, self.longest_held
        for at in range(start, stop):
            _, time, positions, _ = acks[at]
            held, left = [], messages
            for position in positions:
                entry = entries.get(position)
                if entry is not None and entry.indexes is None:
                    held.append(entry)
                    left -= entry.messages
            if len(held) < len(positions) or time >= due or not (number := number + 1) % step:
                break
            turn = time - max(next(iter(entries.values())).where.time, before)
            if turn > second or (is_shared and (abs(left - self.emitted) >= EMIT_STEP or left == 0 < self.emitted)):
                break
            most_held = messages if messages > most_held else most_held  # noqa: FURB136 - calls of max would cost more than all else
            for entry, position in zip(held, positions, strict=True):
                furthest = entry.number if entry.number > furthest else furthest  # noqa: FURB136
                longest_held = waited if (waited := time - entry.where.time) > longest_held else longest_held
                del entries[position]
            taken += len(held)
            if taken > len(entries):
                entries, taken = dict(entries), 0
            messages, before = left, time
        else:
            at = stop
        if start < at:
            self.entries, self.taken, self.messages, self.most_held = entries, taken, messages, most_held
            self.furthest, self.longest_held = furthest, longest_held
            self.acks, self.acknowledged_at, self.early.latest = self.acks + at - start, before, acks[at - 1][3][:2]
        return at

    @property
    def held_values(self) -> dict[str, Any]:
        """Values of a fact about the entries that it holds, of which there must be at least one."""
        position, oldest = next(iter(self.entries.items()))
        return {
            **self.evidence,
            "title": self.title,
            "unacknowledged": self.messages,
            "oldest": position,
            "since": oldest.where.time,
            "middle": self.middle,
            "begun": None if self.connection else self.seen,
            "taken_at": self.flowed_at,
            **self.pace.while_busy(self.messages),
            "active_at": self.acknowledged_at,
            "turn": self.turns.longest,
            "acks": self.acks,
            "most_held": self.most_held,
            "is_older": self.connection is not None,
            "reported": self.reported,
            "behind": self.behind,
            "is_encrypted": self.is_encrypted,
        }

    @property
    def middle(self) -> int:
        """Time by which half of the entries that it holds had come, of which there must be at least one."""
        return next(islice(self.entries.values(), len(self.entries) // 2, None)).where.time

    def silence_limit(self, now: int, *, ending: bool, is_open: bool) -> str:
        """Return the name of the limit of the time without an ACK."""
        if not ending or self.acknowledged_at:
            return "consumer-not-acking-seconds"
        collects = is_open and self.closed_by is None and is_collecting(next(iter(self.entries.values())).where.time, self.middle, now)
        return "consumer-not-acking-collecting-seconds" if collects else "consumer-not-acking-closed-seconds"

    @property
    def may_read(self) -> bool:
        """True when it may be a reader from before the capture, some of which acknowledge nothing."""
        return self.asks_last and not self.acks and self.connection is not None

    @property
    def later(self) -> int:
        """Number of entries, and messages of entries that it still holds, that it acknowledged after the oldest entry that it holds."""
        oldest = next(iter(self.entries.values()))
        return self.deliveries - oldest.number - (len(self.entries) - 1) - self.untracked + self.done - oldest.done


def forget_unknown(closed: Iterable[tuple[UnackedState, int]], number: int, position: Position) -> None:
    """Forget that closed consumers with this id acknowledged an entry that they had not got: it was captured later."""
    for consumer, _ in closed:
        if consumer.number == number:
            unknown = consumer.unknown or consumer.idle
            unknown.acks = [ack for ack in unknown.acks if ack[1] != position]


def compare_next(consumers: Mapping[int, UnackedState], groups: Sequence[Any], latest: int) -> int | None:
    """Return the time of the latest comparison of consumers after the ACKs of these groups, as in `hold`; `latest`: before them.

    None: it may find a consumer that acknowledges nothing, which depends on the order of the frames of several consumers.
    """
    before, numbers = latest, {group.id for group in groups}
    for _, time in sorted((place, time) for group in groups for place, time, *_ in group.acks):
        if time - latest >= REVIEW_NS:
            latest = time
    if latest == before or len(numbers) < 2:
        return latest
    silent = (number for number, consumer in consumers.items() if not (consumer.acks or consumer.reported) and consumer.persistent)
    decides = not numbers <= consumers.keys() or any(number in numbers or consumers[number].entries for number in silent)
    return None if decides else latest
