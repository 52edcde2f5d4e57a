"""Protobuf bytes to dicts, compared with upb, the reference implementation, on valid, odd and damaged messages."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsarscope.dissect.contract.frames import Note
from pulsarscope.protocols.pulsar.frame.protobuf import Plans, WireError, varint, walk
from tests.scenarios import pulsar_pb2 as pb
from tests.scenarios.chance import damaged, message_of, randoms
from tests.scenarios.samples import GROUP, RECURSION, VARIANTS, as_dict, delimited, filled, new, tagged
from tests.scenarios.samples import varint as encoded

PLANS = Plans(show_secrets=True)
DESCRIPTORS = pb.DESCRIPTOR.message_types_by_name
NAMES = sorted(DESCRIPTORS)
DEPTH_MAX = 100
"""Number of nested messages that protobuf's implementations accept below the outermost one."""


def read(name: str, data: bytes) -> tuple[dict[str, Any], list[Note]]:
    notes: list[Note] = []
    return walk(data, 0, len(data), PLANS.named(name), notes), notes


def upb(name: str, data: bytes) -> dict[str, Any] | None:
    """The result of upb; None if it refuses the bytes."""
    message = new(DESCRIPTORS[name])
    try:
        message.ParseFromString(data)
    except DecodeError:
        return None
    return as_dict(message)


@pytest.mark.parametrize("variant", range(VARIANTS))
@pytest.mark.parametrize("name", NAMES)
def test_a_message_with_every_field_set_reads_as_upb_reads_it(name: str, variant: int) -> None:
    message = filled(name, variant)
    fields, notes = read(name, message.SerializePartialToString())
    assert fields == as_dict(message)
    required = {note for code, note in notes if code == "required-field-missing"}
    assert [code for code, _ in notes if code != "required-field-missing"] == []
    # A required field may be missing only where the sample stopped nesting a message in itself.
    assert required == set()


@pytest.mark.parametrize("name", NAMES)
def test_a_message_of_its_required_fields_alone_lacks_nothing(name: str) -> None:
    message = filled(name, 1, required_only=True)
    assert message.IsInitialized()
    assert read(name, message.SerializePartialToString()) == (as_dict(message), [])


@pytest.mark.parametrize("name", NAMES)
def test_every_missing_required_field_is_named(name: str) -> None:
    wanted = [f"{name}.{field.name}" for field in DESCRIPTORS[name].fields if field.is_required]
    assert read(name, b"") == ({}, [("required-field-missing", field) for field in wanted])


@pytest.mark.parametrize("name", NAMES)
def test_each_required_field_that_is_left_out_is_the_one_named(name: str) -> None:
    for field in DESCRIPTORS[name].fields:
        if field.is_required:
            message = filled(name, 1, required_only=True)
            message.ClearField(field.name)
            assert read(name, message.SerializePartialToString()) == (
                as_dict(message),
                [("required-field-missing", f"{name}.{field.name}")],
            )


def test_the_fields_come_in_the_order_of_the_wire() -> None:
    fields, _ = read("CommandSend", b"\x10\x05\x08\x07\x18\x01")
    assert list(fields) == ["sequence_id", "producer_id", "num_messages"]


def test_plans_are_made_once() -> None:
    plans = Plans(show_secrets=False)
    assert plans.named("CommandSend") is plans.named("CommandSend")
    row = plans.named("CommandSend").rows[9 << 3 | 2]
    assert (row.name, row.extra) == ("message_id", plans.named("MessageIdData"))


