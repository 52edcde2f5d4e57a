"""The messages of a batch: whatever the bytes, the fast readers give the results of the reference."""

from __future__ import annotations

from hashlib import sha256
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings

from pulsarscope.dissect.contract.frames import Note
from pulsarscope.model.records import MessageRow
from pulsarscope.protocols.pulsar.entry import batch as module
from pulsarscope.protocols.pulsar.entry.batch import OWN_COLUMNS, BatchReader
from pulsarscope.protocols.pulsar.frame.protobuf import Plans
from tests.scenarios import Single, batch
from tests.scenarios import pulsar_pb2 as pb
from tests.scenarios.chance import damaged, message_of, randoms

PLAN = Plans(show_secrets=True).named("SingleMessageMetadata")
ALL = MessageRow.__struct_fields__
WITHOUT_PROPERTIES = tuple(name for name in ALL if name != "properties")
NUMBERS = (0, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, (1 << 28) - 1, 1 << 28, 1 << 32, (1 << 63) - 1, (1 << 64) - 1)
TEXTS = ("", "k", "number", "é", "名前", "x" * 60, "x" * 123, "x" * 124, "x" * 127, "x" * 128, "y" * 300)
WANTED = pytest.mark.parametrize("wanted", [ALL, WITHOUT_PROPERTIES, ("topic",)], ids=["all", "without-properties", "shared"])

Answer = tuple[int, dict[str, list[Any]], list[Note]]


class ReferenceReader(BatchReader):
    """A batch reader that leaves every message to the reference, and so never meets a shape."""

    def read_compiled(self, *_: object) -> None:
        return None

    def _read_common(self, *_: object) -> int:
        return 0


def answer(reader: BatchReader, data: bytes, claimed: int) -> Answer:
    notes: list[Note] = []
    entry = MessageRow(sequence_id=7, index=1000, marker="txn-commit")
    count, taken = reader.read(data, claimed, entry, notes)
    columns = {name: list(values) for name, values in taken.items()}
    for column in columns.values():
        assert len(column) == count
    if count:
        shared = {**dict.fromkeys(OWN_COLUMNS, None), "marker": entry.marker}
        columns = {name: [value] * count for name, value in shared.items()} | columns
    return count, columns, notes


def check(data: bytes, claimed: int, wanted: tuple[str, ...]) -> Answer:
    """Require equal results of all readers; the compiled one takes part if it is installed, and no payloads are requested."""
    for form in (None, "hex"):
        got = answer(BatchReader(PLAN, wanted, form), data, claimed)
        want = answer(ReferenceReader(PLAN, wanted, form), data, claimed)
        if not got[0]:
            assert (got[0], got[2]) == (want[0], want[2]), data.hex()
        else:
            assert got == want, data.hex()
    return got


def common_message(random: Random) -> Single:
    """A message with the usual fields, and sometimes others."""
    fields: dict[str, Any] = {}
    if random.random() < 0.6:
        count = random.choice((1, 1, 2, 3))
        fields["properties"] = [{"key": random.choice(TEXTS), "value": random.choice(TEXTS)} for _ in range(count)]
    if random.random() < 0.6:
        fields["partition_key"] = random.choice(TEXTS)
    if random.random() < 0.6:
        fields["sequence_id"] = random.choice(NUMBERS)
    if random.random() < 0.2:
        fields["event_time"] = random.choice((0, 1_700_000_000_000, (1 << 64) - 1))
    if random.random() < 0.1:
        fields[random.choice(("null_value", "compacted_out", "partition_key_b64_encoded"))] = True
    return Single(bytes(random.choice((0, 1, 5, 127, 128, 300, 20_000))), fields)


def alike(single: Single, random: Random) -> Single:
    """A message that mostly differs from this one only in values of the same length."""

    def other(text: str) -> str:
        return "".join(chr(random.randrange(97, 123)) if sign.isascii() else sign for sign in text)

    fields = dict(single.fields)
    if "properties" in fields:
        fields["properties"] = [{"key": pair["key"], "value": other(pair["value"])} for pair in fields["properties"]]
    if "partition_key" in fields:
        fields["partition_key"] = other(fields["partition_key"])
    if "sequence_id" in fields and random.random() < 0.5:
        fields["sequence_id"] = max(fields["sequence_id"] - random.randrange(300), 0)
    size = len(single.payload) if random.random() < 0.98 else random.randrange(300)
    return Single(random.randbytes(size), fields)


def common_batch(random: Random) -> tuple[bytes, int]:
    """Messages one by one, or in runs of similar ones."""
    messages = [common_message(random) for _ in range(random.choice((1, 2, 5)))]
    if random.random() < 0.5:
        messages = [alike(one, random) for one in messages[:2] for _ in range(random.choice((1, 2, 10, 40)))]
    return batch(messages), len(messages)


