"""IP fragments to the payloads that they are parts of (RFC 791 section 3.2, RFC 8200 section 4.5), in whatever order they come.

Of bytes that come twice the first are kept, and other bytes in their place are told. A payload put together is remembered for a while, so
that copies of its fragments (packets captured twice) begin nothing new. Fragments are joined within one file: each can be read by itself.

Kept is what FRAGMENTS_MAX_BYTES allow, and no fragment waits longer than FRAGMENT_NANOSECONDS; the payload that was begun first has to go.
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
"""What the length field of an IP packet can say."""

_IPV4_ADDRESSES_BYTES = 8
_PAYLOAD_COST = 600
_FRAGMENT_COST = 400
"""Bytes that Python takes for a payload, and for what is kept of a fragment besides its own."""

_end_of = itemgetter(1)


class Joined(NamedTuple):
    """A payload put together, up to the first byte that the capture cut off."""

    payload: bytes
    wire_bytes: int
    protocol: int
    """What it begins with."""
    packets: tuple[int, ...]
    """Numbers of the packets that brought it, in the order in which they came."""


class _Payload:
    """What is known of one payload."""

    __slots__ = ("completed_by", "cost", "family", "ignored", "packets", "pieces", "protocol", "received", "reported", "size", "time")

    def __init__(self, fragment: Fragment, time: int) -> None:
        self.family = "ipv4" if len(fragment.addresses) == _IPV4_ADDRESSES_BYTES else "ipv6"
        self.time = time
        """Of the fragment that came first."""
        self.packets: list[tuple[int, int]] = []
        """Numbers and times; none once it is complete."""
        self.pieces: list[tuple[int, int, bytes]] = []
        """Start, end and bytes as far as they were captured; in order, without overlap."""
        self.cost = 0
        self.received = 0
        """Bytes of all pieces on the wire."""
        self.size: int | None = None
        """Known from the last fragment."""
        self.protocol = fragment.protocol
        self.reported = fragment.protocol != PROTOCOL_UDP
        """It may carry TCP, so it is told when it stays incomplete. Of UDP only the first fragment says whether it is a tunnel."""
        self.ignored = False
        """It carries nothing that is read."""
        self.completed_by = 0
        """Number of the packet that completed it."""

    def insert(self, start: int, end: int, data: bytes) -> bool:
        """Keeps what is new of a fragment; false when bytes of it differ from those that are there."""
        pieces = self.pieces
        at = stop = bisect_left(pieces, start + 1, key=_end_of)
        position, agrees, fresh = start, True, []
        while stop < len(pieces) and pieces[stop][0] < end:
            low, high, known = pieces[stop]
            if position < low:
                fresh.append((position, low, data[position - start : low - start]))
            left, right = max(low, start), min(low + len(known), start + len(data))
            if left < right and known[left - low : right - low] != data[left - start : right - start]:
                agrees = False
            position = max(position, high)
            stop += 1
        if position < end:
            fresh.append((position, end, data[position - start :]))
        if fresh:
            pieces[at:stop] = sorted(pieces[at:stop] + fresh)
            self.received += sum(high - low for low, high, _ in fresh)
        # What it takes to look at pieces counts, too: else a flood of fragments that overlap thousands of others would take hours.
        self.cost += len(data) + _FRAGMENT_COST * (1 + stop - at)
        return agrees

    def contradicts(self, end: int, *, last: bool) -> bool:
        """Whether a fragment that ends there contradicts where the payload does."""
        if last and self.pieces and self.pieces[-1][1] > end:
            return True
        return self.size is not None and (end > self.size or (last and end != self.size))

    def join(self, number: int) -> tuple[bytes, int]:
        """Its bytes, up to the first that the capture cut off, and its length on the wire; packet `number` was the last one missing."""
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
        """Whether it is complete, and was so before this copy of one of its fragments came."""
        end = fragment.offset + fragment.end - fragment.start
        known = self.pieces[0][2][fragment.offset : fragment.offset + len(data)]
        return (end == self.size if fragment.last else end < self.received) and data.startswith(known)


class Fragments:
    """The fragments of one file."""

    def __init__(self, anomalies: AnomalyCounts) -> None:
        self._anomalies = anomalies
        self._payloads: OrderedDict[bytes, _Payload] = OrderedDict()
        """By key, in the order in which they were begun."""
        self._bytes = 0

    def add(self, fragment: Fragment, packet: bytes, numbers: tuple[int, ...], time: int) -> Joined | Reject | int | None:
        """Takes the fragment that lies in `packet`.

        `numbers` are the packets of the capture that brought it, the last of them at `time`. Gives the payload when no part of it is
        missing any more, and the number of the packet that completed it when this fragment is a copy that came later.
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
        """The file has ended: what is incomplete stays so."""
        for key in list(self._payloads):
            self._drop(key)

    def _payload_of(self, fragment: Fragment, data: bytes, time: int) -> _Payload:
        """The payload of a fragment; a new one if that of this key cannot be meant, for senders use their few numbers again."""
        payload = self._payloads.get(fragment.key)
        if payload is not None:
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
