"""Simulation of a cluster in this process: its tasks on rows that are shuffled, sorted and pickled as by Spark."""

from __future__ import annotations

import pickle
import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zlib import crc32

import msgspec
import pyarrow as pa
import pyarrow.parquet

from pulsarscope.capture import Inputs, Portion
from pulsarscope.capture.file_list import SOURCE_BY_INTERFACE
from pulsarscope.cli.arguments.options import ReadOptions
from pulsarscope.engine import local as pipeline
from pulsarscope.engine.flows import OF_LEGS, with_secrets
from pulsarscope.engine.options import Options as EngineOptions
from pulsarscope.model.limits import ROWS_MAX
from pulsarscope.model.records import ALL, ROWS, Row
from pulsarscope.output.export.arrow import table
from pulsarscope.spark.checkpoints.checkpoint import Checkpoint
from pulsarscope.spark.checkpoints.fact_slices import read_slice
from pulsarscope.spark.checkpoints.waiting_facts import SLICES, WaitingFacts
from pulsarscope.spark.rows import packed_segments, packets, shuffle_batches
from pulsarscope.spark.rows.record_batch import to_record_batch
from pulsarscope.spark.rows.shuffle_batches import TaskReport
from pulsarscope.spark.tasks import scan
from pulsarscope.spark.tasks.flow_shares import deal
from pulsarscope.spark.tasks.partition import DecodeFlows, EvaluateFacts, Evaluation, Job, JoinLegs, ReadFiles, decode_shares
from pulsarscope.spark.tasks.scan import DivideFiles, PortionSummary, ScanPortions
from pulsarscope.spark.tasks.share_decoder import ShareBatch, ShareState, States
from tests.scenarios.capturefile import ETHERNET, write_pcap
from tests.scenarios.options import Options
from tests.scenarios.recapture import packets_of

EVERYTHING = Options(frozenset(ROWS), rules=True)
BY_DEFAULT = Options(frozenset(ALL), rules=True)
"""Kinds that a pipeline gives unless certain records are requested."""
SOURCE_PER_FILE = r"([^/]*)$"
"""Rule of the vantage points: each file is one."""

Tables = dict[str, list[str]]


def local(inputs: Inputs, options: EngineOptions = EVERYTHING) -> Tables:
    """Return the sorted rows of the local decoder, by kind."""
    rows_of_kind: dict[str, list[Any]] = {kind: [] for kind in ROWS if kind in options.records}
    for batch in pipeline.Run(inputs, options):
        for row in batch.rows:
            assert isinstance(row, Row)
            rows_of_kind[row.kind].append(row)
    return {kind: texts([table(kind, rows)]) for kind, rows in rows_of_kind.items()}


def texts(tables: Iterable[Any]) -> list[str]:
    """Return all rows, sorted."""
    return sorted(repr([*row]) for each in tables for row in zip(*(column.to_pylist() for column in each.columns), strict=True))


def written(out: Path) -> Tables:
    """Return the rows in a folder of tables."""
    return {
        kind: texts(pyarrow.parquet.ParquetFile(path).read(use_threads=False) for path in sorted((out / kind).glob("part-*")))
        for kind in ROWS
        if (out / kind).is_dir()
    }


CAPTURES_WITH_SECRETS = (
    "go-tls13.pcap",
    "go-tls12.pcap",
    "go-tls13-dsb.pcapng",
    "encrypted.pcap",
    "go-encrypted.pcap",
    "java-schemas.pcap",
)
"""Captures that need the options of `read_options`."""


def read_options(captures: Path) -> ReadOptions:
    """Return options with TLS secrets, private keys and schemas."""
    return ReadOptions(
        tls_keylog=[str(path) for path in sorted(captures.glob("*.keylog"))],
        private_key=[str(path) for path in sorted((captures / "keys").glob("*.pem"))],
        schema=["schemas-int32-31=bytes"],
        source_by=SOURCE_PER_FILE,
    )


class Scanned:
    """Captures, or portions of them of `split` bytes, and what scans say of them: the beginning of any number of clusters."""

    def __init__(self, inputs: Inputs, options: EngineOptions = EVERYTHING, split: int | None = None) -> None:
        self.divided = [Portion(file) for file in range(len(inputs.paths))]
        if split is not None:
            rows = rows_of(pickled(DivideFiles(inputs, split))(position_batches(inputs.paths)))
            self.divided = [msgspec.json.decode(row["data"], type=Portion) for row in rows]
        rows = scan_rows(inputs, options, self.divided)
        self.whole = scan.indivisible_files(summaries_of(rows))
        if self.whole:
            rows = [row for row in rows if row["file"] not in self.whole] + scan_rows(
                inputs, options, [Portion(file) for file in self.whole]
            )
        self.rows = rows
        self.seen = summaries_of(rows)
        options = with_secrets(inputs, options, sorted(secret for summary in self.seen for secret in summary.secrets))
        self.job = Job(inputs, options, min((summary.portion.file for summary in self.seen if summary.lossy), default=None))


