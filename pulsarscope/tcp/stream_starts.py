"""Where the streams of all connections of a capture begin: enough to place any of its packets without following TCP again."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pulsarscope.model.flow import FILE_SHIFT
from pulsarscope.tcp.sequence import SEQUENCE_HALF

if TYPE_CHECKING:
    from pulsarscope.tcp.connection import ConnectionEvents

SEQUENCE_BITS = 32


class StreamStarts:
    """First packets of connections, and the sequence numbers at which their streams begin: 16 bytes a connection."""

    def __init__(self) -> None:
        self._places = array("q")  # see FILE_SHIFT
        self._sequences = array("Q")  # that of the first packet's sender in the upper bits; 0 for a stream without data
        self._sorted = True
        self._long: set[int] = set()  # places of the connections with a longer stream

    def note(self, events: Iterable[ConnectionEvents]) -> None:
        """Take the connections that end in these events: their sequence numbers are known by then."""
        for event in events:
            if event.ended:
                connection = event.connection
                first, second = (max(stream.first_sequence(), 0) for stream in connection.streams)
                place = connection.file << FILE_SHIFT | connection.packet
                if any(stream.length > SEQUENCE_HALF for stream in connection.streams):
                    self._long.add(place)
                self._places.append(place)
                self._sequences.append(first << SEQUENCE_BITS | second)
                self._sorted = False

    def extend(self, places: bytes, sequences: bytes) -> None:
        """Take connections of the compiled reader, in the form in which they are kept. Their streams are short."""
        if places:
            self._places.frombytes(places)
            self._sequences.frombytes(sequences)
            self._sorted = False

    def within(self, file: int, first: int, last: int) -> dict[int, tuple[int, int]]:
        """Return the sequence numbers of both streams by first packet, for the connections that begin in some packets of a file.

        Call it after all connections have been taken.
        """
        if not self._sorted:
            order = sorted(range(len(self._places)), key=self._places.__getitem__)
            self._places = array("q", map(self._places.__getitem__, order))
            self._sequences = array("Q", map(self._sequences.__getitem__, order))
            self._sorted = True
        low, high = (bisect_left(self._places, file << FILE_SHIFT | packet) for packet in (first, last + 1))
        packets = (place & (1 << FILE_SHIFT) - 1 for place in self._places[low:high])
        both = ((sequences >> SEQUENCE_BITS, sequences & (1 << SEQUENCE_BITS) - 1) for sequences in self._sequences[low:high])
        return dict(zip(packets, both, strict=True))

    def is_long(self, file: int, packet: int) -> bool:
        """Return True if a stream of the connection with this first packet is longer than `SEQUENCE_HALF`."""
        return file << FILE_SHIFT | packet in self._long
