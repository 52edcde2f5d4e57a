"""Sequence ids of producers: messages that the broker drops as duplicates, and ids that go back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pulsarscope.findings import NOTE, WARNING, Code, table
from pulsarscope.protocols.pulsar.rules.phrases import count, frames, lacking, some
from pulsarscope.records import ConnectionRow, FrameRow
from pulsarscope.wire.rules import Fact, Handler, KeyRule, Say, Voice, Where, where_of

CODES = table(
    Code(
        "message-duplicate-dropped",
        WARNING,
        "session",
        "The broker dropped messages as duplicates that were not seen sent before.",
        "If they were new, they are lost: sequence ids must rise for a producer name across restarts, see sequence-regression.",
    ),
    Code(
        "resend-deduplicated",
        NOTE,
        "session",
        "The broker dropped messages that were sent again, as deduplication is meant to.",
        "Nothing is lost: their first copies were stored, and the receipts for them were not.",
    ),
    Code(
        "sequence-regression",
        WARNING,
        "session",
        "Sequence ids of a producer go back, or their ranges overlap.",
        "With deduplication such messages are dropped: start a named producer behind its last id (initialSequenceId), do not share a name.",
    ),
)

SESSIONS = "sessions-of-producer"

FORGET_NS = 3_600_000_000_000
"""A producer that comes again an hour after its last connection has nothing to send again."""

PRODUCERS_MAX = 10_000
"""Producers of one connection that are watched."""

DROPPED_MAX = 1_000
"""Dropped and repeated ids of one producer that are told; their number is exact."""


class Session(msgspec.Struct):
    """One producer on one connection, from PRODUCER on."""

    where: Where | None = None
    topic: str | None = None
    name: str | None = None
    epoch: int = 0
    stored: int | None = None
    """PRODUCER_SUCCESS.last_sequence_id: the highest that the broker remembers; None or -1: it remembers none."""
    first: int | None = None
    first_frame: str = ""
    highest: int = -1
    """Of all sent; a batch's is its last."""
    chunk: int | None = None
    """Sequence id of the chunked message that is being sent."""
    confirmed: int = -1
    """Highest sequence id with a receipt."""
    sent: int = 0
    again: bool = False
    """A SEND was refused, after which the client sends again what waits."""
    back: list[tuple[Where, int, int]] = msgspec.field(default_factory=list)
    """SENDs whose id is not above the highest before: place, id, that highest."""
    back_count: int = 0
    dropped: list[tuple[Where, int]] = msgspec.field(default_factory=list)
    """Receipts of dropped ones: place and sequence id."""
    dropped_count: int = 0


class Sequences:
    """See `pulsarscope.wire.rules.ConnectionRule`."""

    def __init__(self, voice: Voice) -> None:
        self._voice = voice
        self._sessions: dict[int, Session] = {}
        self._asked: dict[str, int] = {}
        """Producer ids by name of the frame of PRODUCER."""
        self.frames: Mapping[str, Handler] = {
            "PRODUCER": self._producer,
            "PRODUCER_SUCCESS": self._created,
            "CLOSE_PRODUCER": self._close,
            "SEND": self._send,
            "SEND_RECEIPT": self._receipt,
            "SEND_ERROR": self._refused,
        }
        self.exchanges: Mapping[str, Handler] = {}
        self.messages: Handler | None = None

    def _producer(self, row: FrameRow) -> None:
        fields = row.fields or {}
        number = fields.get("producer_id", -1)
        self._finish(number, where_of(row))
        if len(self._sessions) >= PRODUCERS_MAX:
            return
        where = where_of(row)
        self._sessions[number] = Session(where, row.topic, fields.get("producer_name"), fields.get("epoch", 0))
        self._asked[where.name] = number
        if len(self._asked) > PRODUCERS_MAX:
            del self._asked[next(iter(self._asked))]

    def _created(self, row: FrameRow) -> None:
        fields = row.fields or {}
        session = self._sessions.get(self._asked.get(row.request or "", -1))
        if session is not None:
            session.name = fields.get("producer_name", session.name)
            session.stored = fields.get("last_sequence_id", -1)

    def _send(self, row: FrameRow) -> None:
        fields = row.fields or {}
        session = self._sessions.get(fields.get("producer_id", -1))
        if session is None:
            return
        number = fields.get("sequence_id", -1)
        is_chunk = fields.get("is_chunk") or "chunk_id" in (row.metadata or {})
        session.sent += 1
        if session.first is None:
            session.first, session.first_frame = number, where_of(row).name
        if number <= session.highest and not (is_chunk and number == session.chunk) and not session.again:
            session.back_count += 1
            if len(session.back) < DROPPED_MAX:
                session.back.append((where_of(row), number, session.highest))
        session.chunk = number if is_chunk else None
        session.highest = max(session.highest, number, fields.get("highest_sequence_id", -1))

    def _receipt(self, row: FrameRow) -> None:
        fields = row.fields or {}
        session = self._sessions.get(fields.get("producer_id", -1))
        if session is None:
            return
        number = fields.get("sequence_id", -1)
        ident = fields.get("message_id")
        if ident is not None and ident.get("ledgerId") == -1 and ident.get("entryId") == -1:
            session.dropped_count += 1
            if len(session.dropped) < DROPPED_MAX:
                session.dropped.append((where_of(row), number))
        elif number > session.confirmed:
            session.confirmed = number

    def _refused(self, row: FrameRow) -> None:
        session = self._sessions.get((row.fields or {}).get("producer_id", -1))
        if session is not None:
            session.again = True

    def _close(self, row: FrameRow) -> None:
        self._finish((row.fields or {}).get("producer_id", -1), where_of(row))

    def end(self, row: ConnectionRow, last: Where) -> None:  # noqa: ARG002 - the contract's
        """See `ConnectionRule`."""
        for number in [*self._sessions]:
            self._finish(number, last)

    def _finish(self, number: int, until: Where) -> None:
        session = self._sessions.pop(number, None)
        if session is None or session.where is None or session.topic is None or session.name is None:
            return
        # Told when it ends, at the place where it began: sessions of a producer are judged in the order in which they began.
        where = session.where._replace(time=until.time)
        values = {
            "began": session.where.time,
            "client": self._voice.client,
            "epoch": session.epoch,
            "stored": session.stored,
            "first": session.first,
            "first_frame": session.first_frame,
            "highest": session.highest,
            "confirmed": session.confirmed,
            "sent": session.sent,
            "back": [(place.name, sent, highest) for place, sent, highest in session.back],
            "back_count": session.back_count,
            "dropped": [(place.name, sent) for place, sent in session.dropped],
            "dropped_count": session.dropped_count,
            "lost": self._voice.lost,
        }
        self._voice.tell(SESSIONS, f"{session.topic}\n{session.name}", where, "session", values)


