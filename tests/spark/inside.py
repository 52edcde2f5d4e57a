"""The work of a cluster in this process: what the tasks do, on rows that are dealt out, sorted and pickled as Spark does it."""

from __future__ import annotations

import pickle
import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec
import pyarrow as pa
import pyarrow.parquet

from pulsarscope.capture import Inputs, Portion
from pulsarscope.cli.options import ReadOptions
from pulsarscope.engine import local as pipeline
from pulsarscope.engine.flows import with_secrets
from pulsarscope.engine.local import ALL_RECORDS
from pulsarscope.engine.options import Options as EngineOptions
from pulsarscope.inputs.key_logs import KeyLogs
from pulsarscope.model.records import ROWS, Row
from pulsarscope.output.export.arrow import table
from pulsarscope.spark import packed_segments, packets, scan, shuffle_batches
from pulsarscope.spark.checkpoint import Commit
from pulsarscope.spark.partition import DecodeFlows, EvaluateFacts, Job, ReadFiles, StreamProgress
from pulsarscope.spark.record_batch import to_record_batch
from pulsarscope.spark.scan import DivideFiles, PortionSummary, ScanPortions
from tests.scenarios.capturefile import ETHERNET, write_pcap
from tests.scenarios.options import Options
from tests.scenarios.recapture import packets_of

EVERYTHING = Options(ALL_RECORDS, rules=True)
EACH_ITS_OWN = r"([^/]*)$"
"""Each file is a source."""

Tables = dict[str, list[str]]


def local(inputs: Inputs, options: EngineOptions = EVERYTHING) -> Tables:
    """The sorted rows of the local decoder, by kind."""
    found: dict[str, list[Any]] = {kind: [] for kind in ROWS if kind in options.records}
    for batch in pipeline.Run(inputs, options):
        for row in batch.rows:
            assert isinstance(row, Row)
            found[row.kind].append(row)
    return {kind: texts([table(kind, rows)]) for kind, rows in found.items()}


def texts(tables: Iterable[Any]) -> list[str]:
    """All rows, sorted."""
    return sorted(repr([*row.values()]) for one in tables for row in one.to_pylist())


def written(out: Path) -> Tables:
    """The rows in a folder of tables."""
    return {kind: texts(pyarrow.parquet.read_table(path) for path in sorted((out / kind).glob("part-*"))) for kind in ROWS}


GIVEN = ("go-tls13.pcap", "go-tls12.pcap", "go-tls13-dsb.pcapng", "encrypted.pcap", "go-encrypted.pcap", "java-schemas.pcap")
"""Captures that say more with what is given beside them."""


def given(captures: Path) -> ReadOptions:
    """Secrets of TLS, private keys and schemas for them."""
    return ReadOptions(
        tls_keylog=[str(path) for path in sorted(captures.glob("*.keylog"))],
        private_key=[str(path) for path in sorted((captures / "keys").glob("*.pem"))],
        schema=["schemas-int32-31=bytes"],
        source_by=EACH_ITS_OWN,
    )


