"""Layouts: whatever was met before, the answer is that of reading field by field."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings

from pulsarscope.dissect.contract import Layout
from pulsarscope.dissect.frames import Decoded
from pulsarscope.protocols.pulsar.frame import fast_path as usual
from pulsarscope.protocols.pulsar.frame import templates as layouts
from pulsarscope.protocols.pulsar.frame.commands import REPEATED_COMMANDS
from pulsarscope.protocols.pulsar.frame.decoder import FrameDecoder
from tests.encoder import command_frame, message_metadata, payload_frame
from tests.encoder.chance import damaged, randoms
from tests.encoder.frames import sized
from tests.encoder.samples import VARIANTS, command

DECODER = FrameDecoder()
"""Remembers what all examples have brought."""

WIDTHS = (0, 100, 127, 128, 300, 16_383, 16_384, 100_000, 2_097_152, 1 << 35, 1 << 50, 1 << 63)


class Forgetful(dict[bytes, Layout]):
    """Layouts that are never found."""

    def __setitem__(self, key: bytes, value: Layout) -> None:
        """Forget it at once."""


def plain_decoder() -> FrameDecoder:
    decoder = FrameDecoder()
    decoder.layouts = Forgetful()
    return decoder


PLAIN = plain_decoder()


def read(decoder: FrameDecoder, data: bytes, start: int, end: int) -> Decoded:
    """As the splitter does it."""
    layout = decoder.layouts.get(data[start + layouts.HEAD_START : start + layouts.HEAD_END])
    return (layout and layout(data, start, end)) or decoder.decode(data, start, end)


def number(random: Random) -> int:
    return random.choice(WIDTHS) + random.randrange(1000)


def send(random: Random) -> bytes:
    sequence_id = number(random)
    same = sequence_id if random.random() < 0.8 else number(random)
    names = ("producer-1", "producer-2", "", "é", "a name" * 30)
    more: dict[str, Any] = random.choice(
        ({}, {}, {}, {"num_messages_in_batch": 3}, {"partition_key": "k"}, {"partition_key": "k", "schema_version": b"1"})
    )
    metadata = message_metadata(
        producer_name=random.choice(names), sequence_id=same, publish_time=1_700_000_000_000 + random.randrange(50), **more
    )
    fields: dict[str, Any] = random.choice(({}, {}, {}, {"num_messages": 3}, {"num_messages": 300}, {"highest_sequence_id": 700}))
    payload = random.randbytes(random.choice((0, 5, 5000)))
    return payload_frame("SEND", metadata, payload, producer_id=random.randrange(3), sequence_id=sequence_id, **fields)


def ident_of(random: Random) -> dict[str, Any]:
    ident: dict[str, Any] = {"ledgerId": number(random), "entryId": number(random)}
    return ident | random.choice(({}, {}, {}, {"partition": 2}, {"partition": -1}, {"batch_index": 7}))


def receipt(random: Random) -> bytes:
    fields: dict[str, Any] = random.choice(({}, {"highest_sequence_id": (1 << 64) - 1}, {"highest_sequence_id": number(random)}))
    ident = ident_of(random)
    return command_frame("SEND_RECEIPT", producer_id=random.randrange(3), sequence_id=number(random), message_id=ident, **fields)


def message(random: Random) -> bytes:
    same = random.random() < 0.5
    metadata = message_metadata(
        producer_name=random.choice(("producer-1", "b", "", "a name" * 30)),
        sequence_id=random.randrange(300) if same else number(random),
        publish_time=1_700_000_000_000 + random.randrange(50),
        **random.choice(({}, {}, {"partition_key": f"k{random.randrange(99)}"}, {"properties": [{"key": "a", "value": "b"}]})),
    )
    entry = random.choice(
        (None, None, {"broker_timestamp": 1_700_000_000_000 + random.randrange(50), "index": number(random)}, {"index": 7}, {})
    )
    fields: dict[str, Any] = random.choice(({}, {}, {}, {"redelivery_count": 3}, {"ack_set": [7]}))
    payload = random.randbytes(random.choice((0, 5, 5000)))
    ident = ident_of(random)
    return payload_frame("MESSAGE", metadata, payload, broker_entry=entry, consumer_id=random.randrange(3), message_id=ident, **fields)


def ack(random: Random) -> bytes:
    fields: dict[str, Any] = random.choice(({}, {}, {}, {"request_id": 5}, {"properties": [{"key": "a", "value": 3}]}))
    idents = [ident_of(random) for _ in range(random.choice((1, 1, 1, 0, 2)))]
    return command_frame(
        "ACK", consumer_id=random.randrange(3), ack_type=random.choice(("Individual", "Cumulative")), message_id=idents, **fields
    )


KINDS = (send, receipt, message, ack)


def check(frame: bytes) -> None:
    want = PLAIN.decode(frame, 0, len(frame))
    for before in (b"", b"\x00\x00"):
        for behind in (b"", b"\x01", b"\xff" * 40, frame):
            data = before + frame + behind
            assert read(DECODER, data, len(before), len(before) + len(frame)) == want, (frame.hex(), before, behind)


@given(randoms)
@settings(max_examples=400)
def test_frames_read_by_a_layout_say_what_they_say_field_by_field(random: Random) -> None:
    for _ in range(4):
        check(random.choice(KINDS)(random))


@given(randoms)
@settings(max_examples=300)
def test_damaged_frames_do_too(random: Random) -> None:
    frame = random.choice(KINDS)(random)
    check(frame)
    frame = damaged(frame, random)
    if len(frame) >= 8:  # a splitter never hands over less
        check(frame)


@given(randoms)
@settings(max_examples=300)
def test_a_frame_with_any_one_byte_changed_does_too(random: Random) -> None:
    frame = bytearray(random.choice(KINDS)(random))
    check(bytes(frame))
    frame[random.randrange(8, min(len(frame), 80))] ^= 1 << random.randrange(8)
    check(bytes(frame))


@pytest.mark.parametrize("metadata", [b"", b"\x0a", b"\x0a\x00", b"\x10\x01", b"\x18"])
@pytest.mark.parametrize("payload", [b"", b"x"])
def test_a_frame_without_the_metadata_of_a_layout_leaves_none(metadata: bytes, payload: bytes) -> None:
    frame = payload_frame("SEND", metadata, payload, producer_id=1, sequence_id=300)
    decoder = FrameDecoder()
    assert decoder.decode(frame, 0, len(frame)) == PLAIN.decode(frame, 0, len(frame))
    assert not decoder.layouts


@pytest.mark.parametrize("kind", ["SEND", "batch", "SEND_RECEIPT", "MESSAGE", "entry", "ACK"])
def test_the_second_frame_of_a_kind_is_read_by_the_layout_of_the_first(kind: str) -> None:
    decoder = FrameDecoder()
    decoder._usual = {}
    frames = []
    for sequence_id in (300, 301):
        metadata = message_metadata(sequence_id=sequence_id)
        ident = {"ledgerId": 5, "entryId": sequence_id}
        if kind in {"SEND", "batch"}:
            count: dict[str, Any] = {"num_messages": sequence_id} if kind == "batch" else {}
            frames.append(payload_frame("SEND", metadata, b"x", producer_id=1, sequence_id=sequence_id, **count))
        elif kind in {"MESSAGE", "entry"}:
            entry = {"broker_timestamp": 1_700_000_000_000 + sequence_id, "index": sequence_id} if kind == "entry" else None
            frames.append(payload_frame("MESSAGE", metadata, b"x", broker_entry=entry, consumer_id=1, message_id=ident))
        elif kind == "ACK":
            frames.append(command_frame("ACK", consumer_id=1, ack_type="Individual", message_id=[ident]))
        else:
            frames.append(command_frame("SEND_RECEIPT", producer_id=1, sequence_id=sequence_id, message_id=ident))
    first = decoder.decode(frames[0], 0, len(frames[0]))
    layout = decoder.layouts[frames[0][4:15]]
    assert layout(frames[0], 0, len(frames[0])) == first
    assert layout(frames[1], 0, len(frames[1])) == PLAIN.decode(frames[1], 0, len(frames[1]))


def test_neither_layouts_nor_values_are_kept_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layouts, "LAYOUTS_MAX", 5)
    monkeypatch.setattr(usual, "_MEMO_MAX", 7)
    decoder = FrameDecoder()
    for count in range(60):
        frame = command_frame(
            "SEND_RECEIPT", producer_id=count, sequence_id=20_000 * count, message_id={"ledgerId": count, "entryId": 130 * count}
        )
        assert read(decoder, frame, 0, len(frame)) == PLAIN.decode(frame, 0, len(frame))
        assert len(decoder.layouts) <= 5
    for memo in (usual.HIGHER, layouts._LEDGERS):
        memo.put(b"one more", 0)
        assert len(memo) <= 7


@pytest.mark.parametrize("variant", range(VARIANTS))
@pytest.mark.parametrize("name", sorted(REPEATED_COMMANDS))
def test_a_frame_met_before_reads_the_same_and_shares_nothing(name: str, variant: int) -> None:
    number = next(number for number, row in DECODER.commands.items() if row.name == name)
    base, _ = command(number, variant)
    frame = sized(sized(base.SerializePartialToString()))
    want = PLAIN.decode(frame, 0, len(frame))[1]
    for _ in range(3):
        fields = read(DECODER, frame, 0, len(frame))[1]
        assert fields is not None
        assert fields == want
        assert list(fields) == list(want or ())
        for value in fields.values():
            if isinstance(value, (dict, list)):
                value.clear()
        fields.clear()


def test_what_is_odd_about_a_repeated_frame_is_said_each_time() -> None:
    frame = sized(sized(bytes((8, 2, 18, 0))))
    for _ in range(3):
        assert read(DECODER, frame, 0, len(frame))[7] == [("required-field-missing", "CommandConnect.client_version")]


def test_more_frames_than_are_remembered_are_read_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layouts, "REPEATED_MAX", 5)
    decoder = FrameDecoder()
    for number in [*range(8), 1]:
        frame = command_frame("SUCCESS", request_id=number)
        assert read(decoder, frame, 0, len(frame))[1] == {"request_id": number}
        assert len(decoder._repeated._known) <= 5
