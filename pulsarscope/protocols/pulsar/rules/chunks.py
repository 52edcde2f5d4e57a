"""Chunked messages that never become whole at a consumer: what was sent, what was stored, what was delivered, by uuid.

That chunks are missing is said where a payload is opened (`chunk-missing`, `chunk-incomplete`); here is said where they got lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pulsarscope.findings import ERROR, WARNING, Code, table
from pulsarscope.protocols.pulsar.rules.journey import entry_key
from pulsarscope.records import ConnectionRow, FrameRow
from pulsarscope.wire.rules import Fact, Handler, KeyRule, Say, Voice, Where, where_of

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

FRAMES_MAX = 20
"""Frames named in the evidence of a finding."""


class Receiver(msgspec.Struct):
    """What one consumer was given of one message."""

    frames: list[str]
    last: Where
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


class Chunks:
    """Tells the facts of chunks. See `pulsarscope.wire.rules.ConnectionRule`."""

    def __init__(self, voice: Voice) -> None:
        self._voice = voice
        self._sends: dict[str, tuple[str, int]] = {}
        """uuid and number of the chunks sent, by name of the SEND."""
        self._open: dict[tuple[str, int], None] = {}
        """Uuid and consumer of the messages whose last chunk has not been delivered."""
        self.frames: Mapping[str, Handler] = {"SEND": self._send, "SEND_RECEIPT": self._receipt, "MESSAGE": self._message}
        self.exchanges: Mapping[str, Handler] = {}
        self.messages: Handler | None = None

    def _send(self, row: FrameRow) -> None:
        values = _chunk(row)
        if values is not None:
            where = where_of(row)
            _put(self._sends, where.name, (values["uuid"], values["chunk"]))
            self._voice.tell(CHUNKS, values["uuid"], where, "sent", values)

    def _receipt(self, row: FrameRow) -> None:
        found = self._sends.pop(row.request or "", None) if self._sends else None
        if found is not None:
            values = {"chunk": found[1], "entry": entry_key((row.fields or {}).get("message_id"))}
            self._voice.tell(CHUNKS, found[0], where_of(row), "stored", values)

    def _message(self, row: FrameRow) -> None:
        values = _chunk(row)
        if values is None:
            return
        values["consumer_id"] = consumer = (row.fields or {}).get("consumer_id", -1)
        self._voice.tell(CHUNKS, values["uuid"], where_of(row), "delivered", values)
        key = values["uuid"], consumer
        if values["chunk"] == values["count"] - 1:
            self._open.pop(key, None)
        else:
            _put(self._open, key, None)

    def end(self, row: ConnectionRow, last: Where) -> None:
        """See `ConnectionRule`."""
        del row
        for uuid, consumer in self._open:
            self._voice.tell(CHUNKS, uuid, last, "ended", {"consumer_id": consumer, "lost": self._voice.lost})


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
    return {
        "uuid": metadata["uuid"],
        "chunk": metadata.get("chunk_id", 0),
        "count": count,
        "size": row.payload_size or 0,
        "total": None if metadata.get("encryption_keys") else metadata.get("total_chunk_msg_size"),  # encryption adds to each chunk
        "topic": row.topic,
        "subscription": row.subscription,
        "producer_name": row.producer_name,
    }


def judge(key: str, facts: Sequence[Fact], say: Say) -> None:
    """Say whether and why the message of this uuid is stuck, and whether its sizes add up."""
    sizes: dict[int, int] = {}
    sent: dict[int, Where] = {}
    stored: dict[int, str | None] = {}
    receivers: dict[tuple[str, int], Receiver] = {}
    groups: dict[tuple[str, int], str | None] = {}
    about: dict[str, Any] | None = None
    for where, what, values in facts:
        chunk = values.get("chunk", -1)
        if what == "sent":
            sent.setdefault(chunk, where)
        elif what == "stored":
            stored[chunk] = values["entry"]
        consumer = where.connection, values.get("consumer_id", -1)
        if what == "delivered":
            one = receivers.setdefault(consumer, Receiver([], where))
            one.take(chunk, values["count"])
            one.last = where
            if len(one.frames) < FRAMES_MAX:
                one.frames.append(where.name)
            groups[consumer] = values["subscription"]
        elif what == "ended" and consumer in receivers:
            receivers[consumer].waited_ns = where.time - receivers[consumer].last.time
        if what in ("sent", "delivered"):
            about = values
            sizes.setdefault(chunk, values["size"])
    if about is None:
        return
    _judge_sizes(key, about, sizes, sent, say, facts[0].where)
    served = {groups[consumer] for consumer, one in receivers.items() if one.whole}
    for consumer, one in receivers.items():
        missing = [chunk for chunk in range(about["count"]) if chunk not in one.seen]
        cut = not missing or missing[0] < max(one.seen)
        known = bool(missing) and missing[0] in sent
        if groups[consumer] in served or not (cut or one.waited_ns > STUCK_NS) or not (known or not missing):
            continue
        evidence = {
            "frames": [sent[missing[0]].name, *one.frames] if missing else one.frames,
            "uuid": key,
            "topic": about["topic"],
            "subscription": groups[consumer],
            "producer_name": about["producer_name"],
            "consumer_id": consumer[1],
            "chunks": about["count"],
            "sent": len(sent),
            "stored": len(stored),
            "delivered": len(one.seen),
            "missing": missing[:FRAMES_MAX],
            "duplicates": one.duplicates,
            "out_of_order": one.disordered,
        }
        say("chunk-stuck", one.last, _text(key, about, one, missing, sent, stored, evidence["subscription"]), evidence)


def _text(
    key: str,
    about: dict[str, Any],
    one: Receiver,
    missing: list[int],
    sent: dict[int, Where],
    stored: dict[int, str | None],
    subscription: str | None,
) -> str:
    start = f"Subscription {subscription or '?'} got {len(one.seen)} of {about['count']} chunks of message {key}"
    if about["topic"]:
        start += f" on {about['topic']}"
    if not missing:
        return f"{start}, but {one.disordered} of them out of order: the consumer drops the message."
    first = missing[0]
    entry = stored.get(first)
    fate = (
        f"the broker stored as {entry}" if entry else "no receipt answered" if first not in stored else "the broker dropped as a duplicate"
    )
    extra = f"; {one.duplicates} chunks came twice" if one.duplicates else ""
    return f"{start}: the first missing is chunk {first}, which SEND {sent[first].name} brought and {fate}{extra}."


def _judge_sizes(key: str, about: dict[str, Any], sizes: dict[int, int], sent: dict[int, Where], say: Say, first: Where) -> None:
    total, count = about["total"], about["count"]
    if total is None or len(sizes) != count or sum(sizes.values()) == total:
        return
    evidence = {
        "frames": [sent[chunk].name for chunk in sorted(sent)][:FRAMES_MAX] or [first.name],
        "uuid": key,
        "topic": about["topic"],
        "producer_name": about["producer_name"],
        "chunks": count,
        "bytes": sum(sizes.values()),
        "announced": total,
    }
    text = f"The {count} chunks of message {key} hold {sum(sizes.values()):,} bytes, but announce {total:,}."
    say("chunk-size-mismatch", first, text, evidence)


KEYS = (KeyRule(CHUNKS, IDLE_NS, judge),)
