"""Captures that land in a folder, on a real Spark: every row once, wherever the driver is stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from shutil import copy
from threading import Event
from typing import Any

import pyarrow.parquet
import pytest

from benchmarks.traffic import short_connections
from pulsarscope.capture import Inputs, expand_inputs
from pulsarscope.model.errors import OutputError
from pulsarscope.model.records import ALL
from pulsarscope.spark.checkpoints.checkpoint import Checkpoint, Commit, LandedCapture
from pulsarscope.spark.data_source.landing_folder import LandingFolder, NamedCaptures
from pulsarscope.spark.files import table_files
from tests.scenarios.capturefile import write_pcap, write_pcapng
from tests.scenarios.options import Options
from tests.spark.conftest import HEAP
from tests.spark.inside import BY_DEFAULT, EVERYTHING, cut, local, ring, written

capture_stream = pytest.importorskip("pulsarscope.spark.jobs.capture_stream", reason="no pyspark: pip install -e '.[spark]'")
CaptureStream = capture_stream.CaptureStream
StreamingQueryException = capture_stream.StreamingQueryException


class Watched:
    """A folder with a series of streams that decode it, each as after a restart."""

    def __init__(self, spark: Any, folder: Path, options: Options = EVERYTHING, table_format: str = "parquet") -> None:
        self._spark = spark
        self._folder = folder
        self._options = options
        self._format = table_format
        self.landing = folder / "in"
        self.landing.mkdir()
        self.out = folder / "out"
        self.batches: list[Any] = []
        self._streams: list[Any] = []
        Checkpoint(str(folder / "kept")).create({})

    def stream(self, on_batch: Callable[[Any], None] | None = None) -> Any:
        for stream in self._streams:
            stream.close()
        kept = Checkpoint(str(self._folder / "kept"))
        made = CaptureStream(self._spark, kept, str(self.out), self._options, self._format, 2, on_batch or self.batches.append)
        self._streams.append(made)
        return made

    def advance(self, stream: Any, *, ends: bool = False) -> None:
        folder = LandingFolder(str(self.landing), "none", 0, stream.captures)
        stream.advance(folder.poll(0, take_all=True) + (folder.close() if ends else []))


def test_batches_together_are_the_local_rows(spark: Any, captures: Path, tmp_path: Path) -> None:
    watched = Watched(spark, tmp_path)
    first, second = cut(captures / "quickstart.pcapng", tmp_path, [0.5]).paths
    stream = watched.stream()
    watched.advance(stream)  # nothing is there
    for path in (first, second):
        copy(path, watched.landing)
        watched.advance(stream)
        watched.advance(stream)
    watched.advance(stream, ends=True)
    stream.close()
    assert [(batch.number, batch.files) for batch in watched.batches] == [(0, 1), (1, 1), (2, 0)]
    assert watched.batches[0].open > watched.batches[2].open == 0
    assert written(watched.out) == local(expand_inputs([str(watched.landing)]))
    assert {path.name for path in (watched.out / "frame").iterdir()} == {"part-000000-00000.parquet", "part-000001-00000.parquet"}
    for batch in watched.batches:
        assert sum(batch.rows.values()) == sum(
            pyarrow.parquet.read_metadata(path).num_rows for path in watched.out.glob(f"*/part-{batch.number:06}-*")
        )


def test_runs_over_overlapping_folders_add_nothing_twice(spark: Any, captures: Path, tmp_path: Path) -> None:
    """Connections continue from run to run; names are those of the list."""
    watched = Watched(spark, tmp_path)
    (tmp_path / "more").mkdir()
    paths = cut(captures / "shared-nack-dlq.pcap", tmp_path, (0.3, 0.6)).paths
    for number, path in enumerate(paths):
        copy(path, tmp_path / "more" / f"all{number}.pcap")
    copy(paths[0], watched.landing)
    taken = []
    for arguments in ([watched.landing], [tmp_path / "more", watched.landing], [tmp_path / "more"]):
        stream = watched.stream()
        named = NamedCaptures([str(place) for place in arguments], "none", 0, stream.captures)
        landed = named.poll(0, take_all=True)
        taken.append([Path(capture.path).name for capture in landed])
        stream.advance(landed)
    assert taken == [["0.pcap"], ["all1.pcap", "all2.pcap"], []]
    watched.advance(stream, ends=True)
    stream.close()
    assert written(watched.out) == local(Inputs(paths, 0, []))


def test_batches_without_facts_leave_none(spark: Any, captures: Path, tmp_path: Path) -> None:
    watched = Watched(spark, tmp_path)
    stream = watched.stream()
    waiting = []
    write_pcap(tmp_path / "none.pcap", [])
    write_pcapng(tmp_path / "nothing.pcapng", [])
    for path in (tmp_path / "none.pcap", captures / "errors.pcap", tmp_path / "nothing.pcapng"):
        copy(path, watched.landing)
        watched.advance(stream)
        waiting.append(sorted(path.name for path in (tmp_path / "kept" / "facts").iterdir()))
    stream.close()
    assert waiting == [[], *[["000000002-000", "000000002-001"]] * 2]
    assert [batch.number for batch in watched.batches] == [0, 1, 2]


def test_what_was_listed_is_decoded_before_more_is(spark: Any, captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark 4.1 takes everything at once, and no batch may cross the entry that closed connections before the driver was stopped."""
    watched = Watched(spark, tmp_path)
    copy(captures / "errors.pcap", watched.landing)
    folder = LandingFolder(str(watched.landing), "none", 0, [])
    Checkpoint(str(tmp_path / "kept")).append(folder.poll(0, take_all=True) + folder.close())
    copy(captures / "ipv6.pcap", watched.landing)
    stream = watched.stream()
    ends: list[int] = []

    class Query:
        def awaitTermination(self, _: float) -> bool:  # noqa: N802 - as Spark calls it
            ends.append(len(stream.captures))
            stream._committed = Commit(len(ends), ends[-1])
            return False

    monkeypatch.setattr(stream, "_started", Query)
    stream.advance(folder.poll(1, take_all=True) + folder.close())
    assert ends == [2, 4]


