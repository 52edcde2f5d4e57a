"""One frame, from bytes to command, metadata and checksum verdict: for any bytes, and depending on the frame's own bytes alone."""

from __future__ import annotations

import struct
from random import Random
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pulsarscope.dissect.contract.frames import MALFORMED, OK, TRUNCATED, Decoded
from pulsarscope.model.records import Checksum
from pulsarscope.protocols.pulsar.frame.decoder import FrameDecoder
from tests.scenarios import Single, batch, command_frame, message_metadata, payload_frame
from tests.scenarios import pulsar_pb2 as pb
from tests.scenarios.chance import damaged, message_of, randoms
from tests.scenarios.frames import BROKER_ENTRY_MAGIC, CHECKSUM_MAGIC, base_command, sized
from tests.scenarios.samples import as_dict, command, delimited, tagged

DECODER = FrameDecoder(show_secrets=True)
NUMBERS = sorted(value.number for value in pb.BaseCommand.Type.DESCRIPTOR.values)
METADATA = message_metadata()
METADATA_FIELDS = {"producer_name": "producer-1", "sequence_id": 0, "publish_time": 1_700_000_000_000}
EXTREMES = (0, 1, 2, 3, 7, 127, 128, (1 << 31) - 1, 1 << 31, (1 << 31) + 1, (1 << 32) - 1)


def decode(frame: bytes) -> Decoded:
    return DECODER.decode(frame, 0, len(frame))


def codes(decoded: Decoded) -> list[str]:
    return [code for code, _ in decoded[7] or ()]


def checked(rest: bytes) -> bytes:
    return CHECKSUM_MAGIC + crc32c(rest).to_bytes(4, "big") + rest


def send(rest: bytes, base: bytes | None = None) -> bytes:
    """A SEND with any bytes after its command."""
    return sized(sized(base_command("SEND", producer_id=1, sequence_id=2) if base is None else base) + rest)


