"""Captures of N, 2N and 4N of the same thing are made and read; time that grows faster fails the benchmark."""

from __future__ import annotations

from pathlib import Path

import pytest

import pulsarscope
from benchmarks import growth
from benchmarks.measure import Measurement, Tool
from benchmarks.memory import write


@pytest.mark.parametrize("name", growth.SHAPES)
def test_each_shape_is_a_capture_that_grows_with_its_size(name: str, tmp_path: Path) -> None:
    sizes = []
    for times in (1, 2):
        capture = tmp_path / f"{times}.pcap"
        write(capture, growth.SHAPES[name], 200 * times)
        sizes.append(capture.stat().st_size)
        assert list(pulsarscope.open(str(capture)).records("connection", "finding"))
    assert sizes[1] > 1.5 * sizes[0]


@pytest.mark.parametrize(("seconds", "slope"), [((0, 1, 2, 4), 1), ((5, 6, 9, 21), 2), ((1, 3, 3, 3), 0), ((2, 2, 2, 2), 0)])
def test_the_slope_is_that_of_the_logarithm_without_the_start(seconds: tuple[float, ...], slope: float, tmp_path: Path) -> None:
    capture = tmp_path / "x.pcap"
    capture.write_bytes(b"")
    start, *measurements = [Measurement(capture, "", Tool("", ""), cpu=[each]) for each in seconds]
    assert growth.slope(start, measurements) == pytest.approx(slope)


def test_time_that_grows_faster_than_the_capture_fails_the_benchmark(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--only", "requests", "--command", "decode", "--size", "100"]
    monkeypatch.setattr(growth, "SLOPE_MAX", 99)  # the time of so few is noise
    assert growth.main(arguments) == 0
    monkeypatch.setattr(growth, "SLOPE_MAX", -99)
    assert growth.main(arguments) == 1
    assert "slope above -99" in capsys.readouterr().out
