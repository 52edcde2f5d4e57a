"""Responses that are captured before their requests, as with two capture points, or several queues of a network card."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

import pulsarscope as ps
from pulsarscope.testing import ScriptedConnection
from pulsarscope.testing.scripted_connection import pcap_bytes
from tests.protocols.bookkeeper.cases import connection
from tests.scenarios.bookkeeper import add, added, auth, ledger_entry, read, read_back, v3_add, v3_added

HANDSHAKE = 3
SECOND = 1_000_000_000

ENTRY = ledger_entry(9, 0)
EXCHANGES = {
    "ADD": (add(ENTRY), added(9, 0)),
    "READ": (read(9, 0), read_back(9, 0, ENTRY)),
    "READ of the last entry": (read(9, -1), read_back(9, -1, ENTRY)),
    "AUTH": (auth(b""), auth(b"challenge")),
    "ADD of version 3": (v3_add(1, ENTRY, 9, 0), v3_added(1, 9, 0)),
}

Pair = tuple[str | None, str | None, str | None]
"""Names of the packets of a request and of its response, and the status."""


def pipelined(made: ScriptedConnection, request: bytes, answer: bytes, count: int) -> ScriptedConnection:
    """Send a request `count` times, and then as many responses, each in a packet."""
    for _ in range(count):
        made.client(request)
    for _ in range(count):
        made.server(answer)
    return made


def capture(
    path: Path, made: ScriptedConnection, order: Iterable[int], *, begins: int = 0, ends: float = 3, restamp: bool = True
) -> ps.Capture:
    """Return a capture with a connection's data packets in this order, and its end `ends` seconds later; `restamp`: with rising times."""
    made.wait(ends).close()
    count = len(made.packets) - HANDSHAKE - 3
    numbers = [*range(HANDSHAKE), *(HANDSHAKE + number for number in [*order, *range(len([*order]), count)])]
    numbers += range(HANDSHAKE + count, len(made.packets))
    packets = [made.packets[number] for number in numbers]
    if restamp:
        packets = [(time, data) for (time, _), (_, data) in zip(made.packets, packets, strict=True)]
    path.write_bytes(pcap_bytes(packets[begins:]))
    return ps.open(path)


def pairs(seen: ps.Capture, *, begins: int = 0) -> list[Pair]:
    """Return the exchanges as numbers of data packets in the file."""
    first = max(HANDSHAKE - begins, 0)
    return [
        (
            str(row.packet - first) if row.request else None,
            str((row.response_packet or 0) - first) if row.response else None,
            None if row.latency_ns is None else "timed",
        )
        for row in seen.exchanges()
    ]


def codes(seen: ps.Capture) -> set[str]:
    return {row.code for row in seen.findings()}


@pytest.mark.parametrize("restamp", [True, False], ids=["merged by time", "late in the file"])
@pytest.mark.parametrize("begins", [0, HANDSHAKE], ids=["complete", "midstream"])
@pytest.mark.parametrize("name", list(EXCHANGES))
def test_an_answer_before_its_request_is_no_silence(tmp_path: Path, name: str, begins: int, restamp: bool) -> None:
    request, answer = EXCHANGES[name]
    seen = capture(tmp_path / "a.pcap", connection().client(request).server(answer), [1, 0], begins=begins, restamp=restamp)
    assert pairs(seen, begins=begins) == [("2", "1", None)]
    assert "capture-order" in codes(seen)
    assert not codes(seen) & {"bookie-silent", "quorum-lost"}


@pytest.mark.parametrize(
    ("begins", "expected"),
    [
        (0, [("2", "1", None), ("3", "4", "timed")]),
        (HANDSHAKE, [("2", "4", "timed"), ("3", "1", None)]),  # the first response may be that to an earlier request
    ],
)
@pytest.mark.parametrize("name", ["READ", "READ of the last entry", "AUTH"])
def test_the_next_request_of_the_same_key_is_answered_too(tmp_path: Path, name: str, begins: int, expected: list[Pair]) -> None:
    request, answer = EXCHANGES[name]
    made = connection().client(request).server(answer).client(request).server(answer)
    seen = capture(tmp_path / "a.pcap", made, [1, 0], begins=begins)
    assert sorted(pairs(seen, begins=begins), key=str) == expected
    assert "bookie-silent" not in codes(seen)


