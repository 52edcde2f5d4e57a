"""One direction of a connection: what it has delivered, what waits, what was odd.

`receive` is the careful path for one segment; `pulsarscope.tcp.assembler` has the tight loop for segments in order.
"""

from __future__ import annotations

from hashlib import sha256
from operator import ne
from typing import TYPE_CHECKING, Any

import msgspec

from pulsarscope.model.flow import source_endpoint
from pulsarscope.model.limits import (
    DUPLICATE_NANOSECONDS,
    OUT_OF_ORDER_MAX_BYTES,
    OUT_OF_ORDER_MAX_SEGMENTS,
    OVERLAP_WINDOW_BYTES,
    OVERLAP_WINDOW_PACKETS,
    RESET_WINDOW_BYTES,
    SEQUENCE_JUMP_MAX_BYTES,
)
from pulsarscope.tcp.delivered import DeliveredBytes
from pulsarscope.tcp.pieces import HOLE, SNAPLEN, Data, Gap, Item, Piece, Reason
from pulsarscope.tcp.reorder_buffer import BufferedPiece, Overlap, ReorderBuffer
from pulsarscope.tcp.sequence import SEQUENCE_MASK, sequence_difference
from pulsarscope.tcp.stream_findings import FindingCounts, Log, finding

if TYPE_CHECKING:
    from pulsarscope.capture import Segment

FIN = 0x01
SYN = 0x02
RST = 0x04
ACK = 0x10
CONTROL_FLAGS = FIN | SYN | RST

UNKNOWN = -1
"""No sequence number, no offset."""

_UNTOUCHED: list[Item] = []
_NO_LOG: Log = []
# Stand-ins between blocks, never appended to: lists of their own would cost memory, and the garbage collector time.


class ClosedWindow(msgspec.Struct, gc=False):
    """How often a receiver closed its window: where first, since when (UNKNOWN: it is open), and how long in all (ns)."""

    first: tuple[int, int, int]
    count: int = 0
    since: int = UNKNOWN
    closed: int = 0


