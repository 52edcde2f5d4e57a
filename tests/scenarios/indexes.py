"""Indexes of captures, for tests."""

from __future__ import annotations

from pathlib import Path

from pulsarscope.capture import expand_inputs
from pulsarscope.engine import local
from pulsarscope.engine.options import Options
from pulsarscope.index.identity import identity_of
from pulsarscope.index.reader import Index
from pulsarscope.index.run import SERVED
from pulsarscope.index.writer import IndexTotals, IndexWriter
from pulsarscope.protocols import make_dissectors

INDEX_OPTIONS = Options(records=SERVED, rules=True, dissectors=make_dissectors)


def indexed(path: Path, place: Path) -> Index:
    """The index of a capture."""
    inputs = expand_inputs([str(path)])
    identity = identity_of(inputs.paths, INDEX_OPTIONS, "1")
    assert identity is not None
    run, writer = local.run([str(path)], INDEX_OPTIONS), IndexWriter(place, identity)
    for batch in run:
        writer.add(batch.rows)
    for packets in local.packets(inputs, run.starts):
        writer.add_packets(packets)
    writer.finish(IndexTotals.of(run))
    return Index(place, identity)
