"""One direction of a TLS connection: what of it was opened is handed on, and the rest is counted.

What is opened is handed on at the moment at which it can be: with the last byte of its record, or when what was waited for has come.
Lost records are a gap in it, as long as their contents were, as far as that follows from the bytes that are missing: with AEAD suites,
and without padding, it does exactly.
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
    from pulsarscope.tls.decrypter import Opener
    from pulsarscope.tls.keys import Content

_SPANS_STEP = 4096
"""Records whose places are let go of together."""


class Spans:
    """Where contents lie: in what was handed on, and in the stream itself. Those further back than any frame reaches are forgotten."""

    def __init__(self) -> None:
        self._plain = array("q")  # ends
        self._starts = array("q")
        self._ends = array("q")

    def add(self, plain_end: int, start: int, end: int) -> None:
        """The next one."""
        if len(self._plain) > _SPANS_STEP and self._plain[_SPANS_STEP] < plain_end - 2 * FRAME_HARD_MAX_BYTES:
            for column in (self._plain, self._starts, self._ends):
                del column[:_SPANS_STEP]
        for column, value in zip((self._plain, self._starts, self._ends), (plain_end, start, end), strict=True):
            column.append(value)

    def place(self, start: int, end: int) -> tuple[int, int]:
        """Start and end in the stream of what lies from `start` to `end` of what was handed on."""
        last = len(self._plain) - 1
        if last < 0:
            return start, end
        return self._starts[min(bisect_right(self._plain, start), last)], self._ends[min(bisect_left(self._plain, end), last)]


class Direction:
    """What the connection knows of one direction; it decides what becomes of each record."""

    def __init__(self, head_bytes: int, *, spans: bool) -> None:
        """`head_bytes` stand before TLS and are handed on as they are. `spans`: remember where contents lie."""
        self.items: list[Item] = []
        """To hand on; the connection takes them."""
        self.records = RecordReader()
        self.records.begin_at(head_bytes)
        self.messages = HandshakeMessages()
        self.opener: Opener | None = None
        self.opened = 0
        """Records opened."""
        self.failed = 0
        """Records that the keys did not open."""
        self.given_up = False
        """Nothing more is opened."""
        self.waits = False
        """The next record cannot be dealt with yet."""
        self.length = 0
        """Bytes handed on, gaps included; at the end with those that never were."""
        self.missing = 0
        """Of them, those that are not in the capture: the contents of lost records, at the end what is not known of the stream."""
        self.unread = 0
        """Of them, those that were not opened."""
        self.clear_bytes = head_bytes
        """Where in the stream the last record ends that was in clear."""
        self.spans = Spans() if spans else None
        self._head_bytes = head_bytes
        self._refused = 0  # records since one was opened
        self._guessed = 0  # of what only seemed to be records, since then
        self._early: list[tuple[TlsRecord, bytes, Mark]] = []  # early data, until it is known that the server read it
        self._early_bytes = 0

    def take(self, file: int, piece: Piece) -> None:
        """The next bytes of the stream."""
        if self._head_bytes:
            payload, packet, time, moment = piece
            head, rest = payload[: self._head_bytes], payload[self._head_bytes :]
            self._head_bytes -= len(head)
            self._hand_on(head, Mark(file, packet, time), moment)
            if self.spans is not None:
                self.spans.add(self.length, self.length - len(head), self.length)
            if not rest:
                return
            piece = rest, packet, time, moment
        self.records.take(file, piece)
        if self.given_up:
            self.records.discard()

    def lose(self, size: int) -> None:
        """So many bytes of the stream are not in the capture."""
        if self._head_bytes:
            self._head_bytes = 0
        self.waits = False
        self.messages.clear()
        self.records.gap(size)

    def wait(self) -> None:
        """The next record needs what may still come."""
        self.waits = True
        if self.records.held > TLS_WAITING_MAX_BYTES:
            self.give_up()

    def give_up(self) -> None:
        """Only count from here on."""
        self.given_up = True
        self.waits = False
        self.records.discard()

    def fail(self, record: TlsRecord) -> None:
        """No key opens this record."""
        if self.records.refuse(record):
            self.failed += 1
            self._refused += 1
        else:
            self._guessed += 1
        if self.opener is None or self.opener.exhausted or self._refused > TLS_FAILED_RECORDS_MAX:
            self.give_up()

    def open(self, record: TlsRecord, moment: int) -> tuple[Content, Mark] | None:
        """What is in a record that the opener opens; the gap before it is handed on."""
        assert self.opener is not None  # noqa: S101 - the connection asks with one only
        opener, records = self.opener, self.records
        # Keys for what comes first may not be known: those records are passed over until one opens, and nothing is lost with them.
        begins = not self.opened and not records.lost_missing
        content = opener.open(record, 0 if begins else records.lost)
        if content is None:
            return None
        if begins:
            self.failed = 0
        elif opener.skipped or opener.renewed:
            overhead = opener.overhead
            size = records.lost if opener.renewed or overhead is None else records.lost - opener.skipped * overhead
            self._hand_on_gap(max(size, 1), moment)
        self.opened += 1
        self._refused = self._guessed = 0
        return content, records.accept(record)

    def hand_on(self, record: TlsRecord, content: bytes, mark: Mark, moment: int) -> None:
        """Content of a record, in the order of the stream."""
        if content:
            self._hand_on(content, mark, moment)
            if self.spans is not None:
                self.spans.add(self.length, record.start, record.end)

    def hold_early(self, record: TlsRecord, content: bytes, mark: Mark) -> None:
        """Early data (RFC 8446 section 2.3): the server may refuse it, and then the client says it again."""
        self._early_bytes += len(content)
        if self._early_bytes <= TLS_WAITING_MAX_BYTES:
            self._early.append((record, content, mark))

    def release_early(self, moment: int) -> None:
        """The client says that its early data is complete, so the server has not refused it."""
        for record, content, mark in self._early:
            self._early_bytes -= len(content)
            self.hand_on(record, content, mark, moment)
        if self._early_bytes:  # of what was too much to hold
            self._hand_on_gap(self._early_bytes, moment)
        self.forget_early()

    def forget_early(self) -> None:
        """Early data that was not released before other records came was refused."""
        self._early = []
        self._early_bytes = 0

    def finish(self) -> None:
        """No more bytes will come: what is left is counted."""
        records = self.records
        records.discard()
        self.failed += self._guessed
        self.length += records.lost
        self.missing += records.lost_missing
        self.unread += records.lost - records.lost_missing

    def _hand_on(self, content: bytes, mark: Mark, moment: int) -> None:
        piece = (content, mark.packet, mark.time, moment)
        last = self.items[-1] if self.items else None
        if isinstance(last, Data) and last.file == mark.file:
            last.pieces.append(piece)
        else:
            self.items.append(Data(mark.file, self.length, [piece]))
        self.length += len(content)

    def _hand_on_gap(self, size: int, moment: int) -> None:
        self.items.append(Gap(self.length, size, moment, HOLE))
        self.length += size
        self.missing += size
