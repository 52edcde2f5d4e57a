from __future__ import annotations

from pulsarscope.tcp.delivered import DeliveredBytes, latest
from pulsarscope.tcp.pieces import Data, Gap, Item


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
