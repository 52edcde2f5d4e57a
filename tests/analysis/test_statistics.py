from __future__ import annotations

from collections import Counter
from math import ceil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pulsarscope as ps
from pulsarscope.analysis import statistics, tally
from pulsarscope.analysis.statistics import SECTIONS, Statistics
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FrameRow
from tests.scenarios import rows

SECOND = 1_000_000_000


def counted(some: list[Any], **values: Any) -> dict[str, list[dict[str, Any]]]:
    made = Statistics(**values)
    made.feed(some)
    return made.sections(SECTIONS)


def sent(packet: int, **values: Any) -> list[Any]:
    """A SEND and its exchange."""
    values = {"topic": rows.TOPIC, "producer_name": "p"} | values
    latency = values.pop("latency_ns", 1000)
    status = values.pop("status", "ok")
    frame = rows.send(packet, **values)
    names = {name: getattr(frame, name) for name in ("time", "packet", "connection", "topic", "producer_name")}
    return [frame, rows.exchange(request="SEND", response="SEND_RECEIPT", latency_ns=latency, status=status, **names)]


@pytest.mark.parametrize(
    "name", ["quickstart.pcapng", "stuck-consumer.pcap", "errors.pcap", "rw-capture-loss.pcap.zst", "java-schemas.pcap"]
)
def test_sums_are_those_of_the_rows_however_they_are_cut(captures: Path, name: str) -> None:
    records = list(ps.open(str(captures / name)).records("frame", "exchange", "connection"))
    whole, single = Statistics(), Statistics()
    whole.feed(records)
    for row in records:
        single.feed([row])
    sections = whole.sections(SECTIONS)
    assert single.sections(["total", "topics", "commands", "connections"]) == {
        section: sections[section] for section in ("total", "connections", "topics", "commands")
    }
    frames = [row for row in records if isinstance(row, FrameRow) and row.status in ("ok", "malformed")]
    (total,) = sections["total"]
    for side in ("client", "server"):
        own = [row for row in frames if row.direction == side]
        assert total[f"{side}_frames"] == len(own)
        assert total[f"{side}_bytes"] == sum(row.size or 0 for row in own)
        assert total[f"{side}_messages"] == sum(row.num_messages or 0 for row in own)
        for section in ("connections", "commands"):
            keys = [f"{side}_frames"] if section == "connections" else ["frames"]
            part = [record for record in sections[section] if section == "connections" or record["direction"] == side]
            assert sum(record[key] for record in part for key in keys) == len(own)
    ended = [row for row in records if isinstance(row, ConnectionRow)]
    assert (
        sum(row.retransmitted or 0 for row in ended) == total["retransmitted"] == sum(x["retransmitted"] for x in sections["connections"])
    )
    by_topic = Counter(row.topic for row in frames if row.topic is not None)
    assert {record["topic"]: record["client_frames"] + record["server_frames"] for record in sections["topics"]} == by_topic
    exchanges = [row for row in records if isinstance(row, ExchangeRow) and row.request is not None]
    assert sum(record["count"] for record in sections["exchanges"]) == len(exchanges)
    for record in sections["exchanges"]:
        latencies = sorted(row.latency_ns for row in exchanges if row.request == record["request"] and row.latency_ns is not None)
        if latencies:
            for percent in (50, 90, 99):
                exact = latencies[ceil(len(latencies) * percent / 100) - 1]
                assert abs(record[f"p{percent}_ns"] - exact) <= exact / 100
            assert (record["min_ns"], record["max_ns"]) == (latencies[0], latencies[-1])
            slowest = [slow["latency_ns"] for slow in sections["slowest"] if slow["request"] == record["request"]]
            assert slowest == latencies[::-1][:5]


def test_answers_of_clients_to_deliveries_are_no_latency_of_sending() -> None:
    delivery: list[Any] = [
        rows.frame(4, command="PUBLISH", direction="server", num_messages=1),
        rows.exchange(request="PUBLISH", latency_ns=9),
    ]
    assert counted(delivery)["total"][0]["p50_ns"] is None
    assert counted(delivery)["exchanges"][0]["p50_ns"] == 9
    delivery[0].direction = "client"
    assert counted(delivery)["total"][0]["p50_ns"] == 9


@given(st.lists(st.integers(0, 10**11), min_size=1, max_size=50))
def test_percentiles_of_a_topic_are_within_one_percent(latencies: list[int]) -> None:
    sections = counted([row for number, latency in enumerate(latencies, 1) for row in sent(number, latency_ns=latency)])
    for record in (sections["topics"][0], sections["producers"][0], sections["connections"][0], sections["total"][0]):
        for percent in (50, 90, 99):
            exact = sorted(latencies)[ceil(len(latencies) * percent / 100) - 1]
            assert abs(record[f"p{percent}_ns"] - exact) <= exact / 100


