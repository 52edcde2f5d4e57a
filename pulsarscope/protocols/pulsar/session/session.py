"""The session of a Pulsar connection: producers and consumers by id, requests and responses, messages."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from pulsarscope.dissect.contract.events import DELIVER, PRODUCE, Event, Remark
from pulsarscope.dissect.contract.exchange import Request, elapsed, response_of
from pulsarscope.dissect.contract.frames import Note
from pulsarscope.dissect.contract.session import Session, SessionContext, SessionFrames
from pulsarscope.model.bounded_tables import NOTHING, drop_oldest, remember
from pulsarscope.model.flow import CLIENT, SERVER
from pulsarscope.model.limits import PENDING_NAMES_MAX_BYTES, PENDING_REQUESTS_MAX
from pulsarscope.model.records import ConnectionRow, FrameRow
from pulsarscope.protocols.pulsar.ack_sets import left_of
from pulsarscope.protocols.pulsar.frame.protobuf import Plan
from pulsarscope.protocols.pulsar.metadata_fields import METADATA_COMMON_BYTES, WRAPPED
from pulsarscope.protocols.pulsar.session.batch_sizes import BatchSizes
from pulsarscope.protocols.pulsar.session.description import describe, of_client, of_server
from pulsarscope.protocols.pulsar.session.exchanges import ANSWERED_BY, IN_ORDER, RESPONSES
from pulsarscope.protocols.pulsar.session.frame_columns import observe_frames, open_frames
from pulsarscope.protocols.pulsar.session.mixed_keys import KeyConsumer, add_consumer, examine
from pulsarscope.protocols.pulsar.session.names import NAMING_COMMANDS, NO_NAMES, TOPICS_OF, Consumer, Names
from pulsarscope.protocols.pulsar.session.open_requests import ASKED_IN_ORDER, EarlyKey, OpenRequests
from pulsarscope.protocols.pulsar.session.remarks import incomplete, report_notes
from pulsarscope.protocols.pulsar.session.sends import IDS_MAX, Producer, Sends, Sent, early_key, opened, receipt_key, request_of
from pulsarscope.protocols.pulsar.topics import bounded_name, topic_of_ledger
from pulsarscope.protocols.pulsar.values.schema_commands import SCHEMA_COMMANDS

if TYPE_CHECKING:
    from pulsarscope.protocols.pulsar.entry.reader import Entry, EntryOpener
    from pulsarscope.protocols.pulsar.session.awaiting_schema import Late, UnreadEntries
    from pulsarscope.protocols.pulsar.values.connection_values import Values

_UNKNOWN_CONSUMER = Consumer()
_UNKNOWN_PRODUCER = Producer()
_NO_BATCHES = BatchSizes()


class PulsarSession(Session):
    """The state of one Pulsar connection, bounded by constants."""

    # fmt: off
    __slots__ = (
        "_awaits_schemas", "_batch_sizes", "_client", "_consumers", "_creating", "_examined", "_from_start", "_names_bytes", "_opens",
        "_opens_payloads", "_requests", "_sends", "_server", "_settings", "_single_plan", "_wants_messages",
    )
    # fmt: on

    def __init__(self, context: SessionContext, single_plan: Plan) -> None:
        settings = context.settings
        self._wants_messages = "message" in settings.kinds
        self._opens_payloads = self._wants_messages or settings.payloads
        self._single_plan, self._settings, self._from_start = single_plan, settings, context.from_start
        self._opens = False  # some payload was opened
        self._awaits_schemas = False  # some deliveries wait, or have waited, for a schema
        self._requests = OpenRequests(context.pairing, settings.kinds)
        self._sends = Sends(self._requests)
        self._consumers: dict[int, Consumer] = NOTHING
        self._examined: dict[int, KeyConsumer] = NOTHING  # consumers whose entries are examined; they are not among the others
        self._batch_sizes: BatchSizes | None = None
        self._client: tuple[Any, Any, Any] | None = None  # its version, protocol version and authentication method
        self._server: tuple[Any, Any] | None = None  # its version and protocol version
        self._names_bytes = 0  # of producers and consumers, including earlier ones with their ids
        self._creating: dict[int, int] = NOTHING  # request_id of a PRODUCER → its producer_id

    # Made and imported on first use: most connections have nothing to open, or nothing is requested.

    @cached_property
    def _values(self) -> Values | None:
        """Values of messages; None if they are not requested."""
        settings = self._settings
        columns = settings.message_columns if self._wants_messages else ()
        if not self._opens_payloads or (columns and "value" not in columns):
            return None
        from pulsarscope.protocols.pulsar.values.connection_values import Values  # noqa: PLC0415 - see above

        return Values(settings.schemas, settings.payload_decoders)

    @cached_property
    def _unread(self) -> UnreadEntries | None:
        """Deliveries that wait for a schema."""
        from pulsarscope.protocols.pulsar.session.awaiting_schema import UnreadEntries  # noqa: PLC0415 - see above

        return None if self._values is None else UnreadEntries(self._values)

    @cached_property
    def _opener(self) -> EntryOpener:
        """Opener of entries."""
        from pulsarscope.protocols.pulsar.entry.reader import EntryOpener  # noqa: PLC0415 - see above

        self._opens = True
        settings = self._settings
        columns = settings.message_columns if self._wants_messages else ()
        return EntryOpener(self._single_plan, settings.payload, columns, settings.private_keys, self._values, from_start=self._from_start)

    # ---- the contract

    def observe(self, frames: SessionFrames, events: list[Event]) -> None:
        """Complete the frames. SEND and its receipt are usually handled here, without a call; methods handle everything else."""
        wants_exchanges, opens_payloads = self._requests.wants_exchanges, self._opens_payloads
        requests, sends = self._requests, self._sends
        producers = sends.producers
        for frame in frames:
            command, fields = frame.command, frame.fields
            if fields is None:
                continue
            if command == "SEND":
                producer = producers.get(fields.get("producer_id", -1)) or sends.unknown_producer(fields, events)
                metadata = frame.metadata
                frame.topic = producer.topic
                if metadata is None:
                    frame.producer_name = producer.name
                else:
                    frame.producer_name = metadata.get("producer_name", producer.name)
                    if producer.name is None:
                        producer.name = bounded_name(frame.producer_name)
                    frame.num_messages = metadata.get("num_messages_in_batch", 1)
                    if "replicated_from" in metadata:
                        sends.note_source(producer, fields, metadata)
                entry = self._open_send(frames, frame, producer, events) if opens_payloads and metadata is not None else None
                sent = Sent(frame.file, frame.packet, frame.sub, frame.time, fields.get("sequence_id", -1), entry)
                if not (requests.early and self._is_settled(frame, fields, producer, sent, events)):
                    producer.waiting.append(sent)
                    sends.waiting += 1
                    if entry is not None or producer.known is not None or sends.waiting > PENDING_REQUESTS_MAX:
                        sends.bound(producer, sent, events)
            elif command == "SEND_RECEIPT" or command == "SEND_ERROR":  # noqa: PLR1714 - twice as fast
                number = fields.get("producer_id", -1)
                producer = producers.get(number) or sends.unknown_producer(fields, events)
                if producer.topic is None:
                    producer.topic = self._topic_of(fields.get("message_id"))
                frame.topic = producer.topic
                frame.producer_name = producer.name
                waiting = producer.waiting
                sequence_id = fields.get("sequence_id", -1)
                if producer.copied:  # brokers name the message's place in its own cluster, if both sides can
                    sequence_id = producer.copied.pop((sequence_id, fields.get("highest_sequence_id", 0)), sequence_id)
                answered: Sent | None = None
                if waiting:
                    fits = waiting[0].sequence_id == sequence_id
                    answered = waiting.popleft() if fits else sends.take(command, number, sequence_id, producer, events)
                if answered is not None:
                    sent = answered
                    sends.waiting -= 1
                    # As `frame_name`, without the call: this is done for every receipt.
                    frame.request = f"{sent.file}:{sent.packet}.{sent.sub}"
                    if sent.time <= frame.time and sent.packet <= frame.packet and sent.file == frame.file:
                        frame.latency_ns = latency = frame.time - sent.time
                    else:
                        frame.latency_ns = latency = elapsed(sent, frame)  # type: ignore[assignment]
                    if wants_exchanges or latency is None:
                        requests.report(request_of(number, producer, sent), response_of(frame), events)
                    if requests.anchors.left:
                        requests.anchors.received(sent, frame, fields, events)
                    if sent.entry is not None:
                        if sent.entry.base.topic is None:
                            sent.entry.base.topic = producer.topic
                        sends.release(sent, fields.get("message_id"), events)
                else:
                    requests.remember(receipt_key(number, producer, fields), frame, events)
            elif command == "MESSAGE":
                self._message(frames, frame, fields, events)
            else:
                self._other(frame, fields, events)

    def observe_columns(self, columns: Any, place: int) -> int:
        if self._meets_values():
            return place
        if self._wants_messages:
            return open_frames(columns, (place, len(columns)), self._known(), self._opener, self._sends)
        return observe_frames(columns, place, self._known(), self._sends, (lambda: self._opener) if self._opens_payloads else None)

    def open_columns(self, columns: Any, places: tuple[int, int], entries: list[Event]) -> int:
        if not self._wants_messages or self._meets_values():
            return places[0]
        return open_frames(columns, places, self._known(), self._opener, self._sends, entries)

    def _meets_values(self) -> bool:
        """Return True when messages may have values, or wait for a schema."""
        return self._awaits_schemas or (self._opens_payloads and self._values is not None and self._values.are_known)

    def _known(self) -> tuple[Any, ...]:
        """Return the state that the compiled reader needs."""
        requests = self._requests
        return self._sends.producers, self._consumers, requests.early, self._remember_batch, requests.anchors.commands

    def finish(self, events: list[Event]) -> None:
        """Append unanswered requests, unrequested responses, and messages without a receipt."""
        if self._awaits_schemas and self._unread is not None:
            self._report_late(self._unread.finish(), events)
        self.let_go(events)

    def waits(self) -> int:
        chunks = self._opener.waits() if self._opens else 0
        return chunks + self._sends.waits() + self._requests.waits() + self._names_bytes

    def let_go(self, events: list[Event]) -> None:
        """Append what waits, and drop it; producers and consumers stay known."""
        for (direction, number), row in self._opener.rest() if self._opens else ():
            row.direction = direction
            if direction == PRODUCE:
                row.topic, row.producer_id = (self._sends.producers.get(number) or _UNKNOWN_PRODUCER).topic, number
            else:
                consumer = self._consumer(number) or _UNKNOWN_CONSUMER
                row.topic, row.subscription, row.consumer_id = consumer.topic, consumer.subscription, number
            if self._wants_messages:
                events.append(self._opener.entry(row))
            events.append(incomplete(row))
        self._requests.finish(self._sends.finish(events), events)

    def describe(self, row: ConnectionRow) -> None:
        """Fill in versions and authentication, from CONNECT and CONNECTED."""
        describe(row, self._client, self._server)

    # ---- names from before the capture

    def _topic_of(self, message_id: Any) -> str | None:
        """Return the topic of the ledger in a message id: its name in the user's files, or a placeholder."""
        stand_in = topic_of_ledger(message_id)
        return stand_in and self._settings.names.get(stand_in, stand_in)

    def _consumer(self, number: int) -> Consumer | None:
        return self._consumers.get(number) or self._examined.get(number)

    def _attached(self, number: int, message_id: Any, events: list[Event]) -> Consumer:
        """Return a consumer that has no topic, or is not known, and give it the topic of a message id from now on."""
        topic = self._topic_of(message_id)
        consumer = self._consumer(number)
        if topic is None:
            return consumer or _UNKNOWN_CONSUMER
        consumer = Consumer(topic, None if consumer is None else consumer.subscription)
        self._consumers = self._consumers or {}
        remember(self._consumers, number, consumer, IDS_MAX)
        self._bound_names((topic, None, None), events)
        return consumer

    # ---- SEND and MESSAGE

    def _is_settled(self, frame: FrameRow, fields: dict[str, Any], producer: Producer, sent: Sent, events: list[Event]) -> bool:
        """Return True when the receipt of this SEND became readable before the SEND."""
        if fields.get("is_chunk"):  # chunks share a sequence id: an early receipt may belong to the previous chunk
            return False
        producer_id = fields.get("producer_id", -1)
        if (receipt := self._requests.take_early(early_key(producer_id, producer, sent.sequence_id), frame, events)) is None:
            return False
        self._requests.report(request_of(producer_id, producer, sent), receipt, events)
        self._sends.release(sent, receipt.fields.get("message_id"), events)
        return True

    def _open_send(self, frames: SessionFrames, frame: FrameRow, producer: Producer, events: list[Event]) -> Entry | None:
        if self._is_plain(frame.metadata or {}):
            return None
        notes: list[Note] = []
        number = (frame.fields or {}).get("producer_id", -1)
        payload = frames.payload or b""
        entry = self._opener.open(frame, payload, (PRODUCE, number), notes)
        if entry is not None:
            base = entry.base
            base.direction, base.topic, base.producer_id = PRODUCE, producer.topic, number
            entry.metadata_bytes += max(frame.size - len(payload) - METADATA_COMMON_BYTES, 0)
        report_notes(frame, notes, events)
        return entry if self._wants_messages else None

    def _message(self, frames: SessionFrames, frame: FrameRow, fields: dict[str, Any], events: list[Event]) -> None:
        number = fields.get("consumer_id", -1)
        consumer = self._consumer(number) or _UNKNOWN_CONSUMER
        if consumer.topic is None:
            consumer = self._attached(number, fields.get("message_id"), events)
        metadata = frame.metadata
        frame.topic = consumer.topic
        frame.subscription = consumer.subscription
        if metadata is None:
            return
        frame.producer_name = metadata.get("producer_name")
        messages = metadata.get("num_messages_in_batch", 1)
        ack_set = fields.get("ack_set")
        frame.num_messages = left_of(ack_set, messages) if ack_set else messages
        if self._requests.anchors.left:
            self._requests.anchors.delivered(frame, fields)
        if messages > 1:
            self._remember_batch(fields.get("message_id") or {}, messages)
        if not self._opens_payloads:
            return
        notes: list[Note] = []
        entry = None if self._is_plain(metadata) else self._opener.open(frame, frames.payload or b"", (DELIVER, number), notes)
        report_notes(frame, notes, events)
        if number in self._examined:
            examine(self._examined, self._consumers, frame, entry, events)
        if entry is None:
            return
        base = entry.base
        base.direction, base.topic, base.subscription, base.consumer_id = DELIVER, consumer.topic, consumer.subscription, number
        base.redelivery_count = fields.get("redelivery_count")
        entry.set_id(fields.get("message_id") or {})
        if ack_set:
            entry.acknowledge(ack_set)
        if self._unread is not None and entry.unread is not None:
            late = response_of(frame)
            late.fields = {"offset": frame.offset, "size": frame.size}
            self._awaits_schemas = True
            self._report_late(self._unread.add(entry, entry.unread, late), events)
        elif self._wants_messages:
            events.append(entry)

    def _remember_batch(self, message_id: dict[str, Any], messages: int) -> None:
        """Remember the number of messages of a delivered batch."""
        self._batch_sizes = self._batch_sizes or BatchSizes()
        self._batch_sizes.delivered(message_id, messages)

    def _report_late(self, late: list[Late], events: list[Event]) -> None:
        """Report entries that waited for their schema."""
        for entry, frame, notes in late:
            events.extend([Remark(code, frame, text, frame.fields) for code, text in notes])
            if self._wants_messages:
                events.append(entry)

    def _is_plain(self, metadata: dict[str, Any]) -> bool:
        """Return True when opening the payload would yield nothing to report."""
        if self._wants_messages or not metadata.keys().isdisjoint(WRAPPED):
            return False
        return self._values is None or not self._values.are_known

    # ---- all other commands

    def _other(self, frame: FrameRow, fields: dict[str, Any], events: list[Event]) -> None:
        command, direction = frame.command or "", frame.direction
        if self._opens_payloads:
            if command in SCHEMA_COMMANDS and self._unread is not None:
                self._report_late(self._unread.observe(command, fields), events)
            if self._awaits_schemas and self._unread is not None and self._unread.deadline < frame.time:
                self._report_late(self._unread.overdue(frame.time), events)
        if command == "ACK":
            frame.extra = (self._batch_sizes or _NO_BATCHES).acknowledged(fields)
            if self._consumer(fields.get("consumer_id", -1)) is None and (acknowledged := fields.get("message_id")):
                self._attached(fields.get("consumer_id", -1), acknowledged[0], events)
            self._requests.anchors.acknowledged(frame, fields, events)
        elif command == "CLOSE_PRODUCER":
            self._close_producer(fields.get("producer_id", -1))
        names = topic, name, subscription = self._names(command, fields) if command in NAMING_COMMANDS else NO_NAMES
        if command in TOPICS_OF:
            topics = TOPICS_OF[command](fields)
            if len(topics) > 1:
                frame.topics = {several: {"messages": 0, "bytes": 0} for several in topics}
            topic = topics[0] if len(topics) == 1 else None
        if direction == CLIENT and command in ANSWERED_BY and isinstance(number := fields.get("request_id"), int):
            if command in ("PRODUCER", "SUBSCRIBE"):
                self._register(frame, fields, names, events)
            asked = Request(frame.file, frame.packet, frame.sub, frame.time, command, str(number), topic, name, subscription)
            response = self._requests.ask((ANSWERED_BY[command], number), frame, asked, events)
            if response is not None and response.command == "PRODUCER_SUCCESS":
                self._name_producer(response.fields)
        elif command in IN_ORDER:
            if command == "CONNECT":
                self._client = of_client(fields)
            asked = Request(frame.file, frame.packet, frame.sub, frame.time, command, None, *names)
            self._requests.ask((command, direction), frame, asked, events)
        else:
            if command == "CONNECTED":
                self._server = of_server(fields)
            elif command == "PRODUCER_SUCCESS" and fields.get("producer_ready") is not False:
                self._name_producer(fields)
            request = self._requests.answered(command, fields, direction)
            if request is not None:
                topic = topic or request.topic
                name = name or request.producer_name
                subscription = subscription or request.subscription
                if command == "ERROR" and request.command == "PRODUCER":
                    self._close_producer(self._creating.pop(fields.get("request_id", -1), -1))
                self._requests.answer(frame, fields, request, events)
            elif command in RESPONSES or command == "ERROR" or command in ASKED_IN_ORDER:
                early: EarlyKey | None = ("id", command, fields.get("request_id")) if "request_id" in fields else None
                if command in ASKED_IN_ORDER:
                    early = command, SERVER if direction == CLIENT else CLIENT, None
                self._requests.remember(early, frame, events)
        if topic is not None:
            frame.topic = topic
        if name is not None:
            frame.producer_name = name
        if subscription is not None:
            frame.subscription = subscription

    def _names(self, command: str, fields: dict[str, Any]) -> Names:
        """Return the topic, the producer and the subscription that a command is about."""
        get = fields.get
        topic, name, subscription = get("topic"), get("producer_name"), get("subscription")
        if topic.__class__ is list:  # WATCH_TOPIC_LIST_SUCCESS: not a single topic
            topic = None
        if subscription is not None and subscription.__class__ is not str:
            nested: dict[str, Any] = subscription if isinstance(subscription, dict) else {}
            topic, subscription = nested.get("topic", topic), nested.get("subscription")
        if topic or name or subscription:
            topic, name, subscription = bounded_name(topic), bounded_name(name), bounded_name(subscription)
        consumer_id, producer_id = get("consumer_id"), get("producer_id")
        if consumer_id is not None and command not in ("SUBSCRIBE", "SCALABLE_TOPIC_SUBSCRIBE"):
            consumer = self._consumer(consumer_id)
            if consumer is not None:
                topic, subscription = consumer.topic, consumer.subscription
        elif producer_id is not None and command != "PRODUCER":
            producer = self._sends.producers.get(producer_id)
            if producer is not None:
                topic, name = producer.topic, producer.name
        return topic, name, subscription

    def _register(self, frame: FrameRow, fields: dict[str, Any], names: Names, events: list[Event]) -> None:
        """Register the id of a PRODUCER or SUBSCRIBE."""
        if frame.command == "SUBSCRIBE":
            self._consumers, self._examined = self._consumers or {}, self._examined or {}
            add_consumer(self._consumers, self._examined if self._opens_payloads else None, fields, names, frame.time)
            self._bound_names(names, events)
            return
        topic, name, _ = names
        number = fields.get("producer_id", -1)
        before = self._sends.producers.get(number)
        if before is not None and before.open and before.topic != topic:
            return  # the broker answers with success or an error, and keeps the producer with this id
        if before is not None:
            self._sends.give_up(number, before, events)
        self._sends.add_producer(number, opened(topic, name), events)
        self._requests.forget_receipts(number, frame, events)  # receipts of the previous producer with this id
        self._bound_names(names, events)
        self._creating = self._creating or {}
        remember(self._creating, fields.get("request_id", -1), number, IDS_MAX)

    def _bound_names(self, names: Names, events: list[Event]) -> None:
        """Count newly remembered names; if all are too long, forget the older half of the producers and consumers."""
        topic, name, subscription = names
        self._names_bytes += len(topic or "") + len(name or "") + len(subscription or "")
        if self._names_bytes <= PENDING_NAMES_MAX_BYTES:
            return
        producers, consumers, examined = self._sends.producers, self._consumers, self._examined
        for number, producer in drop_oldest(producers, len(producers) // 2):
            self._sends.give_up(number, producer, events)
        drop_oldest(consumers, len(consumers) // 2)
        drop_oldest(examined, len(examined) // 2)
        self._names_bytes = sum(len(each.topic or "") + len(each.name or "") for each in producers.values())
        self._names_bytes += sum(len(each.topic or "") + len(each.subscription or "") for each in (*consumers.values(), *examined.values()))

    def _close_producer(self, number: int) -> None:
        """Note that the id may be given to another producer."""
        if (producer := self._sends.producers.get(number)) is not None:
            producer.open = False

    def _name_producer(self, fields: dict[str, Any]) -> None:
        """Give a producer that chose no name the broker's name for it, from PRODUCER_SUCCESS."""
        number = self._creating.pop(fields["request_id"], None) if "request_id" in fields else None
        producer = None if number is None else self._sends.producers.get(number)
        if producer is not None:
            producer.name = bounded_name(fields.get("producer_name", producer.name))
