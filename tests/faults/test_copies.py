"""Messages that a broker stores twice, and cases that only look similar."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.protocols.pulsar.rules.sends.send_marks import is_restamped
from tests.scenarios.commands import close_producer, created, flow, message, producer, receipt, send
from tests.scenarios.connections import connected, subscribed
from tests.scenarios.conversation import MILLISECOND, SECOND, Conversation
from tests.scenarios.evaluation import Diagnosis, diagnose
from tests.scenarios.rules.deduplication import MINUS_ONE

TWICE = "message-stored-twice"


def producing(
    port: int,
    start: int,
    numbers: range,
    first: int,
    receipts: int,
    *,
    epoch: int = 0,
    end: str = "rst",
    time: int = 0,
    close: bool = False,
    midstream: bool = False,
    receipts_before: int = 0,
) -> Conversation:
    """A connection of producer p that sends these sequence ids, and gets `receipts` receipts from entry `first` on.

    `receipts_before`: number of first receipts whose messages were sent before the capture.
    """
    if midstream:
        talk = Conversation(("10.0.0.1", port), ("10.0.0.2", 6650), acknowledge=False)
        for number in range(numbers.start, numbers.start + receipts_before):
            talk.server(receipt(1, number, entry=first + number - numbers.start))
        numbers, first, receipts = numbers[receipts_before:], first + receipts_before, receipts - receipts_before
    else:
        talk = connected(port, start=start).client(producer(epoch=epoch)).server(created())
    for number in numbers:
        talk.client(
            send(1, number, f"payload {number}".encode(), {"producer_name": "p", "publish_time": 1_700_000_000_000 + number + time})
        )
    talk.server(*[receipt(1, number, entry=first + index) for index, number in enumerate(numbers[:receipts])])
    if close:
        talk.client(close_producer(1, 9))
    return talk.reset("client") if end == "rst" else talk if end == "open" else talk.close("client" if end == "fin" else "server")


def delivered(
    *entries: tuple[int, int], kind: str = "Shared", time: int = 0, chunks: bool = False, midstream: bool = False
) -> Conversation:
    """A consumer that gets (entry, sequence id)."""
    talk = connected(42000, start=50 * MILLISECOND)
    if midstream:
        talk = Conversation(("10.0.0.1", 42000), ("10.0.0.2", 6650), acknowledge=False)
    else:
        subscribed(talk, kind=kind).client(flow(100))
    for entry, number in entries:
        metadata: dict[str, Any] = {"producer_name": "p", "sequence_id": number, "publish_time": 1_700_000_000_000 + number + time * entry}
        if chunks:
            metadata |= {"uuid": "u", "chunk_id": entry, "num_chunks_from_msg": 9, "total_chunk_msg_size": 99}
        talk.wait(20 * MILLISECOND).server(message(1, entry, f"payload {number}".encode(), metadata))
    return talk


def check(diagnosis: Diagnosis, count: int, commands: set[str]) -> dict[str, Any]:
    row, evidence = diagnosis.only(TWICE)
    assert evidence["count"] == count
    assert set(diagnosis.commands(row)) == commands
    return evidence


@pytest.mark.parametrize(("again", "before", "epoch", "end"), [*product((1, 3, 20), (0, 30, 100), (0, 1), ("rst", "fin", "broker"))])
def test_what_was_stored_and_is_sent_again_is_named(tmp_path: Path, again: int, before: int, epoch: int, end: str) -> None:
    """The client has lost the receipts; a session of many messages is known by its epoch."""
    sent = before + again
    first = producing(40000, 0, range(sent), 0, sent, end=end)
    second = producing(40001, SECOND, range(before, sent + 2), sent, again + 2, epoch=epoch, end="open")
    if not epoch and sent > 64:
        return
    evidence = check(diagnose(tmp_path, first, second), again, {"SEND"})
    assert evidence["message_ids"][0] == [f"7:{before}", f"7:{sent}"]


@pytest.mark.parametrize(("again", "before", "end"), [*product((1, 3), (1, 5, 60), ("rst", "fin", "broker"))])
def test_a_session_that_goes_on_below_what_is_stored_sends_again(tmp_path: Path, again: int, before: int, end: str) -> None:
    """A custom client puts another time into what it sends again."""
    sent = before + again
    first = producing(40000, 0, range(sent), 0, sent, end=end)
    second = producing(40001, SECOND, range(before, sent + 2), sent, again + 2, time=5000, end="open")
    if sent <= 64:
        assert check(diagnose(tmp_path, first, second), again, {"SEND"})["sequence_ids"] == [*range(before, sent)]


@pytest.mark.parametrize(("lost", "count"), [*product((0, 1, 4), (10, 30))])
def test_a_job_that_counts_from_zero_again_stores_new_messages_even_if_the_capture_lacks_the_first(
    tmp_path: Path, lost: int, count: int
) -> None:
    """Each run is a producer of the same name; a broker without deduplication lets each begin at 0."""
    first = producing(40000, 0, range(count), 0, count, end="fin", close=True)
    second = producing(40001, SECOND, range(count), count, count, time=60_000, end="fin", close=True)
    sends = [packet for packet in second.packets if b"payload" in packet.data][:lost]
    second.packets = [packet for packet in second.packets if packet not in sends]
    assert TWICE not in diagnose(tmp_path, first, second).codes


@pytest.mark.parametrize(
    ("again", "before", "end", "time", "receipts"), [*product((1, 3, 20), (2, 20), ("rst", "fin", "broker"), (0, 5000), (0, 1))]
)
def test_what_was_stored_before_the_capture_knew_its_producer_is_named(
    tmp_path: Path, again: int, before: int, end: str, time: int, receipts: int
) -> None:
    """No command in the capture names the topic of the first session: the ledger joins the two, from the first receipt on."""
    sent = before + again
    first = producing(40000, 0, range(sent), 0, sent, end=end, midstream=True, receipts_before=receipts)
    second = producing(40001, SECOND, range(before, sent + 2), sent, again + 2, epoch=1, time=time, end="open")
    evidence = check(diagnose(tmp_path, first, second), again, {"SEND"})
    assert evidence["topic"].startswith("persistent://")


@pytest.mark.parametrize(("count", "ledger", "receipts"), [*product((1, 5, 40), (7, 8), (0, 40))])
def test_a_session_from_before_the_capture_and_a_later_one_with_other_messages(
    tmp_path: Path, count: int, ledger: int, receipts: int
) -> None:
    """The client continues, sends again what got no receipt, or is another one with this name, whose entries are in another ledger."""
    first = producing(40000, 0, range(count), 0, min(receipts, count), midstream=True)
    again = range(count) if ledger != 7 or not receipts else range(count, 2 * count)
    second = connected(40001, start=SECOND).client(producer(epoch=1)).server(created())
    for number in again:
        second.client(send(1, number, b"other" * (ledger == 8))).server(receipt(1, number, entry=count + number, ledger=ledger))
    assert diagnose(tmp_path, first, second).of(TWICE) == []


@pytest.mark.parametrize(
    ("number", "copies", "kind", "midstream"), [*product((0, 5), (2, 3), ("Shared", "Exclusive", "Failover"), (False, True))]
)
def test_a_consumer_that_gets_both_is_named(tmp_path: Path, number: int, copies: int, kind: str, midstream: bool) -> None:
    """The first receipt may never have been sent."""
    talk = delivered(*[(entry, number) for entry in range(copies)], (copies, number + 1), kind=kind, midstream=midstream)
    evidence = check(diagnose(tmp_path, talk), 1, {"MESSAGE"})
    assert evidence["sequence_ids"] == [number]
    assert len(evidence["received_both"]) == 1


@pytest.mark.parametrize(("before", "pause", "pipelined"), [*product((0, 1, 10), (0, 400), (False, True))])
def test_the_same_id_twice_on_one_connection_is_named(tmp_path: Path, before: int, pause: int, pipelined: bool) -> None:
    talk = connected().client(producer()).server(created())
    for number in range(before + 1):
        talk.client(send(1, number))
        if number < before or not pipelined:
            talk.server(receipt(1, number, entry=number))
    talk.wait(pause * MILLISECOND).client(send(1, before))
    talk.server(*([receipt(1, before, entry=before)] if pipelined else []), receipt(1, before, entry=before + 1))
    evidence = check(diagnose(tmp_path, talk), 1, {"SEND"})
    assert evidence["message_ids"] == [[f"7:{before}", f"7:{before + 1}"]]


@pytest.mark.parametrize(("end", "count", "epoch"), [*product(("rst", "fin", "broker"), (1, 5, 100), (0, 1))])
def test_a_named_producer_that_begins_anew_stores_other_messages(tmp_path: Path, end: str, count: int, epoch: int) -> None:
    first = producing(40000, 0, range(count), 0, count, end=end, close=True)
    again = producing(40001, SECOND, range(count), count, count, time=1000, end=end, close=True)
    # A reconnect continues after the last message with a receipt.
    last = producing(40002, 2 * SECOND, range(count, count + 5), 2 * count, 5, epoch=epoch, time=1000, end=end)
    assert diagnose(tmp_path, first, again, last).of(TWICE) == []


@pytest.mark.parametrize(("count", "received"), [(1, 0), (5, 0), (5, 4), (5, 2), (90, 80)])
def test_what_had_no_receipt_and_is_sent_again_is_stored_once(tmp_path: Path, count: int, received: int) -> None:
    first = producing(40000, 0, range(count), 0, received)
    second = producing(40001, SECOND, range(received, count), received, count, epoch=1)
    assert diagnose(tmp_path, first, second).of(TWICE) == []


@pytest.mark.parametrize("count", [1, 5, 30])
def test_what_is_dropped_as_a_duplicate_is_stored_once(tmp_path: Path, count: int) -> None:
    first = producing(40000, 0, range(count), 0, count)
    second = connected(40001, start=SECOND).client(producer(epoch=1)).server(created(last_sequence_id=count - 1))
    for number in range(count):
        second.client(send(1, number)).server(receipt(1, number, MINUS_ONE, MINUS_ONE))
    assert diagnose(tmp_path, first, second).of(TWICE) == []


@pytest.mark.parametrize(
    ("entries", "time", "chunks"),
    [
        *product(([(0, 0), (0, 0), (1, 1)], [(0, 0), (1, 1), (0, 0), (1, 1)]), (0,), (False,)),  # delivered again
        *product(([(0, 0), (1, 0)], [(0, 5), (1, 5), (2, 5)]), (1,), (False,)),  # a producer that starts over, or does not count
        *product(([(0, 0), (1, 0)], [(0, 5), (1, 5), (2, 5)]), (0,), (True,)),
        *product(([(0, 0), (1, 1)], [(3, 0), (4, 1), (5, 2)]), (0, 1), (False,)),
    ],
)
def test_deliveries_that_are_not_of_one_message_are_no_copies(
    tmp_path: Path, entries: list[tuple[int, int]], time: int, chunks: bool
) -> None:
    assert diagnose(tmp_path, delivered(*entries, time=time, chunks=chunks)).of(TWICE) == []


def test_a_client_that_does_not_count_stores_nothing_twice(tmp_path: Path) -> None:
    talk = connected().client(producer()).server(created())
    for entry in range(5):
        talk.client(send(1, 0)).server(receipt(1, 0, entry=entry))
    assert diagnose(tmp_path, talk).of(TWICE) == []


@pytest.mark.parametrize(("count", "end", "shift"), [*product((1, 3, 20), ("rst", "fin", "broker"), (7, 400, 90_000))])
def test_a_client_of_its_own_making_that_begins_anew_sends_the_same_bytes_again(tmp_path: Path, count: int, end: str, shift: int) -> None:
    """It was cut off, and stamps the repeated messages with another time; it is unknown whether the receipts reached it."""
    first = producing(40000, 0, range(count), 0, count, end=end)
    again = producing(40001, SECOND, range(count + 2), count, count + 2, time=shift, end="open")
    assert check(diagnose(tmp_path, first, again), count, {"SEND"})["message_ids"][0] == ["7:0", f"7:{count}"]


@pytest.mark.parametrize(("count", "end", "close"), [*product((1, 3, 20), ("rst", "fin"), (False, True))])
def test_one_that_begins_anew_with_other_bytes_or_after_it_closed_stores_other_messages(
    tmp_path: Path, count: int, end: str, close: bool
) -> None:
    first = producing(40000, 0, range(count), 0, count, end=end, close=close)
    again = connected(40001, start=SECOND).client(producer()).server(created())
    for number in range(count):
        payload = f"payload {number}" if close else f"puyload {number}"
        again.client(send(1, number, payload.encode(), {"producer_name": "p", "publish_time": 1_700_000_009_000 + number}))
        again.server(receipt(1, number, entry=count + number))
    assert diagnose(tmp_path, first, again).of(TWICE) == []


@pytest.mark.slow
@given(st.binary(max_size=300), st.dictionaries(st.text(max_size=5), st.text(max_size=9), max_size=3), st.integers(1, 10**8), st.booleans())
def test_messages_that_differ_in_their_time_alone_are_recognised(
    payload: bytes, properties: dict[str, str], later: int, same: bool
) -> None:
    pairs = [{"key": key, "value": value} for key, value in properties.items()]
    marks = []
    for time, content in ((1_700_000_000_000, payload), (1_700_000_000_000 + later, payload if same else payload + b"x")):
        frame = send(1, 0, content, {"producer_name": "p", "publish_time": time, "properties": pairs})
        at = frame.index(b"\x0e\x01")
        marks.append((frame[at + 2 : at + 6].hex(), time, len(payload)))
    assert is_restamped(*marks) == same


@pytest.mark.parametrize(("count", "shift", "end"), [*product((1, 4, 20), (0, 7, 90_000), ("rst", "fin"))])
def test_the_same_bytes_that_are_dropped_as_duplicates_are_no_loss(tmp_path: Path, count: int, shift: int, end: str) -> None:
    """Deduplication works as intended, whoever sends again and whether or not a receipt came."""
    again = connected(40001, start=SECOND).client(producer()).server(created(last_sequence_id=count - 1))
    for number in range(count):
        metadata = {"producer_name": "p", "publish_time": 1_700_000_000_000 + number + shift}
        again.client(send(1, number, f"payload {number}".encode(), metadata)).server(receipt(1, number, MINUS_ONE, MINUS_ONE))
    again.client(send(1, count)).server(receipt(1, count, entry=count))
    diagnosis = diagnose(tmp_path, producing(40000, 0, range(count), 0, count, end=end), again)
    assert diagnosis.only("resend-deduplicated")[1]["count"] == count
    assert {row.severity for row in diagnosis.findings} <= {"note"}


@pytest.mark.parametrize("count", [1, 4, 20])
def test_other_bytes_that_are_dropped_as_duplicates_are_a_loss(tmp_path: Path, count: int) -> None:
    again = connected(40001, start=SECOND).client(producer()).server(created(last_sequence_id=count - 1))
    for number in range(count):
        again.client(send(1, number, f"puyload {number}".encode())).server(receipt(1, number, MINUS_ONE, MINUS_ONE))
    diagnosis = diagnose(tmp_path, producing(40000, 0, range(count), 0, count), again)
    assert {"message-duplicate-dropped", "sequence-regression"} <= set(diagnosis.codes)


def resumed(count: int, again: int, text: str) -> Conversation:
    """A producer that starts again from the checkpoint of its application, `again` messages before the last one that was stored."""
    talk = connected(40001, start=9 * SECOND).client(producer()).server(created(last_sequence_id=count - 1))
    for number in range(count - again, count + 5):
        metadata = {"producer_name": "p", "publish_time": 1_700_000_009_000 + number}
        stored = number >= count
        answer = receipt(1, number, entry=number) if stored else receipt(1, number, MINUS_ONE, MINUS_ONE)
        talk.client(send(1, number, f"{'payload' if stored else text} {number}".encode(), metadata)).server(answer)
    return talk


RESUMPTIONS = [*product((90, 300, 2_000), (1, 10, 26, 64))]


@pytest.mark.slow
@pytest.mark.parametrize(("count", "again"), RESUMPTIONS)
@pytest.mark.parametrize("end", ["rst", "fin"])
def test_an_application_that_resumes_at_its_checkpoint_loses_nothing(tmp_path: Path, count: int, again: int, end: str) -> None:
    first = producing(40000, 0, range(count), 0, count, end=end, close=end == "fin")
    diagnosis = diagnose(tmp_path, first, resumed(count, again, "payload"))
    assert diagnosis.only("resend-deduplicated")[1]["count"] == again
    assert {row.severity for row in diagnosis.findings} <= {"note"}


@pytest.mark.parametrize(("count", "again"), RESUMPTIONS)
def test_an_application_that_resumes_its_ids_but_not_its_messages_loses_some(tmp_path: Path, count: int, again: int) -> None:
    first = producing(40000, 0, range(count), 0, count, end="fin", close=True)
    diagnosis = diagnose(tmp_path, first, resumed(count, again, "another"))
    assert {"message-duplicate-dropped", "sequence-regression"} <= set(diagnosis.codes)
    assert diagnosis.only("message-duplicate-dropped")[1]["count"] == again


@given(st.integers(-(1 << 63), 1 << 64), st.integers(-(1 << 63), 1 << 64))
def test_any_two_times_can_be_compared(time: int, other: int) -> None:
    assert is_restamped(("00000000", time, 0), ("00000000", other, 0)) in (False, True)
