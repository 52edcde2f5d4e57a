"""Lines of the list of frames."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timezone

from rich.cells import set_cell_size
from rich.style import Style
from rich.text import Text

from pulsarscope.dissect.contract.dissector import Dissector
from pulsarscope.filter.field_columns import FieldColumns
from pulsarscope.model.connection_name import connection_label, first_packet
from pulsarscope.model.flow import SERVER
from pulsarscope.model.records import FrameRow
from pulsarscope.model.text import duration
from pulsarscope.model.units import SECOND
from pulsarscope.output.export.columns import json_lines
from pulsarscope.output.render.cell_text import cell_width, clip_middle, escape, fit_summary
from pulsarscope.output.render.times import SLOW_NANOSECONDS

TIMES = ("relative", "delta", "utc", "epoch")
"""Forms of times, in the order in which a key cycles through them."""

COLUMN_WIDTH = 16
"""Width of the column of a field, in cells."""

NARROW = 100
"""Cells below which columns are narrower."""

SLOW = Style.parse("yellow")
_DIM, _BAD = Style.parse("dim"), Style.parse("bold red")
_CONNECTIONS = tuple(map(Style.parse, ("cyan", "magenta", "blue", "green", "bright_cyan", "bright_magenta", "bright_blue", "bright_green")))


class FrameLines:
    """A renderer of single frames, independent of each other."""

    def __init__(self, dissector_of: Callable[[FrameRow], Dissector | None], refusals: tuple[str, ...], *, color: bool) -> None:
        self.time = TIMES[0]
        self.start: int | None = None
        """Time of the first packet."""
        self.several_files = False
        self.columns: FieldColumns | None = None
        """Fields with a column."""
        self.endpoints: Mapping[str, tuple[str, str]] = {}
        self._dissector_of = dissector_of
        self._refusals = refusals
        self._color = color

    def name(self, row: FrameRow) -> str:
        """Return the name of a frame, with the number of its file if there are several."""
        return f"{row.file}:{row.packet}.{row.sub}" if self.several_files else f"{row.packet}.{row.sub}"

    def heading(self, width: int) -> str:
        """Return the line above the list."""
        names = () if self.columns is None else self.columns.names
        more = "".join(f"{clip_middle(name, COLUMN_WIDTH):<{COLUMN_WIDTH}} " for name in names)
        return f"{'frame':>8} {'time':>{self._time_width}} {'conn':>5}   {'command':<{_command_width(width)}} {more}summary"

    def line(self, row: FrameRow, before: FrameRow | None, width: int) -> Text:
        """Return the line of a frame, of `width` cells; `before` is the frame of the line above."""
        arrow = "←" if row.direction == SERVER else "→"
        command = escape(row.command or "(no command)")
        ends = self._end(row)
        left = f"{self.name(row):>8} {self._time_text(row, before):>{self._time_width}} "
        text = Text(left, style=_DIM if self._color else "", no_wrap=True, end="")
        label = connection_label(row.connection, several_files=self.several_files)
        number = first_packet(row.connection)
        text.append(f"{label:>5} {arrow} ", self._style(_CONNECTIONS[(number - 1) % len(_CONNECTIONS)]))
        text.append(
            set_cell_size(clip_middle(command, _command_width(width)), _command_width(width)),
            self._style(_BAD) if command.endswith(self._refusals) else "",
        )
        for value in () if self.columns is None else self.columns.values(row, self.endpoints) or ():
            text.append(f" {set_cell_size(clip_middle(_value_text(value), COLUMN_WIDTH), COLUMN_WIDTH)}")
        room = width - cell_width(text.plain) - 1 - sum(cell_width(part) + 1 for part, _ in ends)
        summary = fit_summary(escape(self.summary(row)), max(room, 0), named=row.topic is not None) if room > 0 else ""
        text.append(f" {set_cell_size(summary, max(room, 0))}")
        for part, style in ends:
            text.append(f" {part}", self._style(style))
        text.truncate(width, pad=True)
        return text

    def summary(self, row: FrameRow) -> str:
        """Return the summary of a frame; empty if the dissector raises an exception."""
        dissector = self._dissector_of(row)
        try:
            return "" if dissector is None else dissector.summary(row)
        except Exception:  # noqa: BLE001 - other people's code
            return ""

    def _end(self, row: FrameRow) -> list[tuple[str, Style]]:
        parts = []
        if row.status != "ok":
            parts.append((escape(row.status), _BAD))
        parts += [(escape(code), _BAD) for code in (row.findings or ())[:2]]
        if row.checksum is not None and row.checksum.status == "bad":
            parts.append(("✗", _BAD))
        if row.latency_ns is not None:
            parts.append((f"{duration(row.latency_ns):>8}", SLOW if row.latency_ns >= SLOW_NANOSECONDS else _DIM))
        return parts

    @property
    def _time_width(self) -> int:
        return 15 if self.time in {"utc", "epoch"} else 11

    def _time_text(self, row: FrameRow, before: FrameRow | None) -> str:
        if self.time == "relative":
            return _seconds(row.time - (self.start or 0))
        if self.time == "delta":
            return _seconds(row.time - (row.time if before is None else before.time))
        seconds, fraction = divmod(row.time, SECOND)
        if self.time == "utc":
            try:
                return f"{datetime.fromtimestamp(seconds, timezone.utc):%H:%M:%S}.{fraction // 1000:06d}"
            except (OverflowError, ValueError, OSError):
                pass
        return f"{seconds}.{fraction // 100_000:04d}"

    def _style(self, style: Style) -> Style | str:
        return style if self._color else ""


def _value_text(value: object) -> str:
    """Return the value of a field on one line."""
    if value is None or isinstance(value, (str, int, float)):
        return escape("" if value is None else str(value))
    return escape(value.hex() if isinstance(value, bytes) else json_lines([value])[0])


def _command_width(width: int) -> int:
    return 29 if width >= NARROW else 16


def _seconds(nanoseconds: int) -> str:
    """Return seconds with six digits, truncated and not rounded, as everywhere."""
    seconds, fraction = divmod(abs(nanoseconds), SECOND)
    return f"{'-' if nanoseconds < 0 else ''}{seconds}.{fraction // 1000:06d}"
