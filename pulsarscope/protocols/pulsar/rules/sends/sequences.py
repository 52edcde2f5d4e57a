"""Facts on the sequence ids of each producer on each connection, and on the receipts for them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, ClassVar

import msgspec

from pulsarscope.dissect.contract.rules import ColumnsHandlers, Handlers, RuleContext, Where, name_of, where_of
from pulsarscope.model.bounded_tables import NOTHING, remember
from pulsarscope.model.records import ConnectionRow, FrameRow
from pulsarscope.protocols.pulsar.replication import is_replicator
from pulsarscope.protocols.pulsar.rules.evidence import may_lack, may_lack_frames
from pulsarscope.protocols.pulsar.rules.sends.send_marks import has_same_bytes, mark_of
from pulsarscope.protocols.pulsar.rules.sends.sent import SentForm, SentRule, advise_on_batching
from pulsarscope.protocols.pulsar.topics import bounded_name, topic_of_ledger

SESSIONS = "sessions-of-producer"

PRODUCERS_MAX = 10_000
"""Most producers of one connection that are followed."""

SAMPLES_MAX = 25
"""Dropped, repeated and lower sequence ids of one producer that are listed, of each kind; their counts are exact."""

CONNECTION_SAMPLES_MAX = 10_000
"""Most such ids of all producers of one connection; the first of each kind and producer is always listed."""

DROPPED = -1
"""Ledger and entry in the receipt of a message that the broker has dropped as a duplicate."""

KEPT_MAX = 64
"""Number of first, and of latest, messages of a session that are compared with those of the next: a client resends messages without a
receipt, or its application all since its last checkpoint. Of other messages, one in this many is measured."""

REMEMBERED_MAX = 8
"""Open producers of one connection, named by their clients, whose latest messages are compared, too."""

PLAIN_FIELDS, SEND_FIELDS = 3, 2
"""Fields of the metadata, and of SEND, that a plain message has: the required ones."""

Latest = partial(deque[tuple[Any, ...]], maxlen=KEPT_MAX)
"""Makes a deque of the latest SENDs or receipts."""


class ProducerSession(msgspec.Struct):
    """The sequence ids of a producer on one connection, from its PRODUCER on; if that was before the capture, from its first SEND on."""

    where: Where
    topic: str | None = None
    name: str | None = None
    epoch: int = 0
    named: bool = False
    """True when its client gave the name, as reconnecting clients do."""
    inferred: bool = False
    """True when the capture lacks its PRODUCER."""
    copies: bool = False
    """True for a replicator, which uses the sequence ids of all the producers that it copies."""
    stored: int | None = None
    """PRODUCER_SUCCESS.last_sequence_id, the highest that the broker remembers; None or -1 when it remembers none."""
    first: int | None = None
    """Sequence id of the first SEND, and its frame."""
    first_frame: str = ""
    highest: int = -1
    """Highest sequence id sent; the id of a batch is that of its last message."""
    ranges: bool = False
    """True once it has sent a batch that gives its range of ids."""
    chunk: int | None = None
    """Sequence id of the chunked message that is being sent."""
    confirmed: int = -1
    """Highest sequence id with a receipt."""
    migrated: bool = False
    """True once the broker has redirected it to another cluster."""
    sent: int = 0
    resending: bool = False
    """True after a refused SEND, when the client resends everything that waits."""
    regressions: list[tuple[str, int, int, bool]] = msgspec.field(default_factory=list)
    """SENDs whose id is not above the highest so far: frame, id, that highest id, and whether an earlier SEND with this id had other
    bytes."""
    lower_count: int = 0
    """Number of regressions whose id is below the highest."""
    again_count: int = 0
    """Number of these that repeat a SEND byte for byte, or are chunks."""
    reused_count: int = 0
    """Number of these whose id was used by an earlier SEND with other bytes."""
    repeated_count: int = 0
    """Number of regressions whose id equals the highest."""
    dropped: list[tuple[str, int]] = msgspec.field(default_factory=list)
    """Receipts of dropped messages: frame and sequence id."""
    dropped_count: int = 0
    dropped_lowest: int = 0
    dropped_highest: tuple[str, int] = ("", -1)
    measured: int = 0
    """Number of measured SENDs: the first ones, and a sample of later ones."""
    size: int = 0
    """Bytes of payload of the measured SENDs."""
    sent_at: int = 0
    """Time of the latest measured SEND in nanoseconds."""
    first_sent: Where | None = None
    marks: dict[int, tuple[str, int, int] | None] = msgspec.field(default_factory=dict)
    """Checksum, publish time and bytes of payload of the first measured SENDs by sequence id; None without a checksum."""
    late: deque[tuple[Any, ...]] | None = None
    """Sequence ids and such marks of the latest SENDs, if they are remembered: only a client that names a producer can resume it."""
    head: list[tuple[Any, ...]] = msgspec.field(default_factory=list)
    """First receipts: sequence id, ledger, entry and SEND."""
    tail: deque[tuple[Any, ...]] = msgspec.field(default_factory=Latest)
    """Latest receipts."""
    repeated: dict[int, None] = msgspec.field(default_factory=dict)
    """Sequence ids that were sent again."""
    twice: list[tuple[int, tuple[str, str], list[str]]] = msgspec.field(default_factory=list)
    """Sequence ids with two receipts, with the message ids and the SENDs."""

    @property
    def latest(self) -> tuple[int, int]:
        """Number and time in nanoseconds of the latest measured SEND."""
        return self.sent if self.sent <= KEPT_MAX else self.sent - self.sent % KEPT_MAX, self.sent_at

    @property
    def dropped_ids(self) -> dict[int, None]:
        """The listed ids of dropped messages, and the highest one."""
        return dict.fromkeys(number for _, number in (*self.dropped, self.dropped_highest)) if self.dropped else {}

    def kept(self, receipts: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Return receipts in the form of facts: sequence id, message id, SEND and its mark."""
        marks = {**dict(self.late or ()), **self.marks}
        return [(number, f"{ledger}:{entry}", send, marks.get(number)) for number, ledger, entry, send in receipts]


