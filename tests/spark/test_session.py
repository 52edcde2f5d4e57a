from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pyspark
import pytest

from benchmarks.traffic import short_connections, steady
from pulsarscope.capture import expand_inputs
from pulsarscope.errors import OutputError, UsageError
from pulsarscope.spark import session as module
from pulsarscope.spark.session import Log, in_a_line, package, session
from tests.architecture.modules import PACKAGE
from tests.spark.inside import local, ring
from tests.spark.test_run import written

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"


def test_what_is_not_installed_is_said_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "installed", lambda name: None if name == "pandas" else "9")
    with pytest.raises(UsageError, match=r"pipeline needs pandas: pip install \"pulsarscope\[spark\]\""), session(None, {}):
        pass


def test_the_package_is_shipped_whole(tmp_path: Path) -> None:
    with zipfile.ZipFile(package(tmp_path)) as archive:
        assert set(archive.namelist()) == {str(path.relative_to(PACKAGE.parent)) for path in PACKAGE.rglob("*.py")}


def test_an_error_is_one_line() -> None:
    assert in_a_line(ValueError("\n  what\nwhere\n")) == "what"
    assert in_a_line(ValueError("failed:\nTraceback (most recent call last):\n  File\nOSError: why\n")) == "OSError: why"
    assert in_a_line(ValueError()) == "ValueError"


@pytest.mark.parametrize("keep", [False, True])
def test_what_java_says_stays_only_when_it_is_needed(*, keep: bool) -> None:
    log = Log()
    with log.redirected():
        os.write(2, b"said")
    if keep:
        assert log.keep(ValueError("why")) == log.path
        assert Path(log.path).read_bytes() == b"saidwhy\n"
    log.close()
    assert Path(log.path).exists() is keep
    Path(log.path).unlink(missing_ok=True)


class Machines:
    """A master and two workers."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.master = f"spark://127.0.0.1:{port}"
        self._log = (folder / "machines.log").open("wb")
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_WORKER_DIR": str(folder / "work"),
            "SPARK_LOCAL_DIRS": str(folder / "local"),
        }
        deploy = "org.apache.spark.deploy"
        commands = [[f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]]
        commands += [[f"{deploy}.worker.Worker", "-c", "1", "-m", "1200m", "--webui-port", "0", self.master]] * 2
        self.processes = [
            subprocess.Popen([SPARK_CLASS, *command], env=environment, stdout=self._log, stderr=self._log) for command in commands
        ]

    def executors(self) -> list[int]:
        """Numbers of the processes in which tasks run."""
        workers = {process.pid for process in self.processes[1:]}
        found = []
        for entry in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                parent = int(entry.read_text().rpartition(")")[2].split()[1])
                if parent in workers and b"CoarseGrainedExecutorBackend" in (entry.parent / "cmdline").read_bytes():
                    found.append(int(entry.parent.name))
        return found

    def stop(self) -> None:
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait(60)
        self._log.close()


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    started = Machines(tmp_path)
    try:
        yield started
    finally:
        started.stop()


@pytest.mark.cluster
def test_an_executor_that_is_killed_changes_no_row(machines: Machines, tmp_path: Path) -> None:
    """Each time at another moment, found by chance."""
    short_connections(tmp_path / "a.cap", 400, 1)
    steady(tmp_path / "b.cap", "batch", 8, 2)
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("a.cap", "b.cap"):
        for path in ring(tmp_path / name, folder, 6):
            path.rename(path.with_name(name + path.name))
    want = local(expand_inputs([str(folder)]))
    wheel = wheel_as_zip(tmp_path)
    settings = {"spark.pyspark.python": sys.executable, "spark.submit.pyFiles": str(wheel), "spark.executor.memory": "1g"}
    command = [sys.executable, "-m", "pulsarscope", "pipeline", str(folder), "--master", machines.master]
    command += [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    chance = Random()
    seconds, kills = 0.0, 0
    for attempt in range(10):
        out = tmp_path / f"out{attempt}"
        with subprocess.Popen([*command, "-o", str(out)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as run:
            while not machines.executors() and run.poll() is None:
                time.sleep(0.05)
            began = time.monotonic()
            moment = chance.uniform(0.05, 0.95) * seconds
            if attempt:  # the first shows how long it takes
                time.sleep(moment)
                for number in machines.executors()[:1]:
                    os.kill(number, signal.SIGKILL)
                    kills += run.poll() is None
            said, _ = run.communicate(timeout=500)
        seconds = seconds or time.monotonic() - began
        assert run.returncode == 0, said.decode()
        assert written(out) == want, f"killed {moment} s after the start"
        if kills == 3:
            break
    assert kills == 3


def wheel_as_zip(folder: Path) -> Path:
    """The package as pip builds it; Spark knows zip files by their name."""
    root = PACKAGE.parent
    subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder / "wheel"), str(root)], check=True)
    (made,) = (folder / "wheel").glob("*.whl")
    return made.rename(made.with_suffix(".zip"))


def test_a_master_that_is_none_is_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pulsarscope", "pipeline", str(PACKAGE.parent / "captures" / "ipv6.pcap"), "-o", str(tmp_path / "out")]
    result = subprocess.run([*command, "--master", "nonsense"], capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == OutputError.exit_code
    assert result.stderr.count("\n") == 1
    assert "Spark does not start" in result.stderr
