from __future__ import annotations

import io
import sys

import pytest

from pulsarscope.capture import BlockReader
from pulsarscope.model.limits import OVERLAP_WINDOW_BYTES
from pulsarscope.tcp import Assembler
from pulsarscope.tcp.delivered import DeliveredBytes, latest
from pulsarscope.tcp.pieces import Data, Gap, Item
from tests.scenarios.both_readers import reader
from tests.scenarios.capturefile import pcap
from tests.scenarios.conversation import Conversation


def test_what_was_kept_and_what_is_being_delivered_is_compared() -> None:
    previous = [Data(0, 0, [(b"abcd", 1, 10, 1)])]
    items: list[Item] = [Data(0, 4, [(b"efgh", 2, 20, 2)])]
    recent = DeliveredBytes(previous, items)
    assert recent.compare(2, b"cdef", 8, 0, 3) == ([], 10)
    assert recent.compare(2, b"xdeX", 8, 0, 3) == ([(2, b"cd", b"xd", 0, 1), (4, b"ef", b"eX", 0, 2)], None)


def test_the_index_follows_runs_that_grow_and_new_ones() -> None:
    run = Data(0, 0, [(b"ab", 1, 10, 1)])
    items: list[Item] = [run]
    recent = DeliveredBytes([], items)
    assert recent.compare(0, b"ab", 2, 0, 9) == ([], 10)
    run.pieces.append((b"cd", 2, 20, 2))
    assert recent.compare(2, b"cd", 4, 0, 9) == ([], 20)
    items += [Gap(4, 2, 3, "hole"), Data(1, 6, [(b"gh", 3, 30, 3)])]
    assert recent.compare(0, b"abcdxxgh", 8, 1, 9) == ([], None)
    assert recent.compare(6, b"gh", 8, 1, 9) == ([], 30)
    assert recent.compare(6, b"XX", 8, 1, 9) == ([(6, b"gh", b"XX", 1, 3)], None)
    assert recent.compare(6, b"XX", 8, 0, 9) == ([], None)


def test_only_the_pieces_behind_an_offset_are_kept_of_a_long_run() -> None:
    run = Data(0, 10, [(b"ab", 1, 10, 1), (b"cdef", 2, 20, 2), (b"gh", 3, 30, 3)])
    for floor, offset, count in ((18, 18, 0), (17, 16, 1), (16, 16, 1), (15, 12, 2), (12, 12, 2), (11, 10, 3), (10, 10, 3)):
        assert latest(run, 18, floor) == Data(0, offset, run.pieces[3 - count :])


def test_nothing_known_is_no_conflict() -> None:
    assert DeliveredBytes([], []).compare(0, b"ab", 2, 0, 1) == ([], None)


@pytest.mark.parametrize("place", [-2, -5, -60])
def test_the_compiled_reader_keeps_the_same_bytes_of_a_long_run(place: int) -> None:
    pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")
    opened = Conversation(acknowledge=False).handshake().packets
    sent = Conversation(acknowledge=False).handshake().client(bytes(range(256)) * (OVERLAP_WINDOW_BYTES // 32)).packets[len(opened) :]
    again = sent[place]._replace(time_ns=sent[-1].time_ns + 1, data=sent[place].data[:-4] + b"else")
    found = {}
    for choice in ("off", "require"):
        with reader(choice):
            assembler = Assembler()
            blocks = [BlockReader(io.BytesIO(pcap(packets)), read_bytes=1 << 30) for packets in (opened, sent, [again])]
            events = [event for block in blocks for each in block for event in assembler.feed(each)]
            kept = events[0].connection.streams[0]
            found[choice] = (
                [(item.offset, [*item.pieces]) for item in kept.delivered],
                [each.findings for each in events],
            )
    assert found["off"] == found["require"]
    assert ("overlap-conflict" in repr(found["off"])) == (place > -60)


class Chunks(io.BytesIO):
    """A capture whose reads are recorded."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.given: list[bytes] = []

    def read1(self, size: int | None = -1, /) -> bytes:
        self.given.append(super().read1(size))
        return self.given[-1]


def test_the_compiled_reader_lets_blocks_go_of_which_little_is_kept() -> None:
    pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")
    talk = Conversation(acknowledge=False).handshake()
    for number in range(300):
        talk.client(b"%03d" % number * 30)
        if number % 100 == 0:  # idle in most blocks
            talk.server(b"%03d" % number)
    with reader("require"):
        chunks, assembler = Chunks(pcap(talk.packets)), Assembler()
        for block in BlockReader(chunks, read_bytes=4096):
            for event in assembler.feed(block):
                client, server = event.connection.streams
        del block
        assert sum(len(item.pieces) for item in client.delivered) == 300
        assert sum(len(item.pieces) for item in server.delivered) == 3
        known = [bytes([number, number]) for number in range(2)]
        assert len(chunks.given) > 8
        assert {sys.getrefcount(chunk) for chunk in chunks.given[:-4]} == {sys.getrefcount(alone) for alone in known[:]}
