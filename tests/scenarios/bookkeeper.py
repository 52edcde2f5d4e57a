"""Builders of BookKeeper frames, with the layout of the specification."""

from __future__ import annotations

import hmac
import struct
from hashlib import sha1
from zlib import crc32

from crc32c import crc32c

MASTER_KEY = sha1(b"ledger", usedforsecurity=False).digest()
"""Digest of the empty password."""


def frame(body: bytes) -> bytes:
    """Put the length before the body of a frame."""
    return struct.pack(">I", len(body)) + body


def ledger_entry(ledger: int, entry: int, data: bytes = b"data", *, digest: str = "CRC32C", password: bytes = b"") -> bytes:
    """Return an entry of a ledger whose entries all have the size of this one."""
    head = struct.pack(">qqqq", ledger, entry, entry - 1, len(data) * (entry + 1))
    covered = head + data
    mac = hmac.digest(sha1(b"mac" + password, usedforsecurity=False).digest(), covered, "sha1")
    digests = {"CRC32C": struct.pack(">I", crc32c(covered)), "HMAC": mac, "CRC32": struct.pack(">q", crc32(covered)), "DUMMY": b""}
    return head + digests[digest] + data


def add(entry: bytes, *, flags: int = 0, version: int = 2) -> bytes:
    """Return an ADD."""
    return frame(_head(version, 1, flags) + MASTER_KEY + entry)


def added(ledger: int, entry: int, *, status: int = 0, version: int = 2) -> bytes:
    """Return the response to an ADD."""
    return frame(_head(version, 1) + struct.pack(">iqq", status, ledger, entry))


def read(ledger: int, entry: int, *, fence: bool = False, version: int = 2) -> bytes:
    """Return a READ."""
    return frame(_head(version, 2, int(fence)) + struct.pack(">qq", ledger, entry) + (MASTER_KEY if fence else b""))


def read_back(ledger: int, entry: int, stored: bytes = b"", *, status: int = 0, version: int = 2) -> bytes:
    """Return the response to a READ."""
    return frame(_head(version, 2) + struct.pack(">iqq", status, ledger, entry) + stored)


def auth(payload: bytes, plugin: bytes = b"sasl") -> bytes:
    """Return an AUTH of either side."""
    return frame(_head(2, 3) + _sized(1, plugin) + _sized(2, payload))


def v3_add(txn: int, entry: bytes, ledger: int, number: int) -> bytes:
    """Return an ADD of version 3."""
    body = _number(1, ledger) + _number(2, number) + _sized(3, MASTER_KEY) + _sized(4, entry)
    return frame(_sized(1, _number(1, 3) + _number(2, 2) + _number(3, txn)) + _sized(101, body))


def v3_added(txn: int, ledger: int, number: int, *, status: int = 0) -> bytes:
    """Return the response to an ADD of version 3."""
    body = _number(1, status) + _number(2, ledger) + _number(3, number)
    return frame(_sized(1, _number(1, 3) + _number(2, 2) + _number(3, txn)) + _number(2, status) + _sized(101, body))


def start_tls(txn: int = 1) -> bytes:
    """Return a START_TLS."""
    return frame(_sized(1, _number(1, 3) + _number(2, 9) + _number(3, txn)) + _sized(106, b""))


def started_tls(txn: int = 1, *, status: int = 0) -> bytes:
    """Return the response to a START_TLS."""
    return frame(_sized(1, _number(1, 3) + _number(2, 9) + _number(3, txn)) + _number(2, status) + _sized(106, b""))


def _head(version: int, operation: int, flags: int = 0) -> bytes:
    return struct.pack(">I", operation) if version == 0 else struct.pack(">BBH", version, operation, flags)


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes((*out, value))


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _sized(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data
