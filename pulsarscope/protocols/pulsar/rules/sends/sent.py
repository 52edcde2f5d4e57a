"""The form of SENDs, and advice for their producers. SENDs are checked as they pass, and evaluated when the connection ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from pulsarscope.dissect.contract.rules import ConnectionRule, Handlers, RuleContext, Where, name_of, where_of
from pulsarscope.model.bounded_tables import remember
from pulsarscope.model.findings import SESSION, TUNING, table
from pulsarscope.model.flow import CLIENT, SERVER
from pulsarscope.model.records import ConnectionRow, FrameRow
from pulsarscope.model.text import duration, plural
from pulsarscope.model.thresholds import counted, in_seconds
from pulsarscope.model.units import MILLISECOND
from pulsarscope.protocols.pulsar.rules.evidence import SAMPLES_MAX, add_sample, capitalized, may_lack_frames

CODES = table(
    SESSION.warning(
        "send-without-producer",
        "A client sent messages with the id of a producer that is not open.",
        "The broker ignores them, or closes the connection: nothing is stored. PRODUCER and its answer come first, and nothing "
        "after CLOSE_PRODUCER.",
        ("connection-closed-by-broker",),
        to_act="the client library",
    ),
    SESSION.warning(
        "num-messages-mismatch",
        "SEND and its metadata announce different numbers of messages.",
        "Brokers count and limit by one, consumers read by the other: permits and statistics go wrong. Look at the client's library.",
        to_act="the client library",
    ),
    SESSION.warning(
        "uncompressed-size-missing",
        "A compressed payload does not say how large it is without compression.",
        "Java and C++ clients cannot read it without uncompressed_size in the metadata: look at the producer's library.",
        to_act="the producer's application",
    ),
    TUNING.note(
        "batching-unused",
        "A producer sends many small messages, each in an entry of its own.",
        "Batching makes one write, one entry and one receipt of many: turn it on (key-based for Key_Shared), and send asynchronously.",
    ),
    TUNING.note(
        "compression-useless",
        "Compressed payloads are hardly smaller than without compression.",
        "It costs time on both sides for nothing: turn it off, or batch messages so that there is something to compress.",
    ),
)

THRESHOLDS = (
    in_seconds(
        "send-without-producer-seconds",
        1,
        "Time after the broker closes a producer in which SENDs may still be on their way.",
        "send-without-producer",
    ),
    in_seconds(
        "send-without-producer-known-seconds",
        0.35,
        "Time that is enough when the publish time, or the pause before the SEND, shows that it was not on its way.",
        "send-without-producer",
    ),
    in_seconds(
        "send-without-producer-unaware-seconds",
        5,
        "Time from the close of a producer until its client looks up the topic, or asks for a producer: a client that stood still read the "
        "close only then.",
        "send-without-producer",
    ),
    in_seconds(
        "send-without-producer-stop-seconds",
        30,
        "Time from the close of a producer to that of its connection, both by a broker that stops: SENDs meanwhile, which it ignores, are "
        "no cause.",
        "send-without-producer",
    ),
    counted("batching-unused-messages", 100, "messages", "Messages that are sent one by one.", "batching-unused", least=2),
    counted("batching-unused-rate", 50, "messages/s", "Messages in a second; fewer cost next to nothing.", "batching-unused", least=0),
    in_seconds("batching-unused-seconds", 0.5, "Time over which they are sent; a short burst may be all there is.", "batching-unused"),
    counted(
        "batching-unused-bytes", 1000, "bytes", "Average size of a message; batches of larger ones gain little.", "batching-unused", least=0
    ),
    counted(
        "compression-useless-entries", 10, "entries", "Entries of one producer; a single one may not be typical.", "compression-useless"
    ),
    counted(
        "compression-useless-percent",
        2,
        "percent",
        "Share of the bytes that compression saves: of batches whose payloads cannot be compressed, the heads of messages can.",
        "compression-useless",
        least=0,
    ),
)

PRODUCERS_MAX = 10_000
"""Most producers of one connection whose compression is counted, and most closed ones that are remembered."""

UNREAD_TOPICS_MAX = 1_000
"""Most topics with producers that the broker closed while their client has not reacted."""

UNREAD_MAX = 100
"""Most such producers of a topic."""

EMPTY_MAX_BYTES = {"LZ4": 1, "SNAPPY": 1, "ZLIB": 8, "ZSTD": 13}
"""Size of the longest compressed form of empty content."""


class Misformed(msgspec.Struct):
    """The SENDs of one connection with the same mistake."""

    where: Where
    text: str
    evidence: dict[str, Any]
    frames: list[str] = msgspec.field(default_factory=list)
    count: int = 0
    closed_at: int = 0
    """Time at which the broker first closed a producer of SENDs without one; 0 if the producer of any of them ended otherwise."""
    latest: int = 0
    """Time of the latest SEND without a producer that is known to be gone."""


class Compressed(msgspec.Struct):
    """The compressed entries of a producer."""

    where: Where
    codec: str
    title: str
    topic: str | None
    entries: int = 0
    before: int = 0
    """Bytes without compression."""
    after: int = 0


class Gone(msgspec.Struct):
    """The close or refusal of a producer."""

    where: Where
    what: str
    closed_at: int = 0
    """Time at which the broker closed it; 0 if its client did, or it was refused: then none of its SENDs were in transit."""
    latest: int = 0
    """Time of the latest SEND that may have been in transit."""
    topic: str | None = None
    unaware: Misformed | None = None
    """SENDs of a client that has not reacted to the close yet: it may not have read that."""
    reacted: bool = False


class SentForm:
    """The form of the SENDs of one connection."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._mistakes: dict[str, Misformed] = {}
        self._compressed: dict[int, Compressed] = {}
        """Compressed entries by producer id."""
        self._gone: dict[int, Gone] = {}
        """Ends of producers, by ids that no producer has any more."""
        self._unread: dict[str, list[Gone]] = {}
        """Producers that the broker closed, by topic, until their client reacts."""
        self._homeless: dict[bool, Misformed] = {}
        """SENDs without a producer, by whether the capture has the producer's close or refusal."""
        self.batched: set[int] = set()
        """Ids of producers that sent a batch, or messages that cannot be batched."""
        self._delay = 0
        """Minimum time from publish time to capture, in nanoseconds."""
        self._published: tuple[int, int] | None = None
        """Earliest and latest publish time, in milliseconds."""

    def check(self, row: FrameRow, fields: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
        """Check a SEND that is not a single plain message."""
        number = fields.get("producer_id", -1)
        inside = metadata.get("num_messages_in_batch", 1)
        if (inside > 1 or "deliver_at_time" in metadata) and len(self.batched) < PRODUCERS_MAX:
            self.batched.add(number)
        announced = fields.get("num_messages", 1)
        if announced != inside and row.status != "truncated":
            text = f"SEND {name_of(row)} of {title_of(row)} announces {plural(announced, 'message')}, its metadata {inside:,}"
            self._add("num-messages-mismatch", row, text, announced=announced, in_metadata=inside)
        codec = metadata.get("compression", "NONE")
        if codec == "NONE":
            return
        size = row.payload_size or 0
        before = metadata.get("uncompressed_size", 0)
        if not before and row.status != "truncated" and size > EMPTY_MAX_BYTES.get(codec, 0):
            text = f"SEND {name_of(row)} of {title_of(row)} has {size:,} bytes of {codec} without uncompressed_size"
            self._add("uncompressed-size-missing", row, text, compression=codec)
        elif before and "encryption_keys" not in metadata and "chunk_id" not in metadata:
            compressed = self._compressed_by(number, codec, row)
            compressed.entries += 1
            compressed.before += before
            compressed.after += size

    def _compressed_by(self, number: int, codec: str, row: FrameRow) -> Compressed:
        compressed = self._compressed.get(number)
        if compressed is None:
            compressed = Compressed(where_of(row), codec, title_of(row), row.topic)
            remember(self._compressed, number, compressed, PRODUCERS_MAX)
        return compressed

    def has_room(self, count: int) -> bool:
        """Return True if `count` more producers fit without dropping data of others."""
        return max(len(self._compressed), len(self.batched)) + count <= PRODUCERS_MAX

    def begin_columns(self, frames: Any) -> None:
        """Note the producers of SENDs in columns, which have no mistakes, as `check` does at the first SEND of a kind."""
        self.batched.update(producer.id for producer in frames.producers if producer.batched)
        for place, number in sorted((each.compressed, each.id) for each in frames.producers if each.compressed is not None):
            if number not in self._compressed:
                (row, *_), _ = frames.row(place)
                self._compressed_by(number, row.metadata["compression"], row)

    def count_compressed(self, number: int, entries: int, before: int, after: int) -> None:
        """Count a producer's compressed SENDs in columns, after `begin_columns`, with their bytes before and after compression."""
        if entries:
            compressed = self._compressed[number]
            compressed.entries += entries
            compressed.before += before
            compressed.after += after

    def _add(self, code: str, row: FrameRow, text: str, **evidence: Any) -> None:
        mistake = self._mistakes.get(code)
        if mistake is None:
            evidence |= {"topic": row.topic, "producer_name": row.producer_name}
            mistake = self._mistakes[code] = Misformed(where_of(row), text, evidence)
        mistake.count += 1
        add_sample(mistake.frames, name_of(row))

    def closed(self, number: int, row: FrameRow) -> None:
        """Note the end of a producer: its CLOSE_PRODUCER, or the ERROR that refuses it."""
        by_broker = row.direction != CLIENT and row.command == "CLOSE_PRODUCER"
        if (before := self._gone.get(number)) is not None:
            self._react(before, row.time)
        what = "the broker had closed that" if by_broker else "that was refused" if row.command == "ERROR" else "it had closed that"
        gone = Gone(where_of(row), what, row.time if by_broker else 0, topic=row.topic, reacted=not by_broker)
        remember(self._gone, number, gone, PRODUCERS_MAX)
        if by_broker and row.topic is not None:
            if row.topic not in self._unread:
                remember(self._unread, row.topic, [], UNREAD_TOPICS_MAX)
            if len(unread := self._unread[row.topic]) < UNREAD_MAX:
                unread.append(gone)

    def opened(self, number: int, now: int) -> None:
        """Note that a PRODUCER requests an id."""
        if self._gone and (gone := self._gone.pop(number, None)) is not None:
            self._react(gone, now)

    def looked_up(self, row: FrameRow) -> None:
        """Note that a client looks up a topic."""
        for gone in self._unread.pop(row.topic or "", ()):
            self._react(gone, row.time)

    def _react(self, gone: Gone, now: int) -> None:
        """Note that a client acts on the end of a producer; if the broker closed that a moment ago, it did not know so until now."""
        if gone.reacted or now - gone.closed_at > self._context.thresholds.ns("send-without-producer-unaware-seconds"):
            self._settle(gone)
        gone.unaware, gone.reacted = None, True

    def _settle(self, gone: Gone) -> None:
        """Count the SENDs after the close of a producer that its client knew."""
        if (sends := gone.unaware) is None:
            return
        gone.unaware = None
        if (known := self._homeless.get(True)) is not None and known.where[1:4] < sends.where[1:4]:
            sends, known = known, sends
        self._homeless[True] = sends
        if known is not None:
            sends.count += known.count
            sends.closed_at, sends.latest = min(sends.closed_at, known.closed_at), max(sends.latest, known.latest)
            sends.frames += known.frames[: SAMPLES_MAX - len(sends.frames)]

    def homeless(self, row: FrameRow, number: int) -> bool:
        """Note a SEND with an id that has no producer as far as the capture shows. Return True if its producer is known to be gone."""
        gone = self._gone.get(number)
        if gone is not None and gone.closed_at and self._may_be_late(row, gone):
            return True
        is_unaware = gone is not None and not gone.reacted
        sends = gone.unaware if gone is not None and is_unaware else self._homeless.get(gone is not None)
        if sends is None:
            what = "no PRODUCER asked for it" if gone is None else f"{gone.what} ({gone.where.name})"
            text = f"{self._context.client} sent {{}} under the producer id {number}: {what}"
            sends = Misformed(where_of(row), text, {"producer_id": number}, [] if gone is None else [gone.where.name])
            sends.closed_at = 0 if gone is None else gone.closed_at
            if gone is not None and is_unaware:
                gone.unaware = sends
            else:
                self._homeless[gone is not None] = sends
        if gone is not None:
            sends.closed_at, sends.latest = min(sends.closed_at, gone.closed_at), row.time
        sends.count += 1
        add_sample(sends.frames, name_of(row))
        return gone is not None

    def note_time(self, row: FrameRow, metadata: Mapping[str, Any]) -> None:
        """Note when a SEND was published by the client's clock."""
        published = metadata.get("publish_time", 0)
        self.note_times(row.time - published * MILLISECOND, published, published)

    def note_times(self, delay: int, first: int, latest: int) -> None:
        """Note the least time from the publication of SENDs to their capture, and their first and latest publish time."""
        self._delay = delay if self._published is None else min(self._delay, delay)
        before, after = self._published or (first, latest)
        self._published = min(before, first), max(after, latest)

    def _may_be_late(self, row: FrameRow, gone: Gone) -> bool:
        """Return True when a SEND may have been in transit when the broker closed its producer."""
        thresholds = self._context.thresholds
        known = thresholds.ns("send-without-producer-known-seconds")
        if row.time - gone.closed_at > thresholds.ns("send-without-producer-seconds"):
            return False
        pause, gone.latest = row.time - max(gone.latest, gone.closed_at), row.time
        if self._published is None or self._published[0] == self._published[1]:  # all are equal, or there is none for comparison
            return pause <= known
        published = (row.metadata or {}).get("publish_time", 0) * MILLISECOND
        return bool(published + self._delay - gone.closed_at <= known)

    def counts_homeless(self, number: int) -> bool:
        """Return True when SENDs of an id without a producer are only counted: enough of them are listed."""
        sends = self._homeless.get(False)
        return number not in self._gone and sends is not None and len(sends.frames) >= SAMPLES_MAX

    def count_homeless(self, count: int) -> None:
        """Count SENDs of an id for which `counts_homeless` is true."""
        if count:
            self._homeless[False].count += count

    def end(self, row: ConnectionRow) -> None:
        """Report mistakes, and give advice."""
        for code, mistake in self._mistakes.items():
            times = f" ({plural(mistake.count, 'SEND')} do so)" if mistake.count > 1 else ""
            evidence = {"frames": mistake.frames, "count": mistake.count, **mistake.evidence}
            self._context.report(code, mistake.where, f"{mistake.text}{times}.", evidence)
        for gone in self._gone.values():
            self._settle(gone)
        broken = may_lack_frames(self._context)
        for is_gone, sends in self._homeless.items():
            if not (broken or self._is_of_stop(sends, row)) and (is_gone or (row.opened == "syn" and not self._context.lost)):
                evidence = {"frames": sends.frames, "count": sends.count, **sends.evidence}
                text = sends.text.format(plural(sends.count, "SEND"))
                self._context.report("send-without-producer", sends.where, f"{text}.", evidence)
        for compressed in self._compressed.values():
            self._advise_on_compression(compressed)

    def _is_of_stop(self, sends: Misformed, row: ConnectionRow) -> bool:
        """Return True when a broker that stops closed the producers and later the connection, which did not wait for a SEND."""
        if not sends.closed_at or row.closed_by != SERVER or self._context.closing is None:
            return False
        closing, thresholds = self._context.closing[1], self._context.thresholds
        is_answer = closing - sends.where.time <= thresholds.ns("send-without-producer-known-seconds")
        return not is_answer and max(closing, sends.latest) - sends.closed_at <= thresholds.ns("send-without-producer-stop-seconds")

    def _advise_on_compression(self, compressed: Compressed) -> None:
        limits = self._context.thresholds
        saved = 100 * (compressed.before - compressed.after)
        if compressed.entries < limits["compression-useless-entries"] or saved > limits["compression-useless-percent"] * compressed.before:
            return
        title, codec = capitalized(compressed.title), compressed.codec
        text = f"{title} compressed {compressed.entries:,} entries with {codec}, from {compressed.before:,} "
        evidence: dict[str, Any] = {
            "frames": [compressed.where.name],
            "topic": compressed.topic,
            "compression": compressed.codec,
            "entries": compressed.entries,
            "uncompressed_bytes": compressed.before,
            "compressed_bytes": compressed.after,
            **limits.evidence("compression-useless-entries", "compression-useless-percent"),
        }
        self._context.report("compression-useless", compressed.where, f"{text}to {compressed.after:,} bytes.", evidence)


class SentRule(ConnectionRule):
    """The base of a rule that checks the form of SENDs."""

    _form: SentForm

    def _look_up(self, row: FrameRow) -> None:
        self._form.looked_up(row)

    frames: ClassVar[Handlers] = {"LOOKUP": _look_up}


def title_of(row: FrameRow) -> str:
    """Return the name of the producer of a SEND in a sentence."""
    name = row.producer_name or (row.fields or {}).get("producer_id", -1)
    return f"producer {name}{f' on {row.topic}' if row.topic else ''}"


def advise_on_batching(
    context: RuleContext, producer: Mapping[str, Any], first: Where | None, sent: int, average: int, number: int, time: int
) -> None:
    """Report a producer that has sent many messages without batching since `first`; `number` and `time` belong to a measured one."""
    thresholds = context.thresholds
    if first is None or sent < thresholds["batching-unused-messages"] or average > thresholds["batching-unused-bytes"]:
        return
    span = max(time - first.time, 1)
    rate = (number - 1) * 1_000_000_000 / span
    if span >= thresholds.ns("batching-unused-seconds") and rate >= thresholds["batching-unused-rate"]:
        text = f"Producer {producer['producer_name']} on {producer['topic']} sent {sent:,} messages of {average:,} bytes on average, "
        text += f"each on its own, about {rate:,.0f} a second for {duration(span)}."
        evidence = {"frames": [first.name], **producer, "count": sent, "average_bytes": average, "rate": round(rate, 1)}
        context.report("batching-unused", first, text, evidence)
