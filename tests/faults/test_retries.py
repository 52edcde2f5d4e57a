"""Messages that an application repeatedly sends to its retry topic, and those that get through."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.scenarios.commands import TOPIC, created, producer, receipt, send
from tests.scenarios.connections import connected
from tests.scenarios.conversation import MILLISECOND, Conversation
from tests.scenarios.evaluation import diagnose

STORM = "redelivery-storm"
RETRY = f"{TOPIC}-RETRY"


def retried(sequence: int, origin: str, count: int, *, letter: bool = False, counted: bool = True, number: int = 1) -> bytes:
    """A message on its way to a retry topic or, without a time of delivery, to a dead letter topic."""
    said = [{"key": "ORIGIN_MESSAGE_ID", "value": origin}, {"key": "REAL_TOPIC", "value": TOPIC}]
    said += [{"key": "RECONSUMETIMES", "value": str(count)}] if counted else []
    return send(number, sequence, metadata={"properties": said} | ({} if letter else {"deliver_at_time": 1_800_000_000_000}))


def retrying(
    turns: list[tuple[str, int]], pause: int, *, midstream: bool = False, letter: bool = False, counted: bool = True
) -> Conversation:
    """A client that retries these messages (origin, number of the retry), each `pause` ms after the previous one."""
    talk = Conversation(("10.0.0.1", 40000), ("10.0.0.2", 6650), acknowledge=False) if midstream else connected()
    if not midstream:
        talk.client(producer(topic=RETRY)).server(created())
    for sequence, (origin, count) in enumerate(turns):
        talk.client(retried(sequence, origin, count, letter=letter, counted=counted)).server(receipt(1, sequence, entry=sequence))
        talk.wait(pause * MILLISECOND)
    return talk


@pytest.mark.parametrize(("times", "pause", "others"), [*product((12, 40), (10, 200, 450), (0, 1))])
@pytest.mark.parametrize("end", ["open", "fin", "rst"])
def test_a_message_that_is_retried_without_an_end(tmp_path: Path, times: int, pause: int, others: int, end: str) -> None:
    turns = [(f"3:{other}:-1", count + 1) for count in range(times) for other in range(others + 1)]
    talk = retrying(turns, pause)
    talk = talk if end == "open" else talk.close() if end == "fin" else talk.reset("client")
    row, evidence = diagnose(tmp_path, talk).only(STORM)
    assert (evidence["retries"], evidence["messages"], evidence["topic"]) == (times, others + 1, RETRY)
    assert "message 3:0:-1" in (row.text or "")


@pytest.mark.parametrize(("first", "pause"), [*product((19, 300), (10, 3000, 50_000))])
@pytest.mark.parametrize("midstream", [True, False])
def test_the_number_of_a_retry_counts_those_before_the_capture(tmp_path: Path, first: int, pause: int, *, midstream: bool) -> None:
    talk = retrying([("3:0:-1", first + count) for count in range(5)], pause, midstream=midstream)
    row, evidence = diagnose(tmp_path, talk).only(STORM)
    assert evidence["highest"] == first + 4
    assert (row.text or "").endswith(f"; its latest retry count is {first + 4}.")


@pytest.mark.parametrize(
    ("others", "words"), [(1, " 1 more message was retried as often."), (3, " 3 more messages were retried as often.")]
)
def test_the_text_counts_the_other_messages(tmp_path: Path, others: int, words: str) -> None:
    turns = [(f"3:{other}:-1", count + 1) for count in range(12) for other in range(others + 1)]
    row, _ = diagnose(tmp_path, retrying(turns, 10)).only(STORM)
    assert (row.text or "").endswith(words)
    assert f"sent message 3:0:-1 to retry topic {RETRY} 12 times in" in (row.text or "")


@pytest.mark.parametrize(
    ("turns", "pause"),
    [
        ([("3:0:-1", count + 1) for count in range(16)], 2000),  # up to the limit that clients set
        ([("3:0:-1", count + 1) for count in range(9)], 10),
        ([(f"3:{number}:-1", 1) for number in range(200)], 20),
        ([(f"3:{number % 40}:-1", number // 40 + 1) for number in range(200)], 20),
        ([("3:0:-1", 20)], 10),
        ([("3:0:-1", 21)], 10),
        ([("3:0:-1", 21), ("3:0:-1", 22)], 10),
        ([(f"3:{number}:-1", 21) for number in range(10)], 10),  # each for the last time
        ([("3:0:-1", 25 + count) for count in range(25)], 3_600_000),  # as often as the application chose, an hour apart
    ],
)
@pytest.mark.parametrize("midstream", [True, False])
def test_messages_that_are_retried_a_few_times(tmp_path: Path, turns: list[tuple[str, int]], pause: int, *, midstream: bool) -> None:
    assert STORM not in diagnose(tmp_path, retrying(turns, pause, midstream=midstream)).codes


def test_one_message_of_many_subscriptions_is_counted_for_each(tmp_path: Path) -> None:
    """Each has its own retry topic."""
    talk = connected()
    for number in range(6):
        talk.client(producer(number, f"p{number}", number, f"{TOPIC}-s{number}-RETRY")).server(created(f"p{number}", number))
    for count in range(4):
        for number in range(6):
            talk.client(retried(count, "3:0:-1", count + 1, number=number)).server(receipt(number, count, entry=count))
    assert STORM not in diagnose(tmp_path, talk).codes


@pytest.mark.parametrize(("letter", "counted"), [(True, True), (False, False)])
def test_dead_letters_and_messages_that_only_look_so(tmp_path: Path, *, letter: bool, counted: bool) -> None:
    turns = [("3:0:-1", 30)] * 40
    assert STORM not in diagnose(tmp_path, retrying(turns, 20, letter=letter, counted=counted)).codes


@pytest.mark.parametrize("count", ["", "many", "-3", "9" * 5000])
def test_a_count_that_is_none(tmp_path: Path, count: str) -> None:
    talk = connected().client(producer(topic=RETRY)).server(created())
    said = [{"key": "ORIGIN_MESSAGE_ID", "value": "3:0:-1"}, {"key": "RECONSUMETIMES", "value": count}]
    talk.client(send(1, 0, metadata={"properties": said, "deliver_at_time": 1_800_000_000_000})).server(receipt())
    assert "rule-failed" not in diagnose(tmp_path, talk).codes
