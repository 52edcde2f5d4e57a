"""Out of tunnels and fragments: from a header that is not the last one to the TCP segment inside, however deep."""

from __future__ import annotations

from pulsarscope.capture.anomalies import AnomalyCounts
from pulsarscope.capture.link.fragments import Fragments
from pulsarscope.capture.link.ip import joined_segment
from pulsarscope.capture.link.layers import Fragment, Inner, Reject, Tcp
from pulsarscope.capture.link.link_layer import by_ethertype
from pulsarscope.model.limits import TUNNELS_MAX


class Unwrapper:
    """Unwraps the packets of one file, in their order."""

    def __init__(self, tally: AnomalyCounts) -> None:
        self._fragments = Fragments(tally)
        self.fragments: list[tuple[int, int]] = []
        """Packets that brought parts of a segment that another packet completed, each with that one; for the caller to take out."""
        self.has_met_fragments = False

    def segment(self, found: Inner | Fragment, packet: bytes, number: int, time: int, interface: str = "") -> Tcp | Reject | None:
        """The TCP segment in what was found in packet `number`; None when there is none, or none yet.

        Fragments with another `interface` are not of one packet.
        """
        numbers: tuple[int, ...] = (number,)
        tunnels = 0
        inner: Tcp | Inner | Fragment | Reject | None = found
        while True:
            if isinstance(inner, Inner):
                tunnels += 1
                if tunnels > TUNNELS_MAX:
                    return Reject.TUNNELS
                packet = packet[inner.start : inner.end]
                inner = by_ethertype(packet, inner.ethertype, 0, inner.end - inner.start)
            elif isinstance(inner, Fragment):
                self.has_met_fragments = True
                if interface:
                    inner = inner._replace(key=interface.encode() + b"\0" + inner.key)
                joined = self._fragments.add(inner, packet, numbers, time)
                if isinstance(joined, int):
                    self._note(numbers, joined)
                    return None
                if joined is None or isinstance(joined, Reject):
                    return joined
                packet, numbers = joined.payload, joined.packets
                inner = joined_segment(packet, inner.addresses, joined.protocol, joined.wire_bytes)
                if isinstance(inner, Fragment):
                    return Reject.FRAGMENT  # senders fragment once (RFC 8200 section 4.5)
            else:
                if isinstance(inner, tuple):
                    self._note(numbers, number)
                return inner

    def has_joined(self, number: int) -> bool:
        """Whether the segment of this packet, the latest, was put together from fragments."""
        return bool(self.fragments) and self.fragments[-1][1] == number

    def _note(self, numbers: tuple[int, ...], completed_by: int) -> None:
        self.fragments += [(number, completed_by) for number in numbers if number != completed_by]

    def end(self) -> None:
        """The file has ended."""
        self._fragments.end()
