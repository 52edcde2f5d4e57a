"""The screen of `live --top`: current traffic, rates, findings and losses."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from rich.console import Console
from rich.live import Live
from rich.text import Text

from pulsarscope.analysis.recent_statistics import RecentStatistics
from pulsarscope.analysis.tally import Tally
from pulsarscope.model.findings import NOTE, SEVERITIES, WARNING
from pulsarscope.model.records import FindingRow
from pulsarscope.model.units import SECOND
from pulsarscope.output.render.cell_text import cell_width, clip, escape
from pulsarscope.output.render.statistics import statistics_text
from pulsarscope.output.render.text_report import ReportOptions, TextReport, rate_text, size_text
from pulsarscope.output.render.view import count_text

REFRESHES_PER_SECOND = 2

SECTIONS = ("topics", "producers", "subscriptions", "exchanges")

SECTION_LINES = 4
"""Lines of a table besides its rows: an empty line, heading, names of columns, number of further rows."""

FINDINGS_MAX = 5
FINDING_CHARACTERS_MAX = 1_000
"""Characters kept of the text of a finding."""

MIDSTREAM = "midstream-start"
"""The only note that explains missing data on the screen."""


class Status(NamedTuple):
    """The state of the capture itself."""

    title: str
    health: list[tuple[str, bool]]
    """Losses and backlogs: text, and True for one that needs attention."""


class Top:
    """An output that shows a screen instead of rows. Enter it for the time of the run."""

    def __init__(self, status: Callable[[], Status], clock: Callable[[], int], options: ReportOptions) -> None:
        """Show the status of a capture, by a clock with nanoseconds since the epoch, as wide as the terminal."""
        self._status = status
        self._clock = clock
        self._options = options
        self._recent = RecentStatistics()
        self._since = clock()
        self._counts: Counter[tuple[str, str]] = Counter()
        """Number of findings by severity and code."""
        self._latest: dict[str, str] = {}
        """Text of the latest finding of each code, the latest code last."""
        self._begun_before = 0
        """Number of connections that began before the capture."""
        self._lock = threading.Lock()
        self._console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
        self._live = Live(console=self._console, get_renderable=self._renderable, refresh_per_second=REFRESHES_PER_SECOND, screen=True)

    def __enter__(self) -> Top:  # noqa: PYI034 - typing.Self is newer than Python 3.10
        self._live.start(refresh=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def write(self, rows: list[Any]) -> None:
        """Write rows (see `Output`)."""
        with self._lock:
            self._recent.feed(rows, self._clock())
            for row in rows:
                if type(row) is FindingRow and row.code == MIDSTREAM:
                    self._begun_before += 1
                elif type(row) is FindingRow and row.severity != NOTE:
                    code = row.code or ""
                    self._counts[row.severity or "", code] += 1
                    self._latest.pop(code, None)
                    self._latest[code] = (row.text or "")[:FINDING_CHARACTERS_MAX]

    def close(self) -> None:
        """Do nothing: no row is pending."""

    def _renderable(self) -> Text:
        width, height = self._console.size
        return Text.from_ansi(self.picture(width, height), no_wrap=True, overflow="crop")

    def picture(self, width: int, height: int) -> str:
        """Return the content of a screen of this size."""
        with self._lock:
            now = self._clock()
            statistics = self._recent.statistics(now)
            sections = {name: records for name, records in statistics.sections(SECTIONS).items() if records}
            report = TextReport(msgspec.structs.replace(self._options, width=width))
            self._header(report, statistics.total, statistics.span / SECOND, now)
            self._findings(report)
        remaining = max(height - len(report.lines) - 1, 1)
        options = msgspec.structs.replace(self._options, width=width, shows_more="less busy")
        names = [*sections][: max(remaining // (SECTION_LINES + 1), 1)]
        for at, name in enumerate(names):  # lines that a table does not need are for the others
            room = remaining // (len(names) - at)
            limit = max(room - SECTION_LINES, 1)
            lines = statistics_text({name: sections[name]}, msgspec.structs.replace(options, limit=limit)).decode(options.encoding)
            report.lines += ["", *lines.splitlines()[:room]]
            remaining -= min(len(lines.splitlines()) + 1, room)
        return "\n".join(report.lines[:height])

    def _header(self, report: TextReport, total: Tally, seconds: float, now: int) -> None:
        status = self._status()
        dot = f" {report.symbols.dot} "
        report.paragraph(
            escape(f"{status.title}{dot}{report.duration(now - self._since)}{dot}rates of {seconds:.0f} s"), color=report.palette.bold
        )
        self._health(report, status.health, dot)
        for side, name in enumerate(("clients", "servers")):
            rate = f"messages {rate_text(total.messages[side] / seconds)}, {size_text(total.sizes[side] / seconds)}/s" if seconds else ""
            report.paragraph(f"{name} {report.symbols.to_server} {rate}", 2)
        if total.latencies.count:
            spread = "  ".join(f"p{part} {report.duration(total.latencies.percentile(part))}" for part in (50, 90, 99))
            report.paragraph(f"latency of sending  {spread}  max {report.duration(total.latencies.largest)}", 2)

    def _health(self, report: TextReport, health: list[tuple[str, bool]], dot: str) -> None:
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

    def _findings(self, report: TextReport) -> None:
        if self._begun_before:
            before = count_text(self._begun_before, "connection")
            report.paragraph(f"{before} began before: topics are known when clients name them again", 2, report.palette.dim)
        if not self._counts:
            report.paragraph("no errors, no warnings", 2, report.palette.dim)
            return
        latest = [*self._latest]
        order = sorted(self._counts, key=lambda finding: (SEVERITIES.index(finding[0]), -latest.index(finding[1])))
        for severity, code in order[:FINDINGS_MAX]:
            head = f"{self._counts[severity, code]:,} {escape(code)}"
            room = max(report.width - cell_width(head) - 4, 0)
            text = clip(escape(self._latest[code]), room, report.symbols.ellipsis)
            report.lines.append(f"  {report.severity(severity, head)}  {text}")
        if len(order) > FINDINGS_MAX:
            report.paragraph(f"and findings of {len(order) - FINDINGS_MAX} more codes", 2, report.palette.dim)
