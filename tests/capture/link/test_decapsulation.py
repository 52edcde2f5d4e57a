"""Nested tunnels and fragments: any traffic encapsulated within the bounds is decoded like the original."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.capture import BlockReader
from pulsarscope.model.flow import source_of_key
from pulsarscope.model.limits import TUNNELS_MAX
from tests.scenarios.both_readers import reader
from tests.scenarios.capture_bytes import (
    KEY,
    START,
    Pcapng,
    Record,
    blocks_of,
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
    FRAME_WRAPPERS,
    LINK_WRAPPERS,
    PACKET_WRAPPERS,
    VXLAN,
    Wrapper,
    fragments,
    framed,
    gre,
    labels,
    outer4,
    udp,
)

IN_PACKETS: dict[str, Wrapper] = {
    **PACKET_WRAPPERS,
    **{f"frame-{name}": lambda packet, wrap=wrap: wrap(framed(packet)) for name, wrap in FRAME_WRAPPERS.items()},  # type: ignore[misc]
}
TWO = {name for name in IN_PACKETS if "mpls-in-gre" in name or name == "vxlan-gpe-mpls"}
"""A tunnel in a tunnel."""


@pytest.mark.parametrize("name", sorted(IN_PACKETS))
def test_tunnels_in_each_other_are_read_up_to_the_bound(name: str) -> None:
    times = TUNNELS_MAX // 2 if name in TWO else TUNNELS_MAX
    packet = ipv4(tcp(b"data"))
    for _ in range(times):
        packet = IN_PACKETS[name](packet)
    assert [segment[6] for segment in segments_of(frames_to_blocks(framed(packet)))] == [b"data"]
    blocks = frames_to_blocks(framed(IN_PACKETS[name](packet)))
    assert segments_of(blocks) == []
    assert findings_of(blocks)["nesting-too-deep"].evidence == {"packets": 1, "reasons": {"tunnels": 1}}


@pytest.mark.slow
@given(st.data())
def test_any_wrapping_and_any_order_of_fragments_changes_no_byte(data: st.DataObject) -> None:
    """Encapsulate each packet differently; fragments at any depth may be reversed and duplicated."""
    frames: list[bytes] = []
    payloads = data.draw(st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=4))
    sequence, number, six = 1000, 0, data.draw(st.booleans())
    for payload in payloads:
        segment = tcp(payload, sequence=sequence)
        packets = [ipv6(segment) if six else ipv4(segment)]
        sequence += len(payload)
        for _ in range(data.draw(st.integers(0, TUNNELS_MAX // 2 - 1))):
            name = data.draw(st.sampled_from(sorted(IN_PACKETS)))
            packets = [IN_PACKETS[name](packet) for packet in packets]
            if name != "ip-in-ipv6-options" and data.draw(st.booleans()):
                size = data.draw(st.sampled_from([256, 512, 1024]))
                cut: list[bytes] = []
                for packet in packets:
                    number += 1
                    cut += fragments(packet, size, identification=number)
                packets = cut[::-1] if data.draw(st.booleans()) else cut
        link = LINK_WRAPPERS[data.draw(st.sampled_from(sorted(LINK_WRAPPERS)))]
        frames += [link(packet) for packet in packets]
        if data.draw(st.booleans()) and len(packets) > 1:
            frames += [link(packet) for packet in packets]
    blocks = blocks_of(pcap([Record(frame, START + at) for at, frame in enumerate(frames)]))
    (segments,) = flows_of(blocks).values()
    assert [segment[6] for segment in segments] == payloads
    assert findings_of(blocks) == {}


def test_the_numbers_of_tunnels_distinguish_no_connections() -> None:
    """Use identifiers that routers change, different in the two directions of a connection."""
    packet = ipv4(tcp(b"data"))
    tunnels = [
        outer4(udp(VXLAN + framed(packet), 4789), 17),
        outer4(udp(VXLAN[:4] + b"\0\0\x63\0" + framed(packet), 4789), 17),
        outer4(gre(packet, 0x0800, 0x2000), 47),
        outer4(labels(3, packet), 137),
        packet,
    ]
    (segments,) = flows_of(frames_to_blocks(*map(framed, tunnels))).values()
    assert len(segments) == len(tunnels)


@given(st.lists(st.binary(max_size=200), max_size=5))
def test_whatever_stands_in_a_tunnel_the_next_packet_is_read(bodies: list[bytes]) -> None:
    frames = [framed(wrap(body)) for body in bodies if body for wrap in FRAME_WRAPPERS.values()]
    blocks = frames_to_blocks(*frames, framed(ipv4(tcp(b"data"))))
    assert segments_of(blocks)[-1][0] == len(frames) + 1
    assert KEY in flows_of(blocks)


def test_fragments_of_two_interfaces_are_not_put_together() -> None:
    """Capture each fragment twice on a bridge; one side has lost a fragment."""
    build = Pcapng()
    cut = [framed(outer) for outer in fragments(ipv4(tcp(b"data" * 100)), 128)]
    packets = [build.packet(frame, interface=side) for at, frame in enumerate(cut) for side in (0, 1) if (at, side) != (1, 1)]
    data = build.section() + build.interface(name="a") + build.interface(name="b") + b"".join(packets)
    blocks = list(BlockReader(io.BytesIO(data), by_interface=True))
    ((key, segments),) = flows_of(blocks).items()
    assert (source_of_key(key), [segment[6] for segment in segments]) == ("a", [b"data" * 100])
    assert findings_of(blocks)["fragment-incomplete"].evidence["packets"] == len(cut) - 1


@pytest.mark.parametrize("name", ["plain", "vlan", *sorted(IN_PACKETS)])
@pytest.mark.parametrize("packet", [ipv4(tcp(b"data", options=bytes(4))), ipv6(tcp(b"data"))], ids=["ipv4", "ipv6"])
def test_both_readers_find_the_same_in_packets_cut_anywhere(packet: bytes, name: str) -> None:
    pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")
    whole = LINK_WRAPPERS[name](packet) if name in LINK_WRAPPERS else framed(IN_PACKETS[name](packet))
    records = [Record(whole[:captured], START + captured, wire_bytes=len(whole)) for captured in range(len(whole) + 1)]
    found = []
    for choice in ("off", "require"):
        with reader(choice):
            blocks = blocks_of(pcap(records))
        found.append(
            ([*map(tuple, segments_of(blocks))], [(each.code, each.evidence, each.packet) for each in findings_of(blocks).values()])
        )
    assert found[0] == found[1]
    assert found[0][0][-1][7] == 0
