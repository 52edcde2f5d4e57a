"""Where streams begin."""

from __future__ import annotations

from array import array

from pulsarscope.model.flow import FILE_SHIFT
from pulsarscope.tcp import StreamStarts


def test_beginnings_are_found_by_packet_whatever_their_order() -> None:
    starts = StreamStarts()
    places = [(1, 9), (0, 7), (0, 2), (1, 2)]
    sequences = [(9, 90), ((1 << 32) - 1, 0), (2, 20), (12, 120)]
    starts.extend(
        array("q", [file << FILE_SHIFT | packet for file, packet in places]).tobytes(),
        array("Q", [first << 32 | second for first, second in sequences]).tobytes(),
    )
    assert starts.within(0, 1, 100) == {2: (2, 20), 7: ((1 << 32) - 1, 0)}
    assert starts.within(0, 3, 6) == {}
    assert starts.within(1, 2, 8) == {2: (12, 120)}
    starts.extend(b"", b"")
    assert starts.within(1, 9, 9) == {9: (9, 90)}
