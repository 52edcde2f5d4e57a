"""Requests that are refused, unanswered or answered late, responses without a request, and healthy exchanges."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from pulsarscope.protocols.pulsar.rules.connections.storms import StormRule
from pulsarscope.protocols.pulsar.rules.exchanges import requests
from pulsarscope.protocols.pulsar.rules.exchanges.requests import FROM_MEMORY, STORED
from pulsarscope.protocols.pulsar.session.exchanges import ENTRY, MEMORY, OPENS, REQUESTS, RequestType
from tests.scenarios.commands import (
    BY_BROKER,
    CONNECT,
    CONNECTED,
    PING,
    PONG,
    TOPIC,
    ack,
    ack_response,
    close_consumer,
    close_producer,
    created,
    error,
    lookup,
    lookup_response,
    producer,
    receipt,
    send,
    send_error,
    subscribe,
    success,
)
from tests.scenarios.connections import connected, subscribed
from tests.scenarios.conversation import MILLISECOND, SECOND, Conversation
from tests.scenarios.dialogue import RuleDialogue
from tests.scenarios.evaluation import diagnose
from tests.scenarios.frames import command_frame

TXN = {"txnid_most_bits": 0, "txnid_least_bits": 7}


def answer(number: int) -> bytes:
    """A LOOKUP_RESPONSE that names a broker."""
    return lookup_response("Connect", "pulsar://b:6650", number)


def test_a_refusal_names_both_frames(tmp_path: Path) -> None:
    talk = connected().client(lookup(1)).server(error(1, "MetadataError", "no"))
    row, evidence = diagnose(tmp_path, talk.close()).only("request-failed")
    assert (row.severity, evidence["error"], len(evidence["frames"])) == ("error", "MetadataError", 2)


@pytest.mark.parametrize(
    ("request_frame", "name", "advised"),
    [
        (lookup(1), "TopicNotFound", "allowAutoTopicCreation"),
        (lookup(1), "MetadataError", "ZooKeeper"),
        (producer(request=1), "PersistenceError", "bookies"),
        (subscribe(request=1), "SubscriptionNotFound", "allowAutoSubscriptionCreation"),
        (command_frame("UNSUBSCRIBE", consumer_id=1, request_id=1), "SubscriptionNotFound", "SubscriptionNotFound: so it is."),
        (lookup(1), "NotAllowedError", "NotAllowedError: so it is."),
    ],
)
def test_a_refusal_says_what_to_do(tmp_path: Path, request_frame: bytes, name: str, advised: str) -> None:
    row, _ = diagnose(tmp_path, connected().client(request_frame).server(error(1, name)).close()).only("request-failed")
    assert "was refused with" in row.text
    assert advised in row.text
    assert row.text.endswith(".")


@pytest.mark.parametrize(
    ("name", "who"),
    [
        ("PersistenceError", "the broker's operators"),
        ("InvalidTopicName", "the application"),
        ("TopicNotFound", "the application, or the broker's operators"),
    ],
)
def test_the_error_says_who_must_act(name: str, who: str) -> None:
    assert requests.CODES["request-failed"].who_acts({"error": name}) == who


@pytest.mark.parametrize(
    ("name", "message", "advised"),
    [
        ("MetadataError", "Encryption is required in persistent://a/b/c", "encryptionRequired"),
        ("ConsumerAssignError", "Range conflict with consumer Consumer{consumerId=0}", "hash ranges"),
        ("UnknownError", "java.lang.NullPointerException", "maybe a bug"),
        ("ServiceNotReady", "the broker do not have public listener", "advertisedListeners"),
        ("NotAllowedError", "Reached the maximum number of connections on address/10.0.0.1:4", "brokerMaxConnectionsPerIp"),
        ("NotAllowedError", "Exceed the maximum number of subscriptions of the topic: a", "maxSubscriptionsPerTopic"),
        ("NotAllowedError", "Exceed maximum number of topics in namespace.", "maxTopicsPerNamespace"),
        ("NotAllowedError", "Exceeds max allowed delivery delay of 5000 milliseconds", "maxDeliveryDelayInMillis"),
        ("TopicNotFound", "Namespace is deleted", "create the namespace again"),
        ("TopicNotFound", "Namespace not found", "Its tenant or namespace does not exist"),
        ("MetadataError", "Policies not found for public/prod namespace", "Its tenant or namespace does not exist"),
        ("MetadataError", "Unconnected or shared consumer attempting to unsubscribe", "close the others first"),
        ("ServiceNotReady", "Target broker isn't available.", "brokerProxyAllowedHostNames"),
        ("MetadataError", "no node", "ZooKeeper"),
    ],
)
def test_the_message_of_a_broker_may_say_what_to_do(tmp_path: Path, name: str, message: str, advised: str) -> None:
    refused = connected().client(producer(request=1)).server(error(1, name, message)).close()
    text = diagnose(tmp_path, refused).only("request-failed")[0].text or ""
    assert advised in text
    assert ("ZooKeeper" in text) is (advised == "ZooKeeper")


@pytest.mark.parametrize(
    ("fields", "sent"),
    [
        ({}, "without credentials"),
        ({"auth_method_name": "none"}, "without credentials"),
        ({"auth_method_name": "token", "auth_data": b"x"}, "with credentials of method token"),
        ({"auth_method_name": "tls"}, "with credentials of method tls"),
        ({"auth_method_name": "none", "auth_data": b"x"}, "with credentials of method none"),
        ({"auth_method": "AuthMethodAthens"}, "with credentials of method athens"),
    ],
)
@pytest.mark.parametrize("name", ["AuthenticationError", "AuthorizationError"])
def test_a_refused_client_is_named_with_its_credentials(tmp_path: Path, fields: dict[str, object], sent: str, name: str) -> None:
    begin = command_frame("CONNECT", client_version="x", protocol_version=21, **fields)
    talk = Conversation(acknowledge=False).handshake().client(begin).server(error(2**64 - 1, name, "Failed to authenticate")).close()
    assert f"CONNECT of 10.0.0.1 {sent} was refused" in (diagnose(tmp_path, talk).only("auth-failed")[0].text or "")


def test_a_later_refusal_does_not_name_them(tmp_path: Path) -> None:
    talk = connected().client(producer(request=1)).server(error(1, "AuthorizationError", "not authorized")).close()
    assert "credentials" not in (diagnose(tmp_path, talk).only("auth-failed")[0].text or "")


def test_words_in_the_name_of_a_topic_advise_nothing(tmp_path: Path) -> None:
    named = producer(request=1, topic="persistent://public/default/maximum number of connections")
    refused = connected().client(named).server(error(1, "MetadataError", "no node")).close()
    assert "brokerMaxConnections" not in (diagnose(tmp_path, refused).only("request-failed")[0].text or "")


@pytest.mark.parametrize("granted", ["", "on the same connection", "on another"])
@pytest.mark.parametrize("what", ["SEND", "PRODUCER", "LOOKUP", "bundle"])
def test_refusals_of_a_topic_that_moves_are_reported_unless_its_client_comes_back(tmp_path: Path, what: str, granted: str) -> None:
    talk = connected().client(producer()).server(created()).client(send()).server(receipt())
    if what == "SEND":
        talk.client(send(1, 1)).server(send_error("PersistenceError", "fenced", 1, 1), close_producer())
    elif what == "PRODUCER":
        talk.server(close_producer()).client(producer(request=3)).server(error(3, "ServiceNotReady"))
    elif what == "bundle":
        message = "Namespace bundle public/default/0xc0000000_0xffffffff is being unloaded"
        refusal = lookup_response("Failed", "", 3, error="MetadataError", message=message)
        talk.server(close_producer()).client(lookup(3)).server(refusal)
    else:
        talk.server(close_producer()).client(lookup(3)).server(lookup_response("Failed", "", 3, error="ServiceNotReady"))
    again = connected(40001, start=SECOND) if "another" in granted else talk.wait(SECOND // 10)
    if granted:
        again.client(lookup(4)).server(lookup_response("Connect", "pulsar://10.0.0.2:6650", 4))
        again.client(producer(request=5)).server(created(request=5)).client(send(1, 1)).server(receipt(1, 1, 8))
    talk.wait(2 * SECOND).server(PING)
    found = diagnose(tmp_path, *([again] if again is talk else [talk, again])).of("request-failed")
    assert [row.severity for row in found] == ([] if granted else ["error"])


@pytest.mark.parametrize(
    ("deleted", "then", "severities"),
    [
        ([TOPIC], "", []),
        ([f"{TOPIC}-2", TOPIC], "", []),
        ([f"{TOPIC}-2"], "", ["error"]),
        ([], "", ["error"]),
        ([TOPIC], "made anew and refused", ["error"]),
    ],
)
def test_refusals_of_a_topic_that_is_deleted_are_not_reported(tmp_path: Path, deleted: list[str], then: str, severities: list[str]) -> None:
    talk = (
        subscribed(connected()).server(close_consumer(request=BY_BROKER)).client(subscribe(request=3)).server(error(3, "ServiceNotReady"))
    )
    talk.wait(SECOND // 5).server(command_frame("WATCH_TOPIC_UPDATE", watcher_id=0, deleted_topics=deleted, topics_hash="h"))
    if then:
        talk.wait(SECOND).client(subscribe(request=4)).server(success(4)).wait(SECOND).server(close_consumer(request=BY_BROKER))
        talk.client(subscribe(request=5)).server(error(5, "ServiceNotReady"))
    found = diagnose(tmp_path, talk.wait(5 * SECOND).server(PING)).of("request-failed")
    assert [row.severity for row in found] == severities


@pytest.mark.parametrize(("name", "reported"), [("TopicNotFound", False), ("MetadataError", True)])
def test_a_topic_without_a_schema_is_no_refusal(tmp_path: Path, name: str, reported: bool) -> None:
    talk = connected().client(command_frame("GET_SCHEMA", topic=TOPIC, request_id=1))
    talk.server(command_frame("GET_SCHEMA_RESPONSE", request_id=1, error_code=name, error_message="Topic not found or no-schema"))
    assert ("request-failed" in diagnose(tmp_path, talk.close()).codes) == reported


@pytest.mark.parametrize("size", [100, 9000])
def test_a_message_above_the_limit_of_its_topic_is_reported(tmp_path: Path, size: int) -> None:
    talk = connected().client(producer()).server(created()).client(send(1, 0, b"x" * size))
    row, evidence = diagnose(tmp_path, talk.server(send_error("NotAllowedError", "Exceed maximum message size"))).only("message-too-large")
    assert (row.severity, len(evidence["frames"])) == ("error", 2)


@pytest.mark.parametrize(
    ("question", "response", "limit"),
    [
        (lookup(1), answer(1), 2500 * MILLISECOND),
        (producer(), created(), 5 * SECOND),
        (
            command_frame("NEW_TXN", request_id=1, txn_ttl_millis=9),
            command_frame("NEW_TXN_RESPONSE", request_id=1, **TXN),
            2500 * MILLISECOND,
        ),
        (
            command_frame("ADD_PARTITION_TO_TXN", request_id=1, partitions=[TOPIC], **TXN),
            command_frame("ADD_PARTITION_TO_TXN_RESPONSE", request_id=1, **TXN),
            2500 * MILLISECOND,
        ),
        (
            command_frame("END_TXN", request_id=1, txn_action="ABORT", **TXN),
            command_frame("END_TXN_RESPONSE", request_id=1, **TXN),
            5 * SECOND,
        ),
        (ack(4, request_id=1), ack_response(1), 2500 * MILLISECOND),
    ],
    ids=["read", "made", "begun", "joined", "ended", "acknowledged"],
)
@pytest.mark.parametrize("factor", [0.1, 0.9, 1.1, 4])
def test_an_answer_is_slow_from_its_limit_on(tmp_path: Path, question: bytes, response: bytes, limit: int, factor: float) -> None:
    talk = connected().client(question).wait(round(factor * limit)).server(response)
    diagnosis = diagnose(tmp_path, talk.close())
    assert len(diagnosis.of("slow-exchange")) == (factor > 1)
    if factor > 1:
        assert len(diagnosis.only("slow-exchange")[1]["frames"]) == 2


@pytest.mark.parametrize(("threshold", "reported"), [(2, True), (4, False)])
def test_the_limit_is_the_users(threshold: float, reported: bool) -> None:
    dialogue = RuleDialogue(thresholds={"slow-exchange-lookup-seconds": threshold})
    findings = dialogue.client(lookup(1)).wait(3 * SECOND).server(answer(1)).end()
    assert [row.code for row in findings] == ["slow-exchange"] * reported


@pytest.mark.parametrize(("count", "turns"), [(1, 1), (40, 1), (3, 3)])
def test_acks_that_wait_together_are_reported_once(tmp_path: Path, count: int, turns: int) -> None:
    talk = connected()
    for turn in range(turns):
        numbers = range(turn * count, turn * count + count)
        talk.client(*[ack(number, request_id=number) for number in numbers]).wait(3 * SECOND)
        talk.server(*[ack_response(number) for number in numbers]).wait(SECOND)
    assert len(diagnose(tmp_path, talk.close()).of("slow-exchange")) == turns


@pytest.mark.parametrize(("waited", "codes"), [(SECOND, []), (2 * SECOND, ["slow-exchange"]), (4 * SECOND, ["slow-exchange"])])
@pytest.mark.parametrize("length", [0, 3, 60])
def test_a_broker_that_is_slow_to_greet_is_reported(tmp_path: Path, waited: int, codes: list[str], length: int) -> None:
    talk = Conversation(acknowledge=False).handshake().client(CONNECT).wait(waited).server(CONNECTED).wait(length * SECOND)
    assert diagnose(tmp_path, talk.close()).codes == codes


def opening(count: int, seconds: float, *, answered: bool) -> Conversation:
    """A client that opens `count` consumers together; the broker answers all of them after some seconds."""
    talk = connected()
    for number in range(count):
        talk.client(subscribe(number, request=100 + number, topic=f"{TOPIC}-partition-{number}"))
    talk.wait(round(seconds * SECOND))
    for number in range(count if answered else 0):
        talk.server(success(100 + number))
    return talk if answered else talk.client(PING).server(PONG)


@pytest.mark.parametrize(("count", "seconds", "slow"), [(1, 5.5, True), (3, 6, True), (30, 6, False), (30, 13, True), (100, 20, False)])
@pytest.mark.parametrize("answered", [True, False])
def test_many_topics_at_once_may_take_longer(tmp_path: Path, count: int, seconds: float, slow: bool, answered: bool) -> None:
    codes = diagnose(tmp_path, opening(count, seconds, answered=answered)).codes
    assert ({"slow-exchange", "request-unanswered"} & set(codes) != set()) == slow


def test_a_request_without_an_answer_is_reported_when_the_connection_went_on(tmp_path: Path) -> None:
    talk = connected().client(lookup(1)).wait(2 * SECOND).client(lookup(2)).server(answer(2))
    assert "request-unanswered" in diagnose(tmp_path, talk.close()).codes


@pytest.mark.parametrize(("waited", "reported"), [(2, False), (3, True), (6, True)])
def test_a_lookup_without_an_answer_is_reported_when_the_capture_ends_first(tmp_path: Path, waited: int, reported: bool) -> None:
    talk = connected().client(lookup(1)).wait(waited * SECOND).client(PING).server(PONG)
    assert ("request-unanswered" in diagnose(tmp_path, talk).codes) == reported


def test_a_capture_that_stops_within_a_request_alarms_nobody(tmp_path: Path) -> None:
    talk = connected().client(lookup(1)).wait(2 * SECOND).client(PING).server(PONG)
    assert diagnose(tmp_path, talk).codes == []


@pytest.mark.parametrize("ready", [True, False])
def test_a_producer_that_waits_for_its_turn_is_neither_slow_nor_unanswered(tmp_path: Path, *, ready: bool) -> None:
    talk = connected().client(producer(producer_access_mode="WaitForExclusive")).server(created(producer_ready=False))
    talk.wait(30 * SECOND).client(PING).server(PONG)
    if ready:
        talk.server(created(producer_ready=True))
    codes = diagnose(tmp_path, talk).codes
    assert not {"slow-exchange", "request-unanswered"} & set(codes)


def test_answers_to_nothing_are_reported_once_with_their_count(tmp_path: Path) -> None:
    talk = connected()
    for number in range(40):
        talk.server(answer(number))
    row, evidence = diagnose(tmp_path, talk.close()).only("response-unrequested")
    assert (row.severity, evidence["count"], len(evidence["frames"])) == ("note", 40, 1)


@pytest.mark.parametrize(("name", "request_"), REQUESTS.items(), ids=REQUESTS)
def test_rules_take_each_request_as_its_table_says(name: str, request_: RequestType) -> None:
    assert (name in StormRule.exchanges) == (bool(request_.repeated) or name in OPENS)
    assert (request_.effort == MEMORY) == (name in FROM_MEMORY)
    assert (request_.effort == ENTRY) == (name in STORED)


@pytest.mark.parametrize(("rest", "end", "lost"), [*product((100, 1000, 3000), ("open", "fin", "rst"), ("", "client", "server"))])
def test_a_refusal_of_a_moving_topic_counts_if_its_client_is_seen_to_fail(tmp_path: Path, rest: int, end: str, lost: str) -> None:
    """It soon asks again: the capture may end before that, or lack it."""
    talk = connected().client(producer()).server(created(), close_producer()).wait(MILLISECOND)
    message = "Namespace bundle public/default/0xc0000000_0xffffffff is being unloaded"
    talk.client(lookup(3)).server(lookup_response("Failed", "", 3, error="MetadataError", message=message)).wait(rest * MILLISECOND)
    if lost:
        talk.lose(lost, 200)
    talk.client(PING).server(PONG)
    found = diagnose(tmp_path, talk if end == "open" else talk.close() if end == "fin" else talk.reset("client")).of("request-failed")
    assert len(found) == (not lost and (end != "open" or rest > 2000))


@pytest.mark.parametrize(("count", "asks"), [*product((1, 3), ("", "LOOKUP", "PRODUCER"))])
@pytest.mark.parametrize("closes_first", [False, True])
@pytest.mark.parametrize("stored", [0, 3])
def test_a_refused_send_of_a_moving_topic_without_a_name_counts_unless_its_client_asks_again(
    tmp_path: Path, count: int, asks: str, stored: int, *, closes_first: bool
) -> None:
    """The capture begins after the producers were made; the ledger of what is stored before stands in for the topic."""
    talk = Conversation(("10.0.0.1", 40000), ("10.0.0.2", 6650)).client(PING).server(PONG)
    for number, entry in product(range(count), range(stored)):
        talk.client(send(number, 100 + entry)).server(receipt(number, 100 + entry, ledger=7 + number, entry=entry))
    for number in range(count):
        closing, refusal = close_producer(number), send_error("PersistenceError", "fenced", number, 1)
        talk.client(send(number, 1)).server(*((closing, refusal) if closes_first else (refusal, closing)))
    if asks == "LOOKUP":
        talk.client(lookup(3)).server(lookup_response("Connect", "pulsar://10.0.0.2:6650", 3))
    elif asks:
        for number in range(count):
            talk.client(producer(number, request=3 + number)).server(created(request=3 + number))
    found = diagnose(tmp_path, talk.wait(SECOND).client(PING).server(PONG).close()).of("request-failed")
    assert sum((row.evidence or {}).get("count", 1) for row in found) == (0 if asks or not closes_first else count)


@pytest.mark.parametrize("after", [MILLISECOND, 5 * SECOND])
@pytest.mark.parametrize("comes_back", [False, True])
def test_a_broker_that_then_closes_the_producer_moves_its_topic(tmp_path: Path, after: int, *, comes_back: bool) -> None:
    """The client, whose producer is from before the capture, may come back on another connection."""
    talk = Conversation(("10.0.0.1", 40000), ("10.0.0.2", 6650)).client(PING).server(PONG)
    talk.client(send(7, 1)).server(send_error("PersistenceError", "fenced", 7, 1)).wait(after).server(close_producer(7)).close()
    again = connected(40001, start=6 * SECOND).client(producer()).server(created()).client(PING).server(PONG)
    assert diagnose(tmp_path, *([talk, again] if comes_back else [talk])).of("request-failed") == []


@pytest.mark.parametrize("closed", [8, None])
def test_a_refused_producer_that_is_not_closed_counts(tmp_path: Path, closed: int | None) -> None:
    talk = Conversation(("10.0.0.1", 40000), ("10.0.0.2", 6650)).client(PING).server(PONG)
    talk.client(send(7, 1)).server(send_error("PersistenceError", "fenced", 7, 1))
    if closed is not None:
        talk.server(close_producer(closed))
    diagnose(tmp_path, talk.wait(SECOND).close()).only("request-failed")


def test_another_producer_does_not_excuse_one_that_is_refused(tmp_path: Path) -> None:
    talk = Conversation(("10.0.0.1", 40000), ("10.0.0.2", 6650)).client(PING).server(PONG)
    talk.client(send(7, 1)).server(send_error("PersistenceError", "fenced", 7, 1)).client(producer(9, request=3)).server(created(request=3))
    diagnose(tmp_path, talk.wait(SECOND).client(PING).server(PONG).close()).only("request-failed")


@pytest.mark.parametrize(("every", "fails"), [(1, False), (100, False), (1_000, True), (4_000, True)])
@pytest.mark.parametrize("stored", [0, 1])
def test_a_producer_that_is_refused_for_long_is_not_on_the_move(tmp_path: Path, every: int, stored: int, *, fails: bool) -> None:
    talk = Conversation(("10.0.0.1", 40000), ("10.0.0.2", 6650)).client(PING).server(PONG)
    for entry in range(stored):
        talk.client(send(7, 100 + entry)).server(receipt(7, 100 + entry, entry=entry))
    for number in range(20):
        talk.client(send(7, number)).server(send_error("PersistenceError", "fenced", 7, number)).wait(every * MILLISECOND)
    talk.client(lookup(3)).server(lookup_response("Connect", "pulsar://10.0.0.2:6650", 3))
    assert ("request-failed" in diagnose(tmp_path, talk.close()).codes) == fails
