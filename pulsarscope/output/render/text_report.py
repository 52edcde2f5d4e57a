"""The elements of text reports: headings, tables that fit, paragraphs, bars, and numbers for people."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import msgspec

from pulsarscope.model.connection_name import connection_label, with_labels
from pulsarscope.model.text import duration, plural
from pulsarscope.output.render.cell_text import cell_width, clip, clip_middle, escape, wrap_cells
from pulsarscope.output.render.style import UNICODE, palette, symbols
from pulsarscope.output.render.times import moments

if TYPE_CHECKING:
    from pulsarscope.dissect.contract.capabilities import ReportColumn

WIDTH = 100
"""Cells of a line of prose when the output is not a terminal."""

PADDED_MAX = 120
"""Cells to which names are padded at most when the output is not a terminal; names are not clipped there."""

NAME_WIDTH = 18
"""Cells of a column of names; spare columns are omitted to keep them."""

NAME_WIDTH_MIN = 10
"""Least cells of a column of names. If even these do not fit, the last columns are cut."""

_PARTING = {"p99": 1, "max": 1, "": 0}
"""Ranks of headings that make sense only beside the column before them, so a line should begin with another column."""

_UNITS = re.compile(r" (?<=\d )(?=(?:ns|µs|ms|s|B|kB|MB|GB|TB)\b)")
"""Spaces between a number and its unit, which stay on one line."""

_LEFT = frozenset({"name", "topic", "text", "frame", "course"})
"""Forms of columns that are aligned left."""

FILES_MAX = 10
"""Files shown by name."""

BLOCKS = " ▏▎▍▌▋▊▉█"
"""Cells filled from the left by eighths."""


class ReportOptions(msgspec.Struct, frozen=True):
    """Options of a text report. `width` in terminal cells, None without a terminal."""

    color: bool = False
    width: int | None = None
    encoding: str = "utf-8"
    limit: int = 10
    """Rows of a list."""
    quiet: bool = False
    """Omit headings and advice."""
    shows_more: str = "--limit shows more"
    """Note after a list that is cut."""
    files: tuple[str, ...] = ()
    """Names of the captures; with several, names of frames have the position of their file."""
    short_topic: Callable[[str], str] = str
    """Short form of a topic's name."""
    folds: bool = True
    """Show columns that do not fit below the others; else cut them, so that a row is one line."""


class TextColumn(msgspec.Struct):
    """A column of escaped text in a table: right-aligned or not; `name` columns are narrowed when space is short."""

    heading: str
    cells: list[str]
    right: bool = True
    name: bool = False
    spare: bool = False
    """True for a column that is omitted when the table does not fit."""
    kept: bool = False
    """True for a column that is shown even without any value."""
    color: str = ""
    """Escape sequence before each cell."""


