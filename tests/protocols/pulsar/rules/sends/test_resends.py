"""Messages that are corrupted when they leave their producer, and endless resends."""

from __future__ import annotations

import pulsarscope as ps
from pulsarscope.model.findings import ERROR, WARNING
from tests.places import CAPTURES
from tests.scenarios.commands import receipt, send, send_error
from tests.scenarios.dialogue import RuleDialogue
from tests.scenarios.frames import message_metadata, payload_frame
from tests.scenarios.rules.resends import REFUSAL

BAD = payload_frame("SEND", message_metadata(), b"payload", checksum=0xDEADBEEF, producer_id=1, sequence_id=0)


def test_the_real_broker_refuses_what_its_producer_sent_corrupted() -> None:
    rows = [row for row in ps.open(str(CAPTURES / "raw-checksum.pcap")).findings() if row.code == "message-corrupted"]
    assert [(row.packet, row.severity) for row in rows] == [(22, ERROR), (24, ERROR)]
    assert [(row.evidence or {})["frames"] for row in rows] == [["0:22.1", "0:23.1"], ["0:24.1", "0:25.1"]]
    assert "by the producer, or between it and the place of the capture" in (rows[0].text or "")


def test_a_right_checksum_that_is_refused_was_damaged_on_the_way_to_the_broker() -> None:
    rows = [row for row in RuleDialogue().client(send()).server(REFUSAL).end() if row.code == "message-corrupted"]
    assert len(rows) == 1
    assert "between the place of the capture and the broker" in (rows[0].text or "")
    assert (rows[0].evidence or {})["frames"] == ["0:1.1", "0:2.1"]


def test_one_resend_that_succeeds_is_no_loop() -> None:
    talk = RuleDialogue().client(BAD).server(REFUSAL).client(send()).server(receipt())
    rows = {row.code: row for row in talk.end()}
    assert "resend-loop" not in rows
    evidence = rows["message-corrupted"].evidence or {}
    assert (evidence["sent"], evidence["bad"], evidence["refused"]) == (2, 1, 1)
    assert evidence["frames"] == ["0:1.1", "0:2.1", "0:3.1", "0:4.1"]
    assert "the broker took it in the end" in (rows["message-corrupted"].text or "")


def test_three_refusals_of_one_message_are_a_loop() -> None:
    talk = RuleDialogue()
    for _ in range(3):
        talk.client(send()).server(REFUSAL)
    rows = {row.code: row for row in talk.end()}
    assert rows["resend-loop"].severity == WARNING
    assert (rows["resend-loop"].evidence or {})["refused"] == 3
    assert (rows["resend-loop"].evidence or {})["frames"] == [f"0:{packet}.1" for packet in range(1, 7)]


def test_a_receipt_of_another_chunk_is_not_taken_for_the_bad_ones() -> None:
    chunk = {"uuid": "u", "num_chunks_from_msg": 2, "chunk_id": 0}
    talk = RuleDialogue().client(send(is_chunk=True, metadata=chunk), BAD).server(receipt())
    rows = [row for row in talk.end() if row.code == "message-corrupted"]
    assert "the broker never took it" in (rows[0].text or "")


def test_other_refusals_are_no_corruption() -> None:
    refusal = send_error("PersistenceError", "full")
    assert "message-corrupted" not in RuleDialogue().client(send()).server(refusal).codes()
