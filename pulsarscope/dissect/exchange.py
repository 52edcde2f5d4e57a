"""Requests and responses: the two halves of an exchange."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from pulsarscope.model.records import FrameRow


class Request(msgspec.Struct, gc=False):
    """A frame that asks, with the columns of its exchange row."""

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
    """A frame that answers, with the columns of its exchange row."""

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

    file: int
    packet: int
    sub: int
    time: int


def elapsed(request: Placed, response: Placed) -> int | None:
    """Return the nanoseconds from a request to its response; None when the capture has them in the wrong order."""
    if (response.file, response.packet) < (request.file, request.packet) or response.time < request.time:
        return None
    return response.time - request.time


def request_of(frame: FrameRow, key: str | None) -> Request:
    """Return a frame as a request; `key`: of its exchange row."""
    return Request(
        frame.file, frame.packet, frame.sub, frame.time, frame.command or "", key, frame.topic, frame.producer_name, frame.subscription
    )


def response_of(frame: FrameRow) -> Response:
    """Return a frame as a response; a copy, because outputs may change rows."""
    return Response(frame.file, frame.packet, frame.sub, frame.time, frame.command or "", frame.fields or {}, frame.size)


def answer(frame: FrameRow, request: Request) -> None:
    """Note in a frame that it answers a request."""
    # As `frame_name` and `elapsed`, without the calls: this is done for every response.
    frame.request = f"{request.file}:{request.packet}.{request.sub}"
    if request.time <= frame.time and request.packet <= frame.packet and request.file == frame.file:
        frame.latency_ns = frame.time - request.time
    else:
        frame.latency_ns = elapsed(request, frame)
