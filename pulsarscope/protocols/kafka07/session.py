"""A Kafka 0.7 connection: a response answers the oldest waiting request, and only that request shows its kind.

The broker does not read a request of a connection before it has answered the previous one, so answers come in the order of requests. If the
capture lacks bytes, the order alone is not enough. Then a response can only answer the newest request before it, and only if the client
waits for each answer, as clients of 0.7 do. For any other client, responses are no longer paired.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from pulsarscope.dissect.contract.events import DELIVER, PRODUCE, Event, Exchange, FormNotes, Remark
from pulsarscope.dissect.contract.exchange import EARLY_RESPONSES_MAX, Request, Response, answer, is_near, response_of
from pulsarscope.dissect.contract.frames import MALFORMED, OK, SKIPPED, SPLITTER_CODES, TRUNCATED, Note
from pulsarscope.dissect.contract.session import Session, SessionContext, SessionFrames
from pulsarscope.model.flow import CLIENT, SERVER
from pulsarscope.model.records import ConnectionRow, FrameRow
from pulsarscope.model.text import plural
from pulsarscope.protocols.kafka07.commands import ANSWERED_BY, FETCH_RESPONSE, OFFSETS_RESPONSE, RESPONSE
from pulsarscope.protocols.kafka07.cursor import ParseError
from pulsarscope.protocols.kafka07.deliveries import Deliveries, ReadSet, shares
from pulsarscope.protocols.kafka07.requests import LARGE_BYTES, LARGEST_MESSAGE, largest_message, only_topic, parts_of, read_request
from pulsarscope.protocols.kafka07.responses import ParsedResponse, errors_of, possible_commands, read_response, shape

_QUEUE = "requests"
"""The only key under which requests wait: only their order distinguishes them."""

TOO_LONG = "its contents are longer than the frame"

LOCATING = frozenset({"partition", "offset"})
"""Fields of a request that give its place in a topic."""


_Place = tuple[int, int]
"""File and packet."""


class _WaitingRequest(NamedTuple):
    """A waiting request, with the properties that the pairing does not keep."""

    command: str
    parts: Sequence[dict[str, Any]]
    place: _Place

    def takes(self, possible: Mapping[str, int]) -> bool:
        """Return True if a response that can be these commands, with these numbers of message sets, can answer it."""
        command = ANSWERED_BY[self.command]
        return possible.get(command) == (0 if command == OFFSETS_RESPONSE else len(self.parts))


class _Preceding(NamedTuple):
    """The bytes of the server between two responses."""

    skipped: _Place = (-1, 0)
    """Place of the last bytes without a frame: requests before them are answered."""
    hole: bool = False
    """True if responses may be missing after them."""


class _UnmatchedResponse(NamedTuple):
    """A response without a request, and its possible commands."""

    response: Response
    place: _Place
    possible: Mapping[str, int]
    preceding: _Preceding


class Kafka07Session(Session):
    """The state of one Kafka 0.7 connection."""

    def __init__(self, context: SessionContext) -> None:
        self._wants_exchanges = "exchange" in context.settings.kinds
        self._pairing = context.pairing
        self._deliveries = Deliveries(wanted="message" in context.settings.kinds)
        self._waiting: deque[_WaitingRequest] = deque()
        """Requests that wait in the pairing."""
        self._unmatched: deque[_UnmatchedResponse] = deque()
        """Responses that became readable before any request that they could answer: requests may be delayed, or captured later."""
        self._lost = not context.from_start
        """True if bytes are missing or precede the capture."""
        self._pipelined = False
        """True if the client does not wait for answers."""
        self._next: dict[str, int] = {}
        """Offset of the next frame by direction, if nothing is missing."""
        self._preceding = _Preceding()
        """Bytes before the next response."""
        self._answered_to: _Place = (-1, 0)
        """Place before which all requests are answered, or their answers are lost."""
        self._cut = False
        """True if the last response was cut: it is then the missing one."""

    def observe(self, frames: SessionFrames, events: list[Event]) -> None:
        """Only the sender of a frame shows its kind, so its form is checked here."""
        for frame in frames:
            if frame.status == MALFORMED:  # regardless of its sender
                frame.status = OK
            notes = [note for note in frames.notes if frame.status == SKIPPED or note[0] in SPLITTER_CODES - {"frame-malformed"}]
            frames.notes = ()
            behind: list[Event] = []
            self._follow(frame)
            if frame.status == SKIPPED:
                pass
            elif frame.direction == CLIENT:
                self._request(frame, frames.raw or b"", notes, behind)
            else:
                self._response(frame, frames.raw or b"", notes, behind)
            if notes:
                events.append(FormNotes(list(dict.fromkeys(notes))))
            events += behind
            self._deliveries.report(events)

    def finish(self, events: list[Event]) -> None:
        self._settle(events)
        for request in self._pairing.rest():
            self._exchange(request, None, events)
        self._waiting.clear()

    def describe(self, row: ConnectionRow) -> None:
        """Do nothing: neither side describes itself."""

    def _follow(self, frame: FrameRow) -> None:
        """Notice when a stream does not continue where it ended."""
        direction, offset, size = frame.direction, frame.offset, frame.size
        broken = offset != self._next.get(direction, 0) or frame.status == SKIPPED
        self._lost = self._lost or broken or frame.status == TRUNCATED
        if direction == SERVER:
            if frame.status == SKIPPED:
                self._preceding = _Preceding((frame.file, frame.packet))
            elif broken and not self._cut:
                self._preceding = self._preceding._replace(hole=True)
            self._cut = frame.status == TRUNCATED
        self._next[direction] = offset + size

    def _request(self, frame: FrameRow, data: bytes, notes: list[Note], out: list[Event]) -> None:
        whole = frame.status == OK
        problem = "no request has this type"
        try:
            request = read_request(data, 0, len(data), notes)
        except ParseError as error:
            request, problem = None, str(error)
        if request is None:
            _forget(frame)
            if whole:
                _malformed(frame, notes, problem)
            return
        frame.command, frame.fields = request.command, request.fields
        if whole and request.short:
            _malformed(frame, notes, TOO_LONG)
        elif whole and request.end < len(data):
            notes.append(("trailing-bytes", f"{plural(len(data) - request.end, 'byte')} behind the request"))
        parts = parts_of(request.command, request.fields)
        if len(parts) == 1:
            frame.extra = {name: value for name, value in parts[0].items() if name in LOCATING} or None
        frame.topic = only_topic(parts)
        taken = self._deliveries.take(frame, data, PRODUCE, request.sets, notes)
        frame.topics = shares(parts, request.sets, taken)
        if (frame.payload_size or 0) > LARGE_BYTES:
            frame.extra = (frame.extra or {}) | {LARGEST_MESSAGE: largest_message(data, request.sets)}
        if request.command in ANSWERED_BY and frame.status == OK:
            self._ask(frame, _WaitingRequest(request.command, parts, (frame.file, frame.packet)), out)

    def _ask(self, frame: FrameRow, waiting: _WaitingRequest, out: list[Event]) -> None:
        request = Request(frame.file, frame.packet, frame.sub, frame.time, waiting.command, None, frame.topic)
        if self._lost:
            self._settle(out, waiting.place)
            unmatched = None
        else:
            unmatched = self._take_unmatched(frame, ANSWERED_BY[waiting.command], out)
        if unmatched is not None or (self._lost and self._pipelined):
            self._exchange(request, unmatched, out)
            return
        self._waiting.append(waiting)
        for given_up in self._pairing.ask(_QUEUE, request):
            self._waiting.popleft()
            self._exchange(given_up, None, out)
            out.append(Remark("session-cap", given_up, "it is given up, too many requests wait"))

    def _response(self, frame: FrameRow, data: bytes, notes: list[Note], out: list[Event]) -> None:
        _forget(frame)
        preceding, self._preceding = self._preceding, _Preceding()
        waiting, request = self._answered(frame, data, out, preceding)
        command = ANSWERED_BY[waiting.command] if waiting is not None else self._command_by_shape(frame, data)
        parts = waiting.parts if waiting is not None else ()
        problem = TOO_LONG
        try:
            response = read_response(command, data, 0, len(data), parts, notes)
        except ParseError as error:
            response, problem = ParsedResponse(command, {}, short=True), str(error)
        frame.command, frame.fields = response.command, response.fields
        if frame.status == OK and response.short:
            _malformed(frame, notes, problem)
        frame.topic = only_topic(parts) if parts else None
        taken = self._deliveries.take(frame, data, DELIVER, response.sets, notes)
        frame.topics = shares(parts, response.sets, taken)
        _locate(frame, response, taken)
        if request is not None:
            answer(frame, request)
            if self._wants_exchanges or frame.latency_ns is None:
                out.append(_exchange_of(request, response_of(frame)))
        elif frame.status != TRUNCATED:
            possible = possible_commands(data, 0, len(data))
            self._unmatched.append(_UnmatchedResponse(response_of(frame), (frame.file, frame.packet), possible, preceding))
            if len(self._unmatched) > EARLY_RESPONSES_MAX:
                self._exchange(None, self._unmatched.popleft().response, out)

    def _answered(
        self, frame: FrameRow, data: bytes, out: list[Event], preceding: _Preceding
    ) -> tuple[_WaitingRequest | None, Request | None]:
        """Return the request that this frame answers, if that is known."""
        place = (frame.file, frame.packet)
        if self._lost:
            self._settle(out, place)
            possible = None if frame.status == TRUNCATED else possible_commands(data, 0, len(data))
            return self._newest(place, preceding, possible, out)
        if not self._waiting:
            return None, None
        waiting = self._waiting.popleft()
        self._answered_to = place
        if self._waiting and self._waiting[0].place < place:
            self._pipelined = True  # the next request did not wait for this answer
        return waiting, self._pairing.answer(_QUEUE)

    def _newest(
        self, place: _Place, preceding: _Preceding, possible: Mapping[str, int] | None, out: list[Event]
    ) -> tuple[_WaitingRequest | None, Request | None]:
        """Return the newest request before a response; give up all others, which were answered before the client sent the next.

        If there is a hole before the response, and no older request that the hole answered, the hole answered the newest request, and the
        response answers a lost one. Without a hole, a client with several open requests does not wait.
        """
        self._answered_to = max(self._answered_to, preceding.skipped)
        earlier = sum(1 for _ in takewhile(lambda waiting: waiting.place < place, self._waiting))
        answered = sum(1 for _ in takewhile(lambda waiting: waiting.place < self._answered_to, self._waiting))
        if earlier - answered > 1 and not preceding.hole:
            self._pipelined = True
        for _ in range(earlier if earlier - answered == 1 and preceding.hole else max(earlier - 1, answered)):
            self._waiting.popleft()
            self._exchange(self._pairing.answer(_QUEUE), None, out)
        waiting = self._waiting[0] if self._waiting else None
        if self._pipelined or waiting is None or waiting.place >= place or not (possible is None or waiting.takes(possible)):
            return None, None
        self._answered_to = place
        return self._waiting.popleft(), self._pairing.answer(_QUEUE)

    def _settle(self, out: list[Event], place: _Place | None = None) -> None:
        """Pair the responses before `place` (None: all): where bytes are lost, requests may become readable after their responses."""
        while self._unmatched and (place is None or self._unmatched[0].place < place):
            unmatched = self._unmatched.popleft()
            waiting, request = self._newest(unmatched.place, unmatched.preceding, unmatched.possible, out)
            if waiting is not None:
                unmatched.response.command = ANSWERED_BY[waiting.command]
            self._exchange(request, unmatched.response, out)
            if not self._waiting or self._waiting[0].place >= unmatched.place:  # otherwise, the waiting request is not answered
                self._answered_to = unmatched.place

    @staticmethod
    def _command_by_shape(frame: FrameRow, data: bytes) -> str:
        """Return the command of a response without a request, if only one is possible."""
        command = None if frame.status == TRUNCATED else shape(data, 0, len(data))
        return command or RESPONSE

    def _take_unmatched(self, frame: FrameRow, command: str, out: list[Event]) -> Response | None:
        """Remove and return the response that became readable before this request, if the request was delayed or captured late."""
        while self._unmatched:
            response, _, possible, _ = self._unmatched.popleft()
            if command in possible and is_near(frame, response):
                response.command = command
                return response
            self._exchange(None, response, out)
        return None

    def _exchange(self, request: Request | None, response: Response | None, out: list[Event]) -> None:
        """Report a request with its response; either may be missing."""
        if self._wants_exchanges and (request or response) is not None:
            out.append(_exchange_of(request, response))


def _exchange_of(request: Request | None, response: Response | None) -> Exchange:
    errors = errors_of(response.fields) if response is not None else ()
    return Exchange(request, response, errors[0] if errors else None)


def _forget(frame: FrameRow) -> None:
    """Clear the columns that were decoded without knowing the direction."""
    frame.command = frame.fields = frame.payload_size = None


def _malformed(frame: FrameRow, notes: list[Note], problem: str) -> None:
    frame.status = MALFORMED
    notes.append(("frame-malformed", problem))


def _locate(frame: FrameRow, response: ParsedResponse, taken: Sequence[ReadSet]) -> None:
    """Note the log offsets of the delivered messages and of the next fetch, and the size of a message that was cut off."""
    fields = response.fields
    places = []
    for part, batch, (size, cut, _) in zip(fields.get("parts") or (fields,), response.sets, taken, strict=False):
        if cut:
            part["cut"] = cut
        if batch.offset is not None:
            places.append({"topic": batch.topic, "partition": batch.partition, "offset": batch.offset, "next_offset": batch.offset + size})
    if places and response.command == FETCH_RESPONSE:
        frame.extra = {name: value for name, value in places[0].items() if name != "topic"}
    elif places:
        frame.extra = {"parts": places}
