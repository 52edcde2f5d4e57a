"""Hex view: the line of each frame in the timeline, and below it its bytes with the names of their ranges."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from pulsarscope.dissect.contract.capabilities import SECRET_RANGE
from pulsarscope.model.limits import SHOWN_ITEMS_MAX
from pulsarscope.model.records import FrameRow, RawFrame
from pulsarscope.output.export.sink import Sink
from pulsarscope.output.registry import OutputOptions
from pulsarscope.output.render.cell_text import clip, escape
from pulsarscope.output.render.style import palette, symbols
from pulsarscope.output.render.timeline import TimelineOutput

SHOWN_BYTES = 512
"""Bytes shown of a range; `--payload hex` shows all."""

WIDE = 120
"""Least width of a terminal for sixteen bytes in a row. Below it, a row has eight."""

_VISIBLE = bytes(code if 0x20 <= code < 0x7F else 0x2E for code in range(256))

NamedRange = tuple[int, int, str, int]
"""Start, end, name and depth of a range of bytes."""


class HexLines:
    """A formatter of the bytes of frames. Each range begins a new line, with its name on the right."""

    def __init__(self, options: OutputOptions) -> None:
        self._per_row = 16 if options.width is None or options.width >= WIDE else 8
        self._width = options.width
        self._shown = None if options.payload == "hex" else SHOWN_BYTES
        self._look = palette(options.color)
        marks = symbols(options.encoding)
        self._ellipsis, self._hidden = marks.ellipsis, marks.hidden

    def __call__(self, raw: RawFrame) -> list[str]:
        """Return the lines of a frame."""
        dim, reset, per_row = self._look.dim, self._look.reset, self._per_row
        data = raw.data
        digits = max(4, len(f"{len(data):x}"))
        bytes_width = 48 if per_row == 16 else 23
        left = digits + 6 + bytes_width + 2 + per_row + 2
        lines = []
        ranges = raw.ranges if self._shown is None else raw.ranges[:SHOWN_ITEMS_MAX]
        if len(ranges) < len(raw.ranges):
            lines.append(f"    {dim}{len(raw.ranges):,} ranges, the first {len(ranges):,} are named{reset}")
        for start, end, names in _pieces(data, ranges):
            hidden = any(name.strip().startswith(SECRET_RANGE) for name in names)
            *outer, label = [self._clip(name, left) for name in names] or [""]
            lines += [f"{'':{left}}{dim}{name}{reset}" for name in outer]
            last = end if self._shown is None else min(end, start + self._shown)
            for row in range(start, last, per_row):
                part = data[row : min(row + per_row, last)]
                text = self._hidden * len(part) if hidden else part.translate(_VISIBLE).decode("ascii")
                digits_text = " ".join([2 * self._hidden] * len(part)) if hidden else part.hex(" ")
                shown = _gapped(digits_text, bytes_width)
                line = f"    {dim}{row:0{digits}x}{reset}  {shown}  {text:<{per_row}}  {label if row == start else ''}"
                lines.append(line.rstrip())
            if last < end:
                lines.append(f"{'':{digits + 6}}{dim}{end - last:,} more of {end - start:,} bytes{reset}")
        return lines

    def _clip(self, name: str, left: int) -> str:
        return name if self._width is None else clip(name, max(self._width - left, 8), self._ellipsis)


class HexOutput(TimelineOutput):
    """The output `hex`."""

    def __init__(self, sink: Sink, options: OutputOptions) -> None:
        super().__init__(sink, options)
        self._hex = HexLines(options)

    def other(self, row: Any, lines: list[str]) -> None:
        """Append the lines of a row, or of the bytes of the frame before."""
        if type(row) is RawFrame:
            lines += self._hex(row)
        else:
            super().other(row, lines)

    def frames(self, rows: list[FrameRow], lines: list[str]) -> None:
        """Append the lines of frames, with an empty line after the bytes of the frame before."""
        if rows and self.last is not None:
            lines.append("")
        super().frames(rows, lines)


def _gapped(text: str, width: int) -> str:
    """Return two digits for each byte, with a wider gap in the middle of a row of sixteen."""
    if width == 48 and len(text) > 23:
        text = f"{text[:23]} {text[23:]}"
    return f"{text:<{width}}"


def _pieces(data: bytes, ranges: list[NamedRange]) -> list[tuple[int, int, list[str]]]:
    """Cut a frame where a range begins or ends, and return each piece with the names of the ranges that begin there, outer first."""
    size = len(data)
    kept = [(start, end, name, depth) for start, end, name, depth in ranges if 0 <= start < end <= size]
    edges = sorted({0, size, *(edge for start, end, _, _ in kept for edge in (start, end))})
    beginning: dict[int, list[NamedRange]] = {}
    for named_range in kept:
        beginning.setdefault(named_range[0], []).append(named_range)
    pieces = []
    for start, end in pairwise(edges):
        here = sorted(beginning.get(start, ()), key=lambda named_range: (named_range[3], -named_range[1]))
        names = [f"{'  ' * depth}{escape(name)}{f'  {stop - start:,} bytes' if stop > end else ''}" for _, stop, name, depth in here]
        pieces.append((start, end, names))
    return pieces
