"""The lanes of `follow`: a line for each frame, an arrow from its sender to its receiver.

One lane, clients left and the broker right; or two, with the broker in the middle: the connection of the first frame at its left,
all others at its right. To a storage the broker is the client. The layout is decided by the first frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pulsarscope.model.flow import CLIENT, SERVER
from pulsarscope.model.records import ConnectionRow, FindingRow, FrameRow
from pulsarscope.model.units import SECOND
from pulsarscope.output.export.sink import Sink
from pulsarscope.output.registry import OutputOptions
from pulsarscope.output.render.cell_text import cell_width, escape, fit_summary
from pulsarscope.output.render.clock import SLOW_NANOSECONDS, duration_text
from pulsarscope.output.render.view import NARROWEST, View

HELD_FRAMES = 64
"""Frames that are held until the layout is decided: a subject on several connections shows them within a few."""

PIPE_WIDTH = 132
"""Cells of a line without a terminal."""

LANE_MIN = 42
"""Least cells of a lane for two lanes."""

ENDS = 4
"""Cells of an arrow beside its shaft and its text: the first dash, a space on either side of the text, the head."""

UNLIMITED = 1 << 30

SHAFT_MIN = 3
"""Least cells of an arrow between its text and its head."""


class LanesOutput:
    """The output `lanes`."""

    def __init__(self, sink: Sink, options: OutputOptions) -> None:
        self._view = View(sink, options)
        self._held: list[Any] = []
        """Frames, findings and headings until the layout is decided."""
        self._started = False
        self._last: FrameRow | None = None
        self._left: str | None = None
        """Connection of the left lane, None with one lane."""
        self._topic: str | None = None
        """Topic of all held frames, which is shown once above them."""
        self._numbered = False
        self._widths = (0, 0)
        """Cells between the lifelines of the left and the right lane; -1 for no right lane."""
        self._measured = 0
        """Margin for which `_widths` is computed."""
        self._least = (0, 0)
        """Least cells of the lanes, with which the held frames fit, in a file."""

    def write(self, rows: list[Any]) -> None:
        """Write rows (see `Output`)."""
        self._view.prepare(rows)
        lines: list[str] = []
        for row in rows:
            if type(row) is ConnectionRow:
                continue
            if self._started:
                self._line(row, lines)
                continue
            self._held.append(row)
            if isinstance(row, FrameRow):
                self._introduce(row)
                if sum(isinstance(held, FrameRow) for held in self._held) >= HELD_FRAMES:
                    self._start(lines)
        self._view.emit(lines)

    def close(self) -> None:
        """Write pending rows and the end (see `Output`)."""
        lines: list[str] = []
        if not self._started:
            self._start(lines)
        self._view.emit([*lines, *self._view.closing([])])

    def _introduce(self, row: FrameRow) -> None:
        """Introduce the connection of a frame while its endpoints are known, and hold its heading."""
        if row.connection not in self._view.introduced:
            heading: list[str] = []
            self._view.introduce(row.connection, heading, row.source)
            self._held[-1:-1] = heading

    def _start(self, lines: list[str]) -> None:
        """Decide the layout, and append the lines of the held rows."""
        self._started = True
        view = self._view
        frames = [row for row in self._held if isinstance(row, FrameRow)]
        connections = list(dict.fromkeys(row.connection for row in frames))
        topics = {row.topic for row in frames if row.topic is not None}
        self._topic = view.short_topic(topics.pop()) if len(topics) == 1 else None
        self._numbered = len(connections) > 1
        longest = max((len(view.name(row)) for row in frames), default=0)
        view.name_width = max(view.name_width, longest)
        if self._numbered and self._room() - 3 >= 2 * LANE_MIN:
            self._left = next((name for name in connections if not self._stores(name)), None)
        if view.width is None:
            arrows = [(self._is_left(row), self._cells(row, view.summary("summary", row, lines))) for row in frames]
            left, right = (max((cells for is_left, cells in arrows if is_left is side), default=0) for side in (True, False))
            self._least = left, right
        self._measure()
        lines += [row for row in self._held if isinstance(row, str)]
        if frames and not view.options.quiet:
            self._titles(connections, lines)
        for row in self._held:
            if not isinstance(row, str):
                self._line(row, lines)
        self._held.clear()

    def _margin(self) -> int:
        """Return the cells before the first lifeline."""
        return self._view.name_width + self._view.clock.width + 3 + (self._view.label_width + 1) * self._numbered

    def _room(self) -> int:
        """Return the cells for the lanes."""
        return max((self._view.width or PIPE_WIDTH) - self._margin(), NARROWEST)

    def _measure(self) -> None:
        """Divide the room into lanes."""
        self._measured = self._margin()
        room = self._room()
        widths = (room - 2, -1) if self._left is None else ((room - 3) // 2, (room - 2) // 2)
        self._widths = max(widths[0], self._least[0]), max(widths[1], self._least[1]) if widths[1] >= 0 else -1

    def _is_left(self, row: FrameRow) -> bool:
        """Return True for a frame of the left lane."""
        return self._left is None or row.connection == self._left

    def _cells(self, row: FrameRow, summary: str) -> int:
        """Return the cells that the arrow of a frame needs to be whole."""
        latency = "" if row.latency_ns is None else duration_text(row.latency_ns, self._view.symbols.micro)
        after = self._view.warnings(row)[1] or (2 if row.checksum is not None else 0)
        return ENDS + SHAFT_MIN + (len(latency) + 3 if latency else 0) + after + self._text(row, summary, UNLIMITED)[1]

    def _stores(self, connection: str | None) -> bool:
        """Return True for a connection of a broker to a storage."""
        dissector = self._view.dissector(connection)
        return dissector is not None and dissector.stores

    def _titles(self, connections: Sequence[str | None], lines: list[str]) -> None:
        """Name the two sides, as the dissectors of these connections do, above their lifelines."""

        def sides(connection: str | None) -> tuple[str, str]:
            dissector = self._view.dissector(connection)
            return (CLIENT, SERVER) if dissector is None else dissector.sides

        client, server = sides(connections[0] if self._left is None else self._left)
        others = ", ".join(dict.fromkeys(sides(name)[self._stores(name)] for name in connections if name != self._left))
        look = self._view.palette
        left, right = self._widths
        if self._topic is not None:
            lines.append(f"{look.bold}topic{look.reset} {escape(self._topic)}")
        if right < 0:
            titles = f"{client}{server:>{left + 2 - len(client)}}"
        else:
            half = len(server) // 2
            titles = f"{client}{server:>{left + 2 + half - len(client)}}{others:>{right + 1 - half}}"
        lines.append(f"{' ' * self._margin()}{look.bold}{titles}{look.reset}")

    def _line(self, row: Any, lines: list[str]) -> None:
        if type(row) is FindingRow:
            self._view.finding(row, lines, notes="finding" in self._view.options.kinds, last=self._last)
        elif isinstance(row, FrameRow):
            self._frame(row, lines)

    def _frame(self, row: FrameRow, lines: list[str]) -> None:
        view, look = self._view, self._view.palette
        connection = view.introduce(row.connection, lines, row.source)
        self._numbered = self._numbered or len(view.introduced) > 1
        self._pause(row, lines)
        color = view.color(row.connection)
        name, time = view.name(row), ""
        if row.time is not None:
            view.day_line(row.time, lines)
            time = view.clock.text(row.time)
        view.name_width = max(view.name_width, len(name))
        if self._margin() != self._measured:
            self._measure()
        label = f" {color}{connection:>{view.label_width}}{look.reset if color else ''}" if self._numbered else ""
        start = f"{look.dim}{name:>{view.name_width}} {time:>{view.clock.width}}{look.reset}{label}  "
        lines.append(start + self._lanes(row, view.summary("summary", row, lines), color))
        self._last = row

    def _pause(self, row: FrameRow, lines: list[str]) -> None:
        """Append a line for a pause of a second or more."""
        before = None if self._last is None else self._last.time
        if before is None or row.time - before < SECOND:
            return
        look, marks = self._view.palette, self._view.symbols
        text = f"{duration_text(row.time - before, marks.micro)} later"
        left, right = self._widths
        pause = f"{look.dim}{marks.pause}{look.reset}"
        spaces = [f"{look.dim}{text:^{left}}{look.reset}", *([" " * right] if right >= 0 else [])]
        lines.append(" " * self._margin() + pause + pause.join(spaces) + pause)

    def _lanes(self, row: FrameRow, summary: str, color: str) -> str:
        """Return the lifelines with the arrow of a frame between two of them."""
        look, marks = self._view.palette, self._view.symbols
        left, right = self._widths
        lane, reset = f"{look.dim}{marks.lane}{look.reset}", look.reset if color else ""
        by_server = row.direction == SERVER
        from_left, from_right = f"{color}{marks.from_left}{reset}", f"{color}{marks.from_right}{reset}"
        if self._is_left(row):
            arrow = self._arrow(row, summary, left, color, rightward=not by_server)
            drawn = f"{lane}{arrow}{from_right}" if by_server else f"{from_left}{arrow}{lane}"
            return drawn if right < 0 else f"{drawn}{' ' * right}{lane}"
        by_broker = by_server != self._stores(row.connection)
        arrow = self._arrow(row, summary, right, color, rightward=by_broker)
        return f"{lane}{' ' * left}" + (f"{from_left}{arrow}{lane}" if by_broker else f"{lane}{arrow}{from_right}")

    def _arrow(self, row: FrameRow, summary: str, width: int, color: str, *, rightward: bool) -> str:
        """Return an arrow of `width` cells: text at the sender, head at the receiver, and the latency of an answer beside it."""
        view, look, marks = self._view, self._view.palette, self._view.symbols
        reset = look.reset if color else ""
        latency = "" if row.latency_ns is None else duration_text(row.latency_ns, marks.micro)
        after, after_width = view.warnings(row)
        if not after and row.checksum is not None:
            after, after_width = f" {look.good}{marks.good}{look.reset}", len(marks.good) + 1
        taken = ENDS + SHAFT_MIN + (len(latency) + 3 if latency else 0)
        if view.width is None:  # nothing is clipped in a file: a long line leaves its lane
            width = max(width, self._cells(row, summary))
        if taken + after_width > width:  # too narrow; warnings have lines of their own
            after, after_width = "", 0
        taken += after_width
        if taken > width:
            latency, taken = "", ENDS + SHAFT_MIN
        text, text_width = self._text(row, summary, max(width - taken, 0))
        shaft = max(width - taken - text_width, 0) + SHAFT_MIN
        slow = row.latency_ns is not None and row.latency_ns >= SLOW_NANOSECONDS
        latency_text = f" {look.warning if slow else look.dim}{latency}{look.reset} " if latency else ""
        rule, text = marks.rule, f"{text}{after}"
        if rightward:
            end = f"{color}{rule * shaft}{reset}{latency_text}{color}{rule if latency else ''}{marks.head_right}{reset}"
            return f"{color}{rule}{reset} {text} {end}"
        begin = f"{color}{marks.head_left}{rule if latency else ''}{reset}{latency_text}{color}{rule * shaft}{reset}"
        return f"{begin} {text} {color}{rule}{reset}"

    def _text(self, row: FrameRow, summary: str, room: int) -> tuple[str, int]:
        """Return the command with its summary, clipped, and its width in cells."""
        look = self._view.palette
        command = "(no command)" if row.command is None else escape(row.command)
        if self._topic is not None and summary.startswith(f"{self._topic}  "):
            summary = summary[len(self._topic) + 2 :]
        text = f"{command}  {summary}" if summary else command
        if (cells := cell_width(text)) > room:
            text = fit_summary(text, room, self._view.symbols.ellipsis, named=False)
            cells = cell_width(text)
        color = look.bad if command.endswith(self._view.refusals) else self._view.family_color(row.command or "") or look.bold
        return f"{color}{text[: len(command)]}{look.reset if color else ''}{text[len(command) :]}", cells
