"""The options of the commands: their types, the declarations that several commands share, and requests made of them.

A command is a function of one request. The class of the request declares the options; `typer_command` shows them to typer.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from inspect import Parameter, Signature, get_annotations
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

import msgspec
import typer

from pulsarscope.inputs.config_paths import existing_paths
from pulsarscope.model.limits import JOBS_MAX

RowFormat = Literal["json", "ndjson", "csv", "parquet"]
DecodeFormat = Literal["json", "ndjson", "csv", "parquet", "otlp", "perfetto"]
ListFormat = Literal["json", "ndjson", "csv"]
ReportFormat = Literal["json", "ndjson"]
TimeMode = Literal["relative", "delta", "utc", "local", "epoch"]
Severity = Literal["error", "warning", "note", "never"]
PayloadForm = Literal["base64", "hex", "text"]

NEVER: Severity = "never"


def filter_option(example: str) -> Any:
    """Declare -Y, with an example that suits the records of the command."""
    return typer.Option("-Y", "--filter", metavar="FILTER", help=f"Only records that match, as in '{example}'; see help filter.")


CAPTURES = typer.Argument(
    metavar="FILE...",
    help="Captures: pcap or pcapng, plain or compressed; folders, patterns, or - for standard input.",
    show_default=False,
)
Files = Annotated[list[str], CAPTURES]
RowFormatOption = Annotated[RowFormat | None, typer.Option("--format", "-f", help="Write records for programs instead of text.")]
DecodeFormatOption = Annotated[
    DecodeFormat | None,
    typer.Option("--format", "-f", help="Write records for programs instead of text; otlp and perfetto write journeys as traces."),
]
ListFormatOption = Annotated[ListFormat | None, typer.Option("--format", "-f", help="Write records for programs instead of text.")]
ReportFormatOption = Annotated[ReportFormat | None, typer.Option("--format", "-f", help="Write the report for programs instead of text.")]
OutOption = Annotated[str | None, typer.Option("-o", "--output", metavar="OUT", help="Write to OUT instead of standard output.")]
ColumnsOption = Annotated[str | None, typer.Option("--columns", metavar="A,B", help="Only these columns, in this order.")]
TimeOption = Annotated[TimeMode, typer.Option("--time", help="How text shows times.")]
PayloadOption = Annotated[PayloadForm | None, typer.Option("--payload", help="Include the payload of messages; with -x hex, all bytes.")]
SecretsOption = Annotated[bool, typer.Option("--show-secrets", help="Do not redact tokens and passwords.")]
NoColorOption = Annotated[bool, typer.Option("--no-color", help="Disable colours; NO_COLOR and FORCE_COLOR work as well.")]
FilterOption = Annotated[str | None, filter_option("latency > 50ms")]
LimitOption = Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="Stop after N records.")]
TailOption = Annotated[int | None, typer.Option("--tail", min=1, metavar="N", help="Only the last N records.")]
FollowFileOption = Annotated[
    bool, typer.Option("--follow-file", help="Keep reading as the capture grows, until Ctrl-C; a new file of the same name is read next.")
]
FollowReportOption = Annotated[
    bool,
    typer.Option(
        "--follow-file", help="Keep reading as the capture grows, and report at Ctrl-C; a new file of the same name is read next."
    ),
]
RawStreamsOption = Annotated[
    bool,
    typer.Option(
        "--raw",
        help="Read the bytes of one connection without packets: a file with those of the client, then one with those of the server.",
    ),
]
HexDumpOption = Annotated[
    bool, typer.Option("--hexdump", help="Read hex dumps of one connection, as from Wireshark, xxd, hexdump -C or Netty's logs.")
]
LinesOption = Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="Show at most N rows of each list; 10 by default.")]
QuietOption = Annotated[bool, typer.Option("-q", "--quiet", help="Omit headings, progress and warnings.")]
VerdictOption = Annotated[bool, typer.Option("-q", "--quiet", help="Show only the verdict.")]
FailOnOption = Annotated[Severity, typer.Option("--fail-on", help="Exit with code 1 if there is a finding of this severity or worse.")]
JobsOption = Annotated[int, typer.Option("-j", "--jobs", min=0, max=JOBS_MAX, metavar="N", help="Decode in N processes; 0: one per core.")]
RedactOption = Annotated[
    bool,
    typer.Option("--redact", help="Blank credentials, payloads, properties and keys; mask addresses and names, differently in each copy."),
]
RedactRowsOption = Annotated[
    bool,
    typer.Option("--redact", help="Show what a copy made by extract --redact would: blank credentials and payloads, masked names."),
]
RedactKeyOption = Annotated[
    str | None,
    typer.Option("--redact-key", metavar="FILE", help="Like --redact, with the same masks in all copies with this key file."),
]
RecordsOption = Annotated[
    str,
    typer.Option(
        "--records",
        metavar="KIND,...",
        help="Record kinds: frame, message, exchange, connection, finding, or all of these; journey.",
    ),
]
DetailOption = Annotated[bool, typer.Option("-V", help="Show every field of each frame, as a tree.")]
HexOption = Annotated[bool, typer.Option("-x", help="Show the bytes of each frame, annotated.")]


def _configure(context: typer.Context, profile: str | None) -> str | None:
    """Take defaults from configuration files, where there are any, before the options are read."""
    if profile is not None or existing_paths(os.environ):
        from pulsarscope.cli.configured_options import set_defaults  # most runs have no configuration

        set_defaults(context, profile)
    return profile


ProfileOption = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="NAME",
        envvar="PULSARSCOPE_PROFILE",
        is_eager=True,
        callback=_configure,
        help="Take defaults from this profile of the configuration (see pulsarscope help configuration).",
    ),
]
PortOption = Annotated[
    list[int] | None,
    typer.Option("--port", min=1, max=65_535, metavar="N", help="Treat server port N as Pulsar without recognition; repeatable."),
]
DecodeAsOption = Annotated[
    list[str] | None,
    typer.Option("-d", "--decode-as", metavar="PORT=DISSECTOR", help="Decode a port as a protocol, as in 9093=kafka07; repeatable."),
]
KeyLogOption = Annotated[
    list[str] | None,
    typer.Option("--tls-keylog", metavar="LOG", help="Decrypt TLS with the secrets of this key log (SSLKEYLOGFILE); repeatable."),
]
PrivateKeyOption = Annotated[
    list[str] | None,
    typer.Option("--private-key", metavar="FILE", help="Decrypt messages encrypted for this RSA key (PEM, DER); repeatable."),
]
LedgerPasswordOption = Annotated[
    list[str] | None,
    typer.Option(
        "--ledger-password",
        metavar="FILE",
        help="Verify HMAC digests of BookKeeper with the password in this file; the empty one is always tried; repeatable.",
    ),
]
SchemaOption = Annotated[
    list[str] | None,
    typer.Option(
        "--schema",
        metavar="TOPIC=FILE",
        help="Decode the payloads of a topic by this schema (see pulsarscope help schemas); repeatable.",
    ),
]
NamesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--names", metavar="FILE", help="Name topics by their ledgers, as pulsar-admin topics stats-internal prints them; repeatable."
    ),
]
ThresholdOption = Annotated[
    list[str] | None,
    typer.Option("--threshold", metavar="NAME=VALUE", help="Set a limit that decides a finding (see findings CODE); repeatable."),
]
SourceOption = Annotated[
    str,
    typer.Option(
        "--source-by",
        metavar="none|dir|interface|REGEX",
        help="Separate vantage points: by folder, by interface, or by what a REGEX matches in the path of a capture.",
    ),
]


class ReadOptions(msgspec.Struct, frozen=True):
    """The options of every command that reads captures."""

    port: PortOption = None
    decode_as: DecodeAsOption = None
    tls_keylog: KeyLogOption = None
    private_key: PrivateKeyOption = None
    ledger_password: LedgerPasswordOption = None
    schema: SchemaOption = None
    names: NamesOption = None
    threshold: ThresholdOption = None
    source_by: SourceOption = "none"


class CommandRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A command line. Each command has a subclass that declares again, as options, the fields that users of the command may set."""

    files: Sequence[str] = ()
    records: str = "frame"
    format: str | None = None
    detail: bool = False
    hex: bool = False
    out: str | None = None
    columns: str | None = None
    time: str = "relative"
    payload: str | None = None
    show_secrets: bool = False
    no_color: bool = False
    filter: str | None = None
    limit: int | None = None
    quiet: bool = False
    fail_on: str = NEVER
    reading: ReadOptions = ReadOptions()
    jobs: int = 1
    subject: tuple[str, str] | None = None
    """Kind and name of the thing to follow."""
    redact: bool = False
    """Read redacted copies in place of the files."""
    redacted: bool = False
    """The files are such copies."""
    mask_key: str | None = None
    """File with the key of masks, or pseudonyms."""
    baseline: str | None = None
    """File with findings that are accepted."""
    tail: int | None = None
    """Number of the last rows to write."""
    export: str | None = None
    """Folder for the payloads of messages."""
    follow_file: bool = False
    """Go on when the capture grows."""
    raw_streams: bool = False
    """The files are streams: the client's, the server's."""
    hexdump: bool = False
    """The files are hex dumps."""
    once: bool = False
    """Leave out messages that come a second time, over another leg of their path."""


