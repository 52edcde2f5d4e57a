"""The command line. Here are only its words; what a command does is imported when one is given."""

from __future__ import annotations

import gc
import sys
import warnings
from typing import Annotated, NoReturn

import typer

from pulsarscope.cli.options import (
    Cluster,
    ColumnsOption,
    FailOn,
    FailOnOption,
    Files,
    FilterOption,
    FindingFilterOption,
    Format,
    FormatOption,
    IntervalOption,
    JobsOption,
    LimitOption,
    LinesOption,
    ListFormat,
    MessageFilterOption,
    NoColorOption,
    OptionalFiles,
    OutOption,
    PayloadOption,
    PayloadsOption,
    QuietOption,
    QuietReportOption,
    RecordsOption,
    ReportFormatOption,
    SecretsOption,
    StatisticsFormat,
    TableFormat,
    TableFormatOption,
    TablesOption,
    TimeMode,
    TimeOption,
    Watching,
)
from pulsarscope.cli.reading import Reading, gathers, reads_captures
from pulsarscope.model.errors import OutputError, PulsarscopeError

COLLECT_EVERY_OBJECTS = 100_000

app = typer.Typer(
    name="pulsarscope",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _show_version(value: bool) -> None:
    if value:
        from pulsarscope import __version__  # noqa: PLC0415 - the package loads this module on its own

        typer.echo(f"pulsarscope {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _pulsarscope(
    context: typer.Context,
    *,
    version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """See what Apache Pulsar clients and brokers say to each other, from packet captures."""
    del version  # its callback has answered
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(2)


@app.command()
@reads_captures
def decode(
    files: Files,
    *,
    detail: Annotated[bool, typer.Option("-V", help="Show every field of each frame, as a tree.")] = False,
    hex_view: Annotated[bool, typer.Option("-x", help="Show the bytes of each frame and what they are.")] = False,
    output_format: FormatOption = None,
    out: OutOption = None,
    records: RecordsOption = "frame",
    columns: ColumnsOption = None,
    time: TimeOption = TimeMode.relative,
    payload: PayloadOption = None,
    show_secrets: SecretsOption = False,
    no_color: NoColorOption = False,
    display_filter: FilterOption = None,
    limit: LimitOption = None,
    quiet: QuietOption = False,
    fail_on: FailOnOption = FailOn.never,
    jobs: JobsOption = 1,
    reading: Reading,
) -> None:
    """Show captures frame by frame.

    What was said, when, by whom, and what answered it.
    """
    from pulsarscope.cli.run_command import Request, work  # noqa: PLC0415 - asking for help must stay quick

    raise typer.Exit(
        work(
            Request(
                files=tuple(files),
                records=records,
                format=output_format and output_format.value,
                detail=detail,
                hex=hex_view,
                out=out,
                columns=columns,
                time=time.value,
                payload=payload and payload.value,
                show_secrets=show_secrets,
                no_color=no_color,
                filter=display_filter,
                limit=limit,
                quiet=quiet,
                fail_on=fail_on.value,
                reading=reading,
                jobs=jobs,
            )
        )
    )


@app.command()
@reads_captures
def stats(
    files: Files,
    *,
    by: Annotated[
        str | None,
        typer.Option(
            "--by",
            metavar="SECTION,...",
            help="Of total, connections, topics, producers, subscriptions, commands, exchanges, slowest; all by default.",
        ),
    ] = None,
    interval: IntervalOption = None,
    output_format: StatisticsFormat = None,
    out: OutOption = None,
    no_color: NoColorOption = False,
    display_filter: FilterOption = None,
    limit: LinesOption = None,
    quiet: QuietReportOption = False,
    fail_on: FailOnOption = FailOn.never,
    reading: Reading,
) -> None:
    """Count who talks, what about, how much and how fast.

    Messages, bytes and latencies by connection, topic, producer, subscription, command and request.
    """
    from pulsarscope.cli.reports import stats as count  # noqa: PLC0415 - as above
    from pulsarscope.cli.run_command import Request  # noqa: PLC0415 - as above

    request = Request(
        files=tuple(files),
        format=output_format and output_format.value,
        out=out,
        no_color=no_color,
        filter=display_filter,
        limit=limit,
        quiet=quiet,
        fail_on=fail_on.value,
        reading=reading,
    )
    raise typer.Exit(count(request, by, interval))


@app.command()
@reads_captures
def diagnose(
    files: Files,
    *,
    output_format: ReportFormatOption = None,
    out: OutOption = None,
    display_filter: FindingFilterOption = None,
    show_secrets: SecretsOption = False,
    no_color: NoColorOption = False,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, metavar="N", help="Show at most N kinds of findings; 10 by default.")
    ] = None,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Only the verdict.")] = False,
    fail_on: FailOnOption = FailOn.error,
    reading: Reading,
) -> None:
    """Say what is wrong, what shows it, and what to try.

    A verdict, then the findings by kind, the worst first.
    """
    from pulsarscope.cli.reports import diagnose as judge  # noqa: PLC0415 - as above
    from pulsarscope.cli.run_command import Request  # noqa: PLC0415 - as above

    request = Request(
        files=tuple(files),
        format=output_format and output_format.value,
        out=out,
        filter=display_filter,
        show_secrets=show_secrets,
        no_color=no_color,
        limit=limit,
        quiet=quiet,
        fail_on=fail_on.value,
        reading=reading,
    )
    raise typer.Exit(judge(request))


