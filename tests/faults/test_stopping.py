"""Consumers that stop taking messages before their end: applications that shut down, and those that hang until they are stopped."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.faults.consumers import consuming, publishing
from tests.scenarios.commands import ack, close_consumer, delivery, flow
from tests.scenarios.connections import connected, subscribed, wait_until
from tests.scenarios.conversation import MILLISECOND, SECOND, Conversation
from tests.scenarios.evaluation import diagnose

STUCK = {"consumer-starved", "consumer-not-acking", "consumer-undecided"}
STEP = 50 * MILLISECOND


def stopping(worked: int, rested: int, end: str, *, permits: int = 1000, taken: int = 0) -> Conversation:
    """A consumer that works for some seconds, and for others before its end only gets messages, as far as it has permits.

    `taken`: seconds of these in which its application continues to take messages.
    """
    talk = subscribed(connected(start=50 * MILLISECOND), kind="Shared").client(flow(permits))
    count, last = worked * 20, (worked + rested) * 20
    for entry in range(last):
        wait_until(talk, SECOND // 5 + entry * STEP)
        if entry < count:
            talk.server(delivery(entry)).client(ack(entry), flow(1))
        elif entry < count + permits:
            talk.server(delivery(entry))
            if entry < count + 20 * taken:
                talk.client(flow(1))
    wait_until(talk, SECOND // 5 + last * STEP)
    if end == "closed":
        talk.client(close_consumer())
    return talk if end == "open" else talk.reset("client") if end == "rst" else talk.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("worked", "rested", "end", "permits"),
    [*product((8,), (4, 7), ("closed", "fin", "rst"), (1000, 20)), *product((40,), (13,), ("closed",), (1000, 20))],
)
def test_an_application_that_shuts_down_takes_nothing_more_for_a_while(
    tmp_path: Path, worked: int, rested: int, end: str, permits: int
) -> None:
    published = publishing((worked + rested) * 20, STEP, until=(worked + rested + 1) * SECOND)
    assert not STUCK & set(diagnose(tmp_path, stopping(worked, rested, end, permits=permits), published).codes)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("worked", "rested", "end", "permits"),
    [
        *product((4,), (6, 10), ("closed", "fin", "rst"), (1000, 20)),  # longer than it worked
        *product((40,), (17, 25), ("closed", "fin"), (1000, 20)),  # longer than a shutdown waits
        *product((8,), (6,), ("open",), (1000, 20)),  # it is still there
    ],
)
def test_one_that_rests_for_longer_or_goes_on_to_live_is_stuck(tmp_path: Path, worked: int, rested: int, end: str, permits: int) -> None:
    published = publishing((worked + rested) * 20, STEP, until=(worked + rested + 1) * SECOND)
    found = diagnose(tmp_path, stopping(worked, rested, end, permits=permits), published)
    found.only("consumer-not-acking" if permits == 1000 else "consumer-starved")


@pytest.mark.parametrize(("taken", "is_stuck"), [(6, True), (1, False)])
def test_one_that_goes_on_to_take_what_it_does_not_acknowledge_does_not_shut_down(tmp_path: Path, taken: int, *, is_stuck: bool) -> None:
    found = diagnose(tmp_path, stopping(8, 7, "closed", taken=taken), publishing(300, STEP, until=16 * SECOND))
    assert ("consumer-not-acking" in found.codes) == is_stuck


def test_one_that_never_acknowledged_has_not_worked(tmp_path: Path) -> None:
    talk = consuming(40, 1000, until=6 * SECOND, kind="Shared", end="closed")
    diagnose(tmp_path, talk, publishing(40, 10 * MILLISECOND, until=6 * SECOND)).only("consumer-not-acking")
