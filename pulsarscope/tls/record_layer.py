"""Record layer of one direction: position, naming packet, and lost bytes between records (RFC 8446 section 5.1).

A record is named like a frame: by the packet that completed it or, after a gap, by the latest packet that carried its bytes.
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
    """Packet that carried or completed bytes."""

    file: int
    packet: int
    time: int


class TlsRecord(NamedTuple):
    """Complete record; `start` and `end` are offsets in the stream."""

    kind: int
    header: bytes
    body: bytes
    start: int
    end: int


class WaitingRecord(NamedTuple):
    """Record that has not been read yet; `mark` names the packet that completed it."""

    kind: int
    size: int
    """Bytes after the header."""
    mark: Mark


def begins_record(head: bytes) -> bool:
    """Return True when up to five bytes may be the start of a record."""
    if len(head) < _HEADER.size:
        return bool(head) and 20 <= head[0] <= 23 and (len(head) < 2 or head[1] == 3)
    kind, version, length = _HEADER.unpack_from(head)
    return bool(20 <= kind <= 23 and 0x0300 <= version <= 0x0304 and 0 < length <= TLS_RECORD_MAX_BYTES)


class RecordReader:
    """Reader of the records in a stream of pieces and gaps; the caller accepts or refuses each record."""

    def __init__(self) -> None:
        self.lost = 0
        """Bytes skipped since the last accepted record: gaps, refused records and unrecognised bytes."""
        self.lost_missing = 0
        """Bytes of `lost` that are not in the capture."""
        self._data = b""
        self._chunks: list[bytes] = []
        self._position = 0  # in `_data`
        self._base = 0  # offset of `_data[0]`
        self._end = 0  # offset after the last byte received
        self._wake = 0  # offset up to which bytes are needed to continue
        self._ends: list[int] = []  # offset after each piece
        self._marks: list[Mark] = []
        self._synchronized = True  # True when a record begins at the position
        self._resume = 0  # known offset of the next record after a gap
        self._gapped = False

    @property
    def buffered(self) -> int:
        """Return the number of unprocessed bytes."""
        return self._end - self._base - self._position

    @property
    def synchronized(self) -> bool:
        """Return True when the start of the next record is known from the previous record or header."""
        return self._synchronized

    @property
    def can_continue(self) -> bool:
        """Return True when enough bytes have arrived to continue."""
        return self._end >= self._wake

    def begin_at(self, offset: int) -> None:
        """Set the offset at which TLS begins."""
        self._base = self._end = offset

    def take(self, file: int, piece: Piece) -> None:
        """Append a piece of the stream."""
        payload, packet, time, _ = piece
        self._chunks.append(payload)
        self._end += len(payload)
        self._ends.append(self._end)
        self._marks.append(Mark(file, packet, time))

    def gap(self, size: int) -> None:
        """Append a gap of `size` bytes; the record that it cuts is lost."""
        self._join()
        next_start = self._resume
        if self._synchronized and next_start <= self._base + self._position:
            position = self._position
            while len(self._data) - position >= _HEADER.size and begins_record(self._data[position : position + _HEADER.size]):
                position += _HEADER.size + int.from_bytes(self._data[position + 3 : position + 5], "big")
            next_start = self._base + position
        self.lost += self.buffered + size
        self.lost_missing += size
        self._end += size
        self._reset()
        self._synchronized = next_start >= self._end
        self._resume = next_start if self._synchronized else 0
        self._gapped = True

    def next(self) -> TlsRecord | None:
        """Return the next record, None when it is incomplete; it remains the next one until accepted or refused."""
        if self._end < self._wake:
            return None
        self._join()
        while True:
            start = self._base + self._position
            if self._resume > start:
                self._skip(min(self._resume, self._end) - start)
                if self._resume > self._end:
                    return None
                continue
            if not self._synchronized:
                match = _START.search(self._data, self._position)
                self._skip((max(len(self._data) - _START_BYTES + 1, self._position) if match is None else match.start()) - self._position)
                if match is None:
                    return None
                start = self._base + self._position
            header = self._data[self._position : self._position + _HEADER.size]
            if len(header) < _HEADER.size:
                self._wake = start + _HEADER.size
                return None
            if not begins_record(header):
                self._synchronized = False
                self._skip(1)
                continue
            kind, _, length = _HEADER.unpack(header)
            end = start + _HEADER.size + length
            if end > self._end:
                self._wake = end
                return None
            body = self._data[self._position + _HEADER.size : end - self._base]
            return TlsRecord(kind, header, body, start, end)

    def accept(self, record: TlsRecord) -> Mark:
        """Continue after a record; return the mark that names it."""
        self._position = record.end - self._base
        self._synchronized = True
        self.lost = self.lost_missing = 0
        index = bisect_left(self._ends, record.end)
        if not self._gapped:
            return self._marks[index]
        return max(self._marks[bisect_right(self._ends, record.start) : index + 1])

    def refuse(self, record: TlsRecord) -> bool:
        """Skip a record that cannot be decrypted; if its start was a guess, return False and keep searching."""
        self._skip(record.end - record.start if self._synchronized else 1)
        return self._synchronized

    def partial(self) -> TlsRecord | None:
        """Return the available part of the next record, None when its start is unknown."""
        self._join()
        start = self._base + self._position
        header = self._data[self._position : self._position + _HEADER.size]
        if not self._synchronized or self._resume > start or len(header) < _HEADER.size or not begins_record(header):
            return None
        kind, _, length = _HEADER.unpack(header)
        end = min(start + _HEADER.size + length, self._end)
        return TlsRecord(kind, header, self._data[self._position + _HEADER.size : end - self._base], start, end)

    def waiting(self) -> list[WaitingRecord]:
        """Return the complete records from the next one on."""
        self._join()
        records = []
        position = self._position
        while self._synchronized and begins_record(header := self._data[position : position + _HEADER.size]):
            if len(header) < _HEADER.size:
                break
            kind, _, size = _HEADER.unpack(header)
            position += _HEADER.size + size
            if position > len(self._data):
                break
            records.append(WaitingRecord(kind, size, self._marks[bisect_left(self._ends, self._base + position)]))
        return records

    def trim(self) -> None:
        """Release the processed bytes."""
        if not self._position:
            return
        self._base += self._position
        self._data = self._data[self._position :]
        self._position = 0
        first = bisect_right(self._ends, self._base)
        del self._ends[:first], self._marks[:first]

    def discard(self) -> None:
        """Skip all buffered bytes."""
        self.lost += self.buffered
        self._base = self._end
        self._reset()

    def _reset(self) -> None:
        self._data = b""
        self._chunks = []
        self._position = 0
        self._base = self._end
        self._wake = 0
        self._ends = []
        self._marks = []

    def _join(self) -> None:
        if self._chunks:
            self._data = b"".join((self._data, *self._chunks) if self._data else self._chunks)
            self._chunks = []
        self._wake = 0

    def _skip(self, size: int) -> None:
        self._position += size
        self.lost += size
