"""Handshake messages: reassembly from records and parsing (RFC 8446 section 4, RFC 5246 section 7.4)."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import NamedTuple

from pulsarscope.model.limits import TLS_HANDSHAKE_MESSAGE_MAX_BYTES

CLIENT_HELLO, SERVER_HELLO, END_OF_EARLY_DATA, ENCRYPTED_EXTENSIONS, CERTIFICATE, FINISHED, KEY_UPDATE = 1, 2, 5, 8, 11, 20, 24

TLS_1_2, TLS_1_3 = 0x0303, 0x0304
VERSIONS = {0x0300: "SSLv3", 0x0301: "TLSv1.0", 0x0302: "TLSv1.1", TLS_1_2: "TLSv1.2", TLS_1_3: "TLSv1.3"}

_SERVER_NAME, _ALPN, _ENCRYPT_THEN_MAC, _SUPPORTED_VERSIONS = 0, 16, 22, 43
_RETRY_RANDOM = sha256(b"HelloRetryRequest").digest()

Message = tuple[int, bytes]
"""(type, body)."""


class HandshakeMessages:
    """Reassembly of the handshake messages of one direction; messages above the size limit are skipped."""

    __slots__ = ("_buffer", "_skipping")

    def __init__(self) -> None:
        self._buffer = b""
        self._skipping = 0

    def feed(self, data: bytes) -> list[Message]:
        """Return the messages completed by the content of a record."""
        if self._skipping:
            skipped = min(self._skipping, len(data))
            self._skipping -= skipped
            data = data[skipped:]
        data = self._buffer + data
        messages: list[Message] = []
        position = 0
        while len(data) - position >= 4:
            size = int.from_bytes(data[position + 1 : position + 4], "big")
            end = position + 4 + size
            if end > len(data):
                if size > TLS_HANDSHAKE_MESSAGE_MAX_BYTES:
                    self._skipping = end - len(data)
                    position = len(data)
                break
            messages.append((data[position], data[position + 4 : end]))
            position = end
        self._buffer = data[position:]
        return messages

    def clear(self) -> None:
        """Drop an incomplete message."""
        self._buffer = b""
        self._skipping = 0


class ClientHello(NamedTuple):
    """Parsed ClientHello."""

    random: bytes
    server_name: str | None
    protocols: tuple[str, ...]
    """ALPN protocols offered."""


def partial_client_hello(content: bytes) -> ClientHello | None:
    """Return the random of a truncated ClientHello, which identifies its secrets; None when it is missing."""
    return ClientHello(content[6:38], None, ()) if len(content) >= 38 and content[0] == CLIENT_HELLO else None


class ServerHello(NamedTuple):
    """Parsed ServerHello, with `version` and `suite` by number."""

    random: bytes
    session_id: bytes
    version: int
    suite: int
    protocol: str | None
    encrypt_then_mac: bool

    @property
    def is_retry(self) -> bool:
        """Return True for a HelloRetryRequest (RFC 8446 section 4.1.4)."""
        return self.random == _RETRY_RANDOM


class _MalformedError(Exception):
    """Raised within this module for a length beyond the end of the message."""


class _Fields:
    """Cursor over the fields of a message."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def take(self, size: int) -> bytes:
        end = self._position + size
        if end > len(self._data):
            raise _MalformedError
        field = self._data[self._position : end]
        self._position = end
        return field

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def vector(self, length_bytes: int) -> bytes:
        """Return a variable-length vector with a length field of `length_bytes` bytes."""
        return self.take(self.number(length_bytes))

    def __bool__(self) -> bool:
        return self._position < len(self._data)


def client_hello(body: bytes) -> ClientHello | None:
    """Parse a ClientHello; return None when it is malformed."""
    fields = _Fields(body)
    try:
        fields.take(2)
        random = fields.take(32)
        fields.vector(1)
        fields.vector(2)
        fields.vector(1)
        extensions = _extensions(fields)
        names = _Fields(_Fields(extensions.get(_SERVER_NAME, b"\0\0")).vector(2))
        name = None
        while names:
            kind, text = names.number(1), names.vector(2)
            if kind == 0 and name is None:
                name = _text(text)
        return ClientHello(random, name, _protocols(extensions))
    except _MalformedError:
        return None


def server_hello(body: bytes) -> ServerHello | None:
    """Parse a ServerHello; return None when it is malformed."""
    fields = _Fields(body)
    try:
        version = fields.number(2)
        random = fields.take(32)
        session_id = fields.vector(1)
        suite = fields.number(2)
        fields.take(1)
        extensions = _extensions(fields)
        if _SUPPORTED_VERSIONS in extensions:
            version = _Fields(extensions[_SUPPORTED_VERSIONS]).number(2)
        protocols = _protocols(extensions)
    except _MalformedError:
        return None
    return ServerHello(random, session_id, version, suite, protocols[0] if protocols else None, _ENCRYPT_THEN_MAC in extensions)


def chosen_protocol(body: bytes) -> str | None:
    """Return the ALPN protocol in the encrypted extensions of TLS 1.3, None when there is none."""
    try:
        protocols = _protocols(_extensions(_Fields(body)))
    except _MalformedError:
        return None
    return protocols[0] if protocols else None


def certificates(body: bytes, version: int) -> Iterator[bytes]:
    """Yield the certificates of a message in DER, the sender's first."""
    fields = _Fields(body)
    try:
        if version == TLS_1_3:
            fields.vector(1)
        entries = _Fields(fields.vector(3))
        while entries:
            yield entries.vector(3)
            if version == TLS_1_3:
                entries.vector(2)
    except _MalformedError:
        return


def _extensions(fields: _Fields) -> dict[int, bytes]:
    messages: dict[int, bytes] = {}
    if fields:
        entries = _Fields(fields.vector(2))
        while entries:
            kind = entries.number(2)
            messages.setdefault(kind, entries.vector(2))
    return messages


def _protocols(extensions: dict[int, bytes]) -> tuple[str, ...]:
    entries = _Fields(_Fields(extensions.get(_ALPN, b"\0\0")).vector(2))
    messages = []
    while entries:
        messages.append(_text(entries.vector(1)))
    return tuple(messages)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")
