from __future__ import annotations

from typing import Any

import pytest

from pulsarscope import __version__
from pulsarscope.cli.options import Cluster, Watching
from pulsarscope.cli.reading import Reading
from pulsarscope.cli.run_command import Request
from pulsarscope.cli.watch import _asked, _line, watch
from pulsarscope.model.errors import UsageError


@pytest.mark.parametrize(
    ("request_", "watching", "why"),
    [
        ({}, {"checkpoint": "kept"}, "takes both --watch DIR and --checkpoint DIR"),
        ({}, {"watch": "."}, "takes both --watch DIR and --checkpoint DIR"),
        ({}, {"finish": True}, "takes both --watch DIR and --checkpoint DIR"),
        ({"files": ("a.pcap",)}, {"watch": ".", "checkpoint": "kept"}, "takes no other captures"),
        ({"format": "delta"}, {"watch": ".", "checkpoint": "kept"}, "writes parquet or json, not delta"),
        ({}, {"watch": "nowhere", "checkpoint": "kept"}, "--watch nowhere: there is no such folder"),
        ({"out": "out\udcff"}, {"watch": ".", "checkpoint": "kept"}, r"out\\udcff is no name in UTF-8"),
        ({"out": "kept"}, {"watch": ".", "checkpoint": "kept"}, "must name three folders"),
        ({"out": "."}, {"watch": ".", "checkpoint": "kept"}, "must name three folders"),
        ({}, {"watch": ".", "checkpoint": "."}, "must name three folders"),
        ({"out": None}, {"watch": ".", "checkpoint": "kept"}, "name it with -o"),
        ({"records": "frames"}, {"watch": ".", "checkpoint": "kept"}, "frames"),
    ],
)
def test_what_does_not_go_together_is_refused_in_one_line(request_: dict[str, Any], watching: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why) as refused:
        watch(Request(**{"files": (), "records": "all", "out": "out", **request_}), Cluster(), Watching(**watching))
    assert "\n" not in str(refused.value)


def test_captures_that_land_are_not_split() -> None:
    with pytest.raises(UsageError, match="no --split"):
        watch(Request((), records="all", out="out"), Cluster(split="64KiB"), Watching(watch=".", checkpoint="kept"))


def test_what_must_stay_the_same_is_known_of_every_option_but_those_of_the_run() -> None:
    request = Request((), records="message,frame", format="json", out="out", reading=Reading(port=[6650]))
    asked = _asked(request, "/in", "/out")
    assert asked["version"] == __version__
    assert asked["--records"] == ["frame", "message"]
    assert (asked["--watch"], asked["--output"]) == ("/in", "/out")
    assert asked["--port"] == [6650]
    assert {f"--{name.replace('_', '-')}" for name in Reading._fields} < set(asked)


def test_a_batch_is_one_line() -> None:
    stream = pytest.importorskip("pulsarscope.spark.stream", reason="no pyspark: pip install -e '.[spark]'")
    batch = stream.Batch(3, 1, 1200, 12_345_678, {"finding": 1, "frame": 2000}, 2, {}, damaged=False, changed=[], seconds=4.26)
    assert _line(batch) == "batch 3: 1 capture, 12.3 MB, 1,200 packets in 4.3 s; 1 finding, 2,000 frames; 2 connections open"
