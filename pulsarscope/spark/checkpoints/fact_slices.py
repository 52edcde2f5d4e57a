"""Files of the facts that wait in the checkpoint of a stream (`waiting_facts`), and the evaluation of slices of these facts.

Facts of keys to which later batches may add stay packed, and most of them are not examined.

A file has parts, each with some rows of a slice as an Arrow record batch. It ends with the places of the parts and the length of these
places.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, chain, groupby, pairwise
from operator import itemgetter
from typing import Any
from uuid import uuid4
from zlib import crc32

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from pulsarscope.engine.facts import Facts
from pulsarscope.engine.flows import OF_LEGS, Fact, RuleFact, evaluate, of_paths, settled_before
from pulsarscope.engine.options import Options
from pulsarscope.engine.packed_facts import TRIM_FACTOR, PendingFacts, end_of, pack, place_of, unpack
from pulsarscope.model.limits import FACTS_PER_KEY_MAX
from pulsarscope.model.records import FindingRow, JourneyRow
from pulsarscope.output.export.sink import write_errors
from pulsarscope.spark.checkpoints.checkpoint import Checkpoint
from pulsarscope.spark.checkpoints.waiting_facts import ANCHORS, SLICES
from pulsarscope.spark.rows.record_batch import to_record_batch
from pulsarscope.spark.rows.shuffle_batches import ONE_THREAD

PART_ROWS = 20_000
"""Number of rows that an evaluation processes together."""

PART_BYTES = 16 << 20
"""Memory of the facts that a task writes together."""

NEVER = 1 << 62
"""A time after all others."""

TAIL_BYTES = 16 << 10
"""Bytes at the end of a file that are read first: they have the places of its parts, unless there are very many parts."""

_ROW: Any = [
    ("subject", pa.string()),
    ("first", pa.int64()),
    ("last", pa.int64()),
    ("count", pa.int64()),
    ("deciding", pa.bool_()),
    ("facts", pa.binary()),
]

SCHEMA = pa.schema(_ROW)
"""A row for adjacent facts of a key: their rule and key in two lines, the first and the last of their times, and whether one of them can
lead to a finding."""

_NO_ROWS = to_record_batch([("", 0, 0, 0, False, b"")], SCHEMA).slice(0, 0)

_Places = dict[int, list[tuple[int, int]]]
"""Offset and length of the parts of each slice."""


class FactWriter:
    """A writer of a file of facts."""

    def __init__(self, stream: Any, name: str, rules: Facts) -> None:
        self._stream = stream
        self._name = name
        self.rules = rules
        self._places: _Places = {}
        self._offset = 0
        self._bytes = 0
        self._keys: dict[tuple[str, str], tuple[int, PendingFacts]] = {}
        """Time of the first fact, and all facts, by rule and key."""
        self._anchors: list[tuple[Any, ...]] = []
        self.count = 0
        """Number of added facts."""

    def add(self, rule: str, key: str, fact: Fact) -> None:
        """Add a fact."""
        _, _, packed, time, deciding, _ = self.rules.packed(rule, key, fact)
        self._add(rule, key, packed, time, time, deciding)

    def add_again(self, rule: str, key: str, fact: Fact) -> None:
        """Add a fact that was evaluated, or that stands for several dropped facts, because more facts of its key may follow."""
        self._add(rule, key, pack(fact), fact.where.time, end_of(fact), 1)

    def _add(self, rule: str, key: str, packed: bytes, first: int, last: int, deciding: int) -> None:
        self.count += 1
        if rule.endswith(OF_LEGS):
            self._anchors.append((f"{rule}\n{key}", first, last, 1, True, packed))
            self._bytes += len(packed)
        elif (known := self._keys.get((rule, key))) is None:
            self._keys[rule, key] = first, (facts := PendingFacts(packed, last, 1, deciding))
            self._bytes += facts.size
        else:
            before, facts = known
            self._bytes -= facts.size
            facts.add(packed, last, self.rules.idle_ns(rule), deciding)
            self._bytes += facts.size
            if first < before:
                self._keys[rule, key] = first, facts
        if self._bytes >= PART_BYTES:
            self._flush()

    def _flush(self) -> None:
        of_slices: dict[int, list[tuple[Any, ...]]] = {ANCHORS: self._anchors} if self._anchors else {}
        starts: dict[str, int] = {}
        for (rule, key), (first, facts) in self._keys.items():
            if (start := starts.get(rule)) is None:
                start = starts[rule] = crc32(rule.encode())
            row = f"{rule}\n{key}", first, facts.time, facts.count, facts.deciding > 0, bytes(facts.packs)
            of_slices.setdefault(crc32(key.encode("utf-8", "surrogatepass"), start) % SLICES, []).append(row)
        if of_slices:
            rows = to_record_batch([*chain.from_iterable(of_slices.values())], SCHEMA)  # all slices at once: making each array takes time
            ends = [*accumulate(map(len, of_slices.values()))]
            places = pairwise([0, *ends])
            self._put((number, rows.slice(start, end - start)) for number, (start, end) in zip(of_slices, places, strict=True))
        self._keys, self._anchors, self._bytes = {}, [], 0

    def put(self, number: int, rows: pa.RecordBatch) -> None:
        """Write rows of a slice."""
        self._put([(number, rows)])

    def _put(self, parts: Iterable[tuple[int, pa.RecordBatch]]) -> None:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, SCHEMA, options=ONE_THREAD) as writer:
            writer.write_batch(_NO_ROWS)  # writes the schema, which readers already know
            for number, rows in parts:
                start = sink.tell()
                writer.write_batch(rows)
                self._places.setdefault(number, []).append((self._offset + start, sink.tell() - start))
        data = sink.getvalue()
        self._write(data)
        self._offset += len(data)

    def close(self) -> None:
        """Write the remaining facts, and the places of all parts."""
        self._flush()
        places = msgspec.msgpack.encode(self._places)
        self._write(places + len(places).to_bytes(8, "little"))

    def _write(self, data: bytes | pa.Buffer) -> None:
        with write_errors(self._name):
            self._stream.write(data)


@contextmanager
def written(checkpoint: Checkpoint, name: str, rules: Facts) -> Iterator[FactWriter]:
    """Yield the writer of a file, which appears complete. Several attempts at the same time write the same file."""
    with checkpoint.writing(f"facts/{name}", f"{uuid4().hex}-") as stream:
        writer = FactWriter(stream, f"{checkpoint.path}/facts/{name}", rules)
        yield writer
        writer.close()


def read_slice(checkpoint: Checkpoint, names: Sequence[str], number: int, places: dict[str, bytes] | None = None) -> pa.Table:
    """Return the rows of a slice from files, in the order of the files.

    `places` takes the encoded places of the parts of each file, by name: for the next slice, only files that have rows of it are opened.
    """
    parts = [part for name in names for part in _parts(checkpoint, name, number, {} if places is None else places)]
    return pa.concat_tables(parts) if parts else SCHEMA.empty_table()


def _parts(checkpoint: Checkpoint, name: str, number: int, places: dict[str, bytes]) -> Iterator[pa.Table]:
    if name not in places:
        with checkpoint.opened(f"facts/{name}") as file:
            places[name] = _places_of(file)
    if found := msgspec.msgpack.decode(places[name], type=_Places).get(number):
        with checkpoint.opened(f"facts/{name}") as file:
            for offset, part in found:
                yield pa.Table.from_batches([pa.ipc.read_record_batch(pa.py_buffer(file.read_at(part, offset)), SCHEMA)])


def _places_of(file: Any) -> bytes:
    size = file.size()
    start = max(0, size - TAIL_BYTES)
    tail: bytes = file.read_at(size - start, start)
    length = int.from_bytes(tail[-8:], "little")
    return tail[-8 - length : -8] if length + 8 <= len(tail) else file.read_at(length, size - 8 - length)


def facts_of(rows: pa.Table) -> Iterator[RuleFact]:
    """Yield the facts of rows. If the rows of a key are adjacent, the facts of the key are in the order of their places."""
    names = "subject", "count", "facts"
    each = (zip(*(batch.column(name).to_pylist() for name in names), strict=True) for batch in rows.to_batches(max_chunksize=1_000))
    for subject, of_key in groupby((row for batch in each for row in batch), itemgetter(0)):
        rule, _, key = subject.partition("\n")
        for fact in sorted((fact for _, count, packs in of_key for fact in unpack(packs, count)), key=place_of):
            yield rule, key, fact


def evaluated(
    slices: Iterable[tuple[int, pa.Table]], writer: FactWriter, options: Options, newest: int | None, joined: Iterable[RuleFact]
) -> Iterator[FindingRow | JourneyRow]:
    """Yield the findings and journeys of slices.

    `writer` takes the facts to which the stream may still add; a `newest` of None ends the stream. `joined`: facts about the legs of paths.
    """
    facts = (fact for number, rows in slices for fact in _examined(number, rows, writer, newest))
    yield from evaluate(of_paths(facts, joined), options, newest, writer.add_again)


def _examined(number: int, rows: pa.Table, writer: FactWriter, newest: int | None) -> Iterator[RuleFact]:
    """Yield the facts of a slice to evaluate. Pass waiting facts to the writer, and drop facts of keys that lead to no finding."""
    if rows.num_rows == 0:
        return
    waiting, examined = _divided(rows.drop_columns("facts"), writer.rules, newest)
    for start in range(0, rows.num_rows, PART_ROWS):
        part = _of_subjects(rows.slice(start, PART_ROWS), waiting)
        for batch in part.combine_chunks().to_batches():
            writer.put(number, batch)
    others = _of_subjects(rows, examined)
    yield from facts_of(others.take(pc.sort_indices(others["subject"])))


def _divided(rows: pa.Table, rules: Facts, newest: int | None) -> tuple[pa.Array[Any], pa.Array[Any]]:
    """Return the subjects that wait, because the stream may add to all of their facts, and the subjects to evaluate."""
    of_keys = [("first", "min"), ("last", "max"), ("count", "sum"), ("deciding", "any")]
    keys: Any = rows.group_by("subject", use_threads=False).aggregate(of_keys)  # type: ignore[arg-type]
    names: Any = pc.list_element(pc.split_pattern(keys["subject"], "\n", max_splits=1), 0)
    known = [*map(str, pc.unique(names).to_pylist())]
    limits = [NEVER if newest is None else settled_before(rules.idle_ns(name), newest) for name in known]
    number = pc.index_in(names, value_set=pa.array(known, pa.string()))
    limit, is_quiet = pc.take(pa.array(limits, pa.int64()), number), pc.take(pa.array(map(rules.is_quiet, known), pa.bool_()), number)
    waits = pc.and_(pc.greater_equal(keys["first_min"], limit), pc.less(keys["count_sum"], pa.scalar(TRIM_FACTOR * FACTS_PER_KEY_MAX)))
    over = pc.and_(pc.less(keys["last_max"], limit), pc.and_(pc.invert(keys["deciding_any"]), is_quiet))
    chosen = (keys.filter(mask)["subject"].combine_chunks() for mask in (waits, pc.invert(pc.or_(waits, over))))
    return next(chosen), next(chosen)


def _of_subjects(rows: pa.Table, subjects: pa.Array[Any]) -> pa.Table:
    return rows.filter(pc.is_in(rows["subject"], value_set=subjects))
