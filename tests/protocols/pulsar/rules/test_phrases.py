"""Phrases of the texts of findings."""

from __future__ import annotations

import pytest

from pulsarscope.protocols.pulsar.rules.phrases import count, frames, host, lacking, seconds, some


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [(0, "0 µs"), (1_500, "2 µs"), (999_000, "999 µs"), (1_500_000, "1.5 ms"), (2_000_000_000, "2.0 s"), (3_600_000_000_000, "3600.0 s")],
)
def test_spans_of_time(nanoseconds: int, text: str) -> None:
    assert seconds(nanoseconds) == text


def test_counts() -> None:
    assert [count(number, "hop") for number in (0, 1, 2, 1_000)] == ["0 hops", "1 hop", "2 hops", "1,000 hops"]


def test_lists_end_after_ten() -> None:
    assert some(["a", "b"]) == "a, b"
    assert some([str(number) for number in range(12)], " → ").endswith("8 → 9 and 2 more")


def test_frames_stand_once_and_only_if_they_are_known() -> None:
    assert frames(["0:1.1", None, "", "0:1.1", "0:2.1"]) == ["0:1.1", "0:2.1"]
    assert len(frames(str(number) for number in range(50))) == 10


@pytest.mark.parametrize(("endpoint", "name"), [("10.0.0.1:6650", "10.0.0.1"), ("[fe80::1]:6650", "[fe80::1]")])
def test_hosts(endpoint: str, name: str) -> None:
    assert host(endpoint) == name


def test_what_is_lost_qualifies() -> None:
    assert (lacking(lost=True), lacking(lost=False)) == ("; the capture lacks bytes", "")
