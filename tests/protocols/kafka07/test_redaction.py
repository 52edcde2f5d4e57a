"""Redacted frames have the size of the frame, whatever its bytes, and contain messages that a reader accepts."""

from __future__ import annotations

import gzip
from random import Random
from zlib import crc32

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.dissect.blanking.blank_content import CALL_BYTES, FITTED_MAX_BYTES
from pulsarscope.inputs.xerial import MAGIC, compress_xerial
from pulsarscope.model.masked_names import MaskedNames
from pulsarscope.model.records import FrameRow
from pulsarscope.protocols.kafka07 import redaction
from pulsarscope.protocols.kafka07.commands import REQUESTS, RESPONSES
from pulsarscope.protocols.kafka07.messages import MessageTotals, read_set
from pulsarscope.protocols.kafka07.redaction import Kafka07Redaction

randbytes = Random(1).randbytes  # noqa: S311 - content of a test
NAMES = MaskedNames(b"k" * 32)
TEXTS = [b"my secret order %d of my very own text" % number for number in range(20)]


def entry(payload: bytes, codec: int = 0, *, bad: bool = False) -> bytes:
    body = bytes([1, codec]) + (crc32(payload) ^ bad).to_bytes(4, "big") + payload
    return len(body).to_bytes(4, "big") + body


def fetched(messages: bytes) -> bytes:
    return (2 + len(messages)).to_bytes(4, "big") + bytes(2) + messages


def read(frame: bytes) -> tuple[list[tuple[int, int, tuple[str, ...], int | None]], list[str], str | None]:
    """Return places, codecs and sizes of the messages in a fetched set, the findings, and the verdict on the checksums."""
    totals = MessageTotals(len(frame), stored=True)
    messages = [
        (each.entry, each.end, each.codecs, None if each.payload is None else len(each.payload))
        for each in read_set(frame, 6, len(frame), totals)
    ]
    return messages, sorted(totals.notes), None if totals.checksum is None else totals.checksum.status


@pytest.mark.parametrize(
    "messages",
    [
        b"".join(map(entry, TEXTS)),
        entry(gzip.compress(b"".join(map(entry, TEXTS))), 1),
        entry(gzip.compress(b"".join(map(entry, TEXTS[:1])) + entry(TEXTS[1], bad=True)), 1),
        entry(gzip.compress(entry(randbytes(70_000)), 0), 1),
        entry(bytes(cramjam.snappy.compress_raw(entry(b"x" * 90_000) + entry(randbytes(900)))), 2),
        entry(compress_xerial(entry(b"x" * 90_000) + entry(randbytes(900)), MAGIC + bytes(8)), 2),
        entry(gzip.compress(entry(gzip.compress(b"".join(map(entry, TEXTS)), 1), 1)), 1),
        entry(gzip.compress(entry(bytes(cramjam.snappy.compress_raw(b"".join(map(entry, TEXTS)))), 2) * 3), 1),
        entry(bytes(cramjam.snappy.compress_raw(entry(gzip.compress(b"".join(map(entry, TEXTS))), 1) * 3)), 2),
        entry(TEXTS[0]) + entry(TEXTS[1], bad=True),
        entry(TEXTS[0]) + entry(TEXTS[1])[:-5],
        entry(TEXTS[0]) + entry(TEXTS[1])[:4],
        entry(TEXTS[0]) + TEXTS[1],
        entry(TEXTS[0]) + bytes(9),
        entry(b"no gzip at all", 1),
        entry(b""),
    ],
    ids=[
        "plain",
        "compressed",
        "bad-inside",
        "stored",
        "snappy",
        "xerial",
        "nested",
        "snappy-in-gzip",
        "gzip-in-snappy",
        "bad",
        "cut",
        "cut-behind-size",
        "from-within",
        "no-size",
        "no-gzip",
        "empty",
    ],
)
def test_fetched_messages_are_blank_and_as_many(messages: bytes) -> None:
    redacted, kept = Kafka07Redaction(NAMES).redact(FrameRow(command="FETCH_RESPONSE"), fetched(messages))
    assert kept
    assert read(redacted) == read(fetched(messages))
    assert b"secret" not in redacted
    for message in read_set(redacted, 6, len(redacted), MessageTotals(len(redacted), stored=True)):
        assert b"secret" not in (message.payload or b"")


def test_sets_in_sets_cost_no_more_than_one_search(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def counted(content: bytes, _: int) -> bytes:
        nonlocal calls
        calls += 1
        return bytes(content)

    monkeypatch.setattr(redaction, "deflations", lambda _: [counted])
    messages = entry(TEXTS[0])
    for _ in range(8):
        messages = entry(gzip.compress(messages * 3), 1)
    redacted, kept = Kafka07Redaction(NAMES).redact(FrameRow(command="FETCH_RESPONSE"), fetched(messages))
    assert not kept
    assert b"secret" not in redacted
    assert 0 < calls <= (FITTED_MAX_BYTES + redaction.FITTED_FACTOR * len(redacted)) // CALL_BYTES


@given(st.sampled_from([*REQUESTS, *RESPONSES, None]), st.binary(min_size=6, max_size=80))
def test_any_bytes_have_as_many(command: str | None, data: bytes) -> None:
    redacted, _ = Kafka07Redaction(NAMES).redact(FrameRow(command=command), data)
    assert len(redacted) == len(data)
