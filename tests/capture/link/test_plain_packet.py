"""Equality of the hot loops and the general path."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsarscope.capture import Block
from pulsarscope.capture.link import plain_packet as layout
from pulsarscope.model.platform import load_native
from tests.scenarios.capture_bytes import MACS, Pcapng, Record, blocks_of, ethernet, findings_of, flows_of, ipv4, ipv6, pcap, tcp
from tests.scenarios.wrapping import FRAME_WRAPPERS, PACKET_WRAPPERS, Wrapper, ethertype_of, framed, outer4, outer6, udp

LINK_HEADERS = {
    1: MACS + b"\x08\x00",
    113: bytes(14) + b"\x08\x00",
    276: b"\x08\x00" + bytes(18),
    0: struct.pack("<I", 2),
    108: struct.pack(">I", 2),
    101: b"",
    228: b"",
}

IN_IP: dict[str, Wrapper] = {
    **PACKET_WRAPPERS,
    **{name: lambda packet, wrap=wrap: wrap(framed(packet)) for name, wrap in FRAME_WRAPPERS.items()},  # type: ignore[misc]
}
"""Tunnels for an IP packet, each with a plain outer packet or one that only the general way reads."""


@contextmanager
def general_way_only() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "LAYOUTS", {})
        yield


def everything(blocks: list[Block]) -> object:
    control = set().union(*(block.control for block in blocks))
    last = blocks[-1]
    return flows_of(blocks), list(flows_of(blocks)), control, findings_of(blocks), last.last_packet, last.last_time


@st.composite
def wrapped(draw: st.DrawFn, link_type: int, body: bytes) -> bytes:
    """Draw a packet with IP options, of IPv6 or other content, in up to three tunnels, behind VLAN tags."""
    packet = draw(
        st.sampled_from(
            (
                ipv4(body),
                ipv4(body, options=bytes(8)),
                ipv6(body),
                ipv6(bytes([6, 0, 4, 1, 4, 1, 1, 0]) + body, next_header=60),
                outer4(udp(body, draw(st.integers(4788, 4791))), 17),
                outer6(body, 58),
            )
        )
    )
    for name in draw(st.lists(st.sampled_from(sorted(IN_IP)), max_size=3)):
        packet = IN_IP[name](packet)
    tags = draw(st.lists(st.sampled_from((0x8100, 0x88A8, 0x9100)), max_size=9))
    ethertype = draw(st.sampled_from((ethertype_of(packet),) * 5 + (0x0806, 0x8847, 0x8864)))
    if link_type == 1:
        return ethernet(packet, ethertype=ethertype, tags=tags)
    if link_type in {113, 276}:
        after = b"".join(struct.pack(">HH", 7, each) for each in [*tags, ethertype][1:])
        first = struct.pack(">H", [*tags, ethertype][0])
        return (bytes(14) + first if link_type == 113 else first + bytes(18)) + after + packet
    family = 2 if ethertype == 0x0800 else draw(st.sampled_from((10, 24, 28, 30, 31)))
    order = draw(st.sampled_from("<>")) if link_type == 0 else ">"
    return (struct.pack(order + "I", family) if link_type in {0, 108} else b"") + packet


@st.composite
def frames(draw: st.DrawFn, link_type: int) -> bytes:
    """Draw mostly plain packets, with some bytes changed, cut or added anywhere."""
    body = tcp(
        draw(st.binary(max_size=20)),
        flags=draw(st.integers(0, 255)),
        options=bytes(4 * draw(st.integers(0, 10))),
        offset=draw(st.one_of(st.none(), st.integers(0, 15))),
    )
    total = draw(st.one_of(st.none(), st.integers(0, 90)))
    fragment = draw(st.sampled_from((0, 0x4000, 0x4000, 0x8000, 0x2000, 1)))
    frame = bytearray(LINK_HEADERS[link_type] + ipv4(body, total=total, fragment=fragment))
    if draw(st.booleans()):
        frame = bytearray(draw(wrapped(link_type, body)))
    for _ in range(draw(st.integers(0, 2))):
        frame[draw(st.integers(0, min(len(frame) - 1, 120)))] = draw(st.integers(0, 255))
    return bytes(frame[: draw(st.integers(0, len(frame)))] if draw(st.booleans()) else frame) + draw(st.binary(max_size=6))


@st.composite
def captures(draw: st.DrawFn) -> bytes:
    link_type = draw(st.sampled_from(sorted(LINK_HEADERS)))
    records = [
        Record(frame, draw(st.integers(0, 10**10)), draw(st.one_of(st.none(), st.integers(0, 150))))
        for frame in draw(st.lists(frames(link_type), max_size=6))
    ]
    if draw(st.booleans()):
        return pcap(records, link_type=link_type, snaplen=draw(st.sampled_from((0, 60, 70, 262_144))))
    ng = Pcapng(draw(st.sampled_from("<>")))
    data = ng.section() + ng.interface(
        link_type=link_type,
        snaplen=draw(st.sampled_from((0, 60, 70))),
        resolution=draw(st.sampled_from((None, 9, 12, 0x80 | 20, 0))),
        offset=draw(st.sampled_from((None, 5, -5, 1 << 62))),
    )
    for frame, time_ns, wire_bytes in records:
        data += ng.packet(frame, ticks=time_ns, wire_bytes=wire_bytes, interface=draw(st.sampled_from((0, 0, 0, 1))))
    return data


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(captures())
def test_the_hot_loops_agree_with_the_general_way(data: bytes) -> None:
    hot = everything(blocks_of(data))
    with general_way_only():
        assert everything(blocks_of(data)) == hot


@pytest.mark.parametrize("link_type", sorted(LINK_HEADERS))
def test_plain_packets_take_the_hot_loop(link_type: int, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [Record(LINK_HEADERS[link_type] + ipv4(tcp(b"data")))] * 3
    data = pcap(records, link_type=link_type)
    expected = everything(blocks_of(data))

    def refuse(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("pulsarscope.capture.link.link_layer.tcp_segment", refuse)
    assert everything(blocks_of(data)) == expected


@pytest.mark.parametrize("link_type", sorted(LINK_HEADERS))
def test_packets_of_one_length_need_not_be_laid_out_alike(link_type: int) -> None:
    header = LINK_HEADERS[link_type]
    alike = [
        header + ipv4(tcp(b"twelve bytes")),
        header + ipv4(tcp(b"", options=bytes(12))),
        header + ipv4(tcp(b"padded")) + bytes(6),
        header + ipv4(tcp(b"twelve bytes"), total=90),  # more than there is
    ]
    assert len({len(packet) for packet in alike}) == 1
    data = pcap([Record(packet) for packet in alike * 3 + alike[:1] * 2], link_type=link_type)
    hot = everything(blocks_of(data))
    with general_way_only():
        assert everything(blocks_of(data)) == hot
    (segments,) = flows_of(blocks_of(data)).values()
    assert [segment[6] for segment in segments[:3]] == [b"twelve bytes", b"", b"padded"]


def test_shapes_are_forgotten_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [Record(LINK_HEADERS[1] + ipv4(tcp(bytes(size)))) for size in (1, 2, 3, 1, 2, 3)]
    expected = everything(blocks_of(pcap(records)))
    monkeypatch.setattr("pulsarscope.capture.formats.pcap.SHAPES_MAX", 2)
    assert everything(blocks_of(pcap(records))) == expected


TO_COMPILED = {
    "ipv6": ethernet(ipv6(tcp(b"data")), ethertype=0x86DD),
    "ipv4-options": ethernet(ipv4(tcp(b"data"), options=bytes(8))),
    "tagged-twice": ethernet(ipv4(tcp(b"data")), tags=(0x88A8, 0x8100)),
    "tagged-ipv6": ethernet(ipv6(tcp(b"data")), ethertype=0x86DD, tags=(0x8100,)),
    "in-two-tunnels": framed(PACKET_WRAPPERS["gre-key"](FRAME_WRAPPERS["vxlan"](framed(ipv4(tcp(b"data")))))),
    "geneve-options": framed(FRAME_WRAPPERS["geneve-options"](framed(ipv6(tcp(b"data"))))),
    "erspan": framed(FRAME_WRAPPERS["erspan-ii"](framed(ipv4(tcp(b"data"))))),
    "arp": ethernet(bytes(28), ethertype=0x0806),
    "udp": framed(outer4(udp(b"query", 53), 17)),
}


@pytest.mark.skipif(load_native()[0] is None, reason="the compiled reader is not installed")
@pytest.mark.parametrize("name", TO_COMPILED)
def test_the_compiled_reader_decodes_tags_options_and_tunnels(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = pcap([Record(TO_COMPILED[name])] * 3 + [Record(ethernet(ipv4(tcp(b"data"))))])
    with general_way_only():
        expected = everything(blocks_of(data))

    def refuse(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("pulsarscope.capture.link.link_layer.tcp_segment", refuse)
    assert everything(blocks_of(data)) == expected