class TestPayloadFrames:
    @pytest.mark.parametrize("payload", [b"", b"x", b"x" * 4096, b"x" * 4097, b"x" * 100_000])
    @pytest.mark.parametrize("entry", [None, {"index": 5}, {"broker_timestamp": 1, "index": 1 << 40}])
    @pytest.mark.parametrize("checksum", [True, False, 0, 0xDEADBEEF])
    @pytest.mark.parametrize("name", ["SEND", "MESSAGE"])
    def test_each_part_is_found(self, name: str, checksum: bool | int, entry: dict[str, Any] | None, payload: bytes) -> None:
        fields: dict[str, Any] = (
            {"producer_id": 1, "sequence_id": 2} if name == "SEND" else {"consumer_id": 1, "message_id": {"ledgerId": 3, "entryId": 4}}
        )
        frame = payload_frame(name, METADATA, payload, checksum=checksum, broker_entry=entry, **fields)
        found, decoded_fields, found_entry, verdict, metadata, at, status, notes = decode(frame)
        assert (found, decoded_fields, found_entry, metadata, status) == (name, fields, entry, METADATA_FIELDS, OK)
        assert at is not None
        assert frame[at:] == payload
        rest = sized(METADATA) + payload
        computed = f"{crc32c(rest):08x}"
        if checksum is True:
            assert (verdict, notes) == (Checksum("good", computed, computed), None)
        elif checksum is False:
            assert verdict == Checksum("absent")
            assert notes == [("checksum-absent", "the frame carries no CRC32-C")]
        else:
            stored = f"{checksum:08x}"
            assert verdict == Checksum("bad", stored, computed)
            assert notes == [("checksum-mismatch", f"CRC32-C stored {stored}, computed {computed}")]

    def test_a_damaged_payload_is_seen_and_the_rest_is_still_decoded(self) -> None:
        frame = payload_frame("SEND", METADATA, b"payload", producer_id=1, sequence_id=2)
        decoded = decode(frame[:-1] + b"X")
        assert (decoded[0], decoded[4], decoded[6]) == ("SEND", METADATA_FIELDS, OK)
        assert codes(decoded) == ["checksum-mismatch"]

    def test_the_checksum_of_zero_can_be_right(self) -> None:
        for filler in range(1 << 16):
            rest = sized(METADATA) + filler.to_bytes(2, "big")
            if crc32c(rest) >> 24 == 0:
                break
        stored = f"{crc32c(rest):08x}"
        assert stored.startswith("00")
        assert decode(send(checked(rest)))[3] == Checksum("good", stored, stored)

    def test_a_frame_that_ends_behind_its_command_is_malformed(self) -> None:
        decoded = decode(command_frame("SEND", producer_id=1, sequence_id=2))
        assert decoded[0] == "SEND"
        assert decoded[1] == {"producer_id": 1, "sequence_id": 2}
        assert (decoded[4], decoded[5], decoded[6]) == (None, None, MALFORMED)
        assert codes(decoded) == ["frame-malformed"]

    @pytest.mark.parametrize("magic", [b"\x0e\x03", b"\x01\x0e", b"\x02\x0e", b"\x0e\x00"])
    def test_another_magic_is_read_as_the_size_of_the_metadata(self, magic: bytes) -> None:
        decoded = decode(send(magic + b"\x00\x00\x00\x00" + sized(METADATA) + b"payload"))
        assert (decoded[0], decoded[6], codes(decoded)) == ("SEND", MALFORMED, ["frame-malformed"])

    @pytest.mark.parametrize("size", EXTREMES)
    def test_any_size_of_the_metadata_gives_an_answer(self, size: int) -> None:
        rest = struct.pack(">I", size) + METADATA + b"payload"
        decoded = decode(send(checked(rest)))
        assert (decoded[0], decoded[3]) == ("SEND", Checksum("good", *[f"{crc32c(rest):08x}"] * 2))
        if size > len(METADATA) + 7:
            assert decoded[6] == MALFORMED
            assert f"metadata size {size:,} is larger" in (decoded[7] or [("", "")])[0][1]
        if size == 0:
            assert decoded[4] == {}
            assert codes(decoded) == ["required-field-missing"] * 3

    @pytest.mark.parametrize("size", EXTREMES)
    def test_any_size_of_the_broker_entry_metadata_gives_an_answer(self, size: int) -> None:
        rest = checked(sized(METADATA) + b"payload")
        entry = pb.BrokerEntryMetadata(index=3).SerializeToString()
        decoded = decode(send(BROKER_ENTRY_MAGIC + struct.pack(">I", size) + entry + rest))
        assert decoded[0] == "SEND"
        assert decoded[6] in (OK, MALFORMED)
        if size > len(entry) + len(rest):
            assert f"broker entry metadata size {size:,} is larger" in (decoded[7] or [("", "")])[0][1]

    def test_metadata_to_the_very_end_is_an_empty_payload(self) -> None:
        decoded = decode(send(checked(sized(METADATA))))
        assert (decoded[4], decoded[6]) == (METADATA_FIELDS, OK)
        assert decoded[5] == len(send(checked(sized(METADATA))))

    def test_metadata_without_its_required_fields_is_noted(self) -> None:
        decoded = decode(send(checked(sized(pb.MessageMetadata(sequence_id=1).SerializePartialToString()) + b"x")))
        assert (decoded[4], decoded[6]) == ({"sequence_id": 1}, OK)
        assert decoded[7] == [
            ("required-field-missing", "MessageMetadata.producer_name"),
            ("required-field-missing", "MessageMetadata.publish_time"),
        ]

    @pytest.mark.parametrize("length", range(10))
    def test_a_frame_that_ends_within_what_follows_the_command_is_malformed(self, length: int) -> None:
        decoded = decode(send(checked(sized(METADATA))[:length]))
        assert (decoded[0], decoded[6]) == ("SEND", MALFORMED)


