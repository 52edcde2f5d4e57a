"""Transactions that stay open, and those of which a step is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pulsarscope.model.findings import ERROR, WARNING
from tests.encoder.conversation import Conversation
from tests.encoder.dialogue import receipt, send
from tests.encoder.frames import command_frame
from tests.protocols.pulsar.rules.recorded import SECOND, TOPIC, created, dial, found_in, judged, of, only, producer, troubles, until

ID: dict[str, Any] = {"txnid_most_bits": 3, "txnid_least_bits": 5}


def begun() -> Conversation:
    """Packets 6 and 7 begin it, 8 and 9 add a partition."""
    told = dial().client(command_frame("NEW_TXN", request_id=1, txn_ttl_millis=60_000, tc_id=0))
    told.server(command_frame("NEW_TXN_RESPONSE", request_id=1, **ID))
    told.client(command_frame("ADD_PARTITION_TO_TXN", request_id=2, partitions=[TOPIC], **ID))
    return told.server(command_frame("ADD_PARTITION_TO_TXN_RESPONSE", request_id=2, **ID))


def ended(told: Conversation, action: str = "COMMIT", **answer: Any) -> Conversation:
    told.client(command_frame("END_TXN", request_id=3, txn_action=action, **ID))
    return told.server(command_frame("END_TXN_RESPONSE", request_id=3, **(answer or ID))).close()


@pytest.mark.parametrize("capture", ["lo-java-txn.pcap", "rw-raw-ip.pcap"])
def test_transactions_that_are_committed_or_aborted_are_healthy(capture: str) -> None:
    found = found_in(capture)
    assert of(found, "txn-open") == of(found, "txn-failed") == []


def test_one_that_outlives_its_timeout_is_open(tmp_path: Path) -> None:
    told = begun().client(producer(request=7)).server(created(request=7)).client(send(1, 0, **ID)).server(receipt())
    until(told, 90 * SECOND).client(command_frame("PING")).server(command_frame("PONG"))
    found = judged(tmp_path, told)
    text, evidence = only(found, "txn-open")
    assert "Transaction (3,5) has no END_TXN after 90.0 s, its timeout is 60.0 s; its connection is open" in text
    assert text.endswith("steps seen: 1 NEW_TXN, 1 ADD_PARTITION_TO_TXN, 1 SEND.")
    assert [(step["frame"], step["command"], step["about"]) for step in evidence["steps"]] == [
        ("0:7.1", "NEW_TXN", None),
        ("0:8.1", "ADD_PARTITION_TO_TXN", TOPIC),
        ("0:12.1", "SEND", TOPIC),
    ]
    row = of(found, "txn-open")[0]
    assert (row.severity, row.packet) == (WARNING, 7)


def test_one_that_its_client_leaves_is_open(tmp_path: Path) -> None:
    text, evidence = only(judged(tmp_path, begun().close("client")), "txn-open")
    assert "the client closed the connection" in text
    assert evidence["closed_by"] == "client"


def test_one_that_has_time_left_when_the_capture_ends_is_none(tmp_path: Path) -> None:
    assert troubles(judged(tmp_path, begun())) == []


@pytest.mark.parametrize("action", ["COMMIT", "ABORT"])
def test_one_that_ends_is_none_whichever_way(action: str, tmp_path: Path) -> None:
    assert troubles(judged(tmp_path, ended(begun(), action))) == []


def test_one_that_ends_on_another_connection_is_none(tmp_path: Path) -> None:
    other = ended(dial(40001, start=2 * SECOND))
    assert of(judged(tmp_path, begun().close("server"), other), "txn-open") == []


def test_a_step_that_is_refused_is_told_with_the_whole_transaction(tmp_path: Path) -> None:
    found = judged(tmp_path, ended(begun(), error="TransactionNotFound", message="expired"))
    text, evidence = only(found, "txn-failed")
    assert text.startswith("END_TXN of transaction (3,5) was refused with TransactionNotFound: expired")
    assert text.endswith("steps seen: 1 NEW_TXN, 1 ADD_PARTITION_TO_TXN, 1 END_TXN.")
    assert evidence["frames"] == ["0:10.1", "0:11.1"]
    assert troubles(found) == ["txn-failed"]
    assert of(found, "txn-failed")[0].severity == ERROR


def test_a_conflict_of_acknowledgements_is_told_with_its_topic(tmp_path: Path) -> None:
    told = begun().client(command_frame("SUBSCRIBE", topic=TOPIC, subscription="s", subType="Shared", consumer_id=1, request_id=7))
    told.server(command_frame("SUCCESS", request_id=7))
    told.client(command_frame("ACK", consumer_id=1, ack_type="Individual", message_id=[{"ledgerId": 7, "entryId": 0}], request_id=8, **ID))
    told.server(command_frame("ACK_RESPONSE", consumer_id=1, request_id=8, error="TransactionConflict", message="taken", **ID))
    text, _ = only(judged(tmp_path, ended(told)), "txn-failed")
    assert text.startswith(f"ACK for {TOPIC} of transaction (3,5) was refused with TransactionConflict: taken")


def test_one_that_cannot_begin_is_told_without_an_id(tmp_path: Path) -> None:
    told = dial().client(command_frame("NEW_TXN", request_id=1, txn_ttl_millis=60_000, tc_id=0))
    told.server(command_frame("NEW_TXN_RESPONSE", request_id=1, error="TransactionCoordinatorNotFound", message="none")).close()
    text, _ = only(judged(tmp_path, told), "txn-failed")
    assert text == "NEW_TXN was refused with TransactionCoordinatorNotFound: none; no transaction is known for it."
