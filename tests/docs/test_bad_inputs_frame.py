"""Rows 67 to 102 of docs/bad_inputs.tsv: frames and commands that no sound peer sends, and traffic of other protocols."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor

from tests.scenarios import CHECKSUM_MAGIC, Conversation, command_frame, message_metadata, payload_frame
from tests.scenarios import pulsar_pb2 as pb
from tests.scenarios.bad_inputs.cases import (
    CONNECT,
    CONNECTED,
    HEALTHY,
    OPENING,
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
    row,
    send,
    sent,
)
from tests.scenarios.bad_inputs.frames import (
    CASES,
    MESSAGE_ID,
    MIB,
    SEND_COMMAND,
    Case,
    ack,
    lookup,
    ping,
)
from tests.scenarios.commands import PING, PONG, receipt
from tests.scenarios.wire import field, raw_command, raw_frame


def identify(case: Case) -> str:
    return f"{case.row}-{case.name}"


@row(67, 68, 69, 71, 72, 73, *range(76, 98), 101)
@pytest.mark.parametrize("case", CASES, ids=identify)
def test_an_odd_frame_is_reported_and_costs_no_other(tmp_path: Path, case: Case) -> None:
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
    assert frame.fields["unknown"] == {"3": ["redacted (3 bytes)"]}, "beside credentials it may be one"


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
    """Message.field for all required fields that can occur in a message."""
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
    reported = " ".join(seen.texts("required-field-missing"))
    for value in commands:
        body = pb.BaseCommand.DESCRIPTOR.fields_by_number[value.number].message_type
        assert value.name in seen.commands
        for one in body.fields:
            if one.is_required:
                assert f"{body.name}.{one.name}" in reported
    assert len(required_fields(pb.BaseCommand.DESCRIPTOR, set())) > 100


# ---- sizes announced by the broker


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
@pytest.mark.parametrize("end", ["nothing", "fin", "rst", "fin of the receiver", "rst of the receiver"])
def test_a_frame_that_the_stream_ends_in_says_how_much_is_there(tmp_path: Path, end: str) -> None:
    conversation = exchange(opened(), 0).client(send(1, b"x" * 500)[:80])
    by = "server" if "receiver" in end else "client"
    if end.startswith("fin"):
        conversation.close(by)
    elif end.startswith("rst"):
        conversation.reset(by)
    seen = look(capture(tmp_path, conversation.packets))
    code = "frame-truncated" if end in ("fin", "rst") else "frame-unfinished"
    assert_promised(74, seen, {code, "connection-reset"} if end.startswith("rst") else {code})
    assert f"80 of {len(send(1, b'x' * 500))} bytes" in seen.texts(code)[0]
    assert seen.frames[-1].status == "truncated"
    assert seen.frames[-1].command == "SEND"
    assert seen.connections[0].client_tail == 80


@row(75)
@pytest.mark.parametrize("mss", [1, 2, 3, 7, 64, 1448])
def test_how_frames_are_cut_into_segments_changes_nothing(tmp_path: Path, mss: int) -> None:
    whole = [CONNECT, PRODUCER, *[send(number) for number in range(20)]]
    conversation = Conversation(mss=mss).handshake().client(*whole)
    conversation.server(CONNECTED, PRODUCER_SUCCESS, *[receipt(1, number, entry=number) for number in range(20)]).close()
    seen = look(capture(tmp_path, conversation.packets))
    assert_promised(75, seen, set())
    assert seen.commands == ["CONNECT", "PRODUCER", *["SEND"] * 20, "CONNECTED", "PRODUCER_SUCCESS", *["SEND_RECEIPT"] * 20]
    assert [exchange.status for exchange in seen.exchanges] == ["ok"] * 22


# ---- not Pulsar, or not in the expected place

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
    """Starts of frames that never follow."""
    head = struct.pack(">II", 4000, 3000) + SEND_COMMAND[:9]
    return b"\xff\xff\xff\xff" + head * (size // len(head))


def checked_fodder(size: int) -> bytes:
    """Starts of frames whose wrong checksum must be computed."""
    start = struct.pack(">II", 60_000, len(SEND_COMMAND)) + SEND_COMMAND + CHECKSUM_MAGIC
    return b"\xff\xff\xff\xff" + start * (size // len(start))


@pytest.mark.slow
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
        assert 3 <= seen.commands.count("SEND") <= 4  # the work for the fodder may cost one frame after it
        return time.process_time() - start

    small, large = seconds(MIB // 8), seconds(MIB // 2)
    assert large < 4 * small * 3 + 0.5
