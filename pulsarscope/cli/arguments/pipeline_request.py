"""Options of `pipeline`, and the settings of its run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from pulsarscope.cli.arguments.declarations import argument, option
from pulsarscope.cli.arguments.options import NEVER, CommandRequest, FailOnOption, PayloadOption, ReadOptions, RecordsOption, SecretsOption
from pulsarscope.cli.arguments.read_options import engine_options, record_kinds
from pulsarscope.model.errors import UsageError

if TYPE_CHECKING:
    from pulsarscope.engine.options import Options


class SparkOptions(msgspec.Struct, frozen=True):
    """Options of Spark."""

    master: Annotated[
        str | None, option("--master", metavar="URL", help="Spark master, or a Connect server (sc://); this machine by default.")
    ] = None
    partitions: Annotated[int | None, option("--partitions", min=1, metavar="N", help="Number of tasks that decode.")] = None
    split: Annotated[
        str | None, option("--split", metavar="SIZE|off", help="Read larger plain files in portions of this size; 1GiB by default.")
    ] = None
    settings: Annotated[list[str] | None, option("--conf", metavar="NAME=VALUE", help="Spark setting; repeatable.")] = None
    explain: Annotated[bool, option("--explain", help="Print the plan and its estimated cost, and exit.")] = False
    check: Annotated[bool, option("--check", help="Check that all requirements are met, and exit.")] = False


class WatchOptions(msgspec.Struct, frozen=True):
    """Options of a watched folder."""

    watch: Annotated[
        str | None,
        option("--watch", metavar="DIR", help="Decode the rotated captures that land in a folder, until Ctrl-C."),
    ] = None
    checkpoint: Annotated[
        str | None,
        option("--checkpoint", metavar="DIR", help="With --watch, --incremental: folder of the state to resume from."),
    ] = None
    incremental: Annotated[
        bool,
        option("--incremental", help="Decode the captures that the tables do not have yet; needs --checkpoint."),
    ] = False
    every: Annotated[float, option("--every", min=0.1, metavar="SECONDS", help="With --watch: time between checks for new captures.")] = 60
    settle: Annotated[
        float,
        option(
            "--settle", min=0, metavar="SECONDS", help="With --watch, --incremental: time without changes after which a file is complete."
        ),
    ] = 60
    finish: Annotated[
        bool,
        option("--finish", help="With --watch, --incremental: decode the captures that are there, close all connections, and exit."),
    ] = False


class PipelineRequest(CommandRequest, frozen=True, kw_only=True):
    """Options of `pipeline`."""

    files: Annotated[
        list[str],
        argument(
            metavar="FILE",
            help="Captures: pcap or pcapng, plain or compressed; folders, patterns, or URIs (s3://, gs://, hdfs://).",
            show_default=False,
        ),
    ] = []  # noqa: RUF012 - each request gets a list of its own
    out: Annotated[str | None, option("-o", "--output", metavar="DIR", help="New folder, or URI, for a table of each kind.")] = None
    records: RecordsOption = "all"
    format: Annotated[
        Literal["parquet", "json", "delta", "iceberg"],
        option("--format", "-f", help="Format of the tables; delta and iceberg need packages of Spark."),
    ] = "parquet"
    partition_by: Annotated[
        str,
        option("--partition-by", metavar="date,source", help="Folders of tables by day (UTC), by vantage point, or by both in this order."),
    ] = ""
    payload: PayloadOption = None
    show_secrets: SecretsOption = False
    compact: Annotated[
        str | None,
        option("--compact", metavar="DIR", help="Merge the small files of such tables into large ones, sorted by time, and exit."),
    ] = None
    quiet: Annotated[bool, option("-q", "--quiet", help="Omit progress and the summary.")] = False
    fail_on: FailOnOption = NEVER
    reading: ReadOptions = ReadOptions()
    watching: WatchOptions = WatchOptions()
    spark: SparkOptions = SparkOptions()


def output_folder(request: PipelineRequest) -> str:
    """Return the place of the tables. Raises UsageError when it is missing."""
    if not request.out:
        raise UsageError("pipeline writes a folder of tables: name it with -o")
    return request.out


def partition_by(request: PipelineRequest) -> tuple[str, ...]:
    """Return the partition columns. Raises UsageError when they are unknown, or the format has fixed ones."""
    from pulsarscope.spark.files.partition_columns import partition_columns

    columns = partition_columns(request.partition_by)
    if columns and request.format not in ("parquet", "json"):
        raise UsageError(f"--partition-by goes with parquet and json; cluster tables of {request.format} by its own means")
    return columns


def table_options(request: CommandRequest) -> Options:
    """Return the options of the engine. Raises UsageError when the options contradict each other, or have invalid values."""
    from pulsarscope.engine.flows import check_options

    kinds = record_kinds(request.records)
    options = msgspec.structs.replace(
        engine_options(request.reading),
        records=frozenset(kinds),
        show_secrets=request.show_secrets,
        payload=request.payload if "message" in kinds else None,
        rules="finding" in kinds,
    )
    check_options(options)
    return options


def spark_settings(spark_options: SparkOptions) -> Mapping[str, str]:
    """Return the settings of Spark. Raises UsageError for a setting without a name or a value."""
    settings = {}
    for text in spark_options.settings or ():
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise UsageError(f"--conf {text}: give a Spark setting and its value, as in --conf spark.executor.memory=4g")
        settings[name] = value
    return settings
