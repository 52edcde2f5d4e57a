"""Slow and missing receipts."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.model.findings import WARNING
from pulsarscope.model.records import FindingRow
from pulsarscope.protocols.pulsar.rules.sends import publishing as publishing_rule
from pulsarscope.protocols.pulsar.rules.sends.rounded_latencies import percentile
from tests.scenarios.commands import PING, close_producer, created, producer, receipt, send, success
from tests.scenarios.conversation import MILLISECOND, SECOND
from tests.scenarios.dialogue import RuleDialogue
from tests.scenarios.rules.publishing import CLOSED

TOPIC = "persistent://public/default/orders"
PRODUCER, READY = producer(name="billing", topic=TOPIC), created("billing")


def publishing(latency_ns: int, count: int) -> RuleDialogue:
    """Packets 3, 4: the first SEND and its receipt; and so on."""
    talk = RuleDialogue().client(PRODUCER).server(READY)
    for number in range(count):
        talk.client(send(sequence_id=number)).wait(latency_ns - MILLISECOND).server(receipt(sequence_id=number, entry=number))
    return talk


def test_a_producer_that_waits_longer_than_a_second_is_slow() -> None:
    talk = publishing(1_500 * MILLISECOND, 12)
    rows = talk.end()
    assert [(row.code, row.severity, row.packet) for row in rows] == [("slow-publish", WARNING, 3)]
    assert rows[0].evidence == {
        "frames": ["0:3.1", "0:4.1"],
        "topic": TOPIC,
        "producer_name": "billing",
        "sends": 12,
        "p50_ns": 1_500 * MILLISECOND,
        "p99_ns": 1_500 * MILLISECOND,
        "max_ns": 1_500 * MILLISECOND,
        "in_flight_max": 1,
        "zero_windows": 0,
        "window_closed_ns": 0,
        "threshold": {"slow-publish-seconds": 1, "slow-publish-sends": 10},
    }


def test_one_send_that_waits_a_third_of_its_time_out_is_enough() -> None:
    assert publishing(11 * SECOND, 1).codes() == ["slow-publish"]


def held_back(fast: int, slow: int, held: int, spread: float, window: int = 1) -> RuleDialogue:
    """A producer whose SENDs first take a few milliseconds, and then `held` ms, which vary by the share `spread`."""
    talk = RuleDialogue().client(PRODUCER).server(READY)
    for number in range(0, fast + slow, window):
        latency = 4 if number < fast else round(held * (1 + spread * (number % 3 - 1)))
        talk.client(*(send(sequence_id=number + each) for each in range(window))).wait(latency * MILLISECOND)
        talk.server(*(receipt(sequence_id=number + each, entry=number + each) for each in range(window)))
    return talk


@pytest.mark.parametrize(("fast", "slow", "held"), [*product((1, 5), (12, 30), (110, 245, 700)), (12, 30, 245)])
def test_a_publish_rate_limit_shows_in_equal_waits(fast: int, slow: int, held: int) -> None:
    rows = held_back(fast, slow, held, 0.05).end()
    assert [row.code for row in rows] == ["slow-publish"]
    assert "slow-publish-held-seconds" in (rows[0].evidence or {})["threshold"]


@pytest.mark.parametrize(
    ("fast", "slow", "held", "spread", "window"),
    [
        (5, 30, 60, 0.05, 1),  # short waits
        (5, 30, 245, 0.5, 1),  # a busy disk
        (0, 30, 245, 0.05, 1),  # a distant broker
        (5, 8, 245, 0.05, 1),  # only a few
        (40, 12, 245, 0.05, 1),
        (5, 60, 245, 0.05, 5),  # several in flight
    ],
)
def test_other_waits_are_not_reported(fast: int, slow: int, held: int, spread: float, window: int) -> None:
    assert held_back(fast, slow, held, spread, window).codes() == []


@pytest.mark.parametrize(
    ("latency_ns", "count"), [(900 * MILLISECOND, 9), (900 * MILLISECOND, 50), (1_500 * MILLISECOND, 2), (9 * SECOND, 1)]
)
def test_what_does_not_hurt_is_not_said(latency_ns: int, count: int) -> None:
    assert publishing(latency_ns, count).codes() == []


@pytest.mark.parametrize(("latency_ns", "count"), [*product((1_100 * MILLISECOND, 3 * SECOND), (3, 5, 9))])
def test_a_few_that_wait_are_enough_when_most_do(latency_ns: int, count: int) -> None:
    (row,) = [row for row in publishing(latency_ns, count).end() if row.code == "slow-publish"]
    assert (row.evidence or {})["threshold"] == {"slow-publish-seconds": 1, "slow-publish-median-sends": 3}


def pausing(pauses: int, pause: int, every: int) -> RuleDialogue:
    """A producer that sends each `every` ms; now and then the broker answers none for `pause` ms, and then all at once."""
    talk, number = RuleDialogue().client(PRODUCER).server(READY), 0
    for _ in range(pauses):
        for _ in range(25):
            talk.client(send(sequence_id=number)).wait(5 * MILLISECOND).server(receipt(sequence_id=number, entry=number))
            talk.wait((every - 5) * MILLISECOND)
            number += 1
        waiting = max(pause // every, 1)
        for late in range(waiting):
            talk.client(send(sequence_id=number + late)).wait(pause * MILLISECOND // waiting)
        talk.server(*[receipt(sequence_id=number + late, entry=number + late) for late in range(waiting)])
        number += waiting
    return talk


@pytest.mark.parametrize(
    ("pauses", "pause", "every", "reported"),
    [
        *product((1,), (1_200, 2_000), (50, 200, 1_000), (False,)),  # a garbage collection, or a disk that was busy once
        *product((4,), (1_900, 2_300), (50, 200), (True,)),
        *product((1, 4), (2_700, 6_000), (50, 200), (True,)),
    ],
)
def test_one_short_pause_of_the_broker_is_none_that_lasts(pauses: int, pause: int, every: int, *, reported: bool) -> None:
    assert ("slow-publish" in pausing(pauses, pause, every).codes()) == reported


def pausing_between(pauses: int, quick: int, pause: int) -> RuleDialogue:
    """A producer that waits for each receipt: `quick` come soon, then one after `pause` ms, and so on."""
    talk, number = RuleDialogue().client(PRODUCER).server(READY), 0
    for _ in range(pauses):
        for wait in (*[15] * quick, pause):
            talk.client(send(sequence_id=number)).wait(wait * MILLISECOND).server(receipt(sequence_id=number, entry=number))
            number += 1
    return talk.wait(15 * MILLISECOND)


@pytest.mark.parametrize(
    ("pauses", "quick", "reported"), [*product((3, 6), (130, 500), (True,)), *product((1, 2), (130,), (False,)), (3, 5_000, False)]
)
def test_a_broker_that_pauses_again_and_again_is_slow_however_many_it_answers_between(pauses: int, quick: int, *, reported: bool) -> None:
    rows = [row for row in pausing_between(pauses, quick, 1_400).end() if row.code == "slow-publish"]
    assert [f"in at least {pauses} pauses" in (row.text or "") for row in rows] == [True] * reported


@pytest.mark.parametrize(("rest", "code"), [(2_600, []), (4_000, ["send-unanswered"])])
def test_an_answer_may_come_after_another_pause(rest: int, code: list[str]) -> None:
    talk = pausing_between(3, 130, 2_800).client(send(sequence_id=9_000)).wait(rest * MILLISECOND).client(PING)
    assert [row.code for row in talk.end() if row.code != "batching-unused"] == [*code, "slow-publish"]


@pytest.mark.parametrize(
    ("quick", "late", "pause", "reported"),
    [
        *((quick, late, 3 * SECOND, True) for quick, late in product((1, 4, 8), (1, 2, 5))),  # a broker that paused
        *((quick, 1, pause, False) for quick, pause in product((1, 2, 5), (500 * MILLISECOND, 2 * SECOND))),
        *((0, late, 3 * SECOND, False) for late in (1, 2)),  # nothing to compare with
    ],
)
def test_a_pause_of_the_broker_is_reported_beside_what_was_quick(quick: int, late: int, pause: int, reported: bool) -> None:
    talk = publishing(5 * MILLISECOND, quick)
    for number in range(quick, quick + late):
        talk.client(send(sequence_id=number))
    talk.wait(pause)
    for number in range(quick, quick + late):
        talk.server(receipt(sequence_id=number, entry=number))
    assert ("slow-publish" in talk.codes()) == reported


def test_the_broker_that_stops_reading_is_named_beside_it() -> None:
    talk = publishing(11 * SECOND, 2)
    shut = FindingRow(None, 0, 3, None, talk.time, "0:1", None, "zero-window", "note", "tcp", "10.0.0.99:6650 closed its window twice.")
    shut.evidence = {"direction": 1, "host": "10.0.0.99:6650", "count": 2, "closed_ns": 9 * SECOND}
    other = FindingRow(None, 0, 3, None, talk.time, "0:1", None, "zero-window", "note", "tcp", "10.0.0.1:40000 closed its receive window.")
    other.evidence = {"direction": 0, "host": "10.0.0.1:40000", "count": 70, "closed_ns": 5}
    talk.close("0:1", shut, other)
    (row,) = talk.end()
    assert "the broker closed its window for 9.00 s" in (row.text or "")
    assert row.evidence is not None
    assert (row.evidence["zero_windows"], row.evidence["window_closed_ns"]) == (2, 9 * SECOND)


def test_sends_in_flight_are_counted() -> None:
    talk = RuleDialogue().client(PRODUCER).server(READY).client(*(send(sequence_id=number) for number in range(12))).wait(11 * SECOND)
    talk.server(*(receipt(sequence_id=number, entry=number) for number in range(12)))
    (row,) = talk.end()
    assert (row.evidence or {})["in_flight_max"] == 12


def test_a_send_without_an_answer_while_the_connection_goes_on() -> None:
    talk = publishing(5 * MILLISECOND, 3).client(send(sequence_id=3)).wait(4 * SECOND)
    (row,) = talk.end()
    assert (row.code, row.severity, row.packet) == ("send-unanswered", WARNING, 9)
    late = {"count": 1, "waited_ns": 4 * SECOND, "threshold": {"send-unanswered-seconds": 1}}
    assert row.evidence == {"frames": ["0:9.1"], "topic": TOPIC, "producer_name": "billing", **late}


def test_a_verdict_is_qualified_when_the_capture_lacks_bytes() -> None:
    talk = publishing(5 * MILLISECOND, 1).report("stream-gap").client(send(sequence_id=3)).wait(4 * SECOND)
    (row,) = talk.end()
    assert "the capture lacks bytes" in (row.text or "")


def test_sends_at_the_end_of_the_connection_may_still_be_answered() -> None:
    assert publishing(5 * MILLISECOND, 1).client(send(sequence_id=3)).wait(SECOND // 2).codes() == []


@pytest.mark.parametrize("steps", ["close then send", "send then close", "send then begin anew"])
def test_a_producer_that_the_broker_closed_knows_to_send_again(steps: str) -> None:
    talk = publishing(5 * MILLISECOND, 1)
    if steps == "close then send":
        talk.server(CLOSED).client(send(sequence_id=1))
    else:
        talk.client(send(sequence_id=1))
    if steps == "send then close":
        talk.server(CLOSED)
    elif steps == "send then begin anew":
        talk.client(PRODUCER).server(READY)
    assert "send-unanswered" not in talk.wait(4 * SECOND).codes()


def series(latency_ns: int, producers: int) -> RuleDialogue:
    """Producers that come and go, one after the other; each sends once."""
    talk = RuleDialogue()
    for number in range(1, producers + 1):
        talk.client(producer(number, f"p{number}", number, TOPIC))
        talk.server(created(f"p{number}", number))
        talk.client(send(number, 0), close_producer(number, 1000 + number))
        talk.wait(latency_ns).server(receipt(number, 0), success(1000 + number))
    return talk


def test_producers_that_closed_make_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing_rule, "PRODUCERS_MAX", 2)
    monkeypatch.setattr(publishing_rule, "SLOW_MAX", 3)
    rows = [row for row in series(11 * SECOND, 9).end() if row.code == "slow-publish"]
    assert sorted((row.evidence or {})["producer_name"] for row in rows) == [f"p{number}" for number in range(1, 10)]


def test_the_broker_that_stopped_reading_is_named_for_those_that_closed() -> None:
    talk = series(11 * SECOND, 1)
    shut = FindingRow(None, 0, 3, None, talk.time, "0:1", None, "zero-window", "note", "tcp", "10.0.0.99:6650 closed its window twice.")
    shut.evidence = {"direction": 1, "host": "10.0.0.99:6650", "count": 2, "closed_ns": 9 * SECOND}
    talk.close("0:1", shut)
    (row,) = [row for row in talk.end() if row.code == "slow-publish"]
    assert (row.evidence or {})["window_closed_ns"] == 9 * SECOND


@given(st.lists(st.integers(0, 50), min_size=1), st.integers(1, 100))
def test_a_percentile_is_the_smallest_value_that_enough_do_not_exceed(values: list[int], percent: int) -> None:
    rows = percentile(Counter(values), percent)
    assert rows in values
    assert sum(value <= rows for value in values) * 100 >= percent * len(values)
    assert sum(value < rows for value in values) * 100 < percent * len(values)


def test_the_percentile_of_nothing_is_nothing() -> None:
    assert percentile({}, 99) == 0


@pytest.mark.parametrize(("wait", "rest", "reported"), [(10, 5, False), (10, 9, False), (10, 12, True), (3, 30, True)])
def test_sends_that_wait_their_turn_behind_slow_ones_are_not_unanswered(wait: int, rest: int, reported: bool) -> None:
    """`wait`: latency of a producer's SENDs in s; `rest`: time from the last ones to the end of the connection."""
    talk = publishing(wait * SECOND, 12)
    talk.client(send(sequence_id=12), send(sequence_id=13)).wait(rest * SECOND).client(PING)
    codes = [row.code for row in talk.end()]
    assert "slow-publish" in codes
    assert ("send-unanswered" in codes) is reported


