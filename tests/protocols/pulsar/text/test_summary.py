from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.model.records import FrameRow, MessageRow
from pulsarscope.protocols.pulsar.text.command_phrases import PHRASES
from pulsarscope.protocols.pulsar.text.summary import FREQUENT, message_summary, summary
from tests.scenarios.odd_values import ALL_FIELDS, odd_values
from tests.scenarios.pulsar_pb2 import BaseCommand

TOPIC = "persistent://public/default/orders"
COMMAND_NAMES = [value.name for value in BaseCommand.Type.DESCRIPTOR.values]


def words(command: str | None, fields: dict[str, Any] | None, **values: Any) -> str:
    return summary(FrameRow(command=command, fields=fields, **values))


def test_every_command_of_the_protocol_has_a_row() -> None:
    assert FREQUENT.keys() | PHRASES.keys() == set(COMMAND_NAMES), "add its phrases to PHRASES of text/command_phrases.py"
    assert not FREQUENT.keys() & PHRASES.keys()


CASES: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    (
        "CONNECT",
        {
            "client_version": "Pulsar-CPP-v3.5.1",
            "auth_method_name": "token",
            "auth_data": "redacted (12 bytes)",
            "protocol_version": 20,
            "proxy_to_broker_url": "broker:6650",
            "feature_flags": {"supports_auth_refresh": True, "supports_topic_watchers": False},
        },
        {},
        "Pulsar-CPP-v3.5.1  protocol v20  auth token redacted (12 bytes)  to broker:6650  features auth_refresh",
    ),
    ("CONNECTED", {"server_version": "4.2.4", "max_message_size": 5_242_880}, {}, "4.2.4  max message 5,242,880 B"),
    (
        "SUBSCRIBE",
        {
            "topic": TOPIC,
            "subscription": "billing",
            "subType": "Key_Shared",
            "consumer_id": 1,
            "request_id": 5,
            "initialPosition": "Earliest",
            "durable": False,
            "schema": {"name": "Order", "schema_data": b"{}", "type": "Avro"},
            "keySharedMeta": {"keySharedMode": "STICKY", "hashRanges": [{"start": 0, "end": 9}]},
            "start_message_id": {"ledgerId": -1, "entryId": -1},
        },
        {},
        (
            "orders  sub billing  Key_Shared  STICKY 0-9  from Earliest  start earliest  not durable  "
            'schema Avro "Order" 2 B  consumer 1  request 5'
        ),
    ),
    (
        "SEND",
        {"producer_id": 3, "sequence_id": 7},
        {"topic": TOPIC, "payload_size": 1234, "num_messages": 1},
        "orders  seq 7  1,234 B  producer 3",
    ),
    (
        "SEND",
        {"producer_id": 3, "sequence_id": 7, "highest_sequence_id": 16},
        {
            "metadata": {"compression": "LZ4", "encryption_keys": [{}], "partition_key": "k", "txnid_most_bits": 1, "txnid_least_bits": 2},
            "payload_size": 10,
            "num_messages": 10,
        },
        "seq 7-16  batch of 10  10 B LZ4  key k  encrypted  txn (1,2)  producer 3",
    ),
    (
        "SEND",
        {"producer_id": 3, "sequence_id": 7},
        {
            "metadata": {
                "num_chunks_from_msg": 3,
                "chunk_id": 0,
                "null_value": True,
                "marker_type": 21,
                "deliver_at_time": 1_777_629_600_123,
            }
        },
        "seq 7  chunk 1 of 3  marker: transaction commit (21)  tombstone  deliver at 2026-05-01 10:00:00.123 UTC  producer 3",
    ),
    (
        "SEND_RECEIPT",
        {"producer_id": 3, "sequence_id": 7, "message_id": {"ledgerId": 26, "entryId": 14}},
        {"topic": TOPIC},
        "orders  id 26:14  seq 7  producer 3",
    ),
    (
        "SEND_RECEIPT",
        {"producer_id": 3, "sequence_id": 7, "message_id": {"ledgerId": -1, "entryId": -1}},
        {},
        "dropped as a duplicate  seq 7  producer 3",
    ),
    (
        "SEND_ERROR",
        {"producer_id": 3, "sequence_id": 7, "error": "ChecksumError", "message": "bad"},
        {"topic": TOPIC},
        'orders  ChecksumError "bad"  seq 7  producer 3',
    ),
    (
        "MESSAGE",
        {"consumer_id": 1, "message_id": {"ledgerId": 26, "entryId": 14, "batch_index": 2}, "redelivery_count": 2, "ack_set": [1]},
        {"topic": TOPIC, "subscription": "billing", "payload_size": 9},
        "orders  id 26:14:2  9 B  redelivery 2  partly acknowledged  sub billing  consumer 1",
    ),
    (
        "ACK",
        {"consumer_id": 1, "ack_type": "Individual", "message_id": [{"ledgerId": 26, "entryId": 14, "ack_set": [1]}], "request_id": 9},
        {"topic": TOPIC, "subscription": "billing"},
        "orders  26:14[…]  sub billing  consumer 1  request 9",
    ),
    (
        "ACK",
        {
            "consumer_id": 1,
            "ack_type": "Cumulative",
            "message_id": [{"ledgerId": 26, "entryId": 14}],
            "validation_error": "ChecksumMismatch",
        },
        {},
        "up to 26:14  ChecksumMismatch  consumer 1",
    ),
    (
        "ACK",
        {"consumer_id": 1, "ack_type": "Individual", "message_id": [{"ledgerId": 2, "entryId": n} for n in range(500)]},
        {},
        "500 ids: 2:0, 2:1, 2:2, …  consumer 1",
    ),
    ("FLOW", {"consumer_id": 1, "messagePermits": 1000}, {"topic": TOPIC, "subscription": "s"}, "orders  1,000 permits  sub s  consumer 1"),
    ("FLOW", {"consumer_id": 1, "messagePermits": 1000}, {}, "1,000 permits  consumer 1"),
    ("PING", {}, {}, ""),
    ("ERROR", {"request_id": -1, "error": "AuthenticationError", "message": "no token"}, {}, 'AuthenticationError "no token"'),
    (
        "CLOSE_PRODUCER",
        {"producer_id": 1, "request_id": -1, "assignedBrokerServiceUrl": "pulsar://b2:6650"},
        {"direction": "server"},
        "producer 1  by the broker  next pulsar://b2:6650",
    ),
    (
        "PRODUCER_SUCCESS",
        {"request_id": 2, "producer_name": "p-1", "last_sequence_id": -1, "schema_version": bytes(7) + b"\x03", "producer_ready": False},
        {},
        "name p-1  waits for exclusive access  last seq -1  schema version 3  request 2",
    ),
    ("REDELIVER_UNACKNOWLEDGED_MESSAGES", {"consumer_id": 1}, {}, "everything unacknowledged  consumer 1"),
    ("PARTITIONED_METADATA_RESPONSE", {"partitions": 4, "request_id": 1, "response": "Success"}, {}, "4 partitions  request 1"),
    (
        "LOOKUP_RESPONSE",
        {"brokerServiceUrl": "pulsar://b1:6650", "response": "Redirect", "authoritative": True, "request_id": 1},
        {},
        "Redirect  pulsar://b1:6650  authoritative  request 1",
    ),
    (
        "SEEK",
        {"consumer_id": 1, "message_publish_time": 1_777_629_600_123, "request_id": 3},
        {},
        "to 2026-05-01 10:00:00.123 UTC  consumer 1  request 3",
    ),
    ("SEEK", {"consumer_id": 1, "message_id": {"ledgerId": 2**63 - 1, "entryId": 2**63 - 1}}, {}, "to latest  consumer 1"),
    ("ACTIVE_CONSUMER_CHANGE", {"consumer_id": 1, "is_active": False}, {}, "standby  consumer 1"),
    (
        "GET_TOPICS_OF_NAMESPACE_RESPONSE",
        {"topics": [f"persistent://public/default/t{n}" for n in range(5)], "request_id": 1},
        {},
        "5 topics: t0, t1, t2, …  request 1",
    ),
    (
        "AUTH_CHALLENGE",
        {"challenge": {"auth_method_name": "token", "auth_data": "redacted (16 bytes)"}, "protocol_version": 20},
        {},
        "protocol v20  auth token redacted (16 bytes)",
    ),
    (
        "END_TXN",
        {"txnid_least_bits": 34, "txnid_most_bits": 1, "txn_action": "COMMIT", "request_id": 1},
        {},
        "COMMIT  txn (1,34)  request 1",
    ),
    (
        "ADD_SUBSCRIPTION_TO_TXN",
        {"txnid_least_bits": 34, "subscription": [{"topic": TOPIC, "subscription": "s"}]},
        {},
        "txn (0,34)  orders sub s",
    ),
    ("WATCH_TOPIC_UPDATE", {"watcher_id": 1, "new_topics": ["a"], "deleted_topics": []}, {}, "1 new topic: a  watcher 1"),
    ("TOPIC_MIGRATED", {"resource_type": "Producer", "resource_id": 1, "brokerServiceUrl": "b"}, {}, "Producer  1  to b"),
    (
        "SCALABLE_TOPIC_UPDATE",
        {"session_id": 1, "dag": {"epoch": 2, "segments": [{"state": "ACTIVE"}, {"state": "SEALED"}]}},
        {},
        "2 segments, 1 active  epoch 2  session 1",
    ),
    (
        "WATCH_TC_ASSIGNMENTS_UPDATE",
        {"watch_id": 1, "snapshot": {"parallelism": 16, "assignments": [{"tc_id": 0, "broker_service_url": "b"}]}},
        {},
        "parallelism 16  1 coordinators: 0 at b  watch 1",
    ),
    ("UNKNOWN_200", {"a": 1, "b": b"\xff", "c": "x", "d": 2}, {}, "a=1  b=0xff  c=x  …"),
]


