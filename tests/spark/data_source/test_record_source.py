"""Records of one kind as rows of a data source, read in this process in the manner of Spark, and by Spark."""

from __future__ import annotations

import gzip
import json
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path
from random import Random
from shutil import copy
from typing import Any

import msgspec
import pyarrow.parquet
import pytest
import zstandard

import pulsarscope.spark
from benchmarks.traffic import short_connections
from pulsarscope.capture import expand_inputs
from pulsarscope.cli.arguments.options import CommandRequest, ReadOptions
from pulsarscope.cli.run_command import run_command
from pulsarscope.engine.local import Options as EngineOptions
from pulsarscope.model.records import ROWS
from pulsarscope.output.export.arrow import arrow_schema
from tests.scenarios import write_pcapng
from tests.scenarios.capturefile import write_pcap
from tests.scenarios.options import Options
from tests.scenarios.recapture import bridged, packets_of
from tests.spark.inside import CAPTURES_WITH_SECRETS, SOURCE_PER_FILE, cut, local, pickled, read_options, ring, texts

datasource = pytest.importorskip("pyspark.sql.datasource", reason="no pyspark: pip install -e '.[spark]'")
record_source = pytest.importorskip("pulsarscope.spark.data_source.record_source")
source_options = pytest.importorskip("pulsarscope.spark.data_source.source_options").source_options
CaptureDataReader = pytest.importorskip("pulsarscope.spark.data_source.source").CaptureDataReader

NAMES = ("errors.pcap", "snaplen200.pcap", "raw-not-pulsar.pcap", "stuck-consumer.pcap", "shared-nack-dlq.pcap")


def options_of(kind: str) -> EngineOptions:
    return Options(frozenset({kind}), rules=kind == "finding")


def batches(options: dict[str, str], filters: Sequence[Any] = ()) -> list[list[Any]]:
    """Return the record batches of each partition, made as by the tasks of Spark."""
    checked = source_options(options)
    columns = checked.columns or arrow_schema(checked.kind).names
    reader = record_source.FilteredRecordReader(checked, checked.expand(), columns)
    assert reader.pushFilters(filters) is filters
    task = pickled(reader)  # before the partitions are made
    return [[*task.read(pickled(partition))] for partition in reader.partitions()]


def rows(options: dict[str, str], filters: Sequence[Any] = ()) -> list[str]:
    """Return the sorted rows of all partitions."""
    return texts(batch for part in batches(options, filters) for batch in part)


def given(kind: str, paths: Sequence[Path | str], **options: Any) -> dict[str, str]:
    return {"records": kind, "paths": json.dumps([str(path) for path in paths]), **{name: str(value) for name, value in options.items()}}


@pytest.mark.parametrize("kind", ROWS)
def test_the_rows_are_those_of_the_local_decoder(captures: Path, kind: str) -> None:
    paths = [str(captures / name) for name in NAMES]
    for source_by in ("none", SOURCE_PER_FILE):
        want = local(expand_inputs(paths, source_by), options_of(kind))[kind]
        assert want or kind == "journey"
        for partitions in (1, 3, 7):
            assert rows(given(kind, paths, sourceBy=source_by, partitions=partitions)) == want


@pytest.mark.parametrize("kind", ["finding", "journey"])
def test_rows_after_their_connection_are_filtered_by_its_addresses(captures: Path, kind: str) -> None:
    plain = given(kind, [captures / "errors.pcap", captures / "stuck-consumer.pcap"], sourceBy=SOURCE_PER_FILE)
    found = rows(plain)
    assert found
    assert rows({**plain, "filter": "client.port > 0"}) == found


@pytest.mark.parametrize("kind", ROWS)
def test_connections_go_on_in_the_next_files(captures: Path, tmp_path: Path, kind: str) -> None:
    inputs = cut(captures / "shared-nack-dlq.pcap", tmp_path, (0.1, 0.3, 0.31, 0.7))
    want = local(inputs, options_of(kind))[kind]
    for partitions in (1, 3):
        assert rows(given(kind, inputs.paths[::-1], partitions=partitions)) == want
    assert rows({"records": kind, "path": str(tmp_path)}) == want


def utc(nanoseconds: int) -> str:
    """Return a time in a user's notation."""
    seconds, fraction = divmod(nanoseconds, 10**9)
    return f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%dT%H:%M:%S}.{fraction:09}Z"


