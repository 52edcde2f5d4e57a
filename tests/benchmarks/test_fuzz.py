"""The fuzz driver: equal numbers give equal inputs, and a failing input is found, reduced and kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from benchmarks import fuzz
from benchmarks.fuzz import Share, pcap_records, work
from pulsarscope.protocols.pulsar.dissector import PulsarDissector
from tests.places import CAPTURES
from tests.scenarios.capture_mutations import LEVELS, Corpus, corpus_options
from tests.scenarios.wire_mutations import fields, joined_frame, mutated_message, serialized, split_frame


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return Corpus(CAPTURES, corpus_options())


def test_equal_numbers_give_equal_inputs(corpus: Corpus) -> None:
    made = [corpus.input(7, number) for number in range(50)]
    assert made == [corpus.input(7, number) for number in range(50)]
    assert len({item.data for item in made}) > 45


def test_every_level_makes_inputs(corpus: Corpus) -> None:
    levels = Counter(corpus.input(7, number).level for number in range(300))
    assert min(levels[level] for level in LEVELS) > 10


def test_frames_are_split_and_joined_without_loss(corpus: Corpus) -> None:
    entries = 0
    for conversation in corpus.conversations["pulsar"]:
        for _, frame in conversation.frames:
            parts = split_frame(frame)
            assert parts is not None
            assert joined_frame(parts, checksum=False) == frame
            found = fields(parts.command)
            assert found is not None
            assert serialized(found) == parts.command
            entries += parts.metadata is not None
    assert entries > 100


def test_a_mutated_message_differs_and_often_still_parses(corpus: Corpus) -> None:
    parts = split_frame(corpus.conversations["pulsar"][0].frames[0][1])
    assert parts is not None
    random = Random(1)  # noqa: S311 - repeatable
    mutants = [mutated_message(random, parts.command) for _ in range(200)]
    assert sum(mutant != parts.command for mutant in mutants) > 150
    assert sum(fields(mutant) is not None for mutant in mutants) > 60


def test_a_fault_is_found_made_smaller_and_kept(corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = PulsarDissector.decode

    def decode(self: PulsarDissector) -> Callable[..., tuple[Any, ...]]:
        def decode_faultily(*arguments: Any) -> tuple[Any, ...]:
            decoded = sound.__get__(self)(*arguments)
            if decoded[0] == "PING":
                raise ZeroDivisionError
            return tuple(decoded)

        return decode_faultily

    monkeypatch.setattr(fuzz, "Corpus", lambda *_: corpus)  # reading it takes longer than most of what follows
    monkeypatch.setattr(PulsarDissector, "decode", property(decode))
    monkeypatch.setattr(fuzz, "FAILURES_MAX", 1)
    monkeypatch.setattr(fuzz, "SHRINK_SECONDS", 60)
    for first in range(0, 20_000, 4000):  # a share ends at its first failure
        outcome = work(Share(seed=3, first=first, step=1, end=first + 4000, seconds=None, keep=tmp_path))
        assert len(outcome.failures) == 1
        assert "ZeroDivisionError" in outcome.failures[0]
        (kept,) = tmp_path.iterdir()
        if (records := pcap_records(kept.read_bytes())) is not None:  # any other is a pcapng, which is kept whole
            break
        kept.unlink()
    assert records is not None
    assert len(records[1]) <= 3
