"""Every tunnel around IPv4 and IPv6: the inner segment is decoded, and cut or changed packets do no harm."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.capture.link.tunnels import is_tunnel
from tests.scenarios.capture_bytes import (
    KEY,
    KEY6,
    Record,
    blocks_of,
    ethernet,
    findings_of,
    flows_of,
    frames_to_blocks,
    ipv4,
    ipv6,
    pcap,
    segments_of,
    tcp,
)
from tests.scenarios.wrapping import (
    ERSPAN_III,
    FRAME_WRAPPERS,
    LINK_WRAPPERS,
    PACKET_WRAPPERS,
    VXLAN,
    framed,
    geneve,
    gpe,
    gre,
    labels,
    outer4,
    outer6,
    ppp,
    pppoe,
    pptp,
    udp,
)

IP4, IP6 = ipv4(tcp(b"data")), ipv6(tcp(b"data"))

WRAPPED = {
    f"{name}-{family}": (frame, key)
    for packet, key, family in ((IP4, KEY, "ipv4"), (IP6, KEY6, "ipv6"))
    for name, frame in (
        *((name, framed(wrap(framed(packet)))) for name, wrap in FRAME_WRAPPERS.items()),
        *((name, framed(wrap(packet))) for name, wrap in PACKET_WRAPPERS.items()),
        *((name, wrap(packet)) for name, wrap in LINK_WRAPPERS.items()),
    )
}


@pytest.mark.parametrize(("frame", "key"), WRAPPED.values(), ids=WRAPPED)
def test_a_segment_is_found_in(frame: bytes, key: bytes) -> None:
    blocks = frames_to_blocks(frame)
    assert list(flows_of(blocks)) == [key]
    (segment,) = segments_of(blocks)
    assert segment[0] == 1
    assert segment[2:8] == (1000, 77, 0x10, 512, b"data", 0)
    assert findings_of(blocks) == {}
    assert all(block.fragments == [] for block in blocks)


@pytest.mark.parametrize(("frame", "key"), WRAPPED.values(), ids=WRAPPED)
def test_a_tunnel_cut_anywhere_is_no_malformed_one(frame: bytes, key: bytes) -> None:
    for captured in range(len(frame)):
        blocks = blocks_of(pcap([Record(frame[:captured], wire_bytes=len(frame))]))
        assert list(findings_of(blocks)) == ["snaplen-truncated"]
        for segment in segments_of(blocks):
            assert len(segment[6]) + segment[7] == 4
            assert list(flows_of(blocks)) == [key]


@given(st.sampled_from(sorted(WRAPPED)), st.data())
def test_changed_bytes_never_stop_the_reading(name: str, data: st.DataObject) -> None:
    frame = bytearray(WRAPPED[name][0])
    for _ in range(data.draw(st.integers(1, 4))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    captured = data.draw(st.integers(0, len(frame)))
    blocks = blocks_of(pcap([Record(bytes(frame[:captured])), Record(framed(IP4))]))
    assert segments_of(blocks)[-1][0] == 2


REJECTED = [
    ("gre-short", outer4(b"\0\0\x08", 47), "tunnel-header"),
    ("gre-options-short", outer4(gre(b"", 0x0800, 0x2000)[:-1], 47), "tunnel-header"),
    ("gre-routing", outer4(gre(IP4, 0x0800, 0x4000), 47), "tunnel-header"),
    ("gre-version-2", outer4(gre(IP4, 0x0800, 2), 47), "tunnel-header"),
    ("gre-version-1-without-key", outer4(gre(IP4, 0x880B, 1), 47), "tunnel-header"),
    ("gre-version-1-of-another-protocol", outer4(gre(IP4, 0x0800, 0x2001), 47), "tunnel-header"),
    ("erspan-ii-short", outer4(gre(bytes(7), 0x88BE, 0x1000), 47), "tunnel-header"),
    ("erspan-iii-short", outer4(gre(ERSPAN_III[:-1], 0x22EB, 0x1000), 47), "tunnel-header"),
    ("erspan-iii-subheader-short", outer4(gre(ERSPAN_III[:-1] + b"\1", 0x22EB, 0x1000), 47), "tunnel-header"),
    ("etherip-short", outer4(b"\x30", 97), "tunnel-header"),
    ("etherip-frame-short", outer4(b"\x30\x00" + bytes(13), 97), "link-header"),
    ("mpls-short", outer4(labels(1, b"")[:-1], 137), "tunnel-header"),
    ("mpls-empty", outer4(labels(1, b""), 137), "tunnel-header"),
    ("geneve-options-short", outer4(udp(geneve(0x6558, bytes(8))[:-1], 6081), 17), "tunnel-header"),
    ("pptp-short", outer4(pptp(b"\0"), 47), "tunnel-header"),
    ("inner-header-short", outer4(IP4[:19], 4), "ip-header"),
    ("inner-version", outer4(IP6, 4), "ip-header"),
    ("inner-version-6", outer6(IP4 + bytes(40), 41), "ip-header"),
    ("vxlan-frame-short", outer4(udp(VXLAN + bytes(13), 4789), 17), "link-header"),
    ("inner-tcp-header-short", outer4(ipv4(tcp()[:19]), 4), "tcp-header"),
]


@pytest.mark.parametrize(("packet", "reason"), [case[1:] for case in REJECTED], ids=[case[0] for case in REJECTED])
@pytest.mark.parametrize("padding", [0, 60], ids=["bare", "padded"])
def test_a_header_that_is_not_all_there_is_malformed(packet: bytes, reason: str, padding: int) -> None:
    """Append Ethernet padding after the outer packet, which is not part of it."""
    blocks = frames_to_blocks(framed(packet) + bytes(padding))
    assert segments_of(blocks) == []
    assert findings_of(blocks)["packet-malformed"].evidence == {"packets": 1, "reasons": {reason: 1}}


@pytest.mark.parametrize("frame", [ethernet(pppoe(b"")[:5], ethertype=0x8864), ethernet(b"\x12" + pppoe(ppp(IP4))[1:], ethertype=0x8864)])
def test_a_damaged_session_packet_is_malformed(frame: bytes) -> None:
    assert findings_of(frames_to_blocks(frame))["packet-malformed"].evidence["reasons"] == {"tunnel-header": 1}


PASSED_OVER = {
    "pppoe-link-control": ethernet(pppoe(b"\xc0\x21" + bytes(8)), ethertype=0x8864),
    "pptp-acknowledgment-alone": framed(outer4(pptp(b"", 0x2081), 47)),
    "gre-keepalive": framed(outer4(gre(b"", 0), 47)),
    "gre-wccp": framed(outer4(gre(IP4, 0x883E), 47)),
    "erspan-iii-of-no-ethernet": framed(outer4(gre(ERSPAN_III[:10] + b"\x08\x00" + IP4, 0x22EB, 0x1000), 47)),
    "mpls-channel": ethernet(labels(1, b"\x10" + bytes(20)), ethertype=0x8847),
    "mpls-other-pseudowire": ethernet(labels(1, bytes(40)), ethertype=0x8847),
    "udp": framed(outer4(udp(VXLAN + framed(IP4), 4788), 17)),
    "udp-short": framed(outer4(udp(VXLAN + framed(IP4), 4789)[:7], 17)),
    "vxlan-short": framed(outer4(udp(VXLAN[:7], 4789), 17)),
    "vxlan-without-its-flag": framed(outer4(udp(bytes(8) + framed(IP4), 4789), 17)),
    "gpe-without-its-flag": framed(outer4(udp(bytes(8) + framed(IP4), 4790), 17)),
    "gpe-of-another-protocol": framed(outer4(udp(gpe(4) + framed(IP4), 4790), 17)),
    "geneve-short": framed(outer4(udp(geneve(0x6558)[:7], 6081), 17)),
    "geneve-version-1": framed(outer4(udp(b"\x40" + geneve(0x6558)[1:] + framed(IP4), 6081), 17)),
    "geneve-of-another-protocol": framed(outer4(udp(geneve(0x6559) + framed(IP4), 6081), 17)),
    "udp-inside": framed(outer4(udp(VXLAN + framed(ipv4(udp(b"x", 53), protocol=17)), 4789), 17)),
    "arp-inside": framed(outer4(udp(VXLAN + ethernet(bytes(28), ethertype=0x0806), 4789), 17)),
}


@pytest.mark.parametrize("frame", PASSED_OVER.values(), ids=PASSED_OVER)
def test_what_is_no_tunnel_passes_in_silence(frame: bytes) -> None:
    blocks = frames_to_blocks(frame)
    assert segments_of(blocks) == []
    assert findings_of(blocks) == {}


def test_addresses_that_look_like_ethertypes_are_no_ethernet() -> None:
    for packet in (IP4[:12] + b"\x08\x00" + IP4[14:], IP6[:12] + b"\x86\xdd" + IP6[14:]):
        assert len(segments_of(frames_to_blocks(ethernet(labels(1, packet), ethertype=0x8847)))) == 1


def test_a_payload_ends_where_its_tunnel_does() -> None:
    """Use an inner length of 0 (segmentation offload): the outer header determines the length."""
    inner = ipv4(tcp(b"data"), total=0)
    for packet in (outer4(inner, 4), outer4(gre(inner, 0x0800), 47), outer4(udp(VXLAN + framed(inner), 4789), 17)):
        assert segments_of(frames_to_blocks(framed(packet) + b"trailer"))[0][6:8] == (b"data", 0)
    assert segments_of(frames_to_blocks(ethernet(pppoe(ppp(inner)) + b"trailer", ethertype=0x8864)))[0][6:8] == (b"data", 0)


def test_17_labels_are_too_many() -> None:
    blocks = frames_to_blocks(ethernet(labels(17, IP4), ethertype=0x8847))
    assert findings_of(blocks)["nesting-too-deep"].evidence == {"packets": 1, "reasons": {"mpls-labels": 1}}


def test_mirrored_packets_that_were_shortened_miss_bytes() -> None:
    blocks = frames_to_blocks(framed(outer4(gre(framed(ipv4(tcp(b"0123456789")))[:-4], 0x88BE), 47)))
    assert segments_of(blocks)[0][6:8] == (b"012345", 4)
    assert findings_of(blocks)["snaplen-truncated"].evidence == {"packets": 1, "bytes": 4}


def test_a_tunnel_is_known_by_its_port() -> None:
    assert is_tunnel(udp(b"", 4789))
    assert not is_tunnel(udp(b"", 53))
    assert not is_tunnel(struct.pack(">H", 4789))