class Query:
    """A query that continues, or has ended with an error."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error

    def awaitTermination(self, seconds: float) -> bool:  # noqa: N802 - Spark's name
        del seconds
        if self._error is not None:
            raise self._error
        return False


@pytest.mark.parametrize("seconds", [0.1, 0.0, -1.0])
def test_no_look_takes_too_long_for_the_query(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seconds: float) -> None:
    """The query starts, and its error is raised, even if listing captures takes all the time between two checks."""
    errors = None, StreamingQueryException("failed to connect back"), StreamingQueryException("disk full")
    queries = map(Query, errors)
    started: list[Query] = []

    def start() -> Query:
        started.append(next(queries))
        return started[-1]

    kept = Checkpoint(str(tmp_path / "kept"))
    kept.create({})
    stream = CaptureStream(None, kept, str(tmp_path / "out"), EVERYTHING, "parquet", 2, lambda _: None)
    monkeypatch.setattr(stream, "_started", start)
    landed = [LandedCapture(0, "a.pcap", None, 24, 0, 0, "a")]
    stream.decode(landed, seconds)
    stream.decode([], seconds)
    assert len(started) == 1
    stream._query = None  # Spark has ended it, and the next one cannot start in time
    with pytest.raises(StreamingQueryException, match="disk full"):
        stream.decode([], seconds)
    assert len(started) == 3


@pytest.mark.parametrize(
    ("stops", "error", "kind"),
    [
        (True, StreamingQueryException("stopped"), capture_stream.Stopped),
        (True, ConnectionRefusedError(), capture_stream.Stopped),
        (False, ConnectionRefusedError(), ConnectionRefusedError),
        (True, OutputError("disk full"), OutputError),
    ],
)
def test_what_spark_raises_after_a_signal_is_the_end(*, stops: bool, error: Exception, kind: type[Exception]) -> None:
    stopping = Event()
    if stops:
        stopping.set()
    with pytest.raises(kind), capture_stream.stopped_by(stopping):
        raise error


def test_captures_are_listed_while_others_are_decoded(spark: Any, captures: Path, tmp_path: Path) -> None:
    """The caller lists them in the meantime."""
    watched = Watched(spark, tmp_path)
    stream = watched.stream()
    folder = LandingFolder(str(watched.landing), "none", 0, [])
    for path in cut(captures / "quickstart.pcapng", tmp_path, [0.3, 0.5]).paths:
        copy(path, watched.landing)
        stream.decode(folder.poll(0, take_all=True), 0)
    assert len(stream.captures) == 3
    stream.decode([], 0.01)
    stream.decode([])
    assert sum(batch.files for batch in watched.batches) == 3
    watched.advance(stream, ends=True)
    stream.close()
    assert written(watched.out) == local(expand_inputs([str(watched.landing)]))


class Killed(Exception):  # noqa: N818 - it stands for a signal
    """End of the driver."""


def test_a_batch_is_done_once_wherever_the_driver_stops(
    spark: Any, captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stops at a different moment in each batch but the first."""
    watched = Watched(spark, tmp_path)
    first, *others = cut(captures / "errors.pcap", tmp_path, [0.2, 0.35, 0.5, 0.65, 0.8]).paths
    copy(first, watched.landing)
    stream = watched.stream()
    watched.advance(stream)

    def dying(*_: Any, **__: Any) -> None:
        raise Killed

    real = table_files.finish_files

    def finish_then_die(*given: Any) -> None:
        real(*given)
        dying()

    moments: dict[str, tuple[object, str, Callable[..., None]]] = {
        "done": (stream, "_on_batch", dying),
        "listed": (CaptureStream, "_started", dying),
        "decoded": (Checkpoint, "commit", dying),
        "committed": (capture_stream, "finish_files", dying),
        "named": (capture_stream, "finish_files", finish_then_die),
    }
    for path, (moment, (owner, name, replacement)) in zip(others, moments.items(), strict=True):
        before = written(watched.out)
        copy(path, watched.landing)
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, replacement)
            with pytest.raises(Exception):  # noqa: B017, PT011 - of Spark, with ours as its text
                watched.advance(stream)
        if moment in ("listed", "decoded", "committed"):
            assert written(watched.out) == before  # part of a batch is never visible
        stream = watched.stream()
        watched.advance(stream)
    watched.advance(stream, ends=True)
    stream.close()
    assert written(watched.out) == local(expand_inputs([str(watched.landing)]))
    assert not [path for path in watched.out.rglob("_*") if path.is_file()]


