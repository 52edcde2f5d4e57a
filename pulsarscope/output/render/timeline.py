"""The timeline: one line for each frame, in order.

The hot path is one pass with one f-string for each line, without rich. One test sends rare cases off it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import groupby
from typing import Any

from pulsarscope.model.flow import SERVER
from pulsarscope.model.ordered_rows import in_columns, in_rows, opened, others
from pulsarscope.model.platform import load_native
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FindingRow, FrameRow, JourneyRow, MessageRow
from pulsarscope.model.text import duration, plural
from pulsarscope.output.export.sink import Sink
from pulsarscope.output.registry import OutputOptions
from pulsarscope.output.render.cell_text import cell_width, clip_middle, escape, fit_summary
from pulsarscope.output.render.journeys import journey_line
from pulsarscope.output.render.messages import message_line
from pulsarscope.output.render.ordered_lines import write_ordered
from pulsarscope.output.render.table import connection_line, exchange_line
from pulsarscope.output.render.times import SLOW_NANOSECONDS
from pulsarscope.output.render.view import LOOKS_MAX, View

COMMAND_WIDTH = 33
"""Cells of the column of commands: enough for the longest, such as SCALABLE_TOPIC_SUBSCRIBE_RESPONSE."""

NARROW_COMMAND_WIDTH = 16
"""Least cells of that column on a narrow terminal. Longer names lose their middle; frequent names fit."""

NARROW_REST = 48
"""Cells of a narrow terminal that other columns take. The column of commands gets half of any further cells."""

LATENCIES_MAX = 4096
"""Texts of durations that are cached."""


ConnectionLook = tuple[str, str, Callable[[FrameRow], str], Callable[[FrameRow], bool], int]
"""Parts of the lines of a connection: its name with an arrow, for frames of the client and of the server; functions for the summary of a
frame and for the completeness of its messages; the cells of name and arrow, with the spaces around all columns."""


class TimelineOutput:
    """The output `timeline`."""

    def __init__(self, sink: Sink, options: OutputOptions) -> None:
        self._view = View(sink, options)
        self._looks: dict[str | None, ConnectionLook] = {}
        self._commands: dict[str | None, tuple[str, int]] = {}
        self._latencies: dict[int, str] = {}
        self._summaries: Any = None
        """Summaries that the compiled reader remembers."""
        self._show_notes = "finding" in options.kinds
        self._command_width = COMMAND_WIDTH
        if options.width is not None:
            self._command_width = min(max((options.width - NARROW_REST) // 2, NARROW_COMMAND_WIDTH), COMMAND_WIDTH)
        self._frames = 0
        self.last: FrameRow | None = None
        """The frame of the last line."""
        self._messages = {False: 0, True: 0}
        self._others: Counter[str] = Counter()
        """Number of rows of other kinds so far, by kind."""

    def write(self, rows: list[Any]) -> None:
        """Write rows (see `Output`)."""
        view = self._view
        lines: list[str] = []
        view.prepare(others(rows))
        if in_columns(rows) and view.width is None and view.clock.seconds is not None:
            ordered = opened(rows)
            write_ordered(
                ordered,
                lambda place: self._compiled_lines(ordered, place, lines),
                lambda of_python: self._rows(of_python, lines),
                self._note_last,
            )
        else:
            self._rows(in_rows(rows), lines)
        view.emit(lines)

    def close(self) -> None:
        """Write pending rows and the end (see `Output`)."""
        produced, delivered = self._messages[False], self._messages[True]
        messages = [f"{plural(produced, 'message')} produced, {delivered:,} delivered"] if produced or delivered else []
        others = [] if self._frames else [plural(count, kind) for kind, count in self._others.items()]
        self._view.emit(self._view.closing([*(others or [plural(self._frames, "frame")]), *messages]))

    def _note_last(self, row: FrameRow) -> None:
        self.last = row

    def _compiled_lines(self, ordered: Any, place: int, lines: list[str]) -> int:
        """Append the lines that the compiled reader writes from `place` on. Return the place of the row left to Python."""
        view = self._view
        clock, look, marks = view.clock, view.palette, view.symbols
        summary = next((dissector.summary for dissector in view.run.dissectors.values() if dissector.compiled is not None), None)
        if self._summaries is None:
            self._summaries = load_native()[0].Summaries()
        parts = self._looks, self._commands, view.short_topic, summary, self._summaries, self._introduction if self._frames else None
        texts = look.dim, look.warning, look.reset, marks.answers, marks.micro, f"  {look.good}{marks.good}{look.reset}"
        widths = clock.width, view.name_width
        place, text, widths, counts = ordered.timeline(place, parts, texts, SLOW_NANOSECONDS, clock.seconds, widths, view.several_files)
        frames, of_client, of_server = counts
        if text:
            lines.append(text)
        if frames:
            clock.widen(widths[0])
            view.name_width = widths[1]
            self._frames += frames
            self._messages[False] += of_client
            self._messages[True] += of_server
        return place

    def _rows(self, rows: list[Any], lines: list[str]) -> None:
        """Append the lines of rows."""
        if all(issubclass(kind, FrameRow) for kind in set(map(type, rows))):
            self.frames(rows, lines)
            return
        for is_frame, group in groupby(rows, _is_frame):
            if is_frame:
                self.frames(list(group), lines)
                continue
            for row in group:
                self.other(row, lines)

    def frames(self, rows: list[FrameRow], lines: list[str]) -> None:
        """Append the lines of frames to `lines`."""
        if rows and not self._frames:
            self._view.columns(f"{'command':<{self._command_width}} summary", lines)
        self._frames += len(rows)
        while rows:
            rows = self._lines_of(rows, lines)

    def _lines_of(self, rows: list[FrameRow], lines: list[str]) -> list[FrameRow]:
        """Append the lines of frames up to one at which the dissector raises; return those that remain."""
        view = self._view
        look, marks = view.palette, view.symbols
        dim, slow, reset, answers = look.dim, look.warning, look.reset, marks.answers
        good, good_width = f"  {look.good}{marks.good}{reset}", len(marks.good) + 2
        clock, name_width, width = view.clock.text, view.name_width, view.width
        several, dated = view.several_files, view.clock.of_day
        looks, commands, messages, latencies = self._looks, self._commands, self._messages, self._latencies
        last_time, shown = None, " " * view.clock.width
        last_name: str | None = ""
        to_server, to_client, summary_of, completes, taken = _NO_CONNECTION
        row = rows[0]
        try:
            for row in rows:
                time = row.time
                if time != last_time:  # frames of one packet share it
                    if dated and time is not None:
                        view.day_line(time, lines)
                    last_time, shown = time, clock(time)
                connection = row.connection
                if connection != last_name:
                    to_server, to_client, summary_of, completes, taken = looks.get(connection) or self._look_of(row, lines)
                    last_name = connection
                by_server = row.direction == SERVER
                command, command_width = commands.get(row.command) or self._command(row.command)
                name = f"{row.file}:{row.packet}.{row.sub}" if several else f"{row.packet}.{row.sub}"
                if len(name) > name_width:
                    view.name_width = name_width = len(name)
                summary = summary_of(row)
                if not (summary.isascii() and summary.isprintable()):
                    summary = escape(summary)
                rest, rest_width, request, checksum, count = "", 0, row.request, row.checksum, row.num_messages
                if request is not None:
                    latency = row.latency_ns
                    text = f"  {answers} {request if several else request[2:]}"
                    if latency is not None:
                        text += latencies.get(latency) or self._latency(latency)
                    rest, rest_width = f"{dim if latency is None or latency < SLOW_NANOSECONDS else slow}{text}{reset}", len(text)
                if row.status != "ok" or row.findings is not None or (checksum is not None and checksum.status != "good"):
                    text, more = view.warnings(row)
                    rest, rest_width = rest + text, rest_width + more
                elif checksum is not None:
                    rest += good
                    rest_width += good_width
                if count is not None and row.status == "ok" and count > 0 and completes(row):
                    messages[by_server] += count
                if width is not None:
                    room = width - name_width - len(shown) - command_width - rest_width - taken
                    if len(summary) > room or not summary.isascii():
                        summary = fit_summary(summary, max(room, 0), marks.ellipsis, named=row.topic is not None)
                        rest = " " * (room - cell_width(summary)) + rest
                    elif rest_width:
                        summary = summary.ljust(room)
                line = f"{dim}{name.rjust(name_width)} {shown}{reset} {to_client if by_server else to_server} {command} {summary}{rest}"
                lines.append(line if width is None or summary or rest else line.rstrip())  # no line of blanks
        except Exception as error:
            if summary_of is _no_summary:
                raise
            self._looks[row.connection] = (to_server, to_client, _no_summary, _complete, taken)
            dissector = view.dissector(row.connection)
            view.dissector_failed(dissector, "completes" if _gives_text(summary_of, row) else "summary", error, row, lines)
            return rows[next(index for index, each in enumerate(rows) if each is row) :]
        self.last = row
        return []

    def _latency(self, nanoseconds: int) -> str:
        """Return a duration with a space before it, and cache it: captures in microseconds have few distinct durations."""
        if len(self._latencies) >= LATENCIES_MAX:
            self._latencies.clear()
        text = self._latencies[nanoseconds] = f" {duration(nanoseconds, self._view.symbols.micro)}"
        return text

    def _look_of(self, row: FrameRow, lines: list[str]) -> ConnectionLook:
        """Append the heading of the connection of a frame if it is new, and return the repeated parts of its lines."""
        view, name = self._view, row.connection
        marks, width = view.symbols, view.label_width
        label = view.introduce(name, lines, row.source)
        if view.label_width != width:
            self._looks.clear()
        color, reset = view.color(name), view.palette.reset
        dissector = view.dissector(name)
        summary, completes = _no_summary, _complete
        if dissector is not None:
            try:
                summary, completes = dissector.summary, dissector.completes
            except Exception as error:  # noqa: BLE001 - other people's code
                view.dissector_failed(dissector, "summary", error, row, lines)
        to_server, to_client = (f"{color}{label:>{view.label_width}} {arrow}{reset}" for arrow in (marks.to_server, marks.to_client))
        taken = view.label_width + len(marks.to_server) + 5
        connection_look = (to_server, to_client, summary, completes, taken)
        if dissector is not None:  # else it may be recognised later
            if len(self._looks) >= LOOKS_MAX:
                self._looks.clear()
            self._looks[name] = connection_look
        return connection_look

    def _introduction(self, row: FrameRow) -> str:
        """Call `_look_of`, and return the lines that it appends."""
        lines: list[str] = []
        self._look_of(row, lines)
        return "\n".join(lines)

    def _command(self, name: str | None) -> tuple[str, int]:
        """Return a command in its column, and its width in cells."""
        look, width = self._view.palette, self._command_width
        text = "(no command)" if name is None else escape(name)
        if self._view.width is None:
            width = max(cell_width(text), width)
        text = clip_middle(text, width, self._view.symbols.ellipsis)
        padding = " " * (width - cell_width(text))
        color = look.dim if name is None else look.bad if name.endswith(self._view.refusals) else self._view.family_color(name)
        shown = (f"{color}{text}{look.reset}{padding}" if color else text + padding, width)
        if len(self._commands) < 4096:  # a hostile peer can make up commands without end
            self._commands[name] = shown
        return shown

    def other(self, row: Any, lines: list[str]) -> None:
        """Append the lines of a row of another kind: messages, exchanges, warnings, and the requested kinds."""
        view = self._view
        if type(row) is FindingRow:
            view.finding(row, lines, notes=self._show_notes, last=self.last)
        elif type(row) is MessageRow:
            self._others[row.kind] += 1
            message_line(view, row, lines)
        elif type(row) is ExchangeRow:
            self._others[row.kind] += 1
            exchange_line(view, row, lines)
        elif type(row) is JourneyRow:
            self._others[row.kind] += 1
            journey_line(view, row, lines)
        elif type(row) is ConnectionRow:
            self._looks.pop(row.connection, None)
            if "connection" in view.options.kinds:
                connection_line(view, row, lines)


def _gives_text(summary_of: Callable[[FrameRow], str], row: FrameRow) -> bool:
    try:
        return isinstance(summary_of(row), str)
    except Exception:  # noqa: BLE001 - other people's code
        return False


def _no_summary(_row: FrameRow) -> str:
    return ""


def _complete(_row: FrameRow) -> bool:
    return True


_NO_CONNECTION: ConnectionLook = ("", "", _no_summary, _complete, 0)


def _is_frame(row: Any) -> bool:
    return isinstance(row, FrameRow)
