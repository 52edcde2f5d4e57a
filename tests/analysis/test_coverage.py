"""What a diagnosis could not judge, according to connection rows and findings."""

from __future__ import annotations

from typing import Any

import pytest

from pulsarscope.analysis.coverage import Coverage
from pulsarscope.model.limits import DIAGNOSIS_NAMES_MAX
from pulsarscope.model.thresholds import VERDICT_THRESHOLDS, Thresholds
from tests.scenarios import rows

SECOND = 1_000_000_000
LONG = {"server_missing": 0, "end": rows.START + 60 * SECOND}
FAILED: dict[str, Any] = {
    "dissector": None,
    "client_bytes": 0,
    "client_frames": 0,
    "server_bytes": 0,
    "server_frames": 0,
    "server_missing": 0,
    "packets": 2,
    "closed": "rst",
    "closed_by": "server",
    "end": rows.START + 1,
}


SERVER = "10.0.0.2:6650"
UNANSWERED = {"refused": 0, "reset": 0, "unanswered": 1, "servers": [SERVER]}


def covered(*connections: dict[str, Any], ports: tuple[int, ...] = (), findings: tuple[str, ...] = ()) -> Coverage:
    coverage = Coverage(ports)
    for values in connections:
        coverage.add(rows.connection(**values))
    for code in findings:
        coverage.add_finding(rows.finding(code=code))
    return coverage


@pytest.mark.parametrize(
    ("connection", "code", "counts"),
    [
        ({"end": rows.START + 3 * SECOND}, "too-short", {"duration_ns": 3 * SECOND, "least_ns": 10 * SECOND}),
        ({"dissector": None, "tls": "TLSv1.3 sni=broker"}, "encrypted", {"connections": 1}),
        ({"server_bytes": 0, "server_frames": 0}, "silent-side", {"connections": 1}),
        ({"client_bytes": 0, "client_frames": 0}, "silent-side", {"connections": 1}),
        ({"opened": "midstream"}, "midstream", {"connections": 1}),
        ({"server_missing": 7, "client_missing": 5}, "missing-bytes", {"bytes": 12, "connections": 1}),
        ({"dissector": None}, "unknown-protocol", {"connections": 1}),
        ({"dissector": None, "tls": "TLSv1.3 content=http"}, "unknown-protocol", {"connections": 1}),
        ({"closed": "open", "closed_by": None}, "still-open", {"connections": 1}),
        (FAILED, "never-opened", {"refused": 1, "reset": 0, "unanswered": 0, "servers": [SERVER]}),
        (FAILED | {"client_bytes": 30}, "never-opened", {"refused": 0, "reset": 1, "unanswered": 0, "servers": [SERVER]}),
        (FAILED | {"closed": "fin"}, "never-opened", {"refused": 1, "reset": 0, "unanswered": 0, "servers": [SERVER]}),
        (
            FAILED | {"closed": "open", "closed_by": None, "packets": 1},
            "never-opened",
            {"refused": 0, "reset": 0, "unanswered": 1, "servers": [SERVER]},
        ),
        (
            FAILED | {"closed": "open", "closed_by": None, "end": rows.START + SECOND},
            "never-opened",
            {"refused": 0, "reset": 0, "unanswered": 1, "servers": [SERVER]},
        ),
    ],
)
def test_what_a_connection_hides_is_counted(connection: dict[str, Any], code: str, counts: dict[str, Any]) -> None:
    parts = {part.code: part.counts for part in covered(LONG | connection).not_judged()}
    assert parts == {code: counts}
    assert not covered(LONG | connection).healthy or code == "still-open"


@pytest.mark.parametrize("opened", ["handshake", "midstream"])
def test_a_probe_without_bytes_is_no_capture_of_one_direction(opened: str) -> None:
    silent = {"client_bytes": 0, "client_frames": 0, "server_bytes": 0, "server_frames": 0, "opened": opened}
    assert "silent-side" not in {part.code for part in covered(LONG, LONG | silent).not_judged()}
    assert covered(LONG, LONG | silent).healthy == (opened == "handshake")


@pytest.mark.parametrize("codes", [("packets-dropped",), ("memory-cap", "memory-cap")])
def test_packets_that_the_capture_lacks_are_said(codes: tuple[str, ...]) -> None:
    assert covered(LONG, findings=codes).not_judged() == [("incomplete", {codes[0]: len(codes)})]


def test_what_failed_is_said() -> None:
    coverage = covered(LONG, findings=("dissector-failed", "rule-failed"))
    assert coverage.not_judged() == [("failed", {"findings": 2})]
    assert not coverage.healthy


def test_payloads_that_were_not_read_are_said() -> None:
    assert covered(LONG, findings=("consumer-undecided",) * 2).not_judged() == [("undecided", {"findings": 2})]
    assert covered(LONG, findings=("encrypted-payload",) * 3).not_judged() == [("encrypted-payloads", {"findings": 3})]


def test_whole_connections_of_a_known_protocol_are_healthy() -> None:
    assert covered(LONG, LONG).not_judged() == []
    assert covered(LONG, LONG).healthy
    assert not covered().healthy


def test_the_time_is_that_of_all_evaluated_connections_together() -> None:
    later = {**LONG, "start": rows.START + 8 * SECOND, "end": rows.START + 11 * SECOND}
    assert covered({**LONG, "end": rows.START + 2 * SECOND}, later).healthy
    unread = {**later, "dissector": None}
    assert not covered({**LONG, "end": rows.START + 2 * SECOND}, unread).healthy


