"""Extracted packets are exactly the requested ones, as they are in the capture."""

from __future__ import annotations

import errno
import gzip
import io
import os
import struct
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path
from random import Random
from threading import Thread
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings

import pulsarscope as ps
from pulsarscope import cli
from pulsarscope.cli.arguments.extract_request import ExtractRequest
from pulsarscope.cli.arguments.options import ReadOptions
from pulsarscope.cli.packet_copy import write_packets
from pulsarscope.model.errors import CaptureError, OutputError, UsageError
from tests.places import CAPTURES
from tests.scenarios.both_readers import blocks_of, reader
from tests.scenarios.capture_bytes import Pcapng
from tests.scenarios.capturefile import Packet, pcap, write_pcap
from tests.scenarios.chance import randoms
from tests.scenarios.commands import CONNECT, CONNECTED, PING, receipt
from tests.scenarios.conversation import Conversation
from tests.scenarios.frames import message_metadata, payload_frame
from tests.scenarios.pcapng_blocks import blocks, comments
from tests.scenarios.publishers import Publishers
from tests.scenarios.recapture import Segment, doubled, packets_of, segments_of, shuffled
from tests.scenarios.streams import frames_of
from tests.scenarios.tls.feeding import packets_of as tls_packets
from tests.scenarios.tls.peers import record
from tests.scenarios.wrapping import FRAME_WRAPPERS, fragments, framed

ALL_CAPTURES = sorted(CAPTURES.glob("*.pcap*"))

Extract = Callable[..., tuple[int, list[Packet], list[str]]]


def send(number: int, size: int) -> bytes:
    return payload_frame("SEND", message_metadata(sequence_id=number), bytes(size), producer_id=1, sequence_id=number)


def dialogue() -> Conversation:
    """Packets: 1-3 handshake, 4 CONNECT, 5 ACK, 6 CONNECTED, 7 ACK."""
    return Conversation().handshake().client(CONNECT).server(CONNECTED)


@pytest.fixture
def extracted(tmp_path: Path) -> Extract:
    """A function that extracts into a file, and returns the exit code, the packets in the file, and their comments."""

    def extract(*files: Path, **values: Any) -> tuple[int, list[Packet], list[str]]:
        out = tmp_path / "out.pcapng"
        values.setdefault("quiet", True)
        code = write_packets(ExtractRequest(files=list(map(str, files)), out=str(out), **values))
        return code, packets_of(out), [_names_of(comment) for comment in comments(out.read_bytes())]

    return extract


def _names_of(comment: str) -> str:
    """Omit the finding about conversations without a producer, which all conversations here have."""
    return "\n".join(line for line in comment.splitlines() if not line.startswith("send-without-producer: "))


def numbers(extracted_packets: list[Packet], packets: list[Packet]) -> list[int]:
    """The numbers of these packets, which all have different times."""
    by_time = {packet.time_ns: number for number, packet in enumerate(packets, 1)}
    for packet in extracted_packets:
        original = packets[by_time[packet.time_ns] - 1]
        assert packet.data == original.data
        assert packet.wire_bytes == (original.wire_bytes or len(original.data))
    return [by_time[packet.time_ns] for packet in extracted_packets]


def key_logs_of(path: Path) -> list[str]:
    """The TLS secrets of a real capture."""
    key_log = path.with_name(path.name.partition("-dsb")[0].partition(".")[0] + ".keylog")
    return [str(key_log)] if key_log.exists() else []


def content(path: Path, key_logs: Sequence[str] = ()) -> Counter[str]:
    """All frames, without the names that depend on packets."""
    extracted_packets: Counter[str] = Counter()
    for frame in ps.open(str(path), tls_keylog=key_logs).frames():
        row = msgspec.to_builtins(frame)
        for name in ("file", "packet", "sub", "connection", "request"):
            row.pop(name, None)
        extracted_packets[msgspec.json.encode(row, order="sorted").decode()] += 1
    return extracted_packets


# ---- selection


