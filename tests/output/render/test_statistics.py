from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from pulsarscope.analysis.statistics import SECTIONS, Statistics
from pulsarscope.dissect.contract.capabilities import ReportColumn, ReportTable
from pulsarscope.output.render.cell_text import cell_width
from pulsarscope.output.render.statistics import statistics_text
from pulsarscope.output.render.text_report import ReportOptions
from tests.scenarios import rows


def shown(some: list[Any], *names: str, interval: int | None = None, note: str = "", **values: Any) -> str:
    made = Statistics(interval=interval)
    made.feed(some)
    return statistics_text(made.sections(names or SECTIONS), ReportOptions(**values), note).decode()


def sends(count: int) -> list[Any]:
    made: list[Any] = []
    for packet in range(1, count + 1):
        made.append(rows.send(packet, producer_name="p"))
        made.append(rows.exchange(packet=packet, request="SEND", latency_ns=packet * 100_000, topic=rows.TOPIC, producer_name="p"))
    return made


def test_the_summary_says_who_sent_how_much_and_how_fast() -> None:
    lines = shown([*sends(30), rows.connection(retransmitted=3)], "total").splitlines()
    assert lines[0].startswith("1 connection · 30.0 ms from 2026-05-01")
    assert "30 frames" in lines[1]
    assert "30 messages" in lines[1]
    assert "p50 1.5" in lines[4]
    assert "3 retransmitted" in lines[5]
    assert "12 bytes missing from the capture" in lines[5]


def test_without_a_known_protocol_it_says_who_knows_more() -> None:
    lines = shown([rows.connection(dissector=None)], "total", "topics").splitlines()
    assert lines[0].startswith("0 connections · 1 of no known protocol (see diagnose)")
    assert lines[-1] == "Topics  none"
    assert not any("TCP" in line for line in lines)  # nothing was judged


def test_refusals_stand_out_in_colour() -> None:
    text = shown([rows.exchange(status="error"), rows.exchange(status="unanswered", latency_ns=None)], "total", color=True)
    assert "\x1b[1;31m1 refused\x1b[0m" in text
    assert "\x1b[33m1 unanswered\x1b[0m" in text


def test_latencies_are_drawn_by_powers_of_two() -> None:
    text = shown(sends(100), "exchanges")
    drawing = text[text.index("Latency of SEND") :].splitlines()[1:]
    counts = [int(line.split("%")[0].split()[-2]) for line in drawing]
    assert sum(counts) == 100
    assert "█" in text
    assert "#" in shown(sends(100), "exchanges", encoding="ascii")
    assert "Latency of" not in shown(sends(5), "exchanges")


def test_slowest_exchanges_lead_to_their_frames() -> None:
    text = shown(sends(9), "slowest")
    assert "  SEND   900 µs at 9.1   800 µs at 8.1" in text


def test_a_time_series_separates_intervals() -> None:
    some = [rows.send(packet, time=packet * 50_000_000) for packet in (1, 2, 3, 40)]
    text = shown(some, "intervals", interval=100_000_000)
    assert "Every 100 ms" in text
    assert [line.split()[0] for line in text.splitlines()[2:]] == ["0.0", "0.1", "1.9"]
    assert "left out" in text


def test_lists_are_as_long_as_the_limit_and_say_so() -> None:
    some = [rows.send(packet, topic=f"t{packet}") for packet in range(1, 8)]
    text = shown(some, "topics", limit=3)
    assert "and 4 more topics" in text


def test_an_empty_run_says_so() -> None:
    text = shown([])
    assert text.startswith("0 connections\n")
    assert "Topics  none" in text


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    some = [*sends(40), rows.connection(retransmitted=10**9, out_of_order=10**9), rows.send(50, topic="t" * 500, producer_name="p" * 500)]
    text = shown(some, interval=10_000_000, width=width, note="Only what matches the filter")
    assert max(map(cell_width, text.splitlines())) <= max(width, 75)


def test_names_off_the_wire_are_escaped() -> None:
    hostile = "\x1b[2J\u202e\n"
    some = [
        rows.send(topic=hostile, producer_name=hostile, subscription=hostile),
        rows.frame(4, hostile),
        rows.exchange(request=hostile),
    ] * 30
    text = shown(some)
    assert {character for character in text if not character.isprintable()} == {"\n"}
    assert "\\x1b[2J\\u202e\\x0a" in text


def test_quiet_leaves_out_the_headings_of_columns() -> None:
    assert "packet" not in shown([*sends(3), rows.connection()], "connections", quiet=True)


def test_zeros_that_mean_something_are_shown_and_others_left_out() -> None:
    columns = ReportColumn("name", "name", "name"), ReportColumn("permits", "permits", kept=True), ReportColumn("again", "again")
    table = ReportTable("consumers", "Consumers", "", columns, Mock)
    for permits, expected in ((0, ["name", "permits"]), (None, ["name"])):
        records = [{"name": "c", "permits": permits, "again": 0}]
        text = statistics_text({"consumers": records}, ReportOptions(), tables={"consumers": table}).decode()
        assert text.splitlines()[1].split() == expected