@pytest.mark.parametrize("in_batch", [False, True])
@pytest.mark.parametrize(
    ("why", "failures", "tries"), [("failed to connect back", 4, 5), ("failed to connect back", 99, 20), ("other", 1, 1)]
)
def test_a_query_that_starts_too_slowly_is_started_again(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str, failures: int, tries: int, *, in_batch: bool
) -> None:
    """The process may be that of the source, or of a task that decodes a batch."""
    from pyspark.errors import StreamingQueryException  # noqa: PLC0415 - there may be no Spark

    watched = Watched(spark, tmp_path)
    write_pcap(watched.landing / "none.pcap", [])
    stream = watched.stream()
    starts: list[int] = []

    class Query:
        def awaitTermination(self, _: float) -> bool:  # noqa: N802 - as Spark calls it
            starts.append(len(starts))
            if len(starts) > failures:
                stream._committed = Commit(0, 1)
                return False
            if in_batch:
                stream._failure = OSError(f"Python worker {why}")
            raise StreamingQueryException(message="error of a batch" if in_batch else f"Python worker {why}")

    monkeypatch.setattr(stream, "_started", Query)
    if failures in (tries, 99):
        with pytest.raises(OSError if in_batch else StreamingQueryException, match=why):
            watched.advance(stream)
    else:
        watched.advance(stream)
    assert stream._failure is None
    assert len(starts) == tries


