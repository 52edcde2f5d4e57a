"""Sequence ids of each producer on each connection, and the receipts for them."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from pulsarscope.dissect.rules import ConnectionRule, Handlers, RuleContext, Where, where_of
from pulsarscope.model.records import ConnectionRow, FrameRow

SESSIONS = "sessions-of-producer"

PRODUCERS_MAX = 10_000
"""Producers of one connection that are watched."""

SAMPLES_MAX = 25
"""Dropped, repeated and lower ids of one producer that are told, of each kind; their numbers are exact."""

CONNECTION_SAMPLES_MAX = 10_000
"""Such ids of all producers of one connection; of each producer the first of each kind is told in any case."""


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
    back: list[tuple[str, int, int]] = msgspec.field(default_factory=list)
    """SENDs whose id is not above the highest before: frame, id, that highest."""
    lower_count: int = 0
    repeated_count: int = 0
    """Of them those whose id is that highest."""
    dropped: list[tuple[str, int]] = msgspec.field(default_factory=list)
    """Receipts of dropped ones: frame and sequence id."""
    dropped_count: int = 0
    dropped_lowest: int = 0
    dropped_highest: tuple[str, int] = ("", -1)


class Sequences(ConnectionRule):
    """See `pulsarscope.dissect.rules.ConnectionRule`."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._sessions: dict[int, Session] = {}
        self._asked: dict[str, int] = {}
        """Producer ids by name of the frame of PRODUCER."""
        self._samples = 0

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
            repeated = number == session.highest
            if self._is_sample(session.repeated_count if repeated else session.lower_count):
                session.back.append((where_of(row).name, number, session.highest))
            session.repeated_count += repeated
            session.lower_count += not repeated
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
            if self._is_sample(session.dropped_count):
                session.dropped.append((where_of(row).name, number))
            session.dropped_lowest = min(number, session.dropped_lowest) if session.dropped_count else number
            if number > session.dropped_highest[1]:
                session.dropped_highest = where_of(row).name, number
            session.dropped_count += 1
        elif number > session.confirmed:
            session.confirmed = number

    def _is_sample(self, before: int) -> bool:
        """Whether this one, of a kind of which the producer had so many before, is to be told."""
        if before and (before >= SAMPLES_MAX or self._samples >= CONNECTION_SAMPLES_MAX):
            return False
        self._samples += 1
        return True

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
            "client": self._context.client,
            "epoch": session.epoch,
            "stored": session.stored,
            "first": session.first,
            "first_frame": session.first_frame,
            "highest": session.highest,
            "confirmed": session.confirmed,
            "sent": session.sent,
            "back": session.back,
            "lower_count": session.lower_count,
            "repeated_count": session.repeated_count,
            "dropped": session.dropped,
            "dropped_count": session.dropped_count,
            "dropped_lowest": session.dropped_lowest,
            "dropped_highest": session.dropped_highest,
            "lost": self._context.lost,
        }
        self._context.emit_fact(SESSIONS, f"{session.topic}\n{session.name}", where, "session", values)

    frames: ClassVar[Handlers] = {
        "PRODUCER": _producer,
        "PRODUCER_SUCCESS": _created,
        "CLOSE_PRODUCER": _close,
        "SEND": _send,
        "SEND_RECEIPT": _receipt,
        "SEND_ERROR": _refused,
    }
