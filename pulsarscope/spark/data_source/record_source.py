"""A reader of decoded records, one kind at a time: `spark.read.format("pulsarscope").option("records", "frame")`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from pulsarscope.capture import Inputs
from pulsarscope.engine.local import Run
from pulsarscope.engine.options import Options
from pulsarscope.filter import Filter
from pulsarscope.model.limits import ROWS_MAX
from pulsarscope.model.records import ConnectionRow, MessageRow
from pulsarscope.model.row_lists import count_rows
from pulsarscope.output.export.arrow import RecordBatches
from pulsarscope.spark.data_source.source_options import ACROSS_CONNECTIONS, SourceOptions
from pulsarscope.spark.rows.row_filters import RowFilters
from pulsarscope.spark.sessions.task_process import prepare_process
from pulsarscope.spark.tasks.flow_shares import FlowShare, KeptFlows, Wanted, capture_sets, shares_of

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter as SparkFilter

    from pulsarscope.index.run import IndexRun


class SharePartition(InputPartition):  # type: ignore[misc]  # pyspark is untyped here
    """A partition with a share of the connections."""


class RecordSourceReader(DataSourceReader):  # type: ignore[misc]
    """A reader with one task for each share of the connections."""

    def __init__(self, options: SourceOptions, inputs: Inputs, columns: Sequence[str]) -> None:
        """Prepare to read; `columns`: columns of the table."""
        self._options = options
        self._inputs = inputs
        self._columns = tuple(columns)
        self._filters = self._understood(())
        reads = options.reads(inputs)
        self._in_window = None if reads is None else [is_read for is_read, _ in reads]

    def _understood(self, filters: Sequence[SparkFilter]) -> RowFilters:
        return RowFilters(self._options.kind, RecordBatches(self._options.kind, self._columns).schema, filters)

    def partitions(self) -> list[InputPartition]:
        """Return the shares, except those without any row that can pass the filters."""
        inputs = self._inputs
        sets = capture_sets(inputs)
        if self._options.kind in ACROSS_CONNECTIONS:
            return [SharePartition(FlowShare(0, len(inputs.paths)))]
        files = self._passing_files()
        sets = [(first, end) for first, end in sets if any(files[first:end])]
        if len(sets) > 1:  # files then determine vantage points
            sources = self._filters.passing("source", [inputs.source(first) for first, _ in sets], pa.string())
            sets = [each for each, passes in zip(sets, sources, strict=True) if passes]
        return [SharePartition(share) for share in shares_of(inputs, sets, self._options.partitions)]

    def _passing_files(self) -> list[bool]:
        passing = self._filters.passing("file", range(len(self._inputs.paths)), pa.int64())
        return (
            passing if self._in_window is None else [passes and is_read for passes, is_read in zip(passing, self._in_window, strict=True)]
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a share."""
        return iter(()) if partition.value is None else self._batches(partition.value)

    def _batches(self, share: Any) -> Iterator[pa.RecordBatch]:
        prepare_process()
        options, filters = self._options, self._filters
        display_filter = options.make_filter()
        engine_options = options.engine
        if options.kind == MessageRow.kind:
            columns = tuple(dict.fromkeys([*self._columns, *filters.names]))
            whole = display_filter is not None or columns == tuple(RecordBatches(options.kind).schema.names)
            engine_options = msgspec.structs.replace(
                engine_options,
                payload=options.engine.payload if display_filter is None else display_filter.payload,
                message_columns=None if whole else columns,
                together=not filters and display_filter is None,
            )
        run = self._run(share, engine_options)
        if display_filter is not None:
            display_filter.begin(run)
        made = RecordBatches(options.kind, self._columns)
        waiting: list[Any] = []
        for rows in _selected(run, options, display_filter, filters):
            waiting += rows
            if engine_options.payload is not None or count_rows(waiting) >= ROWS_MAX:
                yield made.batch(waiting)
                waiting = []
        if waiting:
            yield made.batch(waiting)

    def _run(self, share: Any, options: Options) -> Run | IndexRun:
        """Return the run over a share."""
        return Run(self._inputs, options, self._flows(share).read)

    def _flows(self, share: FlowShare) -> KeptFlows:
        """Return the flows of a share that may have a row that passes the filters."""
        filters, wanted = self._filters, Wanted()
        if self._options.kind == ConnectionRow.kind:
            wanted = Wanted(filters.one_of("client"), filters.one_of("server"))
        noted = self._options.times_location if share.number == 0 else ""
        flows = KeptFlows(self._inputs, share, wanted, self._in_window, noted)
        files = self._passing_files()
        is_timed = "time" in filters.names
        if self._options.kind not in ACROSS_CONNECTIONS and (is_timed or not all(files)):
            flows.choose(files, (lambda times: filters.passing("time", times, pa.int64())) if is_timed else None)
        return flows


class FilteredRecordReader(RecordSourceReader):
    """A reader that takes filters from Spark, if `spark.sql.python.filterPushdown.enabled` allows it."""

    def pushFilters(self, filters: list[SparkFilter]) -> list[SparkFilter]:  # noqa: N802 - Spark calls it so
        """Take the filters that are understood, and return all filters: Spark evaluates them, too."""
        self._filters = self._understood(filters)
        return filters


def _selected(run: Run | IndexRun, options: SourceOptions, display_filter: Filter | None, filters: RowFilters) -> Iterator[Sequence[Any]]:
    for batch in run:
        if selected := filters.select(options.selected(display_filter, batch.rows, run.endpoints)):
            yield selected
