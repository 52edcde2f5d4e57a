"""Messages whose payload has a text: where they are, as far as the messages are read."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable
from threading import Lock

from pulsarscope.model.limits import BROWSED_FINDINGS_MAX
from pulsarscope.model.records import MessageRow
from pulsarscope.output.export.columns import json_lines
from pulsarscope.output.render.view import count_text

Name = tuple[int, int, int]
"""File, packet and sub of a frame."""


class PayloadSearch:
    """A search, in any case of letters. One thread may feed while another asks."""

    def __init__(self, text: str) -> None:
        self.text = text.lower()
        self.ended = False
        """All messages are read, or enough."""
        self.awaited = False
        """Somebody waits for the next one."""
        self._found: list[Name] = []
        self._last: Name | None = None
        self._messages = self._unread = 0
        self._lock = Lock()

    def feed(self, messages: Iterable[MessageRow]) -> None:
        """Look at messages; ends when too many have it."""
        with self._lock:
            for row in messages:
                self._messages += 1
                self._unread += row.status != "ok"
                name = row.file or 0, row.packet or 0, row.sub or 0
                if name != self._last and self._has(row):
                    insort(self._found, name)
                    self._last = name  # the others of its batch lead to the same frame
            self.ended = self.ended or len(self._found) >= BROWSED_FINDINGS_MAX

    def _has(self, row: MessageRow) -> bool:
        if row.payload is not None and self.text in row.payload.lower():
            return True
        return row.value is not None and self.text in json_lines([row.value])[0].lower()

    def behind(self, name: Name) -> Iterable[Name]:
        """Return the frames behind one whose messages have the text."""
        with self._lock:
            return self._found[bisect_right(self._found, name) :]

    @property
    def summary(self) -> str:
        """Counts of the messages that were searched, and of those that could not be."""
        parts = [f"{len(self._found):,} frames with it in {count_text(self._messages, 'message')}{'' if self.ended else ' so far'}"]
        if self._unread:
            parts.append(f"{self._unread:,} could not be read: encrypted, cut or damaged")
        if len(self._found) >= BROWSED_FINDINGS_MAX:
            parts.append("the rest is not searched")
        return "; ".join(parts)