@pytest.mark.slow
@pytest.mark.parametrize("path", ALL_CAPTURES, ids=lambda path: path.name)
def test_without_a_filter_all_frames_come_along(path: Path, extracted: Extract, tmp_path: Path) -> None:
    key_logs = key_logs_of(path)
    code, packets, names = extracted(path, reading=ReadOptions(tls_keylog=key_logs))
    assert code == 0
    assert content(tmp_path / "out.pcapng", key_logs) == content(path, key_logs)
    named = {line.partition(" ")[0] for lines in names for line in lines.splitlines()}
    assert {f"0:{frame.packet}.{frame.sub}" for frame in ps.open(str(path), tls_keylog=key_logs).frames()} <= named
    if path.suffix == ".pcap" and path.name != "rw-bigendian.pcap":
        assert not Counter(packets) - Counter(packets_of(path))


def test_a_frame_brings_all_packets_that_carried_it(extracted: Extract, tmp_path: Path) -> None:
    conversation = dialogue().client(send(0, 10)).client(send(1, 3000)).server(receipt(1, 0, entry=0), receipt(1, 1, entry=1)).close()
    path = write_pcap(tmp_path / "in.pcap", conversation.packets)
    code, extracted_packets, names = extracted(path, filter="command == SEND && payload_size == 3000")
    assert code == 0
    assert numbers(extracted_packets, conversation.packets) == [10, 11, 12]
    assert names == ["0:12.1 SEND"] * 3


@pytest.mark.parametrize("version", ["12", "13"])
def test_a_frame_inside_tls_brings_the_packets_of_its_records_and_what_is_needed_to_read_them(
    version: str, extracted: Extract, tmp_path: Path
) -> None:
    path = next(path for path in ALL_CAPTURES if path.name == f"go-tls{version}.pcap")
    key_logs = key_logs_of(path)
    code, extracted_packets, names = extracted(
        path, filter="command == SEND && fields.sequence_id > 10", reading=ReadOptions(tls_keylog=key_logs)
    )
    assert code == 0
    whole = [frame for frame in ps.open(str(path), tls_keylog=key_logs).frames() if frame.command == "SEND"]
    sends = [frame for frame in whole if (frame.fields or {})["sequence_id"] > 10]
    assert [line for line in names if line] == [f"{frame.file}:{frame.packet}.{frame.sub} SEND" for frame in sends]
    clear = len(extracted_packets) - len(sends)
    assert 2 <= clear <= 4  # the hellos of the handshake
    again = list(ps.open(str(tmp_path / "out.pcapng"), tls_keylog=key_logs).frames())
    assert [(frame.command, frame.fields, frame.metadata) for frame in again if frame.command] == [
        (frame.command, frame.fields, frame.metadata) for frame in sends
    ]
    for key_log in key_logs:
        for line in Path(key_log).read_bytes().splitlines():
            assert line.split()[2] not in (tmp_path / "out.pcapng").read_bytes()


def test_frames_of_one_record_are_each_named(extracted: Extract, tmp_path: Path) -> None:
    recording = record(
        [
            (0, CONNECT),
            (1, CONNECTED),
            (0, send(0, 10) + send(1, 10)),
            (0, send(2, 30_000)),
            (1, receipt(1, 0, entry=0) + receipt(1, 1, entry=1)),
        ]
    )
    path = write_pcap(tmp_path / "in.pcap", tls_packets(recording.flights))
    key_log = tmp_path / "in.keylog"
    key_log.write_bytes(recording.key_log)
    reading = ReadOptions(tls_keylog=[str(key_log)])
    _, both, names = extracted(path, filter="command == SEND && payload_size == 10", reading=reading)
    assert names[-1].splitlines()[0].endswith(".1 SEND")
    assert names[-1].splitlines()[1].endswith(".2 SEND")
    _, large, names = extracted(path, filter="payload_size == 30000", reading=reading)
    assert len(large) - len(both) == 30_000 // 1448
    assert {line.partition(" ")[2] for line in names if line} == {"SEND"}


def test_a_packet_comes_for_one_of_its_frames_and_names_only_that(extracted: Extract, tmp_path: Path) -> None:
    conversation = dialogue().client(PING, send(0, 10), PING).client(PING)
    path = write_pcap(tmp_path / "in.pcap", conversation.packets)
    _, extracted_packets, names = extracted(path, filter="command == SEND")
    assert numbers(extracted_packets, conversation.packets) == [8]
    assert names == ["0:8.2 SEND"]


