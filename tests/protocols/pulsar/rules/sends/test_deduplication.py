"""Messages dropped as duplicates, and sequence ids that go back."""

from __future__ import annotations

from pathlib import Path

import pytest

from pulsarscope.model.findings import NOTE, WARNING
from pulsarscope.protocols.pulsar.rules.sends import sequences
from tests.places import CAPTURES
from tests.scenarios.commands import close_producer, created, producer, receipt, send, send_error
from tests.scenarios.connections import connected
from tests.scenarios.conversation import SECOND
from tests.scenarios.evaluation import findings_in, findings_of, only, problem_codes, with_code
from tests.scenarios.rules.deduplication import MINUS_ONE, dropped, dropped_at_once, producing, sends, sent_again


@pytest.mark.parametrize("capture", sorted(path.name for path in CAPTURES.glob("*.pcap*")))
def test_no_real_client_goes_back(capture: str) -> None:
    codes = {row.code for row in findings_in(capture)}
    assert not codes & {"message-duplicate-dropped", "sequence-regression", "resend-deduplicated"}


def test_a_message_that_was_not_sent_before_is_perhaps_lost(tmp_path: Path) -> None:
    rows = findings_of(tmp_path, *dropped_at_once())
    text, evidence = only(rows, "message-duplicate-dropped")
    assert "the broker dropped 2 of 3 SENDs as duplicates, though the capture shows no earlier copy: sequence ids 5 and 6" in text
    assert (evidence["count"], evidence["stored"], evidence["frames"]) == (2, 10, ["0:9.1", "0:11.1"])
    text, evidence = only(rows, "sequence-regression")
    assert "begins with sequence id 5, though the broker has stored up to 10" in text
    assert evidence["frames"] == ["0:6.1", "0:8.1"]
    assert {row.severity for row in with_code(rows, "message-duplicate-dropped")} == {WARNING}


def test_what_is_sent_again_after_a_reconnect_is_no_loss(tmp_path: Path) -> None:
    rows = findings_of(tmp_path, *sent_again())
    text, evidence = only(rows, "resend-deduplicated")
    assert "the broker dropped 2 of 3 SENDs as duplicates that were sent again after a reconnect" in text
    assert evidence["count"] == 2
    assert {row.severity for row in with_code(rows, "resend-deduplicated")} == {NOTE}
    assert with_code(rows, "sequence-regression") == with_code(rows, "message-duplicate-dropped") == []


def test_very_many_are_counted_though_few_are_named(tmp_path: Path) -> None:
    count = 100
    first = producing().client(*(send(1, number) for number in range(count))).reset()
    again = producing(40001, SECOND, stored=count - 1, epoch=1)
    again.client(*(send(1, number) for number in range(count))).server(*(dropped(number) for number in range(count)))
    rows = findings_of(tmp_path, first, sends(again, count).close())
    text, evidence = only(rows, "resend-deduplicated")
    assert evidence["count"] == count
    assert "sequence ids 0, 1, 2, 3, 4 and 95 more" in text
    assert with_code(rows, "message-duplicate-dropped") == []


def test_a_fresh_one_behind_many_that_were_sent_again_is_reported(tmp_path: Path) -> None:
    first = producing().client(*(send(1, number) for number in range(30))).reset()
    again = producing(40001, SECOND, stored=30, epoch=1)
    again.client(*(send(1, number) for number in range(31))).server(*(dropped(number) for number in range(31)))
    rows = findings_of(tmp_path, first, again.close())
    assert "sequence ids 30 and 5 more" in only(rows, "message-duplicate-dropped")[0]
    assert sum((row.evidence or {})["count"] for row in rows if row.code in ("message-duplicate-dropped", "resend-deduplicated")) == 31


def test_repeated_ids_are_counted_and_named_among_very_many_lower_ones(tmp_path: Path) -> None:
    talk = sends(producing(), 200, *range(100), 200, 200)
    text, evidence = only(findings_of(tmp_path, talk.close()), "sequence-regression")
    assert "sent 102 messages with a sequence id that is not above those before: 0 after 200, 1 after 200, " in text
    assert "4 after 200 and 97 more" in text
    assert evidence["count"] == 102


def test_what_is_kept_of_one_connection_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequences, "CONNECTION_SAMPLES_MAX", 3)
    talk = connected()
    for number in (1, 2):
        talk.client(producer(number, f"p{number}", number)).server(created(f"p{number}", number, last_sequence_id=9))
        for sent in range(5):
            talk.client(send(number, sent)).server(receipt(number, sent, MINUS_ONE, MINUS_ONE))
    rows = with_code(findings_of(tmp_path, talk.close()), "message-duplicate-dropped")
    assert [((row.evidence or {})["count"], len((row.evidence or {})["frames"])) for row in rows] == [(5, 4), (5, 2)]


