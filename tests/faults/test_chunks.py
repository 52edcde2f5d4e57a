"""Chunked messages that begin before the capture, those with a missing chunk, and those that nobody finishes."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.scenarios.commands import PING, PONG, created, flow, message, producer, send
from tests.scenarios.connections import connected, subscribed, wait_until
from tests.scenarios.conversation import SECOND, START_NS, Conversation
from tests.scenarios.evaluation import findings_of, only, problem_codes, with_code

MISSING, PARTLY = "chunk-missing", "chunk-incomplete"


def chunks(talk: Conversation, side: str, numbers: range | list[int], count: int, uuid: str, producer: str = "p") -> Conversation:
    """SENDs or MESSAGEs with the chunks of one message."""
    for number in numbers:
        metadata = {"uuid": uuid, "chunk_id": number, "num_chunks_from_msg": count, "producer_name": producer}
        if side == "client":
            talk.client(send(sequence_id=5, payload=b"part", metadata=metadata, is_chunk=True))
        else:
            talk.server(message(entry=number, payload=b"part", metadata=metadata))
    return talk


def midstream() -> Conversation:
    """A connection from before the capture."""
    return Conversation(("10.0.0.1", 40000), ("10.0.0.2", 6650), start_ns=START_NS, acknowledge=False).client(PING).server(PONG)


@pytest.mark.parametrize(("side", "count", "first", "others"), [*product(("client", "server"), (2, 5, 30), (1, 4, 29), (0, 2))])
def test_a_message_within_which_the_capture_begins_is_only_noted(tmp_path: Path, side: str, count: int, first: int, others: int) -> None:
    if first >= count:
        return
    talk = chunks(midstream(), side, range(first, count), count, "u")
    for number in range(others):
        chunks(talk, side, range(count), count, f"v{number}")
    rows = findings_of(tmp_path, talk)
    assert problem_codes(rows) == []
    (row,) = with_code(rows, PARTLY)
    assert "from before the capture" in (row.text or "")


@pytest.mark.parametrize(("first", "second"), [*product((1, 3), (2, 4))])
def test_so_are_those_of_several_producers_that_interleave(tmp_path: Path, first: int, second: int) -> None:
    talk = midstream()
    for number in range(5):
        if number >= first:
            chunks(talk, "server", [number], 5, "u", "p")
        if number >= second:
            chunks(talk, "server", [number], 5, "v", "q")
    rows = findings_of(tmp_path, talk)
    assert (problem_codes(rows), len(with_code(rows, PARTLY))) == ([], 2)


@pytest.mark.parametrize(
    ("side", "case"), [*product(("client", "server"), ("from the start", "behind another one", "in the middle", "out of order"))]
)
def test_chunks_that_are_missing_otherwise_are_named(tmp_path: Path, side: str, case: str) -> None:
    talk = connected() if case == "from the start" else midstream()
    if case == "behind another one":
        chunks(talk, side, range(4), 4, "v")
    numbers = {"in the middle": [1, 3], "out of order": [2, 1, 3]}.get(case, [1, 2, 3])
    rows = findings_of(tmp_path, chunks(talk, side, numbers, 4, "u"))
    assert MISSING in problem_codes(rows)


def abandoned(numbers: range, story: str, rest: int) -> list[Conversation]:
    """A producer that sends these chunks of one message of four, and a consumer that gets them and then waits `rest` seconds."""
    sender = chunks(connected(40001, host="10.0.0.7").client(producer()).server(created()), "client", numbers, 4, "u")
    waiting = chunks(wait_until(subscribed(connected()).client(flow(100)), SECOND), "server", numbers, 4, "u")
    talks = [sender.wait(SECOND), waiting]
    if story == "late":
        sender.wait(60 * SECOND)
    if story == "lost":
        sender.lose("client", 400).client(PING).server(PONG)
    if story != "open":
        sender.close("server") if story == "broker" else sender.reset("client") if story == "rst" else sender.close()
    if story == "resumed":
        again = connected(40002, host="10.0.0.7", start=3 * SECOND).client(producer()).server(created())
        talks.append(chunks(again, "client", range(numbers.stop, 4), 4, "u"))
    if story == "elsewhere":  # the capture lacks the connection that sent the rest
        other = wait_until(subscribed(connected(41009), subscription="other").client(flow(100)), SECOND)
        talks.append(chunks(chunks(other, "server", numbers, 4, "u").wait(3 * SECOND), "server", range(numbers.stop, 4), 4, "u"))
    waiting.wait(rest * SECOND).client(PING).server(PONG)
    return talks


@pytest.mark.parametrize("rest", [7, 40])
@pytest.mark.parametrize("story", ["fin", "rst"])
@pytest.mark.parametrize("sent", [1, 3])
def test_a_producer_that_ends_within_a_message_is_named(sent: int, story: str, rest: int, tmp_path: Path) -> None:
    text, evidence = only(findings_of(tmp_path, *abandoned(range(sent), story, rest)), "chunk-abandoned")
    assert f"sent {sent} of 4 chunks of message u" in text
    assert (evidence["sent"], evidence["chunks"], len(evidence["frames"])) == (sent, 4, sent)


@pytest.mark.parametrize(
    ("sent", "story", "rest"),
    [
        (3, "fin", 2),
        (4, "fin", 30),
        (3, "open", 30),
        (3, "lost", 30),
        (3, "broker", 30),
        (3, "late", 30),
        (3, "elsewhere", 30),
        (1, "elsewhere", 30),
        (1, "resumed", 30),
        (3, "resumed", 30),
    ],
)
def test_messages_that_are_or_may_become_whole_are_not_abandoned(sent: int, story: str, rest: int, tmp_path: Path) -> None:
    assert "chunk-abandoned" not in {row.code for row in findings_of(tmp_path, *abandoned(range(sent), story, rest))}


@pytest.mark.parametrize("minutes", [2, 9, 15, 40])
def test_chunks_that_are_delivered_long_after_they_were_sent(tmp_path: Path, minutes: int) -> None:
    """After ten minutes without news of a message, its SENDs are evaluated alone."""
    sender = chunks(connected(40001, host="10.0.0.7").client(producer()).server(created()), "client", range(2), 4, "u")
    for _ in range(2 * minutes):
        sender.wait(30 * SECOND).client(PING).server(PONG)
    waiting = subscribed(connected(start=(minutes * 60 - 20) * SECOND)).client(flow(100))
    chunks(waiting, "server", range(2), 4, "u").wait(60 * SECOND).client(PING).server(PONG)
    codes = {row.code for row in findings_of(tmp_path, sender.close(), waiting)}
    assert "rule-failed" not in codes
    assert ("chunk-abandoned" in codes) == (minutes < 10)


def delivered_in_part(last: bool, lost: str) -> list[Conversation]:
    """A producer that sends four chunks, and a consumer that gets two or three of them, where the capture may lack bytes."""
    waiting = subscribed(connected()).client(flow(100))
    if lost == "before":
        waiting.lose("server", 400).server(PONG)
    start = 2 * SECOND
    sender = chunks(connected(40001, host="10.0.0.7", start=start).client(producer()).server(created()), "client", range(4), 4, "u")
    chunks(wait_until(waiting, start + SECOND), "server", [0, 1], 4, "u")
    if lost in ("client", "server"):
        waiting.lose(lost, 400)
    if last:
        chunks(waiting, "server", [3], 4, "u")
    return [sender, waiting.wait(10 * SECOND).client(PING).server(PONG)]


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(("lost", "stuck"), [("nothing", 1), ("before", 1), ("client", 1), ("server", 0)])
def test_chunks_are_stuck_unless_the_capture_may_lack_them(last: bool, lost: str, stuck: int, tmp_path: Path) -> None:
    assert len(with_code(findings_of(tmp_path, *delivered_in_part(last, lost)), "chunk-stuck")) == stuck