def test_late_segments_and_copies_come_along_at_their_places(extracted: Extract, tmp_path: Path) -> None:
    """The middle of the frame comes last and completes it; then its head comes again."""
    packets = dialogue().client(send(0, 100), mss=50).client(PING).packets
    count = sum(len(segment.payload) > 0 for segment in segments_of(packets[7:])) - 1
    body = packets[7 : 7 + count]
    assert count > 2
    moved = [*packets[:7], body[0], *body[2:], body[1], *packets[7 + count :], body[0]]
    packets = [Packet(1_000_000_000 + number, packet.data) for number, packet in enumerate(moved)]
    path = write_pcap(tmp_path / "in.pcap", packets)
    _, extracted_packets, names = extracted(path, filter="command == SEND")
    assert numbers(extracted_packets, packets) == [*range(8, 8 + count), len(packets)]
    assert [name.splitlines()[0] for name in names] == [f"0:{7 + count}.1 SEND"] * (count + 1)


@pytest.mark.parametrize("tunnel", [False, True], ids=["plain", "in-vxlan"])
def test_all_fragments_of_a_packet_come_along(extracted: Extract, tmp_path: Path, tunnel: bool) -> None:
    """The SEND's second packet comes in fragments, out of order, among others, and one of them again at the end."""
    packets = dialogue().client(send(0, 2000)).client(PING).close().packets
    parts = [framed(FRAME_WRAPPERS["vxlan"](framed(part)) if tunnel else part) for part in fragments(packets[8].data[14:], 256)]
    count = len(parts)
    assert count > 2
    datas = [packet.data for packet in packets]
    datas = [*datas[:8], *parts[1:], datas[9], datas[10], parts[0], *datas[11:], parts[1]]
    mixed = [Packet(1_000_000_000 + number, data) for number, data in enumerate(datas)]
    path = write_pcap(tmp_path / "in.pcap", mixed)
    completed = 8 + count + 2
    _, extracted_packets, names = extracted(path, filter="command == SEND")
    assert numbers(extracted_packets, mixed) == [8, *range(9, 8 + count), completed, len(mixed)]
    assert [name.partition("\n")[0] for name in names] == [f"0:{completed}.1 SEND", *[""] * (count - 1), f"0:{completed}.1 SEND", ""]
    commands = [frame.command for frame in ps.open(str(tmp_path / "out.pcapng")).frames() if frame.status == "ok"]
    assert commands == ["SEND"]


def test_fragments_of_packets_that_are_not_wanted_stay_behind(extracted: Extract, tmp_path: Path) -> None:
    packets = dialogue().client(send(0, 2000)).client(PING).close().packets
    parts = [framed(part) for part in fragments(packets[8].data[14:], 256)]
    datas = [*(packet.data for packet in packets[:8]), *parts, *(packet.data for packet in packets[9:])]
    mixed = [Packet(1_000_000_000 + number, data) for number, data in enumerate(datas)]
    _, extracted_packets, _ = extracted(write_pcap(tmp_path / "in.pcap", mixed), filter="command == PING")
    assert numbers(extracted_packets, mixed) == [9 + len(parts) + 1]


def test_context_brings_what_opens_and_closes_the_connection(extracted: Extract, tmp_path: Path) -> None:
    other = Conversation(("10.0.0.3", 40000), start_ns=1_800_000_000_000_000_000).handshake().client(CONNECT).server(CONNECTED).close()
    conversation = dialogue().client(send(0, 10)).server(receipt(1, 0, entry=0)).close()
    packets = [*conversation.packets, *other.packets]
    path = write_pcap(tmp_path / "in.pcap", packets)
    _, extracted_packets, names = extracted(path, filter="command == SEND", context=True)
    assert numbers(extracted_packets, packets) == [1, 2, 3, 4, 6, 8, 12, 13]
    assert names == ["", "", "", "0:4.1 CONNECT", "0:6.1 CONNECTED", "0:8.1 SEND", "", ""]


