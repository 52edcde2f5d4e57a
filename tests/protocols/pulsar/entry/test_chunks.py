"""Chunks: joined whoever sends them and however they interleave; missing, repeated, swapped and impossible ones are noted; bounds hold."""

from __future__ import annotations

import tracemalloc
from hashlib import sha256
from itertools import permutations
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings

from pulsarscope.dissect.contract.frames import Note
from pulsarscope.model.limits import CHUNKED_MESSAGES_MAX, CHUNKS_MAX_BYTES
from pulsarscope.model.records import FindingRow, MessageRow
from pulsarscope.protocols.pulsar.entry import chunks as module
from pulsarscope.protocols.pulsar.entry.chunks import Chunks, Owner
from tests.scenarios import compress
from tests.scenarios.chance import randoms
from tests.scenarios.commands import message, send
from tests.scenarios.dialogue import Dialogue

MIB = 1 << 20


def chunk(number: int, count: int, payload: bytes, uuid: str = "u", **more: Any) -> bytes:
    """A SEND of one chunk."""
    metadata = {"uuid": uuid, "chunk_id": number, "num_chunks_from_msg": count, **more}
    return send(sequence_id=5, payload=payload, metadata=metadata, is_chunk=True)


def texts(dialogue: Dialogue, code: str) -> list[str | None]:
    return [row.text for row in dialogue.of(FindingRow) if row.code == code]


def digest(payload: bytes) -> str:
    return sha256(payload).hexdigest()


class TestJoining:
    def test_the_last_chunk_gives_the_whole_message(self) -> None:
        dialogue = Dialogue().client(chunk(0, 3, b"aa"), chunk(1, 3, b"bb"))
        assert dialogue.messages == []
        dialogue.client(chunk(2, 3, b"c")).end()
        (row,) = dialogue.messages
        assert (row.status, row.chunks, row.payload_size, row.payload_sha256) == ("ok", 3, 5, digest(b"aabbc"))
        assert (row.packet, row.batch_index) == (3, None)
        assert dialogue.codes == []

    def test_a_message_compressed_as_a_whole_is_opened_as_a_whole(self) -> None:
        data = bytes(range(256)) * 40
        packed = compress("ZSTD", data)
        parts = [packed[:100], packed[100:200], packed[200:]]
        sizes: dict[str, Any] = {"compression": "ZSTD", "uncompressed_size": len(data), "total_chunk_msg_size": len(packed)}
        dialogue = Dialogue().client(*[chunk(number, 3, part, **sizes) for number, part in enumerate(parts)]).end()
        (row,) = dialogue.messages
        assert (row.status, row.payload_size, row.payload_sha256) == ("ok", len(data), digest(data))

    def test_messages_interleave(self) -> None:
        dialogue = Dialogue().client(
            chunk(0, 2, b"a", "one"), chunk(0, 3, b"x", "two"), chunk(1, 3, b"y", "two"), chunk(1, 2, b"b", "one"), chunk(2, 3, b"z", "two")
        )
        assert [(row.payload_sha256, row.packet) for row in dialogue.end().messages] == [(digest(b"ab"), 4), (digest(b"xyz"), 5)]

    def test_producers_and_consumers_do_not_share_chunks(self) -> None:
        metadata = {"uuid": "u", "chunk_id": 0, "num_chunks_from_msg": 2}
        last = {**metadata, "chunk_id": 1}
        dialogue = Dialogue().client(send(1, payload=b"a", metadata=metadata)).client(send(2, payload=b"x", metadata=metadata))
        for consumer in (1, 2):
            dialogue.server(message(consumer, payload=b"m", metadata=metadata))
        dialogue.client(send(1, payload=b"b", metadata=last)).client(send(2, payload=b"y", metadata=last))
        for consumer in (2, 1):
            dialogue.server(message(consumer, payload=b"n", metadata=last))
        dialogue.end()
        found = sorted((row.direction, row.producer_id, row.consumer_id, row.payload_sha256) for row in dialogue.messages)
        assert found == [
            ("deliver", None, 1, digest(b"mn")),
            ("deliver", None, 2, digest(b"mn")),
            ("produce", 1, None, digest(b"ab")),
            ("produce", 2, None, digest(b"xy")),
        ]
        assert dialogue.codes == []

    @pytest.mark.parametrize("count", [1, 0, -1])
    def test_one_chunk_or_less_is_no_chunked_message(self, count: int) -> None:
        (row,) = Dialogue().client(chunk(0, count, b"abc")).end().messages
        assert (row.status, row.payload_size, row.chunks) == ("ok", 3, None)

    def test_empty_chunks_are_chunks(self) -> None:
        dialogue = Dialogue().client(chunk(0, 3, b""), chunk(1, 3, b"x"), chunk(2, 3, b"")).end()
        assert [(row.status, row.payload_size) for row in dialogue.messages] == [("ok", 1)]

    def test_encrypted_chunks_without_a_key_are_one_encrypted_message(self) -> None:
        dialogue = Dialogue().client(*[chunk(number, 3, b"x", encryption_keys=[{"key": "k", "value": b"v"}]) for number in range(3)]).end()
        assert [(row.status, row.encrypted, row.chunks, row.packet, row.payload_size) for row in dialogue.messages] == [
            ("encrypted", True, 3, 3, None)
        ]
        assert dialogue.codes == ["encrypted-payload"] * 3


