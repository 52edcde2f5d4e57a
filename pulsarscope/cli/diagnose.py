"""The command `diagnose`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from pulsarscope.cli.command_output import CommandOutput, run_with_output
from pulsarscope.cli.engine_run import start_run
from pulsarscope.cli.exit_codes import exit_code, findings_exit_code
from pulsarscope.cli.options import FailOnOption, Files, ReportFormatOption, ReportRequest, SecretsOption, VerdictOption, filter_option
from pulsarscope.cli.read_options import filter_of
from pulsarscope.cli.reports import EXPLAINING_KINDS, diagnosis_of, read_all, report_options, run_options
from pulsarscope.model.records import FindingRow
from pulsarscope.output.export.sections import report_bytes


class DiagnoseRequest(ReportRequest, frozen=True, kw_only=True):
    """Options of `diagnose`."""

    files: Files
    format: ReportFormatOption = None
    filter: Annotated[str | None, filter_option("severity == error")] = None
    show_secrets: SecretsOption = False
    limit: Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="Show at most N kinds of findings; 10 by default.")] = (
        None
    )
    quiet: VerdictOption = False
    fail_on: FailOnOption = "error"


def diagnose(request: DiagnoseRequest) -> int:
    """Find problems, with evidence and advice.

    A verdict, then the findings by kind, the worst first.
    """

    def run_diagnosis(output: CommandOutput) -> int:
        from pulsarscope.output.render.diagnosis import diagnosis_text, not_judged, verdict  # noqa: PLC0415 - help stays quick without it

        row_filter = filter_of(request, (FindingRow.kind,))
        engine_options = run_options(request, EXPLAINING_KINDS, rules=True)
        run = start_run(request.files, engine_options, request.jobs)
        sink = output.open(request, run.inputs.paths)
        diagnosis = diagnosis_of(run, engine_options)

        def consume(rows: Sequence[Any]) -> None:
            diagnosis.feed(rows if row_filter is None else row_filter.select(rows, run.endpoints))

        read_all(run, request, consume, warns=request.format is not None)
        if request.format is None:
            if row_filter is not None:
                sink.write(b"Findings that match the filter: ")
            options = report_options(request, run.inputs.paths, run.dissectors.values())
            sink.write(diagnosis_text(diagnosis, options, run.packets, filtered=row_filter is not None))
        else:
            groups = diagnosis.records()[: request.limit]
            sections = {"findings": groups}
            if request.format == "json":
                text = verdict(diagnosis, run.packets, filtered=row_filter is not None)
                sections = {"verdict": [{"text": text, **diagnosis.summary()}], "not_judged": not_judged(diagnosis), **sections}
            sink.write(report_bytes(sections, request.format, single=frozenset({"verdict"})))
        sink.finish()
        if row_filter is not None and not run.damaged:
            return findings_exit_code(request.fail_on, Counter(group["severity"] for group in diagnosis.records()))
        return exit_code(request.fail_on, run)

    return run_with_output(run_diagnosis)
