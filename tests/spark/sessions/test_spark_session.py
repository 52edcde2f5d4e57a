from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from random import Random
from threading import Event, Thread, Timer
from time import monotonic, sleep
from typing import Any

import pytest

from benchmarks.traffic import short_connections, steady
from pulsarscope.capture import expand_inputs
from pulsarscope.model.errors import InternalError, OutputError, PulsarscopeError, UsageError
from pulsarscope.spark.sessions import spark_session as module
from pulsarscope.spark.sessions.java import choose
from pulsarscope.spark.sessions.spark_session import (
    SparkLog,
    error_line,
    installed_version,
    is_spark_error,
    job_error,
    session,
    zip_package,
)
from tests.places import CAPTURES, PACKAGE
from tests.spark.conftest import MASTER, SETTINGS, SHORT_JAVA
from tests.spark.inside import EVERYTHING, local, ring, written


def test_what_is_not_installed_is_said_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "installed_version", lambda name: None if name == "pandas" else "9")
    with pytest.raises(UsageError, match=r"pipeline needs pandas: .* -m pip install .*\[spark\]"), session(None, {}):
        pass


@pytest.mark.slow
def test_the_package_is_shipped_whole(tmp_path: Path) -> None:
    with zipfile.ZipFile(zip_package(tmp_path)) as archive:
        sources = {name for name in archive.namelist() if not name.endswith(".pyc")}
    assert sources == {str(path.relative_to(PACKAGE.parent)) for path in PACKAGE.rglob("*.*") if path.suffix in (".py", ".tsv")}


@pytest.mark.slow
def test_what_is_compiled_is_shipped_and_used(tmp_path: Path) -> None:
    code = "import sys; sys.path.insert(0, sys.argv[1]); import pulsarscope.model.limits as module; print(module.__file__)"
    shipped = zip_package(tmp_path)
    result = subprocess.run([sys.executable, "-c", code, shipped], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == f"{shipped}/pulsarscope/model/limits.pyc"


def test_an_error_is_one_line() -> None:
    assert error_line(ValueError("\n  what\nwhere\n")) == "what"
    assert error_line(ValueError("failed:\nTraceback (most recent call last):\n  File\nOSError: why\n")) == "OSError: why"
    assert (
        error_line(ValueError("An error occurred while calling o1.start.\n: java.io.IOException: why\n\tat java"))
        == "java.io.IOException: why"
    )
    assert error_line(ValueError()) == "ValueError"


def in_task(*lines: str) -> ValueError:
    """Return the exception of a job whose task ended with this report."""
    return ValueError(
        "\n".join(["Please see the stack trace below.", "Traceback (most recent call last):", '  File "a.py", line 3', *lines])
    )


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        (["ValueError: why"], InternalError),
        (["MemoryError"], InternalError),
        (["pyarrow.lib.ArrowInvalid: why", "", "\tat org.apache.spark.Task.run(Task.scala:1)"], InternalError),
        (["OSError: gone", "", "During handling …", "Traceback (most recent call last):", "  File", "KeyError: 'why'"], InternalError),
        (["FileNotFoundError: why"], OutputError),
        (["OSError: [Errno 28] No space left on device"], OutputError),
        (["pulsarscope.model.errors.OutputError: why"], OutputError),
        (["pyspark.errors.exceptions.base.PySparkRuntimeError: why"], OutputError),
    ],
)
def test_a_fault_in_a_task_is_distinguished_from_errors_of_the_files(lines: list[str], kind: type[PulsarscopeError]) -> None:
    error = job_error(in_task(*lines), "spark.log")
    assert type(error) is kind
    assert len(str(error).splitlines()) == 1
    assert "spark.log" in str(error)
    assert [line for line in lines if (line[0:1].isalpha() and "Error" in line) or "Invalid" in line][-1] in str(error)


def test_a_job_that_fails_by_itself_is_no_fault() -> None:
    assert type(job_error(ValueError("Job aborted.\n\tat java"), "spark.log")) is OutputError


def test_a_java_that_is_gone_is_a_job_that_failed() -> None:
    assert is_spark_error(ConnectionRefusedError(111, "Connection refused"))
    assert is_spark_error(ConnectionResetError(104, "Connection reset by peer"))
    assert not is_spark_error(BrokenPipeError(32, "Broken pipe"))  # of standard output
    assert type(job_error(ConnectionRefusedError(111, "Connection refused"), "spark.log")) is OutputError


@pytest.mark.parametrize("keep", [False, True])
def test_what_java_says_stays_only_when_it_is_needed(*, keep: bool) -> None:
    log = SparkLog()
    with log.redirected():
        os.write(2, b"said")
    if keep:
        assert log.keep(ValueError("why")) == log.path
        assert Path(log.path).read_bytes() == b"saidwhy\n"
    log.close()
    assert Path(log.path).exists() is keep
    Path(log.path).unlink(missing_ok=True)


