"""Keep-alives that one side does not answer, and connections of which only the broker closed its half."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from pulsarscope.engine.local import run
from pulsarscope.model.records import FindingRow
from tests.scenarios.capturefile import write_pcap
from tests.scenarios.commands import BY_BROKER, CONNECT, CONNECTED, PING, PONG, close_consumer, delivery, flow, message, send, success
from tests.scenarios.connections import connected, subscribed
from tests.scenarios.conversation import MILLISECOND, SECOND, START_NS, Conversation
from tests.scenarios.evaluation import findings_of, problem_codes, with_code
from tests.scenarios.options import Options

LOST, LATE, CLOSED = "keepalive-lost", "keepalive-late", "connection-closed-by-broker"


def consuming() -> Conversation:
    """A consumer whose connection answered a PING."""
    return subscribed(connected()).client(flow(100)).server(PING).client(PONG)


def leave(talk: Conversation, side: str, end: str) -> Conversation:
    """End by this side: alone, answered by the other side, or answered with RST."""
    if end == "half":
        return close_half(talk, side)
    return talk.reset(side) if end == "rst" else talk.close(side)


def close_half(talk: Conversation, side: str) -> Conversation:
    """A FIN that the other side never answers with its own."""
    del talk.close(side).packets[-2:]
    return talk


@pytest.mark.parametrize(
    ("wait", "side", "end", "more"), [*product((1500, 3000, 9000), ("client", "server"), ("fin", "rst", "half"), (0, 3))]
)
def test_a_side_that_asks_in_vain_and_closes_is_enough(tmp_path: Path, wait: int, side: str, end: str, more: int) -> None:
    if end == "half" and side == "client":
        return
    talk = consuming()
    talk.client(PING) if side == "client" else talk.server(PING)
    for entry in range(more if side == "server" else 0):
        talk.wait(100 * MILLISECOND).server(delivery(entry))
    (row,) = with_code(findings_of(tmp_path, leave(talk.wait(wait * MILLISECOND), side, end)), LOST)
    assert (row.evidence or {})["closed_by"] == side


@pytest.mark.parametrize(("ahead", "side"), [*product((0, 300, 2000), ("client", "server"))])
def test_a_pong_shortly_before_the_only_ping_is_its_answer(tmp_path: Path, ahead: int, side: str) -> None:
    """The two directions were recorded by different clocks, and the capture begins between two PINGs."""
    talk = subscribed(connected()).client(flow(100)).wait(5 * SECOND)
    (talk.client if side == "server" else talk.server)(PONG).wait(ahead * MILLISECOND)
    (talk.server if side == "server" else talk.client)(PING).wait(15 * SECOND).close(side)
    assert (LOST in problem_codes(findings_of(tmp_path, talk))) == (ahead == 2000)


@pytest.mark.parametrize(
    ("wait", "side", "end", "story"), [*product((1500, 9000), ("client", "server"), ("fin", "rst"), ("answered", "late", "other"))]
)
def test_one_that_was_answered_or_closes_itself_or_at_once_has_lost_nothing(
    tmp_path: Path, wait: int, side: str, end: str, story: str
) -> None:
    other = "client" if side == "server" else "server"
    talk = consuming()
    if story == "late":
        talk.wait(wait * MILLISECOND)
    talk.client(PING) if side == "client" else talk.server(PING)
    if story == "answered":
        talk.client(PONG) if other == "client" else talk.server(PONG)
    talk.wait((300 if story == "late" else wait) * MILLISECOND)
    assert with_code(findings_of(tmp_path, leave(talk, other if story == "other" else side, end)), LOST) == []


@pytest.mark.parametrize(("wait", "side", "end", "late"), [*product((1500, 28_000), ("client", "server"), ("fin", "rst", "open"), (1, 50))])
def test_a_pong_that_is_captured_before_its_ping_answers_it(tmp_path: Path, wait: int, side: str, end: str, late: int) -> None:
    """Captures of the two directions by different queues or hosts may be slightly out of step."""
    other = "client" if side == "server" else "server"
    talk = consuming()
    getattr(talk, other)(PONG)
    getattr(talk.wait(late * MILLISECOND), side)(PING).wait(wait * MILLISECOND)
    rows = findings_of(tmp_path, leave(talk, side, end) if end != "open" else talk)
    assert not with_code(rows, LOST)
    assert with_code(rows, "capture-order")


@pytest.mark.parametrize("answered", [False, True])
def test_a_ping_after_lost_bytes_may_be_read_after_its_answer(tmp_path: Path, answered: bool) -> None:
    talk = consuming().lose("server", 40).wait(30 * SECOND).server(PING).wait(100_000)
    talk = (talk.client(PONG) if answered else talk).wait(15 * SECOND).close()
    assert (LOST in problem_codes(findings_of(tmp_path, talk))) == (not answered)


@pytest.mark.parametrize("wait", [0, 200, 4000])
def test_a_half_that_the_broker_closes_is_a_close(tmp_path: Path, wait: int) -> None:
    assert CLOSED in problem_codes(findings_of(tmp_path, close_half(consuming().server(delivery(0)).wait(wait * MILLISECOND), "server")))


@pytest.mark.parametrize("story", ["closed", "by the client", "said"])
def test_a_half_that_ends_in_order_is_none(tmp_path: Path, story: str) -> None:
    talk = consuming()
    if story == "closed":
        close_half(talk.client(close_consumer()).server(success(900)), "server")
    elif story == "said":
        close_half(talk.server(close_consumer(1, BY_BROKER)), "server")
    else:
        close_half(talk, "client")
    assert CLOSED not in problem_codes(findings_of(tmp_path, talk))


@pytest.mark.parametrize(("side", "size", "wait", "end"), [*product(("client", "server"), (13, 200), (3000, 40000), ("fin", "open"))])
def test_an_answer_that_the_capture_may_lack_is_none_that_is_missing(tmp_path: Path, side: str, size: int, wait: int, end: str) -> None:
    """The other direction acknowledges bytes that were not captured, until the end."""
    other = "client" if side == "server" else "server"
    for before in (False, True):
        talk = consuming()
        if before:
            talk.lose(other, size)
            for entry in range(4):  # the hole is known after these
                talk.server(delivery(entry)).client(flow(1)).wait(SECOND)
        talk.client(PING) if side == "client" else talk.server(PING)
        talk.wait(MILLISECOND)
        if not before:
            talk.lose(other, size)
        talk.wait(wait * MILLISECOND)
        for _ in range(2):
            talk.client(flow(1)) if side == "client" else talk.server(delivery(1))
        rows = findings_of(tmp_path, close_half(talk, side) if end == "fin" else talk)
        assert (with_code(rows, LOST) != []) == (before and (end == "fin" or wait > 10_000))


@pytest.mark.parametrize(("wait", "late", "frame"), [*product((1500, 30_000), (100, 15_000), (PING, PONG, delivery(0)))])
def test_a_broker_that_wakes_up_when_the_client_has_given_up_had_lost_it(tmp_path: Path, wait: int, late: int, frame: bytes) -> None:
    talk = close_half(consuming().client(PING).wait(wait * MILLISECOND), "client").wait(late * MILLISECOND).server(frame)
    (row,) = with_code(findings_of(tmp_path, talk.reset("client")), LOST)
    assert (row.evidence or {})["silent"] == "server"


@pytest.mark.parametrize("wait", [0, 300])
def test_one_that_answers_behind_a_close_at_once_had_not(tmp_path: Path, wait: int) -> None:
    talk = close_half(consuming().client(PING).wait(wait * MILLISECOND), "client").wait(100 * MILLISECOND).server(PONG)
    assert with_code(findings_of(tmp_path, talk.close("server")), LOST) == []


@pytest.mark.parametrize(("wait", "side", "answer"), [*product((11, 20, 45), ("client", "server"), ("pong", "other"))])
def test_a_side_that_stood_still_after_a_ping_and_went_on_is_reported(tmp_path: Path, wait: int, side: str, answer: str) -> None:
    other = "client" if side == "server" else "server"
    talk = consuming()
    getattr(talk, other)(PING).wait(wait * SECOND)
    getattr(talk, side)(PONG if answer == "pong" else flow(10) if side == "client" else delivery(0))
    rows = findings_of(tmp_path, talk.wait(SECOND))
    (row,) = with_code(rows, LATE)
    evidence = row.evidence or {}
    assert evidence["silent"] == side
    assert wait * SECOND <= evidence["silent_ns"] < (wait + 1) * SECOND
    assert (row.text or "").startswith("The client 10." if side == "client" else "The broker 10.")
    assert with_code(rows, LOST) == []


@pytest.mark.parametrize("side", ["client", "server"])
@pytest.mark.parametrize("story", ["soon", "busy", "large", "lost"])
def test_a_side_that_sends_meanwhile_or_soon_or_something_large_did_not_stand_still(tmp_path: Path, side: str, story: str) -> None:
    other = "client" if side == "server" else "server"
    talk = consuming()
    getattr(talk, other)(PING)
    if story == "busy":
        for _ in range(5):
            getattr(talk.wait(4 * SECOND), side)(flow(1) if side == "client" else delivery(0))
    elif story == "large":
        talk.wait(20 * SECOND)
        talk.client(send(1, 0, bytes(300_000))) if side == "client" else talk.server(message(1, 0, payload=bytes(300_000)))
    elif story == "lost":
        talk.wait(4 * SECOND).lose(side, 40).wait(14 * SECOND)
    else:
        talk.wait(9 * SECOND)
    getattr(talk, side)(PONG)
    assert with_code(findings_of(tmp_path, talk.wait(SECOND)), LATE) == []


@pytest.mark.parametrize(("wait", "side", "frames", "end"), [*product((11, 40), ("client", "server"), (1, 3), ("fin", "rst", "open"))])
def test_frames_of_a_dead_process_that_its_host_sends_late_are_no_sign_of_life(
    tmp_path: Path, wait: int, side: str, frames: int, end: str
) -> None:
    """The host of `side` still has frames to send, and sends them when an outage is over; it answers no PING."""
    other = "client" if side == "server" else "server"
    talk = consuming()
    getattr(talk, other)(PING).wait(wait * SECOND)
    for entry in range(frames):
        getattr(talk, side)(flow(1) if side == "client" else delivery(entry)).wait(100 * MILLISECOND)
    getattr(talk, other)(PING).wait(wait * SECOND)
    rows = findings_of(tmp_path, getattr(talk, other)(PING) if end == "open" else leave(talk, other, end))
    assert (len(with_code(rows, LOST)), with_code(rows, LATE)) == (1, [])


@pytest.mark.parametrize(("wait", "side", "end"), [*product((11, 40), ("client", "server"), ("fin", "rst", "open"))])
def test_a_side_that_answered_late_and_then_never_again_did_both(tmp_path: Path, wait: int, side: str, end: str) -> None:
    other = "client" if side == "server" else "server"
    talk = consuming()
    for answer in (True, False):
        getattr(talk, other)(PING).wait(wait * SECOND)
        if answer:
            getattr(talk, side)(PONG).wait(SECOND)
    rows = findings_of(tmp_path, getattr(talk, other)(PING) if end == "open" else leave(talk, other, end))
    assert [len(with_code(rows, code)) for code in (LATE, LOST)] == [1, 1]


@pytest.mark.parametrize(("wait", "frame"), [*product((11_000, 30_000), (PONG, delivery(0)))])
def test_a_broker_that_answers_long_after_the_client_had_given_up_is_only_lost(tmp_path: Path, wait: int, frame: bytes) -> None:
    talk = close_half(consuming().client(PING).wait(wait * MILLISECOND), "client").wait(SECOND).server(frame)
    rows = findings_of(tmp_path, talk.reset("client"))
    assert (len(with_code(rows, LOST)), with_code(rows, LATE)) == (1, [])


@pytest.mark.parametrize(("side", "size", "acknowledged", "more"), [*product(("client", "server"), (100, 5000), (True, False), (0, 2))])
def test_a_side_that_answered_before_the_ping_was_read_did_not_stand_still(
    tmp_path: Path, side: str, size: int, acknowledged: bool, more: int
) -> None:
    """The capture lacks bytes before the PING, which is therefore decoded after its answer."""
    other = "client" if side == "server" else "server"
    talk = consuming().wait(20 * SECOND)
    talk._acknowledge = acknowledged
    getattr(talk.lose(other, size), other)(PING).wait(MILLISECOND)
    getattr(talk, side)(PONG).wait(15 * SECOND)
    for _ in range(3 + more):
        getattr(talk, side)(PING)
        getattr(talk, other)(PONG).wait(15 * SECOND)
        getattr(talk, other)(PING)
        getattr(talk, side)(PONG).wait(15 * SECOND)
    assert with_code(findings_of(tmp_path, talk), LATE) == []


def silent(then: str, waits: int, times: int) -> list[Conversation]:
    """A broker that no longer answers a client, which then connects anew; `then`: what becomes of these connections."""
    talk = consuming().client(PING).wait(12 * SECOND).close("client")
    talks, start = [talk], 13 * SECOND
    for number in range(times):
        server = ("10.0.0.9", 6650) if then == "another broker" else ("10.0.0.2", 6650)
        host = "10.0.0.7" if then == "another client" else "10.0.0.1"
        again = Conversation((host, 41000 + number), server, start_ns=START_NS + start, acknowledge=False).handshake().client(CONNECT)
        if then == "answered" or (then == "back" and number == 0):
            again.server(CONNECTED)
        again.wait(waits)
        talks.append(again.close("server" if then == "closed by the broker" else "client"))
        start += waits + SECOND
    return talks


@pytest.mark.parametrize("waits", [1_500 * MILLISECOND, 10 * SECOND])
@pytest.mark.parametrize("times", [1, 4])
def test_a_silent_broker_that_answers_no_later_connection_either_is_the_reason(tmp_path: Path, waits: int, times: int) -> None:
    rows = findings_of(tmp_path, *silent("", waits, times))
    first, second = with_code(rows, LOST)
    assert "has not answered a PING" in (first.text or "")
    assert (second.evidence or {})["count"] == times
    assert len((second.evidence or {})["connections"]) == times + 1
    assert len(with_code(rows, "request-unanswered")) == times


@pytest.mark.parametrize("then", ["answered", "back", "another broker", "another client", "closed by the broker"])
@pytest.mark.parametrize("times", [1, 3])
def test_others_say_nothing_about_a_silent_broker(tmp_path: Path, then: str, times: int) -> None:
    assert len(with_code(findings_of(tmp_path, *silent(then, 5 * SECOND, times)), LOST)) == 1


def test_connections_that_a_client_gives_up_at_once_do_not_either(tmp_path: Path) -> None:
    assert len(with_code(findings_of(tmp_path, *silent("", SECOND // 2, 3)), LOST)) == 1


@pytest.mark.parametrize("forced", [False, True])
@pytest.mark.parametrize(("apart", "rest", "lost"), [*product((1, 60, 200), (15, 25), (False, True))])
def test_pings_of_both_sides_at_the_start_of_a_capture(tmp_path: Path, apart: int, rest: int, forced: bool, lost: bool) -> None:
    """The first frame of a stream from before the capture is known with the next one: the PONG has then been read, and a PING behind it."""
    talk = Conversation(("10.0.0.1", 40001), ("10.0.0.2", 6650))
    talk.server(PING).client(PONG).wait(apart * MILLISECOND).client(PING).wait(apart * MILLISECOND).server(PONG)
    if lost:
        talk.wait(SECOND).server(PING)
    path = write_pcap(tmp_path / "pings.pcap", talk.wait(rest * SECOND).close().packets)
    options = Options(frozenset({"finding"}), rules=True, ports=frozenset({6650} if forced else ()))
    rows = [row for batch in run([str(path)], options) for row in batch.rows]
    assert any(isinstance(row, FindingRow) and row.code == LOST for row in rows) == lost
