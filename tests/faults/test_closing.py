"""Connections that the broker closes while the client goes on writing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.commands import CONNECT, close_producer, created, error, producer, receipt, send, subscribe, success
from tests.scenarios.connections import connected
from tests.scenarios.conversation import SECOND, Conversation
from tests.scenarios.evaluation import findings_of, only, with_code
from tests.scenarios.packets import ACK, FIN


def half_closed(talk: Conversation) -> Conversation:
    """A FIN of the broker, which the client's host only acknowledges."""
    talk._add(1, flags=FIN | ACK)
    talk._next[1] += 1
    talk._add(0)
    return talk


@pytest.mark.parametrize("pause", [SECOND // 100, SECOND // 2, 5 * SECOND])
@pytest.mark.parametrize("late", [1, 5])
@pytest.mark.parametrize("waiting", [0, 1, 3])
@pytest.mark.parametrize("end", ["rst", "fin"])
def test_what_was_sent_after_the_fin_is_no_reason(pause: int, late: int, waiting: int, end: str, tmp_path: Path) -> None:
    talk = connected().client(producer()).server(created()).client(send(1, 0)).server(receipt(1, 0))
    for number in range(waiting):
        talk.client(send(1, 1 + number))
    half_closed(talk).wait(pause)
    for number in range(late):
        talk.client(send(1, 10 + number))
    rows = findings_of(tmp_path, talk.reset("server") if end == "rst" else talk.close("client"))
    text, evidence = only(rows, "connection-closed-by-broker")
    assert "closed the connection with a FIN" in text
    assert "sent on for" in text
    assert evidence["unanswered"] == ({"SEND": waiting} if waiting else {})
    (row,) = with_code(rows, "connection-closed-by-broker")
    assert (row.packet, row.sub) == (9 + waiting, 1)  # the receipt, or the SEND that waits for one
    assert evidence["frames"][0] == f"0:{9 + waiting}.1"


@pytest.mark.parametrize("late", [0, 1, 3])
def test_an_orderly_end_is_none_whatever_follows(late: int, tmp_path: Path) -> None:
    talk = connected().client(producer()).server(created()).client(close_producer(1, 2)).server(success(2))
    half_closed(talk)
    for number in range(late):
        talk.client(producer(2 + number, f"q{number}", 3 + number))
    assert with_code(findings_of(tmp_path, talk.reset("server")), "connection-closed-by-broker") == []


@pytest.mark.parametrize("end", ["fin", "rst"])
@pytest.mark.parametrize("every", [SECOND // 4, SECOND, 20 * SECOND])
def test_clients_that_are_refused_and_go_are_in_a_loop(end: str, every: int, tmp_path: Path) -> None:
    talks = []
    for number in range(6):
        talk = connected(40000 + number, start=number * every)
        talk.client(subscribe()).server(error(2, "PersistenceError"))
        talks.append(talk.close() if end == "fin" else talk.reset("client"))
    assert only(findings_of(tmp_path, *talks), "reconnect-loop")[1]["reasons"] == {"PersistenceError": 6}


@pytest.mark.parametrize("times", [6, 12])
def test_clients_that_work_on_after_a_refusal_are_not(times: int, tmp_path: Path) -> None:
    talks = []
    for number in range(times):
        talk = connected(40000 + number, start=number * SECOND).client(subscribe()).server(error(2, "PersistenceError"))
        talks.append(talk.client(producer()).server(created()).client(close_producer(1, 2)).server(success(2)).close())
    assert with_code(findings_of(tmp_path, *talks), "reconnect-loop") == []


@pytest.mark.parametrize("end", ["fin", "rst"])
@pytest.mark.parametrize("port", [6651, 6650, 7000])
@pytest.mark.parametrize("answered", [False, True])
def test_a_client_without_tls_at_the_port_for_tls_is_told(answered: bool, port: int, end: str, tmp_path: Path) -> None:
    server = ("10.0.0.2", port)
    if answered:
        talk = connected(server=server).client(producer())
    else:
        talk = Conversation(("10.0.0.1", 40000), server, acknowledge=False).handshake().client(CONNECT)
    rows = findings_of(tmp_path, talk.reset("server") if end == "rst" else talk.close("server"))
    text, _ = only(rows, "connection-closed-by-broker")
    assert ("at port 6651, where brokers expect TLS" in text) == (port == 6651 and not answered)
