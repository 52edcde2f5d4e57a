"""Equality of a file and its portions, for any content and any division."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.capture import Block, BlockReader, Portion, Segment, divide
from pulsarscope.capture.anomalies import AnomalyCounts
from pulsarscope.model.findings import Finding
from pulsarscope.model.limits import PORTION_HEADERS_MAX_BYTES, SECRETS_MAX_BYTES
from tests.scenarios.capture_bytes import SECOND, START, Pcapng, Record, ethernet, flows_of, ipv4, pcap, segment_packet, tcp
from tests.scenarios.copied_capture import capture_of_a_copied_capture

SIZES = st.integers(1, 2_000)
MAGICS = (0xA1B2C3D4, 0xA1B23C4D, 0xA1B2CD34)
FRAMES = st.one_of(
    st.binary(max_size=300).map(segment_packet),
    st.binary(max_size=80),
    st.binary(max_size=40).map(lambda body: ethernet(body, ethertype=0x0806)),
    st.binary(max_size=40).map(lambda body: ethernet(ipv4(tcp(body)), tags=(0x8100,))),
)


@st.composite
def records(draw: st.DrawFn) -> Record:
    """Draw a packet that may be cut, or older than the one before."""
    frame = draw(FRAMES)
    wire_bytes = len(frame) + draw(st.sampled_from((0, 0, 0, 20, -1)))
    return Record(frame, START + draw(st.integers(0, 5)) * SECOND // 2, max(wire_bytes, 0))


@st.composite
def pcaps(draw: st.DrawFn) -> bytes:
    """Draw one file, or several concatenated files."""
    magic, byte_order = draw(st.sampled_from(MAGICS)), draw(st.sampled_from("<>"))
    snaplen = draw(st.sampled_from((250, 262_144)))
    files = draw(st.lists(st.lists(records(), max_size=30), min_size=1, max_size=3))
    return b"".join(pcap(each, magic=magic, byte_order=byte_order, snaplen=snaplen) for each in files)


@st.composite
def pcapngs(draw: st.DrawFn) -> bytes:
    """Draw sections of one byte order with different interfaces, also between packets."""
    make = Pcapng(draw(st.sampled_from("<>")))
    parts = [make.section(), make.interface()]
    interfaces = 1
    for kind in draw(st.lists(st.sampled_from(("packet",) * 8 + ("interface", "section", "statistics", "names", "secrets")), max_size=40)):
        if kind == "packet":
            frame, time, wire_bytes = draw(records())
            parts.append(make.packet(frame, ticks=time // 1000, interface=draw(st.integers(0, interfaces - 1)), wire_bytes=wire_bytes))
        elif kind == "interface":
            parts.append(
                make.interface(name="eth1", link_type=draw(st.sampled_from((1, 101, 228))), resolution=draw(st.sampled_from((None, 9, 3))))
            )
            interfaces += 1
        elif kind == "section":
            parts += [make.section(), make.interface(name="other")]
            interfaces = 1
        elif kind == "statistics":
            dropped = make.count(5, draw(st.integers(0, 9)))
            parts.append(make.statistics(dropped, interface=draw(st.integers(0, interfaces - 1))))
        elif kind == "names":
            parts.append(make.block(4, bytes(4 * draw(st.integers(0, 20)))))
        else:
            parts.append(make.secrets(b"CLIENT_RANDOM"))
    return b"".join(parts)


class Read(msgspec.Struct):
    """Segments, findings and secrets of a file."""

    flows: dict[bytes, list[Segment]]
    findings: list[Finding]
    packets: int
    secrets: list[tuple[int, bytes]]
    last_time: int


def read(readers: Sequence[BlockReader]) -> Read:
    blocks: list[Block] = []
    secrets = []
    for reader in readers:
        for block in reader:
            secrets += reader.take_secrets()
            blocks.append(block)
    findings = [finding for block in blocks for finding in block.findings]
    last = blocks[-1]
    assert sum(block.packets for block in blocks) == last.last_packet
    return Read(flows_of(blocks), findings, last.last_packet, secrets, last.last_time)


def has_dependencies(path: str, portions: Sequence[Portion]) -> bool:
    """Return True when a portion reports that the following ones depend on it."""
    readers = [BlockReader(path, portion=portion) for portion in portions if portion.end is not None]
    return any([list(reader), reader.has_dependencies][1] for reader in readers)


def in_portions(path: str, portions: Sequence[Portion], *, by_interface: bool) -> Read:
    """Return the result of independently read portions, the last one with the counts of the others."""
    tally = AnomalyCounts(0)
    for portion in portions[:-1]:
        reader = BlockReader(path, portion=portion)
        list(reader)
        tally.add_later(reader.counts)
    last = msgspec.structs.replace(portions[-1], counts=tuple(tally.counts))
    return read([BlockReader(path, by_interface=by_interface, portion=portion) for portion in [*portions[:-1], last]])


def check(data: bytes, size: int, *, dependent: bool | None = False, by_interface: bool = False) -> list[Portion]:
    """Return the portions of a file after comparing them with the file, unless they report dependencies (`dependent` None: either)."""
    with TemporaryDirectory() as folder:
        path = str(Path(folder) / "capture")
        Path(path).write_bytes(data)
        portions = divide(path, 0, size)
        assert [portion.start for portion in portions] == [0, *(portion.end for portion in portions[:-1])]
        assert portions[-1].end is None
        dependencies = has_dependencies(path, portions)
        assert dependent is None or dependencies is dependent
        assert dependencies or in_portions(path, portions, by_interface=by_interface) == read(
            [BlockReader(path, by_interface=by_interface)]
        )
    return portions


@pytest.mark.slow
@given(pcaps(), SIZES)
def test_a_pcap_file_in_portions_of_any_size_is_the_file(data: bytes, size: int) -> None:
    portions = check(data, size)
    assert len(portions) > 1 or len(data) <= size + 400


@pytest.mark.slow
@given(data=pcapngs(), size=SIZES, by_interface=st.booleans())
def test_a_pcapng_file_in_portions_of_any_size_is_the_file(data: bytes, size: int, *, by_interface: bool) -> None:
    check(data, size, by_interface=by_interface)


@pytest.mark.slow
@given(pcaps() | pcapngs(), SIZES, st.data())
def test_a_file_cut_anywhere_in_portions_is_the_file(data: bytes, size: int, draw: st.DataObject) -> None:
    check(data[: draw.draw(st.integers(24, len(data)))], size)


@pytest.mark.slow
@given(pcaps() | pcapngs(), SIZES, st.data())
def test_a_damaged_file_is_whole_or_in_portions_it_is_the_file(data: bytes, size: int, draw: st.DataObject) -> None:
    place = draw.draw(st.integers(24, len(data)))
    noise = draw.draw(st.binary(min_size=1, max_size=4))
    check(data[:place] + noise + data[place + len(noise) :], size, dependent=None)


@pytest.mark.parametrize("magic", MAGICS)
@pytest.mark.parametrize("byte_order", "<>")
def test_each_packet_may_be_a_portion(magic: int, byte_order: str) -> None:
    frames = [segment_packet(bytes([number]) * number) for number in range(20)]
    data = pcap([Record(frame, START + number) for number, frame in enumerate(frames)], magic=magic, byte_order=byte_order)
    assert [portion.packets for portion in check(data, 1)] == [0, *range(20)]


@pytest.mark.parametrize(("size", "portions"), [(1, 5), (1_000, 4), (60_000, 4), (100_000, 3), (300_000, 1)])
def test_a_packet_larger_than_a_portion_is_in_one(size: int, portions: int) -> None:
    data = pcap([Record(segment_packet(bytes(50_000)), START + number) for number in range(4)])
    assert len(check(data, size)) == portions


def test_a_block_larger_than_what_is_read_at_once_is_walked_over() -> None:
    make = Pcapng()
    packet = make.packet(segment_packet(b"x" * 100))
    data = make.file([]) + packet * 5 + make.block(0xBAD, bytes(3 << 20)) + packet * 5
    assert [portion.packets for portion in check(data, 1 << 20)] == [0, 5]


BLOCKS = Pcapng()
PACKETS = [BLOCKS.packet(segment_packet(bytes([number]))) for number in range(20)]
BEGIN = BLOCKS.section() + BLOCKS.interface()
PLAIN = pcap([Record(segment_packet(bytes([number]))) for number in range(20)])
CUT_PADDING = BLOCKS.block(6, struct.pack("<IIIII", 0, 0, 0, 3, 3) + b"abc")
INDIVISIBLE = {
    "empty": b"",
    "no capture": b"text" * 100,
    "compressed": gzip.compress(PLAIN + bytes(range(256))),
    "pcap header alone": PLAIN[:24],
    "pcap with a record that cannot be": PLAIN + struct.pack("<IIII", 0, 0, 1 << 20, 1 << 20) + bytes(20),
    "packets without a time": BEGIN + b"".join(PACKETS) + BLOCKS.simple_packet(b"x") + PACKETS[0],
    "packets that count drops": BEGIN + b"".join(PACKETS) + BLOCKS.old_packet(b"x", drops=3) + PACKETS[0],
    "two byte orders": BEGIN + b"".join(PACKETS) + Pcapng(">").file([segment_packet()]),
    "no padding": BEGIN + b"".join(PACKETS) + CUT_PADDING + PACKETS[0],
    "two different lengths": BEGIN + b"".join(PACKETS) + PACKETS[0][:-4] + bytes(4) + PACKETS[0],
    "a length too small": BEGIN + b"".join(PACKETS) + struct.pack("<II", 6, 8) + PACKETS[0],
    "too many headers": BEGIN + b"".join(PACKETS) + BLOCKS.interface(name="x" * 6_000) * (PORTION_HEADERS_MAX_BYTES // 6_000 + 1),
    "too many secrets": BEGIN + b"".join(PACKETS) + BLOCKS.secrets(bytes(SECRETS_MAX_BYTES // 4)) * 4,
}


@pytest.mark.parametrize("name", INDIVISIBLE)
def test_what_cannot_be_divided_is_whole(name: str) -> None:
    size = max(len(INDIVISIBLE[name]) // 4, 1)
    assert check(INDIVISIBLE[name], size) == [Portion(0)]


@pytest.mark.parametrize("path", ["/nowhere", "a\0b", "/"])
def test_what_cannot_be_read_is_whole(path: str) -> None:
    assert divide(path, 3, 1) == [Portion(3)]


FRAGMENT = ethernet(ipv4(tcp(bytes(20))[:16], fragment=0x2000))
ENTANGLED = {
    "a fragment": pcap([Record(FRAGMENT), *[Record(segment_packet())] * 20]),
    "a packet of no interface": BEGIN + BLOCKS.packet(segment_packet(), interface=7) + b"".join(PACKETS),
    "a section of another version": BEGIN + PACKETS[0] + BLOCKS.section(version=2) + PACKETS[0] + BEGIN + b"".join(PACKETS),
}


@pytest.mark.parametrize("name", ENTANGLED)
def test_what_ties_packets_together_is_reported(name: str) -> None:
    check(ENTANGLED[name], 500, dependent=True)


def test_what_ties_packets_together_in_the_last_portion_does_not_matter() -> None:
    packets = [Record(segment_packet(bytes([number]))) for number in range(20)]
    assert len(check(pcap([*packets, Record(FRAGMENT)]), 500)) > 1


def test_a_file_that_is_no_longer_what_it_was_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "capture"
    path.write_bytes(PLAIN)
    portion = divide(str(path), 0, 500)[1]

    def codes() -> list[str]:
        return [finding.code for block in BlockReader(str(path), portion=portion) for finding in block.findings]

    assert codes() == []
    path.write_bytes(PLAIN[: portion.start + 30])
    assert codes() == ["capture-truncated"]
    path.write_bytes(b"other")
    assert codes() == ["not-a-capture"]
    path.unlink()
    assert codes() == ["file-unreadable"]


def looks_like_records(data: bytes, position: int, many: int) -> bool:
    """Return True when `many` plausible pcap records seem to follow each other at a position."""
    (first,) = struct.unpack_from("<I", data, 24)
    for _ in range(many):
        if position + 16 > len(data):
            return False
        seconds, fraction, captured, wire_bytes = struct.unpack_from("<IIII", data, position)
        if abs(seconds - first) > 3_600 or fraction >= 1_000_000 or not 0 < captured <= wire_bytes <= 262_144:
            return False
        position += 16 + captured
    return True


def test_a_capture_that_is_copied_in_a_capture_misleads_nobody() -> None:
    """Show that a heuristic search finds a false border inside a packet, followed by 64 records."""
    data = capture_of_a_copied_capture(1 << 20)
    size = 64 << 10
    portions = check(data, size)
    assert len(portions) > 10
    borders = [24]
    while borders[-1] < len(data):
        borders.append(borders[-1] + 16 + struct.unpack_from("<I", data, borders[-1] + 8)[0])
    assert {portion.start for portion in portions[1:]} <= set(borders)
    wrong = 0
    for nominal in range(size, len(data), size):
        guess = next((place for place in range(nominal, len(data) - 16) if looks_like_records(data, place, 64)), None)
        wrong += guess is not None and guess not in borders
    assert wrong > 0