def test_a_producer_that_begins_anew_under_its_old_name(tmp_path: Path) -> None:
    first = sends(producing(stored=-1), 0, 1, 2).close()
    second = producing(40001, SECOND, stored=2).client(send(1, 0, b"another")).server(dropped(0)).close()
    rows = findings_of(tmp_path, first, second)
    text, _ = only(rows, "sequence-regression")
    assert "begins with sequence id 0, though the broker has stored up to 2, 2 had its receipt: messages up to 2 will be dropped" in text
    assert len(with_code(rows, "message-duplicate-dropped")) == 1


def test_without_deduplication_a_restart_at_zero_is_healthy(tmp_path: Path) -> None:
    first = sends(producing(), 0, 1, 2).close("client")
    second = sends(producing(40001, SECOND), 0, 1).close("client")
    assert with_code(findings_of(tmp_path, first, second), "sequence-regression") == []


def test_a_reconnect_whose_past_is_not_in_the_capture_is_not_evaluated(tmp_path: Path) -> None:
    talk = producing(stored=5, epoch=1).client(send(1, 4)).server(dropped(4)).close()
    rows = findings_of(tmp_path, talk)
    assert with_code(rows, "sequence-regression") == with_code(rows, "message-duplicate-dropped") == []
    assert len(with_code(rows, "resend-deduplicated")) == 1


def test_an_id_that_comes_twice_is_reported_with_the_one_before(tmp_path: Path) -> None:
    text, evidence = only(findings_of(tmp_path, sends(producing(), 0, 1, 1, 2).close()), "sequence-regression")
    assert "sent 1 message with a sequence id that is not above those before: 1 after 1" in text
    assert (evidence["frames"], evidence["count"]) == (["0:12.1"], 1)


def test_what_is_sent_again_after_a_refusal_is_no_regression(tmp_path: Path) -> None:
    refusal = send_error("ChecksumError", "bad")
    talk = sends(producing().client(send(1, 0)).server(refusal), 0, 1).close()
    assert with_code(findings_of(tmp_path, talk), "sequence-regression") == []


def test_chunks_share_the_id_of_their_message(tmp_path: Path) -> None:
    talk = producing()
    for chunk in range(3):
        metadata = {"uuid": "u", "num_chunks_from_msg": 3, "chunk_id": chunk, "total_chunk_msg_size": 21}
        talk.client(send(1, 0, metadata=metadata, is_chunk=True)).server(receipt(1, 0, entry=chunk))
    assert problem_codes(findings_of(tmp_path, sends(talk, 1).client(close_producer(1, 9)))) == []


@pytest.mark.parametrize(("stored", "number"), [(0, 1), (-1, 0)])
def test_ranges_that_overlap_are_reported_where_the_broker_deduplicates(stored: int, number: int, tmp_path: Path) -> None:
    talk = producing(stored=stored)
    for first, last in ((1, 6), (3, 8)):
        talk.client(send(1, first, highest_sequence_id=last)).server(receipt(1, first))
    rows = with_code(findings_of(tmp_path, talk.close()), "sequence-regression")
    assert len(rows) == number
    assert all("3 after 6; the broker de-duplicates" in (row.text or "") for row in rows)


@pytest.mark.parametrize("numbers", [[0, 1, 1, 2], [0, 1, 1], [0, 0, 1, 1, 2, 2], [5, 6, 6, 7, 8, 9, 9]])
def test_what_is_said_twice_in_a_row_and_dropped_is_what_deduplication_is_for(numbers: list[int], tmp_path: Path) -> None:
    talk = producing()
    for index, number in enumerate(numbers):
        talk.client(send(1, number)).server(dropped(number) if number in numbers[:index] else receipt(1, number))
    rows = findings_of(tmp_path, talk.close())
    assert "as duplicates that were sent again" in only(rows, "resend-deduplicated")[0]
    assert with_code(rows, "sequence-regression") == with_code(rows, "message-duplicate-dropped") == []


@pytest.mark.parametrize("numbers", [[3] * 5, [0, 1, 1, 1, 1, 1], [4, 5, 6, 4, 5, 6]])
def test_a_producer_that_does_not_count_loses_messages(numbers: list[int], tmp_path: Path) -> None:
    talk = producing()
    for index, number in enumerate(numbers):
        talk.client(send(1, number)).server(dropped(number) if number in numbers[:index] else receipt(1, number))
    rows = findings_of(tmp_path, talk.close())
    assert with_code(rows, "message-duplicate-dropped")
    assert with_code(rows, "sequence-regression")