@app.command()
@reads_captures
def compare(
    before: Annotated[str, typer.Argument(metavar="A", help="A capture, folder or pattern: how it was.", show_default=False)],
    after: Annotated[str, typer.Argument(metavar="B", help="Another one: how it is.", show_default=False)],
    *,
    output_format: ReportFormatOption = None,
    out: OutOption = None,
    no_color: NoColorOption = False,
    display_filter: FilterOption = None,
    limit: LinesOption = None,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Only the verdict.")] = False,
    reading: Reading,
) -> None:
    """Compare two captures, before and after.

    Latencies, rates, errors and findings, who came and who went; what changed most comes first.
    """
    from pulsarscope.cli.reports import compare as hold_side_by_side  # noqa: PLC0415 - as above
    from pulsarscope.cli.run_command import Request  # noqa: PLC0415 - as above

    request = Request(
        files=(before, after),
        format=output_format and output_format.value,
        out=out,
        no_color=no_color,
        filter=display_filter,
        limit=limit,
        quiet=quiet,
        reading=reading,
    )
    raise typer.Exit(hold_side_by_side(request))


@app.command()
@reads_captures
def messages(
    files: Files,
    *,
    output_format: FormatOption = None,
    out: OutOption = None,
    columns: ColumnsOption = None,
    time: TimeOption = TimeMode.relative,
    payload: PayloadsOption = None,
    show_secrets: SecretsOption = False,
    no_color: NoColorOption = False,
    display_filter: MessageFilterOption = None,
    limit: LimitOption = None,
    quiet: QuietOption = False,
    fail_on: FailOnOption = FailOn.never,
    jobs: JobsOption = 1,
    reading: Reading,
) -> None:
    """Show the messages of the applications.

    Batches are opened, chunks are joined, produced messages have the ids of their receipts.
    """
    from pulsarscope.cli.run_command import Request, work  # noqa: PLC0415 - as above

    raise typer.Exit(
        work(
            Request(
                files=tuple(files),
                records="message",
                format=output_format and output_format.value,
                out=out,
                columns=columns,
                time=time.value,
                payload=payload and payload.value,
                show_secrets=show_secrets,
                no_color=no_color,
                filter=display_filter,
                limit=limit,
                quiet=quiet,
                fail_on=fail_on.value,
                reading=reading,
                jobs=jobs,
            )
        )
    )


