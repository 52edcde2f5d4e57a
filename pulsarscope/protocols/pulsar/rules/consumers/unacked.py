"""Unacknowledged messages: a consumer that acknowledges nothing, and a message skipped among acknowledged ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import islice, takewhile
from typing import Any, ClassVar

from pulsarscope.dissect.contract.rules import ColumnsHandlers, Handlers, RuleContext, Where, where_of
from pulsarscope.model.bounded_tables import remember
from pulsarscope.model.findings import ONE_SIDED, SESSION, table
from pulsarscope.model.flow import SERVER
from pulsarscope.model.records import ConnectionRow, FrameRow
from pulsarscope.model.text import duration, plural
from pulsarscope.model.thresholds import counted, in_seconds
from pulsarscope.protocols.pulsar.ack_sets import bitmap
from pulsarscope.protocols.pulsar.message_ids import Position, position_of, positions_of
from pulsarscope.protocols.pulsar.rules.consumers.again import ClosedConsumers
from pulsarscope.protocols.pulsar.rules.consumers.behind import report_slow
from pulsarscope.protocols.pulsar.rules.consumers.dropped_chunks import report_dropped
from pulsarscope.protocols.pulsar.rules.consumers.held import UnackedEntry, UnackedState, acknowledgeable, compare_next, forget_unknown
from pulsarscope.protocols.pulsar.rules.consumers.order import note_double
from pulsarscope.protocols.pulsar.rules.consumers.pauses import Hole, report_pause, report_skipped
from pulsarscope.protocols.pulsar.rules.consumers.poison import emit_left_entry
from pulsarscope.protocols.pulsar.rules.evidence import SAMPLES_MAX, latest_lack, may_lack
from pulsarscope.protocols.pulsar.rules.subscriptions.advice import advise_on_acks
from pulsarscope.protocols.pulsar.rules.subscriptions.consumers import BACKLOG, CONSUMERS_MAX, REVIEW_NS, SHARED_TYPES, ConsumerRule
from pulsarscope.protocols.pulsar.rules.subscriptions.failover import RELEASED, emit_change
from pulsarscope.protocols.pulsar.rules.subscriptions.stuck import BUSY, HOLDING, OF_READERS, UNREADABLE
from pulsarscope.protocols.pulsar.rules.subscriptions.subscription_limit import EMIT_STEP, UNACKED
from pulsarscope.protocols.pulsar.rules.subscriptions.unknown_acks import Extent, UnknownAcks

CODES = table(
    SESSION.warning(
        "consumer-not-acking",
        "A consumer acknowledges none of its messages, or has reached the limit of unacknowledged messages.",
        "Look at the application: unacknowledged messages come again when the consumer reconnects. Shared and Key_Shared consumers "
        "get no more at 50,000 messages each, or 200,000 for the subscription, where the broker has no lower limits.",
        to_act="the consumer's application",
    ),
)

THRESHOLDS = (
    in_seconds("consumer-not-acking-seconds", 60, "Time without an ACK; applications take less for a message.", "consumer-not-acking"),
    in_seconds(
        "consumer-not-acking-closed-seconds",
        5,
        "Life of a consumer that ends without any ACK; clients group ACKs for 0.1 s by default.",
        "consumer-not-acking",
    ),
    in_seconds(
        "consumer-not-acking-beside-seconds",
        20,
        "Time without any ACK while another consumer of the same connection acknowledges all the time.",
        "consumer-not-acking",
    ),
    counted(
        "consumer-not-acking-messages",
        5,
        "messages",
        "Messages that wait for an ACK; an application may take long for a few.",
        "consumer-not-acking",
        least=0,
    ),
    counted(
        "consumer-not-acking-limit",
        50000,
        "messages",
        "Unacknowledged messages at which the broker stops a Shared or Key_Shared consumer: maxUnackedMessagesPerConsumer, by default.",
        "consumer-not-acking",
    ),
)

ENTRIES_MAX = 200_000
"""Number of oldest unacknowledged entries tracked on one connection: four consumers at the broker's limit."""

