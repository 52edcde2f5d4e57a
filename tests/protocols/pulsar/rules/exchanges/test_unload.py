"""Topics that close their clients, and the time until these are back."""

from __future__ import annotations

from pathlib import Path

import pytest

from pulsarscope.model.findings import ERROR, NOTE
from tests.scenarios.commands import (
    BY_BROKER,
    TOPIC,
    close_consumer,
    close_producer,
    created,
    error,
    flow,
    lookup,
    lookup_response,
    producer,
    subscribe,
    success,
)
from tests.scenarios.connections import connected, subscribed, wait_until
from tests.scenarios.conversation import SECOND, Conversation
from tests.scenarios.evaluation import findings_in, findings_of, only, problem_codes, with_code
from tests.scenarios.frames import command_frame
from tests.scenarios.rules.unload import stopping

OTHER = "pulsar://10.0.0.3:6650"


def served() -> Conversation:
    """Packets 6 to 9: a producer and a consumer."""
    return connected().client(producer()).server(created()).client(subscribe()).server(success(2))


def test_a_real_unload_recovers_and_is_a_note() -> None:
    rows = findings_in("unload-terminate.pcap")
    text, evidence = only(rows, "topic-unloaded")
    assert "closed producer prod-1 and consumer cons-1 of s on persistent://public/default/unload-t-18; all came back" in text
    assert text.endswith("all came back, the last after 121 ms.")
    assert evidence["frames"] == ["0:50.1", "0:50.2", "0:60.1", "0:58.1"]
    assert evidence["recovered_ns"] == {"producer prod-1": 120_519_000, "consumer cons-1 of s": 119_855_000}
    assert [row.severity for row in with_code(rows, "topic-unloaded")] == [NOTE]


def test_a_real_termination_refuses_the_producer() -> None:
    rows = findings_in("unload-terminate.pcap")
    text, evidence = only(rows, "topic-terminated")
    assert "refused producer prod-1 with TopicTerminatedError: Topic was already terminated." in text
    assert evidence["frames"] == ["0:100.1", "0:101.1"]
    assert [row.code for row in rows if row.severity == ERROR] == ["topic-terminated"]


def test_the_end_of_a_topic_is_a_note() -> None:
    text, evidence = only(findings_in("v5-scalable.pcap"), "end-of-topic")
    assert "Consumers q-1-seg-0 of queue and s-1-seg-0 of stream reached the end of topic segment://" in text
    assert evidence["frames"] == ["0:261.1", "0:280.1"]


@pytest.mark.parametrize("times", [1, 2, 5])
def test_a_consumer_that_is_notified_again_is_counted_once(tmp_path: Path, times: int) -> None:
    talk = subscribed(connected()).server(*[command_frame("REACHED_END_OF_TOPIC", consumer_id=1)] * times)
    text, evidence = only(findings_of(tmp_path, talk), "end-of-topic")
    assert text.startswith("Consumer c1 of s reached the end of topic")
    assert evidence["count"] == 1


def test_a_seek_is_no_unload() -> None:
    rows = findings_in("seek-reader.pcap")
    assert with_code(rows, "topic-unloaded") == []
    assert problem_codes(rows) == []


def test_clients_that_come_back_on_another_connection(tmp_path: Path) -> None:
    old = wait_until(served(), SECOND).server(close_producer(assignedBrokerServiceUrl=OTHER), close_consumer(request=BY_BROKER))
    new = connected(40001, server=("10.0.0.3", 6650), start=3 * SECOND)
    new.client(producer(epoch=1)).server(created()).client(subscribe()).server(success(2))
    rows = findings_of(tmp_path, old, new)
    text, evidence = only(rows, "topic-unloaded")
    assert f"and sent them to {OTHER}; all came back, the last after 2.00 s." in text
    assert evidence["frames"] == ["0:10.1", "0:10.2", "0:17.1", "0:19.1"]
    assert problem_codes(rows) == []


def test_a_producer_comes_back_by_the_name_that_the_broker_chose(tmp_path: Path) -> None:
    talk = connected().client(producer(name="")).server(created("broker-7")).client(subscribe()).server(success(2))
    wait_until(talk, SECOND).server(close_producer(), close_consumer(request=BY_BROKER))
    talk.client(producer(name="broker-7", request=9, epoch=1), subscribe(request=10)).server(created("broker-7", 9), success(10))
    text, evidence = only(findings_of(tmp_path, talk), "topic-unloaded")
    assert "closed producer broker-7 and consumer c of s on" in text
    assert "; all came back, the last after" in text
    assert len(evidence["recovered_ns"]) == 2


