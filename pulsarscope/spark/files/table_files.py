"""Files of tables. The tasks that make the rows write them, and they are renamed when the run succeeds."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from itertools import count
from typing import Any, BinaryIO, cast
from uuid import uuid4

import msgspec
from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem

from pulsarscope.model.errors import OutputError, UsageError
from pulsarscope.model.row_lists import count_rows
from pulsarscope.output.export.arrow import RecordBatches
from pulsarscope.output.export.ndjson import JsonLines
from pulsarscope.output.export.parquet import ParquetFile
from pulsarscope.output.export.sink import Sink, write_errors
from pulsarscope.spark.files.partition_columns import by_folder
from pulsarscope.spark.files.remote_files import system_at

UNFINISHED = "_"
"""Prefix of the names of unfinished files, which readers of tables ignore."""

SUFFIXES = {"parquet": "parquet", "json": "ndjson"}
"""Suffix of the files by format."""

OPEN_FILES_MAX = 16
"""Most open files of a task: each holds rows in memory."""


class TableFile(msgspec.Struct):
    """A file of a table."""

    kind: str
    name: str
    """Name of the unfinished file, below the folder of its kind."""
    rows: int


def locate(out: str) -> tuple[FileSystem, str]:
    """Return the file system and the path of a local folder or a URI. Raises OutputError when the URI has no known file system."""
    with write_errors(out):
        return system_at(out) if "://" in out else (LocalFileSystem(), out)


def sync(system: FileSystem, path: str) -> None:
    """Force a local file, or the names in a local folder, to disk; remote file systems do so themselves."""
    if isinstance(system, LocalFileSystem):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def locked(path: str) -> Iterator[None]:
    """Lock a local folder, if its file system has locks. Raises UsageError when another process has locked it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"{path} is in use by a run that has not ended") from None
        except OSError:
            pass  # this file system has no locks
        yield
    finally:
        os.close(descriptor)


@contextmanager
def written_alone(out: str, *, anew: bool) -> Iterator[None]:
    """Keep other runs and compactions away from a local folder of tables, which is created unless it exists.

    With `anew`, the folder must be empty, now that no other run writes to it. Raises OutputError or UsageError.
    """
    make_folder(out)
    with nullcontext() if "://" in out else locked(out):
        if anew:
            require_empty(out)
        yield


def require_empty(out: str) -> None:
    """Raise OutputError when the folder is not empty or cannot be read."""
    with write_errors(out):
        system, path = locate(out)
        kind = system.get_file_info(path).type
        full = kind == FileType.File or (kind == FileType.Directory and bool(system.get_file_info(FileSelector(path))))
    if full:
        raise OutputError(f"cannot write {out}: it exists and is not an empty folder")


def make_folder(out: str) -> None:
    """Create a folder unless it exists. Raises OutputError."""
    with write_errors(out):
        system, path = locate(out)
        system.create_dir(path)