class TestSecrets:
    def test_credentials_are_replaced_by_their_size(self) -> None:
        notes: list[Note] = []
        data = pb.CommandConnect(client_version="x", auth_data=b"top secret", original_auth_data="also").SerializePartialToString()
        fields = walk(data, 0, len(data), Plans(show_secrets=False).named("CommandConnect"), notes)
        assert fields == {"client_version": "x", "auth_data": "redacted (10 bytes)", "original_auth_data": "redacted (4 bytes)"}
        assert "secret" not in repr(fields)

    def test_the_answers_to_a_challenge_are_credentials_too(self) -> None:
        message = pb.CommandAuthResponse(response=pb.AuthData(auth_method_name="token", auth_data=b"top secret"))
        data = message.SerializePartialToString()
        fields = walk(data, 0, len(data), Plans(show_secrets=False).named("CommandAuthResponse"), [])
        assert fields == {"response": {"auth_method_name": "token", "auth_data": "redacted (10 bytes)"}}

    def test_they_are_shown_when_asked_for(self) -> None:
        data = pb.CommandConnect(client_version="x", auth_data=b"top secret").SerializePartialToString()
        assert read("CommandConnect", data)[0]["auth_data"] == b"top secret"


class TestNumbers:
    @pytest.mark.parametrize(
        "value", [0, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, (1 << 28) - 1, 1 << 28, 1 << 63, (1 << 64) - 1]
    )
    def test_a_varint_of_any_length_reads_back(self, value: int) -> None:
        assert varint(encoded(value), 0) == (value, len(encoded(value)))
        signed = value - (1 << 64) if value >> 63 else value
        assert read("CommandCloseProducer", b"\x08" + encoded(value) + b"\x10\x00")[0]["producer_id"] == signed

    @pytest.mark.parametrize("data", [b"\x82\x80\x00", b"\x82\x80\x80\x80\x00", b"\x82" + b"\x80" * 8 + b"\x00"])
    def test_a_varint_longer_than_it_need_be_reads_as_its_value(self, data: bytes) -> None:
        body = b"\x08" + data + b"\x10\x00"
        assert read("CommandSend", body)[0] == upb("CommandSend", body) == {"producer_id": 2, "sequence_id": 0}

    @pytest.mark.parametrize("length", range(11, 16))
    @pytest.mark.parametrize("tag", [b"\x08", b"\xf8\x07", b"\x1a"], ids=["known", "unknown", "length"])
    def test_a_varint_of_eleven_bytes_is_none(self, tag: bytes, length: int) -> None:
        body = tag + b"\x80" * (length - 1) + b"\x01" + b"\x10\x00"
        assert upb("CommandSend", body) is None
        with pytest.raises(WireError):
            read("CommandSend", body)

    def test_a_tag_of_eleven_bytes_is_none(self) -> None:
        with pytest.raises(WireError):
            read("CommandSend", b"\x88" + b"\x80" * 9 + b"\x01\x00\x10\x00")

    def test_the_low_bits_of_a_number_too_large_for_its_type_count(self) -> None:
        body = b"\x08\x01\x10\x01" + b"\x18" + encoded((1 << 35) + 7)  # CommandSend.num_messages, int32
        assert read("CommandSend", body)[0] == upb("CommandSend", body)
        assert read("CommandSend", body)[0]["num_messages"] == 7

    def test_a_negative_number_takes_ten_bytes_or_five(self) -> None:
        for data in (encoded(-5), encoded((1 << 32) - 5)):
            body = b"\x08\x01\x10\x01\x18" + data
            assert read("CommandSend", body)[0] == upb("CommandSend", body)
            assert read("CommandSend", body)[0]["num_messages"] == -5

    @pytest.mark.parametrize("value", [0.1, -0.1, 1e-300, float("inf"), 3.0, 2.0**60 + 12345, -1.9999999999999998])
    def test_a_double_is_eight_bytes_whatever_they_are(self, value: float) -> None:
        message = pb.CommandConsumerStatsResponse(request_id=1, msgRateOut=value, msgThroughputOut=value, msgBacklog=7)
        assert read("CommandConsumerStatsResponse", message.SerializePartialToString()) == (as_dict(message), [])

    @given(st.binary(min_size=8, max_size=8))
    @settings(max_examples=60)
    def test_any_eight_bytes_are_a_double_and_the_field_behind_it_is_read(self, raw: bytes) -> None:
        body = b"\x08\x01" + tagged(4, 1) + raw + tagged(15, 0) + b"\x09"
        fields, _ = read("CommandConsumerStatsResponse", body)
        want = upb("CommandConsumerStatsResponse", body)
        assert want is not None
        assert repr(fields) == repr(want)  # NaN is not equal to itself

    def test_a_boolean_is_true_for_any_number_but_zero(self) -> None:
        for number in (0, 1, 2, 1 << 40):
            body = b"\x08\x01\x10\x01" + tagged(7, 0) + encoded(number)  # is_chunk
            assert read("CommandSend", body)[0]["is_chunk"] is (number != 0)
            assert read("CommandSend", body)[0] == upb("CommandSend", body)


