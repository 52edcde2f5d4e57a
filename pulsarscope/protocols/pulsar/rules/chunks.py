"""Chunked messages that never become whole at a consumer: what was sent, what was stored, what was delivered, by uuid.

That chunks are missing is said where a payload is opened (`chunk-missing`, `chunk-incomplete`); here is said where they got lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from pulsarscope.dissect.rules import ConnectionRule, Fact, Handlers, KeyRule, ReportFinding, RuleContext, Where, where_of
from pulsarscope.model.findings import ERROR, WARNING, Code, table
from pulsarscope.model.limits import FACTS_PER_KEY_MAX
from pulsarscope.model.records import ConnectionRow, FrameRow
from pulsarscope.protocols.pulsar.entry.encryption import TAG_BYTES
from pulsarscope.protocols.pulsar.rules.journey import entry_key
from pulsarscope.protocols.pulsar.rules.phrases import SHOWN_MAX, count, frames

CODES = table(
    Code(
        "chunk-stuck",
        WARNING,
        "session",
        "A chunked message does not become whole at a consumer, though its chunks were sent.",
        "The consumer holds its chunks until they expire or it runs out of room: look at acknowledgments of single chunks, "
        "at expireTimeOfIncompleteChunkedMessage and maxPendingChunkedMessage.",
    ),
    Code(
        "chunk-size-mismatch",
        ERROR,
        "session",
        "The chunks of a message do not add up to the size that they announce.",
        "The consumer cannot put the message together: look at the producer's client library.",
    ),
)

CHUNKS = "chunks"
"""Name of the key rule; its keys are the uuids of chunked messages."""

IDLE_NS = 600_000_000_000
"""Consumers keep chunks for one minute by default, and acknowledgement time-outs bring them again."""

STUCK_NS = 5_000_000_000
"""A consumer that has not been given the rest after so long is not about to."""

WAITING_MAX = 1_000
"""SENDs of chunks whose receipt is awaited, and chunked messages not whole yet, of one connection: clients hold ten of these."""


class Receiver(msgspec.Struct):
    """What one consumer was given of one message."""

    frames: list[str]
    last: Where
    subscription: str | None
    expected: int = 0
    """The chunk that must come next."""
    whole: bool = False
    seen: set[int] = msgspec.field(default_factory=set)
    duplicates: int = 0
    disordered: int = 0
    waited_ns: int = 0
    """From the last chunk to the end of the connection."""

    def take(self, chunk: int, count: int) -> None:
        """One more chunk. The first one begins anew, as it does in the clients."""
        if chunk == 0:
            self.expected, self.seen = 0, set()
        self.duplicates += chunk in self.seen
        self.disordered += chunk > self.expected
        self.seen.add(chunk)
        if chunk == self.expected:
            self.expected += 1
            self.whole = self.whole or self.expected == count


class Chunks(ConnectionRule):
    """Tells the facts of chunks. See `pulsarscope.dissect.rules.ConnectionRule`."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._sends: dict[str, tuple[str, int]] = {}
        """uuid and number of the chunks sent, by name of the SEND."""
        self._open: dict[tuple[str, int], None] = {}
        """Uuid and consumer of the messages whose last chunk has not been delivered."""

    def _send(self, row: FrameRow) -> None:
        values = _chunk(row)
        if values is not None:
            where = where_of(row)
            _put(self._sends, where.name, (values["uuid"], values["chunk"]))
            self._context.emit_fact(CHUNKS, values["uuid"], where, "sent", values)

    def _receipt(self, row: FrameRow) -> None:
        found = self._sends.pop(row.request or "", None) if self._sends else None
        if found is not None:
            values = {"chunk": found[1], "entry": entry_key((row.fields or {}).get("message_id"))}
            self._context.emit_fact(CHUNKS, found[0], where_of(row), "stored", values)

    def _message(self, row: FrameRow) -> None:
        values = _chunk(row)
        if values is None:
            return
        values["consumer_id"] = consumer = (row.fields or {}).get("consumer_id", -1)
        self._context.emit_fact(CHUNKS, values["uuid"], where_of(row), "delivered", values)
        key = values["uuid"], consumer
        if values["chunk"] == values["count"] - 1:
            self._open.pop(key, None)
        else:
            _put(self._open, key, None)

    def end(self, row: ConnectionRow, last: Where) -> None:
        """See `ConnectionRule`."""
        del row
        for uuid, consumer in self._open:
            self._context.emit_fact(CHUNKS, uuid, last, "ended", {"consumer_id": consumer, "lost": self._context.lost})

    frames: ClassVar[Handlers] = {"SEND": _send, "SEND_RECEIPT": _receipt, "MESSAGE": _message}


def _put(table: dict[Any, Any], key: Any, value: Any) -> None:
    table.pop(key, None)
    table[key] = value
    if len(table) > WAITING_MAX:
        del table[next(iter(table))]


