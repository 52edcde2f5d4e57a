"""Chunked messages that a consumer never gets completely: chunks sent, stored and delivered, by uuid.

Opening a payload reports missing chunks (`chunk-missing`, `chunk-incomplete`); this rule reports where they were lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import msgspec

from pulsarscope.dissect.contract.rules import (
    ColumnsHandlers,
    ConnectionRule,
    Fact,
    Handlers,
    KeyRule,
    ReportFinding,
    RuleContext,
    Where,
    where_of,
)
from pulsarscope.model.bounded_tables import remember
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.flow import CLIENT, SERVER
from pulsarscope.model.limits import FACTS_PER_KEY_MAX
from pulsarscope.model.records import ConnectionRow, FrameRow
from pulsarscope.model.text import duration, plural
from pulsarscope.model.thresholds import Thresholds, in_seconds
from pulsarscope.protocols.pulsar.entry.encryption import TAG_BYTES
from pulsarscope.protocols.pulsar.message_ids import entry_key
from pulsarscope.protocols.pulsar.rules.evidence import SAMPLES_MAX, add_sample, frame_names, latest_lack, may_lack

CODES = table(
    SESSION.warning(
        "chunk-stuck",
        "A consumer does not get all chunks of a message, though they were sent.",
        "The consumer holds its chunks until they expire or it runs out of room: look at acknowledgments of single chunks, "
        "at expireTimeOfIncompleteChunkedMessage and maxPendingChunkedMessage.",
        to_act="the consumer's application",
    ),
    SESSION.warning(
        "chunk-abandoned",
        "A producer ended within a chunked message, and nobody sent the rest.",
        "Look at why the producer ended. Its consumers never get the message: they hold its chunks until these expire.",
        ("chunk-incomplete", "frame-truncated"),
        to_act="the producer's application",
    ),
    SESSION.error(
        "chunk-size-mismatch",
        "The chunks of a message do not add up to the size that they announce.",
        "The consumer cannot put the message together: look at the producer's client library.",
        to_act="the producer's application",
    ),
)

THRESHOLDS = (
    in_seconds(
        "chunk-stuck-seconds",
        5,
        "Time after the latest chunk; the rest of the message may still come before that.",
        "chunk-stuck",
        "chunk-abandoned",
    ),
)

CHUNKS = "chunks"
"""Name of the key rule; its keys are the uuids of chunked messages."""

IDLE_NS = 600_000_000_000
"""Time without facts after which a message is evaluated: consumers keep chunks for a minute, and time-outs cause redelivery."""

PENDING_MAX = 1_000
"""Most SENDs of chunks without a receipt, and most incomplete messages, of one connection: clients hold ten incomplete messages."""


class ChunkReceiver(msgspec.Struct):
    """The chunks of one message that one consumer got."""

    frames: list[str]
    """Frame names of the first deliveries."""
    last: Where
    subscription: str | None
    expected: int = 0
    """Number of the chunk that must come next."""
    complete: bool = False
    chunks: set[int] = msgspec.field(default_factory=set)
    duplicates: int = 0
    disordered: int = 0
    waited_ns: int = 0
    """Time from the last chunk to the end of the connection."""
    lost_at: int = -1
    """Time of the latest bytes of the server that the capture lacks, ns; -1: none."""

    def waited_since(self, time: int) -> int:
        """Return how much of the time from the last chunk to the end of the connection came after a time, ns."""
        return min(self.waited_ns, self.last.time + self.waited_ns - time)

    def add(self, chunk: int, count: int) -> None:
        """Add a chunk. The first chunk starts over, as in clients."""
        if chunk == 0:
            self.expected, self.chunks = 0, set()
        self.duplicates += chunk in self.chunks
        self.disordered += chunk > self.expected
        self.chunks.add(chunk)
        if chunk == self.expected:
            self.expected += 1
            self.complete = self.complete or self.expected == count


class ChunkRule(ConnectionRule):
    """The source of the facts on the chunks of one connection."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._sends: dict[str, tuple[str, int]] = {}
        """Uuid and number of chunks without a receipt, by frame name of the SEND."""
        self._incomplete: dict[tuple[str, int], None] = {}
        """Uuids and consumers of messages whose last chunk has not been delivered."""
        self._unsent: dict[str, None] = {}
        """Uuids of messages whose last chunk has not been sent."""

    def _send(self, row: FrameRow) -> None:
        if (values := _chunk_values(row)) is not None:
            where = where_of(row)
            remember(self._sends, where.name, (values["uuid"], values["chunk"]), PENDING_MAX)
            self._context.emit_fact(CHUNKS, values["uuid"], where, "sent", values)
            self._unsent.pop(values["uuid"], None)
            if values["chunk"] != values["count"] - 1:
                remember(self._unsent, values["uuid"], None, PENDING_MAX)

    def _receipt(self, row: FrameRow) -> None:
        sent = self._sends.pop(row.request or "", None) if self._sends else None
        if sent is not None:
            uuid, chunk = sent
            values = {"chunk": chunk, "entry": entry_key((row.fields or {}).get("message_id"))}
            self._context.emit_fact(CHUNKS, uuid, where_of(row), "stored", values)

    def _message(self, row: FrameRow) -> None:
        if (values := _chunk_values(row)) is None:
            return
        values["consumer_id"] = consumer = (row.fields or {}).get("consumer_id", -1)
        values["lost_at"] = latest_lack(self._context, row.time, SERVER)
        self._context.emit_fact(CHUNKS, values["uuid"], where_of(row), "delivered", values)
        key = values["uuid"], consumer
        self._incomplete.pop(key, None)
        if values["chunk"] != values["count"] - 1:
            remember(self._incomplete, key, None, PENDING_MAX)

    def end(self, row: ConnectionRow, last: Where) -> None:
        """Emit the end of the wait for each incomplete message, and those that a client left incomplete when it closed the connection."""
        if row.closed_by == CLIENT and not may_lack(self._context, row.start, row.end, CLIENT):
            for uuid in self._unsent:
                self._context.emit_fact(CHUNKS, uuid, last, "left", {"time": row.end})
        for uuid, consumer in self._incomplete:
            values = {"consumer_id": consumer, "lost_at": latest_lack(self._context, row.end, SERVER)}
            self._context.emit_fact(CHUNKS, uuid, last, "ended", values)

    def batch(self, rows: Sequence[Any], handle: Callable[[int], None]) -> None:
        """Skip frames without a chunk; see `ConnectionRule.batch`."""
        for index, row in enumerate(rows):
            if self._sends or ((metadata := row.metadata) is not None and "num_chunks_from_msg" in metadata):
                handle(index)

    def sends(self, _frames: Any, _handle: Callable[[int], None]) -> bool:
        """Skip frames without a chunk; see `ConnectionRule.columns`."""
        return not self._sends

    def deliveries(self, _frames: Any, _handle: Callable[[int], None]) -> bool:
        """Skip deliveries: none of them has a chunk; see `ConnectionRule.columns`."""
        return True

    columns: ClassVar[ColumnsHandlers] = {"SEND": sends, "MESSAGE": deliveries}
    frames: ClassVar[Handlers] = {"SEND": _send, "SEND_RECEIPT": _receipt, "MESSAGE": _message}