class Cluster:
    """Decodes captures in so many partitions, files in portions of about `split` bytes."""

    def __init__(
        self, inputs: Inputs, options: EngineOptions = EVERYTHING, *, partitions: int = 3, by_packet: bool = False, split: int | None = None
    ) -> None:
        self.divided = [Portion(file) for file in range(len(inputs.paths))]
        if split is not None:
            found = rows_of(shipped(DivideFiles(inputs, split))(numbers(inputs.paths)))
            self.divided = [msgspec.json.decode(row["data"], type=Portion) for row in found]
        rows = look(inputs, options, self.divided)
        self.whole = scan.indivisible_files(seen_in(rows))
        if self.whole:
            rows = [row for row in rows if row["file"] not in self.whole] + look(inputs, options, [Portion(file) for file in self.whole])
        self.seen = seen_in(rows)
        options = with_secrets(inputs, options, sorted(found for one in self.seen for found in one.secrets))
        self.job = Job(inputs, options, min((one.portion.file for one in self.seen if one.lossy), default=None))
        places = Counter((row["source"], row["flow"]) for row in rows)
        self.strangers = [row for row in rows if row["unrecognised"] and places[row["source"], row["flow"]] == 1 and not by_packet]
        left_out = {file: frozenset(row["flow"] for row in self.strangers if row["file"] == file) for file in range(len(inputs.paths))}
        self.portions = scan.with_counts(self.seen)
        read = shipped(ReadFiles(inputs, self.portions, by_packet, left_out, options.key_logs.findings))
        made = [batch for number in numbers(self.portions) for batch in read([number])]
        if self.strangers:
            made.append(
                to_record_batch([(row["source"], b"", row["file"], 0, row["data"]) for row in self.strangers], packed_segments.SCHEMA)
            )
        schema = packets.SCHEMA if by_packet else packed_segments.SCHEMA
        dealt = deal(made, schema, packed_segments.ORDER, partitions)
        decoded = [batch for part in dealt for batch in shipped(DecodeFlows(self.job, by_packet))(part)]
        facts = list(shuffle_batches.unpack(of(shuffle_batches.FACT, decoded)))
        judged = [
            batch
            for part in deal(facts, shuffle_batches.FACTS, shuffle_batches.FACT_ORDER, partitions)
            for batch in shipped(EvaluateFacts(self.job))(part)
        ]
        self.batches = decoded + judged

    def tables(self) -> Tables:
        """The sorted rows, by kind."""
        return {kind: texts(shuffle_batches.unpack(of(kind, self.batches))) for kind in ROWS if kind in self.job.options.records}

    def reports(self) -> list[shuffle_batches.TaskReport]:
        """Of the partitions."""
        return [
            msgspec.json.decode(data.as_py(), type=shuffle_batches.TaskReport)
            for batch in of(shuffle_batches.REPORT, self.batches)
            for data in batch.column("data")
        ]


class Streamed:
    """Decodes captures in batches of a stream that begin at these positions of the list, as if each were in other processes."""

    def __init__(self, inputs: Inputs, cuts: Iterable[int] = (), options: EngineOptions = EVERYTHING, *, partitions: int = 2) -> None:
        self.batches: list[Any] = []
        self.open: list[int] = []
        """How many flows each batch has left open."""
        self.waiting: list[int] = []
        """How many facts."""
        self._partitions = partitions
        self._options = options
        self._done = Commit()
        self._flows: list[Any] = []
        self._facts: list[Any] = []
        bounds = [0, *sorted(cuts), len(inputs.paths)]
        for first, end in pairwise(bounds):
            self._batch(msgspec.structs.replace(inputs, paths=inputs.paths[:end]), first, ends=False)
        self._batch(inputs, len(inputs.paths), ends=True)

    def _batch(self, inputs: Inputs, first: int, *, ends: bool) -> None:
        portions = [Portion(file) for file in range(first, len(inputs.paths))]
        positions = [pa.RecordBatch.from_arrays([pa.array([number])], names=["id"]) for number in range(len(portions))]
        looked = [
            row
            for batch in shipped(ScanPortions(inputs, self._options, portions, finds_unrecognised=False))(positions)
            for row in batch.to_pylist()
        ]
        seen = [msgspec.json.decode(row["data"], type=PortionSummary) for row in looked]
        options = with_secrets(inputs, self._options, sorted(found for file in seen for found in file.secrets))
        self._done = self._done.after(inputs, seen)
        job = Job(inputs, options, self._done.lossy, progress=StreamProgress(dict(self._done.newest), ends))
        read = shipped(ReadFiles(inputs, portions, findings=options.key_logs.findings))(positions)
        dealt = deal([*read, *self._flows], packed_segments.SCHEMA, packed_segments.ORDER, self._partitions)
        decoded = [batch for part in dealt for batch in shipped(DecodeFlows(job))(part)]
        facts = [*shuffle_batches.unpack(of(shuffle_batches.FACT, decoded)), *self._facts]
        judged = [
            batch
            for part in deal(facts, shuffle_batches.FACTS, shuffle_batches.FACT_ORDER, self._partitions)
            for batch in shipped(EvaluateFacts(job))(part)
        ]
        self._flows = list(shuffle_batches.unpack(of(shuffle_batches.OPEN, decoded)))
        self._facts = list(shuffle_batches.unpack(of(shuffle_batches.FACT, judged)))
        self._options = msgspec.structs.replace(options, key_logs=KeyLogs(options.key_logs.secrets))
        self.batches += decoded + judged
        self.open.append(sum(len(batch) for batch in self._flows))
        self.waiting.append(sum(len(batch) for batch in self._facts))

    def tables(self) -> Tables:
        """The sorted rows of all batches, by kind."""
        return {kind: texts(shuffle_batches.unpack(of(kind, self.batches))) for kind in ROWS if kind in self._options.records}