@pytest.mark.parametrize("restamp", [True, False], ids=["merged by time", "late in the file"])
@pytest.mark.parametrize("begins", [0, HANDSHAKE], ids=["complete", "midstream"])
@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize("name", ["READ", "READ of the last entry", "AUTH"])
def test_pipelined_requests_of_one_key_that_are_all_captured_late_are_answered(
    tmp_path: Path, name: str, count: int, begins: int, restamp: bool
) -> None:
    request, answer = EXCHANGES[name]
    made = pipelined(connection(), request, answer, count)
    order = [*range(count, 2 * count), *range(count)]
    seen = capture(tmp_path / "a.pcap", made, order, begins=begins, restamp=restamp)
    assert pairs(seen, begins=begins) == [(str(count + number), str(number), None) for number in range(1, count + 1)]
    assert "bookie-silent" not in codes(seen)


@pytest.mark.parametrize("name", ["READ", "READ of the last entry", "AUTH"])
def test_pipelined_requests_with_too_few_early_answers_are_not_all_answered(tmp_path: Path, name: str) -> None:
    request, answer = EXCHANGES[name]
    made = pipelined(connection().client(request), request, answer, 2)
    seen = capture(tmp_path / "a.pcap", made, [3, 4, 0, 1, 2])
    assert sorted(pairs(seen), key=str) == [("3", "1", None), ("4", "2", None), ("5", None, None)]
    assert "bookie-silent" in codes(seen)


@pytest.mark.parametrize("name", ["READ", "READ of the last entry", "AUTH"])
def test_pipelined_requests_with_answers_of_their_own_are_not_answered_before(tmp_path: Path, name: str) -> None:
    request, answer = EXCHANGES[name]
    made = pipelined(connection().client(request).server(answer), request, answer, 2)
    seen = capture(tmp_path / "a.pcap", made, [], begins=HANDSHAKE + 1)
    found = pairs(seen, begins=HANDSHAKE + 1)
    assert sorted(found, key=str) == [("2", "4", "timed"), ("3", "5", "timed"), (None, "1", None)]
    assert not codes(seen) & {"capture-order", "bookie-silent"}


def test_another_request_proves_the_order_of_the_capture(tmp_path: Path) -> None:
    made = connection()
    for request, answer in (EXCHANGES["READ"], EXCHANGES["ADD"], EXCHANGES["READ"], EXCHANGES["READ"]):
        made.client(request).server(answer)
    seen = capture(tmp_path / "a.pcap", made, [1, 0, 3, 2, 5, 4, 7, 6], begins=HANDSHAKE)
    assert sorted(pairs(seen, begins=HANDSHAKE)) == [("2", "1", None), ("4", "3", None), ("6", "5", None), ("8", "7", None)]
    assert "bookie-silent" not in codes(seen)


@pytest.mark.parametrize("name", ["READ", "AUTH"])
def test_several_of_a_connection_from_its_start_are_each_paired(tmp_path: Path, name: str) -> None:
    request, answer = EXCHANGES[name]
    made = connection()
    for _ in range(3):
        made.client(request).server(answer)
    seen = capture(tmp_path / "a.pcap", made, [1, 0, 3, 2, 5, 4])
    assert pairs(seen) == [("2", "1", None), ("4", "3", None), ("6", "5", None)]


@pytest.mark.parametrize("name", ["READ", "READ of the last entry", "AUTH"])
def test_an_answer_to_what_was_asked_before_the_capture_answers_nothing_later(tmp_path: Path, name: str) -> None:
    request, answer = EXCHANGES[name]
    made = connection().client(request).server(answer).client(request).server(answer).client(request).server(answer)
    seen = capture(tmp_path / "a.pcap", made, [], begins=HANDSHAKE + 1)
    assert sorted(pairs(seen, begins=HANDSHAKE + 1), key=str) == [("2", "3", "timed"), ("4", "5", "timed"), (None, "1", None)]
    assert "capture-order" not in codes(seen)


