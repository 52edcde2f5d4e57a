"""The files of a table, written where the rows are made. They take their names when the whole run is done."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from typing import Any, BinaryIO, cast
from uuid import uuid4

import msgspec
from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem

from pulsarscope.model.errors import OutputError
from pulsarscope.model.records import count_rows
from pulsarscope.output.export.arrow import RecordBatches
from pulsarscope.output.export.ndjson import JsonLines
from pulsarscope.output.export.parquet import ParquetFile
from pulsarscope.output.export.sink import Sink, write_errors
from pulsarscope.spark.remote_files import system_at

UNFINISHED = "_"
"""What the names of files begin with that no reader of a table looks at."""

SUFFIXES = {"parquet": "parquet", "json": "ndjson"}
"""Formats that are written so, and how their files are called."""


class TableFile(msgspec.Struct):
    """One file of a table."""

    kind: str
    name: str
    """As long as it is not finished."""
    rows: int


def locate(out: str) -> tuple[FileSystem, str]:
    """The file system and the path of a folder on this machine, or at a URI (hdfs://, s3://, gs://).

    Raises:
        OutputError: no file system is known for the URI.
    """
    with write_errors(out):
        return system_at(out) if "://" in out else (LocalFileSystem(), out)


def sync(system: FileSystem, path: str) -> None:
    """Have a file, or the names in a folder, outlast the machine. What is not on this one is kept by who keeps it."""
    if isinstance(system, LocalFileSystem):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def require_empty(out: str) -> None:
    """Raise OutputError when something is at this place already, or it cannot be looked at."""
    with write_errors(out):
        system, path = locate(out)
        kind = system.get_file_info(path).type
        full = kind == FileType.File or (kind == FileType.Directory and bool(system.get_file_info(FileSelector(path))))
    if full:
        message = f"cannot write {out}: it is there already and not an empty folder"
        raise OutputError(message)


def make_folder(out: str) -> None:
    """Make a folder, unless it is there. Raises OutputError."""
    with write_errors(out):
        system, path = locate(out)
        system.create_dir(path)


class TableWriter:
    """The files that one task writes: one for each kind of which it has rows."""

    def __init__(self, out: str, table_format: str, kinds: tuple[str, ...]) -> None:
        self._system, self._path = locate(out)
        self._format = table_format
        self._lines = JsonLines(kinds, None)
        self._writers: dict[str, _Writer] = {}
        self._name = uuid4().hex

    def put(self, kind: str, rows: list[Any]) -> None:
        """Some rows of one kind; they are handed over."""
        writer = self._writers.get(kind)
        if writer is None:
            folder = f"{self._path}/{kind}"
            self._system.create_dir(folder)
            name = f"{UNFINISHED}{self._name}.{SUFFIXES[self._format]}"
            with write_errors(folder):
                stream = cast("BinaryIO", self._system.open_output_stream(f"{folder}/{name}"))
            sink = Sink(stream, folder)
            made = _Parquet(kind, sink) if self._format == "parquet" else _Lines(self._lines, sink)
            writer = self._writers[kind] = _Writer(made, sink, TableFile(kind, name, 0))
        writer.part.rows += count_rows(rows)
        writer.made.put(rows)

    def finish(self) -> list[TableFile]:
        """The files are whole."""
        for writer in self._writers.values():
            writer.made.close()
            with write_errors(writer.sink.name):
                writer.sink.file.close()
        return [writer.part for writer in self._writers.values()]

    def abandon(self) -> None:
        """Leave nothing behind, as far as that is possible."""
        for writer in self._writers.values():
            with suppress(OSError):
                writer.sink.file.close()
            with suppress(OSError):
                self._system.delete_file(f"{self._path}/{writer.part.kind}/{writer.part.name}")


class _Writer(msgspec.Struct):
    made: Any
    sink: Sink
    part: TableFile


class _Parquet:
    def __init__(self, kind: str, sink: Sink) -> None:
        self._batches = RecordBatches(kind)
        self._file = ParquetFile(kind, self._batches.schema, sink)

    def put(self, rows: list[Any]) -> None:
        self._file.put(self._batches.batch(rows))

    def close(self) -> None:
        self._file.close()


class _Lines:
    def __init__(self, lines: JsonLines, sink: Sink) -> None:
        self._lines = lines
        self._sink = sink

    def put(self, rows: list[Any]) -> None:
        self._sink.write(self._lines.encode(rows))

    def close(self) -> None:
        """All is written."""


def finish_tables(out: str, parts: list[TableFile], kinds: tuple[str, ...]) -> None:
    """Give the files of a run their names, and remove what attempts that failed have left."""
    finish_files(out, final_names(parts), kinds)
    system, path = locate(out)
    with write_errors(out), system.open_output_stream(f"{path}/_SUCCESS"):
        pass


Names = list[tuple[str, str, str]]
"""Kind, name as long as it is not finished, and the name of each file."""


def final_names(parts: list[TableFile], batch: str = "") -> Names:
    """The names that files are to have: counted for each kind, behind that of the batch of a stream."""
    counts: dict[str, Iterator[int]] = {}
    numbered = [(part, next(counts.setdefault(part.kind, count()))) for part in parts]
    return [(part.kind, part.name, f"part-{batch}{number:05}.{part.name.rpartition('.')[2]}") for part, number in numbered]


def sync_files(out: str, names: Names) -> None:
    """Have files outlast the machine, as long as they are not finished: it is about to be said that they are there."""
    system, path = locate(out)
    with write_errors(out):
        for kind, name, _ in names:
            sync(system, f"{path}/{kind}/{name}")
        for kind in sorted({kind for kind, _, _ in names}):
            sync(system, f"{path}/{kind}")


def finish_files(out: str, names: Names, kinds: tuple[str, ...], *, again: bool = False) -> None:
    """Give files their names, and remove what attempts that failed have left.

    `again`: they may have them already, and may have been taken away since.
    """
    system, path = locate(out)
    with write_errors(out):
        for kind in kinds:
            folder = f"{path}/{kind}"
            system.create_dir(folder)
            there = {one.base_name for one in system.get_file_info(FileSelector(folder))}
            for name, final in [(name, final) for its_kind, name, final in names if its_kind == kind]:
                if name in there or not again:
                    system.move(f"{folder}/{name}", f"{folder}/{final}")
                    there.discard(name)
            for left in there:
                if left.startswith(UNFINISHED):
                    system.delete_file(f"{folder}/{left}")
            sync(system, folder)
