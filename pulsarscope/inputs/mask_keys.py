"""The key under which names are masked or replaced by pseudonyms."""

from __future__ import annotations

import os
from pathlib import Path

from pulsarscope.model.errors import UsageError

LEAST_KEY_BYTES = 16


def mask_key(option: str, file: str | None) -> bytes:
    """Return the content of the key file that an option names, or random bytes without a file. Raises UsageError."""
    if file is None:
        return os.urandom(LEAST_KEY_BYTES)
    try:
        key = Path(file).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read the key of {option}: {file}: {error.strerror}") from error
    return long_enough(key, file)


def long_enough(key: bytes, place: str) -> bytes:
    """Return a key. Raises UsageError, with the place where it is given, when it is too short."""
    if len(key) < LEAST_KEY_BYTES:
        raise UsageError(f"the key in {place} is too short: give at least {LEAST_KEY_BYTES} bytes")
    return key
