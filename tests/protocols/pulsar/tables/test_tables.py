"""The other tables, from handmade rows."""

from __future__ import annotations

import tracemalloc
from types import ModuleType
from typing import Any

import pytest

from pulsarscope.dissect.contract.capabilities import LaneFold
from pulsarscope.model.records import ExchangeRow, MessageRow
from pulsarscope.protocols.pulsar.tables import journeys, keys, lookups, schemas, transactions
from tests.protocols.pulsar.tables.rows import ENDPOINTS, MILLISECOND, TOPIC, Frames, message_id, records

OTHER = "persistent://public/default/other"


def test_journeys_are_measured_by_the_clock_of_the_capture() -> None:
    frame = Frames()

    def receipt(entry: int, latency: int) -> Any:
        return frame("SEND_RECEIPT", {"producer_id": 1, "message_id": message_id(entry)}, latency_ns=latency * MILLISECOND)

    def delivery(entry: int, subscription: str, **more: Any) -> Any:
        return frame("MESSAGE", {"consumer_id": 1, "message_id": message_id(entry), **more}, subscription=subscription)

    def ack(entry: int, **more: Any) -> Any:
        return frame("ACK", {"consumer_id": 1, "message_id": [message_id(entry)], **more}, subscription="a")

    rows = [
        delivery(0, "a"),  # at 1 ms, before the receipt at 2 ms of a message sent at 0.5 ms
        frame("SEND_RECEIPT", {"message_id": message_id(0)}, latency_ns=1_500_000),
        receipt(1, 1),  # sent at 2 ms
        delivery(1, "a"),
        delivery(1, "b"),
        ack(1),
        ack(0, ack_type="Cumulative"),
        delivery(1, "a", redelivery_count=1),
    ]
    found = {record["subscription"]: record for record in records(journeys.TABLE, *rows)}
    assert (found[None]["receipt_count"], found[None]["receipt_max_ns"]) == (2, 1_500_000)
    assert (found["a"]["delivery_count"], found["a"]["delivery_max_ns"]) == (2, 2 * MILLISECOND)
    assert (found["b"]["delivery_count"], found["b"]["delivery_max_ns"]) == (1, 3 * MILLISECOND)
    assert (found["a"]["ack_count"], found["a"]["ack_max_ns"], found["b"]["ack_count"]) == (2, 6 * MILLISECOND, 0)


def delivered_and_acknowledged(*acks: dict[str, Any], entries: tuple[int, ...] = (0, 1, 2, 3)) -> tuple[int, int | None]:
    """Return the count and the longest time from delivery to ACK for some entries of the subscription "a"; "b" got them, too."""
    frame = Frames()
    rows = [
        frame("MESSAGE", {"consumer_id": 1, "message_id": message_id(entry)}, subscription=subscription)
        for entry in entries
        for subscription in "ab"
    ]
    rows += [frame("ACK", {"consumer_id": 1, **fields}, subscription="a") for fields in acks]
    found = {record["subscription"]: record for record in records(journeys.TABLE, *rows)}
    assert not acks or found.get("b", {"ack_count": 0})["ack_count"] == 0
    return (found["a"]["ack_count"], found["a"]["ack_max_ns"]) if "a" in found else (0, None)


def cumulative(entry: int, **more: Any) -> dict[str, Any]:
    return {"ack_type": "Cumulative", "message_id": [message_id(entry, **more)]}


def individual(entry: int, **more: Any) -> dict[str, Any]:
    return {"ack_type": "Individual", "message_id": [message_id(entry, **more)]}


@pytest.mark.parametrize(
    ("acks", "count", "longest"),
    [
        ([cumulative(2)], 3, 8),
        ([cumulative(1), cumulative(3)], 4, 8),
        ([cumulative(9)], 4, 8),
        ([cumulative(2, ack_set=[1])], 2, 8),
        ([individual(2)], 1, 4),
        ([individual(2), cumulative(3)], 4, 9),
        ([cumulative(2), individual(1), cumulative(2)], 3, 8),
        ([individual(2, ack_set=[1])], 0, None),
    ],
)
def test_an_entry_is_acknowledged_once_and_a_cumulative_ack_takes_all_before_it(
    acks: list[dict[str, Any]], count: int, longest: int | None
) -> None:
    assert delivered_and_acknowledged(*acks) == (count, longest and longest * MILLISECOND)


