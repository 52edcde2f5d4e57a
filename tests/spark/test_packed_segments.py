from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.capture import BlockReader, Segment
from pulsarscope.engine.flows import OpenFlow
from pulsarscope.spark import packets
from pulsarscope.spark.packed_segments import ORDER, SCHEMA, SUSPENDED, FlowReader, PackedFlow, pack, pack_file, suspended_row, unpack
from pulsarscope.spark.record_batch import to_record_batch
from tests.spark.inside import deal

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
        packets.pack_packets(deal(packets.packet_batches(BlockReader(path, 5), None, 5), packets.SCHEMA, ORDER, 1)[0])
        if by_packet
        else None
    )
    batches = deal(pack_file(BlockReader(path, 5), None, 5), SCHEMA, ORDER, 1)[0] if made is None else made
    got: dict[bytes, list[Segment]] = {}
    for flow in FlowReader(batches):
        assert isinstance(flow, PackedFlow)
        for block in flow.blocks:
            assert block.file == 5
            for key, segments in block.flows.items():
                got.setdefault(key, []).extend(segments)
    assert got == want


def test_nothing_is_taken_up_but_in_a_stream() -> None:
    """Packets of a data frame may have any file number; their contents are not taken for states."""
    flow = bytes(12)
    open_flow = OpenFlow(None, 1, 0, closed=False, state=b"anything")
    suspended = next(iter(FlowReader([to_record_batch([suspended_row(None, flow, open_flow)], SCHEMA)], resumes=True)))
    assert isinstance(suspended, PackedFlow)
    assert (suspended.state, suspended.silent) == (open_flow, True)
    packet: Segment = (1, 2, 3, 4, 16, 5, b"payload", 0, 7, b"options")
    packed = next(iter(FlowReader([to_record_batch([(None, flow, SUSPENDED, 1, pack(([packet], [])))], SCHEMA)])))
    assert isinstance(packed, PackedFlow)
    assert packed.state is None
    assert [block.flows for block in packed.blocks] == [{flow: [packet]}]
