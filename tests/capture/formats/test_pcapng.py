from __future__ import annotations

import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.capture import BlockReader
from pulsarscope.capture.block import Owner
from pulsarscope.capture.formats.interface import Interface
from pulsarscope.capture.formats.pcapng import PcapngDecoder, owner_in
from pulsarscope.model.flow import source_of_key, without_source
from pulsarscope.model.limits import INTERFACE_NAME_MAX_CHARACTERS, PACKET_MAX_BYTES, PCAPNG_BLOCK_MAX_BYTES, SECRETS_MAX_BYTES
from pulsarscope.output.export.pcapng import interface_block, section_block
from tests.scenarios.capture_bytes import (
    KEY,
    SECOND,
    START,
    Pcapng,
    blocks_of,
    ethernet,
    findings_of,
    flows_of,
    ipv4,
    reader_of,
    segment_packet,
    segments_of,
    tcp,
)
from tests.scenarios.live_packets import captured

PLAIN = segment_packet(b"hello")
LITTLE, BIG = Pcapng("<"), Pcapng(">")


@pytest.mark.parametrize("ng", [LITTLE, BIG], ids=["little-endian", "big-endian"])
def test_enhanced_packets_are_read_in_both_byte_orders(ng: Pcapng) -> None:
    blocks = blocks_of(ng.file([PLAIN, PLAIN]))
    assert [segment[:8] for segment in segments_of(blocks)] == [
        (1, START, 1000, 77, 0x10, 512, b"hello", 0),
        (2, START, 1000, 77, 0x10, 512, b"hello", 0),
    ]
    assert list(flows_of(blocks)) == [KEY]
    assert findings_of(blocks) == {}


def test_each_section_has_its_byte_order_and_its_interfaces() -> None:
    first = LITTLE.section() + LITTLE.interface() + LITTLE.packet(PLAIN)
    second = BIG.section(length=3) + BIG.interface(link_type=101) + BIG.packet(ipv4(tcp(b"raw")))
    blocks = blocks_of(first + second + first)
    assert [segment[6] for segment in segments_of(blocks)] == [b"hello", b"raw", b"hello"]
    assert findings_of(blocks) == {}


def test_interfaces_of_one_section_have_their_own_link_types() -> None:
    data = LITTLE.section() + LITTLE.interface() + LITTLE.interface(link_type=101, resolution=9)
    data += LITTLE.packet(PLAIN) + LITTLE.packet(ipv4(tcp(b"raw")), interface=1, ticks=START) + LITTLE.packet(PLAIN)
    blocks = blocks_of(data)
    assert [segment[6] for segment in segments_of(blocks)] == [b"hello", b"raw", b"hello"]
    assert {segment[1] for segment in segments_of(blocks)} == {START}


