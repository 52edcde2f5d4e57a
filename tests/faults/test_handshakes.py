"""TLS handshakes between clients and brokers that fail, and good ones that look similar."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.faults.handshakes import flights
from tests.scenarios.commands import created, lookup, lookup_response, producer
from tests.scenarios.connections import connected
from tests.scenarios.conversation import SECOND, START_NS, Conversation
from tests.scenarios.evaluation import findings_of, only, problem_codes, with_code
from tests.scenarios.tls.peers import CLIENT, SERVER, Flight

BEFORE_EXPIRY = 2_082_499_200_000_000_000  # 2035-12-29, a day before the end of the certificate


def carried(
    said: list[Flight], *, port: int = 6651, number: int = 0, end: str = "fin", by: int = CLIENT, start: int = START_NS
) -> Conversation:
    talk = Conversation(("10.0.0.1", 43000 + number), ("10.0.0.2", port), start_ns=start + number * SECOND, acknowledge=False).handshake()
    for side, data in said:
        (talk.client, talk.server)[side](data)
    who = ("client", "server")[by]
    return talk if end == "open" else talk.reset(who) if end == "rst" else talk.close(who)


def sealed_alert(said: list[Flight]) -> list[Flight]:
    """The client's alert, encrypted as by a Java client."""
    return [*said[:2], (CLIENT, bytes.fromhex("1403030001011703030013") + bytes(19))]


REASONS = {
    ("unknown-ca", "1.2"): "unknown_ca",
    ("unknown-ca", "1.3"): "unknown_ca",
    ("name", "1.2"): "bad_certificate",
    ("name", "1.3"): "bad_certificate",
    ("no-certificate", "1.2"): "handshake_failure",
    ("no-certificate", "1.3"): "client certificate is missing",
    ("version", "1.2"): "protocol_version",
    ("version", "1.3"): "protocol_version",
}


@pytest.mark.parametrize(("fault", "version"), REASONS)
@pytest.mark.parametrize(("port", "end"), [(6651, "fin"), (6651, "rst"), (16651, "rst"), (16651, "fin")])
def test_a_handshake_that_an_alert_ends(fault: str, version: str, port: int, end: str, tmp_path: Path) -> None:
    said = flights(fault, version)
    talks = [carried(said, port=port, number=number, end=end, by=said[-1][0]) for number in range(3)]
    rows = findings_of(tmp_path, *talks)
    text, evidence = only(rows, "tls-handshake-failed")
    assert REASONS[fault, version] in text
    assert (evidence["count"], len(evidence["connections"])) == (3, 3)
    assert bool(with_code(rows, "tls-name-mismatch")) == ((fault, version) == ("name", "1.2"))


@pytest.mark.parametrize(("side", "by_client", "version"), [(0, True, "1.2"), (0, True, "1.3"), (1, False, "1.2")])
def test_an_internal_error_of_a_client_is_about_the_name(side: int, by_client: bool, version: str, tmp_path: Path) -> None:
    """The application's check rejects the certificate; a broker that reports this error has its own fault."""
    said = [*flights("name", version)[:2], (side, bytes.fromhex("15030300020250"))]
    text, _ = only(findings_of(tmp_path, carried(said, port=6651, end="fin", by=side)), "tls-handshake-failed")
    assert f"the {'client' if by_client else 'broker'} ended it with internal_error" in text
    assert ("C++ clients" in text) == by_client


@pytest.mark.parametrize(("alert", "named"), [*product((42, 46, 80), (True,)), *product((44, 45, 48), (False,))])
@pytest.mark.parametrize("end", ["fin", "rst"])
def test_an_alert_with_another_reason_is_not_about_the_name(alert: int, named: bool, end: str, tmp_path: Path) -> None:
    """If the certificate is for another name, and also expired or of an unknown issuer, the client gives the reason that it found."""
    said = [*flights("name", "1.2")[:2], (CLIENT, bytes.fromhex("150303000202") + bytes([alert]))]
    rows = findings_of(tmp_path, carried(said, port=6651, end=end))
    assert with_code(rows, "tls-handshake-failed")
    assert bool(with_code(rows, "tls-name-mismatch")) == named


@pytest.mark.parametrize("fault", ["unknown-ca", "name"])
@pytest.mark.parametrize("end", ["fin", "rst", "open"])
@pytest.mark.parametrize("port", [6651, 7001])
def test_a_certificate_that_a_client_refuses_with_an_encrypted_alert(fault: str, end: str, port: int, tmp_path: Path) -> None:
    rows = findings_of(tmp_path, carried(sealed_alert(flights(fault, "1.3")), end=end, port=port))
    assert "which it did not accept" in only(rows, "tls-handshake-failed")[0]


def requesting(fault: str, *, requests: int, tickets: int = 2) -> list[Flight]:
    """A handshake after which the client sends requests, and the server at most tickets."""
    said = flights(fault, "1.3", tickets=tickets)
    client = next(at for at, (side, _) in enumerate(said) if at > 1 and side == CLIENT)
    answer = [said[client + 1]] if tickets and not fault else []
    return [*said[: client + 1], *[(CLIENT, bytes.fromhex("170303003e") + bytes(62))] * requests, *answer]


