"""The command `stats`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from pulsarscope.analysis.sections import Sections
from pulsarscope.analysis.statistics import SECTIONS, Statistics
from pulsarscope.cli.arguments.declarations import option
from pulsarscope.cli.arguments.options import (
    NEVER,
    FailOnOption,
    Files,
    FollowReportOption,
    ListFormatOption,
    QuietOption,
    RedactKeyOption,
    RedactRowsOption,
    ReportRequest,
)
from pulsarscope.cli.arguments.quantities import quantity
from pulsarscope.cli.arguments.read_options import choose, filter_of, warn_of_absent_names
from pulsarscope.cli.command_output import CommandOutput, inputs_of, with_output
from pulsarscope.cli.exit_codes import exit_code
from pulsarscope.cli.growing_input import check_growing
from pulsarscope.cli.redacted_input import shared_input
from pulsarscope.cli.reports import (
    COUNTED_KINDS,
    EXPLAINING_KINDS,
    CountedRows,
    finish_report,
    read_all,
    report_options,
    report_run,
    run_options,
)
from pulsarscope.dissect.plugins.report_tables import report_tables
from pulsarscope.model.errors import UsageError
from pulsarscope.model.units import DURATIONS
from pulsarscope.output.export.sink import open_sink
from pulsarscope.protocols import make_dissectors

if TYPE_CHECKING:
    from pulsarscope.filter import RowFilter

INTERVALS = "intervals"


class StatsRequest(ReportRequest, frozen=True, kw_only=True):
    """Options of `stats`."""

    files: Files
    by: Annotated[
        str | None,
        option(
            "--by",
            metavar="SECTION,...",
            help="Sections: total, connections, topics, producers, subscriptions, commands, exchanges, slowest (these by default); "
            "consumers, backlog, keys, transactions, lookups, schemas, journeys; "
            "legs, bookies, ledgers.",
        ),
    ] = None
    interval: Annotated[
        str | None,
        option("--interval", metavar="TIME", help="Add a time series with intervals of this length, for example 1s; also for the backlog."),
    ] = None
    plot: Annotated[
        str | None,
        option("--plot", metavar="FILE.svg", help="Also draw the latency percentiles of each request into this file."),
    ] = None
    follow_file: FollowReportOption = False
    redact: RedactRowsOption = False
    mask_key: RedactKeyOption = None
    format: ListFormatOption = None
    quiet: QuietOption = False
    fail_on: FailOnOption = NEVER


@with_output
def stats(request: StatsRequest, output: CommandOutput) -> int:
    """Count connections, topics, commands and latencies.

    Messages, bytes and latencies by connection, topic, producer, subscription, command and request.
    """
    tables = report_tables(make_dissectors())
    sections = _sections(request.by, tuple(tables), with_intervals=request.interval is not None)
    interval = None if request.interval is None else max(int(quantity(request.interval, DURATIONS, "--interval")), 1)
    if request.plot is not None and not request.plot.endswith(".svg"):
        raise UsageError(f"--plot draws SVG: give a name that ends in .svg, not {request.plot}")
    if request.format == "csv" and len(sections) > 1:
        from pulsarscope.output.export.report_encoding import report_bytes  # for programs only

        report_bytes(dict.fromkeys(sections, ()), "csv")  # refused before anything is read

    check_growing(request)

    def count(output: CommandOutput, request: StatsRequest, row_filter: RowFilter | None) -> int:
        counted = Sections(sections, tables, interval=interval, selection=row_filter)
        options = run_options(request, {*COUNTED_KINDS, *EXPLAINING_KINDS, *counted.kinds}, rules=request.fail_on != NEVER)
        options = msgspec.structs.replace(options, columns=counted.takes_columns)
        with report_run(request, options, CountedRows() if counted.plain else None) as run:
            if row_filter is not None:
                row_filter.begin(run)
            sink = output.open(request, run.inputs.paths)
            read_all(run, request, counted.feed, counted.once, interrupts=output.interrupts)
            if request.plot is not None:
                _draw(request, counted.statistics, run.inputs.paths)
            records = counted.records()
            if request.format is not None:
                from pulsarscope.output.export.report_encoding import report_bytes  # as above

                records = {name: section[: request.limit] for name, section in records.items()}
                sink.write(report_bytes(records, request.format))
            else:
                from pulsarscope.output.render.statistics import statistics_text  # for text only

                note = ""
                if row_filter is not None:
                    note = f"Rows that match the filter: {sum(row_filter.kept.values()):,} of {sum(row_filter.seen.values()):,}"
                sink.write(statistics_text(records, report_options(request, run.inputs.paths, run.dissectors.values()), note, tables))
            if (incomplete := finish_report(sink, run)) is not None:
                return incomplete
            warn_of_absent_names(request, row_filter)
            return exit_code(request.fail_on, run)

    row_filter = filter_of(request, COUNTED_KINDS)
    with shared_input(request, output, row_filter, lambda each: run_options(each, COUNTED_KINDS, rules=False)) as shared:
        return shared.exit_code(count(output, shared.request, shared.row_filter))


def _draw(request: StatsRequest, statistics: Statistics, paths: Sequence[str]) -> None:
    """Write the picture of --plot. Raises UsageError when it would replace an input, or OutputError."""
    from pulsarscope.output.render.latency_plot import latency_plot  # for a picture only

    title = ", ".join(Path(path).name for path in paths[:3]) + (f" and {len(paths) - 3:,} more" if len(paths) > 3 else "")
    sink = open_sink(request.plot, inputs=inputs_of(request, paths))
    try:
        sink.write(latency_plot(title, [(name, tally.latencies) for name, tally in statistics.families.named.items() if name]))
        sink.finish()
    except BaseException:
        sink.abandon()
        raise


def _sections(by: str | None, tables: tuple[str, ...], *, with_intervals: bool) -> tuple[str, ...]:
    """Return the sections named by --by, built-in or of protocols; by default, all built-in ones.

    Raises UsageError for others.
    """
    if by is None:
        return tuple(name for name in SECTIONS if name != INTERVALS or with_intervals)
    sections = choose(by, (*SECTIONS, *tables), "--by", "section")
    if with_intervals and INTERVALS not in sections:
        return (*sections, INTERVALS)
    if INTERVALS in sections and not with_intervals:
        raise UsageError("--by intervals needs --interval, as in --interval 1s")
    return sections