@app.command()
@reads_captures
def extract(
    files: Files,
    *,
    display_filter: FilterOption = None,
    out: OutOption = None,
    records: Annotated[
        str | None,
        typer.Option("--records", metavar="KIND,...", help="What to look for: frame with -Y, else connection.", show_default=False),
    ] = None,
    context: Annotated[bool, typer.Option("--context", help="With the packets that open and close the connections.")] = False,
    limit: LimitOption = None,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="No progress, warnings or closing words.")] = False,
    fail_on: FailOnOption = FailOn.never,
    reading: Reading,
) -> None:
    """Copy the packets of what matches into a pcapng file.

    All packets that carried bytes of the matching frames, with their names in packet comments; without a filter all that was recognised.
    """
    from pulsarscope.cli.extract import extract as carry_out  # noqa: PLC0415 - as above
    from pulsarscope.cli.run_command import Request  # noqa: PLC0415 - as above

    raise typer.Exit(
        carry_out(
            Request(
                files=tuple(files),
                records=records or ("connection" if display_filter is None else "frame"),
                out=out,
                filter=display_filter,
                limit=limit,
                quiet=quiet,
                fail_on=fail_on.value,
                reading=reading,
            ),
            context=context,
        )
    )


@app.command()
@reads_captures
def follow(
    files: Files,
    *,
    connection: Annotated[str | None, typer.Option("--connection", metavar="NAME", help="By its first packet: 17, or FILE:PACKET.")] = None,
    producer: Annotated[str | None, typer.Option("--producer", metavar="NAME", help="By its name; its deliveries, too.")] = None,
    consumer: Annotated[str | None, typer.Option("--consumer", metavar="ID", help="By its number or its subscription.")] = None,
    topic: Annotated[str | None, typer.Option("--topic", metavar="T", help="With or without persistent://tenant/namespace/.")] = None,
    message: Annotated[str | None, typer.Option("--message", metavar="LEDGER:ENTRY[:BATCH]", help="By its id.")] = None,
    txn: Annotated[str | None, typer.Option("--txn", metavar="MOST:LEAST", help="By the two numbers of its id.")] = None,
    display_filter: FilterOption = None,
    output_format: FormatOption = None,
    out: OutOption = None,
    time: TimeOption = TimeMode.relative,
    show_secrets: SecretsOption = False,
    no_color: NoColorOption = False,
    limit: LimitOption = None,
    quiet: QuietOption = False,
    reading: Reading,
) -> None:
    """Follow a connection, producer, consumer, topic, message or txn.

    As a lane diagram between clients and broker, across connections; relative times count from its first frame.
    """
    from pulsarscope.cli.run_command import Request, one_story, work  # noqa: PLC0415 - as above

    story = one_story(connection=connection, producer=producer, consumer=consumer, topic=topic, message=message, txn=txn)
    raise typer.Exit(
        work(
            Request(
                files=tuple(files),
                story=story,
                filter=display_filter,
                format=output_format and output_format.value,
                out=out,
                time=time.value,
                show_secrets=show_secrets,
                no_color=no_color,
                limit=limit,
                quiet=quiet,
                reading=reading,
            )
        )
    )


@app.command()
def registry(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="PATH<tab>VALUE lines, a session of zkCli, JSON, or a snapshot of the server; plain, .gz or .zst; - for standard input.",
            show_default=False,
        ),
    ],
    *,
    by: Annotated[
        str | None,
        typer.Option("--by", metavar="SECTION,...", help="Of brokers, topics, consumers, partitions, other, notes; all by default."),
    ] = None,
    output_format: StatisticsFormat = None,
    out: OutOption = None,
    no_color: NoColorOption = False,
    limit: LinesOption = None,
    quiet: QuietReportOption = False,
) -> None:
    """Read what Kafka 0.7 keeps in ZooKeeper, from a dump of it.

    Brokers, topics, consumer groups, and which thread reads which partition from which byte.
    """
    from pulsarscope.cli.registry import registry as read  # noqa: PLC0415 - as above
    from pulsarscope.cli.run_command import Request  # noqa: PLC0415 - as above

    request = Request(files=(file,), format=output_format and output_format.value, out=out, no_color=no_color, limit=limit, quiet=quiet)
    raise typer.Exit(read(request, by))


