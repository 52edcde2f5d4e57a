"""Compaction of tables during reads, and with killed runs."""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from pulsarscope.capture import expand_inputs
from pulsarscope.model.errors import OutputError, UsageError
from pulsarscope.output.export.arrow import arrow_schema
from pulsarscope.spark.files.table_files import locked
from tests.places import TESTS
from tests.scenarios.options import Options
from tests.spark.inside import SOURCE_PER_FILE, local, texts

module = pytest.importorskip("pulsarscope.spark.jobs.compaction", reason="no pyspark: pip install -e '.[spark]'")
job = pytest.importorskip("pulsarscope.spark.jobs.job")

OLD = TESTS / "spark" / "tables-0.1.0"
"""Tables of ipv6.pcap, written by version 0.1.0."""

KINDS = sorted(path.stem for path in OLD.glob("*.parquet"))


def shifted(rows: Any, seconds: int) -> Any:
    """Return rows at later times."""
    at = rows.schema.get_field_index("time")
    later = pa.array([None if time is None else time + seconds * 10**9 for time in rows.column(at).to_pylist()], pa.int64())
    return rows.set_column(at, rows.schema.field(at), later)


def make_tables(out: Path) -> dict[str, list[str]]:
    """Write tables of small files, of this version and of 0.1.0, and return their rows."""
    for kind in KINDS:
        (out / kind).mkdir(parents=True)
        old = pyarrow.parquet.read_table(OLD / f"{kind}.parquet")
        shutil.copy(OLD / f"{kind}.parquet", out / kind / "part-00000.parquet")
        missing = [field for field in arrow_schema(kind) if field.name not in old.schema.names]
        for number in (2, 1):
            new = shifted(old, number)
            for field in missing:
                new = new.append_column(field, pa.nulls(len(new), field.type))
            pyarrow.parquet.write_table(new.select(arrow_schema(kind).names), out / kind / f"part-0000{number}.parquet")
    (out / "frame" / "_unfinished.parquet").write_bytes(b"of a batch that is not done")
    return rows_in(out)


def rows_in(out: Path) -> dict[str, list[str]]:
    """Return the rows of tables as found by a reader."""
    found = {}
    for kind in KINDS:
        names = arrow_schema(kind).names
        rows = [row for path in (out / kind).glob("part-*") for row in pyarrow.parquet.read_table(path).to_pylist()]
        found[kind] = sorted(repr([row.get(name) for name in names]) for row in rows)
    return found


def test_columns_of_the_last_version_are_there_with_their_types() -> None:
    """Columns may be added, but not removed or changed: tables of several versions are read as one."""
    assert KINDS == ["connection", "exchange", "finding", "frame", "message"]
    for kind in KINDS:
        assert module.merged_schema(kind, [OLD / f"{kind}.parquet"]) == arrow_schema(kind)


def test_columns_of_other_versions_stay_and_those_of_another_type_are_refused(tmp_path: Path) -> None:
    table = pa.table({"time": pa.array([1]), "later": pa.array(["x"])})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    assert module.merged_schema("frame", [tmp_path / "a.parquet"]).names == [*arrow_schema("frame").names, "later"]
    pyarrow.parquet.write_table(pa.table({"time": pa.array(["x"])}), tmp_path / "b.parquet")
    with pytest.raises(OutputError, match="its column time is string, not int64"):
        module.merged_schema("frame", [tmp_path / "b.parquet"])


