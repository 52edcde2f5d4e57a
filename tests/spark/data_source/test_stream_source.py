"""Batches of captures that land, read in this process in the manner of Spark, and by Spark: together they give the rows of one run."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from shutil import copy
from threading import Event, Thread
from typing import Any

import pyarrow.parquet
import pytest

import pulsarscope.spark
from benchmarks.traffic import short_connections, steady
from pulsarscope.capture import Inputs, expand_inputs
from pulsarscope.model.errors import UsageError
from pulsarscope.model.records import ROWS
from pulsarscope.output.export.arrow import arrow_schema
from pulsarscope.spark.checkpoints.checkpoint import Checkpoint
from pulsarscope.spark.checkpoints.fact_slices import read_slice
from pulsarscope.spark.checkpoints.waiting_facts import ANCHORS, SLICES
from tests.scenarios.capturefile import write_pcap
from tests.scenarios.options import Options
from tests.scenarios.recapture import packets_of
from tests.spark.inside import SOURCE_PER_FILE, cut, local, pickled, ring, texts
from tests.spark.stream_driver import Driver, land
from tests.spark.stream_driver import Query as KilledQuery

pytest.importorskip("pyspark.sql.streaming.datasource", reason="no pyspark 4.2 or newer: pip install -e '.[spark]'")
KILLS = 3
FILES = 24
STARTS_MAX = 12
"""Starts of a query: Spark gives it up if a process of its own is killed, and a busy machine may start some too slowly."""

stream_source = pytest.importorskip("pulsarscope.spark.data_source.stream_source")
stream_reader = stream_source.stream_reader
source_options = pytest.importorskip("pulsarscope.spark.data_source.source_options").source_options


class Query:
    """A query of a stream, without Spark; each batch has its own reader, as after a restart."""

    def __init__(self, folder: Path, kind: str, **options: Any) -> None:
        self.landing = folder / "in"
        self.landing.mkdir(exist_ok=True)
        self.state = folder / f"state-{kind}"
        texts_of = {name: str(value) for name, value in options.items()}
        self.options = {"records": kind, "path": str(self.landing), "stateLocation": str(self.state), "settle": "0"} | texts_of
        self._kind = kind
        self.offset: dict[str, Any] = {"files": 0}
        self.batches: list[Any] = []

    def reader(self, **more: str) -> Any:
        checked = source_options(self.options | more)
        return stream_reader(checked, checked.columns or (arrow_schema(self._kind).names if self._kind != "packet" else ()))

    def run(self, **more: str) -> None:
        """Process batches until nothing is left, like Trigger.AvailableNow; each is done twice, as after a kill."""
        while True:
            planner = self.reader(**more)
            planner.prepareForTriggerAvailableNow()
            end = planner.latestOffset(self.offset, planner.getDefaultReadLimit())
            if end == self.offset:
                return
            rows = self.tasks(planner, self.offset, end, **more)
            del planner  # releases the state
            assert texts(self.tasks(self.reader(**more), self.offset, end, **more)) == texts(rows)
            self.batches.append(rows)
            self.offset = json.loads(json.dumps(end))
            self.reader(**more).commit(self.offset)

    def tasks(self, planner: Any, start: dict[str, Any], end: dict[str, Any], **more: str) -> list[Any]:
        return [
            batch
            for partition in planner.partitions(start, end)
            for batch in pickled(self.reader(**more)).read(pickled(partition))
            if batch.num_rows
        ]

    def rows(self) -> list[str]:
        return texts(batch for rows in self.batches for batch in rows)


def options_of(kind: str) -> Any:
    return Options(frozenset({kind}), rules=kind == "finding")


@pytest.mark.parametrize("kind", ROWS)
def test_batches_together_are_the_rows_of_one_run(captures: Path, tmp_path: Path, kind: str) -> None:
    """Connections, and the state of rules, continue from batch to batch."""
    for name, partitions in (("shared-nack-dlq.pcap", 3), ("errors.pcap", 1), ("stuck-consumer.pcap", 2)):
        folder = tmp_path / name
        (folder / "cut").mkdir(parents=True)
        inputs = cut(captures / name, folder / "cut", (0.1, 0.3, 0.31, 0.7))
        query = Query(folder, kind, partitions=partitions)
        for path in inputs.paths:
            copy(path, query.landing)
            query.run()
        query.run(finish="true")
        assert query.offset == {"files": 6}
        assert query.rows() == local(expand_inputs([str(query.landing)]), options_of(kind))[kind]
        assert {path.name[:9] for path in (query.state / "states").iterdir()} == {"000000006"}


def test_captures_may_land_after_connections_were_closed(captures: Path, tmp_path: Path) -> None:
    """The entry that closes them has a position in the list, like a capture without packets."""
    query = Query(tmp_path, "connection", partitions=2)
    names = ("quickstart.pcapng", "ipv6.pcap")
    for name in names:
        copy(captures / name, query.landing)
        query.run(finish="true")
        query.run()
    assert query.offset == {"files": 4}
    none = write_pcap(tmp_path / "none.pcap", [])
    paths = [str(path) for path in (captures / names[0], none, captures / names[1])]
    apart = Inputs(paths, 0, [], ["a", "a", "b"])
    assert [
        row.replace("'a'", "None").replace("'b'", "None") for row in local(apart, options_of("connection"))["connection"]
    ] == query.rows()


@pytest.mark.parametrize("kind", ["frame", "connection", "finding", "journey"])
def test_a_batch_over_closing_entries_gives_the_rows_of_several_batches(captures: Path, tmp_path: Path, kind: str) -> None:
    """Spark 4.1 takes everything that has landed at once."""
    (tmp_path / "cut").mkdir()
    query = Query(tmp_path, kind, partitions=2)
    for number, path in enumerate(cut(captures / "shared-nack-dlq.pcap", tmp_path / "cut", (0.3, 0.5, 0.8)).paths):
        copy(path, query.landing)
        query.run(**({"finish": "true"} if number % 2 else {}))
    assert query.offset == {"files": 6}
    whole = source_options(query.options)
    reader = stream_source.UnlimitedStreamReader(whole, whole.columns or arrow_schema(kind).names)
    assert reader.latestOffset() == query.offset
    del reader
    assert texts(query.tasks(query.reader(), {"files": 0}, query.offset)) == query.rows()


def test_facts_wait_in_files_that_a_batch_does_not_read(captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch reads only the slices that are due, one per 14 seconds of the captures; the end reads all of them."""
    read: list[int] = []

    def counted(checkpoint: Checkpoint, names: Sequence[str], number: int, places: dict[str, bytes]) -> Any:
        read.append(number)
        return read_slice(checkpoint, names, number, places)

    monkeypatch.setattr("pulsarscope.spark.tasks.partition.read_slice", counted)
    query = Query(tmp_path, "finding")
    (tmp_path / "cut").mkdir()
    whole = captures / "shared-nack-dlq.pcap"
    for number, path in enumerate(cut(whole, tmp_path / "cut", (0.2, 0.4, 0.6)).paths):
        copy(path, query.landing)
        query.run()
        assert f"{number + 1:09}-000" in {path.name for path in (query.state / "facts").iterdir()}
    packets = packets_of(whole)
    assert len({*read} - {ANCHORS}) <= (packets[-1].time_ns - packets[0].time_ns) / 14e9
    query.run(finish="true")
    assert {*range(SLICES)} <= {*read}
    assert not [*(query.state / "facts").iterdir()]
    assert query.rows() == local(expand_inputs([str(query.landing)]), options_of("finding"))["finding"]


