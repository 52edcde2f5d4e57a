"""Metadata of SENDs, and producers that could do with less."""

from __future__ import annotations

import zlib
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.scenarios.commands import close_producer, created, producer, receipt, send
from tests.scenarios.connections import connected
from tests.scenarios.conversation import MILLISECOND, Conversation
from tests.scenarios.evaluation import diagnose
from tests.scenarios.frames import Single, batch, compress

MISMATCH, MISSING, UNBATCHED, USELESS = "num-messages-mismatch", "uncompressed-size-missing", "batching-unused", "compression-useless"
CODES = {MISMATCH, MISSING, UNBATCHED, USELESS}
EMPTY = {"LZ4": 1, "ZLIB": 8, "ZSTD": 13, "SNAPPY": 1}
"""Size of empty content when compressed."""
CODECS = tuple(EMPTY)
ENDS = ("open", "fin", "rst", "closed")


def sending(frames: list[bytes], *, every: int = 0, midstream: bool = False, end: str = "open") -> Conversation:
    """A producer that sends one frame every `every` µs."""
    talk = Conversation(("10.0.0.1", 40000), ("10.0.0.2", 6650), acknowledge=False) if midstream else connected()
    if not midstream:
        talk.client(producer()).server(created())
    for number, frame in enumerate(frames):
        talk.client(frame).server(receipt(1, number, entry=number)).wait(every * 1000)
    if end == "closed":
        talk.client(close_producer(1, 9))
    return talk.reset("client") if end == "rst" else talk if end == "open" else talk.close()


def found(folder: Path, talk: Conversation) -> set[str]:
    return {row.code or "" for row in diagnose(folder, talk).findings} & CODES


@pytest.mark.parametrize(("announced", "inside", "midstream", "end"), [*product((1, 2, 7), (1, 2, 5), (False, True), ("open", "rst"))])
def test_another_number_of_messages_than_in_the_metadata_is_named(
    tmp_path: Path, announced: int, inside: int, midstream: bool, end: str
) -> None:
    payload = batch([Single(b"x")] * inside)
    fields = {} if announced == 1 else {"num_messages": announced}
    frames = [send(), send(1, 1, payload, {"num_messages_in_batch": inside}, **fields), send(1, 20)]
    diagnosis = diagnose(tmp_path, sending(frames, midstream=midstream, end=end))
    if announced == inside:
        assert diagnosis.of(MISMATCH) == []
        return
    row, evidence = diagnosis.only(MISMATCH)
    assert (evidence["announced"], evidence["in_metadata"], evidence["count"]) == (announced, inside, 1)
    assert evidence["frames"] == [f"0:{row.packet}.{row.sub}"]
    assert diagnosis.frames[evidence["frames"][0]].fields["sequence_id"] == 1  # type: ignore[index]


@pytest.mark.parametrize("size", [40, 50, 60, 70, 80, 100])
def test_a_frame_of_which_the_end_is_missing_has_no_wrong_number(tmp_path: Path, size: int) -> None:
    """Its metadata may be cut before the number."""
    frame = send(1, 1, batch([Single(b"x")] * 5), {"num_messages_in_batch": 5}, num_messages=5)
    assert MISMATCH not in found(tmp_path, sending([send(), frame[:size]]))


@pytest.mark.parametrize(("codec", "size", "midstream", "given"), [*product(CODECS, (6, 40, 4000), (False, True), (None, 0, 1))])
def test_a_compressed_payload_without_its_size_is_named(tmp_path: Path, codec: str, size: int, midstream: bool, given: int | None) -> None:
    plain = bytes(size)
    metadata: dict[str, Any] = {"compression": codec}
    if given is not None:
        metadata["uncompressed_size"] = given * size
    talk = sending([send(), send(1, 1, compress(codec, plain), metadata)], midstream=midstream)
    packed = len(compress(codec, plain))
    assert (MISSING in found(tmp_path, talk)) == (not given and packed > EMPTY[codec])
    if not given and packed > EMPTY[codec]:
        diagnosis = diagnose(tmp_path, talk)
        row, _ = diagnosis.only(MISSING)
        assert diagnosis.commands(row) == ["SEND"]