class TestRepeated:
    def test_the_same_chunk_twice_counts_once_and_is_said(self) -> None:
        dialogue = Dialogue().client(chunk(0, 3, b"a"), chunk(1, 3, b"b"), chunk(1, 3, b"b"), chunk(2, 3, b"c")).end()
        assert [row.payload_sha256 for row in dialogue.messages] == [digest(b"abc")]
        assert texts(dialogue, "chunk-duplicate") == ["SEND 0:3.1: chunk 1 of 3 of message u comes again."]
        assert dialogue.codes == ["chunk-duplicate"]

    def test_with_other_bytes_the_first_ones_count(self) -> None:
        dialogue = Dialogue().client(chunk(0, 3, b"a"), chunk(1, 3, b"b"), chunk(1, 3, b"B"), chunk(2, 3, b"c")).end()
        assert [row.payload_sha256 for row in dialogue.messages] == [digest(b"abc")]
        assert texts(dialogue, "chunk-duplicate") == ["SEND 0:3.1: chunk 1 of 3 of message u comes again, with other bytes."]

    def test_the_first_chunk_again_begins_anew(self) -> None:
        dialogue = Dialogue().client(chunk(0, 2, b"a"), chunk(0, 2, b"A"), chunk(1, 2, b"b")).end()
        assert [row.payload_sha256 for row in dialogue.messages] == [digest(b"Ab")]
        assert dialogue.codes == ["chunk-duplicate"]

    def test_a_whole_message_delivered_again_is_a_message_again(self) -> None:
        parts = [message(payload=b"x", metadata={"uuid": "u", "chunk_id": number, "num_chunks_from_msg": 2}) for number in range(2)]
        dialogue = Dialogue().server(*parts, *parts).end()
        assert [(row.status, row.packet) for row in dialogue.messages] == [("ok", 2), ("ok", 4)]
        assert dialogue.codes == []

    def test_chunks_sent_again_after_a_reconnect_on_the_same_connection_count_once(self) -> None:
        dialogue = Dialogue().client(chunk(0, 4, b"a"), chunk(1, 4, b"b"), chunk(2, 4, b"c"))
        dialogue.client(chunk(1, 4, b"b"), chunk(2, 4, b"c"), chunk(3, 4, b"d")).end()
        assert [row.payload_sha256 for row in dialogue.messages] == [digest(b"abcd")]
        assert dialogue.codes == ["chunk-duplicate"] * 2

    def test_a_chunk_of_a_message_that_is_whole_is_no_message(self) -> None:
        dialogue = Dialogue().client(chunk(0, 2, b"a"), chunk(1, 2, b"b"), chunk(1, 2, b"b")).end()
        assert [row.payload_sha256 for row in dialogue.messages] == [digest(b"ab")]
        assert texts(dialogue, "chunk-duplicate") == ["SEND 0:3.1: chunk 1 of 2 of message u comes after the end of its message."]
        assert dialogue.codes == ["chunk-duplicate"]


