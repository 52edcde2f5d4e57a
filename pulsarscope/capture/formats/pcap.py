"""Decoder of the pcap format (https://www.ietf.org/archive/id/draft-ietf-opsawg-pcap-05.html)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import count
from struct import Struct, error
from typing import Any

from pulsarscope.capture.block import CaptureInterface, PacketRecord, Wanted
from pulsarscope.capture.formats.decoder import OTHERS_MAX, STRETCH_PACKETS, Decoder, Flows, NotACaptureError
from pulsarscope.capture.link.plain_packet import (
    NO_LAYOUT,
    SHAPES_MAX,
    UNFRAGMENTED_MASK,
    UNFRAGMENTED_TCP,
    Layout,
    Shape,
    layout_of,
    shape_of,
)
from pulsarscope.model.findings import Finding
from pulsarscope.model.limits import PACKET_MAX_BYTES
from pulsarscope.model.platform import load_native
from pulsarscope.model.tcp_flags import CONTROL_FLAGS
from pulsarscope.model.text import plural
from pulsarscope.model.units import SECOND

FILE_HEADER_BYTES = 24
_RECORD_BYTES = 16

MAGICS: Mapping[bytes, tuple[str, int, int]] = {
    magic.to_bytes(4, "little" if byte_order == "<" else "big"): (byte_order, unit, record_bytes)
    for magic, unit, record_bytes in (
        (0xA1B2C3D4, 1000, _RECORD_BYTES),
        (0xA1B23C4D, 1, _RECORD_BYTES),
        (0xA1B2CD34, 1000, _RECORD_BYTES + 8),  # "modified" by A. Kuznetzov: interface, protocol and packet type in each record
    )
    for byte_order in "<>"
}
"""Byte order, nanoseconds per unit of the fraction, and bytes of a record header, by the first four bytes of the file."""

STARTS = tuple(magic + Struct(byte_order + "HH").pack(2, 4) for magic, (byte_order, *_) in MAGICS.items())
"""First bytes of another file, if several were joined by `cat`; no packet before 2055 has such a time."""


class PcapDecoder(Decoder):
    """Decoder of one pcap file; `magic` is its first four bytes, one of MAGICS."""

    def __init__(self, file: int, magic: bytes, *, records: bool = False, by_interface: bool = False) -> None:
        super().__init__(file, records=records, by_interface=by_interface)
        byte_order, self._unit, self._record_bytes = MAGICS[magic]
        self._byte_order = byte_order
        native, _ = load_native()
        self._compiled: Any = None if native is None else native.walk_pcap
        self._header = Struct(byte_order + "HHiIII")
        self._start, self._link = magic, b""  # first and last bytes of the file header
        self._unpack_record = Struct(byte_order + "IIII").unpack_from
        self._link_type = 0
        self._interface = CaptureInterface(0, 0, "")
        self._snaplen = PACKET_MAX_BYTES
        self._shapes: dict[int, Shape] = {}  # shape of the latest packet of each captured length
        self._second = -1
        self._last_fraction = 0

    def _read_header(self, data: bytes) -> None:
        major, minor, _, _, snaplen, link_field = self._header.unpack_from(data, 4)
        self._start, self._link = data[:8], data[FILE_HEADER_BYTES - 4 : FILE_HEADER_BYTES]
        if (major, minor) != (2, 4):
            raise NotACaptureError(f"a pcap file of version {major}.{minor}, only version 2.4 is supported")
        if 0 < snaplen < PACKET_MAX_BYTES:
            self._snaplen = snaplen
        self._link_type = link_field & 0xFFFF  # the upper bits hold the length of the frame check sequence
        self._interface = CaptureInterface(self._link_type, snaplen, "")
        self.recognised = True

    def _walk(self, data: bytes, position: int, flows: Flows, control: set[bytes]) -> int:
        if not self.recognised:
            if len(data) < FILE_HEADER_BYTES:
                return 0
            self._read_header(data)
            position = FILE_HEADER_BYTES
        begin = self.packets, position
        layout = layout_of(self._link_type)
        if layout is None or self._carries_interface(self._link_type):
            layout = None
        elif self._compiled is not None:
            position = self._walk_compiled(self._compiled, data, position, flows, control)
        position = self._walk_records(layout, data, position, flows, control)
        if self._records is not None:
            self._records.add(range(begin[0] + 1, self.packets + 1), partial(self._stored, data, *begin, self.packets), self._interface)
        self._look_ahead(data, position, len(data))
        return position

    def _walk_compiled(self, walk: Any, data: bytes, position: int, flows: Flows, control: set[bytes]) -> int:
        """Read plain packets with the compiled reader and others here, until few are plain; return the position reached."""
        records = self._record_bytes, self._byte_order == ">", self._unit
        link = self._link_type, min(self._snaplen, PACKET_MAX_BYTES)
        others = 0
        while others < OTHERS_MAX:
            begin, clock = position, (self.packets, self._second, self._last_fraction)
            position, (packets, second, fraction), cuts = walk(data, position, records, link, clock, flows, control)
            self._count_cuts(cuts)
            if position > begin:
                if self.first_time is None:
                    first_second, first_fraction, *_ = self._unpack_record(data, begin)
                    self.first_time = first_second * SECOND + first_fraction * self._unit
                others = 0 if packets - self.packets >= STRETCH_PACKETS else others
                self.packets, self._second, self._last_fraction = packets, second, fraction
                self.last_time = second * SECOND + fraction * self._unit
            behind = self._walk_record(data, position, flows, control)
            if behind == position:
                break
            position = behind
            others += 1
        return position

    def _walk_records(self, layout: Layout | None, data: bytes, position: int, flows: Flows, control: set[bytes]) -> int:
        """Read complete records from a position on; return the position after them. `layout` is that of plain packets, if any."""
        size = len(data)
        bound = -1 if layout is None else min(self._snaplen, PACKET_MAX_BYTES)
        link_bytes, minimum, marker, _, payload_starts, form = layout = layout or NO_LAYOUT
        shapes, unknown_shape = self._shapes, layout.unknown_shape
        unpack_record, unit, header_bytes = self._unpack_record, self._unit, self._record_bytes
        per_second = SECOND // unit
        mask, unfragmented_tcp, control_flags = UNFRAGMENTED_MASK, UNFRAGMENTED_TCP, CONTROL_FLAGS
        while True:
            # Hot loop over plain packets; any other packet leaves it and is decoded below. The end of the data is not checked, because
            # unpacking fails there; nor is the place of the payload, if the shape gives it.
            number, second, last_fraction = self.packets, self._second, self._last_fraction
            base = second * SECOND
            try:
                for number in count(self.packets + 1):
                    seconds, fraction, captured, wire_bytes = unpack_record(data, position)
                    start = position + header_bytes
                    shape_total, shape_offset, unpack = shapes.get(captured, unknown_shape)
                    (
                        kind, version, total, identification, fragment_and_protocol, key, sequence, acknowledgment, offset, flags, window,
                        options, payload,
                    ) = unpack(data, start)  # fmt: skip
                    if not (
                        captured == wire_bytes and kind == marker and version == 0x45 and fragment_and_protocol & mask == unfragmented_tcp
                    ):
                        break
                    if total != shape_total or offset != shape_offset:
                        payload_start, payload_end = payload_starts[offset], link_bytes + total
                        if not (payload_start <= payload_end <= captured <= bound and start + captured <= size):
                            break
                        options = data[start + minimum - 4 : start + payload_start]
                        payload = data[start + payload_start : start + payload_end]
                        if len(shapes) >= SHAPES_MAX:
                            shapes.clear()
                        shapes[captured] = shape_of(form, captured, total, offset, payload_start, payload_end)
                    position = start + captured
                    if seconds != second or not last_fraction <= fraction < per_second:
                        self._check_time(number, seconds * SECOND + fraction * unit, base + last_fraction * unit, fraction)
                        second = seconds
                        base = second * SECOND
                    last_fraction = fraction
                    time = base + fraction * unit
                    flows[key].append((number, time, sequence, acknowledgment, flags, window, payload, 0, identification, options))
                    if flags & control_flags:
                        control.add(key)
            except error:
                pass
            if number - 1 > self.packets:
                self.packets, self._second, self._last_fraction = number - 1, second, last_fraction
                self.last_time = base + last_fraction * unit
            behind = self._walk_record(data, position, flows, control)
            if behind == position:
                return position
            position = behind

    def _walk_record(self, data: bytes, position: int, flows: Flows, control: set[bytes]) -> int:
        """Read a record, or several identical ones without bytes; return the position after them, or the same position if incomplete."""
        size = self._record_bytes
        if len(data) - position < size:
            return position
        seconds, fraction, captured, wire_bytes = self._unpack_record(data, position)
        if data.startswith(STARTS, position):
            behind = position + FILE_HEADER_BYTES
            return behind if data.startswith(self._start, position) and data.startswith(self._link, behind - 4) else position
        start = position + size
        end = start + captured
        if end > len(data) or captured > PACKET_MAX_BYTES:
            return position
        number, unit = self.packets + 1, self._unit
        per_second = SECOND // unit
        alike = 1 if captured or self._records is not None or fraction >= per_second else _alike(data, position, size)
        time = seconds * SECOND + fraction * unit
        if seconds != self._second or not self._last_fraction <= fraction < per_second:
            self._check_time(number, time, self._second * SECOND + self._last_fraction * unit, fraction)
        self._read_packet(data[start:end], wire_bytes, number, time, alike, flows, control)
        self.packets, self._second, self._last_fraction, self.last_time = number + alike - 1, seconds, fraction, time
        return int(end + (alike - 1) * size)

    def _read_packet(self, packet: bytes, wire_bytes: int, number: int, time: int, alike: int, flows: Flows, control: set[bytes]) -> None:
        """Decode any packet; it stands for `alike` identical ones without bytes."""
        self._anomalies.packets_alike = alike
        if len(packet) > self._snaplen:
            self._anomalies.add("packet-length-odd", number, time, reason="captured-more-than-snaplen")
        self._decode_packet(packet, wire_bytes, self._link_type, number, time, flows, control)
        self._anomalies.packets_alike = 1

    def _stored(self, data: bytes, number: int, position: int, last: int, wanted: Wanted) -> Iterator[PacketRecord]:
        """Make the wanted packets from `number + 1` to `last`, decoded from `position` on, as stored."""
        unpack_record, unit, header_bytes, interface = self._unpack_record, self._unit, self._record_bytes, self._interface
        for each in range(number + 1, last + 1):
            while data.startswith(self._start, position):
                position += FILE_HEADER_BYTES
            seconds, fraction, captured, wire_bytes = unpack_record(data, position)
            start = position + header_bytes
            position = start + captured
            if wanted is None or each in wanted:
                yield PacketRecord(each, seconds * SECOND + fraction * unit, wire_bytes, interface, data[start:position])

    def _look_ahead(self, data: bytes, position: int, size: int) -> None:
        """Compute the size of the unfinished record at `position`, or stop when it cannot be a record."""
        self._bytes_needed = self._record_bytes
        if size - position >= self._record_bytes:
            if data.startswith(STARTS, position):
                self._bytes_needed = FILE_HEADER_BYTES
                if size - position >= FILE_HEADER_BYTES:
                    self._note_damage("Another capture begins, with another link type or format: read it separately", position)
                    self.stopped = True
                return
            captured = self._unpack_record(data, position)[2]
            self._bytes_needed += captured
            if captured > PACKET_MAX_BYTES:
                self._note_damage(f"A record claims {captured:,} captured bytes, more than any packet has", position)
                self.stopped = True

    def _check_time(self, number: int, time: int, previous: int, fraction: int) -> None:
        """Check the time of a packet with a new second, or a fraction that is out of range or decreases."""
        if self.first_time is None:
            self.first_time = time
        elif time < previous:
            self._count_step_back(number, time, previous)
        if fraction * self._unit >= SECOND:
            self._anomalies.add("time-invalid", number, time, reason="fraction")

    def _end(self, rest: int) -> list[Finding]:
        if not self.recognised:
            raise NotACaptureError(f"cut within the pcap header ({rest} of {plural(FILE_HEADER_BYTES, 'byte')})")
        return [self._truncated(rest)] if rest and not self.stopped else []


def _alike(data: bytes, position: int, size: int) -> int:
    """Return how often the bytes at a position repeat: in the zeros left by a crash, every 16 are a record."""
    record = data[position : position + size]
    end = position + size
    for step in (record * 4096, record * 64, record):
        while data.startswith(step, end):
            end += len(step)
    return (end - position) // size
