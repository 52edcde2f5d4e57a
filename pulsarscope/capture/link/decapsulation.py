"""Decapsulation of tunnels and defragmentation, nested to any depth, down to the TCP segment."""

from __future__ import annotations

from pulsarscope.capture.anomalies import AnomalyCounts
from pulsarscope.capture.link.fragments import Fragments
from pulsarscope.capture.link.ip import joined_segment
from pulsarscope.capture.link.layers import Encapsulated, Fragment, Reject, Tcp
from pulsarscope.capture.link.link_layer import by_ethertype
from pulsarscope.model.limits import TUNNELS_MAX


class Decapsulator:
    """Decapsulator of the packets of one file, in packet order."""

    def __init__(self, anomalies: AnomalyCounts) -> None:
        self._fragments = Fragments(anomalies)
        self.fragments: list[tuple[int, int]] = []
        """(packet, completing packet) for each fragment of a segment since the last block; the decoder removes them."""
        self.has_seen_fragments = False

    def segment(self, outer: Encapsulated | Fragment, packet: bytes, number: int, time: int, interface: str = "") -> Tcp | Reject | None:
        """Return the TCP segment in a tunnel or fragment, None if there is none yet; fragments of different interfaces are not joined."""
        numbers: tuple[int, ...] = (number,)
        tunnels = 0
        result: Tcp | Encapsulated | Fragment | Reject | None = outer
        while True:
            if isinstance(result, Encapsulated):
                tunnels += 1
                if tunnels > TUNNELS_MAX:
                    return Reject.TUNNELS
                packet = packet[result.start : result.end]
                result = by_ethertype(packet, result.ethertype, 0, result.end - result.start)
            elif isinstance(result, Fragment):
                self.has_seen_fragments = True
                if interface:
                    result = result._replace(key=interface.encode() + b"\0" + result.key)
                joined = self._fragments.add(result, packet, numbers, time)
                if isinstance(joined, int):
                    self._note_fragments(numbers, joined)
                    return None
                if joined is None or isinstance(joined, Reject):
                    return joined
                packet, numbers = joined.payload, joined.packets
                result = joined_segment(packet, result.addresses, joined.protocol, joined.wire_bytes)
                if isinstance(result, Fragment):
                    return Reject.FRAGMENT  # a packet is fragmented once, at its source (RFC 8200 section 4.5)
            else:
                if isinstance(result, tuple):
                    self._note_fragments(numbers, number)
                return result

    def is_joined(self, number: int) -> bool:
        """Return True when the segment of the latest packet was joined from fragments."""
        return bool(self.fragments) and self.fragments[-1][1] == number

    def _note_fragments(self, numbers: tuple[int, ...], completed_by: int) -> None:
        self.fragments += [(number, completed_by) for number in numbers if number != completed_by]

    def end(self) -> None:
        """End the file: count incomplete fragments."""
        self._fragments.end()
