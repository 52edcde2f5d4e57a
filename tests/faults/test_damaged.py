"""Captures with packets missing, out of order, or cut: what is missing may clear an accused side."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.faults.consumers import publishing
from tests.scenarios.capturefile import write_pcap
from tests.scenarios.commands import (
    BY_BROKER,
    CONNECT,
    PING,
    PONG,
    ack,
    close_consumer,
    created,
    delivery,
    error,
    flow,
    lookup,
    lookup_response,
    producer,
    receipt,
    send,
    subscribe,
    success,
)
from tests.scenarios.connections import connected, subscribed, wait_until
from tests.scenarios.conversation import MILLISECOND, SECOND, Conversation
from tests.scenarios.evaluation import Diagnosis, diagnose

ABOUT_DAMAGE = {"stream-gap", "frame-truncated", "snaplen-truncated"}


def problems(diagnosis: Diagnosis) -> set[str]:
    """Codes of errors and warnings that are not about the damage itself."""
    return {row.code or "" for row in diagnosis.findings if row.severity != "note"} - ABOUT_DAMAGE


def cut(folder: Path, length: int, *conversations: Conversation) -> Diagnosis:
    """The diagnosis of conversations with each packet cut to this length."""
    packets = sorted((packet for talk in conversations for packet in talk.packets), key=lambda packet: packet.time_ns)
    return Diagnosis(
        write_pcap(folder / "cut.pcap", [packet._replace(data=packet.data[:length], wire_bytes=len(packet.data)) for packet in packets])
    )


def waiting(got: int, lost: int, kind: str, *, length: int) -> Conversation:
    """A consumer with permits, whose last messages are missing in the capture."""
    talk = subscribed(connected(start=50 * MILLISECOND), kind=kind).client(flow(1000)).wait(100 * MILLISECOND)
    for entry in range(got):
        talk.server(delivery(entry)).client(ack(entry)).wait(10 * MILLISECOND)
    for entry in range(got, got + lost):
        talk.lose("server", len(delivery(entry)))
    return wait_until(talk, length * SECOND).server(PING).client(PONG)


@pytest.mark.parametrize(("got", "lost", "kind", "length"), [*product((0, 5, 20), (1, 10), ("Shared", "Exclusive"), (8, 20))])
def test_a_broker_whose_messages_the_capture_lacks_is_not_silent(tmp_path: Path, got: int, lost: int, kind: str, length: int) -> None:
    beside = publishing(got + lost, 10 * MILLISECOND, until=length * SECOND)
    assert "broker-silent" not in problems(diagnose(tmp_path, waiting(got, lost, kind, length=length), beside))


@pytest.mark.parametrize(("got", "kind", "length"), [*product((5, 20), ("Shared", "Exclusive"), (8, 20))])
def test_one_whose_stream_is_complete_is_silent(tmp_path: Path, got: int, kind: str, length: int) -> None:
    beside = publishing(got + 10, 10 * MILLISECOND, until=length * SECOND)
    assert "broker-silent" in problems(diagnose(tmp_path, waiting(got, 0, kind, length=length), beside))


@pytest.mark.parametrize(("got", "length", "snap"), [*product((10, 40), (8, 12), (96, 128))])
def test_messages_of_which_the_snap_length_leaves_the_first_are_delivered(tmp_path: Path, got: int, length: int, snap: int) -> None:
    """All come in one packet, of which only a little is there."""
    talk = subscribed(connected(start=50 * MILLISECOND)).client(flow(1000))
    wait_until(talk, 2 * SECOND).server(*[delivery(entry) for entry in range(got)]).client(*[ack(entry) for entry in range(got)])
    wait_until(talk, length * SECOND).server(PING).client(PONG)
    beside = publishing(got, 10 * MILLISECOND, until=length * SECOND)
    assert problems(cut(tmp_path, snap, talk, beside)) == set()


@pytest.mark.parametrize(("got", "length", "end"), [*product((20, 60), (4, 9, 70), ("open", "fin"))])
def test_an_ack_of_which_the_snap_length_leaves_the_beginning_counts(tmp_path: Path, got: int, length: int, end: str) -> None:
    talk = subscribed(connected(start=50 * MILLISECOND)).client(flow(1000)).wait(50 * MILLISECOND)
    for entry in range(got):
        talk.server(delivery(entry)).wait(MILLISECOND)
    talk.client(ack(*range(got)))
    wait_until(talk, length * SECOND).client(PING).server(PONG)
    diagnosis = cut(tmp_path, 120, talk if end == "open" else talk.close(), publishing(got, 5 * MILLISECOND, until=length * SECOND))
    assert "consumer-not-acking" not in problems(diagnosis)


@pytest.mark.parametrize(("kept", "length"), [*product((10, 20), (6, 70))])
def test_messages_whose_ack_is_lost_among_others_may_be_acknowledged(tmp_path: Path, kept: int, length: int) -> None:
    talk = subscribed(connected(start=50 * MILLISECOND)).client(flow(1000)).wait(50 * MILLISECOND)
    for start in range(0, 10 * kept, 10):
        talk.server(*[delivery(entry) for entry in range(start, start + 10)]).wait(20 * MILLISECOND)
        one = ack(*range(start, start + 10))
        if start == 50:
            talk.lose("client", len(one))
        else:
            talk.client(one)
    wait_until(talk, length * SECOND).client(PING).server(PONG)
    assert "consumer-not-acking" not in problems(diagnose(tmp_path, talk, publishing(10, 10 * MILLISECOND, until=length * SECOND)))


@pytest.mark.parametrize(("count", "early", "length"), [*product((3, 20), ((0,), (1, 2)), (3, 9))])
def test_a_receipt_captured_before_its_send_answers_it(tmp_path: Path, count: int, early: tuple[int, ...], length: int) -> None:
    talk = connected().client(producer()).server(created())
    for number in range(count):
        answer, asked = receipt(sequence_id=number, entry=number), send(sequence_id=number)
        talk.server(answer).client(asked) if number in early else talk.client(asked).server(answer)
        talk.wait(20 * MILLISECOND)
    wait_until(talk, length * SECOND).client(PING).server(PONG)
    assert "send-unanswered" not in problems(diagnose(tmp_path, talk.close()))


@pytest.mark.parametrize(("chunks", "receipts"), [(2, 1), (2, 2), (5, 4), (5, 5)])
def test_each_receipt_captured_early_answers_one_chunk(tmp_path: Path, chunks: int, receipts: int) -> None:
    talk = connected().client(producer()).server(created())
    for number in range(receipts):
        talk.server(receipt(sequence_id=7, entry=number))
    for number in range(chunks):
        metadata = {"uuid": "u", "chunk_id": number, "num_chunks_from_msg": chunks}
        talk.client(send(sequence_id=7, payload=b"part", metadata=metadata, is_chunk=True))
    wait_until(talk, 6 * SECOND).client(PING).server(PONG)
    assert ("send-unanswered" in problems(diagnose(tmp_path, talk.close()))) == (receipts < chunks)


@pytest.mark.parametrize(("by", "lost", "late"), [*product(("server", "client"), (0, 60), (2, 5))])
def test_an_ack_behind_a_close_may_be_of_a_consumer_that_came_back(tmp_path: Path, by: str, lost: int, late: int) -> None:
    talk = subscribed(connected()).client(flow(100)).server(delivery(0), delivery(1)).client(ack(0)).wait(SECOND)
    talk.server(close_consumer(1, BY_BROKER)) if by == "server" else talk.client(close_consumer())
    talk.wait(late * SECOND).lose("client", lost).client(ack(1)).wait(SECOND)
    assert ("ack-after-close" in problems(diagnose(tmp_path, talk.close()))) == (lost == 0)


@pytest.mark.parametrize(("times", "lost"), [*product((1, 3), (0, 20, 60))])
def test_a_refusal_of_connect_that_the_capture_lacks_is_no_close_without_reason(tmp_path: Path, times: int, lost: int) -> None:
    talks = []
    for number in range(times):
        talk = Conversation(("10.0.0.1", 40000 + number), acknowledge=False).handshake().client(CONNECT).wait(MILLISECOND)
        talks.append(talk.lose("server", lost).close("server"))
    assert ("connection-closed-by-broker" in problems(diagnose(tmp_path, *talks))) == (lost == 0)


@pytest.mark.parametrize(("times", "pause"), [*product((2, 5), (SECOND, 3 * SECOND))])
def test_a_refusal_captured_before_its_request_leaves_the_id_free(tmp_path: Path, times: int, pause: int) -> None:
    for early in range(times):
        talk = connected()
        for number in range(times):
            asked, refused = producer(1, "p", 10 + number), error(10 + number, "ProducerBlockedQuotaExceededException")
            talk.server(refused).client(asked) if number == early else talk.client(asked).server(refused)
            talk.wait(pause)
        codes = problems(diagnose(tmp_path, talk.client(producer(1, "p", 90)).server(created("p", 90)).close()))
        assert "retry-without-close" not in codes


@pytest.mark.parametrize(("late", "length"), [*product((1, 3), (4, 8))])
def test_what_was_asked_before_anything_of_the_broker_is_there_may_be_answered(tmp_path: Path, late: int, length: int) -> None:
    """The connection began before the capture, which lacks the first answer: the start of the broker's stream is unknown."""
    talk = Conversation(acknowledge=False).client(*[lookup(number) for number in range(late)])
    wait_until(talk, length * SECOND).client(PING).server(PONG, PING).client(PONG).wait(SECOND)
    assert "request-unanswered" not in problems(diagnose(tmp_path, talk))


