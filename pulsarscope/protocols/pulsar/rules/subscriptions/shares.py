"""Facts on the deliveries to each consumer of a Shared or Key_Shared subscription, and on its time without permits."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, ClassVar

import msgspec

from pulsarscope.dissect.contract.rules import ColumnsHandlers, Handlers, RuleContext, Where, where_of
from pulsarscope.model.bounded_tables import NOTHING
from pulsarscope.model.flow import SERVER
from pulsarscope.model.records import FrameRow
from pulsarscope.protocols.pulsar.message_ids import Position, batch_size, permits_of, position_of, positions_of
from pulsarscope.protocols.pulsar.rules.evidence import SAMPLES_MAX, latest_gap, may_lack
from pulsarscope.protocols.pulsar.rules.subscriptions.consumers import BACKLOG, SHARED_TYPES, ConsumerRule, ConsumerState
from pulsarscope.protocols.pulsar.rules.subscriptions.spans import EXHAUSTED_MAX, SPANS
from pulsarscope.protocols.pulsar.text.formatting import host

SPANS_MAX, CONNECTION_SPANS_MAX = 1_000, 10_000
"""Most spans of one consumer, and of all consumers on a connection. Consumers that share a topic evenly get about every second entry."""

AGAIN_MAX = 10_000
"""Most redelivered entries of all consumers on a connection; they are needed to know what a consumer never got."""


class ConsumerShare(ConsumerState):
    """The deliveries to a consumer."""

    spans: list[tuple[int, int, int, Where]] = msgspec.field(default_factory=list)
    """Ledger, first and last entry, and the first delivery."""
    last: Position = (-1, -1)
    """Furthest entry that it got."""
    scattered: bool = False
    """True if its entries have more spans than are kept, or did not come in order."""
    sought: bool = False
    delivered: int = 0
    permits: int = 0
    able: Where | None = None
    """Its first FLOW."""
    exhausted: list[Position] = msgspec.field(default_factory=list)
    """The first entries that used up its permits."""
    lacking_since: int = 0
    """Time since which it has had no permits, in nanoseconds; 0 if it has some."""
    lacking_ns: int = 0
    """Total earlier time without permits."""
    acks: int = 0
    again: set[Position] = msgspec.field(default_factory=set)
    """Redelivered entries, which may be in no span."""
    disordered: bool = False
    """True if it got new entries after later ones, so that its spans are not in order, or too many entries were redelivered."""
    foreign: list[tuple[Position, Where]] = msgspec.field(default_factory=list)
    """Acknowledged entries that it had not got by then, each with its ACK."""


class ShareRule(ConsumerRule[ConsumerShare]):
    """The source of the facts on the shares of one connection's consumers."""

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context, ConsumerShare)
        self._kept = 0
        """Number of spans of all consumers."""
        self._again = 0
        """Number of redelivered entries of all consumers."""

    def opened(self, consumer: ConsumerShare) -> None:
        """Stop following a consumer of another type."""
        if consumer.kind not in SHARED_TYPES or not consumer.persistent:
            del self.consumers[consumer.number]

    def review(self, consumer: ConsumerShare, now: int, *, ending: bool) -> None:
        """Emit the deliveries to a consumer at its end."""
        if not ending:
            return
        self._kept -= len(consumer.spans)
        self._again -= len(consumer.again)
        if consumer.able is None or consumer.topic is None or not (consumer.ready or consumer.delivered):
            return
        lacking = consumer.lacking_ns + (now - consumer.lacking_since if consumer.lacking_since else 0)
        values = {
            **consumer.evidence,
            "title": consumer.title,
            "kind": consumer.kind,
            "spans": [[*span[:3], [*span[3]]] for span in consumer.spans],
            "ledger": consumer.last[0],
            "delivered": consumer.delivered,
            "permits": consumer.permits,
            "exhausted": consumer.exhausted,
            "lacking_ns": lacking,
            "acks": consumer.acks,
            "foreign": _foreign(consumer),
            "began": consumer.able.time,
            "life_ns": now - consumer.able.time,
            "closed": not self.open,
            "undecided": consumer.ready is None  # the packets are out of order
            or consumer.scattered
            or consumer.sought
            or may_lack(self.context, consumer.able.time, now, SERVER),
            "lost_at": latest_gap(self.context, now),
            "server": host(self.context.server),
        }
        self.context.emit_fact(BACKLOG, consumer.topic, consumer.able._replace(time=now), SPANS, values)

    def _flow(self, row: FrameRow) -> None:
        if (consumer := self.find(row)) is None:
            return
        consumer.able = consumer.able or where_of(row)
        consumer.permits += (row.fields or {}).get("messagePermits", 0)
        if consumer.lacking_since and consumer.permits > 0:
            consumer.lacking_ns += row.time - consumer.lacking_since
            consumer.lacking_since = 0

    def _message(self, row: FrameRow) -> None:
        if (consumer := self.find(row)) is None:
            return
        fields = row.fields or {}
        consumer.delivered += batch_size(row)
        consumer.permits -= permits_of(row)
        position = position_of(fields.get("message_id"))
        if row.metadata and "deliver_at_time" in row.metadata:
            consumer.scattered = True
        if consumer.permits <= 0 and not consumer.lacking_since:
            consumer.lacking_since = row.time
            if len(consumer.exhausted) < EXHAUSTED_MAX:
                consumer.exhausted.append(position)
        is_behind, is_again = position <= consumer.last, bool(fields.get("redelivery_count"))
        if is_behind and is_again and not consumer.disordered and position not in consumer.again:
            if self._again < AGAIN_MAX:
                self._again += 1
                consumer.again.add(position)
            else:
                consumer.disordered = True
        if not (is_behind and is_again):
            consumer.disordered |= is_behind
            consumer.last = max(position, consumer.last)
            self._extend(consumer, position, position[1], partial(where_of, row))

    def _ack(self, row: FrameRow) -> None:
        if (consumer := self.find(row)) is None:
            return
        _acknowledge(consumer, positions_of((row.fields or {}).get("message_id")), partial(where_of, row))

    def deliveries(self, frames: Any, handle: Callable[[int], None]) -> bool:
        """Extend the spans of consumers that get entries in order, and compare ACKs with them; see `ConnectionRule.columns`."""
        if self._kept + len(frames) > CONNECTION_SPANS_MAX:
            return False
        for group in frames.consumers:
            if (consumer := self.consumers.get(group.id)) is None:
                continue
            if not group.ascending or (group.positions and group.positions[0] <= consumer.last):
                for place in sorted([*group.places, *(ack[0] for ack in group.acks)]):
                    handle(place)
                continue
            at = acknowledged = 0
            for until, acks in group.turns:
                while at < until:
                    stop = _exhausting(consumer, group.messages, at, until)
                    if at < stop:
                        self._deliver(consumer, frames, group, at, stop)
                    if stop < until:
                        handle(group.places[stop])
                    at = min(stop + 1, until)
                for place, _, positions, _ in group.acks[acknowledged:acks]:
                    _acknowledge(consumer, positions, partial(frames.where_of, place))
                acknowledged = acks
        return True

    def _deliver(self, consumer: ConsumerShare, frames: Any, group: Any, start: int, stop: int) -> None:
        """Add deliveries of later entries that do not use up the permits."""
        total, positions = sum(group.messages[start:stop]), group.positions
        consumer.delivered += total
        consumer.permits -= total
        consumer.last = positions[stop - 1]
        begin = start
        for at in range(start + 1, stop + 1):
            ledger, entry = positions[at - 1]
            if at == stop or positions[at] != (ledger, entry + 1):
                self._extend(consumer, positions[begin], entry, partial(frames.where_of, group.places[begin]))
                begin = at

    def _extend(self, consumer: ConsumerShare, position: Position, until: int, where: Callable[[], Iterable[Any]]) -> None:
        """Add the entries from a position on; `where` makes the parts of the first one's place."""
        spans, (ledger, entry) = consumer.spans, position
        if spans and spans[-1][0] == ledger and spans[-1][2] + 1 == entry:
            spans[-1] = (*spans[-1][:2], until, *spans[-1][3:])
        elif consumer.scattered or len(spans) >= SPANS_MAX or self._kept >= CONNECTION_SPANS_MAX:
            consumer.scattered = True
            self._kept -= len(spans)
            spans.clear()
        else:
            self._kept += 1
            spans.append((ledger, entry, until, Where(*where())))

    def _seek(self, row: FrameRow) -> None:  # noqa: ARG002 - the contract's
        """Note that a client chose to skip messages, or no longer wants them."""
        for consumer in self.consumers.values():
            consumer.sought = True

    def batch(self, rows: Sequence[Any], handle: Callable[[int], None]) -> None:
        """Skip deliveries to other consumers; see `ConnectionRule.batch`."""
        for index, row in enumerate(rows):
            if row.command not in {"MESSAGE", "ACK"} or (row.fields or NOTHING).get("consumer_id") in self.consumers:
                handle(index)

    columns: ClassVar[ColumnsHandlers] = {"MESSAGE": deliveries}
    frames: ClassVar[Handlers] = {
        **ConsumerRule.frames,
        "FLOW": _flow,
        "MESSAGE": _message,
        "ACK": _ack,
        "SEEK": _seek,
        "UNSUBSCRIBE": _seek,
    }


