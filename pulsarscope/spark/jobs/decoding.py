"""Decoding packets in a data frame into a data frame for each kind of record.

Packed segments are shuffled by flow and decoded in one pass into packed batches of records of all kinds, and of facts. The facts are
shuffled by key and evaluated into packed batches of findings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import Observation, functions
from pyspark.sql.pandas.types import from_arrow_schema

from pulsarscope.capture import Inputs, Portion
from pulsarscope.engine.flows import OF_LEGS, with_secrets
from pulsarscope.engine.options import Options
from pulsarscope.model.findings import LOSS_CODES
from pulsarscope.output.export.arrow import arrow_schema
from pulsarscope.spark.files.table_files import TableFile
from pulsarscope.spark.jobs.plan import TASK_BYTES, TASKS_PER_CORE
from pulsarscope.spark.rows import packed_segments, packets, shuffle_batches
from pulsarscope.spark.sessions.cluster import parallelism
from pulsarscope.spark.tasks import scan
from pulsarscope.spark.tasks.partition import DecodeFlows, EvaluateFacts, Job, JoinLegs, ReadFiles
from pulsarscope.spark.tasks.scan import PortionSummary, ScanPortions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


UNRECOGNISED_MAX = 1 << 18
"""Maximum number of unrecognised flows whose packets are not shuffled. The largest ones are chosen; the tasks get a list of them, of 4
MiB."""


class CaptureScan:
    """The first pass over all files; `close` it when everything is decoded."""

    def __init__(self, spark: SparkSession, inputs: Inputs, options: Options, split: int | None) -> None:
        """Scan the files; with `split`, read larger files in portions of this size in bytes."""
        self._spark = spark
        self._inputs = inputs
        self._options = options
        self._persisted: list[DataFrame] = []
        self._rows, self.portions = self._scan(divide_files(spark, inputs, split))
        if complete := scan.indivisible_files(self.portions):
            rows, portions = self._scan([Portion(file) for file in complete])
            self._rows = self._rows.where(~functions.col("file").isin(complete)).unionByName(rows)
            self.portions = [summary for summary in self.portions if summary.portion.file not in complete] + portions
        self.options = with_secrets(inputs, options, sorted(secret for summary in self.portions for secret in summary.secrets))
        """Options with the secrets in the captures, and with findings about them."""

    def _scan(self, portions: Sequence[Portion]) -> tuple[DataFrame, list[PortionSummary]]:
        task = ScanPortions(self._inputs, self._options, portions)
        rows = map_positions(self._spark, len(portions), self._inputs.sizes, task, scan.SCHEMA).persist(StorageLevel.DISK_ONLY)
        self._persisted.append(rows)
        summaries = rows.where(functions.length("flow") == 0).select("data").collect()
        return rows, [msgspec.json.decode(row.data, type=PortionSummary) for row in summaries]

    @property
    def lossy(self) -> int | None:
        """First file with a finding that packets are missing."""
        return min((summary.portion.file for summary in self.portions if summary.lossy), default=None)

    def packed_segments(self) -> DataFrame:
        """Return the packed segments of all files, with the rows of unrecognised flows in place of their packets."""
        pairs = self._rows.where(functions.length("flow") > 0).groupBy("source", "flow")
        flows = pairs.agg(
            functions.count("*").alias("portions"),
            *(functions.first(name).alias(name) for name in ("unrecognised", "bytes", "file", "packet", "data")),
        )
        unrecognised = (
            flows.where("portions = 1 and unrecognised").orderBy(functions.desc("bytes"), "source", "flow").limit(UNRECOGNISED_MAX)
        )
        keys: dict[int, set[bytes]] = {}
        for row in unrecognised.select("file", "flow").collect():
            keys.setdefault(row.file, set()).add(bytes(row.flow))
        portions = scan.with_counts(self.portions)
        task = ReadFiles(self._inputs, portions, skipped=keys, findings=self.options.key_logs.findings)
        packed = map_positions(self._spark, len(portions), self._inputs.sizes, task, packed_segments.SCHEMA)
        if not keys:
            return packed
        return packed.unionByName(unrecognised.select("source", functions.lit(b"").alias("flow"), "file", "packet", "data"))

    def close(self) -> None:
        """Release the rows of the scan."""
        for rows in self._persisted:
            rows.unpersist()


def divide_files(spark: SparkSession, inputs: Inputs, split: int | None) -> list[Portion]:
    """Return the portions in which files are read: complete files, except those of more bytes than `split`."""
    files = len(inputs.paths)
    if split is None or (inputs.sizes or 0) <= split:
        return [Portion(file) for file in range(files)]
    rows = map_positions(spark, files, inputs.sizes, scan.DivideFiles(inputs, split), scan.PORTIONS).collect()
    return [msgspec.json.decode(row.data, type=Portion) for row in rows]


def map_positions(spark: SparkSession, count: int, size: int | None, task: Any, schema: pa.Schema) -> DataFrame:
    """Return the rows that a task makes from positions in a list of captures of a total `size` in bytes; small captures share tasks."""
    return _map(spark.range(0, count, 1, min(count, task_count(spark, size or 0))), task, schema)


def task_count(spark: SparkSession, size: int) -> int:
    """Return the number of tasks for captures of a total size in bytes."""
    return max(size // TASK_BYTES, TASKS_PER_CORE * parallelism(spark))


def decode_packets(frame: DataFrame, options: Options, partitions: int | None) -> Records:
    """Return the records of a data frame of packets. An earlier pass collects findings about files, and secrets in them."""
    code = functions.get_json_object("finding", "$.code")
    lossy = functions.coalesce(functions.max(code.isin(*LOSS_CODES)), functions.lit(col=False)).alias("lossy")
    of_file = functions.max(functions.when(functions.length("flow") == 0, functions.col("source"))).alias("source")
    secrets = functions.when(functions.col("secrets").isNotNull(), functions.struct("packet", "secrets"))
    files = frame.groupBy("file").agg(of_file, lossy, functions.collect_list(secrets).alias("secrets")).collect()
    count = max((row.file for row in files), default=-1) + 1
    sources: list[str | None] = [None] * count
    for row in files:
        sources[row.file] = row.source
    inputs = Inputs([""] * count, None, [], sources if any(source is not None for source in sources) else [])
    logs: list[tuple[tuple[int, int], bytes]] = []
    for row in files:
        for packet, text in row.secrets:
            key_log = msgspec.json.decode(text, type=packets.KeyLog)
            inputs.paths[row.file] = key_log.path
            logs.append(((row.file, packet), key_log.log))
    options = with_secrets(inputs, options, sorted(logs))
    frame = frame.where("secrets is null").drop("secrets")
    if options.key_logs.findings:
        of_logs = pa.Table.from_batches([packets.finding_batch(options.key_logs.findings)]).drop_columns("secrets")
        frame = frame.unionByName(frame.sparkSession.createDataFrame(of_logs))
    job = Job(inputs, options, min((row.file for row in files if row.lossy), default=None))
    return Records(frame, job, partitions, by_packet=True)


class Records(Mapping[str, "DataFrame"]):
    """A data frame for each kind of record, from one pass over the packets; its result is persisted until `unpersist`."""

    def __init__(self, frame: DataFrame, job: Job, partitions: int | None = None, *, by_packet: bool = False) -> None:
        """Plan the pass over packed segments, or packets."""
        self._job = job
        decoded = _map(_sorted(frame, packed_segments.ORDER, 2, partitions), DecodeFlows(job, by_packet), shuffle_batches.SCHEMA)
        self._observation = Observation("pulsarscope")
        self._batches = decoded.observe(self._observation, *_metrics()).persist(StorageLevel.DISK_ONLY)
        self._persisted = [self._batches]
        if job.options.evaluates:
            self._persisted += _evaluated(self._batches, job)
            self._batches = self._batches.unionByName(self._persisted[-1])

    def __getitem__(self, kind: str) -> DataFrame:
        if kind not in self._job.options.records:
            raise KeyError(kind)
        return _map(of_kind(self._batches, kind), shuffle_batches.unpack, arrow_schema(kind))

    def count(self, kind: str) -> int:
        """Return the number of rows of a kind."""
        return of_kind(self._batches, kind).groupBy().sum("rows").collect()[0][0] or 0

    def metrics(self) -> dict[str, int | float]:
        """Return the counts of the decoding tasks, once they are done: packets, bytes, connections, the largest flow, the slowest task.

        Listeners of queries get them, too, under the name `pulsarscope`.
        """
        observed: dict[str, int | float] = self._observation.get
        return observed

    def outcome(self) -> tuple[list[shuffle_batches.TaskReport], list[TableFile]]:
        """Decode everything; return the reports of all tasks and the files that they wrote."""
        return outcome(self._batches)

    def unpersist(self) -> None:
        """Release the result of the pass."""
        for frame in self._persisted:
            frame.unpersist()

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._job.options.records))

    def __len__(self) -> int:
        return len(self._job.options.records)


def _metrics() -> list[Any]:
    """Return the aggregates over the reports of tasks."""
    report = functions.when(functions.col("kind") == shuffle_batches.REPORT, functions.col("data").cast("string"))

    def number(name: str, kind: str = "long") -> Any:
        return functions.get_json_object(report, f"$.{name}").cast(kind)

    sums = [functions.sum(number(name)).alias(name) for name in ("packets", "unrecognised", "bytes", "connections")]
    largest = functions.max(number("largest")).alias("largest_flow_bytes")
    return [*sums, largest, functions.max(number("seconds", "double")).alias("slowest_task_seconds")]


def _evaluated(decoded: DataFrame, job: Job) -> tuple[DataFrame, DataFrame]:
    """Return persisted packed batches of the findings about legs of paths, and of all findings of the rules across connections.

    Spark decides by the size of the facts how few tasks make them.
    """
    facts = _unpacked_facts(decoded)
    of_legs = facts.rule.endswith(OF_LEGS)
    legs = _joined(facts.where(of_legs), job).persist(StorageLevel.DISK_ONLY)
    inner = _unpacked_facts(legs).where("connection != ''").select("connection", functions.col("key").alias("outer"))
    facts = facts.where(~of_legs).drop("outer").join(functions.broadcast(inner), "connection", "left")
    facts = facts.select(*shuffle_batches.FACTS.names)
    findings = _map(_sorted(facts, shuffle_batches.FACT_ORDER, 2, None), EvaluateFacts(job), shuffle_batches.SCHEMA)
    return legs, findings.unionByName(legs).persist(StorageLevel.DISK_ONLY)


def _joined(anchors: DataFrame, job: Job) -> DataFrame:
    """Return packed batches of the findings about legs of paths, and of facts that name the inner legs."""
    shared = anchors.groupBy("rule", "key").agg(functions.count_distinct("connection").alias("connections"))
    anchors = anchors.join(shared.where("connections > 1"), ["rule", "key"], "left_semi")
    ordered = anchors.repartition(1).sortWithinPartitions(*shuffle_batches.FACT_ORDER[2:])
    return _map(ordered, JoinLegs(job), shuffle_batches.SCHEMA)


def outcome(batches: DataFrame) -> tuple[list[shuffle_batches.TaskReport], list[TableFile]]:
    """Return from packed batches the reports of all tasks and the files that they wrote."""
    chosen = batches.where(batches.kind.isin(shuffle_batches.REPORT, shuffle_batches.TABLE_FILE)).select("kind", "data")
    return shuffle_batches.outcome((row.kind, row.data) for row in chosen.collect())


def of_kind(batches: DataFrame, kind: str) -> DataFrame:
    """Return the packed batches of one kind."""
    return batches.where(batches.kind == kind)


def _unpacked_facts(batches: DataFrame) -> DataFrame:
    """Return the facts in packed batches."""
    return _map(of_kind(batches, shuffle_batches.FACT), shuffle_batches.unpack, shuffle_batches.FACTS)


def _sorted(frame: DataFrame, order: Sequence[str], key: int, partitions: int | None) -> DataFrame:
    """Return rows sorted by `order` within partitions. Rows that agree in the first `key` columns are in the same partition."""
    by = order[:key]
    shuffled = frame.repartition(*by) if partitions is None else frame.repartition(partitions, *by)
    return shuffled.sortWithinPartitions(*order)


def run_tasks(spark: SparkSession, count: int, task: Any) -> tuple[list[shuffle_batches.TaskReport], list[TableFile]]:
    """Run `count` tasks, and return their results."""
    return outcome(_map(spark.range(0, count, 1, count), task, shuffle_batches.SCHEMA))


def _map(frame: DataFrame, task: Any, schema: pa.Schema) -> DataFrame:
    function = task if isinstance(task, FunctionType) else task.__call__  # Spark inspects the signature
    return frame.mapInArrow(function, from_arrow_schema(schema))
