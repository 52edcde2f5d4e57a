"""Growing backlogs, whoever causes them, and messages that a subscription never gets."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.faults.consumers import publishing
from tests.scenarios.commands import (
    BY_BROKER,
    PING,
    PONG,
    ack,
    close_consumer,
    created,
    delivery,
    flow,
    producer,
    receipt,
    send,
    subscribe,
    success,
)
from tests.scenarios.connections import connected, subscribed, wait_until
from tests.scenarios.conversation import MILLISECOND, SECOND, Conversation
from tests.scenarios.evaluation import diagnose

GROWING, SKIPPED = "backlog-growing", "messages-skipped"


def taking(length: int, every: int, *, queue: int = 1000, kind: str = "Shared", start: int = 50) -> Conversation:
    """A consumer that gets and acknowledges an entry every `every` ms: with a small queue because its application is slow."""
    talk = subscribed(connected(start=start * MILLISECOND), kind=kind).client(flow(queue))
    if queue == 1000:
        for entry in range(length * 1000 // every):
            talk.server(delivery(entry)).wait(10 * MILLISECOND).client(ack(entry)).wait((every - 10) * MILLISECOND)
        return talk
    got = queue
    talk.wait(100 * MILLISECOND).server(*[delivery(entry) for entry in range(queue)])
    for entry in range(length * 1000 // every):
        talk.wait(every * MILLISECOND).client(ack(entry))
        if entry % (queue // 2) == queue // 2 - 1:
            talk.client(flow(queue // 2)).server(*[delivery(got + number) for number in range(queue // 2)])
            got += queue // 2
    return talk


@pytest.mark.slow
@pytest.mark.parametrize(
    ("length", "every", "queue", "kind"),
    [*product((4, 9), (35, 60, 150), (1000,), ("Shared", "Exclusive")), *product((4, 9), (60, 110), (4, 20), ("Shared", "Failover"))],
)
def test_a_growing_backlog_is_reported_with_who_holds_it_back(tmp_path: Path, length: int, every: int, queue: int, kind: str) -> None:
    diagnosis = diagnose(tmp_path, taking(length, every, queue=queue, kind=kind), publishing(length * 50, 20 * MILLISECOND))
    row, evidence = diagnosis.only(GROWING)
    assert (row.severity, evidence["act"]) == ("note", "broker" if queue == 1000 else "client")
    assert evidence["grown"] == evidence["published"] - evidence["delivered"]
    assert {*diagnosis.commands(row)} == {"MESSAGE", "SEND_RECEIPT"}


@pytest.mark.parametrize(("length", "queue", "behind"), [(9, 4, False), (13, 4, True), (30, 20, True), (30, 1000, False)])
def test_consumers_without_permits_are_behind_after_a_while(tmp_path: Path, length: int, queue: int, behind: bool) -> None:
    diagnosis = diagnose(tmp_path, taking(length, 110, queue=queue), publishing(length * 50, 20 * MILLISECOND))
    assert GROWING in diagnosis.codes
    assert ("consumer-behind" in diagnosis.codes) == behind
    if behind:
        row, evidence = diagnosis.only("consumer-behind")
        assert "as its consumers had no permits most of the time" in row.text
        assert evidence["connections"] == [row.connection]


@pytest.mark.parametrize("idle", [False, True])
def test_a_consumer_with_all_keys_is_named_once_beside_an_idle_one(tmp_path: Path, *, idle: bool) -> None:
    beside = subscribed(connected(40002), kind="Key_Shared").client(flow(4)).wait(14 * SECOND)
    talks = [taking(13, 110, queue=4, kind="Key_Shared"), publishing(13 * 50, 20 * MILLISECOND)]
    diagnosis = diagnose(tmp_path, *talks, *[beside] * idle)
    row, _ = diagnosis.only("consumer-behind")
    assert ("beside it has permits" in row.text) == idle
    holder = "the consumer of most keys" if idle else "its consumers"
    assert f"as {holder} had no permits most of the time" in diagnosis.only(GROWING)[0].text


@pytest.mark.parametrize(("queue", "every", "rest"), [*product((30, 60), (150, 250), (0.2, 0.5, 0.9))])
def test_a_slow_consumer_of_a_larger_queue_may_wait_for_its_next_permits_at_the_end(
    tmp_path: Path, queue: int, every: int, rest: float
) -> None:
    """It grants half its queue at once: several seconds pass between two rounds of deliveries, and as long as that until the end."""
    turn = queue // 2 * every
    talk = taking(6 * turn // 1000 + 1, every, queue=queue)
    after = publishing((6 * turn + round(rest * turn)) // 40, 40 * MILLISECOND)
    assert "consumer-behind" in diagnose(tmp_path, talk, after).codes


@pytest.mark.parametrize(("queue", "every"), [*product((30, 60), (150, 250))])
def test_one_that_rests_longer_than_it_ever_did_is_stuck(tmp_path: Path, queue: int, every: int) -> None:
    turn = queue // 2 * every
    talk = taking(6 * turn // 1000 + 1, every, queue=queue)
    assert GROWING not in diagnose(tmp_path, talk, publishing(9 * turn // 40, 40 * MILLISECOND)).codes


def far(length: int, queue: int, trip: int, *, opening: int = 0) -> Conversation:
    """A consumer far from its broker, captured at the consumer, which takes each message at once; times in ms."""
    talk = connected(start=50 * MILLISECOND).client(subscribe(1, "c1", 101)).wait((opening or trip) * MILLISECOND).server(success(101))
    talk.client(flow(queue))
    for turn in range(length * 1000 // trip):
        talk.wait(trip * MILLISECOND)
        for entry in range(turn * queue, (turn + 1) * queue):
            talk.server(delivery(entry)).client(ack(entry), flow(1))
    return talk


@pytest.mark.parametrize(("queue", "trip"), [(1, 60), (2, 160), (5, 160), (10, 500)])
def test_a_small_queue_on_a_long_way_is_named_at_the_consumer(tmp_path: Path, queue: int, trip: int) -> None:
    every = trip * MILLISECOND // (2 * queue)
    diagnosis = diagnose(tmp_path, far(30, queue, trip), publishing(30 * SECOND // every, every))
    row, evidence = diagnosis.only("consumer-behind")
    assert f"ask for no more than {queue} message" in (row.text or "")
    assert abs(evidence["round_trip_ns"] - trip * MILLISECOND) < trip * MILLISECOND / 4
    assert "broker-silent" not in diagnosis.codes


@pytest.mark.parametrize(
    ("length", "queue", "trip", "opening", "every"),
    [
        (30, 2, 160, 3, 40),  # the broker is near, and slow
        (12, 20, 160, 160, 8),  # it keeps pace
        (30, 2, 160, 160, 80),
        (8, 2, 160, 160, 20),  # too short
        (30, 1, 2000, 2000, 100),  # no way is so long
    ],
)
def test_a_consumer_that_takes_each_message_at_once_may_be_near(
    tmp_path: Path, length: int, queue: int, trip: int, opening: int, every: int
) -> None:
    published = publishing(length * 1000 // every, every * MILLISECOND)
    codes = diagnose(tmp_path, far(length, queue, trip, opening=opening), published).codes
    assert "consumer-behind" not in codes


@pytest.mark.parametrize(("before", "queue"), [*product((2, 5, 9), (20, 100, 160))])
def test_one_that_grows_once_the_queue_is_full_is_reported(tmp_path: Path, before: int, queue: int) -> None:
    """A consumer keeps up for a while; then its application slows down, and its queue fills before the backlog grows."""
    talk = subscribed(connected(start=50 * MILLISECOND)).client(flow(queue))
    for entry in range(before * 50):
        talk.wait(10 * MILLISECOND).server(delivery(entry)).client(ack(entry), flow(1)).wait(10 * MILLISECOND)
    got, rest = before * 50, (queue + 250) // 6
    for number in range(queue):
        talk.wait(20 * MILLISECOND).server(delivery(got + number))
    for number in range(rest):
        talk.wait(120 * MILLISECOND).client(ack(got + number), flow(1)).server(delivery(got + queue + number))
    diagnosis = diagnose(tmp_path, talk, publishing(before * 50 + queue + rest * 6, 20 * MILLISECOND))
    assert diagnosis.only(GROWING)[1]["grown"] > 100


@pytest.mark.parametrize(
    ("length", "every", "count", "pace"),
    [
        *product((4, 9), (20, 25), (200, 450), (20,)),  # as fast, or nearly
        *product((4, 9), (100,), (60,), (10, 20)),  # a burst that it works through
        *product((2,), (100,), (100,), (20,)),  # too short
        *product((9,), (300,), (20,), (400,)),  # a few
    ],
)
def test_one_that_does_not_grow_or_not_for_long_is_not(tmp_path: Path, length: int, every: int, count: int, pace: int) -> None:
    assert GROWING not in diagnose(tmp_path, taking(length, every), publishing(count, pace * MILLISECOND)).codes


def bursting(calm: int, burst: int, rate: int, *, queue: int = 100_000) -> list[Conversation]:
    """A consumer in step with 20 entries per second for `calm` s, and then `burst` ms of `rate` per second, of which it takes 100."""
    sends = [100 + number * 50 for number in range(calm * 20)]
    takes = [time + 5 for time in sends] + [105 + calm * 1000 + number * 10 for number in range(burst // 10)]
    sends += [100 + calm * 1000 + number * 1000 // rate for number in range(burst * rate // 1000)]
    talk = connected(41000).client(producer()).server(created())
    for number, time in enumerate(sends):
        wait_until(talk, time * MILLISECOND).client(send(sequence_id=number)).server(receipt(sequence_id=number, entry=number))
    other = subscribed(connected(start=20 * MILLISECOND)).client(flow(queue))
    for number, time in enumerate(takes[: len(sends)]):
        wait_until(other, time * MILLISECOND).server(delivery(number)).client(ack(number))
        if queue < 1000:
            other.client(flow(1))
    return [talk, other]


@pytest.mark.slow
@pytest.mark.parametrize(("calm", "burst", "rate"), [*product((5, 60), (3500,), (200, 500)), (20, 9000, 200), (2, 4500, 200)])
@pytest.mark.parametrize("queue", [1, 100_000])
def test_a_burst_at_the_end_of_the_capture_is_not(tmp_path: Path, calm: int, burst: int, rate: int, queue: int) -> None:
    """The subscription gets it soon after."""
    assert GROWING not in diagnose(tmp_path, *bursting(calm, burst, rate, queue=queue)).codes


@pytest.mark.slow
@pytest.mark.parametrize(("calm", "burst"), [(20, 17_000), (20, 30_000), (1, 9000), (0, 5000)])
def test_one_that_goes_on_or_came_from_the_beginning_is(tmp_path: Path, calm: int, burst: int) -> None:
    assert diagnose(tmp_path, *bursting(calm, burst, 200)).only(GROWING)[1]["grown"] > 300


def passing_over(how: str, kind: str, first: int = 10, again: int = 40) -> list[Conversation]:
    """A consumer that gets entries up to `first`, and then those from `again` on, at 1.8 s."""
    others = []
    talk = subscribed(connected(start=50 * MILLISECOND), kind=kind, read_compacted=how == "compacted").client(flow(1000))
    if how == "again":
        others = [subscribed(connected(40001, start=20 * MILLISECOND), kind=kind).client(flow(1000)).wait(SECOND)]
        others[0].server(*[delivery(entry) for entry in range(again)]).client(ack(*range(first, again))).close()
        talk = subscribed(connected(40002, start=1200 * MILLISECOND), kind=kind).client(flow(1000))
    elif how == "again by the same id":
        talk.wait(SECOND).server(*[delivery(entry) for entry in range(again)]).client(ack(*range(first, again)), close_consumer())
        subscribed(talk.server(success(900)), kind=kind).client(flow(1000)).wait(100 * MILLISECOND)
    for entry in range(first):
        talk.server(delivery(entry))
    if how == "lost":
        talk.lose("server", 5000)
    elif how == "by the broker":
        talk.server(close_consumer(1, BY_BROKER))
        subscribed(talk, kind=kind).client(flow(1000))
    wait_until(talk, 1800 * MILLISECOND)
    for entry in range(again, again + 5):
        talk.server(delivery(entry)).client(ack(entry))
    return [*others, talk]


@pytest.mark.parametrize(
    ("kind", "first", "again", "every"),
    [
        *product(("Exclusive", "Failover"), (1, 10), (40, 50), (30,)),
        *product(("Exclusive",), (2, 9), (11, 15), (100,)),
        *product(("Exclusive", "Failover"), (1, 10), (12, 30), (15,)),  # known by the sequence ids of their producer
    ],
)
def test_messages_that_were_passed_over_are_reported(tmp_path: Path, kind: str, first: int, again: int, every: int) -> None:
    diagnosis = diagnose(tmp_path, *passing_over("", kind, first, again), publishing(70, every * MILLISECOND))
    row, evidence = diagnosis.only(SKIPPED)
    assert (evidence["before"], evidence["after"], evidence["count"]) == ([7, first - 1], [7, again], again - first)
    assert diagnosis.commands(row)[:2] == ["MESSAGE", "MESSAGE"]


@pytest.mark.parametrize(
    ("how", "kind", "first"),
    [
        *product(("lost", "by the broker", "compacted", "again", "again by the same id"), ("Exclusive", "Failover"), (1, 10)),
        *product(("",), ("Shared", "Key_Shared"), (1, 10)),
    ],
)
def test_those_that_another_had_or_that_may_be_elsewhere_are_not(tmp_path: Path, how: str, kind: str, first: int) -> None:
    assert SKIPPED not in diagnose(tmp_path, *passing_over(how, kind, first), publishing(70, 30 * MILLISECOND)).codes


@pytest.mark.parametrize(("kind", "messages"), [*product(("Exclusive", "Failover"), (2, 3, 10))])
def test_a_batch_has_as_many_sequence_ids_as_messages(tmp_path: Path, kind: str, messages: int) -> None:
    """Entries of other kinds, such as markers, are as many as the ids of an earlier batch."""
    talk = subscribed(connected(start=50 * MILLISECOND), kind=kind).client(flow(1000))
    wait_until(talk, SECOND)
    for number in range(5):
        entry = number * messages
        talk.server(delivery(entry, batch=messages, sequence_id=entry)).client(ack(entry))
    assert SKIPPED not in diagnose(tmp_path, talk, publishing(1, MILLISECOND)).codes


@pytest.mark.parametrize("kind", ["Exclusive", "Failover"])
def test_entries_that_nobody_is_seen_to_publish_are_not(tmp_path: Path, kind: str) -> None:
    """Markers of transactions, and producers out of sight."""
    assert SKIPPED not in diagnose(tmp_path, *passing_over("", kind), publishing(20, 10 * MILLISECOND, first=50)).codes


@pytest.mark.parametrize(("kind", "hole"), [*product(("Exclusive", "Failover"), (0, 400))])
def test_messages_of_aborted_transactions_are_not_passed_over(tmp_path: Path, kind: str, hole: int) -> None:
    """After a hole, SENDs, which name their transaction, are read after their receipts."""
    beside = connected(41000).client(producer()).server(created())
    if hole:
        beside.lose("client", hole)
    for number in range(70):
        wait_until(beside, 100 * MILLISECOND + number * 15 * MILLISECOND)
        beside.client(send(sequence_id=number, txnid_most_bits=0, txnid_least_bits=1)).server(receipt(sequence_id=number, entry=number))
    wait_until(beside, 3 * SECOND).client(PING).server(PONG)
    talk = subscribed(connected(start=50 * MILLISECOND), kind=kind).client(flow(1000))
    wait_until(talk, 1800 * MILLISECOND)
    for entry in (9, 40, 69):
        talk.server(delivery(entry, txnid_most_bits=0, txnid_least_bits=2)).client(ack(entry))
    assert SKIPPED not in diagnose(tmp_path, talk, beside).codes
