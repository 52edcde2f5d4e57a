"""The command `diagnose`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from pulsarscope import __version__
from pulsarscope.analysis.baseline import Baseline
from pulsarscope.analysis.counted_once import CountedOnce
from pulsarscope.analysis.diagnosis import Diagnosis
from pulsarscope.cli.arguments.declarations import option
from pulsarscope.cli.arguments.options import (
    FailOnOption,
    Files,
    FollowReportOption,
    RedactKeyOption,
    RedactRowsOption,
    ReportRequest,
    SecretsOption,
    VerdictOption,
    filter_option,
)
from pulsarscope.cli.arguments.read_options import filter_of, warn_of_absent_names
from pulsarscope.cli.command_output import CommandOutput, with_output
from pulsarscope.cli.exit_codes import exit_code, failing_severities, findings_exit_code
from pulsarscope.cli.growing_input import check_growing
from pulsarscope.cli.redacted_input import shared_input
from pulsarscope.cli.reports import (
    EXPLAINING_KINDS,
    diagnosis_of,
    finish_report,
    read_all,
    report_options,
    report_run,
    run_options,
)
from pulsarscope.cli.standard_error import warn
from pulsarscope.model.errors import UsageError
from pulsarscope.model.records import FindingRow
from pulsarscope.model.text import escape, plural, printable
from pulsarscope.output.export.report_encoding import report_bytes

if TYPE_CHECKING:
    from pulsarscope.engine.parallel import AnyRun
    from pulsarscope.filter import RowFilter


class DiagnoseRequest(ReportRequest, frozen=True, kw_only=True):
    """Options of `diagnose`."""

    files: Files
    format: Annotated[
        Literal["json", "ndjson", "sarif", "junit"] | None,
        option("--format", "-f", help="Write the report for programs instead of text."),
    ] = None
    filter: Annotated[str | None, filter_option("severity == error")] = None
    show_secrets: SecretsOption = False
    limit: Annotated[int | None, option("--limit", min=1, metavar="N", help="Show at most N kinds of findings; 10 by default.")] = None
    baseline: Annotated[
        str | None,
        option("--baseline", metavar="FILE", help="Leave out the findings in this file, a diagnosis in --format json."),
    ] = None
    follow_file: FollowReportOption = False
    redact: RedactRowsOption = False
    mask_key: RedactKeyOption = None
    quiet: VerdictOption = False
    fail_on: FailOnOption = "error"


@with_output
def diagnose(request: DiagnoseRequest, output: CommandOutput) -> int:
    """Find problems, with evidence and advice.

    A verdict, then the findings by kind, the worst first.
    """
    check_growing(request)

    def run_files(output: CommandOutput, request: DiagnoseRequest, row_filter: RowFilter | None) -> int:
        from pulsarscope.output.render.diagnosis import diagnosis_text

        baseline = _baseline(request.baseline)
        chosen = row_filter is not None or baseline is not None
        engine_options = msgspec.structs.replace(run_options(request, EXPLAINING_KINDS, rules=True), columns=True)
        with report_run(request, engine_options) as run:
            sink = output.open(request, run.inputs.paths)
            diagnosis, once = diagnosis_of(run, engine_options), CountedOnce()
            if row_filter is not None:
                row_filter.begin(run)

            def consume(rows: Sequence[Any]) -> None:
                rows = rows if row_filter is None else row_filter.select(rows, once.endpoints)
                diagnosis.feed(rows if baseline is None else baseline.others(rows))

            read_all(run, request, consume, once, warns=request.format is not None, interrupts=output.interrupts)
            diagnosis.start = diagnosis.start if run.start is None else run.start
            if run.stopped:
                diagnosis.coverage.stopped = run.packets
            if request.format is None:
                if chosen:
                    which = "that match the filter" if baseline is None else "that the baseline does not accept"
                    sink.write(f"Findings {which}: ".encode())
                options = report_options(request, run.inputs.paths, run.dissectors.values())
                sink.write(diagnosis_text(diagnosis, options, run.packets, filtered=chosen))
            else:
                sink.write(_for_programs(request, diagnosis, run, filtered=chosen))
            if (incomplete := finish_report(sink, run)) is not None:
                return incomplete
            warn_of_absent_names(request, row_filter)
            if baseline is not None:
                _warn_of(baseline, request)
            if chosen and not run.damaged:
                return findings_exit_code(request.fail_on, diagnosis.severities)
            return exit_code(request.fail_on, run)

    row_filter = filter_of(request, (FindingRow.kind,))
    with shared_input(request, output, row_filter, lambda each: run_options(each, EXPLAINING_KINDS, rules=True)) as shared:
        return shared.exit_code(run_files(output, shared.request, shared.row_filter))


def _for_programs(request: DiagnoseRequest, diagnosis: Diagnosis, run: AnyRun, *, filtered: bool) -> bytes:
    """Return the report in the requested format."""
    from pulsarscope.output.render.diagnosis import not_judged, verdict

    groups = diagnosis.records()[: request.limit]
    paths = run.inputs.paths
    if request.format == "sarif":
        from pulsarscope.output.export.sarif import sarif_bytes

        return sarif_bytes(groups, paths, __version__, not_judged(diagnosis))
    if request.format == "junit":
        from pulsarscope.output.export.junit import junit_bytes

        names = ", ".join(printable(Path(path).name) for path in paths)
        return junit_bytes(groups, names, failing_severities(request.fail_on), not_judged(diagnosis))
    sections = {"findings": groups}
    if request.format == "json":
        text = verdict(diagnosis, run.packets, filtered=filtered)
        sections = {"verdict": [{"text": text, **diagnosis.summary()}], "not_judged": not_judged(diagnosis), **sections}
    return report_bytes(sections, request.format or "json")


def _baseline(file: str | None) -> Baseline | None:
    """Return the accepted findings of a file. Raises UsageError."""
    if file is None:
        return None
    try:
        content = Path(file).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read the baseline {file}: {error.strerror}") from error
    try:
        return Baseline(content)
    except ValueError as error:
        raise UsageError(f"{file} is not a baseline: {error}; make one with diagnose --format json") from error


def _warn_of(baseline: Baseline, request: DiagnoseRequest) -> None:
    """Warn of the findings that the baseline left out, and of its entries that no longer occur."""
    if request.quiet:
        return
    if baseline.accepted:
        warn(f"{plural(baseline.accepted, 'finding')} accepted by {request.baseline}")
    if gone := baseline.gone():
        warn(f"accepted by {request.baseline}, and not found: {', '.join(map(escape, gone))}")