@pytest.mark.parametrize("kind", ["frame", "connection", "exchange", "message", "packet"])
def test_a_window_of_time_reads_its_captures_alone(captures: Path, tmp_path: Path, kind: str) -> None:
    """Applies once their times are noted; names and numbers of files are those of all captures."""
    paths = [str(captures / name) for name in NAMES]
    noted = {"timesLocation": str(tmp_path / "times")}
    all_rows = [row for part in batches(given("frame", paths, **noted)) for batch in part for row in batch.to_pylist()]
    times = [[row["time"] for row in all_rows if row["file"] == file] for file in range(len(paths))]
    files = [file for file in range(len(paths)) if times[file]]
    spans = {file: (min(times[file]), max(times[file])) for file in files}
    for file in files:
        first, last = spans[file]
        hit = [other for other, (start, end) in spans.items() if start <= last and first <= end]
        window = given(kind, paths, since=utc(first), until=utc(last), **noted)
        expected = [row for row in of_kind(given(kind, paths)) if row["file"] in hit]
        assert [row for row in of_kind(window) if row["file"] in spans] == expected
        share = pulsarscope.spark.reads(**window)
        assert share["captures"] == len(paths)
        assert share["captures_read"] < len(paths)
        assert share["bytes_read"] < share["bytes"] == sum(Path(path).stat().st_size for path in paths)
    outside = given(kind, paths, until=utc(min(first for first, _ in spans.values()) - 10**10), **noted)
    assert [row for row in of_kind(outside) if row["file"] in spans] == []


def of_kind(options: dict[str, str]) -> list[dict[str, Any]]:
    """Return the rows of a read, in the order of their names."""
    if options["records"] == "packet":
        checked = source_options(options)
        inputs = checked.expand()
        reader: Any = CaptureDataReader(inputs, checked.reads(inputs))
        made = [batch for part in reader.partitions() for batch in reader.read(pickled(part))]
    else:
        made = [batch for part in batches(options) for batch in part]
    return sorted((row for batch in made for row in batch.to_pylist()), key=lambda row: (row["file"], row["packet"], repr(row)))


def test_times_are_noted_of_what_was_read_whole(captures: Path, tmp_path: Path) -> None:
    """One of several tasks notes them; a capture that has changed since is read again."""
    path = tmp_path / "a.pcap"
    copy(captures / "errors.pcap", path)
    noted = {"timesLocation": str(tmp_path / "times"), "partitions": "3"}
    never = {"until": "1990-01-01"}
    assert len(of_kind(given("frame", [path], **noted, **never))) > 0  # nothing is known yet
    assert len([*(tmp_path / "times").iterdir()]) == 1
    assert of_kind(given("frame", [path], **noted, **never)) == []
    assert pulsarscope.spark.reads(**given("frame", [path], **noted, **never))["bytes_read"] == 0
    with path.open("ab") as file:
        file.write(b"\0")
    assert len(of_kind(given("frame", [path], **noted, **never))) > 0
    (tmp_path / "times" / "of_others").touch()
    assert of_kind(given("frame", [path], **noted, **never)) == []


def test_a_ring_of_compressed_files_in_a_folder(tmp_path: Path) -> None:
    folder = pack_ring(tmp_path)
    for kind in ("frame", "connection", "finding"):
        want = local(expand_inputs([str(folder)]), options_of(kind))[kind]
        assert rows({"records": kind, "path": str(folder), "partitions": "3"}) == want
    parts = batches({"records": "connection", "path": str(folder), "partitions": "3"})
    assert all(map(len, parts)), "each share has connections"


def pack_ring(folder: Path) -> Path:
    """Return a folder with a ring of files, two thirds of them compressed."""
    short_connections(folder / "bulk.cap", 60, 1)
    out = folder / "ring"
    out.mkdir()
    for number, path in enumerate(ring(folder / "bulk.cap", out, 7)):
        data = path.read_bytes()
        suffix, packed = ((".gz", gzip.compress(data, 1)), (".zst", zstandard.compress(data)), ("", data))[number % 3]
        path.unlink()
        path.with_name(path.name + suffix).write_bytes(packed)
    return out


@pytest.mark.parametrize("kind", ["frame", "message", "finding"])
def test_what_opens_connections_and_payloads_comes_along(captures: Path, kind: str) -> None:
    reading = read_options(captures)
    paths = [str(captures / name) for name in CAPTURES_WITH_SECRETS]
    checked = given(
        kind,
        paths,
        sourceBy=SOURCE_PER_FILE,
        tlsKeylog=json.dumps(reading.tls_keylog),
        privateKey=json.dumps(reading.private_key),
        schemas="schemas-int32-31=bytes",
        partitions=2,
    )
    engine = source_options(checked).engine
    want = local(expand_inputs(paths, SOURCE_PER_FILE), msgspec.structs.replace(engine, source_by="none"))[kind]
    assert rows(checked) == want