@app.command()
@reads_captures
def live(
    *,
    interface: Annotated[
        str, typer.Option("-i", "--interface", metavar="NAME", help="Where: an interface, any, - for standard input, or a pipe.")
    ] = "any",
    list_interfaces: Annotated[bool, typer.Option("--list", help="Name the interfaces and exit.")] = False,
    capture_filter: Annotated[
        str | None, typer.Option("-f", "--capture-filter", metavar="BPF", help="Which packets, as tcpdump takes it.")
    ] = None,
    any_port: Annotated[bool, typer.Option("--any-port", help="All TCP, not only the ports of Pulsar.")] = False,
    buffer: Annotated[str | None, typer.Option("--buffer", metavar="SIZE", help="What the kernel may hold; 64MiB by default.")] = None,
    write: Annotated[str | None, typer.Option("-w", "--write", metavar="FILE", help="Keep the packets, as pcapng.")] = None,
    rotate: Annotated[
        list[str] | None, typer.Option("--rotate", metavar="SIZE|TIME", help="Begin a new file after so much; may be given for each.")
    ] = None,
    keep: Annotated[int | None, typer.Option("--keep", min=1, metavar="N", help="Remove the oldest of more than N files.")] = None,
    duration: Annotated[str | None, typer.Option("--for", metavar="TIME", help="Stop after a time, as in 30s.")] = None,
    packets: Annotated[int | None, typer.Option("--packets", min=1, metavar="N", help="Stop after N packets.")] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="FINDING", help="Stop at the first finding of this code.")] = None,
    trigger: Annotated[
        str | None, typer.Option("--trigger", metavar="FINDING", help="Keep only what happened around each finding of this code.")
    ] = None,
    around: Annotated[str, typer.Option("--around", metavar="TIME", help="How much before and after it.")] = "10s",
    top: Annotated[
        bool, typer.Option("--top", help="A screen of topics, producers, subscriptions, rates, latencies and findings.")
    ] = False,
    metrics: Annotated[
        str | None, typer.Option("--metrics", metavar="HOST:PORT", help="Serve counts and latencies to Prometheus, as at 127.0.0.1:9464.")
    ] = None,
    detail: Annotated[bool, typer.Option("-V", help="Show every field of each frame, as a tree.")] = False,
    hex_view: Annotated[bool, typer.Option("-x", help="Show the bytes of each frame and what they are.")] = False,
    output_format: Annotated[Format | None, typer.Option("--format", help="Records for programs instead of text.")] = None,
    out: OutOption = None,
    records: RecordsOption = "frame",
    columns: ColumnsOption = None,
    time: TimeOption = TimeMode.relative,
    payload: PayloadOption = None,
    show_secrets: SecretsOption = False,
    no_color: NoColorOption = False,
    display_filter: FilterOption = None,
    limit: LimitOption = None,
    quiet: QuietOption = False,
    fail_on: FailOnOption = FailOn.never,
    reading: Reading,
) -> None:
    """Show what is said while it happens.

    From an interface (Linux; needs CAP_NET_RAW) or a pipe, until Ctrl-C; nothing is sent and nothing waits for us.
    """
    from pulsarscope.cli.live import Sniffing, show_interfaces, sniff  # noqa: PLC0415 - as above
    from pulsarscope.cli.run_command import Request  # noqa: PLC0415 - as above

    if list_interfaces:
        show_interfaces()
        return
    sniffing = Sniffing(
        interface=interface,
        capture_filter=capture_filter,
        any_port=any_port,
        buffer=buffer,
        write=write,
        rotate=tuple(rotate or ()),
        keep=keep,
        duration=duration,
        packets=packets,
        until=until,
        trigger=trigger,
        around=around,
        top=top,
        metrics=metrics,
    )
    request = Request(
        files=(),
        records=records,
        format=output_format and output_format.value,
        detail=detail,
        hex=hex_view,
        out=out,
        columns=columns,
        time=time.value,
        payload=payload and payload.value,
        show_secrets=show_secrets,
        no_color=no_color,
        filter=display_filter,
        limit=limit,
        quiet=quiet,
        fail_on=fail_on.value,
        reading=reading,
    )
    raise typer.Exit(sniff(request, sniffing))


