"""Captures that land, decoded batch after batch by one task, without Spark."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path as FilePath

import msgspec
import pytest

from pulsarscope.engine.local import run
from pulsarscope.model.records import FindingRow
from pulsarscope.spark.checkpoints.checkpoint import Checkpoint
from pulsarscope.spark.tasks.only_share import OnlyShareDecoder
from pulsarscope.spark.tasks.share_decoder import ShareBatch, States
from tests.scenarios.capturefile import write_pcap
from tests.scenarios.conversation import MILLISECOND, SECOND
from tests.scenarios.legs import Path
from tests.scenarios.options import Options

OPTIONS = Options(frozenset({"finding"}), rules=True)


@pytest.mark.parametrize("cuts", [(), (0.5,), (0.3, 0.6, 0.95)])
def test_what_legs_say_of_a_path_is_found_as_in_one_run(tmp_path: FilePath, cuts: tuple[float, ...]) -> None:
    path = Path("apart").produce(12)
    path.inner.reset(by="server")
    path.outer.wait(MILLISECOND).close(by="server")
    packets = sorted((*path.outer.packets, *path.inner.packets), key=lambda packet: packet.time_ns)
    places = [0, *(int(cut * len(packets)) for cut in cuts), len(packets)]
    files = [str(write_pcap(tmp_path / f"{start}.pcap", packets[start:stop])) for start, stop in pairwise(places)]
    checkpoint = Checkpoint(str(tmp_path / "kept"))
    checkpoint.create({})
    states: States = {}
    found = []
    for number, file in enumerate(files):
        paths = [file, ""] if file == files[-1] else [file]
        decoder = OnlyShareDecoder(OPTIONS, ShareBatch(0, [0], 1, number, paths, [None] * len(paths), 1 * SECOND), states, checkpoint)
        found += [msgspec.json.encode(row) for rows in decoder.rows() for row in rows]
        states = decoder.snapshot()
    rows = [row for batch in run(files, OPTIONS) for row in batch.rows if isinstance(row, FindingRow)]
    assert "proxy-leg-failed" in {row.code for row in rows}
    assert sorted(found) == sorted(map(msgspec.json.encode, rows))