class TestEnums:
    def test_a_number_without_a_name_is_kept_and_noted(self) -> None:
        fields, notes = read("CommandError", b"\x08\x01\x10\x63\x1a\x00")
        assert fields == {"request_id": 1, "error": "Unknown(99)", "message": ""}
        assert notes == [("unknown-enum", "CommandError.error = 99")]

    def test_a_negative_number_is_shown_as_such(self) -> None:
        fields, notes = read("CommandError", b"\x08\x01\x10" + encoded(-3) + b"\x1a\x00")
        assert fields["error"] == "Unknown(-3)"
        assert notes == [("unknown-enum", "CommandError.error = -3")]

    def test_only_the_low_32_bits_of_a_number_count(self) -> None:
        body = b"\x08\x01\x10" + encoded((1 << 32) + 2) + b"\x1a\x00"
        assert read("CommandError", body)[0] == upb("CommandError", body)
        assert read("CommandError", body)[0]["error"] == "PersistenceError"

    def test_a_value_without_a_name_wins_over_the_known_one_before_it(self) -> None:
        """Unlike upb, which keeps the known one: a peer that knows the value uses the last one."""
        assert read("CommandError", b"\x08\x01\x10\x02\x10\x63\x1a\x00")[0]["error"] == "Unknown(99)"


class TestText:
    def test_text_that_is_not_utf8_is_escaped_and_noted(self) -> None:
        body = delimited(1, b"a\xff\xfeb") + b"\x10\x01\x18\x02"
        fields, notes = read("CommandProducer", body)
        assert fields["topic"] == "a\\xff\\xfeb"
        assert notes[0] == ("invalid-utf8", "CommandProducer.topic")
        assert fields == upb("CommandProducer", body)

    def test_any_text_that_is_utf8_is_left_as_it_is(self) -> None:
        text = "\x00\x1b[2J\u202e\n🚀"
        assert (
            read("CommandProducer", pb.CommandProducer(topic=text, producer_id=1, request_id=1).SerializePartialToString())[0]["topic"]
            == text
        )

    @pytest.mark.parametrize("text", [b"\xed\xa0\x80", b"\xc0\x80", b"\xf8\x88\x80\x80\x80", b"\xe2\x82"])
    def test_surrogates_and_overlong_forms_are_no_utf8(self, text: bytes) -> None:
        assert ("invalid-utf8", "CommandProducer.topic") in read("CommandProducer", delimited(1, text) + b"\x10\x01\x18\x02")[1]


UNKNOWN_FIELDS = {
    "varint": (tagged(200, 0) + encoded(5), 5),
    "large varint": (tagged(200, 0) + encoded((1 << 64) - 1), -1),
    "fixed64": (tagged(200, 1) + b"12345678", b"12345678"),
    "bytes": (delimited(200, b"abc"), b"abc"),
    "no bytes": (delimited(200, b""), b""),
    "fixed32": (tagged(200, 5) + b"1234", b"1234"),
    "group": (tagged(200, 3) + b"\x08\x01\x12\x02hi\x1d....\x21........" + tagged(200, 4), GROUP),
    "group in a group": (tagged(200, 3) + b"\x0b\x0c" + tagged(200, 4), GROUP),
}


