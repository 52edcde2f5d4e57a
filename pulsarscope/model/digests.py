"""Digests. OpenSSL takes 3 ms of a start and 3 MiB: it is loaded with the first SHA-256, and not where the compiled reader makes it."""

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
    """Return a digest of eight bytes, by which what is equal can be found, in hexadecimal digits."""
    digits: str = load_blake2b()(data, digest_size=8).hexdigest()
    return digits
