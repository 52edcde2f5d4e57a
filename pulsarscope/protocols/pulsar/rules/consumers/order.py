"""The order of the entries that a consumer gets: entries left out, come late, or come again.

Brokers send those of an Exclusive or Failover consumer in the order of storage, and any again only when the client asks for it, seeks, or
aborts a transaction.
"""

from __future__ import annotations

from typing import Any

import msgspec

from pulsarscope.dissect.contract.rules import RuleContext, Where, where_of
from pulsarscope.model.bounded_tables import NOTHING, remember
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.flow import SERVER
from pulsarscope.model.records import FrameRow
from pulsarscope.protocols.pulsar.message_ids import Position
from pulsarscope.protocols.pulsar.rules.consumers.permit_state import ALONE, PermitState
from pulsarscope.protocols.pulsar.rules.evidence import SAMPLES_MAX, frame_names, may_lack
from pulsarscope.protocols.pulsar.rules.subscriptions.consumers import BACKLOG, CONSUMERS_MAX, SHARED_TYPES, ConsumerState
from pulsarscope.protocols.pulsar.rules.subscriptions.lag import SKIPPED, are_of_one_producer, order_marks

CODES = table(
    SESSION.warning(
        "delivered-out-of-order",
        "A consumer got entries twice, or an Exclusive or Failover one after later ones, although its client had not asked for them again.",
        "An application processes them twice, or wrongly if it relies on the order of the topic: look at the broker's version and log, and "
        "at proxies between broker and client.",
        ("messages-skipped",),
        to_act="the broker's operators",
    ),
)

HOLES_MAX = 100
"""Most facts on entries that the consumers of one connection skipped."""


class Omission(msgspec.Struct):
    """Entries between two deliveries of one ledger."""

    before: Position
    after: Position
    since: int
    """Time of the first of these deliveries."""
    where: Where
    """Place of the second one."""
    values: dict[str, Any]

    @property
    def size(self) -> int:
        """Number of entries."""
        return self.after[1] - self.before[1] - 1

    def until(self, position: Position) -> Omission:
        """Return the part before an entry."""
        return msgspec.structs.replace(self, after=position, values=self.values | {"after": position})

    def behind(self, position: Position) -> Omission:
        """Return the part behind an entry."""
        return msgspec.structs.replace(self, before=position, values=self.values | {"before": position})


class Disorder(msgspec.Struct):
    """What came late, or again, to a consumer."""

    title: str
    evidence: dict[str, Any]
    begun: int
    """Time from which on the client's frames matter."""
    first: Position
    latest: Position
    """Latest entry before the first one."""
    first_is_late: bool
    """False if it had come before."""
    where: Where
    frames: list[str]
    late: int = 0
    again: int = 0