@pytest.mark.parametrize("end", ["fin", "rst"])
@pytest.mark.parametrize("port", [6651, 6671])
@pytest.mark.parametrize("requests", [1, 3])
def test_a_broker_that_closes_without_an_answer_may_want_a_certificate(end: str, port: int, requests: int, tmp_path: Path) -> None:
    talks = [carried(requesting("no-certificate", requests=requests), port=port, number=n, end=end, by=SERVER) for n in range(3)]
    text, evidence = only(findings_of(tmp_path, *talks), "tls-handshake-failed")
    assert "a client certificate may be missing" in text
    assert evidence["count"] == 3


def test_but_the_capture_may_lack_the_answer_on_a_single_connection(tmp_path: Path) -> None:
    talk = carried(requesting("no-certificate", requests=1), end="rst", by=SERVER)
    assert with_code(findings_of(tmp_path, talk), "tls-handshake-failed") == []


@pytest.mark.parametrize(("tickets", "requests", "end", "by"), [(2, 1, "fin", SERVER), (0, 1, "fin", CLIENT), (0, 1, "open", SERVER)])
def test_one_that_answers_or_that_its_client_leaves_does_not(tickets: int, requests: int, end: str, by: int, tmp_path: Path) -> None:
    talk = carried(requesting("", requests=requests, tickets=tickets), end=end, by=by)
    assert with_code(findings_of(tmp_path, talk), "tls-handshake-failed") == []


@pytest.mark.parametrize("version", ["1.2", "1.3"])
@pytest.mark.parametrize("kept", [1, 2])
@pytest.mark.parametrize("by", [CLIENT, SERVER])
def test_a_handshake_that_a_side_leaves(version: str, kept: int, by: int, tmp_path: Path) -> None:
    rows = findings_of(tmp_path, carried(flights("", version)[:kept], end="rst", by=by))
    assert len(with_code(rows, "tls-handshake-failed")) == (kept > 1 or by == SERVER)


def test_beside_pulsar_only_ports_of_brokers_count(tmp_path: Path) -> None:
    talk = (
        connected(server=("10.0.0.3", 6650))
        .client(lookup())
        .server(lookup_response("Connect", "", brokerServiceUrlTls="pulsar+ssl://a:7001"))
    )
    failed = flights("unknown-ca", "1.3")
    assert with_code(findings_of(tmp_path, talk, carried(failed, port=9443)), "tls-handshake-failed") == []
    beside = connected(server=("10.0.0.2", 6650)).client(producer()).server(created())
    assert with_code(findings_of(tmp_path, beside, carried(failed, port=9443)), "tls-handshake-failed")


HEALTHY: list[dict[str, Any]] = [
    {"version": version, "tickets": tickets, "certificate": certificate}
    for version, tickets, certificate in product(("1.2", "1.3"), (0, 2), ("ec", "rsa"))
]


@pytest.mark.parametrize("shape", HEALTHY, ids=str)
@pytest.mark.parametrize("end", ["fin", "rst", "open"])
@pytest.mark.parametrize("port", [6651, 7001])
def test_a_probe_that_closes_right_after_a_good_handshake(shape: dict[str, Any], end: str, port: int, tmp_path: Path) -> None:
    assert problem_codes(findings_of(tmp_path, carried(flights("", **shape), end=end, port=port))) == []


@pytest.mark.parametrize("version", ["1.2", "1.3"])
@pytest.mark.parametrize("kept", [1, 2, 3])
def test_a_handshake_that_goes_on_when_the_capture_ends(version: str, kept: int, tmp_path: Path) -> None:
    assert problem_codes(findings_of(tmp_path, carried(flights("", version)[:kept], end="open"))) == []


@pytest.mark.parametrize(("days", "found"), [(0, True), (5, True), (7, True), (-9, False), (-365, False)])
def test_a_certificate_that_expires_soon(days: int, *, found: bool, tmp_path: Path) -> None:
    start = BEFORE_EXPIRY + days * 86_400_000_000_000
    rows = findings_of(tmp_path, carried(flights("", "1.2"), start=start))
    assert bool(with_code(rows, "certificate-expires")) == found


@pytest.mark.parametrize("port", [443, 8443])
def test_handshakes_of_web_servers_are_none_of_pulsar(port: int, tmp_path: Path) -> None:
    assert problem_codes(findings_of(tmp_path, carried(flights("unknown-ca", "1.3"), port=port))) == []


@pytest.mark.parametrize("port", [6651, 16651])
@pytest.mark.parametrize(("waits", "count", "found"), [(5, 1, True), (5, 3, True), (1, 3, False)])
def test_a_server_that_never_answers_the_first_message(port: int, waits: int, count: int, *, found: bool, tmp_path: Path) -> None:
    talks = []
    for number in range(count):
        talk = carried(flights("unknown-ca", "1.3")[:1], port=port, number=10 * number, end="open")
        talks.append(talk.wait(waits * SECOND).close("client"))
    rows = with_code(findings_of(tmp_path, *talks), "request-unanswered")
    assert ["answered nothing until the client gave up" in (row.text or "") for row in rows] == [True] * found
