"""The plan of a run before it starts."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import pytest

from benchmarks.traffic import short_connections
from pulsarscope.capture import expand_inputs
from pulsarscope.cli.arguments.pipeline_request import PipelineRequest, SparkOptions
from pulsarscope.cli.commands.pipeline import explain
from pulsarscope.model.errors import CaptureError, UsageError
from pulsarscope.spark.jobs.plan import make_plan, plan_lines
from tests.spark.inside import BY_DEFAULT, SOURCE_PER_FILE, local, ring


@pytest.mark.slow
def test_files_portions_and_rows_are_estimated_from_what_is_there(tmp_path: Path) -> None:
    short_connections(tmp_path / "bulk.cap", 30, 1)
    folder = tmp_path / "in"
    folder.mkdir()
    files = ring(tmp_path / "bulk.cap", folder, 3)
    files[2].with_name("ring.pcap02.gz").write_bytes(gzip.compress(files[2].read_bytes()))
    files[2].unlink()
    split = files[0].stat().st_size // 2 + 1
    plan = make_plan([str(folder)], BY_DEFAULT, split)
    portions = sum(-(-path.stat().st_size // split) for path in files[:2]) + 1
    assert (plan.files, plan.sources, plan.compressed, plan.portions) == (3, 1, 1, portions)
    assert plan.bytes == sum(path.stat().st_size for path in folder.iterdir())
    want = len(local(expand_inputs([str(folder)]), BY_DEFAULT)["frame"])
    assert 0.9 * want < plan.rows["frame"] * plan.bytes < 1.1 * want
    assert plan.core_seconds > 0
    lines = [*plan_lines(plan, 6, 2)]
    assert "3 captures of 1 vantage point, " in lines[0]
    assert lines[-1].startswith("with 2 cores: ")
    assert make_plan([str(folder)], BY_DEFAULT, None).portions == 3


def test_vantage_points_are_counted(captures: Path) -> None:
    options = BY_DEFAULT.__class__(records=BY_DEFAULT.records, source_by=SOURCE_PER_FILE, dissectors=BY_DEFAULT.dissectors)
    assert make_plan([str(captures / name) for name in ("errors.pcap", "ipv6.pcap")], options, None).sources == 2


def test_the_command_explains_without_spark(captures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    request = PipelineRequest(files=[str(captures / "errors.pcap")], spark=SparkOptions(explain=True, master="local[4]", partitions=9))
    assert explain(request) == 0
    out = capsys.readouterr().out
    assert out.startswith("1 capture of 1 vantage point, ")
    assert "1. scan           1 task: " in out
    assert "4. decode        9 tasks: " in out
    assert "with 4 cores" in out
    with pytest.raises(CaptureError):
        explain(PipelineRequest(files=["nothing-there"], spark=SparkOptions(explain=True)))


def test_a_plan_without_pyarrow_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, captures: Path) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match="pyarrow: "):
        explain(PipelineRequest(files=[str(captures / "errors.pcap")], spark=SparkOptions(explain=True)))
