"""The commands that read all before they say anything: stats, diagnose, compare."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec

from pulsarscope.analysis.comparison import Comparison, Examined
from pulsarscope.analysis.diagnosis import Diagnosis
from pulsarscope.analysis.statistics import SECTIONS, Statistics
from pulsarscope.cli.encoded_rows import damage
from pulsarscope.cli.progress import Progress
from pulsarscope.cli.run_command import (
    EXIT_DAMAGED,
    EXIT_DONE,
    EXIT_FINDING,
    NEVER,
    Delivery,
    Request,
    complain,
    deliver,
    exit_code,
    filter_of,
    names_in,
    reading_options,
)
from pulsarscope.dissect.capabilities import join_topic_names
from pulsarscope.dissect.contract import Dissector
from pulsarscope.dissect.registry import finding_codes
from pulsarscope.engine.local import Options, Run, run
from pulsarscope.filter.literals import DURATIONS
from pulsarscope.model.errors import UsageError
from pulsarscope.model.findings import SEVERITIES, Code
from pulsarscope.model.limits import ROWS_MAX
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FindingRow, FrameRow
from pulsarscope.output.export.sections import report_bytes
from pulsarscope.output.render.style import is_terminal, wants_color
from pulsarscope.output.render.text_report import ReportOptions

COUNTED = (FrameRow.kind, ExchangeRow.kind)
"""What statistics count, and a filter chooses."""

EXPLAINED = frozenset({ConnectionRow.kind, FindingRow.kind})

INTERVAL = re.compile(rf"(\d+)({'|'.join(DURATIONS)})")

DEFAULT_LIMIT = 10
"""Lines of a list in text."""


def stats(request: Request, by: str | None, interval: str | None) -> int:
    """Count, and return the exit code.

    Raises:
        UsageError, CaptureError, OutputError: as `work`.
    """
    sections = _sections(by, with_intervals=interval is not None)
    nanoseconds = None if interval is None else _interval(interval)
    if request.format == "csv" and len(sections) > 1:
        report_bytes(dict.fromkeys(sections, ()), "csv")  # says what is wrong before anything is read

    def carry_out(delivery: Delivery) -> int:
        chosen = filter_of(request, COUNTED)
        judged = request.fail_on != NEVER
        made = run(request.files, _options(request, frozenset(COUNTED) | EXPLAINED, judged=judged))
        sink = delivery.open(request.out, made.inputs.paths)
        statistics = Statistics(interval=nanoseconds, filtered=chosen is not None)

        def take(rows: Sequence[Any]) -> None:
            if chosen is None:
                statistics.feed(rows)
                return
            statistics.feed(row for row in chosen.select(rows, made.endpoints) if type(row) is not FindingRow)
            statistics.feed(row for row in rows if type(row) is FindingRow)

        _read(made, request, take)
        counted = statistics.sections(sections)
        if request.format is not None:
            counted = {name: records[: request.limit] for name, records in counted.items()}
            sink.write(report_bytes(counted, request.format, single=frozenset({"total"})))
        else:
            from pulsarscope.output.render.statistics import statistics_text  # noqa: PLC0415 - programs need none of it

            note = (
                ""
                if chosen is None
                else f"Only what matches the filter: {sum(chosen.kept.values()):,} of {sum(chosen.seen.values()):,} rows"
            )
            sink.write(statistics_text(counted, report_options(request, made.inputs.paths, made.dissectors.values()), note))
        sink.finish()
        return exit_code(request.fail_on, made)

    return deliver(carry_out)


def diagnose(request: Request) -> int:
    """Judge, and return the exit code.

    Raises:
        UsageError, CaptureError, OutputError: as `work`.
    """

    def carry_out(delivery: Delivery) -> int:
        chosen = filter_of(request, (FindingRow.kind,))
        made = run(request.files, _options(request, EXPLAINED, judged=True))
        sink = delivery.open(request.out, made.inputs.paths)
        diagnosis = Diagnosis(_codes(made))
        start: list[int] = []

        def take(rows: Sequence[Any]) -> None:
            found = rows if chosen is None else chosen.select([row for row in rows if type(row) is FindingRow], made.endpoints)
            diagnosis.feed(rows if chosen is None else [*(row for row in rows if type(row) is not FindingRow), *found])
            start[:] = _earliest(start, rows)

        _read(made, request, take, tells=request.format is not None)
        if request.format is not None:
            groups = diagnosis.records()[: request.limit]
            sink.write(
                report_bytes({"findings": groups}, request.format) if request.format == "ndjson" else _verdict(diagnosis, made, groups)
            )
        else:
            from pulsarscope.output.render.diagnosis import diagnosis_text  # noqa: PLC0415 - as above

            if chosen is not None:
                sink.write(b"Of the findings that match the filter: ")
            sink.write(
                diagnosis_text(
                    diagnosis,
                    report_options(request, made.inputs.paths, made.dissectors.values()),
                    made.packets,
                    start[0] if start else None,
                )
            )
        sink.finish()
        if chosen is not None and not made.damaged:
            return EXIT_FINDING if _fails(request.fail_on, diagnosis) else EXIT_DONE
        return exit_code(request.fail_on, made)

    return deliver(carry_out)


def _fails(fail_on: str, diagnosis: Diagnosis) -> bool:
    """Whether one of the findings that a filter chose is as bad as that."""
    bad = () if fail_on == NEVER else SEVERITIES[: SEVERITIES.index(fail_on) + 1]
    return any(group["severity"] in bad for group in diagnosis.records())


def compare(request: Request) -> int:
    """Compare the first of the files with the second, and return the exit code.

    Raises:
        UsageError, CaptureError, OutputError: as `work`.
    """

    def carry_out(delivery: Delivery) -> int:
        options = _options(request, frozenset(COUNTED) | EXPLAINED, judged=True)
        runs = [run([name], options) for name in request.files]
        sink = delivery.open(request.out, [path for made in runs for path in made.inputs.paths])
        comparison = Comparison(*(_examine(made, request) for made in runs))
        if request.format is not None:
            sink.write(report_bytes(comparison.records(), request.format, single=frozenset({"verdict"})))
        else:
            from pulsarscope.output.render.comparison import comparison_text  # noqa: PLC0415 - as above

            sink.write(
                comparison_text(
                    comparison,
                    (request.files[0], request.files[1]),
                    report_options(request, [path for made in runs for path in made.inputs.paths], runs[0].dissectors.values()),
                )
            )
        sink.finish()
        return EXIT_DAMAGED if any(made.damaged for made in runs) else EXIT_DONE

    return deliver(carry_out)


def _examine(made: Run, request: Request) -> Examined:
    chosen = filter_of(request, COUNTED)
    examined = Examined(Statistics(filtered=chosen is not None), Diagnosis(_codes(made)))

    def take(rows: Sequence[Any]) -> None:
        examined.diagnosis.feed(rows)
        examined.statistics.feed(rows if chosen is None else chosen.select(rows, made.endpoints))

    _read(made, request, take)
    return examined


# ---- what they share


def _options(request: Request, kinds: frozenset[str], *, judged: bool) -> Options:
    return msgspec.structs.replace(
        reading_options(request.reading),
        records=kinds,
        show_secrets=request.show_secrets,
        payloads=judged,
        rows_max=ROWS_MAX,
        rules=judged,
    )


def _read(made: Run, request: Request, take: Callable[[Sequence[Any]], None], *, tells: bool = True) -> None:
    """Hand all rows over; damage to an input goes to standard error, unless the report itself `tells` of it."""
    with Progress(made.inputs.paths, made.inputs.sizes, wanted=not request.quiet) as progress:
        for batch in made:
            if tells and not request.quiet:
                for line in damage(batch.rows):
                    complain(line)
            take(batch.rows)
            progress.advance(batch.file, batch.bytes_read)


def report_options(request: Request, paths: Iterable[str], dissectors: Iterable[Dissector] = ()) -> ReportOptions:
    """Return the form of a text about `paths`, with topics named as the dissectors do."""
    standard = request.out in (None, "-")
    stream = sys.stdout if standard else None
    return ReportOptions(
        color=wants_color(stream, os.environ, request.no_color),
        width=shutil.get_terminal_size().columns if is_terminal(stream) or os.environ.get("COLUMNS") else None,
        encoding=(getattr(stream, "encoding", None) or "utf-8") if standard else "utf-8",
        limit=request.limit or DEFAULT_LIMIT,
        quiet=request.quiet,
        files=tuple(Path(path).name for path in paths),
        short_topic=join_topic_names(dissector.topics for dissector in dissectors).short,
    )


def _codes(made: Run) -> dict[str, Code]:
    """What every finding means."""
    return finding_codes(tuple(made.dissectors.values()))


def _sections(by: str | None, *, with_intervals: bool) -> tuple[str, ...]:
    """The sections of statistics that --by names; all without it.

    Raises:
        UsageError: as `sections_named`, or it names intervals whose length nobody has told.
    """
    if not with_intervals and "intervals" in names_in(by or ""):
        message = "--by intervals needs to know how long they are: give --interval, as in --interval 1s"
        raise UsageError(message)
    chosen = sections_named(by, [name for name in SECTIONS if name != "intervals" or with_intervals])
    return chosen if "intervals" in chosen or not with_intervals else (*chosen, "intervals")


def sections_named(by: str | None, known: Sequence[str]) -> tuple[str, ...]:
    """The sections that --by names, in their order; all without it.

    Raises:
        UsageError: a name is none of a section, or there is none.
    """
    names = known if by is None else names_in(by)
    if not names:
        message = f"--by names no section: there are {', '.join(known)}"
        raise UsageError(message)
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]}?" if near else f": there are {', '.join(known)}"
            message = f'no section is named "{name}"{hint}'
            raise UsageError(message)
    return tuple(name for name in known if name in names)


def _interval(text: str) -> int:
    found = INTERVAL.fullmatch(text)
    nanoseconds = int(found[1]) * DURATIONS[found[2]] if found is not None and len(found[1]) < 10 else 0
    if nanoseconds <= 0:
        message = f"--interval {text}: give a length with its unit, as in 1s, 500ms or 5m"
        raise UsageError(message)
    return nanoseconds


def _earliest(known: Iterable[int], rows: Iterable[Any]) -> list[int]:
    """The earliest start of a connection or time of a finding, in a list, if there is any."""
    times = [*known, *(row.start for row in rows if type(row) is ConnectionRow and row.start is not None)]
    return [min(times)] if times else []


def _verdict(diagnosis: Diagnosis, made: Run, groups: Sequence[dict[str, Any]]) -> bytes:
    """One object for programs: the verdict and the groups."""
    from pulsarscope.output.render.diagnosis import verdict  # noqa: PLC0415 - as above

    head = {
        "text": verdict(diagnosis, made.packets),
        **{f"{severity}s": count for severity, count in diagnosis.severities.items()},
        "connections": diagnosis.connections,
        "unknown_connections": diagnosis.unknown_connections,
        "troubled_connections": diagnosis.troubled,
        "midstream_connections": diagnosis.midstream,
        "missing_bytes": diagnosis.missing_bytes,
    }
    return report_bytes({"verdict": [head], "findings": groups}, "json", single=frozenset({"verdict"}))
