"""Requests that wait for their responses: first in, first out per key. A dissector chooses the keys."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from operator import itemgetter

from pulsarscope.dissect.contract.exchange import Request
from pulsarscope.model.bounded_tables import NOTHING
from pulsarscope.model.limits import PENDING_NAMES_MAX_BYTES, PENDING_REQUESTS_MAX

_Entry = tuple[int, Request, int]
"""Ticket, request, and the size of its names."""


class Pairing:
    """The waiting requests of one connection."""

    __slots__ = ("_keys", "_oldest", "_tickets", "_waiting", "names_bytes")

    def __init__(self) -> None:
        self._waiting: dict[Hashable, _Entry | deque[_Entry]] = NOTHING
        """Waiting requests by key; most keys have one."""
        self._keys: dict[int, Hashable] = NOTHING
        """By ticket, the longest-waiting first."""
        self._tickets = 0
        self._oldest = 1
        """Lowest ticket that may still be waiting."""
        self.names_bytes = 0
        """Size of the names in the waiting requests."""

    def ask(self, key: Hashable, request: Request) -> Sequence[Request]:
        """Let a request wait under a key.

        Return the requests that are given up to make room, oldest first, if too many wait or their names are too long.
        """
        self._tickets = ticket = self._tickets + 1
        keys = self._keys
        if not keys:
            self._waiting, self._keys = {}, {}
            keys = self._keys
        keys[ticket] = key
        topic, name, subscription = request.topic, request.producer_name, request.subscription
        size = (len(topic) if topic else 0) + (len(name) if name else 0) + (len(subscription) if subscription else 0)
        entry = ticket, request, size
        earlier = self._waiting.setdefault(key, entry)
        if earlier is not entry:
            if isinstance(earlier, deque):
                earlier.append(entry)
            else:
                self._waiting[key] = deque((earlier, entry))
        self.names_bytes += size
        if len(keys) <= PENDING_REQUESTS_MAX and self.names_bytes <= PENDING_NAMES_MAX_BYTES:
            return ()
        given_up = []
        while len(keys) > PENDING_REQUESTS_MAX or (self.names_bytes > PENDING_NAMES_MAX_BYTES and len(keys) > 1):
            while self._oldest not in keys:  # finding the first key of a dict that is emptied from its front takes ever longer
                self._oldest += 1
            if (oldest := self.answer(keys[self._oldest])) is not None:
                given_up.append(oldest)
        return given_up

    def answer(self, key: Hashable) -> Request | None:
        """Remove and return the request of this key that has waited longest."""
        found = self._waiting.pop(key, None)
        if found is None:
            return None
        if isinstance(found, deque):
            entry = found.popleft()
            if found:
                self._waiting[key] = found
        else:
            entry = found
        ticket, request, size = entry
        del self._keys[ticket]
        if not self._keys:  # most connections have nothing waiting most of the time
            self._waiting = self._keys = NOTHING
        self.names_bytes -= size
        return request

    def answer_first(self, keys: Iterable[Hashable]) -> Request | None:
        """Remove and return the request that has waited longest under any of the keys that a response may refer to."""
        oldest = None
        since = self._tickets + 1
        for key in keys:
            entry = self._first(key)
            if entry is not None and entry[0] < since:
                since, oldest = entry[0], key
        return None if oldest is None else self.answer(oldest)

    def peek(self, key: Hashable) -> Request | None:
        """Return the request of this key that has waited longest; it keeps waiting."""
        entry = self._first(key)
        return None if entry is None else entry[1]

    def _first(self, key: Hashable) -> _Entry | None:
        found = self._waiting.get(key)
        return found[0] if isinstance(found, deque) else found

    def rest(self) -> list[Request]:
        """Remove and return all requests, oldest first."""
        several = ([*found] if isinstance(found, deque) else [found] for found in self._waiting.values())
        entries = sorted((entry for each in several for entry in each), key=itemgetter(0))
        self._waiting = self._keys = NOTHING
        self.names_bytes = 0
        return [request for _, request, _ in entries]
