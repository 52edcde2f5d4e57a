"""Journeys of entries across connections, and the places where they were corrupted."""

from __future__ import annotations

from typing import Any

import pytest

from pulsarscope.engine.local import run
from pulsarscope.model.findings import ERROR
from pulsarscope.protocols.pulsar import rules
from pulsarscope.protocols.pulsar.dissector import PulsarDissector
from tests.places import CAPTURES
from tests.scenarios.commands import ack, ack_response, message, producer, receipt, send, subscribe
from tests.scenarios.conversation import SECOND
from tests.scenarios.dialogue import RuleDialogue
from tests.scenarios.options import Options
from tests.scenarios.rules.journey import collecting, corrupted

TOPIC = "persistent://public/default/orders"


def subscription(number: int, name: str) -> bytes:
    """A SUBSCRIBE of a shared subscription."""
    return subscribe(number, request=100 + number, kind="Shared", topic=TOPIC, subscription=name)


def published(talk: RuleDialogue) -> RuleDialogue:
    """Packets 1 to 3: a producer sends entry 7:0, and gets its receipt."""
    return talk.client(producer(name="billing", topic=TOPIC), send()).server(receipt())


def test_a_journey_has_each_attempt_and_each_subscription_apart() -> None:
    collect, found = collecting()
    talk = published(RuleDialogue(collect))
    talk.client(subscription(1, "audit"), on="0:50").client(subscription(2, "mail"), on="0:60")  # 4, 5
    talk.server(message(1), on="0:50").server(message(2), on="0:60")  # 6, 7
    talk.wait(SECOND).server(message(1, redelivery_count=1), on="0:50")  # 8
    talk.client(ack(0, request_id=9), on="0:50")  # 9
    talk.server(ack_response(9), on="0:50").end()  # 10
    item = found["7:0"]
    assert (item.topic, item.producer_name, item.checksum) == (TOPIC, "billing", "good")
    assert item.sent is not None
    assert item.received is not None
    assert (item.sent.name, item.received.name) == ("0:2.1", "0:3.1")
    assert [(each.subscription, each.attempt, each.where.name) for each in item.deliveries] == [
        ("audit", 1, "0:6.1"),
        ("mail", 1, "0:7.1"),
        ("audit", 2, "0:8.1"),
    ]
    assert [each.acked and each.acked.name for each in item.deliveries] == [None, None, "0:9.1"]
    assert [each.confirmed and each.confirmed.name for each in item.deliveries] == [None, None, "0:10.1"]
    assert [item.latency_ns(each) for each in item.deliveries] == [4_000_000, 5_000_000, 6_000_000 + SECOND]


def test_a_latency_is_never_negative() -> None:
    collect, found = collecting()
    talk = RuleDialogue(collect).client(subscription(1, "audit"), on="0:50").server(message(1), on="0:50")
    published(talk).end()
    item = found["7:0"]
    assert item.latency_ns(item.deliveries[0]) is None


def test_whole_when_sent_and_bad_when_delivered_is_corrupted_in_the_broker_or_behind_it() -> None:
    talk = published(RuleDialogue()).client(subscription(1, "audit"), on="0:50").server(corrupted(), on="0:50")
    found = [row for row in talk.end() if row.code == "message-corrupted"]
    assert [(row.severity, row.packet, row.connection) for row in found] == [(ERROR, 5, "0:50")]
    assert "in the broker, or between the broker and the consumer" in (found[0].text or "")
    assert found[0].evidence == {
        "frames": ["0:2.1", "0:5.1"],
        "entry": "7:0",
        "topic": TOPIC,
        "producer_name": "billing",
        "subscriptions": ["audit"],
        "bad": 1,
        "good": 0,
    }


def test_whole_for_one_consumer_and_bad_for_another_is_corrupted_on_the_way_to_that_one() -> None:
    talk = RuleDialogue().client(subscription(1, "audit"), on="0:50").client(subscription(2, "mail"), on="0:60")
    talk.server(message(1), on="0:50").server(corrupted(consumer_id=2), on="0:60")
    found = [row for row in talk.end() if row.code == "message-corrupted"]
    assert len(found) == 1
    assert "between the broker and the consumer" in (found[0].text or "")
    assert (found[0].evidence or {})["frames"] == ["0:4.1", "0:3.1"]
    assert (found[0].evidence or {})["subscriptions"] == ["mail"]


def elsewhere(talk: RuleDialogue) -> RuleDialogue:
    """The same ledger and entry of another topic, damaged on its way to a consumer."""
    talk.client(subscribe(kind="Shared", topic=f"{TOPIC}-2"), on="0:70")
    return talk.server(corrupted(), on="0:70")


def test_an_entry_of_another_topic_is_another_entry() -> None:
    assert "message-corrupted" not in elsewhere(published(RuleDialogue())).codes()
    talk = published(RuleDialogue()).client(subscription(1, "audit"), on="0:50").server(message(1), on="0:50")
    assert "message-corrupted" not in elsewhere(talk).codes()


def test_each_topic_is_evaluated_by_its_own_entry() -> None:
    talk = published(RuleDialogue()).client(subscription(1, "audit"), on="0:50").server(corrupted(), on="0:50")
    found = [row for row in elsewhere(talk).end() if row.code == "message-corrupted"]
    assert [((row.evidence or {})["topic"], (row.evidence or {})["bad"]) for row in found] == [(TOPIC, 1)]


def test_a_delivery_without_its_subscribe_is_of_the_only_topic() -> None:
    found = [row for row in published(RuleDialogue()).server(corrupted(), on="0:50").end() if row.code == "message-corrupted"]
    assert [(row.evidence or {})["topic"] for row in found] == [TOPIC]


def test_nothing_is_said_of_the_place_when_only_the_bad_delivery_is_in_the_capture() -> None:
    assert "message-corrupted" not in RuleDialogue().server(corrupted()).codes()


def test_nothing_is_said_of_what_arrives_whole() -> None:
    talk = published(RuleDialogue()).client(subscription(1, "audit")).server(message(1)).client(ack(0))
    assert set(talk.codes()) <= {"permits-negative"}  # this dialogue grants none


@pytest.mark.parametrize("name", ["stuck-consumer.pcap", "shared-nack-dlq.pcap"])
def test_the_journeys_of_a_real_capture_agree_with_the_messages_in_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    collect, found = collecting()
    monkeypatch.setattr(rules, "RULES", collect)
    rows: list[Any] = []
    for batch in run([str(CAPTURES / name)], Options(frozenset({"frame", "finding"}), rules=True)):
        rows += batch.rows
    assert PulsarDissector().rules is collect
    sent = {f"{row.fields['message_id']['ledgerId']}:{row.fields['message_id'].get('entryId')}" for row in rows if _is(row, "SEND_RECEIPT")}
    assert {key for key, item in found.items() if item.received} == sent
    delivered = [row for row in rows if _is(row, "MESSAGE")]
    assert sum(len(item.deliveries) for item in found.values()) == len(delivered)
    for item in found.values():
        pairs = [(each.topic, each.subscription, each.attempt) for each in item.deliveries]
        assert len(set(pairs)) == len(pairs)
        assert all((item.latency_ns(each) or 0) >= 0 for each in item.deliveries)
    assert max(len({each.subscription for each in item.deliveries}) for item in found.values()) == (2 if name.startswith("stuck") else 1)


def _is(row: Any, command: str) -> bool:
    return bool(row.kind == "frame" and row.command == command)
