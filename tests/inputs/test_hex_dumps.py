"""Hex dumps of every tool give the bytes that they show."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.inputs.hex_dumps import Turn, turns_in
from pulsarscope.model.errors import UsageError

CONNECT = bytes.fromhex("000000290000002508021221") + b"Pulsar deadbeef 00 11 22|| and more"


def shown(data: bytes) -> str:
    return "".join(chr(byte) if 32 <= byte < 127 else "." for byte in data)


def lines(data: bytes) -> list[tuple[int, bytes]]:
    return [(start, data[start : start + 16]) for start in range(0, len(data), 16)]


def spaced(data: bytes) -> str:
    return f"{data[:8].hex(' ')}  {data[8:].hex(' ')}".rstrip()


def xxd(data: bytes) -> str:
    return "".join(f"{at:08x}: {part.hex(' ', -2):39}  {shown(part)}\n" for at, part in lines(data))


def hexdump(data: bytes) -> str:
    return "".join(f"{at:08x}  {spaced(part):48}  |{shown(part)}|\n" for at, part in lines(data)) + f"{len(data):08x}\n"


def od(data: bytes) -> str:
    return "".join(f"{at:07x} {part.hex(' ')}\n" for at, part in lines(data)) + f"{len(data):07x}\n"


def wireshark(data: bytes, indent: str = "") -> str:
    return "".join(f"{indent}{at:08X}  {spaced(part):48}   {shown(part[:8])} {shown(part[8:])}\n" for at, part in lines(data))


def netty(data: bytes) -> str:
    head = f"{' ' * 9}+{'-' * 49}+\n         |  0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f |\n"
    return head + "".join(f"|{at:08x}| {part.hex(' '):47} |{shown(part):16}|\n" for at, part in lines(data))


FORMATS = [xxd, hexdump, od, wireshark, netty, bytes.hex]


@pytest.mark.parametrize("form", FORMATS)
@given(data=st.one_of(st.binary(min_size=1, max_size=80), st.binary(min_size=1, max_size=80).map(lambda data: data.hex().encode())))
def test_a_dump_gives_its_bytes(form: Callable[[bytes], str], data: bytes) -> None:
    assert b"".join(turn.data for turn in turns_in(form(data))) == data


@pytest.mark.parametrize("form", FORMATS)
def test_text_beside_the_bytes_is_no_byte(form: Callable[[bytes], str]) -> None:
    assert turns_in(form(CONNECT)) == [Turn(True, CONNECT)]


def test_sides_are_recognised_by_indentation() -> None:
    dump = f"====\nNode 0: 10.9.0.13:56068\n{wireshark(b'ask')}{wireshark(b'answer', chr(9))}{wireshark(b'again' * 9)}"
    assert turns_in(dump) == [Turn(True, b"ask"), Turn(False, b"answer"), Turn(True, b"again" * 9)]
    assert turns_in(wireshark(b"a", "    ") + wireshark(b"b")) == [Turn(True, b"a"), Turn(False, b"b")]


def test_sides_are_recognised_by_the_words_of_netty() -> None:
    log = f"10:00 DEBUG [id: 0x1] WRITE: 3B\n{netty(b'ask')}10:00 DEBUG [id: 0x1] READ: 6B\n{netty(b'answer')}"
    assert turns_in(log) == [Turn(True, b"ask"), Turn(False, b"answer")]


def test_lines_that_hexdump_leaves_out_are_there() -> None:
    dump = f"00000000  {bytes(16).hex(' ')}\n*\n00000040  01 02\n00000042\n"
    assert turns_in(dump) == [Turn(True, bytes(64) + b"\1\2")]


@pytest.mark.parametrize("offset", ["ffffffff", "f" * 16])
def test_a_dump_that_leaves_out_more_than_fits_into_memory_is_refused(offset: str) -> None:
    with pytest.raises(UsageError, match="more than 256 MiB"):
        turns_in(f"00000000  41 42\n*\n{offset}  41\n")


@pytest.mark.slow
def test_a_long_line_without_bytes_takes_no_long_time() -> None:
    assert turns_in(" " * 1_000_000 + "x") == []


@pytest.mark.parametrize("text", ["", "\n", "no dump at all\n", "abc", "2026-05-01 10:00:00 INFO start\n"])
def test_what_is_no_dump_says_nothing(text: str) -> None:
    assert turns_in(text) == []


@given(st.text(alphabet="0123456789abcdef :|*\t\n xREADWRITE", max_size=300))
def test_any_text_is_taken(text: str) -> None:
    for turn in turns_in(text):
        assert turn.data