class Cluster:
    """Decoder of captures in partitions, which are scanned for it if they are not yet; `split` is the size of portions in bytes."""

    def __init__(
        self,
        inputs: Inputs | Scanned,
        options: EngineOptions = EVERYTHING,
        *,
        partitions: int = 3,
        by_packet: bool = False,
        split: int | None = None,
    ) -> None:
        scanned = inputs if isinstance(inputs, Scanned) else Scanned(inputs, options, split)
        self.job, self.seen, self.whole, rows = scanned.job, scanned.seen, scanned.whole, scanned.rows
        inputs, options = self.job.inputs, self.job.options
        places = Counter((row["source"], row["flow"]) for row in rows)
        self.unrecognised = [row for row in rows if row["unrecognised"] and places[row["source"], row["flow"]] == 1 and not by_packet]
        skipped = {file: frozenset(row["flow"] for row in self.unrecognised if row["file"] == file) for file in range(len(inputs.paths))}
        self.portions = scan.with_counts(self.seen)
        read = pickled(ReadFiles(inputs, self.portions, by_packet, skipped, options.key_logs.findings))
        made = [batch for number in position_batches(self.portions) for batch in read([number])]
        if self.unrecognised:
            made.append(
                to_record_batch([(row["source"], b"", row["file"], 0, row["data"]) for row in self.unrecognised], packed_segments.SCHEMA)
            )
        schema = packets.SCHEMA if by_packet else packed_segments.SCHEMA
        dealt = deal_rows(made, schema, packed_segments.ORDER, partitions)
        decoded = [batch for part in dealt for batch in pickled(DecodeFlows(self.job, by_packet))(part)]
        self.batches = decoded + judged(self.job, shuffle_batches.unpack(of_kind(shuffle_batches.FACT, decoded)), partitions)

    def tables(self) -> Tables:
        """Return the sorted rows, by kind."""
        return {kind: texts(shuffle_batches.unpack(of_kind(kind, self.batches))) for kind in ROWS if kind in self.job.options.records}

    def reports(self) -> list[shuffle_batches.TaskReport]:
        """Return the reports of the tasks."""
        return [
            msgspec.json.decode(data.as_py(), type=shuffle_batches.TaskReport)
            for batch in of_kind(shuffle_batches.REPORT, self.batches)
            for data in batch.column("data")
        ]


class Streamed:
    """Decoder of captures in batches of a stream that begin at these positions of the list, each task as in another process."""

    def __init__(
        self,
        inputs: Inputs,
        cuts: Iterable[int] = (),
        options: EngineOptions = EVERYTHING,
        *,
        partitions: int = 2,
        count_waiting: bool = False,
    ) -> None:
        self.batches: list[Any] = []
        self.open: list[int] = []
        """Number of connections that continue after each batch."""
        self.waiting: list[int] = []
        """Number of facts that each batch left pending, if they are counted: this reads again what the next batch reads."""
        self._counts_waiting = count_waiting
        self._tasks = partitions
        by_interface = SOURCE_BY_INTERFACE if inputs.by_interface else options.source_by
        self._options = msgspec.structs.replace(options, source_by=by_interface, rows_max=ROWS_MAX, together=True)
        self._states: States = {}
        self._facts = WaitingFacts(partitions)
        with TemporaryDirectory() as folder:
            self._checkpoint = Checkpoint(folder)
            self._checkpoint.create({})
            for first, end in pairwise([0, *sorted(cuts), len(inputs.paths)]):
                self._batch(inputs, first, end)
            self._batch(inputs, len(inputs.paths), len(inputs.paths) + 1)

    def _batch(self, inputs: Inputs, first: int, end: int) -> None:
        ends = end > len(inputs.paths)
        job = Job(Inputs([], None, []), self._options)
        sources = [inputs.source(file) for file in range(first, min(end, len(inputs.paths)))]
        paths = [*inputs.paths[first:end], *([""] if ends else [])]
        decoded: list[Any] = []
        shares = 2 * self._tasks
        states = msgspec.msgpack.decode(msgspec.msgpack.encode(self._states), type=dict[int, ShareState])
        for task, part in enumerate(deal([(share + first) % shares for share in range(shares)], self._tasks)):
            share = ShareBatch(task, part, shares, first, paths, [*sources, *([None] if ends else [])])
            before = {number: states[number] for number in part if states}
            decoded += decode_shares(job, pickled(share), before, self._states.update, self._checkpoint.path)
        self.batches += decoded
        reports = [msgspec.json.decode(row["data"], type=TaskReport) for row in rows_of(of_kind(shuffle_batches.REPORT, decoded))]
        assert len({report.packets for report in reports}) == 1
        self.open.append(sum(report.open for report in reports))
        progress = reports[0].progress
        assert progress is not None
        self._facts = self._facts.with_batch(progress.files, progress.newest, has_facts=any(report.facts for report in reports))
        slices = [*range(SLICES)] if self._facts.names() else []
        if slices:
            evaluation = Evaluation(job, self._checkpoint.path, self._facts, progress, slices, self._tasks)
            self.batches += evaluation.join_legs()
            self.batches += [batch for task in position_batches(range(self._tasks)) for batch in pickled(evaluation)([task])]
            self._facts = WaitingFacts(self._tasks) if ends else self._facts.evaluated(slices, progress.files, self._tasks, progress.newest)
        if self._counts_waiting:
            places: dict[str, bytes] = {}
            left = [read_slice(self._checkpoint, self._facts.of_slice(number), number, places) for number in range(SLICES)]
            self.waiting.append(sum(count or 0 for rows in left for count in rows["count"].to_pylist()))

    def tables(self) -> Tables:
        """Return the sorted rows of all batches, by kind."""
        return {kind: texts(shuffle_batches.unpack(of_kind(kind, self.batches))) for kind in ROWS if kind in self._options.records}


