from __future__ import annotations

import struct

import pytest

from tests.scenarios.capture_bytes import KEY, KEY6, ethernet, findings_of, flows_of, frames_to_blocks, ipv4, ipv6, segments_of, tcp

IP4, IP6 = ipv4(tcp(b"data")), ipv6(tcp(b"data"))


def sll(ethertype: int, packet: bytes) -> bytes:
    return struct.pack(">HHH8sH", 0, 1, 6, bytes(8), ethertype) + packet


def sll2(ethertype: int, packet: bytes) -> bytes:
    return struct.pack(">HHIHBB8s", ethertype, 0, 2, 1, 0, 6, bytes(8)) + packet


TAG = struct.pack(">HH", 7, 0x0800)

READ = [
    ("ethernet", 1, ethernet(IP4), KEY),
    ("ethernet-6", 1, ethernet(IP6, ethertype=0x86DD), KEY6),
    ("vlan", 1, ethernet(IP4, tags=[0x8100]), KEY),
    ("vlan-6", 1, ethernet(IP6, ethertype=0x86DD, tags=[0x8100]), KEY6),
    ("qinq", 1, ethernet(IP4, tags=[0x88A8, 0x8100]), KEY),
    ("old-qinq", 1, ethernet(IP4, tags=[0x9100, 0x8100]), KEY),
    ("eight-tags", 1, ethernet(IP4, tags=[0x8100] * 8), KEY),
    ("sll", 113, sll(0x0800, IP4), KEY),
    ("sll-6", 113, sll(0x86DD, IP6), KEY6),
    ("sll-vlan", 113, sll(0x8100, TAG + IP4), KEY),
    ("sll2", 276, sll2(0x0800, IP4), KEY),
    ("sll2-6", 276, sll2(0x86DD, IP6), KEY6),
    ("sll2-vlan", 276, sll2(0x8100, TAG + IP4), KEY),
    ("null-little", 0, struct.pack("<I", 2) + IP4, KEY),
    ("null-big", 0, struct.pack(">I", 2) + IP4, KEY),
    *((f"null-6-{family}", 0, struct.pack("<I", family) + IP6, KEY6) for family in (10, 24, 28, 30)),
    ("null-6-big", 0, struct.pack(">I", 30) + IP6, KEY6),
    ("loop", 108, struct.pack(">I", 2) + IP4, KEY),
    ("loop-6", 108, struct.pack(">I", 24) + IP6, KEY6),
    *((f"ppp-{link_type}", link_type, b"\xff\x03\x00\x21" + IP4, KEY) for link_type in (9, 50)),
    ("ppp-6-compressed", 9, b"\x57" + IP6, KEY6),
    ("cisco-hdlc", 104, b"\x0f\x00\x08\x00" + IP4, KEY),
    ("cisco-hdlc-6", 104, b"\x8f\x00\x86\xdd" + IP6, KEY6),
    *((f"raw-{link_type}", link_type, IP4, KEY) for link_type in (12, 14, 101, 228)),
    *((f"raw-6-{link_type}", link_type, IP6, KEY6) for link_type in (12, 14, 101, 229)),
]


@pytest.mark.parametrize(("link_type", "frame", "key"), [case[1:] for case in READ], ids=[case[0] for case in READ])
def test_a_segment_is_found_in(link_type: int, frame: bytes, key: bytes) -> None:
    blocks = frames_to_blocks(frame, link_type=link_type)
    assert list(flows_of(blocks)) == [key]
    assert segments_of(blocks)[0][2:8] == (1000, 77, 0x10, 512, b"data", 0)
    assert findings_of(blocks) == {}


SHORTEST = [(1, 14), (113, 16), (276, 20), (0, 4), (104, 4), (108, 4), (101, 1), (228, 1), (229, 1)]


@pytest.mark.parametrize(("link_type", "header_bytes"), SHORTEST)
def test_a_frame_shorter_than_its_header_is_malformed(link_type: int, header_bytes: int) -> None:
    blocks = frames_to_blocks(bytes(header_bytes - 1), link_type=link_type)
    assert findings_of(blocks)["packet-malformed"].evidence["reasons"] == {"link-header": 1}


@pytest.mark.parametrize(
    ("frame", "link_type", "code"),
    [
        (ethernet(IP4, tags=[0x8100] * 9), 1, "nesting-too-deep"),
        (ethernet(b"\x00\x07", ethertype=0x8100), 1, "packet-malformed"),
        (b"\x75" + IP4[1:], 101, "packet-malformed"),
        (IP6, 228, "packet-malformed"),
        (IP4, 229, "packet-malformed"),
    ],
    ids=["nine-tags", "tag-cut", "raw-version-7", "ipv6-in-ipv4", "ipv4-in-ipv6"],
)
def test_no_segment_but_a_finding_for(frame: bytes, link_type: int, code: str) -> None:
    blocks = frames_to_blocks(frame, link_type=link_type)
    assert segments_of(blocks) == []
    assert list(findings_of(blocks)) == [code]


@pytest.mark.parametrize(
    ("frame", "link_type"),
    [
        (ethernet(bytes(28), ethertype=0x0806), 1),
        (sll(0x88CC, bytes(20)), 113),
        (bytes(8), 0),
        (b"\xff" * 8, 0),
        (bytes(8), 108),
        (b"\xff\x03\xc0\x21" + bytes(8), 9),
    ],
    ids=["arp", "lldp", "family-0", "family-absurd", "loop-family-0", "ppp-lcp"],
)
def test_what_is_not_ip_passes_in_silence(frame: bytes, link_type: int) -> None:
    assert findings_of(frames_to_blocks(frame, link_type=link_type)) == {}


def test_an_unknown_link_type_is_reported_once_with_its_count() -> None:
    finding = findings_of(frames_to_blocks(*[bytes(60)] * 5, link_type=127))["unknown-link-type"]
    assert finding.evidence == {"packets": 5, "link_type": "127 (802.11 with radiotap)"}
    assert "5 packets of link type 127 (802.11 with radiotap)" in finding.text
