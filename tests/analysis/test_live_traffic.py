"""Traffic of a live run as tables."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pulsarscope.analysis import live_traffic as module
from pulsarscope.analysis.live_traffic import PARTS, WINDOW_NANOSECONDS, LiveTraffic, RecentStatistics
from pulsarscope.model.live_limits import LIVE_FINDING_CHARACTERS_MAX, LIVE_FRAMES_KEPT
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FindingRow, FrameRow
from pulsarscope.protocols.pulsar.tables.consumers import Consumers

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND
ENDPOINTS = {"0:1": ("10.0.0.1:50000", "10.0.0.9:6650")}


def send(at: int = START, connection: str = "0:1", topic: str = "t", messages: int = 5) -> FrameRow:
    return FrameRow(
        connection=connection, direction="client", command="SEND", topic=topic, producer_name="p", num_messages=messages, size=100, time=at
    )


def test_rates_are_those_of_the_window_and_totals_those_since_the_start() -> None:
    traffic = LiveTraffic()
    for second in range(60):
        traffic.feed([send()], ENDPOINTS, START + second * SECOND)
    (topic,) = traffic.snapshot(START + 60 * SECOND).tables["topics"]
    assert topic["messages_in"] == pytest.approx(5, rel=0.2)
    assert topic["messages_out"] == 0
    assert (topic["sent"], topic["delivered"], topic["bytes"]) == (300, 0, 6_000)
    assert sum(topic["course"]) == pytest.approx(300, rel=0.1)
    (topic,) = traffic.snapshot(START + 600 * SECOND).tables["topics"]
    assert (topic["messages_in"], topic["sent"], topic["course"]) == (0, 300, [0] * 20)


def test_what_stood_for_a_topic_counts_as_the_topic_once_its_name_is_known() -> None:
    names: dict[str, str] = {}
    traffic = LiveTraffic(name_of=lambda topic: names.get(topic, topic))
    for second in range(20):
        traffic.feed([send(topic="topic of ledger 7")], ENDPOINTS, START + second * SECOND)
    names["topic of ledger 7"] = "t"
    traffic.feed([send()], ENDPOINTS, START + 20 * SECOND)
    snapshot = traffic.snapshot(START + 20 * SECOND)
    assert [(row["topic"], row["sent"]) for row in snapshot.tables["topics"]] == [("t", 105)]
    assert [(row["topic"], row["producer"], row["sent"]) for row in snapshot.tables["producers"]] == [("t", "p", 105)]


@pytest.mark.parametrize(
    ("later", "shown"),
    [
        (["topic of ledger 7"], [("topic of ledger 7", 10)]),
        (["topic of ledger 7", "topic of ledger 8"], [(None, 5), ("topic of ledger 7", 5), ("topic of ledger 8", 5)]),
        ([], [(None, 5)]),
    ],
)
def test_what_a_producer_sent_before_its_topic_was_known_counts_as_of_that_topic(
    later: list[str], shown: list[tuple[str | None, int]]
) -> None:
    traffic = LiveTraffic()
    traffic.feed([msgspec.structs.replace(send(), topic=None), *(send(topic=topic) for topic in later)], ENDPOINTS, START)
    records = traffic.snapshot(START + SECOND).tables["producers"]
    assert sorted(((row["topic"], row["sent"]) for row in records), key=str) == sorted(shown, key=str)


def test_a_producer_has_the_address_of_its_client() -> None:
    traffic = LiveTraffic()
    traffic.feed([send()], ENDPOINTS, START)
    (producer,) = traffic.snapshot(START + SECOND).tables["producers"]
    assert (producer["producer"], producer["address"], producer["connection"]) == ("p", "10.0.0.1:50000", "0:1")


def test_a_consumer_has_permits_what_waits_its_address_and_its_rate() -> None:
    consumers = Consumers()
    traffic = LiveTraffic(consumers.records)

    def frame(command: str, direction: str, messages: int | None = None, **fields: Any) -> FrameRow:
        return FrameRow(
            connection="0:1", direction=direction, command=command, topic="t", subscription="s",
            num_messages=messages, size=0, time=START, file=0, packet=1,
            fields={"consumer_id": 0, **fields},
        )  # fmt: skip

    rows = [frame("SUBSCRIBE", "client", topic="t", subscription="s"), frame("FLOW", "client", messagePermits=10)]
    consumers.feed(rows, ENDPOINTS)
    traffic.feed(rows, ENDPOINTS, START)
    traffic.snapshot(START)
    delivered = [frame("MESSAGE", "server", 1, message_id={"ledgerId": 1, "entryId": entry}, redelivery_count=entry) for entry in range(2)]
    consumers.feed(delivered, ENDPOINTS)
    traffic.feed(delivered, ENDPOINTS, START + SECOND)
    (consumer,) = traffic.snapshot(START + SECOND).tables["consumers"]
    assert (consumer["permits_left"], consumer["unacknowledged"], consumer["redelivered"]) == (8, 2, 1)
    assert (consumer["address"], consumer["rate"]) == ("10.0.0.1:50000", 2)


def test_a_connection_is_listed_while_it_is_open_with_its_latest_frames() -> None:
    traffic = LiveTraffic()
    traffic.feed([send(START + packet) for packet in range(1_000)], ENDPOINTS, START)
    (connection,) = traffic.snapshot(START + SECOND).tables["connections"]
    assert (connection["client"], connection["server"], connection["frames"]) == (*ENDPOINTS["0:1"], 1_000)
    frames = traffic.frames("0:1")
    assert (frames[0].time, len(frames)) == (START + 999, LIVE_FRAMES_KEPT)
    traffic.feed([ConnectionRow(connection="0:1", closed="fin")], ENDPOINTS, START)
    assert traffic.snapshot(START + SECOND).tables["connections"] == []
    assert traffic.frames("0:1") == []


def test_of_too_many_connections_those_heard_lately_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LIVE_CONNECTIONS_MAX", 8)
    traffic = LiveTraffic()
    for number in range(100):
        traffic.feed([send(connection="busy"), send(connection=f"0:{number}")], {}, START + number * SECOND)
    names = {record["connection"] for record in traffic.snapshot(START + 100 * SECOND).tables["connections"]}
    assert {"busy", "0:99"} <= names
    assert len(names) <= 8


def test_findings_are_grouped_the_gravest_first_and_notes_left_out() -> None:
    traffic = LiveTraffic()
    rows = [FindingRow(code="w", severity="warning", text=f"{number}", hint="try") for number in range(20)]
    rows += [FindingRow(code="e", severity="error", text="x" * 100_000), FindingRow(code="n", severity="note", text="n")]
    traffic.feed([*rows, FindingRow(code="midstream-start", severity="note")], {}, START)
    snapshot = traffic.snapshot(START)
    assert [(group.code, group.count) for group in snapshot.findings] == [("e", 1), ("w", 20)]
    assert [row.text for row in snapshot.findings[1].latest] == ["15", "16", "17", "18", "19"]
    assert len(snapshot.findings[0].latest[0].text) == LIVE_FINDING_CHARACTERS_MAX
    assert snapshot.begun_before == 1


def test_a_clock_that_is_set_back_does_no_harm() -> None:
    traffic = LiveTraffic(Consumers().records)
    for now in (START, START - 3_600 * SECOND, START - 3_590 * SECOND, START + SECOND):
        traffic.feed([send(), ExchangeRow(request="SEND", latency_ns=5, status="ok", connection="0:1")], ENDPOINTS, now)
        snapshot = traffic.snapshot(now)
    assert snapshot.tables["topics"][0]["sent"] == 20
    assert snapshot.tables["requests"][0]["requests"] == 4


def exchanged(time: int) -> list[FrameRow | ExchangeRow]:
    frame = FrameRow(time=time, connection="0:1", direction="client", command="SEND", topic="t", num_messages=2, size=100, status="ok")
    exchange = ExchangeRow(time=time, connection="0:1", request="SEND", topic="t", latency_ns=5, status="ok")
    return [frame, exchange]


def test_rates_are_those_of_the_window() -> None:
    recent = RecentStatistics()
    for second in range(60):
        recent.feed(exchanged(START), START + second * SECOND)
    now = START + 59 * SECOND
    statistics = recent.statistics(now)
    (topic,) = statistics.sections(["topics"])["topics"]
    assert statistics.span == WINDOW_NANOSECONDS
    assert topic["client_messages"] == 20
    assert topic["messages_per_second"] == 2.0
    assert topic["p50_ns"] == 5
    assert len(recent._parts) <= PARTS + 1


def test_what_is_older_than_the_window_is_forgotten() -> None:
    recent = RecentStatistics()
    recent.feed(exchanged(START), START)
    assert recent.statistics(START + 2 * SECOND).total.messages == [2, 0]
    assert recent.statistics(START + 2 * SECOND).span == 2 * SECOND
    later = recent.statistics(START + 11 * SECOND)
    assert later.total.messages == [0, 0]
    assert later.sections(["topics"]) == {"topics": []}


def test_an_answer_counts_as_of_a_message_though_the_message_is_older() -> None:
    recent = RecentStatistics()
    frame, exchange = exchanged(START)
    recent.feed([frame], START)
    recent.feed([exchange], START + WINDOW_NANOSECONDS // 2)
    assert recent.statistics(START + WINDOW_NANOSECONDS // 2).total.latencies.count == 1


def test_nothing_gives_nothing() -> None:
    assert RecentStatistics().statistics(START).total.messages == [0, 0]


@pytest.mark.parametrize("jump", [-86_400, -60, -2, 60, 86_400])
def test_a_clock_that_jumps_gives_no_odd_rates(jump: int) -> None:
    recent = RecentStatistics()
    for second in range(30):
        recent.feed(exchanged(START), START + second * SECOND)
    for second in range(30, 60):
        now = START + (second + jump) * SECOND
        recent.feed(exchanged(START), now)
        statistics = recent.statistics(now)
        assert 0 <= statistics.span <= WINDOW_NANOSECONDS
        assert 0 < statistics.total.messages[0] <= 22
        if second >= 45:
            assert statistics.sections(["topics"])["topics"][0]["messages_per_second"] == 2.0