def test_files_of_the_file_system_are_left_alone(captures: Path, tmp_path: Path) -> None:
    query = Query(tmp_path, "frame")
    copy(captures / "errors.pcap", query.landing)
    query.run()
    strays = {query.state / "states" / name for name in (".nfs0000000012", "notes.txt", "1-2.bin~")}
    for path in strays:
        path.touch()
    copy(captures / "ipv6.pcap", query.landing)
    query.run(finish="true")
    assert strays < {*(query.state / "states").iterdir()}
    assert {path.name[:9] for path in {*(query.state / "states").iterdir()} - strays} == {"000000003"}


@pytest.mark.parametrize("kind", ["frame", "connection", "finding"])
def test_vantage_points_whose_captures_land_by_turns(captures: Path, tmp_path: Path, kind: str) -> None:
    chance = Random(1)
    query = Query(tmp_path, kind, sourceBy=r"([a-z]+)[0-9]+\.pcap$", partitions=2)
    files = []
    for source, name in (("a", "shared-nack-dlq.pcap"), ("b", "errors.pcap"), ("c", "stuck-consumer.pcap")):
        (tmp_path / source).mkdir()
        files += [(path, f"{source}{Path(path).name}") for path in cut(captures / name, tmp_path / source, (0.2, 0.6)).paths]
    chance.shuffle(files)
    files.sort(key=lambda file: file[1][1:])
    for number, (path, name) in enumerate(files):
        copy(path, query.landing / name)
        if number % 2:
            query.run()
    query.run(finish="true")
    columns = arrow_schema(kind).names

    def unnumbered(rows: list[list[Any]]) -> list[str]:
        """Return rows without values that depend on positions in the list."""
        return sorted(repr([value for name, value in zip(columns, row, strict=True) if not is_numbered(name)]) for row in rows)

    def is_numbered(name: str) -> bool:
        return name in ("file", "connection", "response_file", "request", "evidence", "text", "findings")

    streamed = [[*row.values()] for rows in query.batches for batch in rows for row in batch.to_pylist()]
    checked = source_options({"records": kind, "path": str(query.landing), "sourceBy": r"([a-z]+)[0-9]+\.pcap$"})
    from pulsarscope.spark.data_source.record_source import RecordSourceReader  # noqa: PLC0415 - there may be no Spark

    reader = RecordSourceReader(checked, checked.expand(), columns)
    want = [[*row.values()] for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    assert unnumbered(streamed) == unnumbered(want)


def test_secrets_of_one_batch_open_the_next(captures: Path, tmp_path: Path) -> None:
    query = Query(tmp_path, "frame", sourceBy=SOURCE_PER_FILE, partitions=3)
    copy(captures / "go-tls13-dsb.pcapng", query.landing / "a.pcapng")
    query.run()
    write_pcap(query.landing / "b.pcap", packets_of(captures / "go-tls13-dsb.pcapng"))  # without the secrets
    query.run(finish="true")
    want = local(expand_inputs([str(query.landing)], SOURCE_PER_FILE), options_of("frame"))["frame"]
    assert query.rows() == want
    assert sum("'SEND'" in row and "b.pcap" in row for row in want) > 3


@pytest.mark.parametrize(
    "limit", [{"maxFilesPerTrigger": 2}, {"maxBytesPerTrigger": "100k"}, {"maxFilesPerTrigger": 1, "maxBytesPerTrigger": "1g"}]
)
def test_batches_are_no_larger_than_the_limits(tmp_path: Path, limit: dict[str, Any]) -> None:
    query = Query(tmp_path, "connection", partitions=2, **limit)
    short_connections(tmp_path / "bulk.cap", 30, 1)
    files = ring(tmp_path / "bulk.cap", query.landing, 6)
    ends = []
    planner = query.reader()
    planner.prepareForTriggerAvailableNow()
    copy(files[0], query.landing / "late.pcap99")  # it has landed too late for this run
    offset = query.offset
    while (end := planner.latestOffset(offset, planner.getDefaultReadLimit())) != offset:
        offset = end
        ends.append(end["files"])
    sizes = [path.stat().st_size for path in files]
    for first, last in zip([0, *ends], ends, strict=False):
        assert last - first <= limit.get("maxFilesPerTrigger", 6)
        if "maxBytesPerTrigger" in limit and last - first > 1:
            assert sum(sizes[first:last]) <= 100 << 10 or limit["maxBytesPerTrigger"] == "1g"
    assert ends[-1] == 6
    assert len(ends) > 1
    del planner
    (query.landing / "late.pcap99").unlink()
    query.run(finish="true")
    assert query.rows() == local(expand_inputs([str(path) for path in files]), options_of("connection"))["connection"]


def test_packets_of_a_stream(captures: Path, tmp_path: Path) -> None:
    query = Query(tmp_path, "packet")
    for name in ("errors.pcap", "ipv6.pcap"):
        copy(captures / name, query.landing)
        query.run()
    checked = source_options({"records": "packet", "path": str(query.landing)})
    from pulsarscope.spark.data_source.source import CaptureDataReader  # noqa: PLC0415 - there may be no Spark

    reader = CaptureDataReader(checked.expand())
    packets = [batch.drop_columns(["file"]) for part in reader.partitions() for batch in reader.read(part)]
    assert texts(batch.drop_columns(["file"]) for rows in query.batches for batch in rows) == texts(packets)


def test_times_of_a_filter_count_from_the_first_packet_of_the_stream(captures: Path, tmp_path: Path) -> None:
    (tmp_path / "cut").mkdir()
    query = Query(tmp_path, "frame", filter="time > 20ms and command != PING", partitions=2)
    for path in cut(captures / "shared-nack-dlq.pcap", tmp_path / "cut", (0.3, 0.6)).paths:
        copy(path, query.landing)
        query.run()
    query.run(finish="true")
    rows = local(expand_inputs([str(query.landing)]), options_of("frame"))["frame"]
    checked = source_options({"records": "frame", "path": str(query.landing), "filter": "time > 20ms and command != PING"})
    from pulsarscope.spark.data_source.record_source import RecordSourceReader  # noqa: PLC0415 - there may be no Spark

    reader = RecordSourceReader(checked, checked.expand(), arrow_schema("frame").names)
    assert query.rows() == texts(batch for part in reader.partitions() for batch in reader.read(part))
    assert 0 < len(query.rows()) < len(rows)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"stateLocation": ""}, "option stateLocation"),
        ({"maxBytesPerTrigger": "much"}, "give a number of bytes"),
        ({"maxFilesPerTrigger": "0"}, "give a number from 1"),
        ({"settle": "-1"}, "give a number of seconds"),
    ],
)
def test_what_does_not_go_with_a_stream_is_refused(tmp_path: Path, options: dict[str, str], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        Query(tmp_path, "frame").reader(**options)
    if why == "option stateLocation":
        with pytest.raises(UsageError, match=r"go with spark\.readStream"):
            source_options({"records": "frame", "path": str(tmp_path), "settle": "1"}).refuse_stream_options()


def test_one_state_is_for_one_stream(captures: Path, tmp_path: Path) -> None:
    query = Query(tmp_path, "frame", partitions=2)
    copy(captures / "errors.pcap", query.landing)
    query.run()
    with pytest.raises(UsageError, match="is the checkpoint of another run"):
        Query(tmp_path, "frame", partitions=3).run()
    for path in (query.state / "states").iterdir():
        path.unlink()
    copy(captures / "ipv6.pcap", query.landing)
    with pytest.raises(UsageError, match="lacks the state after 1 captures"):
        query.run()


def test_two_queries_on_one_state_are_locked_apart(captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_source, "LOCK_SECONDS", 0.1)
    query = Query(tmp_path, "frame")
    copy(captures / "errors.pcap", query.landing)
    planner = query.reader()
    planner.prepareForTriggerAvailableNow()
    with pytest.raises(UsageError, match="is in use by a run that has not ended"):
        Query(tmp_path, "frame").reader().prepareForTriggerAvailableNow()
    del planner
    query.run()
    assert query.rows()


def test_a_capture_in_progress_waits(captures: Path, tmp_path: Path) -> None:
    query = Query(tmp_path, "frame", settle=600)
    copy(captures / "errors.pcap", query.landing / "old.pcap")
    copy(captures / "ipv6.pcap", query.landing / "new.pcap")
    os.utime(query.landing / "old.pcap", (1_700_000_000, 1_700_000_000))
    query.run()
    assert query.offset["files"] == 1
    query.run(finish="true")
    assert query.offset == {"files": 3}


def test_spark_gives_each_row_once_over_restarts(spark: Any, captures: Path, tmp_path: Path) -> None:
    """Writes Parquet, with Trigger.AvailableNow; findings have their own state."""
    from pyspark.errors import StreamingQueryException  # noqa: PLC0415 - with Spark only

    pulsarscope.spark.register(spark)
    (tmp_path / "cut").mkdir()
    (tmp_path / "in").mkdir()
    paths = cut(captures / "shared-nack-dlq.pcap", tmp_path / "cut", (0.2, 0.5)).paths

    def run(kind: str, **options: str) -> None:
        reader = spark.readStream.format("pulsarscope").option("records", kind).option("partitions", 2).option("maxFilesPerTrigger", 1)
        frame = reader.options(stateLocation=str(tmp_path / f"state-{kind}"), settle="0", **options).load(str(tmp_path / "in"))
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / f"query-{kind}"))
        for _ in range(3):
            query = writer.trigger(availableNow=True).start(str(tmp_path / kind))
            with suppress(StreamingQueryException):
                assert query.awaitTermination(240)
            error = query.exception()
            if error is None:
                return
            # Spark gives a new Python process ten seconds, which may be too short on a busy machine: the query then continues where it was.
            assert "failed to connect back" in str(error)
        raise error

    copy(paths[0], tmp_path / "in")
    run("frame")
    for path in paths[1:]:
        copy(path, tmp_path / "in")
    run("frame", finish="true")
    run("finding", finish="true")
    for kind in ("frame", "finding"):
        rows = texts([spark.read.parquet(str(tmp_path / kind)).toArrow()])
        assert rows == local(expand_inputs([str(tmp_path / "in")]), options_of(kind))[kind]


