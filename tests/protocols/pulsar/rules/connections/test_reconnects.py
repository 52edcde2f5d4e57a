"""Clients whose attempts to connect fail repeatedly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pulsarscope.model.findings import WARNING
from tests.scenarios.commands import CONNECT, CONNECTED, created, error, lookup, lookup_response, message, producer, subscribe, success
from tests.scenarios.connections import connected
from tests.scenarios.conversation import SECOND, START_NS, Conversation
from tests.scenarios.evaluation import findings_in, findings_of, only, with_code


def refused(talk: Conversation) -> Conversation:
    return talk.client(lookup()).server(lookup_response("Failed", "", error="ServiceNotReady")).close()


def worked(talk: Conversation) -> Conversation:
    return talk.client(producer()).server(created()).close()


def looked_up(talk: Conversation) -> Conversation:
    return talk.client(lookup()).server(lookup_response("Connect", "pulsar://10.0.0.2:6650"))


def several(number: int, what: Callable[[Conversation], Conversation], every: int = SECOND) -> list[Conversation]:
    return [what(connected(40000 + index, start=index * every)) for index in range(number)]


def test_a_client_with_an_expired_token_comes_again_and_again() -> None:
    rows = findings_in("token-auth-py.pcap")
    text, evidence = only(rows, "reconnect-loop")
    assert text == (
        "10.9.0.13 connected to 10.9.0.1:6670 15 times in 12.1 s and failed each time: AuthenticationError (14), AuthorizationError (1)."
    )
    assert len(set(evidence["connections"])) == 15
    assert (evidence["count"], evidence["reasons"]) == (15, {"AuthenticationError": 14, "AuthorizationError": 1})
    assert evidence["frames"][:2] == ["0:34.1", "0:44.1"]
    assert [(row.severity, row.packet, row.sub) for row in with_code(rows, "reconnect-loop")] == [(WARNING, 34, 1)]


def test_a_token_that_is_refreshed_in_time_is_healthy() -> None:
    assert [row for row in findings_in("token-refresh-java.pcap") if row.severity != "note"] == []


@pytest.mark.parametrize(
    ("reason", "what"),
    [
        ("ServiceNotReady", refused),
        ("reset by the client", lambda talk: talk.client(producer()).server(created()).reset("client")),
        ("reset by the client", lambda talk: talk.client(lookup()).reset("client")),
        ("reset by the broker", lambda talk: looked_up(talk).reset("server")),
        ("closed by the broker", lambda talk: talk.close("server")),
        # A Java client that receives data that it cannot decompress drops its connection, subscribes again, and receives them again.
        ("reset by the client", lambda talk: talk.client(subscribe()).server(success(2), message()).reset("client")),
    ],
)
def test_reasons(reason: str, what: Callable[[Conversation], Conversation], tmp_path: Path) -> None:
    assert only(findings_of(tmp_path, *several(6, what)), "reconnect-loop")[1]["reasons"] == {reason: 6}


@pytest.mark.parametrize(
    "talk",
    [
        pytest.param(several(50, worked), id="they work"),
        pytest.param(several(50, lambda talk: looked_up(talk).reset("client")), id="they got what they asked for, and close with a RST"),
        pytest.param(several(50, lambda talk: looked_up(talk).close("client").reset("client")), id="the same behind a FIN"),
        pytest.param(several(4, refused), id="too few"),
        pytest.param(several(8, refused, every=120 * SECOND), id="too rarely"),
        pytest.param(
            [*several(6, refused), *[worked(connected(41000 + n, start=n * SECOND // 2)) for n in range(12)]], id="mostly they work"
        ),
        pytest.param([refused(connected(40000, host=f"10.0.1.{n}", start=n * SECOND)) for n in range(9)], id="each is another"),
    ],
)
def test_no_loop(talk: list[Conversation], tmp_path: Path) -> None:
    assert with_code(findings_of(tmp_path, *talk), "reconnect-loop") == []


@pytest.mark.parametrize("between", [0, 1, 3, 5])
def test_connections_that_worked_meanwhile_are_counted_too(between: int, tmp_path: Path) -> None:
    talks = several(6, refused, every=2 * SECOND)
    talks += [worked(connected(41000 + number, start=(2 * number + 1) * SECOND)) for number in range(between)]
    talks += [worked(connected(42000, start=20 * SECOND))] if between < 5 else []  # after the last failure
    text = only(findings_of(tmp_path, *talks), "reconnect-loop")[0]
    failed = "6 times" if between else "each time"
    assert f" {6 + between} times in 10.0 s and failed {failed}: ServiceNotReady (6)" in text


@pytest.mark.parametrize(
    ("server", "silent", "reason"),
    [(6651, True, "at port 6651 brokers expect TLS"), (16651, True, "or a broker that expects TLS at this port"), (6650, False, "")],
)
def test_a_broker_that_closes_without_a_word_may_expect_tls(server: int, silent: bool, reason: str, tmp_path: Path) -> None:
    talks = []
    for number in range(6):
        talk = Conversation(("10.0.0.1", 40000 + number), ("10.0.0.2", server), start_ns=START_NS + number * SECOND).handshake()
        talks.append((talk.client(CONNECT) if silent else talk.client(CONNECT).server(CONNECTED)).close("server"))
    text = only(findings_of(tmp_path, *talks), "reconnect-loop")[0]
    assert "closed by the broker (6)" in text
    assert (", each time without an answer" in text, reason in text) == (silent, True)


@pytest.mark.parametrize("proxied", [6, 5])
def test_a_broker_that_closes_after_a_proxy_header_may_not_understand_it(proxied: int, tmp_path: Path) -> None:
    talks = []
    for number in range(6):
        talk = Conversation(("10.0.0.1", 40000 + number), ("10.0.0.2", 6651), start_ns=START_NS + number * SECOND).handshake()
        talk = talk.client(b"PROXY TCP4 192.0.2.7 10.0.0.2 4711 6651\r\n") if number < proxied else talk
        talks.append(talk.client(CONNECT).close("server"))
    text = only(findings_of(tmp_path, *talks), "reconnect-loop")[0]
    assert ("haProxyProtocolEnabled" in text, "TLS" in text) == (proxied == 6, proxied < 6)


def test_one_refusal_within_much_success_is_no_failure(tmp_path: Path) -> None:
    talk = several(
        8, lambda talk: talk.client(producer()).server(created()).client(producer(2, "q", 7)).server(error(7, "ProducerBusy")).close()
    )
    assert with_code(findings_of(tmp_path, *talk), "reconnect-loop") == []
