"""Digests. OpenSSL adds 3 ms and 3 MiB to a start: it is loaded for the first SHA-256, or never if the compiled reader computes it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from pulsarscope.model.platform import load_blake2b, load_native


@cache
def _sha256_hex() -> Callable[[bytes], str]:
    native, _ = load_native()
    if native is not None:
        made: Callable[[bytes], str] = native.sha256_hex
        return made
    from hashlib import sha256  # noqa: PLC0415 - see above

    return lambda data: sha256(data).hexdigest()


def sha256_hex(data: bytes) -> str:
    """Return the SHA-256 of data in hexadecimal digits."""
    return _sha256_hex()(data)


def short_digest(data: bytes) -> str:
    """Return an eight-byte digest in hexadecimal digits, for finding equal values."""
    digits: str = load_blake2b()(data, digest_size=8).hexdigest()
    return digits
