"""Queues of captured packets from the capturing side to the decoding side: one writer, one reader, bounded in bytes.

The writer never waits. Packets that do not fit are skipped, and the reader learns how many packets were skipped at which position.
"""

from __future__ import annotations

import mmap
import os
import select
import threading
from collections import deque
from collections.abc import MutableSequence
from struct import Struct
from typing import Protocol

from pulsarscope.live.packet_source import CapturedPackets

PACKETS, DROPPED, RECEIVED, RING, SKIPPED_PACKETS, SKIPPED_BYTES, SHORTENED, COUNTS = range(8)
"""Positions of the counts of a capture: packets captured; packets that the kernel dropped and received; used part of its ring in
thousandths; packets that did not fit into the queue, and their bytes; triggers that came too late for some of their packets."""

Entry = CapturedPackets | int
"""Captured packets, or the number of packets skipped at this position."""


class PacketQueue(Protocol):
    """A bounded queue of captured packets; the writer owns the counts."""

    counts: MutableSequence[int]

    @property
    def waiting_bytes(self) -> int:
        """Return the bytes of packets in the queue."""

    def put(self, captured: CapturedPackets) -> None:
        """Append packets, or count them as skipped if there is no room."""

    def end(self) -> None:
        """Append nothing more."""

    def take(self, seconds: float) -> Entry | None:
        """Return the oldest entry; 0 after `seconds` without an entry, None at the end."""


class MemoryQueue:
    """A queue between two threads."""

    def __init__(self, max_bytes: int) -> None:
        self.counts: MutableSequence[int] = [0] * COUNTS
        self.waiting_bytes = 0
        self._max_bytes = max_bytes
        self._entries: deque[Entry] = deque()
        self._changed = threading.Condition()
        self._ended = False

    def put(self, captured: CapturedPackets) -> None:
        """Append packets, see `PacketQueue`."""
        size = len(captured.data)
        with self._changed:
            if self.waiting_bytes + size <= self._max_bytes:
                self._entries.append(captured)
                self.waiting_bytes += size
            else:
                self.counts[SKIPPED_PACKETS] += captured.packets
                self.counts[SKIPPED_BYTES] += size
                if self._entries and isinstance(last := self._entries[-1], int):
                    self._entries[-1] = last + captured.packets
                else:
                    self._entries.append(captured.packets)
            self._changed.notify()

    def end(self) -> None:
        """Append nothing more."""
        with self._changed:
            self._ended = True
            self._changed.notify()

    def take(self, seconds: float) -> Entry | None:
        """Return the oldest entry, see `PacketQueue`."""
        with self._changed:
            self._changed.wait_for(lambda: self._entries or self._ended, seconds)
            if not self._entries:
                return None if self._ended else 0
            entry = self._entries.popleft()
            if isinstance(entry, CapturedPackets):
                self.waiting_bytes -= len(entry.data)
            return entry


_HEADER_BYTES = 4_096
_WRITTEN, _READ, _ENDED, _FIRST_COUNT = range(4)
"""Positions of the 64-bit words in the header: bytes written and bytes read since the beginning, a flag that is 1 at the end, counts."""
_entry = Struct("=IIq")
"""Head of an entry: bytes of data (0: skipped packets, _WRAP: the rest of the memory is unused), packets, time."""
_WRAP = 0xFFFF_FFFF
_ALIGNMENT = 16


class SharedQueue:
    """A queue between two processes, in shared memory: create it before the fork.

    Each word of the header has one writer, which stores it in one step. The bytes of an entry are stored before the word that announces
    them.
    """

    def __init__(self, max_bytes: int) -> None:
        """Allocate room for `max_bytes`, and a descriptor that wakes up the reader."""
        self._size = max(max_bytes + -max_bytes % _ALIGNMENT, _ALIGNMENT)
        self._memory = mmap.mmap(-1, _HEADER_BYTES + self._size)
        self._words = memoryview(self._memory)[:_HEADER_BYTES].cast("Q")
        self._data = memoryview(self._memory)[_HEADER_BYTES:]
        self.counts: MutableSequence[int] = self._words[_FIRST_COUNT : _FIRST_COUNT + COUNTS]  # type: ignore[assignment]
        self._skipped = 0
        """Packets skipped since the last entry."""
        self.descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self.descriptor, select.POLLIN)

    @property
    def waiting_bytes(self) -> int:
        """Return the bytes in the queue."""
        return self._words[_WRITTEN] - self._words[_READ]

    def put(self, captured: CapturedPackets) -> None:
        """Append packets, see `PacketQueue`."""
        if (self._skipped and not self._append(b"", self._skipped, 0)) or not self._append(captured.data, captured.packets, captured.time):
            self.counts[SKIPPED_PACKETS] += captured.packets
            self.counts[SKIPPED_BYTES] += len(captured.data)
            self._skipped += captured.packets

    def end(self) -> None:
        """Append nothing more. Skipped packets without room for an entry are only counted."""
        if self._skipped:
            self._append(b"", self._skipped, 0)
        self._words[_ENDED] = 1
        os.eventfd_write(self.descriptor, 1)

    def _append(self, data: bytes, packets: int, time: int) -> bool:
        """Append an entry in one contiguous piece; return False if there is no room."""
        written = self._words[_WRITTEN]
        room = self._size - (written - self._words[_READ])
        needed = _aligned(_entry.size + len(data))
        position = written % self._size
        rest = self._size - position
        unused = rest if rest < needed else 0
        if unused + needed > room:
            return False
        if unused:
            _entry.pack_into(self._data, position, _WRAP, 0, 0)
            position = 0
        _entry.pack_into(self._data, position, len(data), packets, time)
        self._data[position + _entry.size : position + _entry.size + len(data)] = data
        self._words[_WRITTEN] = written + unused + needed
        if not data:
            self._skipped = 0
        os.eventfd_write(self.descriptor, 1)
        return True

    def take(self, seconds: float) -> Entry | None:
        """Return the oldest entry, see `PacketQueue`."""
        if not self._wait(seconds):
            return None if self._words[_ENDED] and not self.waiting_bytes else 0
        read = self._words[_READ]
        position = read % self._size
        size, packets, time = _entry.unpack_from(self._data, position)
        if size == _WRAP:
            read += self._size - position
            size, packets, time = _entry.unpack_from(self._data, position := 0)
        entry: Entry = packets
        if size:
            start = position + _entry.size
            entry = CapturedPackets(bytes(self._data[start : start + size]), packets, time)
        self._words[_READ] = read + _aligned(_entry.size + size)
        return entry

    def _wait(self, seconds: float) -> bool:
        """Wait for an entry or the end; return True when there is an entry."""
        while not (self.waiting_bytes or self._words[_ENDED]) and self._poll.poll(seconds * 1_000):
            os.eventfd_read(self.descriptor)  # it may count entries that were taken long ago
        return self.waiting_bytes > 0


def _aligned(size: int) -> int:
    return size + -size % _ALIGNMENT
