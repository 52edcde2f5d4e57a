from __future__ import annotations

from textwrap import wrap

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pulsarscope.output.render.cell_text import cell_width, clip, clip_middle, clip_phrases, escape, fit_summary, wrap_cells


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("orders-1 [bold] :smile: [/x]", "orders-1 [bold] :smile: [/x]"),
        ("\x1b]0;pwn\x07\x1b[2J", "\\x1b]0;pwn\\x07\\x1b[2J"),
        ("\x9b31m\x7f", "\\x9b31m\\x7f"),
        ("a\u202eb\u2066c\u200f\u061c", "a\\u202eb\\u2066c\\u200f\\u061c"),
        ("a\u200bb\u2060c\ufeff\u200d", "a\\u200bb\\u2060c\\ufeff\\u200d"),
        ("line\u2028para\u2029\n\t", "line\\u2028para\\u2029\\x0a\\x09"),
        ("lone \ud800 surrogate", "lone \\ud800 surrogate"),
        ("tag \U000e0041", "tag \\U000e0041"),
        ("Zoë 日本 🎉 e\u0301", "Zoë 日本 🎉 e\u0301"),
        ("Z" + "\u0301" * 5, "Z" + "\\u0301" * 5),
    ],
)
def test_what_is_invisible_or_active_becomes_visible(raw: str, shown: str) -> None:
    assert escape(raw) == shown


@given(st.text(st.characters(codec=None)))
def test_escaped_text_holds_nothing_that_acts_on_a_terminal(text: str) -> None:
    escaped = escape(text)
    assert escaped.isprintable()
    assert escaped.encode().decode() == escaped
    assert escape(escaped) == escaped


@given(st.text(st.characters(codec=None)), st.integers(0, 30))
@example("\N{EMOJI MODIFIER FITZPATRICK TYPE-1-2}", 0)
def test_clipped_text_fits_and_short_text_stays(text: str, width: int) -> None:
    escaped = escape(text)
    clipped = clip(escaped, width)
    assert cell_width(clipped) <= width
    if cell_width(escaped) <= width:
        assert clipped == escaped
    elif width:
        assert clipped.endswith("…")


def test_wide_characters_count_two_cells() -> None:
    assert clip("日本語", 6) == "日本語"
    assert clip("日本語", 5) == "日本…"
    assert clip("日本語", 4) == "日…"


def test_whole_words_are_lost_rather_than_parts() -> None:
    assert clip_phrases("orders  seq 7  1,234 B  producer 0", 28) == "orders  seq 7  1,234 B …"
    assert clip_phrases("orders  " + "x" * 40, 28) == "orders  " + "x" * 19 + "…"
    assert clip_phrases("orders  seq 7", 28) == "orders  seq 7"


def test_an_ascii_ellipsis_takes_its_own_width() -> None:
    assert clip("persistent", 6, "...") == "per..."
    assert clip("persistent", 2, "...") == ""


@given(st.text(st.characters(codec=None)), st.integers(0, 30))
def test_text_without_its_middle_fits_and_short_text_stays(text: str, width: int) -> None:
    escaped = escape(text)
    clipped = clip_middle(escaped, width)
    assert cell_width(clipped) <= width
    assert clipped == escaped or cell_width(escaped) > width


def test_names_keep_both_ends() -> None:
    assert clip_middle("orders-of-the-north-partition-12", 16) == "orders-o…tion-12"


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (60, "orders-of-the-north-partition-12  seq 7  1,234 B  request 5"),
        (50, "orders-of-the-north-partition-12  seq 7  1,234 B"),
        (40, "orders-of-th…artition-12  seq 7  1,234 B"),
        (32, "orders-o…tion-12  seq 7  1,234 B"),
        (26, "orders-o…tion-12  seq 7 …"),
        (12, "orders-o…ti…"),
    ],
)
def test_a_summary_loses_its_request_first_then_the_middle_of_the_topic_then_its_end(width: int, shown: str) -> None:
    assert fit_summary("orders-of-the-north-partition-12  seq 7  1,234 B  request 5", width, named=True) == shown
    assert cell_width(shown) <= width


def test_the_beginning_of_a_sentence_stays() -> None:
    assert (
        fit_summary("ProducerBusy \"Producer with name 'a' is connected\"  request 3", 30, named=True) == 'ProducerBusy "Producer with n…'
    )


def test_a_list_that_is_cut_already_gets_no_second_ellipsis() -> None:
    assert clip_phrases("100 ids: 96:0, 96:1, …  sub healthy  consumer 0", 40) == "100 ids: 96:0, 96:1, …  sub healthy …"
    assert clip_phrases("100 ids: 96:0, 96:1, …  sub healthy  consumer 0", 30) == "100 ids: 96:0, 96:1, …"


def test_the_first_phrase_of_what_has_no_topic_stays_whole() -> None:
    assert fit_summary("Pulsar-Java-v4.2.4  protocol v21  auth none", 26, named=False) == "Pulsar-Java-v4.2.4 …"


@given(st.text("ab 你好\u0301-", max_size=60), st.integers(4, 12), st.integers(0, 1))
def test_wrapped_lines_fit_and_lose_nothing_but_spaces(text: str, width: int, indent: int) -> None:
    lines = wrap_cells(text, width, " " * indent)
    assert max(map(cell_width, lines), default=0) <= width
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_plain_text_is_wrapped_as_textwrap_does() -> None:
    text = "It took long-lived connections 10 s, and a-very-long-word-that-does-not-fit."
    assert wrap_cells(text, 20) == wrap(text, 20, break_on_hyphens=False)
    assert wrap_cells(text, 20, breaks_words=False)[-1] == "a-very-long-word-that-does-not-fit."