class TestCommands:
    def test_a_command_of_a_later_version_keeps_its_number(self) -> None:
        """upb alone reads such a type as CONNECT, the default of the enum."""
        frame = sized(sized(b"\x08" + b"\xc8\x01"))
        assert pb.BaseCommand.FromString(frame[8:]).type == pb.BaseCommand.CONNECT
        assert decode(frame) == ("UNKNOWN_200", {}, None, None, None, None, OK, [("unknown-command", "command type 200")])

    def test_its_body_is_kept(self) -> None:
        frame = sized(sized(b"\x08\xc8\x01" + delimited(200, b"\x08\x01") + tagged(201, 0) + b"\x07"))
        assert decode(frame)[1] == {"unknown": {"200": [b"\x08\x01"], "201": [7]}}

    @pytest.mark.parametrize("number", [0, 1, max(NUMBERS) + 1, 127, 128, (1 << 31) - 1])
    def test_any_number_without_a_name_is_an_unknown_command(self, number: int) -> None:
        assert number not in NUMBERS
        base = bytearray(b"\x08")
        base += tagged(number >> 3, number & 7)  # a varint with this field number
        assert decode(sized(sized(bytes(base))))[0] == f"UNKNOWN_{number}"

    def test_a_negative_number_is_one_too(self) -> None:
        assert decode(sized(sized(b"\x08" + b"\xff" * 9 + b"\x01")))[0] == "UNKNOWN_-1"

    def test_a_command_without_a_type_is_malformed(self) -> None:
        decoded = decode(sized(sized(b"")))
        assert decoded == (None, None, None, None, None, None, MALFORMED, [("required-field-missing", "BaseCommand has no type")])
        base = base_command("PING")[2:]
        assert decode(sized(sized(base)))[6:] == (MALFORMED, [("required-field-missing", "BaseCommand has no type")])

    def test_of_two_types_the_last_counts(self) -> None:
        base = b"\x08\x12" + base_command("PONG")
        assert decode(sized(sized(base)))[0] == "PONG"

    def test_another_body_than_the_type_s_is_noted(self) -> None:
        ping = base_command("PING")
        decoded = decode(sized(sized(b"\x08\x13" + ping[2:])))
        assert (decoded[0], decoded[1], decoded[6]) == ("PONG", None, MALFORMED)
        assert decoded[7] == [("body-mismatch", "type says PONG, the command holds ping")]

    def test_a_second_body_is_noted_and_the_type_s_is_believed(self) -> None:
        base = base_command("SUCCESS", request_id=4) + base_command("PING")[2:]
        decoded = decode(sized(sized(base)))
        assert (decoded[0], decoded[1], decoded[6]) == ("SUCCESS", {"request_id": 4}, OK)
        assert codes(decoded) == ["body-mismatch"]

    def test_unknown_fields_beside_and_within_the_body_are_kept(self) -> None:
        body = pb.CommandSuccess(request_id=4).SerializeToString() + tagged(99, 0) + b"\x01"
        base = b"\x08\x0d" + delimited(13, body) + tagged(98, 0) + b"\x02"
        decoded = decode(sized(sized(base)))
        assert (decoded[0], decoded[6]) == ("SUCCESS", OK)
        assert decoded[1] == {"request_id": 4, "unknown": {"99": [1], "98": [2]}}

    def test_an_unknown_field_is_no_body(self) -> None:
        decoded = decode(sized(sized(b"\x08\x03" + tagged(201, 0) + b"\x07")))
        assert (decoded[0], decoded[6]) == ("CONNECTED", MALFORMED)
        assert codes(decoded) == ["body-mismatch"]

    def test_bytes_behind_a_command_without_payload_are_noted(self) -> None:
        decoded = decode(sized(sized(base_command("PING")) + b"abc"))
        assert (decoded[0], decoded[6], decoded[7]) == ("PING", OK, [("trailing-bytes", "3 bytes behind the command")])

    @pytest.mark.parametrize("size", [6, 100, *EXTREMES[7:]])
    def test_a_command_larger_than_its_frame_is_malformed(self, size: int) -> None:
        frame = sized(struct.pack(">I", size) + base_command("PING"))
        decoded = decode(frame)
        assert decoded[:7] == (None, None, None, None, None, None, MALFORMED)
        assert decoded[7] == [("frame-malformed", f"commandSize {size:,} is larger than the frame")]

    def test_a_body_of_128_bytes_and_more_has_a_length_of_two_bytes(self) -> None:
        """In the usual form, the length byte alone is not the length if its high bit is set."""
        body = pb.CommandSend(producer_id=1, sequence_id=2).SerializeToString() + delimited(127, b"x" * 191)
        assert 128 <= len(body) < 256
        one_byte = b"\x08\x06\x32" + bytes([len(body)]) + body
        decoded = decode(send(checked(sized(METADATA) + b"x"), one_byte))
        assert (decoded[0], decoded[6]) == (None, MALFORMED)
        decoded = decode(send(checked(sized(METADATA) + b"x"), b"\x08\x06" + delimited(6, body)))
        assert (decoded[0], decoded[6]) == ("SEND", OK)

    @pytest.mark.parametrize("size", range(9))
    def test_frames_of_a_few_bytes_give_an_answer(self, size: int) -> None:
        for filler in (b"\x00", b"\x08", b"\x12", b"\x80", b"\xff"):
            assert decode(sized(struct.pack(">I", size) + filler * size))[6] in (OK, MALFORMED)

    def test_secrets_are_hidden_unless_asked_for(self) -> None:
        frame = command_frame("CONNECT", client_version="x", auth_data=b"secret")
        hidden = FrameDecoder().decode(frame, 0, len(frame))[1]
        shown = DECODER.decode(frame, 0, len(frame))[1]
        assert hidden == {"client_version": "x", "auth_data": "redacted (6 bytes)"}
        assert shown == {"client_version": "x", "auth_data": b"secret"}


