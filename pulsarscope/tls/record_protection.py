"""Key derivation and record protection; imported on use."""

from __future__ import annotations

import hmac
from abc import ABC, abstractmethod
from collections.abc import Callable
from struct import Struct

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC

from pulsarscope.tls.suites import Suite

HEADER_BYTES = 5
"""Size of a record header: type, version and length."""

_IV_BYTES = 12
_SALT_BYTES = 4
_BLOCK_BYTES = 16

_associated = Struct(">QBHH").pack

Content = tuple[int, bytes]
"""(inner content type, content) of a record."""


class Key(ABC):
    """Key of one direction between two key changes."""

    overhead: int | None
    """Size of a record minus the size of its content, bytes; None when it varies."""

    @abstractmethod
    def open(self, sequence: int, header: bytes, body: bytes) -> Content | None:
        """Decrypt the record with this sequence number; return None when authentication fails."""

    def updated(self) -> Key | None:
        """Return the key after a key update (RFC 8446 section 7.2), None for TLS 1.2."""
        return None


def _aead(suite: Suite, key: bytes) -> Callable[[bytes, bytes, bytes], bytes]:
    if suite.scheme == "GCM":
        return AESGCM(key).decrypt
    return ChaCha20Poly1305(key).decrypt if suite.scheme == "CHACHA20" else AESCCM(key, suite.tag_bytes).decrypt


class _Key13(Key):
    """Key of TLS 1.3 (RFC 8446 section 5.2): the content type follows the content, then zero padding."""

    def __init__(self, suite: Suite, secret: bytes) -> None:
        self._suite = suite
        self._secret = secret
        self._decrypt = _aead(suite, expand_label(suite.hash, secret, b"key", suite.key_bytes))
        self._iv = int.from_bytes(expand_label(suite.hash, secret, b"iv", _IV_BYTES), "big")
        self._overhead = suite.tag_bytes + 1
        self.overhead = HEADER_BYTES + self._overhead

    def open(self, sequence: int, header: bytes, body: bytes) -> Content | None:
        if len(body) < self._overhead:
            return None
        try:
            content = self._decrypt((self._iv ^ sequence).to_bytes(_IV_BYTES, "big"), body, header).rstrip(b"\0")
        except InvalidTag:
            return None
        return (content[-1], content[:-1]) if content else (0, b"")

    def updated(self) -> Key | None:
        digest = self._suite.hash
        return _Key13(self._suite, expand_label(digest, self._secret, b"traffic upd", len(self._secret)))

    def __reduce__(self) -> tuple[type, tuple[Suite, bytes]]:
        return _Key13, (self._suite, self._secret)  # ciphers cannot be pickled


class _Key12(Key):
    """AEAD key of TLS 1.2 (RFC 5288, 6655, 7905): the nonce is explicit, or derived from the sequence number with ChaCha20."""

    def __init__(self, suite: Suite, key: bytes, iv: bytes) -> None:
        self._suite = suite
        self._key = key
        self._decrypt = _aead(suite, key)
        self._explicit_bytes = _IV_BYTES - len(iv)
        self._salt = iv
        self._iv = int.from_bytes(iv, "big")
        self._overhead = self._explicit_bytes + suite.tag_bytes
        self.overhead = HEADER_BYTES + self._overhead

    def open(self, sequence: int, header: bytes, body: bytes) -> Content | None:
        size = len(body) - self._overhead
        if size < 0:
            return None
        associated = _associated(sequence, header[0], header[1] << 8 | header[2], size)
        explicit = self._explicit_bytes
        nonce = self._salt + body[:explicit] if explicit else (self._iv ^ sequence).to_bytes(_IV_BYTES, "big")
        try:
            return header[0], self._decrypt(nonce, body[explicit:], associated)
        except InvalidTag:
            return None

    def __reduce__(self) -> tuple[type, tuple[Suite, bytes, bytes]]:
        return _Key12, (self._suite, self._key, self._salt)  # as above


class _KeyCbc(Key):
    """CBC key of TLS 1.2 (RFC 5246 section 6.2.3.2), optionally with encrypt-then-MAC (RFC 7366)."""

    overhead = None

    def __init__(self, suite: Suite, key: bytes, mac_key: bytes, *, encrypt_then_mac: bool) -> None:
        self._cipher = AES(key)
        self._mac_key = mac_key
        self._digest = suite.mac or suite.hash
        self._mac_bytes = suite.tag_bytes
        self._encrypt_then_mac = encrypt_then_mac

    def open(self, sequence: int, header: bytes, body: bytes) -> Content | None:
        sealed = body[: -self._mac_bytes] if self._encrypt_then_mac else body
        if len(sealed) < 2 * _BLOCK_BYTES or len(sealed) % _BLOCK_BYTES:
            return None
        if self._encrypt_then_mac and not self._is_authentic(sequence, header, sealed, body[-self._mac_bytes :]):
            return None
        decryptor = Cipher(self._cipher, CBC(sealed[:_BLOCK_BYTES])).decryptor()
        padded = decryptor.update(sealed[_BLOCK_BYTES:]) + decryptor.finalize()
        padding = padded[-1] + 1
        content = padded[: max(len(padded) - padding, 0)]
        if padded[len(content) :] != bytes((padding - 1,)) * padding:
            return None
        if self._encrypt_then_mac:
            return header[0], content
        end = len(content) - self._mac_bytes
        if end < 0 or not self._is_authentic(sequence, header, content[:end], content[end:]):
            return None
        return header[0], content[:end]

    def _is_authentic(self, sequence: int, header: bytes, data: bytes, mac: bytes) -> bool:
        associated = _associated(sequence, header[0], header[1] << 8 | header[2], len(data))
        return hmac.digest(self._mac_key, associated + data, self._digest) == mac


def expand_label(digest: str, secret: bytes, label: bytes, size: int) -> bytes:
    """Compute HKDF-Expand-Label of `size` bytes with an empty context (RFC 8446 section 7.1), for a label without its prefix `tls13 `."""
    label = b"tls13 " + label
    return hmac.digest(secret, size.to_bytes(2, "big") + bytes((len(label),)) + label + b"\0\1", digest)[:size]


def key_13(suite: Suite, secret: bytes) -> Key:
    """Derive the key of a traffic secret of TLS 1.3."""
    return _Key13(suite, secret)


def keys_12(suite: Suite, master_secret: bytes, client_random: bytes, server_random: bytes, *, encrypt_then_mac: bool) -> tuple[Key, Key]:
    """Derive the keys of client and server from a master secret of TLS 1.2 (RFC 5246 section 6.3), perhaps for RFC 7366."""
    mac_bytes = suite.tag_bytes if suite.mac is not None else 0
    iv_bytes = 0 if suite.mac is not None else _IV_BYTES if suite.scheme == "CHACHA20" else _SALT_BYTES
    seed = b"key expansion" + server_random + client_random
    size_needed = 2 * (mac_bytes + suite.key_bytes + iv_bytes)
    block = b""
    step = seed
    while len(block) < size_needed:
        step = hmac.digest(master_secret, step, suite.hash)
        block += hmac.digest(master_secret, step + seed, suite.hash)
    slices: list[bytes] = []
    for size in (mac_bytes, mac_bytes, suite.key_bytes, suite.key_bytes, iv_bytes, iv_bytes):
        slices.append(block[:size])
        block = block[size:]
    if suite.mac is not None:
        client, server = (_KeyCbc(suite, slices[2 + side], slices[side], encrypt_then_mac=encrypt_then_mac) for side in (0, 1))
        return client, server
    return _Key12(suite, slices[2], slices[4]), _Key12(suite, slices[3], slices[5])