@pytest.mark.parametrize("codec", CODECS)
def test_nothing_has_no_size(tmp_path: Path, codec: str) -> None:
    assert found(tmp_path, sending([send(1, 0, compress(codec, b""), {"compression": codec})])) == set()


@pytest.mark.slow
@pytest.mark.parametrize(("count", "every", "size", "end"), [*product((100, 400), (2000, 5000, 18000), (1, 900), ENDS)])
def test_many_small_messages_on_their_own_are_reported(tmp_path: Path, count: int, every: int, size: int, end: str) -> None:
    if count * every < 600_000:
        count *= 4
    frames = [send(1, number, bytes(size)) for number in range(count)]
    row, evidence = diagnose(tmp_path, sending(frames, every=every, end=end, midstream=end == "closed")).only(UNBATCHED)
    assert (evidence["count"], evidence["average_bytes"], row.severity, row.layer) == (count, size, "note", "tuning")


@pytest.mark.parametrize(
    ("count", "every", "size", "metadata"),
    [
        *product((10, 99), (5000, 10000), (10,), ({},)),  # few
        *product((100, 150), (21000, 30000), (10,), ({},)),  # seldom
        *product((100, 300), (5000,), (1100, 5000), ({},)),  # large
        *product((100, 300), (0, 100), (10,), ({},)),  # all in a burst
        *product((100, 300), (5000, 18000), (10,), ({"num_messages_in_batch": 3}, {"deliver_at_time": 1_900_000_000_000})),
    ],
)
def test_few_large_and_batched_messages_need_no_advice(tmp_path: Path, count: int, every: int, size: int, metadata: dict[str, Any]) -> None:
    payload = batch([Single(bytes(size))] * 3) if "num_messages_in_batch" in metadata else bytes(size)
    frames = [send(1, number, payload, metadata, num_messages=metadata.get("num_messages_in_batch", 1)) for number in range(count)]
    assert UNBATCHED not in found(tmp_path, sending(frames, every=every))


@pytest.mark.parametrize(("codec", "count", "size", "end"), [*product(CODECS, (10, 30), (8, 500), ENDS)])
def test_compression_that_does_not_shrink_is_reported(tmp_path: Path, codec: str, count: int, size: int, end: str) -> None:
    noise = Random(size).randbytes(size)  # noqa: S311 - repeatable
    metadata = {"compression": codec, "uncompressed_size": size}
    row, evidence = diagnose(tmp_path, sending([send(1, n, compress(codec, noise), metadata) for n in range(count)], end=end)).only(USELESS)
    assert (evidence["entries"], evidence["uncompressed_bytes"]) == (count, count * size)
    assert row.severity == "note"


@pytest.mark.parametrize(
    ("codec", "saved", "reported"), [*product(CODECS, (0, 10, 28), (True,)), *product(CODECS, (60, 100, 500), (False,))]
)
def test_compression_that_saves_hardly_anything_is_reported(tmp_path: Path, codec: str, saved: int, reported: bool) -> None:
    """Random payloads with similar heads."""
    noise = Random(saved).randbytes(2000)  # noqa: S311 - repeatable
    frames = [send(1, n, noise[2 * saved :], {"compression": codec, "uncompressed_size": len(noise) - saved}) for n in range(12)]
    assert (USELESS in found(tmp_path, sending(frames))) == reported


@pytest.mark.parametrize(("codec", "count", "kind"), [*product(CODECS, (1, 9, 30), ("shrinks", "mixed", "plain"))])
def test_compression_that_shrinks_on_the_whole_is_not(tmp_path: Path, codec: str, count: int, kind: str) -> None:
    noise = Random(1).randbytes(20)  # noqa: S311 - repeatable
    payloads = [bytes(500) if kind == "shrinks" or number % 2 == 0 else noise for number in range(count)]
    frames = [
        send(1, number, compress(codec, payload), {"compression": codec, "uncompressed_size": len(payload)})
        if kind != "plain"
        else send(1, number, zlib.compress(noise), {"uncompressed_size": 20})
        for number, payload in enumerate(payloads)
    ]
    assert USELESS not in found(tmp_path, sending(frames, every=MILLISECOND // 1000))
