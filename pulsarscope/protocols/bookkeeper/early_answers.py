"""Answers that precede their requests in the capture."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import msgspec

from pulsarscope.dissect.contract.events import Event, Exchange
from pulsarscope.dissect.contract.exchange import EARLY_RESPONSES_MAX, Request, Response, is_near, request_of, response_of
from pulsarscope.dissect.contract.pairing import Pairing
from pulsarscope.model.records import FrameRow
from pulsarscope.protocols.bookkeeper.commands import AUTH, READ

_RECURRING = AUTH, f"{READ} "
"""Beginnings of the keys that a client reuses for many requests."""


class _Answer(NamedTuple):
    response: Response
    error: str | None


class EarlyAnswers:
    """Answers whose requests may still come.

    A capture that begins within a connection begins with answers to requests that it lacks, and a key that soon recurs may belong to
    another request. Until something proves that packets of this connection are in the wrong order, such a request waits beside the early
    answers of its key. If all requests of the key get their own answers, the early ones have no request.
    """

    def __init__(self, pairing: Pairing, *, from_start: bool) -> None:
        """Prepare; `from_start`: the capture has all requests."""
        self._pairing = pairing
        self._disordered = from_start
        """True once it is known that answers may have been captured before their requests."""
        self._answers: dict[str, deque[_Answer]] = {}
        """Answers by key, in order of arrival; a key has several if its requests are pipelined."""
        self._count = 0

    def __bool__(self) -> bool:
        return bool(self._answers)

    def remember(self, key: str, frame: FrameRow, error: str | None, events: list[Event]) -> None:
        """Keep an answer without a request."""
        self._forget_far(key, frame, events)
        answer = _Answer(msgspec.structs.replace(response_of(frame), fields={}), error)
        self._answers.setdefault(key, deque()).append(answer)
        self._count += 1
        if self._count > EARLY_RESPONSES_MAX:
            self._report(next(iter(self._answers)), None, events)

    def take(self, key: str, request: FrameRow, events: list[Event]) -> bool:
        """Return True if an early answer answers a request; the exchange is then reported."""
        self._forget_far(key, request, events)
        answers = self._answers.get(key)
        if answers is None:
            return False
        if self._disordered or not key.startswith(_RECURRING):
            place = 0
        else:
            place = next((place for place, answer in enumerate(answers) if _is_proven(request, answer.response)), -1)
            if place < 0:
                return False
        is_held_up = _is_held_up(request, answers[place].response)
        self._report(key, request_of(request, key), events, place)
        if not (self._disordered or is_held_up):
            self._disordered = True
            self._settle(events)
        return True

    def answered(self, key: str, events: list[Event]) -> None:
        """Report early answers as unrequested once the last request of their key has its own answer."""
        if key in self._answers and self._pairing.peek(key) is None:
            self._forget(key, events)

    def finish(self, events: list[Event]) -> None:
        """Report all requests and answers that still wait."""
        self._settle(events)
        events += [Exchange(request) for request in self._pairing.rest()]
        for key in list(self._answers):
            self._forget(key, events)

    def _settle(self, events: list[Event]) -> None:
        """Pair early answers with the requests that wait beside them."""
        for key in list(self._answers):
            while key in self._answers and (request := self._pairing.answer(key)) is not None:
                self._report(key, request, events)

    def _forget_far(self, key: str, frame: FrameRow, events: list[Event]) -> None:
        """Report the early answers of a key as unrequested if they are too far before a frame of that key."""
        recurs = key.startswith(_RECURRING)
        while (answers := self._answers.get(key)) and not is_near(frame, answers[0].response, recurs=recurs):
            self._report(key, None, events)

    def _forget(self, key: str, events: list[Event]) -> None:
        while key in self._answers:
            self._report(key, None, events)

    def _report(self, key: str, request: Request | None, events: list[Event], place: int = 0) -> None:
        """Report the early answer of a key at a place, with the request that it answers."""
        answers = self._answers[key]
        response, error = answers[place]
        del answers[place]
        if not answers:
            del self._answers[key]
        self._count -= 1
        events.append(Exchange(request, response, error, key=key if request is None else None))


def _is_held_up(request: FrameRow, response: Response) -> bool:
    """Return True if a request became readable after the response, but was captured before it."""
    return (request.file, request.packet) <= (response.file, response.packet)


def _is_proven(request: FrameRow, response: Response) -> bool:
    """Return True if place or time show that a request was sent before a response that became readable earlier."""
    return _is_held_up(request, response) or request.time < response.time
