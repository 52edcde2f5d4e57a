"""Requests that wait for their responses: first in, first out for each key. A dissector chooses the keys."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from operator import itemgetter

from pulsarscope.dissect.exchange import Request
from pulsarscope.model.limits import PENDING_NAMES_MAX_BYTES, PENDING_REQUESTS_MAX
from pulsarscope.model.tables import NOTHING


class Pairing:
    """The waiting requests of one connection."""

    __slots__ = ("_keys", "_oldest", "_tickets", "_waiting", "names_bytes")

    def __init__(self) -> None:
        self._waiting: dict[Hashable, deque[tuple[int, Request, int]]] = NOTHING
        """By key, each with its ticket and the size of its names."""
        self._keys: dict[int, Hashable] = NOTHING
        """By ticket, the longest-waiting first."""
        self._tickets = 0
        self._oldest = 1
        """Ticket before which none waits."""
        self.names_bytes = 0
        """Size of the names in the waiting requests."""

    def ask(self, key: Hashable, request: Request) -> Sequence[Request]:
        """Let a request wait under a key; return those that are given up for it, oldest first: too many wait, or too long names."""
        self._tickets = ticket = self._tickets + 1
        self._waiting, self._keys = self._waiting or {}, self._keys or {}
        keys = self._keys
        keys[ticket] = key
        size = len(request.topic or "") + len(request.producer_name or "") + len(request.subscription or "")
        self.names_bytes += size
        queue = self._waiting.get(key)
        if queue is None:
            self._waiting[key] = deque(((ticket, request, size),))
        else:
            queue.append((ticket, request, size))
        if len(keys) <= PENDING_REQUESTS_MAX and self.names_bytes <= PENDING_NAMES_MAX_BYTES:
            return ()
        given_up = []
        while len(keys) > PENDING_REQUESTS_MAX or (self.names_bytes > PENDING_NAMES_MAX_BYTES and len(keys) > 1):
            while self._oldest not in keys:  # the first of a table that is emptied from its front takes ever longer to find
                self._oldest += 1
            if (oldest := self.answer(keys[self._oldest])) is not None:
                given_up.append(oldest)
        return given_up

    def answer(self, key: Hashable) -> Request | None:
        """Remove and return the request of this key that has waited longest."""
        queue = self._waiting.get(key)
        if queue is None:
            return None
        ticket, request, size = queue.popleft()
        del self._keys[ticket]
        if not queue:
            del self._waiting[key]
            if not self._waiting:  # as most connections wait for nothing most of the time
                self._waiting = self._keys = NOTHING
        self.names_bytes -= size
        return request

    def answer_first(self, keys: Iterable[Hashable]) -> Request | None:
        """Remove and return the request that has waited longest under any of several keys that a response may mean."""
        oldest = None
        since = self._tickets + 1
        for key in keys:
            queue = self._waiting.get(key)
            if queue and queue[0][0] < since:
                since, oldest = queue[0][0], key
        return None if oldest is None else self.answer(oldest)

    def peek(self, key: Hashable) -> Request | None:
        """Return the request of this key that has waited longest; it goes on waiting."""
        queue = self._waiting.get(key)
        return queue[0][1] if queue else None

    def rest(self) -> list[Request]:
        """Remove and return all requests, oldest first."""
        entries = sorted((entry for queue in self._waiting.values() for entry in queue), key=itemgetter(0))
        self._waiting = self._keys = NOTHING
        self.names_bytes = 0
        return [request for _, request, _ in entries]
