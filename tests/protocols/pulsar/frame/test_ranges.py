"""Named byte ranges of a frame: correct for every field, nested, and within the frame whatever the bytes."""

from __future__ import annotations

import time
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsarscope.dissect.contract.capabilities import SECRET_RANGE
from pulsarscope.protocols.pulsar.frame.decoder import FrameDecoder
from pulsarscope.protocols.pulsar.frame.ranges import Range, ranges
from tests.scenarios import command_frame, message_metadata, payload_frame
from tests.scenarios import pulsar_pb2 as pb
from tests.scenarios.chance import damaged, randoms
from tests.scenarios.frames import sized
from tests.scenarios.samples import command

DECODER = FrameDecoder()
NUMBERS = [value.number for value in pb.BaseCommand.Type.DESCRIPTOR.values]
SEND = payload_frame("SEND", message_metadata(), b"payload", broker_entry={"index": 3}, producer_id=1, sequence_id=2)


def check(data: bytes) -> list[Range]:
    """The ranges, named without values, which must lie within the frame and within one another."""
    masked, found = ranges(DECODER, data)
    assert len(masked) == len(data)
    outer: list[tuple[int, int]] = []
    last = 0
    for start, end, name, depth in found:
        assert 0 <= start <= end <= len(data), (name, start, end)
        assert name
        del outer[depth:]
        assert len(outer) == depth, f"{name} has no outer range"
        if outer:
            assert outer[-1][0] <= start
            assert end <= outer[-1][1]
        else:
            assert start >= last, f"{name} begins before the range before it ends"
            last = end
        outer.append((start, end))
    return [(start, end, name.partition("  ")[0], depth) for start, end, name, depth in found]


def test_the_parts_of_a_payload_frame_cover_it_in_order() -> None:
    found = check(SEND)
    parts = [(name, SEND[start:end]) for start, end, name, depth in found if depth == 0]
    assert [name for name, _ in parts] == [
        "totalSize",
        "commandSize",
        "BaseCommand",
        "broker entry metadata magic",
        "broker entry metadata size",
        "BrokerEntryMetadata",
        "checksum magic",
        "CRC32-C",
        "metadata size",
        "MessageMetadata",
        "payload",
    ]
    assert b"".join(part for _, part in parts) == SEND
    assert parts[-1] == ("payload", b"payload")


@pytest.mark.parametrize("number", NUMBERS)
def test_every_field_of_every_command_is_named(number: int) -> None:
    base, body = command(number, 1)
    data = sized(sized(base.SerializePartialToString()))
    names = [name for _, _, name, depth in check(data) if depth == 2 and name != SECRET_RANGE]
    wanted = [field.name for field, value in body.ListFields() for _ in (value if field.is_repeated else [value])]
    assert sorted(names) == sorted(wanted)


def test_the_range_of_a_field_is_its_tag_its_length_and_its_value() -> None:
    frame = command_frame("PRODUCER", topic="abc", producer_id=1, request_id=300)
    found = {name: frame[start:end] for start, end, name, _ in check(frame)}
    assert (found["topic"], found["producer_id"], found["request_id"]) == (b"\x0a\x03abc", b"\x10\x01", b"\x18\xac\x02")


def test_credentials_are_marked_wherever_they_stand() -> None:
    frame = command_frame("AUTH_RESPONSE", response={"auth_method_name": "token", "auth_data": b"secret"})
    assert [frame[start:end] for start, end, name, _ in check(frame) if name == SECRET_RANGE] == [b"secret"]
    open_decoder = FrameDecoder(show_secrets=True)
    assert not [name for _, _, name, _ in ranges(open_decoder, frame)[1] if name == SECRET_RANGE]


def test_their_bytes_are_masked_and_no_others() -> None:
    frame = command_frame("AUTH_RESPONSE", response={"auth_method_name": "token", "auth_data": b"secret"})
    masked, found = ranges(DECODER, frame)
    assert b"secret" not in masked
    hidden = {at for start, end, name, _ in found if name == SECRET_RANGE for at in range(start, end)}
    assert [at for at in range(len(frame)) if masked[at] != frame[at] and at not in hidden] == []
    assert ranges(FrameDecoder(show_secrets=True), frame)[0] == frame
    assert ranges(DECODER, SEND)[0] == SEND


@pytest.mark.parametrize(
    ("fields", "hidden"),
    [
        ({"auth_method_name": "none", "auth_data": b""}, []),
        ({"auth_data": b"\x1a\x00"}, [b"\x1a\x00"]),
        ({"auth_data": b"a", "original_auth_data": "bc"}, [b"bc", b"a"]),
        ({"proxy_to_broker_url": "pulsar://broker:6650"}, []),
        ({"proxy_to_broker_url": "pulsar://user:pa@ss@broker:6650/x@y"}, [b"user:pa@ss"]),
        ({"proxy_to_broker_url": "user:pass@broker:6650"}, [b"user:pass"]),
    ],
)
def test_only_the_bytes_of_a_secret_are_masked(fields: dict[str, Any], hidden: list[bytes]) -> None:
    frame = command_frame("CONNECT", client_version="x", **fields)
    masked, found = ranges(DECODER, frame)
    secrets = [(start, end) for start, end, name, _ in found if name == SECRET_RANGE]
    assert sorted(frame[start:end] for start, end in secrets) == sorted(hidden)
    assert [at for at in range(len(frame)) if masked[at] != frame[at]] == sorted(at for place in secrets for at in range(*place))


