"""Decoder of the pcapng format (https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-02.html, the source of section numbers)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from struct import Struct
from typing import Any

from pulsarscope.capture.block import KeptRecords, Owner, PacketRecord, Wanted
from pulsarscope.capture.formats.decoder import OTHERS_MAX, STRETCH_PACKETS, Decoder, Flows, NotACaptureError
from pulsarscope.capture.formats.interface import TIME_MAX, Interface, options
from pulsarscope.capture.link.plain_packet import NO_LAYOUT, UNFRAGMENTED_MASK, UNFRAGMENTED_TCP, Layout
from pulsarscope.model.findings import CAPTURE_CODES, Finding
from pulsarscope.model.limits import PACKET_MAX_BYTES, PCAPNG_BLOCK_MAX_BYTES, PCAPNG_INTERFACES_MAX, SECRETS_MAX_BYTES
from pulsarscope.model.platform import load_native
from pulsarscope.model.tcp_flags import CONTROL_FLAGS
from pulsarscope.model.text import plural

NAMING_PROGRAM = b"ptcpdump"
"""Name of the program whose comments name owners: in the section header, or in a comment that rewriting programs keep."""

_COMMENT = 1
"""Code of the comment option (section 3.5 of the pcapng draft)."""

_COMMENTS_MAX_BYTES = 16 << 10
"""Bytes of a packet's comments that are read: a command line takes most of them."""

_CACHED = 1_024
"""Different comments that are cached, 16 MiB at most: a connection has one or two."""

NAME_MAX_CHARACTERS = 256
"""Longest part of a name that is kept: Kubernetes names have up to 253 characters, commands in ptcpdump no more."""


def owner_in(body: bytes, start: int, byte_order: str) -> Owner | None:
    """Return the owner that the comments of a packet name, in its options from `start` on; None if they name none."""
    comments = [value for code, value in options(body, start, byte_order) if code == _COMMENT]
    return _owner(b"\n".join(comments)[:_COMMENTS_MAX_BYTES]) if comments else None


@lru_cache(_CACHED)
def _owner(comment: bytes) -> Owner | None:
    values: dict[str, str] = {}
    for line in comment.decode("utf-8", "backslashreplace").splitlines():
        name, _, value = map(str.strip, line.partition(":"))
        if value:
            values.setdefault(name, value[:NAME_MAX_CHARACTERS].rstrip())
    number = values.get("PID", "")
    command = (values.get("Command") or values.get("Cmd") or "").rpartition("/")[2]
    process = f"{command} ({number})" if command and number.isdecimal() else None
    pod = values.get("PodName")
    if pod is not None and "PodNamespace" in values:
        pod = f"{values['PodNamespace']}/{pod}"
    return None if process is pod is None else Owner(process, pod)


MAGIC = b"\n\r\r\n"
"""Type of a Section Header Block (section 4.1), the same in both byte orders."""

SECTION, INTERFACE, OLD_PACKET, SIMPLE_PACKET, STATISTICS, PACKET, SECRETS = 0x0A0D0D0A, 1, 2, 3, 5, 6, 10
BYTE_ORDERS = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
_SECRETS_ENTRY_BYTES = 128
"""Memory of a key log in addition to its text: a block may hold a single byte."""

_TLS_KEY_LOG = 0x544C534B  # "TLSK" (section 4.7)

BLOCK_MIN_BYTES = 12
_SECTION_MIN_BYTES = 28
_PACKET_START = 28  # offset of the packet in an Enhanced or (old) Packet Block
_NO_PACKET = (0,) * 7  # words of a block at the end of the data that is too short for a packet
_NEVER = TIME_MAX + 1  # time before the first packet: keeps that packet out of the hot loop


