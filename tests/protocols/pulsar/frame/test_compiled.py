"""The compiled reader beside the Python one, which is the oracle."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from pulsarscope.dissect.frames import FrameBatch, KeptBytes
from pulsarscope.dissect.isolation import Failure
from pulsarscope.dissect.splitter import StreamSplitter
from pulsarscope.protocols.pulsar.dissector import PulsarDissector
from tests.places import CAPTURES
from tests.scenarios.both_readers import BothReaders, BothSplitters, EagerSplitter, reader
from tests.scenarios.capture_mutations import Corpus, corpus_options
from tests.scenarios.streams import Stream, frames_of, split

SMALL_MAX_BYTES = 200_000


@pytest.fixture
def installed() -> None:
    pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")


def splitter(compiled: Any) -> EagerSplitter:
    with reader("off"):
        dissector = PulsarDissector()
    dissector.compiled = compiled
    return EagerSplitter(dissector, KeptBytes(payload=True), synced=True)


class Idle:
    """A compiled reader that finds nothing plain."""

    def read_frames(self, data: bytes, position: int, names: Any, at: Any, pieces: Any, kept: Any, out: Any) -> Any:
        del self, data, names, pieces, kept, out
        return position, at[3], at[4], None


class Panicking:
    """A compiled reader that reads a frame behind what another one reads, and panics."""

    def __init__(self, other: Any) -> None:
        self._other = other

    def read_frames(self, *arguments: Any) -> Any:
        return *self._other.read_frames(*arguments)[:3], RuntimeError("the compiled reader panicked")


def test_a_reader_that_finds_nothing_plain_leaves_all_to_python() -> None:
    with reader("off"):
        dissector = PulsarDissector()
    stream = Stream().pieces(frames_of(Random(1), 60))  # noqa: S311 - repeatable
    assert split(splitter(Idle()), stream) == split(StreamSplitter(dissector, KeptBytes(payload=True), synced=True), stream)


def test_a_panic_ends_its_connection_with_a_failure_and_keeps_the_frames_before() -> None:
    used, out = splitter(Idle()), FrameBatch()
    frames = frames_of(Random(1), 3)  # noqa: S311 - repeatable
    used.feed(0, 0, [(frames[0], 1, 0, 1)], out)
    used.dissector.compiled = Panicking(Idle())
    used.feed(0, len(frames[0]), [(frames[1] + frames[2], 2, 0, 2)], out)
    used.finish(2, out)
    assert used.failure == Failure("pulsarscope", "pulsar", "decode", "RuntimeError: the compiled reader panicked")
    assert [(row.status, row.size) for row in out.rows] == [("ok", len(frames[0])), ("skipped", len(frames[1] + frames[2]))]


@pytest.mark.usefixtures("installed")
def test_streams_of_mutated_frames_read_as_by_the_reference() -> None:
    corpus, both, random = Corpus(CAPTURES, corpus_options()), BothSplitters(), Random(1)  # noqa: S311 - repeatable
    frames = [frame for conversation in corpus.conversations["pulsar"] for _, frame in conversation.frames]
    assert sum(both.check(random, frames) for _ in range(1500)) > 3000


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("raw", [0, 1])
def test_captures_read_as_by_the_reference(tmp_path: Path, raw: int) -> None:
    both = BothReaders(tmp_path, corpus_options())
    for path in sorted(CAPTURES.rglob("*.pcap")):
        if path.stat().st_size < SMALL_MAX_BYTES:
            both.check(path.read_bytes(), other=raw)


@pytest.mark.usefixtures("installed")
def test_the_compiled_reader_reads_the_data_path() -> None:
    with reader("require"):
        compiled = PulsarDissector().compiled
    frames = [frame for frame in frames_of(Random(2), 200) if frame[9] in (6, 7, 9, 11)]  # noqa: S311 - repeatable
    read = 0
    for frame in frames:
        out = FrameBatch()
        ends, pieces = [len(frame)], [(frame, 1, 0, 1)]
        position, *_ = compiled.read_frames(
            frame, 0, (None, 0, None, "pulsar", None), (0, 0, 1 << 20, -1, 0), (pieces, ends), KeptBytes(), (out.rows, out.moments, {})
        )
        read += position == len(frame)
    assert read > len(frames) * 0.7


@pytest.mark.usefixtures("installed")
def test_what_the_compiled_reader_cannot_take_is_an_exception_of_the_connection() -> None:
    with reader("require"):
        compiled = PulsarDissector().compiled
    (frame,) = [frame for frame in frames_of(Random(2), 50) if frame[9] == 7][:1]  # noqa: S311 - repeatable
    position, packet, sub, error = compiled.read_frames(
        frame, 0, (None, 0, None, "pulsar", None), (0, 0, 1 << 20, -1, 0), ([], []), KeptBytes(), ([], [], {})
    )
    assert (position, packet, sub) == (0, -1, 0)
    assert isinstance(error, IndexError)
