"""Odd entries, and the expected findings and messages of each."""

from __future__ import annotations

import struct
import zlib
from typing import Any, NamedTuple

import cramjam
import zstandard

from tests.scenarios import Single, batch, compress, message_metadata, sized
from tests.scenarios.bad_inputs.cases import (
    send,
)
from tests.scenarios.wire import field

TEXT = b"the quick brown fox jumps over the lazy dog " * 20
SINGLES = [Single(b"one"), Single(b"two"), Single(b"three")]
BATCH = batch(SINGLES)
MIB = 1 << 20


def entry(payload: bytes, **metadata: Any) -> bytes:
    return send(1, payload, message_metadata(sequence_id=1, **metadata))


def batched(payload: bytes, claimed: int, **metadata: Any) -> bytes:
    return entry(payload, num_messages_in_batch=claimed, **metadata)


def packed(codec: str, payload: bytes, size: int, **metadata: Any) -> bytes:
    return entry(payload, compression=codec, uncompressed_size=size, **metadata)


def single(fields: bytes, payload: bytes = b"") -> bytes:
    """One message of a batch with exactly these bytes as its metadata."""
    return sized(fields) + payload


class Case(NamedTuple):
    row: int
    name: str
    odd: bytes
    codes: set[str]
    payloads: list[str | None]
    """Payloads of the messages of the odd entry."""
    status: str = "ok"


ZSTD_HUGE = b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 1 << 40) + b"\x01\x00\x00"
"""A zstd frame that declares 2^40 bytes."""


ZSTD_WINDOW = b"\x28\xb5\x2f\xfd\x00\xa8" + b"\x01\x00\x00"
"""A zstd frame that requires a window of 2^31 bytes."""


