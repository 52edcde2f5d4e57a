"""The bytes that wait for what may follow, of all connections of a process: parts of frames, chunks, messages without receipt, requests."""

from __future__ import annotations


class Ledger:
    """The connections with bytes that wait, the longest-waiting first."""

    def __init__(self) -> None:
        self._waiting: dict[str, int] = {}
        self.total = 0

    def note(self, connection: str, size: int) -> None:
        """Note how many bytes wait on a connection now."""
        before = self._waiting.get(connection, 0)
        if size:
            self._waiting[connection] = size
        elif before:
            del self._waiting[connection]
        self.total += size - before

    def longest_waiting(self) -> str:
        """Return the connection on which bytes have waited longest."""
        return next(iter(self._waiting))
