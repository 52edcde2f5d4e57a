"""Requests and responses, as a dissector's session names them and the pairing engine keeps them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Protocol

import msgspec


class Request(msgspec.Struct, gc=False):
    """A frame that asks, with what its exchange row will say."""

    file: int
    packet: int
    sub: int
    time: int
    command: str
    key: str | None
    topic: str | None = None
    producer_name: str | None = None
    subscription: str | None = None


class Response(msgspec.Struct, gc=False):
    """A frame that answers, as far as its exchange row needs it."""

    file: int
    packet: int
    sub: int
    time: int
    command: str
    fields: dict[str, Any]


class Pairing(Protocol):
    """The waiting requests of one connection; the session engine brings it."""

    def ask(self, key: Hashable, request: Request) -> Request | None:
        """A request begins to wait. Returns one that is given up, when there are too many."""

    def answer(self, key: Hashable) -> Request | None:
        """The request of this key that has waited longest; it waits no more."""

    def answer_first(self, keys: Iterable[Hashable]) -> Request | None:
        """Of several keys that a response may mean, the one that has waited longest."""

    def peek(self, key: Hashable) -> Request | None:
        """The request of this key that has waited longest; it goes on waiting."""

    def rest(self) -> list[Request]:
        """All that still wait, oldest first; none waits any more."""


def elapsed(request_at: tuple[int, int], request_time: int, response_at: tuple[int, int], response_time: int) -> int | None:
    """Nanoseconds from a request at (file, packet) to its response; None when the capture has them in the wrong order."""
    if response_at < request_at or response_time < request_time:
        return None
    return response_time - request_time
