from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.model.records import RawFrame
from pulsarscope.output.render.hex import HexLines
from tests.scenarios import rows
from tests.scenarios.rows import text_of

DATA = bytes(range(8)) + b"command!" + b"payload " * 100
RANGES = [
    (0, 4, "totalSize", 0),
    (4, 8, "commandSize", 0),
    (8, 16, "command", 0),
    (8, 10, "type", 1),
    (10, 16, "send", 1),
    (16, 816, "payload", 0),
]


def lines(**values: Any) -> list[str]:
    return HexLines(rows.options(**values))(RawFrame(DATA, RANGES))


def test_each_range_begins_a_line_with_its_name() -> None:
    shown = lines()
    assert shown[0] == "    0000  00 01 02 03                                       ....              totalSize"
    assert shown[2].strip() == "command  8 bytes"
    assert shown[3].endswith("co                  type")
    assert shown[2].index("command") + 2 == shown[3].index("type")
    assert shown[5] == "    0010  70 61 79 6c 6f 61 64 20  70 61 79 6c 6f 61 64 20  payload payload   payload"


def test_a_long_range_is_clipped_and_says_so() -> None:
    assert lines()[-1] == "          288 more of 800 bytes"
    assert "more of" not in lines(payload="hex")[-1]


def test_a_narrow_terminal_gets_eight_bytes_a_line() -> None:
    assert all(len(line) <= 80 for line in lines(width=80))
    assert lines(width=80)[0] == "    0000  00 01 02 03              ....      totalSize"


def test_the_bytes_stand_below_the_line_of_their_frame() -> None:
    shown = text_of("hex", [rows.send(), RawFrame(DATA, RANGES), rows.receipt()], rows.options()).splitlines()
    assert " SEND " in shown[2]
    assert shown[3].startswith("    0000  00 01 02 03")
    assert any("SEND_RECEIPT" in line for line in shown)


@given(st.binary(max_size=80), st.lists(st.tuples(st.integers(-5, 90), st.integers(-5, 90), st.text(), st.integers(0, 3))))
def test_any_ranges_show_every_byte_once(data: bytes, ranges: list[tuple[int, int, str, int]]) -> None:
    shown = HexLines(rows.options())(RawFrame(data, ranges))
    digits = "".join(line[10:58] for line in shown if line[4:8].strip())
    assert bytes.fromhex(digits) == data