def _exhausting(consumer: ConsumerShare, messages: Sequence[int], start: int, stop: int) -> int:
    """Return the index of the delivery, from `start` on, that uses up the permits of a consumer; `stop` if there is none."""
    if consumer.lacking_since:
        return stop
    permits = consumer.permits
    for at in range(start, stop):
        permits -= messages[at]
        if permits <= 0:
            return at
    return stop


def _acknowledge(consumer: ConsumerShare, positions: Sequence[Position], where: Callable[[], Iterable[Any]]) -> None:
    """Count an ACK, and note the entries that the consumer has not got; `where` makes the parts of its place."""
    consumer.acks += 1
    if consumer.scattered or consumer.disordered or len(consumer.foreign) >= SAMPLES_MAX:
        return
    latest = consumer.spans[-1] if consumer.spans else (-1, 0, 0, None)
    for position in positions:
        if position[0] == latest[0] and latest[1] <= position[1] <= latest[2]:
            continue
        if not _has(consumer, position) and len(consumer.foreign) < SAMPLES_MAX:
            consumer.foreign.append((position, Where(*where())))


def _has(consumer: ConsumerShare, position: Position) -> bool:
    """Return True when a consumer got an entry."""
    spans, (ledger, entry) = consumer.spans, position
    behind = len(spans) if spans and _begin(spans[-1]) <= position else bisect_right(spans, position, key=_begin)
    return (behind > 0 and spans[behind - 1][0] == ledger and entry <= spans[behind - 1][2]) or position in consumer.again


def _foreign(consumer: ConsumerShare) -> list[Any]:
    """Return the entries that a consumer acknowledged but never got, not even later."""
    if consumer.scattered or consumer.disordered:
        return []
    return [[position, [*where]] for position, where in consumer.foreign if not _has(consumer, position)]


def _begin(span: tuple[int, int, int, Where]) -> Position:
    return span[0], span[1]