@WANTED
class TestAgreement:
    @pytest.mark.slow
    @given(random=randoms)
    @settings(max_examples=200)
    def test_common_messages_and_their_neighbours_read_as_the_reference_reads_them(self, wanted: tuple[str, ...], random: Random) -> None:
        data, claimed = common_batch(random)
        count, _, notes = check(data, claimed, wanted)
        assert (count, notes) == (claimed, [])

    @pytest.mark.slow
    @given(random=randoms)
    @settings(max_examples=400)
    def test_damaged_ones_do_too(self, wanted: tuple[str, ...], random: Random) -> None:
        data, claimed = common_batch(random)
        check(damaged(data, random), claimed + random.choice((-1, 0, 0, 0, 1)), wanted)

    @given(random=randoms)
    @settings(max_examples=150)
    def test_any_metadata_do_too(self, wanted: tuple[str, ...], random: Random) -> None:
        parts = []
        for _ in range(3):
            single = message_of(pb.SingleMessageMetadata.DESCRIPTOR, random)
            size = random.choice((0, 3))
            single.MergeFrom(pb.SingleMessageMetadata(payload_size=size))
            raw = single.SerializePartialToString()
            parts.append(len(raw).to_bytes(4, "big") + raw + bytes(size))
        check(b"".join(parts), 3, wanted)

    def test_every_way_of_cutting_one_off_and_every_extreme_byte_do_too(self, wanted: tuple[str, ...]) -> None:
        fields = {"properties": [{"key": "a", "value": "b"}, {"key": "é", "value": ""}], "partition_key": "k", "sequence_id": 300}
        data = batch([Single(b"pay", fields), Single(b"load", {"partition_key": "é"})])
        for at in range(len(data)):
            check(data[:at], 2, wanted)
            for byte in (0, 1, 10, 18, 24, 64, 0x7F, 0x80, 0xC3, 0xFF):
                check(data[:at] + bytes((byte,)) + data[at + 1 :], 2, wanted)


def test_common_messages_are_not_left_to_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BatchReader, "_read_any", lambda *_: pytest.fail("the reference was asked"))
    payloads = [b"a" * 200, b"", b"c"]
    fields: list[dict[str, Any]] = [
        {"properties": [{"key": "a", "value": "1"}, {"key": "b", "value": "é"}, {"key": "a", "value": "2"}], "partition_key": "k"},
        {"sequence_id": 70_000},
        {"partition_key": "é"},
    ]
    data = batch([Single(*one) for one in zip(payloads, fields, strict=True)])
    notes: list[Note] = []
    count, columns = BatchReader(PLAN, ALL, None).read(data, 3, MessageRow(sequence_id=7), notes)
    assert (count, notes) == (3, [])
    assert {name: list(values) for name, values in columns.items()} == {
        "batch_index": [0, 1, 2],
        "payload_size": [200, 0, 1],
        "key": ["k", None, "é"],
        "sequence_id": [7, 70_000, 7],
        "properties": [{"a": "2", "b": "é"}, None, None],
        "payload_sha256": [sha256(payload).hexdigest() for payload in payloads],
    }


def test_invalid_text_is_found_whether_it_is_wanted_or_not() -> None:
    data = batch([Single(b"", {"properties": [{"key": "a", "value": "bcd"}], "partition_key": "k"})]).replace(b"bcd", b"b\xffd")
    for wanted in (ALL, WITHOUT_PROPERTIES, ()):
        notes: list[Note] = []
        BatchReader(PLAN, wanted, None).read(data, 1, MessageRow(), notes)
        assert notes == [("invalid-utf8", "KeyValue.value")]


def test_what_is_not_wanted_is_not_made() -> None:
    _, columns = BatchReader(PLAN, ("key",), "hex").read(batch([Single(b"x")]), 1, MessageRow(), [])
    assert columns.keys().isdisjoint({"properties", "payload", "payload_sha256"})


@pytest.mark.parametrize("alike", [True, False])
def test_metadata_are_read_up_to_their_bound_and_payloads_do_not_count(alike: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH_METADATA_MAX_BYTES", 20_000)
    heavy = [Single(b"x" * 50, {"partition_key": "k" * (100 if alike else 100 + number % 7)}) for number in range(1000)]
    data = batch(heavy)
    count, _, notes = answer(BatchReader(PLAN, ALL, None), data, 1000)
    each = len(data) / 1000 - 50
    assert 20_000 / each <= count < 40_000 / each
    assert notes == [("batch-corrupt", f"the metadata of {count} of 1000 messages exceed the limit for reading them")]
    light = [Single(b"x" * (1000 if alike else 1000 + number % 7)) for number in range(1000)]
    count, _, notes = answer(BatchReader(PLAN, ALL, None), batch(light), 1000)
    assert (count, notes) == (1000, [])
