from __future__ import annotations

import io
import struct
import time
from itertools import product
from typing import Any

import pytest

from pulsarscope.capture import BlockReader
from pulsarscope.model.flow import source_of_key
from pulsarscope.model.limits import PACKET_MAX_BYTES
from tests.scenarios.capture_bytes import (
    KEY,
    SECOND,
    START,
    SYN,
    Record,
    blocks_of,
    findings_of,
    flows_of,
    pcap,
    segment_packet,
    segments_of,
)

PLAIN = segment_packet(b"hello")


@pytest.mark.parametrize("byte_order", ["<", ">"])
@pytest.mark.parametrize(
    ("magic", "time_ns"),
    [(0xA1B2C3D4, START + 123_456_000), (0xA1B23C4D, START + 123_456_789), (0xA1B2CD34, START + 123_456_000)],
    ids=["microseconds", "nanoseconds", "modified"],
)
def test_every_magic_is_read_with_its_time(magic: int, time_ns: int, byte_order: str) -> None:
    blocks = blocks_of(pcap([Record(PLAIN, time_ns), Record(PLAIN, time_ns)], magic=magic, byte_order=byte_order))
    assert [segment[:8] for segment in segments_of(blocks)] == [
        (1, time_ns, 1000, 77, 0x10, 512, b"hello", 0),
        (2, time_ns, 1000, 77, 0x10, 512, b"hello", 0),
    ]
    assert list(flows_of(blocks)) == [KEY]
    assert findings_of(blocks) == {}


def test_blocks_say_where_they_are() -> None:
    data = pcap([Record(PLAIN, START), Record(segment_packet(flags=SYN), START + SECOND)])
    first, last = blocks_of(data)
    assert (first.packets, first.first_packet, first.last_packet, first.last_time) == (2, 1, 2, START + SECOND)
    assert first.bytes_read == last.bytes_read == len(data)
    assert first.control == {KEY}
    assert (last.packets, last.flows, last.control, last.last_packet) == (0, {}, set(), 2)


def test_a_flow_without_syn_fin_or_rst_is_no_control() -> None:
    assert blocks_of(pcap([Record(PLAIN)]))[0].control == set()


def test_a_block_does_not_make_up_flows() -> None:
    with pytest.raises(KeyError):
        blocks_of(pcap([Record(PLAIN)]))[0].flows[b"other"]


def test_a_header_alone_is_a_capture_without_packets() -> None:
    (block,) = blocks_of(pcap())
    assert block.packets == 0
    assert block.findings == []


@pytest.mark.parametrize("version", [(2, 3), (0, 9), (543, 0)])
def test_another_version_is_not_a_capture(version: tuple[int, int]) -> None:
    findings = findings_of(blocks_of(pcap([Record(PLAIN)], version=version)))
    assert f"version {version[0]}.{version[1]}" in findings["not-a-capture"].text


@pytest.mark.parametrize("length", [4, 12, 23])
def test_a_cut_header_is_not_a_capture(length: int) -> None:
    findings = findings_of(blocks_of(pcap()[:length]))
    assert f"({length} of 24 bytes)" in findings["not-a-capture"].text


@pytest.mark.parametrize("size", [1, 15, 16, 20])
def test_a_cut_last_record_is_reported_with_its_offset(size: int) -> None:
    complete = pcap([Record(PLAIN)])
    blocks = blocks_of(complete + complete[24 : 24 + size])
    assert len(segments_of(blocks)) == 1
    finding = findings_of(blocks)["capture-truncated"]
    assert finding.evidence == {"offset": len(complete), "bytes": size, "packets": 1}
    assert (finding.packet, finding.time) == (1, START)


@pytest.mark.parametrize("captured", [PACKET_MAX_BYTES + 1, 0xFFFF_FFFF])
def test_a_record_longer_than_any_packet_ends_the_reading(captured: int) -> None:
    complete = pcap([Record(PLAIN)])
    blocks = blocks_of(complete + struct.pack("<IIII", 1, 1, captured, captured) + bytes(PACKET_MAX_BYTES + 100))
    assert len(segments_of(blocks)) == 1
    findings = findings_of(blocks)
    assert list(findings) == ["capture-malformed"]
    assert findings["capture-malformed"].evidence["offset"] == len(complete)