@pytest.mark.parametrize("cut", [0, 1, 3])
@pytest.mark.parametrize("body", [b"\xfa\x0f\x06secret", b"\xf9\x0fsecret12", b"\xfd\x0fsecr"])
def test_unknown_fields_beside_credentials_are_masked(body: bytes, cut: int) -> None:
    frame = sized(sized(b"\x08\x02\x12" + _length(3 + len(body)) + b"\x0a\x01x" + body))
    assert b"secr" in frame
    assert b"secr" not in ranges(DECODER, frame[: len(frame) - cut])[0]
    assert b"secret" not in str(DECODER.decode_by_reference(frame)[1]).encode()
    assert ranges(FrameDecoder(show_secrets=True), frame)[0] == frame


@pytest.mark.parametrize("name", ["password", "db.Passwd", "X-Api-Key", "accessToken", "client_secret", "aws-credentials", "Authorization"])
def test_values_of_properties_named_like_credentials_are_masked(name: str) -> None:
    frame = command_frame(
        "PRODUCER", topic="t", producer_id=1, request_id=1, metadata=[{"key": "plain", "value": "shown"}, {"key": name, "value": "hidden"}]
    )
    masked, _ = ranges(DECODER, frame)
    assert b"hidden" not in masked
    assert masked.replace(b"******", b"hidden") == frame
    for _ in range(2):  # whatever is cached
        assert DECODER.decode(frame, 0, len(frame))[1]["metadata"] == [  # type: ignore[index]
            {"key": "plain", "value": "shown"},
            {"key": name, "value": "redacted (6 bytes)"},
        ]
    opened = FrameDecoder(show_secrets=True)
    assert opened.decode(frame, 0, len(frame))[1]["metadata"][1] == {"key": name, "value": "hidden"}  # type: ignore[index]


@pytest.mark.parametrize("end", range(12, 40))
def test_credentials_that_are_cut_off_are_masked(end: int) -> None:
    frame = command_frame("CONNECT", client_version="x", auth_data=b"a long secret of many bytes")
    assert b"secre" not in ranges(DECODER, frame[:end])[0]


@pytest.mark.slow
def test_a_secret_given_many_times_takes_time_that_grows_with_its_number() -> None:
    spent = []
    for count in (20_000, 160_000):
        frame = sized(sized(b"\x08\x02\x12" + _length(3 * count) + b"\x1a\x01s" * count))
        began = time.process_time()
        masked, found = ranges(DECODER, frame)
        spent.append(time.process_time() - began)
        assert sum(name == SECRET_RANGE for _, _, name, _ in found) == count
        assert masked.count(b"s") == 0
    assert spent[1] < 32 * spent[0] + 1.0  # eight times the size: quadratic work would take 64 times as long; machines stall


def test_bytes_behind_a_command_are_named() -> None:
    frame = sized(command_frame("PING")[4:] + b"xyz")
    assert check(frame)[-1] == (len(frame) - 3, len(frame), "trailing bytes", 0)


@pytest.mark.parametrize("end", range(len(SEND)))
def test_a_frame_cut_off_is_named_as_far_as_it_goes(end: int) -> None:
    check(SEND[:end])


@given(randoms)
@settings(max_examples=200)
def test_a_damaged_frame_gives_ranges_within_it(random: Random) -> None:
    base, _ = command(random.choice(NUMBERS), random.randrange(5))
    check(damaged(random.choice((SEND, sized(sized(base.SerializePartialToString())))), random))


@given(st.binary(max_size=80))
@settings(max_examples=200)
def test_any_bytes_give_ranges_within_them(data: bytes) -> None:
    check(data)


def test_messages_nested_without_end_are_no_trouble() -> None:
    body = b""
    for _ in range(3000):
        body = b"\x3a" + _length(len(body)) + body
    check(sized(sized(b"\x08\x06\x32" + _length(len(body) + 1 + len(_length(len(body)))) + b"\x4a" + _length(len(body)) + body)))


def _length(size: int) -> bytes:
    out = bytearray()
    while size > 127:
        out.append(size & 127 | 128)
        size >>= 7
    return bytes([*out, size])


def test_values_stand_beside_the_names_of_fields() -> None:
    names = [name for _, _, name, _ in ranges(DECODER, command_frame("LOOKUP", topic="orders", request_id=300, authoritative=False))[1]]
    assert names[:2] == ["totalSize  22", "commandSize  18"]
    assert {"type  LOOKUP", "topic  orders", "request_id  300", "authoritative  false"} <= set(names)
    sent = [name for _, _, name, _ in ranges(DECODER, SEND)[1]]
    assert [name for name in sent if name.startswith("CRC32-C  0x")]
    assert "payload" in sent


def test_long_and_broken_values_are_cut_and_secrets_have_none() -> None:
    names = [name for _, _, name, _ in ranges(DECODER, command_frame("LOOKUP", topic="t" * 100, request_id=1))[1]]
    assert f"topic  {'t' * 64}…" in names
    connect = command_frame("CONNECT", client_version="c", auth_data=b"secret-token")
    assert not any("secret-token" in name for _, _, name, _ in ranges(DECODER, connect)[1])