def test_what_java_ended_with_is_found() -> None:
    log = SparkLog()
    with log.redirected():
        os.write(2, b'WARNING: x\nException in thread "main" org.apache.spark.SparkException: Master must\n\tat org\n')
    assert log.java_error() == "Master must"
    log.close()


TRIES = 3
"""After an interrupt, py4j asks Java on the connections of other threads to close the interrupted one; Java then closes all of them,
including one that was just opened.
"""


def test_an_interrupt_ends_a_call_of_java_without_a_word(spark: Any, caplog: pytest.LogCaptureFixture) -> None:
    sleep = spark.sparkContext._jvm.java.lang.Thread.sleep  # looked up with calls of Java, which are not part of this test
    timer = Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        sleep(60_000)
    timer.join()
    assert not caplog.records
    for _ in range(TRIES):
        with suppress(pytest.importorskip("py4j.protocol").Py4JNetworkError):
            assert spark.range(3).count() == 3
            return
    raise AssertionError("Java answers no call after the interrupt")


@pytest.mark.parametrize("name", ["clientserver", "java_gateway"])
def test_a_connection_to_java_that_breaks_while_it_is_closed_is_not_logged(name: str, caplog: pytest.LogCaptureFixture) -> None:
    record = logging.makeLogRecord({"name": f"py4j.{name}", "module": name, "levelno": logging.ERROR, "msg": "shutting down"})
    logger = logging.getLogger(record.name)
    logger.filters, before = [], logger.filters  # a session of other tests may have some
    try:
        logger.handle(record)
        assert caplog.records.pop() is record
        with module._failed_calls_unlogged():
            logger.handle(record)
        assert not caplog.records
        assert not logger.filters
    finally:
        logger.filters = before


def test_a_first_signal_waits_until_spark_has_started() -> None:
    before = signal.getsignal(signal.SIGINT)
    with module._signals_held() as held:
        signal.raise_signal(signal.SIGINT)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Spark sets its own handler
    assert held == [signal.SIGINT]
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_signal_interrupts_the_start() -> None:
    with module._signals_held():
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


