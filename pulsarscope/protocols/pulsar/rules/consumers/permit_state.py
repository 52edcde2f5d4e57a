"""The permits of a consumer, as shown by its frames."""

from __future__ import annotations

from typing import Any

import msgspec

from pulsarscope.dissect.contract.rules import RuleContext, Where, where_of
from pulsarscope.model.bounded_tables import NOTHING
from pulsarscope.model.flow import SERVER
from pulsarscope.model.records import FrameRow
from pulsarscope.model.text import plural
from pulsarscope.protocols.pulsar.message_ids import Position
from pulsarscope.protocols.pulsar.rules.evidence import may_lack
from pulsarscope.protocols.pulsar.rules.sends.ages import Ages
from pulsarscope.protocols.pulsar.rules.subscriptions.backlog import EMIT_NS
from pulsarscope.protocols.pulsar.rules.subscriptions.blocked import JOINED
from pulsarscope.protocols.pulsar.rules.subscriptions.consumers import BACKLOG, ConsumerState
from pulsarscope.protocols.pulsar.rules.subscriptions.lag import order_marks
from pulsarscope.protocols.pulsar.rules.subscriptions.late import Late

SLOW_LINK_NS_PER_BYTE = 125_000
"""Time of a byte on the slowest link (64 kbit/s): a large message that takes long may have been in transit all the time."""


ALONE = ("Exclusive", "Failover")
"""Subscription types where one consumer at a time gets all messages."""


class PermitState(ConsumerState):
    """The permits of a consumer."""

    granted: int = 0
    delivered: int = 0
    """Messages delivered."""
    permits: int = 0
    """Permits left."""
    queue: int = 0
    """Most permits that it ever had at once."""
    entry_permits: int = 0
    """Permits left if each entry is counted as a whole."""
    lowest: int = 0
    """Fewest permits ever left, when negative."""
    lowest_at: Where | None = None
    exhausted: Where | None = None
    """Delivery that used up the permits."""
    refilled: int = 0
    """Number of times that it got permits after it had none left."""
    lacking_ns: int = 0
    """Total time without permits before these."""
    rested_ns: int = 0
    """Time for which the broker rested although the consumer had permits, and the number of rests; see `note_rest`."""
    rests: int = 0
    active_at: int = 0
    """Time of its latest ACK, FLOW or request for redelivery, in nanoseconds."""
    pending: int = 0
    """Time of the first delivery since then, in nanoseconds; 0 if there is none."""
    turn: int = 0
    """Longest time from such a first delivery to the next action, or without permits, in nanoseconds."""
    last_service: Where | None = None
    """Latest delivery, or a later FLOW that ended a lack of permits."""
    last: Position | None = None
    """Furthest entry delivered."""
    last_at: Where | None = None
    emitted: Position | None = None
    """Furthest entry in the latest fact."""
    reported_at: int = -1
    """Time of the delivery in the latest fact, in nanoseconds."""
    waited: int = 0
    """Wait in the latest fact, in nanoseconds."""
    active: bool = True
    """False for the standby consumers of a failover subscription."""
    activated_at: int = 0
    """Time of the latest notice that it is active or standby, 0 if there was none."""
    singles: int = 0
    """Number of FLOWs of one permit."""
    single: Where | None = None
    """The first of these FLOWs."""
    latest: bool = False
    """True if a new subscription begins at the latest message."""
    start: Position | None = None
    """Message at which a reader starts."""
    first: Position | None = None
    promised: Position = (-1, -1)
    """Last message of the topic according to GET_LAST_MESSAGE_ID."""
    promised_at: Where | None = None
    able: int = 0
    """Time of the FLOW since which it has had permits, in nanoseconds."""
    notified: bool = False
    """True when it was notified that it is active or standby."""
    switched: bool = False
    """True if it has got nothing since then."""
    ordered_from: Position | None = None
    """First entry since it became active, from which on the others come in order."""
    rewound: bool = False
    """True if its client has asked for entries again."""
    marks: dict[str, Any] = NOTHING
    """What the metadata of the furthest message tells about its order; see `order_marks`."""
    reported: bool = False
    ages: Ages = msgspec.field(default_factory=Ages)
    """Ages of the messages that it got since it was last without permits."""

    @property
    def rest_values(self) -> dict[str, Any]:
        """Values of a fact about how long the broker rested."""
        return {"kind": self.kind, "title": self.title, "rested_ns": self.rested_ns, "rests": self.rests}

    def counted_from(self, served: int) -> int:
        """Return the time from which on all messages must be known if it has permits for sure; `served`: its latest delivery.

        Clients grant permits once half of them are used: one with fewer may have none if the capture lacks messages.
        """
        return served if 2 * self.permits >= self.queue else self.seen

    def act(self, now: int) -> None:
        """Note that its client did something."""
        if self.pending:
            self.turn = max(self.turn, now - self.pending)
            self.pending = 0
        self.active_at = now


