"""Odd frames, and the expected findings of each."""

from __future__ import annotations

import struct
from typing import NamedTuple

from tests.scenarios import base_command, command_frame, message_metadata, payload_frame, sized
from tests.scenarios import pulsar_pb2 as pb
from tests.scenarios.bad_inputs.cases import chance, send
from tests.scenarios.commands import PING
from tests.scenarios.samples import tagged, varint
from tests.scenarios.wire import FIXED32, GROUP, GROUP_END, LENGTH, field, raw_command, raw_frame

MIB = 1 << 20
SEND_COMMAND = base_command("SEND", producer_id=1, sequence_id=1)
METADATA = message_metadata(sequence_id=1)
PING_COMMAND = base_command("PING")
MESSAGE_ID = field(1, 3) + field(2, 5)


def nested(depth: int) -> bytes:
    """A MessageIdData with a nested first_chunk_message_id, and so on."""
    body = MESSAGE_ID
    for _ in range(depth):
        body = MESSAGE_ID + field(7, body)
    return body


def groups(depth: int) -> bytes:
    """An unknown field of nested groups."""
    return tagged(1000, GROUP) * depth + tagged(1000, GROUP_END) * depth


def ping(extra: bytes) -> bytes:
    """A PING with additional content."""
    return raw_frame(raw_command(pb.BaseCommand.PING, extra))


def lookup(extra: bytes = b"", topic: bytes = b"t") -> bytes:
    """A LOOKUP with additional fields."""
    return raw_frame(raw_command(pb.BaseCommand.LOOKUP, field(1, topic) + field(2, 9) + extra))


def ack(body: bytes) -> bytes:
    return raw_frame(raw_command(pb.BaseCommand.ACK, field(1, 1) + body))


def payload_rest(rest: bytes) -> bytes:
    """A SEND with these bytes after its command."""
    return raw_frame(SEND_COMMAND, rest)


class Case(NamedTuple):
    row: int
    name: str
    odd: bytes
    codes: set[str]
    command: str | None
    """Command of the odd frame; None: its bytes are skipped."""
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
