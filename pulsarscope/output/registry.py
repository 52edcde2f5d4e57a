"""The outputs by name, and the protocols that they share. Their modules are imported on use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from pulsarscope.model.errors import UsageError
from pulsarscope.model.on_use import load
from pulsarscope.model.records import ROWS, columns
from pulsarscope.model.text import both, either

if TYPE_CHECKING:
    from pulsarscope.output.export.sink import Sink


class Output(Protocol):
    """An output for the rows of a run. It owns the rows passed to it, and may change them."""

    def write(self, rows: list[Any]) -> None:
        """Write rows (`records.Row`; for a hex view with a `records.RawFrame` after each frame row)."""

    def close(self) -> None:
        """Write what is pending. The sink is finished by its owner."""


class RowEncoder(Protocol):
    """The part of an output that needs only the rows and may run in another process."""

    def encode(self, rows: list[Any]) -> Any:
        """Return the rows in the form for `EncodedOutput.put`. The encoder owns the rows, and may change them."""


class LineEncoder(RowEncoder, Protocol):
    """An encoder that makes one line for each row, so that the lines of several processes can be merged."""

    def lines(self, rows: list[Any]) -> list[bytes] | bytes:
        """Return the line of each row with its end, or all lines in one if no row contains a line end. The encoder owns the rows."""


class ColumnEncoder(RowEncoder, Protocol):
    """An encoder that also takes frames in the columns of a compiled reader."""

    def ordered(self, ordered: Any, following: Sequence[Any], encode: Callable[[list[Any]], bytes]) -> Any:
        """Encode ordered rows (`model.ordered_rows`) and the rows after them, as `encode` of `RowEncoder` does.

        `encode` encodes the Python rows.
        """


class EncodedOutput(Output, Protocol):
    """An output whose rows may be encoded in another process."""

    def put(self, encoded: Any) -> None:
        """Write rows that an encoder has encoded."""


class RunView(Protocol):
    """The run whose rows an output gets, as the output sees it."""

    @property
    def endpoints(self) -> Mapping[str, tuple[str, str]]:
        """Client and server of the open connections, by name."""

    @property
    def start(self) -> int | None:
        """Time of the first packet, from which relative times count, in nanoseconds since the epoch; None until it is known."""

    @property
    def packets(self) -> int:
        """Number of packets read so far."""

    @property
    def connections(self) -> int:
        """Number of TCP connections so far, of any protocol."""

    @property
    def evaluates_rules(self) -> bool:
        """True when rules are evaluated; otherwise, findings are only about the form of frames."""

    @property
    def complete(self) -> bool:
        """True when all has been read, false when the output stops early."""

    @property
    def damaged(self) -> bool:
        """True when an input is damaged or is not a capture."""

    @property
    def severities(self) -> Mapping[str, int]:
        """Number of findings so far, by severity."""

    @property
    def dissectors(self) -> Mapping[str, Any]:
        """Dissectors by name."""

    @property
    def dissector_of(self) -> Mapping[str, str]:
        """Name of the dissector of each connection, by its name."""


class RowSelection(Protocol):
    """The filter of rows, as an output sees it."""

    @property
    def description(self) -> str:
        """The end of a sentence about the rows that pass, such as "match the filter"."""

    @property
    def seen(self) -> Mapping[str, int]:
        """Number of rows before the filter so far, by kind."""

    @property
    def kept(self) -> Mapping[str, int]:
        """Number of rows that passed so far, by kind."""


class RowFields(Protocol):
    """Fields of rows that are not columns, as an output sees them."""

    @property
    def names(self) -> Sequence[str]:
        """Names of the fields, in order."""

    @property
    def types(self) -> Mapping[str, str]:
        """Types of the fields, by name."""

    def learn(self, rows: Sequence[Any]) -> None:
        """Take the rows of connections among these, to which the values of findings may refer."""

    def values(self, row: Any, endpoints: Mapping[str, tuple[str, str]]) -> list[Any] | None:
        """Return the values of a row; None for a row of another kind."""

    def empty(self) -> list[str]:
        """Return a sentence for each computed field that had no value in any row."""


class OutputOptions(msgspec.Struct, frozen=True):
    """Options of an output. `width` is in terminal cells; None: lines are never clipped."""

    kinds: tuple[str, ...]
    run: RunView
    columns: tuple[str, ...] | None = None
    paths: Sequence[str] = ()
    time: str = "relative"
    color: bool = False
    width: int | None = None
    encoding: str = "utf-8"
    quiet: bool = False
    readable: bool = True
    """True when other commands can read the packets again."""
    payload: str | None = None
    selection: RowSelection | None = None
    """The filter that selected the rows."""
    subject: str | None = None
    """Kind of the single subject of the rows, as `follow` names it."""
    fields: RowFields | None = None
    """Fields instead of columns, and the format to write them in: csv, json, ndjson, None for text."""
    format: str | None = None


Factory = Callable[["Sink", OutputOptions], Output]

OUTPUTS = {
    "timeline": "pulsarscope.output.render.timeline:TimelineOutput",
    "lanes": "pulsarscope.output.render.lanes:LanesOutput",
    "fields": "pulsarscope.output.export.fields_output:FieldsOutput",
    "tree": "pulsarscope.output.render.tree:TreeOutput",
    "hex": "pulsarscope.output.render.hex:HexOutput",
    "messages": "pulsarscope.output.render.messages:MessagesOutput",
    "payload_files": "pulsarscope.output.export.payload_files:PayloadFiles",
    "table": "pulsarscope.output.render.table:TableOutput",
    "json": "pulsarscope.output.export.ndjson:JsonOutput",
    "ndjson": "pulsarscope.output.export.ndjson:NdjsonOutput",
    "csv": "pulsarscope.output.export.csv:CsvOutput",
    "parquet": "pulsarscope.output.export.parquet:ParquetOutput",
    "perfetto": "pulsarscope.output.export.perfetto:PerfettoOutput",
    "otlp": "pulsarscope.output.export.otlp:OtlpOutput",
}
"""Name of an output -> "module:class"."""

ENCODERS = {
    "json": "pulsarscope.output.export.ndjson:JsonLines",
    "ndjson": "pulsarscope.output.export.ndjson:JsonLines",
    "csv": "pulsarscope.output.export.csv:CsvLines",
    "parquet": "pulsarscope.output.export.parquet:RowsByKind",
}
"""Name of an encoded output -> "module:class" of its encoder."""

CHECKSUM_COLUMNS = ("checksum_status", "checksum_stored", "checksum_computed")
"""Columns for `checksum` in outputs whose cells hold one value."""


def output(name: str) -> Factory:
    """Return the factory of an output. Raises KeyError when the output is unknown."""
    factory: Factory = load(OUTPUTS[name])
    return factory


def encoder(name: str, kinds: Sequence[str], names: Sequence[str] | None) -> RowEncoder:
    """Return the encoder of an output for rows of these kinds and columns (None: all). Raises KeyError if it has none, or UsageError."""
    made: RowEncoder = load(ENCODERS[name])(kinds, names)
    return made


def choose_columns(names: Sequence[str] | None, kinds: Sequence[str], *, flat: bool = False) -> dict[str, tuple[str, ...]]:
    """Return the column names of an output by kind, in the order of `names`; in flat outputs `checksum` becomes three columns.

    Raises UsageError when no kind has a column of some name, or a kind has none of the columns.
    """
    table = {kind: column_names(kind, flat=flat) for kind in kinds}
    if names is None:
        return table
    if flat:
        names = [part for name in names for part in (CHECKSUM_COLUMNS if name == "checksum" else (name,))]
    known = {name for row in table.values() for name in row}
    for name in names:
        if name not in known:
            raise UsageError(_unknown_column(name, known, kinds))
    chosen = {kind: tuple(dict.fromkeys(name for name in names if name in row)) for kind, row in table.items()}
    for kind, row in chosen.items():
        if not row:
            raise UsageError(f"--columns names no column of {kind} records: name one, or leave {kind} out of --records")
    return chosen


def column_names(kind: str, *, flat: bool = False) -> tuple[str, ...]:
    """Return the column names of a kind, in order."""
    names: list[str] = []
    for column in columns(kind):
        if flat and column.type == "checksum":
            names += CHECKSUM_COLUMNS
        else:
            names.append(column.name)
    return tuple(names)


def _unknown_column(name: str, known: set[str], kinds: Sequence[str]) -> str:
    top, dot, _ = name.partition(".")
    if dot and top in known:
        return f'--columns takes complete columns: "{top}" instead of "{name}"'
    if name in {"record", "kind"}:
        return f'"{name}" is no column: every row of JSON begins with its kind, and other formats have a file for each kind'
    from difflib import get_close_matches  # noqa: PLC0415 - only a mistake needs it

    near = get_close_matches(name, sorted(known), 3, 0.6)
    elsewhere = [kind for kind in ROWS if kind not in kinds and name in column_names(kind)]
    hint = ""
    if elsewhere:
        hint = f"; {both(elsewhere)} records have it: --records {elsewhere[0]}"
    elif near:
        hint = f"; did you mean {either(near)}?"
    else:
        hint = f"; known: {', '.join(dict.fromkeys(column for kind in kinds for column in column_names(kind)))}"
    return f'unknown column "{name}" in {either(kinds)} records{hint}'
