"""Protobuf fields and frames byte by byte, for what no sound encoder writes."""

from __future__ import annotations

import struct

from tests.scenarios.samples import delimited, tagged, varint

VARINT, FIXED64, LENGTH, GROUP, GROUP_END, FIXED32 = range(6)
"""Wire types."""


def field(number: int, value: int | bytes) -> bytes:
    """A field: a number as varint, bytes after their length."""
    return tagged(number, VARINT) + varint(value) if isinstance(value, int) else delimited(number, value)


def raw_command(number: int, body: bytes | None, *, body_field: int | None = None) -> bytes:
    """A BaseCommand of this type; `body_field` puts the body (None: no body) into another field than its own."""
    return field(1, number) + (b"" if body is None else field(body_field or number, body))


def raw_frame(command: bytes, rest: bytes = b"", *, total: int | None = None, command_size: int | None = None) -> bytes:
    """A frame of these bytes; its two sizes may be wrong."""
    command_bytes = len(command) if command_size is None else command_size
    total_bytes = len(command) + len(rest) + 4 if total is None else total
    return struct.pack(">II", total_bytes & 0xFFFF_FFFF, command_bytes & 0xFFFF_FFFF) + command + rest