@pytest.mark.parametrize("victim", ["driver", "worker"])
@pytest.mark.parametrize(("continuous", "kind"), [(False, "exchange"), (True, "frame"), (True, "finding")])
@pytest.mark.kills
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("can_run")
def test_every_row_comes_once_whatever_is_killed(tmp_path: Path, victim: str, kind: str, *, continuous: bool) -> None:
    """Three kills at random moments, while captures land; CHANCE in the environment repeats a run."""
    seed = os.environ.get("CHANCE", str(time.time_ns()))
    chance = Random(seed)
    short_connections(tmp_path / "a.cap", 200, 1)
    steady(tmp_path / "b.cap", "sync", 0.3, 2)
    for folder in ("cut", "in", "scratch"):
        (tmp_path / folder).mkdir()
    files = []
    for name in ("a", "b"):
        files += [path.rename(path.with_name(name + path.name)) for path in ring(tmp_path / f"{name}.cap", tmp_path / "cut", FILES // 2)]
    chance.shuffle(files)  # two rings that land alternately, one of them late
    files.sort(key=lambda path: path.name[1:])
    ended = Event()
    landing = Thread(target=land, args=(files, tmp_path / "in", ended), daemon=True)
    landing.start()
    master = "local[2]" if victim == "driver" else "local-cluster[2,1,512]"
    kills: list[str] = []
    starts = 0
    try:
        while len(kills) < KILLS:
            starts += 1
            assert starts < STARTS_MAX, f"{kills} killed, CHANCE={seed}: {(tmp_path / 'log').read_text()}"
            driver = Driver(KilledQuery(str(tmp_path), kind, master, continuous), tmp_path)
            try:
                while len(kills) < KILLS and driver.process.poll() is None:
                    driver.wait_for_batches(1)
                    time.sleep(chance.uniform(0, 2))
                    if driver.process.poll() is not None:
                        break  # nothing was left to do, or Spark gave up the query
                    if victim == "worker":
                        kills += [what] if (what := driver.kill_worker(chance)) else []
                    else:
                        driver.kill()
                        kills.append(victim)
                if victim == "worker":
                    driver.wait_for_batches(1)  # it continues with other workers, or has given up
            finally:
                driver.kill()
        landing.join()
        for _ in range(STARTS_MAX):
            driver = Driver(KilledQuery(str(tmp_path), kind, master, last=True), tmp_path)
            try:
                if driver.process.wait(300) == 0:
                    break
            finally:
                driver.kill()
    finally:
        ended.set()
    captures = [landed for landed in Checkpoint(str(tmp_path / "state")).captures() if not landed.closes]
    assert len(captures) == FILES
    rows = texts([pyarrow.parquet.read_table(tmp_path / "rows.parquet")])
    want = local(Inputs([landed.path for landed in captures], 0, []), options_of(kind))[kind]
    assert len(rows) == len(want), f"CHANCE={seed}, {kills} killed"
    assert rows == want, f"CHANCE={seed}, {kills} killed"
