"""When findings about readers without permits come."""

from __future__ import annotations

import pytest

from tests.scenarios.commands import PING, close_consumer, delivery, flow, subscribe, success
from tests.scenarios.conversation import SECOND
from tests.scenarios.dialogue import RuleDialogue

STARVED = "consumer-starved"


def readers(gaps: list[float], *, running: int = 0, durable: bool = False) -> RuleDialogue:
    """Readers that stop so many seconds after the one before; `running` ones have permits left."""
    talk = RuleDialogue()
    for number in range(len(gaps) + running):
        talk.client(subscribe(number, request=number, subscription=f"s{number}", durable=durable)).server(success(number))
    for number, gap in enumerate([*gaps, *[0] * running]):
        permits = 2 if number < len(gaps) else 20
        talk.wait(int(gap * SECOND)).client(flow(permits, number)).server(*(delivery(entry, number) for entry in range(2)))
    return talk


def reported(talk: RuleDialogue) -> int:
    """The number of findings so far, with keep-alives for a minute."""
    for _ in range(7):
        talk.wait(10 * SECOND).client(PING)
    return sum(row.code == STARVED for row in talk.findings)


@pytest.mark.parametrize(
    ("gaps", "running", "early"),
    [
        ([0, 0.1], 0, 2),
        ([0, 0.1, 0.2, 0.3], 0, 4),
        ([0], 0, 0),  # perhaps the first of several users
        ([0, 2], 0, 0),
        ([0, 0.1], 1, 0),  # the other one may stop, too
    ],
)
def test_readers_that_stop_together_are_reported_while_they_are_open(gaps: list[float], running: int, early: int) -> None:
    talk = readers(gaps, running=running)
    assert reported(talk) == early
    talk.end()
    assert sum(row.code == STARVED for row in talk.findings) == len(gaps)  # none twice


def test_other_consumers_are_reported_one_by_one() -> None:
    assert reported(readers([0, 2, 5], durable=True)) == 3


def test_closed_readers_count() -> None:
    talk = readers([0, 0.1, 0.2])
    talk.wait(6 * SECOND).client(close_consumer(0, 90)).server(success(90))
    assert reported(talk) == 3
