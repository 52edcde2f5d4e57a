"""Positions of contents; the rest of a direction is tested with connections."""

from __future__ import annotations

from pulsarscope.model.limits import FRAME_HARD_MAX_BYTES
from pulsarscope.tls.direction import Spans


def test_a_place_is_that_of_whole_records() -> None:
    spans = Spans()
    assert spans.place(3, 9) == (3, 9)
    spans.add(10, 100, 131)
    spans.add(30, 131, 172)
    spans.add(31, 200, 222)
    assert spans.place(0, 10) == (100, 131)
    assert spans.place(9, 11) == (100, 172)
    assert spans.place(10, 30) == (131, 172)
    assert spans.place(30, 31) == (200, 222)
    assert spans.place(30, 99) == (200, 222)


def test_what_no_frame_can_reach_back_to_is_forgotten() -> None:
    spans = Spans()
    step = 1 << 14
    count = 4 * FRAME_HARD_MAX_BYTES // step
    for number in range(1, count + 1):
        spans.add(number * step, number * 2 * step, (number + 1) * 2 * step)
    last = count * step
    assert spans.place(last - FRAME_HARD_MAX_BYTES, last) == ((count - FRAME_HARD_MAX_BYTES // step + 1) * 2 * step, (count + 1) * 2 * step)
    assert len(spans._plain) < count