def test_the_longest_packet_is_read() -> None:
    frame = PLAIN + bytes(PACKET_MAX_BYTES - len(PLAIN))
    blocks = blocks_of(pcap([Record(frame)]))
    assert len(segments_of(blocks)) == 1
    assert findings_of(blocks) == {}


@pytest.mark.parametrize("snaplen", [0, 0xFFFF_FFFF])
def test_an_absurd_snaplen_means_the_largest(snaplen: int) -> None:
    blocks = blocks_of(pcap([Record(PLAIN)], snaplen=snaplen))
    assert len(segments_of(blocks)) == 1
    assert findings_of(blocks) == {}


def test_lengths_that_contradict_each_other_are_noted_once() -> None:
    records = [Record(PLAIN), Record(PLAIN, wire_bytes=1), Record(PLAIN, wire_bytes=0)]
    blocks = blocks_of(pcap(records, snaplen=20))
    assert len(segments_of(blocks)) == 3
    finding = findings_of(blocks)["packet-length-odd"]
    assert finding.evidence["reasons"] == {"captured-more-than-sent": 2, "captured-more-than-snaplen": 3}
    assert finding.packet == 1


def test_frame_check_and_reserved_bits_of_the_link_type_are_masked() -> None:
    blocks = blocks_of(pcap([Record(PLAIN + b"\1\2\3\4")], link_type=0x4400_0001))
    assert segments_of(blocks)[0][6] == b"hello"


def test_a_cut_packet_keeps_what_is_there_and_says_what_is_missing() -> None:
    cut = Record(segment_packet(b"0123456789")[:-7], START, len(PLAIN) + 5)
    blocks = blocks_of(pcap([Record(PLAIN), cut, cut]))
    assert [(segment[6], segment[7]) for segment in segments_of(blocks)] == [(b"hello", 0), (b"012", 7), (b"012", 7)]
    finding = findings_of(blocks)["snaplen-truncated"]
    assert finding.evidence == {"packets": 2, "bytes": 14}
    assert (finding.packet, finding.time) == (2, START)


def test_steps_back_in_time_are_counted_with_the_largest() -> None:
    times = [START, START - 5 * SECOND, START, START - 1000, START - 2000]
    finding = findings_of(blocks_of(pcap([Record(PLAIN, time) for time in times])))["time-backwards"]
    assert finding.evidence == {"packets": 3, "largest_step_ns": 5 * SECOND}
    assert (finding.packet, finding.time) == (2, START - 5 * SECOND)


def test_a_fraction_of_more_than_a_second_is_carried_over() -> None:
    data = pcap([Record(PLAIN)])
    odd = data[:28] + struct.pack("<I", 2_500_000) + data[32:]
    blocks = blocks_of(odd)
    assert segments_of(blocks)[0][1] == START + 2_500_000_000
    assert findings_of(blocks)["time-invalid"].evidence == {"packets": 1, "reasons": {"fraction": 1}}


def test_times_after_2106_and_at_zero_are_times() -> None:
    blocks = blocks_of(pcap([Record(PLAIN, 0), Record(PLAIN, 0xFFFF_FFFF * SECOND)]))
    assert [segment[1] for segment in segments_of(blocks)] == [0, 0xFFFF_FFFF * SECOND]
    assert findings_of(blocks) == {}


def test_packets_of_other_kinds_are_counted_in_the_numbers() -> None:
    udp = b"\x02" * 12 + b"\x08\x00" + b"\x45" + bytes(8) + b"\x11" + bytes(10)
    blocks = blocks_of(pcap([Record(udp), Record(b""), Record(PLAIN)]))
    assert segments_of(blocks)[0][0] == 3
    assert blocks[-1].last_packet == 3


def test_only_the_packets_of_linux_any_distinguish_interfaces() -> None:
    cooked = [Record(struct.pack(">HHIHBB8s", 0x0800, 0, index, 1, 0, 6, b"") + segment_packet(b"hello")[14:]) for index in (2, 3, 2)]
    flows = flows_of(BlockReader(io.BytesIO(pcap(cooked, link_type=276)), by_interface=True))
    assert {source_of_key(key): [segment[0] for segment in segments] for key, segments in flows.items()} == {
        "ifindex 2": [1, 3],
        "ifindex 3": [2],
    }
    assert list(flows_of(BlockReader(io.BytesIO(pcap([Record(segment_packet())])), by_interface=True))) == [KEY]
    assert list(flows_of(blocks_of(pcap(cooked, link_type=276)))) == [KEY]


