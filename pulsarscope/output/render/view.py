"""The shared parts of text outputs: names of frames and connections, starts of lines, lines of findings, closing lines."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pulsarscope.dissect.contract.generic_codes import DISSECTOR_FAILED, GENERIC_CODES
from pulsarscope.dissect.plugins.isolation import Failure, failure
from pulsarscope.dissect.plugins.topic_names import join_topic_names
from pulsarscope.model.bounded_tables import remember
from pulsarscope.model.connection_name import connection_label, first_packet, with_labels
from pulsarscope.model.findings import CAPTURE_CODES, ERROR, NOTE, SEVERITIES, TCP_CODES, TLS_CODES, WARNING
from pulsarscope.model.frame_name import frame_name
from pulsarscope.model.records import ConnectionRow, FindingRow, FrameRow, Row
from pulsarscope.model.text import plural
from pulsarscope.output.export.sink import Sink
from pulsarscope.output.registry import OutputOptions
from pulsarscope.output.render.cell_text import cell_width, clip, escape, wrap_cells
from pulsarscope.output.render.style import STAND_INS, UNICODE, palette, symbols, with_marks
from pulsarscope.output.render.times import Clock

NAME_WIDTH = 6
"""Initial width of the column of frame names; a longer name widens it for the lines that follow."""

HINTS_MAX = 1_000
"""Hints that are remembered, so that each is shown once."""

OK, MALFORMED = "ok", "malformed"
"""Values of the column status."""

FAILURES_MAX = 100
"""Different exceptions of dissectors that are reported."""

LABEL_WIDTH = 4
"""Initial width of the column of connections, which widens like that of names."""

INTRODUCED_MAX = 65_536
"""Connections that are remembered as introduced; an older one is introduced again."""

LOOKS_MAX = 4_096
"""Connections whose repeated parts of lines are cached."""

NARROWEST = 20
"""Least cells for text on a narrow terminal, where lines wrap instead."""


class View:
    """The state of a text output: known connections, widths of columns, and hints that were shown."""

    def __init__(self, sink: Sink, options: OutputOptions) -> None:
        self.options = options
        self.run = options.run
        self.palette = palette(options.color)
        self.symbols = symbols(options.encoding)
        self.in_utf8 = self.symbols is UNICODE and codecs.lookup(options.encoding).name == "utf-8"
        if self.in_utf8:
            self.symbols = STAND_INS
        self.width = options.width
        self.clock = Clock(options.time)
        dissectors = options.run.dissectors.values()
        self.refusals = tuple({ending for dissector in dissectors for ending in dissector.refusals})
        """Endings of commands that are highlighted as refusals."""
        self.families = {command: family for dissector in dissectors for command, family in dissector.families.items()}
        """Purposes of commands."""
        self.short_topic: Callable[[str], str] = join_topic_names(dissectors).short
        self.several_files = len(options.paths) > 1
        self.name_width = NAME_WIDTH + 2 * self.several_files
        self.connections = 0
        """Number of connections introduced so far."""
        self.introduced: dict[str, None] = {}
        """Names of the latest connections."""
        self.label_width = LABEL_WIDTH
        of_protocols = [dissector.codes for dissector in options.run.dissectors.values()]
        codes = [CAPTURE_CODES, TCP_CODES, TLS_CODES, GENERIC_CODES, *of_protocols]
        self.severity_of = {code: row.severity for table in codes for code, row in table.items()}
        self._endpoints: dict[str, tuple[str, str]] = {}
        self._dissectors: dict[str, str] = {}
        self.held_dissectors: dict[str, str] = {}
        """Names of dissectors by connection, for rows that are held back: their connections may have ended when they are written."""
        self._dissector_of: dict[str | None, Any] = {}
        """Dissectors by connection, cached for the current rows."""
        self._labels: dict[str | None, str] = {}
        self._colors: dict[str | None, str] = {}
        self._hints: set[str] = set()
        self._failures: set[Failure] = set()
        """Exceptions of dissectors that were reported."""
        self._omitted_notes: dict[str, FindingRow] = {}
        """First omitted note about a connection, by code."""
        self._sink = sink
        self._headed = False
        self._written = False
        """True when something has been written."""

    def emit(self, lines: list[str]) -> None:
        """Write lines, with backslash escapes for characters that the encoding lacks. The first line of all is not empty."""
        if lines and not self._written and not lines[0]:
            del lines[0]
        if lines:
            self._written = True
            lines.append("")
            data = "\n".join(lines).encode(self.options.encoding, "backslashreplace")
            self._sink.write(with_marks(data) if self.in_utf8 else data)

    def emit_encoded(self, data: bytes) -> None:
        """Write lines in the encoding of the output, with its marks."""
        self._written = True
        self._sink.write(data)

    def prepare(self, rows: Sequence[Any]) -> None:
        """Remember the connections that end within these rows: the run no longer knows them, and findings about them may follow."""
        if self.run.start is not None:
            self.clock.start(self.run.start)
        self._dissectors.clear()
        self._dissector_of.clear()
        if ConnectionRow not in set(map(type, rows)):
            return
        for row in rows:
            if type(row) is ConnectionRow and row.connection is not None:
                remember(self._endpoints, row.connection, (row.client or "?", row.server or "?"), LOOKS_MAX)
                self._dissectors[row.connection] = row.dissector or ""

    def name(self, row: Row) -> str:
        """Return the name of the frame or packet of a row."""
        if row.packet is None:
            return ""
        name = str(row.packet) if row.sub is None else f"{row.packet}.{row.sub}"
        return f"{row.file}:{name}" if self.several_files else name

    def reference(self, name: str) -> str:
        """Return a frame name in its shown form."""
        return name if self.several_files else name.rpartition(":")[2]

    def label(self, connection: str | None) -> str:
        """Return the displayed name of a connection."""
        if (label := self._labels.get(connection)) is None:
            label = escape(connection_label(connection, several_files=self.several_files))
            remember(self._labels, connection, label, LOOKS_MAX)
        return label

    def color(self, connection: str | None) -> str:
        """Return the colour of a connection, which does not depend on the other lines."""
        if (color := self._colors.get(connection)) is None:
            color = "" if connection is None else self.palette.connection(first_packet(connection))
            remember(self._colors, connection, color, LOOKS_MAX)
        return color

    def family_color(self, command: str) -> str:
        """Return the colour of a command's purpose."""
        return self.palette.families.get(self.families.get(command, ""), "")

    def introduce(self, connection: str, lines: list[str], source: str | None = None) -> str:
        """Return the label of a connection, and append the heading of a new one to `lines`."""
        label = self.label(connection)
        if connection not in self.introduced:
            self.connections += 1
            self.introduced[connection] = None
            self.label_width = max(self.label_width, len(label))
            if len(self.introduced) > INTRODUCED_MAX:
                self.introduced.pop(next(iter(self.introduced)))
            if not self.options.quiet:
                lines.append(self.heading(connection, source))
        return label

    def heading(self, connection: str, source: str | None = None) -> str:
        """Return the line that introduces a connection, with its vantage point."""
        look = self.palette
        ends = self.ends(connection)
        endpoints = f"  {escape(ends[0])} {self.symbols.to_server} {escape(ends[1])}" if any(ends) else ""
        place = f"  in {self.file_name(connection.partition(':')[0])}" if self.several_files else ""
        place += f"  at {escape(source)}" if source else ""
        return f"{self.color(connection)}{look.bold}connection {self.label(connection)}{look.reset}{endpoints}{look.dim}{place}{look.reset}"

    def ends(self, connection: str) -> tuple[str, str]:
        """Return the client and the server of a connection, empty when they are not known."""
        return self.run.endpoints.get(connection) or self._endpoints.get(connection) or ("", "")

    def file_name(self, file: int | str | None) -> str:
        """Return the name of a file of the run, without its folder."""
        try:
            return escape(Path(self.options.paths[int(file or 0)]).name)
        except (IndexError, ValueError):
            return f"file {file}"

    def dissector(self, connection: str | None) -> Any:
        """Return the dissector of a connection, or None."""
        if (found := self._dissector_of.get(connection)) is None:
            name = self.run.dissector_of.get(connection or "") or self._dissectors.get(connection or "")
            name = name or self.held_dissectors.get(connection or "", "")
            if (found := self.run.dissectors.get(name)) is not None:
                self._dissector_of[connection] = found
        return found

    def summary(self, member: str, row: Row, lines: list[str]) -> str:
        """Return the escaped summary of a row by its dissector, from the member `summary` or `message_summary`."""
        dissector = self.dissector(row.connection)
        try:
            return "" if dissector is None else escape(getattr(dissector, member)(row))
        except Exception as error:  # noqa: BLE001 - a plug-in may raise anything
            self.dissector_failed(dissector, member, error, row, lines)
            return ""

    def dissector_failed(self, dissector: Any, member: str, error: Exception, row: Row, lines: list[str]) -> None:
        """Append a finding, once, that a function of a dissector raised an exception: rows are shown without its result."""
        failed = failure(dissector, member, error)
        if failed in self._failures or len(self._failures) >= FAILURES_MAX:
            return
        self._failures.add(failed)
        code = dissector.code(DISSECTOR_FAILED)
        text = f"{failed.text[0].upper()}{failed.text[1:]}."
        where = (row.source, row.file, row.packet, row.sub, row.time, row.connection, dissector.name)
        self.finding(FindingRow(*where, code.code, code.severity, code.layer, text, failed._asdict(), code.hint), lines)

    def columns(self, rest: str, lines: list[str]) -> None:
        """Append the heading of the columns, once; `rest` is its part for the columns after the arrow."""
        if not self._headed and not self.options.quiet:
            self._headed = True
            look = self.palette
            begin = f"{'frame':>{self.name_width}} {'time':>{self.clock.width}} {'conn':>{self.label_width}}   "
            lines.append(f"{look.dim}{begin}{self.clip(rest, self.room(len(begin)))}{look.reset}")

    def start(self, row: Row, mark: str, lines: list[str]) -> str:
        """Return the start of the line of a row: name, time, connection number, and a mark in the colour of the connection."""
        look = self.palette
        name = self.name(row)
        self.name_width = max(self.name_width, len(name))
        time = ""
        if row.time is not None:
            self.day_line(row.time, lines)
            time = self.clock.text(row.time)
        label = "" if row.connection is None else self.introduce(row.connection, lines, row.source)
        label = f"{label:>{self.label_width}} {mark}"
        color = self.color(row.connection)
        return f"{look.dim}{name:>{self.name_width}} {time:>{self.clock.width}}{look.reset} {color}{label}{look.reset if color else ''}"

    def day_line(self, time: int, lines: list[str]) -> None:
        """Append a line with the date if it has changed."""
        if (day := self.clock.day(time)) is not None:
            lines.append(f"{self.palette.dim}{self.symbols.rule * 2} {day} {self.symbols.rule * 2}{self.palette.reset}")

    def start_width(self, mark: str) -> int:
        """Return the cells that `start` takes."""
        return self.name_width + self.clock.width + self.label_width + 3 + len(mark)

    def room(self, taken: int) -> int:
        """Return the remaining cells of a line; a line has no limit if the output is not a terminal."""
        return 1 << 30 if self.width is None else max(self.width - taken, NARROWEST)

    def clip(self, text: str, width: int) -> str:
        """Return escaped text, clipped."""
        return clip(text, width, self.symbols.ellipsis)

    def codes(self, findings: list[str]) -> tuple[str, int]:
        """Return finding codes in their colours, and their width in cells."""
        look = self.palette
        texts, taken = [], -1
        for code in findings:
            text = escape(code)
            texts.append(f"{look.severity(self.severity_of.get(code, WARNING))}{text}{look.reset}")
            taken += cell_width(text) + 1
        return " ".join(texts), max(taken, 0)

    def warnings(self, row: FrameRow) -> tuple[str, int]:
        """Return the warnings about a frame, with two spaces before each, and their width in cells."""
        codes = row.findings or []
        status = row.status or OK
        if status == OK and not codes and (row.checksum is None or row.checksum.status != "bad"):
            return "", 0
        look = self.palette
        parts = []
        if status != OK and not any(status in code for code in codes):
            text = escape(status)
            parts.append((f"{look.bad if status == MALFORMED else look.warning}{text}{look.reset}", cell_width(text)))
        if row.checksum is not None and row.checksum.status == "bad":
            label = "" if any("checksum" in code for code in codes) else " checksum"
            parts.append((f"{look.bad}{self.symbols.bad}{label}{look.reset}", len(self.symbols.bad) + len(label)))
        if codes:
            parts.append(self.codes(codes))
        return "".join(f"  {text}" for text, _ in parts), sum(cells + 2 for _, cells in parts)

    def finding(self, row: FindingRow, lines: list[str], *, notes: bool = False, last: Row | None = None) -> None:
        """Append the lines of a finding, with its hint on a line of its own, unless it was shown before.

        Notes, and with --quiet all findings, are omitted unless `notes` is True. A finding about `last`, the row of the line above, shows
        no place.
        """
        severity = row.severity or WARNING
        if not notes and (severity == NOTE or self.options.quiet):
            if severity == NOTE and row.connection is not None and row.sub is None:
                self._omitted_notes.setdefault(row.code, row)
            return
        if row.connection is not None and row.packet is not None:
            self.introduce(row.connection, lines, row.source)
        self._append_finding(row, lines, last)

    def _append_finding(self, row: FindingRow, lines: list[str], last: Row | None) -> None:
        """Append the lines of a finding whose connection is introduced."""
        look, severity = self.palette, row.severity or WARNING
        indent = " " * (self.name_width + 1)
        head = f"{severity} {escape(row.code)}"
        above = last is not None and (last.file, last.packet, last.sub) == (row.file, row.packet, row.sub)
        text = ("" if above else self._place(row)) + escape(with_labels(row.text, several_files=self.several_files))
        hint = "" if row.hint in self._hints else escape(row.hint or "")
        if row.hint is not None and len(self._hints) < HINTS_MAX:
            self._hints.add(row.hint)
        if self.width is None:
            lines.append(f"{indent}{look.severity(severity)}{head}{look.reset}  {text}")
            lines += [f"{indent}  {look.dim}{hint}{look.reset}"] if hint else []
            return
        room = self.room(len(indent))
        first, *rest = wrap_cells(f"{head}  {text}", room, "  ") or [head]
        lines.append(f"{indent}{look.severity(severity)}{first[: len(head)]}{look.reset}{first[len(head) :]}")
        lines += [indent + line for line in rest]
        for line in wrap_cells(hint, max(room - 2, NARROWEST)):
            lines.append(f"{indent}  {look.dim}{line}{look.reset}")

    def _place(self, row: FindingRow) -> str:
        text = row.text
        if row.connection is not None and (row.connection in text or frame_name(row.file, row.packet, row.sub) in text):
            return ""  # the text says it
        if row.packet is not None:
            on = f" on {self.label(row.connection)}" if row.connection in self.introduced else ""
            return f"at {'packet ' if row.sub is None else ''}{self.name(row)}{on}: "
        if row.file is not None and row.connection is None:
            return f"{self.file_name(row.file)}: "
        return ""

    def closing(self, counts: list[str]) -> list[str]:
        """Return the last lines: the counts of shown rows, and of findings by severity.

        Without any connection, the omitted notes come first: they may explain why.
        """
        if self.options.quiet:
            return []
        look = self.palette
        if not self.run.complete:
            return ["", *self._in_lines([*counts, "stopped early: the rest was not read"])]
        parts = [*counts, *self._selected(), *([plural(self.connections, "connection")] if self.connections else [])]
        colors = {ERROR: look.bad, WARNING: look.warning, NOTE: ""}
        findings = [
            f"{colors[severity]}{plural(count, severity)}{look.reset if colors[severity] else ''}"
            for severity in SEVERITIES
            if (count := self.run.severities.get(severity, 0) + (len(self._failures) if severity == WARNING else 0))
        ]
        lines: list[str] = []
        if not self.connections:
            parts += [plural(self.run.packets, "packet") + " read", plural(self.run.connections, "TCP connection")]
            for row in self._omitted_notes.values():
                self._append_finding(row, lines, None)
        totals = ", ".join(findings) or "no findings"
        if (self.connections or self.options.selection is not None) and not self.run.evaluates_rules:
            rest = "; run diagnose for the rest" if self.options.readable else ""
            # The counts include findings about the files if these are damaged.
            totals += (" (see diagnose)" if self.options.readable else "") if self.run.damaged else f" in single frames{rest}"
        elif self.options.readable and self.run.severities.get(NOTE, 0) and FindingRow.kind not in self.options.kinds:
            totals += " (see diagnose)"
        return [*lines, "", *self._in_lines([*parts, totals])]

    def _in_lines(self, parts: Sequence[str]) -> list[str]:
        """Join texts, wrapped to the terminal."""
        dot, room = f" {self.palette.dim}{self.symbols.dot}{self.palette.reset} ", 0
        lines: list[str] = []
        for part in parts:
            width = cell_width(re.sub("\x1b\\[[0-9;]*m", "", part))
            if lines and (self.width is None or room + 3 + width <= self.width):
                lines[-1] += dot + part
                room += 3 + width
            else:
                lines.append(part)
                room = width
        return lines

    def _selected(self) -> list[str]:
        """Return a list with one text about the numbers of rows that a filter selected, or an empty list."""
        if (selection := self.options.selection) is None:
            return []
        kinds = [kind for kind, seen in selection.seen.items() if seen] or list(self.options.kinds[:1])
        shares = [f"{selection.kept[kind]:,} of {plural(selection.seen[kind], kind)}" for kind in kinds]
        return [f"{', '.join(shares)} {escape(selection.description)}"]
