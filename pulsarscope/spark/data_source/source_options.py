"""Options of the data source `pulsarscope`, from `spark.read.option` and OPTIONS of SQL."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pulsarscope.api.options import library_options
from pulsarscope.capture import Inputs, expand_inputs
from pulsarscope.engine.flows import check_options
from pulsarscope.engine.options import Options
from pulsarscope.filter import Catalogue, Filter
from pulsarscope.model.errors import UsageError
from pulsarscope.model.limits import ROWS_MAX
from pulsarscope.model.records import ROWS, FindingRow, JourneyRow, MessageRow, with_addresses
from pulsarscope.model.text import hint_for
from pulsarscope.model.utc import utc_nanoseconds
from pulsarscope.output.export.columns import cell_types
from pulsarscope.spark.files.capture_times import TimesFolder, Window
from pulsarscope.spark.files.remote_files import list_files, open_path

PACKET = "packet"
"""Value of `records` for undecoded packets, the default."""

ACROSS_CONNECTIONS = (FindingRow.kind, JourneyRow.kind)
"""Kinds of records that any connection may affect."""

NAMES = (
    "records",
    "path",
    "paths",
    "sourceBy",
    "since",
    "until",
    "timesLocation",
    "indexLocation",
    "columns",
    "partitions",
    "filter",
    "pushdown",
    "payload",
    "showSecrets",
    "ports",
    "decodeAs",
    "tlsKeylog",
    "privateKey",
    "ledgerPassword",
    "schemas",
    "names",
    "thresholds",
    "stateLocation",
    "maxFilesPerTrigger",
    "maxBytesPerTrigger",
    "settle",
    "finish",
)
"""Names of the options. Case, _ and - do not matter: tls_keylog is tlsKeylog."""

OF_STREAMS = ("stateLocation", "maxFilesPerTrigger", "maxBytesPerTrigger", "settle", "finish")
"""Options that apply to `readStream`."""

OF_WINDOWS = ("since", "until", "timesLocation")

OF_READS = (*OF_WINDOWS, "indexLocation")
"""Options that apply to `read`."""

OF_PACKETS = ("records", "path", "paths", "sourceBy", *OF_WINDOWS, *OF_STREAMS)
"""Options that apply to packets; the others are options of the decoder."""

_PROVIDER = "provider"
"""Option that Spark passes when a table is created, when the properties of the table are among the options."""

_OPTION_PREFIX = "option."
"""Prefix of the names of the options when a table is created."""

_SIZE = re.compile(r"(\d{1,15})(?:([kmgt])b?)?", re.ASCII)
"""Sizes in the form of Spark: units are powers of 1,024."""

_WORDS = {"true": True, "false": False}


class StreamOptions(msgspec.Struct, frozen=True):
    """Options of `readStream`."""

    state_location: str = ""
    """Folder or URI for the list of captures and for open connections."""
    files_max: int | None = None
    """Most captures in a batch."""
    bytes_max: int | None = None
    """Most bytes of captures in a batch; a larger capture is a batch of its own."""
    settle: float = 60.0
    """Seconds without a change after which a capture is complete."""
    finish: bool = False
    """Take the captures that are present, and close all connections."""


class SourceOptions(msgspec.Struct, frozen=True):
    """Options of a read."""

    paths: tuple[str, ...]
    source_by: str
    kind: str
    """Kind of records, or PACKET."""
    columns: tuple[str, ...] | None = None
    """Columns in the requested order; None for all."""
    partitions: int | None = None
    """Number of tasks for the captures of one vantage point; None: a number by their size."""
    filter_text: str | None = None
    pushdown: bool = True
    """Take filters from Spark."""
    engine: Options = Options()
    stream: StreamOptions = StreamOptions()
    window: Window = Window()
    times_location: str = ""
    """Folder or URI in which the times of captures are noted; empty for none."""
    index_location: str = ""
    """Folder with indexes of captures; empty for none."""

    def refuse_stream_options(self) -> None:
        """Raise UsageError when there are options that apply only to `readStream`."""
        if self.stream != StreamOptions():
            raise UsageError(f"{', '.join(OF_STREAMS)} go with spark.readStream")

    def refuse_read_options(self) -> None:
        """Raise UsageError when there are options that apply only to `read`."""
        if self.window or self.times_location or self.index_location:
            raise UsageError(f"{', '.join(OF_READS)} go with spark.read")

    def reads(self, inputs: Inputs) -> list[tuple[bool, int]] | None:
        """Return for each capture whether it is read, and its size in bytes; None if all are read, regardless of their times."""
        if not self.window:
            return None
        return TimesFolder(self.times_location).reads(inputs.paths, self.window)

    def expand(self) -> Inputs:
        """Return the captures. Raises CaptureError when no path leads to one, UsageError for pipes."""
        inputs = expand_inputs(self.paths, self.source_by, list_files, open_path)
        if inputs.sizes is None:
            raise UsageError("the data source reads files more than once, so it cannot read standard input, pipes or devices")
        return inputs

    def make_filter(self) -> Filter | None:
        """Return the display filter. Raises FilterError when it is not valid for the kind."""
        if self.filter_text is None:
            return None
        return Filter(self.filter_text, (self.kind,), Catalogue.of(self.engine.dissectors()), payload=self.engine.payload)

    def selected(self, display_filter: Filter | None, rows: Sequence[Any], endpoints: Mapping[str, tuple[str, str]]) -> Sequence[Any]:
        """Return the rows of the kind that pass the display filter; see `Filter.select`."""
        return rows if display_filter is None else [row for row in display_filter.select(rows, endpoints) if row.kind == self.kind]


def table_options(options: Mapping[str, str]) -> dict[str, str] | None:
    """Return the options of a table that is being created, without its properties; None when none is created."""
    if _PROVIDER not in options:
        return None
    own = {name.removeprefix(_OPTION_PREFIX): value for name, value in options.items() if name.startswith(_OPTION_PREFIX)}
    return own | ({"path": options["path"]} if "path" in options else {})


def source_options(options: Mapping[str, str]) -> SourceOptions:
    """Return the options of a read, with the contents of the files that they name.

    Raises UsageError for an option that is unknown, invalid, or without effect on the requested records, and if there is no path.
    """
    given = _by_name(options)
    paths = tuple(map(_local, [*_texts(given, "paths"), *([given["path"]] if "path" in given else [])]))
    if not paths:
        raise UsageError('no capture given: spark.read.format("pulsarscope").load("captures/"); a table must not declare columns')
    kind = given.get("records", PACKET)
    if kind not in (PACKET, *ROWS):
        raise UsageError(f"records={kind}: give one kind{hint_for(kind, (PACKET, *ROWS))}")
    source_by = given.get("sourceBy", "none")
    if kind == PACKET:
        if idle := [name for name in given if name not in OF_PACKETS]:
            raise UsageError(f"the option {idle[0]} goes with decoded records: give one of records={', '.join(ROWS)}")
        window, times_location = _window(given, kind)
        return SourceOptions(paths, source_by, kind, stream=_stream_options(given), window=window, times_location=times_location)
    made = SourceOptions(
        paths,
        source_by,
        kind,
        _columns(given, kind),
        _count(given, "partitions"),
        given.get("filter"),
        _truth(given, "pushdown", "true"),
        _engine_options(given, kind, source_by),
        _stream_options(given),
        *_window(given, kind),
        _local(given.get("indexLocation", "")),
    )
    made.make_filter()  # refuses an invalid filter
    return made


def known_columns(kind: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return names of columns of a kind. Raises UsageError for a name that is not a column of the kind."""
    known = tuple(cell_types(kind))
    for name in names:
        if name not in known:
            raise UsageError(f'{kind} records have no column "{name}"{hint_for(name, known)}')
    return names


