"""From an entry to its messages: batches opened, chunks joined, lies detected."""

from __future__ import annotations

import base64
import struct
import time
import tracemalloc
import zlib
from hashlib import sha256
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings

from pulsarscope.model import limits
from pulsarscope.protocols.pulsar.entry import reader
from tests.scenarios import Single, batch, compress, payload_frame
from tests.scenarios import pulsar_pb2 as pb
from tests.scenarios.chance import damaged, randoms
from tests.scenarios.commands import message, send
from tests.scenarios.dialogue import Dialogue
from tests.scenarios.frames import message_metadata, sized

MILLISECOND = 1_000_000


def sent(payload: bytes, **metadata: Any) -> Dialogue:
    """One SEND, with its rows."""
    return Dialogue().client(send(payload=payload, metadata=metadata)).end()


def delivered(payload: bytes, broker_entry: dict[str, Any] | None = None, **metadata: Any) -> Dialogue:
    return Dialogue().server(message(payload=payload, metadata=metadata, broker_entry=broker_entry)).end()


THREE = [Single(b"a"), Single(b"", {"partition_key": "k"}), Single(b"ccc", {"sequence_id": 9})]


class TestSingleMessages:
    def test_the_metadata_are_the_message_s(self) -> None:
        metadata = {
            "event_time": 1_600_000_000_001,
            "deliver_at_time": 1_800_000_000_000,
            "partition_key": "k",
            "ordering_key": b"\x00\xff",
            "schema_version": b"\x00" * 7 + b"\x03",
            "txnid_most_bits": 3,
            "txnid_least_bits": 5,
            "properties": [{"key": "a", "value": "1"}, {"key": "b", "value": "2"}, {"key": "a", "value": "3"}],
        }
        (row,) = delivered(b"hello", {"index": 41, "broker_timestamp": 1_700_000_000_005}, **metadata).messages
        assert (row.status, row.payload_size, row.payload_sha256) == ("ok", 5, sha256(b"hello").hexdigest())
        assert (row.producer_name, row.sequence_id, row.publish_time) == ("producer-1", 0, 1_700_000_000_000 * MILLISECOND)
        assert (row.event_time, row.deliver_at) == (1_600_000_000_001 * MILLISECOND, 1_800_000_000_000 * MILLISECOND)
        assert (row.key, row.key_is_bytes, row.ordering_key, row.schema_version) == ("k", None, b"\x00\xff", b"\x00" * 7 + b"\x03")
        assert row.properties == {"a": "3", "b": "2"}
        assert (row.txn, row.index, row.broker_time) == ("(3,5)", 41, 1_700_000_000_005 * MILLISECOND)
        assert (row.batch_index, row.batch_size, row.chunks, row.encrypted, row.compression) == (None, None, None, False, "NONE")
        assert row.payload is None

    def test_a_key_of_bytes_is_said_to_be_one(self) -> None:
        (row,) = sent(b"x", partition_key=base64.b64encode(b"\x00\xff").decode(), partition_key_b64_encoded=True).messages
        assert (row.key, row.key_is_bytes) == ("AP8=", True)

    def test_a_time_of_zero_is_none(self) -> None:
        (row,) = sent(b"x", event_time=0, deliver_at_time=0).messages
        assert (row.event_time, row.deliver_at) == (None, None)

    def test_a_tombstone_is_one(self) -> None:
        (row,) = sent(b"", null_value=True).messages
        assert (row.null_value, row.payload_size, row.status) == (True, 0, "ok")

    @pytest.mark.parametrize(
        ("number", "name"),
        [
            (10, "replicated-subscription-request"),
            (13, "replicated-subscription-update"),
            (20, "txn-committing"),
            (21, "txn-commit"),
            (22, "txn-abort"),
            (99, "marker-99"),
            (0, "marker-0"),
        ],
    )
    def test_a_marker_has_its_name(self, number: int, name: str) -> None:
        (row,) = delivered(b"", marker_type=number).messages
        assert row.marker == name

    @pytest.mark.parametrize(
        ("form", "text"),
        [(None, None), ("base64", "AP9h"), ("hex", "00ff61"), ("text", "\x00\\xffa")],
        ids=["none", "base64", "hex", "text"],
    )
    def test_the_payload_is_given_in_the_form_asked_for(self, form: str | None, text: str | None) -> None:
        (row,) = Dialogue(payload=form).client(send(payload=b"\x00\xffa")).end().messages
        assert row.payload == text

    @pytest.mark.parametrize("codec", ["LZ4", "ZLIB", "ZSTD", "SNAPPY"])
    def test_a_compressed_payload_is_opened(self, codec: str) -> None:
        data = b"some text " * 100
        (row,) = sent(compress(codec, data), compression=codec, uncompressed_size=len(data)).messages
        assert (row.status, row.compression, row.payload_size, row.payload_sha256) == ("ok", codec, 1000, sha256(data).hexdigest())

    def test_a_payload_that_does_not_open_is_undecodable(self) -> None:
        dialogue = sent(b"\xff" * 20, compression="ZLIB", uncompressed_size=100)
        (row,) = dialogue.messages
        assert (row.status, row.payload_size, row.payload_sha256) == ("undecodable", None, None)
        assert dialogue.codes == ["decompress-failed"]
        assert dialogue.frames[0].findings is None, "the frame itself is well formed"

    def test_a_bomb_is_undecodable(self) -> None:
        dialogue = sent(b"x", compression="LZ4", uncompressed_size=(1 << 32) - 1, num_messages_in_batch=3)
        assert [row.status for row in dialogue.messages] == ["undecodable"]
        assert dialogue.messages[0].batch_size == 3
        assert dialogue.codes == ["decompress-bomb"]

    def test_an_encrypted_payload_is_not_touched(self) -> None:
        keys = [{"key": "one", "value": b"v"}, {"key": "two", "value": b"v"}]
        dialogue = sent(b"\xff" * 40, encryption_keys=keys, compression="ZLIB", uncompressed_size=9, num_messages_in_batch=4)
        (row,) = dialogue.messages
        assert (row.status, row.encrypted, row.batch_size, row.payload_size) == ("encrypted", True, 4, None)
        assert dialogue.codes == ["encrypted-payload"]

    def test_a_truncated_frame_gives_a_truncated_message(self) -> None:
        frame = send(payload=b"p" * 100)
        (row,) = Dialogue().client(frame[:-10]).end().messages
        assert (row.status, row.producer_name, row.payload_size) == ("truncated", "producer-1", None)

    def test_a_frame_without_metadata_gives_no_message(self) -> None:
        assert Dialogue().client(send()[:12]).end().messages == []