def _chunk_values(row: FrameRow) -> dict[str, Any] | None:
    """Return the description of the chunk in a frame; None if it has none."""
    metadata = row.metadata or {}
    count = metadata.get("num_chunks_from_msg", 1)
    if count <= 1 or "uuid" not in metadata:
        return None
    if (size := row.payload_size) is not None and metadata.get("encryption_keys"):
        size -= TAG_BYTES
    return {
        "uuid": metadata["uuid"],
        "chunk": metadata.get("chunk_id", 0),
        "count": count,
        "size": size if row.status == "ok" else None,  # unknown for a truncated frame
        "total": metadata.get("total_chunk_msg_size"),
        "topic": row.topic,
        "subscription": row.subscription,
        "producer_name": row.producer_name,
    }


class ChunkedMessage(msgspec.Struct):
    """All facts on one message, by chunk and consumer."""

    latest: dict[str, Any]
    """Description of its latest chunk."""
    sizes: dict[int, int | None] = {}
    sent: dict[int, Where] = {}
    stored: dict[int, str | None] = {}
    """Entries by chunk."""
    receivers: dict[tuple[str, int], ChunkReceiver] = {}
    """Receivers by connection and consumer id."""
    left: int | None = None
    """End of the latest connection that a client closed before it had sent all chunks, ns."""

    def add(self, fact: Fact) -> None:
        """Add the next fact."""
        where, what, values = fact
        chunk = values.get("chunk", -1)
        consumer = where.connection, values.get("consumer_id", -1)
        if what == "stored":
            self.stored[chunk] = values["entry"]
        elif what == "left":
            self.left = max(self.left or 0, values["time"])
        elif what == "ended":
            if (receiver := self.receivers.get(consumer)) is not None:
                receiver.waited_ns, receiver.lost_at = where.time - receiver.last.time, values["lost_at"]
        else:
            self.latest = values
            self.sizes.setdefault(chunk, values["size"])
            if what == "sent":
                self.sent.setdefault(chunk, where)
            else:
                self._deliver(consumer, where, chunk, values)

    def _deliver(self, consumer: tuple[str, int], where: Where, chunk: int, values: dict[str, Any]) -> None:
        receiver = self.receivers.setdefault(consumer, ChunkReceiver([], where, values["subscription"]))
        receiver.add(chunk, values["count"])
        receiver.last, receiver.lost_at = where, values["lost_at"]
        add_sample(receiver.frames, where.name)