@pytest.mark.parametrize("name", ["READ", "READ of the last entry"])
def test_a_request_that_comes_again_much_later_is_not_answered_before(tmp_path: Path, name: str) -> None:
    request, answer = EXCHANGES[name]
    seen = capture(tmp_path / "a.pcap", connection().server(answer).wait(0.5).client(request), [])
    assert sorted(pairs(seen), key=str) == [("2", None, None), (None, "1", None)]
    assert "bookie-silent" in codes(seen)


def test_a_request_many_packets_later_is_not_answered_before(tmp_path: Path) -> None:
    made = connection().server(added(9, 0))
    for number in range(1, 130):
        made.client(add(ledger_entry(9, number))).server(added(9, number))
    seen = capture(tmp_path / "a.pcap", made.client(add(ENTRY)), [])
    assert {row.status for row in seen.exchanges() if row.key == "ADD 9:0"} == {"unanswered", "unrequested"}
    assert "bookie-silent" in codes(seen)


def test_an_early_refusal_is_the_error_of_its_exchange(tmp_path: Path) -> None:
    seen = capture(tmp_path / "a.pcap", connection().client(add(ENTRY)).server(added(9, 0, status=104)), [1, 0])
    (row,) = seen.exchanges()
    assert (row.status, row.error) == ("error", "EFENCED")


def test_a_bookie_that_stops_among_reordered_packets_is_silent(tmp_path: Path) -> None:
    made = connection()
    for number in range(4):
        made.client(add(ledger_entry(9, number))).server(added(9, number))
    seen = capture(tmp_path / "a.pcap", made.client(add(ledger_entry(9, 4))), [1, 0, 3, 2, 5, 4])
    (row,) = [row for row in seen.findings() if row.code == "bookie-silent"]
    assert (row.evidence or {})["unanswered"] == 1


def test_a_bookie_is_not_silent_while_it_answers_out_of_order(tmp_path: Path) -> None:
    made = connection().client(add(ENTRY))
    for number in range(1, 8):
        made.wait(0.5).client(add(ledger_entry(9, number))).server(added(9, number))
    order = [0, *(place for number in range(1, 8) for place in (2 * number, 2 * number - 1))]
    assert "bookie-silent" not in codes(capture(tmp_path / "a.pcap", made, order, ends=0))


@pytest.mark.parametrize("name", ["READ", "AUTH"])
def test_a_silent_bookie_is_not_excused_by_an_answer_to_what_was_asked_before_the_capture(tmp_path: Path, name: str) -> None:
    request, answer = EXCHANGES[name]
    made = connection().client(request).server(answer).client(request).client(read(9, 1))
    assert "bookie-silent" in codes(capture(tmp_path / "a.pcap", made, [], begins=HANDSHAKE + 1))
    made = connection().client(request).server(answer).client(request).server(answer).client(request)
    assert "bookie-silent" in codes(capture(tmp_path / "a.pcap", made, [], begins=HANDSHAKE + 1))


def test_early_answers_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsarscope.protocols.bookkeeper.early_answers.EARLY_RESPONSES_MAX", 3)
    made = connection().server(*(added(9, number) for number in range(5))).client(*(add(ledger_entry(9, number)) for number in range(5)))
    rows = list(capture(tmp_path / "a.pcap", made, []).exchanges())
    assert [row.key for row in rows if row.status == "unrequested"] == ["ADD 9:0", "ADD 9:1"]
    assert [row.key for row in rows if row.status == "ok"] == ["ADD 9:2", "ADD 9:3", "ADD 9:4"]
    request, answer = EXCHANGES["READ"]
    rows = list(capture(tmp_path / "b.pcap", connection().server(*[answer] * 5).client(*[request] * 5), []).exchanges())
    assert [row.status for row in rows] == ["unrequested", "unrequested", "ok", "ok", "ok", "unanswered", "unanswered"]
