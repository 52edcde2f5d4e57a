"""Captures and streams read by the compiled reader and by the Python one, which is the oracle."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from copy import copy
from functools import cache
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import msgspec

from pulsarscope.capture import reader as capture_reader
from pulsarscope.dissect.contract.dissector import Dissector
from pulsarscope.dissect.contract.frames import FrameBatch, KeptBytes
from pulsarscope.dissect.framing.column_batch import ColumnBatch
from pulsarscope.dissect.framing.compiled_splitter import CompiledSplitter
from pulsarscope.dissect.framing.splitter import StreamSplitter
from pulsarscope.engine import rule_engine
from pulsarscope.engine.options import ALL_RECORDS, Options
from pulsarscope.engine.parallel import AnyRun, driver, run
from pulsarscope.model import ordered_rows
from pulsarscope.model.errors import CaptureError
from pulsarscope.model.limits import ROWS_MAX
from pulsarscope.model.platform import NATIVE, load_native
from pulsarscope.model.records import ConnectionRow
from pulsarscope.model.row_lists import EntryMessages
from pulsarscope.output.export.arrow import RecordBatches
from pulsarscope.output.export.columns import cell_types, cells, json_texts
from pulsarscope.output.export.ndjson import JsonLines
from pulsarscope.output.export.parquet import repeating
from pulsarscope.protocols import make_dissectors
from pulsarscope.protocols.pulsar.dissector import PulsarDissector
from pulsarscope.tcp.pieces import Piece
from tests.scenarios.inside import Inside
from tests.scenarios.invariants import NONE, InvariantError, require
from tests.scenarios.streams import SplitFrame, Stream, cut, groups, split
from tests.scenarios.wire_mutations import damaged, joined_frame, mutated_message, split_frame


@contextmanager
def blocks_of(size: int | None) -> Iterator[None]:
    """Read captures in blocks of this size, and of half of it where small ones are read; None: as usual."""
    with (
        patch.multiple(capture_reader, READ_BLOCK_BYTES=size, READ_BLOCK_MAX_BYTES=size, SMALL_BLOCK_MAX_BYTES=size // 2)
        if size
        else nullcontext()
    ):
        yield


KINDS_IN_COLUMNS = ("frame", "message", "exchange", "connection", "finding")
"""Kinds of records among ordered rows."""

_ENCODER = JsonLines(KINDS_IN_COLUMNS, None)


@contextmanager
def installed_reader(choice: str) -> Iterator[None]:
    """Let commands and dissectors have the reader that is chosen, `off`, `auto` or `require`, where it is worth its time."""
    before = os.environ.get(NATIVE)
    os.environ[NATIVE] = choice
    load_native.cache_clear()
    try:
        yield
    finally:
        del os.environ[NATIVE]
        if before is not None:
            os.environ[NATIVE] = before
        load_native.cache_clear()


@contextmanager
def reader(choice: str) -> Iterator[None]:
    """As `installed_reader`, for any number of bytes."""
    body_bytes, stretch_min = CompiledSplitter.body_bytes, rule_engine.STRETCH_MIN
    rule_engine.STRETCH_MIN = 1
    CompiledSplitter.body_bytes = 0
    try:
        with installed_reader(choice):
            yield
    finally:
        CompiledSplitter.body_bytes, rule_engine.STRETCH_MIN = body_bytes, stretch_min


BLOCKS = (None, 256, 1024, 4096)
"""Sizes of the blocks in which an input is read; None for the usual size."""

SIZES_OF_A_BLOCK = 5
"""Number of consecutive input sizes that are read with the same block size."""


class EagerSplitter(CompiledSplitter):
    """A splitter that uses the compiled reader for any number of bytes, and gives rows."""

    body_bytes = 0

    def feed(self, file: int, offset: int, pieces: Sequence[Piece], out: FrameBatch) -> None:
        """Take the next bytes of the stream."""
        batch = ColumnBatch(self.dissector.compiled.frames())
        super().feed(file, offset, pieces, batch)
        out.extend(batch.in_rows(self._kept))


class BothReaders:
    """Checks of inputs, which are written to files in a folder, with the interface of `Invariants`."""

    def __init__(self, folder: Path, options: Options) -> None:
        self._paths = folder / "in.pcap", folder / "next.pcap"
        quick = msgspec.structs.replace(options, records=ALL_RECORDS, rules=True, private_keys=())  # loading a key takes long
        counted = {"frame", "exchange", "connection", "finding"}
        in_columns = msgspec.structs.replace(quick, records=frozenset(counted), raw=False, columns=True)
        kinds = frozenset({"frame", "finding"})
        whole = msgspec.structs.replace(in_columns, records=kinds, rules=False, payloads=False, frames_alone=True)
        shown = msgspec.structs.replace(whole, records=kinds | {"connection"}, payloads=True, schemas=())
        of_messages = frozenset({"message", "finding"})
        alone = msgspec.structs.replace(
            quick, records=of_messages, raw=False, rules=False, payload="text", message_columns=None, places=False
        )
        messages = msgspec.structs.replace(alone, rows_max=ROWS_MAX, together=True, anchors=True)
        beside = msgspec.structs.replace(
            in_columns, records=counted | of_messages, payload=None, rows_max=ROWS_MAX, together=True, places=False
        )
        answered = msgspec.structs.replace(whole, records=frozenset({"exchange", "finding"}), frames_alone=False)
        frameless = msgspec.structs.replace(beside, records=of_messages | {"exchange"}, payload="text")
        of_all = (msgspec.structs.replace(quick, raw=raw) for raw in (False, True))
        self._options = [*of_all, in_columns, whole, messages, shown, beside, answered, frameless]
        reported = msgspec.structs.replace(in_columns, records=frozenset({"connection", "finding"}), anchors=True, any_order=True)
        self._shared = in_columns, reported
        self._dissectors = {choice: dissectors_of(choice) for choice in ("off", "require")}

    def check(
        self,
        data: bytes,
        *,
        good_checksums_max: int | None = None,
        other: int | None = None,
        block: int | None = None,
        following: bytes | None = None,
    ) -> None:
        """Require equal rows.

        `other` is a number: of 1 whole frames are asked for, too, of 2 and 3 frames in columns, of 3 no more, of 4 messages,
        of 5 what text shows of frames, of 6 messages beside frames in columns, of 7 exchanges of which nothing else is asked for, of 8
        exchanges and messages in columns. `block`: bytes of a block, so many that the size of the input chooses them if None. `following`:
        a second file.
        """
        del good_checksums_max
        paths = self._write(data, following)
        options = self._options[(len(data) if other in (None, NONE) else other) % len(self._options)]
        with blocks_of(BLOCKS[len(data) // SIZES_OF_A_BLOCK % len(BLOCKS)] if block is None else block):
            expected, found = (self._rows(paths, choice, options) for choice in ("off", "require"))
        require_equal(expected, found)

    def check_jobs(self, data: bytes, *, count: int = 2, block: int | None = None, following: bytes | None = None) -> None:
        """Require that processes that share the connections give the rows of one, while frames stay in columns.

        `count`: number of processes; `block`, `following`: as for `check`.
        """
        paths = self._write(data, following)
        for options in self._shared:
            with reader("require"), blocks_of(block), patch.object(driver, "Process", Inside):
                alone, shared = (_shown(run(paths, options, each, _EachRow())) for each in (1, count))
            require_equal(alone, shared)

    def _write(self, data: bytes, following: bytes | None) -> list[str]:
        """Write one or two captures, and return their paths."""
        files = [data] if following is None else [data, following]
        for path, each in zip(self._paths, files, strict=False):
            path.write_bytes(each)
        return [str(path) for path in self._paths[: len(files)]]

    def _rows(self, paths: list[str], choice: str, options: Options) -> list[str]:
        """Return the rows with the types and the order of all their values, and the counts."""
        options = msgspec.structs.replace(options, dissectors=self._dissectors[choice])
        alone = options.frames_alone  # connections read by the compiled reader then have no rows
        tables = Tables()
        with reader(choice):
            try:
                decoded = run(paths, options, 1)
                given = (rows_of(batch.rows, tables) for batch in decoded)
                rows = [repr(row) for each in given for row in each if not (alone and type(row) is ConnectionRow)]
                rows.append(repr((decoded.packets, decoded.connections, sorted(decoded.severities.items()))))
            except CaptureError as error:
                rows = [str(error)]
            tables.check()
        return rows


class _EachRow:
    """Preparation of rows that gives the type and all values of each, of rows in columns, too."""

    takes_columns = True

    def prepare(self, rows: list[Any]) -> list[str]:
        return [repr(row) for row in rows_of(rows)]

    def join(self, prepared: list[str]) -> list[str]:
        return prepared


def _shown(decoded: AnyRun) -> list[str]:
    """Return the prepared rows of a run, and the counts, or the error that ends it."""
    try:
        batches = [_EachRow().prepare(batch.rows) if batch.prepared is None else batch.prepared for batch in decoded]
    except CaptureError as error:
        return [str(error)]
    counts = decoded.packets, decoded.connections, sorted(decoded.severities.items()), decoded.damaged, decoded.fragmented
    return [*chain.from_iterable(batches), repr(counts)]


def dissectors_of(choice: str) -> Callable[..., tuple[Dissector, ...]]:
    """Return a function that returns dissectors with a reader, always the same ones: making them takes longer than an input."""
    with reader(choice):
        made = make_dissectors()
    assert (PulsarDissector.name in {each.name for each in made if each.compiled is not None}) == (choice == "require")
    return lambda **_: made


def rows_of(rows: Sequence[Any], tables: Tables | None = None) -> Sequence[Any]:
    """Return rows, also made from ordered rows of the compiled reader, and from messages that stay together.

    Require that the compiled reader writes the lines, and makes the tables, of the rows that it has in columns, and that they are the same
    if each place is one row. With `tables`, these are checked by the caller, once for all rows.
    """
    ordered, following = ordered_rows.split(rows)
    if ordered is None:
        return [*chain.from_iterable(map(_each, rows))]
    among = ordered.all()
    require_equal(_lines(among).split(b"\n"), b"".join(_ENCODER.ordered(ordered, (), _lines)).split(b"\n"))
    opened = ordered_rows.opened([ordered])
    found = [*chain.from_iterable(map(_each, [*among, *following]))]
    require_equal([repr(row) for row in found], [repr(row) for row in [*opened.all(), *chain.from_iterable(map(_each, following))]])
    require(len(opened) == len(opened.all()), "a place is several rows")
    if has_pyarrow():
        made = tables or Tables()
        made.add(ordered, following, found)
        if tables is None:
            made.check()
    return found


class Tables:
    """Tables that the compiled reader makes of rows, and the rows of which Python makes them."""

    def __init__(self) -> None:
        self._rows: dict[str, list[Any]] = {}

    def add(self, ordered: Any, following: Sequence[Any], rows: Sequence[Any]) -> None:
        """Add ordered rows and those that follow them, which are these rows."""
        if not self._rows:
            self._rows = {kind: [] for kind in KINDS_IN_COLUMNS}
            for kind in KINDS_IN_COLUMNS:
                _batches(kind).take()  # left by a check that failed
        others = [*ordered.others(), *following]
        for kind, of_kind in self._rows.items():
            _batches(kind).gather(ordered_rows.as_ordered([ordered, *following]), _of(kind, others))
            of_kind.extend(_of(kind, rows))

    def check(self) -> None:
        """Require that the tables of all rows are the same."""
        for kind, rows in self._rows.items():
            require_table(rows, _batches(kind).take(), kind)


@cache
def has_pyarrow() -> bool:
    """Return True if tables can be made."""
    return find_spec("pyarrow") is not None


@cache
def _batches(kind: str) -> Any:
    return RecordBatches(kind, None, repeating(kind, [*cell_types(kind)]))


def _of(kind: str, rows: Iterable[Any]) -> list[Any]:
    return [row for row in rows if row.kind == kind]


def require_table(rows: Sequence[Any], made: Any, kind: str) -> None:
    """Require that a table of the compiled reader is that which Python makes of the rows."""
    require(made.num_rows == len(rows), f"{made.num_rows} rows of {kind}, not {len(rows)}")
    if not rows:
        return
    made.validate(full=True)
    types = cell_types(kind)
    for name, values in zip(types, cells(rows, [*types]), strict=True):
        require_equal(json_texts(values) if types[name] == "json" else [*values], made.column(name).to_pylist(), f"{kind}.{name}: ")


def _lines(rows: Iterable[Any]) -> bytes:
    return _ENCODER.encode([*map(copy, rows)])  # it changes rows


def _each(row: Any) -> Iterable[Any]:
    """Return a row, or the rows of the messages of an entry."""
    if not isinstance(row, EntryMessages):
        return (row,)
    columns = {name: [*values] for name, values in row.columns.items()}
    own = ({name: values[index] for name, values in columns.items()} for index in range(row.count))
    return (msgspec.structs.replace(row.shared, **values) for values in own)


class BothSplitters:
    """Checks of streams of mutated frames, many more per second than captures."""

    def __init__(self) -> None:
        with reader("off"):
            self._python = PulsarDissector()
        with reader("require"):
            self._compiled = PulsarDissector()

    def check(self, random: Random, frames: Sequence[bytes]) -> int:
        """Require equal frames from a mutated stream of some of these; return the number of frames that the compiled reader may read."""
        chosen = [mutated_frame(random, random.choice(frames)) for _ in range(random.randint(1, 12))]
        data = b"".join(chosen)
        stream = Stream().pieces(cut(data, random, 3000) if random.random() < 0.5 else [data])
        if random.random() < 0.1:
            stream.gap(9).pieces(chosen)
        keep = KeptBytes(payload=random.random() < 0.5, raw=random.random() < 0.2)
        blocks = groups(len(stream.atoms), random) if random.random() < 0.5 else None
        expected = _account(StreamSplitter(self._python, keep, synced=True), stream, blocks)
        found = _account(EagerSplitter(self._compiled, keep, synced=True), stream, blocks)
        require_equal(expected, found, f"{data.hex()}\n")
        return len(expected) - 1


def mutated_frame(random: Random, frame: bytes) -> bytes:
    """Return a frame with correct lengths, and often a correct checksum, usually with a changed field; sometimes only damaged."""
    kind = random.randrange(8)
    parts = split_frame(frame)
    if kind < 3 or parts is None:
        return frame
    if kind == 3:
        return frame[:4] + damaged(random, frame[4:], 1)
    if kind == 6 and parts.broker_entry is not None:
        parts = parts._replace(broker_entry=mutated_message(random, parts.broker_entry))
    elif kind >= 6 and parts.metadata is not None:
        parts = parts._replace(metadata=mutated_message(random, parts.metadata))
    else:
        parts = parts._replace(command=mutated_message(random, parts.command))
    return joined_frame(parts, checksum=random.random() < 0.95)


def _account(splitter: StreamSplitter, stream: Stream, blocks: Sequence[tuple[int, int]] | None) -> list[str]:
    """Return everything that a splitter reports of a stream, with types and order."""
    frames: list[SplitFrame] = split(splitter, stream, blocks)
    return [*map(repr, frames), repr((splitter.account(), splitter.limits, splitter.failure))]


def require_equal(expected: Sequence[object], found: Sequence[object], where: str = "") -> None:
    """Require equal lists; where they are not, the message has their first difference, which is not looked for else."""
    if expected != found:
        pairs = zip([*map(repr, expected), "nothing"], [*map(repr, found), "nothing"], strict=False)
        difference = next((pair for pair in pairs if pair[0] != pair[1]), ("no difference",))
        raise InvariantError(where + "\n".join(difference))