@pytest.mark.parametrize(("pause", "rest"), [*product((12, 20, 28), (4, 9, 11))])
def test_a_pause_before_does_not_explain_sends_without_an_answer(pause: int, rest: int) -> None:
    talk = pausing(1, 1_000 * pause, 2_000).wait(30 * SECOND)
    talk.client(send(sequence_id=1000)).wait(rest * SECOND).client(PING)
    assert [row.code for row in talk.end()] == ["send-unanswered", "slow-publish"]


@pytest.mark.parametrize(("every", "takes"), [(100, 200), (100, 400), (50, 1_000)])
def test_sends_behind_a_queue_that_grows_wait_their_turn(every: int, takes: int) -> None:
    """`every`, `takes`: times between two SENDs, and between two receipts, in ms."""
    talk, events = RuleDialogue().client(PRODUCER).server(READY), []
    events += [(number * every, 0, number) for number in range(200)]
    events += [(number * takes + takes, 1, number) for number in range(200) if number * takes + takes <= 200 * every]
    now = 0
    for at, is_receipt, number in sorted(events):
        if at > now:
            talk.wait((at - now) * MILLISECOND)
            now = at
        if is_receipt:
            talk.server(receipt(sequence_id=number, entry=number))
        else:
            talk.client(send(sequence_id=number))
    codes = [row.code for row in talk.end()]
    assert "slow-publish" in codes
    assert "send-unanswered" not in codes


