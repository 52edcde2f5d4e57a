"""The screen of `live --top`, as text."""

from __future__ import annotations

import re

import pytest

from pulsarscope.model.records import ExchangeRow, FindingRow, FrameRow
from pulsarscope.output.render.cell_text import cell_width
from pulsarscope.output.render.text_report import ReportOptions
from pulsarscope.output.render.top import Status, Top
from pulsarscope.protocols.pulsar.tables import TABLES
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
    assert "in  clients → 5.00/s, 1.00 kB/s · 5 messages, 1.00 kB since the start" in shown
    assert "latency of sending  p50 2.50 ms" in shown
    assert "1 producer-busy  Producer p was refused." in shown
    assert "of no interest" not in shown
    assert re.search(r"^> orders +5.00/s +5.00/s +2.50 ms +█ +5 +5 ", shown, re.MULTILINE)
    assert re.search(r"^  p +orders +5.00/s ", shown, re.MULTILINE)


def pressed(screen: Top, keys: str) -> str:
    """The picture after these keys, separated by spaces."""
    for key in keys.split():
        screen.picture(100, 40)
        screen.press(key)
    return screen.picture(100, 40)


def running(number: int = 3) -> tuple[Top, Clock]:
    """A screen of `count` topics, each with a producer on its own connection; topic-0 is the busiest."""
    clock = Clock()
    screen = top(clock)
    screen.write(
        [
            FrameRow(
                connection=f"0:{at}", direction="client", command="SEND", topic=f"topic-{at}", producer_name=f"producer-{at}",
                num_messages=number - at, size=100, time=clock.now,
            )
            for at in range(number)
        ]
    )  # fmt: skip
    clock.now += SECOND
    return screen, clock


def test_enter_leads_from_a_topic_to_its_producer_and_the_frames_of_its_connection_and_escape_back() -> None:
    screen, _ = running()
    assert "topic topic-1" in pressed(screen, "down enter")
    assert re.search(r"^> producer +producer-1 ", pressed(screen, ""), re.MULTILINE)
    shown = pressed(screen, "enter")
    assert "topic topic-1 > connection #1" in shown
    assert re.search(r"^> +1.00 s +client +SEND +topic-1 +2 ", shown, re.MULTILINE)
    assert re.search(r"^> topic-1 ", pressed(screen, "escape escape"), re.MULTILINE)


def test_a_filter_is_typed_and_taken_away() -> None:
    screen, _ = running()
    shown = pressed(screen, "/ p I C - 2 enter")
    assert "filter /pIC-2" in shown
    assert re.search(r"^> topic-2 ", shown, re.MULTILINE)
    assert not re.search(r"^. topic-[01] ", shown, re.MULTILINE)
    assert "nothing matches the filter" in pressed(screen, "/ backspace x")
    assert re.search(r"^> topic-0 ", pressed(screen, "escape"), re.MULTILINE)


def test_a_column_sorts_and_the_chosen_row_stays_chosen() -> None:
    screen, _ = running()
    shown = pressed(screen, "down s r")
    assert "by topic, reversed" in shown
    assert re.findall(r"^.*topic-\d", shown, re.MULTILINE)[:3] == ["  topic-2", "> topic-1", "  topic-0"]


def test_while_paused_nothing_moves_and_all_is_counted() -> None:
    screen, clock = running()
    before = pressed(screen, "p")
    assert "paused" in before
    screen.write([FrameRow(direction="client", command="SEND", topic="late", num_messages=1, size=0)])
    clock.now += SECOND
    assert "late" not in screen.picture(100, 40)
    assert re.search(r"^  late ", pressed(screen, "p"), re.MULTILINE)


def test_findings_are_shown_in_full_with_what_to_try() -> None:
    screen, _ = running()
    text = "Connection 0:1 ended. " + "A long text. " * 30 + "The end."
    screen.write([FindingRow(code="producer-busy", severity="error", text=text, hint="Close the other one.", connection="0:1")])
    shown = pressed(screen, "f")
    assert re.search(r"^> error +1 +producer-busy", shown, re.MULTILINE)
    assert "The end." in shown
    assert "Connection #1 ended." in shown
    assert "0:1" not in shown
    assert "try: Close the other one." in shown
    assert "connection #1" in pressed(screen, "enter")
    assert "The end." not in pressed(screen, "escape f")


