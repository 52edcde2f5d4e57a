"""Records of journeys: a row for each message and subscription."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import pulsarscope as ps
from pulsarscope.engine import facts, local
from pulsarscope.engine.options import Options
from pulsarscope.model.records import JourneyRow, MessageRow
from pulsarscope.protocols import make_dissectors
from pulsarscope.protocols.pulsar.tables.journeys import Journeys
from tests.places import CAPTURES
from tests.scenarios.commands import ack, message, producer, receipt, send, subscribe
from tests.scenarios.conversation import MILLISECOND
from tests.scenarios.dialogue import RuleDialogue
from tests.scenarios.frames import Single, batch

TOPIC = "persistent://public/default/orders"
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
RECORDED = ["acks-batchindex.pcap", "java-chunk-interleaved.pcap.zst", "go-nack-dlq-gz.pcap.gz", "bookkeeper/e3.pcap.zst"]


def talk() -> RuleDialogue:
    """Packets 1 to 3: a producer and the consumers of two subscriptions."""
    dialogue = RuleDialogue(journeys=True).client(producer(name="billing", topic=TOPIC))
    for on, name in (("0:50", "audit"), ("0:60", "mail")):
        dialogue.client(subscribe(1, topic=TOPIC, subscription=name), on=on)
    return dialogue


def traced() -> list[dict[str, str]]:
    """Properties with a trace."""
    return [{"key": "traceparent", "value": f"00-{TRACE}-{SPAN}-01"}]


def journeys(dialogue: RuleDialogue) -> dict[tuple[int, int | None, str | None], JourneyRow]:
    """Return the rows by entry, index in the batch, and subscription."""
    dialogue.end()
    rows = {(row.entry, row.batch_index, row.subscription): row for row in dialogue.journeys}
    assert len(rows) == len(dialogue.journeys)
    return rows


def test_a_message_has_a_row_for_each_subscription_with_the_times_of_its_steps() -> None:
    dialogue = talk().client(send(metadata={"properties": traced()})).server(receipt())  # 4, 5
    dialogue.server(message(), on="0:50").server(message(), on="0:60")  # 6, 7
    dialogue.server(message(redelivery_count=1), on="0:50").client(ack(0), on="0:50")  # 8, 9
    rows = journeys(dialogue)
    assert list(rows) == [(0, None, "audit"), (0, None, "mail")]
    audit, mail = rows.values()
    assert (audit.packet, audit.connection, audit.topic, audit.producer_name, audit.ledger) == (4, "0:1", TOPIC, "billing", 7)
    assert (audit.send_frame, audit.receipt_frame, audit.receipt_ns) == ("0:4.1", "0:5.1", MILLISECOND)
    assert (audit.delivery_frame, audit.delivery_ns) == ("0:6.1", 2 * MILLISECOND)
    assert [each["frame"] for each in audit.deliveries] == ["0:6.1", "0:8.1"]
    assert (audit.ack_frame, audit.ack_ns) == ("0:9.1", MILLISECOND)
    assert (mail.delivery_ns, mail.ack_frame, mail.ack_ns) == (3 * MILLISECOND, None, None)
    assert (audit.trace_id, audit.span_id, mail.dissector) == (TRACE, SPAN, "pulsar")


def replicated(dialogue: RuleDialogue, origin: str = "7:0", *, ledger: int = 7, entry: int = 0) -> RuleDialogue:
    """A replicator copies a message to the broker of another cluster, which delivers it."""
    properties = [{"key": "__MSG_PROP_REPL_SOURCE_POSITION", "value": origin}] if origin else []
    metadata: dict[str, Any] = {"producer_name": "billing", "replicated_from": "east", "properties": properties}
    dialogue.client(producer(name="pulsar.repl.east-->west", topic=TOPIC), send(metadata=metadata), on="0:70")
    dialogue.server(receipt(ledger=ledger, entry=entry), on="0:70").client(subscribe(1, topic=TOPIC, subscription="mail"), on="0:80")
    return dialogue.server(message(ledger=ledger, entry=entry, metadata=metadata), on="0:80")


@pytest.mark.parametrize(("ledger", "entry"), [(7, 0), (7, 5), (90, 0)])
def test_a_message_is_followed_from_cluster_to_cluster_though_both_may_count_alike(ledger: int, entry: int) -> None:
    dialogue = talk().client(send()).server(receipt()).server(message(), on="0:50")  # 4 to 6
    replicated(dialogue, ledger=ledger, entry=entry).end()  # 7 to 11
    local, copy = sorted(dialogue.journeys, key=lambda row: row.packet)
    assert (local.ledger, local.entry, local.subscription, local.send_frame) == (7, 0, "audit", "0:4.1")
    assert [(each["frame"], each["connection"]) for each in local.replications] == [("0:8.1", "0:70")]
    assert (local.replicated_from, local.origin) == (None, None)
    assert (copy.ledger, copy.entry, copy.subscription, copy.send_frame, copy.delivery_frame) == (ledger, entry, "mail", "0:8.1", "0:11.1")
    assert (copy.replicated_from, copy.origin, copy.replications) == ("east", "7:0", None)


@pytest.mark.parametrize("origin", ["", "7", "7:x", "\x1b[31m7:0", "7:0:0"])
def test_a_replicator_that_gives_no_place_in_its_cluster_gives_the_cluster_alone(origin: str) -> None:
    dialogue = talk().client(send()).server(receipt())
    replicated(dialogue, origin, ledger=90).end()
    local, copy = sorted(dialogue.journeys, key=lambda row: row.packet)
    assert (local.replications, copy.replicated_from, copy.origin) == (None, "east", None)


def test_a_message_that_nobody_gets_has_one_row_and_one_without_a_receipt_none() -> None:
    (row,) = journeys(talk().client(send()).server(receipt()).client(send(sequence_id=1))).values()
    assert (row.subscription, row.delivery_frame, row.receipt_ns, row.entry) == (None, None, MILLISECOND, 0)


def test_a_message_whose_send_is_not_in_the_capture_begins_with_its_delivery() -> None:
    (row,) = journeys(talk().server(message(), on="0:60").client(ack(0), on="0:60")).values()
    assert (row.packet, row.connection, row.subscription) == (4, "0:60", "mail")
    assert (row.send_frame, row.receipt_frame, row.delivery_ns, row.ack_ns) == (None, None, None, MILLISECOND)


def test_a_cumulative_ack_takes_the_entries_of_its_consumer_before_it() -> None:
    dialogue = talk()
    for entry in range(3):
        dialogue.server(message(entry=entry), on="0:50").server(message(entry=entry), on="0:60")
    rows = journeys(dialogue.client(ack(1, kind="Cumulative"), on="0:50"))
    assert {key for key, row in rows.items() if row.ack_frame} == {(0, None, "audit"), (1, None, "audit")}


def test_messages_of_a_batch_are_acknowledged_one_by_one() -> None:
    three = batch([Single(b"a", {"properties": traced()}), Single(b"b"), Single(b"c")])
    dialogue = talk().server(message(payload=three, metadata={"num_messages_in_batch": 3}), on="0:50")  # 4
    dialogue.client(ack(0, ack_set=[0b101]), on="0:50").client(ack(0), on="0:50")  # 5, 6
    rows = journeys(dialogue)
    assert {index: row.ack_frame for (_, index, _), row in rows.items()} == {0: "0:6.1", 1: "0:5.1", 2: "0:6.1"}
    assert {index: row.trace_id for (_, index, _), row in rows.items()} == {0: TRACE, 1: None, 2: None}
    assert {row.batch_size for row in rows.values()} == {3}


def test_a_marker_is_no_message() -> None:
    marker = send(sequence_id=0, metadata={"marker_type": 10, "replicated_from": "east"}, marker=True)
    (row,) = journeys(talk().client(send()).server(receipt()).client(marker).server(receipt(entry=1))).values()
    assert row.entry == 0


def test_messages_of_non_persistent_topics_have_none() -> None:
    assert not journeys(talk().client(send()).server(receipt(ledger=0)).server(message(ledger=0), on="0:50"))


@pytest.mark.parametrize("name", RECORDED)
def test_every_stored_message_of_a_recording_has_its_rows(name: str) -> None:
    messages: Counter[Any] = Counter()
    rows: Counter[Any] = Counter()
    for row in ps.open(CAPTURES / name).records("message", "journey"):
        if isinstance(row, MessageRow) and row.ledger is not None and row.direction in ("produce", "deliver") and not row.acknowledged:
            messages[row.topic, row.ledger, row.entry, row.batch_index] = 1
        elif isinstance(row, JourneyRow):
            rows[row.topic, row.ledger, row.entry, row.batch_index, row.subscription] += 1
    assert messages.keys() == {key[:4] for key in rows}
    assert set(rows.values()) == {1}


@pytest.mark.parametrize("name", [name for name in RECORDED if "chunk" not in name])
def test_the_table_of_statistics_measures_the_same(name: str) -> None:
    """It counts entries instead of messages, and every chunk."""
    capture = ps.open(CAPTURES / name)
    fold = Journeys()
    fold.feed(capture.frames(), {})
    measured = {(record["topic"], record["subscription"]): record for record in fold.records()}
    slowest: dict[Any, int] = {}
    for row in capture.journeys():
        for step, time in (("receipt", row.receipt_ns), ("delivery", row.delivery_ns), ("ack", row.ack_ns)):
            if time is not None:
                key = row.topic, None if step == "receipt" else row.subscription, step
                slowest[key] = max(time, slowest.get(key, 0))
    assert slowest
    for (topic, subscription, step), time in slowest.items():
        if step != "ack":  # it measures only the first delivery of these
            assert measured[topic, subscription][f"{step}_max_ns"] == time


def test_storage_is_that_of_the_entry() -> None:
    rows = list(ps.open(CAPTURES / "bookkeeper" / "e3.pcap.zst").journeys())
    assert {(row.storage_writes, len(row.storage_bookies or ())) for row in rows} == {(2, 2)}
    for row in rows:
        assert row.storage_time is not None
        assert row.send_time is not None
        assert row.receipt_ns is not None
        assert row.storage_ns is not None
        assert 0 < row.storage_ns <= row.receipt_ns - (row.storage_time - row.send_time)


def test_rows_are_handed_on_some_at_a_time_in_the_order_of_the_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "KEYS_TOGETHER", 3)
    options = Options(frozenset({"journey"}), dissectors=make_dissectors)
    batches = [batch.rows for batch in local.run([str(CAPTURES / "bookkeeper" / "e3.pcap.zst")], options) if batch.rows]
    assert len(batches) > 4
    rows = [row for batch in batches for row in batch]
    assert rows == sorted(rows, key=lambda row: row.packet)
    assert rows == list(ps.open(CAPTURES / "bookkeeper" / "e3.pcap.zst").journeys())


def test_memory_is_bounded_and_rows_that_it_parts_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "FACTS_MAX_BYTES", 10_000)
    monkeypatch.setattr(facts, "JOURNEYS_MAX_BYTES", 10_000)
    dialogue = talk()
    for entry in range(60):
        dialogue.client(send(sequence_id=entry)).server(receipt(sequence_id=entry, entry=entry))
    dialogue.server(message(entry=0), on="0:50")
    dialogue.end()
    parts = [row for row in dialogue.journeys if row.entry == 0]
    assert [(row.send_frame is None, row.delivery_frame is None) for row in parts] == [(False, True), (True, False)]
    assert "memory-cap" in [row.code for row in dialogue.findings]