@pytest.mark.parametrize(("command", "fields", "values", "expected"), CASES, ids=[f"{index}-{case[0]}" for index, case in enumerate(CASES)])
def test_a_frame_in_words(command: str, fields: dict[str, Any], values: dict[str, Any], expected: str) -> None:
    assert words(command, fields, **values) == expected


def test_a_frame_without_fields_has_its_size() -> None:
    assert words(None, None, size=1500) == "1,500 B"


def test_a_value_of_megabytes_is_cut() -> None:
    assert len(words("ERROR", {"error": "UnknownError", "message": "m" * 5_000_000})) < 400
    assert len(words("SEND", {"sequence_id": 1}, topic="t" * 5_000_000)) < 400


odd_fields = st.dictionaries(st.sampled_from(ALL_FIELDS), odd_values, max_size=8)


@pytest.mark.slow
@given(st.sampled_from(COMMAND_NAMES), odd_fields, st.none() | odd_fields, st.none() | st.text(), st.none() | st.integers())
def test_no_fields_make_it_fail(
    command: str, fields: dict[str, Any], metadata: dict[str, Any] | None, text: str | None, number: int | None
) -> None:
    assert isinstance(
        words(command, fields, metadata=metadata, topic=text, subscription=text, payload_size=number, num_messages=number), str
    )