@pytest.mark.parametrize(("chunk", "count"), [*product([17, 4096, 1 << 20], [0, 1, 2, 300]), (4096, 5000), (1 << 20, 5000)])
@pytest.mark.parametrize("header", [(0, 0, 0, 0), (7, 5, 0, 0), (7, 5, 0, 60), (7, 2_000_000, 0, 0), (0, 0, 1, 1)], ids=str)
def test_records_without_bytes_are_counted_as_if_each_were_decoded(chunk: int, header: tuple[int, int, int, int], count: int) -> None:
    """A crash may leave zeros. Packets that are kept are decoded one by one."""
    data = pcap([Record(PLAIN, START)])
    data += (struct.pack("<IIII", *header) + bytes(header[2])) * count + pcap([Record(PLAIN, START + SECOND)])[24:]
    made = [[*BlockReader(io.BytesIO(data), 0, read_bytes=chunk, records=records)] for records in (False, True)]
    assert segments_of(made[0]) == segments_of(made[1])
    assert [found for block in made[0] for found in block.findings] == [found for block in made[1] for found in block.findings]
    assert made[0][-1].last_packet == made[1][-1].last_packet == count + 2


@pytest.mark.parametrize("chunk", [1, 17, 4096])
@pytest.mark.parametrize("records", [False, True])
@pytest.mark.parametrize(("magic", "byte_order"), [(0xA1B2C3D4, "<"), (0xA1B23C4D, ">"), (0xA1B2CD34, "<")])
def test_files_joined_by_cat_are_read_as_one(chunk: int, records: bool, magic: int, byte_order: str) -> None:
    packets = [Record(segment_packet(b"%d" % number), START + number * SECOND) for number in range(5)]
    form: dict[str, Any] = {"magic": magic, "byte_order": byte_order}
    parts = [pcap(part, snaplen=snaplen, **form) for part, snaplen in ((packets[:2], 96_000), ([], 0), (packets[2:], 262_144), ([], 1))]
    alone, joined = (
        [*BlockReader(io.BytesIO(data), 0, read_bytes=chunk, records=records)] for data in (pcap(packets, **form), b"".join(parts))
    )
    assert segments_of(joined) == segments_of(alone)
    assert findings_of(joined) == findings_of(alone) == {}
    assert joined[-1].last_packet == 5
    if records:
        kept = [[record.data for block in blocks for record in block.records] for blocks in (joined, alone)]
        assert kept[0] == kept[1] == [packet.data for packet in packets]


@pytest.mark.parametrize("chunk", [1, 17, 4096])
@pytest.mark.parametrize("other", [{"link_type": 101}, {"magic": 0xA1B23C4D}, {"byte_order": ">"}], ids=str)
def test_a_joined_file_of_another_kind_ends_the_reading(chunk: int, other: dict[str, Any]) -> None:
    data = pcap([Record(PLAIN)])
    joined = [*BlockReader(io.BytesIO(data + pcap([Record(PLAIN)], **other)), 0, read_bytes=chunk)]
    finding = findings_of(joined)["capture-malformed"]
    assert finding.evidence == {"offset": len(data), "packets": 1, "places": 1}
    assert "another link type" in finding.text
    cut = [*BlockReader(io.BytesIO(data + data[:20]), 0, read_bytes=chunk)]
    assert findings_of(cut)["capture-truncated"].evidence == {"offset": len(data), "bytes": 20, "packets": 1}


def test_zeros_cost_no_more_than_packets() -> None:
    spent = []
    size = 4 << 20
    for records in (struct.pack("<IIII", START // SECOND, 0, len(PLAIN), len(PLAIN)) + PLAIN, bytes(16)):
        data = pcap([]) + records * (size // len(records))
        began = time.process_time()
        blocks_of(data)
        spent.append(time.process_time() - began)
    assert spent[1] < spent[0]
