from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.tcp.reorder_buffer import BufferedPiece, ReorderBuffer


def piece(start: int, payload: bytes, packet: int = 1, time: int = 0) -> BufferedPiece:
    return BufferedPiece(start, payload, 0, packet, time)


def layout(buffer: ReorderBuffer) -> list[tuple[int, bytes, int]]:
    return [(each.start, each.payload, each.packet) for each in buffer.pieces[buffer.head :]]


def test_pieces_are_sorted_by_offset() -> None:
    buffer = ReorderBuffer()
    for start in (30, 10, 20):
        assert buffer.add(piece(start, b"abc", start)).fresh == 3
    assert layout(buffer) == [(10, b"abc", 10), (20, b"abc", 20), (30, b"abc", 30)]
    assert (buffer.size, len(buffer), buffer.start, buffer.end) == (9, 3, 10, 33)


def test_a_covering_segment_fills_only_the_holes() -> None:
    buffer = ReorderBuffer()
    buffer.add(piece(12, b"CD", 1))
    buffer.add(piece(16, b"GH", 2))
    assert buffer.add(piece(10, b"abCDefGHij", 3)) == (6, [], None)
    assert layout(buffer) == [(10, b"ab", 3), (12, b"CD", 1), (14, b"ef", 3), (16, b"GH", 2), (18, b"ij", 3)]
    assert buffer.size == 10


def test_the_first_bytes_stay_and_others_are_conflicts() -> None:
    buffer = ReorderBuffer()
    buffer.add(piece(10, b"GOOD", 7))
    fresh, conflicts, copy_of = buffer.add(piece(11, b"EVILS", 9))
    assert (fresh, copy_of) == (2, None)
    assert conflicts == [(11, b"OOD", b"EVI", 0, 7)]
    assert layout(buffer) == [(10, b"GOOD", 7), (14, b"LS", 9)]


def test_a_copy_is_known_by_the_time_of_the_first() -> None:
    buffer = ReorderBuffer()
    buffer.add(piece(10, b"abc", time=5))
    assert buffer.add(piece(10, b"abc", time=6)) == (0, [], 5)
    assert buffer.add(piece(10, b"ab", time=6)) == (0, [], None)


def test_bytes_of_several_pieces_are_compared_as_one() -> None:
    buffer = ReorderBuffer()
    for start in range(10, 30, 2):
        buffer.add(piece(start, bytes([start, start + 1]), start))
    assert buffer.add(piece(11, bytes(range(11, 29)))) == (0, [], None)
    wrong = bytearray(range(11, 29))
    wrong[6] = 0
    assert buffer.add(piece(11, bytes(wrong))).conflicts == [(16, b"\x10\x11", b"\x10\0", 0, 16)]


def test_taking_gives_pieces_from_the_front_only() -> None:
    buffer = ReorderBuffer()
    for start in range(0, 100, 2):
        buffer.add(piece(start, b"ab"))
    assert buffer.take(2) is None
    for start in range(0, 100, 2):
        taken = buffer.take(start)
        assert taken is not None
        assert taken.start == start
    assert (len(buffer), buffer.size, buffer.end) == (0, 0, 0)


def test_a_cut_yields_to_bytes() -> None:
    buffer = ReorderBuffer()
    assert buffer.add_cut(10, 30)
    assert not buffer.add_cut(10, 30)
    buffer.add(piece(15, b"abcde"))
    assert (buffer.start, len(buffer)) == (10, 2)
    assert buffer.take_cut(9) == 0
    assert buffer.take_cut(10) == 5
    assert buffer.take(15) is not None
    assert buffer.take_cut(20) == 10
    assert len(buffer) == 0


def test_cuts_that_were_passed_are_forgotten() -> None:
    buffer = ReorderBuffer()
    buffer.add_cut(10, 20)
    assert buffer.take_cut(25) == 0
    assert len(buffer) == 0


def test_what_a_packet_brought_is_forgotten() -> None:
    buffer = ReorderBuffer()
    for start, payload, packet in ((4, b"ef", 1), (2, b"cdefgh", 2), (20, b"z", 3)):
        buffer.add(BufferedPiece(start, payload, 0, packet, packet))
    buffer.add_cut(21, 25)
    assert buffer.forget(0, 2, (8, 8))
    assert ([piece.payload for piece in buffer.pieces], buffer.size) == ([b"ef", b"z"], 3)
    assert not buffer.forget(1, 1, (6, 6))
    assert buffer.forget(0, 3, (21, 25))
    assert (len(buffer), buffer.size, buffer.cuts) == (1, 2, [])


def test_truncating_drops_what_lies_beyond() -> None:
    buffer = ReorderBuffer()
    buffer.add(piece(10, b"abcd"))
    buffer.add(piece(20, b"efgh"))
    buffer.add_cut(14, 18)
    buffer.add_cut(24, 30)
    buffer.truncate(22)
    assert layout(buffer) == [(10, b"abcd", 1), (20, b"ef", 1)]
    assert (buffer.cuts, buffer.size) == ([(14, 18)], 6)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)), max_size=30), st.integers(0, 80))
def test_any_segments_are_kept_once_and_counted(segments: list[tuple[int, int]], end: int) -> None:
    buffer = ReorderBuffer()
    seen: dict[int, int] = {}
    for packet, (start, size) in enumerate(segments, 1):
        fresh = {offset for offset in range(start, start + size) if offset not in seen}
        assert buffer.add(piece(start, bytes([packet]) * size, packet)).fresh == len(fresh)
        seen |= dict.fromkeys(fresh, packet)
    buffered = {each.start + i: byte for each in buffer.pieces for i, byte in enumerate(each.payload)}
    assert buffered == seen
    assert buffer.size == len(seen) == sum(len(each.payload) for each in buffer.pieces)
    buffer.truncate(end)
    assert buffer.size == len([offset for offset in seen if offset < end])
