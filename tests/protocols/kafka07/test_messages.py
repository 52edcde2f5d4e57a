"""Message sets: both magics, the CRC32, compressed sets in sets, cut ends, and the bounds on all of these."""

from __future__ import annotations

import gzip
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.model.limits import BATCH_MESSAGES_MAX, DECOMPRESSED_MAX_BYTES, MESSAGE_SETS_DEPTH_MAX
from pulsarscope.model.records import Checksum
from pulsarscope.protocols.kafka07 import messages as module
from pulsarscope.protocols.kafka07.messages import Decompressed, Message, MessageTotals, decompress, read_set
from tests.scenarios.kafka07 import GZIP, SNAPPY, XERIAL_HEAD, compressed, message, message_set, raw_snappy, sized, xerial


def read(data: bytes, *, stored: bool = False) -> tuple[list[Message], MessageTotals]:
    totals = MessageTotals(len(data), stored=stored)
    return list(read_set(data, 0, len(data), totals)), totals


def codes(totals: MessageTotals) -> list[str]:
    return [code for code, _ in totals.texts()]


@pytest.mark.parametrize(
    ("hexed", "magic"),
    [("0000000a 00 3610a686 68656c6c6f", 0), ("0000000b 01 00 3610a686 68656c6c6f", 1)],
    ids=["magic 0: no attributes", "magic 1"],
)
def test_every_byte_of_an_entry_is_read(hexed: str, magic: int) -> None:
    data = bytes.fromhex(hexed)
    assert data == message(b"hello", magic=magic)
    actual, totals = read(data)
    assert actual == [Message(0, len(data), magic, ("NONE",), b"hello")]
    assert totals.checksum == Checksum("good", "3610a686", "3610a686")
    assert (totals.messages, totals.cut, codes(totals)) == (1, 0, [])


def test_entries_stand_one_behind_the_other() -> None:
    data = message(b"one") + message(b"", magic=0) + message(b"three")
    actual, totals = read(data)
    assert [(item.entry, item.end, item.payload) for item in actual] == [(0, 13, b"one"), (13, 22, b""), (22, 37, b"three")]
    assert totals.checksum == Checksum("good")


@pytest.mark.parametrize("end", range(1, 14))
def test_a_cut_end_is_no_message_and_no_fault(end: int) -> None:
    whole = message(b"first")
    actual, totals = read(whole + message(b"last")[:end])
    assert [item.payload for item in actual] == [b"first"] if end < 14 else [b"first", b"last"]
    assert (totals.cut, codes(totals)) == (end, [])


@pytest.mark.parametrize(("codec", "framed", "name"), [(GZIP, True, "GZIP"), (SNAPPY, True, "SNAPPY"), (SNAPPY, False, "SNAPPY")])
def test_a_compressed_entry_is_opened_and_all_its_messages_stand_at_its_offset(codec: int, framed: bool, name: str) -> None:
    before = message(b"before")
    packed = compressed(codec, message_set(b"a", b"b", b"c"), framed=framed)
    actual, totals = read(before + packed + message(b"behind"))
    start, end = len(before), len(before + packed)
    assert actual[1:4] == [Message(start, end, 1, (name,), payload, index, 3) for index, payload in enumerate((b"a", b"b", b"c"))]
    assert actual[4].entry == end
    assert (totals.messages, totals.checksum) == (5, Checksum("good"))


def test_sets_stand_in_sets() -> None:
    inner = message(b"a") + compressed(GZIP, message_set(b"b", b"c"))
    actual, _ = read(compressed(SNAPPY, inner))
    assert [(item.payload, item.codecs, item.batch_index, item.batch_size) for item in actual] == [
        (b"a", ("SNAPPY",), 0, 3),
        (b"b", ("SNAPPY", "GZIP"), 1, 3),
        (b"c", ("SNAPPY", "GZIP"), 2, 3),
    ]


def test_sets_deeper_than_any_producer_writes_are_not_opened() -> None:
    data = message(b"core")
    for _ in range(MESSAGE_SETS_DEPTH_MAX):
        data = compressed(GZIP, data)
    assert read(data)[0][0].payload == b"core"
    actual, totals = read(compressed(GZIP, data))
    assert [item.payload for item in actual] == [None]
    assert codes(totals) == ["nested-too-deep"]


def test_a_wrong_checksum_is_reported_with_both_and_the_message_given() -> None:
    actual, totals = read(message(b"good") + message(b"bad", crc=0x11111111) + message(b"bad", crc=2))
    assert [item.payload for item in actual] == [b"good", b"bad", b"bad"]
    assert totals.checksum == Checksum("bad", "11111111", f"{zlib.crc32(b'bad'):08x}")
    ((code, text),) = totals.texts()
    assert code == "checksum-mismatch"
    assert "offset 14" in text
    assert text.endswith(", and 1 more like it")