@pytest.mark.parametrize("name", ["broker-7", ""])
def test_a_terminated_topic_is_not_unloaded_for_a_producer_that_the_broker_named(tmp_path: Path, name: str) -> None:
    talk = connected().client(producer(name="")).server(created("broker-7"))
    wait_until(talk, SECOND).server(close_producer())
    talk.client(producer(name=name, request=9, epoch=1)).server(error(9, "TopicTerminatedError", "Topic was already terminated"))
    rows = findings_of(tmp_path, talk)
    assert problem_codes(rows) == ["topic-terminated"]
    assert with_code(rows, "topic-unloaded") == []


def test_a_producer_that_comes_back_without_a_name_is_known_by_its_id(tmp_path: Path) -> None:
    talk = connected().client(producer(name="")).server(created("broker-7"))
    wait_until(talk, SECOND).server(close_producer()).client(producer(name="", request=9, epoch=1)).server(created("broker-8", 9))
    text, _ = only(findings_of(tmp_path, talk), "topic-unloaded")
    assert "closed producer broker-7 on" in text
    assert "; it came back after" in text


@pytest.mark.parametrize(("host", "number", "back"), [("10.0.0.1", 1, True), ("10.0.0.9", 1, False), ("10.0.0.1", 2, False)])
def test_a_producer_without_a_name_is_known_by_its_host_and_id_on_another_connection(
    tmp_path: Path, host: str, number: int, back: bool
) -> None:
    talk = connected().client(producer(1, name="")).server(created("broker-7"))
    wait_until(talk, SECOND).server(close_producer(1))
    other = connected(41000, host=host, start=2 * SECOND).client(producer(number, name="", request=9)).server(created("broker-8", 9))
    text, _ = only(findings_of(tmp_path, talk, other), "topic-unloaded")
    assert ("; it came back after" in text) == back


def test_a_terminated_topic_is_not_unloaded_for_a_producer_that_asks_on_another_connection(tmp_path: Path) -> None:
    talk = connected().client(producer(name="")).server(created("broker-7"))
    wait_until(talk, SECOND).server(close_producer())
    other = connected(41000, start=2 * SECOND).client(producer(name="", request=9))
    other.server(error(9, "TopicTerminatedError", "Topic was already terminated"))
    assert with_code(findings_of(tmp_path, talk, other), "topic-unloaded") == []


def test_one_that_does_not_come_back_is_named(tmp_path: Path) -> None:
    talk = wait_until(served(), SECOND).server(close_producer(), close_consumer(request=BY_BROKER))
    talk.client(lookup(8)).server(lookup_response("Failed", "", 8, error="ServiceNotReady"))
    talk.client(producer(request=9, epoch=1)).server(created(request=9))
    text, evidence = only(findings_of(tmp_path, talk), "topic-unloaded")
    assert "1 of 2 came back" in text
    assert "; consumer c of s was not seen to come back; 1 request got ServiceNotReady" in text
    assert evidence["service_not_ready"] == 1


def test_two_unloads_are_two(tmp_path: Path) -> None:
    talk = served()
    for time in (1, 2):
        wait_until(talk, time * SECOND).server(close_producer()).client(producer(request=9 + time)).server(created(request=9 + time))
    rows = with_code(findings_of(tmp_path, talk), "topic-unloaded")
    assert len(rows) == 2
    assert all("it came back after" in (row.text or "") for row in rows)


