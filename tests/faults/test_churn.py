"""Connections, producers and consumers that are created for hardly any work, and idle connections that are cut."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.scenarios.commands import (
    PING,
    PONG,
    ack,
    close_consumer,
    close_producer,
    created,
    delivery,
    flow,
    lookup,
    producer,
    receipt,
    send,
    subscribe,
    success,
)
from tests.scenarios.connections import connected, wait_until
from tests.scenarios.conversation import MILLISECOND, SECOND, Conversation
from tests.scenarios.evaluation import findings_of, only, problem_codes, with_code
from tests.scenarios.frames import command_frame


def job(number: int, every: int, *, messages: int = 1, end: str = "fin", lives: int = 20 * MILLISECOND, lost: int = 0) -> Conversation:
    """A client that connects, produces and leaves; the capture lacks some of its bytes."""
    talk = connected(30000 + number, start=number * every).client(producer()).server(created())
    for sequence in range(messages):
        talk.client(send(1, sequence)).server(receipt(1, sequence))
    talk.lose("client", lost).client(close_producer(1, 9)).server(success(9)).wait(lives)
    return talk.close() if end == "fin" else talk.reset("client")


@pytest.mark.parametrize(
    "every", [pytest.param(10 * MILLISECOND, marks=pytest.mark.slow), 50 * MILLISECOND, 100 * MILLISECOND, 200 * MILLISECOND]
)
@pytest.mark.parametrize("messages", [0, 1, 2])
@pytest.mark.parametrize("end", ["fin", "rst"])
def test_a_client_made_for_each_message(every: int, messages: int, end: str, tmp_path: Path) -> None:
    number = 2 * SECOND // every + 4
    rows = findings_of(tmp_path, *(job(index, every, messages=messages, end=end) for index in range(number)))
    assert only(rows, "connection-churn")[1]["count"] == number


@pytest.mark.parametrize(("lost", "found"), [(13, True), (150, True), (400, False), (40_000, False)])
def test_what_the_capture_lacks_may_be_work(lost: int, found: bool, tmp_path: Path) -> None:
    """Captures that are cut by a snap length, or have holes, do not show how much was sent."""
    rows = findings_of(tmp_path, *(job(index, 200 * MILLISECOND, lost=lost) for index in range(14)))
    assert bool(with_code(rows, "connection-churn")) is found


@pytest.mark.parametrize(("number", "every", "lives"), [*product((12, 20, 40), (30, 60, 80), (5, 20))])
def test_clients_made_one_after_the_other_need_no_second_busy_second(number: int, every: int, lives: int, tmp_path: Path) -> None:
    rows = findings_of(tmp_path, *(job(index, every * MILLISECOND, lives=lives * MILLISECOND) for index in range(number)))
    assert only(rows, "connection-churn")[1]["count"] == number


@pytest.mark.parametrize(
    ("number", "every", "messages"),
    [
        (8, 1 * SECOND, 1),  # cron jobs
        (11, 1 * SECOND, 1),
        (30, 4 * SECOND, 1),
        (6, SECOND // 2, 1),
        (7, 900 * MILLISECOND, 1),
        (40, 4 * MILLISECOND, 1),  # they start together
        (10, 100 * MILLISECOND, 1),
        pytest.param(40, 100 * MILLISECOND, 100, marks=pytest.mark.slow),  # with much work
    ],
)
@pytest.mark.parametrize("end", ["fin", "rst"])
def test_jobs_that_come_and_go(number: int, every: int, messages: int, end: str, tmp_path: Path) -> None:
    rows = findings_of(tmp_path, *(job(index, every, messages=messages, end=end) for index in range(number)))
    assert with_code(rows, "connection-churn") == []


@pytest.mark.parametrize(
    ("number", "every", "noted"),
    [
        *((number, every, True) for number in (3, 5, 9) for every in (1000, 2700, 9000)),
        *((2, every, False) for every in (1000, 9000)),
        *((number, 11000, False) for number in (3, 9)),
        *((20, every, False) for every in (60, 2000)),  # it has its own finding
    ],
)
@pytest.mark.parametrize("end", ["fin", "rst"])
def test_a_few_clients_one_after_the_other_are_a_note(number: int, every: int, noted: bool, end: str, tmp_path: Path) -> None:
    rows = findings_of(tmp_path, *(job(index, every * MILLISECOND, end=end) for index in range(number)))
    assert [row.severity for row in with_code(rows, "churn-undecided")] == ["note"] * noted


@pytest.mark.parametrize(("number", "every"), [(8, 400), (12, 400), (14, 920), (30, 500), (60, 800), (14, 2200), (20, 1000), (30, 2900)])
@pytest.mark.parametrize("end", ["fin", "rst"])
def test_a_client_made_for_each_message_without_a_busy_second(number: int, every: int, end: str, tmp_path: Path) -> None:
    rows = findings_of(tmp_path, *(job(index, every * MILLISECOND, end=end) for index in range(number)))
    assert only(rows, "connection-churn")[1]["count"] == number


def ports_of(hosts: int, number: int, every: int) -> list[int]:
    """Ports of connections that come `every` ns, of hosts in no order: each takes them in steps, and begins elsewhere every 10 s."""
    chance = Random(hosts)  # noqa: S311 - a scenario
    latest: dict[tuple[int, int], int] = {}
    ports = []
    for index in range(number):
        place = chance.randrange(hosts), index * every // (10 * SECOND)
        latest[place] = latest.get(place, chance.randrange(33_000, 60_000)) + 2 * chance.randrange(1, 9)
        ports.append(latest[place])
    return ports


def device(port: int, start: int, *, lives: int = 200 * MILLISECOND, **fields: Any) -> Conversation:
    """A device that connects, reports and leaves."""
    talk = connected(port, start=start).client(producer(**fields)).server(created(fields.get("name", "p")))
    talk.client(send(1, 0)).server(receipt(1, 0)).client(close_producer(1, 9)).server(success(9))
    return talk.wait(lives).close()


@pytest.mark.parametrize(("number", "every"), [(40, 400), (80, 300), (60, 700), (150, 90)])
@pytest.mark.parametrize("hosts", [5, 16, 40])
def test_devices_behind_one_address_may_be_no_churn(hosts: int, number: int, every: int, tmp_path: Path) -> None:
    ports = ports_of(hosts, number, every * MILLISECOND)
    chance = Random(every)  # noqa: S311 - a scenario
    talks = [device(port, index * every * MILLISECOND + chance.randrange(every * MILLISECOND)) for index, port in enumerate(ports)]
    rows = findings_of(tmp_path, *talks)
    assert with_code(rows, "connection-churn") == []
    (note,) = with_code(rows, "churn-undecided")
    assert note.severity == "note"
    assert note.text.endswith("; their ports are in no order, like those of several hosts behind one address.")


@pytest.mark.parametrize(("hosts", "times"), [(2, 9), (12, 5)])
def test_one_note_tells_enough_of_devices_that_come_again(hosts: int, times: int, tmp_path: Path) -> None:
    talks = [
        device(
            34_000 + 900 * host + 2 * time,
            (time * 6_000 + host * 450) * MILLISECOND,
            name=f"device-{host}",
            user_provided_producer_name=True,
        )
        for host in range(hosts)
        for time in range(times)
    ]
    rows = findings_of(tmp_path, *talks)
    (note,) = with_code(rows, "churn-undecided")
    assert (note.evidence or {})["count"] == times


@pytest.mark.parametrize(("number", "every"), [(40, 400), (80, 300), (60, 700), (150, 90)])
def test_one_host_opens_its_ports_in_order(number: int, every: int, tmp_path: Path) -> None:
    talks = [device(port, index * every * MILLISECOND) for index, port in enumerate(ports_of(1, number, every * MILLISECOND))]
    assert only(findings_of(tmp_path, *talks), "connection-churn")[1]["count"] == number


@pytest.mark.parametrize(
    ("number", "every", "lives", "churn"), [(14, 300, 200, True), (60, 90, 40, True), (14, 700, 10, False), (60, 90, 1, False)]
)
def test_clients_that_never_overlap_by_chance_are_one(number: int, every: int, lives: int, tmp_path: Path, *, churn: bool) -> None:
    """Their ports tell nothing: a translator chose them."""
    ports = Random(number).sample(range(1_024, 65_000, 100), number)  # noqa: S311 - a scenario
    talks = [device(port, index * every * MILLISECOND, lives=lives * MILLISECOND) for index, port in enumerate(ports)]
    found = with_code(findings_of(tmp_path, *talks), "connection-churn")
    assert bool(found) == churn


@pytest.mark.parametrize(("names", "churn"), [(1, True), (2, True), (16, False), (60, True)])
def test_names_that_come_again_are_those_of_different_clients(names: int, tmp_path: Path, *, churn: bool) -> None:
    """Two that come twice a second each are churn all the same, and so are clients with a random name each."""
    talks = [device(30000 + index, index * 500 * MILLISECOND, name=f"device-{index % names}") for index in range(60)]
    assert bool(with_code(findings_of(tmp_path, *talks), "connection-churn")) == churn


@pytest.mark.parametrize("number", [14, 40])
def test_slow_jobs_for_many_topics(number: int, tmp_path: Path) -> None:
    """One after the other, as from a scheduler with several topics."""
    talks = []
    for index in range(number):
        topic = f"persistent://public/default/t{index % 5}"
        talk = connected(30000 + index, start=index * 2 * SECOND).client(producer(topic=topic)).server(created())
        talks.append(talk.client(send(1, 0)).server(receipt(1, 0)).client(close_producer(1, 9)).server(success(9)).close())
    assert with_code(findings_of(tmp_path, *talks), "connection-churn") == []


@pytest.mark.parametrize(
    ("number", "every", "topics", "name", "churn"),
    [
        (15, 700, 15, "t", False),
        (20, 400, 5, "t", False),
        (20, 400, 2, "t", True),
        (30, 300, 3, "t", True),
        (20, 400, 10, "t-partition-", True),
    ],
)
def test_programs_of_one_host_that_work_for_topics_of_their_own_are_no_churn(
    number: int, every: int, topics: int, name: str, tmp_path: Path, *, churn: bool
) -> None:
    """A test suite, or the jobs of a host, one after the other; the partitions of a topic belong together."""
    talks = []
    for index in range(number):
        topic = f"persistent://public/default/{name}{index % topics}"
        talk = connected(30000 + index, start=index * every * MILLISECOND).client(producer(topic=topic)).server(created())
        talks.append(talk.client(send(1, 0)).server(receipt(1, 0)).client(close_producer(1, 9)).server(success(9)).close())
    rows = findings_of(tmp_path, *talks)
    assert bool(with_code(rows, "connection-churn")) == churn
    assert churn or any("topics" in (row.text or "") for row in with_code(rows, "churn-undecided"))


@pytest.mark.parametrize(("number", "every"), [(8, 400), (22, 250), (14, 2200)])
def test_a_client_made_for_each_message_that_does_not_close_its_producer(number: int, every: int, tmp_path: Path) -> None:
    talks = []
    for index in range(number):
        talk = connected(30000 + index, start=index * every * MILLISECOND).client(producer()).server(created())
        talks.append(talk.client(send(1, 0)).server(receipt(1, 0)).wait(10 * MILLISECOND).reset("client"))
    rows = findings_of(tmp_path, *talks)
    assert only(rows, "connection-churn")[1]["count"] == number
    assert with_code(rows, "reconnect-loop") == []


@pytest.mark.parametrize("number", [20, 60])
def test_many_clients_that_stay(number: int, tmp_path: Path) -> None:
    talks = [
        connected(30000 + index, start=index * 100 * MILLISECOND).client(producer(name=f"p{index}")).server(created(f"p{index}"))
        for index in range(number)
    ]
    assert with_code(findings_of(tmp_path, *talks), "connection-churn") == []


def producing(times: int, every: int, *, messages: int = 1, topics: int = 1, talk: Conversation | None = None) -> Conversation:
    talk = talk or connected()
    for number in range(times):
        start = talk.time_ns
        talk.client(producer(number, f"p{number}", 2 * number, f"persistent://public/default/t{number % topics}"))
        talk.server(created(f"p{number}", 2 * number))
        for sequence in range(messages):
            talk.client(send(number, sequence)).server(receipt(number, sequence))
        talk.client(close_producer(number, 2 * number + 1)).server(success(2 * number + 1))
        talk.wait(max(every - (talk.time_ns - start), 0))
    return talk


@pytest.mark.parametrize(
    "every", [pytest.param(5 * MILLISECOND, marks=pytest.mark.slow), 50 * MILLISECOND, 100 * MILLISECOND, 200 * MILLISECOND]
)
@pytest.mark.parametrize("messages", [0, 1, 3])
@pytest.mark.parametrize("end", ["fin", "rst", "open"])
def test_a_producer_made_for_each_message(every: int, messages: int, end: str, tmp_path: Path) -> None:
    number = 2 * SECOND // every + 4
    talk = producing(number, every, messages=messages)
    talk = talk if end == "open" else talk.close() if end == "fin" else talk.reset("client")
    assert only(findings_of(tmp_path, talk), "producer-churn")[1]["count"] == number


@pytest.mark.parametrize(("number", "every"), [(8, 400), (12, 400), (14, 920), (60, 800), (30, 1000), (12, 2500)])
def test_a_producer_made_for_each_message_without_a_busy_second(number: int, every: int, tmp_path: Path) -> None:
    assert only(findings_of(tmp_path, producing(number, every * MILLISECOND)), "producer-churn")[1]["count"] == number


@pytest.mark.parametrize(
    ("times", "every", "messages", "topics"),
    [
        (8, 100 * MILLISECOND, 1, 1),
        (30, 4 * SECOND, 1, 1),
        (7, SECOND, 1, 1),
        (40, 100 * MILLISECOND, 30, 1),
        (60, 50 * MILLISECOND, 1, 60),
        (40, MILLISECOND, 1, 1),
    ],
)
def test_producers_with_work_or_few_of_them(times: int, every: int, messages: int, topics: int, tmp_path: Path) -> None:
    assert with_code(findings_of(tmp_path, producing(times, every, messages=messages, topics=topics)), "producer-churn") == []


def with_others(kind: str, number: int) -> Conversation:
    """A client with this many other producers or consumers, one for each of its other topics."""
    talk = connected()
    for place in range(1000, 1000 + number):
        topic = f"persistent://public/default/other-{place}"
        if kind == "consumer":
            talk.client(subscribe(place, request=place, topic=topic)).server(success(place)).client(flow(1000, place))
        else:
            talk.client(producer(place, f"p{place}", place, topic)).server(created(f"p{place}", place))
    return talk


def close_others(talk: Conversation, kind: str, number: int) -> Conversation:
    close = close_consumer if kind == "consumer" else close_producer
    for place in range(1000, 1000 + number):
        talk.client(close(place, place)).server(success(place))
    return talk


@pytest.mark.slow
@pytest.mark.parametrize("others", ["consumer", "producer"])
@pytest.mark.parametrize(
    ("times", "every", "messages", "churn"), [(12, 2 * SECOND, 150, False), (40, SECOND // 10, 30, False), (12, 400 * MILLISECOND, 1, True)]
)
def test_the_work_of_a_producer_is_its_own(others: str, times: int, every: int, messages: int, churn: bool, tmp_path: Path) -> None:
    """Other closes on its connection do not matter."""
    talk = close_others(producing(times, every, messages=messages, talk=with_others(others, 300)), others, 300)
    assert bool(with_code(findings_of(tmp_path, talk), "producer-churn")) == churn


def test_a_busy_producer_beside_does_not_hide_it(tmp_path: Path) -> None:
    talk = with_others("producer", 1)
    for sequence in range(1000):
        talk.client(send(1000, sequence)).server(receipt(1000, sequence, entry=sequence))
    assert only(findings_of(tmp_path, producing(12, 400 * MILLISECOND, talk=talk)), "producer-churn")[1]["count"] == 12


def consuming(times: int, every: int, *, messages: int = 1, topics: int = 1, reader: bool = False, end: str = "close") -> Conversation:
    """One consumer or reader after the other on one connection."""
    talk, entry = connected(), 0
    for number in range(times):
        start, topic = talk.time_ns, f"persistent://public/default/t{number % topics}"
        talk.client(subscribe(number, request=2 * number, topic=topic, durable=not reader)).server(success(2 * number))
        talk.client(flow(1000, number))
        for _ in range(messages):
            talk.server(delivery(entry, number))
            if not reader:
                talk.client(ack(entry, number=number))
            entry += 1
        if end.startswith("unsubscribe"):
            talk.client(command_frame("UNSUBSCRIBE", consumer_id=number, request_id=2 * number + 1))
            if end == "unsubscribe and close":
                talk.client(close_consumer(number, 2 * number + 1))
        elif end == "by the broker":
            talk.server(close_consumer(number))
        else:
            talk.client(close_consumer(number, 2 * number + 1))
        talk.server(success(2 * number + 1))
        talk.wait(max(every - (talk.time_ns - start), 0))
    return talk


@pytest.mark.slow
@pytest.mark.parametrize("every", [20 * MILLISECOND, 120 * MILLISECOND, 400 * MILLISECOND, 1200 * MILLISECOND])
@pytest.mark.parametrize("messages", [0, 1, 3])
@pytest.mark.parametrize(("reader", "end"), [(False, "close"), (True, "close"), (False, "unsubscribe"), (False, "unsubscribe and close")])
def test_a_consumer_made_for_each_message(every: int, messages: int, reader: bool, end: str, tmp_path: Path) -> None:
    number = max(2 * SECOND // every + 4, 12)
    talk = consuming(number, every, messages=messages, reader=reader, end=end)
    assert only(findings_of(tmp_path, talk), "consumer-churn")[1]["count"] == number


@pytest.mark.parametrize(
    ("times", "every", "messages", "topics"),
    [
        (7, 100 * MILLISECOND, 1, 1),
        (7, SECOND, 1, 1),
        (30, 4 * SECOND, 1, 1),
        (40, 100 * MILLISECOND, 30, 1),
        (60, 50 * MILLISECOND, 1, 60),  # of 60 topics
        (40, MILLISECOND, 1, 1),  # at once
    ],
)
@pytest.mark.parametrize("end", ["close", "unsubscribe", "unsubscribe and close"])
def test_consumers_with_work_or_few_of_them(times: int, every: int, messages: int, topics: int, end: str, tmp_path: Path) -> None:
    talk = consuming(times, every, messages=messages, topics=topics, end=end)
    assert with_code(findings_of(tmp_path, talk), "consumer-churn") == []


def test_consumers_that_the_broker_closes_again_and_again(tmp_path: Path) -> None:
    assert with_code(findings_of(tmp_path, consuming(30, 100 * MILLISECOND, end="by the broker")), "consumer-churn") == []


def prefetching(
    times: int,
    every: int,
    prefetched: int,
    *,
    grouped: int = 0,
    cumulative: int = 0,
    permits: int = 0,
    talk: Conversation | None = None,
) -> Conversation:
    """Consumers that prefetch entries, and acknowledge `grouped` of them with one ACK, or all up to number `cumulative`."""
    talk = talk or connected()
    for number in range(times):
        start, first = talk.time_ns, number * prefetched
        talk.client(subscribe(number, request=2 * number, kind="Exclusive")).server(success(2 * number)).client(flow(1000, number))
        for entry in range(prefetched):
            talk.server(delivery(first + entry, number))
        if permits:
            talk.client(flow(permits, number))
        if grouped:
            talk.client(ack(*range(first, first + grouped), number=number))
        if cumulative:
            talk.client(ack(first + cumulative - 1, number=number, kind="Cumulative"))
        talk.client(close_consumer(number, 2 * number + 1)).server(success(2 * number + 1))
        talk.wait(max(every - (talk.time_ns - start), 0))
    return talk


@pytest.mark.slow
@pytest.mark.parametrize(("times", "every"), [(13, 2500), (20, 900)])
@pytest.mark.parametrize("work", [{"grouped": 200}, {"grouped": 6}, {"cumulative": 200}, {"cumulative": 6}, {"permits": 500, "grouped": 1}])
def test_consumers_that_acknowledge_much_at_once(times: int, every: int, work: dict[str, Any], tmp_path: Path) -> None:
    talk = prefetching(times, every * MILLISECOND, 200, **work)
    assert with_code(findings_of(tmp_path, talk), "consumer-churn") == []


@pytest.mark.slow
@pytest.mark.parametrize(("times", "every"), [(13, 2500), (20, 900)])
@pytest.mark.parametrize("work", [{}, {"grouped": 3}, {"cumulative": 3}, {"permits": 1, "grouped": 1}])
def test_consumers_that_prefetch_much_and_do_little(times: int, every: int, work: dict[str, Any], tmp_path: Path) -> None:
    talk = prefetching(times, every * MILLISECOND, 200, **work)
    text, evidence = only(findings_of(tmp_path, talk), "consumer-churn")
    assert evidence["count"] == times
    assert text.endswith(", with no messages acknowledged by any.") == (not work)


def reading_on(times: int, every: int, messages: int, where: str) -> Conversation:
    """Consumers, seen without their messages, that acknowledge cumulatively, up to `messages` entries further than the one before."""
    talk = connected()
    for number in range(times):
        start, last = talk.time_ns, (number + 1) * messages - 1
        before: dict[str, Any] = {"start_message_id": {"ledgerId": 7, "entryId": last - messages}} if where == "start" and number else {}
        if where == "latest":
            before = {"start_message_id": {"ledgerId": (1 << 63) - 1, "entryId": (1 << 63) - 1}}
        talk.client(
            subscribe(number, "s" if where == "subscription" else f"r-{number}", 2 * number, durable=where == "subscription", **before)
        )
        talk.client(flow(1000, number), ack(last, number=number, kind="Cumulative"), close_consumer(number, 2 * number + 1))
        talk.wait(max(every - (talk.time_ns - start), 0))
    return talk


@pytest.mark.parametrize(("times", "every"), [(14, 2500), (20, 900)])
@pytest.mark.parametrize(("messages", "where"), [(100, "subscription"), (100, "start"), (9, "subscription"), (9, "start")])
def test_consumers_of_a_one_way_capture_that_each_get_on(times: int, every: int, messages: int, where: str, tmp_path: Path) -> None:
    assert with_code(findings_of(tmp_path, reading_on(times, every * MILLISECOND, messages, where)), "consumer-churn") == []


@pytest.mark.parametrize(("times", "every"), [(14, 2500), (20, 900)])
@pytest.mark.parametrize(("messages", "where"), [(1, "subscription"), (1, "start"), (3, "subscription"), (100, "latest"), (2, "latest")])
def test_consumers_of_a_one_way_capture_that_hardly_get_on(times: int, every: int, messages: int, where: str, tmp_path: Path) -> None:
    only(findings_of(tmp_path, reading_on(times, every * MILLISECOND, messages, where)), "consumer-churn")


def test_idle_consumers_of_other_topics_do_not_excuse_or_accuse(tmp_path: Path) -> None:
    """Only the work of the consumer itself counts."""
    talk = prefetching(20, 400 * MILLISECOND, 20, grouped=20, talk=with_others("consumer", 300))
    assert with_code(findings_of(tmp_path, close_others(talk, "consumer", 300)), "consumer-churn") == []


def test_a_busy_consumer_beside_does_not_hide_it(tmp_path: Path) -> None:
    talk = with_others("consumer", 1)
    for entry in range(1000):
        talk.server(delivery(entry, 1000)).client(ack(entry, number=1000))
    talk = prefetching(20, 400 * MILLISECOND, 1, grouped=1, talk=talk)
    assert only(findings_of(tmp_path, talk), "consumer-churn")[1]["count"] == 20


def test_a_reader_that_seeks_each_time(tmp_path: Path) -> None:
    """The broker closes it for the seek; then it subscribes and requests as many messages again."""
    talk = connected()
    for number in range(20):
        talk.client(subscribe(number, request=3 * number, durable=False)).server(success(3 * number)).client(flow(1000, number))
        talk.client(command_frame("SEEK", consumer_id=number, request_id=3 * number + 1, message_publish_time=1_790_000_000_000))
        talk.server(success(3 * number + 1)).server(close_consumer(number))
        talk.client(subscribe(number, request=3 * number + 1, durable=False)).server(success(3 * number + 1)).client(flow(1000, number))
        talk.server(delivery(number, number)).client(close_consumer(number, 3 * number + 2)).server(success(3 * number + 2))
        talk.wait(400 * MILLISECOND)
    assert only(findings_of(tmp_path, talk), "consumer-churn")[1]["count"] == 20


@pytest.mark.parametrize(
    ("topic", "churn"),
    [
        ("persistent://tenant/ns/__transaction_buffer_snapshot", False),
        ("persistent://tenant/ns/__change_events-partition-0", False),
        ("persistent://tenant/__ns/t", True),
        ("persistent://tenant/ns/_t__x", True),
    ],
)
def test_readers_of_system_topics(topic: str, churn: bool, tmp_path: Path) -> None:
    """A broker creates one for each topic that it loads."""
    talk = connected()
    for number in range(30):
        talk.client(subscribe(number, request=number, topic=topic, durable=False)).server(success(number)).client(flow(1000, number))
        talk.server(delivery(0, number)).client(close_consumer(number, 100 + number)).server(success(100 + number)).wait(100 * MILLISECOND)
    assert bool(with_code(findings_of(tmp_path, talk), "consumer-churn")) == churn


@pytest.mark.slow
def test_each_of_many_consumers_that_unsubscribe_and_close_counts_once(tmp_path: Path) -> None:
    talk = connected()
    for number in range(1100):  # none of them is closed
        talk.client(subscribe(number, request=number, topic=f"persistent://public/default/other-{number}")).server(success(number))
        talk.client(command_frame("UNSUBSCRIBE", consumer_id=number, request_id=number)).server(success(number))
    for number in range(2000, 2007):
        talk.client(subscribe(number, request=number)).server(success(number)).client(flow(1000, number))
        talk.client(command_frame("UNSUBSCRIBE", consumer_id=number, request_id=number), close_consumer(number, number)).server(
            success(number)
        )
        talk.wait(400 * MILLISECOND)
    assert with_code(findings_of(tmp_path, talk), "consumer-churn") == []


def test_a_consumer_that_has_the_id_of_one_that_was_unsubscribed(tmp_path: Path) -> None:
    talk = connected()
    for number in range(12):
        talk.client(subscribe(1, request=number)).server(success(number)).client(flow(1000, 1))
        ends = command_frame("UNSUBSCRIBE", consumer_id=1, request_id=100 + number) if number % 2 else close_consumer(1, 100 + number)
        talk.client(ends).server(success(100 + number)).wait(400 * MILLISECOND)
    assert only(findings_of(tmp_path, talk), "consumer-churn")[1]["count"] == 12


def idle(number: int, idle_ns: int, end: str, *, start: int | None = None, every: int | None = None) -> Conversation:
    """A producer whose connection is cut after this time without traffic."""
    begin = number * (every or idle_ns + SECOND) if start is None else start
    talk = connected(30000 + number, start=begin).client(producer()).server(created()).client(send()).server(receipt()).wait(idle_ns)
    if end == "rst on write":
        return talk.client(send(1, 1)).reset("server")
    if end == "rst on ping":
        return talk.server(PING).reset("client")
    if end == "silence":
        return talk.client(send(1, 1)).wait(10 * MILLISECOND).reset("client")
    return talk.close("server") if end == "fin" else talk.reset("server")


@pytest.mark.parametrize("seconds", [0.6, 1, 2, 5, 60, 350])
@pytest.mark.parametrize("times", [3, 6])
@pytest.mark.parametrize("end", ["fin", "rst", "rst on write", "rst on ping", "silence"])
def test_connections_that_die_after_the_same_idle_time(seconds: float, times: int, end: str, tmp_path: Path) -> None:
    rows = findings_of(tmp_path, *(idle(number, int(seconds * SECOND) + number * 10 * MILLISECOND, end) for number in range(times)))
    evidence = only(rows, "idle-cut")[1]
    assert evidence["count"] == times
    assert abs(evidence["idle_ns"] - seconds * SECOND) < SECOND // 5


@pytest.mark.parametrize("end", ["fin", "rst", "rst on write", "rst on ping", "silence"])
@pytest.mark.parametrize("story", ["twice", "other times", "soon, at other times", "at once", "busy"])
def test_connections_that_die_otherwise(end: str, story: str, tmp_path: Path) -> None:
    talks = {
        "twice": [idle(number, 5 * SECOND, end) for number in range(2)],
        "other times": [idle(number, (1 + 4 * number) * SECOND, end, every=30 * SECOND) for number in range(5)],
        "soon, at other times": [idle(number, (500 + 200 * number) * MILLISECOND, end, every=9 * SECOND) for number in range(5)],
        "at once": [idle(number, 5 * SECOND, end, start=number * MILLISECOND) for number in range(5)],
        "busy": [idle(number, 100 * MILLISECOND, end) for number in range(6)],
    }[story]
    assert with_code(findings_of(tmp_path, *talks), "idle-cut") == []


@pytest.mark.parametrize(("after_ms", "named"), [(0, False), (100, False), (2000, True), (-2000, True)])
def test_connections_that_die_together_with_one_that_had_traffic(after_ms: int, named: bool, tmp_path: Path) -> None:
    """Whatever ends all connections of a client at once every few seconds is no timeout of idle ones."""
    talks = [idle(number, 5 * SECOND, "rst", every=9 * SECOND) for number in range(4)]
    for number in range(4):
        end = number * 9 * SECOND + 5 * SECOND + after_ms * MILLISECOND
        busy = connected(31000 + number, start=number * 9 * SECOND).client(producer()).server(created())
        for sequence in range((end - number * 9 * SECOND) // (200 * MILLISECOND)):
            busy.client(send(sequence, 1)).server(receipt(sequence)).wait(200 * MILLISECOND)
        talks.append(busy.reset("server"))
    assert bool(with_code(findings_of(tmp_path, *talks), "idle-cut")) == named


@pytest.mark.parametrize("answered", [True, False])
def test_clients_that_leave_after_a_ping(answered: bool, tmp_path: Path) -> None:
    talks = []
    for number in range(4):
        talk = connected(30000 + number, start=number * 7 * SECOND).client(producer()).server(created()).client(send()).server(receipt())
        talk.wait(5 * SECOND).server(PING)
        talks.append(talk.client(PONG).reset("client") if answered else talk.close("client"))
    assert with_code(findings_of(tmp_path, *talks), "idle-cut") == []


@pytest.mark.parametrize("end", ["fin", "rst"])
@pytest.mark.parametrize("waits", [SECOND, 5 * SECOND])
@pytest.mark.parametrize("is_ahead", [False, True])
def test_connections_that_die_while_the_client_waits_for_an_answer(end: str, waits: int, is_ahead: bool, tmp_path: Path) -> None:
    """Its request may stand before the answer to an earlier one."""
    talks = []
    for number in range(5):
        talk = connected(30000 + number, start=number * 7 * SECOND)
        talk = talk.client(lookup(1), PING).server(PONG).wait(waits) if is_ahead else talk.client(lookup(1)).wait(waits)
        talks.append(talk.close("server") if end == "fin" else talk.reset("server"))
    codes = problem_codes(findings_of(tmp_path, *talks))
    assert "idle-cut" not in codes
    assert "reconnect-loop" in codes


@pytest.mark.parametrize("waits", [SECOND, 5 * SECOND])
def test_clients_that_give_up_one_request_after_the_other_are_not_idle(waits: int, tmp_path: Path) -> None:
    talks = []
    for number in range(5):
        talk = connected(30000 + number, start=number * 30 * SECOND).client(producer()).server(created())
        talks.append(talk.client(close_producer(1)).wait(waits).client(lookup(1)).wait(waits).close("client"))
    codes = problem_codes(findings_of(tmp_path, *talks))
    assert "idle-cut" not in codes
    assert "request-unanswered" in codes


def test_idle_clients_that_close_in_peace(tmp_path: Path) -> None:
    talks = [job(number, 6 * SECOND, lives=5 * SECOND) for number in range(5)]
    assert problem_codes(findings_of(tmp_path, *talks)) == []


def test_keep_alives_keep_a_connection(tmp_path: Path) -> None:
    talk = connected().client(producer()).server(created())
    for number in range(5):
        talk = wait_until(talk, (number + 1) * 30 * SECOND).client(PING).server(PONG)
    assert problem_codes(findings_of(tmp_path, talk.close())) == []


def in_use(number: int, start: int, lives: int, *, size: int = 100, end: str = "fin", every: int = 100, by: str = "server") -> Conversation:
    """A producer that sends `size` bytes every `every` ms until its connection is cut, ns after its start."""
    talk = connected(30000 + number, start=start).client(producer()).server(created())
    sequence, until = 0, talk.time_ns + lives
    while talk.time_ns < until:
        talk.client(send(1, sequence, payload=b"x" * size)).server(receipt(1, sequence)).wait(every * MILLISECOND)
        sequence += 1
    return talk.close(by) if end == "fin" else talk.reset(by)


@pytest.mark.parametrize(("seconds", "times"), [(1.2, 4), (8, 5), (30, 4)])
@pytest.mark.parametrize("end", ["fin", "rst"])
def test_connections_in_use_that_live_equally_long(seconds: float, times: int, end: str, tmp_path: Path) -> None:
    lives = int(seconds * SECOND)
    talks = [in_use(number, number * (lives + SECOND // 2), lives, end=end, size=100 + 50 * number) for number in range(times)]
    rows = findings_of(tmp_path, *talks)
    text, evidence = only(rows, "regular-cut")
    assert evidence["count"] == times
    assert abs(evidence["usual"] - lives) < SECOND // 5
    assert "bytes" not in text
    assert len(evidence["connections"]) == times


@pytest.mark.parametrize("by", ["client", "server"])
def test_a_capture_of_the_broker_alone_does_not_show_who_ended_connections(by: str, tmp_path: Path) -> None:
    talks = [in_use(number, number * 9 * SECOND, 8 * SECOND, by=by) for number in range(5)]
    for talk in talks:
        talk.packets[:] = [packet for packet in talk.packets if packet.data[34:36] == (6650).to_bytes(2, "big")]
    assert problem_codes(findings_of(tmp_path, *talks)) == []


@pytest.mark.parametrize(("clients", "times"), [(2, 4), (3, 3), (5, 4)])
def test_several_clients_behind_one_address_are_cut_after_the_same_time(clients: int, times: int, tmp_path: Path) -> None:
    starts = [client * 1_500 * MILLISECOND + time * 8_500 * MILLISECOND for time in range(times) for client in range(clients)]
    talks = [in_use(number, start, 8 * SECOND) for number, start in enumerate(starts)]
    _, evidence = only(findings_of(tmp_path, *talks), "regular-cut")
    assert evidence["count"] == clients * times


def test_one_that_comes_back_late_does_not_hide_that_the_others_are_cut_regularly(tmp_path: Path) -> None:
    talks = [in_use(number, number * 9 * SECOND + (20 * SECOND if number > 2 else 0), 8 * SECOND) for number in range(6)]
    _, evidence = only(findings_of(tmp_path, *talks), "regular-cut")
    assert evidence["count"] == 6


def test_clients_that_are_sent_away_in_the_order_in_which_they_came_are_not_cut_regularly(tmp_path: Path) -> None:
    talks = [in_use(number, number * 2 * SECOND, 12 * SECOND) for number in range(5)]
    talks += [in_use(10 + number, (number * 2 + 13) * SECOND, (30 - number * 3) * SECOND, by="client") for number in range(5)]
    assert with_code(findings_of(tmp_path, *talks), "regular-cut") == []


@pytest.mark.parametrize("clients", [2, 5])
def test_a_broker_that_stops_a_few_times_does_not_cut_regularly(clients: int, tmp_path: Path) -> None:
    talks: list[Conversation] = []
    start = 0
    for lives in (4 * SECOND, 9 * SECOND, 6 * SECOND, 14 * SECOND):
        talks += [in_use(len(talks) + number, start, lives) for number in range(clients)]
        start += lives + SECOND
    assert with_code(findings_of(tmp_path, *talks), "regular-cut") == []


@pytest.mark.parametrize("size", [1_000, 20_000])
@pytest.mark.parametrize("times", [4, 7])
def test_connections_in_use_that_carry_equally_much(size: int, times: int, tmp_path: Path) -> None:
    start, talks = 0, []
    for number in range(times):
        every = 40 * (1 + number % 3)
        talks.append(in_use(number, start, lives := 40 * (every * MILLISECOND + MILLISECOND // 5), size=size, every=every))
        start += lives + SECOND
    text, evidence = only(findings_of(tmp_path, *talks), "regular-cut")
    assert evidence["count"] == times
    assert "bytes from the client" in text


@pytest.mark.parametrize("end", ["fin", "rst"])
@pytest.mark.parametrize("story", ["three", "other times", "short", "slow to come back", "at once", "by the client", "idle", "unanswered"])
def test_connections_that_end_otherwise_are_not_cut_regularly(end: str, story: str, tmp_path: Path) -> None:
    lives = [(1 + number * 2) * SECOND for number in range(5)]
    talks = {
        "three": [in_use(number, number * 9 * SECOND, 8 * SECOND, end=end) for number in range(3)],
        "other times": [in_use(number, sum(lives[:number]) + number * SECOND, lives[number], end=end) for number in range(5)],
        "short": [in_use(number, number * SECOND, 500 * MILLISECOND, end=end, every=20) for number in range(8)],
        "slow to come back": [in_use(number, number * 12 * SECOND, 8 * SECOND, end=end) for number in range(5)],
        "at once": [in_use(number, number * MILLISECOND, 8 * SECOND, end=end) for number in range(5)],
        "by the client": [in_use(number, number * 9 * SECOND, 8 * SECOND, end=end, by="client") for number in range(5)],
        "idle": [idle(number, 5 * SECOND, end) for number in range(5)],
        "unanswered": [_unanswered(number, end) for number in range(5)],
    }[story]
    assert with_code(findings_of(tmp_path, *talks), "regular-cut") == []


def _unanswered(number: int, end: str) -> Conversation:
    talk = connected(30000 + number, start=number * 6 * SECOND).client(lookup(1)).wait(5 * SECOND)
    return talk.close("server") if end == "fin" else talk.reset("server")
