"""The data source `pulsarscope`: a data frame with a row for each packet of captures, or for each decoded record of a kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema

from pulsarscope.capture import Inputs, Portion
from pulsarscope.output.export.arrow import arrow_schema
from pulsarscope.spark.data_source.indexed_source import FilteredIndexedReader, IndexedRecordReader, usable_index
from pulsarscope.spark.data_source.record_source import FilteredRecordReader, RecordSourceReader
from pulsarscope.spark.data_source.source_options import PACKET, SourceOptions, known_columns, source_options, table_options
from pulsarscope.spark.data_source.stream_source import stream_reader
from pulsarscope.spark.rows import packets, shuffle_batches
from pulsarscope.spark.tasks.partition import Job, ReadFiles

if TYPE_CHECKING:
    import pyarrow as pa


_METADATA = "pulsarscope"
"""Key in the metadata of a table's first column, for its options: Spark passes these to `schema` only when the table is created."""


TABLES = "pulsarscope-tables"
"""Name of the data source for packed batches."""


class CaptureDataSource(DataSource):  # type: ignore[misc]  # pyspark is untyped here
    """The data source of `spark.read.format("pulsarscope").load(path)` and of tables USING pulsarscope."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `spark.read.format`."""
        return "pulsarscope"

    def schema(self) -> Any:
        """Return the columns of packets, or of a kind of records. Raises UsageError when an option is invalid."""
        options = dict(self.options)
        of_table = table_options(options)
        checked = source_options(options if of_table is None else of_table)
        schema = from_arrow_schema(packets.SCHEMA if checked.kind == PACKET else arrow_schema(checked.kind, checked.columns))
        if of_table is not None:
            schema.fields[0].metadata = {_METADATA: msgspec.json.encode(of_table).decode()}
        return schema

    def reader(self, schema: Any) -> DataSourceReader:
        """Return a reader of all files at the paths."""
        options = {**_kept_options(schema), **self.options}
        checked = source_options(options)
        checked.refuse_stream_options()
        inputs = checked.expand()
        if checked.kind == PACKET:
            return CaptureDataReader(inputs, checked.reads(inputs))
        columns = known_columns(checked.kind, tuple(schema.names))
        if (index := usable_index(checked, inputs)) is not None:
            return (FilteredIndexedReader if checked.pushdown else IndexedRecordReader)(checked, inputs, columns, index)
        return (FilteredRecordReader if checked.pushdown else RecordSourceReader)(checked, inputs, columns)

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802 - Spark calls it so
        """Return a reader of the captures that land in a folder."""
        checked = source_options({**_kept_options(schema), **self.options})
        checked.refuse_read_options()
        columns = () if checked.kind == PACKET else known_columns(checked.kind, tuple(schema.names))
        return stream_reader(checked, columns)


def table_source(options: SourceOptions, job: Job) -> type[DataSource]:
    """Return a data source of packed batches: a stream of the results of a job over the captures in a list."""

    class TableDataSource(DataSource):  # type: ignore[misc]
        """A data source for one query."""

        @classmethod
        def name(cls) -> str:
            return TABLES

        def schema(self) -> Any:
            return from_arrow_schema(shuffle_batches.SCHEMA)

        def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark calls it so
            return stream_reader(options, (), job)

    return TableDataSource


def _kept_options(schema: Any) -> dict[str, str]:
    """Return the options with which a table was created, from its schema."""
    texts = (field.metadata.get(_METADATA) for field in schema.fields if field.metadata)
    return next((msgspec.json.decode(text, type=dict[str, str]) for text in texts if text), {})


class FilePartition(InputPartition):  # type: ignore[misc]
    """A partition of one file, by its position among the files to read."""


class CaptureDataReader(DataSourceReader):  # type: ignore[misc]
    """A reader with one task for each file."""

    def __init__(self, inputs: Inputs, reads: Sequence[tuple[bool, int]] | None = None) -> None:
        """Read all captures, or those that `SourceOptions.reads` names."""
        files = [file for file in range(len(inputs.paths)) if reads is None or reads[file][0]]
        self._files = ReadFiles(inputs, [Portion(file) for file in files], packets=True)

    def partitions(self) -> list[InputPartition]:
        """Return the files in order."""
        return [FilePartition(number) for number in range(len(self._files.portions))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the packets of a file and the findings about it."""
        return self._files.read_portion(self._files.portions[partition.value])