@pytest.mark.parametrize(
    ("records", "text", "expected"),
    [
        ("message", 'producer_name == "p" || sequence_id == 1', [10]),
        ("exchange", "request == SEND && latency < 300us", [10, 12]),
        ("exchange", "response == CONNECTED", [4, 6]),
        ("connection", "client.port == 40000", list(range(1, 17))),
        ("frame,exchange", "command == PING || response == CONNECTED", [4, 6, 14]),
    ],
)
def test_other_records_bring_the_packets_of_their_frames(
    extracted: Extract, tmp_path: Path, records: str, text: str, expected: list[int]
) -> None:
    """Packets: 8 SEND 0, 10 SEND 1, 12 both receipts, 14 PING, 16 an acknowledgment without news."""
    conversation = (
        dialogue().client(send(0, 10)).client(send(1, 10)).server(receipt(1, 0, entry=0), receipt(1, 1, entry=1)).client(PING).reset()
    )
    path = write_pcap(tmp_path / "in.pcap", conversation.packets)
    _, extracted_packets, _ = extracted(path, kinds=records, filter=text)
    assert numbers(extracted_packets, conversation.packets) == expected


def test_a_finding_brings_its_frame_and_is_written_in_the_comment(extracted: Extract, tmp_path: Path) -> None:
    damaged = bytearray(send(0, 100))
    damaged[-1] ^= 1
    conversation = dialogue().client(send(1, 10)).client(bytes(damaged), mss=60)
    path = write_pcap(tmp_path / "in.pcap", conversation.packets)
    last = len(conversation.packets) - 1
    _, extracted_packets, names = extracted(path, kinds="finding", filter="code == checksum-mismatch")
    assert numbers(extracted_packets, conversation.packets) == list(range(10, last + 1))
    assert names[0] == f"0:{last}.1 SEND"
    first, second, *_ = names[-1].splitlines()
    assert first == f"0:{last}.1 SEND"
    assert second.startswith("checksum-mismatch: ")


def test_findings_of_rules_are_written_in_comments_when_they_are_asked_for(tmp_path: Path) -> None:
    path = write_pcap(tmp_path / "in.pcap", dialogue().client(send(0, 10)).packets)
    out = tmp_path / "out.pcapng"

    def commented(**values: Any) -> list[bool]:
        write_packets(ExtractRequest(files=[str(path)], out=str(out), quiet=True, **values))
        return ["send-without-producer: " in comment for comment in comments(out.read_bytes())]

    assert commented(filter="command == SEND") == [False]
    for asked in ({"findings": True}, {"fail_on": "error"}):
        assert commented(filter="command == SEND", **asked) == [True]
    assert commented(kinds="frame,finding", filter="command == SEND") == [True]


def test_a_finding_about_a_packet_brings_the_packet(extracted: Extract, tmp_path: Path) -> None:
    conversation = dialogue().lose("client", 50).client(PING).client(PING)
    path = write_pcap(tmp_path / "in.pcap", conversation.packets)
    _, extracted_packets, names = extracted(path, kinds="finding", filter="code == stream-gap")
    assert numbers(extracted_packets, conversation.packets) == [8]
    assert names[0].startswith("stream-gap: 50 bytes")


def test_connections_of_other_protocols_stay_behind(extracted: Extract, tmp_path: Path) -> None:
    other = (
        Conversation(("10.0.0.3", 40000), ("10.0.0.2", 80), start_ns=1_800_000_000_000_000_000)
        .handshake()
        .client(b"GET / HTTP/1.1\r\n\r\n")
    )
    conversation = dialogue().client(PING)
    path = write_pcap(tmp_path / "in.pcap", [*other.packets, *conversation.packets])
    assert len(extracted(path)[1]) == len(conversation.packets)
    everything = extracted(path, kinds="connection", filter="packets > 0")[1]
    assert len(everything) == len(conversation.packets) + len(other.packets)


def test_a_filter_that_nothing_matches_gives_an_empty_capture(extracted: Extract, tmp_path: Path) -> None:
    path = write_pcap(tmp_path / "in.pcap", dialogue().packets)
    assert extracted(path, filter="command == SEEK") == (0, [], [])


def test_without_a_filter_all_records_of_a_kind_match(extracted: Extract, tmp_path: Path) -> None:
    conversation = dialogue().client(PING).close()
    path = write_pcap(tmp_path / "in.pcap", conversation.packets)
    assert numbers(extracted(path, kinds="exchange")[1], conversation.packets) == [4, 6, 8]
    assert numbers(extracted(path, kinds="frame")[1], conversation.packets) == [4, 6, 8]


