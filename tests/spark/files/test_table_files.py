from __future__ import annotations

from pathlib import Path

import pytest
from pyarrow.dataset import dataset

from pulsarscope.model.errors import OutputError, UsageError
from pulsarscope.model.records import ExchangeRow
from pulsarscope.spark.files.table_files import (
    OPEN_FILES_MAX,
    Names,
    TableWriter,
    finish_files,
    finish_tables,
    locate,
    make_folder,
    require_empty,
    written_alone,
)

NAMES: Names = [("frame", "_a", "part-0"), ("frame", "_b", "part-1")]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "frame").iterdir())


@pytest.fixture
def written(tmp_path: Path) -> Path:
    (tmp_path / "frame").mkdir()
    for name in ("_a", "_b", "_left"):
        (tmp_path / "frame" / name).touch()
    return tmp_path


def test_files_get_their_names_and_what_is_left_goes(written: Path) -> None:
    finish_files(str(written), NAMES, ("finding", "frame"))
    assert names(written) == ["part-0", "part-1"]
    assert (written / "finding").is_dir()


def test_files_that_have_their_names_may_be_taken_away(written: Path) -> None:
    finish_files(str(written), NAMES[:1], ("frame",))
    (written / "frame" / "_b").touch()  # not renamed yet
    (written / "frame" / "part-0").unlink()  # a reader of the tables has moved it
    finish_files(str(written), NAMES, ("frame",), again=True)
    assert names(written) == ["part-1"]


def test_files_of_partitions_get_their_names_where_they_are(tmp_path: Path) -> None:
    """More partitions than files that a task may have open: some have several files."""
    days = [*range(OPEN_FILES_MAX + 2), 0]
    writer = TableWriter(str(tmp_path), "parquet", ("exchange",), ("date", "source"))
    for number, day in enumerate(days):
        writer.put("exchange", [exchange(day, number)])
    files = writer.finish()
    assert sum(file.rows for file in files) == len(files) == len(days)
    (tmp_path / "exchange" / "date=1970-01-01" / "source=a%2Fb" / "_left.parquet").touch()
    finish_tables(str(tmp_path), files, ("exchange",))
    assert not [*(tmp_path / "exchange").rglob("_*")]
    assert {path.name for path in (tmp_path / "exchange").iterdir()} == {f"date=1970-01-{day + 1:02}" for day in days}
    assert len([*(tmp_path / "exchange" / "date=1970-01-01" / "source=a%2Fb").iterdir()]) == 2
    rows = dataset(tmp_path / "exchange", partitioning="hive").to_table().to_pylist()
    assert sorted((row["packet"], row["source"]) for row in rows) == [(number, "a/b") for number in range(len(days))]


def test_what_a_task_has_written_goes_when_it_fails(tmp_path: Path) -> None:
    writer = TableWriter(str(tmp_path), "parquet", ("exchange",), ("date",))
    for day in range(OPEN_FILES_MAX + 2):
        writer.put("exchange", [exchange(day, 1)])
    writer.abandon()
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def exchange(day: int, packet: int) -> ExchangeRow:
    return ExchangeRow(file=0, packet=packet, sub=1, source="a/b", time=day * 86_400 * 10**9, key="k", request="SEND", status="ok")


def test_a_file_that_is_lost_before_it_has_its_name_is_reported(written: Path) -> None:
    (written / "frame" / "_a").unlink()
    with pytest.raises(OutputError, match="cannot write"):
        finish_files(str(written), NAMES, ("frame",))


def test_a_place_that_nobody_knows_is_refused() -> None:
    with pytest.raises(OutputError, match="cannot write no://where: Unrecognized filesystem"):
        locate("no://where")


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_folder_that_is_not_empty_is_left_alone_and_a_new_one_is_made(tmp_path: Path, scheme: str) -> None:
    out = f"{scheme}{tmp_path}/new/er"
    for _ in range(2):
        require_empty(out)
        make_folder(out)
    (tmp_path / "new" / "er" / "mine").write_text("x")
    for full in (out, f"{out}/mine"):
        with pytest.raises(OutputError, match="exists and is not an empty folder"):
            require_empty(full)


def test_a_folder_that_another_run_has_filled_meanwhile_is_left_alone(tmp_path: Path) -> None:
    """Two runs may find it empty; the second gets it when the first has ended."""
    out = str(tmp_path / "out")
    require_empty(out)
    with written_alone(out, anew=True):
        with pytest.raises(UsageError, match="in use by a run that has not ended"), written_alone(out, anew=True):
            pass
        (tmp_path / "out" / "frame").mkdir()
    with pytest.raises(OutputError, match="exists and is not an empty folder"), written_alone(out, anew=True):
        pass
    with written_alone(out, anew=False):
        pass


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"^cannot write .*: .*Not a directory") as raised:
        make_folder(f"{tmp_path}/file/out")
    assert "\n" not in str(raised.value)
