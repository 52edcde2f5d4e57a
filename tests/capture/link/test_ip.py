from __future__ import annotations

import struct

import pytest

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


def extension(following: int, words: int = 0) -> bytes:
    return bytes([following, words]) + bytes(6 + 8 * words)


def fragment_header(following: int, field: int) -> bytes:
    return struct.pack(">BBHI", following, 0, field, 99)


def ip6_frame(body: bytes, **fields: int) -> bytes:
    return ethernet(ipv6(body, **fields), ethertype=0x86DD)


READ = [
    ("ipv4-options", ethernet(ipv4(tcp(b"data"), options=b"\x94\x04\x00\x00")), KEY),
    ("ipv4-all-options", ethernet(ipv4(tcp(b"data"), options=bytes(40))), KEY),
    ("tcp-options", ethernet(ipv4(tcp(b"data", options=b"\x01\x01\x08\x0a" + bytes(8)))), KEY),
    ("tcp-option-of-length-0", ethernet(ipv4(tcp(b"data", options=b"\x08\x00\x00\x00"))), KEY),
    ("tcp-all-options", ethernet(ipv4(tcp(b"data", options=bytes(40)))), KEY),
    ("segmentation-offload", ethernet(ipv4(tcp(b"data"), total=0)), KEY),
    ("ethernet-padding", ethernet(ipv4(tcp(b"data"))) + bytes(20), KEY),
    ("reserved-ip-flag", ethernet(ipv4(tcp(b"data"), fragment=0x8000)), KEY),
    ("ipv4-authentication", ethernet(ipv4(bytes([6, 4]) + bytes(22) + tcp(b"data"), protocol=51)), KEY),
    ("ipv6", ip6_frame(tcp(b"data")), KEY6),
    ("ipv6-padding", ip6_frame(tcp(b"data")) + bytes(20), KEY6),
    ("ipv6-offload", ip6_frame(tcp(b"data"), length=0), KEY6),
    ("hop-by-hop", ip6_frame(extension(6) + tcp(b"data"), next_header=0), KEY6),
    ("routing", ip6_frame(extension(6, 2) + tcp(b"data"), next_header=43), KEY6),
    ("destination", ip6_frame(extension(6) + tcp(b"data"), next_header=60), KEY6),
    ("authentication", ip6_frame(bytes([6, 4]) + bytes(22) + tcp(b"data"), next_header=51), KEY6),
    ("atomic-fragment", ip6_frame(fragment_header(6, 0) + tcp(b"data"), next_header=44), KEY6),
    ("three-headers", ip6_frame(extension(60) + extension(43) + extension(6) + tcp(b"data"), next_header=0), KEY6),
    ("sixteen-headers", ip6_frame(extension(60) * 15 + extension(6) + tcp(b"data"), next_header=60), KEY6),
]


@pytest.mark.parametrize(("frame", "key"), [case[1:] for case in READ], ids=[case[0] for case in READ])
def test_a_segment_is_found_behind(frame: bytes, key: bytes) -> None:
    blocks = frames_to_blocks(frame)
    assert list(flows_of(blocks)) == [key]
    (segment,) = segments_of(blocks)
    assert segment[2:8] == (1000, 77, 0x10, 512, b"data", 0)
    assert findings_of(blocks) == {}


