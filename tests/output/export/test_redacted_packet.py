"""Rewritten packets keep only the TCP options that are recognised."""

from __future__ import annotations

import pytest

from pulsarscope.model.masked_names import MaskedNames
from pulsarscope.output.export.redacted_packet import SegmentHead, redacted_packet

NAMES = MaskedNames(b"k" * 32)
KEY = bytes([10, 0, 0, 1, 10, 0, 0, 2]) + (40000).to_bytes(2, "big") + (6650).to_bytes(2, "big")


@pytest.mark.parametrize(
    ("options", "copied"),
    [
        (b"\2\4\5\xb4\4\2\1\1", b"\2\4\5\xb4\4\2\1\1"),
        (b"\xfe\x08secret\2\4\5\xb4", b"\1" * 8 + b"\2\4\5\xb4"),
        (b"\2\x08secret", b"\1" * 8),  # the size of another option
        (b"\5\x08secret", b"\1" * 8),
        (b"\0secret!", b"\0" * 8),
    ],
)
def test_options_that_are_not_known_become_no_operations(options: bytes, copied: bytes) -> None:
    packet, _ = redacted_packet(SegmentHead(KEY, 1, 2, 0x10, 3, 0, 4, options), b"", NAMES)
    assert packet[40:] == copied
