"""Requests and responses: the two halves of an exchange."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from pulsarscope.model.limits import HOLE_NANOSECONDS_MAX
from pulsarscope.model.records import FrameRow

EARLY_RESPONSES_MAX = 4096
"""Responses kept for a request that may still come: captures reorder the two directions by a few packets, holes by more."""

REORDERED_PACKETS_MAX = 256
"""Greatest distance in packets of a request from an earlier captured response: captures reorder the two directions by a few."""

REORDERED_NANOSECONDS_MAX = HOLE_NANOSECONDS_MAX
"""The same bound in time, for requests that recur under the same key."""


class Request(msgspec.Struct, gc=False):
    """A requesting frame, with the columns of its exchange row."""

    file: int
    packet: int
    sub: int
    time: int
    command: str
    key: str | None
    topic: str | None = None
    producer_name: str | None = None
    subscription: str | None = None
    chosen_name: str | None = None
    """Name that the client chose for the requested object, usually at random."""


class Response(msgspec.Struct, gc=False):
    """An answering frame, with the columns of its exchange row."""

    file: int
    packet: int
    sub: int
    time: int
    command: str
    fields: dict[str, Any]
    size: int = 0
    """Bytes of the frame."""


class Placed(Protocol):
    """A frame, or the part of one that is kept."""

    @property
    def file(self) -> int:
        """Position of its file."""

    @property
    def packet(self) -> int:
        """Number of its packet."""

    @property
    def sub(self) -> int:
        """Number within the packet."""

    @property
    def time(self) -> int:
        """Time of its packet, ns since the epoch."""


def elapsed(request: Placed, response: Placed) -> int | None:
    """Return the nanoseconds from a request to its response; None if the capture has them in the wrong order."""
    if (response.file, response.packet) < (request.file, request.packet) or response.time < request.time:
        return None
    return response.time - request.time


def is_near(request: Placed, response: Placed, *, recurs: bool = False) -> bool:
    """Return True when a request that became readable after a response may be the one that it answers.

    Either the request was held up, or the two were captured out of order. A response from further back answers a request that is not in the
    capture, since keys are reused; with `recurs`, soon.
    """
    if (request.file, request.packet) <= (response.file, response.packet):
        return True
    if request.file != response.file or request.packet - response.packet > REORDERED_PACKETS_MAX:
        return False
    return not (recurs and request.time - response.time > REORDERED_NANOSECONDS_MAX)


def request_of(frame: FrameRow, key: str | None) -> Request:
    """Return a frame as a request; `key` is that of its exchange row."""
    return Request(
        frame.file, frame.packet, frame.sub, frame.time, frame.command or "", key, frame.topic, frame.producer_name, frame.subscription
    )


def response_of(frame: FrameRow) -> Response:
    """Return a frame as a response; a copy, because outputs may change rows."""
    return Response(frame.file, frame.packet, frame.sub, frame.time, frame.command or "", frame.fields or {}, frame.size)


def answer(frame: FrameRow, request: Request) -> None:
    """Record in a frame that it answers a request."""
    # Same as `frame_name` and `elapsed`, without the calls: this runs for every response.
    frame.request = f"{request.file}:{request.packet}.{request.sub}"
    if request.time <= frame.time and request.packet <= frame.packet and request.file == frame.file:
        frame.latency_ns = frame.time - request.time
    else:
        frame.latency_ns = elapsed(request, frame)