REJECTED = [
    ("ip-header-short", ethernet(ipv4(tcp())[:19]), "packet-malformed", "ip-header"),
    ("ip-header-length-below-5", ethernet(ipv4(tcp(), first=0x44)), "packet-malformed", "ip-header"),
    ("ip-version", ethernet(ipv4(tcp(), first=0x55)), "packet-malformed", "ip-header"),
    ("total-below-header", ethernet(ipv4(tcp(), total=19)), "packet-malformed", "ip-header"),
    ("options-beyond-total", ethernet(ipv4(tcp(), first=0x4F, total=40)), "packet-malformed", "ip-header"),
    ("tcp-header-beyond-total", ethernet(ipv4(tcp(), total=39)), "packet-malformed", "tcp-header"),
    ("data-offset-below-5", ethernet(ipv4(tcp(b"data", offset=4))), "packet-malformed", "tcp-header"),
    ("data-offset-beyond-packet", ethernet(ipv4(tcp(b"data", offset=7))), "packet-malformed", "tcp-header"),
    ("tcp-header-not-there", ethernet(ipv4(tcp()[:12], total=40)), "packet-malformed", "tcp-header"),
    ("first-fragment", ethernet(ipv4(tcp(b"data"), fragment=0x2000)), "fragment-incomplete", "ipv4"),
    ("later-fragment", ethernet(ipv4(b"data", fragment=0x0004)), "fragment-incomplete", "ipv4"),
    ("ipv6-header-short", ip6_frame(tcp())[: 14 + 39], "packet-malformed", "ip-header"),
    ("ipv6-version", ip6_frame(tcp(), version=4), "packet-malformed", "ip-header"),
    ("extension-header-short", ip6_frame(b"\x06\x00", next_header=0), "packet-malformed", "ip-header"),
    ("extension-header-not-there", ip6_frame(b"", next_header=0, length=8), "packet-malformed", "ip-header"),
    ("extension-beyond-packet", ip6_frame(extension(6, 0)[:1] + b"\xff" + bytes(30), next_header=0), "packet-malformed", "tcp-header"),
    ("too-many-extension-headers", ip6_frame(extension(60) * 20, next_header=60), "nesting-too-deep", "ipv6-extension-headers"),
    ("ipv6-first-fragment", ip6_frame(fragment_header(6, 1) + tcp(b"data"), next_header=44), "fragment-incomplete", "ipv6"),
    ("ipv6-later-fragment", ip6_frame(fragment_header(6, 8) + b"data", next_header=44), "fragment-incomplete", "ipv6"),
]


@pytest.mark.parametrize(("frame", "code", "reason"), [case[1:] for case in REJECTED], ids=[case[0] for case in REJECTED])
def test_no_segment_but_one_finding_for(frame: bytes, code: str, reason: str) -> None:
    blocks = frames_to_blocks(frame, frame)
    assert segments_of(blocks) == []
    finding = findings_of(blocks)[code]
    assert finding.evidence == {"packets": 2, "reasons": {reason: 2}}
    assert finding.packet == 1


@pytest.mark.parametrize(
    "frame",
    [
        ethernet(ipv4(bytes(8), protocol=17)),
        ethernet(ipv4(bytes(8), protocol=17, fragment=0x2000)),
        ip6_frame(bytes(8), next_header=59),
        ip6_frame(extension(58) + bytes(8), next_header=0),
        ip6_frame(fragment_header(17, 8) + bytes(8), next_header=44),
    ],
    ids=["udp", "udp-fragment", "no-next-header", "icmp6", "udp6-fragment"],
)
def test_other_protocols_pass_in_silence(frame: bytes) -> None:
    blocks = frames_to_blocks(frame)
    assert segments_of(blocks) == []
    assert findings_of(blocks) == {}


@pytest.mark.parametrize(
    "complete", [ethernet(ipv4(tcp(b"data", options=bytes(12)))), ip6_frame(extension(6) + tcp(b"data"), next_header=0)]
)
def test_a_packet_cut_anywhere_is_no_malformed_one(complete: bytes) -> None:
    for captured in range(len(complete)):
        blocks = blocks_of(pcap([Record(complete[:captured], wire_bytes=len(complete))]))
        assert list(findings_of(blocks)) == ["snaplen-truncated"]
        for segment in segments_of(blocks):
            assert len(segment[6]) + segment[7] == 4


def test_a_cut_packet_of_unknown_ip_length_misses_what_the_wire_had() -> None:
    complete = ethernet(ipv4(tcp(b"0123456789"), total=0))
    blocks = blocks_of(pcap([Record(complete[:-4], wire_bytes=len(complete))]))
    assert segments_of(blocks)[0][6:8] == (b"012345", 4)


def test_an_ip_length_beyond_an_uncut_packet_is_reported_as_a_cut() -> None:
    blocks = frames_to_blocks(ethernet(ipv4(tcp(b"data"), total=50)))
    assert segments_of(blocks)[0][6:8] == (b"data", 6)
    assert findings_of(blocks)["snaplen-truncated"].evidence == {"packets": 1, "bytes": 6}