ZSTD_DICTIONARY = b"\x28\xb5\x2f\xfd\x21\x07\x00\x01\x00\x00"
SKIPPABLE = b"\x50\x2a\x4d\x18\x03\0\0\0abc"
ALL = TEXT.decode()
ZLIB_PACKER = zlib.compressobj()
UNFINISHED_ZLIB = ZLIB_PACKER.compress(TEXT) + ZLIB_PACKER.flush(zlib.Z_SYNC_FLUSH)
FRAMED_SNAPPY = bytes(cramjam.snappy.compress(TEXT))
CASES = [
    Case(103, "a batch of 0", batched(BATCH, 0), {"batch-corrupt"}, [None], "undecodable"),
    Case(103, "a batch of -1", batched(BATCH, -1), {"batch-corrupt"}, [None], "undecodable"),
    Case(103, "a batch of 2^31 - 1", batched(BATCH, 2**31 - 1), {"batch-corrupt"}, ["one", "two", "three"]),
    Case(103, "more than there are", batched(BATCH, 4), {"batch-corrupt"}, ["one", "two", "three"]),
    Case(103, "fewer than there are", batched(BATCH, 2), {"batch-corrupt"}, ["one", "two"]),
    Case(103, "an empty batch", batched(b"", 3), {"batch-corrupt"}, [None], "undecodable"),
    Case(104, "metadata beyond the batch", batched(BATCH + struct.pack(">I", 4000), 4), {"batch-corrupt"}, ["one", "two", "three"]),
    Case(104, "metadata of -1 bytes", batched(batch(SINGLES[:1]) + b"\xff\xff\xff\xffrest", 2), {"batch-corrupt"}, ["one"]),
    Case(104, "a payload of -1 bytes", batched(single(field(3, -1), b"x"), 1), {"batch-corrupt"}, [None], "undecodable"),
    Case(104, "a payload beyond the batch", batched(single(field(3, 500), b"x"), 1), {"batch-corrupt"}, [None], "undecodable"),
    Case(104, "metadata that is no protobuf", batched(single(b"\xff\xff\xff", b"x"), 1), {"batch-corrupt"}, [None], "undecodable"),
    Case(104, "metadata of no bytes", batched(single(b"", b""), 1), {"required-field-missing", "batch-corrupt"}, [None], "undecodable"),
    Case(105, "compacted out", batched(batch([Single(b"", {"compacted_out": True}), SINGLES[1]]), 2), set(), ["", "two"]),
    Case(105, "null with a payload", batched(batch([Single(b"not null", {"null_value": True})]), 1), set(), ["not null"]),
    Case(106, "bytes behind the last message", batched(BATCH + b"??", 3), {"batch-corrupt"}, ["one", "two", "three"]),
    Case(107, "compressed, called plain", entry(compress("ZLIB", b"x")), set(), [zlib.compress(b"x").decode(errors="backslashreplace")]),
    Case(107, "ZSTD, called LZ4", packed("LZ4", compress("ZSTD", TEXT), len(TEXT)), {"decompress-failed"}, [None], "undecodable"),
    Case(107, "LZ4, called ZSTD", packed("ZSTD", compress("LZ4", TEXT), len(TEXT)), {"decompress-failed"}, [None], "undecodable"),
    Case(107, "plain, called SNAPPY", packed("SNAPPY", b"plain text", 200), {"decompress-failed"}, [None], "undecodable"),
    Case(107, "plain, called ZLIB", packed("ZLIB", b"plain text", 10), {"decompress-failed"}, [None], "undecodable"),
    Case(
        107,
        "a codec without a name",
        send(1, b"x", message_metadata(sequence_id=1) + field(8, 9)),
        {"unknown-enum", "decompress-failed"},
        [None],
        "undecodable",
    ),
    *[
        Case(108, f"{codec}, a size too large", packed(codec, compress(codec, TEXT), len(TEXT) + 9), {"size-mismatch"}, [ALL])
        for codec in ("LZ4", "ZLIB", "ZSTD", "SNAPPY")
    ],
    *[Case(108, f"{codec}, size 0", packed(codec, compress(codec, TEXT), 0), set(), [ALL]) for codec in ("LZ4", "ZLIB", "ZSTD", "SNAPPY")],
    *[
        Case(108, f"{codec}, size 2^32 - 1", packed(codec, compress(codec, TEXT), 2**32 - 1), {"decompress-bomb"}, [None], "undecodable")
        for codec in ("LZ4", "ZLIB", "ZSTD", "SNAPPY")
    ],
    *[
        Case(109, f"{codec}, more than it claims", packed(codec, compress(codec, TEXT), 9), codes, [None], "undecodable")
        for codec, codes in (
            ("LZ4", {"decompress-failed"}),
            ("ZLIB", {"decompress-bomb"}),
            ("ZSTD", {"decompress-bomb"}),
            ("SNAPPY", {"decompress-bomb"}),
        )
    ],
    *[
        Case(109, f"{codec}, a bomb", packed(codec, compress(codec, bytes(65 * MIB)), 0), codes, [None], "undecodable")
        for codec, codes in (("LZ4", {"decompress-failed"}), ("ZLIB", {"decompress-bomb"}), ("ZSTD", {"decompress-bomb"}))
    ],
    Case(109, "ZSTD, 2^40 bytes declared", packed("ZSTD", ZSTD_HUGE, 0), {"decompress-bomb"}, [None], "undecodable"),
    Case(109, "ZSTD, a window of 2^31", packed("ZSTD", ZSTD_WINDOW, 0), {"decompress-failed"}, [None], "undecodable"),
    Case(109, "ZSTD, an unknown dictionary", packed("ZSTD", ZSTD_DICTIONARY, 0), {"decompress-failed"}, [None], "undecodable"),
    Case(
        109,
        "ZSTD, two frames and a skippable one",
        packed("ZSTD", zstandard.compress(TEXT[:44]) + SKIPPABLE + zstandard.compress(TEXT[44:]), len(TEXT)),
        set(),
        [ALL],
    ),
    Case(109, "SNAPPY, 4 GiB announced", packed("SNAPPY", b"\xff\xff\xff\xff\x0f\x00", 0), {"decompress-bomb"}, [None], "undecodable"),
    Case(109, "SNAPPY, framed", packed("SNAPPY", FRAMED_SNAPPY, len(TEXT)), {"snappy-framed"}, [ALL]),
    Case(109, "ZLIB, bytes behind its end", packed("ZLIB", zlib.compress(TEXT) + b"more", len(TEXT)), set(), [ALL]),
    Case(109, "ZLIB, without its end", packed("ZLIB", UNFINISHED_ZLIB, len(TEXT)), {"zlib-unfinished"}, [ALL]),
    Case(109, "LZ4, a match at offset 0", packed("LZ4", b"\x10a\x00\x00\x00", 100), {"decompress-failed"}, [None], "undecodable"),
    Case(111, "LZ4, nothing to decompress", packed("LZ4", b"", 100), {"decompress-failed"}, [None], "undecodable"),
    Case(111, "ZLIB, nothing to decompress", packed("ZLIB", b"", 100), {"size-mismatch"}, [""]),
    Case(111, "ZSTD, nothing to decompress", packed("ZSTD", b"", 100), {"decompress-failed"}, [None], "undecodable"),
    Case(111, "SNAPPY, nothing to decompress", packed("SNAPPY", b"", 100), {"decompress-failed"}, [None], "undecodable"),
    Case(112, "encrypted", entry(b"cipher", encryption_keys=[{"key": "k1", "value": b"?"}]), {"encrypted-payload"}, [None], "encrypted"),
    Case(
        112,
        "encrypted, a compressed batch",
        batched(b"cipher", 7, compression="LZ4", uncompressed_size=99, encryption_keys=[{"key": "k1", "value": b"?"}]),
        {"encrypted-payload"},
        [None],
        "encrypted",
    ),
    Case(114, "bytes where names are expected", entry(b"x", schema_version=b"\0\xff" * 5000, ordering_key=b"\x1b[2J"), set(), ["x"]),
]