class TestMissing:
    @pytest.mark.parametrize(
        ("missing", "said"),
        [
            ({0}, "chunk 0 of 4 of message u is missing"),
            ({1}, "chunk 1 of 4 of message u is missing"),
            ({2}, "chunk 2 of 4 of message u is missing"),
            ({0, 2}, "chunks 0, 2 of 4 of message u are missing"),
            ({0, 1, 2}, "chunks 0, 1, 2 of 4 of message u are missing"),
        ],
    )
    def test_a_missing_chunk_makes_the_message_incomplete(self, missing: set[int], said: str) -> None:
        dialogue = Dialogue().client(*[chunk(number, 4, b"x") for number in range(4) if number not in missing]).end()
        (row,) = dialogue.messages
        assert (row.status, row.chunks, row.payload_size) == ("incomplete", 4, None)
        assert dialogue.codes == ["chunk-missing"]
        assert said in str(texts(dialogue, "chunk-missing")[0])

    def test_very_many_missing_chunks_are_named_in_part(self) -> None:
        dialogue = Dialogue().client(chunk((1 << 31) - 2, (1 << 31) - 1, b"x")).end()
        assert [row.status for row in dialogue.messages] == ["incomplete"]
        assert "chunks 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and more of 2147483647" in str(texts(dialogue, "chunk-missing")[0])

    @pytest.mark.parametrize("order", [order for order in permutations(range(4)) if order != (0, 1, 2, 3)])
    def test_chunks_out_of_order_are_no_message_but_one_incomplete_one(self, order: tuple[int, ...]) -> None:
        dialogue = Dialogue().client(*[chunk(number, 4, bytes((number,))) for number in order]).end()
        assert {row.status for row in dialogue.messages} == {"incomplete"}
        assert "chunk-missing" in dialogue.codes
        # A first chunk after the last one restarts the message, as in the clients.
        assert len(dialogue.messages) == (1 if order.index(0) < order.index(3) else 2)

    def test_a_late_chunk_is_said_to_be_one(self) -> None:
        dialogue = Dialogue().client(chunk(0, 4, b"a"), chunk(2, 4, b"c"), chunk(1, 4, b"b"), chunk(3, 4, b"d")).end()
        assert texts(dialogue, "chunk-missing") == ["SEND 0:3.1: chunk 1 of 4 of message u comes after chunk 2."]

    def test_a_message_whose_last_chunk_is_not_there_is_reported_at_the_end(self) -> None:
        dialogue = Dialogue().client(chunk(0, 3, b"a"), chunk(1, 3, b"b")).end()
        (row,) = dialogue.messages
        assert (row.status, row.chunks, row.packet, row.direction, row.producer_id) == ("incomplete", 3, 2, "produce", 1)
        assert dialogue.codes == ["chunk-incomplete"]


class TestLies:
    @pytest.mark.parametrize("number", [-1, -(1 << 31), 2, 7, (1 << 31) - 1])
    def test_a_chunk_that_cannot_be_is_said_and_disturbs_no_other(self, number: int) -> None:
        dialogue = Dialogue().client(chunk(0, 2, b"a"), chunk(number, 2, b"b"), chunk(1, 2, b"c")).end()
        assert [(row.status, row.payload_sha256) for row in dialogue.messages] == [("incomplete", None), ("ok", digest(b"ac"))]
        assert texts(dialogue, "chunk-invalid") == [f"SEND 0:2.1: chunk {number} of 2 of message u cannot be."]
        assert dialogue.codes == ["chunk-invalid"]

    @pytest.mark.parametrize("count", [2, 4, (1 << 31) - 1])
    def test_a_count_that_changes_is_said_and_the_first_is_believed(self, count: int) -> None:
        dialogue = Dialogue().client(chunk(0, 3, b"a"), chunk(1, count, b"b"), chunk(2, 3, b"c")).end()
        assert [(row.status, row.chunks, row.payload_sha256) for row in dialogue.messages] == [("ok", 3, digest(b"abc"))]
        assert texts(dialogue, "chunk-invalid") == [f"SEND 0:2.1: chunk 1 of message u says {count} chunks, those before it 3."]

    def test_the_total_size_is_not_believed(self) -> None:
        for total in (-1, 0, (1 << 31) - 1):
            dialogue = Dialogue().client(chunk(0, 2, b"a", total_chunk_msg_size=total), chunk(1, 2, b"b", total_chunk_msg_size=total)).end()
            assert [row.payload_size for row in dialogue.messages] == [2]

    @given(randoms)
    @settings(max_examples=150)
    def test_whatever_comes_each_message_is_what_was_cut_or_not_there(self, random: Random) -> None:
        whole = {uuid: random.randbytes(random.randint(2, 40)) for uuid in ("a", "b", "c")}
        cut: list[bytes] = []
        for uuid, data in whole.items():
            count = random.randint(2, min(5, len(data)))
            ends = sorted(random.sample(range(1, len(data)), count - 1))
            parts = zip([0, *ends], [*ends, len(data)], strict=True)
            frames = [chunk(number, count, data[begin:end], uuid) for number, (begin, end) in enumerate(parts)]
            for frame in frames:
                cut += [frame] * random.choice((0, 1, 1, 1, 1, 1, 1, 2))
        if random.random() < 0.5:
            random.shuffle(cut)
        dialogue = Dialogue().client(*cut).end()
        known = {digest(data) for data in whole.values()}
        for row in dialogue.messages:
            assert row.status == "incomplete" or (row.status == "ok" and row.payload_sha256 in known)
        assert dialogue.state._opener._chunks.bytes == 0