class TestBatches:
    @pytest.mark.parametrize("codec", ["NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY"])
    def test_each_message_is_a_row(self, codec: str) -> None:
        data = batch(THREE)
        dialogue = sent(compress(codec, data), num_messages_in_batch=3, compression=codec, uncompressed_size=len(data), sequence_id=4)
        rows = dialogue.messages
        assert [(row.batch_index, row.batch_size, row.payload_size, row.status) for row in rows] == [
            (0, 3, 1, "ok"),
            (1, 3, 0, "ok"),
            (2, 3, 3, "ok"),
        ]
        assert [row.key for row in rows] == [None, "k", None]
        assert [row.sequence_id for row in rows] == [4, 4, 9]
        assert [row.payload_sha256 for row in rows] == [sha256(one.payload).hexdigest() for one in THREE]
        assert dialogue.codes == []

    def test_a_batch_of_one_is_a_batch(self) -> None:
        (row,) = sent(batch(THREE[:1]), num_messages_in_batch=1).messages
        assert (row.batch_index, row.batch_size, row.payload_size) == (0, 1, 1)

    def test_of_repeated_properties_the_last_counts_and_those_of_the_entry_do_not(self) -> None:
        single = Single(b"x", {"properties": [{"key": "a", "value": "1"}, {"key": "a", "value": "2"}], "event_time": 7})
        (row,) = sent(batch([single]), num_messages_in_batch=1, properties=[{"key": "entry", "value": "e"}]).messages
        assert row.properties == {"a": "2"}
        assert row.event_time == 7 * MILLISECOND

    def test_compacted_out_and_null_messages_are_marked(self) -> None:
        data = batch([Single(b"", {"compacted_out": True}), Single(b"", {"null_value": True}), Single(b"x", {"null_value": True})])
        rows = sent(data, num_messages_in_batch=3).messages
        assert [row.marker for row in rows] == ["compacted-out", None, None]
        assert [row.null_value for row in rows] == [None, True, True]

    def test_the_index_of_the_entry_is_its_last_message_s(self) -> None:
        rows = delivered(batch(THREE), {"index": 41, "broker_timestamp": 5}, num_messages_in_batch=3).messages
        assert [row.index for row in rows] == [39, 40, 41]
        assert {row.broker_time for row in rows} == {5 * MILLISECOND}

    @pytest.mark.parametrize("claimed", [0, -1, 1, 2, 4, 1000, (1 << 31) - 1, -(1 << 31)])
    def test_a_wrong_number_of_messages_is_found_out(self, claimed: int) -> None:
        dialogue = sent(batch(THREE), num_messages_in_batch=claimed)
        assert dialogue.codes == ["batch-corrupt"]
        rows = dialogue.messages
        assert rows
        assert {row.batch_size for row in rows} == {claimed}
        if claimed > 3:
            assert [row.payload_size for row in rows] == [1, 0, 3]

    def test_bytes_behind_the_last_message_are_noted(self) -> None:
        dialogue = sent(batch(THREE) + b"xyz", num_messages_in_batch=3)
        assert len(dialogue.messages) == 3
        assert dialogue.codes == ["batch-corrupt"]

    @pytest.mark.parametrize("size", [0, 3, 100, (1 << 31) - 1, 1 << 31, (1 << 32) - 1])
    def test_a_wrong_size_of_the_metadata_ends_the_batch_there(self, size: int) -> None:
        first = batch(THREE[:1])
        dialogue = sent(first + struct.pack(">I", size) + batch(THREE[1:2])[4:], num_messages_in_batch=2)
        assert dialogue.messages[0].payload_size == 1
        assert "batch-corrupt" in dialogue.codes

    @pytest.mark.parametrize("length", [-1, 2, 1000, (1 << 31) - 1, -(1 << 31)])
    def test_a_wrong_size_of_the_payload_ends_the_batch_there(self, length: int) -> None:
        single = sized(pb.SingleMessageMetadata(payload_size=length).SerializeToString()) + b"b"
        dialogue = sent(batch(THREE[:1]) + single, num_messages_in_batch=2)
        assert [row.payload_size for row in dialogue.messages] == [1]
        assert dialogue.codes == ["batch-corrupt"]

    def test_a_batch_cut_off_anywhere_gives_the_messages_before_the_cut(self) -> None:
        data = batch(THREE)
        ends = [len(batch(THREE[:count])) for count in range(4)]
        for end in range(len(data)):
            dialogue = sent(data[:end], num_messages_in_batch=3)
            whole = sum(stop <= end for stop in ends[1:])
            rows = dialogue.messages
            assert "batch-corrupt" in dialogue.codes
            if whole:
                assert [row.status for row in rows] == ["ok"] * whole
            else:
                assert [row.status for row in rows] == ["undecodable"]

    def test_an_empty_batch_is_undecodable(self) -> None:
        dialogue = sent(b"", num_messages_in_batch=1)
        assert [row.status for row in dialogue.messages] == ["undecodable"]
        assert dialogue.codes == ["batch-corrupt"]

    @given(randoms)
    @settings(max_examples=200)
    def test_a_damaged_batch_gives_rows_and_no_error(self, random: Random) -> None:
        data = damaged(batch(THREE * random.randint(1, 4)), random)
        claimed = random.choice((0, 1, 3, 12, -1, (1 << 31) - 1))
        dialogue = sent(data, num_messages_in_batch=claimed)
        assert dialogue.messages
        assert {row.status for row in dialogue.messages} <= {"ok", "undecodable"}
        assert sum(row.payload_size or 0 for row in dialogue.messages) <= len(data)

    def test_a_bomb_of_tiny_messages_is_bounded(self) -> None:
        """Each takes at least six bytes: eleven million of them would fit under the bound of decompression."""
        tiny = sized(pb.SingleMessageMetadata(payload_size=0).SerializeToString())
        data = tiny * (limits.BATCH_MESSAGES_MAX + 10)
        dialogue = sent(zlib.compress(data), num_messages_in_batch=(1 << 31) - 1, compression="ZLIB", uncompressed_size=len(data))
        assert len(dialogue.messages) <= limits.BATCH_MESSAGES_MAX
        assert dialogue.codes == ["batch-corrupt"]

    @pytest.mark.parametrize("filler", [b"\x00", b"\x01", b"\x00\x00\x00\x00", b"\x00\x00\x00\x02\x18\x00"])
    def test_a_bomb_of_one_repeated_pattern_takes_little(self, filler: bytes) -> None:
        data = filler * ((2 << 20) // len(filler))
        packed = zlib.compress(data)
        tracemalloc.start()
        began = time.process_time()
        dialogue = sent(packed, num_messages_in_batch=(1 << 31) - 1, compression="ZLIB", uncompressed_size=len(data))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 80 << 20
        assert time.process_time() - began < 20
        assert len(dialogue.messages) <= limits.BATCH_MESSAGES_MAX
        assert "batch-corrupt" in dialogue.codes


@pytest.mark.slow
@given(randoms)
@settings(max_examples=150)
def test_any_metadata_give_rows_and_no_error(random: Random) -> None:
    metadata = damaged(
        message_metadata(
            num_messages_in_batch=random.choice((0, 1, 3)),
            compression=random.choice(("NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY")),
            uncompressed_size=random.choice((0, 5, 1 << 31)),
            uuid="u",
            chunk_id=random.choice((0, 1, -5)),
            num_chunks_from_msg=random.choice((0, 1, 2, -3)),
            properties=[{"key": "k", "value": "v"}],
            marker_type=random.choice((0, 21)),
        ),
        random,
    )
    payload = random.choice((b"", batch(THREE), compress("ZLIB", batch(THREE))))
    frame = payload_frame("SEND", metadata, payload, producer_id=1, sequence_id=2)
    dialogue = Dialogue(payload=random.choice((None, "text", "base64", "hex"))).client(frame).end()
    assert {row.status for row in dialogue.messages} <= {"ok", "undecodable", "incomplete", "encrypted"}


@pytest.mark.parametrize("codec", ["ZSTD", "ZLIB", "LZ4"])
@pytest.mark.parametrize("size_stated", [True, False])
def test_bombs_on_one_connection_are_opened_in_proportion_to_their_size(
    monkeypatch: pytest.MonkeyPatch, codec: str, size_stated: bool
) -> None:
    monkeypatch.setattr(reader, "DECOMPRESS_CONNECTION_FREE_BYTES", 4 << 20)
    monkeypatch.setattr(reader, "DECOMPRESS_RATIO_MAX", 10)
    content = bytes(1 << 20)
    packed = compress(codec, content)
    metadata = {"compression": codec, **({"uncompressed_size": len(content)} if size_stated or codec == "LZ4" else {})}
    talk = Dialogue()
    for number in range(40):
        talk.client(send(1, number, packed, metadata=metadata))
    rows = talk.client(send(1, 40, b"plain")).end().messages
    opened = sum(row.payload_size or 0 for row in rows)
    assert 4 << 20 < opened <= (6 << 20) + 40 * 10 * len(packed)
    assert (rows[0].status, rows[39].status, rows[40].status) == ("ok", "undecodable", "ok")
    assert "decompress-bomb" in talk.codes


@pytest.mark.parametrize("ratio", [1, 20])
def test_payloads_that_compress_well_are_all_opened(monkeypatch: pytest.MonkeyPatch, ratio: int) -> None:
    monkeypatch.setattr(reader, "DECOMPRESS_CONNECTION_FREE_BYTES", 1 << 10)
    content = b"".join(sha256(bytes([number])).digest() for number in range(64)) * ratio
    packed = compress("ZSTD", content)
    talk = Dialogue()
    for number in range(50):
        talk.client(send(1, number, packed, metadata={"compression": "ZSTD", "uncompressed_size": len(content)}))
    assert {row.status for row in talk.end().messages} == {"ok"}