class TextReport:
    """The lines of a report."""

    def __init__(self, options: ReportOptions) -> None:
        self.options = options
        self.palette = palette(options.color)
        self.symbols = symbols(options.encoding)
        self.unicode = self.symbols is UNICODE and _has_blocks(options.encoding)
        self.width = options.width or WIDTH
        self.short_topic = options.short_topic
        self.lines: list[str] = []

    def text(self) -> bytes:
        """Return all lines, encoded, with backslash escapes for characters that the encoding lacks."""
        return "".join(f"{line}\n" for line in self.lines).encode(self.options.encoding, "backslashreplace")

    def heading(self, text: str, note: str = "") -> None:
        """Add the heading of a section, and a note beside it, or below if there is no room."""
        look = self.palette
        if self.lines:
            self.lines.append("")
        beside = note if cell_width(text) + 2 + cell_width(note) <= self.width else ""
        self.lines.append(f"{look.heading}{text}{look.reset}" + (f"  {look.dim}{beside}{look.reset}" if beside else ""))
        if note != beside:
            self.paragraph(note, 2, look.dim)

    def file_names(self) -> None:
        """If there are several files, add their names with the positions that occur in names of frames."""
        files = self.options.files
        if len(files) < 2 or self.options.quiet:
            return
        shown = ", ".join(f"{at} {escape(name)}" for at, name in enumerate(files[:FILES_MAX]))
        more = f" and {len(files) - FILES_MAX:,} more" if len(files) > FILES_MAX else ""
        self.paragraph(f"files: {shown}{more}", 2, self.palette.dim, hang=2)

    def paragraph(self, text: str, indent: int = 0, color: str = "", hang: int = 0) -> None:
        """Add escaped text, wrapped; lines after the first are indented `hang` more."""
        space = " " * indent
        room = max(self.width - indent, NAME_WIDTH_MIN)
        end = self.palette.reset if color else ""
        text = _UNITS.sub("\N{NO-BREAK SPACE}", text)
        whole_words = self.options.width is None
        for line in wrap_cells(text, room, " " * hang, breaks_words=not whole_words):
            self.lines.append(f"{space}{color}{line}{end}".replace("\N{NO-BREAK SPACE}", " "))

    def table(self, columns: Sequence[TextColumn], more: int = 0, noun: str = "") -> None:
        """Add a table, made to fit. Columns that do not fit follow below, after a repetition of the first columns.

        Columns without any value are omitted, and so are headings without rows.
        """
        shown = [column for column in columns if column.name or column.kept or any(cell not in ("", "0") for cell in column.cells)]
        look = self.palette
        for part, widths in self._parts(shown):
            if not self.options.quiet and part and part[0].cells:
                self.lines.append(f"{look.dim}{self._row(part, widths, [column.heading for column in part])}{look.reset}")
            for cells in zip(*(column.cells for column in part), strict=True):
                self.lines.append(self._row(part, widths, list(cells)))
        if more > 0:
            self.paragraph(f"and {plural(more, f'more {noun}')} ({self.options.shows_more})", 2, look.dim)

    def _parts(self, shown: list[TextColumn]) -> Iterator[tuple[list[TextColumn], list[int]]]:
        """Yield the groups of columns that stand side by side, with their widths."""
        if self.options.width is None:
            yield shown, [min(max(map(cell_width, (column.heading, *column.cells))), PADDED_MAX) for column in shown]
            return
        widths = self._fitting(shown)
        marks = len(list(takewhile(lambda column: not column.heading, shown)))  # such as directions, which alone do not identify a row
        names = shown[:marks] + list(takewhile(lambda column: column.name, shown[marks:])) or shown[:1]
        start, room = len(names), self.width - self._taken(widths[: len(names)])
        folds = bool(names) and self.options.folds and start < len(shown) and self._taken([max(widths[start:])]) <= room
        while folds and self._taken(widths[start:]) > room:
            ends = [end for end in range(start + 1, len(widths)) if self._taken(widths[start:end]) <= room]
            end = max(ends, key=lambda end: (_PARTING.get(shown[end].heading, 2), end))
            yield names + shown[start:end], widths[: len(names)] + widths[start:end]
            start = end
        rest = shown if start == len(names) else names + shown[start:]
        yield rest, widths[: len(names)] + widths[start:]

    def _fitting(self, shown: list[TextColumn]) -> list[int]:
        """Return widths of columns with which a table fits; spare columns are removed from the list first."""
        while True:
            widths = [max(map(cell_width, (column.heading, *column.cells))) for column in shown]
            least = [min(width, NAME_WIDTH) if column.name else width for column, width in zip(shown, widths, strict=True)]
            spare = [column for column in shown if column.spare]
            if self._taken(least) <= self.width or not spare:
                break
            shown.remove(spare[-1])
        names = [at for at, column in enumerate(shown) if column.name]
        for at in names:  # no column is wider than the line; a name off the wire may have megabytes
            widths[at] = min(widths[at], max(self.width, NAME_WIDTH_MIN))
        while names and self._taken(widths) > self.width:
            at = max(names, key=widths.__getitem__)
            if widths[at] <= NAME_WIDTH_MIN:
                break
            widths[at] -= 1
        return widths

    def _taken(self, widths: Sequence[int]) -> int:
        """Return the cells that a line takes, with two spaces before each column."""
        return sum(widths) + 2 * len(widths)

    def _row(self, columns: Sequence[TextColumn], widths: Sequence[int], cells: Sequence[str]) -> str:
        plain, colored = [], []
        last = len(columns) - 1
        for at, (column, width, cell) in enumerate(zip(columns, widths, cells, strict=True)):
            fitting = cell if self.options.width is None else clip_middle(cell, width, self.symbols.ellipsis)
            space = " " * (width - cell_width(fitting))
            text = f"  {space}{fitting}" if column.right else f"  {fitting}{space if at < last else ''}"
            plain.append(text)
            colored.append(f"{column.color}{text}{self.palette.reset}" if column.color and fitting else text)
        line = "".join(plain)
        fits = self.options.width is None or cell_width(line.rstrip()) <= self.width
        return "".join(colored).rstrip() if fits else clip(line.rstrip(), self.width, self.symbols.ellipsis)

    def columns(
        self, columns: Sequence[ReportColumn], records: Sequence[Mapping[str, Any]], cell: Callable[[str, Any], str] | None = None
    ) -> list[TextColumn]:
        """Return the columns of a table of records; `cell` makes the text of a value of a form, by default as `self.cell`."""
        cell = cell or self.cell
        values = [[record.get(column.key) for record in records] for column in columns]
        texts = [
            moments(given) if column.form == "moment" else [cell(column.form, value) for value in given]
            for column, given in zip(columns, values, strict=True)
        ]
        return [
            TextColumn(
                column.heading,
                cells,
                right=column.form not in _LEFT,
                name=column.form in ("name", "topic"),
                spare=column.spare,
                kept=column.kept and any(cells),
            )
            for column, cells in zip(columns, texts, strict=True)
        ]

    def cell(self, form: str, value: Any) -> str:
        """Return a value in the form of its column, see `ReportColumn`; empty for None."""
        if value is None:
            return ""
        match form:
            case "count":
                return f"{value:,}"
            case "duration":
                return self.duration(value)
            case "moment":
                return moments([value])[0]
            case "bytes":
                return size_text(value)
            case "rate":
                return rate_text(value)
            case "frame":
                return self.reference(value)
            case "connection":
                return self.connection(value)
            case "topic":
                return escape(self.short_topic(value))
        return escape(str(value))

    def bar(self, share: float, width: int) -> str:
        """Return a bar that fills a share of `width` cells; a share above 0 gives at least the thinnest bar."""
        if not self.unicode:
            return "#" * max(round(share * width), share > 0)
        eighths = max(round(share * width * 8), share > 0)
        return BLOCKS[8] * (eighths // 8) + (BLOCKS[eighths % 8] if eighths % 8 else "")

    def duration(self, nanoseconds: int | None) -> str:
        """Return a duration as text, empty for None."""
        return "" if nanoseconds is None else duration(nanoseconds, self.symbols.micro)

    def reference(self, name: str | None) -> str:
        """Return a frame name, without the file when there is only one."""
        text = escape(name or "")
        return text if len(self.options.files) > 1 else text.rpartition(":")[2]

    def connection(self, name: str | None) -> str:
        """Return the name of a connection, without the file when there is only one."""
        return escape(connection_label(name, several_files=len(self.options.files) > 1))

    def finding_text(self, text: str | None) -> str:
        """Return the text of a finding, escaped, with connection names in their usual form."""
        return escape(with_labels(text or "", several_files=len(self.options.files) > 1))

    def severity(self, severity: str, text: str) -> str:
        """Return text in the colour of a severity."""
        return f"{self.palette.severity(severity)}{text}{self.palette.reset}"


def size_text(size: float | None) -> str:
    """Return bytes with three significant digits: 950 B, 27.8 kB, 1.30 MB."""
    if size is None:
        return ""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 999.5 or unit == "TB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "B" or size >= 99.95 else f"{size:.1f} {unit}" if size >= 9.995 else f"{size:.2f} {unit}"


def rate_text(rate: float | None) -> str:
    """Return a rate per second with three significant digits."""
    if rate is None:
        return ""
    return f"{rate:,.0f}/s" if rate >= 99.95 else f"{rate:.1f}/s" if rate >= 9.95 else f"{rate:.2f}/s"


def change_text(percent: float | None) -> str:
    """Return a change such as +12 % or -3 %, as a factor such as x5.2 above threefold, and empty without a change."""
    if not percent:
        return ""
    if percent > 200:
        return f"x{percent / 100 + 1:,.1f}"
    return f"{percent:+.1f} %" if -100 < percent < -99 else f"{percent:+.0f} %"


def _has_blocks(encoding: str) -> bool:
    try:
        BLOCKS.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True
