"""Kafka 0.7: messages that are not stored, offsets that are skipped or read again, and brokers that stop in an orderly way."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.scenarios.capturefile import write_pcap
from tests.scenarios.conversation import MILLISECOND, SECOND, START_NS, Conversation
from tests.scenarios.evaluation import Diagnosis, diagnose
from tests.scenarios.kafka07 import (
    GZIP,
    compressed,
    fetch,
    fetch_response,
    message,
    message_set,
    multifetch,
    multifetch_response,
    multiproduce,
    offsets,
    offsets_response,
    produce,
)

LOST, UNCONFIRMED, LARGE = "produce-lost", "produce-unconfirmed", "message-too-large-dropped"
SKIPPED, TWICE = "offset-skipped", "fetched-twice"
SET = message_set(b"hello", b"world")
BROKER = ("10.0.0.2", 9092)
LIMIT = 1_000_000


def talk(port: int = 40000, start: int = 0) -> Conversation:
    return Conversation(("10.0.0.1", port), BROKER, start_ns=START_NS + start, acknowledge=False).handshake()


def polling(start: int, *steps: tuple[int, bytes, int], port: int = 41000, end: int = 0) -> Conversation:
    """A consumer: (offset, messages that it gets there, time in ms)."""
    conversation = talk(port, start)
    for offset, messages, time in steps:
        conversation.time_ns = max(conversation.time_ns, START_NS + time * MILLISECOND)
        conversation.client(fetch("t", 0, offset)).server(fetch_response(messages))
    if end:
        conversation.time_ns = max(conversation.time_ns, START_NS + end * MILLISECOND)
        conversation.close("server")
    return conversation


def codes(diagnosis: Diagnosis) -> set[str]:
    return {row.code or "" for row in diagnosis.findings} & {LOST, UNCONFIRMED, LARGE, SKIPPED, TWICE}


@pytest.mark.parametrize(("before", "late", "pause", "end"), [*product((0, 3), (0, 1, 4), (1, 700), ("fin", "rst"))])
def test_the_refused_request_is_named_not_what_was_sent_behind_the_close(
    tmp_path: Path, before: int, late: int, pause: int, end: str
) -> None:
    conversation = talk()
    for _ in range(before + 1):
        conversation.client(produce("t", 0, SET)).wait(20 * MILLISECOND)
    refused = len(conversation.packets)
    conversation.half_close().wait(pause * MILLISECOND)
    for _ in range(late):
        conversation.client(produce("t", 0, SET))
    row, evidence = diagnose(tmp_path, conversation.reset() if end == "rst" else conversation.close("client")).only(LOST)
    assert (row.packet, evidence["after_close"], evidence["messages"]) == (refused, late, 2 * (before + 1 + late))


@pytest.mark.parametrize("late", [1, 3])
def test_what_is_sent_only_behind_the_close_is_lost(tmp_path: Path, late: int) -> None:
    conversation = talk().client(fetch("t", 0, 0)).server(fetch_response(SET)).half_close().wait(SECOND)
    for _ in range(late):
        conversation.client(produce("t", 0, SET))
    text = diagnose(tmp_path, conversation.reset()).only(LOST)[0].text or ""
    assert "after the broker had closed" in text


@pytest.mark.parametrize(("produced", "rest", "known"), [*product((1, 4), (5, 3000), (0, 500))])
def test_what_is_fetched_since_is_not_lost(tmp_path: Path, produced: int, rest: int, known: int) -> None:
    size = produced * len(SET)
    producer = talk(start=100 * MILLISECOND)
    for _ in range(produced):
        producer.client(produce("t", 0, SET))
    consumer = polling(0, (known, b"", 50), (known, SET * produced, 120), end=300 + rest)
    assert codes(diagnose(tmp_path, producer.wait(rest * MILLISECOND).close("server"), consumer)) == set()
    again = polling(5 * SECOND, (known, SET * produced, 5000), port=41001)
    early = polling(0, (known, b"", 50), end=90)
    second = talk(40002, 100 * MILLISECOND).client(produce("t", -1, SET * produced)).close("server")
    assert codes(diagnose(tmp_path, second, early, again)) == set()
    assert size


@pytest.mark.parametrize(("others", "gap"), [*product((1, 3), (5, 300)), (0, 1500), (0, 9000)])
def test_a_broker_that_stops_may_have_stored_the_last_messages(tmp_path: Path, others: int, gap: int) -> None:
    producer = talk().client(produce("t", 0, SET)).wait(gap * MILLISECOND).close("server")
    rest = [polling(0, (0, b"", 1), port=42000 + number, end=gap + 20 * number) for number in range(others)]
    assert codes(diagnose(tmp_path, producer, *rest)) == {UNCONFIRMED}


@pytest.mark.parametrize(("lives", "pause"), [*product((2, 5), (50, 400))])
def test_a_producer_that_is_refused_again_and_again_meets_no_stop(tmp_path: Path, lives: int, pause: int) -> None:
    talks = [talk(40000 + life, life * pause * MILLISECOND).client(produce("t", 0, SET)).close("server") for life in range(lives)]
    assert len(diagnose(tmp_path, *talks).of(LOST)) == lives


@pytest.mark.parametrize(("over", "beside", "multi", "magic"), [*product((1, 5, 400_000), (0, 1, 3), (False, True), (0, 1))])
def test_a_message_too_large_for_the_broker_is_named(tmp_path: Path, over: int, beside: int, multi: bool, magic: int) -> None:
    small = message_set(*[b"x"] * beside)
    messages = small + message(bytes(LIMIT + over), magic=magic)
    frame = multiproduce(("t", 0, messages), ("t", 1, small)) if multi else produce("t", 0, messages)
    row, evidence = diagnose(tmp_path, talk().client(frame, mss=60_000).client(produce("t", 0, SET)).close()).only(LARGE)
    assert evidence["bytes"] == LIMIT + over
    assert row.severity == "error"


@pytest.mark.parametrize(("below", "count", "magic"), [*product((0, 1, 400_000), (1, 3), (0, 1))])
def test_messages_up_to_the_limit_are_stored_however_many_are_sent_at_once(tmp_path: Path, below: int, count: int, magic: int) -> None:
    messages = message(bytes(LIMIT - below), magic=magic) * count
    assert codes(diagnose(tmp_path, talk().client(produce("t", 0, messages), mss=60_000).close())) == set()


@pytest.mark.parametrize("size", [LIMIT + 1, 3 * LIMIT])
def test_what_is_small_enough_when_compressed_is_stored(tmp_path: Path, size: int) -> None:
    inner = compressed(GZIP, message(bytes(size)))
    assert codes(diagnose(tmp_path, talk().client(produce("t", 0, inner + message(bytes(LIMIT))), mss=60_000).close())) == set()


@pytest.mark.parametrize(("code", "by", "turns", "pause"), [*product((SKIPPED, TWICE), (1, 10, 30), (1, 3), (1, 900))])
def test_a_consumer_that_leaves_its_place_is_named(tmp_path: Path, code: str, by: int, turns: int, pause: int) -> None:
    conversation, offset = talk(), 1000
    for _ in range(turns):
        conversation.client(fetch("t", 0, offset)).server(fetch_response(SET * 2)).wait(pause * MILLISECOND)
        offset += 2 * len(SET)
    wrong = offset + by if code == SKIPPED else offset - by
    conversation.client(fetch("t", 0, wrong)).server(fetch_response(SET))
    row, evidence = diagnose(tmp_path, conversation.close()).only(code)
    assert (evidence["expected"], evidence["offset"], evidence["bytes"]) == (offset, wrong, by)
    assert diagnose(tmp_path, conversation).commands(row) == ["FETCH_RESPONSE", "FETCH"]


def older(turns: int, wrong: int, sizes: tuple[int, ...] = (2, 3, 1), *, answer_first: bool = False) -> Conversation:
    """A consumer from before the capture that fetches `turns` times in order, and then `wrong` bytes from there."""
    conversation, offset = Conversation(("10.0.0.1", 40000), BROKER, start_ns=START_NS, acknowledge=False), 7000
    if answer_first:
        conversation.server(fetch_response(SET))
    for number in range(turns):
        messages = SET * sizes[number % len(sizes)]
        conversation.client(fetch("t", 0, offset)).server(fetch_response(messages)).wait(200 * MILLISECOND)
        offset += len(messages)
    return conversation.client(fetch("t", 0, offset + wrong)).server(fetch_response(SET)).wait(SECOND)


@pytest.mark.parametrize(("code", "by", "turns", "answer_first"), [*product((SKIPPED, TWICE), (1, 30), (3, 4, 9), (False, True))])
def test_one_from_before_the_capture_that_leaves_its_place_is_named(
    tmp_path: Path, code: str, by: int, turns: int, answer_first: bool
) -> None:
    talked = older(turns, by if code == SKIPPED else -by, answer_first=answer_first)
    assert diagnose(tmp_path, talked).only(code)[1]["bytes"] == by


@pytest.mark.parametrize(
    ("by", "turns", "answer_first"), [*product((-30, 30), (1, 2), (False, True)), *product((0,), (3, 9), (False, True))]
)
def test_one_from_before_the_capture_that_has_hardly_read_or_goes_on_is_not(
    tmp_path: Path, by: int, turns: int, answer_first: bool
) -> None:
    assert codes(diagnose(tmp_path, older(turns, by, answer_first=answer_first))) == set()


@pytest.mark.parametrize("size", [1, len(SET) + 30])
def test_one_from_before_the_capture_that_lacks_bytes_is_not(tmp_path: Path, size: int) -> None:
    talked = older(4, 0)
    talked.lose("server", size).client(fetch("t", 0, 99_000)).server(fetch_response(SET)).wait(SECOND)
    assert codes(diagnose(tmp_path, talked)) == set()


@pytest.mark.parametrize(("turns", "back"), [*product((3, 8), (2, 3))])
def test_one_that_begins_anew_behind_what_it_read_before_is_named(tmp_path: Path, turns: int, back: int) -> None:
    conversation = talk()
    for number in (*range(turns), *range(turns - back, turns)):
        conversation.client(fetch("t", 0, number * len(SET))).server(fetch_response(SET)).wait(200 * MILLISECOND)
    _, evidence = diagnose(tmp_path, conversation.close()).only(TWICE)
    assert evidence["bytes"] == back * len(SET)


@pytest.mark.parametrize("far", [1, 1000])
def test_one_that_goes_where_it_never_was_fetches_nothing_twice(tmp_path: Path, far: int) -> None:
    conversation = talk()
    for offset in (5000, 5000 + len(SET), 5000 - far - len(SET)):
        conversation.client(fetch("t", 0, offset)).server(fetch_response(SET)).wait(200 * MILLISECOND)
    assert TWICE not in codes(diagnose(tmp_path, conversation.close()))


@pytest.mark.parametrize(
    ("why", "by"), [*product(("refused", "asked", "other partition", "empty", "cut", "lost", "pipelined", "new"), (-30, 30, 5000))]
)
def test_a_consumer_with_a_reason_to_leave_its_place_is_not(tmp_path: Path, why: str, by: int) -> None:
    conversation = talk().client(fetch("t", 0, 1000)).server(fetch_response(b"" if why == "empty" else SET * 2))
    behind = 1000 if why == "empty" else 1000 + 2 * len(SET)
    if why == "refused":
        conversation.client(fetch("t", 0, behind + by)).server(fetch_response(error=1)).client(fetch("t", 0, behind + 2 * by))
        conversation.server(fetch_response(SET))
    elif why == "asked":
        conversation.client(offsets("t", 0, -1, 1)).server(offsets_response([behind + by]))
        conversation.client(fetch("t", 0, behind + by)).server(fetch_response(SET))
    elif why == "cut":
        conversation.client(fetch("t", 0, behind, len(SET) + 7)).server(fetch_response(SET + SET[:7]))
        conversation.client(fetch("t", 0, behind + len(SET))).server(fetch_response(SET))
    elif why == "lost":
        conversation.client(fetch("t", 0, behind)).lose("server", len(fetch_response(SET))).client(fetch("t", 0, behind + by))
        conversation.server(fetch_response(SET)).client(fetch("t", 0, behind + by + len(SET))).server(fetch_response(SET))
    elif why == "pipelined":
        conversation.client(fetch("t", 0, behind), fetch("t", 0, behind + by)).server(fetch_response(SET), fetch_response(SET))
    elif why == "new":
        other = talk(40001, SECOND).client(fetch("t", 0, behind + by)).server(fetch_response(SET))
        assert codes(diagnose(tmp_path, conversation, other)) == set()
        return
    else:
        conversation.client(fetch("t", 1 if why == "other partition" else 0, behind + by)).server(fetch_response(SET))
    assert codes(diagnose(tmp_path, conversation)) == set()


def asking(depth: int, count: int = 12) -> Conversation:
    """A client with this many outstanding requests of all kinds."""
    kinds = (
        (fetch("a", 0, 0), fetch_response(SET)),
        (multifetch(("b", 0, 0, 99), ("c", 0, 0, 99)), multifetch_response(fetch_response(SET), fetch_response(SET))),
        (fetch("d", 0, 9), fetch_response()),
        (multifetch(("e", 0, 0, 99)), multifetch_response(fetch_response(SET))),
        (offsets("f", 0, -1, 2), offsets_response([900, 0])),
    )
    conversation, waiting = talk(), []
    for number in range(count):
        question, answer = kinds[number % len(kinds)]
        waiting.append(answer)
        conversation.client(question).wait(300 * MILLISECOND)
        if len(waiting) >= depth:
            conversation.server(waiting.pop(0))
    return conversation.server(*waiting)


@pytest.mark.parametrize(("depth", "first"), [*product((1, 2, 3), range(3, 12))])
def test_answers_to_requests_from_before_the_capture_accuse_nobody(tmp_path: Path, depth: int, first: int) -> None:
    capture = write_pcap(tmp_path / "midstream.pcap", asking(depth).wait(3 * SECOND).close().packets[first:])
    assert {row.severity for row in Diagnosis(capture).findings} <= {"note"}


@pytest.mark.parametrize(("first", "end"), [*product((3, 4, 5, 8), ("client", "server"))])
def test_a_request_without_an_answer_is_named_in_midstream_too(tmp_path: Path, first: int, end: str) -> None:
    conversation = asking(1).client(fetch("t", 0, 5)).wait(3 * SECOND).close(end)
    diagnosis = Diagnosis(write_pcap(tmp_path / "midstream.pcap", conversation.packets[first:]))
    row, _ = diagnosis.only("request-unanswered" if end == "client" else "connection-closed-by-broker")
    assert diagnosis.commands(row) == ["FETCH"]


@pytest.mark.parametrize("others", [0, 3, 30])
def test_a_message_within_a_set_proves_no_frame(tmp_path: Path, others: int) -> None:
    """The capture begins with bytes that look like the length of a frame of 16 MiB."""
    messages = message_set(b"tail\x01\x00\x00\x00\x00\x00", b"h", *[b"x" * 90] * others)
    answer = fetch_response(messages)
    conversation = talk().client(fetch("t", 0, 0)).server(answer[:20]).server(answer[20:])
    for number in range(1, 4):
        conversation.wait(SECOND).client(fetch("t", 0, len(messages) * number)).server(answer)
    capture = write_pcap(tmp_path / "midstream.pcap", conversation.close().packets[5:])
    assert {row.severity for row in Diagnosis(capture).findings} == {"note"}