@pytest.mark.parametrize(("response", "late"), [*product((error(4, "TopicNotFound"), success(4)), (6, 20))])
def test_the_answer_to_a_request_that_the_capture_lacks_is_no_late_one(tmp_path: Path, response: bytes, late: int) -> None:
    """C++ clients number lookups and other requests separately."""
    talk = connected().client(lookup(3)).server(lookup_response("Connect", "pulsar://10.0.0.2:6650", 3)).client(lookup(4))
    talk.lose("server", len(lookup_response("Connect", "pulsar://10.0.0.2:6650", 4))).server(PING).client(PONG)
    wait_until(talk, late * SECOND).lose("client", len(subscribe(request=4))).client(PONG).server(response).server(PING).client(PONG)
    assert "slow-exchange" not in problems(diagnose(tmp_path, talk.wait(SECOND).close()))


@pytest.mark.parametrize("missing", [True, False])
def test_a_client_that_closed_first_is_known_by_what_the_broker_acknowledges(tmp_path: Path, *, missing: bool) -> None:
    talk = subscribed(connected()).client(flow(10)).wait(SECOND)
    talk.lose("client", 1)
    if missing:
        talk.close("server")
        packets = [packet for packet in talk.packets if packet is not talk.packets[-2]]
        diagnosis = Diagnosis(write_pcap(tmp_path / "missing.pcap", packets))
        assert "connection-closed-by-broker" not in problems(diagnosis)
    else:
        connected_again = subscribed(connected()).client(flow(10)).wait(SECOND).close("server")
        assert "connection-closed-by-broker" in problems(diagnose(tmp_path, connected_again))


