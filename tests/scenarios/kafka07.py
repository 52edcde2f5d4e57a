"""Kafka 0.7 byte by byte, as written by its clients and brokers: requests, responses, message sets."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Sequence

import cramjam

XERIAL_HEAD = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
XERIAL_BLOCK_BYTES = 32 << 10

PRODUCE, FETCH, MULTIFETCH, MULTIPRODUCE, OFFSETS = range(5)

GZIP, SNAPPY = 1, 2


def sized(data: bytes) -> bytes:
    """Data after its length."""
    return struct.pack(">i", len(data)) + data


def short_string(text: str | None) -> bytes:
    """A text after its length as int16; -1 for none."""
    if text is None:
        return struct.pack(">h", -1)
    return struct.pack(">h", len(text.encode())) + text.encode()


# ---- message sets


def message(payload: bytes, *, magic: int = 1, attributes: int = 0, crc: int | None = None) -> bytes:
    """An entry of a message set; with `crc` None, the correct one."""
    head = bytes([magic, attributes]) if magic else bytes([magic])
    return sized(head + struct.pack(">I", zlib.crc32(payload) if crc is None else crc) + payload)


def message_set(*payloads: bytes, magic: int = 1) -> bytes:
    """A message set of uncompressed entries."""
    return b"".join(message(payload, magic=magic) for payload in payloads)


def xerial(data: bytes) -> bytes:
    """Data compressed as by snappy-java's SnappyOutputStream."""
    blocks = [data[at : at + XERIAL_BLOCK_BYTES] for at in range(0, len(data), XERIAL_BLOCK_BYTES)]
    return XERIAL_HEAD + b"".join(sized(bytes(cramjam.snappy.compress_raw(block))) for block in blocks)


def raw_snappy(data: bytes) -> bytes:
    """Data compressed as by clients in other languages."""
    return bytes(cramjam.snappy.compress_raw(data))


def compressed(codec: int, inner: bytes, *, framed: bool = True) -> bytes:
    """One entry that contains a message set."""
    packed = gzip.compress(inner, mtime=0) if codec == GZIP else xerial(inner) if framed else raw_snappy(inner)
    return message(packed, attributes=codec)


# ---- requests

Place = tuple[str | None, int]
"""Topic and partition."""


def request(number: int, body: bytes) -> bytes:
    """A whole request."""
    return sized(struct.pack(">h", number) + body)


def place(topic: str | None, partition: int) -> bytes:
    """Topic and partition."""
    return short_string(topic) + struct.pack(">i", partition)


def produce(topic: str | None, partition: int, messages: bytes) -> bytes:
    """PRODUCE."""
    return request(PRODUCE, place(topic, partition) + sized(messages))


def multiproduce(*parts: tuple[str, int, bytes]) -> bytes:
    """MULTIPRODUCE of (topic, partition, message set)."""
    body = b"".join(place(topic, partition) + sized(messages) for topic, partition, messages in parts)
    return request(MULTIPRODUCE, struct.pack(">h", len(parts)) + body)


def fetch(topic: str | None, partition: int, offset: int, max_size: int = 300_000) -> bytes:
    """FETCH."""
    return request(FETCH, place(topic, partition) + struct.pack(">qi", offset, max_size))


def multifetch(*parts: tuple[str, int, int, int]) -> bytes:
    """MULTIFETCH of (topic, partition, offset, max size)."""
    body = b"".join(place(topic, partition) + struct.pack(">qi", offset, size) for topic, partition, offset, size in parts)
    return request(MULTIFETCH, struct.pack(">h", len(parts)) + body)


def offsets(topic: str, partition: int, time: int, count: int) -> bytes:
    """OFFSETS."""
    return request(OFFSETS, place(topic, partition) + struct.pack(">qi", time, count))


# ---- responses


def fetch_response(messages: bytes = b"", error: int = 0) -> bytes:
    """The response to FETCH."""
    return sized(struct.pack(">h", error) + messages)


def multifetch_response(*parts: bytes) -> bytes:
    """The response to MULTIFETCH: `parts` are FETCH responses."""
    return sized(struct.pack(">h", 0) + b"".join(parts))


def offsets_response(found: Sequence[int]) -> bytes:
    """The response to OFFSETS."""
    return sized(struct.pack(">hi", 0, len(found)) + struct.pack(f">{len(found)}q", *found))


# ---- later versions


def later_request(key: int, version: int, correlation: int, client: str, body: bytes = b"") -> bytes:
    """The head of a request of Kafka 0.8 and later (KIP-482 aside): key, version, correlation id, client id."""
    return sized(struct.pack(">hhi", key, version, correlation) + short_string(client) + body)


def later_response(correlation: int, body: bytes) -> bytes:
    """A response of Kafka 0.8 and later."""
    return sized(struct.pack(">i", correlation) + body)


def later_message(payload: bytes, offset: int, magic: int = 0) -> bytes:
    """An entry of a message set of Kafka 0.8 (magic 0) or 0.10 (magic 1): the CRC32 covers everything after it."""
    rest = bytes([magic, 0]) + (struct.pack(">q", 1_700_000_000_000) if magic else b"") + struct.pack(">i", -1) + sized(payload)
    return struct.pack(">q", offset) + sized(struct.pack(">I", zlib.crc32(rest)) + rest)
