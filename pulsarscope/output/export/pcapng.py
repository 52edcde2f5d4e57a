"""pcapng captures: one section, interfaces in the order of their use, nanoseconds (§ of draft-ietf-opsawg-pcapng-02)."""

from __future__ import annotations

from functools import partial
from operator import itemgetter
from struct import Struct
from typing import Any, Protocol

from pulsarscope.model.limits import PCAPNG_INTERFACES_MAX
from pulsarscope.model.platform import load_native
from pulsarscope.model.units import SECOND
from pulsarscope.output.export.sink import Sink

_SECTION, _INTERFACE, _STATISTICS, _PACKET, _SECRETS = 0x0A0D0D0A, 1, 5, 6, 10
_TLS_KEY_LOG = 0x544C534B
_STATISTICS_RECEIVED, _STATISTICS_DROPPED = 4, 5
_COMMENT, _APPLICATION, _IF_NAME, _IF_TIME_RESOLUTION, _IF_TIME_OFFSET = 1, 4, 2, 9, 14

_PACKET_BYTES = 32
"""Length of a packet block without packet bytes and options."""

_PADDING = b"", bytes(3), bytes(2), bytes(1)
"""Zeros up to a multiple of four bytes, by the remainder of a length."""

_END_OF_OPTIONS = bytes(4)

_TEXT_MAX_BYTES = 0xFFFF
"""Longest text of an option, whose length has 16 bits (§3.5)."""

_BEFORE_1970_SECONDS = -(1 << 34)
"""Offset of the clock of interfaces for packets before 1970: time stamps are unsigned."""


_section = Struct("<IHHq").pack
_interface = Struct("<HHI").pack
_packet_head = Struct("<IIIIIII").pack
_statistics = Struct("<III").pack
_head = Struct("<II").pack
_word = Struct("<I").pack
_option_head = Struct("<HH").pack


class HeldPackets(Protocol):
    """Packets that the compiled reader holds: `capture.CopiedPackets`."""

    @property
    def interface(self) -> Any:
        """Return their common interface (`capture.CaptureInterface`)."""

    @property
    def compiled(self) -> Any:
        """Return the `PacketCopies` of the compiled reader."""

    def records(self) -> list[tuple[Any, list[str]]]:
        """Make the packets, with the lines of their comments."""


class PcapngWriter:
    """A writer of packets into a sink, which its owner ends."""

    def __init__(self, sink: Sink, application: str, comment: str = "") -> None:
        """Name `application` in the section header, with a comment on all packets."""
        self._sink = sink
        self._section = section_block(application, comment)
        self._interfaces: dict[tuple[int, int, str, bool], int] = {}
        self._begin()

    def packets(self, packets: list[tuple[Any, list[str]]], copied: HeldPackets | None = None) -> None:
        """Write packets (`capture.PacketRecord`), each with the lines of its comment, merged with the `copied` ones.

        Link type, snap length and name identify an interface. A very long comment is cut. Raises OutputError on failure.
        """
        interface: Any = None
        compiled: Any = None
        if copied is not None:
            interface, compiled = copied.interface, copied.compiled
        elif packets and (native := load_native()[0]) is not None:
            interface, compiled = packets[0][0].interface, native.PacketCopies()
        if compiled is not None and (packets or len(compiled)):
            number = partial(self._interface, (interface.link_type, interface.snaplen, interface.name, False))
            if (blocks := compiled.blocks(number, interface, packets)) is not None:
                self._sink.write(blocks)
                return
            if copied is not None:
                packets = sorted([*packets, *copied.records()], key=itemgetter(0))  # by the number of the packet
        written: list[bytes] = []
        described, place = None, 0
        for (_, time, wire_bytes, interface, data), lines in packets:
            if interface is not described or time < 0:
                self._sink.write(b"".join(written))  # before a description
                written = [self._packet(interface, time, wire_bytes, data, "\n".join(lines))]
                described, place = (interface, self._interface((*interface, False))) if time >= 0 else (None, 0)
            else:
                written.append(packet_block(place, time, wire_bytes, data, "\n".join(lines)))
        self._sink.write(b"".join(written))

    def _packet(self, interface: tuple[int, int, str], time: int, wire_bytes: int, data: bytes, comment: str) -> bytes:
        """Return the block of a packet whose interface has been described."""
        early = time < 0
        ticks = time - _BEFORE_1970_SECONDS * SECOND if early else time
        return packet_block(self._interface((*interface, early)), ticks, wire_bytes, data, comment)

    def _begin(self) -> None:
        self._interfaces.clear()
        self._sink.write(self._section)

    def _interface(self, key: tuple[int, int, str, bool]) -> int:
        """Return the number of an interface. Describe a new interface first, in a new section if this one has as many as readers accept."""
        if (known := self._interfaces.get(key)) is not None:
            return known
        if len(self._interfaces) >= PCAPNG_INTERFACES_MAX:
            self._begin()
        link_type, snaplen, name, early = key
        self._sink.write(interface_block(link_type, snaplen, name, before_1970=early))
        number = self._interfaces[key] = len(self._interfaces)
        return number