def test_a_cumulative_ack_takes_entries_that_came_out_of_order_and_those_of_ledgers_before() -> None:
    assert delivered_and_acknowledged(cumulative(2), entries=(3, 2, 0))[0] == 2
    assert delivered_and_acknowledged({"ack_type": "Cumulative", "message_id": [{"ledgerId": 8, "entryId": 0}]})[0] == 4
    assert delivered_and_acknowledged({"ack_type": "Cumulative", "message_id": [{"ledgerId": 6, "entryId": 9}]})[0] == 0


@pytest.mark.parametrize("nowhere", [{"ledgerId": 0, "entryId": 0}, {"ledgerId": -1, "entryId": -1}, {}])
def test_messages_of_non_persistent_topics_are_not_taken_for_one(nowhere: dict[str, int]) -> None:
    frame = Frames()
    rows = [
        frame("SEND_RECEIPT", {"message_id": nowhere}, latency_ns=MILLISECOND),
        frame("MESSAGE", {"message_id": nowhere}, subscription="a"),
        frame("ACK", {"message_id": [nowhere]}, subscription="a"),
    ]
    assert records(journeys.TABLE, *rows) == []


def test_entries_that_are_followed_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journeys, "TABLE_ENTRIES_MAX", 2)
    assert delivered_and_acknowledged(cumulative(9)) == (2, 4 * MILLISECOND)


