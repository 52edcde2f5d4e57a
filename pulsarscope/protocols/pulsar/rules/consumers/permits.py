"""Permit accounting per consumer: who has to act when nothing is delivered.

A client grants permits with FLOW. A delivery costs as many as the entry has messages, without those that its ack_set marks as acknowledged;
old brokers still count the whole entry. Without permits, the client must act; with permits and a backlog, the broker must act
(`backlog.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, ClassVar

from pulsarscope.dissect.contract.rules import ColumnsHandlers, Handlers, RuleContext, Where, name_of, where_of
from pulsarscope.model.bounded_tables import remember
from pulsarscope.model.findings import ONE_SIDED, SESSION, table
from pulsarscope.model.flow import SERVER
from pulsarscope.model.records import ConnectionRow, FrameRow
from pulsarscope.model.thresholds import in_seconds
from pulsarscope.model.units import SECOND
from pulsarscope.protocols.pulsar.message_ids import batch_size, permits_of, position_of
from pulsarscope.protocols.pulsar.rules.consumers.order import DeliveryOrder, is_rewound_by
from pulsarscope.protocols.pulsar.rules.consumers.permit_state import (
    PermitState,
    count_turns,
    emit_joined,
    late_of,
    note_rest,
    report_excess,
)
from pulsarscope.protocols.pulsar.rules.consumers.stopped_readers import EndedReader, Readers, starvation
from pulsarscope.protocols.pulsar.rules.evidence import may_lack
from pulsarscope.protocols.pulsar.rules.sends.ages import Ages
from pulsarscope.protocols.pulsar.rules.subscriptions.advice import advise_on_flows
from pulsarscope.protocols.pulsar.rules.subscriptions.backlog import EMIT_NS
from pulsarscope.protocols.pulsar.rules.subscriptions.consumers import BACKLOG, CONSUMERS_MAX, SHARED_TYPES, ConsumerRule
from pulsarscope.protocols.pulsar.rules.subscriptions.delays import FACTS_MAX, emit_delivered
from pulsarscope.protocols.pulsar.rules.subscriptions.failover import ACTIVE, TOOK, emit_change
from pulsarscope.protocols.pulsar.rules.subscriptions.lag import order_marks
from pulsarscope.protocols.pulsar.rules.subscriptions.late import Late, emit_late
from pulsarscope.protocols.pulsar.rules.subscriptions.partitions import emit_consumed
from pulsarscope.protocols.pulsar.rules.subscriptions.positions import BEGAN, report_behind
from pulsarscope.protocols.pulsar.rules.subscriptions.resting import Unsubscribed, emit_resting, note_delivery, note_flow, older_consumer
from pulsarscope.protocols.pulsar.rules.subscriptions.stuck import MISSING, STARVING, stopping_ns
from pulsarscope.protocols.pulsar.text.formatting import host
from pulsarscope.protocols.pulsar.topics import topic_of_ledger

CODES = table(
    SESSION.warning(
        "consumer-starved",
        "A consumer has no permits: the broker may not send it anything until its client grants some.",
        "Look at the application: clients grant permits as it takes messages, so it is slow, stuck or paused, or never calls receive.",
        ("consumer-not-acking",),
        to_act="the consumer's application",
    ),
    SESSION.note(
        "permits-negative",
        "A broker sent more messages than the consumer had permits for.",
        "Batches larger than the permits that are left do this; a larger receiver queue makes it rare.",
    ),
)

THRESHOLDS = (
    in_seconds(
        "consumer-starved-seconds",
        30,
        "Time without permits; a client whose queue is full grants none until its application has taken half of it.",
        "consumer-starved",
    ),
    in_seconds(
        "consumer-starved-closed-seconds", 5, "Time without permits that is enough for a consumer that then ends.", "consumer-starved"
    ),
)

WAITS_MAX = 100
"""Most facts on waits of the consumers of one connection."""


class PermitRule(ConsumerRule[PermitState]):
    """A rule about the permits of one connection's consumers."""

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context, PermitState)
        self._last_id_requests: dict[str, int] = {}
        """Consumer id by frame name of its GET_LAST_MESSAGE_ID."""
        self._unknown: dict[int, Unsubscribed] = {}
        """Consumers that are unknown so far but got messages: after lost bytes, their SUBSCRIBE is read late."""
        self._left: dict[int, None] = {}
        """Closed consumers: what was on its way when they left still arrives."""
        self._delayed = 0
        """Number of emitted messages with a time of delivery."""
        self._order = DeliveryOrder(context)
        self._waits: list[tuple[str, Where, dict[str, Any]]] = []
        """Facts on waits that lasted until a consumer was closed: topic, start and values."""
        self._readers = Readers(context)
        self._late: list[Late] = []
        """Consumers that get their messages later and later."""
        self._silent_ns = context.thresholds.ns("broker-silent-seconds")
        self._shortest_ns = min(self._silent_ns, context.thresholds.ns("dispatch-limited-rest-seconds"))

    def review(self, consumer: PermitState, now: int, *, ending: bool) -> None:
        """Report a lack of permits, and emit the facts that other connections need."""
        if ending or consumer.granted:  # one that has not begun yet may have been started paused
            self._evaluate_starvation(consumer, now, "consumer-starved-closed-seconds" if ending else "consumer-starved-seconds")
        wait = self._emit_wait(consumer, now, ending=ending)
        if ending:
            if wait is not None and len(self._waits) < WAITS_MAX:
                self._waits.append(wait)
            if consumer.durable:
                self._emit_starving(consumer, now, closed=not self.open)
            elif consumer.permits <= 0:
                self._readers.add(EndedReader(consumer, now, not self.open))
            self._emit_began(consumer, now)
            emit_joined(self.context, consumer, now, closed=not self.open)
            self._emit_consumed(consumer, now)
            self._evaluate_promise(consumer, now)
            if (late := late_of(self.context, consumer)) is not None and len(self._late) < CONSUMERS_MAX:
                self._late.append(late)
            advise_on_flows(self.context, consumer, consumer.single, consumer.singles, consumer.delivered, now)
        if consumer.last != consumer.emitted:
            self._emit_delivered(consumer)
        if ending:
            report_excess(self.context, consumer)
            self._unknown.pop(consumer.number, None)

    def reviewed(self) -> None:
        """Report readers that have all stopped at the same moment."""
        self._readers.review([consumer for consumer in self.consumers.values() if not consumer.durable])

    def _begin(self, row: FrameRow) -> None:
        self._subscribe(row)
        if (consumer := self.find(row)) is not None:
            fields = row.fields or {}
            consumer.latest = fields.get("initialPosition", "Latest") == "Latest"
            consumer.start = position_of(fields["start_message_id"]) if fields.get("start_message_id") else None

    def _flow(self, row: FrameRow) -> None:
        if (consumer := self.find(row)) is None:
            self._left.pop((row.fields or {}).get("consumer_id", -1), None)  # its id is used again
            note_flow(self._unknown, row)
            return
        if consumer.granted:
            self._evaluate_starvation(consumer, row.time, "consumer-starved-seconds")
        permits = (row.fields or {}).get("messagePermits", 0)
        if consumer.permits <= 0 < consumer.permits + permits:
            if consumer.exhausted is not None:
                lack = row.time - consumer.exhausted.time
                consumer.refilled += 1
                consumer.lacking_ns += lack
                consumer.turn = max(consumer.turn, lack)
            consumer.exhausted, consumer.last_service, consumer.able = None, where_of(row), row.time
        if permits == 1:
            consumer.singles += 1
            consumer.single = consumer.single or where_of(row)
        consumer.granted += permits
        if consumer.pending:
            consumer.act(row.time)
        consumer.permits += permits
        consumer.queue = max(consumer.queue, consumer.permits)
        consumer.entry_permits += permits

    def _message(self, row: FrameRow) -> None:
        consumer = self.find(row)
        if row.metadata and "deliver_at_time" in row.metadata and self._delayed < FACTS_MAX:
            self._delayed += 1
            emit_delivered(self.context, consumer or older_consumer(self.context, row), row, 0 if consumer is None else consumer.able)
        if consumer is None:
            if (row.fields or {}).get("consumer_id", -1) not in self._left:
                note_delivery(self.context, self._unknown, row)
            return
        if row.status == "truncated":  # the rest of its packet is missing, too
            self.note_unreadable(row)
        fields, where = row.fields or {}, where_of(row)
        if (since := consumer.last_service) is not None and row.time - since.time >= self._shortest_ns:
            note_rest(self.context, consumer, row)
            self._emit_wait(consumer, row.time, ending=True, size=row.size)
        messages = batch_size(row)
        consumer.delivered += messages
        consumer.permits -= permits_of(row)
        consumer.entry_permits -= messages
        consumer.waited = 0
        consumer.last_service = where
        if not consumer.pending:
            consumer.pending = where.time
        if consumer.permits <= 0:
            consumer.exhausted = consumer.exhausted or where
            consumer.ages = Ages()
        else:
            consumer.ages.add(row)
        if consumer.permits < consumer.lowest:
            consumer.lowest, consumer.lowest_at = consumer.permits, where
        position = position_of(fields.get("message_id"))
        self._order.add(consumer, position, row)
        if consumer.switched:
            consumer.switched = False
            if not consumer.active:  # brokers do not notify a standby that takes over from a consumer that left
                consumer.active = True
                emit_change(self.context, consumer, where, ACTIVE, position, position)
            emit_change(self.context, consumer, where, TOOK, position, position)
        if consumer.last is None:
            consumer.first = consumer.last = position
            consumer.last_at, consumer.marks = where, order_marks(row.metadata)
        elif position > consumer.last:
            consumer.last, consumer.last_at, consumer.marks = position, where, order_marks(row.metadata)
        if where.time - consumer.reported_at >= EMIT_NS:
            self._emit_delivered(consumer)

    def deliveries(self, frames: Any, handle: Callable[[int], None]) -> bool:
        """Count plain deliveries, and note ACKs; see `ConnectionRule.columns`.

        The first delivery to each consumer, and all special ones, go to their handler in the order of deliveries, because consumers share
        bounds.
        """
        groups = frames.consumers
        following: list[tuple[int, int, int, int]] = []

        def follow(number: int, at: int, turn: int) -> None:
            group = groups[number]
            special = count_turns(self.consumers.get(group.id), frames, group, at, turn, self._shortest_ns)
            if special is not None:
                heappush(following, (group.places[special[0]], number, *special))

        for number in range(len(groups)):
            follow(number, 0, 0)
        while following:
            place, number, at, turn = heappop(following)
            handle(place)
            follow(number, at + 1, turn)
        return True

    def _activity(self, row: FrameRow) -> None:
        if (consumer := self.find(row)) is not None:
            consumer.act(row.time)
            consumer.rewound |= is_rewound_by(row)

    def _connect_coordinator(self, _row: FrameRow) -> None:
        self._order.has_transactions = True

    def _active_change(self, row: FrameRow) -> None:
        if (consumer := self.find(row)) is not None:
            consumer.active, consumer.last_service = (row.fields or {}).get("is_active", False), where_of(row)
            consumer.activated_at = row.time
            consumer.notified = consumer.switched = True
        else:
            self._forget(row)

    def _leave(self, row: FrameRow) -> None:
        self._close(row)
        self._forget(row)
        remember(self._left, (row.fields or {}).get("consumer_id", -1), None, CONSUMERS_MAX)

    def _unsubscribe(self, row: FrameRow) -> None:
        if self.find(row) is None:  # otherwise when it ends, if the broker agrees
            self._forget(row)
        super()._unsubscribe(row)

    def _forget(self, row: FrameRow) -> None:
        """Expect no more deliveries to a consumer that is unknown so far: it leaves, or may be on standby."""
        self._unknown.pop((row.fields or {}).get("consumer_id", -1), None)

    def _evaluate_starvation(self, consumer: PermitState, now: int, threshold: str) -> None:
        """Report a consumer that has had no permits, and whose application has done nothing, for the time of the threshold."""
        since = consumer.exhausted or consumer.ready
        if consumer.permits > 0 or consumer.reported or since is None:
            return
        rhythm = round(self.context.thresholds["consumer-rhythm-factor"] * consumer.turn)
        if threshold == "consumer-starved-closed-seconds" and not self.open:
            rhythm = max(rhythm, stopping_ns(self.context.thresholds, (consumer.ready or since).time, consumer.active_at))
        patience = max(self.context.thresholds.ns(threshold), rhythm)
        if now - max(since.time, consumer.active_at) < patience or self._may_have_granted(consumer, now):
            return
        consumer.reported = True
        text, evidence = starvation(consumer, since, now, self.context.thresholds.evidence(threshold, "consumer-rhythm-factor"))
        if consumer.durable:
            self.context.report("consumer-starved", since, self.sentence(text), evidence)
        else:
            self._readers.note(since, self.sentence(text), evidence)

    def _may_have_granted(self, consumer: PermitState, now: int) -> bool:
        """Return True when a FLOW may be among the client's missing bytes: there are then more permits than counted."""
        since = 0 if consumer.ready is None else consumer.ready.time
        if consumer.granted == 0 < consumer.delivered:
            return True  # brokers send nothing without permits
        return self.may_hide(since) or may_lack(self.context, since, now)

    # -- facts for the topic's other connections

    def _emit_wait(self, consumer: PermitState, now: int, *, ending: bool, size: int = 0) -> tuple[str, Where, dict[str, Any]] | None:
        """Emit and return a long wait with permits: when it ends, and before that each time that it has doubled.

        `size`: bytes of the frame that ends it.
        """
        since, waits = consumer.last_service, consumer.permits > 0 and consumer.active and not consumer.compacted
        if since is None or now - since.time < self._silent_ns or not waits:
            return None
        if not ending and now - since.time < 2 * consumer.waited:
            return None
        consumer.waited = now - since.time
        if consumer.topic is None or consumer.topic.startswith("non-persistent://"):
            return None
        values = {
            **consumer.evidence,
            "kind": consumer.kind,
            "title": consumer.title,
            "permits": consumer.permits,
            "entry_permits": consumer.entry_permits,
            "last": consumer.last,
            "since": since.time,
            "lost": self.context.lost,
            "counted_from": (counted_from := consumer.counted_from(since.time)),
            "undecided": max(self._missed(consumer.number), self.unreadable.get(SERVER, -1)) >= since.time
            or now - size * SECOND / self.context.thresholds["broker-silent-rate"] - since.time < self._silent_ns
            or may_lack(self.context, counted_from, now, SERVER)
            or (consumer.kind in SHARED_TYPES and may_lack(self.context, since.time, now)),
            "server": host(self.context.server),
        }
        self.context.emit_fact(BACKLOG, consumer.topic, since._replace(time=now), "waiting", values)
        return consumer.topic, since, values

    def _missed(self, number: int) -> int:
        """Return the time of the latest message to a consumer before it was known; -1: there is none."""
        return -1 if (consumer := self._unknown.get(number)) is None else consumer.latest.time

    def _emit_delivered(self, consumer: PermitState) -> None:
        if consumer.last is not None and consumer.last_at is not None and consumer.topic is not None:
            consumer.reported_at, consumer.emitted = consumer.last_at.time, consumer.last
            values = {
                "subscription": consumer.subscription,
                "position": consumer.last,
                "consumer_id": consumer.number,
                "lacking_ns": consumer.lacking_ns,
                "queue": consumer.queue,
                "opening_ns": 0 if consumer.ready is None else consumer.ready.time - consumer.seen,
                **consumer.rest_values,
                "server": host(self.context.server),
            }
            self.context.emit_fact(BACKLOG, consumer.topic, consumer.last_at, "delivered", values)

    def end(self, row: ConnectionRow, last: Where) -> None:
        """Review all consumers, and emit the entries that they skipped, unless bytes are missing, which is known only at the end."""
        super().end(row, last)
        for consumer, now, closed in self._readers.without_users():
            self._emit_starving(consumer, now, closed=closed)
        if not self.context.reported(ONE_SIDED):
            emit_resting(self.context, self._unknown, row.end, is_open=self.open)
        emit_late(self.context, self._late, row)
        self._order.end(row.end)
        for topic, where, values in self._waits:  # the broker may have sent messages to these consumers, too
            if may_lack(self.context, min(where.time, values["counted_from"]), row.end, SERVER):
                self.context.emit_fact(BACKLOG, topic, where._replace(time=row.end), "waiting", values | {"undecided": True})

    def _evaluate_promise(self, consumer: PermitState, now: int) -> None:
        """Report a reader that waits for the announced last message."""
        promised, got = consumer.promised_at, consumer.last or consumer.start
        if promised is None or consumer.durable or consumer.permits <= 0 or consumer.promised[1] < 0:
            return
        if got is not None and got < consumer.promised:
            since = max(promised.time, (consumer.last_service or promised).time)
            report_behind(self.context, consumer, consumer.promised, promised, consumer.last, consumer.last_at, now - since)

    def _emit_began(self, consumer: PermitState, now: int) -> None:
        """Emit that a consumer requested to start at the latest message, which takes effect if its subscription is new."""
        if consumer.latest and consumer.ready is not None and consumer.topic is not None and consumer.persistent:
            values = {
                **consumer.evidence,
                "begun": consumer.ready.time,
                "first": consumer.first,
                "closed": not self.open,
                "server": host(self.context.server),
            }
            first = consumer.first
            for topic in (consumer.topic, None if first is None else topic_of_ledger({"ledgerId": first[0]})):
                if topic is not None:  # producers from before the capture are identified by the ledger
                    self.context.emit_fact(BACKLOG, topic, consumer.ready._replace(time=now), BEGAN, values)

    def _emit_consumed(self, consumer: PermitState, now: int) -> None:
        """Emit the deliveries to a consumer of a partition."""
        if consumer.ready is not None and (consumer.active or consumer.delivered) and consumer.persistent:
            at = None if consumer.last_at is None else [*consumer.last_at]
            got = {"delivered": consumer.delivered, "permits": consumer.permits, "last": consumer.last, "last_at": at}
            got |= {"standby": not consumer.active, "active_at": consumer.activated_at}
            emit_consumed(self.context, consumer, consumer.ready, got | {"closed": not self.open, "seen": now})

    def _emit_starving(self, consumer: PermitState, now: int, *, closed: bool) -> None:
        """Emit that a consumer ends without permits, which alone proves little, or what a consumer of a non-persistent topic got."""
        since = consumer.exhausted or consumer.ready
        passes = (consumer.topic or "").startswith("non-persistent://")
        lacks = consumer.permits <= 0 and not passes and not consumer.reported
        if since is None or consumer.topic is None or not (lacks or passes) or self.context.reported(ONE_SIDED):
            return
        values = {
            **consumer.evidence,
            "title": consumer.title,
            "permits": consumer.permits,
            "granted": consumer.granted,
            "refilled": consumer.refilled,
            "lost": self.context.lost,
            "undecided": self._may_have_granted(consumer, now),
            "delivered": consumer.delivered,
            "last": consumer.last,
            "begun": (consumer.ready or since).time,
            "since": since.time,
            "active_at": consumer.active_at,
            "turn": consumer.turn,
            "enough": (consumer.turn > 0 and consumer.delivered > 1)
            or consumer.delivered >= self.context.thresholds["consumer-not-acking-messages"],
            "closed": closed,
            "server": host(self.context.server),
        }
        self.context.emit_fact(BACKLOG, consumer.topic, since._replace(time=now), MISSING if passes else STARVING, values)
        if lacks and consumer.last is not None and (name := topic_of_ledger({"ledgerId": consumer.last[0]})) is not None:
            # For producers from before the capture, only a ledger of the topic is known.
            self.context.emit_fact(BACKLOG, name, since._replace(time=now), STARVING, values)

    def _last_id_request(self, row: FrameRow) -> None:
        if len(self._last_id_requests) < CONSUMERS_MAX:
            self._last_id_requests[name_of(row)] = (row.fields or {}).get("consumer_id", -1)

    def _last_id_response(self, row: FrameRow) -> None:
        consumer = self.consumers.get(self._last_id_requests.pop(row.request or "", -1))
        if consumer is None or consumer.topic is None:
            return
        fields = row.fields or {}
        position = position_of(fields.get("last_message_id"))
        acknowledged = fields.get("consumer_mark_delete_position")
        if position != consumer.promised:
            consumer.promised, consumer.promised_at = position, where_of(row)
        # A consumer without a delivery may start after the last message; its acknowledged position may show that it does not.
        if consumer.last is not None or (acknowledged is not None and position_of(acknowledged) < position):
            values = {"position": position, "consumer_id": consumer.number}
            self.context.emit_fact(BACKLOG, consumer.topic, where_of(row), "backlog", values)

    columns: ClassVar[ColumnsHandlers] = {"MESSAGE": deliveries}
    frames: ClassVar[Handlers] = {
        **ConsumerRule.frames,
        "SUBSCRIBE": _begin,
        "CLOSE_CONSUMER": _leave,
        "UNSUBSCRIBE": _unsubscribe,
        "FLOW": _flow,
        "MESSAGE": _message,
        "ACK": _activity,
        "REDELIVER_UNACKNOWLEDGED_MESSAGES": _activity,
        "SEEK": _activity,
        "ACTIVE_CONSUMER_CHANGE": _active_change,
        "TC_CLIENT_CONNECT_REQUEST": _connect_coordinator,
        "GET_LAST_MESSAGE_ID": _last_id_request,
        "GET_LAST_MESSAGE_ID_RESPONSE": _last_id_response,
    }