def test_checksums_inside_a_compressed_entry_are_checked_too() -> None:
    _, totals = read(compressed(GZIP, message(b"bad", crc=1)))
    assert totals.checksum is not None
    assert totals.checksum.status == "bad"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (message(b"x", magic=1, attributes=3), "unknown-enum"),
        (sized(b"\x02" + bytes(9)), "unknown-enum"),
        (sized(b"\x01\x00\0\0\0"), "message-set-corrupt"),
        (compressed(GZIP, message(b"a")[:-1]), "message-set-corrupt"),
        (compressed(GZIP, b""), "message-set-corrupt"),
        (message(b"not gzip", attributes=GZIP), "decompress-failed"),
        (message(b"not snappy", attributes=SNAPPY), "decompress-failed"),
    ],
)
def test_an_entry_that_cannot_be_read_is_one_message_without_a_payload(data: bytes, code: str) -> None:
    actual, totals = read(data + message(b"behind"))
    assert [item.payload for item in actual] == [None, b"behind"]
    assert codes(totals) == [code]
    assert totals.messages == 2


@pytest.mark.parametrize("size", [-1, 0, 4, -(1 << 31)])
def test_a_size_that_cannot_be_ends_the_set(size: int) -> None:
    actual, totals = read(message(b"first") + size.to_bytes(4, "big", signed=True) + bytes(20))
    assert len(actual) == 1
    assert codes(totals) == ["message-set-corrupt"]


@pytest.mark.slow
def test_a_bomb_is_not_opened() -> None:
    _, totals = read(compressed(GZIP, message(bytes(DECOMPRESSED_MAX_BYTES))))
    assert codes(totals) == ["decompress-bomb"]


def test_all_sets_of_a_frame_share_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DECOMPRESSED_MAX_BYTES", 10_000)
    monkeypatch.setattr(module, "DECOMPRESSED_FACTOR_MAX", 0)
    actual, totals = read(compressed(GZIP, message(bytes(6_000))) * 2)
    assert [item.payload is None for item in actual] == [False, True]
    assert codes(totals) == ["decompress-bomb"]


def test_sets_in_sets_that_are_opened_in_vain_share_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[int] = []

    def count(codec: str, data: bytes, bound: int) -> Decompressed:
        opened.append(bound)
        return decompress(codec, data, bound)

    monkeypatch.setattr(module, "DECOMPRESSED_MAX_BYTES", 100_000)
    monkeypatch.setattr(module, "DECOMPRESSED_FACTOR_MAX", 0)
    monkeypatch.setattr(module, "decompress", count)
    for bomb in (gzip.compress(bytes(200_000)), gzip.compress(bytes(50_000))[:-8] + bytes(8)):
        opened.clear()
        actual, _ = read(compressed(GZIP, message(bomb, attributes=GZIP) * 100))
        assert [item.payload for item in actual] == [None] * 100
        assert sum(opened[1:]) < 300_000


@pytest.mark.slow
def test_more_messages_in_an_entry_than_are_read_are_said() -> None:
    actual, totals = read(compressed(GZIP, message(b"", magic=0) * (BATCH_MESSAGES_MAX + 1)))
    assert len(actual) == totals.messages == BATCH_MESSAGES_MAX
    assert codes(totals) == ["message-set-corrupt"]


@given(st.binary(max_size=200))
def test_no_bytes_raise(data: bytes) -> None:
    actual, totals = read(data)
    assert len(actual) == totals.messages
    assert all(0 <= item.entry < item.end <= len(data) for item in actual)


TEXT = b"0123456789" * 10_000
PLENTY = 1 << 20


@pytest.mark.parametrize(
    ("codec", "packed"),
    [("GZIP", gzip.compress(TEXT)), ("SNAPPY", raw_snappy(TEXT)), ("SNAPPY", xerial(TEXT))],
    ids=["gzip", "snappy raw", "snappy of xerial, several blocks"],
)
class TestEveryCodec:
    def test_gives_what_was_packed(self, codec: str, packed: bytes) -> None:
        assert decompress(codec, packed, PLENTY) == (TEXT, None)
        assert decompress(codec, packed, len(TEXT)) == (TEXT, None)

    def test_gives_no_more_than_is_allowed(self, codec: str, packed: bytes) -> None:
        data, note = decompress(codec, packed, len(TEXT) - 1)
        assert (data, note and note[0]) == (None, "decompress-bomb")

    def test_that_is_cut_fails_with_words(self, codec: str, packed: bytes) -> None:
        data, note = decompress(codec, packed[:-5], PLENTY)
        assert (data, note and note[0]) == (None, "decompress-failed")

    def test_never_raises_on_damage(self, codec: str, packed: bytes) -> None:
        for at in range(min(len(packed), 60)):
            damaged = packed[:at] + bytes([packed[at] ^ 0xFF]) + packed[at + 1 :]
            assert len(decompress(codec, damaged, PLENTY).data or b"") <= PLENTY


@pytest.mark.parametrize(
    "packed", [b"", XERIAL_HEAD + struct.pack(">i", -1), XERIAL_HEAD + struct.pack(">i", 1 << 30), XERIAL_HEAD[:12]], ids=repr
)
def test_frames_of_xerial_that_cannot_be_fail(packed: bytes) -> None:
    assert decompress("SNAPPY", packed, PLENTY).data is None


def test_only_the_first_member_of_a_gzip_file_counts() -> None:
    assert decompress("GZIP", gzip.compress(b"a") + gzip.compress(b"b"), PLENTY).data == b"a"
