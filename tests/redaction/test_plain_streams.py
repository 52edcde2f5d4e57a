"""TLS content is copied as plain packets that decode to the same frames at the same packets, whatever happened to the packets."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pulsarscope.redaction.plain_streams import PlainStream
from tests.scenarios import Packet
from tests.scenarios.capturefile import write_pcap
from tests.scenarios.command_line import execute_here
from tests.scenarios.commands import CONNECT, CONNECTED
from tests.scenarios.frames import message_metadata, payload_frame
from tests.scenarios.tls.feeding import packets_of
from tests.scenarios.tls.peers import record


def send(number: int, size: int) -> bytes:
    return payload_frame("SEND", message_metadata(sequence_id=number), bytes(size), producer_id=1, sequence_id=number)


FLIGHTS = [
    (0, CONNECT),
    (1, CONNECTED),
    (0, send(0, 10) + send(1, 10) + send(2, 2_000)),
    (0, send(3, 40_000) + send(4, 1)),
    *((0, send(5 + number, 300)) for number in range(20)),
]


def frames(path: Path, *options: str) -> list[tuple[Any, ...]]:
    shown = execute_here("decode", str(path), "-f", "ndjson", "--records", "frame,exchange,connection", "-q", *options)
    rows = [json.loads(line) for line in shown.stdout.splitlines()]
    names = ("record", "packet", "sub", "time", "command", "size", "num_messages", "latency_ns", "closed")
    return [tuple(str(row.get(name)) for name in names) for row in rows]


def swapped(packets: list[Packet]) -> list[Packet]:
    out = list(packets)
    for at in range(8, len(out) - 8, 3):
        out[at], out[at + 1] = out[at + 1], out[at]
    return out


def doubled(packets: list[Packet]) -> list[Packet]:
    return [each for at, packet in enumerate(packets) for each in ([packet] if at % 5 else [packet, packet])]


def shuffled(packets: list[Packet]) -> list[Packet]:
    random = Random(7)  # noqa: S311 - the order of a test
    return packets[:12] + sorted(packets[12:-3], key=lambda packet: packets.index(packet) + random.random() * 4) + packets[-3:]


def without_handshake(packets: list[Packet]) -> list[Packet]:
    return packets[3:]


@pytest.mark.parametrize("change", [list, swapped, doubled, shuffled, without_handshake])
def test_frames_inside_tls_are_complete_with_the_same_packets(change: Callable[[list[Packet]], list[Packet]], tmp_path: Path) -> None:
    recording = record(FLIGHTS)
    path = write_pcap(tmp_path / "in.pcap", change(packets_of(recording.flights)))
    key_log = tmp_path / "in.keylog"
    key_log.write_bytes(recording.key_log)
    options = "--tls-keylog", str(key_log)
    copy = tmp_path / "copy.pcapng"
    done = execute_here("extract", str(path), "--redact", "-o", str(copy), *options)
    assert "1 connection inside TLS copied as plain packets, redacted" in done.stderr.decode()
    assert len(frames(copy)) > 25
    assert frames(copy) == frames(path, *options) == frames(path, *options, "--redact")
    secrets = [line.split()[-1] for line in recording.key_log.splitlines() if line.startswith((b"CLIENT_", b"SERVER_"))]
    assert secrets
    assert not any(secret in copy.read_bytes() or bytes.fromhex(secret.decode()) in copy.read_bytes() for secret in secrets)


def test_without_secrets_the_connection_is_left_out(tmp_path: Path) -> None:
    path = write_pcap(tmp_path / "in.pcap", packets_of(record(FLIGHTS).flights))
    done = execute_here("extract", str(path), "--redact", "-o", str(tmp_path / "copy.pcapng"))
    assert "1 connection inside TLS that was not decrypted left out" in done.stderr.decode()


def test_a_frame_is_whole_with_the_end_of_its_last_record_and_not_before() -> None:
    stream = PlainStream()
    stream.add(500, 630, 0, 100)
    stream.add(500, 630, 100, 110)  # of the same record
    stream.add(600, 900, 110, 300)
    stream.add(2_000, 2_100, 900, 950)  # after a loss
    ends = {0: 0, 500: 0, 629: 99, 630: 110, 899: 299, 900: 300, 1_999: 900, 2_000: 900, 2_100: 950, 9_999: 950}
    assert {at: stream.offset(at) for at in ends} == ends


@pytest.mark.parametrize("first", [0, 100, (1 << 32) - 700], ids=["zero", "some", "wraps"])
def test_numbers_count_what_was_said_and_the_fin(first: int) -> None:
    stream = PlainStream()
    stream.add(500, 630, 0, 100)
    assert stream.number(first) == first  # nothing is known yet
    stream.see(first, 0x02, (0, 0))
    stream.see((first + 631) % (1 << 32), 0x11, (0, 0))
    assert stream.number((first + 631) % (1 << 32)) == (first + 101) % (1 << 32)
    assert stream.number((first + 632) % (1 << 32)) == (first + 102) % (1 << 32)
    assert stream.number((first + 1) % (1 << 32)) == (first + 1) % (1 << 32)
