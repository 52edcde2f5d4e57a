"""Bookies that are slow, silent or refuse: clusters of several, with the latency of each ADD on each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import pulsarscope as ps
from pulsarscope.model.records import FindingRow
from pulsarscope.testing import ScriptedConnection
from pulsarscope.testing.scripted_connection import pcap_bytes
from tests.scenarios import commands, message_metadata, payload_frame
from tests.scenarios.bookkeeper import add, added, auth, ledger_entry, read, read_back, v3_add, v3_added

MS = 1_000_000
PULSAR, PROXY = "pulsar", "proxy"
"""Connections of a client to the broker, and of another client to a proxy that is the first client, instead of one to a bookie."""

ENDS = {PULSAR: (6650, "10.0.9.9", "10.0.0.1"), PROXY: (6650, "10.0.7.7", "10.0.9.9")}
"""Port, client and server of these connections."""

START = 1_700_000_000_000_000_000

Latency = Callable[[int], float | None]
"""Milliseconds that a bookie takes for the ADD with this number; None: it never answers."""

Step = tuple[float, str, int, bytes]
"""Milliseconds since the start, bookie, side, bytes."""


def healthy(number: int) -> float:
    return 2 + number * 7 % 5


def stopped(at: int, count: int, milliseconds: float) -> Latency:
    """A bookie that stops at an ADD, and answers everything that has arrived when it resumes."""
    return lambda number: milliseconds - (number - at) if at <= number < at + count else healthy(number)


def adds(bookies: Mapping[str, Latency], *, count: int = 200, interval: float = 10, status: Mapping[str, int] | None = None) -> list[Step]:
    steps: list[Step] = []
    for number in range(count):
        for bookie, latency in bookies.items():
            time = number * interval
            steps.append((time, bookie, 0, add(ledger_entry(7, number))))
            if (took := latency(number)) is not None:
                steps.append((time + took, bookie, 1, added(7, number, status=(status or {}).get(bookie, 0))))
    return steps


def diagnosed(path: Path, steps: list[Step], *, codes: frozenset[str]) -> list[FindingRow]:
    """Return the findings with these codes of a capture of the steps."""
    connections: dict[str, ScriptedConnection] = {}
    packets = []
    for time, bookie, side, data in sorted(steps, key=lambda step: step[0]):
        if bookie not in connections:
            number = len(connections)
            ends = ENDS.get(bookie, (3181, "10.0.0.1", f"10.0.1.{number + 1}"))
            connections[bookie] = made = ScriptedConnection(*ends, client_port=40_000 + number)
            packets += [(START + index, packet) for index, (_, packet) in enumerate(made.packets)]
        made = connections[bookie]
        made.packets.clear()
        (made.server if side else made.client)(data)
        packets += [(START + MS + int(time * MS), packet) for _, packet in made.packets]
    path.write_bytes(pcap_bytes(sorted(packets, key=lambda packet: packet[0])))
    return [row for row in ps.open(path).findings() if row.code in codes]


@pytest.mark.parametrize("others", [1, 2, 4])
@pytest.mark.parametrize(
    "latency", [stopped(50, 40, 2_000), stopped(0, 3, 400), stopped(190, 10, 700), stopped(60, 1, 1_500), lambda _: 300]
)
def test_a_bookie_that_is_much_slower_than_the_others_is_named(tmp_path: Path, others: int, latency: Latency) -> None:
    bookies = {"slow": latency} | {f"b{number}": healthy for number in range(others)}
    found = diagnosed(tmp_path / "a.pcap", adds(bookies), codes=frozenset({"slow-bookie"}))
    assert {(row.evidence or {})["bookie"] for row in found} == {"10.0.1.1:3181"}
    assert all(len((row.evidence or {})["frames"]) == 2 for row in found)


def hiccups(number: int) -> float:
    """A bookie on a busy disk: a few ADDs take long."""
    return 450.0 + number % 7 if number % 50 < 2 else healthy(number)


@pytest.mark.parametrize(("latency", "expected"), [(stopped(50, 40, 2_000), {"10.0.1.1:3181"}), (hiccups, set()), (healthy, set())])
def test_a_bookie_that_is_often_slow_is_named_though_others_have_hiccups(tmp_path: Path, latency: Latency, expected: set[str]) -> None:
    bookies = {"a": latency, "b": hiccups, "c": hiccups}
    found = diagnosed(tmp_path / "a.pcap", adds(bookies), codes=frozenset({"slow-bookie"}))
    assert {(row.evidence or {})["bookie"] for row in found} == expected


@pytest.mark.parametrize(
    "bookies",
    [
        {"a": healthy, "b": healthy, "c": healthy},
        {"a": stopped(50, 40, 2_000), "b": stopped(50, 40, 1_900), "c": stopped(52, 30, 1_500)},  # the network, or the broker's host
        {"a": lambda _: 150, "b": healthy},
        {"a": lambda _: 300, "b": lambda _: 90},
        {"a": stopped(50, 2, 600), "b": healthy},
        {"a": stopped(50, 1, 900), "b": healthy},
        {"a": lambda _: 0.1, "b": lambda _: 100},
        {"a": stopped(50, 40, 800)},
    ],
)
@pytest.mark.parametrize("interval", [3, 10, 50])
def test_bookies_that_are_slow_together_or_seldom_are_not_accused(tmp_path: Path, bookies: dict[str, Latency], interval: float) -> None:
    assert diagnosed(tmp_path / "a.pcap", adds(bookies, interval=interval), codes=frozenset({"slow-bookie"})) == []


def test_a_single_bookie_is_slow_by_itself_when_several_adds_take_a_second(tmp_path: Path) -> None:
    (found,) = diagnosed(tmp_path / "a.pcap", adds({"a": stopped(50, 40, 1_500)}), codes=frozenset({"slow-bookie"}))
    assert "no other bookie" in (found.text or "")


@pytest.mark.parametrize("at", [0, 1, 50])
@pytest.mark.parametrize("others", [0, 1, 2])
def test_a_bookie_that_stops_answering_is_silent(tmp_path: Path, at: int, others: int) -> None:
    bookies = {"silent": lambda number: None if number >= at else 3.0} | {f"b{number}": healthy for number in range(others)}
    (found,) = diagnosed(tmp_path / "a.pcap", adds(bookies), codes=frozenset({"bookie-silent"}))
    assert (found.evidence or {})["bookie"] == "10.0.1.1:3181"
    assert (found.evidence or {})["unanswered"] == 200 - at


def test_a_bookie_that_refuses_credentials_is_silent_and_the_text_says_why(tmp_path: Path) -> None:
    steps: list[Step] = [(0, "a", 0, auth(b"")), (1, "a", 1, auth(b"challenge")), (2, "a", 0, auth(b"response=x"))]
    other: list[Step] = [(0, "b", 0, auth(b"")), (5_000, "b", 1, auth(b"challenge"))]
    (found,) = diagnosed(tmp_path / "a.pcap", [*steps, *other], codes=frozenset({"bookie-silent"}))
    assert "credentials" in (found.text or "")


@pytest.mark.parametrize("milliseconds", [0, 500, 900])
def test_requests_shortly_before_the_end_are_on_their_way(tmp_path: Path, milliseconds: float) -> None:
    steps = [*adds({"a": healthy, "b": healthy}, count=20), (500, "a", 0, add(ledger_entry(7, 99)))]
    steps += [(500 + milliseconds, "b", side, data) for side, data in ((0, add(ledger_entry(7, 99))), (1, added(7, 99)))]
    assert diagnosed(tmp_path / "a.pcap", steps, codes=frozenset({"bookie-silent", "quorum-lost"})) == []


@pytest.mark.parametrize(
    ("status", "expected"),
    [({"a": 101, "b": 105}, 1), ({"a": 105, "b": 105, "c": 105}, 1), ({"a": 101}, 0), ({}, 0), ({"a": 104, "b": 104}, 0)],
)
def test_a_quorum_is_lost_when_two_bookies_fail_and_not_when_a_writer_is_fenced(
    tmp_path: Path, status: dict[str, int], expected: int
) -> None:
    bookies = dict.fromkeys("abc", healthy)
    found = diagnosed(tmp_path / "a.pcap", adds(bookies, count=20, status=status), codes=frozenset({"quorum-lost"}))
    assert len(found) == expected


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(("silent", "expected"), [("ab", 1), ("abc", 1), ("a", 0), ("", 0)])
def test_a_quorum_is_lost_when_two_bookies_do_not_answer_in_any_version(tmp_path: Path, version: int, silent: str, expected: int) -> None:
    steps: list[Step] = []
    for number in range(20):
        for bookie in "abc":
            entry = ledger_entry(7, number)
            steps.append((number * 10, bookie, 0, add(entry) if version == 2 else v3_add(number, entry, 7, number)))
            if number < 10 or bookie not in silent:
                steps.append((number * 10 + 2, bookie, 1, added(7, number) if version == 2 else v3_added(number, 7, number)))
    steps += [(2_000, "d", side, data) for side, data in ((0, add(ledger_entry(8, 0))), (1, added(8, 0)))]
    steps += [(2_000, bookie, 0, auth(b"late")) for bookie in "abc"]
    found = diagnosed(tmp_path / "a.pcap", steps, codes=frozenset({"quorum-lost"}))
    assert [(row.evidence or {})["entry"] for row in found] == ["7:10"] * expected


@pytest.mark.parametrize(("last", "expected"), [(20, 0), (12, 1), (11, 1)])
def test_a_quorum_is_not_lost_when_the_writer_replaces_both_bookies_and_goes_on(tmp_path: Path, last: int, expected: int) -> None:
    """Entry 10 is refused by b, and by d, which replaces it; 11 is sent before d refuses, later entries are not."""
    steps: list[Step] = []
    for number in range(last):
        for bookie in "abcd" if number == 10 else "ac" if number > 10 else "abc":
            sent = number * 10 - (9 if number == 11 else 0)
            steps.append((sent, bookie, 0, add(ledger_entry(7, number))))
            steps.append((sent + 2, bookie, 1, added(7, number, status=105 if number == 10 and bookie in "bd" else 0)))
    assert len(diagnosed(tmp_path / "a.pcap", steps, codes=frozenset({"quorum-lost"}))) == expected


@pytest.mark.parametrize(("fences", "owner", "expected"), [(True, "10.0.0.2", 1), (True, "10.0.0.1", 0), (False, "10.0.0.2", 0)])
def test_two_owners_of_a_ledger_are_named_by_their_hosts(tmp_path: Path, *, fences: bool, owner: str, expected: int) -> None:
    writer = ScriptedConnection(3181, "10.0.0.1", "10.0.1.1", client_port=40_000)
    other = ScriptedConnection(3181, owner, "10.0.1.1", client_port=40_001)
    writer.client(add(ledger_entry(7, 0))).server(added(7, 0))
    other.client(read(7, 0, fence=fences)).server(read_back(7, 0, ledger_entry(7, 0)))
    writer.client(add(ledger_entry(7, 1))).server(added(7, 1, status=104))
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap_bytes(sorted([*writer.packets, *other.packets], key=lambda packet: packet[0])))
    found = [row for row in ps.open(path).findings() if row.code == "ledger-fenced" and "fenced_by" in (row.evidence or {})]
    assert [((row.evidence or {})["fenced_by"], (row.evidence or {})["fenced"]) for row in found] == [(owner, "10.0.0.1")] * expected


@pytest.mark.parametrize("status", [101, 105])
def test_a_refusal_of_the_only_bookie_in_the_capture_says_nothing_about_the_quorum(tmp_path: Path, status: int) -> None:
    steps = adds({"a": healthy}, count=5, status={"a": status})
    assert diagnosed(tmp_path / "a.pcap", steps, codes=frozenset({"quorum-lost"})) == []


@pytest.mark.parametrize(("count", "expected"), [(9, 0), (10, 1), (50, 1)])
def test_reads_of_many_messages_are_noted_and_of_other_entries_not(tmp_path: Path, count: int, expected: int) -> None:
    frame = payload_frame("SEND", message_metadata(), b"hello", producer_id=1, sequence_id=1)
    entries = [ledger_entry(7, number, frame[frame.index(b"\x0e\x01") :]) for number in range(count)]
    cursors = [ledger_entry(8, number, b"\x08\x01\x10\x02") for number in range(count)]
    steps: list[Step] = []
    for number, entry in enumerate([*entries, *cursors]):
        ledger = 7 + (number >= count)
        steps += [(number, "a", 0, read(ledger, number % count)), (number + 0.5, "a", 1, read_back(ledger, number % count, entry))]
    found = diagnosed(tmp_path / "a.pcap", steps, codes=frozenset({"read-from-storage"}))
    assert [(row.evidence or {})["entries"] for row in found] == [count] * expected


def publishes(latency: Latency, *, count: int = 200, interval: float = 10) -> list[Step]:
    """The steps of a client of the broker that publishes each entry as the broker adds it; receipts come in order."""
    answered = 0.0
    steps: list[Step] = [(-3, PULSAR, 0, commands.producer()), (-2, PULSAR, 1, commands.created())]
    for number in range(count):
        time = number * interval
        steps.append((time - 0.5, PULSAR, 0, payload_frame("SEND", message_metadata(), b"x", producer_id=1, sequence_id=number)))
        if (took := latency(number)) is not None:
            answered = max(answered, time + took + 1)
            steps.append((answered, PULSAR, 1, commands.receipt(sequence_id=number, entry=number)))
    return [(time + 3, *step) for time, *step in steps]  # type: ignore[misc]


PAUSE = stopped(50, 40, 2_000)


@pytest.mark.slow
@pytest.mark.parametrize("interval", [5, 10, 30])
@pytest.mark.parametrize("bookies", [1, 3])
@pytest.mark.parametrize(
    ("client", "bookie", "expected"),
    [
        (PAUSE, healthy, ["slow-broker"]),
        (stopped(0, 1, 1_200), healthy, ["slow-broker"]),
        (healthy, healthy, []),
        (PAUSE, PAUSE, []),
        (lambda _: 1_200, healthy, []),  # the client's link is slow: everything on it is
        (stopped(50, 40, 900), healthy, []),
        (stopped(50, 40, 1_500), stopped(50, 40, 700), []),
    ],
)
def test_a_broker_is_slow_only_when_neither_a_bookie_nor_the_link_is(
    tmp_path: Path, client: Latency, bookie: Latency, expected: list[str], bookies: int, interval: float
) -> None:
    steps = [*publishes(client, interval=interval), *adds(dict.fromkeys("abc"[:bookies], bookie), interval=interval)]
    found = diagnosed(tmp_path / "a.pcap", steps, codes=frozenset({"slow-broker"}))
    assert [row.code for row in found] == expected


@pytest.mark.parametrize("latency", [lambda _: 1_200, PAUSE])
def test_no_bookie_is_slow_when_the_link_of_the_client_is(tmp_path: Path, latency: Latency) -> None:
    steps = [*publishes(latency), *adds({"a": healthy, "b": healthy})]
    assert diagnosed(tmp_path / "a.pcap", steps, codes=frozenset({"slow-bookie", "bookie-silent"})) == []


def through_proxy(steps: list[Step], milliseconds: float) -> list[Step]:
    """The steps of a client of the broker, and of another one whose frames a proxy passes on to it with this delay."""
    outer = [(time + (milliseconds if side else -milliseconds), PROXY, side, data) for time, _, side, data in steps]
    return [(time + milliseconds, *step) for time, *step in [*outer, *steps]]  # type: ignore[misc]


def slow(number: int) -> float:
    """Five entries, each slower than those of other connections, so that they are reported."""
    return 2_600 + number if 100 <= number < 105 else healthy(number)


@pytest.mark.slow
@pytest.mark.parametrize("proxy", [None, 1, 20])
@pytest.mark.parametrize(
    ("client", "bookies", "leg", "words"),
    [
        (PAUSE, [PAUSE, healthy], "bookies", "until bookie 10.0.1."),
        (slow, [slow, slow], "bookies", "until bookie 10.0.1."),
        (PAUSE, [healthy, healthy, healthy], "broker", "passed in the broker: no bookie seen took longer than"),
        (PAUSE, [lambda _: 100, lambda _: 100], "broker", "no bookie seen took longer than 100 ms"),
        (PAUSE, [stopped(50, 40, 900), healthy], "answer", "1.10 s until the receipt"),
        (PAUSE, [], "unknown", "no acknowledgments without data"),
        (healthy, [PAUSE, healthy], "none", ""),
    ],
)
def test_a_slow_publish_names_the_leg_that_took_the_time(
    tmp_path: Path, client: Latency, bookies: list[Latency], leg: str, words: str, proxy: float | None
) -> None:
    path = publishes(client)
    path = path if proxy is None else through_proxy(path, proxy)
    writes = adds({f"b{number}": latency for number, latency in enumerate(bookies)})
    steps = [*path, *((time + 3.2 + (proxy or 0), name, side, data) for time, name, side, data in writes)]  # after its SEND
    found = diagnosed(tmp_path / "a.pcap", steps, codes=frozenset({"slow-publish"}))
    assert [(row.evidence or {}).get("leg") for row in found] == ([] if leg == "none" else [leg])
    for row in found:
        assert words in (row.text or "")
        legs = (row.evidence or {}).get("legs_ns", {})
        assert set(legs) <= {"proxy", "broker", "bookies", "answer"}
        if leg in ("bookies", "answer"):
            assert sum(legs.values()) == (row.evidence or {})["max_ns"]


@pytest.mark.parametrize("latency", [healthy, lambda _: 300, slow])
def test_a_slow_proxy_is_the_leg_and_neither_the_broker_nor_a_bookie_is_blamed(tmp_path: Path, latency: Latency) -> None:
    steps = [*through_proxy(publishes(latency), 1_600), *adds({"a": healthy, "b": healthy})]
    blamed = frozenset({"slow-publish", "slow-bookie", *(["slow-broker"] if latency is not slow else [])})
    (found,) = diagnosed(tmp_path / "a.pcap", steps, codes=blamed)
    assert (found.code, (found.evidence or {})["leg"]) == ("slow-publish", "proxy")
    assert "passed at 10.0.9.9, which hands it on" in (found.text or "")


@pytest.mark.parametrize(
    ("stored", "loaded", "words"),
    [
        (True, False, "was corrupted by 10.0.1.2:3181, which stored it, or on its link"),
        (False, False, "was corrupted in the broker, before 10.0.1.2:3181 stored it"),
        (True, True, "was corrupted in the broker, or between the broker and the consumer"),
    ],
)
def test_a_damaged_message_is_blamed_on_the_hop_behind_which_it_was_damaged(tmp_path: Path, stored: bool, loaded: bool, words: str) -> None:
    sent = payload_frame("SEND", message_metadata(), b"hello", producer_id=1, sequence_id=0)
    whole = sent[sent.index(b"\x0e\x01") :]
    damaged = whole[:-1] + b"!"
    entries = [ledger_entry(7, 0, whole if is_whole else damaged) for is_whole in (stored, loaded)]
    delivered = commands.message(payload=b"hello", metadata={"sequence_id": 0})
    steps: list[Step] = [
        (0, PULSAR, 0, commands.producer()),
        (1, PULSAR, 1, commands.created()),
        (2, PULSAR, 0, sent),
        (3, "a", 0, add(entries[0])),
        (4, "a", 1, added(7, 0)),
        (5, PULSAR, 1, commands.receipt()),
        (6, "a", 0, read(7, 0)),
        (7, "a", 1, read_back(7, 0, entries[1])),
        (8, PULSAR, 1, delivered[:-1] + b"!"),
    ]
    (found,) = diagnosed(tmp_path / "a.pcap", steps, codes=frozenset({"message-corrupted"}))
    assert words in (found.text or "")