@pytest.mark.parametrize(
    ("resolution", "offset", "ticks", "time_ns"),
    [
        (None, None, START // 1000 + 5, START + 5000),
        (6, 3, START // 1000, START + 3 * SECOND),
        (6, -3, START // 1000, START - 3 * SECOND),
        (6, -2_000_000_000, 5, 5000 - 2_000_000_000 * SECOND),
        (9, None, START + 7, START + 7),
        (0, None, 12, 12 * SECOND),
        (3, None, 12, 12_000_000),
        (12, None, 5 * 10**12 + 1234, 5 * SECOND + 1),
        (127, None, 1 << 63, 0),
        (0x80 | 10, None, 1024 + 512, SECOND + SECOND // 2),
        (0x80, None, 4, 4 * SECOND),
        (0xFF, None, 1 << 63, 0),
        (0, None, (1 << 64) - 1, (1 << 63) - 1),
    ],
)
def test_time_stamps_follow_resolution_and_offset(resolution: int | None, offset: int | None, ticks: int, time_ns: int) -> None:
    data = LITTLE.section() + LITTLE.interface(resolution=resolution, offset=offset)
    data += LITTLE.packet(PLAIN, ticks=ticks) * 2
    assert [segment[1] for segment in segments_of(blocks_of(data))] == [time_ns, time_ns]


def test_a_time_beyond_64_bits_is_noted() -> None:
    data = LITTLE.section() + LITTLE.interface(resolution=0) + LITTLE.packet(PLAIN, ticks=1 << 60)
    assert findings_of(blocks_of(data))["time-invalid"].evidence["reasons"] == {"out-of-range": 1}


def test_simple_packets_take_the_time_of_the_packet_before() -> None:
    data = LITTLE.file([PLAIN]) + LITTLE.simple_packet(PLAIN)
    blocks = blocks_of(data)
    assert [segment[:2] for segment in segments_of(blocks)] == [(1, START), (2, START)]
    assert findings_of(blocks)["time-invalid"].evidence["reasons"] == {"simple-packet-block": 1}


def test_a_simple_packet_is_cut_by_the_interface() -> None:
    data = LITTLE.section() + LITTLE.interface(snaplen=len(PLAIN) - 2)
    blocks = blocks_of(data + LITTLE.simple_packet(PLAIN[:-2], wire_bytes=len(PLAIN)))
    assert segments_of(blocks)[0][6:8] == (b"hel", 2)
    assert findings_of(blocks)["snaplen-truncated"].evidence == {"packets": 1, "bytes": 2}


def test_obsolete_packet_blocks_are_read_with_their_drops() -> None:
    data = LITTLE.section() + LITTLE.interface(name="eth0") + LITTLE.old_packet(PLAIN) + LITTLE.old_packet(PLAIN, drops=3)
    blocks = blocks_of(data)
    assert len(segments_of(blocks)) == 2
    assert findings_of(blocks)["packets-dropped"].evidence == {"packets": 3, "interfaces": {"eth0": 3}}


@pytest.mark.parametrize("rounded", [False, True])
def test_blocks_of_early_writers_without_a_length_of_whole_words_are_read(rounded: bool) -> None:
    odd = segment_packet(b"123")
    length = 32 + len(odd)
    assert length % 4
    block = struct.pack("<IIHHIIII", 2, length, 0, 0xFFFF, START // 1000 >> 32, START // 1000 & 0xFFFF_FFFF, len(odd), len(odd)) + odd
    block += bytes(-length % 4 if rounded else 0) + struct.pack("<I", length)
    blocks = blocks_of(LITTLE.section() + LITTLE.interface() + block + block)
    assert [segment[6] for segment in segments_of(blocks)] == [b"123", b"123"]
    assert findings_of(blocks) == {}


def test_the_last_statistics_give_the_drops() -> None:
    data = LITTLE.section() + LITTLE.interface(name="eth0") + LITTLE.interface()
    data += LITTLE.statistics(LITTLE.count(5, 2)) + LITTLE.statistics(LITTLE.count(5, 4) + LITTLE.count(7, 1) + LITTLE.count(4, 900))
    data += LITTLE.statistics(LITTLE.count(7, 6), interface=1) + LITTLE.statistics(LITTLE.count(5, (1 << 64) - 1), interface=1)
    data += LITTLE.statistics(LITTLE.count(5, 9), interface=77)
    finding = findings_of(blocks_of(data))["packets-dropped"]
    assert finding.evidence == {"packets": 11, "interfaces": {"eth0": 5, "interface 1": 6}}


def test_unknown_and_custom_blocks_are_skipped() -> None:
    others = b"".join(LITTLE.block(kind, b"junkjunk") for kind in (4, 9, 0xBAD, 0x4000_0BAD, 0x8000_0001))
    blocks = blocks_of(LITTLE.section() + others + LITTLE.interface() + others + LITTLE.packet(PLAIN) + others)
    assert segments_of(blocks)[0][0] == 1
    assert findings_of(blocks) == {}


def test_tls_key_logs_are_kept_with_their_places_until_they_are_taken() -> None:
    data = LITTLE.section() + LITTLE.interface() + LITTLE.secrets(b"CLIENT_RANDOM 1 2\n") + LITTLE.secrets(b"x", kind=1)
    reader = reader_of(data + LITTLE.packet(PLAIN) * 2 + LITTLE.secrets(b"# late\n") + LITTLE.packet(PLAIN))
    list(reader)
    assert reader.take_secrets() == [(0, b"CLIENT_RANDOM 1 2\n"), (2, b"# late\n")]
    assert reader.take_secrets() == []


def test_more_key_logs_than_are_kept_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsarscope.capture.formats.pcapng.SECRETS_MAX_BYTES", 2 * 128 + 10)
    logs = LITTLE.secrets(b"# six\n") + LITTLE.secrets(b"# five") + LITTLE.secrets(b"# 4\n")
    reader = reader_of(LITTLE.section() + LITTLE.interface() + logs + LITTLE.packet(PLAIN))
    blocks = list(reader)
    assert [log for _, log in reader.take_secrets()] == [b"# six\n", b"# 4\n"]
    assert findings_of(blocks)["capture-malformed"].evidence["reasons"] == {"too-many-secrets": 1}


def test_packets_of_undefined_interfaces_are_counted_and_passed_over() -> None:
    data = LITTLE.section() + LITTLE.packet(PLAIN) + LITTLE.simple_packet(PLAIN) + LITTLE.interface()
    blocks = blocks_of(data + LITTLE.packet(PLAIN, interface=5) + LITTLE.packet(PLAIN))
    assert [segment[0] for segment in segments_of(blocks)] == [4]
    finding = findings_of(blocks)["capture-malformed"]
    assert finding.evidence == {"blocks": 3, "reasons": {"interface-undefined": 3}}


@pytest.mark.parametrize("captured", [len(PLAIN) + 2, 5000])
def test_a_packet_longer_than_its_block_is_clamped(captured: int) -> None:
    assert len(PLAIN) % 4 == 3
    long = LITTLE.packet(PLAIN, captured=captured, wire_bytes=captured)
    blocks = blocks_of(LITTLE.section() + LITTLE.interface() + LITTLE.packet(PLAIN) + long)
    assert [segment[6] for segment in segments_of(blocks)] == [b"hello", b"hello"]
    assert findings_of(blocks)["capture-malformed"].evidence["reasons"] == {"packet-beyond-block": 1}


def test_a_packet_longer_than_any_packet_is_passed_over() -> None:
    data = LITTLE.section() + LITTLE.interface() + LITTLE.packet(PLAIN + bytes(PACKET_MAX_BYTES)) + LITTLE.packet(PLAIN)
    blocks = blocks_of(data)
    assert [segment[0] for segment in segments_of(blocks)] == [2]
    assert findings_of(blocks)["capture-malformed"].evidence["reasons"] == {"packet-too-long": 1}


@pytest.mark.parametrize("body", [b"", b"1234", b"1234567890123456"])
def test_blocks_too_short_for_their_type_are_counted(body: bytes) -> None:
    data = LITTLE.section() + LITTLE.block(1, body[:4]) + LITTLE.block(6, body) + LITTLE.block(5, body[:8]) + LITTLE.block(10, b"")
    blocks = blocks_of(data + LITTLE.block(3, b""))
    reasons = {"interface-block-short": 1, "packet-block-short": 2}
    assert findings_of(blocks)["capture-malformed"].evidence["reasons"] == reasons


@pytest.mark.parametrize(
    "damaged",
    [
        struct.pack("<II", 6, 8) + bytes(20),
        struct.pack("<II", 6, PCAPNG_BLOCK_MAX_BYTES + 4) + bytes(20),
        struct.pack("<II", 6, 40) + bytes(60),
        struct.pack("<II", 0x0A0D0D0A, 28) + bytes(40),
    ],
    ids=["too-short", "too-long", "two-lengths", "no-byte-order"],
)
def test_damage_loses_the_rest_of_its_section_only(damaged: bytes) -> None:
    before = LITTLE.file([PLAIN])
    blocks = blocks_of(before + damaged + LITTLE.packet(PLAIN) + BIG.file([PLAIN]) + damaged)
    assert [segment[0] for segment in segments_of(blocks)] == [1, 2]
    findings = findings_of(blocks)
    assert list(findings) == ["capture-malformed"]
    assert findings["capture-malformed"].evidence == {"offset": len(before), "packets": 1, "places": 2}


def test_a_section_of_another_version_is_passed_over() -> None:
    plain = LITTLE.file([PLAIN])
    blocks = blocks_of(plain + LITTLE.section(version=2) + LITTLE.interface() + LITTLE.packet(PLAIN) + plain)
    assert len(segments_of(blocks)) == 2
    assert findings_of(blocks)["capture-malformed"].evidence["reasons"] == {"section-version": 1}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (LITTLE.section(version=2), "version 2.0"),
        (LITTLE.section()[:20], "cut within"),
        (LITTLE.section()[:8] + bytes(20), "damaged section header"),
        (b"\n\r\r\n" + struct.pack("<I", 24) + LITTLE.section()[8:], "damaged section header"),
    ],
    ids=["version", "cut", "byte-order", "length"],
)
def test_a_bad_first_section_header_is_not_a_capture(data: bytes, reason: str) -> None:
    assert reason in findings_of(blocks_of(data))["not-a-capture"].text


@pytest.mark.parametrize("size", [1, 11, 12, 27, 40, 100])
def test_a_cut_last_block_is_reported_with_its_offset(size: int) -> None:
    complete = LITTLE.file([PLAIN])
    blocks = blocks_of(complete + LITTLE.packet(segment_packet(b"x" * 80))[:size])
    assert len(segments_of(blocks)) == 1
    assert findings_of(blocks)["capture-truncated"].evidence == {"offset": len(complete), "bytes": size, "packets": 1}


def test_options_after_a_packet_and_broken_ones_change_nothing() -> None:
    comment = LITTLE.option(1, b"\xff\x00comment")
    broken = struct.pack("<HH", 2, 60000)
    blocks = blocks_of(LITTLE.section() + LITTLE.interface() + LITTLE.packet(PLAIN, options=comment) + LITTLE.packet(PLAIN, options=broken))
    assert [segment[6] for segment in segments_of(blocks)] == [b"hello", b"hello"]
    assert findings_of(blocks) == {}


def test_steps_back_in_time_are_counted() -> None:
    ticks = START // 1000
    data = LITTLE.section() + LITTLE.interface() + b"".join(LITTLE.packet(PLAIN, ticks=ticks - back) for back in (0, 7, 0, 3))
    finding = findings_of(blocks_of(data))["time-backwards"]
    assert finding.evidence == {"packets": 2, "largest_step_ns": 7000}
    assert finding.text == "2 packets older than the packet before, by up to 0.000007000 s."


@pytest.mark.slow
def test_many_interfaces_and_empty_blocks_take_linear_time() -> None:
    data = LITTLE.section() + LITTLE.interface() * 70_000 + LITTLE.block(9, b"") * 50_000
    data += LITTLE.packet(PLAIN, interface=65_535) + LITTLE.packet(PLAIN, interface=65_536)
    blocks = blocks_of(data)
    assert len(segments_of(blocks)) == 1
    reasons = findings_of(blocks)["capture-malformed"].evidence["reasons"]
    assert reasons == {"too-many-interfaces": 70_000 - 65_536, "interface-undefined": 1}


@pytest.mark.slow
def test_key_logs_without_text_are_nothing_and_tiny_ones_are_bounded_with_their_blocks() -> None:
    flood = LITTLE.secrets(b"") * 50_000 + LITTLE.secrets(b"\n") * 200_000
    reader = reader_of(LITTLE.section() + LITTLE.interface() + flood + LITTLE.packet(PLAIN))
    blocks = list(reader)
    kept = len(reader.take_secrets())
    assert 100_000 < kept < SECRETS_MAX_BYTES // 128
    assert findings_of(blocks)["capture-malformed"].evidence["reasons"] == {"too-many-secrets": 200_000 - kept}


def test_only_the_first_options_of_an_interface_are_read() -> None:
    resolution = struct.pack("<HHB3x", 9, 1, 9)
    empty = struct.pack("<HH", 2, 0)
    assert [Interface(bytes(8) + empty * count + resolution, "<", 0).unit for count in (0, 255, 256, 4_000_000)] == [1, 1, 1000, 1000]


def test_time_is_compared_from_the_first_packet_that_has_one() -> None:
    data = LITTLE.section() + LITTLE.interface() + LITTLE.packet(PLAIN, interface=1)
    data += LITTLE.packet(PLAIN, ticks=START // 1000 + 5) + LITTLE.packet(PLAIN, ticks=START // 1000)
    findings = findings_of(blocks_of(data))
    assert findings["time-backwards"].evidence == {"packets": 1, "largest_step_ns": 5000}
    alone = LITTLE.section() + LITTLE.interface() + LITTLE.packet(PLAIN, interface=1)
    assert [block.last_time for block in blocks_of(alone)] == [0] * len(blocks_of(alone))


NAMED = LITTLE.section() + LITTLE.interface(name="veth0") + LITTLE.interface() + LITTLE.interface(name="any", link_type=276)
COOKED = struct.pack(">HHIHBB8s", 0x0800, 0, 7, 1, 0, 6, b"") + PLAIN[14:]
MIXED = NAMED + b"".join(
    [
        LITTLE.packet(PLAIN),
        LITTLE.packet(PLAIN, interface=1),
        LITTLE.packet(ethernet(ipv4(tcp(b"in a VLAN")), tags=[0x8100])),
        LITTLE.packet(COOKED, interface=2),
        LITTLE.packet(segment_packet(flags=0x12), interface=1),
        LITTLE.old_packet(PLAIN, interface=1),
        LITTLE.simple_packet(PLAIN),
        LITTLE.section() + LITTLE.interface() + LITTLE.interface(name="veth0") + LITTLE.packet(PLAIN, interface=1),
    ]
)


@pytest.mark.parametrize("records", [False, True])
@pytest.mark.parametrize("read_bytes", [7, 1 << 20])
def test_interfaces_are_distinguished_by_name_else_by_number(read_bytes: int, *, records: bool) -> None:
    blocks = list(BlockReader(io.BytesIO(MIXED), read_bytes=read_bytes, records=records, by_interface=True))
    flows = flows_of(blocks)
    assert {source_of_key(key): [segment[0] for segment in segments] for key, segments in flows.items()} == {
        "veth0": [1, 3, 7, 8],
        "interface 1": [2, 5, 6],
        "any ifindex 7": [4],
    }
    assert {without_source(key) for key in flows} == {KEY}
    assert {source_of_key(key) for block in blocks for key in block.control} == {"interface 1"}
    assert {key: segments_of(blocks_of(MIXED)) for key in [KEY]} == {KEY: segments_of(blocks)}, "nothing else is changed"
    assert blocks[-1].findings == blocks_of(MIXED)[-1].findings


def test_packets_with_an_index_of_their_own_are_named_by_an_interface_that_has_a_name() -> None:
    capture = LITTLE.section() + LITTLE.interface(link_type=276, name="br0\x1b") + LITTLE.packet(COOKED)
    blocks = BlockReader(io.BytesIO(capture), by_interface=True)
    assert [source_of_key(key) for block in blocks for key in block.flows] == ["br0\\x1b"]


def test_a_very_long_name_of_an_interface_is_cut() -> None:
    data = LITTLE.section() + LITTLE.interface(name="x" * 5000) + LITTLE.packet(PLAIN)
    (key,) = flows_of(BlockReader(io.BytesIO(data), by_interface=True))
    assert source_of_key(key) == "x" * INTERFACE_NAME_MAX_CHARACTERS


def test_the_block_behind_skipped_packets_says_so() -> None:
    decoder = PcapngDecoder(0)
    decoder.feed(section_block("") + interface_block(1, 0, ""), 0)
    assert not decoder.feed(captured(0).data, 0).skipped
    decoder.skip(0)
    assert not decoder.feed(captured(1).data, 0).skipped
    decoder.skip(3)
    assert decoder.feed(captured(5).data, 0).skipped
    assert not decoder.feed(captured(6).data, 0).skipped


def options(*comments: str, byte_order: str = "<") -> bytes:
    parts = []
    for comment in comments:
        data = comment.encode()
        parts.append(struct.pack(byte_order + "HH", 1, len(data)) + data + bytes(-len(data) % 4))
    return struct.pack(byte_order + "HHI", 2, 4, 1) + b"".join(parts) + bytes(4)


@pytest.mark.parametrize("byte_order", ["<", ">"])
@pytest.mark.parametrize(
    ("comments", "owner"),
    [
        (("PID: 1234\nCmd: /usr/bin/java\nArgs: -cp app.jar Main\nParentPID: 1\nParentCmd: /sbin/init",), Owner("java (1234)", None)),
        (("PID: 7\nTID: 9\nCommand: pulsar-perf...\nUserId: 0",), Owner("pulsar-perf... (7)", None)),
        (("PID: 7\nCmd: /app\nContainerName: web\nPodName: web-0\nPodNamespace: shop\nPodUID: 1",), Owner("app (7)", "shop/web-0")),
        (("PID: 7", "Cmd: app", "PodName: web-0"), Owner("app (7)", "web-0")),
        (("my note: PID: 7",), None),
        (("PID: x\nCmd: app",), None),
        (("PID:\nCmd:\n:",), None),
        (("PID: 7",), None),
        (("PID: 7\nCmd: app" + " " * 60_000 + "x",), Owner("app (7)", None)),
        (("PID: 7\nCmd: app\nArgs: " + "x" * 60_000 + "\nPodName: web-0",), Owner("app (7)", None)),
        ((), None),
    ],
)
def test_an_owner_is_what_the_comment_says(comments: tuple[str, ...], owner: Owner | None, byte_order: str) -> None:
    assert owner_in(b"x" + options(*comments, byte_order=byte_order), 1, byte_order) == owner


@given(st.binary(max_size=60))
def test_any_bytes_are_read(data: bytes) -> None:
    owner_in(data, 0, "<")
    owner_in(b"\x01\x00\x40\x00" + data, 0, "<")
