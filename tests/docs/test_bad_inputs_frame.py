"""Rows 67 to 102 of docs/bad_inputs.tsv: frames and commands that no honest peer sends, and traffic that is none."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from google.protobuf.descriptor import Descriptor

from pulsarscope.protocols.pulsar.frame import pulsar_pb2 as pb
from tests.docs.cases import (
    CONNECT,
    CONNECTED,
    HEALTHY,
    OPENING,
    PING,
    PONG,
    PRODUCER,
    PRODUCER_SUCCESS,
    Seen,
    assert_promised,
    between,
    capture,
    chance,
    exchange,
    look,
    opened,
    receipt,
    row,
    send,
    sent,
)
from tests.scenarios import CHECKSUM_MAGIC, Conversation, base_command, command_frame, message_metadata, payload_frame, sized
from tests.scenarios.samples import tagged, varint
from tests.scenarios.wire import FIXED32, GROUP, GROUP_END, LENGTH, field, raw_command, raw_frame

MIB = 1 << 20
SEND_COMMAND = base_command("SEND", producer_id=1, sequence_id=1)
METADATA = message_metadata(sequence_id=1)
PING_COMMAND = base_command("PING")
MESSAGE_ID = field(1, 3) + field(2, 5)


def nested(depth: int) -> bytes:
    """A MessageIdData with a first_chunk_message_id in it, and so on."""
    body = MESSAGE_ID
    for _ in range(depth):
        body = MESSAGE_ID + field(7, body)
    return body


def groups(depth: int) -> bytes:
    """An unknown field of groups in groups."""
    return tagged(1000, GROUP) * depth + tagged(1000, GROUP_END) * depth


def ping(extra: bytes) -> bytes:
    """A PING whose body has more in it."""
    return raw_frame(raw_command(pb.BaseCommand.PING, extra))


def lookup(extra: bytes = b"", topic: bytes = b"t") -> bytes:
    """A LOOKUP with more fields in it."""
    return raw_frame(raw_command(pb.BaseCommand.LOOKUP, field(1, topic) + field(2, 9) + extra))


def ack(body: bytes) -> bytes:
    return raw_frame(raw_command(pb.BaseCommand.ACK, field(1, 1) + body))


def payload_rest(rest: bytes) -> bytes:
    """A SEND with this behind its command."""
    return raw_frame(SEND_COMMAND, rest)


class Case(NamedTuple):
    row: int
    name: str
    odd: bytes
    codes: set[str]
    command: str | None
    """Of the odd frame; None: its bytes are skipped."""
    status: str = "ok"


SKIPPED_BY_SIZE = {"frame-too-large", "bytes-skipped"}
SKIPPED = {"frame-malformed", "bytes-skipped"}

CASES = [
    Case(67, "totalSize 0", struct.pack(">I", 0), SKIPPED, None),
    Case(67, "totalSize 3", struct.pack(">I", 3) + b"abc", SKIPPED, None),
    Case(68, "totalSize -1", struct.pack(">i", -1) + PING[4:], SKIPPED_BY_SIZE, None),
    Case(68, "totalSize 2^31", struct.pack(">I", 1 << 31) + PING[4:], SKIPPED_BY_SIZE, None),
    Case(69, "one byte above the limit", struct.pack(">I", 5 * MIB + 10_240 - 3) + PING[4:], SKIPPED_BY_SIZE, None),
    Case(71, "commandSize 0", raw_frame(b""), {"required-field-missing"}, "?", "malformed"),
    Case(72, "commandSize beyond the frame", raw_frame(PING_COMMAND, command_size=99), {"frame-malformed"}, "?", "malformed"),
    Case(72, "commandSize -1", raw_frame(PING_COMMAND, command_size=-1), {"frame-malformed"}, "?", "malformed"),
    Case(73, "commandSize 2 too small", raw_frame(PING_COMMAND, command_size=2), {"body-mismatch", "trailing-bytes"}, "PING", "malformed"),
    Case(73, "commandSize 1 too small", raw_frame(PING_COMMAND, command_size=len(PING_COMMAND) - 1), {"frame-malformed"}, "?", "malformed"),
    Case(76, "bytes behind a command without payload", raw_frame(PING_COMMAND, b"junk"), {"trailing-bytes"}, "PING"),
    Case(77, "SEND without payload section", raw_frame(SEND_COMMAND), {"frame-malformed"}, "SEND", "malformed"),
    Case(77, "SEND with three bytes behind it", payload_rest(b"abc"), {"frame-malformed"}, "SEND", "malformed"),
    Case(78, "broker entry metadata of no bytes", payload_rest(b"\x0e\x02\0\0\0\0" + sized(METADATA)), {"checksum-absent"}, "SEND"),
    Case(
        78,
        "broker entry metadata of -1 bytes",
        payload_rest(b"\x0e\x02\xff\xff\xff\xff" + sized(METADATA)),
        {"frame-malformed"},
        "SEND",
        "malformed",
    ),
    Case(
        78,
        "broker entry metadata beyond the frame",
        payload_rest(b"\x0e\x02\0\0\1\0" + sized(METADATA)),
        {"frame-malformed"},
        "SEND",
        "malformed",
    ),
    Case(79, "no checksum", send(1, checksum=False), {"checksum-absent"}, "SEND"),
    Case(80, "an unknown magic", payload_rest(b"\x0e\x03" + bytes(4) + sized(METADATA)), {"frame-malformed"}, "SEND", "malformed"),
    Case(80, "a swapped magic", payload_rest(b"\x01\x0e" + bytes(4) + sized(METADATA)), {"frame-malformed"}, "SEND", "malformed"),
    Case(81, "a wrong checksum", send(1, checksum=0xDEADBEEF), {"checksum-mismatch"}, "SEND"),
    Case(
        82,
        "a checksum that does not cover the end",
        payload_rest(send(1)[8 + len(SEND_COMMAND) :] + b"junk"),
        {"checksum-mismatch"},
        "SEND",
    ),
    Case(83, "metadata of no bytes", payload_frame("SEND", b"", b"x", producer_id=1, sequence_id=1), {"required-field-missing"}, "SEND"),
    Case(83, "metadata beyond the frame", payload_rest(struct.pack(">I", 400) + METADATA), {"frame-malformed"}, "SEND", "malformed"),
    Case(83, "metadata of -1 bytes", payload_rest(b"\xff\xff\xff\xff" + METADATA), {"frame-malformed"}, "SEND", "malformed"),
    Case(83, "an empty payload", send(1, b""), set(), "SEND"),
    Case(84, "command 200", raw_frame(raw_command(200, b"abc")), {"unknown-command"}, "UNKNOWN_200"),
    Case(
        84,
        "command 1000 with bytes behind it",
        raw_frame(raw_command(1000, None), b"payload"),
        {"unknown-command", "trailing-bytes"},
        "UNKNOWN_1000",
    ),
    Case(84, "command -1", raw_frame(raw_command(-1, None)), {"unknown-command"}, "UNKNOWN_-1"),
    Case(85, "no body", raw_frame(raw_command(pb.BaseCommand.FLOW, None)), {"body-mismatch"}, "FLOW", "malformed"),
    Case(
        85,
        "another body",
        raw_frame(raw_command(pb.BaseCommand.FLOW, b"", body_field=pb.BaseCommand.PING)),
        {"body-mismatch"},
        "FLOW",
        "malformed",
    ),
    Case(85, "two bodies", raw_frame(raw_command(pb.BaseCommand.PING, b"") + field(pb.BaseCommand.PONG, b"")), {"body-mismatch"}, "PING"),
    Case(86, "two types", raw_frame(field(1, pb.BaseCommand.PONG) + PING_COMMAND), set(), "PING"),
    Case(
        87,
        "a subscription type without a name",
        command_frame("SUBSCRIBE", topic="t", subscription="s", subType=0, consumer_id=1, request_id=7).replace(
            field(3, 0), field(3, 7), 1
        ),
        {"unknown-enum"},
        "SUBSCRIBE",
    ),
    Case(
        87,
        "a negative enum",
        raw_frame(raw_command(pb.BaseCommand.SEND_ERROR, field(1, 1) + field(2, 9) + field(3, -5) + field(4, b""))),
        {"unknown-enum"},
        "SEND_ERROR",
    ),
    Case(88, "LOOKUP without its fields", raw_frame(raw_command(pb.BaseCommand.LOOKUP, b"")), {"required-field-missing"}, "LOOKUP"),
    Case(89, "fields of the future", ping(field(77, 5) + field(78, b"new") + tagged(79, FIXED32) + b"abcd"), set(), "PING"),
    Case(
        90,
        "a number where text should be",
        raw_frame(raw_command(pb.BaseCommand.LOOKUP, field(1, 5) + field(2, 9))),
        {"required-field-missing"},
        "LOOKUP",
    ),
    Case(90, "text where a number may be", lookup(field(3, b"yes")), set(), "LOOKUP"),
    Case(91, "99 message ids in each other", ack(field(2, 0) + field(3, nested(97))), set(), "ACK"),
    Case(91, "101 message ids in each other", ack(field(2, 0) + field(3, nested(101))), {"frame-malformed"}, "?", "malformed"),
    Case(91, "a group", ping(groups(1)), set(), "PING"),
    Case(91, "101 groups", ping(groups(101)), {"frame-malformed"}, "?", "malformed"),
    Case(91, "a group without an end", ping(tagged(1000, GROUP)), {"frame-malformed"}, "?", "malformed"),
    Case(92, "a varint of ten bytes", ping(tagged(77, 0) + b"\xff" * 9 + b"\x01"), set(), "PING"),
    Case(92, "a varint of eleven bytes", ping(tagged(77, 0) + b"\xff" * 10 + b"\x01"), {"frame-malformed"}, "?", "malformed"),
    Case(92, "a varint with zeros in front", raw_frame(b"\x08\x92\x80\x00" + field(pb.BaseCommand.PING, b"")), set(), "PING"),
    Case(93, "a field that ends behind its message", ping(tagged(77, LENGTH) + varint(1 << 20)), {"frame-malformed"}, "?", "malformed"),
    Case(93, "a field of 2^64 - 1 bytes", ping(tagged(77, LENGTH) + varint(-1)), {"frame-malformed"}, "?", "malformed"),
    Case(93, "field number 0", ping(b"\x00\x00"), {"frame-malformed"}, "?", "malformed"),
    Case(
        94,
        "sequence id 2^64 - 1",
        payload_frame("SEND", message_metadata(sequence_id=2**64 - 1), b"x", producer_id=1, sequence_id=2**64 - 1),
        set(),
        "SEND",
    ),
    Case(95, "a topic that is not UTF-8", lookup(topic=b"persistent://\xff\xfe"), {"invalid-utf8"}, "LOOKUP"),
    Case(96, "a topic of 64 KiB", lookup(topic=b"t\0\n\x1b[2J" * 9362), set(), "LOOKUP"),
    Case(97, "100,000 message ids", ack(field(2, 0) + field(3, MESSAGE_ID) * 100_000), set(), "ACK"),
    Case(
        97,
        "50,000 properties",
        send(1, metadata=message_metadata(sequence_id=1) + field(4, field(1, b"key") + field(2, b"v")) * 50_000),
        set(),
        "SEND",
    ),
    Case(101, "text", b"no frame is here " * 9, SKIPPED_BY_SIZE, None),
    Case(101, "zeros", bytes(1000), SKIPPED, None),
    Case(101, "chance", b"\xf0" + chance(5).randbytes(3000), SKIPPED_BY_SIZE, None),
]


def identify(case: Case) -> str:
    return f"{case.row}-{case.name}"


@row(67, 68, 69, 71, 72, 73, *range(76, 98), 101)
@pytest.mark.parametrize("case", CASES, ids=identify)
def test_an_odd_frame_is_told_and_costs_no_other(tmp_path: Path, case: Case) -> None:
    seen = look(capture(tmp_path, between(case.odd)))
    assert_promised(case.row, seen, case.codes)
    assert seen.exit == 0
    own = [] if case.command is None else [case.command]
    assert seen.commands == [*OPENING, *sent(1), *own, *sent(1)]
    odd = seen.frames[len(OPENING) + 2]
    assert (odd.status, odd.size) == ("skipped" if case.command is None else case.status, len(case.odd))
    assert set(odd.findings or ()) == case.codes
    json.dumps(odd.fields, default=repr)


def odd_frame(tmp_path: Path, frame: bytes) -> tuple[Any, Seen]:
    seen = look(capture(tmp_path, between(frame)))
    return seen.frames[len(OPENING) + 2], seen


@row(81)
def test_a_frame_with_a_wrong_checksum_shows_both(tmp_path: Path) -> None:
    frame, seen = odd_frame(tmp_path, send(1, b"damaged", checksum=0xDEADBEEF))
    assert (frame.checksum.status, frame.checksum.stored) == ("bad", "deadbeef")
    assert frame.metadata["producer_name"] == "producer-1"
    assert [message.payload for message in seen.messages if message.payload == "damaged"] == ["damaged"]


@row(89, 90)
def test_unknown_fields_are_kept(tmp_path: Path) -> None:
    frame, _ = odd_frame(tmp_path, ping(field(77, 5) + field(77, 6) + field(78, b"new")))
    assert frame.fields == {"unknown": {"77": [5, 6], "78": [b"new"]}}
    frame, _ = odd_frame(tmp_path, lookup(field(3, b"yes")))
    assert frame.fields["unknown"] == {"3": [b"yes"]}


@row(94)
def test_unsigned_ids_come_as_two_s_complement(tmp_path: Path) -> None:
    frame, _ = odd_frame(tmp_path, payload_frame("SEND", message_metadata(sequence_id=2**64 - 1), b"x", producer_id=1, sequence_id=2**63))
    assert (frame.metadata["sequence_id"], frame.fields["sequence_id"]) == (-1, -(2**63))


@row(95)
def test_text_that_is_not_utf_8_shows_its_bytes(tmp_path: Path) -> None:
    frame, _ = odd_frame(tmp_path, lookup(topic=b"persistent://\xff\xfe"))
    assert frame.fields["topic"] == frame.topic == r"persistent://\xff\xfe"


@row(97)
def test_counts_are_exact_however_many_there_are(tmp_path: Path) -> None:
    frame, _ = odd_frame(tmp_path, ack(field(2, 0) + field(3, MESSAGE_ID) * 100_000))
    assert len(frame.fields["message_id"]) == 100_000


def required_fields(descriptor: Descriptor, seen: set[str]) -> set[str]:
    """Message.field of all required fields that can occur in a message."""
    if descriptor.full_name in seen:
        return set()
    seen.add(descriptor.full_name)
    found = {f"{descriptor.name}.{one.name}" for one in descriptor.fields if one.is_required}
    for one in descriptor.fields:
        if one.message_type is not None:
            found |= required_fields(one.message_type, seen)
    return found


@row(88)
def test_every_command_names_the_required_fields_that_it_lacks(tmp_path: Path) -> None:
    commands = [value for value in pb.BaseCommand.Type.DESCRIPTOR.values if value.name not in ("SEND", "MESSAGE")]
    seen = look(capture(tmp_path, between(*[raw_frame(raw_command(value.number, b"")) for value in commands])))
    assert_promised(88, seen)
    told = " ".join(seen.texts("required-field-missing"))
    for value in commands:
        body = pb.BaseCommand.DESCRIPTOR.fields_by_number[value.number].message_type
        assert value.name in seen.commands
        for one in body.fields:
            if one.is_required:
                assert f"{body.name}.{one.name}" in told
    assert len(required_fields(pb.BaseCommand.DESCRIPTOR, set())) > 100


# ---- sizes that the broker announces


def announcing(size: int) -> Conversation:
    connected = command_frame("CONNECTED", server_version="x", max_message_size=size)
    return Conversation().handshake().client(CONNECT).server(connected).client(PRODUCER).server(PRODUCER_SUCCESS)


@row(69)
def test_what_the_broker_announces_is_the_limit(tmp_path: Path) -> None:
    seen = look(capture(tmp_path, exchange(announcing(1000).client(send(0, bytes(20_000))), 1, 2).close().packets))
    assert_promised(69, seen, {"frame-too-large", "bytes-skipped"})
    assert seen.commands == [*OPENING, *sent(2)]
    larger = look(capture(tmp_path, exchange(announcing(7 * MIB).client(send(0, bytes(6 * MIB))), 1).close().packets))
    assert_promised(69, larger, set())
    assert larger.commands == [*OPENING, "SEND", *sent(1)]


@row(70)
@pytest.mark.parametrize("size", [-1, 0, 2**31 - 1])
def test_an_announcement_that_cannot_be_is_not_believed(tmp_path: Path, size: int) -> None:
    bomb = struct.pack(">I", (64 << 20) + 1) + PING[4:]
    seen = look(capture(tmp_path, exchange(exchange(announcing(size), 0).client(bomb), 1).close().packets))
    assert_promised(70, seen, {"frame-too-large", "bytes-skipped"})
    assert seen.commands == [*OPENING, *sent(2)]


# ---- cut, split and joined


@row(74)
@pytest.mark.parametrize("end", ["nothing", "fin", "rst"])
def test_a_frame_that_the_stream_ends_in_says_how_much_is_there(tmp_path: Path, end: str) -> None:
    conversation = exchange(opened(), 0).client(send(1, b"x" * 500)[:80])
    if end == "fin":
        conversation.close()
    elif end == "rst":
        conversation.reset()
    seen = look(capture(tmp_path, conversation.packets))
    assert_promised(74, seen, {"frame-truncated", "connection-reset"} if end == "rst" else {"frame-truncated"})
    assert f"80 of {len(send(1, b'x' * 500))} bytes" in seen.texts("frame-truncated")[0]
    assert seen.frames[-1].status == "truncated"
    assert seen.frames[-1].command == "SEND"
    assert seen.connections[0].client_tail == 80


@row(75)
@pytest.mark.parametrize("mss", [1, 2, 3, 7, 64, 1448])
def test_how_frames_are_cut_into_segments_changes_nothing(tmp_path: Path, mss: int) -> None:
    whole = [CONNECT, PRODUCER, *[send(number) for number in range(20)]]
    conversation = Conversation(mss=mss).handshake().client(*whole)
    conversation.server(CONNECTED, PRODUCER_SUCCESS, *[receipt(number) for number in range(20)]).close()
    seen = look(capture(tmp_path, conversation.packets))
    assert_promised(75, seen, set())
    assert seen.commands == ["CONNECT", "PRODUCER", *["SEND"] * 20, "CONNECTED", "PRODUCER_SUCCESS", *["SEND_RECEIPT"] * 20]
    assert [exchange.status for exchange in seen.exchanges] == ["ok"] * 22


# ---- not Pulsar, or not where it is expected

HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(250))
KAFKA = struct.pack(">IHHIH", 30, 18, 3, 1, 8) + b"consumer" + bytes(12)

FOREIGN = [
    ("HTTP", b"GET /admin/v2/clusters HTTP/1.1\r\nHost: broker\r\n\r\n", 6650, {"http-on-plain-port"}),
    ("TLS", HELLO, 6650, {"tls-on-plain-port"}),
    ("TLS on its port", HELLO, 6651, {"tls-no-secrets"}),
    ("SSH", b"SSH-2.0-OpenSSH_9.6\r\n", 6650, {"not-pulsar"}),
    ("Kafka", KAFKA, 6650, {"not-pulsar"}),
    ("chance", chance(3).randbytes(5000), 6650, {"not-pulsar"}),
    ("chance on another port", chance(3).randbytes(5000), 7777, set()),
    ("HTTP on another port", b"GET / HTTP/1.1\r\n\r\n", 8080, set()),
    (
        "Pulsar in a WebSocket",
        b"GET /ws/v2/producer HTTP/1.1\r\nUpgrade: websocket\r\n\r\n\x82\xa9" + b"mask" + CONNECT.translate(bytes(range(255, -1, -1))),
        8080,
        set(),
    ),
]


@row(98, 99, 115)
@pytest.mark.parametrize(("data", "port", "codes"), [case[1:] for case in FOREIGN], ids=[case[0] for case in FOREIGN])
def test_what_is_not_pulsar_is_named_and_never_decoded(tmp_path: Path, data: bytes, port: int, codes: set[str]) -> None:
    conversation = Conversation(server=("10.0.0.2", port)).handshake().client(data).server(data[::-1]).close()
    seen = look(capture(tmp_path, conversation.packets))
    assert_promised(98 if codes else 99, seen, codes)
    if data is HELLO:
        assert_promised(115, seen, codes)
    assert (seen.exit, seen.frames) == (0, [])
    assert [connection.dissector for connection in seen.connections] == [None]


PROXY_V2 = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + bytes([192, 0, 2, 7, 10, 0, 0, 2]) + struct.pack(">HH", 4711, 6650)


@row(98)
@pytest.mark.parametrize("head", [b"PROXY TCP4 192.0.2.7 10.0.0.2 4711 6650\r\n", PROXY_V2])
def test_a_proxy_header_is_passed_over(tmp_path: Path, head: bytes) -> None:
    conversation = Conversation().handshake().client(head, CONNECT).server(CONNECTED)
    seen = look(capture(tmp_path, exchange(conversation.client(PRODUCER).server(PRODUCER_SUCCESS), 0).close().packets))
    assert_promised(98, seen, set())
    assert seen.commands == [*OPENING, *sent(1)]
    assert (seen.connections[0].proxy_source, seen.connections[0].client_skipped) == ("192.0.2.7:4711", len(head))


@row(99)
def test_pulsar_is_recognised_on_any_port(tmp_path: Path) -> None:
    seen = look(capture(tmp_path, exchange(opened(server=("10.0.0.2", 31_650)), 0, 3).close().packets))
    assert_promised(99, seen, set())
    assert seen.commands == HEALTHY


@row(100)
def test_roles_are_those_of_the_handshake_whoever_says_what(tmp_path: Path) -> None:
    swapped = Conversation().handshake().server(CONNECT).client(CONNECTED).client(PING).server(PONG).close()
    seen = look(capture(tmp_path, swapped.packets))
    assert_promised(100, seen, set())
    assert [(frame.command, frame.direction) for frame in seen.frames] == [
        ("CONNECT", "server"),
        ("CONNECTED", "client"),
        ("PING", "client"),
        ("PONG", "server"),
    ]


@row(100)
def test_a_second_connect_is_a_frame_like_any_other(tmp_path: Path) -> None:
    conversation = Conversation().handshake().client(CONNECT).server(CONNECTED)
    seen = look(capture(tmp_path, exchange(conversation.client(CONNECT).server(CONNECTED), 0).close().packets))
    assert_promised(100, seen, set())
    assert seen.commands == ["CONNECT", "CONNECTED"] * 2 + sent(1)


# ---- searching costs no more than reading


def fodder(size: int) -> bytes:
    """Starts of frames that never are."""
    head = struct.pack(">II", 4000, 3000) + SEND_COMMAND[:9]
    return b"\xff\xff\xff\xff" + head * (size // len(head))


def checked_fodder(size: int) -> bytes:
    """Starts of frames with a checksum that must be computed to be wrong."""
    start = struct.pack(">II", 60_000, len(SEND_COMMAND)) + SEND_COMMAND + CHECKSUM_MAGIC
    return b"\xff\xff\xff\xff" + start * (size // len(start))


@row(102)
@pytest.mark.parametrize("make", [fodder, checked_fodder])
def test_bytes_that_look_like_frames_take_linear_time(tmp_path: Path, make: Callable[[int], bytes]) -> None:
    def seconds(size: int) -> float:
        conversation = opened(mss=60_000).client(make(size)).client(*[send(number, bytes(30_000)) for number in range(4)])
        path = capture(tmp_path, conversation.close().packets)
        start = time.process_time()
        seen = look(path)
        assert_promised(102, seen, {"frame-too-large", "bytes-skipped"})
        assert seen.commands[: len(OPENING)] == OPENING
        assert 3 <= seen.commands.count("SEND") <= 4  # the work for the fodder may cost one frame behind it
        return time.process_time() - start

    small, large = seconds(MIB // 8), seconds(MIB // 2)
    assert large < 4 * small * 3 + 0.5