def section_block(application: str, comment: str = "") -> bytes:
    """Return the block that begins a file (§4.1), with the name of the writing application."""
    options = [(_COMMENT, _text(comment))] if comment else []
    return _block(_SECTION, _section(0x1A2B3C4D, 1, 0, -1) + _options(*options, (_APPLICATION, _text(application))))


def interface_block(link_type: int, snaplen: int, name: str, *, before_1970: bool = False) -> bytes:
    """Return the block that describes the next interface of a section (§4.2), with times in nanoseconds."""
    options = [(_IF_TIME_RESOLUTION, b"\x09")]
    if name:
        options.insert(0, (_IF_NAME, _text(name)))
    if before_1970:
        options.append((_IF_TIME_OFFSET, _BEFORE_1970_SECONDS.to_bytes(8, "little", signed=True)))
    return _block(_INTERFACE, _interface(link_type, 0, snaplen) + _options(*options))


def packet_block(interface: int, time: int, wire_bytes: int, data: bytes, comment: str = "") -> bytes:
    """Return the block of a packet (§4.3); `time` is by the clock of its interface, `wire_bytes` its length before the capture cut it."""
    options = b""
    if comment:  # as `_options`, without its calls
        text = _text(comment)
        options = b"".join((_option_head(_COMMENT, len(text)), text, _PADDING[len(text) & 3], _END_OF_OPTIONS))
    size = len(data)
    padding = _PADDING[size & 3]
    length = _PACKET_BYTES + size + len(padding) + len(options)
    head = _packet_head(_PACKET, length, interface, time >> 32, time & 0xFFFF_FFFF, size, wire_bytes)
    return b"".join((head, data, padding, options, _word(length)))


def secrets_block(key_log: bytes) -> bytes:
    """Return the block with lines of a TLS key log (§4.7)."""
    return _block(_SECRETS, _head(_TLS_KEY_LOG, len(key_log)) + _padded(key_log))


def statistics_block(time: int, received: int, dropped: int) -> bytes:
    """Return the numbers of packets received by the first interface and dropped by the capture (§4.6) until `time`, in nanoseconds."""
    counts = ((_STATISTICS_RECEIVED, received), (_STATISTICS_DROPPED, dropped))
    options = _options(*((code, count.to_bytes(8, "little")) for code, count in counts))
    return _block(_STATISTICS, _statistics(0, time >> 32, time & 0xFFFF_FFFF) + options)


def _block(block_type: int, body: bytes) -> bytes:
    length = len(body) + 12
    return b"".join((_head(block_type, length), body, _word(length)))


def _padded(data: bytes) -> bytes:
    return data + _PADDING[len(data) & 3]


def _options(*options: tuple[int, bytes]) -> bytes:
    """Return options and their end (§3.5)."""
    return b"".join([_option_head(code, len(value)) + _padded(value) for code, value in options]) + _END_OF_OPTIONS


def _text(text: str) -> bytes:
    """Return a text in UTF-8, cut between characters if it is too long for an option."""
    data = text.encode("utf-8", "replace")
    return data if len(data) <= _TEXT_MAX_BYTES else data[:_TEXT_MAX_BYTES].decode("utf-8", "ignore").encode()