def _judge_sessions(key: str, facts: Sequence[Fact], say: Say) -> None:
    """The sessions of one producer name on one topic, in their order."""
    topic, _, name = key.partition("\n")
    who = f"Producer {name} of {topic}"
    evidence = {"topic": topic, "producer_name": name}
    deduplicates = any((fact.values["stored"] or -1) >= 0 or fact.values["dropped_count"] for fact in facts)
    for index, fact in enumerate(facts):
        values = fact.values
        _say_back(who, fact, evidence, deduplicates, say)
        if values["first"] is None:
            continue
        earlier = facts[:index]
        if (values["stored"] or -1) >= values["first"]:
            _say_restart(who, fact, earlier, evidence, say)
        if values["dropped_count"]:
            _say_dropped(who, fact, earlier, evidence, say)


def _say_back(who: str, fact: Fact, evidence: dict[str, Any], deduplicates: bool, say: Say) -> None:
    values = fact.values
    # Key-based batches of Java interleave their ranges, which harms nobody unless the broker de-duplicates.
    back = [one for one in values["back"] if deduplicates or one[1] == one[2]]
    if not back:
        return
    _, number, highest = back[0]
    times = max(values["back_count"] - len(values["back"]) + len(back), len(back))
    ids = some([f"{sent} behind {highest}" for _, sent, highest in back])
    text = (
        f"{who} ({values['client']}) sent {count(times, 'message')} with a sequence id that is not above those before: {ids}"
        f"{'; the broker de-duplicates' if deduplicates else ''}{lacking(lost=values['lost'])}."
    )
    extra = {"frames": frames(one[0] for one in back), "count": times, "sequence_id": number, "highest_before": highest}
    say("sequence-regression", _at(fact), text, evidence | extra)


def _say_restart(who: str, fact: Fact, earlier: Sequence[Fact], evidence: dict[str, Any], say: Say) -> None:
    """It begins at or below what the broker remembers: to send again what got no receipt is right, anything else is not."""
    values = fact.values
    first, stored = values["first"], values["stored"]
    if not earlier and values["epoch"]:
        return  # A reconnect of a producer whose earlier connection is not in the capture.
    if earlier and first > earlier[-1].values["confirmed"] and first <= earlier[-1].values["highest"]:
        return
    before = f", {earlier[-1].values['confirmed']} had its receipt" if earlier else ""
    text = (
        f"{who} ({values['client']}) begins with sequence id {first}, though the broker has stored up to {stored}{before}: "
        f"messages up to {stored} will be dropped{lacking(lost=values['lost'])}."
    )
    extra = {"frames": frames([fact.where.name, values["first_frame"]]), "sequence_id": first, "stored": stored}
    say("sequence-regression", _at(fact), text, evidence | extra)


def _say_dropped(who: str, fact: Fact, earlier: Sequence[Fact], evidence: dict[str, Any], say: Say) -> None:
    values = fact.values

    def sent_before(number: int) -> bool:
        """Not confirmed by then, so that the client had to send it again."""
        return any(one.values["confirmed"] < number <= one.values["highest"] for one in earlier)

    again = [one for one in values["dropped"] if sent_before(one[1]) or (not earlier and values["epoch"])]
    fresh = [one for one in values["dropped"] if one not in again]
    for code, dropped in (("message-duplicate-dropped", fresh), ("resend-deduplicated", again)):
        if not dropped:
            continue
        times = values["dropped_count"] - len(again) if dropped is fresh else len(again)
        ids = some([str(number) for _, number in dropped])
        kind = "that were sent again after a reconnect" if dropped is again else "that were not seen to wait for a receipt"
        text = (
            f"{who} ({values['client']}): the broker dropped {times:,} of {count(values['sent'], 'SEND')} as duplicates {kind}, "
            f"sequence id {ids}{lacking(lost=values['lost'])}."
        )
        say(code, _at(fact), text, evidence | {"frames": frames(one[0] for one in dropped), "count": times, "stored": values["stored"]})


def _at(fact: Fact) -> Where:
    return fact.where._replace(time=fact.values["began"])


KEYS = (KeyRule(SESSIONS, FORGET_NS, _judge_sessions),)