def test_tables_are_compacted_while_they_are_read(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of one file or of many stay the same and are sorted; a second run has nothing to do."""
    want = make_tables(tmp_path)
    opened, listed = os.open(tmp_path / "frame", os.O_RDONLY), []
    exchanged: dict[Path, float] = {}
    ages: list[float] = []
    real = module.exchange

    def exchange(one: Path, other: Path) -> None:
        real(one, other)
        exchanged[other] = time.monotonic()

    def rmtree(folder: Path) -> None:
        ages.append(time.monotonic() - exchanged[folder])
        if folder.name.startswith("_compact-frame"):
            listed.extend(os.listdir(opened))  # noqa: PTH208 - by who opened the folder before the exchange
        shutil.rmtree(folder)

    (tmp_path / "frame").chmod(0o2770)
    (tmp_path / "frame" / "part-00000.parquet").chmod(0o640)
    with reading(tmp_path / "frame") as seen, monkeypatch.context() as patch:
        patch.setattr(module, "exchange", exchange)
        patch.setattr(module, "shutil", SimpleNamespace(rmtree=rmtree))
        changed = module.compact(spark, str(tmp_path))
    assert {table.name: (table.files_before, table.files) for table in changed} == {kind: (3, 1) for kind in KINDS if want[kind]}
    assert [*seen] == [len(want["frame"])]
    assert sorted(listed) == ["_unfinished.parquet", *(f"part-0000{number}.parquet" for number in range(3))]
    os.close(opened)
    assert len(ages) == len(changed)
    assert min(ages) >= 2
    assert rows_in(tmp_path) == want
    assert {path.name for path in tmp_path.iterdir()} == set(KINDS)
    assert (tmp_path / "frame" / "_unfinished.parquet").read_bytes() == b"of a batch that is not done"
    (frames,) = (tmp_path / "frame").glob("part-*")
    assert [stat.S_IMODE(path.stat().st_mode) for path in (frames.parent, frames)] == [0o2770, 0o640]
    schema = pyarrow.parquet.read_schema(frames)
    assert schema.equals(arrow_schema("frame"))
    assert b"description" in (schema.field("sub").metadata or {})
    rows = pyarrow.parquet.read_table(frames).select([*module.ORDER]).to_pylist()
    assert rows == sorted(rows, key=lambda row: [*row.values()])
    assert module.compact(spark, str(tmp_path)) == []
    shutil.copy(OLD / "frame.parquet", tmp_path / "frame" / "part-000003-00000.parquet")  # of a later batch
    (again,) = module.compact(spark, str(tmp_path), target=frames.stat().st_size // 2)
    assert (again.name, again.files_before) == ("frame", 2)
    assert frames.exists()  # it is large enough


def test_partitions_of_a_run_are_compacted_each_by_itself(spark: Any, captures: Path, tmp_path: Path) -> None:
    """They have the rows of a run without partitions."""
    paths = [str(captures / name) for name in ("errors.pcap", "ipv6.pcap")]
    options = Options(frozenset({"exchange"}), rules=False, source_by=SOURCE_PER_FILE)
    out = tmp_path / "o*t [1]"
    job.run(spark, paths, str(out), options, partitions=3, partition_by=("date", "source"))
    want = local(expand_inputs(paths, SOURCE_PER_FILE), options)["exchange"]
    folders = {path.parent for path in (out / "exchange").rglob("*.parquet")}
    assert {folder.name for folder in folders} == {"source=errors.pcap", "source=ipv6.pcap"}
    assert all(folder.parent.name.startswith("date=20") for folder in folders)

    def rows() -> list[str]:
        read = spark.read.parquet(f"{tmp_path}/o?t */exchange").select(*arrow_schema("exchange").names)
        return texts([read.toArrow()])

    assert rows() == want
    before = len([*out.rglob("*.parquet")])
    changed = module.compact(spark, str(out))
    assert {table.name for table in changed} == {folder.relative_to(out).as_posix() for folder in folders}
    assert sum(table.files_before for table in changed) == before > len(folders) == len([*out.rglob("*.parquet")])
    assert rows() == want


@contextmanager
def reading(folder: Path) -> Iterator[Counter[int]]:
    """Yield the numbers of rows that a reader finds in a table in the meantime, each with its frequency."""
    seen: Counter[int] = Counter()
    ended = Event()

    def read() -> None:
        while not ended.wait(0.001):
            paths = [*folder.glob("part-*")]
            with suppress(FileNotFoundError):  # the folders changed places after it was listed
                seen[sum(pyarrow.parquet.read_metadata(path).num_rows for path in paths)] += 1

    thread = Thread(target=read, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()


class Killed(BaseException):  # stands for a signal
    """End of the process."""


@pytest.mark.parametrize("moment", ["before", "behind"])
def test_a_table_is_old_or_new_wherever_it_is_killed(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    want = make_tables(tmp_path)
    real = module.exchange

    def exchange(one: Path, other: Path) -> None:
        if moment == "behind":
            real(one, other)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(module, "exchange", exchange)
        with pytest.raises(Killed):
            module.compact(spark, str(tmp_path))
    assert rows_in(tmp_path) == want
    assert [path.name for path in tmp_path.glob("_*")] == ["_compact-connection-0"]
    assert len(module.compact(spark, str(tmp_path))) == sum(map(bool, want.values())) - (moment == "behind")
    assert rows_in(tmp_path) == want
    assert not [*tmp_path.glob("_*")]


def test_a_failure_leaves_tables_as_they_were_and_nothing_beside(spark: Any, small: Path) -> None:
    damaged = bytearray((small / "frame" / "part-0.parquet").read_bytes())
    damaged[4:3000] = bytes(2996)
    (small / "frame" / "part-1.parquet").write_bytes(damaged)
    with pytest.raises(Exception, match="part-1"):
        module.compact(spark, str(small))
    assert [path.name for path in small.iterdir()] == ["frame"]
    assert sorted(path.name for path in (small / "frame").iterdir()) == ["part-0.parquet", "part-1.parquet"]


@pytest.fixture
def small(tmp_path: Path) -> Path:
    (tmp_path / "frame").mkdir()
    shutil.copy(OLD / "frame.parquet", tmp_path / "frame" / "part-0.parquet")
    return tmp_path


def test_what_cannot_be_compacted_is_one_line(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with locked(str(small)), pytest.raises(UsageError, match="is in use by a run that has not ended"):
        module.compact(None, str(small))
    with pytest.raises(OutputError, match="has no Parquet tables"):
        module.tables_in(str(small / "frame"))
    with pytest.raises(OutputError, match="an object store cannot exchange folders"):
        module.tables_in("s3://bucket/tables")
    with pytest.raises(OutputError, match=r"cannot exchange folders \(No such file"):
        module.exchange(small / "frame", small / "none")
    monkeypatch.setattr(module.ctypes, "CDLL", lambda *_, **__: object())
    with pytest.raises(OutputError, match="cannot exchange folders"):
        module.exchange(small, small)
    (small / "message").symlink_to(small / "frame")
    with pytest.raises(OutputError, match="it is a link"):
        module.tables_in(str(small))
    (small / "message").unlink()
    (small / "frame" / "_spark_metadata").mkdir()
    with pytest.raises(OutputError, match="a Spark query keeps a list of its files"):
        module.tables_in(str(small))