class TestUnknownFields:
    @pytest.mark.parametrize("kind", UNKNOWN_FIELDS)
    @pytest.mark.parametrize("first", [True, False], ids=["first", "last"])
    def test_they_are_kept_with_their_value(self, kind: str, first: bool) -> None:
        extra, value = UNKNOWN_FIELDS[kind]
        body = extra + b"\x08\x01\x10\x02" if first else b"\x08\x01\x10\x02" + extra
        fields, notes = read("CommandSend", body)
        assert notes == []
        kept = fields.pop("unknown")
        assert fields == {"producer_id": 1, "sequence_id": 2}
        if value == GROUP:
            assert kept == {"200": [extra[2:]]}
            kept = {"200": [GROUP]}
        assert kept == {"200": [value]}
        assert {**fields, "unknown": kept} == upb("CommandSend", body)

    def test_several_of_one_number_are_all_kept(self) -> None:
        body = b"\x08\x01" + tagged(100, 0) + b"\x07" + delimited(100, b"x") + tagged(101, 0) + b"\x01"
        assert read("CommandSend", body + b"\x10\x00")[0]["unknown"] == {"100": [7, b"x"], "101": [1]}

    @pytest.mark.parametrize(
        ("message", "body"),
        [
            ("CommandSend", b"\x0a\x01a\x10\x01"),  # producer_id as bytes
            ("CommandProducer", b"\x08\x05\x10\x01\x18\x01"),  # topic as a number
            ("CommandAck", b"\x08\x01\x10\x00\x18\x05"),  # message_id as a number
            ("CommandConsumerStatsResponse", b"\x08\x01\x20\x05"),  # a double as a varint
            ("CommandSend", b"\x0d....\x10\x01"),
        ],
    )
    def test_a_known_field_of_another_wire_type_is_an_unknown_one(self, message: str, body: bytes) -> None:
        assert read(message, body)[0] == upb(message, body)
        assert "unknown" in read(message, body)[0]

    @pytest.mark.parametrize(
        "body",
        [
            b"\x00\x01",  # field number 0
            b"\x02\x00",
            b"\x0e\x01",  # wire type 6
            b"\x0f\x01",
            b"\x0c",  # a group's end without a start
            b"\x0b\x08\x01",  # a group without an end
            b"\x0b\x14",  # another group's end
            b"\x0b\x0e\x0c",  # wire type 6 in a group
            b"\x12\x05ab",  # bytes after the end
            tagged(200, 2) + b"\x05ab",
            tagged(200, 1) + b"1234567",
            tagged(200, 5) + b"123",
            b"\x08",  # a tag without a value
            b"\x08\x80",
            b"\x80",
            b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # a length of 2^64 - 1
            tagged(200, 2) + b"\xff" * 9 + b"\x01",
            b"\x0b\x12\xff\xff\xff\xff\x0f\x0c",  # a length in a group
        ],
    )
    def test_what_is_no_message_raises_a_wire_error(self, body: bytes) -> None:
        assert upb("CommandSend", body) is None
        with pytest.raises(WireError):
            read("CommandSend", body)


