from __future__ import annotations

from typing import Any

import pytest

from pulsarscope.analysis.comparison import ComparedRun, Comparison
from pulsarscope.analysis.diagnosis import Diagnosis
from pulsarscope.analysis.statistics import Statistics
from pulsarscope.output.render.cell_text import cell_width
from pulsarscope.output.render.comparison import comparison_text
from pulsarscope.output.render.style import palette
from pulsarscope.output.render.text_report import ReportOptions
from tests.scenarios import rows


def examined(some: list[Any]) -> ComparedRun:
    side = ComparedRun(Statistics(), Diagnosis({}))
    for part in side:
        part.feed(some)
    return side


def shown(before: list[Any], after: list[Any], **values: Any) -> str:
    return comparison_text(Comparison(examined(before), examined(after)), ("a.pcap", "b.pcap"), ReportOptions(**values)).decode()


def family(request: str, count: int, latency: int) -> list[Any]:
    exchanges = [rows.exchange(request=request, latency_ns=latency) for _ in range(count)]
    return [*exchanges, rows.connection(server_missing=0)]


def test_the_verdict_says_what_became_slower_and_which_findings_are_more() -> None:
    before = family("SEND", 200, 1_000_000)
    after = [*family("SEND", 200, 5_000_000), rows.finding(), rows.connection()]
    assert shown(before, after, quiet=True, width=200) == (
        "Slower: SEND p99 1.00 ms to 5.00 ms (x5.0); more findings: checksum-mismatch 0 to 1; "
        "but 12 bytes are missing from the second capture.\n"
    )


@pytest.mark.parametrize(
    ("before_ns", "after_ns", "findings", "color"),
    [
        (1_000_000, 5_000_000, (0, 0), "bad"),
        (1_000_000, 5_000_000, (1, 0), "bad"),
        (1_000_000, 1_000_000, (0, 1), "bad"),
        (5_000_000, 1_000_000, (0, 0), "good"),
        (1_000_000, 1_000_000, (1, 0), "good"),
        (5_000_000, 1_000_000, (0, 1), "bold"),
        (1_000_000, 1_000_000, (0, 0), "bold"),
    ],
)
def test_the_colour_is_that_of_what_the_verdict_begins_with(before_ns: int, after_ns: int, findings: tuple[int, int], color: str) -> None:
    before, after = (
        [*family("SEND", 200, latency), *[rows.finding() for _ in range(count)]]
        for latency, count in zip((before_ns, after_ns), findings, strict=True)
    )
    assert shown(before, after, color=True).startswith(getattr(palette(color=True), color))


def test_nothing_notable_is_said_as_such() -> None:
    assert shown(family("SEND", 5, 1), family("SEND", 5, 2)).startswith("No notable change.\n")


@pytest.mark.parametrize(
    ("before", "after", "where"),
    [
        ([], [], "either"),
        ([rows.connection(dissector=None)], [rows.connection()], "the first"),
        ([rows.connection()], [rows.finding()], "the second"),
    ],
)
def test_a_capture_without_a_known_protocol_is_not_compared(before: list[Any], after: list[Any], where: str) -> None:
    result = f"Nothing to compare: no connection of a known protocol in {where} capture (see diagnose).\n"
    assert shown(before, after, quiet=True) == result


def test_nothing_has_no_headings() -> None:
    assert shown([], []).splitlines()[1:] == ["  before: a.pcap", "  after:  b.pcap"]


def test_both_sides_stand_beside_each_other() -> None:
    text = shown(family("SEND", 200, 1_000_000), family("SEND", 100, 2_000_000))
    (line,) = [line for line in text.splitlines() if line.startswith("  SEND")]
    assert " ".join(line.split()) == "SEND 200 → 100 1.00 ms → 2.00 ms +100 % 1.00 ms → 2.00 ms +100 %"
    assert "before: a.pcap" in text


def test_who_came_and_went_is_listed_up_to_the_limit() -> None:
    text = shown([rows.send(topic="old")], [rows.send(number, topic=f"new{number}") for number in range(1, 6)], limit=2)
    assert "Topics that vanished  1\n  old\n" in text
    assert "Topics that appeared  5\n  new1\n  new2\n  and 3 more\n" in text


def test_names_off_the_wire_are_escaped_and_fit() -> None:
    hostile = "\x1b[2J\u202e\n" * 50
    after = [rows.send(topic=hostile, producer_name=hostile), *family(hostile, 30, 5), rows.finding(code="x")]
    text = shown([], after, width=80)
    assert {character for character in text if not character.isprintable()} == {"\n"}
    assert max(map(cell_width, text.splitlines())) <= 80
