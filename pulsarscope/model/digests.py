"""Digests. OpenSSL is loaded with the first SHA-256: that takes 3 ms of a start and 3 MiB, and most runs need none."""

from __future__ import annotations

from functools import cache
from types import ModuleType

from pulsarscope.model.platform import load_blake2b


@cache
def _hashlib() -> ModuleType:
    import hashlib  # noqa: PLC0415 - see above

    return hashlib


def sha256_hex(data: bytes) -> str:
    """Return the SHA-256 of data in hexadecimal digits."""
    digits: str = _hashlib().sha256(data).hexdigest()
    return digits


def short_digest(data: bytes) -> str:
    """Return a digest of eight bytes, by which what is equal can be found, in hexadecimal digits."""
    digits: str = load_blake2b()(data, digest_size=8).hexdigest()
    return digits