class Stream(msgspec.Struct, gc=False, eq=False):
    """One direction of a connection."""

    key: bytes
    """Flow key of its segments."""
    index: int
    """Position in the connection's `streams`: 0 is the sender of the first packet."""
    items: list[Item] = msgspec.field(default_factory=lambda: _UNTOUCHED)
    """Where this block's runs and gaps go."""
    log: Log = msgspec.field(default_factory=lambda: _NO_LOG)
    """Where this block's findings go."""
    sequence: int = UNKNOWN
    """Sequence number of the next byte; UNKNOWN until a SYN or a byte was seen."""
    length: int = 0
    """Bytes so far, gaps included: the offset of the next byte."""
    missing: int = 0
    """Bytes of all gaps."""
    segments: int = 0
    """Segments with data."""
    retransmitted: int = 0
    """Segments with data that brought no new byte."""
    out_of_order: int = 0
    """Segments that arrived beyond a hole."""
    ignored: int = 0
    """Segments with data after the end of the stream or of the connection, and resets that were not believed."""
    ignored_bytes: int = 0
    """Bytes of the segments after the end of the connection."""
    copies: int = 0
    """Those of the retransmitted ones that came so soon that they were captured twice, if there are many."""
    snapped: int = 0
    """Gaps that are the snap length's doing."""
    snapped_bytes: int = 0
    """Bytes of those."""
    gapped: bool = False
    """A gap was declared."""
    handshake: bool = False
    """Its SYN was seen."""
    second_answer: int = UNKNOWN
    """First sequence number by another SYN|ACK to the same SYN, which the client may have taken instead."""
    shut: bool = False
    """The window that its sender announces is closed."""
    fin: int = UNKNOWN
    """Offset at which it ends, once a FIN was seen."""
    waiting: ReorderBuffer | None = None
    window: ClosedWindow | None = None
    finding_counts: FindingCounts | None = None
    generation: int = 0
    """Number of the last block that left something in `kept`."""
    kept: tuple[Item, ...] = ()
    """Recently delivered runs, see `pulsarscope.tcp.delivered`."""
    recent: DeliveredBytes | None = None

    @property
    def source(self) -> str:
        """Endpoint of the sender."""
        return source_endpoint(self.key)

    @property
    def ended(self) -> bool:
        """All bytes up to the FIN are delivered."""
        return self.fin == self.length

    def first_sequence(self) -> int:
        """Sequence number of offset 0, UNKNOWN when there is none."""
        return UNKNOWN if self.sequence == UNKNOWN else (self.sequence - self.length) & SEQUENCE_MASK

    def touch(self, items: list[Item], log: Log) -> None:
        """A block that has something for this stream begins."""
        self.items = items
        self.log = log

    def release(self, generation: int, file: int, packet: int, *, keep: bool) -> bool:
        """The block has ended at `packet` of `file`; true when something is kept for comparison."""
        items = self.items
        self.recent = None
        self.items = _UNTOUCHED
        self.log = _NO_LOG
        if not items or not keep:
            return False
        floor = self.length - OVERLAP_WINDOW_BYTES
        oldest = packet - OVERLAP_WINDOW_PACKETS
        kept = [*self.kept, *items]
        first = len(kept)
        while first and kept[first - 1].offset > floor:
            first -= 1
        self.kept = tuple(
            item for item in kept[max(first - 1, 0) :] if type(item) is Data and item.file == file and item.pieces[-1][3] >= oldest
        )
        self.generation = generation
        return bool(self.kept)

    def forget(self, generation: int) -> None:
        """What was kept for comparison is too old, unless a later block added to it."""
        if self.generation == generation:
            self.kept = ()

    def deliver(self, file: int, pieces: list[Piece], size: int) -> None:
        """Hand on the next bytes."""
        items = self.items
        if items and type(last := items[-1]) is Data and last.file == file:
            last.pieces += pieces
        else:
            items.append(Data(file, self.length, pieces))
        self.length += size
        self.sequence = (self.sequence + size) & SEQUENCE_MASK

    def receive(self, segment: Segment, file: int) -> None:
        """Take one segment, whatever it is, except a RST."""
        packet, time, seq, _, flags, window, payload, cut = segment
        size = len(payload)
        if window and not (size or cut or self.shut or flags & CONTROL_FLAGS):
            return
        if (not window or self.shut) and not flags & SYN:
            self._watch_window(window, (file, packet, time))
        if not (size or cut or flags & FIN):
            return
        if flags & SYN:
            seq = (seq + 1) & SEQUENCE_MASK
        if self.sequence == UNKNOWN or (seq == self.second_answer and not self.length and self.waiting is None):
            self.sequence = seq
        distance = sequence_difference(self.sequence, seq)
        start = self.length + distance
        if start == self._keep_alive_offset() and size <= 1 and not cut and not flags & FIN:
            return
        if size or cut:
            self.segments += 1
        if abs(distance) > SEQUENCE_JUMP_MAX_BYTES:
            self._say_jump(distance, size, (file, packet, time))
            return
        if flags & FIN and self.fin == UNKNOWN and start + size + cut >= self.length:
            self.fin = start + size + cut
            if self.waiting is not None:
                self.waiting.truncate(self.fin)
                self.waiting = self.waiting if len(self.waiting) else None
        if not (size or cut):
            return
        if self.fin != UNKNOWN and start + size + cut > self.fin:
            if start >= self.fin:
                self.ignored += 1
                return
            payload = payload[: self.fin - start]
            cut = max(0, self.fin - start - size)
        self._place(start, payload, cut, (file, packet, time))

    def receive_late(self, segment: Segment) -> None:
        """Count a segment that comes after the end of the connection."""
        _, _, seq, _, _, _, payload, cut = segment
        size = len(payload) + cut
        if size and self.sequence != UNKNOWN and sequence_difference(self.sequence, seq) + size <= 0:
            self.retransmitted += 1
        elif size:
            self.ignored += 1
            self.ignored_bytes += size

    def _keep_alive_offset(self) -> int:
        """The offset of the last byte seen, which keep-alives repeat (RFC 9293 section 3.8.4); a garbage byte there says nothing."""
        return max(self.length, self.waiting.end if self.waiting is not None else 0) - 1

    def _place(self, start: int, payload: bytes, cut: int, where: tuple[int, int, int]) -> None:
        """Put the bytes at `start`, and the `cut` bytes behind them that the snap length cost, where they belong."""
        file, packet, time = where
        length = self.length
        end = start + len(payload)
        if start < length:
            copy_of = self._compare(start, payload[: length - start], where)
            if end + cut <= length:
                self._count_again(copy_of, time)
                return
            payload = payload[length - start :]
            cut = end + cut - max(end, length)
            start = length
            end = start + len(payload)
        if start == length and self.waiting is None:
            if payload:
                self.deliver(file, [(payload, packet, time, packet)], end - start)
            if cut:
                self._declare(end + cut, SNAPLEN, where)
            return
        if self.waiting is None:
            self.waiting = ReorderBuffer()
        fresh, copy_of = 0, None
        if payload:
            fresh, conflicts, copy_of = self.waiting.add(BufferedPiece(start, payload, file, packet, time))
            self._say_overlap(conflicts, where)
        if cut and self.waiting.add_cut(end, end + cut):
            fresh += cut
        if not fresh:
            self._count_again(copy_of, time)
        elif start > length:
            self.out_of_order += 1
        self._drain(where)
        while self._overfull():
            self._declare_hole(where)

    def _overfull(self) -> bool:
        waiting = self.waiting
        return waiting is not None and (waiting.size > OUT_OF_ORDER_MAX_BYTES or len(waiting) > OUT_OF_ORDER_MAX_SEGMENTS)

    def _declare_hole(self, where: tuple[int, int, int]) -> None:
        """Give up the oldest hole, and hand on what waited behind it."""
        if self.waiting is not None:
            first = self.waiting.first
            behind = None if first is None else (first.file, first.packet, first.time)
            self._declare(self.waiting.start, HOLE, where, behind)
            self._drain(where)

    def _drain(self, where: tuple[int, int, int]) -> None:
        """Hand on what waits at the next byte."""
        waiting = self.waiting
        if waiting is None:
            return
        file, packet, time = where
        while True:
            piece = waiting.take(self.length)
            if piece is not None:
                payload = piece.payload
                # Behind a gap a piece goes by its own packet, so that the moment of declaring changes no name.
                if self.gapped:
                    self.deliver(piece.file, [(payload, piece.packet, piece.time, packet)], len(payload))
                else:
                    self.deliver(file, [(payload, packet, time, packet)], len(payload))
            elif size := waiting.take_cut(self.length):
                self._declare(self.length + size, SNAPLEN, where)
            else:
                break
        if not len(waiting):
            self.waiting = None

    def _declare(self, end: int, reason: Reason, where: tuple[int, int, int], behind: tuple[int, int, int] | None = None) -> None:
        """The bytes up to `end` are not in the capture. The finding stands at the packet `behind` them, when there is one."""
        offset = self.length
        size = end - offset
        self.items.append(Gap(offset, size, where[1], reason))
        self.length = end
        self.sequence = (self.sequence + size) & SEQUENCE_MASK
        self.missing += size
        self.gapped = True
        if reason == SNAPLEN:
            self.snapped += 1
            self.snapped_bytes += size
            return
        text = f"{size} bytes at offset {offset} of the stream from {self.source} are not in the capture."
        evidence = {"direction": self.index, "offset": offset, "size": size, "reason": reason}
        self._say("stream-gap", size, text, evidence, where, behind)

    def flush(self, where: tuple[int, int, int]) -> None:
        """Declare the holes before everything that waits, and hand that on."""
        while self.waiting is not None:
            self._declare_hole(where)

    def end(self, where: tuple[int, int, int]) -> None:
        """No more packets: declare what is missing, say what was counted, free the buffers."""
        self.flush(where)
        if self.fin > self.length:
            self._declare(self.fin, HOLE, where)
        self._say_end(where)
        self.kept = ()
        self.finding_counts = None

    def _count_again(self, copy_of: int | None, time: int) -> None:
        """Count a segment that brought no new byte."""
        self.retransmitted += 1
        if copy_of is not None and abs(time - copy_of) <= DUPLICATE_NANOSECONDS:
            self.copies += 1

    def _compare(self, start: int, payload: bytes, where: tuple[int, int, int]) -> int | None:
        """Compare bytes that were delivered with what is still known of them; gives the time of what they copy."""
        if self.recent is None:
            self.recent = DeliveredBytes(self.kept, self.items)
        conflicts, copy_of = self.recent.compare(start, payload, self.length, where[0], where[1])
        self._say_overlap(conflicts, where)
        return copy_of

    def is_near(self, seq: int) -> bool:
        """Whether a sequence number lies near what was seen of the stream."""
        distance = sequence_difference(self.sequence, seq)
        ahead = max(self.waiting.end - self.length, 0) if self.waiting is not None else 0
        return -RESET_WINDOW_BYTES <= distance <= ahead + RESET_WINDOW_BYTES

    def _watch_window(self, window: int, where: tuple[int, int, int]) -> None:
        state = self.window
        if window:
            if state is not None and self.shut:
                state.closed += max(0, where[2] - state.since)
            self.shut = False
        elif not self.shut:
            if state is None:
                state = self.window = ClosedWindow(where)
            state.count += 1
            state.since = where[2]
            self.shut = True

    def _say(
        self,
        code: str,
        size: int,
        text: str,
        evidence: dict[str, Any],
        where: tuple[int, int, int],
        place: tuple[int, int, int] | None = None,
    ) -> None:
        if self.finding_counts is None:
            self.finding_counts = FindingCounts()
        self.finding_counts.say(self.log, code, size, text, evidence, where, place)

    def _say_jump(self, distance: int, size: int, where: tuple[int, int, int]) -> None:
        text = f"A segment from {self.source} lies {abs(distance)} bytes {'ahead of' if distance > 0 else 'behind'} its stream."
        self._say("sequence-jump", size, text, {"direction": self.index, "distance": distance, "size": size}, where)

    def _say_overlap(self, conflicts: list[Overlap], where: tuple[int, int, int]) -> None:
        for conflict in conflicts:
            size = sum(map(ne, conflict.first, conflict.second))
            text = (
                f"Packet {where[1]} brings {size} other bytes than packet {conflict.packet} "
                f"at offset {conflict.offset} of the stream from {self.source}."
            )
            evidence = {
                "direction": self.index,
                "offset": conflict.offset,
                "size": size,
                "first_file": conflict.file,
                "first_packet": conflict.packet,
                "first_sha256": sha256(conflict.first).hexdigest()[:16],
                "packet": where[1],
                "sha256": sha256(conflict.second).hexdigest()[:16],
            }
            self._say("overlap-conflict", size, text, evidence, where)

    def _say_end(self, where: tuple[int, int, int]) -> None:
        """What is said once, of the whole stream."""
        if self.finding_counts is not None:
            self.finding_counts.report_remaining(self.log, self.index, self.source, where)
        if self.snapped:
            text = f"{self.snapped_bytes} bytes of the stream from {self.source} were cut off by the snap length, in {self.snapped} places."
            evidence = {"direction": self.index, "count": self.snapped, "bytes": self.snapped_bytes, "reason": SNAPLEN}
            self.log.append((where[1], finding("stream-gap", text, evidence, where)))
        state = self.window
        if state is not None:
            if self.shut:
                state.closed += max(0, where[2] - state.since)
            text = f"{self.source} closed its receive window {state.count} times, for {state.closed} ns in all."
            evidence = {"direction": self.index, "count": state.count, "closed_ns": state.closed}
            self.log.append((where[1], finding("zero-window", text, evidence, state.first)))