def test_each_subscription_has_the_first_delivery_of_an_entry_before_and_behind_its_receipt(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = Frames()

    def delivery(subscription: str | None) -> Any:
        return frame("MESSAGE", {"consumer_id": 1, "message_id": message_id(0)}, subscription=subscription)

    early = [delivery(name) for name in ("a", None, "b", "a", "b", None)]  # at 1, 2, 3 ms, and again
    receipt = frame("SEND_RECEIPT", {"message_id": message_id(0)}, latency_ns=7 * MILLISECOND)  # sent at 0
    late = [delivery(name) for name in ("c", "a", "c", "d")]  # at 8 and 11 ms
    found = {record["subscription"]: record for record in records(journeys.TABLE, *early, receipt, *late)}
    assert {name: (record["delivery_count"], record["delivery_max_ns"]) for name, record in found.items()} == {
        "a": (1, MILLISECOND),
        None: (1, 2 * MILLISECOND),
        "b": (1, 3 * MILLISECOND),
        "c": (1, 8 * MILLISECOND),
        "d": (1, 11 * MILLISECOND),
    }
    monkeypatch.setattr(journeys, "STATISTICS_NAMES_MAX", 3)
    fold = journeys.TABLE.make()
    fold.feed([*early, receipt, *late], ENDPOINTS)
    assert fold.left_out == 3
    assert {record["subscription"] for record in fold.records()} == {"a", "b", None}


def test_an_entry_that_is_followed_takes_little_memory() -> None:
    frame = Frames()
    receipts = (frame("SEND_RECEIPT", {"message_id": message_id(1_000 + entry)}, latency_ns=1) for entry in range(4_000))
    fold = journeys.TABLE.make()
    tracemalloc.start()
    try:
        fold.feed(receipts, ENDPOINTS)
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used < 350 * 4_000


def test_ledgers_of_different_topics_are_not_taken_for_one() -> None:
    frame = Frames()
    rows = [
        frame("SEND_RECEIPT", {"message_id": message_id(0)}, latency_ns=MILLISECOND),
        frame("MESSAGE", {"message_id": message_id(0)}, subscription="a", topic=OTHER),
    ]
    assert [record["delivery_count"] for record in records(journeys.TABLE, *rows)] == [0]


def test_a_transaction_is_followed_from_its_begin_to_its_end() -> None:
    frame = Frames()
    txn = {"txnid_most_bits": 1, "txnid_least_bits": 4}
    other = {"txnid_most_bits": 1, "txnid_least_bits": 5}
    rows = [
        frame("NEW_TXN", {"request_id": 9, "txn_ttl_millis": 60_000}),
        frame("NEW_TXN_RESPONSE", {"request_id": 9, **txn}),
        frame("ADD_PARTITION_TO_TXN", {"request_id": 10, "partitions": [OTHER], **txn}),
        frame("ADD_SUBSCRIPTION_TO_TXN", {"request_id": 11, "subscription": [{"topic": TOPIC, "subscription": "s"}], **txn}),
        frame("SEND", {"producer_id": 1, "sequence_id": 1, **txn}, messages=3),
        frame("ACK", {"consumer_id": 1, "message_id": [message_id(1), message_id(2)], **txn}),
        frame("SEND", {"producer_id": 1, "sequence_id": 2}, messages=3),
        frame("END_TXN", {"request_id": 12, "txn_action": "ABORT", **txn}),
        frame("END_TXN_RESPONSE", {"request_id": 12, **txn}),
        frame("SEND", {"producer_id": 1, "sequence_id": 3, **other}, messages=1),
    ]
    aborted, open_ = records(transactions.TABLE, *rows)
    assert aborted == {
        "txn": "(1,4)",
        "state": "aborted",
        "start": MILLISECOND,
        "duration_ns": 8 * MILLISECOND,
        "ttl_ms": 60_000,
        "topics": OTHER,
        "subscriptions": "s",
        "sends": 3,
        "acks": 2,
        "errors": 0,
        "frame": "0:1.1",
    }
    assert (open_["txn"], open_["state"], open_["frame"]) == ("(1,5)", "open", "0:10.1")


def test_a_refused_end_is_no_commit() -> None:
    frame = Frames()
    txn = {"txnid_most_bits": 1, "txnid_least_bits": 4}
    rows = [frame("END_TXN", {"request_id": 1, **txn}), frame("END_TXN_RESPONSE", {"request_id": 1, "error": "InvalidTxnStatus", **txn})]
    (record,) = records(transactions.TABLE, *rows)
    assert (record["state"], record["errors"]) == ("refused", 1)


def test_a_chain_of_lookups_goes_over_several_connections_of_a_client() -> None:
    frame = Frames()

    def exchange(connection: str, status: str = "ok") -> ExchangeRow:
        return ExchangeRow(
            file=0, packet=1, sub=1, time=1, connection=connection, request="LOOKUP", topic=TOPIC, status=status, latency_ns=MILLISECOND
        )

    rows = [
        frame("LOOKUP_RESPONSE", {"response": "Redirect", "brokerServiceUrl": "pulsar://b:6650"}),
        exchange("0:1"),
        frame("LOOKUP_RESPONSE", {"response": "Connect", "brokerServiceUrl": "pulsar://c:6650"}, connection="0:2"),
        exchange("0:2"),
        frame("LOOKUP_RESPONSE", {"response": "Failed", "error": "ServiceNotReady"}, topic=OTHER),
    ]
    failed, found = records(lookups.TABLE, *rows)
    assert (failed["topic"], failed["refused"], failed["latest"]) == (OTHER, 1, "failed ServiceNotReady")
    assert (found["client"], found["lookups"], found["redirects"], found["hops_max"]) == ("10.0.0.1", 2, 1, 2)
    assert (found["latest"], found["answer"]) == ("redirect pulsar://b:6650, connect pulsar://c:6650", "Connect")


def test_keys_that_several_consumers_got_come_first() -> None:
    frame = Frames()
    fields = {"topic": TOPIC, "subscription": "s", "consumer_name": "first", "consumer_id": 0}

    def message(key: str | None, consumer: int, **more: Any) -> MessageRow:
        direction = more.pop("direction", "deliver")
        where: dict[str, Any] = {"file": 0, "packet": 1, "sub": 1, "time": 1, "connection": "0:1"}
        return MessageRow(**where, direction=direction, topic=TOPIC, subscription="s", consumer_id=consumer, key=key, **more)

    rows = [
        frame("SUBSCRIBE", fields),
        *[message("often", 0) for _ in range(5)],
        message("twice", 0),
        message("twice", 1),
        message("ordered", 0, ordering_key=b"\x01"),
        message("ordered", 0, ordering_key="für alle".encode()),
        message("ordered", 0, ordering_key=b"\xff"),
        message(None, 0),
        message("sent", 0, direction="produce"),
        message("often", 0, acknowledged=True),
    ]
    found = [(record["key"], record["messages"], record["consumers"]) for record in records(keys.TABLE, *rows)]
    assert found == [
        ("twice", 2, "first 1, 0:1/1 1"),
        ("often", 5, "first 5"),
        ("0x01", 1, "first 1"),
        ("für alle", 1, "first 1"),
        ("0xff", 1, "first 1"),
    ]


def test_messages_of_very_many_consumers_of_a_key_are_all_counted() -> None:
    where: dict[str, Any] = {"file": 0, "packet": 1, "sub": 1, "time": 1, "connection": "0:1", "direction": "deliver", "key": "k"}
    (record,) = records(keys.TABLE, *[MessageRow(**where, consumer_id=number) for number in range(12)])
    assert record["messages"] == 12
    assert "others 4" in record["consumers"]


def _several(table: str) -> list[Any]:
    """Return two rows for each of three names of a table."""
    frame, rows = Frames(), list[Any]()
    for name in "abc":
        topic, number = f"persistent://public/default/{name}", ord(name)
        schema = {"name": name, "type": "Avro", "schema_data": "{}"}
        fields: dict[str, dict[str, Any]] = {
            "transactions": {"producer_id": 1, "txnid_most_bits": number},
            "lookups": {"response": "Connect"},
            "schemas": {"request_id": number, "schema": schema},
            "journeys": {"message_id": message_id(number)},
        }
        command = {"transactions": "SEND", "lookups": "LOOKUP_RESPONSE", "schemas": "PRODUCER", "journeys": "SEND_RECEIPT"}
        for _ in range(2):
            if table == "keys":
                where: dict[str, Any] = {"file": 0, "packet": 1, "sub": 1, "time": 1, "connection": "0:1"}
                rows.append(MessageRow(**where, direction="deliver", topic=topic, key=name))
            else:
                rows.append(frame(command[table], fields[table], topic=topic, latency_ns=1))
    return rows


@pytest.mark.parametrize("module", [keys, transactions, lookups, schemas, journeys])
@pytest.mark.parametrize(("most", "left_out"), [(1, 4), (2, 2), (3, 0), (4, 0)])
def test_rows_beyond_a_full_table_are_counted(module: ModuleType, most: int, left_out: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsarscope.dissect.contract.capabilities.STATISTICS_NAMES_MAX", most)
    fold = module.TABLE.make()
    fold.feed(_several(module.TABLE.name), ENDPOINTS)
    assert (len(fold.records()), fold.left_out) == (min(most, 3), left_out)


def test_schemas_that_are_refused_come_first() -> None:
    frame = Frames()
    schema = {"name": "", "type": "Avro", "schema_data": "{}"}
    rows = [
        frame("PRODUCER", {"request_id": 1, "schema": schema, "topic": TOPIC}),
        frame("PRODUCER_SUCCESS", {"request_id": 1, "schema_version": "00"}),
        frame("SUBSCRIBE", {"request_id": 2, "schema": schema, "topic": TOPIC}),
        frame("SUCCESS", {"request_id": 2}),
        frame("PRODUCER", {"request_id": 3, "schema": {**schema, "type": "Json"}, "topic": TOPIC}),
        frame("ERROR", {"request_id": 3, "error": "IncompatibleSchema"}),
        frame("PRODUCER", {"request_id": 4, "topic": TOPIC}),
    ]
    found = records(schemas.TABLE, *rows)
    assert [(each["type"], each["producers"], each["consumers"], each["refused"], each["versions"]) for each in found] == [
        ("Json", 1, 0, 1, ""),
        ("Avro", 1, 1, 0, "00"),
    ]


def test_the_journeys_of_what_was_not_delivered_not_acknowledged_and_slow_are_remembered() -> None:
    frame = Frames()
    rows = [frame("SEND_RECEIPT", {"message_id": message_id(entry)}, latency_ns=MILLISECOND // 2) for entry in range(3)]
    rows += [frame("MESSAGE", {"message_id": message_id(entry)}, subscription="a") for entry in (0, 1)]
    rows += [frame("ACK", {"consumer_id": 1, **individual(1)}, subscription="a")]
    fold = journeys.TABLE.make()
    assert isinstance(fold, LaneFold)
    fold.feed(rows, {})
    found = {lane.name: (lane.ending, lane.subscription, [step.name for step in lane.steps], lane.steps[-1].end) for lane in fold.lanes()}
    assert found == {
        "7:2": ("not delivered", None, ["publish", "delivery"], None),
        "7:0": ("not acknowledged", "a", ["publish", "delivery", "acknowledgment"], None),
        "7:1": ("acknowledged", "a", ["publish", "delivery", "acknowledgment"], rows[-1].time),
    }


def test_only_the_slowest_journeys_are_remembered() -> None:
    frame = Frames()
    rows = [frame("MESSAGE", {"message_id": message_id(entry)}, subscription="a") for entry in range(100)]
    rows += [frame("ACK", {"consumer_id": 1, **individual(99 - entry)}, subscription="a") for entry in range(100)]
    fold = journeys.TABLE.make()
    assert isinstance(fold, LaneFold)
    fold.feed(rows, {})
    assert [lane.name for lane in fold.lanes()] == [f"7:{entry}" for entry in range(journeys.LANES_MAX)]
