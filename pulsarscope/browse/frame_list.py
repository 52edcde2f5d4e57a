"""The list of frames: a virtual list, which renders only the lines on the screen."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from pulsarscope.browse.browsed_capture import Frames
from pulsarscope.browse.frame_lines import FrameLines
from pulsarscope.model.records import FrameRow

_SELECTED, _MARKED = Style(reverse=True), Style(bold=True, underline=True)


class FrameList(ScrollView, can_focus=True):
    """Frames of a store, or those that a filter passes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", "Next", show=False),
        Binding("up,k", "move(-1)", "Previous", show=False),
        Binding("pagedown,ctrl+d,space", "page(1)", "Page down", show=False),
        Binding("pageup,ctrl+u", "page(-1)", "Page up", show=False),
        Binding("home,g", "go(0)", "First", show=False),
        Binding("end,G", "go(-1)", "Last", show=False),
    ]

    class Selected(Message):
        """Another frame is selected."""

        def __init__(self, row: FrameRow) -> None:
            super().__init__()
            self.row = row

    def __init__(self, store: Frames, lines: FrameLines, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.lines = lines
        self.matches: array[int] | None = None
        """Positions of the frames that a filter passes, in ascending order; None: all."""
        self.marks: set[int] = set()
        """Positions of marked frames."""
        self.at = 0
        """The selected line."""
        self.tails = False
        """True if a selection of the last line follows new frames, as in a live capture."""
        self._held: int | None = None
        """Number of lines while the list is paused; None otherwise."""
        self._store = store

    @property
    def count(self) -> int:
        """Number of lines."""
        count = len(self._store) if self.matches is None else len(self.matches)
        return count if self._held is None else min(self._held, count)

    @property
    def paused(self) -> bool:
        """True while the list does not grow."""
        return self._held is not None

    @paused.setter
    def paused(self, value: bool) -> None:
        self._held = self.count if value else None

    @property
    def shown_of_store(self) -> int:
        """Number of frames of the store up to the last line."""
        return self.position(self.count - 1) + 1 if self.count else 0

    @property
    def row(self) -> FrameRow | None:
        """The selected frame."""
        return self.row_at(self.at)

    def position(self, line: int) -> int:
        """Return the position in the store of the frame on a line."""
        return line if self.matches is None else self.matches[line]

    def shows(self, position: int) -> bool:
        """Return True if the frame at a position of the store is shown."""
        if self.matches is None:
            return position < self.count
        at = bisect_left(self.matches, position)
        return at < self.count and self.matches[at] == position

    def grow(self) -> None:
        """Extend the list by new lines."""
        count = self.count
        if self.virtual_size.height != count:
            first = not self.virtual_size.height or (self.tails and self.at == self.virtual_size.height - 1)
            self.virtual_size = Size(self.scrollable_content_region.width, count)
            self.refresh()
            if first and count:
                self.select(count - 1 if self.tails else self.at)

    def show(self, matches: array[int] | None) -> None:
        """Show other frames. The selection stays on its frame if that is among them, else it moves to the next one."""
        position = self.position(self.at) if self.at < self.count else 0
        self.matches = matches
        self.virtual_size = Size(self.scrollable_content_region.width, self.count)
        self.go_to_position(position)
        self.refresh()

    def go_to_position(self, position: int) -> None:
        """Select the frame at a position of the store, or the next one that is shown."""
        if self.matches is None:
            self.select(position)
            return
        self.select(bisect_left(self.matches, position))

    def go_to_time(self, time: int) -> None:
        """Select the first frame at a time or later."""
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            row = self.row_at(middle)
            low, high = (middle + 1, high) if row is not None and row.time < time else (low, middle)
        self.select(low)

    def select(self, line: int) -> None:
        """Select a line, and scroll to it."""
        if not self.count:
            self.refresh()
            return
        self.at = min(max(line, 0), self.count - 1)
        self.scroll_to_region(Region(0, self.at, 1, 1), animate=False, force=True)
        self.refresh()
        if (row := self.row) is not None:
            self.post_message(self.Selected(row))

    def mark(self) -> None:
        """Mark the selected frame, or remove its mark."""
        if self.count:
            self.marks ^= {self.position(self.at)}
            self.refresh()

    def action_move(self, by: int) -> None:
        """Move the selection by `by` lines."""
        self.select(self.at + by)

    def action_page(self, by: int) -> None:
        """Move the selection by `by` screens."""
        self.select(self.at + by * max(self.size.height - 1, 1))

    def action_go(self, line: int) -> None:
        """Select a line; −1 is the last."""
        self.select(self.count - 1 if line < 0 else line)

    def on_click(self, event: Click) -> None:
        """Select the line under the pointer."""
        self.select(int(self.scroll_offset.y) + event.y)

    def render_line(self, y: int) -> Strip:
        """Return a line of the screen."""
        line = int(self.scroll_offset.y) + y
        width = self.scrollable_content_region.width
        row = self.row_at(line)
        if row is None:
            return Strip.blank(width)
        text = self.lines.line(row, self.row_at(line - 1), width)
        strip = Strip([Segment(segment.text, segment.style) for segment in text.render(self.app.console)], width)
        if self.position(line) in self.marks:
            strip = strip.apply_style(_MARKED)
        return strip.apply_style(_SELECTED) if line == self.at else strip

    def row_at(self, line: int) -> FrameRow | None:
        """Return the frame on a line; None if there is none that can be read."""
        if not 0 <= line < self.count:
            return None
        try:
            return self._store[self.position(line)]
        except (IndexError, OSError):
            return None
