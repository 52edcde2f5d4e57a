"""IP reassembly of fragments in any order (RFC 791 section 3.2, RFC 8200 section 4.5).

The first version of overlapping bytes is kept, and differing ones are counted. A joined payload is remembered for a while, so that
duplicates of its fragments (packets captured twice) do not begin a new one. Fragments are joined only within one file, so that each file
can be read alone.

Memory is bounded by FRAGMENTS_MAX_BYTES, waiting time by FRAGMENT_NANOSECONDS; the oldest payload is dropped first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from operator import itemgetter
from typing import NamedTuple

from pulsarscope.capture.anomalies import AnomalyCounts
from pulsarscope.capture.link.layers import Fragment, Reject
from pulsarscope.capture.link.tunnels import PROTOCOL_UDP, is_tunnel
from pulsarscope.model.limits import FRAGMENT_NANOSECONDS, FRAGMENTS_MAX_BYTES

IP_MAX_BYTES = 65_535
"""Largest value of the length field of an IP packet."""

_IPV4_ADDRESSES_BYTES = 8
_PAYLOAD_COST = 600
_FRAGMENT_COST = 400
"""Memory of a payload, and of a fragment in addition to its bytes."""

_end_of = itemgetter(1)


class Joined(NamedTuple):
    """Joined payload, up to the first byte that the capture cut off."""

    payload: bytes
    wire_bytes: int
    protocol: int
    """IP protocol of the payload."""
    packets: tuple[int, ...]
    """Numbers of the packets with its fragments, in order of arrival."""


class _Payload:
    """Payload being joined, or joined and remembered."""

    __slots__ = ("completed_by", "cost", "family", "ignored", "packets", "pieces", "protocol", "received", "reported", "size", "time")

    def __init__(self, fragment: Fragment, time: int) -> None:
        self.family = "ipv4" if len(fragment.addresses) == _IPV4_ADDRESSES_BYTES else "ipv6"
        self.time = time
        """Time of the first fragment, ns."""
        self.packets: list[tuple[int, int]] = []
        """Numbers and times of its packets; empty once it is complete."""
        self.pieces: list[tuple[int, int, bytes]] = []
        """(start, end, captured bytes), in order, without overlap."""
        self.cost = 0
        self.received = 0
        """Bytes of all pieces on the wire."""
        self.size: int | None = None
        """Size on the wire in bytes, known from the last fragment."""
        self.protocol = fragment.protocol
        self.reported = fragment.protocol != PROTOCOL_UDP
        """True if it may carry TCP, and is therefore counted if it stays incomplete; for UDP, only the first fragment shows a tunnel."""
        self.ignored = False
        """True when it carries nothing that is decoded."""
        self.completed_by = 0
        """Number of the packet that completed it, 0 before."""

    def insert(self, start: int, end: int, data: bytes) -> bool:
        """Insert the new bytes of a fragment; return False when its other bytes differ from those present."""
        pieces = self.pieces
        at = stop = bisect_left(pieces, start + 1, key=_end_of)
        position, agrees, fresh = start, True, []
        while stop < len(pieces) and pieces[stop][0] < end:
            low, high, known = pieces[stop]
            if position < low:
                fresh.append((position, low, data[position - start : low - start]))
            overlap_start, overlap_end = max(low, start), min(low + len(known), start + len(data))
            if (
                overlap_start < overlap_end
                and known[overlap_start - low : overlap_end - low] != data[overlap_start - start : overlap_end - start]
            ):
                agrees = False
            position = max(position, high)
            stop += 1
        if position < end:
            fresh.append((position, end, data[position - start :]))
        if fresh:
            pieces[at:stop] = sorted(pieces[at:stop] + fresh)
            self.received += sum(high - low for low, high, _ in fresh)
        # The pieces examined count as well: otherwise a flood of fragments that overlap thousands of others would take hours.
        self.cost += len(data) + _FRAGMENT_COST * (1 + stop - at)
        return agrees

    def contradicts(self, end: int, *, last: bool) -> bool:
        """Return True when a fragment that ends at `end` contradicts the size of the payload."""
        if last and self.pieces and self.pieces[-1][1] > end:
            return True
        return self.size is not None and (end > self.size or (last and end != self.size))

    def join(self, number: int) -> tuple[bytes, int]:
        """Complete the payload at packet `number`; return its bytes up to the first missing one, and its size on the wire."""
        parts = []
        for start, end, data in self.pieces:
            parts.append(data)
            if len(data) < end - start:
                break
        known = b"".join(parts)
        self.completed_by = number
        self.pieces = [(0, self.received, known)]
        self.packets = []
        return known, self.received

    def contains(self, fragment: Fragment, data: bytes) -> bool:
        """Return True when a fragment duplicates part of the completed payload."""
        end = fragment.offset + fragment.end - fragment.start
        known = self.pieces[0][2][fragment.offset : fragment.offset + len(data)]
        return (end == self.size if fragment.last else end < self.received) and data.startswith(known)


class Fragments:
    """Fragments of one file."""

    def __init__(self, anomalies: AnomalyCounts) -> None:
        self._anomalies = anomalies
        self._payloads: OrderedDict[bytes, _Payload] = OrderedDict()
        """Payloads by key, the oldest first."""
        self._bytes = 0

    def add(self, fragment: Fragment, packet: bytes, numbers: tuple[int, ...], time: int) -> Joined | Reject | int | None:
        """Add a fragment, by its place in a captured frame or a payload; `time` is that of the last packet in `numbers`.

        Return the payload when this fragment completes it, or the number of the completing packet when the fragment is a late duplicate.
        """
        start, size = fragment.offset, fragment.end - fragment.start
        end = start + size
        if size <= 0 or end > IP_MAX_BYTES or not (fragment.last or size % 8 == 0):
            return Reject.FRAGMENT
        data = packet[fragment.start : fragment.end]
        payload = self._payload_of(fragment, data, time)
        if payload.completed_by:
            return payload.completed_by
        if payload.ignored:
            return None
        if payload.contradicts(end, last=fragment.last):
            return Reject.FRAGMENT
        if not start:
            payload.protocol = fragment.protocol
            if fragment.protocol == PROTOCOL_UDP:
                payload.reported = is_tunnel(data)
                payload.ignored = not payload.reported
        if fragment.last:
            payload.size = end
        payload.packets += [(number, time) for number in numbers]
        before = payload.cost
        if not payload.insert(start, end, data):
            self._anomalies.add("fragment-overlap", numbers[-1], time, reason=payload.family)
        self._bytes += payload.cost - before
        joined = None
        if payload.received == payload.size:
            packets = tuple(number for number, _ in payload.packets)
            joined = Joined(*payload.join(numbers[-1]), payload.protocol, packets)
        while self._bytes > FRAGMENTS_MAX_BYTES:
            self._drop(next(iter(self._payloads)))
        return joined

    def end(self) -> None:
        """Count all incomplete payloads at the end of the file."""
        for key in list(self._payloads):
            self._drop(key)

    def _payload_of(self, fragment: Fragment, data: bytes, time: int) -> _Payload:
        """Return the payload of a fragment, a new one when the sender has reused the identification."""
        if (payload := self._payloads.get(fragment.key)) is not None:
            expired = abs(time - payload.time) > FRAGMENT_NANOSECONDS
            reused = not payload.contains(fragment, data) if payload.completed_by else payload.ignored and not fragment.offset
            if not (expired or reused):
                return payload
            self._drop(fragment.key)
        payload = self._payloads[fragment.key] = _Payload(fragment, time)
        payload.cost = _PAYLOAD_COST
        self._bytes += _PAYLOAD_COST
        return payload

    def _drop(self, key: bytes) -> None:
        payload = self._payloads.pop(key)
        self._bytes -= payload.cost
        if payload.reported:
            for number, time in payload.packets:
                self._anomalies.add("fragment-incomplete", number, time, reason=payload.family)
