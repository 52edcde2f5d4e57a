"""The command `compare`."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from pulsarscope.analysis.comparison import ComparedRun, Comparison
from pulsarscope.analysis.counted_once import CountedOnce
from pulsarscope.analysis.statistics import Statistics
from pulsarscope.cli.arguments.declarations import argument, option
from pulsarscope.cli.arguments.options import CommandRequest, ReportFormatOption, ReportRequest, VerdictOption
from pulsarscope.cli.arguments.read_options import filter_of
from pulsarscope.cli.command_output import CommandOutput, with_output
from pulsarscope.cli.engine_run import start_run
from pulsarscope.cli.exit_codes import EXIT_DAMAGED, EXIT_DONE, EXIT_FINDING
from pulsarscope.cli.reports import COUNTED_KINDS, EXPLAINING_KINDS, CountedRows, diagnosis_of, read_all, report_options, run_options
from pulsarscope.model.ordered_rows import others
from pulsarscope.output.export.report_encoding import report_bytes

if TYPE_CHECKING:
    from pulsarscope.dissect.contract.dissector import Dissector
    from pulsarscope.engine.options import Options
    from pulsarscope.engine.parallel import AnyRun


HTML = (".html", ".htm")
"""Suffixes of the names of HTML pages."""

PAGE_ROWS = 300
"""Rows of each table of a page by default."""


class CompareRequest(ReportRequest, frozen=True, kw_only=True):
    """Options of `compare`."""

    before: Annotated[str, argument(metavar="A", help="The capture, folder or pattern before the change.", show_default=False)]
    after: Annotated[str, argument(metavar="B", help="The one after the change.", show_default=False)]
    format: ReportFormatOption = None
    fail_on: Annotated[
        Literal["regression", "never"],
        option("--fail-on", help="Exit with code 1 if something got slower, or there are more errors or warnings."),
    ] = "never"
    quiet: VerdictOption = False

    @property
    def writes_page(self) -> bool:
        """True when the name of the output is that of a page."""
        return self.format is None and (self.out or "").endswith(HTML)


@with_output
def compare(request: CompareRequest, output: CommandOutput) -> int:
    """Compare two captures, before and after.

    Latencies, rates, errors and findings, topics and producers that appeared or vanished; the largest change comes first.
    -o NAME.html writes a page.
    """
    if request.writes_page:
        from pulsarscope.output.html.page import require_jinja

        require_jinja()

    engine_options = run_options(request, {*COUNTED_KINDS, *EXPLAINING_KINDS}, rules=True)
    engine_options = msgspec.structs.replace(engine_options, columns=request.filter is None)
    prepare = CountedRows() if request.filter is None else None
    runs = [start_run([name], engine_options, request.jobs, prepare) for name in (request.before, request.after)]
    paths, dissectors = [path for run in runs for path in run.inputs.paths], runs[0].dissectors.values()
    sink = output.open(request, paths)
    compared, damaged = [], False
    while runs:
        run = runs.pop(0)
        gc.collect()  # the previous run and its engine refer to each other
        compared.append(_read(run, request, engine_options))
        damaged = damaged or run.damaged
    comparison = Comparison(*compared)
    if request.writes_page:
        sink.write(_page(comparison, request, dissectors))
    elif request.format is not None:
        sink.write(report_bytes(comparison.records(), request.format))
    else:
        from pulsarscope.output.render.comparison import comparison_text  # for text only

        options = report_options(request, paths, dissectors)
        sink.write(comparison_text(comparison, (request.before, request.after), options))
    sink.finish()
    if damaged:
        return EXIT_DAMAGED
    return EXIT_FINDING if request.fail_on == "regression" and comparison.is_regression else EXIT_DONE


def _page(comparison: Comparison, request: CompareRequest, dissectors: Iterable[Dissector]) -> bytes:
    from pulsarscope import __version__  # the package loads this module on its own
    from pulsarscope.dissect.plugins.topic_names import join_topic_names  # for a page only
    from pulsarscope.output.html.comparison import comparison_page
    from pulsarscope.output.html.report import PageOptions

    names = join_topic_names(dissectors)
    sides = Path(request.before).name, Path(request.after).name
    options = PageOptions(files=sides, limit=request.limit or PAGE_ROWS, version=__version__, short_topic=names.short)
    return comparison_page(comparison, sides, options)


def _read(run: AnyRun, request: CommandRequest, options: Options) -> ComparedRun:
    row_filter = filter_of(request, COUNTED_KINDS)
    if row_filter is not None:
        row_filter.begin(run)
    compared = ComparedRun(Statistics(filtered=row_filter is not None), diagnosis_of(run, options))
    once = CountedOnce()

    def consume(rows: Sequence[Any]) -> None:
        compared.diagnosis.feed(others(rows))
        compared.statistics.feed_batch(rows if row_filter is None else row_filter.select(rows, once.endpoints))

    read_all(run, request, consume, once)
    return compared
