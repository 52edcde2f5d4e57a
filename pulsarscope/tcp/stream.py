"""Direction of a connection: delivered bytes, buffered segments, counts of irregularities.

`receive` handles any segment; `pulsarscope.tcp.assembler` has the fast loop for segments in order.
"""

from __future__ import annotations

from operator import ne
from typing import TYPE_CHECKING, Any

import msgspec

from pulsarscope.model.flow import source_endpoint
from pulsarscope.model.limits import OVERLAP_WINDOW_PACKETS, RESET_WINDOW_BYTES, SEQUENCE_JUMP_MAX_BYTES, STREAM_FINDINGS_MAX
from pulsarscope.model.tcp_flags import CONTROL_FLAGS, FIN, SYN
from pulsarscope.model.text import plural
from pulsarscope.tcp.ack_times import AckTimes
from pulsarscope.tcp.copies import UNKNOWN_IDENTITY, Copies, Identity, are_apart, identity, is_copy
from pulsarscope.tcp.delivered import DeliveredBytes, recent_data
from pulsarscope.tcp.intervals import Intervals
from pulsarscope.tcp.pieces import HOLE, SNAPLEN, Data, Gap, Item, Piece, Reason
from pulsarscope.tcp.reorder_buffer import BufferedPiece, Overlap, ReorderBuffer
from pulsarscope.tcp.sequence import SEQUENCE_MASK, UNKNOWN, sequence_difference
from pulsarscope.tcp.stream_findings import ClosedWindow, CodeCount, Log, Resending, Where, finding, overlap_evidence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pulsarscope.capture import Segment

_NO_ITEMS: list[Item] = []
_NO_LOG: Log = []
# Shared between blocks and never appended to: a list per stream would take memory, and time in garbage collection.


