"""The lanes of `follow`: a line for each frame, with an arrow from its sender to its receiver.

Either there is one lane, with clients on the left and the broker on the right; or several, with the broker in the middle, the connection
of the first frame (perhaps through a proxy) on its left, and other clients and each storage server on its right. The first frames decide
the layout. A line below a message says whether all frames carried the same bytes of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from pulsarscope.model.bounded_tables import remember
from pulsarscope.model.flow import SERVER
from pulsarscope.model.ordered_rows import others, split
from pulsarscope.model.platform import load_native
from pulsarscope.model.records import Checksum, ConnectionRow, FindingRow, FrameRow, Row
from pulsarscope.model.text import duration, plural
from pulsarscope.model.units import SECOND
from pulsarscope.output.export.sink import Sink
from pulsarscope.output.registry import OutputOptions
from pulsarscope.output.render.cell_text import cell_width, escape, fit_summary, wrap_cells
from pulsarscope.output.render.lifelines import Lifelines
from pulsarscope.output.render.ordered_lines import write_ordered
from pulsarscope.output.render.style import UNICODE
from pulsarscope.output.render.times import SLOW_NANOSECONDS
from pulsarscope.output.render.view import NARROWEST, View

FRAMES_MAX = 1_000
"""Frames that are compared: a message is redelivered a few times."""

NAMED_MAX = 5
"""Frames that are named."""


class Contents:
    """The checksums of one message, frame by frame."""

    def __init__(self) -> None:
        self._frames: list[tuple[str, str, Checksum]] = []
        """Command, shown name, and checksum."""

    def add(self, row: FrameRow, view: View) -> None:
        """Take a frame."""
        dissector = view.dissector(row.connection)
        checksum = None if dissector is None else dissector.message_checksum(row)
        if checksum is not None and checksum.stored is not None and len(self._frames) < FRAMES_MAX:
            self._frames.append((row.command or "", view.name(row), checksum))

    def lines(self, view: View) -> list[str]:
        """Return the lines below the frames about the compared checksums."""
        if len(self._frames) < 2 or view.options.quiet:
            return []
        look, marks = view.palette, view.symbols
        bad = [frame for frame in self._frames if frame[2].status == "bad"]
        values = {checksum.stored: (command, name) for command, name, checksum in reversed(self._frames)}
        if bad:
            whole = [frame for frame in self._frames if frame[2].status == "good"]
            text = f"damaged in {_names(bad)}" + (f"; whole in {_names(whole)}" if whole else "")
        elif len(values) > 1:
            text = f"the bytes differ: {', '.join(f'{command} {name} has {value}' for value, (command, name) in sorted(values.items()))}"
        else:
            counts = Counter(command for command, _, _ in self._frames)
            kinds = ", ".join(f"{number} {command}" if number > 1 else command for command, number in counts.items())
            text = f"the same bytes at each of {plural(len(self._frames), 'hop')}: {kinds} (CRC32-C {self._frames[0][2].stored})"
            return ["", *_in_lines(marks.good, look.good, text, view)]
        return ["", *_in_lines(marks.bad, look.bad, text, view)]


def _in_lines(mark: str, color: str, text: str, view: View) -> list[str]:
    """Return a text after a mark, wrapped to the terminal."""
    hang = " " * (len(mark) + 1)
    lines = [escape(text)] if view.width is None else wrap_cells(escape(text), view.width - len(hang))
    first, *rest = lines
    return [f"{color}{mark}{view.palette.reset} {first}", *(f"{hang}{line}" for line in rest)]


def _names(frames: list[tuple[str, str, Checksum]]) -> str:
    more = f" and {len(frames) - NAMED_MAX:,} more" if len(frames) > NAMED_MAX else ""
    return ", ".join(f"{command} {name}" for command, name, _ in frames[:NAMED_MAX]) + more


HELD_FRAMES = 64
"""Frames that are held until the layout is decided: a subject on several connections shows them within a few."""

PIPE_WIDTH = 132
"""Cells of a line when the output is not a terminal."""

ENDS = 4
"""Cells of an arrow beside its shaft and its text: the first dash, a space on either side of the text, the head."""

AROUND_MAX = 1_024
"""Pairs of connection and direction whose lifelines are cached as text."""

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
        self._lifelines: Lifelines | None = None
        self._ends: dict[str, tuple[str, str]] = {}
        """Client and server of the connections of held frames. These connections may have ended."""
        self._topic: str | None = None
        """Topic of all held frames, shown once above them."""
        self._numbered = False
        self._gaps: list[int] = []
        """Cells between the lifelines."""
        self._measured = 0
        """Margin for which `_gaps` is computed."""
        self._around: dict[tuple[str, str], _Around] = {}
        """Lifelines around the arrows of a connection and direction."""
        self._least: dict[tuple[int, int], int] = {}
        """Least cells between two lifelines for the held frames to fit, in a file."""
        self._contents = Contents() if options.subject == "message" else None
        self._compiled: Any = None
        """The dissector whose frames the compiled reader has."""
        self._summaries: Any = None
        """Summaries that the compiled reader remembers."""

    def write(self, rows: list[Any]) -> None:
        """Write rows (see `Output`)."""
        if not rows:  # connections that have ended must still be shown
            return
        self._view.prepare(others(rows))
        lines: list[str] = []
        ordered, following = split(rows)
        if ordered is not None:
            write_ordered(
                ordered, lambda place: self._compiled_lines(ordered, place, lines), lambda some: self._rows(some, lines), self._note_last
            )
        self._rows(following, lines)
        self._view.emit(lines)

    def _rows(self, rows: Sequence[Any], lines: list[str]) -> None:
        """Append the lines of rows, or hold the rows."""
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

    def _compiled_lines(self, ordered: Any, place: int, lines: list[str]) -> int:
        """Write `lines`, then those that the compiled reader writes from `place` on. Return the place of the row left to Python."""
        view, last, clock = self._view, self._last, self._view.clock
        if not view.in_utf8 or view.width is not None or clock.seconds is None or self._contents is not None:
            return place
        if last is None or self._margin() != self._measured:
            return place
        if self._summaries is None:
            self._summaries = load_native()[0].Summaries()
            self._compiled = next((dissector for dissector in view.run.dissectors.values() if dissector.compiled is not None), None)
        if self._compiled is None:
            return place
        look, marks = view.palette, UNICODE
        parts = self._side, self._command, view.short_topic, self._compiled.summary, self._summaries
        good = f" {look.good}{marks.good}{look.reset}"
        texts = look.dim, look.warning, look.reset, marks.rule, marks.micro, good, marks.head_left, marks.head_right
        numbers = SLOW_NANOSECONDS, last.time, (clock.width, view.name_width)
        place, data = ordered.lanes(place, parts, (texts, self._topic, numbers, view.several_files), clock.seconds)
        if data:
            view.emit(lines)
            lines.clear()
            view.emit_encoded(data)
        return place

    def _side(self, connection: str, direction: str) -> tuple[str, str, str, str, str, int, bool] | None:
        """Return the text around the arrows of one side of a connection, for the compiled reader; None if Python must write the lines."""
        view = self._view
        if connection not in view.introduced or view.dissector(connection) is not self._compiled:
            return None
        color = view.color(connection)
        around = self._around_of(connection, direction, color)
        uncolor = view.palette.reset if color else ""
        return self._label(connection, color), around.before, around.behind, color, uncolor, around.width, around.rightward

    def _command(self, name: str) -> tuple[str, int]:
        """Return a command in its colour, and its width in cells."""
        command = escape(name)
        return self._colored(name, command), cell_width(command)

    def _note_last(self, row: FrameRow) -> None:
        self._last = row

    def close(self) -> None:
        """Write pending rows and the end (see `Output`)."""
        lines: list[str] = []
        if not self._started:
            self._start(lines)
        contents = [] if self._contents is None else self._contents.lines(self._view)
        self._view.emit([*lines, *contents, *self._view.closing([])])

    def _introduce(self, row: FrameRow) -> None:
        """Introduce the connection of a frame while its endpoints are known, and hold its heading."""
        self._ends[row.connection] = self._ends.get(row.connection) or self._view.ends(row.connection)
        if row.dissector is not None:
            self._view.held_dissectors[row.connection] = row.dissector
        if row.connection not in self._view.introduced:
            heading: list[str] = []
            self._view.introduce(row.connection, heading, row.source)
            self._held[-1:-1] = heading

    def _start(self, lines: list[str]) -> None:
        """Decide the layout, and append the lines of the held rows."""
        self._started = True
        view = self._view
        headings = [row for row in self._held if isinstance(row, str)]
        rows = sorted((row for row in self._held if not isinstance(row, str)), key=_place)  # a request comes with its answer
        frames = [row for row in rows if isinstance(row, FrameRow)]
        topics = {row.topic for row in frames if row.topic is not None}
        self._topic = view.short_topic(topics.pop()) if len(topics) == 1 else None
        self._numbered = len({row.connection for row in frames}) > 1
        longest = max((len(view.name(row)) for row in frames), default=0)
        view.name_width = max(view.name_width, longest)
        lifelines = Lifelines(frames, view.dissector, self._ends_of)
        if lifelines.gaps(self._room()) is None:
            lifelines = Lifelines(frames, view.dissector, self._ends_of, several=False)
        self._lifelines = lifelines
        for row in frames if view.width is None else ():
            ends = lifelines.of(row.connection)
            self._least[ends] = max(self._least.get(ends, 0), self._cells(row, view.summary("summary", row, lines)))
        self._measure()
        lines += headings
        if frames and not view.options.quiet:
            self._titles(lines)
        for row in rows:
            self._line(row, lines)
        self._held.clear()
        self._view.held_dissectors.clear()

    def _ends_of(self, connection: str) -> tuple[str, str]:
        return self._ends.get(connection) or self._view.ends(connection)

    def _margin(self) -> int:
        """Return the cells before the first lifeline."""
        return self._view.name_width + self._view.clock.width + 3 + (self._view.label_width + 1) * self._numbered

    def _room(self) -> int:
        """Return the cells for the lanes."""
        return max((self._view.width or PIPE_WIDTH) - self._margin(), NARROWEST)

    def _measure(self) -> None:
        """Distribute the available cells among the gaps."""
        self._measured = self._margin()
        self._around.clear()
        gaps = self._gaps = (self._lifelines.gaps(self._room()) if self._lifelines is not None else None) or self._gaps
        for ends, least in sorted(self._least.items()):
            first, last = sorted(ends)
            gaps[first] += max(least - self._span(first, last), 0)

    def _span(self, first: int, last: int) -> int:
        """Return the cells between two lifelines."""
        return sum(self._gaps[first:last]) + last - first - 1

    def _cells(self, row: FrameRow, summary: str) -> int:
        """Return the cells that the arrow of a frame needs without clipping."""
        latency = "" if row.latency_ns is None else duration(row.latency_ns, self._view.symbols.micro)
        return _needed(row, latency, self._view.warnings(row)[1], self._text(row, summary)[1])

    def _titles(self, lines: list[str]) -> None:
        """Append the titles of the lifelines. The first begins at its lifeline, the last ends at its lifeline, the others are centred."""
        look, lifelines = self._view.palette, self._lifelines
        if self._topic is not None:
            lines.append(f"{look.bold}topic{look.reset} {escape(self._topic)}")
        if lifelines is None:
            return
        dot = f" {self._view.symbols.dot} "
        if lifelines.legend:
            lines.append(f"{look.dim}{escape(dot.join(lifelines.legend))}{look.reset}")
        titles, end, at = "", len(lifelines.titles) - 1, 0
        for number, title in enumerate(lifelines.titles):
            stop = at + 1 + (0 if number == end else len(title) // 2)
            titles += title if number == 0 else f"{title:>{stop - len(titles)}}"
            at += 1 + (self._gaps[number] if number < end else 0)
        lines.append(f"{' ' * self._margin()}{look.bold}{titles}{look.reset}")

    def _line(self, row: Any, lines: list[str]) -> None:
        if type(row) is FindingRow:
            self._view.finding(row, lines, notes="finding" in self._view.options.kinds, last=self._last)
        elif isinstance(row, FrameRow):
            self._frame(row, lines)
            if self._contents is not None:
                self._contents.add(row, self._view)

    def _frame(self, row: FrameRow, lines: list[str]) -> None:
        view, look = self._view, self._view.palette
        view.introduce(row.connection, lines, row.source)
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
        start = f"{look.dim}{name:>{view.name_width}} {time:>{view.clock.width}}{look.reset}{self._label(row.connection, color)}  "
        lines.append(start + self._lanes(row, view.summary("summary", row, lines), color))
        self._last = row

    def _label(self, connection: str, color: str) -> str:
        """Return the cell of the connection column, empty if there is no such column."""
        view = self._view
        return f" {color}{view.label(connection):>{view.label_width}}{view.palette.reset if color else ''}" if self._numbered else ""

    def _pause(self, row: FrameRow, lines: list[str]) -> None:
        """Append a line for a pause of a second or more."""
        before = None if self._last is None else self._last.time
        if before is None or row.time - before < SECOND:
            return
        look, marks = self._view.palette, self._view.symbols
        text = f"{duration(row.time - before, marks.micro)} later"
        pause = f"{look.dim}{marks.pause}{look.reset}"
        spaces = [f"{look.dim}{text:^{self._gaps[0]}}{look.reset}", *(" " * gap for gap in self._gaps[1:])]
        lines.append(" " * self._margin() + pause + pause.join(spaces) + pause)

    def _lanes(self, row: FrameRow, summary: str, color: str) -> str:
        """Return the lifelines with the arrow of a frame between two of them."""
        around = self._around_of(row.connection, row.direction, color)
        return f"{around.before}{self._arrow(row, summary, around, color)}{around.behind}"

    def _around_of(self, connection: str, direction: str, color: str) -> _Around:
        """Return the cached lifelines around the arrows of one side of a connection."""
        if (around := self._around.get((connection, direction))) is None:
            around = self._lifelines_around(connection, color, by_server=direction == SERVER)
            remember(self._around, (connection, direction), around, AROUND_MAX)
        return around

    def _lifelines_around(self, connection: str | None, color: str, *, by_server: bool) -> _Around:
        """Return the lifelines around the arrows of one side of a connection."""
        look, marks = self._view.palette, self._view.symbols
        lane, reset = f"{look.dim}{marks.lane}{look.reset}", look.reset if color else ""
        client, server = (0, 1) if self._lifelines is None else self._lifelines.of(connection)
        sender, receiver = (server, client) if by_server else (client, server)
        first, last = sorted((sender, receiver))
        before = "".join(f"{lane}{' ' * gap}" for gap in self._gaps[:first])
        behind = "".join(f"{' ' * gap}{lane}" for gap in self._gaps[last:])
        if sender < receiver:
            return _Around(f"{before}{color}{marks.from_left}{reset}", f"{lane}{behind}", self._span(first, last), True)
        return _Around(f"{before}{lane}", f"{color}{marks.from_right}{reset}{behind}", self._span(first, last), False)

    def _arrow(self, row: FrameRow, summary: str, around: _Around, color: str) -> str:
        """Return an arrow between lifelines: text at the sender, head at the receiver, and the latency of an answer beside it."""
        view, look, marks = self._view, self._view.palette, self._view.symbols
        reset, width = look.reset if color else "", around.width
        latency = "" if row.latency_ns is None else duration(row.latency_ns, marks.micro)
        text, text_width = self._text(row, summary)
        after, after_width = view.warnings(row)
        if view.width is None:  # a file clips nothing: a long line extends beyond its lane
            width = max(width, _needed(row, latency, after_width, text_width))
        if not after and row.checksum is not None:
            after, after_width = f" {look.good}{marks.good}{look.reset}", len(marks.good) + 1
        taken = ENDS + SHAFT_MIN + (len(latency) + 3 if latency else 0)
        if taken + after_width > width:  # too narrow; warnings have lines of their own
            after, after_width = "", 0
        taken += after_width
        if taken > width:
            latency, taken = "", ENDS + SHAFT_MIN
        if text_width > (room := max(width - taken, 0)):
            text = fit_summary(text, room, marks.ellipsis, named=False)
            text_width = cell_width(text)
        text = self._colored(row.command, text)
        shaft = max(width - taken - text_width, 0) + SHAFT_MIN
        slow = row.latency_ns is not None and row.latency_ns >= SLOW_NANOSECONDS
        latency_text = f" {look.warning if slow else look.dim}{latency}{look.reset} " if latency else ""
        rule = marks.rule
        if around.rightward:
            end = f"{color}{rule * shaft}{reset}{latency_text}{color}{rule if latency else ''}{marks.head_right}{reset}"
            return f"{color}{rule}{reset} {text}{after} {end}"
        begin = f"{color}{marks.head_left}{rule if latency else ''}{reset}{latency_text}{color}{rule * shaft}{reset}"
        return f"{begin} {text}{after} {color}{rule}{reset}"

    def _text(self, row: FrameRow, summary: str) -> tuple[str, int]:
        """Return the command with its summary, and its width in cells."""
        command = "(no command)" if row.command is None else escape(row.command)
        if self._topic is not None and summary.startswith(self._topic) and summary.startswith("  ", len(self._topic)):
            summary = summary[len(self._topic) + 2 :]
        text = f"{command}  {summary}" if summary else command
        return text, cell_width(text)

    def _colored(self, name: str | None, text: str) -> str:
        """Return text that begins with the command `name`, with the command in its colour."""
        look = self._view.palette
        command = "(no command)" if name is None else escape(name)
        color = look.bad if command.endswith(self._view.refusals) else self._view.family_color(name or "") or look.bold
        return f"{color}{text[: len(command)]}{look.reset}{text[len(command) :]}" if color else text


class _Around(NamedTuple):
    """Text around the arrows of one side of a connection."""

    before: str
    behind: str
    width: int
    """Cells between the two lifelines."""
    rightward: bool


def _needed(row: FrameRow, latency: str, warnings_width: int, text_width: int) -> int:
    """Return the cells that an arrow with this latency, warnings and text needs."""
    after = warnings_width or (2 if row.checksum is not None else 0)
    return ENDS + SHAFT_MIN + (len(latency) + 3 if latency else 0) + after + text_width


def _place(row: Row) -> tuple[str, int, int, int]:
    """Return the sort key of a row in the drawing; a finding follows its frame."""
    return row.source or "", row.file or 0, row.packet or 0, row.sub or 0
