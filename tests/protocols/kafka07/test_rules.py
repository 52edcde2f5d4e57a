"""Problems in complete conversations, and none in healthy ones."""

from __future__ import annotations

import pytest

from pulsarscope.model.records import FindingRow
from tests.protocols.kafka07.cases import SERVER, look, talk
from tests.scenarios.conversation import Conversation
from tests.scenarios.kafka07 import fetch, fetch_response, message, message_set, multifetch, multifetch_response, offsets, produce

SET = message_set(b"hello", b"world")
SECOND = 1_000_000_000


def said(code: str, *conversations: Conversation) -> FindingRow:
    """The only finding of a code."""
    (row,) = [row for row in look(*conversations).findings if row.code == code]
    return row


def test_a_healthy_conversation_has_no_findings() -> None:
    conversation = talk().client(produce("t", 0, SET)).client(fetch("t", 0, 0, len(SET) + 7)).server(fetch_response(SET + SET[:7]))
    assert look(conversation.client(produce("t", 0, SET)).close()).codes == set()


def test_an_offset_that_the_log_does_not_have() -> None:
    row = said("offset-out-of-range", talk().client(fetch("t", 0, 99)).server(fetch_response(error=1)).close())
    assert (row.severity, row.text) == ("error", "FETCH of t was refused with OffsetOutOfRange.")
    assert (row.evidence or {})["frames"] == ["0:4.1", "0:6.1"]


@pytest.mark.parametrize(("code", "name"), [(-1, "Unknown"), (2, "InvalidMessage"), (3, "WrongPartition"), (4, "InvalidFetchSize")])
def test_other_refusals(code: int, name: str) -> None:
    row = said("request-failed", talk().client(fetch("t", 0, 99)).server(fetch_response(error=code)).close())
    assert name in (row.text or "")


class TestMessagesThatMayBeLost:
    def test_the_broker_closes_behind_them(self) -> None:
        conversation = talk().client(fetch("t", 0, 0)).server(fetch_response())
        row = said("produce-lost", conversation.client(produce("t", 0, SET)).client(produce("t", 0, SET)).close("server"))
        assert (row.packet, (row.evidence or {})["messages"]) == (10, 4)

    def test_it_resets_behind_them(self) -> None:
        assert said("produce-lost", talk().client(produce("t", 0, SET)).reset()).severity == "error"

    def test_not_when_the_client_closes_or_the_broker_spoke_since(self) -> None:
        assert look(talk().client(produce("t", 0, SET)).close()).codes == set()
        spoke = talk().client(produce("t", 0, SET)).client(fetch("t", 0, 0)).server(fetch_response()).close("server")
        assert look(spoke).codes == set()


class TestConsumersThatStandStill:
    def test_a_fetch_brings_only_a_piece_of_the_next_message(self) -> None:
        conversation = talk()
        for _ in range(3):
            conversation.client(fetch("t", 4, 70, 20)).server(fetch_response(message(bytes(500))[:20]))
        row = said("fetch-too-small", conversation.close())
        assert row.text == "The fetch of t partition 4 at offset 70 returned only 20 bytes of a larger message."

    def test_a_part_does(self) -> None:
        answer = multifetch_response(fetch_response(SET), fetch_response(message(bytes(500))[:20]))
        row = said("fetch-too-small", talk().client(multifetch(("a", 0, 0, 20), ("b", 1, 7, 20))).server(answer).close())
        assert ((row.evidence or {})["topic"], (row.evidence or {})["partition"]) == ("b", 1)


class TestUnanswered:
    def test_the_broker_closes_instead(self) -> None:
        row = said("connection-closed-by-broker", talk().client(offsets("t", 0, -1, 1)).close("server"))
        assert row.text == "The broker closed the connection instead of answering OFFSETS of t."

    def test_the_connection_goes_on(self) -> None:
        row = said("request-unanswered", talk().client(fetch("t", 0, 0)).wait(3 * SECOND).close())
        assert "3.00 s" in (row.text or "")

    def test_not_when_the_capture_just_ends(self) -> None:
        assert look(talk().client(fetch("t", 0, 0))).codes == set()

    def test_a_late_answer(self) -> None:
        row = said("slow-exchange", talk().client(fetch("t", 0, 0)).wait(6 * SECOND).server(fetch_response()).close())
        assert row.text == "FETCH of t was answered after 6.00 s."

    def test_the_same_request_on_a_new_connection(self) -> None:
        first = talk().client(fetch("t", 0, 7)).close("server")
        again = Conversation(("10.0.0.1", 40_001), SERVER, start_ns=first.time_ns).handshake()
        again.client(fetch("t", 0, 7)).server(fetch_response()).close()
        row = said("request-retried", first, again)
        assert len((row.evidence or {})["frames"]) == 2
        other = Conversation(("10.0.0.1", 40_002), SERVER, start_ns=first.time_ns).handshake()
        assert "request-retried" not in look(first, other.client(fetch("t", 0, 8)).close()).codes


def test_answers_whose_requests_are_not_there_are_counted() -> None:
    row = said("response-unrequested", talk(opened=False).server(fetch_response(SET)).server(fetch_response(SET)))
    assert row.text == "2 responses answer requests that are not in the capture."
