from __future__ import annotations

import pytest

from pulsarscope.protocols.kafka07.cursor import Cursor, ParseError, ShortError


def test_integers_are_big_endian_and_signed() -> None:
    cursor = Cursor(b"\xff\xff\x00\x00\x01\x00" + b"\xff" * 7 + b"\xfe", 0, 14)
    assert (cursor.int16(), cursor.int32(), cursor.int64()) == (-1, 256, -2)
    assert cursor.position == 14


def test_what_ends_too_soon_says_what_it_needs() -> None:
    cursor = Cursor(b"\x00\x05abc", 0, 5)
    with pytest.raises(ShortError) as caught:
        cursor.short_string()
    assert caught.value.needed == 7


@pytest.mark.parametrize(("data", "text"), [(b"\xff\xff", None), (b"\x00\x00", b""), (b"\x00\x02ab", b"ab")])
def test_a_short_string_may_be_none(data: bytes, text: bytes | None) -> None:
    assert Cursor(data, 0, len(data)).short_string() == text


def test_a_string_of_negative_length_cannot_be() -> None:
    with pytest.raises(ParseError, match="-2 bytes"):
        Cursor(b"\xff\xfe", 0, 2).short_string()
