"""The bytes kept because more may follow, in all connections of a process: parts of frames, chunks, messages without receipt, requests."""

from __future__ import annotations


class Ledger:
    """The connections with waiting bytes, the longest-waiting first."""

    def __init__(self) -> None:
        self._waiting: dict[str, int] = {}
        self.total = 0

    def note(self, connection: str, size: int) -> None:
        """Record the number of bytes that now wait on a connection."""
        before = self._waiting.get(connection, 0)
        if size:
            self._waiting[connection] = size
        elif before:
            del self._waiting[connection]
        self.total += size - before

    def longest_waiting(self) -> str:
        """Return the connection whose bytes have waited for longest."""
        return next(iter(self._waiting))