@pytest.mark.parametrize(("burst", "every", "takes"), [(50, 20, 100), (20, 10, 100), (100, 50, 200)])
@pytest.mark.parametrize("seconds", [8, 20])
def test_sends_behind_a_queue_that_a_rate_limit_made_wait_their_turn(burst: int, every: int, takes: int, seconds: int) -> None:
    """`burst`: SENDs answered at once; `every`, `takes`: times between two of the others, and between their receipts, in ms."""
    talk = RuleDialogue().client(PRODUCER).server(READY)
    sent = answered = 0
    for now in range(0, seconds * 1_000, 10):
        while sent <= now // every:
            talk.client(send(sequence_id=sent))
            sent += 1
        while answered < min(sent, burst + max(now - burst * every, 0) // takes):
            talk.server(receipt(sequence_id=answered, entry=answered))
            answered += 1
        talk.wait(10 * MILLISECOND)
    assert [row.code for row in talk.end() if row.code != "batching-unused"] == ["slow-publish"]


@pytest.mark.parametrize(
    ("rest", "code"), [(0, "slow-publish"), (900, "slow-publish"), (1_100, "send-unanswered"), (6_000, "send-unanswered")]
)
@pytest.mark.parametrize("waiting", [1, 40])
def test_sends_wait_behind_those_from_before_the_capture(rest: int, code: str, waiting: int) -> None:
    """`rest`: time from the last receipt of one of those to the end, in ms."""
    talk = RuleDialogue().client(PRODUCER).server(READY)
    for number in range(40):
        talk.client(*([send(sequence_id=1_000 + number)] if number < waiting else ())).wait(100 * MILLISECOND)
        talk.server(receipt(sequence_id=number, entry=number))
    (row,) = [row for row in talk.wait(rest * MILLISECOND).end() if row.code in ("slow-publish", "send-unanswered")]
    assert row.code == code
    assert ("up to the end" in (row.text or "")) == (code == "slow-publish")


def test_a_receipt_of_a_later_send_shows_that_one_is_missing() -> None:
    talk = RuleDialogue().client(PRODUCER).server(READY).server(receipt(sequence_id=1, entry=1))
    talk.client(send(sequence_id=10), send(sequence_id=11)).wait(10 * MILLISECOND).server(receipt(sequence_id=11, entry=11))
    talk.wait(4 * SECOND).server(receipt(sequence_id=2, entry=2))
    assert "send-unanswered" in [row.code for row in talk.end()]