class DeliveryOrder:
    """The order of the deliveries on one connection."""

    def __init__(self, context: RuleContext) -> None:
        """Begin without any deliveries."""
        self._context = context
        self._holes: dict[int, list[Omission]] = NOTHING
        """By consumer id."""
        self._count = 0
        self.has_transactions = False
        """True for a client with transactions: when one ends that it began on an earlier connection, entries may come again."""
        self._disorders: dict[int, Disorder] = NOTHING

    def add(self, consumer: PermitState, position: Position, row: FrameRow) -> None:
        """Compare a delivery with the ones before it."""
        if consumer.kind not in ALONE or consumer.compacted or consumer.topic is None:
            return
        last, last_at = consumer.last, consumer.last_at
        if consumer.switched or last is None or last_at is None:
            consumer.ordered_from = position if last is None or position > last else None  # else it gets entries again, up to the last
        elif position > last:
            consumer.ordered_from = consumer.ordered_from or position
            if position[0] == last[0] and position[1] > last[1] + 1 and self._count < HOLES_MAX:
                self._add_hole(consumer, last, last_at, position, row)
        else:
            is_ordered, hole = self._is_ordered(consumer, position), self._fill(consumer, position)
            if is_ordered:
                self._add_disorder(consumer, last, position, row, hole)

    def _is_ordered(self, consumer: PermitState, position: Position) -> bool:
        """Return True if a consumer must not get an entry that is not behind the latest one."""
        is_after = consumer.ordered_from is not None and consumer.ordered_from <= position
        is_ordered = consumer.notified or consumer.kind == "Exclusive"  # brokers do not tell old clients that they were on standby
        return is_ordered and is_after and not consumer.rewound and consumer.persistent and self._count < HOLES_MAX

    def _fill(self, consumer: PermitState, position: Position) -> Omission | None:
        """Return the hole to which an entry belongs that a consumer gets after all, and keep what remains of it."""
        holes = self._holes.get(consumer.number, [])
        hole = next((hole for hole in reversed(holes) if hole.before < position < hole.after), None)
        if hole is not None:
            holes.remove(hole)
            parts = [part for part in (hole.until(position), hole.behind(position)) if part.size]
            if len(parts) < 2 or self._count < HOLES_MAX:
                self._count += len(parts) == 2
                holes += parts
        return hole

    def _add_hole(self, consumer: PermitState, last: Position, last_at: Where, position: Position, row: FrameRow) -> None:
        sent = are_of_one_producer(consumer.marks, order_marks(row.metadata), position[1] - last[1])
        where = where_of(row)
        values = {**consumer.evidence, "title": consumer.title, "before": last, "after": position, "frame": last_at.name}
        hole = Omission(last, position, last_at.time, where, values | {"sent": sent, "time": row.time})
        self._holes = self._holes or {}
        self._holes.setdefault(consumer.number, []).append(hole)
        self._count += 1

    def _add_disorder(self, consumer: PermitState, last: Position, position: Position, row: FrameRow, hole: Omission | None) -> None:
        self._disorders = self._disorders or {}
        if (disorder := self._disorders.get(consumer.number)) is None:
            where = where_of(row)
            latest, frames = (last, []) if hole is None else (hole.after, [hole.where.name])
            begun = (consumer.ready or where).time
            disorder = Disorder(consumer.title, consumer.evidence, begun, position, latest, hole is not None, where, [*frames, where.name])
            remember(self._disorders, consumer.number, disorder, CONSUMERS_MAX)
        elif len(disorder.frames) < SAMPLES_MAX:
            disorder.frames.append(where_of(row).name)
        if hole is not None:
            disorder.late += 1
        else:
            disorder.again += 1

    def end(self, now: int) -> None:
        """Emit the entries that were skipped, and report what came in another order, unless bytes are missing: known only at the end."""
        for holes in self._holes.values():
            for hole in holes:
                if not may_lack(self._context, hole.since, now, SERVER):
                    self._context.emit_fact(BACKLOG, hole.values["topic"], hole.where._replace(time=now), SKIPPED, hole.values)
        for disorder in () if self.has_transactions else self._disorders.values():
            if not (may_lack(self._context, disorder.begun, now, SERVER) or may_lack(self._context, disorder.begun, now)):
                self._report(disorder)

    def _report(self, disorder: Disorder) -> None:
        (ledger, entry), (last_ledger, last) = disorder.first, disorder.latest
        course = f"after {last_ledger}:{last}" if disorder.first_is_late else "again"
        counts = [f"{disorder.late:,} came late"] if disorder.late else []
        counts += [f"{disorder.again:,} came again"] if disorder.again else []
        text = f"{disorder.title} got {ledger}:{entry} {course}, though its client had not asked for it; in all, {' and '.join(counts)}"
        evidence = {
            "frames": frame_names(disorder.frames),
            **disorder.evidence,
            "message_id": [ledger, entry],
            "after": [last_ledger, last],
            "late": disorder.late,
            "again": disorder.again,
        }
        self._context.report("delivered-out-of-order", disorder.where, f"{text}.", evidence)


class Doubles(msgspec.Struct):
    """The entries that a Shared or Key_Shared consumer got again while it held them."""

    first: Position
    where: Where
    frames: list[str]
    count: int = 0

    def report(self, context: RuleContext, consumer: ConsumerState, now: int) -> None:
        """Report them, unless the client's requests, or those copies, may be among missing bytes."""
        begun = (consumer.ready or self.where).time
        if may_lack(context, begun, now, SERVER) or may_lack(context, begun, now):
            return
        text = f"{consumer.title} got {self.first[0]}:{self.first[1]} again before it had acknowledged it, although its client had not "
        text += "asked for it and the broker did not mark it as a redelivery"
        text += f"; in all, this happened {self.count:,} times." if self.count > 1 else "."
        evidence = {"frames": frame_names(self.frames), **consumer.evidence, "message_id": [*self.first], "again": self.count}
        context.report("delivered-out-of-order", self.where, text, evidence)


def note_double(doubles: Doubles | None, consumer: ConsumerState, position: Position, earlier: Where, row: FrameRow) -> Doubles | None:
    """Note an entry that a consumer gets although it holds it since `earlier`, and its client has not returned it."""
    is_redelivery = (row.fields or {}).get("redelivery_count", 0) > 0
    if is_redelivery or consumer.ready is None or consumer.kind not in SHARED_TYPES or not consumer.persistent:
        return doubles
    where = where_of(row)
    doubles = doubles or Doubles(position, where, [earlier.name])
    doubles.count += 1
    if len(doubles.frames) < SAMPLES_MAX:
        doubles.frames.append(where.name)
    return doubles


def is_rewound_by(row: FrameRow) -> bool:
    """Return True for a frame of a client after which it gets entries again; `row`: a SEEK, an ACK or a request for redelivery."""
    return row.command != "ACK" or "txnid_least_bits" in (row.fields or {})