class PcapngDecoder(Decoder):
    """Decoder of one pcapng file; after damage it continues at the next section header."""

    def __init__(self, file: int, *, records: bool = False, by_interface: bool = False) -> None:
        super().__init__(file, records=records, by_interface=by_interface)
        self._interfaces: list[Interface] = []
        self._drops: dict[str, int] = {}
        native, _ = load_native()
        self._compiled: Any = None if native is None else native.walk_pcapng
        self._secrets_bytes = 0
        self._searching = False
        self._unreadable_section = False
        self._has_owners = False
        """True when packets of the section may have comments that name their owners."""
        self._set_byte_order("<")

    def _set_byte_order(self, byte_order: str) -> None:
        self._byte_order = byte_order
        self._unpack_packet_words = Struct(byte_order + "IIIIIII").unpack_from
        self._unpack_words = Struct(byte_order + "II").unpack_from
        self._unpack_word = Struct(byte_order + "I").unpack_from

    def _walk(self, data: bytes, position: int, flows: Flows, control: set[bytes]) -> int:
        # Hot loop as in `pcap`. All seven words that begin a packet block are unpacked at once; other blocks may be shorter.
        size = len(data)
        if self._searching:
            position = self._next_section(data, position, size)
        unpack_words, unpack_word, longest = self._unpack_packet_words, self._unpack_word, PCAPNG_BLOCK_MAX_BYTES
        number, last_time = self.packets, self.last_time if self.first_time is not None else _NEVER
        current_interface = current_high = -1
        bound, unit, base, (link_bytes, minimum, marker, unpack_packet, payload_starts, _) = -1, 0, 0, NO_LAYOUT
        last_block, last_packet = size - BLOCK_MIN_BYTES, size - _PACKET_START
        others = 0 if self._compiled is not None else OTHERS_MAX
        while position <= last_block:
            words = unpack_words(data, position) if position <= last_packet else _NO_PACKET
            block_type, length, interface_id, high, low, captured, wire_bytes = words
            if block_type == PACKET:
                if interface_id != current_interface or high != current_high:
                    current_interface, current_high = interface_id, high
                    bound, unit, base, layout = self._clock(interface_id, high)
                    link_bytes, minimum, marker, unpack_packet, payload_starts, _ = layout
                    if self._flows_by_interface is not None and bound >= 0:
                        flows, control = self._flows_of(self._interfaces[interface_id].source)
                if others < OTHERS_MAX and bound >= 0 and last_time != _NEVER:
                    others += 1
                    interface, clock = (interface_id, high, unit, base), (number, last_time)
                    link = self._interfaces[interface_id].link_type, bound
                    section = self._byte_order == ">", longest
                    behind, clock, cuts = self._compiled(data, position, section, interface, link, clock, flows, control)
                    self._count_cuts(cuts)
                    if behind > position:
                        if self._records is not None:
                            self._keep_records(self._records, data, (position, behind), (number, clock[0]), (unit, base))
                        others = 0 if clock[0] - number >= STRETCH_PACKETS else others
                        position, (number, last_time) = behind, clock
                        continue
                start = position + _PACKET_START
                end = start + captured
                next_position = position + length
                if (
                    minimum <= captured == wire_bytes <= bound
                    and end + 4 <= next_position <= size
                    and not length & 3
                    and length <= longest
                    and unpack_word(data, next_position - 4)[0] == length
                ):
                    (
                        kind, version, total, identification, fragment_and_protocol, key, sequence, acknowledgment, offset, flags, window,
                    ) = unpack_packet(data, start)  # fmt: skip
                    if kind == marker and version == 0x45 and fragment_and_protocol & UNFRAGMENTED_MASK == UNFRAGMENTED_TCP:
                        payload_start = start + payload_starts[offset]
                        payload_end = start + link_bytes + total
                        time = base + low * unit
                        if payload_start <= payload_end <= end and time >= last_time:
                            number += 1
                            last_time = time
                            payload = data[payload_start:payload_end]
                            options = data[start + minimum - 4 : payload_start]
                            flows[key].append((number, time, sequence, acknowledgment, flags, window, payload, 0, identification, options))
                            if flags & CONTROL_FLAGS:
                                control.add(key)
                            if self._records is not None:
                                self._keep_records(self._records, data, (position, next_position), (number - 1, number), (unit, base))
                            position = next_position
                            continue

            if last_time != _NEVER:
                self.packets, self.last_time = number, last_time
            next_position = self._read_block(data, position, size, flows, control)
            if next_position < 0:
                break
            position = next_position
            if block_type != PACKET:  # perhaps a new section or interface
                unpack_words, unpack_word = self._unpack_packet_words, self._unpack_word
                current_interface = -1
            number, last_time = self.packets, self.last_time if self.first_time is not None else _NEVER
        if last_time != _NEVER:
            self.packets, self.last_time = number, last_time
        return position

    def _keep_records(
        self, records: KeptRecords, data: bytes, span: tuple[int, int], numbers: tuple[int, int], clock: tuple[int, int]
    ) -> None:
        """Keep the plain packets of a span as stored; `numbers`: before the first, and the last; `clock`: unit, time of lower half 0."""
        unpack_words, (unit, base), (before, last) = self._unpack_packet_words, clock, numbers
        description = self._interfaces[unpack_words(data, span[0])[2]].description

        def stored(wanted: Wanted) -> Iterator[PacketRecord]:
            position = span[0]
            for number in range(before + 1, last + 1):
                _, length, _, _, low, captured, wire_bytes = unpack_words(data, position)
                if wanted is None or number in wanted:
                    start = position + _PACKET_START
                    yield PacketRecord(number, base + low * unit, wire_bytes, description, data[start : start + captured])
                position += length

        records.add(range(before + 1, last + 1), stored, description)

    def _clock(self, interface_id: int, high: int) -> tuple[int, int, int, Layout]:
        """Return bound, unit, time of lower half 0 and layout for timestamps with this upper half in the hot loop."""
        if interface_id < len(self._interfaces):
            interface = self._interfaces[interface_id]
            if interface.is_linear(high) and not self._skips_hot_loop(interface.link_type):
                return interface.bound, interface.unit, interface.time(high << 32), interface.layout
        return -1, 0, 0, NO_LAYOUT

    def _read_block(self, data: bytes, position: int, size: int, flows: Flows, control: set[bytes]) -> int:
        """Read any block at `position`; return the position of the next one, -1 when the block is not complete."""
        if data.startswith(MAGIC, position):
            if (byte_order := BYTE_ORDERS.get(data[position + 8 : position + 12])) is None:
                return self._skip_section("A section header has no byte-order magic", data, position, size)
            self._set_byte_order(byte_order)
        block_type, length = self._unpack_words(data, position)
        minimum = _SECTION_MIN_BYTES if block_type == SECTION else BLOCK_MIN_BYTES
        if not minimum <= length <= PCAPNG_BLOCK_MAX_BYTES:
            return self._skip_section(
                f"A block of type {block_type:#x} claims an impossible length of {length:,} bytes", data, position, size
            )
        end: int = position + length
        padding = -length & 3  # early writers omitted it, or omitted it from the length
        if end + padding > size and (end > size or self._unpack_word(data, end - 4)[0] != length):
            self._bytes_needed = length + padding
            return -1
        if self._unpack_word(data, end - 4)[0] != length:
            end += padding
            if self._unpack_word(data, end - 4)[0] != length:
                return self._skip_section(f"A block of type {block_type:#x} has two different lengths", data, position, size)

        body = data[position + 8 : end - 4]
        if block_type == SECTION:
            self._begin_section(body)
        elif self._unreadable_section:
            pass
        elif block_type == SIMPLE_PACKET:
            self._read_simple_packet(body, flows, control)
        elif block_type in {PACKET, OLD_PACKET}:
            self._read_packet(body, block_type, flows, control)
        elif block_type == INTERFACE:
            self._read_interface(body)
        elif block_type == STATISTICS:
            self._read_statistics(body)
        elif block_type == SECRETS:
            self._read_secrets(body)
        return end

    def _skip_section(self, text: str, data: bytes, position: int, size: int) -> int:
        if not self.recognised:
            raise NotACaptureError("a pcapng file with a damaged section header")
        self._note_damage(text, position)
        self._searching = True
        return self._next_section(data, position + 4, size)

    def _next_section(self, data: bytes, position: int, size: int) -> int:
        """Return the position of the next section header, or a position too close to the end of the data to hold one."""
        while (match := data.find(MAGIC, position, size)) >= 0:
            if match + BLOCK_MIN_BYTES > size:
                return match
            if data[match + 8 : match + 12] in BYTE_ORDERS:
                self._searching = False
                return match
            position = match + 1
        return max(position, size - BLOCK_MIN_BYTES + 1)

    def _begin_section(self, body: bytes) -> None:
        major, minor = Struct(self._byte_order + "HH").unpack_from(body, 4)
        self._unreadable_section = major != 1
        if major != 1:
            if not self.recognised:
                raise NotACaptureError(f"a pcapng file of version {major}.{minor}, only version 1 is supported")
            self._malformed_block("section-version")
        self.recognised = True
        self._has_owners = NAMING_PROGRAM in body
        self._add_drops()
        self._interfaces = []

    def _malformed_block(self, reason: str) -> None:
        self._anomalies.add("capture-malformed", self.packets, self.last_time, reason=reason)

    def _read_interface(self, body: bytes) -> None:
        if len(body) < 8:
            self._malformed_block("interface-block-short")
        elif len(self._interfaces) >= PCAPNG_INTERFACES_MAX:
            self._malformed_block("too-many-interfaces")
        else:
            self._interfaces.append(Interface(body, self._byte_order, len(self._interfaces)))

    def _read_statistics(self, body: bytes) -> None:
        if len(body) >= 12:
            interface_id = self._unpack_word(body)[0]
            if interface_id < len(self._interfaces):
                self._interfaces[interface_id].read_statistics(body, self._byte_order)

    def _read_secrets(self, body: bytes) -> None:
        if len(body) >= 8:
            kind, length = Struct(self._byte_order + "II").unpack_from(body)
            secrets = body[8 : 8 + length]
            if kind != _TLS_KEY_LOG or not secrets:
                return
            kept = len(secrets) + _SECRETS_ENTRY_BYTES
            if self._secrets_bytes + kept > SECRETS_MAX_BYTES:
                self._malformed_block("too-many-secrets")
                return
            self._secrets_bytes += kept
            self.secrets.append((self.packets, secrets))

    def _read_packet(self, body: bytes, block_type: int, flows: Flows, control: set[bytes]) -> None:
        """Read an Enhanced Packet Block (section 4.3) or an obsolete Packet Block, which differs only in its first field."""
        self.packets += 1
        start = _PACKET_START - 8
        if len(body) < start:
            self._malformed_block("packet-block-short")
            return
        interface_id, high, low, captured, wire_bytes = Struct(self._byte_order + "IIIII").unpack_from(body)
        drops = 0
        if block_type == OLD_PACKET:
            interface_id, drops = Struct(self._byte_order + "HH").unpack_from(body)
        if interface_id >= len(self._interfaces):
            self._malformed_block("interface-undefined")
            return
        interface = self._interfaces[interface_id]
        if drops != 0xFFFF:  # unknown
            interface.dropped += drops
        ticks = high << 32 | low
        time = interface.time(ticks)
        if not interface.in_range(ticks):
            self._anomalies.add("time-invalid", self.packets, time, reason="out-of-range")
        if self.first_time is None:
            self.first_time = time
        elif time < self.last_time:
            self._count_step_back(self.packets, time, self.last_time)
        self.last_time = time
        self._read_bytes(body[start : start + captured], captured, wire_bytes, interface, flows, control)
        if self._has_owners and (owner := owner_in(body, start + captured + (-captured & 3), self._byte_order)) is not None:
            self._owners[self.packets] = owner

    def _skips_hot_loop(self, link_type: int) -> bool:
        """Return True when packets of a link type must not take the hot loop: they have owners, or carry their interface."""
        return self._has_owners or self._carries_interface(link_type)

    def _read_simple_packet(self, body: bytes, flows: Flows, control: set[bytes]) -> None:
        """Read a Simple Packet Block (section 4.4): it has no time, and the snap length determines its captured length."""
        self.packets += 1
        if len(body) < 4:
            self._malformed_block("packet-block-short")
            return
        if not self._interfaces:
            self._malformed_block("interface-undefined")
            return
        interface = self._interfaces[0]
        wire_bytes = self._unpack_word(body)[0]
        captured = min(wire_bytes, interface.snaplen or wire_bytes)
        if self.first_time is None:
            self.first_time = self.last_time
        self._anomalies.add("time-invalid", self.packets, self.last_time, reason="simple-packet-block")
        self._read_bytes(body[4 : 4 + captured], captured, wire_bytes, interface, flows, control)

    def _read_bytes(self, packet: bytes, captured: int, wire_bytes: int, interface: Interface, flows: Flows, control: set[bytes]) -> None:
        if captured > PACKET_MAX_BYTES:
            self._malformed_block("packet-too-long")
            return
        if captured > len(packet):
            self._malformed_block("packet-beyond-block")
        if captured > (interface.snaplen or PACKET_MAX_BYTES):
            self._anomalies.add("packet-length-odd", self.packets, self.last_time, reason="captured-more-than-snaplen")
        if self._records is not None:
            self._records.append(PacketRecord(self.packets, self.last_time, wire_bytes, interface.description, packet))
        self._decode_packet(packet, wire_bytes, interface.link_type, self.packets, self.last_time, flows, control, interface.source)

    def _add_drops(self) -> None:
        """Add up the drop counts of a section that ends."""
        for interface in self._interfaces:
            if interface.dropped:
                self._drops[interface.source] = self._drops.get(interface.source, 0) + interface.dropped

    def _end(self, rest: int) -> list[Finding]:
        if not self.recognised:
            raise NotACaptureError("cut within its pcapng section header")
        self._add_drops()
        self._interfaces = []
        findings = []
        if self._drops:
            dropped = sum(self._drops.values())
            text = f"The capturing host dropped {plural(dropped, 'packet')}."
            findings.append(CAPTURE_CODES["packets-dropped"].at(text, {"packets": dropped, "interfaces": self._drops}, file=self._file))
        if rest and not self._searching:
            findings.append(self._truncated(rest))
        return findings
