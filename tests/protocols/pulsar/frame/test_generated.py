"""The fast readers: whatever the bytes, they give the result of the reference, or leave the bytes to it."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsarscope.dissect.contract.frames import Note
from pulsarscope.protocols.pulsar.frame import fast_path
from pulsarscope.protocols.pulsar.frame.commands import command_table
from pulsarscope.protocols.pulsar.frame.fast_path import FALLBACK_ERRORS
from pulsarscope.protocols.pulsar.frame.generated import READERS
from pulsarscope.protocols.pulsar.frame.protobuf import Plans, WireError, walk
from tests.scenarios import pulsar_pb2 as pb
from tests.scenarios.chance import damaged, message_of, randoms

PLANS = Plans(show_secrets=False)
FAST = {command.plan.name: command.read for command in command_table(PLANS).values()} | READERS
"""Readers of all commands, and of messages within the frequent ones."""
NUMBERS = (0, 1, 127, 128, 255, 16_383, 16_384, 2_097_151, 2_097_152, (1 << 28) - 1, 1 << 28, (1 << 32), (1 << 63) - 1, (1 << 64) - 1)
FREQUENT = (
    "CommandSend",
    "CommandSendReceipt",
    "CommandMessage",
    "CommandAck",
    "MessageMetadata",
    "BrokerEntryMetadata",
)
BEHIND = (b"", b"\x00", b"\x01\x02\x03\x10\x18", b"\x7f" * 9, b"\xff" * 12)
"""Bytes of the next frame, which no reader may take for its own."""


def descriptor(name: str) -> Any:
    outer, *inner = name.split(".")
    found = pb.DESCRIPTOR.message_types_by_name[outer]
    for part in inner:
        found = found.nested_types_by_name[part]
    return found


def check(name: str, body: bytes) -> bool:
    """Compare the reader with the reference on these bytes, alone and between others; return False if all were left to the reference."""
    notes: list[Note] = []
    expected: dict[str, Any] | None
    try:
        expected = walk(body, 0, len(body), PLANS.named(name), notes)
    except WireError:
        expected = None
    read = False
    for before in (b"", b"\x08"):
        for behind in BEHIND:
            data = before + body + behind
            try:
                answer = FAST[name](data, len(before), len(before) + len(body))
            except FALLBACK_ERRORS:
                continue
            read = True
            assert (answer, notes) == (expected, []), (name, body.hex(), before, behind)
            assert list(answer) == list(expected or ())
    return read


def frequent_message(name: str, random: Random) -> bytes:
    """A message with numbers of all sizes, sometimes with an unusual field."""
    message = message_of(descriptor(name), random, complete=True)
    for field in message.DESCRIPTOR.fields:
        if field.cpp_type in {field.CPPTYPE_INT64, field.CPPTYPE_UINT64} and not field.is_repeated and message.HasField(field.name):
            number = random.choice(NUMBERS)
            setattr(message, field.name, number if field.cpp_type == field.CPPTYPE_UINT64 else number >> 1)
        elif not field.is_required and random.random() < 0.6:
            message.ClearField(field.name)
    return bytes(message.SerializeToString())


@pytest.mark.parametrize("name", FAST)
class TestEveryReader:
    @given(random=randoms)
    @settings(max_examples=25)
    def test_messages_read_as_the_reference_reads_them(self, name: str, random: Random) -> None:
        check(name, message_of(descriptor(name), random, complete=random.random() < 0.8).SerializePartialToString())

    @given(random=randoms)
    @settings(max_examples=25)
    def test_damaged_messages_do_too(self, name: str, random: Random) -> None:
        check(name, damaged(message_of(descriptor(name), random).SerializePartialToString(), random))

    @given(body=st.binary(max_size=30))
    @settings(max_examples=25)
    def test_any_bytes_do_too(self, name: str, body: bytes) -> None:
        check(name, body)


@pytest.mark.parametrize("name", FREQUENT)
class TestFrequentMessages:
    @given(random=randoms)
    @settings(max_examples=150)
    def test_their_neighbours_read_as_the_reference_reads_them(self, name: str, random: Random) -> None:
        body = frequent_message(name, random)
        check(name, body)
        check(name, damaged(body, random))

    def test_every_way_of_cutting_one_off_does_too(self, name: str) -> None:
        for seed in range(25):
            body = frequent_message(name, Random(seed))[:200]  # noqa: S311 - for a test
            for end in range(len(body)):
                check(name, body[:end])

    def test_every_single_byte_changed_to_an_extreme_does_too(self, name: str) -> None:
        for seed in range(6):
            body = frequent_message(name, Random(seed))[:60]  # noqa: S311 - for a test
            for at in range(len(body)):
                for value in (0, 1, 0x7F, 0x80, 0xFF):
                    check(name, body[:at] + bytes([value]) + body[at + 1 :])

    def test_most_of_them_are_not_left_to_the_reference(self, name: str) -> None:
        assert sum(check(name, frequent_message(name, Random(seed))) for seed in range(100)) > 50  # noqa: S311 - for a test


@given(producer_id=st.sampled_from(NUMBERS), sequence_id=st.sampled_from(NUMBERS) | st.integers(0, (1 << 64) - 1))
@settings(max_examples=60)
def test_ids_of_any_size_are_read(producer_id: int, sequence_id: int) -> None:
    assert check("CommandSend", pb.CommandSend(producer_id=producer_id, sequence_id=sequence_id).SerializeToString())


@pytest.mark.parametrize("number", [0, 1, -1, -2, (1 << 31) - 1, -(1 << 31), 1 << 21])
def test_32_bit_numbers_of_any_size_are_read(number: int) -> None:
    assert check("MessageIdData", pb.MessageIdData(ledgerId=1, entryId=2, partition=number).SerializeToString())


def test_receipts_and_metadata_are_right() -> None:
    """They are also correct, not only equal to the reference."""
    receipt = pb.CommandSendReceipt(producer_id=3, sequence_id=300, message_id={"ledgerId": 70_000, "entryId": 5})
    receipt.highest_sequence_id = (1 << 64) - 1
    data = receipt.SerializeToString()
    assert READERS["CommandSendReceipt"](data, 0, len(data)) == {
        "producer_id": 3,
        "sequence_id": 300,
        "message_id": {"ledgerId": 70_000, "entryId": 5},
        "highest_sequence_id": -1,
    }
    data = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1_700_000_000_123, partition_key="k").SerializeToString()
    for _ in range(2):  # the second time from the cache
        assert READERS["MessageMetadata"](data, 0, len(data)) == {
            "producer_name": "p",
            "sequence_id": 1,
            "publish_time": 1_700_000_000_123,
            "partition_key": "k",
        }


def test_metadata_with_lists_are_not_shared() -> None:
    data = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=5, properties=[{"key": "a", "value": "b"}]).SerializeToString()
    first, second = (READERS["MessageMetadata"](data, 0, len(data)) for _ in range(2))
    assert first == second
    assert first["properties"] is not second["properties"]


def test_remembered_values_do_not_grow_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_path, "MEMO_MAX", 9)
    for number in range(40):
        metadata = pb.MessageMetadata(
            producer_name=f"p{number}", sequence_id=1, publish_time=1_700_000_000_000 + number, partition_key=str(number)
        )
        check("MessageMetadata", metadata.SerializeToString())
    for memo in (fast_path.TIMES, fast_path.NAMES, fast_path.RESTS):
        memo.put(b"another", 0)  # type: ignore[arg-type]
        assert len(memo) <= 9


def test_text_that_goes_beyond_the_message_is_not_copied() -> None:
    """In many short frames, a length of megabytes would take quadratic time."""
    body = b"\x0a\xff\xff\x3f"
    with pytest.raises(FALLBACK_ERRORS):
        READERS["KeyValue"](body + b"x" * (2 << 20), 0, len(body))
