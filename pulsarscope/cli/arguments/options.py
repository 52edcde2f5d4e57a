"""The options of commands: their types, declarations shared by several commands, and the requests made from them.

A command is a function of one request. The class of the request declares the options; `typer_commands` passes them to typer.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from pulsarscope.cli.arguments.declarations import Declaration, argument, option
from pulsarscope.cli.arguments.given_names import refuse_terminal, warn_of_suffix
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
    return option("-Y", "--filter", metavar="FILTER", help=f"Only records that match, as in '{example}'; see help filter.")


CAPTURES = argument(
    metavar="FILE...",
    help="Captures: pcap or pcapng, plain or compressed; folders, patterns, or - for standard input.",
    show_default=False,
)
Files = Annotated[list[str], CAPTURES]
RowFormatOption = Annotated[RowFormat | None, option("--format", "-f", help="Write records for programs instead of text.")]
DecodeFormatOption = Annotated[
    DecodeFormat | None,
    option("--format", "-f", help="Write records for programs instead of text; otlp and perfetto write journeys as traces."),
]
ListFormatOption = Annotated[ListFormat | None, option("--format", "-f", help="Write records for programs instead of text.")]
ReportFormatOption = Annotated[ReportFormat | None, option("--format", "-f", help="Write the report for programs instead of text.")]
OutOption = Annotated[str | None, option("-o", "--output", metavar="OUT", help="Write to OUT instead of standard output.")]
ColumnsOption = Annotated[str | None, option("--columns", metavar="A,B", help="Only these columns, in this order.")]
TimeOption = Annotated[TimeMode, option("--time", help="How text shows times.")]
PayloadOption = Annotated[PayloadForm | None, option("--payload", help="Include the payload of messages; with -x hex, all bytes.")]
SecretsOption = Annotated[bool, option("--show-secrets", help="Do not redact tokens and passwords.")]
NoColorOption = Annotated[bool, option("--no-color", help="Disable colours; NO_COLOR and FORCE_COLOR work as well.")]
FilterOption = Annotated[str | None, filter_option("latency > 50ms")]
LimitOption = Annotated[int | None, option("--limit", min=1, metavar="N", help="Stop after N records.")]
TailOption = Annotated[int | None, option("--tail", min=1, metavar="N", help="Only the last N records.")]
FollowFileOption = Annotated[
    bool, option("--follow-file", help="Keep reading as the capture grows, until Ctrl-C; a new file of the same name is read next.")
]
FollowReportOption = Annotated[
    bool,
    option("--follow-file", help="Keep reading as the capture grows, and report at Ctrl-C; a new file of the same name is read next."),
]
RawStreamsOption = Annotated[
    bool,
    option(
        "--raw",
        help="Read the bytes of one connection without packets: a file with those of the client, then one with those of the server.",
    ),
]
HexDumpOption = Annotated[
    bool, option("--hexdump", help="Read hex dumps of one connection, as from Wireshark, xxd, hexdump -C or Netty's logs.")
]
LinesOption = Annotated[int | None, option("--limit", min=1, metavar="N", help="Show at most N rows of each list; 10 by default.")]
QuietOption = Annotated[bool, option("-q", "--quiet", help="Omit headings, progress and warnings.")]
VerdictOption = Annotated[bool, option("-q", "--quiet", help="Show only the verdict.")]
FailOnOption = Annotated[Severity, option("--fail-on", help="Exit with code 1 if there is a finding of this severity or worse.")]
JobsOption = Annotated[int, option("-j", "--jobs", min=0, max=JOBS_MAX, metavar="N", help="Decode in N processes; 0: one per core.")]
RedactOption = Annotated[
    bool,
    option("--redact", help="Blank credentials, payloads, properties and keys; mask addresses and names, differently in each copy."),
]
RedactRowsOption = Annotated[
    bool,
    option("--redact", help="Show what a copy made by extract --redact would: blank credentials and payloads, masked names."),
]
RedactKeyOption = Annotated[
    str | None,
    option("--redact-key", metavar="FILE", help="Like --redact, with the same masks in all copies with this key file."),
]
_RECORDS = "Record kinds: frame, message, exchange, connection, finding, or all of these; journey."
RecordsOption = Annotated[str, option("--records", metavar="KIND,...", help=_RECORDS)]
DecodeRecordsOption = Annotated[str | None, option("--records", metavar="KIND,...", help=_RECORDS.replace("frame", "frame (by default)"))]
DetailOption = Annotated[bool, option("-V", help="Show every field of each frame, as a tree.")]
HexOption = Annotated[bool, option("-x", help="Show the bytes of each frame, annotated.")]


PortOption = Annotated[
    list[int] | None,
    option("--port", min=1, max=65_535, metavar="N", help="Treat server port N as Pulsar without recognition; repeatable."),
]
DecodeAsOption = Annotated[
    list[str] | None,
    option("-d", "--decode-as", metavar="PORT=DISSECTOR", help="Decode a port as a protocol, as in 9093=kafka07; repeatable."),
]
KeyLogOption = Annotated[
    list[str] | None,
    option("--tls-keylog", metavar="LOG", help="Decrypt TLS with the secrets of this key log (SSLKEYLOGFILE); repeatable."),
]
PrivateKeyOption = Annotated[
    list[str] | None,
    option("--private-key", metavar="FILE", help="Decrypt messages encrypted for this RSA key (PEM, DER); repeatable."),
]
LedgerPasswordOption = Annotated[
    list[str] | None,
    option(
        "--ledger-password",
        metavar="FILE",
        help="Verify HMAC digests of BookKeeper with the password in this file; the empty one is always tried; repeatable.",
    ),
]
SchemaOption = Annotated[
    list[str] | None,
    option(
        "--schema",
        metavar="TOPIC=FILE",
        help="Decode the payloads of a topic by this schema (see pulsarscope help schemas); repeatable.",
    ),
]
NamesOption = Annotated[
    list[str] | None,
    option("--names", metavar="FILE", help="Name topics by their ledgers, as pulsar-admin topics stats-internal prints them; repeatable."),
]
ThresholdOption = Annotated[
    list[str] | None,
    option("--threshold", metavar="NAME=VALUE", help="Set a limit that decides a finding (see findings CODE); repeatable."),
]
SourceOption = Annotated[
    str,
    option(
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
    """A command line. Each command has a subclass that redeclares, as options, the fields that users of the command may set."""

    files: Sequence[str] = ()
    records: str | None = None
    """Kinds of records; None: those that the command writes by default."""
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
    """Kind and name of the subject to follow."""
    redact: bool = False
    """Read redacted copies instead of the files."""
    redacted: bool = False
    """The files are redacted copies."""
    mask_key: str | None = None
    """File with the key of masks, or pseudonyms."""
    baseline: str | None = None
    """File with findings that are accepted."""
    tail: int | None = None
    """Number of rows to write, from the end."""
    export: str | None = None
    """Folder for the payloads of messages."""
    follow_file: bool = False
    """Continue when the capture grows."""
    raw_streams: bool = False
    """The files are raw streams: the client's, the server's."""
    hexdump: bool = False
    """The files are hex dumps."""
    once: bool = False
    """Leave out messages that occur a second time, on another leg of their path."""

    @property
    def writes_page(self) -> bool:
        """True when a page is written because the name of the output is that of one."""
        return False


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
    """Options of the commands that report on whole captures."""

    out: OutOption = None
    no_color: NoColorOption = False
    filter: FilterOption = None
    limit: LinesOption = None
    jobs: JobsOption = 1
    reading: ReadOptions = ReadOptions()


AnyRequest = TypeVar("AnyRequest", bound=CommandRequest)


def fields_of(options: type[msgspec.Struct]) -> Iterator[tuple[msgspec.structs.FieldInfo, Declaration | None]]:
    """Yield the fields of a class that are options, each with its declaration, and its groups of options, each with None."""
    for field in msgspec.structs.fields(options):
        if isinstance(declaration := next(iter(getattr(field.type, "__metadata__", ())), None), Declaration):
            yield field, declaration
        elif isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield field, None


def answer_of(function: Callable[[AnyRequest], int], request: AnyRequest) -> int:
    """Carry out a request with the function of its command, and return the exit code. Raises PulsarscopeError."""
    if request.quiet:
        warnings.simplefilter("ignore")
    refuse_terminal(request)
    warn_of_suffix(request)
    return function(request)
