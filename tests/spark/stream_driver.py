"""A query that reads captures as they land and writes Parquet, to be killed: `python -m tests.spark.stream_driver '{…}'`; its starter."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from shutil import copy
from threading import Event

import msgspec

import pulsarscope.spark
from pulsarscope.spark.sessions.spark_session import session
from tests.places import PACKAGE

LANDING_SECONDS = 0.4


class Query(msgspec.Struct, frozen=True):
    """A query from `in` to `out` below a folder."""

    folder: str
    kind: str
    master: str
    continuous: bool = False
    """True: by processing time, until it is killed; False: only what has landed."""
    last: bool = False
    """True: close all connections after the last capture, and leave the rows of the table in `rows.parquet`."""


def run(query: Query) -> None:
    """Run the query."""
    folder = Path(query.folder)
    settings = {"spark.driver.memory": "1g", "spark.executor.memory": "512m", "spark.sql.shuffle.partitions": "2"}
    with session(query.master, settings | {"spark.local.dir": str(folder / "scratch"), "spark.pyspark.python": sys.executable}) as spark:
        pulsarscope.spark.register(spark)
        reader = spark.readStream.format("pulsarscope").option("records", query.kind).option("partitions", 2)
        reader = reader.option("maxFilesPerTrigger", 1).option("settle", 0).option("stateLocation", str(folder / "state"))
        writer = reader.option("finish", query.last).load(str(folder / "in")).writeStream.format("parquet")
        trigger = {"processingTime": "100 milliseconds"} if query.continuous else {"availableNow": True}
        writer = writer.option("checkpointLocation", str(folder / "query")).trigger(**trigger)
        writer.start(str(folder / "out")).awaitTermination()
        if query.last:
            spark.read.parquet(str(folder / "out")).coalesce(1).write.parquet(str(folder / "rows.parquet"))


def land(files: list[Path], folder: Path, ended: Event) -> None:
    """Let captures appear in a folder, each of them complete."""
    for path in files:
        copy(path, folder / f".{path.name}")
        (folder / f".{path.name}").rename(folder / path.name)
        ended.wait(LANDING_SECONDS)


class Driver:
    """A process of a query, in a separate session of processes."""

    def __init__(self, query: object, folder: Path) -> None:
        self._folder = folder
        self.log = folder / "log"
        command = [sys.executable, "-m", "tests.spark.stream_driver", msgspec.json.encode(query).decode()]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, cwd=PACKAGE.parent)

    def commits(self) -> int:
        """Return the number of batches that Spark has committed."""
        return sum(path.name.isdigit() for path in (self._folder / "query" / "commits").glob("*"))

    def wait_for_batches(self, count: int) -> None:
        """Wait until `count` more are committed, or the query has ended."""
        target, end = self.commits() + count, time.monotonic() + 240
        while self.commits() < target and self.process.poll() is None:
            assert time.monotonic() < end, self.log.read_text()
            time.sleep(0.01)

    def kill(self) -> None:
        """Kill the driver: its Python and its Java."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(60)

    def kill_worker(self, chance: Random) -> str | None:
        """Kill an executor or one of its workers, and return its kind; None if there is none."""
        workers = [(number, what) for number, what in descendants(self.process.pid) if what in ("pyspark.daemon", "executor")]
        if not workers or self.process.poll() is not None:
            return None
        number, what = chance.choice(workers)
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
        return what


def descendants(root: int) -> Iterator[tuple[int, str]]:
    """Yield the descendants of a process, with their kinds."""
    parents, words = {}, {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            words[int(entry.name)] = (entry / "cmdline").read_bytes()
    below = {root}
    while more := {number for number, parent in parents.items() if parent in below} - below:
        below |= more
    for number in below & words.keys():
        if b"CoarseGrainedExecutorBackend" in words[number]:
            yield number, "executor"
        elif b"pyspark.daemon" in words[number]:
            yield number, "pyspark.daemon"


if __name__ == "__main__":
    run(msgspec.json.decode(sys.argv[1], type=Query))
