from __future__ import annotations

from pathlib import Path

import pytest

from pulsarscope.capture import BlockReader, Inputs, expand_inputs
from pulsarscope.model.flow import reverse_key, source_endpoint
from pulsarscope.spark.tasks.flow_shares import (
    SHARE_BYTES,
    SHARES_MAX,
    FlowDivision,
    FlowShare,
    KeptFlows,
    Wanted,
    capture_sets,
    deal,
    shares_of,
)
from tests.spark.inside import SOURCE_PER_FILE


def flows_of(inputs: Inputs, share: FlowShare, wanted: Wanted | None = None) -> list[set[bytes]]:
    """Return the lower keys of the flows of a share, by file."""
    return kept(inputs, KeptFlows(inputs, share, wanted or Wanted()))


def kept(inputs: Inputs, flows: KeptFlows) -> list[set[bytes]]:
    """Return the lower keys of the flows that are kept, by file."""
    found = []
    for file, path in enumerate(inputs.paths):
        blocks = [*flows.read(path, file)]
        assert all(block.control <= block.flows.keys() for block in blocks)
        found.append({min(key, reverse_key(key)) for block in blocks for key in block.flows})
    return found


@pytest.mark.parametrize("count", [1, 3, 7])
def test_each_flow_is_in_one_share(captures: Path, count: int) -> None:
    inputs = expand_inputs([str(captures / name) for name in ("errors.pcap", "stuck-consumer.pcap", "shared-nack-dlq.pcap")])
    whole = [{min(key, reverse_key(key)) for block in BlockReader(path) for key in block.flows} for path in inputs.paths]
    shares = shares_of(inputs, capture_sets(inputs), count)
    found = [flows_of(inputs, share) for share in shares]
    for file, flows in enumerate(whole):
        assert sorted(key for share in found for key in share[file]) == sorted(flows)


def test_captures_of_a_vantage_point_are_decoded_without_the_others(captures: Path) -> None:
    names = ("errors.pcap", "ipv6.pcap", "stuck-consumer.pcap")
    paths = [str(captures / name) for name in names]
    assert capture_sets(expand_inputs(paths)) == [(0, 3)]
    inputs = expand_inputs(paths, SOURCE_PER_FILE)
    assert capture_sets(inputs) == [(0, 1), (1, 2), (2, 3)]
    assert [bool(flows) for flows in flows_of(inputs, FlowShare(1, 2))] == [False, True, False]


def test_where_a_capture_may_bring_secrets_all_are_one_set(captures: Path) -> None:
    inputs = expand_inputs([str(captures / name) for name in ("errors.pcap", "go-tls13-dsb.pcapng")], SOURCE_PER_FILE)
    assert capture_sets(inputs) == [(0, 2)]
    assert flows_of(inputs, FlowShare(0, 2))[1]


def test_shares_grow_with_the_captures_up_to_a_maximum() -> None:
    def shares(size: int, count: int | None = None) -> list[FlowShare]:
        return shares_of(Inputs(["a", "b", "c", "d"], size, []), [(0, 1), (1, 4)], count)

    assert [*map(len, (shares(10), shares(10 * SHARE_BYTES), shares(1000 * SHARE_BYTES)))] == [2, 9, 2 * SHARES_MAX]
    assert shares(10, 2) == [FlowShare(0, 1, 0, 2), FlowShare(0, 1, 1, 2), FlowShare(1, 4, 0, 2), FlowShare(1, 4, 1, 2)]


def test_flows_without_the_wanted_endpoints_are_left_out(captures: Path) -> None:
    inputs = expand_inputs([str(captures / "errors.pcap")])
    (flows,) = flows_of(inputs, FlowShare(0, 1))
    key = min(flows)

    ends = source_endpoint(key), source_endpoint(reverse_key(key))
    for client, server in (ends, ends[::-1]):
        (some,) = flows_of(inputs, FlowShare(0, 1), Wanted(frozenset({client, "1.2.3.4:5"}), frozenset({server})))
        assert key in some
        assert len(some) < len(flows)
    assert flows_of(inputs, FlowShare(0, 1), Wanted(frozenset({ends[0]}), frozenset())) == [set()]


def test_flows_without_a_packet_in_the_chosen_files_or_times_are_left_out(captures: Path) -> None:
    inputs = expand_inputs([str(captures / name) for name in ("errors.pcap", "stuck-consumer.pcap")])
    whole = flows_of(inputs, FlowShare(0, 2))
    first = KeptFlows(inputs, FlowShare(0, 2), Wanted())
    first.choose([True, False], None)
    assert kept(inputs, first) == [whole[0], whole[1] & whole[0]]
    times = sorted(segment[1] for block in BlockReader(inputs.paths[1]) for segments in block.flows.values() for segment in segments)
    some = KeptFlows(inputs, FlowShare(0, 2), Wanted())
    some.choose([True, True], lambda given: [time == times[0] for time in given])
    assert 0 < sum(map(len, kept(inputs, some))) < sum(map(len, whole))
    none = KeptFlows(inputs, FlowShare(0, 2), Wanted())
    none.choose([True, True], lambda given: [False for _ in given])
    assert kept(inputs, none) == [set(), set()]


@pytest.mark.parametrize("shares", [[0, 3], [1, 2, 4], [0, 1, 2, 3, 4]])
def test_a_task_reads_once_for_its_shares(captures: Path, shares: list[int]) -> None:
    path = str(captures / "stuck-consumer.pcap")
    inputs = Inputs([path], None, [])
    division = FlowDivision(shares, 5)
    for whole, *singles in zip(
        BlockReader(path), *([*KeptFlows(inputs, FlowShare(0, 1, share, 5), Wanted()).read(path, 0)] for share in shares), strict=True
    ):
        packets, findings = whole.packets, whole.findings
        parts = division.divided(whole)
        assert [part.flows.keys() for part in parts] == [single.flows.keys() for single in singles]
        assert [part.control for part in parts] == [single.control for single in singles]
        assert [part.packets for part in parts] == [packets] + [0] * (len(shares) - 1)
        assert [part.findings for part in parts] == [findings] + [[]] * (len(shares) - 1)


@pytest.mark.parametrize(
    ("loads", "tasks", "dealt"),
    [
        ([0, 0, 0, 0], 2, [[0, 2], [1, 3]]),
        ([5, 9, 1, 8], 2, [[1, 2], [0, 3]]),
        ([7, 7, 7, 7, 7, 7, 0, 0], 2, [[0, 2, 4, 6], [1, 3, 5, 7]]),
        ([0, 0, 90, 0, 0, 1], 3, [[2], [5], [0, 1, 3, 4]]),
        ([3], 1, [[0]]),
    ],
)
def test_shares_are_dealt_by_their_loads(loads: list[int], tasks: int, dealt: list[list[int]]) -> None:
    assert deal(loads, tasks) == dealt
