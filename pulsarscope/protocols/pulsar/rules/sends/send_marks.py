"""Marks that show whether two SENDs with one sequence id carry the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pulsarscope.model.records import FrameRow
from pulsarscope.protocols.pulsar.frame.payload_head import crc32c

RESTAMPED_MAX_BYTES, METADATA_MAX_BYTES = 1 << 20, 256
"""Largest payload, and largest metadata after the publish time, of messages that are compared without regard to that time."""


_ZERO_BYTE = crc32c(b"\0", 0)
"""Effect of a zero byte on the difference of two checksums that continue over it."""

_MASK = (1 << 64) - 1


def mark_of(row: FrameRow, metadata: dict[str, Any]) -> tuple[str, int, int] | None:
    """Return the mark that shows whether two SENDs of one sequence id carry the same bytes."""
    checksum = row.checksum
    return None if checksum is None or not checksum.stored else (checksum.stored, metadata.get("publish_time", 0), row.payload_size or 0)


def is_restamped(mark: Sequence[Any], other: Sequence[Any]) -> bool:
    """Return True when two SENDs differ only in their publish time.

    CRC32-C is linear: their checksums differ by that of the difference of the two times, at its distance from the end of the payload. The
    size of the metadata after the time is unknown, so each distance is tried.
    """
    times = _varint(mark[1]), _varint(other[1])
    if mark[2] != other[2] or mark[2] > RESTAMPED_MAX_BYTES or mark[1] == other[1] or len(times[0]) != len(times[1]):
        return False
    wanted = int(mark[0], 16) ^ int(other[0], 16)
    zeros = bytes(mark[2])
    difference = crc32c(bytes(a ^ b for a, b in zip(*times, strict=True)) + zeros) ^ crc32c(bytes(len(times[0])) + zeros)
    for _ in range(METADATA_MAX_BYTES):
        if difference == wanted:
            return True
        difference = crc32c(b"\0", difference) ^ _ZERO_BYTE
    return False


def has_same_bytes(mark: Sequence[Any] | None, other: Sequence[Any] | None) -> bool:
    """Return True when two SENDs carry the same bytes, except perhaps for their publish time."""
    return mark is not None and other is not None and (mark == other or is_restamped(mark, other))


def _varint(number: int) -> bytes:
    """Return a number as a protobuf varint, reduced to its lowest 64 bits."""
    written = bytearray()
    number &= _MASK
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*written, number])
