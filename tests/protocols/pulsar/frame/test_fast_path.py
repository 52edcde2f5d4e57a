"""The readers of the usual forms: whatever the bytes, they answer as the walk does."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsarscope.dissect.frames import Note
from pulsarscope.protocols.pulsar.frame import fast_path as usual
from pulsarscope.protocols.pulsar.frame import pulsar_pb2 as pb
from pulsarscope.protocols.pulsar.frame.commands import Reader
from pulsarscope.protocols.pulsar.frame.protobuf import Plan, Plans, WireError, walk
from tests.encoder.chance import damaged, message_of, randoms

PLANS = Plans(show_secrets=True)
READERS: dict[str, tuple[Reader, Plan, int]] = {
    "SEND": (usual.send, PLANS.named("CommandSend"), usual.COMMAND_MIN_BYTES),
    "SEND_RECEIPT": (usual.send_receipt, PLANS.named("CommandSendReceipt"), usual.COMMAND_MIN_BYTES),
    "MESSAGE": (usual.message, PLANS.named("CommandMessage"), usual.COMMAND_MIN_BYTES),
    "PRODUCER": (usual.producer, PLANS.named("CommandProducer"), usual.COMMAND_MIN_BYTES),
    "PRODUCER_SUCCESS": (usual.producer_success, PLANS.named("CommandProducerSuccess"), usual.COMMAND_MIN_BYTES),
    "metadata": (usual.metadata, PLANS.named("MessageMetadata"), 0),
}
NUMBERS = (0, 1, 127, 128, 255, 16_383, 16_384, 2_097_151, 2_097_152, (1 << 28) - 1, 1 << 28, (1 << 32), (1 << 63) - 1, (1 << 64) - 1)
SIZES = st.sampled_from(NUMBERS) | st.integers(0, (1 << 64) - 1)

TOPICS = ("", "t", "persistent://public/default/topic", "é", "x" * 130)
PRODUCER_NAMES = ("", "p", "standalone-0-1", "é", "x" * 127, "x" * 128)

Answer = tuple[dict[str, Any], list[Note]] | str
REFUSED = "refused"


def answer(read: Reader, data: bytes, start: int, end: int, plan: Plan) -> Answer:
    notes: list[Note] = []
    try:
        return read(data, start, end, plan, notes), notes
    except WireError:
        return REFUSED
    except IndexError:  # the caller takes both for a refusal: only a reader may see the end of the buffer so
        assert read is not walk
        return REFUSED


def check(kind: str, body: bytes) -> None:
    """The reader and the walk agree on these bytes, alone and in front of others."""
    read, plan, smallest = READERS[kind]
    if len(body) < smallest:
        return
    want = answer(walk, body, 0, len(body), plan)
    for before in (b"", b"\x08"):
        for behind in (b"", b"\x00", b"\x01\x02\x03\x10\x18", b"\x7f" * 9, b"\xff" * 12):
            data = before + body + behind
            start = len(before)
            got = answer(read, data, start, start + len(body), plan)
            assert got == want, (kind, body.hex(), before, behind)


def number_fields(random: Random) -> dict[str, Any]:
    """Message ids with the fields that the usual form has, sometimes with more."""
    ident: dict[str, Any] = {"ledgerId": random.choice(NUMBERS), "entryId": random.choice(NUMBERS)}
    if random.random() < 0.3:
        ident["partition"] = random.choice((-1, 0, 5))
    if random.random() < 0.2:
        ident["batch_index"] = random.choice((-1, 0, 5))
    return ident


def usual_message(kind: str, random: Random) -> bytes:
    """A message around the usual form: its fields, and sometimes one more."""
    more = random.random() < 0.4
    message: Any
    if kind == "SEND":
        message = pb.CommandSend(producer_id=random.choice(NUMBERS[:4]), sequence_id=random.choice(NUMBERS))
        if more:
            message.num_messages = random.choice((-1, 1, 5, 300))
        if more and random.random() < 0.5:
            message.highest_sequence_id = random.choice(NUMBERS)
    elif kind == "SEND_RECEIPT":
        message = pb.CommandSendReceipt(producer_id=random.choice(NUMBERS[:4]), sequence_id=random.choice(NUMBERS))
        if random.random() < 0.9:
            message.message_id.CopyFrom(pb.MessageIdData(**number_fields(random)))
        if more:
            message.highest_sequence_id = random.choice(NUMBERS)
    elif kind == "MESSAGE":
        message = pb.CommandMessage(consumer_id=random.choice(NUMBERS[:4]), message_id=number_fields(random))
        if more:
            message.redelivery_count = random.choice((0, 1, 127, 128, (1 << 32) - 1))
        if more and random.random() < 0.4:
            message.ack_set.extend([-1, 5])
    elif kind == "PRODUCER":
        message = pb.CommandProducer(
            topic=random.choice(TOPICS), producer_id=random.choice(NUMBERS[:4]), request_id=random.choice((0, 1, 200))
        )
        if random.random() < 0.8:
            message.producer_name = random.choice(PRODUCER_NAMES)
        if random.random() < 0.6:
            message.encrypted, message.epoch = False, 0
        if more:
            message.MergeFrom(message_of(pb.CommandProducer.DESCRIPTOR, random))
    elif kind == "PRODUCER_SUCCESS":
        message = pb.CommandProducerSuccess(request_id=random.choice((0, 1, 200)))
        if random.random() < 0.9:
            message.producer_name = random.choice(PRODUCER_NAMES)
        if random.random() < 0.6:
            message.last_sequence_id, message.schema_version, message.producer_ready = -1, b"", True
        if more:
            message.MergeFrom(message_of(pb.CommandProducerSuccess.DESCRIPTOR, random))
    else:
        message = pb.MessageMetadata(
            producer_name=random.choice(("", "p", "standalone-0-1", "é", "x" * 127, "x" * 128, "y" * 300)),
            sequence_id=random.choice(NUMBERS),
            publish_time=random.choice((0, 1, 1_700_000_000_000, (1 << 35), (1 << 42) - 1, 1 << 42, (1 << 64) - 1)),
        )
        if more:
            rest = message_of(pb.MessageMetadata.DESCRIPTOR, random)
            for field, _ in rest.ListFields():
                if field.is_required:
                    rest.ClearField(field.name)
            return bytes(message.SerializeToString() + rest.SerializePartialToString())
    return bytes(message.SerializePartialToString())


@pytest.mark.parametrize("kind", READERS)
class TestAgreement:
    @given(random=randoms)
    @settings(max_examples=150)
    def test_the_usual_form_and_its_neighbours_read_as_the_walk_reads_them(self, kind: str, random: Random) -> None:
        check(kind, usual_message(kind, random))

    @given(random=randoms)
    @settings(max_examples=250)
    def test_damaged_ones_do_too(self, kind: str, random: Random) -> None:
        check(kind, damaged(usual_message(kind, random), random))

    @given(body=st.binary(min_size=1, max_size=30))
    @settings(max_examples=100)
    def test_any_bytes_do_too(self, kind: str, body: bytes) -> None:
        check(kind, body)

    def test_every_way_of_cutting_one_off_does_too(self, kind: str) -> None:
        for seed in range(25):
            body = usual_message(kind, Random(seed))  # noqa: S311 - for a test
            for end in range(len(body)):
                check(kind, body[:end])

    def test_every_single_byte_changed_to_an_extreme_does_too(self, kind: str) -> None:
        for seed in range(6):
            body = usual_message(kind, Random(seed))[:60]  # noqa: S311 - for a test
            for at in range(len(body)):
                for value in (0, 1, 0x7F, 0x80, 0xFF):
                    check(kind, body[:at] + bytes([value]) + body[at + 1 :])


@given(producer_id=SIZES, sequence_id=SIZES)
@settings(max_examples=60)
def test_ids_of_any_size_are_read(producer_id: int, sequence_id: int) -> None:
    check("SEND", pb.CommandSend(producer_id=producer_id, sequence_id=sequence_id).SerializeToString())


def test_the_usual_forms_are_what_they_should_be() -> None:
    """Not only equal to the walk, but right."""
    receipt = pb.CommandSendReceipt(producer_id=3, sequence_id=300, message_id={"ledgerId": 70_000, "entryId": 5})
    receipt.highest_sequence_id = (1 << 64) - 1
    data = receipt.SerializeToString()
    assert usual.send_receipt(data, 0, len(data), PLANS.named("CommandSendReceipt"), []) == {
        "producer_id": 3,
        "sequence_id": 300,
        "message_id": {"ledgerId": 70_000, "entryId": 5},
        "highest_sequence_id": -1,
    }
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1_700_000_000_123).SerializeToString()
    want = {"producer_name": "p", "sequence_id": 1, "publish_time": 1_700_000_000_123}
    assert usual.metadata(metadata, 0, len(metadata), PLANS.named("MessageMetadata"), []) == want


def test_remembered_times_do_not_grow_without_end() -> None:
    plan = PLANS.named("MessageMetadata")
    for time in range(1_700_000_000_000, 1_700_000_000_000 + 3 * usual._MEMO_MAX):
        data = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=time).SerializeToString()
        assert usual.metadata(data, 0, len(data), plan, [])["publish_time"] == time
    assert len(usual.TIMES) <= usual._MEMO_MAX


def test_every_reader_of_a_command_is_tested_here() -> None:
    assert usual.USUAL.keys() == READERS.keys() - {"metadata"}