def test_findings_after_their_connection_are_selected_by_its_addresses(extracted: Extract, captures: Path) -> None:
    code, packets, _ = extracted(captures / "errors.pcap", kinds="finding")
    assert packets
    assert extracted(captures / "errors.pcap", kinds="finding", filter="client.port > 0")[:2] == (code, packets)


def test_a_limit_counts_records(extracted: Extract, tmp_path: Path) -> None:
    conversation = dialogue().client(PING).client(PING).client(PING)
    path = write_pcap(tmp_path / "in.pcap", conversation.packets)
    assert numbers(extracted(path, filter="command == PING", limit=2)[1], conversation.packets) == [8, 10]


@pytest.mark.parametrize("limit", [1, 2])
@pytest.mark.parametrize("choice", ["off", "require"])
def test_a_limit_leaves_no_finding_out_of_the_comments(extracted: Extract, tmp_path: Path, limit: int, choice: str) -> None:
    """Cover a gap that is found after the limit, as nothing but the end of the capture tells that its bytes are missing."""
    if choice == "require":
        pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")
    conversation = dialogue().client(PING).server(PING).lose("client", len(PING)).client(PING)
    path = write_pcap(tmp_path / "in.pcap", conversation.packets)
    with reader(choice):
        unlimited = extracted(path, filter="command == PING")[2]
        assert extracted(path, filter="command == PING", limit=limit)[2] == unlimited[:limit]
        whole = extracted(path, kinds="connection")[2]
        assert extracted(path, kinds="connection", limit=limit)[2] == whole
    assert any("stream-gap: " in comment for comment in whole)


@pytest.mark.parametrize("choice", ["off", "require"])
def test_findings_are_in_the_comments_of_packets_of_who_sent_no_frame(extracted: Extract, tmp_path: Path, choice: str) -> None:
    if choice == "require":
        pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")
    path = write_pcap(tmp_path / "in.pcap", Conversation().client(PING).reset("server").packets)
    with reader(choice):
        assert "connection-reset: 10.0.0.2:6650 reset the connection." in extracted(path, kinds="connection")[2][-1]


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(random=randoms)
def test_any_frames_are_exactly_their_packets(extracted: Extract, tmp_path: Path, random: Random) -> None:
    """Connections have copies and disorder. The packets are those found by an independent look at the segments, and frames that are alone
    in their packets are decoded from them again.
    """
    alone = random.random() < 0.5
    conversation = dialogue()
    for _ in range(random.randint(1, 12)):
        say = random.choice((conversation.client, conversation.server))
        say(*frames_of(random, 1 if alone else random.randint(1, 5)), mss=random.choice((60, 300, 1448)))
    segments = segments_of(conversation.close().packets)
    if random.random() < 0.5:
        segments = doubled(segments, random)
    if random.random() < 0.5:
        segments = shuffled(segments, random)
    path = write_pcap(tmp_path / "in.pcap", [segment.packet() for segment in segments])
    chosen = [frame for frame in ps.open(str(path)).frames() if frame.status == "ok" and random.random() < 0.3]
    text = " || ".join(f"(direction == {frame.direction} && offset == {frame.offset})" for frame in chosen) or "command == SEEK"
    _, extracted_packets, _ = extracted(path, filter=text)
    assert [packet.data for packet in extracted_packets] == [segment.packet().data for segment in segments if carries(segment, chosen)]
    extracted(path, filter=text, context=True)
    again = {identity(frame) for frame in ps.open(str(tmp_path / "out.pcapng")).frames()}
    assert not alone or {identity(frame) for frame in chosen} <= again


def carries(segment: Segment, chosen: list[Any]) -> bool:
    direction, first = ("client", 1001) if segment.source_port == 40000 else ("server", 5001)
    start = segment.sequence - first
    return any(
        frame.direction == direction and start < frame.offset + frame.size and frame.offset < start + len(segment.payload)
        for frame in chosen
        if segment.payload
    )


def identity(frame: Any) -> tuple[Any, ...]:
    return frame.direction, frame.offset, frame.size, frame.command, str(frame.fields), str(frame.metadata)


