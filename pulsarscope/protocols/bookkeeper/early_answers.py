"""Answers that the capture has before their requests."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from pulsarscope.dissect.events import Event, Exchange
from pulsarscope.dissect.exchange import EARLY_RESPONSES_MAX, Request, Response, is_near, request_of, response_of
from pulsarscope.dissect.pairing import Pairing
from pulsarscope.model.records import FrameRow
from pulsarscope.protocols.bookkeeper.commands import AUTH, READ

_RECURRING = AUTH, f"{READ} "
"""Beginnings of the keys under which a client asks again and again."""


class _Answer(NamedTuple):
    response: Response
    error: str | None


class EarlyAnswers:
    """Answers without a request, which may still come.

    A capture that begins within a connection begins with answers to requests that it lacks. A key that comes again soon may be another
    request. Such a request waits next to the early answer: if it gets an answer of its own, the early one has no request.
    """

    def __init__(self, pairing: Pairing, *, from_start: bool) -> None:
        """`from_start`: the capture has all requests."""
        self._pairing = pairing
        self._from_start = from_start
        self._answers: dict[str, _Answer] = {}

    def __bool__(self) -> bool:
        return bool(self._answers)

    def remember(self, key: str, frame: FrameRow, error: str | None, events: list[Event]) -> None:
        """Keep an answer without a request."""
        self.forget(key, events)
        self._answers[key] = _Answer(msgspec.structs.replace(response_of(frame), fields={}), error)
        if len(self._answers) > EARLY_RESPONSES_MAX:
            self.forget(next(iter(self._answers)), events)

    def take(self, key: str, request: FrameRow, events: list[Event]) -> bool:
        """Return True when a request is answered by an early answer; the exchange is reported then."""
        answer = self._answers.get(key)
        if answer is None:
            return False
        waiting = self._pairing.answer(key)
        if waiting is not None:  # the client asks again, so it has the answer
            self._report(key, waiting, events)
            return False
        recurs = key.startswith(_RECURRING)
        if not is_near(request, answer.response, recurs=recurs):
            self.forget(key, events)
            return False
        is_held_up = (request.file, request.packet) <= (answer.response.file, answer.response.packet)
        if recurs and not (self._from_start or is_held_up or request.time < answer.response.time):
            return False
        self._report(key, request_of(request, key), events)
        return True

    def forget(self, key: str, events: list[Event]) -> None:
        """Report an early answer as one without a request."""
        answer = self._answers.pop(key, None)
        if answer is not None:
            events.append(Exchange(None, answer.response, answer.error, key=key))

    def finish(self, events: list[Event]) -> None:
        """Report all that still waits, requests and answers."""
        for request in self._pairing.rest():
            if request.key in self._answers:
                self._report(request.key, request, events)
            else:
                events.append(Exchange(request))
        for key in list(self._answers):
            self.forget(key, events)

    def _report(self, key: str, request: Request, events: list[Event]) -> None:
        answer = self._answers.pop(key)
        events.append(Exchange(request, answer.response, answer.error))