def judged(job: Job, facts: Iterable[Any], partitions: int) -> list[Any]:
    """Return the findings, and the facts that remain: first legs of paths, then all other facts."""
    rows = pa.Table.from_batches(facts, shuffle_batches.FACTS).to_pylist()
    anchors = [row for row in rows if row["rule"].endswith(OF_LEGS)]
    connections: dict[Any, set[str]] = {}
    for row in anchors:
        connections.setdefault((row["rule"], row["key"]), set()).add(row["connection"])
    anchors = [row for row in anchors if len(connections[row["rule"], row["key"]]) > 1]
    anchors.sort(key=lambda row: [row[name] or "" if name == "source" else row[name] for name in shuffle_batches.FACT_ORDER[2:]])
    table = pa.Table.from_pylist(anchors, shuffle_batches.FACTS)
    legs = list(pickled(JoinLegs(job))(table.to_batches()))
    outer_of = {row["connection"]: row["key"] for row in rows_of(shuffle_batches.unpack(of_kind(shuffle_batches.FACT, legs)))}
    others = [{**row, "outer": outer_of.get(row["connection"])} for row in rows if not row["rule"].endswith(OF_LEGS)]
    dealt = deal_rows(
        pa.Table.from_pylist(others, shuffle_batches.FACTS).to_batches(), shuffle_batches.FACTS, shuffle_batches.FACT_ORDER, partitions
    )
    return [*legs, *(batch for part in dealt for batch in pickled(EvaluateFacts(job))(part))]


def pickled(task: Any) -> Any:
    """Return a task in the form that a worker gets."""
    return pickle.loads(pickle.dumps(task))  # noqa: S301 - our own


def position_batches(things: Sequence[Any]) -> list[Any]:
    """Return the positions of things, each in a batch."""
    return [pa.RecordBatch.from_arrays([pa.array([number])], names=["id"]) for number in range(len(things))]


def rows_of(batches: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the rows of all batches."""
    return [row for batch in batches for row in batch.to_pylist()]


def scan_rows(inputs: Inputs, options: EngineOptions, portions: Sequence[Portion]) -> list[dict[str, Any]]:
    """Return the rows of a scan."""
    return rows_of(pickled(ScanPortions(inputs, options, portions))(position_batches(portions)))


def summaries_of(rows: Iterable[dict[str, Any]]) -> list[PortionSummary]:
    """Return the summaries of portions among the rows of a scan."""
    return [msgspec.json.decode(row["data"], type=PortionSummary) for row in rows if not row["flow"]]


def of_kind(kind: str, batches: Iterable[Any]) -> list[Any]:
    """Return the packed batches of one kind."""
    return [batch.filter(pa.array([name == kind for name in batch.column("kind").to_pylist()])) for batch in batches]


def deal_rows(batches: Iterable[Any], schema: Any, order: Sequence[str], partitions: int) -> list[list[Any]]:
    """Return sorted partitions in batches of a few rows; rows with equal first two columns of the order share a partition."""
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
    """Cut a pcap file into a ring of files, like tcpdump -C."""
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
    """Cut a capture into files that end after these shares of its packets."""
    packets = packets_of(path)
    ends = [0, *(int(len(packets) * share) for share in sorted(shares)), len(packets)]
    data = path.read_bytes()
    (link_type,) = struct.unpack_from("<I", data, 20) if path.suffix == ".pcap" else (ETHERNET,)
    files = [
        write_pcap(folder / f"{index}.pcap", packets[start:end], link_type=link_type) for index, (start, end) in enumerate(pairwise(ends))
    ]
    return Inputs([str(file) for file in files], sum(file.stat().st_size for file in files), [])