# ---- input and output


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.ZstdCompressor().compress], ids=["gz", "zst"])
def test_compressed_captures_are_read(extracted: Extract, tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    conversation = dialogue().client(PING)
    path = tmp_path / "in.pcap.compressed"
    path.write_bytes(compress(pcap(conversation.packets)))
    assert numbers(extracted(path, filter="command == PING")[1], conversation.packets) == [8]


def test_the_interfaces_of_a_pcapng_file_stay_apart(extracted: Extract, tmp_path: Path) -> None:
    build = Pcapng()
    packets = dialogue().client(PING).packets
    data = build.section() + build.interface(name="eth0") + build.interface(name="any", link_type=113, resolution=9)
    for number, packet in enumerate(packets):
        if number % 2:
            cooked = bytes(14) + packet.data[12:]
            data += build.packet(cooked, interface=1, ticks=packet.time_ns + number)
        else:
            data += build.packet(packet.data, ticks=packet.time_ns // 1000)
    path = tmp_path / "in.pcapng"
    path.write_bytes(data)
    extracted(path)
    written = blocks((tmp_path / "out.pcapng").read_bytes())
    interfaces = [(struct.unpack_from("<H", block.body)[0], dict(block.options(8))[2]) for block in written if block.kind == 1]
    assert interfaces == [(1, b"eth0"), (113, b"any")]
    of_packets = [struct.unpack_from("<III", block.body) for block in written if block.kind == 6]
    assert [number for number, _, _ in of_packets] == [number % 2 for number in range(len(packets))]
    assert [high << 32 | low for _, high, low in of_packets] == [
        packet.time_ns + number if number % 2 else packet.time_ns // 1000 * 1000 for number, packet in enumerate(packets)
    ]


def test_several_inputs_of_different_link_types_are_one_file(extracted: Extract, tmp_path: Path) -> None:
    """A connection that continues in the next file stays one."""
    packets = dialogue().client(send(0, 3000)).packets
    first = write_pcap(tmp_path / "a.pcap", packets[:8])
    raw = [packet._replace(data=packet.data[14:]) for packet in packets[8:]]
    second = write_pcap(tmp_path / "b.pcap", raw, link_type=101)
    code, extracted_packets, names = extracted(first, second, filter="command == SEND", context=True)
    assert code == 0
    assert [packet.data for packet in extracted_packets] == [packet.data for packet in [*packets[:4], packets[5], packets[7], *raw[:2]]]
    assert names[-3:] == ["1:2.1 SEND"] * 3
    assert [struct.unpack_from("<H", block.body)[0] for block in blocks((tmp_path / "out.pcapng").read_bytes()) if block.kind == 1] == [
        1,
        101,
    ]


def test_packets_cut_by_the_snap_length_keep_their_length_on_the_wire(extracted: Extract, tmp_path: Path) -> None:
    conversation = dialogue().client(send(0, 500))
    packets = [packet._replace(data=packet.data[:120], wire_bytes=len(packet.data)) for packet in conversation.packets]
    path = write_pcap(tmp_path / "in.pcap", packets)
    _, extracted_packets, _ = extracted(path, filter="status == truncated")
    assert numbers(extracted_packets, packets) == [8]
    assert len(extracted_packets[0].data) == 120
    assert extracted_packets[0].wire_bytes == len(conversation.packets[7].data)


def test_what_can_be_read_of_a_damaged_capture_is_extracted(extracted: Extract, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    conversation = dialogue().client(PING).client(PING)
    path = tmp_path / "in.pcap"
    path.write_bytes(pcap(conversation.packets)[:-60])
    (tmp_path / "note.txt").write_text("no capture")
    code, extracted_packets, _ = extracted(path, tmp_path / "note.txt", filter="command == PING", quiet=False)
    assert code == 4
    assert numbers(extracted_packets, conversation.packets) == [8, 10]
    assert "note.txt is text" in capsys.readouterr().err


def test_a_pipe_is_read_twice_by_way_of_a_copy(extracted: Extract, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conversation = dialogue().client(PING)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(pcap(conversation.packets))))
    assert numbers(extracted(Path("-"), filter="command == PING")[1], conversation.packets) == [8]
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = Thread(target=pipe.write_bytes, args=(pcap(conversation.packets),))
    writer.start()
    assert numbers(extracted(pipe, filter="command == PING")[1], conversation.packets) == [8]
    writer.join()


def test_a_broken_standard_input_is_one_line(extracted: Extract, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(io.RawIOBase):
        def read(self, _: int = -1) -> bytes:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=Broken()))
    with pytest.raises(
        CaptureError, match=r"standard input must be read twice, and a temporary copy of it cannot be made: Input/output error"
    ):
        extracted(Path("-"))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"text, and more of it, but no capture")))
    with pytest.raises(CaptureError, match=r"^standard input is text"):
        extracted(Path("-"))


