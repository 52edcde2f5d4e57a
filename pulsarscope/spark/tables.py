"""Packets in a data frame -> a data frame for each kind of record.

Runs of packets are shuffled by flow, and decoded in one pass into cells: records of each kind, and facts, which are shuffled by key and
judged, into more cells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import functions
from pyspark.sql.pandas.types import from_arrow_schema

from pulsarscope.capture import Inputs, Portion
from pulsarscope.engine.flows import with_secrets
from pulsarscope.engine.options import Options
from pulsarscope.model.findings import LOSS_CODES
from pulsarscope.output.export.arrow import arrow_schema
from pulsarscope.spark import packed_segments, packets, scan, shuffle_batches
from pulsarscope.spark.partition import DecodeFlows, EvaluateFacts, Job, ReadFiles
from pulsarscope.spark.scan import PortionSummary, ScanPortions
from pulsarscope.spark.table_files import TableFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


TASK_BYTES = 64 << 20
"""Bytes of captures for one task, about: small enough that the last tasks do not wait for one."""

STRANGERS_MAX = 1 << 18
"""Pairs of endpoints, those with the most bytes, whose packets are not shuffled: the tasks get a list of them, 4 MiB."""

TASKS_PER_CORE = 3
"""At least: files and connections are not of one size."""


def spark_schema(schema: pa.Schema) -> Any:
    """The Spark schema with the fields of an Arrow schema."""
    return from_arrow_schema(schema)


class CaptureScan:
    """A first look into all files; `close` it when everything is decoded."""

    def __init__(self, spark: SparkSession, inputs: Inputs, options: Options, split: int | None) -> None:
        """Looks.

        Args:
            spark: the session.
            inputs: the captures.
            options: of the run.
            split: files that have more bytes are read in portions of about so many; None: none is.
        """
        self._spark = spark
        self._inputs = inputs
        self._options = options
        self._kept: list[DataFrame] = []
        self._found, self.seen = self._look(divide_files(spark, inputs, split))
        if whole := scan.indivisible_files(self.seen):
            again, seen = self._look([Portion(file) for file in whole])
            self._found = self._found.where(~functions.col("file").isin(whole)).unionByName(again)
            self.seen = [one for one in self.seen if one.portion.file not in whole] + seen
        self.options = with_secrets(inputs, options, sorted(found for one in self.seen for found in one.secrets))
        """With the secrets in them, and what is wrong with those."""

    def _look(self, portions: Sequence[Portion]) -> tuple[DataFrame, list[PortionSummary]]:
        task = ScanPortions(self._inputs, self._options, portions)
        found = map_positions(self._spark, len(portions), self._inputs.sizes, task, scan.SCHEMA).persist(StorageLevel.DISK_ONLY)
        self._kept.append(found)
        of_portions = found.where(functions.length("flow") == 0).select("data").collect()
        return found, [msgspec.json.decode(row.data, type=PortionSummary) for row in of_portions]

    @property
    def lossy(self) -> int | None:
        """The first file that says that it lacks packets."""
        return min((one.portion.file for one in self.seen if one.lossy), default=None)

    def packed_segments(self) -> DataFrame:
        """The runs of all files, with the rows of strangers instead of their packets."""
        pairs = self._found.where(functions.length("flow") > 0).groupBy("source", "flow")
        alone = pairs.agg(
            functions.count("*").alias("portions"),
            *(functions.first(name).alias(name) for name in ("stranger", "bytes", "file", "packet", "data")),
        )
        chosen = alone.where("portions = 1 and stranger").orderBy(functions.desc("bytes"), "source", "flow").limit(STRANGERS_MAX)
        strangers: dict[int, set[bytes]] = {}
        for row in chosen.select("file", "flow").collect():
            strangers.setdefault(row.file, set()).add(bytes(row.flow))
        left_out = {file: frozenset(flows) for file, flows in strangers.items()}
        portions = scan.with_counts(self.seen)
        task = ReadFiles(self._inputs, portions, strangers=left_out, findings=self.options.key_logs.findings)
        read = map_positions(self._spark, len(portions), self._inputs.sizes, task, packed_segments.SCHEMA)
        if not strangers:
            return read
        return read.unionByName(chosen.select("source", functions.lit(b"").alias("flow"), "file", "packet", "data"))

    def close(self) -> None:
        """Let go of what was kept."""
        for found in self._kept:
            found.unpersist()


def divide_files(spark: SparkSession, inputs: Inputs, split: int | None) -> list[Portion]:
    """The portions in which files are read: whole, but for those that have more bytes than `split`."""
    files = len(inputs.paths)
    if split is None or (inputs.sizes or 0) <= split:
        return [Portion(file) for file in range(files)]
    found = map_positions(spark, files, inputs.sizes, scan.DivideFiles(inputs, split), scan.PORTIONS).collect()
    return [msgspec.json.decode(row.data, type=Portion) for row in found]


def map_positions(spark: SparkSession, count: int, size: int | None, task: Any, schema: pa.Schema) -> DataFrame:
    """What a task gives for the numbers below `count`, which stand for captures of so many bytes; small ones share one."""
    return _map(spark.range(0, count, 1, min(count, task_count(spark, size or 0))), task, schema)


def task_count(spark: SparkSession, size: int) -> int:
    """How many tasks captures of so many bytes are worth."""
    cores: int = spark.sparkContext.defaultParallelism
    return max(size // TASK_BYTES, TASKS_PER_CORE * cores)


def decode_packets(found: DataFrame, options: Options, partitions: int | None) -> Records:
    """The records of packets, a row each, which are read once more before for what the files say of themselves."""
    code = functions.get_json_object("finding", "$.code")
    lossy = functions.coalesce(functions.max(code.isin(*LOSS_CODES)), functions.lit(col=False)).alias("lossy")
    of_file = functions.max(functions.when(functions.length("flow") == 0, functions.col("source"))).alias("source")
    brought = functions.when(functions.col("secrets").isNotNull(), functions.struct("packet", "secrets"))
    files = found.groupBy("file").agg(of_file, lossy, functions.collect_list(brought).alias("brought")).collect()
    count = max((row.file for row in files), default=-1) + 1
    sources: list[str | None] = [None] * count
    for row in files:
        sources[row.file] = row.source
    inputs = Inputs([""] * count, None, [], sources if any(source is not None for source in sources) else [])
    logs: list[tuple[tuple[int, int], bytes]] = []
    for row in files:
        for packet, secrets in row.brought:
            brings = msgspec.json.decode(secrets, type=packets.KeyLog)
            inputs.paths[row.file] = brings.path
            logs.append(((row.file, packet), brings.log))
    options = with_secrets(inputs, options, sorted(logs))
    found = found.where("secrets is null").drop("secrets")
    if options.key_logs.findings:
        of_logs = pa.Table.from_batches([packets.finding_batch(options.key_logs.findings)]).drop_columns("secrets")
        found = found.unionByName(found.sparkSession.createDataFrame(of_logs))
    job = Job(inputs, options, min((row.file for row in files if row.lossy), default=None))
    return Records(found, job, partitions, by_packet=True)


class Records(Mapping[str, "DataFrame"]):
    """A data frame for each kind of record. They come of one pass over the packets, whose result is kept until `unpersist`."""

    def __init__(
        self, found: DataFrame, job: Job, partitions: int | None = None, *, by_packet: bool = False, facts: DataFrame | None = None
    ) -> None:
        """`found`: runs, or packets. `facts`: those that an earlier batch of a stream has left."""
        self._job = job
        self._facts = facts
        self._decoded = _map(_sorted(found, packed_segments.ORDER, 2, partitions), DecodeFlows(job, by_packet), shuffle_batches.SCHEMA)
        self._kept = [self._decoded.persist(StorageLevel.DISK_ONLY)]
        self._batches = self._decoded
        if job.options.rules:
            judged = self._judged(partitions).persist(StorageLevel.DISK_ONLY)
            self._kept.append(judged)
            self._batches = self._decoded.unionByName(judged)

    def _judged(self, partitions: int | None) -> DataFrame:
        """ShuffleBuffer of what the rules that look across connections say."""
        facts = _map(self._of(self._decoded, shuffle_batches.FACT), shuffle_batches.unpack, shuffle_batches.FACTS)
        facts = facts if self._facts is None else facts.unionByName(self._facts)
        return _map(_sorted(facts, shuffle_batches.FACT_ORDER, 2, partitions), EvaluateFacts(self._job), shuffle_batches.SCHEMA)

    @staticmethod
    def _of(found: DataFrame, kind: str) -> DataFrame:
        return found.where(found.kind == kind)

    def __getitem__(self, kind: str) -> DataFrame:
        if kind not in self._job.options.records:
            raise KeyError(kind)
        return _map(self._of(self._batches, kind), shuffle_batches.unpack, arrow_schema(kind))

    def count(self, kind: str) -> int:
        """Rows of a kind."""
        return self._of(self._batches, kind).groupBy().sum("rows").collect()[0][0] or 0

    def outcome(self) -> tuple[list[shuffle_batches.TaskReport], list[TableFile]]:
        """What each partition reports, and the files that it wrote."""
        wanted = (
            self._batches.where(self._batches.kind.isin(shuffle_batches.REPORT, shuffle_batches.TABLE_FILE))
            .select("kind", "data")
            .collect()
        )
        reports = [msgspec.json.decode(row.data, type=shuffle_batches.TaskReport) for row in wanted if row.kind == shuffle_batches.REPORT]
        return reports, [msgspec.json.decode(row.data, type=TableFile) for row in wanted if row.kind == shuffle_batches.TABLE_FILE]

    def open_state(self) -> DataFrame:
        """ShuffleBuffer of what the next batch of a stream needs: flows, and facts that are not judged."""
        return self._of(self._kept[0], shuffle_batches.OPEN).unionByName(self._of(self._kept[-1], shuffle_batches.FACT))

    def unpersist(self) -> None:
        """Let go of what was kept."""
        for frame in self._kept:
            frame.unpersist()

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._job.options.records))

    def __len__(self) -> int:
        return len(self._job.options.records)


def restore_open(left: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Of cells that an earlier batch of a stream has left open the flows, in the place of runs, and the facts."""
    flows, facts = (left.where(left.kind == kind) for kind in (shuffle_batches.OPEN, shuffle_batches.FACT))
    return _map(flows, shuffle_batches.unpack, packed_segments.SCHEMA), _map(facts, shuffle_batches.unpack, shuffle_batches.FACTS)


def _sorted(frame: DataFrame, order: Sequence[str], key: int, partitions: int | None) -> DataFrame:
    """Rows with the same first `key` columns of the order in one partition, in this order."""
    by = order[:key]
    shuffled = frame.repartition(*by) if partitions is None else frame.repartition(partitions, *by)
    return shuffled.sortWithinPartitions(*order)


def _map(frame: DataFrame, task: Any, schema: pa.Schema) -> DataFrame:
    function = task if isinstance(task, FunctionType) else task.__call__  # Spark looks at the signature
    return frame.mapInArrow(function, spark_schema(schema))
