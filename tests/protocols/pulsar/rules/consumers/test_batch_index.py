"""Partially acknowledged batches, and messages delivered again after their ACK."""

from __future__ import annotations

from pathlib import Path

import pytest

from pulsarscope.protocols.pulsar.ack_sets import bitmap
from pulsarscope.protocols.pulsar.message_ids import indexes_of
from pulsarscope.protocols.pulsar.rules.consumers import batch_index
from tests.places import CAPTURES
from tests.scenarios import command_frame
from tests.scenarios.commands import ack, close_consumer, delivery, error, flow, redeliver, subscribe, success
from tests.scenarios.connections import connected, subscribed
from tests.scenarios.conversation import SECOND
from tests.scenarios.evaluation import Diagnosis, diagnose
from tests.scenarios.rules.batch_index import batches


def test_the_capture_of_batch_index_acks_shows_what_is_left() -> None:
    """The program acknowledged two of three messages; according to their ack_set, the broker delivered the others to the next consumer."""
    diagnosis = Diagnosis(CAPTURES / "acks-batchindex.pcap")
    row, evidence = diagnosis.only("batch-partly-acked")
    assert (row.severity, evidence["consumer_name"], evidence["batches"], evidence["messages"]) == ("note", "cons-idx", 5, 13)
    left = {tuple(item["message_id"]): item["batch_indexes"] for item in evidence["not_acknowledged"]}
    again = [
        frame.fields or {}
        for frame in diagnosis.frames.values()
        if frame.command == "MESSAGE" and (frame.fields or {})["consumer_id"] == 2  # cons-idx2 of the same subscription
    ]
    assert len(again) == 5
    for fields in again:
        ident = fields["message_id"]
        assert indexes_of(bitmap(fields["ack_set"]), 64) == left[ident["ledgerId"], ident["entryId"]]
    assert "acked-redelivered" not in diagnosis.codes


def test_acks_add_up_over_an_entry(tmp_path: Path) -> None:
    """A set bit means not acknowledged; a later ack_set may repeat cleared bits."""
    talk = batches().client(ack(0, ack_set=[0b11111100])).client(ack(0, ack_set=[0b01111111])).client(ack(1, ack_set=[1]), ack(1))
    diagnosis = diagnose(tmp_path, talk.client(close_consumer()).close())
    row, evidence = diagnosis.only("batch-partly-acked")
    assert evidence["not_acknowledged"] == [{"message_id": (7, 0), "batch_indexes": [2, 3, 4, 5, 6]}]
    assert diagnosis.commands(row) == ["ACK"]


@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize("closing", [False, True])
def test_the_consumers_of_a_subscription_are_reported_together(tmp_path: Path, count: int, closing: bool) -> None:
    talk = batches(count)
    for number in range(2, count + 1):
        subscribed(talk, number)
    for number in range(1, count + 1):
        talk.client(ack(number - 1, number=number, ack_set=[0b11110000]))
    for number in range(1, count + 1) if closing else ():
        talk.client(close_consumer(number, 900 + number)).server(success(900 + number))
    row, evidence = diagnose(tmp_path, talk.close()).only("batch-partly-acked")
    assert (evidence["batches"], evidence["messages"], evidence["consumers"]) == (count, 4 * count, count)
    assert (row.text or "").startswith(f"{count} consumers of subscription ")


def test_another_consumer_may_acknowledge_the_rest(tmp_path: Path) -> None:
    talk = batches(1).client(ack(0, ack_set=[0b11110000]))
    subscribed(talk, 2).client(flow(1000, 2), close_consumer()).server(success(900))
    talk.server(delivery(0, 2, batch=8, ack_set=[0b11110000], again=1)).client(ack(0, number=2)).client(close_consumer(2, 901))
    assert "batch-partly-acked" not in diagnose(tmp_path, talk.server(success(901)).close()).codes


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_broker_that_closes_the_consumers_hides_none(tmp_path: Path, count: int) -> None:
    talk = batches(count)
    for number in range(2, count + 1):
        subscribed(talk, number)
    for number in range(1, count + 1):
        talk.client(ack(number - 1, number=number, ack_set=[0b11110000]))
    talk.server(*[command_frame("CLOSE_CONSUMER", consumer_id=number, request_id=0) for number in range(1, count + 1)])
    _, evidence = diagnose(tmp_path, talk.close()).only("batch-partly-acked")
    assert (evidence["batches"], evidence["messages"]) == (count, 4 * count)


