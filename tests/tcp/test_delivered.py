from __future__ import annotations

from pulsarscope.tcp.delivered import DeliveredBytes
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


def test_nothing_known_is_no_conflict() -> None:
    assert DeliveredBytes([], []).compare(0, b"ab", 2, 0, 1) == ([], None)
