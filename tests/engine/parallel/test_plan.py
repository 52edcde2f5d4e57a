from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.capture import read_blocks
from pulsarscope.engine.parallel import plan
from pulsarscope.engine.parallel.plan import Flows, groups, shares, survey
from pulsarscope.tcp import Assembler
from tests.encoder import Conversation, write_pcap
from tests.encoder.streams import CONNECT, CONNECTED
from tests.engine.parallel.rings import moved, ring
from tests.places import CAPTURES

A, B, C, D = (bytes([number]) * 12 for number in range(4))


def test_both_directions_of_a_connection_are_one_flow(tmp_path: Path) -> None:
    talk = Conversation().handshake().client(CONNECT).server(CONNECTED).close()
    whole = write_pcap(tmp_path / "whole.pcap", talk.packets)
    answers = write_pcap(tmp_path / "answers.pcap", [packet for packet in talk.packets if packet.data[26:30] == b"\x0a\x00\x00\x02"])
    flows = survey(str(whole)).flows
    assert flows == survey(str(answers)).flows
    assert flows is not None
    assert len(flows) == 1


def test_what_is_no_capture_has_no_flows(tmp_path: Path) -> None:
    assert survey(str(tmp_path / "missing.pcap")).flows == set()
    assert survey(str(CAPTURES / "README.md")).flows == set()


@pytest.mark.parametrize(
    ("flows", "want"),
    [
        ([], []),
        ([{A}], [[0]]),
        ([{A}, {B}, {C}], [[0], [1], [2]]),
        ([{A}, {B}, {A}], [[0, 2], [1]]),
        ([{A}, {B}, {C}, {A, C}], [[0, 2, 3], [1]]),
        ([{A, B}, {C}, {B, C}, {D}], [[0, 1, 2], [3]]),
        ([set(), {A}, set()], [[0], [1], [2]]),
        ([{A}, None, {B}], [[0, 1, 2]]),
    ],
)
def test_files_that_share_a_flow_are_together(flows: list[Flows], want: list[list[int]]) -> None:
    assert groups(flows, len(flows)) == want


@given(st.lists(st.frozensets(st.sampled_from([bytes([number]) for number in range(12)]), max_size=3), max_size=10))
def test_groups_are_the_files_that_flows_lead_to(flows: list[frozenset[bytes]]) -> None:
    found = groups(flows, len(flows))
    assert sorted(file for group in found for file in group) == list(range(len(flows)))
    assert [group[0] for group in found] == sorted(group[0] for group in found)
    for index, group in enumerate(found):
        inside = frozenset[bytes]().union(*(flows[file] for file in group))
        for other in found[index + 1 :]:
            assert not inside & frozenset[bytes]().union(*(flows[file] for file in other))
        reached = {group[0]}
        for _ in group:
            reached |= {file for file in group for member in reached if flows[file] & flows[member]}
        assert reached == set(group)


def test_too_many_flows_keep_all_files_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "JOB_FLOWS_MAX", 2)
    assert groups([{A}, {B}], 2) == [[0], [1]]
    assert groups([{A}, {B}, {C}], 3) == [[0, 1, 2]]
    assert survey(str(CAPTURES / "errors.pcap")).flows is not None
    monkeypatch.setattr(plan, "JOB_FLOWS_MAX", 1)
    assert survey(str(CAPTURES / "errors.pcap")).flows is None


@pytest.mark.parametrize("name", ["rw-portreuse.pcap", "shared-nack-dlq.pcap", "errors.pcap"])
def test_no_connection_spans_two_groups(name: str, tmp_path: Path) -> None:
    for seed in range(3):
        random = Random(seed)  # noqa: S311 - for a test
        files = ring(tmp_path, "x", moved(name, 1, 10**18), [random.random() for _ in range(6)])
        group_of = {
            file: index for index, group in enumerate(groups([survey(str(file)).flows for file in files], len(files))) for file in group
        }
        assembler = Assembler()
        for file, path in enumerate(files):
            for block in read_blocks(str(path), file):
                for events in assembler.feed(block):
                    assert group_of[events.connection.file] == group_of[file]


@given(st.lists(st.integers(0, 1_000), min_size=1, max_size=20), st.integers(1, 5))
def test_shares_hold_every_file_once_and_are_of_like_size(sizes: list[int], jobs: int) -> None:
    dealt = shares([[file] for file in range(len(sizes))], sizes, jobs)
    assert sorted(file for share in dealt for file in share) == list(range(len(sizes)))
    assert len(dealt) == min(jobs, len(sizes)) or 0 in sizes
    assert all(one < two for share in dealt for one, two in pairwise(share))
    loads = sorted(sum(sizes[file] for file in share) for share in dealt)
    assert loads[-1] - (loads[0] if len(dealt) == jobs else 0) <= max(sizes)


def test_a_group_stays_in_one_share() -> None:
    assert shares([[0, 2, 5], [1, 4], [3]], [10, 10, 10, 10, 10, 10], 2) == [[0, 2, 5], [1, 3, 4]]