class TestTruncatedFrames:
    FRAME = payload_frame("SEND", METADATA, b"payload" * 10, producer_id=1, sequence_id=2)

    def partial(self, length: int) -> Decoded:
        return DECODER.decode_partial(self.FRAME[:length], 0, length)

    def test_a_longer_head_gives_more_fields(self) -> None:
        command_end = 8 + int.from_bytes(self.FRAME[4:8], "big")
        metadata_end = command_end + 10 + len(METADATA)
        for length in range(len(self.FRAME)):
            command_name, _, _, checksum, metadata, at, status, notes = self.partial(length)
            assert status == TRUNCATED
            assert (command_name == "SEND") == (length >= command_end)
            assert (metadata == METADATA_FIELDS) == (length >= metadata_end)
            assert at == (metadata_end if length >= metadata_end else None)
            if metadata is not None:
                assert checksum is not None
                assert (checksum.status, checksum.computed) == ("unverified", None)
            assert notes is None

    def test_the_head_of_a_command_without_payload_gives_nothing(self) -> None:
        frame = command_frame("PING")
        for length in range(len(frame)):
            assert DECODER.decode_partial(frame[:length], 0, length) == (None,) * 6 + (TRUNCATED, None)

    @given(st.binary(max_size=80))
    @settings(max_examples=200)
    def test_any_bytes_give_an_answer(self, data: bytes) -> None:
        assert DECODER.decode_partial(data, 0, len(data))[6] == TRUNCATED

    @given(randoms)
    @settings(max_examples=150)
    def test_damaged_heads_do_too(self, random: Random) -> None:
        data = damaged(frame_of(random), random)
        assert DECODER.decode_partial(data, 0, len(data))[6] == TRUNCATED


