"""Escaping of text; its use in cells is tested with `render.escape`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.model.text import both, duration, either, escape, hint_for, input_name, printable, show_controls


@given(st.text(st.characters(codec=None)))
def test_nothing_active_is_left(text: str) -> None:
    assert escape(text).isprintable()
    assert escape(escape(text)) == escape(text)


@given(st.text())
def test_less_is_shown_of_a_text_for_programs_than_of_one_for_the_eye(text: str) -> None:
    shown = show_controls(text)
    assert not {ord(character) for character in shown} & ({*range(0x20), 0x7F, *range(0x80, 0xA0)} - {9, 10, 13})
    if text.isprintable():
        assert shown == text


def test_line_ends_and_tabs_stay_and_overrides_of_the_direction_do_not() -> None:
    assert show_controls("a\tb\r\nc") == "a\tb\r\nc"
    assert show_controls("\u202egpj.exe\x1b[2J") == "\\u202egpj.exe\\x1b[2J"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a b/größe.pcap", "a b/größe.pcap"),
        ("a\nb", "a\\nb"),
        ("\x1b[2J\x9b31m\x7f", "\\x1b[2J\\x9b31m\\x7f"),
        ("\u202efdp.pacp", "\\u202efdp.pacp"),
        ("\udcff", "\\xff"),
        ("\ud800", "\\ud800"),
    ],
)
def test_what_could_act_on_a_terminal_is_escaped(name: str, shown: str) -> None:
    assert printable(name) == shown


@pytest.mark.parametrize(("path", "shown"), [("-", "standard input"), ("", '""'), ("a\nb", "a\\nb")])
def test_every_input_has_a_name_in_messages(path: str, shown: str) -> None:
    assert input_name(path) == shown


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0 ns"),
        (850, "850 ns"),
        (12_340, "12.3 µs"),
        (999_499, "999 µs"),
        (999_500, "1.00 ms"),
        (1_320_000, "1.32 ms"),
        (45_100_000_000, "45.1 s"),
        (200_000_000_000, "3 min 20 s"),
        (7_199_000_000_000, "119 min 59 s"),
        (7_200_000_000_000, "2 h 0 min"),
        (86_400_000_000_000, "24 h 0 min"),
        (273_600_000_000_000, "3 d 4 h"),
    ],
)
def test_durations_have_three_digits_that_count(nanoseconds: int, text: str) -> None:
    assert duration(nanoseconds) == text


def test_only_a_name_that_is_near_is_suggested() -> None:
    known = ("txn-open", "slow-publish", "clock-skew")
    assert hint_for("slow-publsh", known) == "; did you mean slow-publish?"
    assert hint_for("clock", known) == "; did you mean clock-skew?"
    assert hint_for("nope", known, "see there") == "; see there"


@pytest.mark.parametrize(("words", "text"), [([], ""), (["a"], "a"), (["a", "b"], "a or b"), (["a", "b", "c"], "a, b or c")])
def test_alternatives_are_joined_as_in_a_sentence(words: list[str], text: str) -> None:
    assert either(words) == text
    assert both(words) == text.replace(" or ", " and ")