class TestRepetition:
    def test_of_a_single_value_given_twice_the_last_counts(self) -> None:
        body = b"\x08\x01\x10\x02\x08\x03"
        assert read("CommandSend", body)[0] == upb("CommandSend", body) == {"producer_id": 3, "sequence_id": 2}

    @pytest.mark.parametrize("name", ["ack_set", "compacted_batch_indexes", "parent_ids", "entry_bucket_splits"])
    def test_numbers_read_the_same_packed_or_not(self, name: str) -> None:
        message = {
            "ack_set": "MessageIdData",
            "compacted_batch_indexes": "MessageMetadata",
            "parent_ids": "SegmentInfoProto",
            "entry_bucket_splits": "SegmentInfoProto",
        }[name]
        number = DESCRIPTORS[message].fields_by_name[name].number
        values = [0, 1, 300, 1 << 31, (1 << 32) + 3, (1 << 64) - 1, 1 << 63]
        plain = b"".join(tagged(number, 0) + encoded(value) for value in values)
        packed = delimited(number, b"".join(map(encoded, values)))
        mixed = tagged(number, 0) + encoded(values[0]) + delimited(number, b"".join(map(encoded, values[1:])))
        want = (upb(message, plain) or {})[name]
        for body in (plain, packed, mixed):
            assert (upb(message, body) or {})[name] == want
            assert read(message, body)[0][name] == want

    def test_no_packed_numbers_are_an_empty_list(self) -> None:
        assert read("MessageIdData", b"\x08\x01\x10\x02" + delimited(5, b""))[0].get("ack_set", []) == []

    @pytest.mark.parametrize("inner", [b"\x80", b"\x01\x80", b"\xff" * 10 + b"\x01"])
    def test_packed_numbers_that_are_cut_off_are_no_message(self, inner: bytes) -> None:
        body = b"\x08\x01\x10\x02" + delimited(5, inner)
        assert upb("MessageIdData", body) is None
        with pytest.raises(WireError):
            read("MessageIdData", body)
        with pytest.raises(WireError):
            read("MessageIdData", body + b"\x18\x01")  # bytes that could complete the number

    def test_a_message_given_in_parts_is_merged(self) -> None:
        body = delimited(6, b"\x08\x01\x18\x07") + delimited(6, b"\x10\x02\x18\x08")
        message = pb.BaseCommand(type="SEND").SerializePartialToString() + body
        assert read("BaseCommand", message)[0] == upb("BaseCommand", message)
        assert read("BaseCommand", message)[0]["send"] == {"producer_id": 1, "sequence_id": 2, "num_messages": 8}

    def test_what_a_merged_message_has_as_a_whole_is_not_missing(self) -> None:
        message = pb.BaseCommand(type="SEND").SerializePartialToString() + delimited(6, b"\x08\x01") + delimited(6, b"\x10\x02")
        assert pb.BaseCommand.FromString(message).IsInitialized()
        assert read("BaseCommand", message)[1] == []

    def test_the_lists_of_merged_messages_are_joined(self) -> None:
        parts = [pb.CommandAck(consumer_id=1, ack_type=0, message_id=[{"ledgerId": number, "entryId": 0}]) for number in (1, 2)]
        message = b"".join(pb.BaseCommand(type="ACK", ack=part).SerializePartialToString() for part in parts)
        assert read("BaseCommand", message)[0] == upb("BaseCommand", message)
        assert [each["ledgerId"] for each in read("BaseCommand", message)[0]["ack"]["message_id"]] == [1, 2]

    def test_the_messages_within_merged_messages_are_merged(self) -> None:
        parts = [{"message_id": {"ledgerId": 7, "entryId": 1}}, {"message_id": {"ledgerId": 8, "entryId": 2, "partition": 3}}]
        parts[0]["message_id"]["batch_index"] = 9
        body = b"".join(pb.CommandSend(producer_id=1, sequence_id=2, **part).SerializePartialToString() for part in parts)
        assert read("CommandSend", body)[0] == upb("CommandSend", body)
        whole = b"".join(delimited(6, pb.CommandSend(producer_id=1, sequence_id=2, **part).SerializePartialToString()) for part in parts)
        assert read("BaseCommand", b"\x08\x06" + whole)[0] == upb("BaseCommand", b"\x08\x06" + whole)

    def test_the_unknown_fields_of_merged_messages_are_all_kept(self) -> None:
        body = b"\x08\x06" + delimited(6, b"\x08\x01\x10\x02" + tagged(90, 0) + b"\x01") + delimited(6, tagged(90, 0) + b"\x02")
        assert read("BaseCommand", body)[0] == upb("BaseCommand", body)


class TestDepth:
    @staticmethod
    def ids(count: int) -> bytes:
        """A MessageIdData with this number of nested ones."""
        body = b"\x08\x01\x10\x02"
        for _ in range(count):
            body = b"\x08\x01\x10\x02" + delimited(7, body)
        return body

    def test_the_field_that_nests_is_the_one_meant_here(self) -> None:
        assert DESCRIPTORS["MessageIdData"].fields_by_name["first_chunk_message_id"].number == 7
        assert RECURSION < DEPTH_MAX

    @pytest.mark.parametrize("depth", [1, 50, 98, 99, 100, 101, 102, 1000])
    def test_messages_nest_as_deep_as_upb_lets_them(self, depth: int) -> None:
        body = self.ids(depth)
        want = upb("MessageIdData", body)
        if want is None:
            with pytest.raises(WireError):
                read("MessageIdData", body)
        else:
            assert read("MessageIdData", body) == (want, [])

    @pytest.mark.parametrize("depth", [1, 50, 98, 99, 100, 101, 102, 1000])
    def test_unknown_groups_nest_as_deep_as_upb_lets_them(self, depth: int) -> None:
        body = b"\x08\x01\x10\x02" + tagged(50, 3) * depth + tagged(50, 4) * depth
        if upb("MessageIdData", body) is None:
            with pytest.raises(WireError):
                read("MessageIdData", body)
        else:
            assert read("MessageIdData", body)[0]["unknown"] == {"50": [body[6:]]}

    def test_a_hundred_thousand_levels_are_refused_without_running_out_of_stack(self) -> None:
        with pytest.raises(WireError):
            read("CommandSend", b"\x0b" * 100_000)


