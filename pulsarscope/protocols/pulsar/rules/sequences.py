"""Facts on the sequence ids of each producer on each connection, and on the receipts for them."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from pulsarscope.dissect.rules import ConnectionRule, Handlers, RuleContext, Where, where_of
from pulsarscope.model.records import ConnectionRow, FrameRow
from pulsarscope.model.tables import remember

SESSIONS = "sessions-of-producer"

PRODUCERS_MAX = 10_000
"""Producers of one connection that are followed."""

SAMPLES_MAX = 25
"""Dropped, repeated and lower sequence ids of one producer that are listed, of each kind; their counts are exact."""

CONNECTION_SAMPLES_MAX = 10_000
"""Such ids of all producers of one connection; the first of each kind and producer is listed in any case."""

_DROPPED = (-1, -1)
"""Position in the receipt of a message that the broker drops as a duplicate."""


class ProducerSession(msgspec.Struct):
    """Sequence ids of a producer on one connection, from PRODUCER on."""

    where: Where
    topic: str | None = None
    name: str | None = None
    epoch: int = 0
    stored: int | None = None
    """PRODUCER_SUCCESS.last_sequence_id, the highest that the broker remembers; None or -1 when it remembers none."""
    first: int | None = None
    """Sequence id of the first SEND, and its frame."""
    first_frame: str = ""
    highest: int = -1
    """Highest sequence id sent; that of a batch is its last message's."""
    chunk: int | None = None
    """Sequence id of the chunked message that is being sent."""
    confirmed: int = -1
    """Highest sequence id with a receipt."""
    sent: int = 0
    resending: bool = False
    """True after a refused SEND, when the client sends again all that waits."""
    regressions: list[tuple[str, int, int]] = msgspec.field(default_factory=list)
    """SENDs whose id is not above the highest before: frame, id, that highest."""
    lower_count: int = 0
    """Number of those whose id is below that highest."""
    repeated_count: int = 0
    """Number of those whose id is that highest."""
    dropped: list[tuple[str, int]] = msgspec.field(default_factory=list)
    """Receipts of dropped messages: frame and sequence id."""
    dropped_count: int = 0
    dropped_lowest: int = 0
    dropped_highest: tuple[str, int] = ("", -1)


class SequenceRule(ConnectionRule):
    """Source of the facts on the producers of one connection."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._sessions: dict[int, ProducerSession] = {}
        """Open sessions by producer id."""
        self._requests: dict[str, int] = {}
        """Producer ids by name of the frame of PRODUCER."""
        self._samples = 0

    def _producer(self, row: FrameRow) -> None:
        fields = row.fields or {}
        number, where = fields.get("producer_id", -1), where_of(row)
        self._finish(number, where)
        if len(self._sessions) < PRODUCERS_MAX:
            self._sessions[number] = ProducerSession(where, row.topic, row.producer_name, fields.get("epoch", 0))
            remember(self._requests, where.name, number, PRODUCERS_MAX)

    def _producer_success(self, row: FrameRow) -> None:
        fields = row.fields or {}
        if (session := self._sessions.get(self._requests.get(row.request or "", -1))) is not None:
            session.name = fields.get("producer_name", session.name)
            session.stored = fields.get("last_sequence_id", -1)

    def _send(self, row: FrameRow) -> None:
        fields = row.fields or {}
        if (session := self._sessions.get(fields.get("producer_id", -1))) is None:
            return
        number = fields.get("sequence_id", -1)
        is_chunk = fields.get("is_chunk") or "chunk_id" in (row.metadata or {})
        session.sent += 1
        if session.first is None:
            session.first, session.first_frame = number, where_of(row).name
        if number <= session.highest and not (is_chunk and number == session.chunk) and not session.resending:
            repeated = number == session.highest
            if self._admit_sample(session.repeated_count if repeated else session.lower_count):
                session.regressions.append((where_of(row).name, number, session.highest))
            session.repeated_count += repeated
            session.lower_count += not repeated
        session.chunk = number if is_chunk else None
        session.highest = max(session.highest, number, fields.get("highest_sequence_id", -1))

    def _receipt(self, row: FrameRow) -> None:
        fields = row.fields or {}
        if (session := self._sessions.get(fields.get("producer_id", -1))) is None:
            return
        number = fields.get("sequence_id", -1)
        message_id = fields.get("message_id")
        if message_id is not None and (message_id.get("ledgerId"), message_id.get("entryId")) == _DROPPED:
            frame = where_of(row).name
            if self._admit_sample(session.dropped_count):
                session.dropped.append((frame, number))
            session.dropped_lowest = min(number, session.dropped_lowest) if session.dropped_count else number
            if number > session.dropped_highest[1]:
                session.dropped_highest = frame, number
            session.dropped_count += 1
        elif number > session.confirmed:
            session.confirmed = number

    def _admit_sample(self, count: int) -> bool:
        """Count a sample of a kind of which the producer has `count` already; return False when there are enough."""
        if count and (count >= SAMPLES_MAX or self._samples >= CONNECTION_SAMPLES_MAX):
            return False
        self._samples += 1
        return True

    def _send_error(self, row: FrameRow) -> None:
        if (session := self._sessions.get((row.fields or {}).get("producer_id", -1))) is not None:
            session.resending = True

    def _close(self, row: FrameRow) -> None:
        self._finish((row.fields or {}).get("producer_id", -1), where_of(row))

    def end(self, row: ConnectionRow, last: Where) -> None:  # noqa: ARG002 - the contract's
        """Emit the sessions of all producers that are open."""
        for number in [*self._sessions]:
            self._finish(number, last)

    def _finish(self, number: int, until: Where) -> None:
        session = self._sessions.pop(number, None)
        if session is None or session.topic is None or session.name is None:
            return
        # Emitted at its end, for the place of its begin: sessions of a producer are compared in the order in which they began.
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
            "regressions": session.regressions,
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
        "PRODUCER_SUCCESS": _producer_success,
        "CLOSE_PRODUCER": _close,
        "SEND": _send,
        "SEND_RECEIPT": _receipt,
        "SEND_ERROR": _send_error,
    }