def test_a_consumer_that_was_refused_acknowledges_nothing(tmp_path: Path) -> None:
    talk = batches(1).client(ack(0, ack_set=[0b11110000])).client(subscribe(2, "c2", 50, kind="Shared"))
    talk.client(close_consumer(1, 900)).server(success(900)).server(error(50, "ConsumerBusy", "no"))
    assert "batch-partly-acked" in diagnose(tmp_path, talk.close()).codes


def test_a_cumulative_ack_completes_what_is_before_it(tmp_path: Path) -> None:
    talk = subscribed(connected(), kind="Exclusive").client(flow(1000)).server(*[delivery(entry, batch=8) for entry in range(3)])
    talk.client(ack(0, kind="Cumulative", ack_set=[0b11000000])).client(ack(2, kind="Cumulative", ack_set=[0b10000000])).close()
    _, evidence = diagnose(tmp_path, talk).only("batch-partly-acked")
    assert evidence["not_acknowledged"] == [{"message_id": (7, 2), "batch_indexes": [7]}]


def test_whole_acks_leave_nothing(tmp_path: Path) -> None:
    codes = diagnose(tmp_path, batches().client(ack(0, 1)).client(close_consumer()).close()).codes
    assert codes == ["connection-closed-by-client"]  # its last request has no answer


def test_indexes_that_come_again_although_acknowledged_are_named(tmp_path: Path) -> None:
    talk = (
        batches().client(ack(0, ack_set=[0b11110000])).wait(5 * SECOND).client(redeliver(0)).server(delivery(0, batch=8, again=1)).close()
    )
    diagnosis = diagnose(tmp_path, talk)
    row, evidence = diagnosis.only("acked-redelivered")
    assert (row.severity, evidence["message_id"], evidence["batch_indexes"]) == ("note", [7, 0], [0, 1, 2, 3])
    assert diagnosis.commands(row) == ["ACK", "MESSAGE"]


@pytest.mark.parametrize("closed_by", ["client", "server"])
def test_a_whole_entry_too_unless_the_broker_closed_the_consumer(tmp_path: Path, closed_by: str) -> None:
    """The broker closes consumers for a seek and for an unload."""
    talk = batches().client(ack(0, 1)).wait(5 * SECOND)
    talk = talk.client(close_consumer()) if closed_by == "client" else talk.server(close_consumer(request=(1 << 64) - 1))
    subscribed(talk, 2).client(flow(1000, 2)).server(delivery(1, 2, batch=8)).close()
    assert ("acked-redelivered" in diagnose(tmp_path, talk).codes) == (closed_by == "client")


def test_what_the_ack_set_leaves_out_and_what_crosses_the_ack_is_none(tmp_path: Path) -> None:
    talk = batches().client(ack(0, ack_set=[0b11110000])).wait(5 * SECOND)
    talk.server(delivery(0, batch=8, ack_set=[0b11110000], again=1)).client(ack(1)).server(delivery(1, batch=8, again=1)).close()
    assert "acked-redelivered" not in diagnose(tmp_path, talk).codes


@pytest.mark.parametrize("command", ["SEEK", "UNSUBSCRIBE"])
def test_a_seek_may_bring_all_again(tmp_path: Path, command: str) -> None:
    talk = batches().client(ack(0, 1)).wait(5 * SECOND).client(command_frame(command, consumer_id=1, request_id=77))
    assert "acked-redelivered" not in diagnose(tmp_path, talk.server(delivery(0, batch=8)).close()).codes


def test_a_transaction_may_be_aborted(tmp_path: Path) -> None:
    talk = batches().client(ack(0, 1, txnid_least_bits=1, txnid_most_bits=0)).wait(5 * SECOND).server(delivery(0, batch=8)).close()
    assert "acked-redelivered" not in diagnose(tmp_path, talk).codes


def test_what_is_kept_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_index, "ENTRIES_MAX", 3)
    talk = batches(9).client(*[ack(entry, ack_set=[1]) for entry in range(9)])
    subscribed(talk, 2, subscription="other").client(ack(0, number=2, ack_set=[1])).close()
    _, evidence = diagnose(tmp_path, talk).only("batch-partly-acked")
    assert [item["message_id"] for item in evidence["not_acknowledged"]] == [(7, 6), (7, 7), (7, 8)]
    assert evidence["consumer_id"] == 1
