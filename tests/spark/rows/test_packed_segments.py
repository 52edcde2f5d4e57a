from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.capture import BlockReader, Segment
from pulsarscope.spark.rows import packets
from pulsarscope.spark.rows.packed_segments import ORDER, SCHEMA, FlowReader, pack, pack_file, unpack
from tests.spark.inside import deal_rows

SEGMENTS: st.SearchStrategy[Segment] = st.tuples(
    st.integers(1, 2**40),
    st.integers(-(2**62), 2**62),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(0, 255),
    st.integers(0, 2**16 - 1),
    st.binary(max_size=40),
    st.integers(0, 2**18),
    st.integers(0, 2**16 - 1),
    st.binary(max_size=40),
)


@pytest.mark.slow
@given(st.lists(SEGMENTS, max_size=6), st.lists(SEGMENTS, max_size=6))
def test_what_is_packed_is_unpacked(one: list[Segment], other: list[Segment]) -> None:
    assert unpack(pack((one, other))) == ((one, other), {})


@pytest.mark.parametrize("name", ["quickstart.pcapng", "rw-portreuse.pcap", "ipv6.pcap", "rw-shuffle.pcap"])
@pytest.mark.parametrize("by_packet", [False, True])
def test_all_segments_of_a_file_come_back_in_order(captures: Path, name: str, *, by_packet: bool) -> None:
    path = str(captures / name)
    want: dict[bytes, list[Segment]] = {}
    for block in BlockReader(path, 5):
        for key, segments in block.flows.items():
            want.setdefault(key, []).extend(segments)
    made = (
        packets.pack_packets(deal_rows(packets.packet_batches(BlockReader(path, 5), None, 5), packets.SCHEMA, ORDER, 1)[0])
        if by_packet
        else None
    )
    batches = deal_rows(pack_file(BlockReader(path, 5), None, 5), SCHEMA, ORDER, 1)[0] if made is None else made
    got: dict[bytes, list[Segment]] = {}
    for blocks in FlowReader(batches):
        assert isinstance(blocks, Iterator)
        for block in blocks:
            assert block.file == 5
            for key, segments in block.flows.items():
                got.setdefault(key, []).extend(segments)
    assert got == want
