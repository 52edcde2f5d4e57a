from __future__ import annotations

import pytest

from pulsarscope.filter.filter_error import FilterError


@pytest.mark.parametrize(
    ("text", "place", "shown", "mark"),
    [
        ("abc == 5", (0, 3), "  abc == 5", "  ^~~"),
        ("abc == 5", (7, 8), "  abc == 5", "         ^"),
        ("abc ==", (6, 6), "  abc ==", "        ^"),
        ("日本 == 5", (6, 7), "  日本 == 5", "          ^"),
        ("a\x1b == 5", (6, 7), "  a\\x1b == 5", "           ^"),
        ("\x1b", (0, 1), "  \\x1b", "  ^~~~"),
        ("e\u0301 = 5", (3, 4), "  e\u0301 = 5", "    ^"),
        ("x" * 200, (100, 103), f"  … {'x' * 100} …", f"  {' ' * 62}^~~"),
        ("x" * 200, (0, 200), f"  {'x' * 40} …", f"  ^{'~' * 39}"),
    ],
)
def test_the_mark_stands_under_the_place(text: str, place: tuple[int, int], shown: str, mark: str) -> None:
    assert FilterError("wrong", text, place).lines == ("wrong", shown, mark)


def test_the_reason_cannot_move_the_cursor() -> None:
    assert FilterError("a\x1b[2J\nb", "", (0, 0)).lines[0] == "a\\x1b[2J\\x0ab"
