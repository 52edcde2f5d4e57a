"""Transactions that stay open, and those with a refused step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pulsarscope.model.findings import ERROR, WARNING
from pulsarscope.protocols.pulsar.rules.exchanges.transactions import COORDINATORS
from tests.scenarios import Conversation
from tests.scenarios.commands import PING, PONG, TOPIC, ack, ack_response, created, producer, receipt, send, subscribe, success
from tests.scenarios.connections import connected, wait_until
from tests.scenarios.conversation import SECOND
from tests.scenarios.evaluation import findings_in, findings_of, only, problem_codes, with_code
from tests.scenarios.frames import command_frame
from tests.scenarios.rules.transactions import ID, begun, ended


@pytest.mark.parametrize("capture", ["lo-java-txn.pcap", "rw-raw-ip.pcap"])
def test_transactions_that_are_committed_or_aborted_are_healthy(capture: str) -> None:
    rows = findings_in(capture)
    assert with_code(rows, "txn-open") == with_code(rows, "txn-failed") == []


def test_one_that_outlives_its_timeout_is_open(tmp_path: Path) -> None:
    talk = begun().client(producer(request=7)).server(created(request=7)).client(send(1, 0, **ID)).server(receipt())
    wait_until(talk, 90 * SECOND).client(PING).server(PONG)
    rows = findings_of(tmp_path, talk)
    text, evidence = only(rows, "txn-open")
    assert "(3,5) on persistent://public/default/t has no END_TXN after 90.0 s: its timeout of 60.0 s, which aborts it, had passed" in text
    assert "passed 30.0 s earlier; its connection is open; " in text
    assert text.endswith("steps seen: 1 NEW_TXN, 1 ADD_PARTITION_TO_TXN, 1 SEND.")
    assert [(step["frame"], step["command"], step["about"]) for step in evidence["steps"]] == [
        ("0:7.1", "NEW_TXN", None),
        ("0:8.1", "ADD_PARTITION_TO_TXN", TOPIC),
        ("0:12.1", "SEND", TOPIC),
    ]
    row = with_code(rows, "txn-open")[0]
    assert (row.severity, row.packet) == (WARNING, 7)


def test_one_that_its_client_leaves_is_open(tmp_path: Path) -> None:
    text, evidence = only(findings_of(tmp_path, begun().close("client")), "txn-open")
    assert "the client closed the connection" in text
    assert evidence["closed_by"] == "client"


@pytest.mark.parametrize(
    ("seconds", "end"), [(61, "open"), (61, "client"), (100, "client"), (100, "server"), (59, "client"), (5, "server")]
)
def test_one_is_said_to_have_timed_out_if_the_capture_shows_it(tmp_path: Path, seconds: int, end: str) -> None:
    talk = wait_until(begun(), seconds * SECOND).client(PING).server(PONG)
    text, evidence = only(findings_of(tmp_path, talk if end == "open" else talk.close(end)), "txn-open")
    assert ("its timeout of 60.0 s, which aborts it, had passed" in text) is (seconds > 60)
    assert ("its timeout is 60.0 s" in text) is (seconds < 60)
    assert (evidence["age_ns"] > evidence["ttl_ns"]) is (seconds > 60)


def test_one_that_has_time_left_when_the_capture_ends_is_none(tmp_path: Path) -> None:
    assert problem_codes(findings_of(tmp_path, begun())) == []


@pytest.mark.parametrize("action", ["COMMIT", "ABORT"])
def test_one_that_ends_is_none_whichever_way(action: str, tmp_path: Path) -> None:
    assert problem_codes(findings_of(tmp_path, ended(begun(), action))) == []


def test_one_that_ends_on_another_connection_is_none(tmp_path: Path) -> None:
    other = ended(connected(40001, start=2 * SECOND))
    assert with_code(findings_of(tmp_path, begun().close("server"), other), "txn-open") == []


@pytest.mark.parametrize(("side", "size", "named"), [("client", 40, False), ("client", 10, True), ("server", 40, True)])
def test_one_whose_end_the_capture_may_lack_is_none(side: str, size: int, named: bool, tmp_path: Path) -> None:
    talk = begun().lose(side, size).wait(SECOND).client(PING).server(PONG).close("client")
    assert bool(with_code(findings_of(tmp_path, talk), "txn-open")) == named


def test_a_step_that_is_refused_is_reported_with_the_whole_transaction(tmp_path: Path) -> None:
    rows = findings_of(tmp_path, ended(begun(), error="TransactionNotFound", message="expired"))
    text, evidence = only(rows, "txn-failed")
    assert text.startswith("END_TXN of transaction (3,5) was refused with TransactionNotFound: expired")
    assert text.endswith("steps seen: 1 NEW_TXN, 1 ADD_PARTITION_TO_TXN, 1 END_TXN.")
    assert evidence["frames"] == ["0:10.1", "0:11.1"]
    assert problem_codes(rows) == ["txn-failed"]
    assert with_code(rows, "txn-failed")[0].severity == ERROR


def test_a_conflict_of_acknowledgements_is_reported_with_its_topic(tmp_path: Path) -> None:
    talk = begun().client(subscribe(request=7, kind="Shared"))
    talk.server(success(7))
    talk.client(ack(0, request_id=8, **ID))
    talk.server(ack_response(8, error="TransactionConflict", message="taken", **ID))
    text, _ = only(findings_of(tmp_path, ended(talk)), "txn-failed")
    assert text.startswith(f"ACK for {TOPIC} of transaction (3,5) was refused with TransactionConflict: taken")


def test_one_that_cannot_begin_is_reported_without_an_id(tmp_path: Path) -> None:
    talk = connected().client(command_frame("NEW_TXN", request_id=1, txn_ttl_millis=60_000, tc_id=0))
    talk.server(command_frame("NEW_TXN_RESPONSE", request_id=1, error="TransactionCoordinatorNotFound", message="none")).close()
    text, _ = only(findings_of(tmp_path, talk), "txn-failed")
    assert text == "NEW_TXN was refused with TransactionCoordinatorNotFound: none; no transaction is known for it."


def asking(topic: str, **answer: Any) -> Conversation:
    """A client that asks for the partitions of a topic, and is answered."""
    talk = connected().client(command_frame("PARTITIONED_METADATA", topic=topic, request_id=1))
    return talk.server(command_frame("PARTITIONED_METADATA_RESPONSE", request_id=1, **answer)).wait(SECOND).close()


@pytest.mark.parametrize("again", [False, True])
def test_a_broker_without_a_transaction_coordinator_is_named_once(again: bool, tmp_path: Path) -> None:
    talk = asking(COORDINATORS, response="Success", partitions=0)
    if again:
        talk = connected()
        for number in range(1, 4):
            talk.client(command_frame("PARTITIONED_METADATA", topic=COORDINATORS, request_id=number)).server(
                command_frame("PARTITIONED_METADATA_RESPONSE", request_id=number, response="Success")
            )
    rows = findings_of(tmp_path, talk)
    text, evidence = only(rows, "txn-unavailable")
    assert text == (
        f"Client 10.0.0.1 wants transactions, but broker 10.0.0.2:6650 has no transaction coordinator: {COORDINATORS} has no partitions."
    )
    assert (len(evidence["frames"]), problem_codes(rows)) == (2, ["txn-unavailable"])


@pytest.mark.parametrize(
    ("topic", "answer"),
    [
        (COORDINATORS, {"response": "Success", "partitions": 1}),
        (COORDINATORS, {"response": "Success", "partitions": 16}),
        (COORDINATORS, {"response": "Failed", "error": "ServiceNotReady", "message": "not now"}),
        (TOPIC, {"response": "Success", "partitions": 0}),
        (f"{COORDINATORS}-partition-0", {"response": "Success", "partitions": 0}),
    ],
)
def test_a_coordinator_may_be_there(topic: str, answer: dict[str, Any], tmp_path: Path) -> None:
    assert "txn-unavailable" not in problem_codes(findings_of(tmp_path, asking(topic, **answer)))
