"""Output of a live run in several files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMMAND = (sys.executable, "-m", "pulsarscope", "live", "-i", "-")


def frames(captures: Path) -> int:
    command = [
        sys.executable,
        "-m",
        "pulsarscope",
        "decode",
        str(captures / "stuck-consumer.pcap"),
        "--format",
        "ndjson",
        "--quiet",
    ]
    return len(subprocess.run(command, capture_output=True, check=True).stdout.splitlines())


def run(captures: Path, *options: str) -> subprocess.CompletedProcess[bytes]:
    data = (captures / "stuck-consumer.pcap").read_bytes()
    return subprocess.run([*COMMAND, *options], input=data, capture_output=True, check=False, timeout=60)


def slowly(captures: Path, *options: str) -> None:
    """Run it on packets that arrive in several pieces."""
    with subprocess.Popen([*COMMAND, *options], stdin=subprocess.PIPE) as live:
        assert live.stdin is not None
        data = (captures / "stuck-consumer.pcap").read_bytes()
        for start in range(0, len(data), 10_000):
            live.stdin.write(data[start : start + 10_000])
            live.stdin.flush()
            time.sleep(0.1)
        live.stdin.close()
        assert live.wait(60) == 0


@pytest.mark.slow
def test_each_file_is_whole_and_together_they_have_every_row_once(captures: Path, tmp_path: Path) -> None:
    slowly(captures, "--format", "ndjson", "-o", str(tmp_path / "rows.ndjson"), "--rotate", "20KB")
    files = sorted(tmp_path.iterdir())
    assert len(files) > 2
    assert [file.name[:11] for file in files] == [f"rows_{number:05}_" for number in range(1, len(files) + 1)]
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert len(rows) == frames(captures)
    assert [row["packet"] for row in rows] == sorted(row["packet"] for row in rows)


@pytest.mark.slow
def test_the_latest_files_are_kept(captures: Path, tmp_path: Path) -> None:
    slowly(captures, "--format", "csv", "-o", str(tmp_path / "rows.csv"), "--rotate", "5KB", "--keep", "2")
    files = sorted(tmp_path.iterdir())
    assert len(files) == 2
    assert int(files[-1].name[5:10]) > 3
    assert len({file.read_text().splitlines()[0] for file in files}) == 1, "each begins with the names of columns"


@pytest.mark.slow
@pytest.mark.parametrize("kinds", ["frame", "frame,exchange"])
def test_parquet_that_was_rotated_survives_sigkill(kinds: str, captures: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    options = ["--format", "parquet", "--records", kinds, "-o", str(tmp_path / "rows.parquet"), "--rotate", "0.2s"]
    with subprocess.Popen([*COMMAND, *options], stdin=subprocess.PIPE) as live:
        assert live.stdin is not None
        data = (captures / "stuck-consumer.pcap").read_bytes()
        end = time.monotonic() + 30
        for start in range(0, len(data), 5_000):
            live.stdin.write(data[start : start + 5_000])
            live.stdin.flush()
            time.sleep(0.15)
        while not whole(tmp_path) and time.monotonic() < end:
            time.sleep(0.1)
        live.send_signal(signal.SIGKILL)
        live.wait(30)
    rows = sum(parquet.read_table(file).num_rows for file in whole(tmp_path) if file.name.startswith(("rows", "frame")))
    assert 0 < rows <= frames(captures)


def whole(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*.parquet") if file.is_file())


@pytest.mark.slow
def test_parquet_that_is_not_rotated_says_what_a_kill_would_lose(captures: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    done = run(captures, "--format", "parquet", "--records", "frame", "-o", str(tmp_path / "rows.parquet"))
    assert b"a Parquet file can be read only when it is complete: with --rotate" in done.stderr
    assert done.returncode == 0


@pytest.mark.slow
def test_a_file_cannot_be_written_ends_it_with_the_files_before(captures: Path, tmp_path: Path) -> None:
    folder = tmp_path / "missing"
    done = run(captures, "--format", "ndjson", "-o", str(folder / "rows.ndjson"), "--rotate", "1KB")
    assert done.returncode == 5
    assert b"cannot write" in done.stderr
    assert not os.path.lexists(folder)


@pytest.mark.slow
def test_a_signal_completes_the_last_file(captures: Path, tmp_path: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "--format", "ndjson", "-o", str(tmp_path / "rows.ndjson"), "--rotate", "1h"], stdin=subprocess.PIPE
    ) as live:
        assert live.stdin is not None
        live.stdin.write((captures / "stuck-consumer.pcap").read_bytes())
        live.stdin.flush()
        end = time.monotonic() + 30
        while not list(tmp_path.iterdir()) and time.monotonic() < end:
            time.sleep(0.05)
        time.sleep(0.5)
        live.send_signal(signal.SIGTERM)
        assert live.wait(30) == 0
    (file,) = tmp_path.iterdir()
    assert file.suffix == ".ndjson"
    assert len(file.read_text().splitlines()) == frames(captures)
