"""The records of one direction: where they lie, which packets name them, what was lost between them (RFC 8446 section 5.1).

A record is named as a frame is: by the packet that completed it, behind a gap by the latest of the packets that brought it.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from struct import Struct
from typing import NamedTuple

from pulsarscope.model.limits import TLS_RECORD_MAX_BYTES
from pulsarscope.tcp.pieces import Piece

CHANGE_CIPHER_SPEC, ALERT, HANDSHAKE, APPLICATION_DATA = 20, 21, 22, 23

_HEADER = Struct(">BHH")
_START = re.compile(rb"[\x14-\x17]\x03[\x00-\x03]")
_START_BYTES = 3


class Mark(NamedTuple):
    """Who brought bytes."""

    file: int
    packet: int
    time: int


class TlsRecord(NamedTuple):
    """One record, whole. Offsets are those of the stream."""

    kind: int
    header: bytes
    body: bytes
    start: int
    end: int


def begins_record(head: bytes) -> bool:
    """Whether these bytes, five or fewer, may begin a record."""
    if len(head) < _HEADER.size:
        return 20 <= head[0] <= 23 and (len(head) < 2 or head[1] == 3)
    kind, version, length = _HEADER.unpack_from(head)
    return bool(20 <= kind <= 23 and 0x0300 <= version <= 0x0304 and 0 < length <= TLS_RECORD_MAX_BYTES)


class RecordReader:
    """Feed it pieces and gaps; take one record after the other, and say of each whether it is one."""

    def __init__(self) -> None:
        self.lost = 0
        """Bytes passed over since the last record that was accepted: gaps, refused records and what lay between."""
        self.lost_missing = 0
        """Those of them that are not in the capture."""
        self._data = b""
        self._more: list[bytes] = []
        self._position = 0  # in _data
        self._base = 0  # offset of _data[0]
        self._end = 0  # offset after all that came
        self._wake = 0  # offset up to which bytes must be there to go on
        self._ends: list[int] = []  # offset after each piece
        self._marks: list[Mark] = []
        self._certain = True  # a record begins at the position
        self._resume = 0  # offset of the next record, known although what is before it is lost
        self._gapped = False

    @property
    def held(self) -> int:
        """Bytes not dealt with."""
        return self._end - self._base - self._position

    @property
    def certain(self) -> bool:
        """Whether the next record is known to be one: it follows the one before, or a header that was read told where it begins."""
        return self._certain

    @property
    def complete(self) -> bool:
        """Whether there is enough to go on."""
        return self._end >= self._wake

    def begin_at(self, offset: int) -> None:
        """What comes before is not TLS."""
        self._base = self._end = offset

    def take(self, file: int, piece: Piece) -> None:
        """The next bytes."""
        payload, packet, time, _ = piece
        self._more.append(payload)
        self._end += len(payload)
        self._ends.append(self._end)
        self._marks.append(Mark(file, packet, time))

    def gap(self, size: int) -> None:
        """So many bytes are lost, and with them the record that they cut."""
        self._join()
        following = self._resume
        if self._certain and following <= self._base + self._position:
            position = self._position
            while len(self._data) - position >= _HEADER.size and begins_record(self._data[position : position + _HEADER.size]):
                position += _HEADER.size + int.from_bytes(self._data[position + 3 : position + 5], "big")
            following = self._base + position
        self.lost += self.held + size
        self.lost_missing += size
        self._end += size
        self._forget()
        self._certain = following >= self._end
        self._resume = following if self._certain else 0
        self._gapped = True

    def next(self) -> TlsRecord | None:
        """The next record; None when bytes are missing. It stays the next one until it is accepted or refused."""
        if self._end < self._wake:
            return None
        self._join()
        while True:
            start = self._base + self._position
            if self._resume > start:
                self._pass(min(self._resume, self._end) - start)
                if self._resume > self._end:
                    return None
                continue
            if not self._certain:
                match = _START.search(self._data, self._position)
                self._pass((max(len(self._data) - _START_BYTES + 1, self._position) if match is None else match.start()) - self._position)
                if match is None:
                    return None
                start = self._base + self._position
            header = self._data[self._position : self._position + _HEADER.size]
            if len(header) < _HEADER.size:
                self._wake = start + _HEADER.size
                return None
            if not begins_record(header):
                self._certain = False
                self._pass(1)
                continue
            kind, _, length = _HEADER.unpack(header)
            end = start + _HEADER.size + length
            if end > self._end:
                self._wake = end
                return None
            body = self._data[self._position + _HEADER.size : end - self._base]
            return TlsRecord(kind, header, body, start, end)

    def accept(self, record: TlsRecord) -> Mark:
        """It is one: go on behind it. Gives what names it."""
        self._position = record.end - self._base
        self._certain = True
        self.lost = self.lost_missing = 0
        index = bisect_left(self._ends, record.end)
        if not self._gapped:
            return self._marks[index]
        return max(self._marks[bisect_right(self._ends, record.start) : index + 1])

    def refuse(self, record: TlsRecord) -> bool:
        """It is none, or damaged: go on behind it, or look further if it was only a guess. False for a guess."""
        self._pass(record.end - record.start if self._certain else 1)
        return self._certain

    def beginning(self) -> TlsRecord | None:
        """The next record as far as it is there; None when it is not known where it begins."""
        self._join()
        start = self._base + self._position
        header = self._data[self._position : self._position + _HEADER.size]
        if not self._certain or self._resume > start or len(header) < _HEADER.size or not begins_record(header):
            return None
        kind, _, length = _HEADER.unpack(header)
        end = min(start + _HEADER.size + length, self._end)
        return TlsRecord(kind, header, self._data[self._position + _HEADER.size : end - self._base], start, end)

    def trim(self) -> None:
        """Let go of what was dealt with."""
        if not self._position:
            return
        self._base += self._position
        self._data = self._data[self._position :]
        self._position = 0
        first = bisect_right(self._ends, self._base)
        del self._ends[:first], self._marks[:first]

    def discard(self) -> None:
        """Pass over all that there is."""
        self.lost += self.held
        self._base = self._end
        self._forget()

    def _forget(self) -> None:
        self._data = b""
        self._more = []
        self._position = 0
        self._base = self._end
        self._wake = 0
        self._ends = []
        self._marks = []

    def _join(self) -> None:
        if self._more:
            self._data = b"".join((self._data, *self._more) if self._data else self._more)
            self._more = []
        self._wake = 0

    def _pass(self, size: int) -> None:
        self._position += size
        self.lost += size
