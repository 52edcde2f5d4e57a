from __future__ import annotations

from typing import Any

import pytest

from pulsarscope.cli.arguments.options import ReadOptions
from pulsarscope.cli.arguments.pipeline_request import PipelineRequest, SparkOptions, WatchOptions
from pulsarscope.cli.watch import _identity, _line, follow, watch
from pulsarscope.model.errors import UsageError


@pytest.mark.parametrize(
    ("request_", "watching", "why"),
    [
        ({}, {"checkpoint": "kept"}, "give both --watch DIR and --checkpoint DIR"),
        ({}, {"watch": "."}, "give both --watch DIR and --checkpoint DIR"),
        ({}, {"finish": True}, "give both --watch DIR and --checkpoint DIR"),
        ({"files": ["a.pcap"]}, {"watch": ".", "checkpoint": "kept"}, "cannot be combined with captures"),
        ({"format": "delta"}, {"watch": ".", "checkpoint": "kept"}, "writes parquet or json, not delta"),
        ({}, {"watch": "nowhere", "checkpoint": "kept"}, "--watch nowhere: no such folder"),
        ({"out": "out\udcff"}, {"watch": ".", "checkpoint": "kept"}, r"names in UTF-8: .*out\\xff"),
        ({"out": "kept"}, {"watch": ".", "checkpoint": "kept"}, "must name different folders"),
        ({"out": "."}, {"watch": ".", "checkpoint": "kept"}, "must name different folders"),
        ({}, {"watch": ".", "checkpoint": "."}, "must name different folders"),
        ({"out": None}, {"watch": ".", "checkpoint": "kept"}, "name it with -o"),
        ({}, {"incremental": True}, "give --checkpoint DIR, too"),
        ({}, {"incremental": True, "checkpoint": "kept"}, "no capture given"),
        ({"files": ["."]}, {"incremental": True, "checkpoint": "out"}, "must name different folders"),
        ({"files": ["."]}, {"incremental": True, "checkpoint": "kept", "watch": "."}, "give one of them"),
        ({"files": ["."], "format": "delta"}, {"incremental": True, "checkpoint": "kept"}, "--incremental writes parquet or json"),
        ({"spark": SparkOptions(master="sc://head")}, {"watch": ".", "checkpoint": "kept"}, "behind Spark Connect, use spark.readStream"),
        ({"records": "frames"}, {"watch": ".", "checkpoint": "kept"}, "frames"),
    ],
)
def test_what_does_not_go_together_is_refused_in_one_line(request_: dict[str, Any], watching: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why) as refused:
        watch(PipelineRequest(**{"out": "out", "watching": WatchOptions(**watching), **request_}))
    assert "\n" not in str(refused.value)


def test_captures_that_land_are_not_split() -> None:
    with pytest.raises(UsageError, match="cannot be combined with --split"):
        watch(PipelineRequest(out="out", spark=SparkOptions(split="64KiB"), watching=WatchOptions(watch=".", checkpoint="kept")))


def test_what_must_stay_the_same_is_known_of_every_option_but_those_of_the_run() -> None:
    request = PipelineRequest(records="message,frame", format="json", out="out", reading=ReadOptions(port=[6650]))
    identity = _identity(request, "/in", "/out")
    assert identity["--records"] == ["frame", "message"]
    assert (identity["--watch"], identity["--output"]) == ("/in", "/out")
    assert identity["--port"] == [6650]
    assert {f"--{name.replace('_', '-')}" for name in ReadOptions.__struct_fields__} < set(identity)


def test_a_batch_is_one_line() -> None:
    stream = pytest.importorskip("pulsarscope.spark.jobs.capture_stream", reason="no pyspark: pip install -e '.[spark]'")
    batch = stream.BatchSummary(3, 1, 1200, 12_345_678, {"finding": 1, "frame": 2000}, 2, {}, damaged=False, changed=[], seconds=4.26)
    assert _line(batch) == "batch 3: 1 capture, 12.3 MB, 1,200 packets in 4.3 s; 1 finding, 2,000 frames; 2 connections open"


class Clock:
    """Clock, arriving captures, and a stream that decodes them; the signal to stop comes at the 11th look at the clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, look_seconds: float, batches: list[float]) -> None:
        self.now = 100.0
        self.looks: list[float] = []
        self.grown: list[str] = []
        self._look_seconds = look_seconds
        self._batches = batches
        """Remaining seconds of decoding at each look."""
        self.decoded: list[Any] = []
        monkeypatch.setattr("pulsarscope.cli.watch.time", self)

    def monotonic(self) -> float:
        return self.now

    def is_set(self) -> bool:
        return len(self.looks) == 10

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def poll(self, now: float) -> list[str]:
        self.looks.append(now - 100)
        self.now += self._look_seconds
        return [f"capture {len(self.looks)}"]

    def advance(self, landed: list[str], *, stopping: Any) -> None:
        assert not stopping()
        self.decoded.append(landed)

    def decode(self, landed: list[str], seconds: float, *, stopping: Any) -> None:
        assert stopping() == self.is_set()
        self.decoded.append(landed)
        self.now += min(max(0, seconds), self._batches.pop(0) if self._batches else 0)


@pytest.mark.parametrize("batches", [[], [3.0, 10.0, 20.0]])
def test_looks_come_at_intervals_whether_batches_are_decoded_or_not(monkeypatch: pytest.MonkeyPatch, batches: list[float]) -> None:
    clock: Any = Clock(monkeypatch, 0.25, batches)
    follow(clock, clock, 10, clock)
    assert clock.looks == [10.0 * number for number in range(10)]
    assert clock.decoded == [[], *([f"capture {number}"] for number in range(1, 11))]


def test_a_look_that_takes_longer_than_the_interval_is_followed_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    clock: Any = Clock(monkeypatch, 2, [])
    follow(clock, clock, 0.5, clock)
    assert clock.looks == [2.0 * number for number in range(10)]
