"""Rows 1 to 33 of docs/bad_inputs.tsv: files that are not captures, or are damaged."""

from __future__ import annotations

import gzip
import os
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import NamedTuple

import pytest
import zstandard

from pulsarscope.capture.formats import compression
from pulsarscope.model.limits import PCAPNG_INTERFACES_MAX
from tests.scenarios import Conversation, Packet, pcap
from tests.scenarios.bad_inputs.cases import HEALTHY, OPENING, assert_promised, capture, exchange, healthy, look, opened, row, sent
from tests.scenarios.capture_bytes import Pcapng

NG = Pcapng()
PACKETS = healthy()
GOOD = pcap(PACKETS)


def ng_packets(packets: list[Packet], blocks: Pcapng = NG, *, unit: int = 1000, interface: int = 0) -> bytes:
    return b"".join(blocks.packet(packet.data, ticks=packet.time_ns // unit, interface=interface) for packet in packets)


GOOD_NG = NG.section() + NG.interface() + ng_packets(PACKETS)


def header(magic: int = 0xA1B2C3D4, version: tuple[int, int] = (2, 4), snaplen: int = 65_535, link: int = 1, order: str = "<") -> bytes:
    return struct.pack(order + "IHHiIII", magic, *version, 0, 0, snaplen, link)


def record(packet: Packet, *, captured: int | None = None, wire: int | None = None, fraction: int | None = None) -> bytes:
    """A pcap record in microseconds whose fields may be wrong."""
    seconds, nanoseconds = divmod(packet.time_ns, 1_000_000_000)
    size = len(packet.data)
    fields = (
        seconds,
        nanoseconds // 1000 if fraction is None else fraction,
        size if captured is None else captured,
        size if wire is None else wire,
    )
    return struct.pack("<IIII", *fields) + packet.data


def records(packets: list[Packet]) -> bytes:
    return b"".join(map(record, packets))


def reheaded(**values: int | str | tuple[int, int]) -> bytes:
    """The good capture in microseconds with another file header."""
    return header(**values) + records(PACKETS)  # type: ignore[arg-type]


def in_blocks(data: bytes) -> bytes:
    """A zstd file of two blocks."""
    packer = zstandard.ZstdCompressor().compressobj()
    first = packer.compress(data[:500]) + packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    return first + packer.compress(data[500:]) + packer.flush()


# ---- no capture

REFUSED: list[tuple[int, bytes, str]] = [
    (1, b"", "empty"),
    (1, b"\xd4\xc3\xb2", "too short to be a capture"),
    (3, b"no capture at all, only words\n", "text"),
    (3, b"<!doctype html><p>404", "an HTML page"),
    (3, b"%PDF-1.7 ", "a PDF document"),
    (3, b"\x00\x01\x02\x03" * 40, "unknown data"),
    (4, b"\x1c\x00\x01\xac" + bytes(40), "an IXIA capture"),
    (5, reheaded(version=(2, 3)), "version 2.3"),
    (5, reheaded(version=(543, 0)), "version 543.0"),
    (6, header()[:5], "cut within the pcap header"),
    (6, header()[:23], "cut within the pcap header"),
    (14, GOOD_NG.replace(b"\x4d\x3c\x2b\x1a", b"\x4d\x3c\x2b\x1b", 1), "damaged section header"),
    (15, struct.pack("<III", 0x0A0D0D0A, 24, 0x1A2B3C4D) + bytes(40), "damaged section header"),
    (15, struct.pack("<III", 0x0A0D0D0A, 1 << 28, 0x1A2B3C4D) + bytes(40), "damaged section header"),
    (18, NG.section(version=2) + NG.interface(), "version 2.0"),
    (29, b"\x02\x21\x4c\x18" + bytes(40), "an LZ4 file of the legacy format"),
    (29, gzip.compress(gzip.compress(GOOD)), "a gzip file in a compressed file"),
    (29, b"\x1f\x8b" + bytes(40), "damaged"),
    (30, b"PK\x03\x04" + b"../../etc/passwd" + bytes(100), "a zip archive"),
    (30, b"../../etc/passwd".ljust(257, b"\0") + b"ustar" + bytes(250), "a tar archive"),
]


@row(1, 3, 4, 5, 6, 14, 15, 18, 29, 30)
@pytest.mark.parametrize(("number", "data", "words"), REFUSED, ids=[f"{number}-{words}" for number, _, words in REFUSED])
def test_what_is_no_capture_is_refused_by_name_and_costs_the_others_nothing(tmp_path: Path, number: int, data: bytes, words: str) -> None:
    bad = capture(tmp_path, data, "bad.pcap")
    alone = look(bad)
    assert_promised(number, alone, set())
    assert alone.exit == 3
    assert words in alone.refusal
    beside = look(bad, capture(tmp_path, GOOD, "good.pcap"))
    assert_promised(number, beside, {"not-a-capture"})
    assert beside.exit == 4
    assert beside.commands == HEALTHY


# ---- read like an ordinary capture

READ: list[tuple[int, str, bytes]] = [
    (4, "microseconds", reheaded()),
    (4, "nanoseconds", GOOD),
    (4, "big-endian", pcap(PACKETS, byte_order=">")),
    (4, "big-endian microseconds", pcap(PACKETS, byte_order=">", nanoseconds=False)),
    (
        4,
        "Kuznetzov's records",
        header(magic=0xA1B2CD34) + b"".join(record(packet)[:16] + bytes(8) + packet.data for packet in PACKETS),
    ),
    (4, "files joined by cat", pcap(PACKETS[:3]) + pcap([]) + pcap(PACKETS[3:])),
    (11, "snap length 0", reheaded(snaplen=0)),
    (11, "snap length beyond 2^31", reheaded(snaplen=0xFFFF_FFFF)),
    (13, "reserved bits of the link type", reheaded(link=0xF7FF_0001)),
    (
        13,
        "frame check sequences",
        header(link=0x2400_0001) + records([packet._replace(data=packet.data + b"\xde\xad\xbe\xef") for packet in PACKETS]),
    ),
    (16, "section length 1", NG.section(length=1) + NG.interface() + ng_packets(PACKETS)),
    (16, "section length 2^60", NG.section(length=1 << 60) + NG.interface() + ng_packets(PACKETS)),
    (
        17,
        "a big-endian section behind a little-endian one",
        NG.section()
        + NG.interface()
        + ng_packets(PACKETS[:5])
        + Pcapng(">").section()
        + Pcapng(">").interface(name="second", resolution=9)
        + ng_packets(PACKETS[5:], Pcapng(">"), unit=1),
    ),
    (
        20,
        "unknown, custom and vendor blocks",
        NG.section()
        + NG.block(0x0BAD, b"xxxx")
        + NG.interface()
        + NG.block(0x4000_0BAD, bytes(8))
        + NG.block(0x8765_4321, b"")
        + ng_packets(PACKETS),
    ),
    (
        24,
        "a resolution of 2^-10 seconds and a negative offset",
        NG.section()
        + NG.interface(resolution=0x80 | 10, offset=-1000)
        + b"".join(NG.packet(packet.data, ticks=(packet.time_ns // 10**9 + 1000) * 1024 + index) for index, packet in enumerate(PACKETS)),
    ),
    (
        25,
        "options: one too long, one repeated, invalid text, no end",
        NG.section()
        + NG.block(1, struct.pack("<HHI", 1, 0, 0) + NG.option(1, b"\xff\xfe\0") * 2 + struct.pack("<HH", 2, 0xFFFF) + b"ab")
        + b"".join(NG.packet(packet.data, ticks=packet.time_ns // 1000, options=NG.option(1, b"\x1b[2J")) for packet in PACKETS),
    ),
    (26, "old packet blocks", NG.section() + NG.interface() + b"".join(NG.old_packet(p.data, ticks=p.time_ns // 1000) for p in PACKETS)),
    (26, "junk of name resolution", NG.section() + NG.block(4, b"\xff\xff\xff\xff" * 9) + NG.interface() + ng_packets(PACKETS)),
    (27, "100,000 empty blocks", NG.section() + NG.interface() + NG.block(0x0BAD, b"") * 100_000 + ng_packets(PACKETS)),
    (
        28,
        "a link type for each interface",
        NG.section()
        + NG.interface()
        + NG.interface(link_type=101)
        + b"".join(
            NG.packet(packet.data[14 * (index % 2) :], ticks=packet.time_ns // 1000, interface=index % 2)
            for index, packet in enumerate(PACKETS)
        ),
    ),
    (29, "gzip, in two members", gzip.compress(GOOD[:300]) + gzip.compress(GOOD[300:])),
    (29, "zstd", zstandard.compress(GOOD)),
]


@row(4, 11, 13, 16, 17, 20, 24, 25, 26, 27, 28, 29)
@pytest.mark.parametrize(("number", "data"), [(number, data) for number, _, data in READ], ids=[f"{n}-{name}" for n, name, _ in READ])
def test_what_is_merely_unusual_is_read_without_a_finding(tmp_path: Path, number: int, data: bytes) -> None:
    seen = look(capture(tmp_path, data, "any-name.bin"))
    assert_promised(number, seen, set())
    assert seen.exit == 0
    assert seen.commands == HEALTHY


@row(2)
@pytest.mark.parametrize("data", [header(), NG.section(), NG.section() + NG.interface()])
def test_a_capture_without_packets_is_a_capture(tmp_path: Path, data: bytes) -> None:
    seen = look(capture(tmp_path, data))
    assert_promised(2, seen, set())
    assert (seen.exit, seen.frames, seen.connections) == (0, [], [])


@row(12)
def test_times_after_2038_are_read(tmp_path: Path) -> None:
    late = [packet._replace(time_ns=packet.time_ns + (2 << 30) * 10**9) for packet in PACKETS]
    seen = look(capture(tmp_path, late))
    assert_promised(12, seen, set())
    assert seen.frames[0].time == late[3].time_ns


# ---- damaged or contradictory: the findings, and the number of frames that are still decoded


class Damage(NamedTuple):
    row: int
    name: str
    data: bytes
    codes: set[str]
    commands: list[str]


SECOND_SEND = len(header()) + len(records(PACKETS[: len(opened().packets) + 4]))
"""Position of the record of the second SEND, in microseconds."""

CUT_AT_SEND = [*OPENING, *sent(1)]
HUGE = struct.pack("<IIII", 1, 1, 0xFFFF_FFFF, 60)
MANY_INTERFACES = NG.interface() * (PCAPNG_INTERFACES_MAX + 1)

DAMAGED: list[Damage] = [
    Damage(7, "within a record header", reheaded()[: SECOND_SEND + 7], {"capture-truncated"}, CUT_AT_SEND),
    Damage(7, "within a packet", reheaded()[: SECOND_SEND + 60], {"capture-truncated"}, CUT_AT_SEND),
    Damage(7, "within a block", GOOD_NG[:-5], {"capture-truncated"}, HEALTHY),
    Damage(8, "a file of another link type behind cat", GOOD + header(link=101), {"capture-malformed"}, HEALTHY),
    Damage(8, "a packet of 4 GiB", reheaded()[:SECOND_SEND] + HUGE + GOOD, {"capture-malformed"}, CUT_AT_SEND),
    Damage(8, "a packet of 262,145 bytes", reheaded()[:SECOND_SEND] + HUGE[:8] + b"\1\0\4\0" * 2, {"capture-malformed"}, CUT_AT_SEND),
    Damage(9, "longer than the snap length", reheaded(snaplen=54), {"packet-length-odd"}, HEALTHY),
    Damage(
        10, "more captured than sent", header() + b"".join(record(packet, wire=20) for packet in PACKETS), {"packet-length-odd"}, HEALTHY
    ),
    Damage(10, "an empty packet", header() + struct.pack("<IIII", 0, 0, 0, 0) + records(PACKETS), {"packet-malformed"}, HEALTHY),
    Damage(
        12,
        "a fraction of more than a second",
        header() + record(PACKETS[0], fraction=1_000_001) + records(PACKETS[1:]),
        {"time-invalid", "time-backwards"},
        HEALTHY,
    ),
    Damage(12, "time 0", header() + records([PACKETS[0], PACKETS[1]._replace(time_ns=0), *PACKETS[2:]]), {"time-backwards"}, HEALTHY),
    Damage(
        12,
        "going back a day",
        header() + records([packet._replace(time_ns=packet.time_ns - 86_400 * 10**9 * (i > 8)) for i, packet in enumerate(PACKETS)]),
        {"time-backwards", "capture-order"},
        HEALTHY,
    ),
    Damage(
        15,
        "a short section header",
        GOOD_NG + struct.pack("<III", 0x0A0D0D0A, 24, 0x1A2B3C4D) + GOOD_NG[:9],
        {"capture-malformed"},
        HEALTHY,
    ),
    Damage(
        18,
        "a later section of another version",
        NG.section()
        + NG.interface()
        + ng_packets(PACKETS[:8])
        + NG.section(version=7)
        + NG.interface()
        + NG.packet(b"?" * 60)
        + NG.section()
        + NG.interface()
        + ng_packets(PACKETS[8:]),
        {"capture-malformed"},
        HEALTHY,
    ),
    Damage(19, "a block of 8 bytes", GOOD_NG + struct.pack("<III", 6, 8, 8) + GOOD_NG[:28], {"capture-malformed"}, HEALTHY),
    Damage(19, "a block of 17 MiB", GOOD_NG + struct.pack("<III", 6, 17 << 20, 8), {"capture-malformed"}, HEALTHY),
    Damage(
        19,
        "two different lengths",
        NG.section()
        + NG.interface()
        + ng_packets(PACKETS[:8])
        + NG.block(0x0BAD, b"1234")[:-4]
        + b"\x63\0\0\0"
        + NG.section()
        + NG.interface()
        + ng_packets(PACKETS[8:]),
        {"capture-malformed"},
        HEALTHY,
    ),
    Damage(21, "an interface that is not described", GOOD_NG + NG.packet(PACKETS[0].data, interface=9), {"capture-malformed"}, HEALTHY),
    Damage(
        21,
        "a packet before its interface",
        NG.section() + NG.simple_packet(PACKETS[0].data) + NG.interface() + ng_packets(PACKETS),
        {"capture-malformed"},
        HEALTHY,
    ),
    Damage(
        22,
        "simple packets",
        NG.section() + NG.interface() + b"".join(NG.simple_packet(packet.data) for packet in PACKETS),
        {"time-invalid"},
        HEALTHY,
    ),
    Damage(
        22,
        "a simple packet beyond its block",
        NG.section() + NG.interface() + ng_packets(PACKETS) + NG.simple_packet(b"x" * 60, wire_bytes=5000),
        {"capture-malformed", "time-invalid", "snaplen-truncated"},
        HEALTHY,
    ),
    Damage(
        23,
        "a packet beyond its block",
        NG.section() + NG.interface() + ng_packets(PACKETS) + NG.packet(b"x" * 60, captured=5000, wire_bytes=5000, ticks=1 << 51),
        {"capture-malformed", "snaplen-truncated"},
        HEALTHY,
    ),
    Damage(
        24,
        "a resolution of 10^-127 seconds",
        NG.section() + NG.interface(resolution=127) + b"".join(NG.packet(packet.data, ticks=5) for packet in PACKETS),
        set(),
        HEALTHY,
    ),
    Damage(
        24,
        "ticks of seconds beyond all times",
        NG.section() + NG.interface(resolution=0) + b"".join(NG.packet(packet.data, ticks=1 << 63) for packet in PACKETS),
        {"time-invalid"},
        HEALTHY,
    ),
    Damage(
        26,
        "drops counted by the capturing host",
        GOOD_NG + NG.statistics(NG.count(5, 12)) + NG.old_packet(PACKETS[-1].data, ticks=1 << 51, drops=3),
        {"packets-dropped"},
        HEALTHY,
    ),
    Damage(27, "65,537 interfaces", NG.section() + MANY_INTERFACES + ng_packets(PACKETS), {"capture-malformed"}, HEALTHY),
    Damage(29, "a gzip file cut", gzip.compress(GOOD)[:-30], {"capture-truncated"}, []),
    Damage(29, "a zstd file cut", in_blocks(GOOD)[:-3], {"capture-truncated"}, []),
    Damage(29, "a gzip file with a wrong checksum", gzip.compress(GOOD)[:-8] + bytes(8), {"capture-malformed"}, HEALTHY),
]


@row(7, 8, 9, 10, 12, 15, 18, 19, 21, 22, 23, 24, 26, 27, 29)
@pytest.mark.parametrize("case", DAMAGED, ids=[f"{case.row}-{case.name}" for case in DAMAGED])
def test_damage_is_reported_and_the_rest_is_given(tmp_path: Path, case: Damage) -> None:
    seen = look(capture(tmp_path, case.data))
    assert_promised(case.row, seen, case.codes)
    assert seen.exit == (4 if seen.codes & {"capture-truncated", "capture-malformed"} else 0)
    if case.commands:
        assert seen.commands == case.commands


@row(7)
def test_a_cut_says_where_it_is(tmp_path: Path) -> None:
    seen = look(capture(tmp_path, reheaded()[: SECOND_SEND + 60]))
    evidence = seen.findings[0].evidence
    assert evidence is not None
    assert evidence["offset"] == SECOND_SEND


@row(8)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the kernel tells no peak of a process alone")
def test_a_claim_of_four_gibibytes_takes_no_memory(tmp_path: Path) -> None:
    path = capture(tmp_path, header() + HUGE)
    script = "import sys\nimport pulsarscope\nfor _ in pulsarscope.open(*sys.argv[1:]).frames(): pass\n"
    # Not ru_maxrss: that includes what the process of the tests took before it became this one.
    script += "peak = next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM'))\n"
    script += "assert int(peak) < 200 << 10, peak"
    subprocess.run([sys.executable, "-c", script, str(path)], check=True, timeout=60)


@row(29)
def test_a_wrapper_that_grows_without_end_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "DECOMPRESS_FREE_BYTES", 1 << 20)
    padding = NG.block(0x0BAD, bytes(1 << 20)) * 40
    seen = look(capture(tmp_path, zstandard.compress(GOOD_NG + padding)))
    assert_promised(29, seen, {"capture-malformed"})
    assert seen.exit == 4
    assert "1,000-fold" in seen.texts("capture-malformed")[0]
    assert seen.commands == HEALTHY


@row(31)
def test_a_pipe_that_gives_a_few_bytes_at_a_time_is_read_like_a_file(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)

    def write() -> None:
        with path.open("wb", buffering=0) as pipe:
            for start in range(0, len(GOOD), 97):
                pipe.write(GOOD[start : start + 97])

    writer = threading.Thread(target=write)
    writer.start()
    seen = look(path)
    writer.join()
    assert_promised(31, seen, set())
    assert seen.commands == HEALTHY


@row(32)
def test_inputs_that_cannot_be_opened_are_reported_with_a_harmless_name(tmp_path: Path) -> None:
    good = capture(tmp_path, GOOD)
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    empty = tmp_path / "empty"
    empty.mkdir()
    missing = tmp_path / "no\x1b]0;x\x07\n\u202efile"
    for bad, code in ((loop, "file-unreadable"), (missing, "file-unreadable"), (empty, "not-a-capture"), ("a\0b", "file-unreadable")):
        assert look(bad).exit == 3
        seen = look(bad, good)
        assert_promised(32, seen, {code})
        assert seen.exit == 4
        assert seen.commands == HEALTHY
        assert seen.texts(code)[0].isprintable()


@row(32)
def test_a_hostile_file_name_is_read_and_shown_escaped(tmp_path: Path) -> None:
    name = tmp_path / "a\x1b[2Jb\nc\udcff.pcap"
    try:
        name.write_bytes(GOOD[:-3])
    except OSError:
        pytest.skip("the file system takes no such name")
    seen = look(name)
    assert seen.exit == 4
    assert all(text.isprintable() for text in seen.texts("capture-truncated"))


@row(33)
def test_a_file_named_twice_is_read_once(tmp_path: Path) -> None:
    path = capture(tmp_path, GOOD)
    seen = look(path, tmp_path / ".." / tmp_path.name / path.name)
    assert_promised(33, seen, {"packet-duplicate"})
    assert (seen.exit, seen.commands) == (0, HEALTHY)


@row(33)
def test_files_out_of_order_are_read_by_their_first_packets(tmp_path: Path) -> None:
    conversation = exchange(opened(), 0, 3)
    first = capture(tmp_path, conversation.packets[:9], "z.pcap")
    second = capture(tmp_path, conversation.packets[9:], "a.pcap")
    seen = look(second, first)
    assert_promised(33, seen, set())
    assert seen.commands == HEALTHY
    assert [frame.file for frame in seen.frames] == sorted(frame.file or 0 for frame in seen.frames)


@row(33)
def test_a_badly_merged_capture_keeps_the_order_of_its_file(tmp_path: Path) -> None:
    other = exchange(Conversation(client=("10.0.0.9", 41000)).handshake(), 0)
    seen = look(capture(tmp_path, [*PACKETS, *other.packets]))
    assert_promised(33, seen, {"time-backwards"})
    assert seen.exit == 0