@pytest.mark.parametrize("command", COMMAND_NAMES)
@pytest.mark.parametrize("value", [None, -1, "text", b"\xff", [1], {"a": 1}, True, 1.5, [{"key": 1}], {"ledgerId": []}])
def test_no_type_of_any_field_makes_it_fail(command: str, value: object) -> None:
    fields = dict.fromkeys(ALL_FIELDS, value)
    assert isinstance(words(command, fields, metadata=fields, topic="t"), str)
    assert words(command, {}) is not None


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"direction": "produce", "producer_id": 3}, "producer 3  no id"),
        ({"direction": "deliver"}, "consumer ?  id ?"),
        ({"topic": "persistent://public/default/orders", "ledger": 5, "entry": 1, "batch_index": 2}, "orders  5:1:2"),
        ({"topic": "t", "ordering_key": b"k", "payload_size": 1_000}, "t  id ?  ordering key k  1,000 B"),
        ({"topic": "t", "ordering_key": b"\xff"}, "t  id ?  ordering key 0xff"),
        ({"topic": "t", "properties": {"a": "1"}, "chunks": 2, "compression": "NONE"}, "t  id ?  2 chunks  {a=1}"),
        ({"topic": "t", "encrypted": True, "status": "ok"}, "t  id ?  decrypted"),
        ({"topic": "t", "encrypted": True, "status": "undecodable"}, "t  id ?  encrypted"),
        ({"topic": "t", "encrypted": True, "status": "encrypted"}, "t  id ?"),
    ],
)
def test_a_message_is_described_by_its_topic_its_id_and_what_sets_it_apart(values: dict[str, Any], words: str) -> None:
    assert message_summary(MessageRow(**values)) == words
