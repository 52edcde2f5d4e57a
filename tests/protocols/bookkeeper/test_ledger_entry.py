from __future__ import annotations

import pytest

from pulsarscope.protocols.bookkeeper.ledger_entry import read_entry
from tests.scenarios.bookkeeper import ledger_entry


@pytest.mark.parametrize(("digest", "size"), [("CRC32C", 4), ("HMAC", 20), ("CRC32", 8)])
@pytest.mark.parametrize("data", [b"", b"x", bytes(3000)])
def test_the_kind_of_digest_is_the_one_that_fits(digest: str, size: int, data: bytes) -> None:
    stored = ledger_entry(7, 4, data, digest=digest)
    entry = read_entry(b"??" + stored + b"??", 2, 2 + len(stored))
    assert entry is not None
    assert entry[:5] == (7, 4, 3, 5 * len(data), digest)
    assert entry.checksum.status == "good"
    assert entry.data_at == 2 + 32 + size


def test_the_first_entry_of_a_ledger_shows_the_size_of_its_digest() -> None:
    none = read_entry(stored := ledger_entry(7, 0, digest="DUMMY"), 0, len(stored))
    assert none is not None
    assert (none.digest, none.checksum.status, none.data_at) == ("DUMMY", "absent", 32)
    damaged = read_entry(stored := ledger_entry(7, 0)[:-1] + b"?", 0, len(stored))
    assert damaged is not None
    assert (damaged.digest, damaged.checksum.status) == ("CRC32C", "bad")


def test_an_hmac_with_a_password_is_not_verified() -> None:
    entry = read_entry(stored := ledger_entry(7, 0, digest="HMAC", password=b"pw"), 0, len(stored))
    assert entry is not None
    assert (entry.digest, entry.checksum.status) == ("HMAC", "unverified")


@pytest.mark.parametrize("stored", [ledger_entry(7, 2)[:-1], ledger_entry(7, 2, digest="DUMMY")])
def test_a_later_entry_whose_digest_does_not_fit_leaves_it_open(stored: bytes) -> None:
    entry = read_entry(stored, 0, len(stored))
    assert entry is not None
    assert (entry.digest, entry.checksum.status, entry.data_at) == (None, "unverified", None)


def test_bytes_shorter_than_a_head_are_no_entry() -> None:
    assert read_entry(bytes(31), 0, 31) is None
