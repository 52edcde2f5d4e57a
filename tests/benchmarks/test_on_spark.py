"""The cost of a pipeline: the processor time of all processes that it starts, and the memory of its workers."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks import on_spark
from benchmarks.on_spark import LAUNCHER, Way, descendants, peak_bytes, table, watched

BURN = "import time\nwhile time.process_time() < 0.5: pass"


def test_what_a_command_leaves_behind_is_waited_for_and_counted() -> None:
    leave = f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {BURN!r}])"
    result = subprocess.run(
        [sys.executable, "-I", "-S", "-c", LAUNCHER, sys.executable, "-c", leave], capture_output=True, text=True, check=True
    )
    assert float(result.stdout) > 0.5


def test_a_command_that_fails_is_said() -> None:
    way = Way("fails", (sys.executable, "-c", "import sys; sys.exit('no such thing')"))
    with pytest.raises(RuntimeError, match="exit code 1: no such thing"):
        way.run(Path("x.pcap"), "all")


def test_the_peak_of_the_largest_worker_is_seen() -> None:
    grow = "import sys, time\nsys.argv += ['pyspark']\nroom = bytearray(100 << 20)\nsys.stdin.read()"
    line = [sys.executable, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])", sys.executable, "-c", grow, "pyspark.daemon"]
    with subprocess.Popen(line, stdin=subprocess.PIPE) as process, watched(process.pid) as peaks:
        deadline = time.monotonic() + 30
        while peaks[-1] < 100 << 20 and time.monotonic() < deadline:
            time.sleep(0.05)
        (child,) = descendants(process.pid)
        assert peak_bytes(child) >= 100 << 20
        process.communicate()
    assert 100 << 20 <= peaks[-1] < 200 << 20


def test_own_work_is_without_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    burn = "import sys, time\nwhile time.process_time() < float(sys.argv[1]): pass"
    ways = tuple(Way(label, (sys.executable, "-c", burn, seconds)) for label, seconds in (("one", "0.5"), ("two", "0.8")))
    monkeypatch.setattr(on_spark, "WAYS", ways)
    monkeypatch.setattr(on_spark, "STARTS", {way.label: Way(way.label, (*way.command[:-1], "0.2")) for way in ways})
    capture = tmp_path / "x.pcap"
    capture.write_bytes(bytes(1_000_000))
    rows = re.findall(r"^\| (one|two) \| ([\d.]+) \| ([\d.]+) \| [\d.]+ \| ([\d.]+) ", table(capture, "all", 1), re.MULTILINE)
    assert [row[0] for row in rows] == ["one", "two"]
    assert float(rows[0][3]) == 1
    assert 1.5 < float(rows[1][3]) < 2.5
