"""Every output by name, and what all of them share. The modules behind the names are imported on use only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from pulsarscope.model.errors import UsageError
from pulsarscope.model.records import ROWS, columns

if TYPE_CHECKING:
    from pulsarscope.output.export.sink import Sink


class Output(Protocol):
    """Takes the rows of a run, block by block. The rows are handed over: an output may change them."""

    def write(self, rows: list[Any]) -> None:
        """Put out some rows (`records.Row`; after a frame row its `records.RawFrame` where a hex view asked for it)."""

    def close(self) -> None:
        """Put out what is left. The sink is finished by its owner."""


class Encoder(Protocol):
    """The part of an output that needs nothing but the rows: another process may do it."""

    def encode(self, rows: list[Any]) -> Any:
        """What `EncodedOutput.put` takes. The rows are handed over."""


class LineEncoder(Encoder, Protocol):
    """An encoder that makes one line of each row, so that those of several processes can be merged."""

    def lines(self, rows: list[Any]) -> list[bytes]:
        """Return the line of each row, with its end. The rows are handed over."""


class EncodedOutput(Output, Protocol):
    """An output whose rows may be encoded elsewhere."""

    def put(self, encoded: Any) -> None:
        """Put out what an encoder made of some rows."""


class RunView(Protocol):
    """What an output may ask of the run whose rows it gets."""

    @property
    def endpoints(self) -> Mapping[str, tuple[str, str]]:
        """Client and server of the connections that have not ended, by name."""

    @property
    def packets(self) -> int:
        """Packets read so far."""

    @property
    def connections(self) -> int:
        """TCP connections met so far, of any protocol."""

    @property
    def judged(self) -> bool:
        """Whether the rules judge what is said: only then findings are all there are."""

    @property
    def complete(self) -> bool:
        """Whether all has been read: not when the output stops early."""

    @property
    def severities(self) -> Mapping[str, int]:
        """Findings so far, by severity."""

    @property
    def dissectors(self) -> Mapping[str, Any]:
        """The dissectors, by name."""

    @property
    def dissector_of(self) -> Mapping[str, str]:
        """Dissector of each connection, both by name."""


class RowSelection(Protocol):
    """The filter of the rows, as an output sees it."""

    @property
    def description(self) -> str:
        """The end of a sentence about the rows that pass, as in: match the filter."""

    @property
    def start(self) -> int | None:
        """Time from which relative times count, nanoseconds since the epoch; None until it is known."""

    @property
    def seen(self) -> Mapping[str, int]:
        """Rows before the filter so far, by kind."""

    @property
    def kept(self) -> Mapping[str, int]:
        """Rows that passed so far, by kind."""


class OutputOptions(msgspec.Struct, frozen=True):
    """How to put rows out. `width` in terminal cells, None when lines are never clipped."""

    kinds: tuple[str, ...]
    run: RunView
    columns: tuple[str, ...] | None = None
    paths: Sequence[str] = ()
    time: str = "relative"
    color: bool = False
    width: int | None = None
    encoding: str = "utf-8"
    quiet: bool = False
    payload: str | None = None
    selection: RowSelection | None = None
    """The filter that selected the rows."""


Factory = Callable[["Sink", OutputOptions], Output]

OUTPUTS = {
    "timeline": "pulsarscope.output.render.timeline:Timeline",
    "lanes": "pulsarscope.output.render.lanes:Lanes",
    "tree": "pulsarscope.output.render.tree:Tree",
    "hex": "pulsarscope.output.render.hex:Hex",
    "messages": "pulsarscope.output.render.messages:Messages",
    "table": "pulsarscope.output.render.table:Table",
    "json": "pulsarscope.output.export.json:Json",
    "ndjson": "pulsarscope.output.export.ndjson:Ndjson",
    "csv": "pulsarscope.output.export.csv:Csv",
    "parquet": "pulsarscope.output.export.parquet:Parquet",
}
"""Name of an output -> "module:class"."""

ENCODERS = {
    "json": "pulsarscope.output.export.ndjson:JsonLines",
    "ndjson": "pulsarscope.output.export.ndjson:JsonLines",
    "csv": "pulsarscope.output.export.csv:CsvLines",
    "parquet": "pulsarscope.output.export.parquet:BatchesByKind",
}
"""Name of an encoded output -> "module:class" of its encoder."""

CHECKSUM_COLUMNS = ("checksum_status", "checksum_stored", "checksum_computed")
"""What the column `checksum` becomes where a cell holds one value."""


def output(name: str) -> Factory:
    """The factory of an output.

    Raises:
        KeyError: no such output.
    """
    factory: Factory = _load(OUTPUTS[name])
    return factory


def encoder(name: str, kinds: Sequence[str], names: Sequence[str] | None) -> Encoder:
    """The encoder of an output, for rows of these kinds, with the columns named or all.

    Raises:
        KeyError: the output has none.
        UsageError: as `choose_columns`.
    """
    made: Encoder = _load(ENCODERS[name])(kinds, names)
    return made


def _load(place: str) -> Any:
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)


def choose_columns(names: Sequence[str] | None, kinds: Sequence[str], *, flat: bool = False) -> dict[str, tuple[str, ...]]:
    """The names of the columns to put out, by kind and in the order asked for; without `names` all columns.

    `flat` is for outputs whose `checksum` is three columns.

    Raises:
        UsageError: a name is a column of none of the kinds, or a kind has none of them.
    """
    table = {kind: column_names(kind, flat=flat) for kind in kinds}
    if names is None:
        return table
    if flat:
        names = [part for name in names for part in (CHECKSUM_COLUMNS if name == "checksum" else (name,))]
    known = {name for row in table.values() for name in row}
    for name in names:
        if name not in known:
            raise UsageError(_no_column(name, known, kinds))
    chosen = {kind: tuple(dict.fromkeys(name for name in names if name in row)) for kind, row in table.items()}
    for kind, row in chosen.items():
        if not row:
            message = f"--columns names no column of {kind} records: name one, or leave {kind} out of --records"
            raise UsageError(message)
    return chosen


def column_names(kind: str, *, flat: bool = False) -> tuple[str, ...]:
    """The column names of a kind, in order."""
    names: list[str] = []
    for column in columns(kind):
        if flat and column.type == "checksum":
            names += CHECKSUM_COLUMNS
        else:
            names.append(column.name)
    return tuple(names)


def _no_column(name: str, known: set[str], kinds: Sequence[str]) -> str:
    top, dot, _ = name.partition(".")
    if dot and top in known:
        return f'--columns takes whole columns: "{top}" instead of "{name}"'
    from difflib import get_close_matches  # noqa: PLC0415 - only a mistake needs it

    near = get_close_matches(name, sorted(known), 3, 0.6)
    elsewhere = [kind for kind in ROWS if kind not in kinds and name in column_names(kind)]
    hint = ""
    if elsewhere:
        hint = f"; {' and '.join(elsewhere)} records have it: --records {elsewhere[0]}"
    elif near:
        hint = f"; did you mean {' or '.join(near)}?"
    else:
        hint = f": there are {', '.join(dict.fromkeys(column for kind in kinds for column in column_names(kind)))}"
    return f'no column "{name}" in {" or ".join(kinds)} records{hint}'
