"""Chunked messages that get stuck, and those that do not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

import pulsarscope as ps
from pulsarscope.model.findings import ERROR, WARNING
from pulsarscope.protocols.pulsar.entry.encryption import TAG_BYTES
from tests.places import CAPTURES
from tests.scenarios.commands import PING, message, receipt, send, subscribe
from tests.scenarios.conversation import SECOND
from tests.scenarios.dialogue import RuleDialogue
from tests.scenarios.rules.chunks import COUNT, part

TOPIC = "persistent://public/default/videos"


def sent(chunks: Iterable[int] = range(COUNT)) -> RuleDialogue:
    """Packet 1 subscribes on 0:50; packets 2, 3: the first chunk and its receipt; and so on."""
    talk = RuleDialogue().client(subscribe(topic=TOPIC, subscription="view"), on="0:50")
    for chunk in chunks:
        talk.client(send(is_chunk=True, metadata=part(chunk))).server(receipt(entry=chunk))
    return talk


def deliver(talk: RuleDialogue, chunks: Iterable[int]) -> RuleDialogue:
    return talk.server(*(message(entry=chunk, metadata=part(chunk)) for chunk in chunks), on="0:50")


def stuck(talk: RuleDialogue) -> list[Any]:
    return [row for row in talk.end() if row.code == "chunk-stuck"]


def test_a_chunk_that_was_stored_and_is_not_delivered() -> None:
    (row,) = stuck(deliver(sent(), [0, 1, 3]))
    assert (row.severity, row.connection, row.packet) == (WARNING, "0:50", 12)
    assert row.evidence == {
        "frames": ["0:6.1", "0:10.1", "0:11.1", "0:12.1"],
        "uuid": "u-1",
        "topic": TOPIC,
        "subscription": "view",
        "producer_name": "producer-1",
        "consumer_id": 1,
        "chunks": 4,
        "sent": 4,
        "stored": 4,
        "delivered": 3,
        "missing": [2],
        "duplicates": 0,
        "out_of_order": 1,
    }
    assert "the first missing is chunk 2, which SEND 0:6.1 brought and the broker stored as 7:2" in row.text


def test_the_rest_of_a_message_that_does_not_come() -> None:
    talk = deliver(sent(), [0, 1])
    (row,) = stuck(talk.wait(6 * SECOND).client(PING, on="0:50"))
    assert row.evidence["missing"] == [2, 3]


def test_chunks_out_of_order_make_the_consumer_drop_the_message() -> None:
    (row,) = stuck(deliver(sent(), [0, 2, 1, 3]))
    assert row.evidence["missing"] == []
    assert row.evidence["out_of_order"] == 2
    assert "out of order" in row.text


def test_a_message_that_is_whole_in_the_end_is_not_stuck() -> None:
    assert stuck(deliver(sent(), [0, 1, 0, 1, 2, 3])) == []
    assert stuck(deliver(sent(), [0, 1, 1, 2, 3])) == []


def test_a_capture_that_ends_while_chunks_come_says_nothing() -> None:
    assert stuck(deliver(sent(), [0, 1])) == []


def test_what_was_never_seen_sent_is_left_to_chunk_missing() -> None:
    assert stuck(deliver(sent(()), [0, 1, 3])) == []


def test_another_consumer_of_the_subscription_may_have_it_whole() -> None:
    talk = deliver(sent(), [0, 1])
    talk.wait(6 * SECOND).client(PING, on="0:50").client(subscribe(5, topic=TOPIC, subscription="view"), on="0:60")
    talk.server(*(message(5, entry=chunk, metadata=part(chunk)) for chunk in range(COUNT)), on="0:60")
    assert stuck(talk) == []


def test_chunks_that_do_not_add_up() -> None:
    talk = RuleDialogue()
    for chunk in range(COUNT):
        talk.client(send(is_chunk=True, metadata=part(chunk, total_chunk_msg_size=30))).server(receipt(entry=chunk))
    rows = [row for row in talk.end() if row.code == "chunk-size-mismatch"]
    assert [(row.severity, row.packet) for row in rows] == [(ERROR, 1)]
    evidence = rows[0].evidence or {}
    assert (evidence["bytes"], evidence["announced"]) == (28, 30)
    assert evidence["frames"] == ["0:1.1", "0:3.1", "0:5.1", "0:7.1"]


@pytest.mark.parametrize(("announced", "codes"), [(COUNT * 7, set()), (COUNT * 7 + 1, {"chunk-size-mismatch"})])
def test_what_encryption_adds_to_each_chunk_is_not_counted(announced: int, codes: set[str]) -> None:
    talk = RuleDialogue()
    keys = [{"key": "k", "value": b"v"}]
    for chunk in range(COUNT):
        metadata = part(chunk, total_chunk_msg_size=announced, encryption_keys=keys)
        talk.client(send(is_chunk=True, metadata=metadata, payload=b"payload" + bytes(TAG_BYTES))).server(receipt(entry=chunk))
    assert set(talk.codes()) & {"chunk-size-mismatch"} == codes


def test_a_message_of_more_chunks_than_facts_are_kept_is_not_evaluated() -> None:
    talk = RuleDialogue()
    many = {"num_chunks_from_msg": 400, "total_chunk_msg_size": 2800}
    for chunk in range(400):
        talk.client(send(is_chunk=True, metadata=part(chunk, **many))).server(receipt(entry=chunk))
    talk.server(*(message(entry=chunk, metadata=part(chunk, **many)) for chunk in range(400)), on="0:50")
    assert talk.codes() == []


def test_a_count_of_chunks_that_cannot_be_costs_nothing() -> None:
    many = {"num_chunks_from_msg": 2**31 - 1, "total_chunk_msg_size": 2**31 - 1}
    talk = RuleDialogue().client(send(is_chunk=True, metadata=part(1, **many))).server(receipt(entry=1))
    talk.server(message(entry=0, metadata=part(0, **many)), message(entry=2, metadata=part(5, **many)), on="0:50")
    (row,) = stuck(talk)
    assert row.evidence["missing"] == [1, 2, 3, 4, 6, 7, 8, 9, 10, 11]


def test_interleaved_chunks_of_real_producers_are_well() -> None:
    codes = {row.code for row in ps.open(str(CAPTURES / "java-chunk-interleaved.pcap.zst")).findings()}
    assert codes.isdisjoint({"chunk-stuck", "chunk-size-mismatch"})
