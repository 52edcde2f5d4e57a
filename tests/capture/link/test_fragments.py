"""Fragments in any order, duplicated, overlapping, missing or in floods: the payload is right, or its absence is reported."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.capture import Block
from pulsarscope.model.limits import FRAGMENT_NANOSECONDS, FRAGMENTS_MAX_BYTES
from tests.scenarios.capture_bytes import (
    KEY,
    KEY6,
    START,
    Record,
    blocks_of,
    findings_of,
    flows_of,
    ipv4,
    ipv6,
    pcap,
    reader_of,
    segments_of,
    tcp,
)
from tests.scenarios.wrapping import (
    FRAME_WRAPPERS,
    PACKET_WRAPPERS,
    VXLAN,
    fragments,
    fragments4,
    fragments6,
    framed,
    outer4,
    udp,
)

DATA = bytes(range(200))
IP4, IP6 = ipv4(tcp(DATA)), ipv6(tcp(DATA))
FAMILIES = pytest.mark.parametrize(("packet", "key"), [(IP4, KEY), (IP6, KEY6)], ids=["ipv4", "ipv6"])
STEP = 1000


def joined(*packets: bytes, step: int = STEP) -> list[Block]:
    """Return the blocks of a capture with these IP packets."""
    return blocks_of(pcap([Record(framed(packet), START + at * step) for at, packet in enumerate(packets)]))


def pairs(blocks: Sequence[Block]) -> list[tuple[int, int]]:
    return [pair for block in blocks for pair in block.fragments]


def reasons(blocks: Sequence[Block]) -> dict[str, dict[str, int]]:
    """Return the findings by code."""
    return {code: finding.evidence["reasons"] for code, finding in findings_of(blocks).items()}


@pytest.mark.slow
@FAMILIES
@given(st.data())
def test_fragments_of_any_size_in_any_order_with_copies_are_the_packet(packet: bytes, key: bytes, data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.sampled_from([8, 16, 24, 64, 128]), min_size=1, max_size=30))
    cut = fragments4 if key == KEY else fragments6
    parts = cut(packet, sizes)
    order = data.draw(st.permutations(range(len(parts))))
    copies = data.draw(st.lists(st.sampled_from(range(len(parts))), max_size=5))
    sequence = [*order]
    for copy in copies:
        sequence.insert(data.draw(st.integers(0, len(sequence))), copy)
    blocks = joined(*[parts[index] for index in sequence])
    (segment,) = segments_of(blocks)
    completed = next(at for at in range(1, len(sequence) + 1) if len(set(sequence[:at])) == len(parts))
    assert segment[:8] == (completed, START + (completed - 1) * STEP, 1000, 77, 0x10, 512, DATA, 0)
    assert list(flows_of(blocks)) == [key]
    assert findings_of(blocks) == {}
    assert sorted(pairs(blocks)) == [(number, completed) for number in range(1, len(sequence) + 1) if number != completed]


@FAMILIES
def test_fragments_of_different_packets_stay_apart(packet: bytes, key: bytes) -> None:
    parts = [fragments(packet[:-200] + bytes([number]) * 200, 64, identification=number) for number in range(40)]
    mixed = [part for parts_at in zip(*parts, strict=True) for part in parts_at]
    segments = flows_of(joined(*mixed))[key]
    assert [segment[6] for segment in segments] == [bytes([number]) * 200 for number in range(40)]


@FAMILIES
def test_the_borders_of_what_is_read_change_nothing(packet: bytes, key: bytes) -> None:
    capture = pcap([Record(framed(part)) for part in fragments(packet, 24)])
    complete = segments_of(blocks_of(capture))
    for read_bytes in (1, 7, 100):
        blocks = blocks_of(capture, read_bytes=read_bytes)
        assert segments_of(blocks) == complete
        assert pairs(blocks) == pairs(blocks_of(capture))
    assert list(flows_of(blocks_of(capture))) == [key]


def test_options_and_extension_headers_do_not_matter() -> None:
    behind = bytes([6, 0, 1, 4, 0, 0, 0, 0]) + tcp(DATA)  # destination options in the fragmentable part
    six = ipv6(behind, next_header=60)
    hop = [
        part[:4] + struct.pack(">HB", len(part) - 32, 0) + part[7:40] + bytes([44, 0, 1, 4, 0, 0, 0, 0]) + part[40:]
        for part in fragments(six, 32)
    ]
    four = [b"\x46" + part[1:2] + struct.pack(">H", len(part) + 4) + part[4:20] + bytes(4) + part[20:] for part in fragments(IP4, 32)]
    for parts in (hop, four):
        assert [segment[6] for segment in segments_of(joined(*parts))] == [DATA]


def test_the_first_fragment_says_what_ipv6_fragments_carry() -> None:
    parts = fragments(IP6, 64)
    odd = [parts[0], *(part[:40] + b"\x3c" + part[41:] for part in parts[1:])]
    assert [segment[6] for segment in segments_of(joined(*odd[::-1]))] == [DATA]


# ---- not complete


@FAMILIES
def test_what_never_comes_is_reported_with_the_packets_that_came(packet: bytes, key: bytes) -> None:
    family = "ipv4" if key == KEY else "ipv6"
    parts = fragments(packet, 64)
    for missing in range(len(parts)):
        blocks = joined(*parts[:missing], *parts[missing + 1 :])
        assert segments_of(blocks) == []
        finding = findings_of(blocks)["fragment-incomplete"]
        assert finding.evidence == {"packets": len(parts) - 1, "reasons": {family: len(parts) - 1}}
        assert (finding.packet, finding.time) == (1, START)


def test_a_fragment_that_comes_after_30_seconds_is_of_another_packet() -> None:
    first, last = fragments(IP4, 128)
    assert len(segments_of(joined(first, last, step=FRAGMENT_NANOSECONDS))) == 1
    late = joined(first, last, step=FRAGMENT_NANOSECONDS + STEP)
    assert segments_of(late) == []
    assert reasons(late) == {"fragment-incomplete": {"ipv4": 2}}


def test_numbers_used_again_are_other_packets() -> None:
    packets = [ipv4(tcp(bytes([value]) * 200)) for value in range(5)]
    blocks = joined(*[part for packet in packets for part in fragments(packet, 128)])
    assert [segment[6][0] for segment in segments_of(blocks)] == [0, 1, 2, 3, 4]
    assert findings_of(blocks) == {}


@pytest.mark.parametrize("protocol", [1, 17, 132])
def test_fragments_of_what_is_not_read_pass_in_silence(protocol: int) -> None:
    packet = ipv4(udp(bytes(200), 53), protocol=protocol)
    parts = fragments(packet, 64)
    for sequence in (parts, parts[:-1], parts[::-1], parts[1:]):
        blocks = joined(*sequence)
        assert segments_of(blocks) == []
        assert findings_of(blocks) == {}


def test_of_udp_only_a_tunnel_is_missed() -> None:
    parts = fragments(outer4(udp(VXLAN + framed(IP4), 4789), 17), 64)
    assert reasons(joined(*parts[:-1])) == {"fragment-incomplete": {"ipv4": len(parts) - 1}}
    assert findings_of(joined(*parts[1:])) == {}


def test_a_tunnel_may_use_the_number_of_other_udp_again() -> None:
    other = fragments(outer4(udp(bytes(300), 53), 17), 64)
    tunnel = fragments(outer4(udp(VXLAN + framed(IP4), 4789), 17), 64)
    assert [segment[6] for segment in segments_of(joined(*other, *tunnel))] == [DATA]


# ---- hostile


def part4(offset: int, body: bytes, *, more: bool) -> bytes:
    """Build an IPv4 fragment at an offset in bytes."""
    return ipv4(body, fragment=offset >> 3 | more << 13)


SEGMENT = tcp(bytes(range(100)))


def test_of_two_versions_of_bytes_the_first_is_kept_and_it_is_reported() -> None:
    blocks = joined(
        part4(0, SEGMENT[:48], more=True),
        part4(24, b"\xff" * 48, more=True),
        part4(40, SEGMENT[40:], more=False),
    )
    expected = SEGMENT[:48] + b"\xff" * 24 + SEGMENT[72:]
    assert [segment[6] for segment in segments_of(blocks)] == [expected[20:]]
    assert reasons(blocks) == {"fragment-overlap": {"ipv4": 2}}


def test_overlaps_that_agree_are_no_finding() -> None:
    blocks = joined(
        part4(40, SEGMENT[40:80], more=True),
        part4(8, SEGMENT[8:16], more=True),
        part4(0, SEGMENT[:104], more=True),
        part4(24, SEGMENT[24:], more=False),
    )
    assert [segment[6] for segment in segments_of(blocks)] == [SEGMENT[20:]]
    assert findings_of(blocks) == {}


@given(st.lists(st.tuples(st.integers(0, 14), st.integers(1, 15), st.booleans()), max_size=25))
def test_any_fragments_of_one_packet_give_that_packet_or_nothing(cuts: list[tuple[int, int, bool]]) -> None:
    """Join fragments that overlap in any way with equal bytes: the result is never different."""
    parts = [part4(start * 8, SEGMENT[start * 8 : (start + size) * 8], more=start + size < 15) for start, size, _ in cuts]
    blocks = joined(*parts)
    covered = {at for start, size, _ in cuts for at in range(start, min(start + size, 15))}
    assert [segment[6] for segment in segments_of(blocks)][:1] == ([SEGMENT[20:]] if len(covered) == 15 else [])
    assert "fragment-overlap" not in findings_of(blocks)


CONTRADICTIONS = {
    "beyond-65535": [part4(65_528, bytes(8), more=True)],
    "far-beyond-65535": [part4(65_528, bytes(1000), more=False)],
    "no-bytes": [part4(0, b"", more=True)],
    "last-without-bytes": [part4(8, b"", more=False)],
    "not-a-multiple-of-8": [part4(0, bytes(12), more=True)],
    "behind-the-end": [part4(8, bytes(8), more=False), part4(16, bytes(8), more=True)],
    "an-end-before-what-came": [part4(8, bytes(16), more=True), part4(8, bytes(8), more=False)],
    "two-ends": [part4(8, bytes(24), more=False), part4(8, bytes(16), more=False)],
}


@pytest.mark.parametrize("packets", CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_a_fragment_that_cannot_be_is_malformed_and_left_out(packets: list[bytes]) -> None:
    blocks = joined(*packets)
    assert reasons(blocks)["packet-malformed"] == {"fragment": 1}
    assert reasons(blocks).get("fragment-incomplete", {}) == ({"ipv4": len(packets) - 1} if len(packets) > 1 else {})


def test_the_largest_packet_is_joined() -> None:
    packet = ipv4(tcp((bytes(range(251)) * 261)[:65_495]))
    (segment,) = segments_of(joined(*fragments(packet, 1480)))
    assert len(segment[6]) == 65_495


def test_a_first_fragment_too_small_for_a_tcp_header_is_joined() -> None:
    assert [segment[6] for segment in segments_of(joined(*fragments(IP4, 8)))] == [DATA]


def test_fragments_cut_by_the_snap_length_give_what_was_captured() -> None:
    parts = [framed(part) for part in fragments(IP4, 64)]
    for cut in range(len(parts)):
        captured = len(parts[cut]) - 10
        records = [Record(part[:captured] if at == cut else part, START, len(part)) for at, part in enumerate(parts)]
        blocks = blocks_of(pcap(records))
        (segment,) = segments_of(blocks)
        known = min(sum(len(part) - 34 for part in parts[: cut + 1]) - 10 - 20, 200)
        assert segment[6:8] == (DATA[:known], 200 - known)
        assert findings_of(blocks)["snaplen-truncated"].evidence == {"packets": 1, "bytes": 10}


def test_a_fragment_of_a_fragment_is_malformed() -> None:
    inside = fragments(IP6, 64)[0]
    parts = fragments6(inside, [32], identification=9)
    assert reasons(joined(*parts))["packet-malformed"] == {"fragment": 1}


def flood(shape: str, number: int) -> bytes:
    """Build one of very many small fragments that complete nothing."""
    one_packet = shape in ("copies", "overlaps", "islands")
    offset = {"first": 0, "last": 8, "udp": 8, "copies": 8}.get(shape, number * 16 % 64_000)
    size, more = 8, shape != "last"
    if shape == "overlaps" and number >= 3000:  # each overlaps thousands of others, and was cut by the capture
        offset, size = 0, 64_000
    header = struct.pack(
        ">BBHHHBBH", 0x45, 0, 20 + size, 0 if one_packet else number, offset >> 3 | more << 13, 64, 17 if shape == "udp" else 6, 0
    )
    return framed(header + b"\1\2\3\4\5\6\7\x08" + number.to_bytes(8, "big"))


@pytest.mark.parametrize("shape", ["first", "last", "udp", "copies", "overlaps", "islands"])
@pytest.mark.slow
def test_floods_stay_within_the_bound_are_reported_and_do_not_stop_the_reading(shape: str) -> None:
    count = 6_000
    records = [Record(flood(shape, number)) for number in range(count)]
    reader = reader_of(pcap([*records, *(Record(framed(part)) for part in fragments(IP4, 128))]), read_bytes=1 << 16)
    segments = []
    tracemalloc.start()
    try:
        for block in reader:
            segments += segments_of([block])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < FRAGMENTS_MAX_BYTES
    assert [segment[6] for segment in segments] == [DATA]
    assert reasons([block]).get("fragment-incomplete") == (None if shape == "udp" else {"ipv4": count})


# ---- fragments and tunnels


@pytest.mark.parametrize("name", [*FRAME_WRAPPERS, *PACKET_WRAPPERS])
def test_the_outer_packet_of_a_tunnel_may_be_fragmented(name: str) -> None:
    wrapped = FRAME_WRAPPERS[name](framed(IP4)) if name in FRAME_WRAPPERS else PACKET_WRAPPERS[name](IP4)
    if wrapped[0] >> 4 == 6 and name.endswith("options"):
        return  # its options are not behind the fragment header
    parts = fragments(wrapped, 64)
    blocks = joined(*parts[::-1])
    (segment,) = segments_of(blocks)
    assert (segment[0], segment[6]) == (len(parts), DATA)
    assert findings_of(blocks) == {}


@pytest.mark.parametrize("name", [*FRAME_WRAPPERS, *PACKET_WRAPPERS])
def test_a_fragment_may_lie_in_a_tunnel_and_its_tunnel_be_fragmented(name: str) -> None:
    """Check that each fragment is listed with the completing packet."""
    inner = fragments(IP4, 128)
    wrapped = [FRAME_WRAPPERS[name](framed(part)) if name in FRAME_WRAPPERS else PACKET_WRAPPERS[name](part) for part in inner]
    blocks = joined(*wrapped)
    assert [segment[6] for segment in segments_of(blocks)] == [DATA]
    assert pairs(blocks) == [(1, 2)]
    twice = [part for number, packet in enumerate(wrapped) for part in fragments(packet, 80, identification=number)]
    blocks = joined(*twice)
    assert [segment[6] for segment in segments_of(blocks)] == [DATA]
    assert sorted(pairs(blocks)) == [(number, len(twice)) for number in range(1, len(twice))]


def test_fragments_seen_inside_and_outside_of_a_tunnel_are_copies() -> None:
    parts = fragments(IP4, 64)
    doubled = [copy for part in parts for copy in (part, outer4(udp(VXLAN + framed(part), 4789), 17))]
    blocks = joined(*doubled)
    assert [segment[6] for segment in segments_of(blocks)] == [DATA]
    assert findings_of(blocks) == {}


def test_each_file_joins_its_own_fragments() -> None:
    first, last = fragments(IP4, 128)
    for parts in ([first], [last]):
        assert reasons(joined(*parts)) == {"fragment-incomplete": {"ipv4": 1}}