@pytest.mark.parametrize(("count", "snap", "answered"), [*product((1, 7, 30), (88, 92), (True, False))])
def test_receipts_of_which_the_snap_length_leaves_the_beginning_are_answers(tmp_path: Path, count: int, snap: int, answered: bool) -> None:
    """A few bytes of each are missing."""
    talk = connected().client(producer()).server(created())
    for number in range(count):
        talk.client(send(1, number)).wait(MILLISECOND)
        if answered:
            talk.server(receipt(1, number, entry=number))
        talk.wait(10 * MILLISECOND)
    talk.wait(8 * SECOND).client(PING).server(PONG)
    assert ("send-unanswered" in problems(cut(tmp_path, snap, talk))) == (not answered)


@pytest.mark.parametrize(("snap", "length", "behind"), [*product((96, 120, 65535), (16, 25), (False, True))])
def test_an_entry_whose_ack_may_be_cut_off_is_no_hole(tmp_path: Path, snap: int, length: int, behind: bool) -> None:
    """One ACK names many entries, of which the snap length leaves the first, or it follows a larger frame."""
    talk = subscribed(connected(start=50 * MILLISECOND), kind="Shared").client(flow(1000))
    for entry in range(200):
        wait_until(talk, 100 * MILLISECOND + entry * 50 * MILLISECOND).server(delivery(entry))
        if entry == 20:
            acked = ack(*[number for number in range(21) if number != 7 or snap < 65535])
            talk.client(lookup(1, topic=f"persistent://public/default/{'t' * 200}"), acked) if behind else talk.client(acked)
        elif entry > 20:
            talk.client(ack(entry))
    wait_until(talk, length * SECOND).server(PING).client(PONG)
    assert ("ack-hole" in problems(cut(tmp_path, snap, talk, publishing(200, 50 * MILLISECOND)))) == (snap == 65535)