def evaluate(key: str, facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report a message that is stuck at a consumer, or whose chunks do not add up to its size."""
    if len(facts) >= FACTS_PER_KEY_MAX:
        return  # some facts were dropped, so chunks would seem to be missing
    message = ChunkedMessage({})
    for fact in facts:
        message.add(fact)
    if not message.latest:
        return
    _evaluate_sizes(key, message, report, facts[0].where)
    _evaluate_left(key, message, report, thresholds)
    served = {receiver.subscription for receiver in message.receivers.values() if receiver.complete}
    for (_, consumer_id), receiver in message.receivers.items():
        if receiver.subscription not in served:
            _evaluate_receiver(key, message, receiver, consumer_id, report, thresholds)


def _evaluate_receiver(
    key: str, message: ChunkedMessage, receiver: ChunkReceiver, consumer_id: int, report: ReportFinding, thresholds: Thresholds
) -> None:
    latest, chunks = message.latest, message.latest["count"]
    number = len(receiver.chunks)
    missing = [chunk for chunk in range(min(chunks, number + SAMPLES_MAX)) if chunk not in receiver.chunks][:SAMPLES_MAX]
    topic = f" on {latest['topic']}" if latest["topic"] else ""
    text = f"Subscription {receiver.subscription or '?'} got {number} of {chunks} chunks of message {key}{topic}"
    if not missing:
        text += f", but {receiver.disordered} of them out of order: the consumer drops the message."
    elif missing[0] in message.sent and (missing[0] < max(receiver.chunks) or receiver.waited_ns > thresholds.ns("chunk-stuck-seconds")):
        first = missing[0]
        if receiver.lost_at >= message.sent[first].time:
            return  # the capture may lack its delivery
        fate = "no receipt answered"
        if first in message.stored:
            fate = f"the broker stored as {message.stored[first]}" if message.stored[first] else "the broker dropped as a duplicate"
        duplicates = f"; {plural(receiver.duplicates, 'chunk')} came twice" if receiver.duplicates else ""
        text += f": the first missing is chunk {first}, which SEND {message.sent[first].name} brought and {fate}{duplicates}."
    else:
        return
    evidence = {
        "frames": frame_names([*(message.sent[chunk].name for chunk in missing[:1]), *receiver.frames]),
        "uuid": key,
        "topic": latest["topic"],
        "subscription": receiver.subscription,
        "producer_name": latest["producer_name"],
        "consumer_id": consumer_id,
        "chunks": chunks,
        "sent": len(message.sent),
        "stored": len(message.stored),
        "delivered": number,
        "missing": missing,
        "duplicates": receiver.duplicates,
        "out_of_order": receiver.disordered,
        **thresholds.evidence(*() if not missing or missing[0] < max(receiver.chunks) else ("chunk-stuck-seconds",)),
    }
    report("chunk-stuck", receiver.last, text, evidence)


def _evaluate_left(key: str, message: ChunkedMessage, report: ReportFinding, thresholds: Thresholds) -> None:
    """Report a message of which a client sent only the first chunks, while a consumer waits for the others."""
    latest, left = message.latest, message.left
    waited = 0 if left is None else max((receiver.waited_since(left) for receiver in message.receivers.values()), default=0)
    # The capture may lack the connection that sends the last chunk; SENDs long before redeliveries were evaluated on their own.
    if not message.sent or max(message.sizes) == latest["count"] - 1 or waited <= thresholds.ns("chunk-stuck-seconds"):
        return
    topic = f" on {latest['topic']}" if latest["topic"] else ""
    text = f"Producer {latest['producer_name'] or '?'} sent {len(message.sent)} of {latest['count']} chunks of message {key}{topic}"
    text += f", and its client closed the connection: nobody sent the rest in {duration(waited)}."
    frames = frame_names(where.name for _, where in sorted(message.sent.items()))
    names = {name: latest[name] for name in ("topic", "producer_name")}
    evidence = {"frames": frames, "uuid": key, **names, "chunks": latest["count"], "sent": len(message.sent), "waited_ns": waited}
    report("chunk-abandoned", message.sent[max(message.sent)], text, evidence | thresholds.evidence("chunk-stuck-seconds"))


def _evaluate_sizes(key: str, message: ChunkedMessage, report: ReportFinding, first: Where) -> None:
    latest, sizes = message.latest, [size for size in message.sizes.values() if size is not None]
    total = sum(sizes)
    if latest["total"] is None or len(sizes) != latest["count"] or total == latest["total"]:
        return
    evidence = {
        "frames": frame_names(message.sent[chunk].name for chunk in sorted(message.sent)) or [first.name],
        "uuid": key,
        "topic": latest["topic"],
        "producer_name": latest["producer_name"],
        "chunks": latest["count"],
        "bytes": total,
        "announced": latest["total"],
    }
    text = f"The {latest['count']} chunks of message {key} hold {total:,} bytes, but announce {latest['total']:,}."
    report("chunk-size-mismatch", first, text, evidence)


KEYS = (KeyRule(CHUNKS, IDLE_NS, evaluate),)