def test_json_is_the_very_lines_of_decode(spark: Any, captures: Path, tmp_path: Path) -> None:
    watched = Watched(spark, tmp_path, Options(frozenset({"connection", "message"})), "json")
    inputs = cut(captures / "quickstart.pcapng", watched.landing, [0.3, 0.6])
    stream = watched.stream()
    watched.advance(stream)
    watched.advance(stream, ends=True)
    stream.close()
    rows = [json.loads(line) for path in watched.out.rglob("part-*") for line in path.read_text().splitlines()]
    assert {row["record"] for row in rows} == {"connection", "message"}
    assert len(rows) == sum(map(len, local(inputs, Options(frozenset({"connection", "message"}))).values()))


class Command:
    """A process of `pipeline --watch`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = (folder / "log").open("w+")
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *more: str) -> subprocess.Popen[bytes]:
        places: list[str | Path] = ["--watch", self._folder / "in", "--checkpoint", self._folder / "kept", "-o", self._folder / "out"]
        timing = ["--every", "0.1", "--settle", "0.2", "--master", "local[2]", "--conf", f"spark.driver.memory={HEAP}", "--partitions", "2"]
        command: list[str | Path] = [sys.executable, "-m", "pulsarscope", "pipeline", *places, *timing, *more]
        self.process = subprocess.Popen(command, stdout=self._log, stderr=self._log)
        return self.process

    def output(self) -> str:
        return (self._folder / "log").read_text()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(60)
        self._log.close()


@pytest.fixture
def command(can_run: None, tmp_path: Path) -> Iterator[Command]:  # noqa: ARG001 - it skips
    made = Command(tmp_path)
    try:
        yield made
    finally:
        made.stop()


def until(found: Callable[[], bool], seconds: float = 240) -> None:
    end = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < end
        time.sleep(0.002)


STOPPED = (signal.SIGTERM, "list", 5.0)
"""Signal, the last write of the driver to the checkpoint before it, and the seconds within which it then comes."""
KILLED = (signal.SIGKILL, "list", 3.0), (signal.SIGKILL, "commits", 0.0), STOPPED
"""Before a commit, and right after one."""


@pytest.mark.timeout(900)  # it starts Spark up to four times
@pytest.mark.parametrize("ends", [pytest.param([STOPPED], id="stopped"), pytest.param(KILLED, id="killed", marks=pytest.mark.kills)])
def test_a_driver_that_ends_at_a_random_moment_loses_and_doubles_nothing(
    command: Command, tmp_path: Path, ends: Sequence[tuple[signal.Signals, str, float]]
) -> None:
    """A ring of twelve files lands in the meantime."""
    chance = Random(os.environ.get("CHANCE"))
    short_connections(tmp_path / "whole.cap", 60, 1)
    for folder in ("cut", "in"):
        (tmp_path / folder).mkdir()
    files = ring(tmp_path / "whole.cap", tmp_path / "cut", 12)
    kept = tmp_path / "kept"

    def land(some: list[Path]) -> None:
        for path in some:
            copy(path, tmp_path / f".{path.name}")
            (tmp_path / f".{path.name}").rename(tmp_path / "in" / path.name)

    def grows(what: str) -> Callable[[], bool]:
        """Return a check that the process that starts now has written to the checkpoint, and is thus at work."""
        before = len([*kept.glob(f"{what}/0*.json")])
        return lambda: len([*kept.glob(f"{what}/0*.json")]) > before

    for number, what, moment in ends:
        land([files.pop(0) for _ in range(3)])
        at_work = grows(what)
        process = command.start()
        until(at_work)
        time.sleep(chance.uniform(0, moment))
        process.send_signal(number)
        assert process.wait(240) == (0 if number == signal.SIGTERM else -number), command.output()
    land(files)
    assert command.start("--finish").wait(240) == 0, command.output()
    captures = [landed for landed in Checkpoint(str(kept)).captures() if not landed.closes]
    assert sorted(landed.path for landed in captures) == sorted(str(path) for path in (tmp_path / "in").iterdir())
    assert written(tmp_path / "out") == local(Inputs([landed.path for landed in captures], 0, []), BY_DEFAULT)
    assert not [path for path in (tmp_path / "out").rglob("_*") if path.is_file()]
    assert {path.name for path in (tmp_path / "out").iterdir()} == set(ALL)
    assert command.start("--records", "frame").wait(120) == 2
    assert "is the checkpoint of another run (--records was" in command.output().splitlines()[-1]
