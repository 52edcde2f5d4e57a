from __future__ import annotations

import gzip
import io
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsarscope.capture import BlockReader
from tests.scenarios.capture_bytes import (
    START,
    Pcapng,
    Record,
    ShortReads,
    blocks_of,
    ethernet,
    findings_of,
    ipv6,
    pcap,
    reader_of,
    segment_packet,
    segments_of,
    tcp,
)

FRAMES = [
    segment_packet(b"one"),
    segment_packet(b"two" * 40, flags=0x02),
    ethernet(ipv6(tcp(b"six")), ethertype=0x86DD),
    ethernet(bytes(30), ethertype=0x0806),
    segment_packet(b"three")[:-2],
    segment_packet(),
]
PCAP = pcap([Record(frame, START + index) for index, frame in enumerate(FRAMES)], magic=0xA1B23C4D)
BIG = Pcapng(">")
PCAPNG = Pcapng("<").file(FRAMES) + BIG.file(FRAMES) + BIG.statistics(BIG.count(5, 3)) + BIG.simple_packet(FRAMES[0])
GZIP = gzip.compress(PCAP)
FILES = {"pcap": PCAP, "pcapng": PCAPNG, "gzip": GZIP}


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(FILES)), st.data())
def test_a_file_cut_anywhere_gives_a_prefix_of_the_segments(name: str, data: st.DataObject) -> None:
    complete = FILES[name]
    segments = segments_of(blocks_of(complete))
    size = data.draw(st.integers(0, len(complete) - 1))
    blocks = blocks_of(complete[:size], read_bytes=data.draw(st.sampled_from((1, 50, 1 << 20))))
    segments = segments_of(blocks)
    assert segments == segments[: len(segments)]


@pytest.mark.parametrize("name", sorted(FILES))
@pytest.mark.parametrize("read_bytes", [*range(1, 40), 100, 1000])
def test_the_size_of_reads_changes_nothing(name: str, read_bytes: int) -> None:
    complete = blocks_of(FILES[name])
    pieces = blocks_of(FILES[name], read_bytes=read_bytes)
    assert segments_of(pieces) == segments_of(complete)
    assert findings_of(pieces) == findings_of(complete)
    assert sum(block.packets for block in pieces) == sum(block.packets for block in complete)
    assert set().union(*(block.control for block in pieces)) == complete[0].control


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400), st.sampled_from((b"", PCAP[:24], PCAPNG[:48], b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd")))
def test_random_bytes_never_raise(data: bytes, head: bytes) -> None:
    blocks = blocks_of(head + data)
    assert blocks[-1].packets == 0


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(FILES)), st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=6))
def test_changed_bytes_never_raise_and_reads_of_any_size_agree(name: str, changes: list[tuple[int, int]]) -> None:
    data = bytearray(FILES[name])
    for position, value in changes:
        data[position % len(data)] = value
    complete = blocks_of(bytes(data))
    pieces = blocks_of(bytes(data), read_bytes=61)
    assert segments_of(pieces) == segments_of(complete)
    assert [finding.code for finding in pieces[-1].findings] == [finding.code for finding in complete[-1].findings]


def test_a_stream_that_cannot_seek_gives_a_block_per_read() -> None:
    blocks = list(BlockReader(ShortReads(PCAP, 150)))
    assert len(blocks) > 3
    assert segments_of(blocks) == segments_of(blocks_of(PCAP))


def test_a_pipe_gives_its_packets_as_they_arrive(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    half = 24 + 16 + len(FRAMES[0]) + 5
    first_block_seen = threading.Event()

    def write() -> None:
        with path.open("wb", buffering=0) as stream:
            stream.write(PCAP[:half])
            first_block_seen.wait(10)
            stream.write(PCAP[half:])

    writer = threading.Thread(target=write)
    writer.start()
    blocks = []
    for block in BlockReader(str(path)):
        blocks.append(block)
        first_block_seen.set()
    writer.join()
    assert blocks[0].packets == 1
    assert segments_of(blocks) == segments_of(blocks_of(PCAP))


def test_standard_input_is_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(PCAP)))
    assert segments_of(BlockReader("-")) == segments_of(blocks_of(PCAP))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"text")))
    assert "standard input is text" in next(iter(BlockReader("-"))).findings[0].text