def test_secrets_in_one_capture_open_those_behind_it(captures: Path, tmp_path: Path) -> None:
    first = tmp_path / "a.pcapng"
    first.write_bytes((captures / "go-tls13-dsb.pcapng").read_bytes())
    write_pcap(tmp_path / "b.pcap", packets_of(first))  # without the secrets
    want = local(expand_inputs([str(tmp_path)], SOURCE_PER_FILE), options_of("frame"))["frame"]
    assert sum("'SEND'" in row and "b.pcap" in row for row in want) > 3
    for partitions in (1, 3):
        assert rows({"records": "frame", "path": str(tmp_path), "sourceBy": SOURCE_PER_FILE, "partitions": str(partitions)}) == want


def test_interfaces_are_vantage_points(captures: Path, tmp_path: Path) -> None:
    both = bridged(packets_of(captures / "errors.pcap"), lost=20)
    paths = [str(write_pcapng(tmp_path / f"{index}.pcapng", part)) for index, part in enumerate((both[:70], both[70:]))]
    want = local(expand_inputs(paths, "interface"), options_of("exchange"))["exchange"]
    assert rows(given("exchange", paths, sourceBy="interface", partitions=3)) == want


def test_a_capture_that_is_gone_is_a_finding(captures: Path, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("errors.pcap", "ipv6.pcap")]
    for path in paths:
        path.write_bytes((captures / path.name).read_bytes())
    checked = source_options({"records": "finding", "path": str(tmp_path)})
    reader = record_source.RecordSourceReader(checked, checked.expand(), ["code"])
    for path in paths:
        path.unlink()
    (partition,) = reader.partitions()
    assert [row for batch in reader.read(partition) for row in batch.column("code").to_pylist()] == ["file-unreadable"] * 2


@pytest.mark.parametrize("kind", ROWS)
def test_columns_are_those_asked_for_in_their_order(captures: Path, kind: str) -> None:
    names = [*reversed(arrow_schema(kind).names)][2:5]
    whole = local(expand_inputs([str(captures / "shared-nack-dlq.pcap")]), options_of(kind))[kind]
    (part,) = batches({"records": kind, "path": str(captures / "shared-nack-dlq.pcap"), "columns": ",".join(names)})
    assert sum(batch.num_rows for batch in part) == len(whole)
    assert all(batch.schema.names == names for batch in part)
    (every,) = batches({"records": kind, "path": str(captures / "shared-nack-dlq.pcap")})
    assert texts(part) == texts(batch.select(names) for batch in every)


def test_payloads_come_in_the_form_asked_for(captures: Path) -> None:
    path = captures / "shared-nack-dlq.pcap"
    found = {}
    for form in ("hex", "base64"):
        (part,) = batches({"records": "message", "path": str(path), "columns": "payload", "payload": form})
        found[form] = [text for batch in part for text in batch.column("payload").to_pylist() if text]
    assert found["hex"]
    assert [bytes.fromhex(text) for text in found["hex"]] == [b64decode(text) for text in found["base64"]]


EQUAL, IN, GREATER = datasource.EqualTo, datasource.In, datasource.GreaterThan