def shipped(task: Any) -> Any:
    """A task as it comes to a worker."""
    return pickle.loads(pickle.dumps(task))  # noqa: S301 - our own


def numbers(things: Sequence[Any]) -> list[Any]:
    """Their positions, each in a batch."""
    return [pa.RecordBatch.from_arrays([pa.array([number])], names=["id"]) for number in range(len(things))]


def rows_of(batches: Iterable[Any]) -> list[dict[str, Any]]:
    """All rows."""
    return [row for batch in batches for row in batch.to_pylist()]


def look(inputs: Inputs, options: EngineOptions, portions: Sequence[Portion]) -> list[dict[str, Any]]:
    """What the first look finds."""
    return rows_of(shipped(ScanPortions(inputs, options, portions))(numbers(portions)))


def seen_in(rows: Iterable[dict[str, Any]]) -> list[PortionSummary]:
    """What it says of portions."""
    return [msgspec.json.decode(row["data"], type=PortionSummary) for row in rows if not row["flow"]]


def of(kind: str, batches: Iterable[Any]) -> list[Any]:
    """The cells of one kind."""
    return [batch.filter(pa.array([name == kind for name in batch.column("kind").to_pylist()])) for batch in batches]


def deal(batches: Iterable[Any], schema: Any, order: Sequence[str], partitions: int) -> list[list[Any]]:
    """Rows with the same first two columns of the order in one partition, sorted, in batches of a few rows."""
    names = schema.names
    places = [names.index(name) for name in order]
    dealt: list[list[Any]] = [[] for _ in range(partitions)]
    for batch in batches:
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            dealt[crc32(repr([row[place] for place in places[:2]]).encode()) % partitions].append(row)
    parts = []
    for rows in dealt:
        rows.sort(key=lambda row: [(row[place] is not None, row[place]) for place in places])
        parts.append([to_record_batch(rows[start : start + 50], schema) for start in range(0, len(rows), 50)])
    return parts


def ring(path: Path, folder: Path, files: int) -> list[Path]:
    """A pcap file cut into a ring of so many, as tcpdump -C does."""
    data = path.read_bytes()
    borders = [24]
    while borders[-1] < len(data):
        borders.append(borders[-1] + 16 + int.from_bytes(data[borders[-1] + 8 : borders[-1] + 12], "little"))
    made = []
    for number in range(files):
        start, end = (borders[(len(borders) - 1) * index // files] for index in (number, number + 1))
        made.append(folder / f"ring.pcap{number:02}")
        made[-1].write_bytes(data[:24] + data[start:end])
    return made


def cut(path: Path, folder: Path, shares: Sequence[float]) -> Inputs:
    """The packets of a capture in files that end after these shares of them."""
    packets = packets_of(path)
    ends = [0, *(int(len(packets) * share) for share in sorted(shares)), len(packets)]
    data = path.read_bytes()
    (link_type,) = struct.unpack_from("<I", data, 20) if path.suffix == ".pcap" else (ETHERNET,)
    files = [
        write_pcap(folder / f"{index}.pcap", packets[start:end], link_type=link_type) for index, (start, end) in enumerate(pairwise(ends))
    ]
    return Inputs([str(file) for file in files], sum(file.stat().st_size for file in files), [])