def test_a_path_is_read_and_the_file_index_kept(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(GZIP)
    reader = BlockReader(str(path), 3)
    assert (reader.recognised, reader.first_time) == (False, None)
    blocks = list(reader)
    assert (reader.recognised, reader.first_time) == (True, START)
    assert {block.file for block in blocks} == {3}


def test_blocks_end_where_they_do_whether_frames_stay_in_columns_or_not() -> None:
    data = pcap([Record(segment_packet(b"12345678"), START + index) for index in range(20_000)], magic=0xA1B23C4D)
    packets = []
    for in_columns in (False, True):
        reader = BlockReader(io.BytesIO(data))
        reader.in_columns = in_columns
        packets.append([block.packets for block in reader])
    assert packets[0] == packets[1]
    assert len(packets[0]) > 10


@pytest.mark.parametrize("path", ["/nonexistent/x.pcap", "/", "a\0b"])
def test_an_unreadable_path_is_a_finding(path: str) -> None:
    (block,) = BlockReader(path, 2)
    (finding,) = block.findings
    assert (finding.code, finding.file) == ("file-unreadable", 2)


class Failing(ShortReads):
    def read(self, size: int = -1, /) -> bytes:
        data = super().read(size)
        if not data:
            raise OSError(5, "Input/output error")
        return data


def test_a_read_that_fails_later_keeps_what_came_before() -> None:
    blocks = list(BlockReader(Failing(PCAP[:-3], 1 << 20)))
    assert segments_of(blocks) == segments_of(blocks_of(PCAP[:-3]))
    assert "Input/output error" in findings_of(blocks)["file-unreadable"].text
    assert "capture-truncated" not in findings_of(blocks)


def test_reading_can_be_given_up() -> None:
    reader = reader_of(PCAP, read_bytes=100)
    next(reader)
    reader.close()
    assert list(reader) == []


@pytest.mark.parametrize("read_bytes", [7, 1 << 20])
def test_packets_can_be_kept_as_they_stand_in_the_file(read_bytes: int) -> None:
    for data, times in ((PCAP, range(START, START + 6)), (PCAPNG, [START // 1000 * 1000] * 13)):
        blocks = list(BlockReader(io.BytesIO(data), read_bytes=read_bytes, records=True))
        records = [record for block in blocks for record in block.records]
        assert [record.number for record in records] == list(range(1, len(times) + 1))
        assert [record.data for record in records] == (FRAMES * 3)[: len(times)]
        assert [record.wire_bytes for record in records] == [len(record.data) for record in records]
        assert [record.time for record in records] == list(times)
        assert {record.interface for record in records} == {(1, 0 if data is PCAPNG else 262_144, "")}
        plain = blocks_of(data, read_bytes=read_bytes)
        assert segments_of(blocks) == segments_of(plain), "whichever way they took"
        assert [block.findings for block in blocks] == [block.findings for block in plain]
        assert not any([*block.records] for block in plain)


def test_kept_packets_record_their_interface_and_what_was_cut() -> None:
    build = Pcapng()
    interfaces = build.interface(name="eth0", snaplen=60) + build.interface(name="lo", link_type=101)
    data = (
        build.section() + interfaces + build.packet(FRAMES[1][:60], wire_bytes=len(FRAMES[1])) + build.packet(FRAMES[0][14:], interface=1)
    )
    blocks = list(BlockReader(io.BytesIO(data), records=True))
    records = [record for block in blocks for record in block.records]
    assert [(record.interface, record.wire_bytes - len(record.data)) for record in records] == [
        ((1, 60, "eth0"), len(FRAMES[1]) - 60),
        ((101, 0, "lo"), 0),
    ]


@pytest.mark.parametrize(("name", "can"), [("errors.pcap", False), ("quickstart.pcapng", True), ("errors.truth.json", False)])
def test_only_pcapng_has_a_place_for_secrets(captures: Path, name: str, can: bool) -> None:
    reader = BlockReader(str(captures / name))
    assert not reader.can_bring_secrets
    next(reader)
    assert reader.can_bring_secrets is can