def test_the_capture_goes_to_standard_output_unless_that_is_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = write_pcap(tmp_path / "in.pcap", dialogue().client(PING).packets)
    assert write_packets(ExtractRequest(files=[str(path)], out="-", filter="command == PING")) == 0
    captured = capsysbinary.readouterr()
    assert comments(captured.out) == ["0:8.1 PING"]
    assert captured.err.splitlines()[0] == b"pulsarscope: 1 of 9 packets, for 1 frame, written to standard output"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    with pytest.raises(UsageError, match="cannot be written to a terminal"):
        write_packets(ExtractRequest(files=[str(path)]))


def test_the_summary_says_how_much_was_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_pcap(tmp_path / "in.pcap", dialogue().packets)
    out = tmp_path / "out.pcapng"
    assert write_packets(ExtractRequest(files=[str(path)], kinds="connection", out=str(out))) == 0
    assert capsys.readouterr().err.splitlines() == [
        f"pulsarscope: 7 of 7 packets, for 2 frames, written to {out}",
        f"pulsarscope: {out} holds payloads and credentials: share a copy made with --redact",
    ]


@pytest.mark.parametrize(("kinds", "said"), [(None, True), ("frame", True), ("finding", False)])
def test_a_copy_without_frames_says_who_knows_why(
    captures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kinds: str | None, *, said: bool
) -> None:
    request = ExtractRequest(files=[str(captures / "go-tls13.pcap")], kinds=kinds, out=str(tmp_path / "out.pcapng"))
    assert write_packets(request) == 0
    assert ("no frame of a known protocol was found: diagnose says why" in capsys.readouterr().err) is said


def test_the_command_line_takes_it_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_pcap(tmp_path / "in.pcap", Conversation(server=("10.0.0.2", 9999)).handshake().client(PING).packets)
    out = tmp_path / "out.pcapng"
    options = ["--context", "--port", "9999", "-d", "9999=pulsar", "--records", "frame", "--limit", "1", "--fail-on", "error", "-q"]
    monkeypatch.setattr(sys, "argv", ["pulsarscope", "extract", str(path), "-Y", "command == PING", "-o", str(out), *options])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert not ended.value.code
    assert comments(out.read_bytes()) == ["", "", "", "0:4.1 PING"]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("raised", "code", "line"), [(BrokenPipeError(), 0, ""), (KeyboardInterrupt(), 5, "pulsarscope: interrupted; there is no output\n")]
)
def test_who_stops_early_leaves_no_half_capture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], raised: BaseException, code: int, line: str
) -> None:
    def some_packets(*_: Any) -> Any:
        raise raised

    monkeypatch.setattr("pulsarscope.cli.packet_copy.some_packets", some_packets)
    path = write_pcap(tmp_path / "in.pcap", dialogue().packets)
    assert write_packets(ExtractRequest(files=[str(path)], out=str(tmp_path / "out.pcapng"))) == code
    assert [entry.name for entry in tmp_path.iterdir()] == ["in.pcap"]
    assert capsys.readouterr().err == line


@pytest.mark.parametrize("text", ["command == SEND_RECEIPT", "packet > 40 && size < 60", "status == ok", "latency_ns >= 40ms"])
@pytest.mark.parametrize("odd_share", [0.0, 0.1])
def test_the_compiled_reader_selects_the_same_packets(tmp_path: Path, text: str, odd_share: float) -> None:
    pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")
    path = write_pcap(tmp_path / "in.pcap", Publishers(Random(7), odd_share=odd_share).publish(40).packets)  # noqa: S311 - repeatable
    copies = []
    for choice in ("off", "require"):
        out = tmp_path / f"{choice}.pcapng"
        with reader(choice):
            write_packets(ExtractRequest(files=[str(path)], filter=text, out=str(out), quiet=True))
        copies.append(out.read_bytes())
    assert copies[0] == copies[1]
    assert len(comments(copies[0])) > 10


