"""Measuring runs whole processes, says what failed, and notices if two of them find different things."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

from benchmarks import measure
from benchmarks.measure import TOOLS, Measurement, Tool


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "x.pcap"
    path.write_bytes(bytes(1000))
    return path


def test_time_and_memory_are_those_of_the_process(capture: Path) -> None:
    commands = {"small": f"{sys.executable} -c 'pass'", "large": f"{sys.executable} -c 'bytearray(1 << 27)' {{}}", "none": "false {}"}
    small, large, none = row = [Measurement(capture, name, Tool(name, command)) for name, command in commands.items()]
    measure.interleave(row, 2)
    assert [len(small.cpu), len(small.wall), len(small.memory)] == [2, 2, 2]
    assert 0 < small.best <= max(small.wall) + 1
    assert large.most > 128 > small.most
    assert none.failure.startswith("exit code 1")
    assert small.size == 1000


@pytest.mark.parametrize("name", ["frames", "timeline", "all", "parquet", "dpkt"])
def test_frames_are_counted_in_every_form_of_output(name: str, captures: Path, tmp_path: Path) -> None:
    measurement = Measurement(captures / "quickstart.pcapng", name, TOOLS[name])
    measure.count(measurement, tmp_path / "out")
    frames = Measurement(measurement.capture, "frames", TOOLS["frames"])
    measure.count(frames, tmp_path)
    assert measurement.commands() == frames.commands()
    assert measurement.frames == frames.commands().total() > 0


@pytest.mark.parametrize("name", ["all", "parquet", "messages", "messages-columns"])
def test_messages_are_counted_in_every_form_of_output(name: str, captures: Path, tmp_path: Path) -> None:
    measurement = Measurement(captures / "quickstart.pcapng", name, TOOLS[name])
    measure.count(measurement, tmp_path / "out")
    assert measurement.messages > 0
    assert (measurement.frames > 0) == (name in ("all", "parquet"))


def test_a_frame_of_which_the_end_is_missing_is_not_counted() -> None:
    lines = [b'{"record":"frame","command":"SEND","status":"ok"}', b'{"record":"frame","command":"SEND","status":"truncated"}']
    assert measure.count_lines(lines, Path()) == {"SEND": 1}


def test_two_that_find_different_things_are_reported(capture: Path) -> None:
    one, same, other, nothing = (Measurement(capture, name, TOOLS["frames"]) for name in ("one", "same", "other", "nothing"))
    one.found = same.found = Counter(SEND=2, messages=3)
    other.found = Counter(SEND=1, ACK=1, messages=4)
    assert measure.differences([one, same, nothing]) == []
    assert measure.differences([one, same, other]) == [
        "x.pcap: other finds 2 frames, one 2",
        "x.pcap: other finds 4 messages, one 3",
    ]


def test_what_is_not_installed_is_named() -> None:
    assert measure.missing(TOOLS["frames"]) == ""
    assert measure.missing(Tool("x", "true", needs="no_such_module")) == "no_such_module is not installed"
    assert measure.missing(Tool("x", "no-such-program {}")) == "no-such-program is not installed"


def test_the_machine_is_described() -> None:
    assert "protobuf " in measure.machine()
    assert sys.version.split()[0] in measure.machine()
