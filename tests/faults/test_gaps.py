"""Answers that the capture may lack: a packet that was not captured, or a direction that begins later."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.scenarios.commands import PING, PONG, created, producer, receipt, send
from tests.scenarios.connections import connected
from tests.scenarios.conversation import MILLISECOND, SECOND, Conversation
from tests.scenarios.evaluation import findings_of, only, problem_codes
from tests.scenarios.frames import command_frame

UNANSWERED = {"request-unanswered", "send-unanswered"}


def asking(talk: Conversation, kind: str, number: int) -> Conversation:
    if kind == "SEND":
        return talk.client(send(1, number))
    return talk.client(command_frame("LOOKUP", topic="persistent://public/default/t", request_id=100 + number))


def answer(kind: str, number: int) -> bytes:
    if kind == "SEND":
        return receipt(1, number, entry=number)
    fields = {"brokerServiceUrl": "pulsar://10.0.0.2:6650", "response": "Connect", "authoritative": True}
    return command_frame("LOOKUP_RESPONSE", request_id=100 + number, **fields)


def talked(kind: str, asked: int, lost: range, size: int, *, before: bool = False) -> Conversation:
    """Requests that are answered but some: there, or at the start, the capture lacks `size` bytes of the server."""
    talk = connected().client(producer()).server(created())
    if before:
        talk.lose("server", size).server(PONG)
    for number in range(asked):
        asking(talk, kind, number).wait(5 * MILLISECOND)
        if number not in lost:
            talk.server(answer(kind, number))
        elif size and not before and number == lost[-1]:
            talk.lose("server", size)
        talk.wait(50 * MILLISECOND)
    return talk.server(PING).client(PONG).wait(8 * SECOND).client(PING).server(PONG)


@pytest.mark.parametrize(("kind", "lost", "asked"), [*product(("SEND", "LOOKUP"), (range(3, 4), range(2), range(5, 9)), (12, 30))])
def test_answers_that_fit_into_what_the_capture_lacks_are_not_missed(kind: str, lost: range, asked: int, tmp_path: Path) -> None:
    size = sum(len(answer(kind, number)) for number in lost)
    assert not UNANSWERED & set(problem_codes(findings_of(tmp_path, talked(kind, asked, lost, size).close())))


@pytest.mark.parametrize(("kind", "size", "before"), [*product(("SEND", "LOOKUP"), (0, 30, 60), (False, True))])
def test_more_than_fit_or_what_was_asked_later_is(kind: str, size: int, before: bool, tmp_path: Path) -> None:
    lost = range(2, 20)
    rows = findings_of(tmp_path, talked(kind, 30, lost, size, before=before).close())
    assert UNANSWERED & set(problem_codes(rows))
    if kind == "SEND":
        assert only(rows, "send-unanswered")[1]["count"] == len(lost) - (0 if before else -(-size // 14))


@pytest.mark.parametrize(("kind", "count", "closed"), [*product(("SEND", "LOOKUP"), (1, 5, 40), (False, True))])
def test_a_direction_that_begins_later_is_no_lack_of_answers(kind: str, count: int, closed: bool, tmp_path: Path) -> None:
    talk = Conversation(acknowledge=False)
    for number in range(count):
        asking(talk, kind, number).wait(10 * MILLISECOND)
    for number in range(count, count + 5):
        asking(talk, kind, number).wait(10 * MILLISECOND).server(answer(kind, number))
    talk.wait(8 * SECOND).client(PING).server(PONG)
    assert not UNANSWERED & set(problem_codes(findings_of(tmp_path, talk.close() if closed else talk)))


@pytest.mark.parametrize(("pause", "count", "producers"), [*product((1, 5, 20), (3, 8), (1, 2))])
def test_answers_that_come_before_a_held_up_producer_are_its_own(pause: int, count: int, producers: int, tmp_path: Path) -> None:
    talk = Conversation().handshake().lose("client", 40).server(command_frame("CONNECTED", server_version="x", protocol_version=20))
    for number in range(1, producers + 1):
        talk.wait(pause * MILLISECOND).client(producer(number, f"p{number}", number)).wait(MILLISECOND)
        talk.server(created(f"p{number}", number))
    for sequence, number in product(range(count), range(1, producers + 1)):
        talk.client(send(number, sequence)).wait(pause * MILLISECOND).server(receipt(number, sequence, entry=sequence))
    rows = findings_of(tmp_path, talk.wait(8 * SECOND).client(PING).server(PONG).close())
    assert not UNANSWERED & set(problem_codes(rows))