class TestPlace:
    """The same bytes are read equally at any position (refusals are covered by `FrameDecoder`)."""

    @given(randoms, st.sampled_from(NAMES), st.binary(max_size=5), st.binary(max_size=24))
    @settings(max_examples=150)
    def test_neither_what_stands_before_nor_what_stands_behind_changes_the_answer(
        self, random: Random, name: str, before: bytes, behind: bytes
    ) -> None:
        data = damaged(message_of(DESCRIPTORS[name], random).SerializePartialToString(), random)
        assert self.answer(name, b"", data, b"") == self.answer(name, before, data, behind)

    @staticmethod
    def answer(name: str, before: bytes, data: bytes, behind: bytes) -> str:
        notes: list[Note] = []
        try:
            fields = walk(before + data + behind, len(before), len(before) + len(data), PLANS.named(name), notes)
        except WireError:
            return "refused"
        return repr((fields, notes))

    @pytest.mark.parametrize("behind", [b"", b"\x00", b"\x7f" + b"x" * 20, b"\xff" * 20])
    def test_a_number_that_runs_off_the_end_is_refused_whatever_follows(self, behind: bytes) -> None:
        assert self.answer("CommandError", b"", b"\x08\x01\x10\xe3", behind) == "refused"


class TestAgainstUpb:
    @given(randoms, st.sampled_from(NAMES))
    @settings(max_examples=300)
    def test_any_valid_message_reads_as_upb_reads_it(self, random: Random, name: str) -> None:
        message = message_of(DESCRIPTORS[name], random, complete=True)
        fields, notes = read(name, message.SerializePartialToString())
        assert fields == as_dict(message)
        assert notes == []

    @pytest.mark.slow
    @given(randoms, st.sampled_from(NAMES))
    @settings(max_examples=600)
    def test_whatever_upb_reads_is_read_the_same(self, random: Random, name: str) -> None:
        """Known difference: an enum value without a name, which upb moves to the unknown fields."""
        data = damaged(message_of(DESCRIPTORS[name], random).SerializePartialToString(), random)
        self.agree(name, data)

    @given(st.binary(max_size=40), st.sampled_from(NAMES))
    @settings(max_examples=300)
    def test_any_bytes_read_as_upb_reads_them_or_not_at_all(self, data: bytes, name: str) -> None:
        self.agree(name, data)

    @staticmethod
    def agree(name: str, data: bytes) -> None:
        want = upb(name, data)
        try:
            fields, notes = read(name, data)
        except WireError as error:
            refused = str(error)
        else:
            refused = ""
        if refused:
            assert want is None or "field of number 0" in refused  # no field has it; upb ignores it
            return
        if want is None or any(code == "unknown-enum" for code, _ in notes):
            return
        assert comparable(fields) == comparable(want)


def comparable(value: Any) -> str:
    """The message as text, without the effect of groups and of the order of fields."""
    if isinstance(value, dict):
        parts = []
        for key, part in sorted(value.items()):
            if key == "unknown":
                parts.append(f"unknown: {[(number, len(each)) for number, each in sorted(part.items())]}")
            else:
                parts.append(f"{key}: {comparable(part)}")
        return "{" + ", ".join(parts) + "}"
    return "[" + ", ".join(map(comparable, value)) + "]" if isinstance(value, list) else repr(value)
