"""Producers whose messages are older and older when they are sent."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from pulsarscope.protocols.pulsar.rules.sends.ages import MARKS_MAX, Ages
from tests.scenarios.commands import created, producer, receipt, send
from tests.scenarios.connections import connected, wait_until
from tests.scenarios.conversation import MILLISECOND, SECOND, START_NS, Conversation
from tests.scenarios.evaluation import diagnose

BEHIND = "producer-behind"


def publishing(ages: list[float], pace: int, *, answer: int = 5, **metadata: object) -> Conversation:
    """A producer that sends a message every `pace` ms; each has an age in seconds."""
    talk = connected().client(producer()).server(created())
    for number, age in enumerate(ages):
        now = 100 * MILLISECOND + number * pace * MILLISECOND
        published = (START_NS + now - round(age * SECOND)) // MILLISECOND
        wait_until(talk, now).client(send(sequence_id=number, metadata={"publish_time": published, **metadata}))
        talk.wait(answer * MILLISECOND).server(receipt(sequence_id=number, entry=number))
    return talk


@pytest.mark.parametrize(("count", "grows", "offset"), [*product((60, 200, 1_000), (0.04, 0.08), (0, -3600, 7200))])
def test_messages_that_get_older_are_reported(tmp_path: Path, count: int, grows: float, offset: int) -> None:
    """The offset of the client's clock does not matter."""
    diagnosis = diagnose(tmp_path, publishing([offset + number * grows for number in range(count)], 100))
    row, evidence = diagnosis.only(BEHIND)
    assert (row.severity, evidence["sends"]) == ("warning", count)
    assert diagnosis.commands(row) == ["SEND", "SEND"]
    assert 0.75 * count * grows < evidence["growth_ns"] / SECOND < count * grows
    assert "sends its messages later and later" in row.text
    assert " kbit/s." in row.text


def test_so_are_those_behind_which_a_queue_is_full(tmp_path: Path) -> None:
    ages = [min(number * 0.05, 4.0) for number in range(300)]
    assert 3.5 <= diagnose(tmp_path, publishing(ages, 100)).only(BEHIND)[1]["growth_ns"] / SECOND <= 4


SAWTOOTH = [(number % 20) * 0.3 for number in range(200)]
JUMP = [0.0] * 100 + [9.0] * 100

NEAR_MISSES = {
    "level": [3.0] * 200,
    "slowly, as clocks drift": [number * 0.001 for number in range(400)],
    "up and down": SAWTOOTH,
    "once, as after a pause": JUMP,
    "worked off": [*(number * 0.05 for number in range(100)), *(5 - number * 0.05 for number in range(100))],
    "younger": [20 - number * 0.05 for number in range(200)],
    "all published at once": [number * 0.1 for number in range(200)],
    "few": [number * 2.0 for number in range(6)],
}


@pytest.mark.parametrize("how", NEAR_MISSES)
def test_what_does_not_grow_all_the_time_is_not(tmp_path: Path, how: str) -> None:
    assert BEHIND not in diagnose(tmp_path, publishing(NEAR_MISSES[how], 100)).codes


def test_a_burst_is_not(tmp_path: Path) -> None:
    assert BEHIND not in diagnose(tmp_path, publishing([number * 0.008 for number in range(400)], 10, answer=1)).codes


def test_the_times_of_another_cluster_are_not(tmp_path: Path) -> None:
    ages = [number * 0.05 for number in range(200)]
    assert BEHIND not in diagnose(tmp_path, publishing(ages, 100, replicated_from="west")).codes


@pytest.mark.parametrize("parts", [[1] * 500, [500], [3, 70, 1, 1, 200, 225], [64] * 7 + [52]])
def test_which_sends_are_noted_needs_no_batches(parts: list[int]) -> None:
    ages, noted, start = Ages(), [], 0
    for part in parts:
        for at in ages.due(part):
            noted.append(start + at)
            if len(noted) % MARKS_MAX == 0:
                ages.step *= 2
        start += part
    assert ages.count == 500
    one, every = Ages(), []
    for number in range(500):
        for _ in one.due(1):
            every.append(number)
            if len(every) % MARKS_MAX == 0:
                one.step *= 2
    assert noted == every
