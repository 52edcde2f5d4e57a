from __future__ import annotations

import io

import pytest

from pulsarscope.output.render.style import ASCII, COLORED, PLAIN, UNICODE, encoded, is_terminal, palette, symbols, wants_color


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environment", "no_color", "colored"),
    [
        ({}, False, True),
        ({"NO_COLOR": "1"}, False, False),
        ({"NO_COLOR": ""}, False, True),
        ({}, True, False),
        ({"TERM": "dumb"}, False, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False, False),
    ],
)
def test_a_terminal_has_colours_unless_refused(environment: dict[str, str], no_color: bool, colored: bool) -> None:
    assert wants_color(Terminal(), environment, no_color) is colored


@pytest.mark.parametrize(("environment", "colored"), [({}, False), ({"FORCE_COLOR": "1"}, True), ({"FORCE_COLOR": "0"}, False)])
def test_a_pipe_has_colours_only_when_forced(environment: dict[str, str], colored: bool) -> None:
    assert wants_color(io.StringIO(), environment, False) is colored


def test_a_closed_or_missing_stream_is_no_terminal() -> None:
    closed = Terminal()
    closed.close()
    assert not is_terminal(None)
    assert not is_terminal(io.StringIO())
    assert is_terminal(Terminal())


@pytest.mark.parametrize(("encoding", "expected"), [("utf-8", UNICODE), ("ascii", ASCII), ("latin-1", ASCII), ("no-such", ASCII)])
def test_marks_fall_back_to_ascii(encoding: str, expected: object) -> None:
    assert symbols(encoding) is expected


def test_connections_keep_their_colour() -> None:
    assert palette(True) is COLORED
    assert palette(False) is PLAIN
    assert COLORED.connection(1) == COLORED.connection(1 + len(COLORED.connections))
    assert COLORED.connection(1) != COLORED.connection(2)
    assert PLAIN.connection(7) == ""


def test_pages_are_written_in_any_encoding() -> None:
    text = "a → b · 5 µs … 2^64−1 ─ ж"
    assert encoded(text, "utf-8").decode() == text
    assert encoded(text, "ascii") == b"a -> b | 5 us ... 2^64-1 - \\u0436"
