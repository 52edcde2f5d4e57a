"""Data source `pulsarscope`: a data frame with a row for each packet of captures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from pulsarscope.capture import Inputs, Portion, expand_inputs
from pulsarscope.model.errors import UsageError
from pulsarscope.spark import packets
from pulsarscope.spark.partition import ReadFiles
from pulsarscope.spark.remote_files import list_files, open_path
from pulsarscope.spark.tables import spark_schema

if TYPE_CHECKING:
    import pyarrow as pa


class CaptureDataSource(DataSource):  # type: ignore[misc]  # pyspark is untyped here
    """Data source of `spark.read.format("pulsarscope").load(path)`.

    The option `sourceBy` is as --source-by; the option `paths` is a JSON list of several paths.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for `spark.read.format`."""
        return "pulsarscope"

    def schema(self) -> Any:
        """Return the columns of a packet."""
        return spark_schema(packets.SCHEMA)

    def reader(self, schema: Any) -> DataSourceReader:  # noqa: ARG002 - it is always the same
        """Return a reader of all files of the paths."""
        return CaptureDataReader(inputs_of(dict(self.options)))


class FilePartition(InputPartition):  # type: ignore[misc]
    """Partition of one file, by its position."""


class CaptureDataReader(DataSourceReader):  # type: ignore[misc]
    """Reader with a task for each file."""

    def __init__(self, inputs: Inputs) -> None:
        self._files = ReadFiles(inputs, [Portion(file) for file in range(len(inputs.paths))], packets=True)

    def partitions(self) -> list[InputPartition]:
        """Return the files in order."""
        return [FilePartition(portion.file) for portion in self._files.portions]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the packets of a file and the findings about it."""
        return self._files.read_portion(self._files.portions[partition.value])


def inputs_of(options: dict[str, str]) -> Inputs:
    """Return the captures of a reader's options. Raises UsageError without a path, CaptureError when none leads to a capture."""
    lowered = {name.lower(): value for name, value in options.items()}
    paths = msgspec.json.decode(lowered["paths"], type=list[str]) if "paths" in lowered else []
    paths += [lowered["path"]] if "path" in lowered else []
    if not paths:
        raise UsageError('no capture given: spark.read.format("pulsarscope").load("captures/")')
    return expand_inputs(paths, lowered.get("sourceby", "none"), list_files, open_path)
