"""The command `report`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pulsarscope.analysis.counted_once import CountedOnce
from pulsarscope.analysis.overview import FIRST_INTERVAL, Overview
from pulsarscope.analysis.statistics import Statistics
from pulsarscope.cli.arguments.declarations import option
from pulsarscope.cli.arguments.options import CommandRequest, Files, JobsOption, OutOption, QuietOption, ReadOptions, filter_option
from pulsarscope.cli.arguments.read_options import filter_of, warn_of_absent_names
from pulsarscope.cli.command_output import CommandOutput, with_output
from pulsarscope.cli.engine_run import start_run
from pulsarscope.cli.exit_codes import EXIT_DAMAGED, EXIT_DONE
from pulsarscope.cli.reports import COUNTED_KINDS, EXPLAINING_KINDS, diagnosis_of, read_all, run_options
from pulsarscope.cli.standard_error import warn
from pulsarscope.dissect.plugins.report_tables import report_tables
from pulsarscope.inputs.mask_keys import mask_key
from pulsarscope.model.errors import UsageError
from pulsarscope.protocols import make_dissectors

TABLE_ROWS = 300
"""Rows of each table by default: twenty tables of 100 kB are well below the size limit of a page."""

AnonymizeOption = Annotated[
    bool, option("--anonymize", help="Show pseudonyms instead of addresses, topics and names of clients, different in each report.")
]
AnonymizeKeyOption = Annotated[
    str | None,
    option("--anonymize-key", metavar="FILE", help="Like --anonymize, with the same pseudonyms in all reports with this key file."),
]


OTHER_SUFFIXES = frozenset({".csv", ".json", ".md", ".ndjson", ".parquet", ".pdf", ".svg", ".txt"})
"""Ends of names of files that are no pages."""


class ReportPageRequest(CommandRequest, frozen=True, kw_only=True):
    """Options of `report`."""

    files: Files
    out: OutOption = None
    filter: Annotated[str | None, filter_option('topic matches "orders"')] = None
    limit: Annotated[
        int | None, option("--limit", min=1, metavar="N", help=f"Rows of each table, the busiest; {TABLE_ROWS} by default.")
    ] = None
    anonymize: AnonymizeOption = False
    mask_key: AnonymizeKeyOption = None
    quiet: QuietOption = False
    jobs: JobsOption = 1
    reading: ReadOptions = ReadOptions()


@with_output
def report(request: ReportPageRequest, output: CommandOutput) -> int:
    """Write a page (HTML) to read and to pass on.

    One HTML file that loads nothing: verdict, findings, charts over time, consumers, journeys and tables; no payloads,
    properties or credentials.
    """
    from pulsarscope.output.html.page import require_jinja

    require_jinja()
    if request.out is None and sys.stdout.isatty():
        raise UsageError("a report is a page for browsers: give -o report.html")
    if (suffix := _other_suffix(request.out)) and not request.quiet:
        warn(f"{request.out} is a page (HTML), though its name ends in {suffix}")
    key = mask_key("--anonymize-key", request.mask_key) if request.anonymize or request.mask_key else None
    tables = {name: table for name, table in report_tables(make_dissectors()).items() if not table.contents}
    kinds = frozenset[str]().union(*(table.kinds for table in tables.values()))

    from pulsarscope import __version__  # the package loads this module on its own
    from pulsarscope.dissect.plugins.topic_names import join_topic_names
    from pulsarscope.output.html.report import PageOptions, report_page

    row_filter = filter_of(request, COUNTED_KINDS)
    options = run_options(request, {*COUNTED_KINDS, *EXPLAINING_KINDS, *kinds}, rules=True)
    run = start_run(request.files, options, request.jobs)
    sink = output.open(request, run.inputs.paths)
    once = CountedOnce()
    statistics = Statistics(interval=FIRST_INTERVAL, filtered=row_filter is not None, outer_of=once.outer_of)
    overview = Overview(statistics, diagnosis_of(run, options), tables)
    if row_filter is not None:
        row_filter.begin(run)

    def consume(rows: Sequence[Any]) -> None:
        overview.diagnosis.feed(rows)
        overview.feed(rows if row_filter is None else list(row_filter.select(rows, once.endpoints)), once.endpoints)
        inner = once.inner if row_filter is None else list(row_filter.select(once.inner, once.endpoints))
        overview.feed_inner(inner, once.endpoints)

    read_all(run, request, consume, once)
    overview.diagnosis.start = overview.diagnosis.start if run.start is None else run.start
    names = join_topic_names(run.dissectors.values())
    note = "" if row_filter is None else f"Charts and tables: only what matches {request.filter}; the verdict is that of all."
    page_options = PageOptions(
        files=tuple(Path(path).name for path in run.inputs.paths),
        limit=request.limit or TABLE_ROWS,
        version=__version__,
        short_topic=names.short,
        base_topic=names.base,
        outer_of=once.outer_of,
        note=note,
        key=key,
    )
    sink.write(report_page(overview, run.packets, page_options))
    sink.finish()
    warn_of_absent_names(request, row_filter)
    return EXIT_DAMAGED if run.damaged else EXIT_DONE


def _other_suffix(out: str | None) -> str | None:
    """Return the suffix of an output that should be another kind of file; compressed, the one before that."""
    from pulsarscope.capture.formats.compression import COMPRESSED_SUFFIXES

    suffixes = [suffix for suffix in Path(out or "").suffixes if suffix.lower() not in COMPRESSED_SUFFIXES]
    return suffixes[-1] if suffixes and suffixes[-1].lower() in OTHER_SUFFIXES else None
