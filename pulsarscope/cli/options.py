"""The words that several commands share: what their options are called, take and say."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, NamedTuple

import typer


class Format(str, Enum):
    """What --format takes."""

    json = "json"
    ndjson = "ndjson"
    csv = "csv"
    parquet = "parquet"


class TableFormat(str, Enum):
    """What --format of `pipeline` takes."""

    parquet = "parquet"
    json = "json"
    delta = "delta"
    iceberg = "iceberg"


class ListFormat(str, Enum):
    """What --format of `fields` and `stats` takes."""

    json = "json"
    ndjson = "ndjson"
    csv = "csv"


class ReportFormat(str, Enum):
    """What --format of `diagnose` and `compare` takes."""

    json = "json"
    ndjson = "ndjson"


class TimeMode(str, Enum):
    """What --time takes."""

    relative = "relative"
    delta = "delta"
    utc = "utc"
    local = "local"
    epoch = "epoch"


class FailOn(str, Enum):
    """What --fail-on takes."""

    error = "error"
    warning = "warning"
    note = "note"
    never = "never"


class Payload(str, Enum):
    """What --payload takes."""

    base64 = "base64"
    hex = "hex"
    text = "text"


def _filter_option(example: str) -> Any:
    """-Y of a command, whose records the example fits."""
    return typer.Option("-Y", "--filter", metavar="FILTER", help=f"Only what matches, as in '{example}'; see docs/filter.md.")


FILES_HELP = "Captures: pcap or pcapng, plain, .gz or .zst; folders, patterns, or - for standard input."

Files = Annotated[list[str], typer.Argument(metavar="FILE...", help=FILES_HELP, show_default=False)]
PIPELINE_FILES_HELP = "Captures: pcap or pcapng, plain, .gz or .zst; folders, patterns, or URIs (s3://, gs://, hdfs://)."
OptionalFiles = Annotated[list[str] | None, typer.Argument(metavar="FILE", help=PIPELINE_FILES_HELP, show_default=False)]
FormatOption = Annotated[Format | None, typer.Option("--format", "-f", help="Records for programs instead of text.")]
OutOption = Annotated[str | None, typer.Option("-o", "--output", metavar="OUT", help="Write here instead of standard output.")]
ColumnsOption = Annotated[str | None, typer.Option("--columns", metavar="A,B", help="Only these columns, in this order.")]
TimeOption = Annotated[TimeMode, typer.Option("--time", help="How text shows times.")]
PayloadOption = Annotated[Payload | None, typer.Option("--payload", help="Give the payload of messages; with -x hex, all bytes.")]
PayloadsOption = Annotated[Payload | None, typer.Option("--payload", help="Give the payloads, too.")]
SecretsOption = Annotated[bool, typer.Option("--show-secrets", help="Do not redact tokens and passwords.")]
NoColorOption = Annotated[bool, typer.Option("--no-color", help="No colours; NO_COLOR and FORCE_COLOR are heeded, too.")]
FilterOption = Annotated[str | None, _filter_option("latency > 50ms")]
MessageFilterOption = Annotated[str | None, _filter_option("payload_size > 1KB")]
FindingFilterOption = Annotated[str | None, _filter_option("severity == error")]
LimitOption = Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="Stop after N records.")]
QuietOption = Annotated[bool, typer.Option("-q", "--quiet", help="Only the records: no headings, progress or warnings.")]
FailOnOption = Annotated[FailOn, typer.Option("--fail-on", help="Exit 1 when there is a finding this bad or worse.")]
JobsOption = Annotated[
    int, typer.Option("-j", "--jobs", min=0, metavar="N", help="Decode several files side by side in N processes; 0: one per core.")
]
RecordsOption = Annotated[
    str, typer.Option("--records", metavar="KIND,...", help="Of frame, message, exchange, connection, finding; or all.")
]
IntervalOption = Annotated[
    str | None, typer.Option("--interval", metavar="TIME", help="What happened in each interval of this length, as in 1s or 500ms.")
]
StatisticsFormat = Annotated[ListFormat | None, typer.Option("--format", "-f", help="The same for programs.")]
ReportFormatOption = Annotated[ReportFormat | None, typer.Option("--format", "-f", help="The report for programs.")]
LinesOption = Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="Show at most N of each list; 10 by default.")]
QuietReportOption = Annotated[bool, typer.Option("-q", "--quiet", help="Less: no headings, progress or warnings.")]
TablesOption = Annotated[str | None, typer.Option("-o", "--output", metavar="DIR", help="A new folder, or URI, for a table of each kind.")]
TableFormatOption = Annotated[TableFormat, typer.Option("--format", "-f", help="Of the tables; the last two where Spark has them.")]


class Cluster(NamedTuple):
    """Where and how `pipeline` runs."""

    master: Annotated[str | None, typer.Option("--master", metavar="URL", help="The cluster; all cores of this machine by default.")] = None
    partitions: Annotated[int | None, typer.Option("--partitions", min=1, metavar="N", help="Tasks that decode.")] = None
    split: Annotated[
        str | None, typer.Option("--split", metavar="SIZE|off", help="Read larger plain files in portions of this size; 1GiB by default.")
    ] = None
    settings: Annotated[list[str] | None, typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark.")] = None
    check: Annotated[bool, typer.Option("--check", help="Only say what is there for it, and what is missing.")] = False


class Watching(NamedTuple):
    """What `pipeline` was told of a folder to watch."""

    watch: Annotated[
        str | None,
        typer.Option("--watch", metavar="DIR", help="Experimental: decode the rotated captures that land in a folder, until Ctrl-C."),
    ] = None
    checkpoint: Annotated[
        str | None, typer.Option("--checkpoint", metavar="DIR", help="With --watch: the folder by which the same command goes on later.")
    ] = None
    every: Annotated[
        float, typer.Option("--every", min=0.1, metavar="SECONDS", help="With --watch: how often to look for new captures.")
    ] = 60
    settle: Annotated[
        float, typer.Option("--settle", min=0, metavar="SECONDS", help="With --watch: what has not changed for so long is finished.")
    ] = 60
    finish: Annotated[bool, typer.Option("--finish", help="With --watch: take what is there, end all that is open, and exit.")] = False