SELECTIONS: dict[str, dict[str, Any]] = {
    "all": {},
    "context": {"filter": "command == SEND", "context": True},
    "context-late": {"filter": "offset > 3000", "context": True},
    "context-of-all": {"context": True},
    "exchanges": {"kinds": "exchange", "filter": "latency > 10ms"},
    "frames-and-exchanges": {"kinds": "frame,exchange", "filter": "command == SEND || latency > 10ms"},
    "findings": {"kinds": "finding"},
    "some-connections": {"kinds": "connection", "filter": "packets > 40", "context": True},
    "unfiltered-frames": {"kinds": "frame", "findings": True},
    "some-frames": {"kinds": "frame", "limit": 7},
    "first-connections": {"kinds": "connection", "limit": 20},
}


@pytest.mark.slow
@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("form", ["pcap", "pcapng", "two-interfaces"])
def test_the_compiled_reader_copies_the_same_packets_wherever_blocks_end(selection: str, form: str, tmp_path: Path) -> None:
    """Covers long and short connections, with losses, copies, disorder and resets."""
    pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")
    random = Random(f"{selection} {form}")  # noqa: S311 - repeatable
    packets = Publishers(random, odd_share=0.1).publish(30).packets
    for port in range(40_000, 40_030):
        conversation = (
            Conversation(("10.0.0.9", port), start_ns=random.choice(packets).time_ns).handshake().client(CONNECT).server(CONNECTED)
        )
        for _ in range(random.randint(0, 3)):
            conversation.client(send(0, random.randint(1, 3000)), PING)
        if random.random() < 0.2:
            conversation.lose("server", 50).server(PING)
        if random.random() < 0.7:
            random.choice((conversation.close, conversation.reset))()
        segments = segments_of(conversation.packets)
        if random.random() < 0.3:
            segments = doubled(segments, random) if random.random() < 0.5 else shuffled(segments, random)
        packets += [segment.packet() for segment in segments]
    packets.sort(key=attrgetter("time_ns"))
    path = tmp_path / "in.pcap"
    if form == "pcap":
        write_pcap(path, packets)
    else:
        build = Pcapng()
        data = build.section() + build.interface(name="eth0", resolution=9) + build.interface(name="eth1", resolution=9)
        for number, packet in enumerate(packets):
            interface = int(form == "two-interfaces" and number % 50 > 45)
            data += build.packet(packet.data, interface=interface, ticks=packet.time_ns)
        path.write_bytes(data)
    copies = []
    for choice, size in (("off", 1 << 20), ("require", 1 << 20), ("require", random.randint(500, 9000))):
        out = tmp_path / f"{choice}-{size}.pcapng"
        with blocks_of(size), reader(choice):
            write_packets(ExtractRequest(files=[str(path), str(path)], out=str(out), quiet=True, **SELECTIONS[selection]))
        copies.append(out.read_bytes())
    assert copies[0] == copies[1] == copies[2]
    assert len(blocks(copies[0])) > 3


def test_the_section_names_this_tool(extracted: Extract, tmp_path: Path) -> None:
    extracted(write_pcap(tmp_path / "in.pcap", dialogue().packets))
    assert dict(blocks((tmp_path / "out.pcapng").read_bytes())[0].options(16)) == {4: f"pulsarscope {ps.__version__}".encode()}


def test_nothing_is_left_of_an_output_that_failed(tmp_path: Path) -> None:
    path = write_pcap(tmp_path / "in.pcap", dialogue().packets)
    with pytest.raises(OutputError):
        write_packets(ExtractRequest(files=[str(path)], out=str(tmp_path / "no" / "out.pcapng")))
    with pytest.raises(UsageError, match="one of the inputs"):
        write_packets(ExtractRequest(files=[str(path)], out=str(path)))
    with pytest.raises(CaptureError):
        write_packets(ExtractRequest(files=[str(tmp_path / "none.pcap")], out=str(tmp_path / "out.pcapng")))
    assert [entry.name for entry in tmp_path.iterdir()] == ["in.pcap"]


def test_a_file_that_does_not_get_its_name_is_not_said_to_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_path: Path, _name: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OutputError, match="Input/output error"):
        write_packets(ExtractRequest(files=[str(CAPTURES / "errors.pcap")], out=str(tmp_path / "out.pcapng")))
    assert capsys.readouterr().err == ""
    assert not [*tmp_path.iterdir()]
