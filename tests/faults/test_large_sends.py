"""Producers with SENDs that take long because of their size, and those that wait for a slow broker."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.scenarios.commands import PING, created, producer, receipt, send
from tests.scenarios.connections import connected
from tests.scenarios.conversation import MILLISECOND, SECOND, Conversation
from tests.scenarios.evaluation import diagnose

SLOW = "slow-publish"


def publishing(size: int, latency: int, *, small: int = 20) -> Conversation:
    """A producer of small messages, and one of `size` bytes that is answered after `latency` ms."""
    talk = connected().client(producer()).server(created())
    for number in range(small):
        talk.client(send(sequence_id=number)).wait(5 * MILLISECOND).server(receipt(sequence_id=number, entry=number))
    talk.client(send(sequence_id=small, payload=bytes(size))).wait(latency * MILLISECOND)
    return talk.server(receipt(sequence_id=small, entry=small)).wait(SECOND)


def at_once(size: int, count: int, latency: int) -> Conversation:
    """A producer with `count` outstanding SENDs, which are answered after `latency` ms."""
    talk = connected().client(producer()).server(created())
    for number in range(count):
        talk.client(send(sequence_id=number, payload=bytes(size)))
    talk.wait(latency * MILLISECOND)
    for number in range(count):
        talk.server(receipt(sequence_id=number, entry=number))
    return talk.wait(SECOND)


@pytest.mark.parametrize("latency", [2600, 2900])
def test_a_large_message_takes_its_time(tmp_path: Path, latency: int) -> None:
    assert SLOW not in diagnose(tmp_path, publishing(3_000_000, latency)).codes


@pytest.mark.parametrize(("size", "latency"), [*product((100, 500_000), (2900, 4000)), (3_000_000, 3900), (3_000_000, 10_500)])
def test_what_takes_longer_than_its_bytes_is_slow(tmp_path: Path, size: int, latency: int) -> None:
    diagnose(tmp_path, publishing(size, latency)).only(SLOW)


@pytest.mark.parametrize(("size", "latency", "is_slow"), [(20_000, 1500, False), (20_000, 2500, True), (200, 1500, True)])
def test_a_producer_that_sends_as_fast_as_it_can_waits_for_its_own_bytes(tmp_path: Path, size: int, latency: int, *, is_slow: bool) -> None:
    assert (SLOW in diagnose(tmp_path, at_once(size, 80, latency)).codes) == is_slow


@pytest.mark.parametrize(
    ("waited", "end", "named"),
    [
        (1_500, "open", False),
        (2_400, "open", False),
        (2_700, "open", True),
        (9_000, "open", True),
        (500, "fin", False),
        (1_500, "fin", True),
    ],
)
def test_a_capture_may_end_within_a_pause_of_the_broker(tmp_path: Path, waited: int, end: str, *, named: bool) -> None:
    talk = connected().client(producer()).server(created())
    for number in range(20):
        talk.client(send(sequence_id=number)).wait(5 * MILLISECOND).server(receipt(sequence_id=number, entry=number))
    talk.client(send(sequence_id=20)).wait(waited * MILLISECOND).client(PING)
    codes = diagnose(tmp_path, talk.close() if end == "fin" else talk).codes
    assert ("send-unanswered" in codes) == named
