"""Random damage against the whole catalogue: damaged real captures, and damaged frames with corrected checksums."""

from __future__ import annotations

import gzip
import json
import struct
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
import zstandard

from pulsarscope.cli.arguments.options import CommandRequest, ReadOptions
from pulsarscope.cli.run_command import run_command
from pulsarscope.model.errors import CaptureError
from tests.scenarios import Conversation, base_command, command_frame, compress, message_metadata, payload_frame, sized
from tests.scenarios.bad_inputs.cases import CONNECT, CONNECTED, PRODUCER, PRODUCER_SUCCESS, Seen, capture, chance, look
from tests.scenarios.bad_inputs.payloads import BATCH, TEXT
from tests.scenarios.wire import raw_frame

SECONDS = 3.0
"""Time after which a test ends, whatever the number of inputs: other machines are slower, and benchmarks.fuzz tries far more."""

FILE_HEADER_BYTES = 24
CAPTURE_MAX_BYTES = 200_000


def plain(path: Path) -> bytes:
    data = path.read_bytes()
    if path.suffix == ".gz":
        return gzip.decompress(data)
    return zstandard.ZstdDecompressor().decompressobj().decompress(data) if path.suffix == ".zst" else data


# ---- real captures, damaged at random


def change_bytes(dice: Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(int(len(data) * dice.choice((0.02, 0.002, 0.0002))) + 1):
        changed[dice.randrange(FILE_HEADER_BYTES, len(data))] = dice.choice((0, 0x7F, 0x80, 0xFF, dice.randrange(256)))
    return bytes(changed)


def cut(dice: Random, data: bytes) -> bytes:
    return data[: dice.randrange(1, len(data))]


def leave_out(dice: Random, data: bytes) -> bytes:
    start = dice.randrange(FILE_HEADER_BYTES, len(data))
    return data[:start] + data[start + dice.randrange(1, 300) :]


def repeat(dice: Random, data: bytes) -> bytes:
    start, source = dice.randrange(FILE_HEADER_BYTES, len(data)), dice.randrange(len(data))
    return data[:start] + data[source : source + dice.randrange(1, 5000)] + data[start:]


def change_payloads(dice: Random, data: bytes) -> bytes:
    """Damage the content of packets of a little-endian pcap file, but no header whose damage would lose the packet."""
    if data[:4] not in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1"):
        return change_bytes(dice, data)
    changed = bytearray(data)
    position, rate = FILE_HEADER_BYTES, dice.choice((0.02, 0.002))
    while position + 16 <= len(data):
        end = position + 16 + int(struct.unpack_from("<I", data, position + 8)[0])
        for at in range(position + 16 + 66, min(end, len(data))):
            if dice.random() < rate:
                changed[at] = dice.randrange(256)
        position = end
    return bytes(changed)


MUTATORS: list[Callable[[Random, bytes], bytes]] = [change_bytes, cut, leave_out, repeat, change_payloads]


def assert_records_hold(lines: list[bytes]) -> None:
    """Require that each line is JSON; and that framed, skipped, missing and unfinished bytes add up to each stream."""
    framed: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    connections: list[dict[str, Any]] = []
    for line in lines:
        record = json.loads(line)
        assert record.get("latency_ns", 0) >= 0
        if record["record"] == "frame" and record["status"] in ("ok", "malformed"):
            framed[record["connection"], record["direction"]].append(record["size"])
        elif record["record"] == "connection" and "dissector" in record:
            connections.append(record)
    for one in connections:
        for side in ("client", "server"):
            sizes = framed[one["connection"], side]
            rest = sum(one.get(f"{side}_{what}", 0) for what in ("skipped", "missing", "tail"))
            assert (sum(sizes) + rest, len(sizes)) == (one[f"{side}_bytes"], one[f"{side}_frames"]), (one["connection"], side)


@pytest.mark.slow
@pytest.mark.parametrize("mutate", MUTATORS)
def test_no_damage_to_a_capture_raises_or_loses_a_byte(
    captures: Path, tmp_path: Path, mutate: Callable[[Random, bytes], bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    sources = [data for path in sorted(captures.glob("*.pcap*")) if len(data := plain(path)) <= CAPTURE_MAX_BYTES]
    secrets = ReadOptions(tls_keylog=[str(path) for path in captures.glob("*.keylog")])
    out = tmp_path / "out.ndjson"
    end = time.monotonic() + SECONDS / len(MUTATORS)
    for seed in range(200):
        dice = chance(f"{mutate.__name__} {seed}")
        path = capture(tmp_path, mutate(dice, dice.choice(sources)), f"{mutate.__name__}-{seed}.pcap")
        try:
            request = CommandRequest(files=(str(path),), records="all", format="ndjson", payload="text", out=str(out), reading=secrets)
            assert run_command(request) in (0, 4)
        except CaptureError:
            continue
        assert_records_hold(out.read_bytes().splitlines())
        path.unlink()
        if time.monotonic() > end:
            break
    assert capsys.readouterr().out == ""


# ---- frames with damage inside


def damaged(dice: Random, data: bytes) -> bytes:
    """The bytes with some changed, left out or repeated."""
    changed = bytearray(data)
    for _ in range(dice.choice((1, 1, 1, 2, 5))):
        at = dice.randrange(len(changed) + 1)
        kind = dice.randrange(4)
        if kind == 0:
            changed[at : at + dice.randrange(1, 4)] = b""
        elif kind == 1:
            changed[at:at] = changed[: dice.randrange(1, 9)]
        elif at < len(changed):
            changed[at] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, changed[at] ^ 1 << dice.randrange(8), dice.randrange(256)))
    return bytes(changed)


COMMANDS = [
    base_command("LOOKUP", topic="t", request_id=1),
    base_command("SUBSCRIBE", topic="t", subscription="s", subType="Shared", consumer_id=1, request_id=2),
    base_command("ACK", consumer_id=1, ack_type="Individual", message_id=[{"ledgerId": 5, "entryId": 6, "ack_set": [1, 2]}]),
    base_command("FLOW", consumer_id=1, messagePermits=100),
    base_command("GET_OR_CREATE_SCHEMA", request_id=3, topic="t", schema={"name": "n", "schema_data": b"{}", "type": "Json"}),
    base_command("PRODUCER", topic="t", producer_id=1, request_id=4, metadata=[{"key": "k", "value": "v"}]),
]
ENTRIES: list[tuple[dict[str, Any], bytes]] = [
    ({}, b"hello"),
    ({"num_messages_in_batch": 3}, BATCH),
    *[({"compression": codec, "uncompressed_size": len(TEXT)}, compress(codec, TEXT)) for codec in ("LZ4", "ZLIB", "ZSTD", "SNAPPY")],
    *[
        ({"compression": codec, "uncompressed_size": len(BATCH), "num_messages_in_batch": 3}, compress(codec, BATCH))
        for codec in ("LZ4", "ZSTD")
    ],
    *[({"uuid": "u", "chunk_id": number, "num_chunks_from_msg": 3, "total_chunk_msg_size": 9}, b"abc") for number in range(3)],
    ({"encryption_keys": [{"key": "k", "value": b"v"}], "properties": [{"key": "k", "value": "v"}]}, b"cipher"),
]


def odd_frame(dice: Random) -> bytes:
    """A frame with damage in one part, with correct sizes and checksum; rarely with wrong ones."""
    part = dice.randrange(8)
    if part < 2:
        return raw_frame(damaged(dice, dice.choice(COMMANDS)))
    fields, payload = dice.choice(ENTRIES)
    metadata = message_metadata(sequence_id=dice.randrange(5), **fields)
    if part < 5:
        metadata = damaged(dice, metadata)
    elif part < 7:
        payload = damaged(dice, payload)
    frame = payload_frame("SEND", metadata, payload, producer_id=1, sequence_id=dice.randrange(5))
    return damaged(dice, frame) if part == 7 else frame


def shape(seen: Seen) -> list[tuple[Any, ...]]:
    """Properties that must not depend on how the streams were cut into packets."""
    return [(one.direction, one.offset, one.size, one.command, one.status, one.findings) for one in seen.frames] + [
        (one.direction, one.sequence_id, one.batch_index, one.status, one.payload_sha256) for one in seen.messages
    ]


@pytest.mark.slow
def test_no_damage_to_a_frame_raises_and_every_cut_into_segments_reads_the_same(tmp_path: Path) -> None:
    end = time.monotonic() + SECONDS / 2
    for seed in range(100):
        dice = chance(seed)
        frames = [odd_frame(dice) for _ in range(40)]
        receipts = [command_frame("SEND_RECEIPT", producer_id=1, sequence_id=n, message_id={"ledgerId": 1, "entryId": n}) for n in range(5)]
        shapes = []
        for mss in (1448, 61, 7):
            conversation = Conversation(mss=mss).handshake().client(CONNECT).server(CONNECTED).client(PRODUCER).server(PRODUCER_SUCCESS)
            conversation.client(*frames).server(*receipts).close()
            shapes.append(shape(look(capture(tmp_path, conversation.packets))))
        assert shapes[0] == shapes[1] == shapes[2], seed
        if time.monotonic() > end:
            break


def test_bytes_of_no_protocol_are_never_taken_for_frames(tmp_path: Path) -> None:
    dice = chance(11)
    for _ in range(20):
        data = sized(dice.randbytes(dice.randrange(8, 20_000)))
        conversation = Conversation(server=("10.0.0.2", 9092)).handshake().client(data).server(data[::-1]).close()
        seen = look(capture(tmp_path, conversation.packets))
        assert (seen.frames, [row.code for row in seen.findings]) == ([], ["not-kafka07"])  # it is the port of kafka07
