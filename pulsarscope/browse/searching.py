"""Searching from the selected frame on: in the listed text of frames, and in the payloads of messages."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable
from threading import Lock

import msgspec
from textual import work
from textual.app import App
from textual.worker import get_current_worker

from pulsarscope.browse.browsed_capture import Browsed
from pulsarscope.browse.frame_lines import FrameLines
from pulsarscope.browse.frame_list import FrameList
from pulsarscope.model.errors import PulsarscopeError
from pulsarscope.model.limits import BROWSED_FINDINGS_MAX
from pulsarscope.model.records import MessageRow
from pulsarscope.model.text import plural
from pulsarscope.output.export.columns import json_lines

Name = tuple[int, int, int]
"""File, packet and sub of a frame."""


class PayloadSearch:
    """A search that ignores case. One thread may feed while another queries."""

    def __init__(self, text: str) -> None:
        self.text = text.lower()
        self.ended = False
        """True when all messages, or enough of them, have been read."""
        self.awaited = False
        """True when the user waits for the next match."""
        self._found: list[Name] = []
        self._last: Name | None = None
        self._messages = self._unread = 0
        self._lock = Lock()

    def feed(self, messages: Iterable[MessageRow]) -> None:
        """Search messages; end when too many contain the text."""
        with self._lock:
            for row in messages:
                self._messages += 1
                self._unread += row.status != "ok"
                name = row.file or 0, row.packet or 0, row.sub or 0
                if name != self._last and self._has(row):
                    insort(self._found, name)
                    self._last = name  # other messages of its batch belong to the same frame
            self.ended = self.ended or len(self._found) >= BROWSED_FINDINGS_MAX

    def _has(self, row: MessageRow) -> bool:
        if row.payload is not None and self.text in row.payload.lower():
            return True
        return row.value is not None and self.text in json_lines([row.value])[0].lower()

    def behind(self, name: Name) -> Iterable[Name]:
        """Return the frames after `name` whose messages contain the text."""
        with self._lock:
            return self._found[bisect_right(self._found, name) :]

    @property
    def summary(self) -> str:
        """Counts of the messages that were searched, and of those that could not be searched."""
        parts = [f"{len(self._found):,} frames with it in {plural(self._messages, 'message')}{'' if self.ended else ' so far'}"]
        if self._unread:
            parts.append(f"{self._unread:,} could not be read: encrypted, cut or damaged")
        if len(self._found) >= BROWSED_FINDINGS_MAX:
            parts.append("the rest is not searched")
        return "; ".join(parts)


class SearchingApp(App[None]):
    """An application with a list of frames that can be searched."""

    def __init__(self, browsed: Browsed, lines: FrameLines) -> None:
        super().__init__()
        self.browsed = browsed
        self.lines = lines
        self.payloads: PayloadSearch | None = None
        """The latest search, if it is in payloads."""
        self._searched = ""

    @property
    def list(self) -> FrameList:
        """The list of frames."""
        return self.query_one("#list", FrameList)

    def search_lines(self, text: str) -> None:
        """Search the lines and fields of frames."""
        self._searched, self.payloads = text.lower(), None
        self._search_lines()

    def action_search_on(self) -> None:
        """Select the next frame that contains the text."""
        if self.payloads is None:
            self._search_lines()
        else:
            self.payloads.awaited = True
            self._next_payload()

    @work(thread=True, exclusive=True, group="search")
    def _search_lines(self) -> None:
        """Select the next frame with the text in its line or fields."""
        worker, wanted = get_current_worker(), self._searched
        if not wanted:
            return
        line = self.list.at + 1
        for at in range(line, self.list.count):
            if worker.is_cancelled:
                return
            if (row := self.list.row_at(at)) is None:
                continue
            if wanted in self.lines.summary(row).lower() or wanted in msgspec.json.encode(row).decode("utf-8", "replace").lower():
                self.call_from_thread(self.list.select, at)
                return
        self.call_from_thread(self.notify, "not found below this frame", markup=False)

    def search_payloads(self, text: str) -> None:
        """Search the payloads and values of messages."""
        if self.browsed.live:
            self.notify("payloads of a live capture are not kept: save it with -w, and browse the file")
        elif text:
            self.payloads = PayloadSearch(text)
            self._read_payloads(self.payloads)
            self.action_search_on()

    @work(thread=True, exclusive=True, group="payloads")
    def _read_payloads(self, search: PayloadSearch) -> None:
        """Search the messages, up to a limit."""
        worker = get_current_worker()
        try:
            for rows, _ in self.browsed.messages(""):
                search.feed(rows)
                if worker.is_cancelled or search.ended:
                    break
                if rows and search.awaited:
                    self.call_from_thread(self._next_payload)
        except PulsarscopeError as error:
            self.call_from_thread(self.notify, "; ".join(error.lines), markup=False)
        search.ended = True
        if not worker.is_cancelled:
            self.call_from_thread(self._next_payload)

    def _next_payload(self) -> None:
        """Select the next frame whose messages contain the text as soon as it is known, or say that there is none."""
        search = self.payloads
        if search is None or not search.awaited:
            return
        here = self.list.row
        for name in search.behind((0, 0, 0) if here is None else (here.file or 0, here.packet or 0, here.sub or 0)):
            position = self.browsed.find(*name)
            if position is not None and self.list.shows(position):
                search.awaited = False
                self.list.go_to_position(position)
                return
        if search.ended:
            search.awaited = False
            self.notify(f"not found below this frame; {search.summary}", markup=False)
