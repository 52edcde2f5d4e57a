"""The command `sql`."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from pulsarscope.cli.arguments.declarations import argument, option
from pulsarscope.cli.arguments.options import (
    CAPTURES,
    CommandRequest,
    JobsOption,
    ListFormatOption,
    NoColorOption,
    OutOption,
    PayloadForm,
    QuietOption,
    ReadOptions,
    SecretsOption,
)
from pulsarscope.cli.arguments.read_options import engine_options
from pulsarscope.cli.command_output import CommandOutput, inputs_of, with_output
from pulsarscope.cli.encoded_rows import damage, warn_of
from pulsarscope.cli.engine_run import start_run
from pulsarscope.cli.exit_codes import EXIT_DAMAGED, EXIT_DONE
from pulsarscope.cli.progress import with_progress
from pulsarscope.cli.reports import report_options
from pulsarscope.model.errors import UsageError
from pulsarscope.model.limits import ROWS_MAX
from pulsarscope.model.records import FindingRow, MessageRow
from pulsarscope.model.text import escape_json
from pulsarscope.output.export.sink import identity, refuse_input

if TYPE_CHECKING:
    from pulsarscope.output.export.sink import Sink

COPY_TO = re.compile(r"\s*COPY\b.*\bTO\s+'((?:[^']|'')+)'", re.IGNORECASE | re.DOTALL)
"""A statement that writes a file, and the name of the file."""

ROWS_SHOWN = 1_000
"""Rows of a result in text, by default."""

LINES_TOGETHER = 10_000
"""Rows that are encoded in one step."""


class SqlRequest(CommandRequest, frozen=True, kw_only=True):
    """Options of `sql`."""

    files: Annotated[list[str], CAPTURES] = msgspec.field(default_factory=list)  # empty if the query, which comes last, is missing
    query: Annotated[str, argument(metavar="QUERY", help="A query in the SQL of DuckDB.", show_default=False)]
    format: ListFormatOption = None
    out: OutOption = None
    payload: Annotated[PayloadForm | None, option("--payload", help="Include the payloads of messages.")] = None
    show_secrets: SecretsOption = False
    no_color: NoColorOption = False
    limit: Annotated[int | None, option("--limit", min=1, metavar="N", help=f"Show at most N rows as text; {ROWS_SHOWN:,} by default.")] = (
        None
    )
    quiet: QuietOption = False
    jobs: JobsOption = 1
    reading: ReadOptions = ReadOptions()


@with_output
def sql(request: SqlRequest, output: CommandOutput) -> int:
    """Query the records of captures in SQL.

    Tables: frame, message, exchange, connection, finding, journey, with the columns of the records; those that the query
    reads are decoded. Times are nanoseconds since the epoch: make_timestamp_ns(time).
    """
    from pulsarscope.output.export.database import RecordDatabase

    if identity(request.query) is not None:
        raise UsageError(f"{request.query} is a file: the query comes last, after the captures")
    with TemporaryDirectory(prefix="pulsarscope-sql-") as folder, closing(RecordDatabase(Path(folder))) as database:
        kinds = database.tables_of(request.query)
        options = msgspec.structs.replace(
            engine_options(request.reading),
            records=kinds | {FindingRow.kind},  # findings about damage
            show_secrets=request.show_secrets,
            payloads=not kinds.isdisjoint({MessageRow.kind, FindingRow.kind}),
            payload=request.payload,
            rows_max=ROWS_MAX,
            together=True,
            rules=FindingRow.kind in kinds,
        )
        run = start_run(request.files, options, request.jobs)
        if (copy := COPY_TO.match(request.query)) is not None:
            refuse_input(copy[1].replace("''", "'"), inputs_of(request, run.inputs.paths), "in COPY")
        for batch in with_progress(run.inputs, run, quiet=request.quiet):
            warn_of(damage(batch.rows), run.inputs.paths)
            database.add([row for row in batch.rows if row.kind in kinds])
        names, rows = database.query(request.query)
        sink = output.open(request, run.inputs.paths)
        if request.format is None:
            _write_text(request, sink, names, rows)
        else:
            for part in _encoded(request.format, names, rows):
                sink.write(part)
        sink.finish()
        return EXIT_DAMAGED if run.damaged else EXIT_DONE


def _write_text(request: SqlRequest, sink: Sink, names: Sequence[str], rows: Iterator[tuple[Any, ...]]) -> None:
    from pulsarscope.output.render.query_result import query_text  # for text only

    shown = list(islice(rows, request.limit or ROWS_SHOWN))
    more = sum(1 for _ in rows)
    sink.write(query_text(names, shown, more, report_options(request, ())))


def _encoded(output_format: str, names: Sequence[str], rows: Iterator[tuple[Any, ...]]) -> Iterator[bytes]:
    """Yield a result as CSV, JSON or NDJSON, some rows at a time."""
    if output_format == "csv":
        yield _csv_lines([tuple(names)])
    first = True
    for some in iter(lambda: list(islice(rows, LINES_TOGETHER)), []):
        yield _csv_lines(some) if output_format == "csv" else _json_objects(output_format, names, some, first=first)
        first = False
    if output_format == "json":
        yield b"[]\n" if first else b"\n]\n"


def _json_objects(output_format: str, names: Sequence[str], rows: Sequence[tuple[Any, ...]], *, first: bool) -> bytes:
    from pulsarscope.output.export.database import plain

    objects = [escape_json(msgspec.json.encode({name: plain(value) for name, value in zip(names, row, strict=True)})) for row in rows]
    if output_format == "ndjson":
        return b"".join(b"%b\n" % line for line in objects)
    return (b"[\n" if first else b",\n") + b",\n".join(objects)


def _csv_lines(rows: Sequence[tuple[Any, ...]]) -> bytes:
    from pulsarscope.output.export.database import plain
    from pulsarscope.output.export.report_encoding import csv_cell

    file = io.StringIO()
    csv.writer(file, lineterminator="\r\n").writerows([csv_cell(plain(value)) for value in row] for row in rows)
    return file.getvalue().encode("utf-8", "backslashreplace")
