"""Repeated requests, although they are answered."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from tests.scenarios.commands import PING, PONG, created, delivery, flow, lookup, lookup_response, producer, subscribe, success
from tests.scenarios.connections import connected, subscribed
from tests.scenarios.conversation import MILLISECOND, SECOND, Conversation
from tests.scenarios.evaluation import findings_of, only, with_code
from tests.scenarios.frames import command_frame

TOPIC = "persistent://public/default/t"
Ask = Callable[[Conversation, int, str], Conversation]


def looked_up(talk: Conversation, request: int, topic: str = TOPIC) -> Conversation:
    return talk.client(lookup(request, topic=topic)).server(lookup_response("Connect", "pulsar://10.0.0.2:6650", request))


def metadata(talk: Conversation, request: int, topic: str = TOPIC) -> Conversation:
    talk.client(command_frame("PARTITIONED_METADATA", topic=topic, request_id=request))
    return talk.server(command_frame("PARTITIONED_METADATA_RESPONSE", request_id=request, partitions=0, response="Success"))


def topics(talk: Conversation, request: int, _topic: str = TOPIC) -> Conversation:
    talk.client(command_frame("GET_TOPICS_OF_NAMESPACE", namespace="public/default", request_id=request))
    return talk.server(command_frame("GET_TOPICS_OF_NAMESPACE_RESPONSE", request_id=request, topics=[TOPIC]))


def last_id(talk: Conversation, request: int, _topic: str = TOPIC) -> Conversation:
    talk.client(command_frame("GET_LAST_MESSAGE_ID", consumer_id=1, request_id=request))
    answer = {"ledgerId": 7, "entryId": 3}
    return talk.server(command_frame("GET_LAST_MESSAGE_ID_RESPONSE", request_id=request, last_message_id=answer))


FAMILIES = {"LOOKUP": looked_up, "PARTITIONED_METADATA": metadata, "GET_TOPICS_OF_NAMESPACE": topics, "GET_LAST_MESSAGE_ID": last_id}


def asking(ask: Ask, times: int, rate: int, names: int = 1, talk: Conversation | None = None) -> Conversation:
    """Send `times` requests, `rate` per second, for `names` topics in turn."""
    talk = talk or connected()
    for number in range(times):
        start = talk.time_ns
        ask(talk, number, f"{TOPIC}-{number % names}").wait(max(SECOND // rate - (talk.time_ns - start), 0))
    return talk


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("times", "rate"), [(100, 10), (100, 40), pytest.param(2_500, 1_000, marks=pytest.mark.slow), (60, 10), (300, 100), (400, 1_000)]
)
@pytest.mark.parametrize("end", ["fin", "rst", "open"])
def test_one_client_asks_the_same_far_too_often(family: str, times: int, rate: int, end: str, tmp_path: Path) -> None:
    polls = family == "GET_LAST_MESSAGE_ID"
    talk = asking(FAMILIES[family], times, max(rate, 30) if polls else rate, talk=subscribed(connected()) if polls else connected())
    if end != "open":
        talk = talk.close() if end == "fin" else talk.reset("client")
    text, evidence = only(findings_of(tmp_path, talk), "request-storm")
    assert (evidence["request"], evidence["count"]) == (family, times)
    assert len(evidence["frames"]) == 2
    assert "all were answered" in text


@pytest.mark.parametrize("names", [2, 10])
def test_several_topics_in_turn(names: int, tmp_path: Path) -> None:
    assert only(findings_of(tmp_path, asking(metadata, 400, 100, names)), "request-storm")[1]["count"] == 400


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("times", "rate"), [(10, 1), (100, 1), (20, 20), (25, 100), (60, 2)])
def test_a_few_requests_or_a_slow_poll(family: str, times: int, rate: int, tmp_path: Path) -> None:
    begun = subscribed(connected()) if family == "GET_LAST_MESSAGE_ID" else connected()
    assert with_code(findings_of(tmp_path, asking(FAMILIES[family], times, rate, talk=begun)), "request-storm") == []


@pytest.mark.parametrize("ask", [looked_up, metadata])
@pytest.mark.parametrize("count", [50, 500])
def test_a_client_with_many_topics(ask: Ask, count: int, tmp_path: Path) -> None:
    assert with_code(findings_of(tmp_path, asking(ask, count, 100, count)), "request-storm") == []


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize(("count", "times", "found"), [(50, 1, False), (200, 1, False), (200, 2, False), (200, 3, True)])
def test_many_producers_of_one_topic(count: int, times: int, *, found: bool, elsewhere: bool, tmp_path: Path) -> None:
    """Go clients ask for the partitions of a topic twice, which is no storm."""
    talk = connected()
    other = connected(40001, server=("10.0.0.3", 6650)) if elsewhere else talk
    for number in range(count):
        for turn in range(times):
            metadata(talk, 4 * number + turn)
        talk.wait(SECOND // 40)
        other.client(producer(number, f"p{number}", 4 * number + 3)).server(created(f"p{number}", 4 * number + 3))
    rows = findings_of(tmp_path, *{id(one): one for one in (talk, other)}.values())
    assert bool(with_code(rows, "request-storm")) == found


@pytest.mark.parametrize("rate", [10, 100])
def test_a_reader_that_asks_before_each_message(rate: int, tmp_path: Path) -> None:
    talk = subscribed(connected()).client(flow(1_000))
    for entry in range(rate * 4):
        last_id(talk, entry).server(delivery(entry)).wait(SECOND // rate)
    assert with_code(findings_of(tmp_path, talk), "request-storm") == []


def loading(count: int, rate: int, client: str = "10.0.0.2", *, named: bool = False) -> list[Conversation]:
    """A client that opens producers of this many topics, and a reader of the broker itself that looks for policies each time."""
    talk, reader = connected(), Conversation((client, 45000), ("10.0.0.2", 6650))
    if named:
        subscribed(reader, topic="persistent://public/default/__change_events", subscription="multiTopicsReader-1", durable=False)
    for number in range(count):
        name = f"{TOPIC}-{number}"
        looked_up(talk, 2 * number, name).client(producer(number, f"p{number}", 2 * number + 1, name))
        reader.time_ns = talk.time_ns = max(talk.time_ns, reader.time_ns)
        last_id(reader, number)
        talk.server(created(f"p{number}", 2 * number + 1)).wait(SECOND // rate)
    return [talk, reader]


@pytest.mark.parametrize(("count", "rate"), [(40, 10), (60, 20), (200, 40), (400, 100)])
@pytest.mark.parametrize("named", [False, True])
def test_a_broker_that_asks_itself_for_each_topic_that_it_loads(count: int, rate: int, *, named: bool, tmp_path: Path) -> None:
    assert with_code(findings_of(tmp_path, *loading(count, rate, named=named)), "request-storm") == []


@pytest.mark.parametrize(("count", "rate"), [(75, 30), (200, 40)])
def test_another_client_that_asks_as_often_is_named(count: int, rate: int, tmp_path: Path) -> None:
    only(findings_of(tmp_path, *loading(count, rate, "10.0.0.7")), "request-storm")


@pytest.mark.parametrize(("count", "rate"), [(100, 40), (400, 100)])
def test_a_client_on_the_host_of_the_broker_that_opens_nothing_is_named(count: int, rate: int, tmp_path: Path) -> None:
    only(findings_of(tmp_path, loading(count, rate)[1]), "request-storm")


@pytest.mark.parametrize(
    ("opened", "times", "found"), [*product((50, 120), (50, 60), (False,)), (2, 60, True), (20, 100, True), (50, 400, True)]
)
@pytest.mark.parametrize("size", [70, 96, 120])
def test_requests_that_cut_frames_may_explain_are_no_storm(tmp_path: Path, opened: int, times: int, *, found: bool, size: int) -> None:
    """The requests are short, and those that they prepare are not."""
    talk = connected()
    name = "a-subscription-of-a-service-with-a-name-that-is-long-enough-to-be-cut"
    for number in range(max(opened, times)):
        if number < opened:
            talk.client(subscribe(number, name, 1000 + number, topic=f"{TOPIC}-{number % 5}")).server(success(1000 + number))
        if number < times:
            metadata(talk, number, f"{TOPIC}-{number % 5}")
        talk.wait(SECOND // 40)
    for at, packet in enumerate(talk.packets):
        if name.encode() in packet.data:
            talk.packets[at] = packet._replace(data=packet.data[:size], wire_bytes=len(packet.data))
    assert (with_code(findings_of(tmp_path, talk.close()), "request-storm") != []) == found


@pytest.mark.parametrize(("names", "hole"), [(1, 0), (40, 0), (40, 3000)])
def test_requests_about_topics_that_the_capture_lacks_may_be_about_many(names: int, hole: int, tmp_path: Path) -> None:
    """After a cut by the snap length, or in a hole, none of them shows a topic."""
    talk = connected()
    if hole:
        talk.lose("client", hole).client(flow(1)).wait(SECOND).server(PONG).client(PING).wait(SECOND)
    else:
        for number in range(names):
            talk.client(subscribe(number + 1, "c", 500 + number, topic=f"{TOPIC}-{number}")).server(success(500 + number))
    for number in range(100):
        answer = command_frame("GET_LAST_MESSAGE_ID_RESPONSE", request_id=number, last_message_id={"ledgerId": 7, "entryId": 3})
        talk.client(command_frame("GET_LAST_MESSAGE_ID", consumer_id=number % names + 1, request_id=number)).server(answer)
        talk.wait(SECOND // 40)
    assert (with_code(findings_of(tmp_path, talk.close()), "request-storm") != []) == (names == 1)


def polling(rates: dict[int, float], seconds: int, *, midstream: bool = False) -> Conversation:
    """Consumers that ask for the last message id so many times a second, each at its own rate."""
    talk = Conversation() if midstream else connected()
    if not midstream:
        for number in rates:
            talk.client(subscribe(number, f"reader-{number}", 500 + number)).server(success(500 + number))
    begun = talk.time_ns
    polls = sorted((begun + int(turn * SECOND / rate), number) for number, rate in rates.items() for turn in range(int(seconds * rate)))
    for request, (time, number) in enumerate(polls):
        talk.wait(max(time - talk.time_ns, 0))
        talk.client(command_frame("GET_LAST_MESSAGE_ID", consumer_id=number, request_id=request))
        answer = {"ledgerId": 7, "entryId": 3}
        talk.server(command_frame("GET_LAST_MESSAGE_ID_RESPONSE", request_id=request, last_message_id=answer))
    return talk


@pytest.mark.parametrize("midstream", [False, True])
@pytest.mark.parametrize(("readers", "rate"), [(3, 4), (10, 1), (60, 1), (25, 2), (1, 10), (1, 20), (6, 15)])
def test_many_readers_that_poll_with_a_pause_are_no_storm(readers: int, rate: int, tmp_path: Path, *, midstream: bool) -> None:
    talk = polling(dict.fromkeys(range(1, readers + 1), rate), 12, midstream=midstream)
    assert with_code(findings_of(tmp_path, talk), "request-storm") == []


@pytest.mark.parametrize("midstream", [False, True])
@pytest.mark.parametrize(("others", "rate"), [(0, 40), (9, 30), (20, 80)])
def test_a_reader_that_polls_without_a_pause_is_named_among_others(others: int, rate: int, tmp_path: Path, *, midstream: bool) -> None:
    talk = polling({1: rate, **dict.fromkeys(range(2, 2 + others), 1)}, 12, midstream=midstream)
    assert only(findings_of(tmp_path, talk), "request-storm")[1]["count"] == 12 * rate


@pytest.mark.parametrize(("think", "answer"), [(1, 60), (5, 120), (20, 30), (30, 5)])
def test_a_poll_that_follows_the_answer_is_named_however_late_the_answer_is(think: int, answer: int, tmp_path: Path) -> None:
    talk = polled_after(think, answer)
    assert only(findings_of(tmp_path, talk), "request-storm")[1]["request"] == "GET_LAST_MESSAGE_ID"


@pytest.mark.parametrize(("think", "answer"), [(50, 1), (80, 60), (120, 5)])
def test_a_loop_that_waits_after_each_answer_is_no_storm(think: int, answer: int, tmp_path: Path) -> None:
    assert with_code(findings_of(tmp_path, polled_after(think, answer)), "request-storm") == []


@pytest.mark.parametrize(("way", "think"), [(60, 1), (120, 5), (150, 20), (60, 30)])
def test_a_loop_without_a_pause_is_named_where_its_broker_is_captured(way: int, think: int, tmp_path: Path) -> None:
    """The way to the client and back is no pause: the first FLOW, for which no client waits, takes as long."""
    talk = polled_after(way + think, 1, first=way)
    assert only(findings_of(tmp_path, talk), "request-storm")[1]["request"] == "GET_LAST_MESSAGE_ID"


@pytest.mark.parametrize(("way", "think", "first"), [(60, 50, 60), (120, 80, 120), (0, 50, 2_000), (0, 100, 10)])
def test_a_loop_that_waits_is_no_storm_there(way: int, think: int, first: int, tmp_path: Path) -> None:
    """A consumer that starts paused tells nothing about the network."""
    assert with_code(findings_of(tmp_path, polled_after(way + think, 1, first=first)), "request-storm") == []


def polled_after(think: int, answer: int, *, first: int | None = None) -> Conversation:
    """A consumer that polls `think` ms after each answer, which takes `answer` ms; `first`: ms until its first FLOW, if there is one."""
    talk = subscribed(connected())
    if first is not None:
        talk.wait(first * MILLISECOND).client(flow(100))
    for number in range(200):
        talk.client(command_frame("GET_LAST_MESSAGE_ID", consumer_id=1, request_id=number)).wait(answer * MILLISECOND)
        last = {"ledgerId": 7, "entryId": 3}
        talk.server(command_frame("GET_LAST_MESSAGE_ID_RESPONSE", request_id=number, last_message_id=last)).wait(think * MILLISECOND)
    return talk