def unloaded(times: int, seconds: float) -> Conversation:
    """A topic that is unloaded `times` times, `seconds` apart; its clients return at once."""
    talk = served()
    for number in range(times):
        wait_until(talk, int((1 + number * seconds) * SECOND)).server(close_producer(), close_consumer(request=BY_BROKER))
        talk.wait(SECOND // 10).client(producer(epoch=number + 1)).server(created()).client(subscribe()).server(success(2)).client(flow(9))
    return talk.wait(2 * SECOND)


@pytest.mark.parametrize(
    ("times", "seconds", "is_loop"),
    [(4, 2, True), (9, 2.5, True), (4, 19, True), (12, 15, True), (3, 2, False), (4, 21, False), (9, 45, False)],
)
def test_a_topic_that_is_unloaded_again_and_again_is_a_warning(tmp_path: Path, times: int, seconds: float, is_loop: bool) -> None:
    """A rolling restart of three brokers moves a topic three times; a load balancer does so once in half an hour."""
    rows = findings_of(tmp_path, unloaded(times, seconds))
    assert len(with_code(rows, "topic-unloaded")) == times
    assert problem_codes(rows) == (["unload-loop"] if is_loop else [])
    if is_loop:
        text, evidence = only(rows, "unload-loop")
        assert text.startswith(f"The broker unloaded {TOPIC} {times} times in ")
        assert (evidence["count"], evidence["span_ns"]) == (times, int((times - 1) * seconds * SECOND))


@pytest.mark.parametrize(("times", "is_least"), [(240, False), (251, True), (500, True)])
def test_more_unloads_than_are_compared_are_at_least_so_many(tmp_path: Path, times: int, is_least: bool) -> None:
    (text,) = [row.text or "" for row in findings_of(tmp_path, unloaded(times, 2)) if row.code == "unload-loop"]
    assert text.startswith(f"The broker unloaded {TOPIC} {min(times, 250)} times in ")
    assert ", about every 2.00 s: " in text
    assert ("Numbers may be too low" in text) == is_least


def test_a_broker_that_stops_closes_many_at_once(tmp_path: Path) -> None:
    rows = findings_of(tmp_path, stopping(12))
    text, evidence = only(rows, "unload-burst")
    assert text.startswith("Broker 10.0.0.2:6650 closed 12 producers and 0 consumers of 12 topics within")
    assert text.endswith(f"{TOPIC}-9 and 2 more.")
    assert (evidence["topics"], evidence["closed"]) == (12, 12)
    assert len(with_code(rows, "topic-unloaded")) == 12
    assert problem_codes(rows) == []


def test_one_or_two_topics_are_no_burst(tmp_path: Path) -> None:
    assert with_code(findings_of(tmp_path, stopping(2)), "unload-burst") == []


def test_a_seek_on_many_topics_is_no_burst(tmp_path: Path) -> None:
    talk = connected()
    for number in range(5):
        talk.client(subscribe(number, request=number, topic=f"{TOPIC}-{number}")).server(success(number))
        talk.client(command_frame("SEEK", consumer_id=number, request_id=10 + number, message_publish_time=1))
        talk.server(close_consumer(number, BY_BROKER), success(10 + number))
    assert findings_of(tmp_path, talk) == []


def test_a_client_that_closes_is_none(tmp_path: Path) -> None:
    talk = served().client(close_producer(1, 5)).server(success(5))
    talk.client(close_consumer(1, 6)).server(success(6)).close()
    assert findings_of(tmp_path, talk) == []


def test_a_migration_names_where_to(tmp_path: Path) -> None:
    talk = wait_until(served(), SECOND)
    for kind in ("Producer", "Consumer"):
        talk.server(command_frame("TOPIC_MIGRATED", resource_id=1, resource_type=kind, brokerServiceUrl=OTHER))
    talk.server(close_producer(), close_consumer(request=BY_BROKER))
    new = (
        connected(40001, server=("10.0.0.3", 6650), start=2 * SECOND)
        .client(producer())
        .server(created())
        .client(subscribe())
        .server(success(2))
    )
    rows = findings_of(tmp_path, talk, new)
    text, _ = only(rows, "topic-migrated")
    assert f"sent them to {OTHER}; all came back, the last after 1.00 s." in text
    assert with_code(rows, "topic-unloaded") == []
    assert problem_codes(rows) == []


@pytest.mark.parametrize("name", ["ProducerBlockedQuotaExceededException", "ProducerBlockedQuotaExceededError"])
def test_a_backlog_over_quota_refuses_producers(name: str, tmp_path: Path) -> None:
    talk = wait_until(served(), SECOND).server(close_producer())
    for attempt in range(3):
        talk.client(producer(request=10 + attempt, epoch=attempt)).server(error(10 + attempt, name, "full")).wait(SECOND)
    talk.client(producer(2, "q", 20)).server(error(20, name, "full"))
    rows = findings_of(tmp_path, talk)
    text, evidence = only(rows, "quota-exceeded")
    assert text == f"Topic {TOPIC} refused producers p and q 4 times within 3.00 s with {name}: full."
    assert (evidence["count"], evidence["frames"][:2]) == (4, ["0:11.1", "0:12.1"])
    assert [row.code for row in rows] == ["quota-exceeded"]
