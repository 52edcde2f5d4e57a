"""Partitions compared with their siblings."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.scenarios.commands import TOPIC, close_consumer, created, delivery, flow, message, producer, receipt, send, subscribe, success
from tests.scenarios.connections import connected, wait_until
from tests.scenarios.conversation import MILLISECOND
from tests.scenarios.evaluation import Diagnosis, diagnose
from tests.scenarios.frames import command_frame

STUCK, SKEW = "partition-stuck", "partition-skew"


def partitioned(
    folder: Path, published: list[int], delivered: list[int], length: int = 6000, *, permits: int = 100, begin: int = 0
) -> Diagnosis:
    """A topic with these numbers of entries published to, and delivered by, its partitions."""
    out, into = connected(41000), connected(start=begin * MILLISECOND)
    topics = [f"{TOPIC}-partition-{number}" for number in range(len(published))]
    for number, topic in enumerate(topics):
        out.client(producer(number, f"p{number}", number, topic)).server(created(f"p{number}", number))
        into.client(subscribe(number, "c", number, "Shared", topic)).server(success(number)).client(flow(permits, number))
    wait_until(out, 200 * MILLISECOND)
    wait_until(into, max(begin + 100, 300) * MILLISECOND)
    for number in range(len(topics)):
        for entry in range(published[number]):
            out.client(send(number, entry)).server(receipt(number, entry, 7 + number, entry))
        into.server(*[delivery(entry, number) for entry in range(delivered[number])])
    wait_until(out, length * MILLISECOND).client(send(0, 9999))
    return diagnose(folder, out, into)


@pytest.mark.parametrize(("partitions", "count", "length", "stuck"), [*product((2, 3, 8), (5, 20), (3500, 9000), (0, 1))])
def test_a_partition_that_delivers_nothing_while_others_do_is_named(
    tmp_path: Path, partitions: int, count: int, length: int, stuck: int
) -> None:
    delivered = [count * (number != stuck) for number in range(partitions)]
    row, evidence = partitioned(tmp_path, [count] * partitions, delivered, length).only(STUCK)
    assert (evidence["topic"], evidence["published"]) == (f"{TOPIC}-partition-{stuck}", count)
    assert row.severity == "warning"


@pytest.mark.parametrize(
    ("published", "delivered", "length", "permits", "begin"),
    [
        *(([count] * partitions, [count] * partitions, 6000, 100, 0) for partitions, count in product((2, 3, 8), (5, 20))),  # all deliver
        *(([count, 0], [count, 0], 6000, 100, 0) for count in (1, 5, 20)),  # nothing was published
        *(([count, 4], [count, 0], 6000, 100, 0) for count in (5, 20)),  # few
        *(([count, count], [count, 0], 2000, 100, 0) for count in (5, 20)),  # soon
        *(([count, count], [0, 0], 6000, 100, 0) for count in (5, 20)),  # no partition is the exception
        *(([count, count], [count, 0], 6000, 0, 0) for count in (5, 20)),  # without permits
        *(([count, count], [count, 0], 6000, 100, 1000) for count in (5, 20)),  # published before
    ],
)
def test_a_partition_with_a_reason_to_rest_is_healthy(
    tmp_path: Path, published: list[int], delivered: list[int], length: int, permits: int, begin: int
) -> None:
    assert STUCK not in partitioned(tmp_path, published, delivered, length, permits=permits, begin=begin).codes


@pytest.mark.parametrize(("busy", "others", "partitions"), [*product((100, 200), (0, 1, 2), (3, 5, 8))])
def test_a_partition_with_most_messages_is_reported(tmp_path: Path, busy: int, others: int, partitions: int) -> None:
    counts = [busy] + [others] * (partitions - 1)
    row, evidence = partitioned(tmp_path, counts, counts, permits=1000).only(SKEW)
    assert (row.severity, evidence["count"]) == ("note", sum(counts))


@pytest.mark.parametrize(("busy", "others", "partitions"), [*product((40, 100), (40, 20), (3, 5, 8)), *product((50, 100), (0, 1), (1, 2))])
def test_partitions_with_about_as_much_are_not(tmp_path: Path, busy: int, others: int, partitions: int) -> None:
    counts = [busy] + [others] * (partitions - 1)
    assert SKEW not in partitioned(tmp_path, counts, counts, permits=1000).codes


def stopping(folder: Path, partitions: int, stop: int, length: int, *, kind: str = "Shared", every: int = 50, story: str = "") -> Diagnosis:
    """A topic whose first partition stops after `stop` entries; each partition has its own connections."""
    talks = []
    for number in range(partitions):
        topic = f"{TOPIC}-partition-{number}"
        out = connected(41000 + number).client(producer(1, f"p{number}", 1, topic)).server(created(f"p{number}", 1))
        into = connected(42000 + number).client(subscribe(1, "c", 1, kind, topic)).server(success(1))
        into.client(flow(stop if story == "permits" and not number else 1000))
        also = connected(43000).client(subscribe(1, "d", 1, kind, topic)).server(success(1)).client(flow(1000))
        count = length // every
        for entry in range(stop if story == "no more" and not number else count):
            at = (100 + entry * every) * MILLISECOND
            wait_until(out, at).client(send(1, entry)).server(receipt(1, entry, 7 + number, entry))
            if entry < stop or (number and story != "all stop"):
                wait_until(into, at + 5 * MILLISECOND).server(message(1, entry, ledger=7 + number))
            elif not number and story == "another":
                wait_until(also, at + 5 * MILLISECOND).server(message(1, entry, ledger=7))
            if entry == stop and not number and story in ("closed", "standby"):
                close = command_frame("ACTIVE_CONSUMER_CHANGE", consumer_id=1, is_active=False)
                into.client(close_consumer(1)) if story == "closed" else into.server(close)
        talks += [out, into, *([also] if story == "another" and not number else [])]
    return diagnose(folder, *talks)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("partitions", "stop", "length", "kind"), [*product((2, 4), (1, 10, 30), (5000, 9000), ("Shared", "Failover", "Exclusive"))]
)
def test_one_that_delivers_nothing_more_while_others_do_is_named(
    tmp_path: Path, partitions: int, stop: int, length: int, kind: str
) -> None:
    diagnosis = stopping(tmp_path, partitions, stop, length, kind=kind)
    row, evidence = diagnosis.only(STUCK)
    assert (evidence["topic"], evidence["last_delivered"]) == (f"{TOPIC}-partition-0", [7, stop - 1])
    assert set(diagnosis.commands(row)) == {"MESSAGE"}


@pytest.mark.slow
@pytest.mark.parametrize(("minutes", "kind"), [*product((1, 2, 10, 60), ("Shared", "Exclusive"))])
def test_one_that_stops_after_minutes_is_named_as_one_that_stops_at_once(tmp_path: Path, minutes: int, kind: str) -> None:
    length = minutes * 60_000
    every, working = length // 240, 200
    _, evidence = stopping(tmp_path, 2, working, length, kind=kind, every=every).only(STUCK)
    assert (evidence["last_delivered"], evidence["published"] >= 20) == ([7, working - 1], True)


@pytest.mark.parametrize("minutes", [1, 2, 10, 60])
def test_one_that_delivers_for_minutes_is_not(tmp_path: Path, minutes: int) -> None:
    assert STUCK not in stopping(tmp_path, 2, 240, minutes * 60_000, every=minutes * 250).codes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("partitions", "story"),
    [*product((2, 4), ("permits", "another", "closed", "standby", "no more", "all stop", "soon", "Key_Shared"))],
)
def test_one_that_stops_for_a_reason_is_not(tmp_path: Path, partitions: int, story: str) -> None:
    kind = {"Key_Shared": "Key_Shared", "standby": "Failover"}.get(story, "Shared")
    length = 2500 if story == "soon" else 6000
    assert STUCK not in stopping(tmp_path, partitions, 10, length, kind=kind, story=story).codes


def taken_over(folder: Path, active_ms: int, partitions: int = 3, length: int = 12_000) -> Diagnosis:
    """A failover subscription whose standby becomes active for its first partition this long before it closes, and gets nothing from it."""
    out, first, standby = connected(41000), connected(42000), connected(43000)
    change = [command_frame("ACTIVE_CONSUMER_CHANGE", consumer_id=0, is_active=is_active) for is_active in (False, True)]
    for number in range(partitions):
        topic = f"{TOPIC}-partition-{number}"
        out.client(producer(number, f"p{number}", number, topic)).server(created(f"p{number}", number))
        consumer = standby if number else first
        consumer.client(subscribe(number, "c", number, "Failover", topic)).server(success(number)).client(flow(1000, number))
    standby.client(subscribe(0, "c", 90, "Failover", f"{TOPIC}-partition-0")).server(change[0], success(90)).client(flow(1000, 0))
    change_at = 1000 + length - active_ms
    for entry in range(length // 50):
        at = 1000 + entry * 50
        wait_until(out, at * MILLISECOND)
        if at - 50 < change_at <= at:
            wait_until(first, change_at * MILLISECOND).server(change[0])
            wait_until(standby, change_at * MILLISECOND).server(change[1])
        for number in range(partitions):
            out.client(send(number, entry)).server(receipt(number, entry, 7 + number, entry))
            if number or at < change_at:
                consumer = wait_until(standby if number else first, (at + 8 * number) * MILLISECOND)
                consumer.server(message(number, entry, ledger=7 + number))
    closes = [close_consumer(number, 100 + number) for number in range(partitions)]
    wait_until(standby, (length + 1500) * MILLISECOND).client(*closes).server(*[success(100 + number) for number in range(partitions)])
    return diagnose(folder, out, first, standby)


@pytest.mark.parametrize(("active_ms", "partitions"), [*product((0, 200, 1000, 2000), (2, 3))])
def test_a_standby_that_is_active_for_a_moment_before_it_closes_is_healthy(tmp_path: Path, active_ms: int, partitions: int) -> None:
    assert STUCK not in taken_over(tmp_path, active_ms, partitions).codes


@pytest.mark.parametrize(("active_ms", "partitions"), [*product((3500, 8000), (2, 3))])
def test_a_partition_that_delivers_nothing_after_a_takeover_is_named(tmp_path: Path, active_ms: int, partitions: int) -> None:
    _, evidence = taken_over(tmp_path, active_ms, partitions).only(STUCK)
    assert evidence["topic"] == f"{TOPIC}-partition-0"
    assert abs(evidence["rest_ns"] // MILLISECOND - active_ms) < 1000
