"""Requests wait for their responses: first in, first out for each key. Knows no protocol; a dissector says what the keys are."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable

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
        """A request begins to wait. Returns the longest-waiting one when there are too many: it is given up."""
        self._tickets += 1
        self._keys[self._tickets] = key
        queue = self._waiting.get(key)
        if queue is None:
            self._waiting[key] = deque(((self._tickets, request),))
        else:
            queue.append((self._tickets, request))
        return self.answer(next(iter(self._keys.values()))) if len(self._keys) > PENDING_REQUESTS_MAX else None

    def answer(self, key: Hashable) -> Request | None:
        """The request of this key that has waited longest; it waits no more."""
        queue = self._waiting.get(key)
        if queue is None:
            return None
        ticket, request = queue.popleft()
        del self._keys[ticket]
        if not queue:
            del self._waiting[key]
        return request

    def answer_first(self, keys: Iterable[Hashable]) -> Request | None:
        """Of several keys that a response may mean, the one that has waited longest."""
        oldest = None
        since = self._tickets + 1
        for key in keys:
            queue = self._waiting.get(key)
            if queue and queue[0][0] < since:
                since, oldest = queue[0][0], key
        return None if oldest is None else self.answer(oldest)

    def peek(self, key: Hashable) -> Request | None:
        """The request of this key that has waited longest; it goes on waiting."""
        queue = self._waiting.get(key)
        return queue[0][1] if queue else None

    def rest(self) -> list[Request]:
        """All that still wait, in the order in which they began; none waits any more."""
        if not self._waiting:
            return []
        left = sorted((entry for queue in self._waiting.values() for entry in queue), key=lambda entry: entry[0])
        self._waiting.clear()
        self._keys.clear()
        return [request for _, request in left]
