"""The screen of `live --top`: current traffic, rates, findings and losses, as chosen by keys."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from pulsarscope.analysis.live_traffic import Endpoints, FindingGroup, LiveTraffic, Snapshot
from pulsarscope.analysis.tally import ReportRecord, Tally
from pulsarscope.dissect.contract.capabilities import ReportTable
from pulsarscope.model.connection_name import connection_label, with_labels
from pulsarscope.model.findings import WARNING
from pulsarscope.model.text import plural
from pulsarscope.output.render.cell_text import cell_width, clip, escape
from pulsarscope.output.render.text_report import ReportOptions, TextReport, rate_text, size_text
from pulsarscope.output.render.top_state import HELP, Action, ChosenView, TopState
from pulsarscope.output.render.top_tables import VIEWS, add_table, ordered, records, selected

SNAPSHOT_NANOSECONDS = 500_000_000
"""Age at which the tables are computed again. Keys are answered at once from the latest tables."""

FINDINGS_MAX = 5
"""Findings above the table; half as many on a screen of few lines."""

FEW_LINES = 30
TABLE_LINES = 4
"""Least lines of a further table: an empty line, its title, the names of columns, and a row."""

SUMMARY_ROWS = 10
HELP_KEYS = max(len(keys) for keys, _ in HELP) + 2


class Status(NamedTuple):
    """The state of the capture itself."""

    title: str
    health: list[tuple[str, bool]]
    """Losses and backlogs: text, and True for one that needs attention."""


class Top:
    """An output that draws pictures of a screen instead of writing rows. Rows and keys may come from different threads."""

    def __init__(
        self,
        status: Callable[[], Status],
        clock: Callable[[], int],
        options: ReportOptions,
        endpoints: Callable[[], Endpoints] = dict,
        consumers: Callable[[], list[ReportRecord]] = list,
        name_of: Callable[[str], str] = str,
        tables: Sequence[ReportTable] = (),
        table_records: Callable[[], dict[str, list[ReportRecord]]] = dict,
    ) -> None:
        """Show the status of a capture, by a clock with nanoseconds since the epoch.

        `endpoints` gives the endpoints of connections, `consumers` the records of open consumers, `name_of` the current name of a topic,
        `table_records` the records of the tables of protocols.
        """
        self._status = status
        self._clock = clock
        self._options = msgspec.structs.replace(options, folds=False)
        self._endpoints = endpoints
        self._since = clock()
        self._lock = threading.Lock()
        self._traffic = LiveTraffic(consumers, name_of, table_records)
        self._state = TopState(tables)
        self._snapshot = self._traffic.snapshot(0)
        self.keyboard = True
        """False if there is no keyboard: the screen then names no keys."""

    def write(self, rows: list[Any]) -> None:
        """Take rows (see `Output`)."""
        with self._lock:
            self._traffic.feed(rows, self._endpoints(), self._clock())

    def close(self) -> None:
        """Do nothing: no row is pending."""

    def press(self, key: str) -> Action:
        """Act on a key."""
        return self._state.press(key, self._rows(self._state.place))

    def _refresh(self, *, now: bool = False) -> None:
        """Compute the tables again if they are old, unless the screen is paused."""
        with self._lock:
            time = self._clock()
            if now or (not self._state.paused and not 0 <= time - self._snapshot.time < SNAPSHOT_NANOSECONDS):
                self._snapshot = self._traffic.snapshot(time)

    def _rows(self, place: ChosenView) -> list[ReportRecord]:
        """Return the records of a place as they are shown."""
        with self._lock:
            frames = self._traffic.frames(place.name or "") if place.view == "connection" else []
        rows = records(self._snapshot, place.view, place.name, frames)
        return ordered(selected(place.columns, rows, place.pattern), place.sort_column, reverse=place.reverse)

    # ---- pictures

    def picture(self, width: int, height: int) -> str:
        """Return the content of a screen of this size, with at most `height` lines."""
        self._refresh()
        state, snapshot = self._state, self._snapshot
        report = TextReport(msgspec.structs.replace(self._options, width=width))
        self._header(report, snapshot, paused=state.paused)
        if state.helping:
            self._help(report)
        else:
            most = FINDINGS_MAX if height >= FEW_LINES else FINDINGS_MAX // 2
            _findings(report, snapshot, 0 if state.place.view == "findings" else most)
            self._tabs(report, state)
            rows = self._rows(state.place)
            below = self._finding_text(report.width, rows) if state.place.view == "findings" else []
            room = max(height - len(report.lines) - 2 - min(len(below), (height - len(report.lines)) * 2 // 3), 1)
            self._table(report, state.place, rows, room)
            report.lines += below
            if state.place.view in state.views:
                self._other_tables(report, state.place.view, height - 1)
        lines = report.lines[: height - 1]
        lines += [""] * (height - 1 - len(lines))
        return "\n".join([*lines, self._footer(report)][:height])

    def summary(self, width: int) -> str:
        """Return what stays on the terminal at the end: totals, tables of activity since the start, and the findings with advice."""
        self._refresh(now=True)
        snapshot = self._snapshot
        report = TextReport(msgspec.structs.replace(self._options, width=width, limit=SUMMARY_ROWS))
        self._header(report, snapshot, paused=False, rates=False)
        if snapshot.begun_before:
            report.paragraph(_begun_before(snapshot), 2, report.palette.dim)
        for view in VIEWS[:3]:
            if rows := snapshot.tables[view]:
                report.heading(view.capitalize())
                rows = sorted(rows, key=lambda row: row.get("sent", 0) + row.get("delivered", 0), reverse=True)
                add_table(report, self._state.views[view].columns, rows[:SUMMARY_ROWS], None)
                if len(rows) > SUMMARY_ROWS:
                    report.paragraph(f"and {len(rows) - SUMMARY_ROWS:,} more", 2, report.palette.dim)
        if snapshot.findings:
            report.heading("Findings")
        for group in snapshot.findings:
            _finding(report, group, latest=1)
        return "".join(f"{line}\n" for line in report.lines)

    def _header(self, report: TextReport, snapshot: Snapshot, *, paused: bool, rates: bool = True) -> None:
        status = self._status()
        dot = f" {report.symbols.dot} "
        parts = [status.title, report.duration(snapshot.time - self._since)]
        if rates:
            parts.append(f"rates of {snapshot.seconds:.0f} s")
        title = clip(escape(dot.join(parts)), report.width - 10 * paused, report.symbols.ellipsis)
        report.lines.append(f"{report.palette.bold}{title}{report.palette.reset}" + (report.severity(WARNING, f"{dot}paused") * paused))
        _health(report, status.health, dot)
        for side, name in enumerate(("in  clients", "out servers")):
            report.paragraph(f"{name} {report.symbols.to_server} {_traffic_text(snapshot, side, rates=rates, dot=dot)}", 2)
        latencies = snapshot.recent.latencies if rates else snapshot.total.latencies
        if latencies.count:
            spread = "  ".join(f"p{part} {report.duration(latencies.percentile(part))}" for part in (50, 90, 99))
            report.paragraph(f"latency of sending  {spread}  max {report.duration(latencies.largest)}", 2)

    def _tabs(self, report: TextReport, state: TopState) -> None:
        """Add the line with the views and the choices in the current one."""
        place = state.place
        look = report.palette
        lines: list[list[str]] = [[]]
        free = report.width
        for number, view in enumerate(state.views, 1):
            here, rows = view == state.places[0].view, self._snapshot.tables.get(view, [])
            if not (rows or here or view in VIEWS):
                continue
            text = f"{number} {view} {len(rows)}"
            if len(text) + 2 > free and lines[-1]:
                lines.append([])
                free = report.width
            free -= len(text) + 3
            lines[-1].append(f"{look.bold}[{text}]{look.reset}" if here else f" {text} ")
        notes = [self._title(inner) for inner in state.places[1:]]
        if place.pattern or state.typing is not None:
            notes.append(f"filter /{place.pattern}{'_' if state.typing is not None else ''}")
        if column := place.sort_column:
            notes.append(f"by {column.heading}{', reversed' if place.reverse else ''}")
        report.lines += ["", *map(" ".join, lines)]
        if notes:
            report.lines.append("  " + clip(escape(" > ".join(notes)), report.width - 2, report.symbols.ellipsis))

    def _title(self, place: ChosenView) -> str:
        """Return the subject of a place: a topic, or a connection with its endpoints."""
        if place.view != "connection":
            return f"{place.view} {self._options.short_topic(place.name or '')}".rstrip()
        for record in self._snapshot.tables["connections"]:
            if record["connection"] == place.name:
                return f"connection {connection_label(place.name, several_files=False)}, {record['client']} to {record['server']}"
        return f"connection {connection_label(place.name, several_files=False)}, closed"

    def _table(self, report: TextReport, place: ChosenView, rows: list[ReportRecord], room: int) -> None:
        """Add the part of the table around the chosen row, which is highlighted."""
        if not rows:
            report.paragraph("nothing matches the filter" if place.pattern else "nothing yet", 2, report.palette.dim)
            return
        page = self._state.page = max(room - 1, 1)
        chosen = place.position(rows)
        first = place.scroll(page, len(rows))
        table = TextReport(report.options)
        sorted_by = None if place.sort_column is None else place.sort_column.key
        add_table(table, place.columns, rows[first : first + page], sorted_by)
        heads = len(table.lines) - len(rows[first : first + page])
        at = heads + chosen - first
        line = table.lines[at]
        padded = line + " " * (report.width - cell_width(line))
        marker = ">" if report.symbols.dot == "|" or not report.palette.reset else " "
        table.lines[at] = f"{REVERSE}{marker}{padded[1:]}{report.palette.reset}" if report.palette.reset else f"{marker}{line[1:]}"
        report.lines += table.lines

    def _other_tables(self, report: TextReport, view: str, height: int) -> None:
        """Fill the remaining lines with the first rows of the other tables."""
        others = [other for other in self._state.views if other != view and self._snapshot.tables.get(other)]
        for at, other in enumerate(others):
            room = (height - len(report.lines)) // (len(others) - at)
            if room < TABLE_LINES:
                continue
            rows = self._snapshot.tables[other]
            report.heading(other.capitalize(), "" if len(rows) <= room - 3 else f"{room - 3} of {len(rows):,}")
            add_table(report, self._state.views[other].columns, rows[: room - 3], None)

    def _finding_text(self, width: int, rows: list[ReportRecord]) -> list[str]:
        """Return the whole text of the chosen finding, and its advice."""
        report = TextReport(msgspec.structs.replace(self._options, width=width))
        if rows:
            code = rows[self._state.place.position(rows)]["code"]
            for group in self._snapshot.findings:
                if group.code == code:
                    report.lines.append("")
                    _finding(report, group, latest=len(group.latest))
        return report.lines

    def _help(self, report: TextReport) -> None:
        report.heading("Keys")
        for keys, text in HELP:
            report.paragraph(f"{keys:<{HELP_KEYS}}{text}", 2, hang=HELP_KEYS)
        report.lines.append("")
        report.paragraph(
            "in: from clients, out: from servers. Rates and latencies are those of the last ten seconds, other numbers count "
            "since the start. A connection that was open before is known by what it said since.",
            2,
        )

    def _footer(self, report: TextReport) -> str:
        if not self.keyboard:
            text = "no keyboard: Ctrl-C ends it"
        elif self._state.typing is not None:
            text = "type a part of a name  Enter take it  Esc remove it"
        else:
            text = "q quit  p pause  / filter  s sort  Enter open  Esc back  Tab view  f findings  ? help"
            if report.width < cell_width(text):
                text = "q quit  p pause  / filter  s sort  Enter open  Esc back  f findings  ? help"
        return f"{report.palette.dim}{clip(text, report.width, report.symbols.ellipsis)}{report.palette.reset}"


REVERSE = "\x1b[7m"


def _traffic_text(snapshot: Snapshot, side: int, *, rates: bool, dot: str) -> str:
    """Return the rates of one direction and its counts since the start."""
    total: Tally = snapshot.total
    since = f"{plural(total.messages[side], 'message')}, {size_text(total.sizes[side])} since the start"
    if not rates or not snapshot.seconds:
        return since
    recent = snapshot.recent
    return f"{rate_text(recent.messages[side] / snapshot.seconds)}, {size_text(recent.sizes[side] / snapshot.seconds)}/s{dot}{since}"


def _health(report: TextReport, health: list[tuple[str, bool]], dot: str) -> None:
    """Add the losses and backlogs, in as many lines as they need."""
    parts: list[str] = []
    free = room = report.width - 2
    for text, is_bad in health:
        shown = clip(escape(text), room, report.symbols.ellipsis)
        if parts and cell_width(shown) > free:
            report.lines.append("  " + dot.join(parts))
            parts, free = [], room
        free -= cell_width(shown) + len(dot)
        parts.append(report.severity(WARNING, shown) if is_bad else shown)
    report.lines.append("  " + dot.join(parts))


def _begun_before(snapshot: Snapshot) -> str:
    return f"{plural(snapshot.begun_before, 'connection')} began before: topics are known when clients name them again"


def _findings(report: TextReport, snapshot: Snapshot, most: int) -> None:
    """Add a line for each of the most severe codes."""
    if snapshot.begun_before:
        report.paragraph(_begun_before(snapshot), 2, report.palette.dim)
    if not snapshot.findings:
        report.paragraph("no errors, no warnings", 2, report.palette.dim)
        return
    for group in snapshot.findings[:most]:
        head = f"{group.count:,} {escape(group.code)}"
        room = max(report.width - cell_width(head) - 4, 0)
        text = clip(_finding_line(group.latest[-1].text), room, report.symbols.ellipsis)
        report.lines.append(f"  {report.severity(group.severity, head)}  {text}")
    if most and len(snapshot.findings) > most:
        report.paragraph(f"and findings of {len(snapshot.findings) - most} more codes (f shows all)", 2, report.palette.dim)


def _finding_line(text: str) -> str:
    """Return the text of a finding, with connection names in the form of all screens."""
    return with_labels(escape(text), several_files=False)


def _finding(report: TextReport, group: FindingGroup, *, latest: int) -> None:
    """Add the latest findings of a code with their whole text and advice."""
    head = f"{group.severity} {escape(group.code)}, {plural(group.count, 'time')}"
    report.lines.append(f"  {report.severity(group.severity, head)}")
    for row in [*group.latest][-latest:][::-1]:
        report.paragraph(_finding_line(row.text), 4)
    if group.hint:
        report.paragraph(f"try: {escape(group.hint)}", 4, report.palette.dim)
