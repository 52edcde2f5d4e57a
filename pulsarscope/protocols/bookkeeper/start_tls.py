"""The frames after which a connection continues as TLS."""

from __future__ import annotations

from pulsarscope.protocols.bookkeeper.commands import EOK, START_TLS
from pulsarscope.protocols.bookkeeper.framing import LENGTH_BYTES

_START_TLS_BYTES = {0: b"\0", 1: b"\0", 2: b"\0", 4: b"\x0a", 6: b"\x08", 7: b"\x03", 8: b"\x10", 9: b"\x09"}
"""Bytes of a START_TLS of at most 255 bytes, by offset: version 3, and the operation."""


def starts_tls(head: bytes) -> int | None:
    """Return the size of a START_TLS, or of the answer that accepts it, at the start of a stream; 0 for a part (`Dissector.upgrade`)."""
    if any(head[at : at + 1] not in (b"", byte) for at, byte in _START_TLS_BYTES.items()):
        return None
    size = LENGTH_BYTES + head[LENGTH_BYTES - 1] if len(head) >= LENGTH_BYTES else 0
    if len(head) < max(size, 1 + max(_START_TLS_BYTES)):
        return 0 if head else None
    from pulsarscope.protocols.bookkeeper.protobuf import read_message  # noqa: PLC0415 - the streams of other protocols end above

    body = read_message(head, LENGTH_BYTES, size)
    agrees = body.command == START_TLS or body.fields.get("status") == EOK
    return size if body.problem is None and agrees else None