def note_rest(context: RuleContext, consumer: PermitState, row: FrameRow) -> None:
    """Note the time before this delivery in which neither a consumer with permits nor its broker did anything.

    A delivery after an ACK may have waited for the ACK, because the broker limits unacknowledged messages.
    """
    since = consumer.last_service
    if since is None or consumer.permits <= 0 or consumer.compacted or not consumer.active:
        return
    rest, shortest = row.time - max(since.time, consumer.active_at), context.thresholds.ns("dispatch-limited-rest-seconds")
    if rest >= max(shortest, SLOW_LINK_NS_PER_BYTE * row.size) and not may_lack(context, since.time, row.time, SERVER):
        consumer.rested_ns += rest
        consumer.ages.rested += rest
        consumer.rests += 1


def report_excess(context: RuleContext, consumer: PermitState) -> None:
    """Report messages beyond the permits; FLOWs may be among missing bytes."""
    if consumer.lowest_at is None or context.lost:
        return
    excess = plural(-consumer.lowest, "message")
    text = f"{consumer.title} was sent {excess} more than it had permits for ({consumer.granted:,} granted in all)."
    evidence = {"frames": [consumer.lowest_at.name], **consumer.evidence, "permits": consumer.lowest, "granted": consumer.granted}
    context.report("permits-negative", consumer.lowest_at, text, evidence)


def emit_joined(context: RuleContext, consumer: PermitState, now: int, *, closed: bool) -> None:
    """Emit that a consumer of a Key_Shared subscription got nothing although it has permits."""
    if consumer.kind != "Key_Shared" or consumer.ready is None or consumer.topic is None or context.lost:
        return
    if consumer.delivered == 0 < consumer.permits:
        since = max(consumer.ready.time, consumer.able)
        values = {**consumer.evidence, "title": consumer.title, "since": since, "closed": closed}
        context.emit_fact(BACKLOG, consumer.topic, consumer.ready._replace(time=now), JOINED, values)


def count_turns(consumer: PermitState | None, frames: Any, group: Any, at: int, turn: int, shortest_ns: int) -> tuple[int, int] | None:
    """Count plain deliveries to a consumer, from the one at index `at` of a turn on, and note ACKs, up to the next special delivery.

    Returns the index of that delivery and its turn, None if there is none. `group`, `shortest_ns`: as for `next_special`.
    """
    for number in range(turn, len(group.turns)):
        until, acks = group.turns[number]
        if at < until:
            stop = at if consumer is None else next_special(consumer, group, at, until, shortest_ns)
            if consumer is not None and at < stop:
                count_plain(consumer, frames, group, at, stop)
            if stop < until:
                return stop, number
        at, first = until, group.turns[number - 1][1] if number else 0
        if consumer is not None and first < acks:
            consumer.act(group.acks[first][1])
            consumer.act(group.acks[acks - 1][1])
    return None


def next_special(consumer: PermitState, group: Any, start: int, stop: int, shortest_ns: int) -> int:
    """Return the index of the next delivery, of those from `start` to `stop`, that does more than use permits; `stop` if there is none.

    `group` has the form of `deliveries.Delivered`; `shortest_ns`: shortest rest that counts.
    """
    if start == 0:
        return 0
    times, positions, messages = group.times, group.positions, group.messages
    permits, before, due = consumer.permits, times[start - 1], consumer.reported_at + EMIT_NS
    is_alone, expected = consumer.kind in ALONE, consumer.last or (-1, -1)
    for at in range(start, stop):
        now = times[at]
        permits -= messages[at]
        expected = expected[0], expected[1] + 1
        if permits <= 0 or now >= due or now - before >= shortest_ns or (is_alone and positions[at] != expected):
            return at
        before = now
    return stop


def count_plain(consumer: PermitState, frames: Any, group: Any, start: int, stop: int) -> None:
    """Count deliveries, none of which is special."""
    total, positions = sum(group.messages[start:stop]), group.positions
    consumer.delivered += total
    consumer.permits -= total
    consumer.entry_permits -= total
    consumer.waited = 0
    consumer.last_service = Where(*frames.where_of(group.places[stop - 1]))
    consumer.pending = consumer.pending or next(filter(None, group.times[start:stop]), 0)
    for at in consumer.ages.due(stop - start):
        (row, *_), _ = frames.row(group.places[start + at])
        consumer.ages.note(row)
    furthest = stop - 1 if group.ascending else max(range(start, stop), key=positions.__getitem__)
    if consumer.last is None or positions[furthest] > consumer.last:
        (row, *_), _ = frames.row(group.places[furthest])
        consumer.last, consumer.last_at, consumer.marks = positions[furthest], where_of(row), order_marks(row.metadata)


def late_of(context: RuleContext, consumer: PermitState) -> Late | None:
    """Return the consumer if its messages came later and later although it had permits and its broker did not rest meanwhile."""
    grown = consumer.ages.growth(context.thresholds)
    if grown is None or consumer.topic is None or not consumer.active or consumer.compacted:
        return None
    first, last = grown
    is_held_back = last.rested - first.rested >= context.thresholds["dispatch-limited-share"] * (last.where.time - first.where.time)
    if is_held_back or may_lack(context, first.where.time, last.where.time, SERVER):
        return None
    return Late(consumer.title, consumer.topic, consumer.evidence, first, last, consumer.ages.count, consumer.ages.stored)
