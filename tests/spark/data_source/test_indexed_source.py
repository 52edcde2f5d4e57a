"""Records read from an index of the captures: the same rows, without reading the captures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shutil import copy
from typing import Any

import pytest

import pulsarscope.spark
from pulsarscope.cli.arguments.options import ReadOptions
from pulsarscope.cli.commands.index import IndexRequest, index
from pulsarscope.model.errors import CaptureError, UsageError
from tests.spark.inside import SOURCE_PER_FILE, pickled, texts

datasource = pytest.importorskip("pyspark.sql.datasource", reason="no pyspark: pip install -e '.[spark]'")
CaptureDataSource = pytest.importorskip("pulsarscope.spark.data_source.source").CaptureDataSource
IndexedRecordReader = pytest.importorskip("pulsarscope.spark.data_source.indexed_source").IndexedRecordReader
source_options = pytest.importorskip("pulsarscope.spark.data_source.source_options").source_options

NAMES = ("errors.pcap", "raw-not-pulsar.pcap", "stuck-consumer.pcap", "go-nack-dlq-gz.pcap.gz")
EQUAL, NOT = datasource.EqualTo, datasource.Not


@pytest.fixture
def folder(captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with captures."""
    for module in ("writer", "reader"):
        monkeypatch.setattr(f"pulsarscope.index.{module}.INDEXED_FRAMES_PER_CHUNK", 64)
    folder = tmp_path / "captures"
    folder.mkdir()
    for name in NAMES:
        copy(captures / name, folder)
    return folder


def make_index(folder: Path, source_by: str = "none") -> dict[str, str]:
    """Return the option that names the folder of the index."""
    place = folder.with_name("indexes")
    request = IndexRequest(files=[str(folder)], into=str(place), quiet=True, reading=ReadOptions(source_by=source_by))
    assert index(request) == 0
    return {"indexLocation": str(place)}


def reader_of(options: dict[str, str], filters: Sequence[Any] = ()) -> Any:
    source = CaptureDataSource(options)
    reader = source.reader(source.schema())
    if filters:
        assert reader.pushFilters(filters) is filters
    return reader


def rows(reader: Any) -> list[str]:
    task = pickled(reader)
    return texts(batch for partition in reader.partitions() for batch in task.read(pickled(partition)))


@pytest.mark.parametrize("source_by", ["none", SOURCE_PER_FILE])
@pytest.mark.parametrize("kind", ["frame", "connection"])
def test_rows_are_those_of_the_captures(folder: Path, kind: str, source_by: str) -> None:
    plain = {"path": str(folder), "records": kind, "sourceBy": source_by}
    want = rows(reader_of(plain))
    where = make_index(folder, source_by)
    for partitions in ("1", "3", "1000"):
        reader = reader_of({**plain, **where, "partitions": partitions})
        assert isinstance(reader, IndexedRecordReader)
        assert rows(reader) == want


def conditions(frames: list[dict[str, Any]]) -> list[list[Any]]:
    """Return filters in the form that Spark pushes down, on columns of the index and on others."""
    middle = next(row for row in frames[len(frames) // 2 :] if row["topic"])
    window = [datasource.GreaterThanOrEqual(("time",), middle["time"]), datasource.LessThan(("time",), middle["time"] + 50_000_000)]
    return [
        [EQUAL(("topic",), middle["topic"])],
        window,
        [*window, datasource.StringEndsWith(("topic",), middle["topic"][-4:])],
        [NOT(EQUAL(("command",), "SEND")), datasource.In(("file",), (0, 1 << 40))],
        [datasource.GreaterThan(("packet",), 1 << 40)],
        [datasource.GreaterThan(("size",), 100)],
        [datasource.GreaterThan(("size",), 100), EQUAL(("command",), "MESSAGE")],
        [EQUAL(("connection",), middle["connection"]), datasource.IsNotNull(("request",))],
        [datasource.IsNull(("topic",))],
    ]


def test_filters_of_spark_pass_the_same_rows(folder: Path) -> None:
    plain = {"path": str(folder), "records": "frame"}
    reader = reader_of(plain)
    frames = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    wanted = [rows(reader_of(plain, filters)) for filters in conditions(frames)]
    where = make_index(folder)
    for filters, want in zip(conditions(frames), wanted, strict=True):
        assert rows(reader_of({**plain, **where}, filters)) == want, filters
    assert sum(map(bool, wanted)) >= len(wanted) - 1


@pytest.mark.parametrize(
    "text", ["command == SEND", "time < 20ms", "size > 100", 'topic contains "stuck" and latency > 1us', "command == ERROR"]
)
def test_display_filters_pass_the_same_rows(folder: Path, text: str) -> None:
    plain = {"path": str(folder), "records": "frame", "filter": text}
    filters = [NOT(EQUAL(("command",), "PING"))]
    want, fewer = rows(reader_of(plain)), rows(reader_of(plain, filters))
    where = make_index(folder)
    assert want
    assert rows(reader_of({**plain, **where})) == want
    assert rows(reader_of({**plain, **where}, filters)) == fewer


def test_only_parts_of_the_index_are_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = {"path": str(folder), "records": "frame", "filter": "command == ERROR"}
    size = pulsarscope.spark.reads(**plain)["bytes_read"]
    where = make_index(folder)
    some = pulsarscope.spark.reads(**plain, **where)
    every = pulsarscope.spark.reads(**{**plain, **where, "filter": "size > 0"})
    assert some["captures_read"] == every["captures_read"] == 0
    assert 0 < some["bytes_read"] < every["bytes_read"]
    assert some["bytes"] == size
    monkeypatch.setattr("pulsarscope.spark.tasks.flow_shares.BlockReader", None)
    assert rows(reader_of({**plain, **where}))


def test_an_index_beside_a_single_capture_is_found(captures: Path, tmp_path: Path) -> None:
    path = Path(copy(captures / "errors.pcap", tmp_path))
    plain = {"path": str(path), "records": "frame"}
    want = rows(reader_of(plain))
    assert index(IndexRequest(files=[str(path)], beside=True, quiet=True)) == 0
    assert isinstance(reader := reader_of(plain), IndexedRecordReader)
    assert rows(reader) == want
    assert type(reader_of({**plain, "pushdown": "false"})).pushFilters is datasource.DataSourceReader.pushFilters


def test_an_index_of_another_state_is_not_used(folder: Path) -> None:
    plain = {"path": str(folder), "records": "frame"}
    where = make_index(folder)
    planned = reader_of({**plain, **where})
    (folder / "errors.pcap").write_bytes((folder / "errors.pcap").read_bytes() + bytes(5))
    with pytest.warns(UserWarning, match="of another state of .*errors.pcap: the captures are read"):
        reader = reader_of({**plain, **where})
    assert rows(reader) == rows(reader_of(plain))
    (place,) = Path(where["indexLocation"]).iterdir()
    place.write_bytes(place.read_bytes()[:-100])
    with pytest.raises(CaptureError, match="is damaged, or cut"):
        rows(planned)


@pytest.mark.parametrize(
    "values", [{"records": "message"}, {"records": "finding"}, {"thresholds": "slow-exchange-seconds=1"}, {"ports": "7000"}]
)
def test_what_an_index_does_not_hold_is_read_from_the_captures(folder: Path, values: dict[str, str]) -> None:
    reader = reader_of({"path": str(folder), "records": "frame", **make_index(folder), **values})
    assert not isinstance(reader, IndexedRecordReader)


def test_an_index_and_a_window_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="filter by time instead"):
        source_options({"path": "x", "records": "frame", "since": "2026-05-01", "timesLocation": "t", "indexLocation": "i"})
