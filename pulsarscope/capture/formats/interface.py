"""Interfaces of pcapng: link type, clock and drop counts (draft-ietf-opsawg-pcapng-02 sections 4.2 and 4.6)."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from pulsarscope.capture.block import CaptureInterface
from pulsarscope.capture.link.plain_packet import NO_LAYOUT, layout_of
from pulsarscope.model.limits import INTERFACE_NAME_MAX_CHARACTERS, PACKET_MAX_BYTES, PCAPNG_OPTIONS_MAX
from pulsarscope.model.text import printable
from pulsarscope.model.units import SECOND

TIME_MIN = -(1 << 63)
TIME_MAX = (1 << 63) - 1
"""Bounds of a time in ns, which every output stores in 64 bits."""

_IF_NAME, _IF_TSRESOL, _IF_TSOFFSET = 2, 9, 14
_ISB_IFDROP, _ISB_OSDROP = 5, 7


class Interface:
    """Interface Description Block."""

    def __init__(self, description: bytes, byte_order: str, number: int) -> None:
        """Parse an Interface Description Block of at least its eight fixed bytes; `number` is that of the interface in its section."""
        self.link_type: int
        self.snaplen: int
        self.link_type, self.snaplen = Struct(byte_order + "HxxI").unpack_from(description)
        self.name = ""
        self.dropped = 0
        resolution = 6
        self._offset = 0
        for code, value in options(description, 8, byte_order):
            if code == _IF_NAME:
                self.name = value.decode("utf-8", "replace").rstrip("\x00")
            elif code == _IF_TSRESOL and len(value) == 1:
                resolution = value[0]
            elif code == _IF_TSOFFSET and len(value) == 8:
                self._offset = int.from_bytes(value, "little" if byte_order == "<" else "big", signed=True) * SECOND
        self.source = printable(self.name)[:INTERFACE_NAME_MAX_CHARACTERS] or f"interface {number}"
        """Name of the interface as a vantage point."""
        self.description = CaptureInterface(self.link_type, self.snaplen, self.name)
        power = resolution & 0x7F
        self._ticks_per_second: int = (2 if resolution & 0x80 else 10) ** power
        quotient, remainder = divmod(SECOND, self._ticks_per_second)
        self.unit = 0 if remainder else quotient
        """Nanoseconds per tick; 0 if not an integer."""
        self.layout = layout_of(self.link_type) or NO_LAYOUT
        self.bound = -1
        """Longest packet for the hot loop, bytes; -1 if none takes it."""
        if layout_of(self.link_type) is not None:
            self.bound = min(self.snaplen or PACKET_MAX_BYTES, PACKET_MAX_BYTES)

    def time(self, ticks: int) -> int:
        """Convert a timestamp to ns since the epoch, clamped to 64 bits."""
        return min(max(ticks * SECOND // self._ticks_per_second + self._offset, TIME_MIN), TIME_MAX)

    def is_linear(self, high: int) -> bool:
        """Return True when all 2^32 timestamps with this upper half are `time(high << 32) + unit * low`."""
        first = (high << 32) * self.unit + self._offset
        return self.unit != 0 and first >= TIME_MIN and first + 0xFFFF_FFFF * self.unit <= TIME_MAX

    def in_range(self, ticks: int) -> bool:
        """Return True when `time` does not clamp the timestamp."""
        return TIME_MIN <= ticks * SECOND // self._ticks_per_second + self._offset <= TIME_MAX

    def read_statistics(self, statistics: bytes, byte_order: str) -> None:
        """Update the drop count from the body of an Interface Statistics Block, which counts from the start of the capture."""
        dropped = 0
        for code, value in options(statistics, 12, byte_order):
            if code in {_ISB_IFDROP, _ISB_OSDROP} and len(value) == 8:
                count = int.from_bytes(value, "little" if byte_order == "<" else "big")
                dropped += 0 if count == (1 << 64) - 1 else count  # all ones: unknown
        self.dropped = max(self.dropped, dropped)


def options(body: bytes, start: int, byte_order: str) -> Iterator[tuple[int, bytes]]:
    """Yield code and value of the complete options of a block, up to opt_endofopt (section 3.5), at most PCAPNG_OPTIONS_MAX."""
    header = Struct(byte_order + "HH")
    for _ in range(PCAPNG_OPTIONS_MAX):
        if start + 4 > len(body):
            return
        code, length = header.unpack_from(body, start)
        start += 4
        if code == 0 or start + length > len(body):
            return
        yield code, body[start : start + length]
        start += length + (-length & 3)