RHYTHM_ACKS = 10
"""Number of ACKs that show how often a consumer from before the capture sends them; with fewer, it stays undecided at the end."""


class UnackedRule(ConsumerRule[UnackedState]):
    """A rule about the unacknowledged messages of one connection's consumers."""

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context, UnackedState)
        self._size = 0
        """Number of tracked entries of all consumers."""
        self._limit = context.thresholds["consumer-not-acking-limit"]
        self._extents: dict[tuple[str | None, str | None], Extent] = {}
        """Extents by topic and subscription, because consumers reconnect."""
        self._compared_at = 0
        """Time at which the others were last compared with an acknowledging consumer, in nanoseconds."""
        self._acked_unknown: list[tuple[UnackedState, int]] = []
        """Consumers that acknowledged entries that they had not got, and the time of their end."""
        self._closed_at: dict[int, int] = {}
        """Close time of consumers by id, in nanoseconds."""
        self._closed_consumers: ClosedConsumers | None = None
        self._settling_ns = context.thresholds.ns("cursor-reset-settled-seconds")

    def review(self, consumer: UnackedState, now: int, *, ending: bool) -> None:
        """Report a consumer that does not acknowledge, or that skipped a message."""
        if ending:
            advise_on_acks(self.context, consumer, consumer.first_ack, consumer.acks, consumer.deliveries, consumer.acknowledged_at)
            report_pause(self.context, consumer, consumer.turns, consumer.acks)
            if consumer.doubles is not None:
                consumer.doubles.report(self.context, consumer, now)
            self._size -= len(consumer.entries)
            if (consumer.unknown or consumer.idle).acks and consumer.persistent and len(self._acked_unknown) < CONSUMERS_MAX:
                self._acked_unknown.append((consumer, now))  # only the end shows whether bytes are missing
        if not consumer.entries or not consumer.persistent or (ending and self.context.reported(ONE_SIDED)):
            return
        if ending and not consumer.reported:
            pace, held = consumer.pace, next(iter(consumer.entries.values())).where
            present = pace.mark(now, consumer.messages, consumer.acks)
            consumer.behind = report_slow(self.context, consumer, pace, present, consumer.turns.longest, held)
        if not (consumer.acks or consumer.subscription) and (not ending or consumer.closed_by == SERVER):
            return  # the capture may have nothing from the client, which only the end of the connection shows
        if consumer.chunks.interrupted and not consumer.reported:
            report_dropped(self.context, consumer, now)
        position, oldest = next(iter(consumer.entries.items()))
        age = now - oldest.where.time
        thresholds = self.context.thresholds
        limit = consumer.silence_limit(now, ending=ending, is_open=self.open)
        silent = min(age, now - consumer.acknowledged_at) >= thresholds.ns(limit) and not self._may_have_acked(consumer, now)
        if silent and not consumer.may_read and consumer.messages >= thresholds["consumer-not-acking-messages"]:
            self._report_not_acking(consumer, now, limit, "consumer-not-acking-messages")
        elif consumer.kind in SHARED_TYPES and not consumer.hole_reported:
            first, in_part = [*islice(consumer.entries, SAMPLES_MAX)], consumer.done > 0
            returned = consumer.longest_returned
            hole = Hole(position, oldest.where, age, consumer.later, in_part, consumer.messages, oldest.indexes, first, returned)
            if hole.is_decided(thresholds, consumer.longest_held, ending=ending):
                since = oldest.where.time
                if not (self.may_hide(since) or may_lack(self.context, since, now)):
                    consumer.hole_reported = True
                    self.context.report("ack-hole", oldest.where, self.sentence(hole.text(consumer)), hole.evidence(consumer))
            elif ending:
                report_skipped(self.context, consumer, hole, now, consumer.turns.longest, consumer.longest_held)
        if ending:
            self._emit_holding(consumer, now)
            if not self.open:
                emit_change(self.context, consumer, self.context.last, RELEASED, min(consumer.entries), max(consumer.entries))
                emit_left_entry(self.context, consumer, now, self.ended)

    def closed(self, consumer: UnackedState, row: FrameRow) -> None:
        """Emit that a closed consumer holds nothing."""
        self._emit(consumer, where_of(row), 0)
        if consumer.acks and consumer.received.count and not consumer.untracked:
            self._closed_consumers = self._closed_consumers or ClosedConsumers()
            until = consumer.received.settled_at(consumer.entries, consumer.acknowledged_at, row.time, self._settling_ns)
            self._closed_consumers.note(consumer, consumer.received, until, consumer.entries, where_of(row))
        remember(self._closed_at, consumer.number, row.time, CONSUMERS_MAX)

    def end(self, row: ConnectionRow, last: Where) -> None:
        """Review all consumers, and emit that those of a closed connection hold nothing."""
        super().end(row, last)
        for consumer, now in self._acked_unknown:
            (consumer.unknown or consumer.idle).emit(self.context, BACKLOG, consumer, now)
        if row.closed != "open":
            for consumer in self.consumers.values():
                self._emit(consumer, last, 0)

    def _message(self, row: FrameRow) -> None:
        fields = row.fields or {}
        if self._closed_at and self.find(row) is None and self._is_of_closed(fields.get("consumer_id", -1), row.time):
            forget_unknown(self._acked_unknown, fields.get("consumer_id", -1), position_of(fields.get("message_id")))
            return
        consumer = self.find_or_add(row)
        where = where_of(row)
        if self._closed_consumers is not None:
            first = consumer.unknown is None
            self._closed_consumers.compare(self.context, consumer, position_of(fields.get("message_id")), where, is_first=first)
        indexes = bitmap(fields["ack_set"]) if fields.get("ack_set") else None
        messages = acknowledgeable(row, indexes)
        position = position_of(fields.get("message_id"))
        if (held := consumer.entries.get(position)) is not None:
            consumer.doubles = note_double(consumer.doubles, consumer, position, held.where, row)
            consumer.untracked += self._take(consumer, position)
        if consumer.unknown is None:
            consumer.is_encrypted = bool((row.metadata or {}).get("encryption_keys"))
        extent = (consumer.unknown or self._begin(consumer, position)).extent
        if position > extent.high:
            extent.high = position
        elif position < extent.low:
            extent.low = position
        consumer.received.add(position)
        consumer.deliveries += 1
        consumer.pace.add(messages, (row.metadata or {}).get("publish_time", 0), where.time, is_first=not consumer.entries)
        if self._size < ENTRIES_MAX:
            self._size += 1
            uuid = consumer.chunks.add(row.metadata)
            consumer.entries[position] = UnackedEntry(where, consumer.deliveries, messages, indexes, uuid)
            consumer.messages += messages
        else:
            consumer.untracked += 1
        if consumer.early.may_have(place := (where.file, where.packet), where.time):
            is_acknowledged, ack_set = consumer.early.of(position, place, where.time)
            if is_acknowledged:
                self._acknowledge(consumer, position, ack_set, where.time)
        if consumer.messages >= self._limit and consumer.kind in SHARED_TYPES:
            self._report_not_acking(consumer, where.time, "consumer-not-acking-limit")
        self._emit(consumer, where, consumer.messages)

    def _is_of_closed(self, number: int, now: int) -> bool:
        """Return True for a closed consumer: messages were in transit, or are read late; its next SUBSCRIBE may be missing."""
        closed_at = self._closed_at.get(number)
        return closed_at is not None and (now <= closed_at or not may_lack(self.context, closed_at, now))

    def deliveries(self, frames: Any, handle: Callable[[int], None]) -> bool:
        """Hold entries after all earlier ones, and acknowledge them; see `ConnectionRule.columns`."""
        known = self._closed_consumers is None and all(
            group.id in self.consumers or group.id not in self._closed_at for group in frames.consumers
        )
        compared_at = compare_next(self.consumers, frames.consumers, self._compared_at)
        if not known or compared_at is None or self._size + len(frames) > ENTRIES_MAX or not self.has_room(len(frames.consumers)):
            return False
        for group in frames.consumers:
            delivered = acknowledged = 0
            for until, acks in group.turns:
                self._hold(frames, group, delivered, until, handle)
                self._acknowledge_whole(group, acknowledged, acks, handle)
                delivered, acknowledged = until, acks
        self._compared_at = compared_at
        return True

    def _hold(self, frames: Any, group: Any, at: int, until: int, handle: Callable[[int], None]) -> None:
        """Hold the entries of a turn in columns."""
        places = group.places
        if at < until and ((consumer := self.consumers.get(group.id)) is None or consumer.unknown is None):
            handle(places[at])
            at += 1
        if at == until:
            return
        consumer, wheres = self.consumers[group.id], frames.wheres(places[at:until])
        early = consumer.early.may_have(min(where[1:3] for where in wheres), min(group.times[at:until]))
        plain, begin = group.ascending and not early and group.positions[at] > consumer.received.high, at
        while at < until:
            stop = consumer.next_emitted(group.messages, at, until, self._limit) if plain else at
            if at < stop:
                consumer.hold(group, wheres[at - begin : stop - begin], at, stop)
                self._size += stop - at
            if stop < until:
                handle(places[stop])
            at = stop + 1

    def _acknowledge_whole(self, group: Any, at: int, until: int, handle: Callable[[int], None]) -> None:
        """Handle the ACKs of a turn in columns."""
        while at < until:
            if (consumer := self.consumers.get(group.id)) is not None:
                held = len(consumer.entries)
                at = consumer.acknowledge(group.acks, at, until, self._compared_at + REVIEW_NS, self._settling_ns)
                self._size -= held - len(consumer.entries)
            if at < until:
                handle(group.acks[at][0])
            at += 1

    def _flow(self, row: FrameRow) -> None:
        if (consumer := self.find(row)) is not None:
            consumer.flowed_at = row.time
            consumer.idle.flowed = consumer.idle.flowed or row.time

    def _ack(self, row: FrameRow) -> None:
        fields = row.fields or {}
        if self.find(row) is None and self._is_of_closed(fields.get("consumer_id", -1), row.time):
            return
        consumer = self.find_or_add(row)  # after lost bytes, its messages are read late
        if consumer.ignores(fields):
            return
        where = where_of(row)
        if row.status == "truncated":
            self.note_unreadable(row)  # it may name more ids
        place = consumer.early.latest = where.file, where.packet
        if consumer.unknown is None:
            consumer.idle.note(where, fields)
        consumer.received.note(consumer.entries, where.time, self._settling_ns)
        if consumer.entries:
            oldest = next(iter(consumer.entries.values())).where.time
            consumer.turns.add(where.time - max(oldest, consumer.acknowledged_at), where, consumer.messages)
            consumer.most_held = max(consumer.most_held, consumer.messages)
        is_cumulative = fields.get("ack_type") == "Cumulative"
        ids = fields.get("message_id") or ()
        for message_id, position in zip(ids, positions_of(ids), strict=True):
            if is_cumulative:
                consumer.early.cumulative = place, position
                for earlier in [*takewhile(position.__gt__, consumer.entries)]:
                    self._take(consumer, earlier)
            if not self._acknowledge(consumer, position, ack_set := message_id.get("ack_set"), where.time):
                consumer.early.add(position, place, where.time, ack_set)
                consumer.pace.note_earlier(consumer.deliveries, cumulative=is_cumulative)
                if consumer.unknown is not None:
                    consumer.unknown.note(where, position, fields)
        if not consumer.acks:
            consumer.first_ack = where
        consumer.acks += 1
        consumer.acknowledged_at = where.time
        consumer.pace.note(where.time, consumer.messages, consumer.acks)
        self._emit(consumer, where, consumer.messages)
        if where.time - self._compared_at >= REVIEW_NS:
            self._compared_at = where.time
            self._compare(consumer, where.time)

    def _compare(self, beside: UnackedState, now: int) -> None:
        """Report the consumers that have acknowledged nothing for a long time while `beside`, on the same connection, does."""
        thresholds = self.context.thresholds
        patience = thresholds.ns("consumer-not-acking-beside-seconds")
        since = now if beside.first_ack is None else beside.first_ack.time
        if now - since < patience // 2:
            return
        for consumer in self.consumers.values():
            is_exempt = consumer.acks or consumer.may_read or not consumer.persistent
            if is_exempt or consumer.messages < thresholds["consumer-not-acking-messages"]:
                continue
            if now - next(iter(consumer.entries.values())).where.time >= patience:
                deciding = "consumer-not-acking-beside-seconds", "consumer-not-acking-messages"
                self._report_not_acking(consumer, now, *deciding, beside=beside.number)

    def _begin(self, consumer: UnackedState, position: Position) -> UnknownAcks:
        """Start comparing ACKs with the entries that a consumer gets, and that its subscription got on this connection before."""
        key = consumer.topic, consumer.subscription
        if (extent := self._extents.get(key)) is None:
            extent = Extent(position, position)
            remember(self._extents, key, extent, CONSUMERS_MAX)
        consumer.unknown = UnknownAcks(extent, consumer.connection is not None)
        return consumer.unknown

    def _last_id(self, row: FrameRow) -> None:
        if (consumer := self.find(row)) is not None:
            consumer.asks_last = True

    def _active_change(self, row: FrameRow) -> None:
        """Emit the entries held by a consumer that is no longer active."""
        consumer = self.find(row)
        if consumer is not None and consumer.entries and not (row.fields or {}).get("is_active"):
            emit_change(self.context, consumer, where_of(row), RELEASED, min(consumer.entries), max(consumer.entries))

    def _redeliver(self, row: FrameRow) -> None:
        """Remove the entries that the client returns; they are added when they are delivered again."""
        if (consumer := self.find(row)) is None:
            return
        for position in consumer.returned(row):
            consumer.untracked += self._take(consumer, position)

    def _emit(self, consumer: UnackedState, where: Where, messages: int) -> None:
        """Emit the number of a consumer's unacknowledged messages if it has changed by a step."""
        changed = abs(messages - consumer.emitted) >= EMIT_STEP or messages == 0 < consumer.emitted
        if changed and consumer.kind in SHARED_TYPES and consumer.topic is not None:
            consumer.emitted = messages
            values = {**consumer.evidence, "messages": messages}
            self.context.emit_fact(UNACKED, json.dumps([consumer.topic, consumer.subscription]), where, "holds", values)

    def _emit_holding(self, consumer: UnackedState, now: int) -> None:
        """Emit that a consumer ends with unacknowledged messages, which alone proves little."""
        oldest = next(iter(consumer.entries.values()))
        if consumer.topic is None:
            return
        values = {
            **consumer.held_values,
            "enough": consumer.messages >= self.context.thresholds["consumer-not-acking-messages"],
            "undecided": (consumer.connection is not None and 0 < consumer.acks < RHYTHM_ACKS)
            or consumer.may_read
            or self._may_have_acked(consumer, now),
            "closed": not self.open,
        }
        waits = consumer.kind == "Key_Shared" or (values["enough"] and not consumer.reported)
        self.context.emit_fact(BACKLOG, consumer.topic, oldest.where._replace(time=now), HOLDING if waits else BUSY, values)

    def _may_have_acked(self, consumer: UnackedState, now: int) -> bool:
        """Return True when an ACK may be among the client's missing bytes."""
        oldest = next(iter(consumer.entries.values()))
        since = max(oldest.where.time, consumer.acknowledged_at)
        if self.may_hide(since) or may_lack(self.context, since, now):
            return True
        lost_at = latest_lack(self.context, now)
        if lost_at < oldest.where.time:
            return False
        later = sum(entry.messages for entry in consumer.entries.values() if entry.where.time > lost_at)
        return later < self.context.thresholds["consumer-not-acking-messages"]

    def _take(self, consumer: UnackedState, position: Position) -> bool:
        if (entry := consumer.entries.pop(position, None)) is None:
            return False
        self._size -= 1
        consumer.messages -= entry.messages
        consumer.done -= entry.done
        consumer.taken += 1
        if consumer.taken > len(consumer.entries):
            consumer.entries, consumer.taken = dict(consumer.entries), 0
        return True

    def _acknowledge(self, consumer: UnackedState, position: Position, ack_set: list[int] | None, now: int) -> bool:
        """Return False when the consumer does not hold the entry."""
        if (entry := consumer.entries.get(position)) is None:
            return False
        consumer.furthest = max(consumer.furthest, entry.number)
        remaining = bitmap(ack_set) if ack_set else 0
        if entry.indexes is not None:
            remaining &= entry.indexes
        if (acknowledged := entry.messages - remaining.bit_count()) > 0 and (held := now - entry.where.time) > consumer.longest_held:
            consumer.longest_held = held
        if remaining:
            consumer.messages -= acknowledged
            consumer.done += acknowledged
            entry.indexes, entry.messages, entry.done = remaining, remaining.bit_count(), entry.done + acknowledged
        else:
            self._take(consumer, position)
        return True

    def _report_not_acking(self, consumer: UnackedState, now: int, *deciding: str, beside: int | None = None) -> None:
        if consumer.reported:
            return
        consumer.reported = True
        (ledger, entry), oldest = next(iter(consumer.entries.items()))
        age = now - oldest.where.time
        messages = plural(consumer.messages, "message")
        text = f"{consumer.title} has {messages} unacknowledged, the oldest ({ledger}:{entry}) for {duration(age)}"
        if not consumer.acknowledged_at:
            text += f", and acknowledged none{OF_READERS if consumer.connection else ''}"
            text += "" if beside is None else f", while consumer {beside} of its connection acknowledges what it gets"
            text += UNREADABLE if consumer.is_encrypted else ""
        elif now > consumer.acknowledged_at:
            text += f", and its latest ACK was {duration(now - consumer.acknowledged_at)} before"
        if consumer.messages >= self._limit and consumer.kind in SHARED_TYPES:
            text += f": the broker's default limit of {self._limit:,} is reached, it sends no more"
        evidence = {
            "frames": [oldest.where.name],
            **consumer.evidence,
            "unacknowledged": consumer.messages,
            "oldest": [ledger, entry],
            "oldest_age_ns": age,
            "limit": self._limit if consumer.kind in SHARED_TYPES else None,
            "message_ids": list(consumer.entries)[:SAMPLES_MAX],
            "act": "client",
            **self.context.thresholds.evidence(*deciding),
        }
        self.context.report("consumer-not-acking", oldest.where, self.sentence(text), evidence)

    columns: ClassVar[ColumnsHandlers] = {"MESSAGE": deliveries}
    frames: ClassVar[Handlers] = {
        **ConsumerRule.frames,
        "FLOW": _flow,
        "MESSAGE": _message,
        "ACK": _ack,
        "REDELIVER_UNACKNOWLEDGED_MESSAGES": _redeliver,
        "ACTIVE_CONSUMER_CHANGE": _active_change,
        "GET_LAST_MESSAGE_ID": _last_id,
    }