@pytest.mark.parametrize(
    ("kind", "condition", "passes"),
    [
        ("frame", EQUAL(("command",), "SEND"), lambda row: row["command"] == "SEND"),
        ("frame", EQUAL(("file",), 1), lambda row: row["file"] == 1),
        ("frame", datasource.LessThanOrEqual(("file",), 1), lambda row: row["file"] <= 1),
        ("exchange", IN(("file",), (0, 2)), lambda row: row["file"] in (0, 2)),
        ("frame", GREATER(("file",), 9), lambda _: False),
        ("frame", GREATER(("time",), 1_795_246_000_000_000_000), lambda row: row["time"] > 1_795_246_000_000_000_000),
        ("message", datasource.StringEndsWith(("topic",), "orders"), lambda row: (row["topic"] or "").endswith("orders")),
        ("message", datasource.IsNull(("subscription",)), lambda row: row["subscription"] is None),
        ("connection", EQUAL(("server",), "{server}"), lambda row: row["server"] == "{server}"),
        ("connection", EQUAL(("client",), "{client}"), lambda row: row["client"] == "{client}"),
        ("finding", EQUAL(("severity",), "error"), lambda row: row["severity"] == "error"),
        ("finding", EQUAL(("file",), 0), lambda row: row["file"] == 0),
        ("journey", datasource.IsNotNull(("subscription",)), lambda row: row["subscription"] is not None),
    ],
)
@pytest.mark.parametrize("source_by", ["none", SOURCE_PER_FILE])
def test_filters_give_what_filtering_afterwards_gives(
    captures: Path, kind: str, condition: Any, passes: Callable[[dict[str, Any]], bool], source_by: str
) -> None:
    paths = [str(captures / name) for name in NAMES]
    whole = [row for part in batches(given(kind, paths, sourceBy=source_by)) for batch in part for row in batch.to_pylist()]
    if isinstance(condition, EQUAL) and "{" in str(condition.value):
        name = condition.attribute[0]
        value = whole[len(whole) // 2][name]
        condition, passes = EQUAL((name,), value), lambda row: row[name] == value
    want = sorted(repr([*row.values()]) for row in whole if passes(row))
    for partitions in (1, 3):
        assert rows(given(kind, paths, sourceBy=source_by, partitions=partitions), [condition]) == want


@pytest.mark.parametrize("kind", ["frame", "message", "exchange", "connection"])
def test_windows_of_time_and_files_lose_no_row(captures: Path, tmp_path: Path, kind: str) -> None:
    """Windows begin and end anywhere: within files, connections, and frames in several packets."""
    names = [path for path in sorted(captures.glob("*.pcap")) if path.stat().st_size < 300_000]
    inputs = cut(captures / "shared-nack-dlq.pcap", tmp_path, (0.2, 0.4, 0.6, 0.8))
    chance = Random(1)
    for paths in (names, inputs.paths):
        whole = [row for part in batches(given(kind, paths)) for batch in part for row in batch.to_pylist()]
        for _ in range(4):
            first, last = sorted(chance.choice(whole)["time"] for _ in range(2))
            file = chance.choice(whole)["file"]
            conditions = [datasource.GreaterThanOrEqual(("time",), first), datasource.LessThan(("time",), last)]
            want = sorted(repr([*row.values()]) for row in whole if first <= row["time"] < last)
            assert rows(given(kind, paths, partitions=2), conditions) == want
            conditions = [GREATER(("time",), first), EQUAL(("file",), file)]
            want = sorted(repr([*row.values()]) for row in whole if row["time"] > first and row["file"] == file)
            assert rows(given(kind, paths), conditions) == want


def test_captures_in_which_no_row_can_be_are_not_read(captures: Path) -> None:
    paths = [str(captures / name) for name in NAMES]
    by_file = given("frame", paths, sourceBy=SOURCE_PER_FILE)
    sources = expand_inputs(paths, SOURCE_PER_FILE).sources
    assert len(batches(by_file)) == len(paths)
    assert len(batches(by_file, [EQUAL(("file",), 1)])) == 1
    assert len(batches(by_file, [IN(("source",), (sources[0], sources[2], "none"))])) == 2
    assert batches(by_file, [EQUAL(("source",), "none")]) == []
    assert [*record_source.RecordSourceReader.read(None, datasource.InputPartition(None))] == []


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("frame", 'command == "SEND" or latency > 1ms'),
        ("frame", "time > 0.2s"),
        ("message", 'payload contains "1"'),
        ("exchange", "server.port == 6650 and status == error"),
        ("finding", "severity == error"),
        ("connection", "closed == fin"),
    ],
)
def test_a_display_filter_selects_as_in_decode(captures: Path, tmp_path: Path, kind: str, text: str) -> None:
    paths = tuple(str(captures / name) for name in NAMES)
    run_command(CommandRequest(files=paths, records=kind, format="parquet", out=str(tmp_path / "out"), filter=text))
    want = texts([pyarrow.parquet.read_table(tmp_path / "out")])
    assert want
    for partitions in (1, 3):
        assert rows(given(kind, paths, filter=text, partitions=partitions)) == want


@pytest.fixture(scope="module")
def sql(spark: Any) -> Iterator[Any]:
    """Yield the session with the format; tables of this module are removed at the end."""
    import pulsarscope.spark  # noqa: PLC0415 - with Spark only

    pulsarscope.spark.register(spark)
    yield spark
    for kind in ROWS:
        spark.sql(f"DROP TABLE IF EXISTS of_{kind}")


