"""Producers and connections that are made for a message or two, and left open."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from pulsarscope.model.limits import NAME_MAX_CHARACTERS
from pulsarscope.model.text import plural
from pulsarscope.protocols.pulsar.rules.connections.left_open import chosen_name
from tests.scenarios.commands import (
    CONNECTED,
    PING,
    PONG,
    ack,
    close_producer,
    created,
    delivery,
    flow,
    producer,
    receipt,
    send,
    subscribe,
    success,
)
from tests.scenarios.connections import connected, wait_until
from tests.scenarios.conversation import MILLISECOND, SECOND, START_NS, Conversation
from tests.scenarios.evaluation import findings_of, only, with_code
from tests.scenarios.frames import command_frame

TOPIC = "persistent://public/default/t"


def leaking(number: int, every: int, *, messages: int = 1, topics: int = 1, after: int = 0) -> Conversation:
    """A client that opens producers and closes none; each sends some messages at once, and one `after` each time that others came."""
    talk = connected()
    for index in range(number):
        wait_until(talk, (index + 1) * every)
        talk.client(producer(index, f"p{index}", index, f"{TOPIC}{index % topics}")).server(created(f"p{index}", index))
        for sequence in range(messages):
            talk.client(send(index, sequence)).server(receipt(index, sequence))
        for older in range(index if after and index % after == 0 else 0):
            talk.client(send(older, 100 + index)).server(receipt(older, 100 + index))
    return talk


@pytest.mark.parametrize(
    ("number", "every", "messages", "end"),
    [*product((14, 60), (300, 900), (1, 2), ("open", "fin")), (20, 2500, 1, "open"), (14, 400, 5, "rst")],
)
def test_producers_that_are_left_open_are_churn(number: int, every: int, messages: int, end: str, tmp_path: Path) -> None:
    talk = leaking(number, every * MILLISECOND, messages=messages).wait(SECOND)
    talk = talk if end == "open" else talk.close() if end == "fin" else talk.reset("client")
    text, evidence = only(findings_of(tmp_path, talk), "producer-churn")
    assert evidence["count"] == number
    assert f"closed none of them, with {plural(messages, 'SEND')} by each" in text


@pytest.mark.parametrize(
    ("number", "every", "messages", "topics", "after"),
    [
        (60, 10, 1, 1, 0),  # at the start
        (11, 900, 1, 1, 0),
        (30, 300, 0, 1, 0),
        (30, 300, 6, 1, 0),
        (60, 300, 1, 30, 0),
        (30, 4000, 1, 1, 0),
        (30, 300, 1, 1, 8),  # they go on with their work
    ],
)
def test_producers_that_start_together_or_work_are_not(
    number: int, every: int, messages: int, topics: int, after: int, tmp_path: Path
) -> None:
    talk = leaking(number, every * MILLISECOND, messages=messages, topics=topics, after=after).wait(SECOND)
    assert with_code(findings_of(tmp_path, talk), "producer-churn") == []


def test_producers_whose_closing_the_capture_may_lack_are_not(tmp_path: Path) -> None:
    talk = leaking(30, 300 * MILLISECOND).lose("client", 4000).client(close_producer(1, 900)).server(success(900))
    assert with_code(findings_of(tmp_path, talk), "producer-churn") == []


def staying(
    number: int, every: int, until: int, *, messages: int = 1, topics: int = 1, beat: int = 0, consumer: bool = False
) -> Conversation:
    """A client that connects, produces and stays; it sends again after each `beat`."""
    talk = connected(30000 + number, start=number * every).client(producer(topic=f"{TOPIC}{number % topics}")).server(created())
    if consumer:
        talk.client(subscribe(request=5)).server(success(5))
    for sequence in range(messages):
        talk.client(send(1, sequence)).server(receipt(1, sequence))
    sequence = messages
    while (wait := beat or 30 * SECOND) and talk.time_ns - START_NS + wait < until:
        talk.wait(wait)
        talk.client(*([send(1, sequence)] if beat else [PING])).server(receipt(1, sequence) if beat else PONG)
        sequence += 1
    return wait_until(talk, until)


@pytest.mark.parametrize(
    ("number", "every", "messages", "end"),
    [*product((14, 30), (500, 1500, 2900), (1, 3), ("fin",)), (20, 1000, 2, "rst"), (40, 1000, 1, "fin")],
)
def test_connections_that_are_left_open_are_churn(number: int, every: int, messages: int, end: str, tmp_path: Path) -> None:
    until = (number * every + 6000) * MILLISECOND
    talks = [staying(index, every * MILLISECOND, until, messages=messages) for index in range(number)]
    talks = [talk.close() if end == "fin" else talk.reset("client") for talk in talks]
    _, evidence = only(findings_of(tmp_path, *talks), "connection-churn")
    assert evidence["count"] == number
    assert len(evidence["connections"]) == number


@pytest.mark.parametrize(
    ("number", "every", "messages", "topics", "beat", "consumer"),
    [
        (40, 50, 1, 1, 0, False),  # a deployment
        (11, 1500, 1, 1, 0, False),
        (20, 1500, 0, 1, 0, False),
        (20, 1500, 8, 1, 0, False),
        (20, 1500, 1, 10, 0, False),
        (20, 4000, 1, 1, 0, False),
        (20, 1500, 1, 1, 6, False),  # they go on with their work
        (20, 1500, 1, 1, 0, True),
    ],
)
def test_connections_that_start_together_or_work_are_not(
    number: int, every: int, messages: int, topics: int, beat: int, consumer: bool, tmp_path: Path
) -> None:
    until = (number * every + 6000) * MILLISECOND
    talks = [
        staying(index, every * MILLISECOND, until, messages=messages, topics=topics, beat=beat * SECOND, consumer=consumer).close()
        for index in range(number)
    ]
    assert with_code(findings_of(tmp_path, *talks), "connection-churn") == []


@pytest.mark.parametrize(("ports", "name"), [((30000, 44000, 51000), ""), ((30000,), "user-{}")])
def test_connections_of_different_hosts_or_users_are_not(ports: tuple[int, ...], name: str, tmp_path: Path) -> None:
    talks = []
    for number in range(21):
        talk = connected(ports[number % len(ports)] + 2 * number, start=number * SECOND)
        talk.client(producer(name=name.format(number) if name else "p")).server(created()).client(send()).server(receipt())
        talks.append(wait_until(talk, 30 * SECOND).close())
    assert with_code(findings_of(tmp_path, *talks), "connection-churn") == []


@pytest.mark.parametrize(
    ("header", "fields"),
    [
        (b"", {"proxy_version": "3.3.1"}),
        (b"", {"client_version": "Pulsar proxy"}),
        (b"PROXY TCP4 192.0.2.1 10.0.0.2 5000 6650\r\n", {}),
        (b"", {}),
    ],
)
def test_connections_of_a_proxy_are_those_of_its_clients(header: bytes, fields: dict[str, str], tmp_path: Path) -> None:
    connect = command_frame("CONNECT", **({"client_version": "Pulsar-Java-v3.3.1", "protocol_version": 21} | fields))
    talks = []
    for number in range(20):
        talk = Conversation(("10.0.0.1", 30000 + number), start_ns=START_NS + number * SECOND).handshake()
        talk.client(header, connect).server(CONNECTED)
        talk.client(producer()).server(created()).client(send()).server(receipt())
        talks.append(wait_until(talk, 30 * SECOND).close())
    found = with_code(findings_of(tmp_path, *talks), "connection-churn")
    assert bool(found) != bool(header or fields)
    assert all("20 connections" in each.text and "kept them open, for up to 30.0 s;" in each.text for each in found)


def consuming(
    number: int, every: int, *, messages: int = 1, takes: int = 0, again: int = 0, own: bool = False, reader: bool = False
) -> Conversation:
    """A client that opens a consumer `every` ms for some messages; they are acknowledged in turn after `takes` ms.

    `again`: all consumers get and acknowledge another message each time that this many have been opened. `own`: each has a subscription.
    """
    talk = connected()
    waiting: list[tuple[int, bytes]] = []
    entry = 0
    for index in range(number):
        start = (index + 1) * every
        while waiting and waiting[0][0] <= start:
            due, frame = waiting.pop(0)
            wait_until(talk, max(due * MILLISECOND, talk.time_ns - START_NS)).client(frame)
        wait_until(talk, start * MILLISECOND)
        names = {"subscription": f"s{index}"} if own or reader else {}
        talk.client(subscribe(index, f"c{index}", 100 + index, "Shared", durable=not reader, **names)).server(success(100 + index)).client(
            flow(100, index)
        )
        for _ in range(messages):
            talk.server(delivery(entry, index))
            waiting.append((start + takes + 5, ack(entry, number=index)))
            entry += 1
        for older in range(index if again and index % again == 0 else 0):
            talk.server(delivery(entry, older)).client(ack(entry, number=older))
            entry += 1
    for due, frame in waiting:
        wait_until(talk, max(due * MILLISECOND, talk.time_ns - START_NS)).client(frame)
    return talk.wait(SECOND)


@pytest.mark.parametrize(("number", "every", "messages"), [(14, 300, 1), (14, 900, 2), (60, 300, 1), (20, 2500, 1), (40, 400, 5)])
@pytest.mark.parametrize(("end", "reader"), [("open", False), ("fin", False), ("rst", False), ("open", True)])
def test_consumers_that_are_left_open_are_churn(number: int, every: int, messages: int, end: str, tmp_path: Path, *, reader: bool) -> None:
    """Each of the readers may serve a user, if they do not come too often."""
    talk = consuming(number, every, messages=messages, reader=reader)
    talk = talk if end == "open" else talk.close() if end == "fin" else talk.reset("client")
    text, evidence = only(findings_of(tmp_path, talk), "churn-undecided" if reader and every > 950 else "consumer-churn")
    assert evidence["count"] == number
    assert f"closed none of them, with {plural(messages, 'message')} acknowledged by each" in text


@pytest.mark.parametrize(
    "talk",
    [
        lambda: consuming(60, 10),  # at the start
        lambda: consuming(11, 900),
        lambda: consuming(30, 300, messages=0),
        lambda: consuming(30, 300, messages=6),
        lambda: consuming(30, 4000),
        lambda: consuming(30, 300, again=8),  # they go on with their work
        lambda: consuming(16, 600, takes=2_000),  # workers with long tasks
        lambda: consuming(30, 300, own=True),  # each for a user of its own
    ],
)
def test_consumers_that_start_together_or_work_are_not(talk: Callable[[], Conversation], tmp_path: Path) -> None:
    assert with_code(findings_of(tmp_path, talk()), "consumer-churn") == []


def prefetching(
    number: int, every: int, *, process: int = 1, takes: int = 20, acknowledges: bool = False, rest: int = 0, kind: str = "Shared"
) -> Conversation:
    """A client that leaves consumers open: the first `process` acknowledge a message, and what comes later goes to earlier ones.

    `acknowledges`: all do in the end. `rest`: ms at the end.
    """
    talk = connected()
    for index in range(number):
        wait_until(talk, max((index + 1) * every * MILLISECOND, talk.time_ns - START_NS))
        talk.client(subscribe(index, f"c{index}", 100 + index, kind)).server(success(100 + index)).client(flow(1000, index))
        talk.server(delivery(index, index))
        if index < process:
            talk.wait(takes * MILLISECOND).client(ack(index, number=index))
    talk.wait((1_000 + rest) * MILLISECOND)
    if acknowledges:
        talk.client(*(ack(index, number=index) for index in range(process, number)))
    return talk.wait(100 * MILLISECOND)


@pytest.mark.parametrize(
    ("number", "every", "process", "kind", "end"),
    [*product((40, 60), (700, 1_400), (1, 5), ("Shared", "Key_Shared"), ("open", "fin", "rst"))],
)
def test_consumers_whose_messages_earlier_ones_fetched_are_churn(
    number: int, every: int, process: int, kind: str, end: str, tmp_path: Path
) -> None:
    talk = prefetching(number, every, process=process, kind=kind)
    talk = talk if end == "open" else talk.close() if end == "fin" else talk.reset("client")
    text, evidence = only(findings_of(tmp_path, talk), "consumer-churn")
    assert number - 10_000 // every - 2 <= evidence["count"] <= number
    assert evidence["holding"] == evidence["count"] - process
    assert text.endswith(f"{evidence['holding']} hold messages that nobody processes.")
    assert ("with less than 0.1 messages acknowledged by each" in text) == (20 * process < evidence["count"])
    assert " 0.0 " not in text


@pytest.mark.parametrize(
    "talk",
    [
        lambda: prefetching(40, 700, process=0),  # no sign of how long they take
        lambda: prefetching(40, 700, takes=3_500),  # tasks are long
        lambda: prefetching(40, 700, acknowledges=True),
        lambda: prefetching(20, 300),  # not for long
        lambda: prefetching(60, 10, rest=20_000),  # at the start
        lambda: prefetching(30, 4_000),
        lambda: prefetching(40, 700).lose("client", 60).client(PING).server(PONG),
    ],
)
def test_consumers_that_may_be_at_work_are_not(talk: Callable[[], Conversation], tmp_path: Path) -> None:
    assert with_code(findings_of(tmp_path, talk()), "consumer-churn") == []


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"producer_name": "p", "user_provided_producer_name": True}, "p"),
        ({"producer_name": "p"}, "p"),
        ({"producer_name": "p", "user_provided_producer_name": False}, None),
        ({"producer_name": ""}, None),
        ({}, None),
        ({"producer_name": "p" * 10_000}, "p" * (NAME_MAX_CHARACTERS - 1) + "…"),
    ],
)
def test_names_of_producers_are_those_that_applications_chose_cut_if_long(fields: dict[str, Any], name: str | None) -> None:
    assert chosen_name(fields) == name
