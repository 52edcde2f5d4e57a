"""Clocks that differ from that of the capture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pulsarscope as ps
from pulsarscope.model.findings import NOTE
from tests.places import CAPTURES
from tests.scenarios.capturefile import write_pcap
from tests.scenarios.commands import created, message, producer, receipt, send
from tests.scenarios.connections import connected
from tests.scenarios.conversation import MILLISECOND, SECOND, START_NS
from tests.scenarios.dialogue import RuleDialogue

NOW = START_NS // MILLISECOND
"""Start of the capture in milliseconds."""


def skews(talk: RuleDialogue) -> list[Any]:
    return [row for row in talk.end() if row.code == "clock-skew"]


def published(*offsets_ms: int) -> RuleDialogue:
    """SENDs in packets 1, 3, …, one millisecond apart, and their receipts; the publish times have these offsets to the first one."""
    talk = RuleDialogue()
    for number, offset in enumerate(offsets_ms):
        times = {"publish_time": NOW + offset}
        talk.client(send(sequence_id=number, metadata=times)).server(receipt(sequence_id=number, entry=number))
    return talk


def test_a_producer_whose_clock_is_ahead() -> None:
    (row,) = skews(published(3_000, 2_000, 3_100))
    assert (row.severity, row.packet) == (NOTE, 5)
    offset = {"offset_ns": 3_095 * MILLISECOND, "threshold": {"clock-skew-seconds": 0.5}}
    assert row.evidence == {"frames": ["0:5.1"], "host": "10.0.0.1", "sends": 3, "connections": ["0:1"], **offset}
    assert "at least 3.10 s ahead" in row.text


def test_a_producer_whose_clock_is_behind_or_that_held_its_messages() -> None:
    (row,) = skews(published(-3_000, -2_000))
    assert row.evidence["offset_ns"] == -2_003 * MILLISECOND
    assert "behind" in row.text
    assert "or they held each message for so long" in row.text


def test_a_host_is_named_once_for_all_its_connections(tmp_path: Path) -> None:
    packets = []
    for port, offset_ms in ((41000, 3_000), (42000, 4_000), (43000, -9_000)):  # the last one delayed its message
        made = connected(port).client(producer(1, "p", 2)).server(created("p", 2))
        made.client(send(sequence_id=0, metadata={"publish_time": NOW + offset_ms})).server(receipt(1, 0, entry=0)).close()
        packets += made.packets
    seen = ps.open(str(write_pcap(tmp_path / "a.pcap", sorted(packets, key=lambda packet: packet.time_ns))))
    (row,) = [row for row in seen.findings() if row.code == "clock-skew"]
    evidence = row.evidence or {}
    assert (evidence["host"], evidence["sends"], len(evidence["connections"])) == ("10.0.0.1", 2, 2)
    assert row.connection in evidence["connections"]
    assert evidence["offset_ns"] > 3_900 * MILLISECOND
    assert (row.text or "").endswith("by the publish times of 2 SENDs on 2 connections.")


def test_each_host_has_its_own_clock() -> None:
    talk = published(3_000)
    talk.client(send(sequence_id=1, metadata={"publish_time": NOW + 9_000}), on="0:20")
    assert [row.evidence["host"] for row in skews(talk)] == ["10.0.0.1", "10.0.0.2"]


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("hosts", "findings"), [(5, 5), (6, 1), (40, 1)])
def test_the_clocks_of_many_hosts_are_one_finding(sign: int, hosts: int, findings: int) -> None:
    talk = RuleDialogue()
    for number in range(hosts):
        offset = sign * (3_000 + 100 * number)
        talk.client(send(sequence_id=1, metadata={"publish_time": NOW + offset}), on=f"0:{20 * number + 1}")
    found = skews(talk)
    assert len(found) == findings
    row = found[0]
    if findings == 1:
        assert f"{hosts} hosts, such as {row.evidence['host']}, are" in row.text
        assert row.evidence["hosts"] == hosts
        assert row.evidence["names"][0] == row.evidence["host"]
        assert abs(row.evidence["offset_ns"]) // SECOND == (3_000 + 100 * (hosts - 1)) // 1_000


def test_clocks_that_deviate_alike_have_one_offset() -> None:
    talk = RuleDialogue()
    for number in range(8):
        talk.client(send(metadata={"publish_time": NOW + 90_000}), on=f"0:{20 * number + 1}")
    assert "are at least 90.0 s ahead" in skews(talk)[0].text


def test_hosts_ahead_and_behind_are_told_apart() -> None:
    talk = RuleDialogue()
    for number in range(12):
        talk.client(send(metadata={"publish_time": NOW + (9_000 if number % 2 else -9_000)}), on=f"0:{20 * number + 1}")
    assert [("ahead" in row.text, row.evidence["hosts"]) for row in skews(talk)] == [(True, 6), (False, 6)]


def test_one_prompt_message_shows_that_the_others_only_waited() -> None:
    assert skews(published(-3_000, 3, -2_000)) == []


def test_a_replicator_keeps_the_times_of_another_cluster() -> None:
    times = {"publish_time": NOW - 90_000, "replicated_from": "west"}
    assert skews(RuleDialogue().client(send(metadata=times))) == []


def delivered(offset_ms: int, *, wait_ns: int = 0) -> RuleDialogue:
    """Entry 7:0, sent in packet 1, and delivered on another connection in packet 3; stamped by a broker with this clock offset."""
    stamp = {"broker_timestamp": NOW + 1 + offset_ms, "index": 0}
    return published(0).wait(wait_ns).server(message(broker_entry=stamp), on="0:50")


@pytest.mark.parametrize(
    ("offset_ms", "frames", "offset_ns"),
    [(2_000, ["0:3.1"], 1_998 * MILLISECOND), (-2_000, ["0:1.1", "0:3.1"], -1_999 * MILLISECOND)],
)
def test_a_broker_whose_clock_is_off(offset_ms: int, frames: list[str], offset_ns: int) -> None:
    (row,) = skews(delivered(offset_ms))
    offset = {"offset_ns": offset_ns, "threshold": {"clock-skew-seconds": 0.5}}
    assert row.evidence == {"frames": frames, "host": "10.0.0.99:6650", "entries": 1, **offset}
    assert ("ahead of" if offset_ms > 0 else "behind") in row.text


def test_a_backlog_is_no_skew() -> None:
    assert skews(delivered(0, wait_ns=90 * SECOND)) == []


def test_a_capture_made_of_two_days_shows_it_and_others_do_not() -> None:
    shifted = [row for row in ps.open(str(CAPTURES / "rw-portreuse.pcap")).findings() if row.code == "clock-skew"]
    assert len(shifted) == 2
    assert all((row.evidence or {})["offset_ns"] > 46 * SECOND for row in shifted)
    assert "clock-skew" not in {row.code for row in ps.open(str(CAPTURES / "quickstart.pcapng")).findings()}
