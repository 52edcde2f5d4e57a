"""Connections whose SYN, or its answer, gets lost: opened late, or never while others are."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

import pulsarscope as ps
from tests.faults.attempts import attempt
from tests.scenarios.capturefile import write_pcap
from tests.scenarios.commands import CONNECT, CONNECTED, PING, PONG, created, producer, receipt, send
from tests.scenarios.connections import connected
from tests.scenarios.conversation import MILLISECOND, SECOND, START_NS, Conversation
from tests.scenarios.evaluation import findings_of, only, problem_codes, with_code
from tests.scenarios.packets import ACK, SYN

DELAYED, DROPPED = "connect-delayed", "connect-dropped"
BROKER = ("10.0.0.2", 6650)


def opened_late(pauses: list[int], *, answered: bool = False, data_first: bool = False) -> Conversation:
    """A connection whose SYN comes again after each of the pauses (ms); or, when the server has answered, its SYN ACK."""
    talk = Conversation()
    client, server = (number - 1 for number in talk._next)
    talk._add(0, flags=SYN, sequence=client)
    if answered:
        talk._add(1, flags=SYN | ACK, sequence=server)
    if data_first:
        talk._add(0)
        talk._add(0, CONNECT)
    for pause in pauses:
        talk.wait(pause * MILLISECOND)
        talk._add(int(answered), flags=SYN | ACK if answered else SYN, sequence=server if answered else client)
    if not answered:
        talk._add(1, flags=SYN | ACK, sequence=server)
    talk._add(0)
    talk.client(CONNECT).server(CONNECTED).client(producer()).server(created())
    return talk.client(send(1, 0)).server(receipt(1, 0))


def ended(talk: Conversation, how: str) -> Conversation:
    return talk.close() if how == "fin" else talk.reset("client") if how == "rst" else talk


@pytest.mark.parametrize(
    ("pauses", "answered", "data_first", "how"),
    [
        *product(([1_000], [1_000, 2_000], [1_000, 2_000, 4_000]), (False, True), (False,), ("fin", "rst", "open")),
        ([1_000, 2_000], True, True, "fin"),
        ([3_000, 6_000], False, False, "fin"),
    ],
)
def test_a_handshake_that_was_sent_again_is_named(pauses: list[int], answered: bool, data_first: bool, how: str, tmp_path: Path) -> None:
    text, evidence = only(findings_of(tmp_path, ended(opened_late(pauses, answered=answered, data_first=data_first), how)), DELAYED)
    assert (evidence["answers"], evidence["syns"]) == ((len(pauses), 0) if answered else (0, len(pauses)))
    assert sum(pauses) * MILLISECOND <= evidence["took_ns"] < (sum(pauses) + 10) * MILLISECOND
    assert ("10.0.0.2:6650 sent its answer to the SYN" if answered else "10.0.0.1:40000 sent its SYN again") in text


@pytest.mark.parametrize("pauses", [[], [1], [200], [1, 1, 1], [300, 300]])
def test_copies_of_a_handshake_and_quick_repetitions_are_no_delay(pauses: list[int], tmp_path: Path) -> None:
    for answered in (False, True):
        assert with_code(findings_of(tmp_path, opened_late(pauses, answered=answered)), DELAYED) == []


def test_the_handshake_of_the_next_connection_of_a_port_is_none_of_this_one(tmp_path: Path) -> None:
    first = connected().client(PING).server(PONG).close()
    later = (
        Conversation(client_isn=900_000, server_isn=700_000, start_ns=START_NS + 5 * SECOND).handshake().client(CONNECT).server(CONNECTED)
    )
    assert with_code(findings_of(tmp_path, first, later), DELAYED) == []


def test_a_late_handshake_of_an_unknown_protocol_is_no_finding(tmp_path: Path) -> None:
    talk = Conversation(server=("10.0.0.2", 8080))
    for _ in range(3):
        talk._add(0, flags=SYN, sequence=talk._next[0] - 1)
        talk.wait(SECOND)
    assert problem_codes(findings_of(tmp_path, talk.handshake().client(b"GET / HTTP/1.1\r\n\r\n"), connected())) == []


def worked(start: int, port: int, lasts: int = SECOND) -> Conversation:
    talk = connected(port, start=start).client(producer()).server(created())
    return talk.wait(lasts).client(PING).server(PONG).close()


@pytest.mark.parametrize("tries", [1, 2, 4])
def test_attempts_that_nobody_answers_before_one_that_works(tries: int, tmp_path: Path) -> None:
    lost = [attempt(BROKER, 10 * number * SECOND, "unanswered", syns=4, port=41000 + number) for number in range(tries)]
    found = findings_of(tmp_path, *lost, worked(10 * tries * SECOND, 42000))
    text, evidence = only(found, "broker-outage")
    assert (evidence["count"], evidence["span_ns"]) == (tries, 10 * tries * SECOND)
    assert "failed (unanswered), and connection" in text
    assert problem_codes(found) == []


def test_attempts_that_nobody_answers_while_others_work(tmp_path: Path) -> None:
    lost = [attempt(BROKER, number * SECOND, "unanswered", syns=3, port=41000 + number) for number in (2, 5, 7)]
    found = findings_of(tmp_path, worked(0, 42000, 30 * SECOND), *lost, worked(20 * SECOND, 42001))
    _, evidence = only(found, DROPPED)
    assert (evidence["count"], evidence["answered"]) == (3, 2)
    assert with_code(found, "broker-unreachable") == []


@pytest.mark.parametrize("syns", [1, 2])
def test_an_attempt_given_up_soon_is_not_said_to_be_dropped(syns: int, tmp_path: Path) -> None:
    found = findings_of(tmp_path, attempt(BROKER, 0, "unanswered", syns=syns), worked(10 * SECOND, 42000))
    assert [row.code for row in found if row.code in (DROPPED, "broker-outage")] == []


def test_refused_attempts_are_not_dropped(tmp_path: Path) -> None:
    found = findings_of(tmp_path, attempt(BROKER, 0, "refused", syns=4), worked(10 * SECOND, 42000))
    assert with_code(found, DROPPED) == []


def test_a_time_without_a_broker_is_an_outage_and_an_end_without_one_is_unreachable(tmp_path: Path) -> None:
    lost = attempt(BROKER, 5 * SECOND, "unanswered", syns=4)
    found = findings_of(tmp_path, worked(0, 42000), lost, worked(20 * SECOND, 42001))
    assert [row.code for row in found if row.code in (DROPPED, "broker-outage")] == ["broker-outage"]
    found = findings_of(tmp_path, worked(0, 42000), lost)
    assert [row.code for row in found if row.code in (DROPPED, "broker-unreachable")] == ["broker-unreachable"]


def far_away(round_trip: int, *, sends: int = 12, lost: tuple[int, ...] = ()) -> Conversation:
    """A producer whose packets take `round_trip` ms in all, so that both sides send their SYNs again, or after `lost` ms as well."""
    talk = Conversation(acknowledge=False)
    syn, answer = (number - 1 for number in talk._next)
    for pause in (*lost, 1_000):
        talk._add(0, flags=SYN, sequence=syn)
        talk.wait(pause * MILLISECOND)
    talk._add(0, flags=SYN, sequence=syn)
    talk.wait(max(0, round_trip - 1_000) * MILLISECOND)
    talk._add(1, flags=SYN | ACK, sequence=answer)
    talk._add(0)
    talk._add(1, flags=SYN | ACK, sequence=answer)
    for number in range(-1, sends):
        asks, answers = (CONNECT, CONNECTED) if number < 0 else (send(1, number), receipt(1, number, entry=number))
        talk.client(asks).wait(round_trip * MILLISECOND).confirm("server").server(answers).confirm("client")
    return talk.close()


@pytest.mark.parametrize(
    ("round_trip", "lost", "cause"), [(1_100, (), True), (1_600, (), True), (2_900, (), True), (800, (1_000, 2_000), False)]
)
def test_a_long_way_is_the_cause_of_a_late_handshake(round_trip: int, lost: tuple[int, ...], cause: bool, tmp_path: Path) -> None:
    reports = ps.open(write_pcap(tmp_path / "far.pcap", far_away(round_trip, lost=lost).packets)).diagnose()["findings"]
    reasons = {report["code"]: report["explained_by"] for report in reports}
    assert (reasons["path-delay"], reasons[DELAYED]) == (None, "path-delay" if cause else None)
