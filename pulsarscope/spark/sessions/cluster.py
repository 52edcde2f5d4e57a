"""The cluster of a session: either in this process, or behind Spark Connect, which has no `sparkContext`."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pulsarscope.model.errors import OutputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REMOTE = "sc://"
"""Prefix of the address of a Connect server."""

CONNECT_PORT = 15002
"""Port of a Connect server whose address names none."""

CONNECT_SECONDS = 10.0

REFRESH_SECONDS = 0.5

TAG = "pulsarscope"

_ROWS_OF_DEFAULT = 1 << 16
"""Rows of a range, enough for a row in each of its partitions."""


def is_address(master: str | None) -> bool:
    """Return True for the address of a Connect server."""
    return master is not None and master.startswith(REMOTE)


def is_remote(spark: SparkSession) -> bool:
    """Return True for a session of Spark Connect."""
    return ".connect." in type(spark).__module__


def parallelism(spark: SparkSession) -> int:
    """Return the number of tasks that the cluster runs at the same time."""
    if not is_remote(spark):
        cores: int = spark.sparkContext.defaultParallelism
        return cores
    from pyspark.sql import functions  # noqa: PLC0415 - pyspark is an extra

    # By default, a range has a partition for each core.
    count: int = spark.range(_ROWS_OF_DEFAULT).select(functions.spark_partition_id()).distinct().count()
    return count


def require_answer(url: str) -> None:
    """Raise OutputError unless something listens at the address of a Connect server; pyspark would wait for ten minutes or longer."""
    try:
        parts = urlsplit(url)
        address = parts.hostname or "", parts.port or CONNECT_PORT
        socket.create_connection(address, CONNECT_SECONDS).close()
    except (OSError, ValueError) as error:
        raise OutputError(f"no Connect server answers at {url.partition('/;')[0]} ({error})") from None


@contextmanager
def described(spark: SparkSession) -> Iterator[Callable[[str], None]]:
    """Yield a function that names the phase of the following jobs in the web interface of Spark; behind Connect, in an operation tag."""
    if is_remote(spark):
        with _tagged(spark) as describe:
            yield describe
        return
    context = spark.sparkContext
    try:
        yield lambda phase: context.setJobDescription(f"pulsarscope: {phase}")
    finally:
        context.setLocalProperty("spark.jobs.job.description", None)


@contextmanager
def _tagged(spark: SparkSession) -> Iterator[Callable[[str], None]]:
    tags: list[str] = []

    def describe(phase: str) -> None:
        for tag in tags:
            spark.removeTag(tag)
        tags[:] = [f"{TAG}-{phase.replace(' ', '-').replace(',', '')}"]
        spark.addTag(tags[0])

    try:
        yield describe
    finally:
        for tag in tags:
            spark.removeTag(tag)


Tasks = Callable[[int, int], None]
"""A function that takes the number of finished tasks and of all tasks in the running stages."""


@contextmanager
def watched_tasks(spark: SparkSession, show: Tasks) -> Iterator[None]:
    """Call a function at intervals from another thread."""
    if is_remote(spark):
        with _watched_stages(spark, show):
            yield
        return
    ended = Event()
    tracker = spark.sparkContext.statusTracker()

    def refresh() -> None:
        while not ended.wait(REFRESH_SECONDS):
            stages = [info for stage in tracker.getActiveStageIds() if (info := tracker.getStageInfo(stage)) is not None]
            show(sum(info.numCompletedTasks for info in stages), sum(info.numTasks for info in stages))

    refresher = Thread(target=refresh, daemon=True)
    refresher.start()
    try:
        yield
    finally:
        ended.set()
        refresher.join()


@contextmanager
def _watched_stages(spark: SparkSession, show: Tasks) -> Iterator[None]:
    def progress(stages: Any, **_: Any) -> None:
        running = [stage for stage in stages or () if stage.num_completed_tasks < stage.num_tasks]
        show(sum(stage.num_completed_tasks for stage in running), sum(stage.num_tasks for stage in running))

    spark.registerProgressHandler(progress)
    try:
        yield
    finally:
        spark.removeProgressHandler(progress)