def frame_of(random: Random) -> bytes:
    """Any valid frame: any command, any metadata, any payload."""
    number = 6 if random.random() < 0.3 else 9 if random.random() < 0.3 else random.choice(NUMBERS)
    base: Any = pb.BaseCommand(type=number)
    field = pb.BaseCommand.DESCRIPTOR.fields_by_number[number]
    assert field.message_type is not None
    getattr(base, field.name).CopyFrom(message_of(field.message_type, random, complete=True))
    getattr(base, field.name).SetInParent()
    if random.random() < 0.5:  # the usual forms
        if number == 6:
            base.send.CopyFrom(pb.CommandSend(producer_id=random.randrange(200), sequence_id=random.randrange(1 << 30)))
        if number == 9:
            ident = {"ledgerId": random.randrange(1 << 20), "entryId": random.randrange(1 << 10)}
            base.message.CopyFrom(pb.CommandMessage(consumer_id=random.randrange(200), message_id=ident))
    data = base.SerializeToString()
    if number not in (6, 9):
        return sized(sized(data))
    metadata = METADATA if random.random() < 0.3 else message_of(pb.MessageMetadata.DESCRIPTOR, random, complete=True).SerializeToString()
    payload = random.choice((b"", b"x", batch([Single(b"a"), Single(b"bc")]), random.randbytes(200)))
    rest = sized(metadata) + payload
    if random.random() < 0.8:
        rest = checked(rest)
    if random.random() < 0.3:
        rest = BROKER_ENTRY_MAGIC + sized(pb.BrokerEntryMetadata(index=random.randrange(1 << 40)).SerializeToString()) + rest
    return sized(sized(data) + rest)


def repaired(frame: bytes) -> bytes:
    """The frame with a correct totalSize, and a correct checksum if it has one."""
    frame = struct.pack(">I", len(frame) - 4) + frame[4:]
    at = 8 + int.from_bytes(frame[4:8], "big")
    if frame[at : at + 2] == BROKER_ENTRY_MAGIC:
        at += 6 + int.from_bytes(frame[at + 2 : at + 6], "big")
    if frame[at : at + 2] == CHECKSUM_MAGIC and at + 6 <= len(frame):
        frame = frame[: at + 2] + crc32c(frame[at + 6 :]).to_bytes(4, "big") + frame[at + 6 :]
    return frame


def sizes_in(frame: bytes) -> list[int]:
    """Positions of all 32-bit sizes of a valid frame."""
    found = [4]
    at = 8 + int.from_bytes(frame[4:8], "big")
    if frame[at : at + 2] == BROKER_ENTRY_MAGIC:
        found.append(at + 2)
        at += 6 + int.from_bytes(frame[at + 2 : at + 6], "big")
    if frame[at : at + 2] == CHECKSUM_MAGIC:
        at += 6
    if at < len(frame):
        found.append(at)
    return found


def check_anywhere(frame: bytes) -> Decoded:
    """The result, which must be well-formed, and the same wherever the frame is."""
    alone = decode(frame)
    for before in (b"", b"\x08", b"12345"):
        for behind in (b"", b"\x00", b"\x0e\x01\x00\x00\x00\x00", b"\x0e\x02\x00\x00\x00\x01", b"\x7f" * 12, b"\xff" * 24, frame):
            data = before + frame + behind
            again = DECODER.decode(data, len(before), len(before) + len(frame))
            assert repr(again) == repr(alone), (frame.hex(), before, behind)  # as text: NaN is not equal to itself
    name, fields, _, checksum, metadata, at, status, notes = alone
    assert status in (OK, MALFORMED)
    assert (status == OK) <= (name is not None and fields is not None)
    assert (at is not None) == (metadata is not None)
    assert at is None or 8 <= at <= len(frame)
    assert checksum is None or name in ("SEND", "MESSAGE")
    assert notes is None or notes
    if status == MALFORMED:
        assert notes
    return alone