class SequenceRule(SentRule):
    """The source of the facts on the producers of one connection."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._sessions: dict[int, ProducerSession] = {}
        """Open sessions by producer id."""
        self._requests: dict[str, int] = {}
        """Producer ids by frame name of their PRODUCER."""
        self._samples = self._remembered = 0
        self._form = SentForm(context)
        self._taken: list[tuple[Where, int, str, str | None]] = []
        """PRODUCERs with the id of a producer from before the capture: place, id, a SEND of the earlier producer, and topic."""

    def _producer(self, row: FrameRow) -> None:
        fields = row.fields or {}
        number, where = fields.get("producer_id", -1), where_of(row)
        self._note_taken(row, number)
        self._finish(number, where)
        self._form.opened(number, where.time)
        if len(self._sessions) < PRODUCERS_MAX:
            named, copies = bool(fields.get("producer_name")), is_replicator(row.producer_name)
            session = ProducerSession(where, row.topic, row.producer_name, fields.get("epoch", 0), named, copies=copies)
            if named and not copies and self._remembered < REMEMBERED_MAX:
                session.late, self._remembered = Latest(), self._remembered + 1
            self._sessions[number] = session
            remember(self._requests, where.name, number, PRODUCERS_MAX)

    def _note_taken(self, row: FrameRow, number: int) -> None:
        """Note a PRODUCER with the id of a producer from before the capture.

        A receipt for a SEND in the capture shows that the broker had not closed the earlier producer; a receipt for an earlier SEND may
        come after a close.
        """
        session = self._sessions.get(number)
        if session is None or not session.inferred or session.migrated or session.first is None:
            return
        if session.confirmed >= session.first and len(self._taken) < SAMPLES_MAX:
            self._taken.append((where_of(row), number, session.where.name, bounded_name(row.topic)))

    def _producer_success(self, row: FrameRow) -> None:
        fields = row.fields or {}
        if (session := self._sessions.get(self._requests.get(row.request or "", -1))) is not None:
            session.name = fields.get("producer_name", session.name)
            session.stored = fields.get("last_sequence_id", -1)

    def _refused(self, row: FrameRow) -> None:
        number = self._requests.get(row.request or "", -1)
        if (session := self._sessions.get(number)) is not None and session.where.name == row.request:
            self._finish(number, where_of(row))
            self._form.closed(number, row)

    def _send(self, row: FrameRow) -> None:
        fields, metadata = row.fields or {}, row.metadata or {}
        if len(metadata) > PLAIN_FIELDS or len(fields) > SEND_FIELDS:
            self._form.check(row, fields, metadata)
        session = self._sessions.get(producer := fields.get("producer_id", -1))
        if (session is None or session.inferred) and self._form.homeless(row, producer):
            return
        if session is None:
            if len(self._sessions) >= PRODUCERS_MAX:
                return
            session = ProducerSession(where_of(row), row.topic, metadata.get("producer_name"), inferred=True)
            self._sessions[producer] = session
        session.copies = session.copies or "replicated_from" in metadata
        if session.copies:
            return
        number = fields.get("sequence_id", -1)
        is_chunk = fields.get("is_chunk") or "chunk_id" in metadata
        session.sent = sent = session.sent + 1
        known = session.marks.get(number)
        if sent <= KEPT_MAX or not sent % KEPT_MAX:
            session.measured += 1
            session.size += row.payload_size or 0
            session.sent_at = row.time
            self._form.note_time(row, metadata)
            if sent <= KEPT_MAX:
                session.marks[number] = mark_of(row, metadata)
        if session.late is not None and sent > KEPT_MAX:
            session.late.append((number, mark_of(row, metadata)))
        if session.first is None:
            session.first, session.first_sent = number, where_of(row)
            session.first_frame = session.first_sent.name
        is_next_chunk = is_chunk and (number == session.chunk or metadata.get("chunk_id", 0) > 0)
        if number <= session.highest and not is_next_chunk and not session.resending:
            repeated = number == session.highest
            is_again = is_chunk or (known is not None and has_same_bytes(known, mark_of(row, metadata)))
            is_reused = known is not None and not is_again
            if self._admit_sample(session.repeated_count if repeated else session.lower_count):
                session.regressions.append((name_of(row), number, session.highest, is_reused))
            session.repeated_count += repeated
            session.lower_count += not repeated
            session.again_count += not repeated and is_again
            session.reused_count += not repeated and is_reused
            if not is_chunk and not is_reused and len(session.repeated) < SAMPLES_MAX:
                session.repeated[number] = None
        session.chunk = number if is_chunk else None
        last = fields.get("highest_sequence_id", -1)
        session.ranges = session.ranges or last > number
        session.highest = max(session.highest, number, last)

    def _receipt(self, row: FrameRow) -> None:
        fields = row.fields or {}
        if (session := self._sessions.get(fields.get("producer_id", -1))) is None or session.copies:
            return
        number = fields.get("sequence_id", -1)
        message_id = fields.get("message_id")
        if message_id is None:
            session.confirmed = max(session.confirmed, number)
            return
        ledger, entry = message_id.get("ledgerId"), message_id.get("entryId")
        if ledger == entry == DROPPED:
            self._dropped(session, number, name_of(row))
            return
        if number > session.confirmed:  # noqa: PLR1730 - for every receipt: quicker than a call
            session.confirmed = number
        receipt = number, ledger, entry, row.request
        if session.repeated and number in session.repeated:
            self._repeated(session, receipt)
        if len(session.head) < KEPT_MAX:
            session.head.append(receipt)
        else:
            session.tail.append(receipt)

    @staticmethod
    def _repeated(session: ProducerSession, receipt: tuple[Any, ...]) -> None:
        """Note a second receipt for a sequence id; entries of non-persistent topics have no ids."""
        number, ledger, entry, send = receipt
        for first, *position, first_send in (*session.head, *session.tail):
            if first == number and position != [ledger, entry] and ledger and len(session.twice) < SAMPLES_MAX:
                ids = f"{position[0]}:{position[1]}", f"{ledger}:{entry}"
                session.twice.append((number, ids, [name for name in (first_send, send) if name]))
                return

    def _dropped(self, session: ProducerSession, number: int, frame: str) -> None:
        if self._admit_sample(session.dropped_count):
            session.dropped.append((frame, number))
        session.dropped_lowest = min(number, session.dropped_lowest) if session.dropped_count else number
        if number > session.dropped_highest[1]:
            session.dropped_highest = frame, number
        session.dropped_count += 1

    def _admit_sample(self, count: int) -> bool:
        """Count a sample of a kind of which the producer already has `count`. Return False if there are enough."""
        if count and (count >= SAMPLES_MAX or self._samples >= CONNECTION_SAMPLES_MAX):
            return False
        self._samples += 1
        return True

    def _send_error(self, row: FrameRow) -> None:
        if (session := self._sessions.get((row.fields or {}).get("producer_id", -1))) is not None:
            session.resending = True

    def _close(self, row: FrameRow) -> None:
        number = (row.fields or {}).get("producer_id", -1)
        self._finish(number, where_of(row), closed=True)
        self._form.closed(number, row)

    def _migrated(self, row: FrameRow) -> None:
        fields = row.fields or {}
        session = self._sessions.get(fields.get("resource_id", -1))
        if session is not None and str(fields.get("resource_type", "")).lower() == "producer":
            session.migrated = True

    def end(self, row: ConnectionRow, last: Where) -> None:
        """Emit the sessions of all open producers, and evaluate the form of the SENDs."""
        self._form.end(row)
        for number in [*self._sessions]:
            self._finish(number, last)
        if not may_lack_frames(self._context):
            for where, number, before, topic in self._taken:
                text = f"PRODUCER for {topic} has the producer id {number}: that of {before}, from before the capture, is open."
                evidence = {"frames": [before, where.name], "count": 1, "producer_id": number, "topic": None, "second_topic": topic}
                self._context.report("producer-id-reused", where, text, evidence)

    def _finish(self, number: int, until: Where, *, closed: bool = False) -> None:
        session = self._sessions.pop(number, None)
        if session is not None and session.late is not None:
            self._remembered -= 1
        if session is None or session.name is None or session.copies:
            return
        ledger = topic_of_ledger({"ledgerId": session.head[0][1]}) if session.head else None
        if (topic := session.topic or ledger) is None:
            return
        batches = number in self._form.batched or session.chunk is not None
        if session.sent and not batches:
            names = {"topic": topic, "producer_name": session.name}
            advise_on_batching(self._context, names, session.first_sent, session.sent, session.size // session.measured, *session.latest)
        constant = session.first == session.highest and session.sent > 2  # a client without sequence numbers
        # A session is emitted at its end, with the place of its beginning: sessions of a producer are compared in the order of their
        # beginnings.
        source, file, packet, sub, began, connection = session.where
        where = Where(source, file, packet, sub, until.time, connection)
        values = {
            "began": began,
            "topic": session.topic,
            "client": self._context.client,
            "epoch": session.epoch,
            "stored": session.stored,
            "first": session.first,
            "first_frame": session.first_frame,
            "highest": session.highest,
            "confirmed": session.confirmed,
            "sent": session.sent,
            "regressions": session.regressions,
            "lower_count": session.lower_count,
            "again_count": session.again_count,
            "reused_count": session.reused_count,
            "interleaves": session.ranges or number in self._form.batched,
            "uncertain": may_lack(self._context, began, until.time),
            "repeated_count": session.repeated_count,
            "dropped": session.dropped,
            "dropped_marks": [(sent, session.marks.get(sent)) for sent in session.dropped_ids],
            "dropped_count": session.dropped_count,
            "dropped_lowest": session.dropped_lowest,
            "dropped_highest": session.dropped_highest,
            "head": session.kept(session.head),
            "tail": session.kept((*session.head, *session.tail)[-KEPT_MAX:]),
            "closed": closed,
            "twice": [] if constant else session.twice,
            "lost": session.inferred or self._context.lost,
        }
        topics = [topic]
        if session.named and ledger not in (None, topic):  # for comparison with a session from before the capture
            topics.append(ledger)
        self._context.emit_facts(SESSIONS, [f"{each}\n{session.name}" for each in topics], where, "session", values)

    def batch(self, rows: Sequence[Any], handle: Callable[[int], None]) -> None:
        """Only count plain SENDs and receipts after the first ones; see `ConnectionRule.batch`."""
        sessions = self._sessions
        for index, row in enumerate(rows):
            fields, command = row.fields or NOTHING, row.command
            number: Any = fields.get("sequence_id")
            session = None if number is None or "producer_id" not in fields else sessions.get(fields["producer_id"])
            if session is None:
                handle(index)
            elif command == "SEND_RECEIPT":
                message_id = fields.get("message_id") or NOTHING
                ledger, entry = message_id.get("ledgerId"), message_id.get("entryId")
                if ledger is None or ledger == entry or session.repeated or len(session.head) < KEPT_MAX:
                    handle(index)
                    continue
                if number > session.confirmed:  # noqa: PLR1730 - for every receipt: quicker than a call
                    session.confirmed = number
                session.tail.append((number, ledger, entry, row.request))
            elif command == "SEND":
                metadata, sent = row.metadata or NOTHING, session.sent + 1
                is_plain = len(metadata) <= PLAIN_FIELDS and "chunk_id" not in metadata and len(fields) == SEND_FIELDS
                if session.inferred:
                    is_plain = is_plain and self._form.counts_homeless(fields["producer_id"])
                if not is_plain or sent <= KEPT_MAX or not sent % KEPT_MAX or number <= session.highest:
                    handle(index)
                    continue
                if session.inferred:
                    self._form.count_homeless(1)
                session.sent, session.chunk, session.highest = sent, None, number
                if session.late is not None:
                    session.late.append((number, mark_of(row, metadata)))
            else:
                handle(index)

    def sends(self, frames: Any, handle: Callable[[int], None]) -> bool:  # noqa: ARG002 - of rows
        """Only count plain SENDs and receipts after the first ones; see `ConnectionRule.columns`."""
        producers = frames.producers
        sessions = [self._sessions.get(producer.id) for producer in producers]
        if not all(map(self._is_plain, producers, sessions)) or not self._form.has_room(len(producers)):
            return False
        self._form.begin_columns(frames)
        for number, (producer, session) in enumerate(zip(producers, sessions, strict=True)):
            count = len(producer.sends)
            if producer.compressed is not None:
                self._form.count_compressed(producer.id, *frames.compressed(number))
            if session is None or session.inferred:
                self._form.count_homeless(count)
            if session is None:
                continue
            if (sampled := frames.sampled(number, -(session.sent + 1) % KEPT_MAX, KEPT_MAX)) is not None and not session.copies:
                measured, size, session.sent_at, *times = sampled
                session.measured, session.size = session.measured + measured, session.size + size
                self._form.note_times(*times)
            if count:
                if session.late is not None:
                    session.late.extend(frames.marks(number, max(0, count - KEPT_MAX)))
                session.sent, session.chunk, session.highest = session.sent + count, None, producer.highest_ids[-1]
                session.ranges = session.ranges or producer.ranges
            if producer.receipts:
                session.confirmed = max(session.confirmed, producer.confirmed)
                session.tail.extend(frames.latest(number, KEPT_MAX))
        return True

    def _is_plain(self, producer: Any, session: ProducerSession | None) -> bool:
        """Return True when SENDs in columns have ascending sequence ids, and they and their receipts come after the first ones."""
        numbers = producer.sequence_ids
        if session is None:
            return not numbers or (self._form.counts_homeless(producer.id) and len(self._sessions) >= PRODUCERS_MAX)
        plain = not numbers or (session.sent >= KEPT_MAX and producer.ascending and numbers[0] > session.highest)
        plain = plain and not (session.inferred and numbers and not self._form.counts_homeless(producer.id))
        return plain and not (producer.receipts and (session.repeated or len(session.head) < KEPT_MAX))

    columns: ClassVar[ColumnsHandlers] = {"SEND": sends}
    frames: ClassVar[Handlers] = {
        **SentRule.frames,
        "PRODUCER": _producer,
        "PRODUCER_SUCCESS": _producer_success,
        "CLOSE_PRODUCER": _close,
        "TOPIC_MIGRATED": _migrated,
        "SEND": _send,
        "SEND_RECEIPT": _receipt,
        "SEND_ERROR": _send_error,
        "ERROR": _refused,
    }
