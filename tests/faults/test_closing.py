"""Connections that the broker closes while the client keeps writing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.commands import (
    CONNECT,
    PING,
    PONG,
    ack,
    close_consumer,
    close_producer,
    created,
    delivery,
    error,
    producer,
    receipt,
    send,
    subscribe,
    success,
)
from tests.scenarios.connections import connected
from tests.scenarios.conversation import SECOND, Conversation
from tests.scenarios.evaluation import findings_of, only, with_code


@pytest.mark.parametrize("pause", [SECOND // 100, SECOND // 2, 5 * SECOND])
@pytest.mark.parametrize("late", [1, 5])
@pytest.mark.parametrize("waiting", [0, 1, 3])
@pytest.mark.parametrize("end", ["rst", "fin"])
def test_what_was_sent_after_the_fin_is_no_reason(pause: int, late: int, waiting: int, end: str, tmp_path: Path) -> None:
    talk = connected().client(producer()).server(created()).client(send(1, 0)).server(receipt(1, 0))
    for number in range(waiting):
        talk.client(send(1, 1 + number))
    talk.half_close().wait(pause)
    for number in range(late):
        talk.client(send(1, 10 + number))
    rows = findings_of(tmp_path, talk.reset("server") if end == "rst" else talk.close("client"))
    text, evidence = only(rows, "connection-closed-by-broker")
    assert "closed the connection with a FIN" in text
    assert "sent on for" in text
    assert evidence["unanswered"] == ({"SEND": waiting} if waiting else {})
    (row,) = with_code(rows, "connection-closed-by-broker")
    assert (row.packet, row.sub) == (9 + waiting, 1)  # the receipt, or the SEND that waits for it
    assert evidence["frames"][0] == f"0:{9 + waiting}.1"


@pytest.mark.parametrize("late", [0, 1, 3])
def test_an_orderly_end_is_none_whatever_follows(late: int, tmp_path: Path) -> None:
    talk = connected().client(producer()).server(created()).client(close_producer(1, 2)).server(success(2))
    talk.half_close()
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
def test_a_client_without_tls_at_the_port_for_tls_is_reported(answered: bool, port: int, end: str, tmp_path: Path) -> None:
    server = ("10.0.0.2", port)
    if answered:
        talk = connected(server=server).client(producer())
    else:
        talk = Conversation(("10.0.0.1", 40000), server, acknowledge=False).handshake().client(CONNECT)
    rows = findings_of(tmp_path, talk.reset("server") if end == "rst" else talk.close("server"))
    text, _ = only(rows, "connection-closed-by-broker")
    assert ("at port 6651, where brokers expect TLS" in text) == (port == 6651 and not answered)


def from_before(last: str, pause: int, pings: bool) -> Conversation:
    """A producer or consumer from before the capture that works until the broker closes the connection."""
    talk = Conversation(acknowledge=False)
    for number in range(3):
        talk.wait(SECOND // 5)
        if last == "produce":
            talk.client(send(1, number)).server(receipt(1, number))
        else:
            talk.server(delivery(number)).client(ack(number))
    if pings:
        talk.server(PING).client(PONG) if last == "produce" else talk.client(PING).server(PONG)
        talk.server(delivery(3)) if last == "consume" else talk.client(send(1, 3)).server(receipt(1, 3))
    return talk.wait(pause)


@pytest.mark.parametrize("last", ["produce", "consume"])
@pytest.mark.parametrize("pings", [True, False])
@pytest.mark.parametrize("pause", [SECOND // 100, SECOND, 5 * SECOND])
@pytest.mark.parametrize("end", ["rst", "fin"])
def test_what_worked_before_the_capture_is_open_when_the_broker_closes(
    last: str, pings: bool, pause: int, end: str, tmp_path: Path
) -> None:
    talk = from_before(last, pause, pings)
    text, _ = only(findings_of(tmp_path, talk.reset("server") if end == "rst" else talk.close("server")), "connection-closed-by-broker")
    assert "a producer or consumer from before the capture open" in text


@pytest.mark.parametrize("last", ["produce", "consume"])
@pytest.mark.parametrize("end", ["rst", "fin"])
@pytest.mark.parametrize("how", ["broker", "client", "request", "alive"])
def test_what_was_closed_before_or_by_its_client_was_not_open(last: str, end: str, how: str, tmp_path: Path) -> None:
    """A stopping broker first closes each producer; a connection with only keep-alives shows nothing."""
    talk = from_before(last, SECOND // 10, pings=False)
    if how == "broker":
        talk.server(close_producer(1, 2) if last == "produce" else close_consumer(1, 2))
        talk.client(send(1, 9) if last == "produce" else ack(2))  # it crosses the close
    elif how == "request":
        talk.client(close_producer(1, 2) if last == "produce" else close_consumer(1, 2)).server(success(2))
    elif how == "alive":
        talk = Conversation(acknowledge=False).server(PING).client(PONG).wait(SECOND)
    side = "client" if how == "client" else "server"
    rows = findings_of(tmp_path, talk.reset(side) if end == "rst" else talk.close(side))
    unanswered = [row.text for row in with_code(rows, "connection-closed-by-broker") if "from before the capture" in (row.text or "")]
    assert unanswered == []


def going_on(after: int, *, server: bool = False) -> Conversation:
    """A client that keeps using a connection from before the capture, which is reset `after` ns later."""
    talk = Conversation(("10.0.0.1", 40000), ("10.0.0.2", 6650), acknowledge=False)
    if server:
        talk.server(PONG)
    return talk.client(send(1, 5)).wait(after).reset("server")


@pytest.mark.parametrize("after", [0, SECOND // 2])
def test_a_connection_that_the_host_of_the_broker_does_not_know_is_not_closed_by_the_broker(tmp_path: Path, after: int) -> None:
    rows = findings_of(tmp_path, going_on(after))
    text, evidence = only(rows, "connection-unknown")
    assert "does not know the connection" in text
    assert len(evidence["frames"]) == 1
    assert with_code(rows, "connection-closed-by-broker") == []


@pytest.mark.parametrize(
    "talk",
    [
        going_on(0, server=True),
        going_on(5 * SECOND),
        connected().client(producer()).server(created()).client(send(1, 5)).reset("server"),
    ],
    ids=["its broker sent something", "much later", "from the start"],
)
def test_others_are_closed_by_it(tmp_path: Path, talk: Conversation) -> None:
    rows = findings_of(tmp_path, talk)
    assert with_code(rows, "connection-unknown") == []
    assert with_code(rows, "connection-closed-by-broker")