@pytest.mark.cluster
def test_a_job_that_is_interrupted_while_spark_starts_leaves_no_java(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pulsarscope", "pipeline", str(CAPTURES / "quickstart.pcapng"), "-o", str(tmp_path / "tables")]
    job = subprocess.Popen([*command, "--master", "local[1]"], stderr=subprocess.PIPE, text=True, start_new_session=True)
    while not (started := [name for name in members(job.pid) if name == "java"]) and job.poll() is None:
        sleep(0.05)
    assert started
    job.send_signal(signal.SIGINT)
    _, error = job.communicate(timeout=120)
    assert (job.returncode, error) == (5, "pulsarscope: interrupted; the output is not complete\n")
    end = monotonic() + 30
    while members(job.pid) and monotonic() < end:
        sleep(0.1)
    assert members(job.pid) == []


def members(group: int) -> list[str]:
    """Return the names of the processes of a group."""
    names = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            name, _, rest = stat.read_text().partition("(")[2].rpartition(")")
            state, _, its_group, *_ = rest.split()
            if state != "Z" and int(its_group) == group:
                names.append(name)
    return names


class Machines:
    """A master and two workers."""

    def __init__(self, folder: Path) -> None:
        (spark,) = getattr(find_spec("pyspark"), "submodule_search_locations", None) or [""]
        java = choose(os.environ, installed_version("pyspark") or "").home_for_spark(folder / "java")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.master = f"spark://127.0.0.1:{port}"
        self._log = (folder / "machines.log").open("wb")
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {
            "JAVA_HOME": str(java),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_WORKER_DIR": str(folder / "work"),
            "SPARK_LOCAL_DIRS": str(folder / "local"),
            "SPARK_DAEMON_JAVA_OPTS": SHORT_JAVA,
        }
        deploy = "org.apache.spark.deploy"
        commands = [[f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]]
        commands += [[f"{deploy}.worker.Worker", "-c", "1", "-m", "700m", "--webui-port", "0", self.master]] * 2
        self.processes = [
            subprocess.Popen([Path(spark) / "bin" / "spark-class", *command], env=environment, stdout=self._log, stderr=self._log)
            for command in commands
        ]

    def executors(self) -> list[int]:
        """Return the identifiers of the processes in which tasks run."""
        workers = {process.pid for process in self.processes[1:]}
        identifiers = []
        for entry in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                parent = int(entry.read_text().rpartition(")")[2].split()[1])
                if parent in workers and b"CoarseGrainedExecutorBackend" in (entry.parent / "cmdline").read_bytes():
                    identifiers.append(int(entry.parent.name))
        return identifiers

    def stop(self) -> None:
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait(60)
        self._log.close()


@pytest.fixture
def machines(can_run: None, tmp_path: Path) -> Iterator[Machines]:  # noqa: ARG001 - it skips
    from pyspark.sql import SparkSession  # noqa: PLC0415 - there may be no Spark

    if shared := SparkSession.getActiveSession():  # a process has one session, and no later test needs this one
        shared.stop()
    started = Machines(tmp_path)
    try:
        yield started
    finally:
        started.stop()


ATTEMPTS = 4


class Killer(Thread):
    """Thread that kills an executor after a number of further tasks."""

    def __init__(self, machines: Machines, tracker: Any, tasks: int) -> None:
        super().__init__(daemon=True)
        self._machines = machines
        self._tracker = tracker
        self._tasks = tasks_done(tracker) + tasks
        self._ended = Event()
        self.killed: list[int] = []

    def run(self) -> None:
        while not self._ended.wait(0.02):
            if tasks_done(self._tracker) >= self._tasks:
                self.killed = self._machines.executors()[:1]
                for number in self.killed:
                    os.kill(number, signal.SIGKILL)
                return

    def end(self) -> None:
        self._ended.set()
        self.join()


def tasks_done(tracker: Any) -> int:
    """Return the number of finished tasks of all jobs."""
    stages = {stage for job in tracker.getJobIdsForGroup() if (info := tracker.getJobInfo(job)) for stage in info.stageIds}
    return sum(info.numCompletedTasks for stage in stages if (info := tracker.getStageInfo(stage)))


@pytest.mark.kills
@pytest.mark.timeout(900)  # it starts four processes of Java and runs four jobs or more
def test_an_executor_that_is_killed_changes_no_row(machines: Machines, tmp_path: Path) -> None:
    """Each time at another random moment: while captures are scanned or read, while they are decoded, near the end."""
    from pulsarscope.spark.jobs.job import run  # noqa: PLC0415 - there may be no Spark

    short_connections(tmp_path / "a.cap", 120, 1)
    steady(tmp_path / "b.cap", "batch", 1, 2)
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("a.cap", "b.cap"):
        for path in ring(tmp_path / name, folder, 4):
            path.rename(path.with_name(name + path.name))
    want = local(expand_inputs([str(folder)]))
    chance = Random()
    settings = {
        "spark.pyspark.python": sys.executable,
        "spark.executor.memory": "600m",
        "spark.executor.extraJavaOptions": SHORT_JAVA,
        "spark.driver.extraJavaOptions": SHORT_JAVA,
        "spark.sql.shuffle.partitions": "4",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
    }
    with session(machines.master, settings) as spark:
        tracker = spark.sparkContext.statusTracker()
        run(spark, [str(folder)], str(tmp_path / "undisturbed"), EVERYTHING, partitions=8)
        assert written(tmp_path / "undisturbed") == want
        tasks = tasks_done(tracker)
        for third in range(3):
            disturbed = False
            for attempt in range(ATTEMPTS):  # Spark counts tasks late: a run may be over before its killer sees the last ones
                progress = int(tasks * chance.uniform(third, third + 0.8) / 3 * (1 - attempt / ATTEMPTS))
                out = tmp_path / f"out{third}.{attempt}"
                killer = Killer(machines, tracker, progress)
                killer.start()
                run(spark, [str(folder)], str(out), EVERYTHING, partitions=8)
                killer.end()
                assert written(out) == want, f"killed after {progress} of {tasks} tasks"
                disturbed = bool(killer.killed)
                if disturbed:
                    break
            assert disturbed


@pytest.mark.usefixtures("can_run")
def test_a_master_that_is_none_is_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pulsarscope", "pipeline", str(PACKAGE.parent / "captures" / "ipv6.pcap"), "-o", str(tmp_path / "out")]
    result = subprocess.run([*command, "--master", "nonsense"], capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == OutputError.exit_code
    assert result.stderr.count("\n") == 1
    assert "Spark does not start" in result.stderr


def test_a_fault_in_a_task_on_spark_is_one_of_the_command(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Any) -> Any:
        raise ValueError("why")

    monkeypatch.setattr(type(spark), "stop", lambda _: None)  # other tests share it
    monkeypatch.setenv("JAVA_HOME", os.environ["JAVA_HOME"])  # set by each call
    with pytest.raises(InternalError, match=r"^internal error in a task of the Spark job \(ValueError: why\); details"):  # noqa: SIM117
        with session(MASTER, SETTINGS) as shared:
            shared.range(3).mapInArrow(fail, "id long").count()
    assert spark.range(3).count() == 3