def test_rates_are_by_the_time_from_the_first_to_the_last_row() -> None:
    (total,) = counted([rows.send(1, time=0, num_messages=10), rows.send(2, time=2 * SECOND, num_messages=4)])["total"]
    assert (total["duration_ns"], total["messages_per_second"], total["bytes_per_second"]) == (2 * SECOND, 7.0, 100.0)
    (alone,) = counted([rows.send(1)])["total"]
    assert alone["messages_per_second"] is None


def test_latencies_of_a_topic_are_those_of_requests_that_carry_messages() -> None:
    lookup = rows.exchange(latency_ns=10**9)
    sections = counted([*sent(1, latency_ns=1000), lookup])
    assert sections["topics"][0]["max_ns"] == 1000
    assert {record["request"]: record["max_ns"] for record in sections["exchanges"]} == {"SEND": 1000, "LOOKUP": 10**9}


def test_refused_unanswered_and_unrequested_are_counted_apart() -> None:
    some = [
        rows.exchange(status="error"),
        rows.exchange(status="unanswered", latency_ns=None, response_packet=None),
        rows.exchange(request=None, status="unrequested", latency_ns=None),
    ]
    sections = counted(some)
    (total,) = sections["total"]
    assert [total[name] for name in ("exchanges", "errors", "unanswered", "unrequested")] == [2, 1, 1, 1]
    assert [(record["request"], record["count"]) for record in sections["exchanges"]] == [("LOOKUP", 2), (None, 0)]


def test_rows_that_are_no_whole_frames_are_not_counted() -> None:
    (total,) = counted([rows.frame(status="skipped", command=None), rows.frame(status="truncated")])["total"]
    assert total["client_frames"] == total["client_bytes"] == 0


def test_tcp_facts_stand_beside_the_connection() -> None:
    windows = [rows.finding(code="zero-window", evidence={"count": 3}), rows.finding(code="zero-window", evidence={"count": 2})]
    ended = rows.connection(retransmitted=4, out_of_order=5, client_missing=6, server_missing=1, opened="midstream")
    sections = counted([windows[0], rows.send(), ended, windows[1]])
    (total,), (connection,) = sections["total"], sections["connections"]
    for record in (total, connection):
        facts = [record[name] for name in ("retransmitted", "out_of_order", "missing_bytes", "zero_windows")]
        assert facts == [4, 5, 7, 5]
    assert total["midstream_connections"] == 1


def test_connections_of_no_known_protocol_are_only_counted() -> None:
    sections = counted([rows.connection(dissector=None)])
    assert sections["connections"] == []
    assert sections["total"][0]["unknown_connections"] == 1


def test_with_a_filter_only_connections_with_chosen_rows_count() -> None:
    some = [rows.send(), rows.connection(), rows.connection(connection="0:9", retransmitted=9)]
    sections = counted(some, filtered=True)
    assert [record["connection"] for record in sections["connections"]] == ["0:1"]
    assert (sections["total"][0]["connections"], sections["total"][0]["retransmitted"]) == (1, 0)


def test_names_beyond_the_bound_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally, "STATISTICS_NAMES_MAX", 3)
    some = [
        row for number in range(1, 11) for row in sent(number, topic=f"t{number}", producer_name=f"p{number}", connection=f"0:{number}")
    ]
    ended = [rows.connection(connection=f"0:{number}", packet=number, retransmitted=1) for number in range(1, 11)]
    sections = counted([*some, *ended])
    for section, name in (("topics", "topic"), ("producers", "producer_name"), ("connections", "connection")):
        records = sections[section]
        assert len(records) == 4
        assert records[-1][name] is None
        assert records[-1]["others"] is True
        assert sum(record["client_frames"] for record in records) == sum(record["exchanges"] for record in records) == 10
    assert sections["connections"][-1]["retransmitted"] == 7


def test_very_many_families_have_no_more_slowest_exchanges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "STATISTICS_NAMES_MAX", 2)
    assert len(counted([rows.exchange(request=f"R{number}") for number in range(9)])["slowest"]) == 2


def test_a_name_as_long_as_a_frame_is_cut() -> None:
    (record,) = counted([rows.send(topic="x" * 10**6)])["topics"]
    assert len(record["topic"]) == 1024


def test_the_slowest_exchanges_are_named_by_their_frames() -> None:
    some = [rows.exchange(packet=packet, latency_ns=packet % 7 * 1000) for packet in range(1, 15)]
    records = counted(some)["slowest"]
    assert [record["latency_ns"] for record in records] == [6000, 6000, 5000, 5000, 4000]
    assert [record["frame"] for record in records[:2]] == ["0:6.1", "0:13.1"]
    assert records[0]["response_frame"] == "0:6.1"


def test_intervals_are_a_section_only_when_asked_for() -> None:
    assert "intervals" not in counted([rows.send()])
    (record,) = counted([rows.send()], interval=SECOND)["intervals"]
    assert record["client_messages"] == 1
