"""One Pulsar connection: who is a producer or consumer of what, which response answers which request, rows for all of it.

Fed with frames in the order of their moments. Everything in here belongs to this connection and is bounded.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import Any

from pulsarscope.dissect.exchange import Request, Response
from pulsarscope.dissect.frames import Frame, Note
from pulsarscope.dissect.session import Session, SessionContext
from pulsarscope.model.flow import CLIENT, SERVER
from pulsarscope.model.limits import PENDING_MESSAGES_MAX, PENDING_MESSAGES_MAX_BYTES, PENDING_REQUESTS_MAX
from pulsarscope.model.records import ConnectionRow, Row
from pulsarscope.protocols.pulsar.entry.reader import METADATA_USUAL_BYTES, Entry, EntryOpener
from pulsarscope.protocols.pulsar.frame.protobuf import Plan
from pulsarscope.protocols.pulsar.session.awaiting_schema import Late, UnreadEntries
from pulsarscope.protocols.pulsar.session.exchanges import (
    ANSWERED_BY,
    CAN_ANSWER,
    CONNECTING_REQUEST_ID,
    IN_ORDER,
    request_id,
)
from pulsarscope.protocols.pulsar.session.participants import Consumer, Producer, Sent
from pulsarscope.protocols.pulsar.session.rows import SessionRows
from pulsarscope.protocols.pulsar.values.connection_values import Values
from pulsarscope.protocols.pulsar.values.schemas import SCHEMA_COMMANDS

PRODUCE, DELIVER = "produce", "deliver"

EARLY_RESPONSES_MAX = 4096
"""Responses kept for a request that may still come: a capture reorders the two directions by a few packets, a hole by more."""

KNOWN_IDS_SLACK = 64
"""Sequence ids of SENDs that wait no more are forgotten when there are this many more than twice those that do."""

REORDERED_PACKETS_MAX = 256
"""So many packets after a response its request may still stand in the capture: capturing reorders the two directions by a few."""

IDS_MAX = 65_536
"""Producers, and consumers, remembered on one connection; clients count them up from 0, hostile bytes do not."""


class PulsarSession(Session):
    """The knowledge about one connection of Pulsar."""

    def __init__(self, context: SessionContext, single_plan: Plan) -> None:
        self._want_frames = "frame" in context.kinds
        self._want_messages = "message" in context.kinds
        self._want_payloads = self._want_messages or context.payloads
        self._want_exchanges = "exchange" in context.kinds
        self._rows = SessionRows(context.origin, want_exchanges=self._want_exchanges)
        self._single_plan = single_plan
        self._payload_form = context.payload
        self._message_columns = context.message_columns if self._want_messages else ()
        self._private_keys = context.private_keys
        wants_values = not self._message_columns or "value" in self._message_columns
        self._values = Values(context.schemas, context.payload_decoders) if wants_values and self._want_payloads else None
        self._unread = None if self._values is None else UnreadEntries(self._values)
        self._producers: dict[int, Producer] = {}
        self._consumers: dict[int, Consumer] = {}
        self._pairing = context.pairing
        self._early: dict[EarlyKey, Response] = {}  # responses that no request has been seen for, yet
        self._holding: dict[int, Sent] = {}  # SENDs whose messages wait, by ticket, the longest-waiting first
        self._tickets = 0
        self._held_rows = 0
        self._held_bytes = 0
        self._waiting_sends = 0
        self._connect: dict[str, Any] | None = None
        self._connected: dict[str, Any] | None = None
        self._creating: dict[int, int] = {}  # request_id of a PRODUCER → its producer_id

    @cached_property
    def _opener(self) -> EntryOpener:
        """Made on first use: most connections have nothing to open, or nobody asks."""
        return EntryOpener(self._single_plan, self._payload_form, self._message_columns, self._private_keys, self._values)

    # ---- the contract

    def observe(self, directions: Sequence[str], frames: Sequence[Frame], out: list[Row]) -> None:
        """Append the rows that each frame completes, its own first."""
        # The hot loop: what SEND and its receipt usually need is done here, all else by methods. To set an attribute costs twice as much as
        # to look at it, so those are set back only where they are not.
        want_frames, want_exchanges, want_payloads = self._want_frames, self._want_exchanges, self._want_payloads
        producers = self._producers
        append = out.append
        for frame in frames:
            command, fields = frame.command, frame.fields
            if frame.direction is None:
                frame.direction = directions[frame.stream]
                frame.stream = 0
            if want_frames:
                append(frame)
            if fields is None:
                pass
            elif command == "SEND":
                producer = producers.get(fields.get("producer_id", -1)) or self._unknown_producer(fields, out)
                metadata = frame.metadata
                frame.topic = producer.topic
                if metadata is None:
                    frame.producer_name = producer.name
                else:
                    frame.producer_name = metadata.get("producer_name", producer.name)
                    frame.num_messages = metadata.get("num_messages_in_batch", 1)
                entry = self._open_send(frame, fields, producer, out) if want_payloads and metadata is not None else None
                sent = Sent(frame.file, frame.packet, frame.sub, frame.time, fields.get("sequence_id", -1), entry)
                if not (self._early and self._is_settled(frame, fields, producer, sent, out)):
                    producer.waiting.append(sent)
                    self._waiting_sends += 1
                    if entry is not None or producer.known is not None or self._waiting_sends > PENDING_REQUESTS_MAX:
                        self._bound(producer, sent, out)
            elif command == "SEND_RECEIPT" or command == "SEND_ERROR":  # noqa: PLR1714 - twice as fast
                producer = producers.get(fields.get("producer_id", -1)) or self._unknown_producer(fields, out)
                frame.topic = producer.topic
                frame.producer_name = producer.name
                waiting = producer.waiting
                sequence_id = fields.get("sequence_id", -1)
                if waiting and (waiting[0].sequence_id == sequence_id or self._align(fields, producer, out)):
                    sent = waiting.popleft()
                    self._waiting_sends -= 1
                    frame.request = f"{sent.file}:{sent.packet}.{sent.sub}"
                    if sent.time <= frame.time and sent.packet <= frame.packet and sent.file == frame.file:
                        frame.latency_ns = frame.time - sent.time
                    else:
                        frame.latency_ns = self._rows.latency(sent, frame, out)
                    if want_exchanges:
                        request = self._sent_request(fields.get("producer_id", -1), producer, sent)
                        self._rows.exchange(request, _response(frame), frame.latency_ns, out)
                    if sent.entry is not None:
                        self._give_rows(sent, fields.get("message_id"), out)
                else:
                    self._remember(("SEND", fields.get("producer_id", -1), sequence_id), frame, out)
            elif command == "MESSAGE":
                self._message(frame, fields, out)
            else:
                self._other(frame, fields, frame.direction, out)
            notes = frame.notes
            if notes is not None:
                frame.findings = list(dict.fromkeys([code for code, _ in notes]))
                place = {"offset": frame.offset, "size": frame.size}
                out.extend([self._rows.finding(frame, code, text, place) for code, text in notes])
                frame.notes = None
            frame.moment = 0
            if frame.payload is not None:
                frame.payload = None
            if frame.raw is not None:
                frame.raw = None

    def finish(self, out: list[Row]) -> None:
        """What still waits gets its rows: unanswered requests, unrequested responses, messages without a receipt."""
        if self._unread is not None:
            self._give_late(self._unread.finish(), out)
        for (direction, number), row in self._opener.rest() if self._want_payloads else ():
            row.direction = direction
            if direction == PRODUCE:
                row.topic, row.producer_id = (self._producers.get(number) or _UNKNOWN_PRODUCER).topic, number
            else:
                consumer = self._consumers.get(number) or _UNKNOWN_CONSUMER
                row.topic, row.subscription, row.consumer_id = consumer.topic, consumer.subscription, number
            if self._want_messages:
                self._opener.give(Entry(row), out)
            out.append(self._rows.incomplete(row))
        unanswered = self._pairing.rest()
        for producer_id, producer in self._producers.items():
            for sent in producer.waiting:
                unanswered.append(self._sent_request(producer_id, producer, sent))
                self._give_rows(sent, None, out)
            producer.waiting.clear()
        unanswered.sort(key=lambda request: (request.file, request.packet, request.sub))
        for request in unanswered:
            self._rows.exchange(request, None, None, out)
        for response in self._early.values():
            self._rows.exchange(None, response, None, out)
        self._early.clear()

    def describe(self, row: ConnectionRow) -> None:
        """Versions and authentication, from CONNECT and CONNECTED."""
        if self._connect is not None:
            row.client_version = self._connect.get("client_version")
            row.protocol_version = self._connect.get("protocol_version")
            row.auth_method = self._connect.get("auth_method_name") or self._connect.get("auth_method")
        if self._connected is not None:
            row.server_version = self._connected.get("server_version")
            row.protocol_version = self._connected.get("protocol_version", row.protocol_version)

    # ---- SEND and its receipt: first in, first out for each producer, checked by sequence id

    def _add_producer(self, number: int, producer: Producer, out: list[Row]) -> Producer:
        self._producers[number] = producer
        if len(self._producers) > IDS_MAX:
            oldest = next(iter(self._producers))
            self._give_up(oldest, self._producers.pop(oldest), out)
        return producer

    def _unknown_producer(self, fields: dict[str, Any], out: list[Row]) -> Producer:
        """A producer whose PRODUCER is not in the capture."""
        return self._add_producer(fields.get("producer_id", -1), Producer(), out)

    def _is_settled(self, frame: Frame, fields: dict[str, Any], producer: Producer, sent: Sent, out: list[Row]) -> bool:
        """Whether the receipt of this SEND became readable before it."""
        if fields.get("is_chunk"):  # chunks share their sequence id: an early receipt may be the one before's
            return False
        producer_id = fields.get("producer_id", -1)
        receipt = self._take_early(("SEND", producer_id, sent.sequence_id), frame, out)
        if receipt is None:
            return False
        latency = self._rows.latency(sent, receipt, out)
        self._rows.exchange(self._sent_request(producer_id, producer, sent), receipt, latency, out)
        self._give_rows(sent, receipt.fields.get("message_id"), out)
        return True

    def _bound(self, producer: Producer, sent: Sent, out: list[Row]) -> None:
        """Bound what waits together with this SEND."""
        if producer.known is not None:
            producer.known.add(sent.sequence_id)
            if len(producer.known) > 2 * len(producer.waiting) + KNOWN_IDS_SLACK:
                producer.known = {sent.sequence_id for sent in producer.waiting}
        if sent.entry is not None:
            self._hold(sent, sent.entry, out)
        if self._waiting_sends > PENDING_REQUESTS_MAX:
            self._bound_sends(out)

    def _align(self, fields: dict[str, Any], producer: Producer, out: list[Row]) -> bool:
        """The oldest SEND is not the one received: give up those before the right one. False when there is none."""
        producer_id, sequence_id = fields.get("producer_id", -1), fields.get("sequence_id", -1)
        if producer.known is not None and sequence_id not in producer.known:
            return False
        index = next((index for index, sent in enumerate(producer.waiting) if sent.sequence_id == sequence_id), -1)
        producer.known = {sent.sequence_id for sent in producer.waiting}
        if index < 0:
            return False
        for _ in range(index):
            sent = producer.waiting.popleft()
            self._waiting_sends -= 1
            self._rows.exchange(self._sent_request(producer_id, producer, sent), None, None, out)
            self._give_rows(sent, None, out)
        return True

    @staticmethod
    def _sent_request(producer_id: int, producer: Producer, sent: Sent) -> Request:
        key = f"{producer_id}:{sent.sequence_id}"
        return Request(sent.file, sent.packet, sent.sub, sent.time, "SEND", key, producer.topic, producer.name)

    def _open_send(self, frame: Frame, fields: dict[str, Any], producer: Producer, out: list[Row]) -> Entry | None:
        if self._is_plain(frame.metadata or {}):
            return None
        notes: list[Note] = []
        number = fields.get("producer_id", -1)
        entry = self._opener.open(frame, (PRODUCE, number), notes)
        if entry is not None:
            base = entry.base
            base.direction, base.topic, base.producer_id = PRODUCE, producer.topic, number
            more = (frame.size or 0) - len(frame.payload or b"") - METADATA_USUAL_BYTES
            if more > 0:
                entry.metadata_bytes += more
        self._say(frame, notes, out)
        return entry if self._want_messages else None

    def _hold(self, sent: Sent, entry: Entry, out: list[Row]) -> None:
        """Its messages wait for their receipt. When too many do, the oldest are given without ledger and entry."""
        self._tickets = sent.ticket = self._tickets + 1
        self._holding[sent.ticket] = sent
        self._held_rows += entry.count
        self._held_bytes += entry.weight()
        while self._held_rows > PENDING_MESSAGES_MAX or self._held_bytes > PENDING_MESSAGES_MAX_BYTES:
            self._give_rows(next(iter(self._holding.values())), None, out)

    def _give_rows(self, sent: Sent, message_id: dict[str, Any] | None, out: list[Row]) -> None:
        entry = sent.entry
        if entry is None:
            return
        if self._holding.pop(sent.ticket, None) is not None:
            self._held_rows -= entry.count
            self._held_bytes -= entry.weight()
        if message_id is not None:
            entry.set_id(message_id)
        self._opener.give(entry, out)
        sent.entry = None

    def _bound_sends(self, out: list[Row]) -> None:
        """Give up SENDs, longest-waiting first, down to nine tenths of the bound: finding them takes a look at all that wait."""
        waiting = [(sent.file, sent.packet, sent.sub, number) for number, one in self._producers.items() for sent in one.waiting]
        for _, _, _, number in sorted(waiting)[: max(len(waiting) - PENDING_REQUESTS_MAX * 9 // 10, 1)]:
            producer = self._producers[number]
            sent = producer.waiting.popleft()
            self._waiting_sends -= 1
            self._rows.exchange(self._sent_request(number, producer, sent), None, None, out)
            self._give_rows(sent, None, out)

    # ---- MESSAGE

    def _message(self, frame: Frame, fields: dict[str, Any], out: list[Row]) -> None:
        consumer = self._consumers.get(fields.get("consumer_id", -1)) or _UNKNOWN_CONSUMER
        metadata = frame.metadata
        frame.topic = consumer.topic
        frame.subscription = consumer.subscription
        if metadata is not None:
            frame.producer_name = metadata.get("producer_name")
            frame.num_messages = metadata.get("num_messages_in_batch", 1)
        if self._want_payloads and metadata is not None and not self._is_plain(metadata):
            notes: list[Note] = []
            number = fields.get("consumer_id", -1)
            entry = self._opener.open(frame, (DELIVER, number), notes)
            self._say(frame, notes, out)
            if entry is not None:
                base = entry.base
                base.direction, base.topic, base.subscription, base.consumer_id = DELIVER, consumer.topic, consumer.subscription, number
                base.redelivery_count = fields.get("redelivery_count")
                entry.set_id(fields.get("message_id") or {})
                if self._unread is not None and entry.unread is not None:
                    late = _response(frame)
                    late.fields = {"offset": frame.offset, "size": frame.size}
                    self._give_late(self._unread.add(entry, entry.unread, late), out)
                elif self._want_messages:
                    self._opener.give(entry, out)

    def _give_late(self, late: list[Late], out: list[Row]) -> None:
        """The rows of messages that waited for their schema."""
        for entry, frame, notes in late:
            out.extend([self._rows.finding(frame, code, text, frame.fields) for code, text in notes])
            if self._want_messages:
                self._opener.give(entry, out)

    def _is_plain(self, metadata: dict[str, Any]) -> bool:
        """Whether there is nothing to open that anything could be said of."""
        if self._want_messages or not metadata.keys().isdisjoint(_WRAPPED):
            return False
        return self._values is None or not self._values.are_known

    def _say(self, frame: Frame, notes: list[Note], out: list[Row]) -> None:
        """Findings about more than the frame's own form: they do not stand in its row, which is the same whatever else is asked for."""
        place = {"offset": frame.offset, "size": frame.size}
        out.extend([self._rows.finding(frame, code, text, place) for code, text in dict.fromkeys(notes)])

    # ---- all other commands

    def _other(self, frame: Frame, fields: dict[str, Any], direction: str, out: list[Row]) -> None:
        command = frame.command or ""
        if self._unread is not None:
            if command in SCHEMA_COMMANDS:
                self._give_late(self._unread.observe(command, fields), out)
            if self._unread.deadline < frame.time:
                self._give_late(self._unread.overdue(frame.time), out)
        names = topic, name, subscription = self._names(command, fields)
        if direction == CLIENT and (number := request_id(command, fields, direction)) is not None:
            if command in _REMEMBERED:
                self._register(command, fields, out)
            self._ask((command, number), frame, str(number), names, out)
        elif command in IN_ORDER:
            if command == "CONNECT":
                self._connect = fields
            self._ask((command, direction), frame, None, names, out)
        else:
            request = self._answered(command, fields, direction)
            if request is not None:
                topic = topic or request.topic
                name = name or request.producer_name
                subscription = subscription or request.subscription
                self._answer(frame, fields, request, out)
            elif command in CAN_ANSWER or command in _ASKED_IN_ORDER:
                early: EarlyKey | None = ("id", command, fields.get("request_id")) if "request_id" in fields else None
                self._remember(early, frame, out)
        if topic is not None:
            frame.topic = topic
        if name is not None:
            frame.producer_name = name
        if subscription is not None:
            frame.subscription = subscription

    def _answer(self, frame: Frame, fields: dict[str, Any], request: Request, out: list[Row]) -> None:
        """This frame answers a request."""
        frame.request = f"{request.file}:{request.packet}.{request.sub}"
        if request.time <= frame.time and request.packet <= frame.packet and request.file == frame.file:
            frame.latency_ns = frame.time - request.time
        else:
            frame.latency_ns = self._rows.latency(request, frame, out)
        if self._want_exchanges and not (frame.command == "PRODUCER_SUCCESS" and fields.get("producer_ready") is False):
            self._rows.exchange(request, _response(frame), frame.latency_ns, out)

    def _give_up(self, number: int, producer: Producer, out: list[Row]) -> None:
        """The SENDs of this producer that wait get no receipt any more."""
        for sent in producer.waiting:
            self._waiting_sends -= 1
            self._rows.exchange(self._sent_request(number, producer, sent), None, None, out)
            self._give_rows(sent, None, out)
        producer.waiting.clear()

    def _names(self, command: str, fields: dict[str, Any]) -> tuple[str | None, str | None, str | None]:
        """(topic, producer name, subscription) that a command is about."""
        get = fields.get
        topic, name, subscription = get("topic"), get("producer_name"), get("subscription")
        if topic.__class__ is list:  # WATCH_TOPIC_LIST_SUCCESS: no one topic
            topic = None
        if subscription is not None and subscription.__class__ is not str:
            nested: dict[str, Any] = subscription if isinstance(subscription, dict) else {}
            topic, subscription = nested.get("topic", topic), nested.get("subscription")
        consumer_id, producer_id = get("consumer_id"), get("producer_id")
        if consumer_id is not None and command not in ("SUBSCRIBE", "SCALABLE_TOPIC_SUBSCRIBE"):
            consumer = self._consumers.get(consumer_id)
            if consumer is not None:
                topic, subscription = consumer.topic, consumer.subscription
        elif producer_id is not None and command != "PRODUCER":
            producer = self._producers.get(producer_id)
            if producer is not None:
                topic, name = producer.topic, producer.name
        return topic, name, subscription

    def _register(self, command: str, fields: dict[str, Any], out: list[Row]) -> None:
        """PRODUCER and SUBSCRIBE give their ids a meaning, from here on."""
        if command == "SUBSCRIBE":
            _put(self._consumers, fields.get("consumer_id", -1), Consumer(fields.get("topic"), fields.get("subscription")))
            return
        number = fields.get("producer_id", -1)
        before = self._producers.get(number)
        if before is not None:
            self._give_up(number, before, out)
        self._add_producer(number, Producer(fields.get("topic"), fields.get("producer_name")), out)
        for key in [key for key in self._early if key[:2] == ("SEND", number)]:  # of the producer that had this id before
            self._rows.exchange(None, self._early.pop(key), None, out)
        _put(self._creating, fields.get("request_id", -1), number)

    def _ask(
        self,
        key: Hashable,
        frame: Frame,
        text: str | None,
        names: tuple[str | None, str | None, str | None],
        out: list[Row],
    ) -> None:
        topic, name, subscription = names
        command = frame.command or ""
        request = Request(frame.file, frame.packet, frame.sub, frame.time, command, text, topic, name, subscription)
        if self._early and command in ANSWERED_BY:
            for response in (ANSWERED_BY[command], "ERROR") if command != "ACK" else (ANSWERED_BY[command],):
                early = self._take_early(("id", response, (frame.fields or {}).get("request_id")), frame, out)
                if early is not None:
                    self._rows.exchange(request, early, self._rows.latency(request, early, out), out)
                    self._name_producer(early.command, early.fields)
                    return
        given_up = self._pairing.ask(key, request)
        if given_up is not None:
            self._say(frame, [("session-cap", f"more than {PENDING_REQUESTS_MAX} requests wait on this connection")], out)
            self._rows.exchange(given_up, None, None, out)

    def _answered(self, command: str, fields: dict[str, Any], direction: str) -> Request | None:
        """The request that this response closes (or, of a producer that queues, only answers)."""
        other = SERVER if direction == CLIENT else CLIENT
        asked = CAN_ANSWER.get(command)
        if asked is None:
            return self._answered_in_order(command, fields, other)
        number = fields.get("request_id")
        if number is None:
            return None
        if command == "ERROR" and number == CONNECTING_REQUEST_ID:
            return self._pairing.answer(("CONNECT", other))
        if command == "PRODUCER_SUCCESS" and fields.get("producer_ready") is False:
            return self._pairing.peek(("PRODUCER", number))
        self._name_producer(command, fields)
        if len(asked) == 1:
            return self._pairing.answer((asked[0], number))
        return self._pairing.answer_first([(one, number) for one in asked])

    def _answered_in_order(self, command: str, fields: dict[str, Any], other: str) -> Request | None:
        """The request of the other side that a response without an id answers."""
        if command == "CONNECTED":
            self._connected = fields
        asked = _ASKED_IN_ORDER.get(command)
        return None if asked is None else self._pairing.answer((asked, other))

    def _name_producer(self, command: str, fields: dict[str, Any]) -> None:
        """A producer without a name of its own gets the broker's with PRODUCER_SUCCESS."""
        number = self._creating.pop(fields.get("request_id", -1), None) if command == "PRODUCER_SUCCESS" else None
        producer = None if number is None else self._producers.get(number)
        if producer is not None:
            producer.name = fields.get("producer_name", producer.name)

    def _remember(self, key: EarlyKey | None, frame: Frame, out: list[Row]) -> None:
        """A response whose request is not known, or not known yet: the capture may have them in the wrong order."""
        if key is None:
            self._rows.exchange(None, _response(frame), None, out)
            return
        if key in self._early:
            self._rows.exchange(None, self._early.pop(key), None, out)
        self._early[key] = _response(frame)
        if len(self._early) > EARLY_RESPONSES_MAX:
            self._rows.exchange(None, self._early.pop(next(iter(self._early))), None, out)

    def _take_early(self, key: EarlyKey, request: Frame, out: list[Row]) -> Response | None:
        """The response that came before its request: because the request was held up, or the two were captured out of order.

        One from further back answers a request that is not in the capture; ids do come again.
        """
        response = self._early.pop(key, None)
        if response is None or (request.file, request.packet) <= (response.file, response.packet):
            return response
        if request.file == response.file and request.packet - response.packet <= REORDERED_PACKETS_MAX:
            return response
        self._rows.exchange(None, response, None, out)
        return None


EarlyKey = tuple[str, Hashable, int | None]
"""("SEND", producer id, sequence id), or ("id", command of the response, request id)."""

_WRAPPED = frozenset({"compression", "num_messages_in_batch", "encryption_keys", "num_chunks_from_msg", "schema_version"})
"""Fields of the metadata without which a payload is bytes that the application sent: nothing to open."""

_UNKNOWN_CONSUMER = Consumer()
_UNKNOWN_PRODUCER = Producer()
_REMEMBERED = frozenset({"PRODUCER", "SUBSCRIBE"})
_ASKED_IN_ORDER = {answer: asked for asked, answer in IN_ORDER.items()}


def _response(frame: Frame) -> Response:
    # A copy: the frame is a row by now, and rows are handed over.
    return Response(frame.file, frame.packet, frame.sub, frame.time, frame.command or "", frame.fields or {})


def _put(table: dict[int, Any], number: int, value: object) -> None:
    table[number] = value
    if len(table) > IDS_MAX:
        del table[next(iter(table))]
