"""The fields of a frame on a narrow screen."""

from __future__ import annotations

import pytest

from pulsarscope.browse.details import folded
from pulsarscope.output.render.cell_text import cell_width

TIME = "  time                          0.000294425 s  2026-11-21 07:40:43.057758349 UTC"


@pytest.mark.parametrize(
    ("line", "width", "parts"),
    [
        (TIME, cell_width(TIME), [TIME]),
        (TIME, 76, ["  time                          0.000294425 s", "                                2026-11-21 07:40:43.057758349 UTC"]),
        ("    name    one two three four", 24, ["    name    one two", "            three four"]),
        ("    name    abcdefghijklmnopq", 24, ["    name    abcdefghijkl", "            mnopq"]),
        ("      a text of many words", 16, ["      a text of", "      many words"]),
        ("  supports_auth_refresh  true", 24, ["  supports_auth_refresh", "  true"]),
    ],
)
def test_a_line_is_folded_below_its_value(line: str, width: int, parts: list[str]) -> None:
    assert folded(line, width) == parts


@pytest.mark.parametrize("width", [1, 20, 56])
@pytest.mark.parametrize("line", ["", "   ", TIME, "x" * 100, f"  topic  {'漢' * 40}", "  a\tb" * 30])
def test_any_line_can_be_folded_to_any_width(line: str, width: int) -> None:
    parts = folded(line, width)
    assert "".join("".join(parts).split()) == "".join(line.split())
    assert max(map(cell_width, parts)) <= 2 * width or width == 1
