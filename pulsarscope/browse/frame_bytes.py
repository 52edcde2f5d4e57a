"""The bytes of a frame beside its fields: selecting a field highlights its bytes, and clicking a byte selects its field."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.events import Click
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from pulsarscope.dissect.contract.capabilities import SECRET_RANGE
from pulsarscope.model.limits import SHOWN_ITEMS_MAX
from pulsarscope.model.records import RawFrame
from pulsarscope.output.render.cell_text import escape

_LIT, _SECRET, _OFFSET = Style(reverse=True), Style(dim=True), Style(dim=True)
_VISIBLE = bytes(code if 0x20 <= code < 0x7F else 0x2E for code in range(256))

WIDE = 73
"""Least cells for sixteen bytes in a line. Below it, a line has eight."""


class HexPane(ScrollView, can_focus=True):
    """The bytes of a frame, with one range highlighted."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,l", "move(1)", show=False),
        Binding("left,h", "move(-1)", show=False),
        Binding("down,j", "move_line(1)", show=False),
        Binding("up,k", "move_line(-1)", show=False),
    ]

    class Pointed(Message):
        """Another byte is selected."""

        def __init__(self, position: int) -> None:
            super().__init__()
            self.position = position

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.lit = (0, 0)
        """Start and end of the highlighted bytes."""
        self._data = b""
        self._secrets: list[tuple[int, int]] = []
        self._at = 0

    @property
    def per_line(self) -> int:
        """Number of bytes in a line."""
        return 16 if self.size.width >= WIDE else 8

    def show(self, raw: RawFrame) -> None:
        """Show a frame."""
        self._data = raw.data
        self._secrets = [(start, end) for start, end, name, _ in raw.ranges if name.strip().startswith(SECRET_RANGE)]
        self._at = 0
        self.light(0, 0)

    def light(self, start: int, end: int) -> None:
        """Highlight a range, and scroll its start into view."""
        self.lit = (start, end)
        self._resize()
        self.scroll_to_region(Region(0, start // self.per_line, 1, 1), animate=False, force=True)
        self.refresh()

    def on_resize(self) -> None:
        """Divide the bytes into lines again."""
        self._resize()

    def _resize(self) -> None:
        self.virtual_size = Size(self.scrollable_content_region.width, -(-len(self._data) // self.per_line))

    def action_move(self, by: int) -> None:
        """Move the selection by `by` bytes."""
        self._point(self._at + by)

    def action_move_line(self, by: int) -> None:
        """Move the selection by `by` lines."""
        self._point(self._at + by * self.per_line)

    def on_click(self, event: Click) -> None:
        """Select the byte under the pointer."""
        if (column := self._byte_in(event.x)) is not None:
            self._point((int(self.scroll_offset.y) + event.y) * self.per_line + column)

    def _byte_in(self, x: int) -> int | None:
        """Return the byte of a line that is shown in a cell."""
        per_line, digits = self.per_line, 3 * self.per_line
        if 8 <= x < 8 + digits:
            return (x - 8) // 3
        return x - 9 - digits if 9 + digits <= x < 9 + digits + per_line else None

    def _point(self, position: int) -> None:
        if self._data:
            self._at = min(max(position, 0), len(self._data) - 1)
            self.post_message(self.Pointed(self._at))

    def render_line(self, y: int) -> Strip:
        """Return a line of the screen: an offset, bytes in hex, and as text."""
        width, per_line = self.scrollable_content_region.width, self.per_line
        start = (int(self.scroll_offset.y) + y) * per_line
        part = self._data[start : start + per_line]
        if not part:
            return Strip.blank(width)
        digits, text = [], []
        for at, byte in enumerate(part, start):
            hidden = any(begin <= at < end for begin, end in self._secrets)
            style = _LIT if self.lit[0] <= at < self.lit[1] else _SECRET if hidden else None
            joined = style if self.lit[0] <= at and at + 1 < min(self.lit[1], start + per_line) else None
            digits += [Segment("··" if hidden else f"{byte:02x}", style), Segment(" ", joined)]
            text.append(Segment("·" if hidden else chr(_VISIBLE[byte]), style))
        padding = Segment("   " * (per_line - len(part)) + " ")
        strip = Strip([Segment(f"{start:06x}  ", _OFFSET), *digits, padding, *text])
        return strip.adjust_cell_length(width)


class FrameBytes(Horizontal):
    """Fields with their values on the left, bytes on the right."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._ranges: list[tuple[int, int, str, int]] = []

    def compose(self) -> ComposeResult:
        """Lay out both."""
        yield OptionList(id="ranges", markup=False)
        yield HexPane(id="hex")

    @property
    def fields(self) -> OptionList:
        """The list of fields."""
        return self.query_one("#ranges", OptionList)

    @property
    def hex(self) -> HexPane:
        """The bytes."""
        return self.query_one("#hex", HexPane)

    def show(self, raw: RawFrame) -> None:
        """Show a frame, with its first field selected."""
        self._ranges = [each for each in raw.ranges[:SHOWN_ITEMS_MAX] if 0 <= each[0] < each[1] <= len(raw.data)]
        self.hex.show(raw)
        self.fields.clear_options()
        self.fields.add_options([Option(Text(f"{'  ' * depth}{escape(name)}", no_wrap=True)) for _, _, name, depth in self._ranges])
        if self._ranges:
            self.fields.highlighted = 0

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Highlight the bytes of a field."""
        if event.option_index < len(self._ranges):
            start, end, _, _ = self._ranges[event.option_index]
            self.hex.light(start, end)

    def on_hex_pane_pointed(self, event: HexPane.Pointed) -> None:
        """Select the innermost field that contains a byte."""
        around = [(end - start, -at) for at, (start, end, _, _) in enumerate(self._ranges) if start <= event.position < end]
        if around:
            self.fields.highlighted = -min(around)[1]