def decoded(paths: Sequence[str], kind: str, out: Path, **reading: Any) -> list[str]:
    """Return the rows of the command `decode`."""
    request = CommandRequest(files=tuple(paths), records=kind, format="parquet", out=str(out), reading=ReadOptions(**reading))
    run_command(request)
    return texts([pyarrow.parquet.read_table(out)])


@pytest.mark.parametrize("kind", ROWS)
def test_spark_reads_the_rows_of_decode_as_frames_and_tables(sql: Any, captures: Path, tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "with space"
    folder.mkdir()
    for name in NAMES:
        (folder / f"{name}.gz").write_bytes(gzip.compress((captures / name).read_bytes(), 1))
    want = decoded([str(folder)], kind, tmp_path / "out", source_by="dir")
    reader = sql.read.format("pulsarscope").option("records", kind).option("sourceBy", "dir")
    for partitions in (1, 3, 7):
        frame = reader.option("partitions", partitions).load(str(folder))
        assert frame.columns == arrow_schema(kind).names
        assert texts([frame.toArrow()]) == want
    sql.sql(f"DROP TABLE IF EXISTS of_{kind}")
    sql.sql(f"CREATE TABLE of_{kind} USING pulsarscope OPTIONS (path '{folder}', records '{kind}', sourceBy 'dir')")
    assert texts([sql.table(f"of_{kind}").toArrow()]) == want
    assert sql.table(f"of_{kind}").count() == len(want)
    assert folder.is_dir()


CONDITIONS = {
    "frame": ("command = 'SEND'", "file < 2 AND topic IS NOT NULL", "command NOT IN ('PING', 'PONG') AND time > 0", "source LIKE '%err%'"),
    "exchange": ("status <> 'ok'", "latency_ns > 1000000", "topic LIKE '%dlq%' OR status = 'error'"),
    "connection": ("server LIKE '%.1:6650' AND file > 0", "client_bytes > server_bytes", "file = 1", "closed_by <=> NULL"),
    "finding": ("severity = 'error'", "file = 0 AND code LIKE '%-%'"),
}


@pytest.mark.parametrize("kind", CONDITIONS)
def test_a_where_clause_gives_what_it_gives_on_all_rows(sql: Any, captures: Path, kind: str) -> None:
    paths = [str(captures / name) for name in NAMES]
    reader = sql.read.format("pulsarscope").option("records", kind).option("paths", json.dumps(paths)).option("sourceBy", SOURCE_PER_FILE)
    reader.load().createOrReplaceTempView("pushed")
    everything = reader.load().toArrow()
    sql.createDataFrame(everything).createOrReplaceTempView("plain")
    for condition in CONDITIONS[kind]:
        want, got = (texts([sql.table(view).where(condition).toArrow()]) for view in ("plain", "pushed"))
        assert got == want
        assert len(want) < everything.num_rows


def test_columns_of_a_table_and_a_session_that_pushes_nothing(sql: Any, captures: Path) -> None:
    options = f"path '{captures / 'errors.pcap'}', records 'frame', columns 'command, topic'"
    sql.sql(f"CREATE OR REPLACE TEMPORARY VIEW of_view USING pulsarscope OPTIONS ({options})")
    assert sql.table("of_view").columns == ["command", "topic"]
    sends = "SELECT count(*) FROM of_view WHERE command = 'SEND'"
    (want,) = sql.sql(sends).collect()
    assert want[0] > 0
    name = "spark.sql.python.filterPushdown.enabled"
    sql.conf.set(name, "false")
    try:
        sql.sql(f"CREATE OR REPLACE TEMPORARY VIEW of_view USING pulsarscope OPTIONS ({options}, pushdown 'false')")
        assert sql.sql(sends).collect() == [want]
    finally:
        sql.conf.set(name, "true")


def test_what_is_wrong_is_said_when_it_is_loaded(sql: Any, captures: Path) -> None:
    reader = sql.read.format("pulsarscope")
    with pytest.raises(Exception, match="did you mean frame"):
        reader.option("records", "frames").load(str(captures / "errors.pcap"))
    with pytest.raises(Exception, match="nothing-there"):
        reader.option("records", "frame").load("nothing-there").collect()
    sql.sql("DROP TABLE IF EXISTS of_frame")
    sql.sql(f"CREATE TABLE of_frame (command STRING) USING pulsarscope OPTIONS (path '{captures / 'errors.pcap'}', records 'frame')")
    with pytest.raises(Exception, match="a table must not declare columns"):
        sql.sql("SELECT * FROM of_frame").collect()
