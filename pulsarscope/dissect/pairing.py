"""Requests that wait for their responses: first in, first out for each key. A dissector chooses the keys."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable
from operator import itemgetter

from pulsarscope.dissect.exchange import Request
from pulsarscope.model.limits import PENDING_REQUESTS_MAX


class Pairing:
    """The waiting requests of one connection."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, deque[tuple[int, Request]]] = {}
        """By key, each with its ticket."""
        self._keys: dict[int, Hashable] = {}
        """By ticket, the longest-waiting first."""
        self._tickets = 0

    def ask(self, key: Hashable, request: Request) -> Request | None:
        """Let a request wait under a key; return the longest-waiting one when there are too many: it is given up."""
        self._tickets += 1
        self._keys[self._tickets] = key
        queue = self._waiting.get(key)
        if queue is None:
            self._waiting[key] = deque(((self._tickets, request),))
        else:
            queue.append((self._tickets, request))
        return self.answer(next(iter(self._keys.values()))) if len(self._keys) > PENDING_REQUESTS_MAX else None

    def answer(self, key: Hashable) -> Request | None:
        """Remove and return the request of this key that has waited longest."""
        queue = self._waiting.get(key)
        if queue is None:
            return None
        ticket, request = queue.popleft()
        del self._keys[ticket]
        if not queue:
            del self._waiting[key]
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
        self._waiting.clear()
        self._keys.clear()
        return [request for _, request in entries]
