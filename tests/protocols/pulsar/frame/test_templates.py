"""Templates: whatever came before, the result is that of reading field by field."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings

from pulsarscope.dissect.contract.dissector import Layout
from pulsarscope.dissect.contract.frames import Decoded
from pulsarscope.protocols.pulsar.frame import fast_path, templates
from pulsarscope.protocols.pulsar.frame.decoder import FrameDecoder
from tests.scenarios import command_frame, message_metadata, payload_frame
from tests.scenarios.chance import damaged, randoms

DECODER = FrameDecoder()
"""A decoder that keeps what all examples have taught it."""

WIDTHS = (0, 100, 127, 128, 300, 16_383, 16_384, 100_000, 2_097_152, 1 << 35, 1 << 50, 1 << 63)


class Forgetful(dict[bytes, Layout]):
    """Templates that are never found."""

    def __setitem__(self, key: bytes, value: Layout) -> None:
        """Forget it at once."""


def plain_decoder() -> FrameDecoder:
    decoder = FrameDecoder()
    decoder.layouts = Forgetful()
    return decoder


PLAIN = plain_decoder()


def read(decoder: FrameDecoder, data: bytes, start: int, end: int) -> Decoded:
    """Read a frame as the splitter does."""
    template = decoder.layouts.get(data[start + templates.HEAD_START : start + templates.HEAD_END])
    return (template and template(data, start, end)) or decoder.decode(data, start, end)


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


def flow(random: Random) -> bytes:
    return command_frame("FLOW", consumer_id=random.randrange(3), messagePermits=random.choice((1, 500, 1000)))


KINDS = (send, receipt, message, ack, flow)


def check(frame: bytes) -> None:
    want = PLAIN.decode(frame, 0, len(frame))
    for before in (b"", b"\x00\x00"):
        for behind in (b"", b"\x01", b"\xff" * 40, frame):
            data = before + frame + behind
            assert read(DECODER, data, len(before), len(before) + len(frame)) == want, (frame.hex(), before, behind)


@pytest.mark.slow
@given(randoms)
@settings(max_examples=400)
def test_frames_read_by_a_template_say_what_they_say_field_by_field(random: Random) -> None:
    for _ in range(4):
        check(random.choice(KINDS)(random))


@pytest.mark.slow
@given(randoms)
@settings(max_examples=300)
def test_damaged_frames_do_too(random: Random) -> None:
    frame = random.choice(KINDS)(random)
    check(frame)
    frame = damaged(frame, random)
    if len(frame) >= 8:  # a splitter never passes on less
        check(frame)


@pytest.mark.slow
@given(randoms)
@settings(max_examples=300)
def test_a_frame_with_any_one_byte_changed_does_too(random: Random) -> None:
    frame = bytearray(random.choice(KINDS)(random))
    check(bytes(frame))
    frame[random.randrange(8, min(len(frame), 80))] ^= 1 << random.randrange(8)
    check(bytes(frame))


@pytest.mark.parametrize("metadata", [b"", b"\x0a", b"\x0a\x00", b"\x10\x01", b"\x18"])
@pytest.mark.parametrize("payload", [b"", b"x"])
def test_a_frame_without_the_metadata_of_a_template_leaves_none(metadata: bytes, payload: bytes) -> None:
    frame = payload_frame("SEND", metadata, payload, producer_id=1, sequence_id=300)
    decoder = FrameDecoder()
    assert decoder.decode(frame, 0, len(frame)) == PLAIN.decode(frame, 0, len(frame))
    assert not decoder.layouts


@pytest.mark.parametrize("kind", ["SEND", "batch", "keyed", "SEND_RECEIPT", "MESSAGE", "entry", "ACK", "FLOW"])
def test_the_second_frame_of_a_kind_is_read_by_the_template_of_the_first(kind: str) -> None:
    decoder = FrameDecoder()
    frames = []
    for sequence_id in (300, 301):
        more = {"properties": [{"key": "a", "value": str(sequence_id)}]} if kind == "keyed" else {}
        metadata = message_metadata(sequence_id=sequence_id, **more)
        ident = {"ledgerId": 5, "entryId": sequence_id}
        if kind in {"SEND", "batch", "keyed"}:
            count: dict[str, Any] = {"num_messages": 300} if kind == "batch" else {}
            frames.append(payload_frame("SEND", metadata, b"x", producer_id=1, sequence_id=sequence_id, **count))
        elif kind in {"MESSAGE", "entry"}:
            entry = {"broker_timestamp": 1_700_000_000_000 + sequence_id, "index": sequence_id} if kind == "entry" else None
            frames.append(payload_frame("MESSAGE", metadata, b"x", broker_entry=entry, consumer_id=1, message_id=ident))
        elif kind == "ACK":
            frames.append(command_frame("ACK", consumer_id=1, ack_type="Individual", message_id=[ident]))
        elif kind == "FLOW":
            frames.append(command_frame("FLOW", consumer_id=1, messagePermits=500))
        else:
            frames.append(command_frame("SEND_RECEIPT", producer_id=1, sequence_id=sequence_id, message_id=ident))
    first = decoder.decode(frames[0], 0, len(frames[0]))
    template = decoder.layouts[frames[0][4:15]]
    assert template(frames[0], 0, len(frames[0])) == first
    assert template(frames[1], 0, len(frames[1])) == PLAIN.decode(frames[1], 0, len(frames[1]))


def test_neither_templates_nor_values_are_kept_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "TEMPLATES_MAX", 5)
    monkeypatch.setattr(fast_path, "MEMO_MAX", 7)
    decoder = FrameDecoder()
    for count in range(60):
        frame = command_frame(
            "SEND_RECEIPT", producer_id=count, sequence_id=20_000 * count, message_id={"ledgerId": count, "entryId": 130 * count}
        )
        assert read(decoder, frame, 0, len(frame)) == PLAIN.decode(frame, 0, len(frame))
        assert len(decoder.layouts) <= 5
    for memo in (templates.HIGH_BYTES, templates.LEDGERS):
        memo.put(b"one more", 0)
        assert len(memo) <= 7