def _chunk(row: FrameRow) -> dict[str, Any] | None:
    """What a frame says of the chunk in it; None when there is none."""
    metadata = row.metadata or {}
    count = metadata.get("num_chunks_from_msg", 1)
    if count <= 1 or "uuid" not in metadata:
        return None
    size = row.payload_size
    if size is not None and metadata.get("encryption_keys"):
        size -= TAG_BYTES
    return {
        "uuid": metadata["uuid"],
        "chunk": metadata.get("chunk_id", 0),
        "count": count,
        "size": size if row.status == "ok" else None,  # of a truncated frame nobody knows
        "total": metadata.get("total_chunk_msg_size"),
        "topic": row.topic,
        "subscription": row.subscription,
        "producer_name": row.producer_name,
    }


class Gathered(msgspec.Struct):
    """All that is known of one message."""

    about: dict[str, Any]
    """What its latest chunk says of it."""
    sizes: dict[int, int | None] = {}
    sent: dict[int, Where] = {}
    stored: dict[int, str | None] = {}
    """Entries by chunk."""
    receivers: dict[tuple[str, int], Receiver] = {}
    """By connection and consumer id."""

    def add(self, fact: Fact) -> None:
        """One more fact, later than those before."""
        where, what, values = fact
        chunk = values.get("chunk", -1)
        consumer = where.connection, values.get("consumer_id", -1)
        if what == "stored":
            self.stored[chunk] = values["entry"]
        elif what == "ended":
            if consumer in self.receivers:
                self.receivers[consumer].waited_ns = where.time - self.receivers[consumer].last.time
        else:
            self.about = values
            self.sizes.setdefault(chunk, values["size"])
            if what == "sent":
                self.sent.setdefault(chunk, where)
            else:
                self._deliver(consumer, where, chunk, values)

    def _deliver(self, consumer: tuple[str, int], where: Where, chunk: int, values: dict[str, Any]) -> None:
        one = self.receivers.setdefault(consumer, Receiver([], where, values["subscription"]))
        one.take(chunk, values["count"])
        one.last = where
        if len(one.frames) < SHOWN_MAX:
            one.frames.append(where.name)


def evaluate(key: str, facts: Sequence[Fact], report: ReportFinding) -> None:
    """ReportFinding whether and why the message of this uuid is stuck, and whether its sizes add up."""
    if len(facts) >= FACTS_PER_KEY_MAX:
        return  # some were dropped: what they told would be missing
    known = Gathered({})
    for fact in facts:
        known.add(fact)
    if not known.about:
        return
    _evaluate_sizes(key, known, report, facts[0].where)
    served = {one.subscription for one in known.receivers.values() if one.whole}
    for (_, consumer_id), one in known.receivers.items():
        if one.subscription not in served:
            _evaluate_receiver(key, known, one, consumer_id, report)


def _evaluate_receiver(key: str, known: Gathered, one: Receiver, consumer_id: int, report: ReportFinding) -> None:
    about, chunks = known.about, known.about["count"]
    missing = [chunk for chunk in range(min(chunks, len(one.seen) + SHOWN_MAX)) if chunk not in one.seen][:SHOWN_MAX]
    begin = f"Subscription {one.subscription or '?'} got {len(one.seen)} of {chunks} chunks of message {key}"
    begin += f" on {about['topic']}" if about["topic"] else ""
    if not missing:
        text = f"{begin}, but {one.disordered} of them out of order: the consumer drops the message."
    elif missing[0] in known.sent and (missing[0] < max(one.seen) or one.waited_ns > STUCK_NS):
        first = missing[0]
        fate = "no receipt answered"
        if first in known.stored:
            fate = f"the broker stored as {known.stored[first]}" if known.stored[first] else "the broker dropped as a duplicate"
        twice = f"; {count(one.duplicates, 'chunk')} came twice" if one.duplicates else ""
        text = f"{begin}: the first missing is chunk {first}, which SEND {known.sent[first].name} brought and {fate}{twice}."
    else:
        return
    evidence = {
        "frames": frames([*(known.sent[chunk].name for chunk in missing[:1]), *one.frames]),
        "uuid": key,
        "topic": about["topic"],
        "subscription": one.subscription,
        "producer_name": about["producer_name"],
        "consumer_id": consumer_id,
        "chunks": chunks,
        "sent": len(known.sent),
        "stored": len(known.stored),
        "delivered": len(one.seen),
        "missing": missing,
        "duplicates": one.duplicates,
        "out_of_order": one.disordered,
    }
    report("chunk-stuck", one.last, text, evidence)


def _evaluate_sizes(key: str, known: Gathered, report: ReportFinding, first: Where) -> None:
    about, sizes = known.about, [size for size in known.sizes.values() if size is not None]
    total = sum(sizes)
    if about["total"] is None or len(sizes) != about["count"] or total == about["total"]:
        return
    evidence = {
        "frames": frames(known.sent[chunk].name for chunk in sorted(known.sent)) or [first.name],
        "uuid": key,
        "topic": about["topic"],
        "producer_name": about["producer_name"],
        "chunks": about["count"],
        "bytes": total,
        "announced": about["total"],
    }
    text = f"The {about['count']} chunks of message {key} hold {total:,} bytes, but announce {about['total']:,}."
    report("chunk-size-mismatch", first, text, evidence)


KEYS = (KeyRule(CHUNKS, IDLE_NS, evaluate),)