def add(
    chunks: Chunks, number: int, count: int, payload: bytes | None, uuid: str = "u", metadata_bytes: int = 0
) -> tuple[str | None, list[Note]]:
    """What the row says of it, or "whole" for a complete message; and the notes."""
    notes: list[Note] = []
    owner: Owner = ("produce", 1)
    row = MessageRow(status="ok")
    metadata = {"chunk_id": number, "num_chunks_from_msg": count, "uuid": uuid}
    joined = chunks.add(owner, metadata, metadata_bytes, payload, row, notes)
    return ("whole" if joined is not None else row.status), notes


class TestBounds:
    def test_what_waits_is_bounded_in_bytes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "CHUNKS_MAX_BYTES", 5000)
        chunks = Chunks()
        said = [note for number in range(100) for note in add(chunks, 0, 3, b"x" * 100, f"u{number}")[1]]
        assert 4000 < chunks.bytes <= 5000
        assert {code for code, _ in said} == {"chunk-cap"}
        assert said[0] == ("chunk-cap", "1 of 3 chunks of message u0 are given up: too many chunks wait")
        assert [add(chunks, number, 3, b"y", "u99")[0] for number in (1, 2)] == ["ok", "whole"]

    def test_a_message_that_was_given_up_is_incomplete_without_another_word(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "CHUNKS_MAX_BYTES", 1000)
        chunks = Chunks()
        answers = [add(chunks, number, 5, b"x" * 300) for number in range(5)]
        assert [status for status, _ in answers] == ["ok", "ok", "ok", "ok", "incomplete"]
        assert [code for _, notes in answers for code, _ in notes] == ["chunk-cap"]
        assert chunks.bytes == 0

    def test_even_when_its_last_chunk_is_the_one_too_many(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "CHUNKS_MAX_BYTES", 1000)
        chunks = Chunks()
        assert add(chunks, 0, 2, b"x" * 500)[0] == "ok"
        status, notes = add(chunks, 1, 2, b"x" * 500)
        assert (status, [code for code, _ in notes]) == ("incomplete", ["chunk-cap"])
        assert (chunks.bytes, chunks.rest()) == (0, [])

    def test_what_waits_and_what_is_remembered_is_bounded_in_messages(self) -> None:
        chunks = Chunks()
        for number in range(3 * CHUNKED_MESSAGES_MAX):
            add(chunks, 0, 3, b"", f"u{number}")
        assert len(chunks._waiting) == len(chunks._ended) == CHUNKED_MESSAGES_MAX

    def test_every_byte_that_waited_is_given_back(self) -> None:
        for seed in range(30):
            chunks, random = Chunks(), Random(seed)  # noqa: S311 - for a test
            for _ in range(200):
                add(chunks, random.randrange(-1, 4), random.choice((3, 3, 4)), b"x" * random.randrange(50), f"u{random.randrange(3)}")
                assert chunks.bytes == sum(waiting.size for waiting in chunks._waiting.values())
            chunks.rest()
            assert chunks.bytes == 0

    @pytest.mark.parametrize("chunk", [(2, b"x"), (1, None)])
    def test_of_a_message_that_cannot_be_whole_no_payload_is_held(self, chunk: tuple[int, bytes | None]) -> None:
        chunks = Chunks()
        add(chunks, 0, 9, b"x" * 10_000)
        add(chunks, chunk[0], 9, chunk[1])
        add(chunks, 5, 9, b"x" * 10_000)
        assert chunks.bytes < 1000

    @pytest.mark.slow
    def test_empty_chunks_take_no_more_than_is_reckoned(self) -> None:
        chunks = Chunks()
        tracemalloc.start()
        for number in range(30_000):
            add(chunks, number, 1 << 30, b"")
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert held < chunks.bytes

    @pytest.mark.parametrize("case", ["large", "in order", "never the first", "long uuids", "much metadata"])
    def test_whatever_is_sent_memory_stays_within_the_bound(self, case: str) -> None:
        chunks = Chunks()
        tracemalloc.start()
        if case == "large":  # 200 MiB in chunks of messages that never end
            for number in range(200):
                add(chunks, 0, 2, bytes(MIB), f"u{number}")
        elif case == "in order":  # one message of 200 MiB
            for number in range(200):
                add(chunks, number, 300, bytes(MIB))
        elif case == "never the first":
            for number in range(200):
                add(chunks, number + 1, 300, bytes(MIB))
        elif case == "long uuids":
            for number in range(200):
                add(chunks, 0, 2, b"", str(number) + "u" * MIB)
        else:
            for number in range(200):
                add(chunks, 0, 2, b"", f"u{number}", metadata_bytes=4 * MIB)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < CHUNKS_MAX_BYTES + 8 * MIB
        assert len(chunks._waiting) <= 1 or case != "much metadata"