@app.command()
@gathers("cluster", Cluster)
@gathers("watching", Watching)
@reads_captures
def pipeline(
    files: OptionalFiles = None,
    *,
    out: TablesOption = None,
    records: RecordsOption = "all",
    table_format: TableFormatOption = TableFormat.parquet,
    payload: PayloadOption = None,
    show_secrets: SecretsOption = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="No progress and no summary.")] = False,
    fail_on: FailOnOption = FailOn.never,
    reading: Reading,
    watching: Watching,
    cluster: Cluster,
) -> None:
    """Decode very many captures into tables with Spark.

    On a cluster or on this machine; the rows are those of decode.
    """
    from pulsarscope.cli.pipeline import run_pipeline  # noqa: PLC0415 - as above
    from pulsarscope.cli.run_command import Request  # noqa: PLC0415 - as above

    request = Request(
        files=tuple(files or ()),
        records=records,
        format=table_format.value,
        out=out,
        payload=payload and payload.value,
        show_secrets=show_secrets,
        quiet=quiet,
        fail_on=fail_on.value,
        reading=reading,
    )
    raise typer.Exit(run_pipeline(request, cluster, watching))


@app.command()
def fields(
    prefix: Annotated[str | None, typer.Argument(metavar="PREFIX", help="Only names that begin so.", show_default=False)] = None,
    *,
    output_format: Annotated[ListFormat | None, typer.Option("--format", "-f", help="The list for programs.")] = None,
    out: OutOption = None,
) -> None:
    """List the fields that a filter (-Y) can name.

    With their types, their meaning and an example of each.
    """
    from pulsarscope.cli.fields import show_fields  # noqa: PLC0415 - as above

    show_fields(prefix, output_format and output_format.value, out)


def _tell(message: Warning | str, *_: object) -> None:
    """A warning as one line: of plug-ins that do not work, mostly."""
    from pulsarscope.cli.run_command import complain  # noqa: PLC0415 - as above

    complain(str(message))


def main() -> None:
    """Run the command line and exit: 0 done, 1 --fail-on, 2 usage, 3 no capture, 4 damaged input, 5 output not complete."""
    # Rows are trees, which reference counts free; the collector's default of a look every 700 objects costs a tenth of a run.
    gc.set_threshold(COLLECT_EVERY_OBJECTS, 20, 20)
    warnings.showwarning = _tell  # type: ignore[assignment]
    standard_output = sys.stdout
    try:
        app(prog_name="pulsarscope")
    except SystemExit:
        if sys.stdout is standard_output:
            raise
        sys.exit()  # typer has put another in its place, for whoever read the help has gone; its exit code is that of a finding
    except PulsarscopeError as error:
        _give_up(error)
    except OSError as error:  # the help: all else is written by a sink, which tells by itself
        sys.stdout = None  # nor let the interpreter try again
        _give_up(OutputError(f"cannot write standard output: {error.strerror}"))


def _give_up(error: PulsarscopeError) -> NoReturn:
    from pulsarscope.cli.run_command import complain  # noqa: PLC0415 - as above

    complain(*error.lines)
    sys.exit(error.exit_code)
