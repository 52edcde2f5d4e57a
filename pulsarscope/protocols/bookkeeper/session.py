"""A connection to a bookie: answers come in any order and are paired by their ids; all digests of a ledger's entries have one kind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pulsarscope.dissect.contract.dissector import MakeStoredOpener, OpenStored
from pulsarscope.dissect.contract.events import LOAD, STORE, Event, Exchange, Remark
from pulsarscope.dissect.contract.exchange import answer, response_of
from pulsarscope.dissect.contract.frames import OK
from pulsarscope.dissect.contract.session import Session, SessionContext, SessionFrames
from pulsarscope.model.flow import SERVER
from pulsarscope.model.records import Checksum, FrameRow, MessageRow
from pulsarscope.protocols.bookkeeper.commands import ADD, AUTH, DUMMY, EOK, READ, RESPONSE, pairing_key, response
from pulsarscope.protocols.bookkeeper.early_answers import EarlyAnswers

LEDGERS_MAX = 65_536
"""Most ledgers whose kind of digest is remembered for one connection."""

EXPECTED = frozenset({EOK, "ENOENTRY"})
"""Statuses that are not failures: recovery reads until there is no entry."""

FENCED = "EFENCED"

_DIRECTIONS = {ADD: STORE, response(READ): LOAD}


class BookkeeperSession(Session):
    """The state of one connection to a bookie."""

    def __init__(self, context: SessionContext, openers: Iterable[MakeStoredOpener] = ()) -> None:
        super().__init__(context)
        wanted = openers if MessageRow.kind in context.settings.kinds else ()
        self._openers: list[OpenStored] = [opener for make in wanted if (opener := make(context.settings)) is not None]
        self._early = EarlyAnswers(context.pairing, from_start=context.from_start)
        self._digests: dict[int, str] = {}
        """Kind of digest by ledger, for ledgers with at least one correct digest."""

    def observe(self, frames: SessionFrames, events: list[Event]) -> None:
        for frame in frames:
            if frame.command is None:
                continue
            if frame.command == AUTH and frame.direction == SERVER:
                frame.command = response(AUTH)
            if frame.checksum is not None:
                self._judge(frame, events)
            if frame.metadata is not None and self._openers and frame.status == OK:
                self._open(frame, frames.payload or b"", events)
            fields = frame.fields or {}
            key = pairing_key(frame.command, fields)
            if key is None or frame.status != OK:
                continue
            if not frame.command.endswith(RESPONSE):
                if not (self._early and self._early.take(key, frame, events)):
                    self.ask(frame, key, events)
                continue
            status = fields.get("status", EOK)
            self._answer(frame, key, None if status == EOK else status, events)
            if status == FENCED:
                where = f"entry {fields.get('ledger')}:{fields.get('entry')}: the ledger was taken over by another writer"
                events.append(Remark("ledger-fenced", frame, where, {"ledger": fields.get("ledger"), "status": status}))
            elif status not in EXPECTED:
                evidence = {"status": status, "ledger": fields.get("ledger"), "entry": fields.get("entry")}
                events.append(Remark("bookie-refused", frame, f"the bookie refuses with {status}", evidence))

    def finish(self, events: list[Event]) -> None:
        self._early.finish(events)

    def _answer(self, frame: FrameRow, key: str, error: str | None, events: list[Event]) -> None:
        if (request := self.context.pairing.answer(key)) is None:
            self._early.remember(key, frame, error, events)
            return
        answer(frame, request)
        events.append(Exchange(request, response_of(frame), error))
        if self._early:
            self._early.answered(key, events)

    def _open(self, frame: FrameRow, payload: bytes, events: list[Event]) -> None:
        """Report the messages in the entry of a frame."""
        fields: dict[str, Any] = frame.fields or {}
        place = fields["ledger"], fields.get("stored_entry", fields["entry"])
        entry = next(filter(None, (opened(frame, place, payload) for opened in self._openers)), None)
        if entry is not None:
            entry.base.direction = _DIRECTIONS.get(frame.command or "", LOAD)
            events.append(entry)

    def _judge(self, frame: FrameRow, events: list[Event]) -> None:
        """Check the digest of an entry against the kind of its ledger."""
        fields = frame.fields or {}
        ledger, kind = fields.get("ledger"), fields.get("digest")
        if ledger is None or frame.checksum is None:
            return
        if frame.checksum.status == "good" and kind is not None:
            if len(self._digests) < LEDGERS_MAX:
                self._digests.setdefault(ledger, kind)
            return
        known = self._digests.get(ledger)
        if frame.status == OK and (frame.checksum.status == "bad" or (known is not None and kind != DUMMY)):
            frame.checksum = Checksum("bad", frame.checksum.stored, frame.checksum.computed)
            text = f"entry {ledger}:{fields.get('entry')} does not match its {known or kind} digest"
            evidence = {"ledger": ledger, "entry": fields.get("entry"), "digest": known or kind}
            events.append(Remark("entry-damaged", frame, text, evidence))
