"""The lanes of `follow`: a line for each frame, an arrow from its sender to its receiver.

One lane, clients left and the broker right; or two, with the broker in the middle: the connection that the story begins on at its left,
all others at its right. Which of them is decided when the first frames are there.
"""

from __future__ import annotations

from typing import Any

from pulsarscope.model.flow import CLIENT, SERVER
from pulsarscope.model.records import ConnectionRow, FindingRow, FrameRow
from pulsarscope.output.export.sink import Sink
from pulsarscope.output.registry import OutputOptions
from pulsarscope.output.render.cell_text import cell_width, clip_words, escape
from pulsarscope.output.render.clock import SECOND, duration_text
from pulsarscope.output.render.view import NARROWEST, View

HELD_FRAMES = 64
"""Frames that are looked at before the layout is decided: what crosses connections does so within a few."""

PIPE_WIDTH = 132
"""Cells of a line where there is no terminal to ask."""

LANE_MIN = 42
"""Cells of a lane below which two of them say too little."""

ENDS = 4
"""Cells of an arrow beside its shaft and its words: the first dash, a space on either side of the words, the head."""

SHAFT_MIN = 3
"""Cells of an arrow between its words and its head."""


class LanesOutput:
    """The output `lanes`."""

    def __init__(self, sink: Sink, options: OutputOptions) -> None:
        self._view = View(sink, options)
        self._held: list[Any] = []
        """Frames and findings until the layout is known."""
        self._started = False
        self._last: FrameRow | None = None
        self._left: str | None = None
        """The connection of the left lane, when there are two."""
        self._topic: str | None = None
        """The topic of all frames at first: said once, above."""
        self._numbered = False
        self._widths = (0, 0)
        """Cells between the lifelines, of the left and the right lane; one lane: the right one is -1."""
        self._measured = 0
        """The margin for which they are."""

    def write(self, rows: list[Any]) -> None:
        """As `Output.write`."""
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
                if sum(isinstance(one, FrameRow) for one in self._held) >= HELD_FRAMES:
                    self._start(lines)
        self._view.emit(lines)

    def close(self) -> None:
        """As `Output.close`."""
        lines: list[str] = []
        if not self._started:
            self._start(lines)
        self._view.emit([*lines, *self._view.closing([])])

    # ---- the layout

    def _introduce(self, row: FrameRow) -> None:
        """Number its connection while its endpoints are known; the heading is written when the layout is."""
        if row.connection is not None and row.connection not in self._view.numbers:
            heading: list[str] = []
            self._view.number(row.connection, heading, row.source)
            self._held[-1:-1] = heading

    def _start(self, lines: list[str]) -> None:
        """Decide the layout and write what was held."""
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
            self._left = connections[0]
        self._measure()
        lines += [row for row in self._held if isinstance(row, str)]
        if frames and not view.options.quiet:
            self._titles(frames[0].connection, lines)
        for row in self._held:
            if not isinstance(row, str):
                self._line(row, lines)
        self._held.clear()

    def _margin(self) -> int:
        """Cells before the first lifeline."""
        return self._view.name_width + self._view.clock.width + 3 + 3 * self._numbered

    def _room(self) -> int:
        """Cells for the lanes."""
        return max((self._view.width or PIPE_WIDTH) - self._margin(), NARROWEST)

    def _measure(self) -> None:
        """Divide the room into lanes."""
        self._measured = self._margin()
        room = self._room()
        self._widths = (room - 2, -1) if self._left is None else ((room - 3) // 2, (room - 2) // 2)

    def _titles(self, connection: str | None, lines: list[str]) -> None:
        """Name the two sides, as the dissector of this connection does, above their lifelines."""
        dissector = self._view.dissector(connection)
        client, server = (CLIENT, SERVER) if dissector is None else dissector.sides
        look = self._view.palette
        left, right = self._widths
        if self._topic is not None:
            lines.append(f"{look.bold}topic{look.reset} {escape(self._topic)}")
        if right < 0:
            words = f"{client}{server:>{left + 2 - len(client)}}"
        else:
            half = len(server) // 2
            words = f"{client}{server:>{left + 2 + half - len(client)}}{client:>{right + 1 - half}}"
        lines.append(f"{' ' * self._margin()}{look.bold}{words}{look.reset}")

    # ---- the lines

    def _line(self, row: Any, lines: list[str]) -> None:
        if type(row) is FindingRow:
            self._view.finding(row, lines, notes="finding" in self._view.options.kinds, last=self._last)
        elif isinstance(row, FrameRow):
            self._frame(row, lines)

    def _frame(self, row: FrameRow, lines: list[str]) -> None:
        view, look = self._view, self._view.palette
        number = 0 if row.connection is None else view.number(row.connection, lines, row.source)
        self._numbered = self._numbered or number > 1
        self._pause(row, lines)
        color = look.connection(number) if number else ""
        time = ""
        if row.time is not None:
            view.day_line(row.time, lines)
            time = view.clock.text(row.time)
        view.name_width = max(view.name_width, len(view.name(row)))
        if self._margin() != self._measured:
            self._measure()
        label = f" {color}{number or '':>2}{look.reset if color else ''}" if self._numbered else ""
        start = f"{look.dim}{view.name(row):>{view.name_width}} {time:>{view.clock.width}}{look.reset}{label}  "
        lines.append(start + self._lanes(row, view.words("summary", row, lines), color))
        self._last = row

    def _pause(self, row: FrameRow, lines: list[str]) -> None:
        """A line that tells of a second and more in which nothing happened."""
        before = None if self._last is None else self._last.time
        if before is None or row.time is None or row.time - before < SECOND:
            return
        look, marks = self._view.palette, self._view.symbols
        text = f"{duration_text(row.time - before, marks.micro)} later"
        left, right = self._widths
        pause = f"{look.dim}{marks.pause}{look.reset}"
        spaces = [f"{look.dim}{text:^{left}}{look.reset}", *([" " * right] if right >= 0 else [])]
        lines.append(" " * self._margin() + pause + pause.join(spaces) + pause)

    def _lanes(self, row: FrameRow, words: str, color: str) -> str:
        """The lifelines with the arrow between two of them."""
        look, marks = self._view.palette, self._view.symbols
        left, right = self._widths
        lane, reset = f"{look.dim}{marks.lane}{look.reset}", look.reset if color else ""
        by_server = row.direction == SERVER
        from_left, from_right = f"{color}{marks.from_left}{reset}", f"{color}{marks.from_right}{reset}"
        if right < 0 or row.connection == self._left:
            arrow = self._arrow(row, words, left, color, rightward=not by_server)
            drawn = f"{lane}{arrow}{from_right}" if by_server else f"{from_left}{arrow}{lane}"
            return drawn if right < 0 else f"{drawn}{' ' * right}{lane}"
        arrow = self._arrow(row, words, right, color, rightward=by_server)
        return f"{lane}{' ' * left}" + (f"{from_left}{arrow}{lane}" if by_server else f"{lane}{arrow}{from_right}")

    def _arrow(self, row: FrameRow, words: str, width: int, color: str, *, rightward: bool) -> str:
        """`width` cells: the words at the sender, the head at the receiver, the latency of an answer beside it."""
        view, look, marks = self._view, self._view.palette, self._view.symbols
        reset = look.reset if color else ""
        latency = "" if row.latency_ns is None else duration_text(row.latency_ns, marks.micro)
        after, after_width = view.warnings(row)
        if not after and row.checksum is not None:
            after, after_width = f" {look.good}{marks.good}{look.reset}", len(marks.good) + 1
        taken = ENDS + SHAFT_MIN + (len(latency) + 3 if latency else 0)
        if taken + after_width > width:  # a terminal too narrow for them; what warns has lines of its own
            after, after_width = "", 0
        taken += after_width
        if taken > width:
            latency, taken = "", ENDS + SHAFT_MIN
        words, words_width = self._words(row, words, max(width - taken, 0))
        shaft = max(width - taken - words_width, 0) + SHAFT_MIN
        told = f" {look.dim}{latency}{look.reset} " if latency else ""
        rule, text = marks.rule, f"{words}{after}"
        if rightward:
            end = f"{color}{rule * shaft}{reset}{told}{color}{rule if latency else ''}{marks.head_right}{reset}"
            return f"{color}{rule}{reset} {text} {end}"
        begin = f"{color}{marks.head_left}{rule if latency else ''}{reset}{told}{color}{rule * shaft}{reset}"
        return f"{begin} {text} {color}{rule}{reset}"

    def _words(self, row: FrameRow, words: str, room: int) -> tuple[str, int]:
        """The command and its words, clipped; and the cells they take."""
        look = self._view.palette
        command = "(no command)" if row.command is None else escape(row.command)
        if self._topic is not None and words.startswith(f"{self._topic}  "):
            words = words[len(self._topic) + 2 :]
        text = clip_words(f"{command}  {words}" if words else command, room, self._view.symbols.ellipsis)
        head = text[: len(command)]
        color = look.bad if command.endswith(self._view.refusals) else look.bold
        return f"{color}{head}{look.reset if color else ''}{text[len(command) :]}", cell_width(text)