class TestEveryFrame:
    """Results for any bytes, which depend on nothing but the frame's own bytes."""

    @pytest.mark.slow
    @given(randoms)
    @settings(max_examples=250)
    def test_a_valid_one_decodes_to_what_upb_says(self, random: Random) -> None:
        frame = frame_of(random)
        end = 8 + int.from_bytes(frame[4:8], "big")
        base = pb.BaseCommand.FromString(frame[8:end])
        name, fields, _, _, metadata, at, status, notes = check_anywhere(frame)
        kind = pb.BaseCommand.Type.Name(base.type)
        body = getattr(base, pb.BaseCommand.DESCRIPTOR.fields_by_number[base.type].name)
        assert (name, fields, status) == (kind, as_dict(body), OK)
        assert {code for code, _ in notes or ()} <= {"checksum-absent"}
        if kind in ("SEND", "MESSAGE"):
            assert at is not None
            size_at = sizes_in(frame)[-1]
            assert metadata == as_dict(pb.MessageMetadata.FromString(frame[size_at + 4 : at]))

    @pytest.mark.slow
    @given(randoms)
    @settings(max_examples=300)
    def test_a_damaged_one_gives_an_answer(self, random: Random) -> None:
        frame = damaged(frame_of(random), random)
        if len(frame) >= 8:
            check_anywhere(frame)
            check_anywhere(repaired(frame))

    @pytest.mark.slow
    @given(randoms, st.sampled_from([-1, 0, 1, 2, 5]))
    @settings(max_examples=60)
    def test_one_with_any_of_its_sizes_wrong_gives_an_answer(self, random: Random, by: int) -> None:
        frame = frame_of(random)
        for at in sizes_in(frame):
            right = int.from_bytes(frame[at : at + 4], "big")
            for size in ((right + by) & 0xFFFF_FFFF, *EXTREMES):
                check_anywhere(repaired(frame[:at] + struct.pack(">I", size) + frame[at + 4 :]))

    @pytest.mark.slow
    @given(st.binary(min_size=8, max_size=64))
    @settings(max_examples=200)
    @example(b"\x00\x00\x00\x0c\x00\x00\x00\x08\x08\x0e\x72\x04\x08\x01\x10\xe3")
    @example(b"\x00\x00\x00\x04\x00\x00\x00\x00")
    def test_any_bytes_give_an_answer(self, data: bytes) -> None:
        check_anywhere(data)
        check_anywhere(sized(sized(data)))
        check_anywhere(send(data))

    @pytest.mark.parametrize("number", NUMBERS)
    def test_every_command_cut_off_anywhere_gives_an_answer(self, number: int) -> None:
        base = command(number, 1, required_only=True)[0].SerializeToString()
        for end in range(min(len(base), 60)):
            check_anywhere(sized(sized(base[:end])))

    def test_what_is_believed_when_upb_refuses_is_nothing(self) -> None:
        """A command that upb cannot parse is never accepted."""
        for seed in range(300):
            random = Random(seed)  # noqa: S311 - for a test
            base = damaged(base_command("ACK", consumer_id=1, ack_type="Individual", message_id=[{"ledgerId": 1, "entryId": 2}]), random)
            try:
                pb.BaseCommand.FromString(base)
            except Exception:  # noqa: BLE001 - whatever it is that upb raises
                decoded = decode(sized(sized(base)))
                assert (decoded[0], decoded[6]) == (None, MALFORMED)


class TestLongCommands:
    """Commands with a body of more than 127 bytes."""

    ACK = command_frame(
        "ACK", consumer_id=1, ack_type="Individual", message_id=[{"ledgerId": 5, "entryId": entry} for entry in range(100, 400)]
    )

    @pytest.mark.parametrize("before", [0, 7])
    def test_the_reference_is_not_asked_for_the_common_form(self, before: int, monkeypatch: pytest.MonkeyPatch) -> None:
        frame = self.ACK
        expected = DECODER.decode_by_reference(frame)
        monkeypatch.setattr(FrameDecoder, "decode_by_reference", None)
        assert DECODER.decode(bytes(before) + frame + frame, before, before + len(frame)) == expected

    @given(st.integers(0, len(ACK) - 1), st.integers(0, 255))
    def test_any_byte_of_them_may_be_another(self, at: int, byte: int) -> None:
        frame = self.ACK[:at] + bytes([byte]) + self.ACK[at + 1 :]
        assert DECODER.decode(frame + self.ACK, 0, len(frame)) == DECODER.decode_by_reference(frame)

    @pytest.mark.parametrize("more", [b"\0", b"\x08\x06"])
    def test_what_follows_them_is_seen(self, more: bytes) -> None:
        for frame in (sized(self.ACK[4:] + more), sized(sized(self.ACK[8:] + more))):
            assert decode(frame) == DECODER.decode_by_reference(frame)