class TableWriter:
    """A writer of the files of one task: one for each kind with rows, and for each value of partition columns."""

    def __init__(self, out: str, table_format: str, kinds: tuple[str, ...], partition_by: tuple[str, ...] = ()) -> None:
        self._partition_by = partition_by
        self._finished: list[TableFile] = []
        self._system, self._path = locate(out)
        self._format = table_format
        self._lines = JsonLines(kinds, None)
        self._writers: dict[tuple[str, str], _Writer] = {}

    def put(self, kind: str, rows: list[Any]) -> None:
        """Write rows of one kind."""
        for folder, of_folder in by_folder(rows, self._partition_by).items() if self._partition_by else (("", rows),):
            writer = self._writers.pop((kind, folder), None) or self._open(kind, folder)
            self._writers[kind, folder] = writer  # now the most recently used one
            writer.file.rows += count_rows(of_folder)
            writer.encoder.put(of_folder)

    def _open(self, kind: str, folder: str) -> _Writer:
        if len(self._writers) >= OPEN_FILES_MAX:
            self._close(next(iter(self._writers)))
        place = f"{self._path}/{kind}/{folder}".rstrip("/")
        self._system.create_dir(place)
        name = f"{folder}{UNFINISHED}{uuid4().hex}.{SUFFIXES[self._format]}"
        with write_errors(place):
            stream = cast("BinaryIO", self._system.open_output_stream(f"{self._path}/{kind}/{name}"))
        sink = Sink(stream, place)
        encoder = _Parquet(kind, sink, self._partition_by) if self._format == "parquet" else _Lines(self._lines, sink)
        return _Writer(encoder, sink, TableFile(kind, name, 0))

    def _close(self, key: tuple[str, str]) -> None:
        writer = self._writers[key]
        writer.encoder.close()
        with write_errors(writer.sink.name):
            writer.sink.file.close()
        self._finished.append(self._writers.pop(key).file)

    def finish(self) -> list[TableFile]:
        """Complete the files, and return them."""
        for key in [*self._writers]:
            self._close(key)
        return self._finished

    def abandon(self) -> None:
        """Remove the files, as far as possible."""
        for writer in self._writers.values():
            with suppress(OSError):
                writer.sink.file.close()
        for file in [*self._finished, *(writer.file for writer in self._writers.values())]:
            with suppress(OSError):
                self._system.delete_file(f"{self._path}/{file.kind}/{file.name}")


class _Writer(msgspec.Struct):
    encoder: Any
    sink: Sink
    file: TableFile


class _Parquet:
    def __init__(self, kind: str, sink: Sink, partition_by: tuple[str, ...]) -> None:
        names = RecordBatches(kind).schema.names
        self._batches = RecordBatches(kind, [name for name in names if name not in partition_by])
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
        """Do nothing: all lines are written."""


def finish_tables(out: str, files: list[TableFile], kinds: tuple[str, ...]) -> None:
    """Rename the files of a run, and remove files of failed attempts."""
    finish_files(out, final_names(files), kinds)
    system, path = locate(out)
    with write_errors(out), system.open_output_stream(f"{path}/_SUCCESS"):
        pass


Names = list[tuple[str, str, str]]
"""Kind, unfinished name and final name of each file, below the folder of its kind."""


def final_names(files: list[TableFile], batch: str = "") -> Names:
    """Return the final names of files: numbered by kind, after a prefix for the batch of a stream."""
    counts: dict[str, Iterator[int]] = {}
    numbered = [(file, next(counts.setdefault(file.kind, count()))) for file in files]
    named = [(file, *file.name.rpartition("/")[:2], f"part-{batch}{number:05}.{file.name.rpartition('.')[2]}") for file, number in numbered]
    return [(file.kind, file.name, f"{folder}{slash}{final}") for file, folder, slash, final in named]


def sync_files(out: str, names: Names) -> None:
    """Force unfinished files to disk before a commit names them."""
    system, path = locate(out)
    with write_errors(out):
        for kind, name, _ in names:
            sync(system, f"{path}/{kind}/{name}")
        for folder in sorted({f"{path}/{kind}/{name}".rpartition("/")[0] for kind, name, _ in names}):
            sync(system, folder)


def finish_files(out: str, names: Names, kinds: tuple[str, ...], *, again: bool = False) -> None:
    """Rename files to their final names, and remove those of failed attempts. With `again`, some may already be renamed or removed."""
    system, path = locate(out)
    with write_errors(out):
        for kind in kinds:
            folder = f"{path}/{kind}"
            system.create_dir(folder)
            entries = system.get_file_info(FileSelector(folder, recursive=True))
            existing = {entry.path.removeprefix(folder).lstrip("/") for entry in entries if entry.is_file}
            for name, final in [(name, final) for file_kind, name, final in names if file_kind == kind]:
                if name in existing or not again:
                    system.move(f"{folder}/{name}", f"{folder}/{final}")
                    existing.discard(name)
            for name in existing:
                if name.rpartition("/")[2].startswith(UNFINISHED):
                    system.delete_file(f"{folder}/{name}")
            for each in [folder, *(entry.path for entry in entries if not entry.is_file)]:
                sync(system, each)
