"""Redacted frames have the size of the frame, whatever its bytes; correct digests stay correct, wrong ones wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.model.masked_names import MaskedNames
from pulsarscope.model.records import FrameRow
from pulsarscope.protocols.bookkeeper.binary import ANSWER, BATCH_ANSWER, IDS, SIZE
from pulsarscope.protocols.bookkeeper.frame import BookkeeperFrameDecoder
from pulsarscope.protocols.bookkeeper.ledger_entry import DIGESTS, HEAD, Digest, keyed
from pulsarscope.protocols.bookkeeper.redaction import BookkeeperRedaction

REDACTION = BookkeeperRedaction(MaskedNames(b"k" * 32), DIGESTS, ())
MASTER_KEY = b"the-master-key-of-us"
DATA = b"my secret order of my very own"


def add(digest: Digest | None, entry: int = 0, *, bad: bool = False) -> bytes:
    """Return an ADD of version 2 with an entry."""
    head = HEAD.pack(7, entry, -1, len(DATA) * (entry + 1))
    value = b"" if digest is None else digest.of(head + DATA)
    body = MASTER_KEY + head + (value if not bad else bytes([value[0] ^ 128]) + value[1:]) + DATA
    return (4 + len(body)).to_bytes(4, "big") + bytes([2, 1, 0, 0]) + body


@pytest.mark.parametrize("bad", [False, True])
@pytest.mark.parametrize("digest", [*DIGESTS, keyed(b"unknown"), None], ids=["CRC32C", "HMAC", "CRC32", "unknown-password", "DUMMY"])
@pytest.mark.parametrize("entry", [0, 3])
def test_an_entry_is_blank_and_its_digest_as_good_as_before(digest: Digest | None, entry: int, bad: bool) -> None:
    if digest is None and bad:
        return
    frame = add(digest, entry, bad=bad)
    redacted, _ = REDACTION.redact(FrameRow(command="ADD"), frame)
    (_, fields, _, checksum, *rest), (_, new_fields, _, new_checksum, *new_rest) = (
        BookkeeperFrameDecoder(False).decode(each, 0, len(each)) for each in (frame, redacted)
    )
    assert (new_fields, new_rest, new_checksum and new_checksum.status) == (fields, rest, checksum and checksum.status)
    assert b"secret" not in redacted
    assert MASTER_KEY not in redacted


def frame_of(operation: int, body: bytes) -> bytes:
    """Return a frame of version 2."""
    return (4 + len(body)).to_bytes(4, "big") + bytes([2, operation, 0, 0]) + body


BATCH = frame_of(7, BATCH_ANSWER.pack(0, 7, 0, 1) + b"".join(SIZE.pack(62) + HEAD.pack(7, 0, -1, 9) + DATA for _ in range(1_002)))


@pytest.mark.parametrize(
    "frame",
    [
        BATCH,
        frame_of(7, BATCH_ANSWER.pack(0, 7, 0, 1) + SIZE.pack(-5) + DATA),
        BATCH[:-40] + SIZE.pack(500) + DATA,
        frame_of(5, IDS.pack(7, 1) + DATA),
        frame_of(6, DATA),
        frame_of(99, DATA),
    ],
    ids=["many-entries", "bad-size", "bad-size-behind", "lac", "info", "unknown"],
)
def test_what_is_no_known_field_is_blank(frame: bytes) -> None:
    decoded = BookkeeperFrameDecoder(False).decode(frame, 0, len(frame))
    redacted, _ = REDACTION.redact(FrameRow(command=decoded[0]), frame)
    new = BookkeeperFrameDecoder(False).decode(redacted, 0, len(redacted))
    assert (new[0], new[1], new[-2:]) == (decoded[0], decoded[1], decoded[-2:])
    assert b"secret" not in redacted


TEXT = b"a password, and another one, each of them ours and of nobody else"


@pytest.mark.parametrize("size", [8, 12, 31, 32, 40, len(TEXT)])
@pytest.mark.parametrize(
    ("command", "operation", "before"),
    [
        ("READ_RESPONSE", 2, ANSWER.pack(0, 7, 0)),
        ("ADD", 1, MASTER_KEY),
        ("BATCH_READ_RESPONSE", 7, BATCH_ANSWER.pack(0, 7, 0, 1)),
    ],
)
def test_what_is_no_ledger_entry_is_blank(command: str, operation: int, before: bytes, size: int) -> None:
    content = TEXT[:size]
    if operation == 7:
        before += SIZE.pack(size)
    frame = frame_of(operation, before + content)
    for data in (frame, frame[:-3]):
        redacted, _ = REDACTION.redact(FrameRow(command=command), data)
        behind = redacted[8 + len(before) :]
        assert behind == b"\xff" * len(behind)


@pytest.mark.parametrize("head", [(7, 3, 2, 1_000), (1 << 33, 0, -1, 0), (0, 0, 0, 1 << 25)])
@pytest.mark.parametrize("cut", [0, 1, 29])
def test_the_head_of_an_entry_stays_where_its_digest_cannot_be_checked(head: tuple[int, int, int, int], cut: int) -> None:
    frame = frame_of(2, ANSWER.pack(0, *head[:2]) + HEAD.pack(*head) + b"secret data of another ledger")
    redacted, _ = REDACTION.redact(FrameRow(command="READ_RESPONSE"), frame[: len(frame) - cut])
    assert redacted[: 8 + ANSWER.size + HEAD.size] == frame[: 8 + ANSWER.size + HEAD.size][: len(frame) - cut]
    assert b"secret" not in redacted


@given(st.sampled_from(["ADD", "READ", "READ_RESPONSE", "AUTH", "BATCH_READ_RESPONSE", "UNKNOWN_9", None]), st.binary(max_size=120))
def test_any_bytes_have_as_many(command: str | None, data: bytes) -> None:
    for frame in (data, len(data).to_bytes(4, "big") + data, len(data).to_bytes(4, "big") + b"\x0a" + data):
        redacted, _ = REDACTION.redact(FrameRow(command=command), frame)
        assert len(redacted) == len(frame)