def test_of_many_rows_those_around_the_chosen_one_are_shown() -> None:
    screen, _ = running(100)
    shown = pressed(screen, "end")
    assert re.search(r"^> topic-99 ", shown, re.MULTILINE)
    assert "topic-0 " not in shown
    assert re.search(r"^> topic-0 ", pressed(screen, "home"), re.MULTILINE)


def test_the_summary_has_totals_and_findings() -> None:
    screen, clock = running()
    screen.write([FindingRow(code="producer-busy", severity="error", text="Producer p was refused.", hint="Close the other one.")])
    clock.now += 60 * SECOND
    shown = screen.summary(100)
    assert "in  clients → 6 messages, 300 B since the start" in shown
    assert re.search(r"^  topic-0 +0/s +0/s .* 3 ", shown, re.MULTILINE)
    assert "error producer-busy, 1 time" in shown
    assert "try: Close the other one." in shown


@pytest.mark.parametrize("keys", ["f", "?", "2", "3", "4", "5", "enter", "4 enter", "/ x", "s", "p"])
@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 50), (20, 5), (1, 1)])
def test_every_view_fits_the_screen(keys: str, width: int, height: int) -> None:
    screen, _ = running(30)
    screen.write([FindingRow(code="producer-busy", severity="error", text="Producer p was refused. " * 40, hint="Look. " * 50)])
    pressed(screen, keys)
    lines = screen.picture(width, height).split("\n")
    assert len(lines) == height
    assert all(cell_width(line) <= max(width, 60) for line in lines)


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
    assert len(lines) == height
    assert all(cell_width(line) <= max(width, 60) for line in lines)


def test_what_the_wire_says_does_not_reach_the_terminal_raw() -> None:
    clock = Clock()
    screen = top(clock, title="\x1b]0;title\x07")
    evil = "\x1b[31m"
    frame = FrameRow(command=evil, topic=evil, producer_name=evil, direction="client", status=evil, num_messages=1, size=0, connection=evil)
    screen.write([FindingRow(code=evil, severity="error", text="\x1b[2J", hint=evil), frame, ExchangeRow(request=evil, status="ok")])
    clock.now += SECOND
    for keys in ("", "2", "3", "4", "enter", "1", "enter", "enter", "f"):
        assert "\x1b" not in pressed(screen, keys)
    assert "\x1b" not in screen.summary(100)


def test_findings_of_many_codes_are_counted() -> None:
    clock = Clock()
    screen = top(clock)
    screen.write([FindingRow(code=f"code-{number}", severity="warning", text="t") for number in range(12)])
    assert "and findings of 7 more codes" in screen.picture(100, 40)


def test_losses_stand_out_in_colour() -> None:
    assert "\x1b[33m9 not decoded\x1b[0m" in picture(color=True)


def with_tables() -> Top:
    """A screen with two tables of a protocol, one of them without a row."""
    transactions = [{"txn": f"(0,{number})", "state": "open", "sends": number, "topics": "t"} for number in range(3)]
    shown = [{"topic": "orders", "type": "Avro", "producers": 1, "refused": 2}]
    tables = [table for table in TABLES if table.name in {"transactions", "schemas", "lookups"}]
    screen = Top(
        lambda: Status("lo", []),
        Clock(),
        ReportOptions(),
        tables=tables,
        table_records=lambda: {"transactions": transactions, "schemas": shown},
    )
    screen.write(ROWS)
    return screen


def test_tables_of_protocols_have_views_when_they_have_rows() -> None:
    screen = with_tables()
    shown = pressed(screen, "6")
    assert "[6 transactions 3]" in shown
    assert "8 schemas 1" in shown
    assert "lookups" not in shown
    assert re.search(r"^> \(0,0\) +open", shown, re.MULTILINE)
    assert "topic orders" in pressed(screen, "8 enter")


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_the_tabs_take_the_lines_that_they_need(width: int) -> None:
    lines = with_tables().picture(width, 24).splitlines()
    assert all(len(line) <= width for line in lines)
    assert sum(line.count(name) for line in lines[:16] for name in ("topics 1", "requests 1", "transactions 3", "schemas 1")) == 4


def test_tab_goes_through_all_views() -> None:
    screen = with_tables()
    assert "nothing yet" in pressed(screen, " ".join(["tab"] * 6))
    assert "[8 schemas 1]" in pressed(screen, "tab")
    assert "[1 topics 1]" in pressed(screen, "tab")
