"""Acknowledgements without effect."""

from __future__ import annotations

from pathlib import Path

import pytest

from pulsarscope.protocols.pulsar.rules.consumers import acks
from tests.places import CAPTURES
from tests.scenarios.commands import ack, close_consumer, delivery, flow
from tests.scenarios.connections import connected, subscribed
from tests.scenarios.conversation import SECOND
from tests.scenarios.evaluation import Diagnosis, diagnose
from tests.scenarios.rules.acks import answered, behind_the_close, refused, unanswered


def test_an_ack_that_asked_and_got_no_answer_is_named(tmp_path: Path) -> None:
    diagnosis = diagnose(tmp_path, *unanswered())
    row, evidence = diagnosis.only("ack-unanswered")
    assert (row.severity, evidence["count"], evidence["subscription"]) == ("warning", 2, "s")
    assert diagnosis.commands(row) == ["ACK", "ACK"]
    assert "request-unanswered" not in diagnosis.codes


def test_one_that_was_answered_or_did_not_ask_is_not(tmp_path: Path) -> None:
    assert diagnose(tmp_path, *answered()).codes == []


def test_nor_is_one_at_the_end_of_the_capture(tmp_path: Path) -> None:
    talk = subscribed(connected()).client(flow(10)).server(delivery(1)).client(ack(1, request_id=50))
    assert "ack-unanswered" not in diagnose(tmp_path, talk).codes


def test_a_refused_ack_is_an_error(tmp_path: Path) -> None:
    diagnosis = diagnose(tmp_path, *refused())
    row, evidence = diagnosis.only("ack-failed")
    assert (row.severity, evidence["error"], diagnosis.commands(row)) == ("error", "PersistenceError", ["ACK", "ACK_RESPONSE"])
    assert "request-failed" not in diagnosis.codes


def test_an_ack_behind_the_close_is_lost(tmp_path: Path) -> None:
    diagnosis = diagnose(tmp_path, *behind_the_close())
    row, evidence = diagnosis.only("ack-after-close")
    assert (row.severity, evidence["count"], diagnosis.commands(row)) == ("warning", 1, ["CLOSE_CONSUMER", "ACK"])
    assert "closed by its client" in (row.text or "")


def test_one_that_crosses_the_broker_s_close_is_not_said_but_a_later_one_is(tmp_path: Path) -> None:
    talk = subscribed(connected()).client(flow(10)).server(delivery(1)).server(close_consumer(request=(1 << 64) - 1)).client(ack(1))
    assert "ack-after-close" not in diagnose(tmp_path, talk).codes
    talk.wait(3 * SECOND).client(ack(1)).close()
    row, evidence = diagnose(tmp_path, talk).only("ack-after-close")
    assert evidence["count"] == 1
    assert "closed by the broker" in (row.text or "")


def test_a_new_consumer_of_the_number_may_acknowledge(tmp_path: Path) -> None:
    talk = subscribed(connected()).client(flow(10)).client(close_consumer())
    subscribed(talk).client(flow(10)).server(delivery(1)).client(ack(1)).close()
    assert "ack-after-close" not in diagnose(tmp_path, talk).codes


def test_an_ack_that_reports_damage_is_an_error() -> None:
    diagnosis = Diagnosis(CAPTURES / "raw-checksum.pcap")
    findings = diagnosis.of("consumer-corrupt")
    assert [(row.severity, (row.evidence or {})["validation_error"], (row.evidence or {})["message_ids"]) for row in findings] == [
        ("error", "UncompressedSizeCorruption", [(0, 0)]),
        ("error", "DecompressionError", [(0, 1)]),
        ("error", "ChecksumMismatch", [(0, 2)]),
        ("error", "BatchDeSerializeError", [(0, 3)]),
        ("error", "DecryptionError", [(0, 4)]),
    ]
    assert diagnosis.commands(findings[0]) == ["ACK"]


def test_a_client_that_reports_it_in_a_loop_is_not_quoted_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acks, "CORRUPT_MAX", 3)
    talk = subscribed(connected()).client(*[ack(entry, validation_error="DecompressionError") for entry in range(9)])
    assert len(diagnose(tmp_path, talk).of("consumer-corrupt")) == 3
