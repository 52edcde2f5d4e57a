"""Written files read back equal, with our own reader and with dpkt."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import dpkt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.capture import BlockReader, CaptureInterface, PacketRecord
from pulsarscope.output.export import pcapng
from pulsarscope.output.export.pcapng import PcapngWriter
from pulsarscope.output.export.sink import Sink
from tests.scenarios.both_readers import reader
from tests.scenarios.pcapng_blocks import blocks, comments

SECOND = 1_000_000_000
NOW = 1_780_000_000 * SECOND + 123_456_789
ETHERNET, RAW = 1, 101


class Packet(NamedTuple):
    data: bytes
    time: int = NOW
    wire_bytes: int = 0
    """Bytes of a record beyond `data`."""
    link_type: int = ETHERNET
    snaplen: int = 0
    interface: str = ""
    comment: str = ""


def written(packets: Iterable[Packet]) -> bytes:
    stream = io.BytesIO()
    writer = PcapngWriter(Sink(stream, "memory"), "a tool 1.0")
    for data, time, beyond, link_type, snaplen, interface, comment in packets:
        place = CaptureInterface(link_type, snaplen, interface)
        writer.packets([(PacketRecord(1, time, len(data) + beyond, place, data), [comment] if comment else [])])
    return stream.getvalue()


def read(data: bytes) -> list[PacketRecord]:
    """Read with our own reader, which must find no faults."""
    records: list[PacketRecord] = []
    for block in BlockReader(io.BytesIO(data), records=True):
        records += block.records
        assert {finding.code for finding in block.findings} <= {
            "snaplen-truncated",
            "unknown-link-type",
            "packet-malformed",
            "packet-length-odd",  # data longer than the snap length given here
            "time-backwards",
        }
    return records


PACKETS = st.builds(
    Packet,
    data=st.binary(max_size=80),
    time=st.integers(-(1 << 63), (1 << 63) - 1),
    wire_bytes=st.integers(0, 100_000),
    link_type=st.sampled_from((ETHERNET, RAW, 113, 276, 65_535)),
    snaplen=st.sampled_from((0, 96, 65_535, 262_144)),
    interface=st.sampled_from(("", "eth0", "Wi-Fi ü")),
    comment=st.text(st.characters(codec="utf-8"), max_size=40),
)


@pytest.mark.slow
@given(st.lists(PACKETS, max_size=20))
def test_our_reader_gets_back_what_was_written(packets: list[Packet]) -> None:
    data = written(packets)
    records = read(data)
    assert [record.data for record in records] == [packet.data for packet in packets]
    assert [record.time for record in records] == [packet.time for packet in packets]
    assert [record.wire_bytes for record in records] == [len(packet.data) + packet.wire_bytes for packet in packets]
    assert [record.interface for record in records] == [(packet.link_type, packet.snaplen, packet.interface) for packet in packets]
    assert [record.number for record in records] == list(range(1, len(packets) + 1))
    assert comments(data) == [packet.comment for packet in packets]


@pytest.mark.slow
@given(
    st.lists(
        PACKETS.map(lambda packet: packet._replace(time=abs(packet.time) // 2, link_type=ETHERNET, snaplen=0, interface="")), min_size=1
    )
)
def test_dpkt_gets_back_what_was_written(packets: list[Packet]) -> None:
    reader = dpkt.pcapng.Reader(io.BytesIO(written(packets)))
    assert reader.datalink() == ETHERNET
    parsed = list(reader)
    assert [bytes(data) for _, data in parsed] == [packet.data for packet in packets]
    assert [float(time) for time, _ in parsed] == pytest.approx([packet.time / SECOND for packet in packets])


def test_dpkt_reads_the_comments() -> None:
    reader = io.BytesIO(written([Packet(b"abcde", comment="0:30.2 SEND_RECEIPT\nslow-exchange: It took 3 s.")]))
    kinds = {6: dpkt.pcapng.EnhancedPacketBlockLE}
    (packet,) = [
        kinds[6](struct.pack("<II", 6, len(block.body) + 12) + block.body + struct.pack("<I", len(block.body) + 12))
        for block in blocks(reader.getvalue())
        if block.kind == 6
    ]
    assert [(option.code, option.text) for option in packet.opts if option.code] == [
        (1, "0:30.2 SEND_RECEIPT\nslow-exchange: It took 3 s.")
    ]


def test_the_section_header_says_which_tool_wrote_it() -> None:
    assert blocks(written([]))[0].options(16) == [(4, b"a tool 1.0")]


def test_equal_interfaces_are_one() -> None:
    packets = [Packet(b"a", interface="eth0"), Packet(b"b", interface="eth1"), Packet(b"c", interface="eth0"), Packet(b"d", link_type=RAW)]
    assert [block.kind for block in blocks(written(packets))][1:] == [1, 6, 1, 6, 6, 1, 6]


def test_a_packet_without_comment_has_no_options() -> None:
    assert blocks(written([Packet(b"abcd")]))[-1].body[20:] == b"abcd"


def test_a_comment_too_long_for_its_length_field_is_cut_between_two_characters() -> None:
    (comment,) = comments(written([Packet(b"a", comment="ü" * 40_000)]))
    assert comment == "ü" * 32_767


def test_a_section_has_no_more_interfaces_than_a_reader_bears(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pcapng, "PCAPNG_INTERFACES_MAX", 2)
    data = written([Packet(bytes([number]), interface=f"eth{number % 3}") for number in range(6)])
    assert [block.kind for block in blocks(data)].count(0x0A0D0D0A) > 1
    assert [record.interface.name for record in read(data)] == ["eth0", "eth1", "eth2", "eth0", "eth1", "eth2"]


def test_the_file_is_that_of_the_format(tmp_path: Path) -> None:
    """Byte by byte: a section, an interface of nanoseconds, a packet."""
    path = tmp_path / "x.pcapng"
    path.write_bytes(written([Packet(b"abc", time=(7 << 32) + 5, wire_bytes=1, snaplen=3, comment="x")]))
    assert path.read_bytes().hex(" ", 4) == (
        "0a0d0d0a 30000000 4d3c2b1a 01000000 ffffffff ffffffff 04000a00 6120746f 6f6c2031 2e300000 00000000 30000000"
        " 01000000 20000000 01000000 03000000 09000100 09000000 00000000 20000000"
        " 06000000 30000000 00000000 07000000 05000000 03000000 04000000 61626300 01000100 78000000 00000000 30000000"
    )


LINES = st.lists(st.sampled_from(("0:1.1 SEND", "x", "é", "\ud800", "a" * 0xFFFF, "")), max_size=3)
INTERFACES = tuple(CaptureInterface(link_type, snaplen, name) for link_type, snaplen, name in ((ETHERNET, 0, ""), (RAW, 96, "eth0")))


@given(
    st.lists(
        st.lists(
            st.tuples(
                st.builds(
                    PacketRecord,
                    st.integers(1, 9),
                    st.sampled_from((NOW, 0, -1, (1 << 63) - 1)),
                    st.sampled_from((0, 60, (1 << 32) - 1)),
                    st.sampled_from((INTERFACES[0], INTERFACES[0], INTERFACES[1])),
                    st.binary(max_size=9),
                ),
                LINES,
            ),
            max_size=4,
        ),
        max_size=4,
    )
)
def test_the_compiled_reader_writes_the_blocks_of_the_reference(batches: list[list[tuple[PacketRecord, list[str]]]]) -> None:
    pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")
    files = []
    for choice in ("off", "require"):
        stream = io.BytesIO()
        writer = PcapngWriter(Sink(stream, "memory"), "a tool 1.0")
        with reader(choice):
            for batch in batches:
                writer.packets(batch)
        files.append(stream.getvalue())
    assert files[0] == files[1]
