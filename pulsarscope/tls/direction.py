"""Direction of a TLS connection: decrypted content is delivered, the rest is counted.

Content is delivered with the last byte of its record, or as soon as the missing keys are known. Lost records become a gap of the size of
their contents, as far as the missing bytes determine it; it is exact for AEAD suites without padding.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from pulsarscope.model.limits import FRAME_HARD_MAX_BYTES, TLS_FAILED_RECORDS_MAX, TLS_WAITING_MAX_BYTES
from pulsarscope.tcp.pieces import HOLE, Data, Gap, Item, Piece
from pulsarscope.tls.handshake import HandshakeMessages
from pulsarscope.tls.record_layer import Mark, RecordReader, TlsRecord

if TYPE_CHECKING:
    from pulsarscope.tls.decrypter import Decrypter
    from pulsarscope.tls.record_protection import Content

_SPANS_STEP = 4096
"""Number of positions dropped at once."""


class Spans:
    """Positions of contents in the plaintext and in the TLS stream, as far back as a frame may extend."""

    def __init__(self) -> None:
        self._plain = array("q")  # ends in the plaintext
        self._starts = array("q")
        self._ends = array("q")

    def add(self, plain_end: int, start: int, end: int) -> None:
        """Add a record: its end in the plaintext, its start and end in the TLS stream."""
        if len(self._plain) > _SPANS_STEP and self._plain[_SPANS_STEP] < plain_end - 2 * FRAME_HARD_MAX_BYTES:
            for column in (self._plain, self._starts, self._ends):
                del column[:_SPANS_STEP]
        for column, value in zip((self._plain, self._starts, self._ends), (plain_end, start, end), strict=True):
            column.append(value)

    def place(self, start: int, end: int) -> tuple[int, int]:
        """Return start and end in the TLS stream of the records that contain the plaintext from `start` to `end`."""
        last = len(self._plain) - 1
        if last < 0:
            return start, end
        return self._starts[min(bisect_right(self._plain, start), last)], self._ends[min(bisect_left(self._plain, end), last)]


class Direction:
    """State of one direction; the connection decides how each record is processed."""

    def __init__(self, head_bytes: int, *, spans: bool) -> None:
        """Begin with `head_bytes` before TLS, which are delivered unchanged; with `spans`, positions are kept."""
        self.items: list[Item] = []
        """Items to deliver; the connection removes them."""
        self.records = RecordReader()
        self.records.begin_at(head_bytes)
        self.messages = HandshakeMessages()
        self.decrypter: Decrypter | None = None
        self.decrypted = 0
        """Number of decrypted records."""
        self.failed = 0
        """Number of records that no key decrypted."""
        self.stopped = False
        """True when nothing more is decrypted."""
        self.waiting = False
        """True while the next record needs keys that may still become known."""
        self.length = 0
        """Bytes delivered, including gaps and, at the end, bytes that were not decrypted."""
        self.missing = 0
        """Bytes of `length` that are not in the capture: contents of lost records and, at the end, missing bytes of the stream."""
        self.undecrypted = 0
        """Bytes of `length` that were not decrypted."""
        self.clear_bytes = head_bytes
        """Offset in the stream after the last cleartext record."""
        self.spans = Spans() if spans else None
        self._head_bytes = head_bytes
        self._refused = 0  # records refused since the last decrypted one
        self._refused_guesses = 0  # of these, guesses at the start of a record
        self._early: list[tuple[TlsRecord, bytes, Mark]] = []  # early data that the server may still reject
        self._early_bytes = 0

    def take(self, file: int, piece: Piece) -> None:
        """Append a piece of the stream."""
        if self._head_bytes:
            payload, packet, time, moment = piece
            head, remaining = payload[: self._head_bytes], payload[self._head_bytes :]
            self._head_bytes -= len(head)
            self._deliver(head, Mark(file, packet, time), moment)
            if self.spans is not None:
                self.spans.add(self.length, self.length - len(head), self.length)
            if not remaining:
                return
            piece = remaining, packet, time, moment
        self.records.take(file, piece)
        if self.stopped:
            self.records.discard()

    def add_gap(self, size: int) -> None:
        """Append a gap of `size` bytes."""
        if self._head_bytes:
            self._head_bytes = 0
        self.waiting = False
        self.messages.clear()
        self.records.gap(size)

    def wait(self) -> None:
        """Wait for keys for the next record, or stop if too many bytes are buffered."""
        self.waiting = True
        if self.records.buffered > TLS_WAITING_MAX_BYTES:
            self.stop()

    def stop(self) -> None:
        """Stop decrypting; only count bytes from now on."""
        self.stopped = True
        self.waiting = False
        self.records.discard()

    def fail(self, record: TlsRecord) -> None:
        """Count a record that no key decrypts."""
        if self.records.refuse(record):
            self.failed += 1
            self._refused += 1
        else:
            self._refused_guesses += 1
        if self.decrypter is None or self.decrypter.exhausted or self._refused > TLS_FAILED_RECORDS_MAX:
            self.stop()

    def open(self, record: TlsRecord, moment: int) -> tuple[Content, Mark] | None:
        """Decrypt a record, and deliver the gap before it; return None when no key fits."""
        assert self.decrypter is not None  # noqa: S101 - set by the connection
        decrypter, records = self.decrypter, self.records
        # The keys of the first records may be unknown: the records before the first decrypted one are skipped without a gap.
        is_first = not self.decrypted and not records.lost_missing
        if (content := decrypter.open(record, 0 if is_first else records.lost)) is None:
            return None
        if is_first:
            self.failed = 0
        elif decrypter.skipped or decrypter.updated:
            overhead = decrypter.overhead
            size = records.lost if decrypter.updated or overhead is None else records.lost - decrypter.skipped * overhead
            self._deliver_gap(max(size, 1), moment)
        self.decrypted += 1
        self._refused = self._refused_guesses = 0
        return content, records.accept(record)

    def deliver(self, record: TlsRecord, content: bytes, mark: Mark, moment: int) -> None:
        """Deliver the content of a record."""
        if content:
            self._deliver(content, mark, moment)
            if self.spans is not None:
                self.spans.add(self.length, record.start, record.end)

    def buffer_early(self, record: TlsRecord, content: bytes, mark: Mark) -> None:
        """Buffer early data (RFC 8446 section 2.3), which the client repeats if the server rejects it."""
        self._early_bytes += len(content)
        if self._early_bytes <= TLS_WAITING_MAX_BYTES:
            self._early.append((record, content, mark))

    def release_early(self, moment: int) -> None:
        """Deliver early data: their end shows that the server has not rejected them."""
        for record, content, mark in self._early:
            self._early_bytes -= len(content)
            self.deliver(record, content, mark, moment)
        if self._early_bytes:  # in records beyond the bound
            self._deliver_gap(self._early_bytes, moment)
        self.drop_early()

    def drop_early(self) -> None:
        """Drop early data: the server rejected them if other records follow before their end."""
        self._early = []
        self._early_bytes = 0

    def finish(self) -> None:
        """End the direction: count the remaining bytes."""
        records = self.records
        records.discard()
        self.failed += self._refused_guesses
        self.length += records.lost
        self.missing += records.lost_missing
        self.undecrypted += records.lost - records.lost_missing

    def _deliver(self, content: bytes, mark: Mark, moment: int) -> None:
        piece = (content, mark.packet, mark.time, moment)
        last = self.items[-1] if self.items else None
        if isinstance(last, Data) and last.file == mark.file:
            last.pieces.append(piece)
        else:
            self.items.append(Data(mark.file, self.length, [piece]))
        self.length += len(content)

    def _deliver_gap(self, size: int, moment: int) -> None:
        self.items.append(Gap(self.length, size, moment, HOLE))
        self.length += size
        self.missing += size