class RowsRequest(CommandRequest, frozen=True, kw_only=True):
    """Options of the commands that write rows of a run."""

    format: RowFormatOption = None
    out: OutOption = None
    columns: ColumnsOption = None
    time: TimeOption = "relative"
    payload: PayloadOption = None
    show_secrets: SecretsOption = False
    no_color: NoColorOption = False
    filter: FilterOption = None
    limit: LimitOption = None
    quiet: QuietOption = False
    fail_on: FailOnOption = NEVER
    reading: ReadOptions = ReadOptions()


class ReportRequest(CommandRequest, frozen=True, kw_only=True):
    """Options of the commands that report on complete captures."""

    out: OutOption = None
    no_color: NoColorOption = False
    filter: FilterOption = None
    limit: LinesOption = None
    jobs: JobsOption = 1
    reading: ReadOptions = ReadOptions()


AnyRequest = TypeVar("AnyRequest", bound=CommandRequest)


def typer_command(function: Callable[[AnyRequest], int]) -> Callable[..., None]:
    """Return `function` as typer needs it: a parameter for each option of its request, and an exit with the code that it returns."""
    request_class = get_type_hints(function)["request"]

    @wraps(function)
    def run(invocation: typer.Context, **values: Any) -> None:
        if not invocation.default_map:
            raise typer.Exit(answer(values))
        from pulsarscope.cli.configured_options import giving_way, with_origins  # most runs have no configuration

        with with_origins(invocation):
            raise typer.Exit(answer(giving_way(values, invocation)))

    def answer(values: dict[str, Any]) -> int:
        request: AnyRequest = _struct_of(request_class, values)
        if request.quiet:
            warnings.simplefilter("ignore")
        return function(request)

    own = {parameter.name: parameter for parameter in _parameters(request_class)}
    own.setdefault("profile", Parameter("profile", Parameter.KEYWORD_ONLY, default=None, annotation=ProfileOption))
    parameters = [Parameter("invocation", Parameter.KEYWORD_ONLY, annotation=typer.Context), *own.values()]
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _parameters(options: type[msgspec.Struct]) -> Iterator[Parameter]:
    """Yield a keyword parameter for each option that a class declares, and for those of the groups of options in it."""
    fields = {field.name: field for field in msgspec.structs.fields(options)}
    for name, hint in _hints(options).items():
        if _is_option(hint):
            yield Parameter(name, Parameter.KEYWORD_ONLY, default=_default(fields[name]), annotation=hint)
        elif _is_group(hint):
            yield from _parameters(hint)


def _struct_of(options: type[Any], values: Mapping[str, Any]) -> Any:
    """Return the options of a class and of its groups, with the values of its parameters."""
    hints = _hints(options)
    own = {name: values[name] for name, hint in hints.items() if _is_option(hint)}
    return options(**own, **{name: _struct_of(hint, values) for name, hint in hints.items() if _is_group(hint)})


def _hints(options: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the annotations of a class, and after them those of its bases below `CommandRequest`."""
    hints: dict[str, Any] = {}
    for declaring in options.__mro__:
        if declaring in (CommandRequest, msgspec.Struct):
            break
        hints |= {name: hint for name, hint in get_annotations(declaring, eval_str=True).items() if name not in hints}
    return hints


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.required:
        return Parameter.empty
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def _is_option(hint: Any) -> bool:
    return hasattr(hint, "__metadata__")  # Annotated


def _is_group(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, msgspec.Struct)
