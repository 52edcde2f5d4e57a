"""SENDs without a receipt, though later ones of their producer have theirs."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.scenarios.commands import PING, PONG, created, producer, receipt, send, send_error
from tests.scenarios.connections import connected
from tests.scenarios.conversation import MILLISECOND, SECOND, Conversation
from tests.scenarios.evaluation import findings_of, only, with_code

CODE = "send-unanswered"


def publishing(missing: tuple[int, ...], *, sends: int = 40, at_a_time: int = 1, gap: bool = False) -> Conversation:
    """A producer whose SENDs with these numbers get no receipt; or whose receipts the capture lacks."""
    talk = connected().client(producer()).server(created())
    for first in range(0, sends, at_a_time):
        numbers = range(first, min(first + at_a_time, sends))
        talk.client(*(send(1, number) for number in numbers)).wait(20 * MILLISECOND)
        for number in numbers:
            answer = receipt(1, number, entry=number)
            if number not in missing:
                talk.server(answer)
            elif gap:
                talk.lose("server", len(answer))
    return talk


@pytest.mark.parametrize(
    ("missing", "at_a_time", "end"),
    [*product(((3,), (3, 4), (3, 20)), (1, 5), ("fin", "rst", "open")), ((0,), 1, "fin"), ((3,), 20, "open")],
)
def test_a_send_that_the_broker_passed_over(missing: tuple[int, ...], at_a_time: int, end: str, tmp_path: Path) -> None:
    talk = publishing(missing, at_a_time=at_a_time).wait(SECOND // 2).client(PING).server(PONG)
    talk = talk.close() if end == "fin" else talk.reset("client") if end == "rst" else talk
    text, evidence = only(findings_of(tmp_path, talk), CODE)
    assert evidence["count"] == len(missing)
    assert "later SENDs than these were answered" in text
    assert evidence["threshold"] == {"send-unanswered-passed-seconds": 0.25}


def test_receipts_that_the_capture_lacks(tmp_path: Path) -> None:
    for missing in ((3,), (3, 20)):
        talk = publishing(missing, gap=True).wait(SECOND).client(PING).server(PONG)
        assert with_code(findings_of(tmp_path, talk), CODE) == []


def test_the_last_sends_may_still_be_answered(tmp_path: Path) -> None:
    for missing in ((39,), (38, 39)):
        talk = publishing(missing).wait(SECOND // 2).client(PING).server(PONG)
        assert with_code(findings_of(tmp_path, talk), CODE) == []


def test_a_capture_may_end_before_a_duplicate_is_told_from_others(tmp_path: Path) -> None:
    talk = publishing(()).client(send(1, 40), send(1, 41)).wait(MILLISECOND).server(receipt(1, 41, entry=41))
    assert with_code(findings_of(tmp_path, talk.wait(100 * MILLISECOND).client(PING).server(PONG)), CODE) == []


def test_an_error_is_sent_at_once(tmp_path: Path) -> None:
    talk = (
        publishing(())
        .client(send(1, 40), send(1, 41))
        .wait(MILLISECOND)
        .server(send_error("ChecksumError", "Checksum failed on the broker", sequence_id=41))
    )
    assert with_code(findings_of(tmp_path, talk.wait(SECOND // 2).client(PING).server(PONG)), CODE) == []


def test_a_send_that_is_answered_late_in_order(tmp_path: Path) -> None:
    talk = publishing(()).client(send(1, 40), send(1, 41)).wait(SECOND // 2)
    assert with_code(findings_of(tmp_path, talk.server(receipt(1, 40, entry=40), receipt(1, 41, entry=41))), CODE) == []