def test_how_long_it_must_last_can_be_set() -> None:
    coverage = Coverage((), Thresholds(VERDICT_THRESHOLDS, {"too-short-seconds": 2}))
    coverage.add(rows.connection(**LONG | {"end": rows.START + 3 * SECOND}))
    assert coverage.healthy


def test_an_idle_connection_at_the_end_of_the_capture_is_no_failure() -> None:
    opening = FAILED | {"closed": "open", "closed_by": None, "packets": 3}
    assert covered(LONG, opening).healthy
    assert covered(LONG, opening).not_judged() == []


@pytest.mark.parametrize(("packets", "lasts", "counts"), [(1, 0, False), (2, SECOND, True), (5, 9 * SECOND, True), (3, SECOND // 2, False)])
def test_a_syn_without_an_answer_counts_when_it_was_repeated(packets: int, lasts: int, *, counts: bool) -> None:
    start = rows.START + SECOND
    syn = FAILED | {"closed": "open", "closed_by": None, "packets": packets, "start": start, "end": start + lasts}
    assert bool(covered(LONG, syn).refused) == counts


@pytest.mark.parametrize("values", [{"closed_by": "client"}, {"opened": "midstream"}, {"server_bytes": 9}])
def test_a_client_that_gives_up_or_a_reset_in_the_middle_is_no_refusal(values: dict[str, Any]) -> None:
    assert covered(LONG, FAILED | values).refused == []


@pytest.mark.parametrize("times", [1, 7])
@pytest.mark.parametrize(
    ("server", "ports", "counts"),
    [
        ("10.0.0.2:6650", (), True),  # the place of a known broker
        ("10.0.0.9:6650", (), True),  # another broker of its cluster
        ("10.0.0.9:9092", (9092,), True),
        ("10.0.0.9:443", (9092,), False),
        ("[fe80::1]:6650", (), True),
    ],
)
def test_refusals_by_brokers_count(server: str, ports: tuple[int, ...], counts: bool, times: int) -> None:
    refused = covered(LONG, *[FAILED | {"server": server, "start": rows.START + at} for at in range(1, times + 1)], ports=ports).refused
    assert [(one.client, one.server, one.times) for one in refused] == [("10.0.0.1", server, times)] * counts


@pytest.mark.parametrize("server", ["10.0.0.2:6650", "10.0.0.7:6650"])
@pytest.mark.parametrize("dissector", ["pulsar", None])
def test_a_client_that_reaches_the_server_or_a_sibling_later_is_healthy(server: str, dissector: str | None) -> None:
    later = {**LONG, "server": server, "start": rows.START + 5 * SECOND, "dissector": dissector}
    assert covered(LONG, FAILED | {"start": rows.START + SECOND}, later).refused == []
    earlier = {**later, "start": rows.START}
    assert len(covered(LONG, FAILED | {"start": rows.START + SECOND}, earlier).refused) == 1
    other = {**later, "client": "10.0.0.5:999"}
    assert len(covered(LONG, FAILED | {"start": rows.START + SECOND}, other).refused) == 1


def test_what_is_kept_of_a_flood_is_bounded() -> None:
    coverage = covered(LONG)
    for number in range(DIAGNOSIS_NAMES_MAX + 50):
        coverage.add(rows.connection(**FAILED | {"client": f"c{number}:1"}))
    assert len(coverage.refused) == DIAGNOSIS_NAMES_MAX
    assert coverage.not_judged() == [
        ("never-opened", {"refused": DIAGNOSIS_NAMES_MAX + 50, "reset": 0, "unanswered": 0, "servers": [SERVER]})
    ]


def test_what_a_finding_explains_is_not_said_again() -> None:
    coverage = covered(LONG, FAILED | {"connection": "0:8"}, FAILED | {"connection": "0:9", "server": "10.0.0.3:6650"})
    coverage.add(rows.connection(connection="0:5", dissector=None, tls="TLSv1.3 sni=broker"))
    assert coverage.not_judged({"never-opened": {"0:8", "0:9"}, "encrypted": {"0:5"}}) == []
    (encrypted, unopened) = coverage.not_judged({"never-opened": {"0:8", "0:5"}, "encrypted": {"0:8"}})
    assert encrypted == ("encrypted", {"connections": 1})
    assert unopened == ("never-opened", {"refused": 1, "reset": 0, "unanswered": 0, "servers": ["10.0.0.3:6650"]})


def test_a_side_without_packets_or_without_an_answer_is_named_once() -> None:
    coverage = covered(LONG, LONG | {"connection": "0:8", "server_bytes": 0}, LONG | {"connection": "0:9", "server_bytes": 0})
    coverage.add_finding(rows.finding(code="one-sided-capture", connection="0:8"))
    assert [part.code for part in coverage.not_judged({"silent-side": {"0:8"}})] == ["one-sided", "silent-side"]
    assert [part.code for part in coverage.not_judged({"silent-side": {"0:8", "0:9"}})] == ["one-sided"]


def test_what_one_direction_leaves_open_is_not_named_twice() -> None:
    connection = {"closed": "open", "closed_by": None, "server_bytes": 0, "server_frames": 0}
    assert [part.code for part in covered(LONG | connection).not_judged()] == ["silent-side"]