class Stream(msgspec.Struct, gc=False, eq=False):
    """Direction of a connection."""

    key: bytes
    """Flow key of its segments."""
    index: int
    """Position in the connection's `streams`; 0 is the sender of the first packet."""
    items: list[Item] = msgspec.field(default_factory=lambda: _NO_ITEMS)
    """Data and gaps of the current block."""
    log: Log = msgspec.field(default_factory=lambda: _NO_LOG)
    """Findings of the current block."""
    sequence: int = UNKNOWN
    """Sequence number of the next byte; UNKNOWN before the first SYN or byte."""
    length: int = 0
    """Bytes so far, including gaps: the offset of the next byte."""
    missing: int = 0
    """Bytes of all gaps."""
    segments: int = 0
    """Segments with data, without copies made by the capture."""
    retransmitted: int = 0
    """Segments with data but no new bytes."""
    out_of_order: int = 0
    """Segments that arrived before an earlier one."""
    dropped: int = 0
    """Captured bytes that are not in the stream: before its first byte, after its end, too late for their gap, or far away."""
    late: int = 0
    """Dropped bytes that came after its end."""
    outside: Intervals | None = None
    """Offsets of the dropped bytes, so that repeated ones are counted once."""
    duplicates: int = 0
    """Retransmitted segments that followed so soon that they may have been captured twice."""
    copies: Copies | None = None
    newest: Identity = UNKNOWN_IDENTITY
    """Identity of the segment, or retransmission, that brought new bytes and was sent last."""
    snaplen_gaps: tuple[int, int] = (0, 0)
    """Number and bytes of the gaps caused by the snap length."""
    gaps: Intervals | None = None
    """Offsets of the gaps."""
    captured: bool = False
    """True when the capture has a packet of the stream."""
    handshake: bool = False
    """True when its SYN was seen."""
    alternative_start: int = UNKNOWN
    """First sequence number of a different SYN|ACK to the same SYN, which the client may have accepted instead."""
    window_closed: bool = False
    """True while its sender announces a window of 0."""
    acknowledges: int = UNKNOWN
    """Sequence number up to which its latest packet acknowledges the other stream."""
    fin: int = UNKNOWN
    """Offset at which the stream ends; UNKNOWN before a FIN."""
    buffer: ReorderBuffer | None = None
    window: ClosedWindow | None = None
    resending: Resending | None = None
    ack_times: AckTimes | None = None
    finding_counts: dict[str, CodeCount] | None = None
    generation: int = 0
    """Number of the last block that added to `delivered`."""
    delivered: tuple[Data, ...] = ()
    """Recently delivered data, see `pulsarscope.tcp.delivered`."""
    comparable: int = 0
    """Bytes of `delivered`, including gaps between them."""
    comparison: DeliveredBytes | None = None

    @property
    def source(self) -> str:
        """Return the endpoint of the sender."""
        return source_endpoint(self.key)

    @property
    def ended(self) -> bool:
        """Return True when all bytes up to the FIN are delivered."""
        return self.fin == self.length

    def first_sequence(self) -> int:
        """Return the sequence number of offset 0, UNKNOWN if it is not known."""
        return UNKNOWN if self.sequence == UNKNOWN else (self.sequence - self.length) & SEQUENCE_MASK

    def begin_block(self, items: list[Item], log: Log) -> None:
        """Set the lists that receive the items and findings of a block."""
        self.items, self.log = items, log

    def end_block(self, generation: int, file: int, packet: int, *, keep: bool) -> int:
        """End the block `generation` at a packet. With `keep`, keep recent data for comparison; return the growth in bytes."""
        items, self.items, self.log, self.comparison = self.items, _NO_ITEMS, _NO_LOG, None
        if not items or not keep:
            return 0
        self.generation, before = generation, self.comparable
        self.delivered = recent_data([*self.delivered, *items], self.length, file, packet - OVERLAP_WINDOW_PACKETS)
        self.comparable = self.length - self.delivered[0].offset if self.delivered else 0
        return self.comparable - before

    def drop_delivered(self, generation: int) -> int:
        """Drop the data kept for comparison, unless a later block added to it; return their size in bytes."""
        if self.generation != generation:
            return 0
        dropped, self.comparable, self.delivered = self.comparable, 0, ()
        return dropped

    def deliver(self, file: int, pieces: list[Piece], size: int) -> None:
        """Append the next `size` bytes of the stream."""
        items = self.items
        if items and type(last := items[-1]) is Data and last.file == file and type(last.pieces) is list:
            last.pieces += pieces
        else:
            items.append(Data(file, self.length, pieces))
        self.length += size
        self.sequence = (self.sequence + size) & SEQUENCE_MASK

    def deliver_run(self, file: int, pieces: list[Piece], size: int, missing: int, times: Iterator[tuple[int, int]]) -> None:
        """Append the next `size` bytes, if any, and the gap of `missing` bytes that the snap length cut off behind them.

        `times`: gives the packet that lacks them, and its time.
        """
        if size:
            self.deliver(file, pieces, size)
        if missing:
            self._declare(self.length + missing, SNAPLEN, (file, *next(times)))

    def receive(self, segment: Segment, file: int) -> None:
        """Process any segment except a RST."""
        packet, time, seq, _, flags, window, payload, cut, identification, options = segment
        size = len(payload)
        if window and not (size or cut or self.window_closed or flags & CONTROL_FLAGS):
            return
        if (not window or self.window_closed) and not flags & SYN:
            self._watch_window(window, (file, packet, time))
        if not (size or cut or flags & FIN):
            return
        if flags & SYN:
            seq = (seq + 1) & SEQUENCE_MASK
        if self.sequence == UNKNOWN or (seq == self.alternative_start and not self.length and self.buffer is None):
            self.sequence = seq
        distance = sequence_difference(self.sequence, seq)
        start = self.length + distance
        if start == self._keep_alive_offset() and size <= 1 and not cut and not flags & FIN:
            return
        if size or cut:
            self.segments += 1
        if abs(distance) > SEQUENCE_JUMP_MAX_BYTES:
            self._report_jump(distance, size, (file, packet, time))
            self.drop(start, start + size)
            return
        if flags & FIN and self.fin == UNKNOWN and start + size + cut >= self.length:
            self.fin = start + size + cut
            if self.buffer is not None:
                for low, high in self.buffer.truncate(self.fin):
                    self.late += self.drop(low, high)
                self.buffer = self.buffer if len(self.buffer) else None
        if not (size or cut):
            return
        if self.fin != UNKNOWN and start + size + cut > self.fin:
            self.late += self.drop(max(start, self.fin), start + size)
            if start >= self.fin:
                return
            payload = payload[: self.fin - start]
            cut = max(0, self.fin - start - size)
        overtaken = None if self.buffer is None else is_copy(segment, self.newest)
        fresh, copy_of = self._insert(start, payload, cut, (file, packet, time), overtaken=overtaken)
        if fresh:
            self.newest = self.newest if overtaken else identity(identification, options, size)
        elif self._count_again(segment, copy_of):
            self.resending = self.resending or Resending()
            self.resending.add(start, size + cut, (file, packet, time))
            if copy_of is not None and are_apart(time - copy_of):
                self.resending.losses.add(copy_of, (file, packet, time), self.segments, resent=True, span=(start, start + size + cut))
        else:
            self.segments -= 1

    def receive_late(self, segment: Segment, *, copied: bool = False) -> None:
        """Count a segment after the end of the connection, or one that does not belong to it; `copied`: in doubt, it is a copy."""
        _, _, seq, _, flags, _, payload, cut, _, _ = segment
        start = self.length + bool(flags & SYN) + (0 if self.sequence == UNKNOWN else sequence_difference(self.sequence, seq))
        end = start + len(payload)
        fresh = self.drop(start, end)
        self.late += fresh
        if not fresh and end + cut <= max(start, self.length) and (payload or cut):
            self._count_again(segment, None, copied=copied)

    def drop(self, start: int, end: int) -> int:
        """Count those bytes of a range that are not in the stream; return how many of them are new."""
        parts = [(start, min(end, 0)), (max(start, self.length), end), *(self.gaps.common(start, end) if self.gaps else ())]
        fresh = 0
        for low, high in parts:
            if low < high:
                self.outside = self.outside or Intervals()
                fresh += self.outside.add(low, high)
        self.dropped += fresh
        return fresh

    @property
    def early(self) -> int:
        """Number of dropped bytes before the first byte of the stream, except those that came after its end."""
        early = sum(high - low for low, high in self.outside.common(self.length - SEQUENCE_JUMP_MAX_BYTES, 0)) if self.outside else 0
        return min(early, self.dropped - self.late)

    def _keep_alive_offset(self) -> int:
        """Return the offset of the last byte seen, where a keep-alive may carry a garbage byte (RFC 9293 section 3.8.4)."""
        return max(self.length, self.buffer.end if self.buffer is not None else 0) - 1

    def _insert(self, start: int, payload: bytes, cut: int, where: Where, *, overtaken: bool | None) -> tuple[bool, int | None]:
        """Insert a payload at offset `start`, followed by `cut` bytes that the snap length cut off; `overtaken`: sent before newer data.

        Return whether it has new bytes, and the time of its original if it is a copy, None if unknown.
        """
        file, packet, time = where
        length = self.length
        end = start + len(payload)
        if start < length:
            copy_of = self._compare(start, payload[: length - start], where)
            if start < 0 or self.gaps is not None:
                self.drop(start, min(end, length))
            if end + cut <= length:
                return False, copy_of
            payload = payload[length - start :]
            cut = end + cut - max(end, length)
            start = length
            end = start + len(payload)
        if start == length and self.buffer is None:
            if payload:
                self.deliver(file, [(payload, packet, time, packet)], end - start)
            if cut:
                self._declare(end + cut, SNAPLEN, where)
            return True, None
        if self.buffer is None:
            self.buffer = ReorderBuffer()
        buffer = self.buffer
        if start == length and payload and not overtaken and (behind := buffer.first) is not None:
            self.resending = self.resending or Resending()
            self.resending.losses.add(behind.time, where, self.segments, resent=overtaken is False)
        fresh, copy_of = 0, None
        if payload:
            fresh, conflicts, copy_of = buffer.add(BufferedPiece(start, payload, file, packet, time))
            self._report_overlaps(conflicts, where)
        if cut and buffer.add_cut(end, end + cut):
            fresh += cut
        if fresh and start > length:
            self.out_of_order += 1
        self._drain(where)
        while buffer.is_overfull:
            self._declare_hole(where)
        return fresh > 0, copy_of

    def give_up_acknowledged(self, where: Where) -> None:
        """Declare as gaps the holes that the peer acknowledged long ago."""
        if (buffer := self.buffer) is not None:
            acknowledged, buffer.acknowledged = buffer.acknowledged, 0
            while len(buffer) and buffer.start <= acknowledged:
                self._declare_hole(where)

    def give_up_before(self, time: int, where: Where) -> None:
        """Declare as gaps the holes before buffered bytes that came at this time or earlier."""
        while self.buffer is not None and self.buffer.waits_since(time):
            self._declare_hole(where)

    def _declare_hole(self, where: Where, code: str = "stream-gap") -> None:
        """Declare the first hole as a gap, and deliver the segments after it."""
        if self.buffer is not None:
            first = self.buffer.first
            behind = None if first is None else (first.file, first.packet, first.time)
            self._declare(self.buffer.start, HOLE, where, behind, code)
            self._drain(where)

    def _drain(self, where: Where) -> None:
        """Deliver the buffered segments that continue the stream."""
        buffer = self.buffer
        if buffer is None:
            return
        file, packet, time = where
        while True:
            piece = buffer.take(self.length)
            if piece is not None:
                payload = piece.payload
                # After a gap, a piece is named by its own packet, so that the moment at which the gap is declared changes no name.
                if self.gaps is not None:
                    self.deliver(piece.file, [(payload, piece.packet, piece.time, packet)], len(payload))
                else:
                    self.deliver(file, [(payload, packet, time, packet)], len(payload))
            elif size := buffer.take_cut(self.length):
                self._declare(self.length + size, SNAPLEN, where)
            else:
                break
        if not len(buffer):
            self.buffer = None

    def _declare(self, end: int, reason: Reason, where: Where, behind: Where | None = None, code: str = "stream-gap") -> None:
        """Declare the bytes up to offset `end` missing; the finding is placed at the packet `behind` them, if given."""
        offset, size = self.length, end - self.length
        self.items.append(Gap(offset, size, where[1], reason))
        self.length = end
        self.sequence = (self.sequence + size) & SEQUENCE_MASK
        self.missing += size
        self.gaps = self.gaps or Intervals()
        self.gaps.add(offset, end)
        evidence = {"direction": self.index, "offset": offset, "size": size, "reason": reason}
        if reason == SNAPLEN:
            count, total = self.snaplen_gaps
            self.snaplen_gaps = count + 1, total + size
            if count < STREAM_FINDINGS_MAX:
                cut = finding("stream-gap", "", evidence, where, self.source)
                cut.counted = True  # by the total
                self.log.append((where[1], cut))
            return
        verbs = ("is", "was") if size == 1 else ("are", "were")
        more = f"{verbs[0]} not in the capture" if code == "stream-gap" else f"had not come, and {verbs[1]} not acknowledged, when it ended"
        text = f"{plural(size, 'byte')} at offset {offset} of the stream from {self.source} {more}."
        self._report(code, text, evidence, where, behind)

    def flush(self, where: Where, code: str = "stream-gap") -> None:
        """Declare all holes as gaps, and deliver the buffered segments."""
        while self.buffer is not None:
            self._declare_hole(where, code)

    def end(self, where: Where, acknowledged: int, *, reset: bool = False) -> None:
        """End the stream, acknowledged up to an offset, by its receiver's `reset`: declare missing bytes, report totals, free buffers."""
        code = "bytes-awaited" if self.buffer is not None and self.buffer.awaited == self.length else "stream-gap"
        self.flush(where, code)
        is_ahead = self.fin == UNKNOWN and self.captured and 1 < acknowledged - self.length <= RESET_WINDOW_BYTES  # one may be a FIN
        end = acknowledged if is_ahead else self.fin
        if end > self.length:
            is_awaited = reset and 0 < acknowledged <= self.length  # a FIN was faster
            self._declare(end, HOLE, where, None, "bytes-awaited" if is_awaited else code)
        self._report_totals(where)
        self.finding_counts = None

    def _count_again(self, segment: Segment, copy_of: int | None, *, copied: bool = False) -> bool:
        """Count a segment without new bytes; `copy_of` is the time of its original, `copied` decides if nothing else does.

        Return False when it is a copy made by the capture.
        """
        later = None if copy_of is None else segment[1] - copy_of
        proven = is_copy(segment, self.newest)
        if proven or (proven is None and copied):
            self.copies = self.copies or Copies()
            self.copies.add(later, proven=proven is True)
            return False
        self.retransmitted += 1
        if proven is None and later is not None and not are_apart(later):
            self.duplicates += 1
        if proven is False:
            self.newest = identity(segment[8], segment[9], len(segment[6]))
        return True

    def _compare(self, start: int, payload: bytes, where: Where) -> int | None:
        """Compare a retransmission with the delivered bytes; return the time of its original, None when it is not a copy."""
        if self.comparison is None:
            self.comparison = DeliveredBytes(self.delivered, self.items)
        conflicts, copy_of = self.comparison.compare(start, payload, self.length, where[0], where[1])
        self._report_overlaps(conflicts, where)
        return copy_of

    def is_next(self, seq: int) -> bool:
        """Return True for the sender's next sequence number, according to the captured data; after its FIN if there is one."""
        distance = sequence_difference(self.sequence, seq)
        if self.fin != UNKNOWN:
            return distance == self.fin + 1 - self.length
        return distance == 0 or (self.buffer is not None and distance == self.buffer.end - self.length)

    def is_near(self, seq: int) -> bool:
        """Return True when a sequence number is near the bytes seen of the stream."""
        distance = sequence_difference(self.sequence, seq)
        ahead = max(self.buffer.end - self.length, 0) if self.buffer is not None else 0
        return -RESET_WINDOW_BYTES <= distance <= ahead + RESET_WINDOW_BYTES

    def _watch_window(self, window: int, where: Where) -> None:
        if window:
            if self.window is not None and self.window_closed:
                self.window.open(where[2])
        elif not self.window_closed:
            self.window = self.window or ClosedWindow(where)
            self.window.close(where[2])
        self.window_closed = not window

    def _report(self, code: str, text: str, evidence: dict[str, Any], where: Where, place: Where | None = None) -> None:
        """Report a finding detected at `where` and placed at `place`, if given; above STREAM_FINDINGS_MAX, only count it."""
        if self.finding_counts is None:
            self.finding_counts = {}
        count = self.finding_counts.setdefault(code, CodeCount())
        count.count += 1
        if count.count > STREAM_FINDINGS_MAX:
            count.unreported_bytes += evidence["size"]
        else:
            self.log.append((where[1], finding(code, text, evidence, place or where, self.source)))

    def _report_jump(self, distance: int, size: int, where: Where) -> None:
        text = f"A segment from {self.source} lies {abs(distance):,} bytes {'ahead of' if distance > 0 else 'behind'} its stream."
        self._report("sequence-jump", text, {"direction": self.index, "distance": distance, "size": size}, where)

    def _report_overlaps(self, conflicts: list[Overlap], where: Where) -> None:
        for conflict in conflicts:
            size = sum(map(ne, conflict.first, conflict.second))
            place = f"at offset {conflict.offset} of the stream from {self.source}"
            text = f"Packet {where[1]} and packet {conflict.packet} differ in {plural(size, 'byte')} {place}."
            self._report("overlap-conflict", text, overlap_evidence(conflict, size, self.index, where[1]), where)

    def _report_totals(self, where: Where) -> None:
        """Report the findings of the stream as a whole."""
        for code, counted in (self.finding_counts or {}).items():
            if counted.count > STREAM_FINDINGS_MAX:
                count, size = counted.count - STREAM_FINDINGS_MAX, counted.unreported_bytes
                text = f"{count:,} more in the stream from {self.source}, {plural(size, 'byte')} in total."
                more = {"direction": self.index, "count": count, "bytes": size}
                self.log.append((where[1], finding(code, text, more, where, self.source)))
        count, size = self.snaplen_gaps
        if count:
            cut = f"{plural(size, 'byte')} of the stream from {self.source} {'was' if size == 1 else 'were'} cut off"
            text = f"{cut} by the snap length, in {plural(count, 'place')}."
            evidence = {"direction": self.index, "count": count, "bytes": size, "reason": SNAPLEN}
            self.log.append((where[1], finding("stream-gap", text, evidence, where, self.source)))
        if (state := self.window) is not None:
            if self.window_closed:
                state.open(where[2])
            shut = {"direction": self.index, "host": self.source, "count": state.count, "closed_ns": state.closed}
            self.log.append((where[1], finding("zero-window", state.text(self.source), shut, state.first)))
