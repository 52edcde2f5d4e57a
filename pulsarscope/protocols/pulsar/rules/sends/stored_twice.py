"""Messages that are stored twice: a sequence id of a producer with two message ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

from pulsarscope.dissect.contract.rules import (
    ColumnsHandlers,
    ConnectionRule,
    Fact,
    Handlers,
    ReportFinding,
    RuleContext,
    name_of,
    where_of,
)
from pulsarscope.model.bounded_tables import drop_oldest, remember
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.limits import NAME_MAX_CHARACTERS
from pulsarscope.model.records import FrameRow
from pulsarscope.model.text import plural
from pulsarscope.protocols.pulsar.message_ids import entry_key
from pulsarscope.protocols.pulsar.rules.evidence import SAMPLES_MAX, frame_names
from pulsarscope.protocols.pulsar.rules.sends.send_marks import has_same_bytes
from pulsarscope.protocols.pulsar.rules.sends.sequences import SESSIONS
from pulsarscope.protocols.pulsar.text.formatting import listing
from pulsarscope.protocols.pulsar.topics import bounded_name

CODES = table(
    SESSION.warning(
        "message-stored-twice",
        "A message was sent again and stored a second time, under another message id.",
        "Consumers get it twice: turn on deduplication for the topic or namespace (brokerDeduplicationEnabled), or let the application "
        "recognise what it has seen.",
        to_act="the application, or the broker's operators",
    ),
)

ENTRIES_MAX = 10_000
"""Most deliveries of one connection that are remembered: copies follow each other within a producer's resends, 1,000 by default."""

COPIES_MAX = 1_000
"""Most copies of one connection that are emitted."""

COPY = "copy"
"""Kind of a fact of a producer: a delivery of a message that was also delivered with another id."""


class Copied(NamedTuple):
    """A sequence id with two message ids."""

    number: int
    ids: tuple[str, str]
    frames: list[str]


class CopyRule(ConnectionRule):
    """The source of the facts on copies that one connection delivered to a subscription."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._seen: dict[tuple[Any, ...], str] = {}
        """Message id, checksum and frame, by subscription, producer and sequence id. They are a single text, because a stream stores all of
        them after each batch."""
        self._copies = 0

    def _message(self, row: FrameRow) -> None:
        metadata, fields = row.metadata, row.fields or {}
        if metadata is None or "chunk_id" in metadata or (ident := entry_key(fields.get("message_id"))) is None:
            return
        consumer = fields.get("consumer_id", -1)
        number = metadata.get("sequence_id")
        name = bounded_name(metadata.get("producer_name"))
        key = row.topic or consumer, row.subscription, name, number, metadata.get("publish_time")
        stored = str(None if row.checksum is None else row.checksum.stored)
        if (known := self._seen.get(key)) is None:
            remember(self._seen, key, f"{ident} {stored} {row.file}:{row.packet}.{row.sub}", ENTRIES_MAX)
            return
        before = known.split(" ")
        if before[0] != ident and before[1] == stored and self._copies < COPIES_MAX:
            self._copies += 1
            frames = [before[2], name_of(row)]
            values = {"number": number, "ids": [before[0], ident], "frames": frames, "subscription": row.subscription, "consumer": consumer}
            values["client"] = self._context.client
            self._context.emit_fact(SESSIONS, f"{row.topic or ''}\n{metadata.get('producer_name')}", where_of(row), COPY, values)

    def deliveries(self, frames: Any, handle: Callable[[int], None]) -> bool:
        """Remember new messages; see `ConnectionRule.columns`."""
        seen = self._seen
        for place, whole, ident in frames.idents():
            is_long = whole[2] is not None and len(whole[2]) > NAME_MAX_CHARACTERS
            key = (*whole[:2], bounded_name(whole[2]), *whole[3:]) if is_long else whole
            if key in seen:
                handle(place)
            else:
                seen[key] = ident
                if len(seen) > ENTRIES_MAX:
                    drop_oldest(seen, ENTRIES_MAX)
        return True

    columns: ClassVar[ColumnsHandlers] = {"MESSAGE": deliveries}
    frames: ClassVar[Handlers] = {"MESSAGE": _message}


def report_copies(topic: str, name: str, sessions: Sequence[Fact], copies: Sequence[Fact], report: ReportFinding) -> None:
    """Report the messages of a producer that the broker has, or a subscription got, with two ids."""
    found: dict[int, Copied] = {}
    for index, session in enumerate(sessions):
        before = sessions[index - 1].values["tail"] if index else []
        again = session.values["epoch"] > 0
        # A session that begins at or below the last id of the previous one, but not at its first, resends messages whose receipts were
        # lost, unless the capture lacks its first one.
        first = None if session.values["lost"] else session.values["first"]
        if index and first is not None and 0 < first <= sessions[index - 1].values["highest"]:
            before, again = [(number, ident, send, None) for number, ident, send, _ in before], True
        for copied in (
            *(Copied(number, tuple(ids), frames) for number, ids, frames in session.values["twice"]),
            *_resent(before, session, again, torn=index > 0 and not sessions[index - 1].values["closed"]),
        ):
            found.setdefault(copied.number, copied)
    for fact in copies:
        number, ids, frames = fact.values["number"], fact.values["ids"], fact.values["frames"]
        known = found.get(number)
        found[number] = Copied(number, tuple(ids), [*(known.frames if known else ()), *frames])
    if not found:
        return
    samples = [found[number] for number in sorted(found)]
    ids = listing([f"sequence id {copied.number} as {' and '.join(copied.ids)}" for copied in samples])
    receivers = list(
        dict.fromkeys(f"consumer {fact.values['consumer']} of subscription {fact.values['subscription'] or '?'}" for fact in copies)
    )
    stored = "is" if len(found) == 1 else "are"
    producer = f"producer {name}{f' of {topic}' if topic else ''}"
    text = f"{plural(len(found), 'message')} of {producer} {stored} stored twice: {ids}"
    text += f"; {listing(receivers)} got both" if receivers else ""
    evidence = {
        "frames": frame_names(frame for copied in samples for frame in copied.frames),
        "topic": topic or None,
        "producer_name": name,
        "count": len(found),
        "message_ids": [list(copied.ids) for copied in samples[:SAMPLES_MAX]],
        "sequence_ids": [copied.number for copied in samples[:SAMPLES_MAX]],
        "received_both": receivers[:SAMPLES_MAX],
    }
    latest = next((session for session in sessions[::-1] if session.values["first"] is not None), None)
    report("message-stored-twice", copies[0].where if copies or latest is None else latest.where, f"{text}.", evidence)


def _resent(before: Sequence[Sequence[Any]], session: Fact, again: bool, *, torn: bool) -> list[Copied]:
    """Return messages with a receipt in the session before that a session sent again: with equal bytes, or (`again`) by the same producer.

    `torn`: the client did not close the previous session, so that an application that reconnects by itself resends uncertain messages.
    """
    known = {number: (ident, send, mark) for number, ident, send, mark in before}
    resent = []
    for number, ident, send, mark in session.values["head"]:
        first = known.get(number)
        if first is None or first[0] == ident:
            continue
        exact = first[2] == mark if first[2] and mark else again
        if exact or (torn and has_same_bytes(first[2], mark)):
            resent.append(Copied(number, (first[0], ident), [first[1], send]))
    return resent
