"""Messages that one consumer after the other gets and leaves, however it leaves."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.faults.consumers import leaving
from tests.scenarios.commands import close_consumer
from tests.scenarios.conversation import MILLISECOND, SECOND
from tests.scenarios.evaluation import diagnose
from tests.scenarios.frames import command_frame

POISON = "redelivery-storm"


@pytest.mark.parametrize(
    ("lives", "end", "left", "pause"),
    [*product((4, 5, 13), ("fin", "closed", "rst"), (1, 13), (200, 1000))],
)
def test_the_same_message_left_again_and_again_is_named(tmp_path: Path, lives: int, end: str, left: int, pause: int) -> None:
    """Later consumers may acknowledge what follows it."""
    talks = [leaving(range(left), number, number * pause * MILLISECOND, end, acks=range(1, number % 3)) for number in range(lives)]
    diagnosis = diagnose(tmp_path, *talks)
    row, evidence = diagnosis.only(POISON)
    assert (evidence["message_id"], evidence["count"]) == ([7, 0], lives)
    assert set(diagnosis.commands(row)) == {"MESSAGE"}
    assert len(diagnosis.of("reconnect-loop")) == (lives >= 5)


@pytest.mark.parametrize(
    ("lives", "end", "step"), [*product((5, 13), ("fin", "closed", "rst"), (1, 3)), *product((2, 3), ("fin", "closed", "rst"), (0,))]
)
def test_clients_that_take_a_message_at_each_visit_or_leave_a_few_times_are_no_loop(
    tmp_path: Path, lives: int, end: str, step: int
) -> None:
    """They prefetch the same later messages."""
    talks = []
    for number in range(lives):
        first = number * step
        talks.append(leaving(range(first, 40), number, number * SECOND, end, acks=range(first, first + step)))
    assert POISON not in diagnose(tmp_path, *talks).codes


@pytest.mark.parametrize(("end", "first", "behind", "pause"), [*product(("fin", "closed", "rst"), (0, 2), (1, 6), (300, 4000))])
def test_three_that_pass_over_it_are_enough(tmp_path: Path, end: str, first: int, behind: int, pause: int) -> None:
    """The first one may have left as soon as it met the message, after earlier ones."""
    talks = [leaving(range(9), 0, 0, end, acks=range(first))]
    for number in (1, 2):
        got = range(first, 9 + number)
        talks.append(leaving(got, number, number * pause * MILLISECOND, end, acks=range(first + 1, first + 1 + behind)))
    _, evidence = diagnose(tmp_path, *talks).only(POISON)
    assert (evidence["message_id"], evidence["count"], evidence["passed_over"]) == ([7, first], 3, 2)


@pytest.mark.parametrize(("end", "passed"), [*product(("fin", "closed", "rst"), (0, 1))])
def test_three_of_which_few_acknowledge_what_is_behind_it_are_not(tmp_path: Path, end: str, passed: int) -> None:
    """Like slow consumers that are restarted: one acknowledges earlier messages, and two do not get that far."""
    talks = [leaving(range(9), 0, 0, end, acks=range(2))]
    talks += [leaving(range(2, 9), number, number * SECOND, end, acks=range(3, 3 + (number <= passed))) for number in (1, 2)]
    assert POISON not in diagnose(tmp_path, *talks).codes


@pytest.mark.parametrize(("end", "left"), [*product(("fin", "closed", "rst"), (1, 13))])
def test_three_that_left_it_and_did_nothing_else_make_a_note(tmp_path: Path, end: str, left: int) -> None:
    talks = [leaving(range(left), number, number * 2 * SECOND, end) for number in range(3)]
    row, evidence = diagnose(tmp_path, *talks).only("consumer-undecided")
    assert (row.severity, evidence["message_id"], evidence["count"]) == ("note", [7, 0], 3)


@pytest.mark.parametrize(("lives", "end"), [*product((5, 13), ("fin", "closed", "rst"))])
def test_clients_that_acknowledge_all_are_no_loop(tmp_path: Path, lives: int, end: str) -> None:
    """The same ids again, as after a cursor was reset, or each for another subscription."""
    talks = [leaving(range(10), number, number * SECOND, end, acks=range(10)) for number in range(lives)]
    others = [leaving(range(10), 50 + number, number * SECOND, end, subscription=f"s{number}") for number in range(lives)]
    assert POISON not in diagnose(tmp_path, *talks, *others).codes


def test_consumers_that_come_again_on_one_connection_count_as_well(tmp_path: Path) -> None:
    talk = leaving(range(3), 0, 0, "open")
    for _ in range(4):
        talk = leaving(range(3), 0, 0, "open", talk=talk.client(close_consumer()).wait(SECOND))
    _, evidence = diagnose(tmp_path, talk.close()).only(POISON)
    assert (evidence["count"], evidence["connections"]) == (5, ["0:1"])


@pytest.mark.parametrize(("times", "got", "reason"), [*product((4, 9), (1, 10), ("SEEK", "unload"))])
def test_one_that_the_broker_closes_again_and_again_is_no_loop(tmp_path: Path, times: int, got: int, reason: str) -> None:
    """As after each SEEK, which drops acknowledgements that wait to be sent, or when the topic moves."""
    talk = leaving(range(got), 0, 0, "open")
    for number in range(times):
        if reason == "SEEK":
            talk.client(command_frame("SEEK", consumer_id=1, request_id=700 + number, message_publish_time=1))
        talk.server(command_frame("CLOSE_CONSUMER", consumer_id=1, request_id=800 + number)).wait(SECOND // 2)
        talk = leaving(range(got), 0, 0, "open", talk=talk)
    assert POISON not in diagnose(tmp_path, talk.close()).codes
