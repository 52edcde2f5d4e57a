"""Shares of several processes in the connections of a run."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.capture import Block
from pulsarscope.dissect.contract.dissector import Framing
from pulsarscope.dissect.contract.frame_size import FrameSize
from pulsarscope.engine.parallel.connection_shares import PSH, ProcessShare, count_frames, framings_of
from pulsarscope.model.flow import reverse_key
from pulsarscope.model.tcp_flags import ACK
from pulsarscope.protocols import make_dissectors

FRAMING = Framing(smallest=8, largest=5 << 20, lookahead=12)


def key_of(number: int) -> bytes:
    """A flow key."""
    return bytes([10, 0, 0, number, 10, 0, 0, 99, 160, number, 26, 10])


def event(number: int, *, finished: bool = False) -> Any:
    """Events of a connection in a block."""
    return SimpleNamespace(name=f"0:{number}", key=key_of(number), finished=finished)


def frame(size: int) -> bytes:
    """A frame of this size."""
    return (size - 4).to_bytes(4, "big") + bytes(size - 4)


def segments(count: int, payload: bytes) -> list[Any]:
    """Segments with this payload."""
    return [(packet, packet, packet * len(payload), 0, ACK | PSH, 100, payload, 0, 0, b"") for packet in range(count)]


def cut(data: bytes, cuts: list[int], start: int = 1_000) -> list[Any]:
    """Segments of data, of these sizes in turn; their sequence numbers start here."""
    made: list[Any] = []
    at = 0
    while at < len(data):
        payload = data[at : at + cuts[len(made) % len(cuts)]]
        made.append((len(made), 0, (start + at) % (1 << 32), 0, ACK, 100, payload, 0, 0, b""))
        at += len(payload)
    return made


def block(flows: dict[bytes, list[Any]]) -> Block:
    """A block with these flows."""
    return Block(0, flows, set(), [], 1, 1, 1, 1, 1)


class Source:
    """Blocks of a file; each has a secret with its number."""

    recognised = True
    first_time = 5

    def __init__(self, blocks: list[Block]) -> None:
        self._blocks = blocks
        self._secrets: list[tuple[int, bytes]] = []
        self.count = 0

    def __iter__(self) -> Iterator[Block]:
        for number, one in enumerate(self._blocks):
            self.count += 1
            self._secrets.append((number, b""))
            yield one

    def take_secrets(self) -> list[tuple[int, bytes]]:
        secrets, self._secrets = self._secrets, []
        return secrets


def owners(blocks: list[Block], parts: list[list[Any]], count: int = 2, framings: tuple[Framing, ...] = (FRAMING,)) -> dict[str, int]:
    """The process of each connection, on which all processes must agree."""
    found: dict[str, int] = {}
    for number in range(count):
        share = ProcessShare(number, count, framings)
        for _, part in zip(share.read(Source(blocks)), parts, strict=True):
            for _, selected in share.select(part):
                assert found.setdefault(selected.name, number) == number
    assert len(found) == len({one.name for part in parts for one in part})
    return found


events = st.builds(event, st.integers(1, 9), finished=st.booleans())


@pytest.mark.slow
@given(st.lists(st.lists(events, unique_by=lambda one: one.name, max_size=5), max_size=8), st.integers(1, 4))
def test_each_connection_goes_to_one_process_and_stays_there(parts: list[list[Any]], count: int) -> None:
    shares = [ProcessShare(number, count) for number in range(count)]
    of_connection: dict[str, int] = {}
    for part in parts:
        chosen = [list(share.select(part)) for share in shares]
        assert sorted(index for some in chosen for index, _ in some) == list(range(len(part)))
        for number, some in enumerate(chosen):
            for index, selected in some:
                assert selected is part[index]
                assert of_connection.setdefault(selected.name, number) == number
        for one in part:
            if one.finished:
                of_connection.pop(one.name, None)


@pytest.mark.slow
@given(st.lists(st.integers(1, 60), unique=True, max_size=40), st.integers(1, 4), st.booleans())
def test_processes_agree_on_connections_that_begin_elsewhere_and_decode_those_that_go_on(
    numbers: list[int], count: int, ahead: bool
) -> None:
    flows = {key_of(number): segments(number, frame(100)) for number in numbers}
    shares = [ProcessShare(number, count, (FRAMING,)) for number in range(count)]
    for share in shares if ahead else ():
        next(iter(share.read(Source([block(flows)] * 3))))
    of_all = [[share.assign(key_of(number)) for number in numbers] for share in shares]
    assert all(owners == of_all[0] for owners in of_all)
    assert len(set(of_all[0])) == min(count, len(numbers))
    for share in shares:
        for number, owner in zip(numbers, of_all[0], strict=True):
            if number % 3:
                share.note_owner(f"0:{number}", key_of(number), owner, closed=bool(number % 2))
        going_on = [event(number) for number in numbers if number % 3]
        chosen = {each.name for _, each in share.select(going_on)}
        assert chosen == {f"0:{number}" for number, owner in zip(numbers, of_all[0], strict=True) if number % 3 and owner == share.number}


def test_those_that_begin_together_are_spread_and_later_ones_go_where_least_is_to_do() -> None:
    begin = [event(number) for number in range(1, 5)]
    busy = {key_of(1): segments(400, frame(100))}
    quiet = [block({}) for _ in range(10)]
    later = [event(number) for number in range(5, 9)]
    found = owners([*quiet, block(busy), block({})], [begin, *([[]] * 9), [event(1)], later])
    assert sorted(found[f"0:{number}"] for number in range(1, 5)) == [0, 0, 1, 1]
    assert {found[f"0:{number}"] for number in range(5, 9)} == {1 - found["0:1"]}


@pytest.mark.parametrize("behind", [0, 30])
def test_those_that_begin_together_are_spread_though_one_process_has_had_more_to_do_unless_the_end_is_in_sight(behind: int) -> None:
    busy = {key_of(1): segments(700, frame(100))}
    together = {key_of(number): segments(50, frame(100)) for number in range(2, 6)}
    blocks = [block(busy)] * 5 + [block(together)] * (5 + behind)
    found = owners(blocks, [[event(1)], *([[]] * 4), [event(number) for number in range(2, 6)], *([[]] * (4 + behind))])
    to_other = [found[f"0:{number}"] != found["0:1"] for number in range(2, 6)]
    assert sum(to_other) == (3 if behind else 4)


@pytest.mark.parametrize("behind", [0, 1, 4, 8])
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("order", [(1, 2, 3, 4, 5), (1, 3, 5, 2, 4), (3, 4, 5, 1, 2), (1, 2, 5, 4, 3)])
def test_two_with_much_to_do_are_parted_though_their_work_comes_later(behind: int, side: int, order: tuple[int, ...]) -> None:
    keys = [key_of(number) if side == 0 else reverse_key(key_of(number)) for number in (1, 2)]
    small = {key_of(number): segments(2, frame(50)) for number in (3, 4, 5)}
    blocks = [block(dict(small)) for _ in range(12)]
    for one in blocks[behind:]:
        one.flows.update({key: segments(100, frame(1000)) for key in keys})
    found = owners(blocks, [[event(number) for number in order]] * 12)
    assert found["0:1"] != found["0:2"]


@pytest.mark.parametrize("framings", [(FRAMING,), ()])
def test_many_small_frames_are_more_work_than_as_many_packets_of_a_large_one(framings: tuple[Framing, ...]) -> None:
    large = frame(1448 * 200)
    of_large = cut(large, [1448])
    flows = {key_of(1): segments(200, frame(1448)), key_of(2): segments(200, frame(1448)), key_of(3): of_large, key_of(4): of_large}
    found = owners([block(flows)], [[event(number) for number in (1, 3, 2, 4)]], framings=framings)
    assert found["0:1"] != found["0:2"]
    assert found["0:3"] != found["0:4"]


@pytest.mark.parametrize("ahead", [0, 1, 8])
def test_secrets_come_with_their_blocks_and_no_more_is_read_than_is_looked_at(ahead: int) -> None:
    blocks = [block({}) for _ in range(20)]
    source = Source(blocks)
    share = ProcessShare(0, 1)
    reader = share.read(source, ahead)
    for number, one in enumerate(reader):
        assert one is blocks[number]
        if number in (0, 3):
            assert len([*share.select([event(number + 1)])]) == 1
            assert source.count == min(number + 1 + ahead, 20)
        assert source.count <= max(number + 1, 4 + ahead)
        assert reader.take_secrets() == [(number, b"")]
    assert source.count == 20
    assert (reader.recognised, reader.first_time) == (True, 5)


@given(
    st.lists(st.integers(8, 4000), max_size=20),
    st.lists(st.integers(1, 3000), min_size=1, max_size=8),
    st.sampled_from([0, (1 << 32) - 999]),
)
def test_frames_are_counted_however_segments_cut_them(sizes: list[int], cuts: list[int], start: int) -> None:
    some = cut(b"".join(map(frame, sizes)), cuts, start)
    assert count_frames(some, FRAMING) == (len(some), len(sizes))


@given(st.lists(st.integers(8, 400), min_size=4, max_size=20), st.data())
def test_copies_are_left_out_and_what_is_behind_a_hole_is_not_read(sizes: list[int], data: st.DataObject) -> None:
    some = cut(b"".join(map(frame, sizes)), [data.draw(st.integers(40, 300))])
    again = data.draw(st.integers(0, len(some) - 1))
    assert count_frames([*some[: again + 1], some[data.draw(st.integers(0, again))], *some[again + 1 :]], FRAMING)[1] == len(sizes)
    lost = data.draw(st.integers(0, len(some) - 1))
    read, frames = count_frames(some[:lost] + some[lost + 1 :], FRAMING)
    assert read == lost or lost in {0, len(some) - 1}
    assert frames <= len(sizes)


@pytest.mark.parametrize("payload", [0, 8, 1448])
def test_bytes_that_are_not_captured_are_counted(payload: int) -> None:
    data = b"".join(map(frame, [4000, 3000, 20]))
    whole = cut(data, [4000, 3000, 20])
    part = [(*one[:6], one[6][:payload], len(one[6]) - len(one[6][:payload]), 0, b"") for one in whole]
    assert count_frames(part, FRAMING)[1] == (3 if payload >= 8 else 0)


@pytest.mark.parametrize("data", [b"\x16\x03\x01\x02\x00" * 9, bytes(40), b"GET / HTTP/1.1\r\n", b"\xff" * 9])
def test_what_is_framed_otherwise_is_not_counted(data: bytes) -> None:
    assert count_frames(cut(frame(20) + data, [20, 100]), FRAMING) == (1, 1)
    assert count_frames(cut(data, [100]), FRAMING) == (0, 0)


def test_a_dissector_that_raises_has_no_framing() -> None:
    class Failing:
        @property
        def framing(self) -> Framing:
            raise ZeroDivisionError

    dissectors: list[Any] = [Failing(), *make_dissectors(show_secrets=False)]
    assert {framing.length.unpack_from(b"\0\0\1\2")[0] for framing in framings_of(dissectors)} == {258}


def test_each_function_is_a_framing_of_its_own_and_may_raise() -> None:
    class Made:
        def __init__(self, length: Struct | FrameSize) -> None:
            self.framing = Framing(4, 1 << 20, 4, length, 0)

    sizes = [FrameSize(lambda data, position: data[position]), FrameSize(lambda data, position: data[position + len(data)])]
    lengths: list[Struct | FrameSize] = [Struct(">H"), *sizes, Struct(">H")]
    dissectors: list[Any] = [*map(Made, lengths)]
    framings = framings_of(dissectors)
    assert [framing.length for framing in framings] == lengths[:3]
    assert count_frames(cut(b"\4abc\5abcd", [9]), framings[1]) == (1, 2)
    share = ProcessShare(0, 2, framings[::-1])
    assert share._frames(cut(b"\4abc\5abcd", [9])) == 2
