from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.output.render.cell_text import cell_width
from pulsarscope.output.render.text_report import ReportOptions, TextColumn, TextReport, change_text, rate_text, size_text


def report(**values: Any) -> TextReport:
    return TextReport(ReportOptions(**values))


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.00 kB"), (27_811, "27.8 kB"), (999_600, "1.00 MB"), (123_456_789, "123 MB"), (None, "")],
)
def test_bytes_have_three_digits_that_count(size: float | None, text: str) -> None:
    assert size_text(size) == text


@pytest.mark.parametrize(("rate", "text"), [(None, ""), (0.5, "0.50/s"), (18.319, "18.3/s"), (19_148.4, "19,148/s")])
def test_a_rate_is_by_the_second(rate: float | None, text: str) -> None:
    assert rate_text(rate) == text


@pytest.mark.parametrize(
    ("percent", "text"), [(None, ""), (0.0, ""), (12.3, "+12 %"), (-35.0, "-35 %"), (420.0, "x5.2"), (-99.8, "-99.8 %"), (-100.0, "-100 %")]
)
def test_a_change_is_in_percent_or_a_factor(percent: float | None, text: str) -> None:
    assert change_text(percent) == text


def test_a_table_without_rows_is_nothing() -> None:
    made = report()
    made.table([TextColumn("topic", [], name=True)])
    assert made.lines == []


def test_a_table_has_aligned_columns_and_leaves_out_empty_ones() -> None:
    made = report(width=80)
    made.table(
        [
            TextColumn("topic", ["a", "long"], right=False, name=True),
            TextColumn("sent", ["5", "1,000"]),
            TextColumn("refused", ["0", ""]),
        ]
    )
    assert made.lines == ["  topic   sent", "  a          5", "  long   1,000"]


def test_a_table_that_does_not_fit_gives_up_spare_columns_then_narrows_names() -> None:
    columns = [
        TextColumn("topic", ["t" * 60], right=False, name=True),
        TextColumn("sent", ["5"]),
        TextColumn("rate", ["1,000,000/s"], spare=True),
    ]
    wide, narrow = report(width=100), report(width=30)
    wide.table(columns)
    narrow.table(columns)
    assert wide.lines[-1].endswith("1,000,000/s")
    assert narrow.lines[-1] == "  " + "t" * 11 + "…" + "t" * 10 + "     5"


@given(st.lists(st.text("ab漢\u0301", max_size=40), min_size=1, max_size=5), st.integers(20, 120), st.booleans())
def test_no_line_of_a_table_is_wider_than_the_terminal(names: list[str], width: int, color: bool) -> None:
    made = report(width=width)
    number = [str(len(name) * 10**9) for name in names]
    bar = "\x1b[36m" if color else ""
    made.table(
        [
            TextColumn("n", names, right=False, name=True),
            *[TextColumn("x", number)] * 4,
            TextColumn("", number, color=bar, spare=True),
        ],
        3,
        "name",
    )
    for line in made.lines:
        assert cell_width(line.replace("\x1b[36m", "")) <= max(width, 40)


def test_lists_say_what_they_leave_out() -> None:
    made = report(width=80)
    made.table([TextColumn("topic", ["a"], name=True)], 2, "topic")
    assert made.lines[-1] == "  and 2 more topics (--limit shows more)"


def test_a_bar_is_never_nothing_when_there_is_something() -> None:
    made = report()
    assert (made.bar(0, 10), made.bar(0.001, 10), made.bar(0.5, 10), made.bar(1, 10)) == ("", "▏", "█████", "██████████")
    plain = report(encoding="ascii")
    assert (plain.bar(0, 10), plain.bar(0.001, 10), plain.bar(0.5, 10)) == ("", "#", "#####")


def test_a_frame_is_named_with_its_file_only_when_there_are_several() -> None:
    assert report().reference("0:30.2") == "30.2"
    assert report(files=("a.pcap", "b.pcap")).reference("0:30.2") == "0:30.2"


def test_several_files_are_shown_by_name() -> None:
    made = report(files=("a.pcap", "\x1b.pcap"))
    made.file_names()
    assert made.lines == ["  files: 0 a.pcap, 1 \\x1b.pcap"]
    alone = report(files=("a.pcap",))
    alone.file_names()
    assert alone.lines == []


def test_what_an_encoding_lacks_becomes_a_backslash_escape() -> None:
    made = report(encoding="ascii")
    made.paragraph("漢 " * 30, indent=2, hang=2)
    assert b"\\u6f22" in made.text()


def test_a_mark_before_the_names_stands_below_with_them() -> None:
    item = report(width=32)
    columns = [TextColumn("", ["→"], right=False), TextColumn("command", ["SEND"], right=False, name=True)]
    item.table([*columns, *(TextColumn(name, ["100"]) for name in ("frames", "messages", "bytes"))], 7, "command")
    assert item.lines == [
        "     command  frames  messages",
        "  →  SEND        100       100",
        "     command  bytes",
        "  →  SEND       100",
        "  and 7 more commands (--limit",
        "  shows more)",
    ]


def test_the_note_of_a_heading_stands_below_it_where_there_is_no_room() -> None:
    made = report(width=20)
    made.heading("Topics", "rate of both directions")
    made.heading("Topics", "by bytes")
    assert made.lines == ["Topics", "  rate of both", "  directions", "", "Topics  by bytes"]


def test_columns_without_room_stand_below_with_the_names_again() -> None:
    columns = [
        TextColumn("topic", ["orders"], right=False, name=True),
        *(TextColumn(heading, ["1.25 ms"]) for heading in ("sent", "p50", "p99", "max")),
    ]
    made = report(width=28)
    made.table(columns, more=2, noun="topic")
    assert made.lines == [
        "  topic      sent",
        "  orders  1.25 ms",
        "  topic       p50      p99",
        "  orders  1.25 ms  1.25 ms",
        "  topic       max",
        "  orders  1.25 ms",
        "  and 2 more topics (--limit",
        "  shows more)",
    ]
    cut = report(width=28, folds=False)
    cut.table(columns)
    assert cut.lines[1] == "  orders  1.25 ms  1.25 ms …"


@pytest.mark.parametrize("letter", ["a", "日"])
def test_a_name_of_megabytes_is_made_to_fit_in_few_steps(letter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 0
    taken = TextReport._taken

    def counted(self: TextReport, widths: Any) -> int:
        nonlocal steps
        steps += 1
        return taken(self, widths)

    monkeypatch.setattr(TextReport, "_taken", counted)
    made = report(width=80)
    made.table([TextColumn("path", [letter * 400_000, "short"], name=True), TextColumn("value", ["b" * 200_000, "v"], name=True)])
    assert steps < 1000
    assert all(cell_width(line) <= 80 for line in made.lines)
