from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pulsarscope.capture import Inputs
from pulsarscope.cli.arguments.application import app
from pulsarscope.cli.arguments.pipeline_request import PipelineRequest, SparkOptions, WatchOptions, spark_settings
from pulsarscope.cli.commands.pipeline import _split_bytes, _summary_lines, pipeline, write_tables
from pulsarscope.model.errors import OutputError, UsageError
from pulsarscope.model.platform import install_command
from pulsarscope.spark.sessions import spark_session

WITHOUT_SPARK = """
import sys
sys.modules["pyspark"] = None
import importlib.metadata as metadata
real = metadata.version
def version(name):
    if name in ("pyspark", "pandas"):
        raise metadata.PackageNotFoundError(name)
    return real(name)
metadata.version = version
import pulsarscope.cli
sys.argv = ["pulsarscope", *sys.argv[1:]]
pulsarscope.cli.main()
"""


def without_spark(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT_SPARK, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_session_which_cleans_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, number: signal.Signals
) -> None:
    ended = []

    @contextmanager
    def fake_session(*_: object) -> Iterator[None]:
        try:
            yield
        finally:
            ended.append(number)

    monkeypatch.setattr(spark_session, "require_distributions", lambda _master: None)
    monkeypatch.setattr(spark_session, "session", fake_session)
    monkeypatch.setattr("pulsarscope.cli.commands.pipeline.run_job", lambda *_: os.kill(os.getpid(), number))
    assert write_tables(PipelineRequest(files=["a.pcap"], out=str(tmp_path / "tables"))) == 5
    assert ended == [number]
    assert capsys.readouterr().err == "pulsarscope: interrupted; the output is not complete\n"


@pytest.mark.slow
def test_a_missing_extra_is_one_line(captures: Path, tmp_path: Path) -> None:
    result = without_spark("pipeline", str(captures), "-o", str(tmp_path / "out"))
    assert (result.returncode, result.stderr) == (
        2,
        f"pulsarscope: pipeline needs pyspark, pandas: {install_command('spark')}\n",
    )


@pytest.mark.slow
def test_check_says_what_is_missing() -> None:
    result = without_spark("pipeline", "--check")
    assert result.returncode == 2
    assert f"missing  pyspark 4.1 or newer: {install_command('spark')}" in result.stdout
    assert result.stdout.startswith("ok       Python ")


@pytest.mark.parametrize(
    ("files", "out", "why"), [([], "out", "no capture given"), (["x"], None, "name it with -o"), (["x"], "", "name it with -o")]
)
def test_what_is_not_said_is_asked_for(files: list[str], out: str | None, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        write_tables(PipelineRequest(files=files, out=out))


def test_what_compaction_does_not_take_is_refused_before_anything_starts(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="no pyspark: pip install -e '.[spark]'")
    given: list[dict[str, Any]] = [{"files": ["a.pcap"]}, {"out": "out"}, {"watching": WatchOptions(finish=True)}]
    for more in given:
        with pytest.raises(UsageError, match="takes only the folder of tables"):
            pipeline(PipelineRequest(compact=str(tmp_path), **more))
    with pytest.raises(OutputError, match="has no Parquet tables"):
        pipeline(PipelineRequest(compact=str(tmp_path)))


def test_a_folder_that_is_not_empty_is_refused_before_anything_starts(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="no pyspark: pip install -e '.[spark]'")
    (tmp_path / "mine").write_text("x")
    for out in (str(tmp_path), tmp_path.as_uri()):
        with pytest.raises(OutputError, match="not an empty folder"):
            write_tables(PipelineRequest(files=["x"], out=out))


def test_settings_are_names_and_values() -> None:
    assert spark_settings(SparkOptions(settings=["spark.a=b", "c=d=e", "f="])) == {"spark.a": "b", "c": "d=e", "f": ""}
    with pytest.raises(UsageError, match=r"--conf spark\.x: give"):
        spark_settings(SparkOptions(settings=["spark.x"]))


@pytest.mark.parametrize(("size_text", "size"), [(None, 1 << 30), ("off", None), ("64KiB", 1 << 16), ("1.5MB", 1_500_000)])
def test_the_size_of_portions_has_a_unit(size_text: str | None, size: int | None) -> None:
    assert _split_bytes(size_text) == size


@pytest.mark.parametrize(
    ("size_text", "why"), [("65535B", "at least 64KiB; or off"), ("0GiB", "more than zero; or off"), ("all", "with a unit.*; or off")]
)
def test_a_size_that_is_none_is_refused_before_anything_starts(size_text: str, why: str) -> None:
    with pytest.raises(UsageError, match=f"--split {size_text}: .*{why}"):
        write_tables(PipelineRequest(files=["x"], out="y", spark=SparkOptions(split=size_text)))


def test_formats_that_are_none_are_refused_before_anything_starts() -> None:
    assert CliRunner().invoke(app, ["pipeline", "x", "-o", "y", "--format", "orc"]).exit_code == 2


def test_the_summary_says_what_there_is_and_whether_it_was_uneven() -> None:
    run = pytest.importorskip("pulsarscope.spark.jobs.job")
    shuffle_batches = pytest.importorskip("pulsarscope.spark.rows.shuffle_batches")
    reports = [
        shuffle_batches.TaskReport(packets=60, bytes=100, flows=1, largest=75, connections=2, seconds=4.0),
        shuffle_batches.TaskReport(packets=40, seconds=1.0),
    ]
    summary = run.Summary(
        Inputs(["a", "b"], 3_000_000, []), 120, 100, 3_000_000, {"frame": 1200, "finding": 3}, reports, {"note": 2, "error": 1}, False, 2.0
    )
    assert list(_summary_lines(summary, "out\x1b")) == [
        "2 captures, 3.0 MB, 120 packets in 2.0 s (1.5 MB/s)",
        "  frame           1,200",
        "  finding             3  1 error, 2 notes",
        "2 connections; the largest pair of endpoints has 75% of the bytes, the longest task took 1.6 times the median",
        "written to out\\x1b",
    ]
