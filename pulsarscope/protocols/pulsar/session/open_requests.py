"""Requests of one connection that wait for their responses, and responses that precede their requests in the capture."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Any

from pulsarscope.dissect.contract.events import Event, Exchange, Remark
from pulsarscope.dissect.contract.exchange import EARLY_RESPONSES_MAX, Request, Response, answer, elapsed, is_near, response_of
from pulsarscope.dissect.contract.legs import ANCHOR
from pulsarscope.dissect.contract.pairing import Pairing
from pulsarscope.model.bounded_tables import NOTHING
from pulsarscope.model.flow import CLIENT, SERVER
from pulsarscope.model.limits import PENDING_NAMES_MAX_BYTES, PENDING_REQUESTS_MAX
from pulsarscope.model.records import ExchangeRow, FrameRow
from pulsarscope.protocols.pulsar.session.anchors import Anchors
from pulsarscope.protocols.pulsar.session.exchanges import (
    ANSWERED_BY,
    CONNECTING_REQUEST_ID,
    IN_ORDER,
    OWN_REFUSALS,
    REFUSABLE,
    RESPONSES,
    error_of,
    key_of,
)

EARLY_MAX_BYTES = 16 << 20
"""Bound on early responses in bytes of their frames, in addition to the bound on their number."""

PING_NANOSECONDS_MAX = 10 * 1_000_000_000
"""Time after which another PING shows that the capture lacks the PONG: clients and brokers send a PING every 30 s, and answer at once."""

TOO_MANY = f"more than {PENDING_REQUESTS_MAX} requests, or {PENDING_NAMES_MAX_BYTES >> 20} MiB of names in them, wait on this connection"

EarlyKey = tuple[str, Hashable, Hashable]
"""("SEND", producer id, sequence id or, for a replicator, ledger and entry of the message in its own cluster), ("id", command of the
response, request id), or (command of the response, asking side, None)."""

ASKED_IN_ORDER = {answer: asked for asked, answer in IN_ORDER.items()}
"""Requests without an id by their responses."""


class OpenRequests:
    """Pairs requests and responses, and reports them."""

    __slots__ = ("_early_bytes", "_pairing", "_receipts", "anchors", "early", "wants_exchanges")

    def __init__(self, pairing: Pairing, kinds: Collection[str]) -> None:
        self._pairing = pairing
        self.wants_exchanges = ExchangeRow.kind in kinds
        self.anchors = Anchors(wanted=ANCHOR in kinds)
        self.early: dict[EarlyKey, Response] = NOTHING
        """Responses whose request has not been seen yet."""
        self._early_bytes = 0
        self._receipts: dict[Hashable, dict[EarlyKey, None]] = NOTHING
        """Keys of the early receipts, by producer."""

    def report(self, request: Request | None, response: Response | None, events: list[Event], *, final: bool = True) -> None:
        """Report an exchange, as far as it is known."""
        in_order = request is None or response is None or elapsed(request, response) is not None
        if in_order and not (final and self.wants_exchanges):
            return
        if response is None:
            events.append(Exchange(request))
        else:
            key = key_of(response.fields) if request is None else None
            events.append(Exchange(request, response, *error_of(response.command, response.fields), key, final))

    def ask(self, key: tuple[str, Hashable], frame: FrameRow, request: Request, events: list[Event]) -> Response | None:
        """Let a request wait under `key`; return its response if that came first."""
        command = request.command
        if self.anchors.left and command == "SUBSCRIBE":
            self.anchors.asked(request, frame)
        if self.early and command in ANSWERED_BY:
            number = (frame.fields or {}).get("request_id")
            for answer in (ANSWERED_BY[command], "ERROR") if command != "ACK" else (ANSWERED_BY[command],):
                early = self.take_early(("id", answer, number), frame, events)
                if early is not None:
                    self.report(request, early, events)
                    return early
        elif command in IN_ORDER:
            early = self.take_early((IN_ORDER[command], frame.direction, None), frame, events) if self.early else None
            if early is not None:
                self.report(request, early, events)
                return early
            if command == "PING" and (last := self._pairing.peek(key)) and request.time - last.time > PING_NANOSECONDS_MAX:
                self.report(self._pairing.answer(key), None, events)
        for given_up in self._pairing.ask(key, request):
            place = {"offset": frame.offset, "size": frame.size}
            events.append(Remark("session-cap", frame, TOO_MANY, place))
            self.report(given_up, None, events)
        return None

    def answered(self, command: str, fields: dict[str, Any], direction: str) -> Request | None:
        """Return the request that a response closes, or (for a queued producer) only answers."""
        if command not in RESPONSES and command != "ERROR":
            in_order = ASKED_IN_ORDER.get(command)
            return None if in_order is None else self._pairing.answer((in_order, SERVER if direction == CLIENT else CLIENT))
        number = fields.get("request_id")
        if number is None:
            return None
        if command == "ERROR":
            if number == CONNECTING_REQUEST_ID:
                return self._pairing.answer(("CONNECT", SERVER if direction == CLIENT else CLIENT))
            # The C++ client numbers lookups separately: one whose answer is lost may wait with the id of the request that is refused.
            plain = self._pairing.answer_first([(response, number) for response in REFUSABLE if response not in OWN_REFUSALS])
            return plain or self._pairing.answer_first([(response, number) for response in OWN_REFUSALS])
        if command == "PRODUCER_SUCCESS" and fields.get("producer_ready") is False:
            return self._pairing.peek((command, number))
        return self._pairing.answer((command, number))

    def answer(self, frame: FrameRow, fields: dict[str, Any], request: Request, events: list[Event]) -> None:
        """Note in a frame that it answers a request, and report the two."""
        answer(frame, request)
        if self.wants_exchanges or frame.latency_ns is None:
            final = not (frame.command == "PRODUCER_SUCCESS" and fields.get("producer_ready") is False)
            self.report(request, response_of(frame), events, final=final)
        if self.anchors.left:
            self.anchors.answered(request, frame, fields, events)

    def remember(self, key: EarlyKey | None, frame: FrameRow, events: list[Event]) -> None:
        """Keep a response without a request: the capture may have the two in reverse order."""
        if key is None:
            self.report(None, response_of(frame), events)
            return
        self.forget(key, events)
        self.early = self.early or {}
        self.early[key] = response_of(frame)
        if key[0] == "SEND":
            self._receipts = self._receipts or {}
            self._receipts.setdefault(key[1], {})[key] = None
        self._early_bytes += frame.size
        while len(self.early) > EARLY_RESPONSES_MAX or (self._early_bytes > EARLY_MAX_BYTES and len(self.early) > 1):
            self.forget(next(iter(self.early)), events)

    def forget(self, key: EarlyKey, events: list[Event]) -> None:
        """Report an early response as one without a request."""
        if key in self.early:
            self.report(None, self._pop_early(key), events)

    def forget_receipts(self, producer_id: int, since: FrameRow, events: list[Event]) -> None:
        """Report the early receipts of a producer before a frame, which gives the id to another producer."""
        for key in [*self._receipts.get(producer_id, ())]:
            response = self.early[key]
            if (response.file, response.packet) < (since.file, since.packet):
                self.forget(key, events)

    def take_early(self, key: EarlyKey, request: FrameRow, events: list[Event]) -> Response | None:
        """Return the response that came before its request."""
        response = self.early.get(key)
        if response is None:
            return None
        if is_near(request, response, recurs=response.command in ASKED_IN_ORDER):
            return self._pop_early(key)
        self.forget(key, events)
        return None

    def _pop_early(self, key: EarlyKey) -> Response:
        response = self.early.pop(key)
        self._early_bytes -= response.size
        if key[0] == "SEND":
            self._receipts[key[1]].pop(key)
            if not self._receipts[key[1]]:
                del self._receipts[key[1]]
        return response

    def waits(self) -> int:
        """Return the size of the waiting names and responses, in bytes."""
        return self._pairing.names_bytes + self._early_bytes

    def finish(self, unanswered: list[Request], events: list[Event]) -> None:
        """Report everything that still waits, together with the requests in `unanswered`."""
        unanswered = sorted([*self._pairing.rest(), *unanswered], key=lambda request: (request.file, request.packet, request.sub))
        for request in unanswered:
            self.report(request, None, events)
        for key in list(self.early):
            self.forget(key, events)
