"""Compaction: the small files of tables in a folder become a few large ones, with rows sorted by time, while others read them.

New files are written in a folder beside the table. Then both folders are exchanged in one step of the file system. So a reader that lists
the folder sees either all old files or all new ones, even if this process is killed.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
import stat
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, cast
from uuid import uuid4

import msgspec
import pyarrow as pa
from pyarrow import parquet
from pyarrow.fs import LocalFileSystem
from pyspark.sql.pandas.types import from_arrow_schema

from pulsarscope.model.errors import OutputError
from pulsarscope.model.records import ROWS
from pulsarscope.output.export.arrow import arrow_schema
from pulsarscope.output.export.parquet import ParquetFile
from pulsarscope.output.export.sink import Sink, write_errors
from pulsarscope.spark.files.partition_columns import columns_of
from pulsarscope.spark.files.table_files import UNFINISHED, locked, sync
from pulsarscope.spark.rows.record_batch import to_record_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TARGET_BYTES = 128 << 20
"""Approximate size of the new files."""

ORDER = ("time", "file", "packet", "sub")

_BESIDE = f"{UNFINISHED}compact-"
"""Prefix of the name of the folder of new files (after the exchange, of old ones), which readers of tables ignore."""

_LISTED_SECONDS = 2.0
"""Time until old files are removed, for readers that open their folder before the exchange and list it afterwards."""

_MADE = "part-c"
"""Prefix of the names of the new files."""

_REPORT: list[pa.Field[pa.DataType]] = [pa.field("name", pa.string()), pa.field("rows", pa.int64())]

REPORTS = pa.schema(_REPORT)
"""A row per new file."""


class Compacted(msgspec.Struct):
    """The result of compacting a table."""

    name: str
    """Path of the table, or of one of its partitions, in the folder of the tables."""
    files_before: int
    bytes_before: int
    files: int
    bytes: int


def tables_in(out: str) -> list[Path]:
    """Return the table folders in a folder, one for each kind. Raises OutputError when they cannot be compacted."""
    if "://" in out:
        raise OutputError(f"cannot compact {out}: an object store cannot exchange folders; use --format delta there, and its OPTIMIZE")
    root = Path(out).resolve()
    tables = [root / kind for kind in sorted(ROWS) if any((root / kind).rglob("*.parquet"))]
    if not tables:
        raise OutputError(f"cannot compact {out}: it has no Parquet tables")
    for table in tables:
        if table.is_symlink():
            raise OutputError(f"cannot compact {table}: it is a link to a folder")
        if (table / "_spark_metadata").exists():
            raise OutputError(f"cannot compact {table}: a Spark query keeps a list of its files")
    return tables


class _Table(msgspec.Struct):
    """The files of a table: small ones, which are replaced, and others, which stay."""

    kind: str
    name: str
    folder: Path
    small: list[Path]
    others: list[Path]
    """Large files, and unfinished files of a batch in progress."""

    @property
    def finished(self) -> list[Path]:
        return [*self.small, *(path for path in self.others if not path.name.startswith(UNFINISHED))]


def compact(
    spark: SparkSession, out: str, target: int = TARGET_BYTES, show_step: Callable[[str], None] = lambda _: None
) -> list[Compacted]:
    """Compact the tables in a folder; return those that were changed.

    Raises OutputError when there are no Parquet tables or the file system cannot exchange two folders, UsageError when a run writes to
    them.
    """
    tables = tables_in(out)
    root = tables[0].parent
    changed: list[Compacted] = []
    with locked(str(root)), write_errors(out):
        for left in root.glob(f"{_BESIDE}*"):  # left by a killed process
            shutil.rmtree(left)
        with _removal() as remove_later:
            for table in (_look(root, kind.name, folder, target) for kind in tables for folder in _with_files(kind)):
                rows = sum(parquet.read_metadata(path).num_rows for path in table.small)
                if rows and (len(table.small) > 1 or not table.small[0].name.startswith(_MADE)):
                    show_step(f"compacting {table.name}")
                    beside = root / f"{_BESIDE}{table.kind}-{len(changed)}"
                    try:
                        changed.append(_compact(spark, table, beside, rows, target))
                    except (Exception, KeyboardInterrupt):
                        shutil.rmtree(beside, ignore_errors=True)
                        raise
                    remove_later(beside)
    return changed


@contextmanager
def _removal() -> Iterator[Callable[[Path], None]]:
    """Yield a function that takes folders of old files; they are removed when readers that opened them have listed them."""
    waiting: deque[tuple[float, Path]] = deque()

    def remove(now: float) -> None:
        while waiting and waiting[0][0] <= now:
            shutil.rmtree(waiting.popleft()[1])

    def remove_later(folder: Path) -> None:
        now = time.monotonic()
        remove(now)
        waiting.append((now + _LISTED_SECONDS, folder))

    try:
        yield remove_later
    finally:
        if waiting:
            time.sleep(max(waiting[-1][0] - time.monotonic(), 0))
        remove(inf)


def _with_files(table: Path) -> list[Path]:
    """Return the folders with files of a table: its own, or those of its partitions."""
    return sorted({path.parent for path in table.rglob("*.parquet")})


def _look(root: Path, kind: str, folder: Path, target: int) -> _Table:
    table = _Table(kind, folder.relative_to(root).as_posix(), folder, [], [])
    for path in sorted(folder.iterdir()):
        is_small = not path.name.startswith(_MADE) or path.stat().st_size < target // 2
        (table.small if is_small and path.suffix == ".parquet" and not path.name.startswith(UNFINISHED) else table.others).append(path)
    return table


def _compact(spark: SparkSession, table: _Table, beside: Path, rows: int, target: int) -> Compacted:
    beside.mkdir()
    _give_access(beside, table.folder)
    size = sum(path.stat().st_size for path in table.small)
    schema = merged_schema(table.kind, table.small, columns_of(table.name))
    frame = spark.read.schema(from_arrow_schema(schema)).parquet(*map(_spark_path, table.small))
    count = max(1, round(size / target))
    ranges = frame.repartitionByRange(count, *ORDER) if count > 1 else frame.repartition(1)
    task = WriteSorted(table.kind, schema, str(beside))
    made = ranges.sortWithinPartitions(*ORDER).mapInArrow(task.__call__, from_arrow_schema(REPORTS)).collect()
    if sum(row.rows for row in made) != rows:
        raise OutputError(f"cannot compact {table.folder}: its files changed meanwhile")
    names = [row.name for row in made]
    for path in beside.iterdir():  # left by failed attempts
        if path.name not in names:
            path.unlink()
    for number, name in enumerate(names):
        final = beside / f"{_MADE}{uuid4().hex[:8]}-{number:05}.parquet"
        (beside / name).rename(final)
        _give_access(final, table.small[0])
        sync(LocalFileSystem(), str(final))
    for path in table.others:
        (beside / path.name).hardlink_to(path)
    finished = table.finished
    before = sum(path.stat().st_size for path in finished)
    after = [path for path in beside.iterdir() if not path.name.startswith(UNFINISHED)]
    done = Compacted(table.name, len(finished), before, len(after), sum(path.stat().st_size for path in after))
    sync(LocalFileSystem(), str(beside))
    exchange(table.folder, beside)
    sync(LocalFileSystem(), str(table.folder.parent))
    return done


def _give_access(path: Path, model: Path) -> None:
    """Give a path the mode and (if permitted) the owner of the path that it replaces."""
    status = model.stat()
    with suppress(PermissionError):
        os.chown(path, status.st_uid, status.st_gid)
    path.chmod(stat.S_IMODE(status.st_mode))


def _spark_path(path: Path) -> str:
    """Return a path in the form for Spark, which takes it as an unquoted pattern."""
    return "file://" + re.sub(r"([][{}*?\\])", r"\\\1", str(path))


def merged_schema(kind: str, paths: Sequence[Path], partition_by: Sequence[str] = ()) -> pa.Schema:
    """Return the columns of this version except partition columns, followed by those that only files of other versions have.

    Raises OutputError when a file has a column of another type.
    """
    schema = arrow_schema(kind, [name for name in arrow_schema(kind).names if name not in partition_by])
    for path in paths:
        for field in parquet.read_schema(path):
            at = schema.get_field_index(field.name)
            if at < 0:
                schema = schema.append(field)
            elif not schema.field(at).type.equals(field.type):
                raise OutputError(f"cannot compact {path}: its column {field.name} is {field.type}, not {schema.field(at).type}")
    return schema


class WriteSorted(msgspec.Struct, frozen=True):
    """A task from ordered rows to a file in a folder."""

    kind: str
    schema: pa.Schema
    folder: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the rows; yield the name of the file and the number of rows, or nothing if there are no rows."""
        path = Path(self.folder, f"{UNFINISHED}{uuid4().hex}.parquet")
        rows, file = 0, None
        with write_errors(str(path)), path.open("wb") as stream:
            for batch in batches:
                if batch.num_rows:
                    file = file or ParquetFile(self.kind, self.schema, Sink(stream, str(path)))
                    file.put(batch.cast(self.schema))
                    rows += batch.num_rows
            if file is not None:
                file.close()
        if rows:
            yield to_record_batch([(path.name, rows)], REPORTS)
        else:
            path.unlink()


def exchange(one: Path, other: Path) -> None:
    """Exchange the names of two folders in one step. Raises OutputError when the file system cannot do so."""
    failure = os.strerror(errno.EOPNOTSUPP)
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None, use_errno=True)
        paths = os.fsencode(one), os.fsencode(other)
        if sys.platform == "darwin":
            result = library.renamex_np(*paths, 2)  # RENAME_SWAP
        else:
            here = ctypes.c_int(-100)  # AT_FDCWD
            result = library.renameat2(here, paths[0], here, paths[1], ctypes.c_uint(2))  # RENAME_EXCHANGE
        if cast("int", result) == 0:
            return
        failure = os.strerror(ctypes.get_errno())
    raise OutputError(f"cannot compact {one}: its file system cannot exchange folders ({failure})")
