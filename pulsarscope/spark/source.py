"""The data source `pulsarscope`: packets of captures as a data frame, a row each."""

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


class CaptureDataSource(DataSource):  # type: ignore[misc]  # nothing is known of pyspark
    """`spark.read.format("pulsarscope").load(path)`; option `sourceBy` as --source-by. Several paths are given as `paths`, a JSON list."""

    @classmethod
    def name(cls) -> str:
        """What `format` takes."""
        return "pulsarscope"

    def schema(self) -> Any:
        """One column table for all."""
        return spark_schema(packets.SCHEMA)

    def reader(self, schema: Any) -> DataSourceReader:  # noqa: ARG002 - the only one there is
        """Reads all files of the paths."""
        return CaptureDataReader(inputs_of(dict(self.options)))


class FilePartition(InputPartition):  # type: ignore[misc]
    """One file, by its position."""


class CaptureDataReader(DataSourceReader):  # type: ignore[misc]
    """A task for each file."""

    def __init__(self, inputs: Inputs) -> None:
        self._files = ReadFiles(inputs, [Portion(file) for file in range(len(inputs.paths))], packets=True)

    def partitions(self) -> list[InputPartition]:
        """The files in their order."""
        return [FilePartition(portion.file) for portion in self._files.portions]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The packets of a file, and what is odd about it."""
        return self._files.read_portion(self._files.portions[partition.value])


def inputs_of(options: dict[str, str]) -> Inputs:
    """The captures that the options of a reader name.

    Raises:
        UsageError: they name none. CaptureError: none of them is a capture.
    """
    given = {name.lower(): value for name, value in options.items()}
    paths = msgspec.json.decode(given["paths"], type=list[str]) if "paths" in given else []
    paths += [given["path"]] if "path" in given else []
    if not paths:
        message = 'no capture given: spark.read.format("pulsarscope").load("captures/")'
        raise UsageError(message)
    return expand_inputs(paths, given.get("sourceby", "none"), list_files, open_path)
