from __future__ import annotations

import gzip
import struct

import pytest

from pulsarscope.protocols.kafka07.compression import decompress
from tests.scenarios.kafka07 import XERIAL_HEAD, raw_snappy, xerial

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
