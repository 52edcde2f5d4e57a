"""Hex view: each frame's line of the timeline, and under it its bytes with the names of their ranges."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from pulsarscope.model.limits import SHOWN_ITEMS_MAX
from pulsarscope.model.records import FrameRow, RawFrame
from pulsarscope.output.export.sink import Sink
from pulsarscope.output.registry import OutputOptions
from pulsarscope.output.render.cell_text import clip, escape
from pulsarscope.output.render.style import palette, symbols
from pulsarscope.output.render.timeline import TimelineOutput

SHOWN_BYTES = 512
"""Bytes of one range shown; `--payload hex` shows all."""

WIDE = 100
"""From this terminal width on a row has sixteen bytes, below it eight."""

_VISIBLE = bytes(code if 0x20 <= code < 0x7F else 0x2E for code in range(256))

Range = tuple[int, int, str, int]
"""start, end, name, depth."""


class HexLines:
    """Writes the bytes of frames. What a range is stands on the right of its first line; a new range begins a new line."""

    def __init__(self, options: OutputOptions) -> None:
        self._per_row = 16 if options.width is None or options.width >= WIDE else 8
        self._width = options.width
        self._shown = None if options.payload == "hex" else SHOWN_BYTES
        self._look = palette(options.color)
        self._ellipsis = symbols(options.encoding).ellipsis

    def __call__(self, raw: RawFrame) -> list[str]:
        """The lines of one frame."""
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
            *outer, label = [self._clip(name, left) for name in names] or [""]
            lines += [f"{'':{left}}{dim}{name}{reset}" for name in outer]
            last = end if self._shown is None else min(end, start + self._shown)
            for row in range(start, last, per_row):
                part = data[row : min(row + per_row, last)]
                text = part.translate(_VISIBLE).decode("ascii")
                line = f"    {dim}{row:0{digits}x}{reset}  {_hex(part, bytes_width)}  {text:<{per_row}}  {label if row == start else ''}"
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
        """Also the bytes of the frame before."""
        if type(row) is RawFrame:
            lines += self._hex(row)
        else:
            super().other(row, lines)

    def frames(self, rows: list[FrameRow], lines: list[str]) -> None:
        """With a line between one frame's bytes and the next frame."""
        if rows and self.last is not None:
            lines.append("")
        super().frames(rows, lines)


def _hex(part: bytes, width: int) -> str:
    """Two digits a byte, with a wider gap in the middle of a row of sixteen."""
    text = part.hex(" ")
    if width == 48 and len(part) > 8:
        text = f"{text[:23]} {text[23:]}"
    return f"{text:<{width}}"


def _pieces(data: bytes, ranges: list[Range]) -> list[tuple[int, int, list[str]]]:
    """The frame cut wherever a range begins or ends; each piece with the names of the ranges that begin there, outer ones first."""
    size = len(data)
    kept = [(start, end, name, depth) for start, end, name, depth in ranges if 0 <= start < end <= size]
    edges = sorted({0, size, *(edge for start, end, _, _ in kept for edge in (start, end))})
    beginning: dict[int, list[Range]] = {}
    for one in kept:
        beginning.setdefault(one[0], []).append(one)
    pieces = []
    for start, end in pairwise(edges):
        here = sorted(beginning.get(start, ()), key=lambda one: (one[3], -one[1]))
        names = [f"{'  ' * depth}{escape(name)}{f'  {stop - start:,} bytes' if stop > end else ''}" for _, stop, name, depth in here]
        pieces.append((start, end, names))
    return pieces
