"""The screen of `live --top`, as text."""

from __future__ import annotations

import re

import pytest

from pulsarscope.model.records import ExchangeRow, FindingRow, FrameRow
from pulsarscope.output.render.cell_text import cell_width
from pulsarscope.output.render.text_report import ReportOptions
from pulsarscope.output.render.top import Status, Top
from pulsarscope.protocols.pulsar.topics import short_topic

SECOND = 1_000_000_000
ROWS = [
    FrameRow(direction="client", command="SEND", topic="persistent://public/default/orders", producer_name="p", num_messages=5, size=1000),
    ExchangeRow(request="SEND", topic="persistent://public/default/orders", producer_name="p", latency_ns=2_500_000, status="ok"),
    FrameRow(direction="server", command="MESSAGE", topic="persistent://public/default/orders", subscription="s", num_messages=5, size=900),
    FindingRow(code="producer-busy", severity="error", text="Producer p was refused."),
    FindingRow(code="keepalive", severity="note", text="of no interest here"),
]


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000 * SECOND

    def __call__(self) -> int:
        return self.now


def top(clock: Clock, *, color: bool = False, title: str = "lo: 12 packets") -> Top:
    return Top(
        lambda: Status(title, [("none dropped", False), ("9 not decoded", True)]),
        clock,
        ReportOptions(color=color, short_topic=short_topic),
    )


def picture(width: int = 100, height: int = 40, *, color: bool = False) -> str:
    clock = Clock()
    screen = top(clock, color=color)
    clock.now += SECOND
    screen.write(ROWS)
    clock.now += SECOND
    return screen.picture(width, height)


def test_it_shows_who_talks_how_fast_and_what_is_wrong() -> None:
    shown = picture()
    assert "lo: 12 packets · 2.00 s" in shown
    assert "9 not decoded" in shown
    assert "clients → messages 5.00/s, 1.00 kB/s" in shown
    assert "latency of sending  p50 2.50 ms" in shown
    assert "1 producer-busy  Producer p was refused." in shown
    assert "of no interest" not in shown
    assert re.search(r"^  orders +5 +5 ", shown, re.MULTILINE)
    assert re.search(r"^  s +orders +5 ", shown, re.MULTILINE)


def test_it_says_why_topics_are_missing() -> None:
    screen = top(Clock())
    screen.write([FindingRow(code="midstream-start", severity="note")] * 2)
    shown = screen.picture(80, 24)
    assert "2 connections began before: topics are known when clients name them again" in shown
    assert "no errors, no warnings" in shown


def test_it_says_that_nothing_is_wrong() -> None:
    assert "no errors, no warnings" in top(Clock()).picture(80, 24)


def test_how_the_capture_fares_takes_as_many_lines_as_it_needs() -> None:
    health = [(f"{number} dropped by the kernel", number == 3) for number in range(5)] + [("kept in " + "long/" * 30, False)]
    screen = Top(lambda: Status("lo", health), Clock(), ReportOptions())
    lines = screen.picture(80, 24).split("\n")[1:5]
    assert [line.count("dropped") for line in lines] == [3, 2, 0, 0]
    assert lines[2].startswith("  kept in long/")
    assert all(cell_width(line) <= 80 for line in lines)


@pytest.mark.parametrize("width", [20, 80, 200])
@pytest.mark.parametrize("height", [1, 5, 24, 60])
def test_it_fits_the_screen(width: int, height: int) -> None:
    lines = picture(width, height).split("\n")
    assert len(lines) <= height
    assert all(cell_width(line) <= max(width, 60) for line in lines)


def test_what_the_wire_says_does_not_reach_the_terminal_raw() -> None:
    clock = Clock()
    screen = top(clock, title="\x1b]0;title\x07")
    screen.write([FindingRow(code="x", severity="error", text="\x1b[2J"), FrameRow(command="\x1b[1m", topic="\x1b[31m", num_messages=1)])
    assert "\x1b" not in screen.picture(100, 40)


def test_findings_of_many_codes_are_counted() -> None:
    clock = Clock()
    screen = top(clock)
    screen.write([FindingRow(code=f"code-{number}", severity="warning", text="t") for number in range(12)])
    assert "and findings of 7 more codes" in screen.picture(100, 40)


def test_losses_stand_out_in_colour() -> None:
    assert "\x1b[33m9 not decoded\x1b[0m" in picture(color=True)
