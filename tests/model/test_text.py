"""Escaping of text; its use in cells is tested with `render.escape`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.model.text import escape, printable, show_controls


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
        ("\udcff", "\\udcff"),
    ],
)
def test_what_could_act_on_a_terminal_is_escaped(name: str, shown: str) -> None:
    assert printable(name) == shown