def _by_name(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options under their names in `NAMES`."""
    names = {_plain(name): name for name in NAMES}
    for name in options:
        if _plain(name) not in names:
            raise UsageError(f'the format pulsarscope has no option "{name}"{hint_for(name, NAMES)}')
    return {names[_plain(name)]: value for name, value in options.items()}


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def _local(path: str) -> str:
    """Return the plain path of a local file URI: Spark gives the location of a table as file:/folder."""
    return path.removeprefix("file:") if path.startswith("file:/") and "://" not in path else path


def _columns(given: Mapping[str, str], kind: str) -> tuple[str, ...] | None:
    if "columns" not in given:
        return None
    names = tuple(dict.fromkeys(_texts(given, "columns", separator=",")))
    if not names:
        raise UsageError("the option columns is empty")
    return known_columns(kind, names)


def _engine_options(given: Mapping[str, str], kind: str, source_by: str) -> Options:
    made = library_options(
        _truth(given, "showSecrets", "false"),
        given.get("payload"),
        [_number("ports", text) for text in _texts(given, "ports", separator=",")],
        {_number("decodeAs", port): name for port, name in _pairs(given, "decodeAs").items()},
        _texts(given, "tlsKeylog"),
        _texts(given, "privateKey"),
        _texts(given, "ledgerPassword"),
        _pairs(given, "schemas"),
        _texts(given, "names"),
        {name: _amount(name, value) for name, value in _pairs(given, "thresholds").items()},
    )
    made = msgspec.structs.replace(
        made,
        records=with_addresses(frozenset({kind})) if "filter" in given else frozenset({kind}),
        rules=kind == FindingRow.kind,
        payloads=kind in (MessageRow.kind, FindingRow.kind),
        payload=made.payload if kind == MessageRow.kind else None,
        rows_max=ROWS_MAX,
        source_by=source_by,
    )
    check_options(made)
    return made


def _stream_options(given: Mapping[str, str]) -> StreamOptions:
    return StreamOptions(
        _local(given.get("stateLocation", "")),
        _count(given, "maxFilesPerTrigger"),
        _bytes(given, "maxBytesPerTrigger"),
        _seconds(given, "settle", StreamOptions().settle),
        _truth(given, "finish", "false"),
    )


def _window(given: Mapping[str, str], kind: str) -> tuple[Window, str]:
    window, place = Window(_time(given, "since"), _time(given, "until")), _local(given.get("timesLocation", ""))
    if window and kind in ACROSS_CONNECTIONS:
        raise UsageError(
            f"{kind} records look across all captures, which since and until leave out: filter their time, or name the captures to load"
        )
    if window and "indexLocation" in given:
        raise UsageError("since and until leave out captures, but an index has all: filter by time instead")
    if window and not place:
        raise UsageError("since and until need the option timesLocation, a folder for the times of captures")
    return window, place


def _time(given: Mapping[str, str], name: str) -> int | None:
    if (text := given.get(name)) is None:
        return None
    try:
        return utc_nanoseconds(text)
    except ValueError:
        raise UsageError(f"{name}={text}: write a time as 2026-05-01T10:00:00.123Z") from None


def _texts(given: Mapping[str, str], name: str, separator: str | None = None) -> list[str]:
    """Return the texts in a value: a list in JSON, a single text, or, with a separator, several texts."""
    text = given.get(name, "")
    if text.startswith("["):
        try:
            return msgspec.json.decode(text, type=list[str])
        except msgspec.DecodeError:
            raise UsageError(f"{name}={text}: this is not a JSON array of strings") from None
    return [part for each in (text.split(separator) if separator else [text]) if (part := each.strip() if separator else each)]


def _pairs(given: Mapping[str, str], name: str) -> dict[str, str]:
    """Return the pairs in a value: an object in JSON, or NAME=VALUE separated by commas."""
    text = given.get(name, "")
    if text.startswith("{"):
        try:
            return msgspec.json.decode(text, type=dict[str, str])
        except msgspec.DecodeError:
            raise UsageError(f"{name}={text}: this is not a JSON object of strings") from None
    pairs = [part.partition("=") for part in _texts(given, name, separator=",")]
    if not all(key and value for key, _, value in pairs):
        raise UsageError(f"{name}={text}: give NAME=VALUE, several separated by commas, or an object in JSON")
    return {key.strip(): value.strip() for key, _, value in pairs}


def _truth(given: Mapping[str, str], name: str, default: str) -> bool:
    text = given.get(name, default).lower()
    if text not in _WORDS:
        raise UsageError(f"{name}={text}: give true or false")
    return _WORDS[text]


def _count(given: Mapping[str, str], name: str) -> int | None:
    if name not in given:
        return None
    if not (given[name].isascii() and given[name].isdigit() and int(given[name]) > 0):
        raise UsageError(f"{name}={given[name]}: give a number from 1")
    return int(given[name])


def _bytes(given: Mapping[str, str], name: str) -> int | None:
    if name not in given:
        return None
    match = _SIZE.fullmatch(given[name].lower())
    if match is None or not int(match[1]):
        raise UsageError(f"{name}={given[name]}: give a number of bytes from 1, as 500000000 or 500m")
    return int(match[1]) << 10 * (1 + "kmgt".index(match[2]) if match[2] else 0)


def _seconds(given: Mapping[str, str], name: str, default: float) -> float:
    try:
        seconds = float(given.get(name, default))
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise UsageError(f"{name}={given[name]}: give a number of seconds from 0")
    return seconds


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 65_536):
        raise UsageError(f"{name}={text}: give a port from 1 to 65535")
    return int(text)


def _amount(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"thresholds: {name}={text} is not a number") from None
