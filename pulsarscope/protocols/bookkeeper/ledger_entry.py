"""Ledger entries: ledger, entry, last add confirmed, length, digest, data. The bytes are the same in ADD, in READ and on a bookie's disk.

The digest covers the head before it and the data after it. Its kind is chosen when the ledger is created, and is not on the wire: it is the
kind that fits (DigestManager.java).
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha1
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from pulsarscope.model.platform import load_crc32c
from pulsarscope.model.records import Checksum
from pulsarscope.protocols.bookkeeper.commands import DUMMY

HEAD = Struct(">qqqq")
"""Ledger, entry, last add confirmed, and the bytes of all data of the ledger up to and including this entry."""

_crc32c = load_crc32c()


class Digest(NamedTuple):
    """A kind of digest: its name, its size in bytes, and its function of the covered bytes."""

    kind: str
    size: int
    of: Callable[[bytes], bytes]


def keyed(password: bytes) -> Digest:
    """Return the digest for ledgers with this password."""
    key = sha1(b"mac" + password, usedforsecurity=False).digest()
    return Digest("HMAC", 20, lambda covered: hmac.digest(key, covered, "sha1"))


DIGESTS = (
    Digest("CRC32C", 4, lambda covered: _crc32c(covered).to_bytes(4, "big")),
    keyed(b""),  # the password of Pulsar's ledgers
    Digest("CRC32", 8, lambda covered: crc32(covered).to_bytes(8, "big")),
)
"""Digests in the order in which they are tried."""


def digests_with(passwords: Iterable[bytes]) -> tuple[Digest, ...]:
    """Return the digests to try if ledgers may have these passwords."""
    return (*DIGESTS, *map(keyed, passwords))


KINDS = (*(digest.kind for digest in DIGESTS), DUMMY)

_BY_SIZE = {digest.size: digest for digest in DIGESTS}


class LedgerEntry(NamedTuple):
    """A ledger entry."""

    ledger: int
    entry: int
    last_add_confirmed: int
    length: int
    digest: str | None
    """Kind of its digest; None if no kind fits and the kind is unknown."""
    checksum: Checksum
    data_at: int | None
    """Position of its data; None if the size of the digest is unknown."""


def plausible(ledger: int, entry: int, confirmed: int, length: int) -> bool:
    """Return True for the head of an entry that a client could write."""
    return ledger >= 0 and -1 <= confirmed <= entry and entry >= 0 and length >= 0


def read_entry(data: bytes, start: int, end: int, digests: Sequence[Digest] = DIGESTS) -> LedgerEntry | None:
    """Read the ledger entry data[start:end]; None if it is shorter than its head."""
    if end - start < HEAD.size:
        return None
    ledger, entry, confirmed, length = HEAD.unpack_from(data, start)
    found = fitting(data, start, end, digests)
    at = start + HEAD.size
    if found is not None:
        text = data[at : at + found.size].hex()
        return LedgerEntry(ledger, entry, confirmed, length, found.kind, Checksum("good", text, text), at + found.size)
    if entry == 0 and ledger >= 0:  # the length of the first entry is that of its data; the rest is the digest
        size = end - at - length
        if size == 0:
            return LedgerEntry(ledger, entry, confirmed, length, DUMMY, Checksum("absent"), at)
        if (digest := _BY_SIZE.get(size)) is not None:
            return LedgerEntry(ledger, entry, confirmed, length, digest.kind, compared(digest, data, start, end), at + size)
    return LedgerEntry(ledger, entry, confirmed, length, None, Checksum("unverified"), None)


def fitting(data: bytes, start: int, end: int, digests: Sequence[Digest] = DIGESTS) -> Digest | None:
    """Return the kind of digest that fits the entry data[start:end], if any."""
    at = start + HEAD.size
    for digest in digests:
        behind = at + digest.size
        if behind <= end and digest.of(data[start:at] + data[behind:end]) == data[at:behind]:
            return digest
    return None


def compared(digest: Digest, data: bytes, start: int, end: int) -> Checksum:
    """Return the verdict on an entry whose digest has this kind and is wrong."""
    at = start + HEAD.size
    behind = at + digest.size
    computed = digest.of(data[start:at] + data[behind:end])
    # A ledger with another password has another key.
    return Checksum("unverified" if digest.kind == "HMAC" else "bad", data[at:behind].hex(), computed.hex())
