"""Digests computed without OpenSSL where possible."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator

import pytest

from pulsarscope.model import digests, platform


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    platform.load_blake2b.cache_clear()
    yield
    platform.load_blake2b.cache_clear()


@pytest.mark.parametrize("builtin", [True, False])
def test_a_short_digest_is_that_of_hashlib(builtin: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not builtin:
        monkeypatch.setitem(sys.modules, "_blake2", None)
    assert digests.short_digest(b"some") == hashlib.blake2b(b"some", digest_size=8).hexdigest()
    assert digests.sha256_hex(b"some") == hashlib.sha256(b"some").hexdigest()
