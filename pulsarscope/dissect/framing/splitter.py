"""One direction of a connection → frames with names. It knows lengths and positions; the dissector knows the commands.

In sync, the splitter follows the length fields. Out of sync (after a gap, a start in the middle, an impossible length), it searches for the
next frame by content and counts the bytes that it skips. Every result depends only on the bytes and their packets, never on how they were
fed: a frame that had to wait for bytes beyond its own gets the moment of those bytes.
"""

from __future__ import annotations

from bisect import bisect_left
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from pulsarscope.dissect.contract.frames import (
    MALFORMED,
    NOWHERE,
    SKIPPED,
    TRUNCATED,
    Attachment,
    Decoded,
    FrameBatch,
    KeptBytes,
    Origin,
    StreamAccount,
)
from pulsarscope.dissect.framing.foreign import FOREIGN_HEAD_BYTES, foreign_name, lost_framing, proxy_header
from pulsarscope.dissect.framing.frame_limits import Limits, add_limit, initial_limits, least_limit
from pulsarscope.dissect.framing.frame_search import FrameSearch
from pulsarscope.dissect.framing.stream_buffer import StreamBuffer, next_sub
from pulsarscope.dissect.plugins.isolation import Failure, failure, raising_function
from pulsarscope.model.limits import FRAME_HARD_MAX_BYTES
from pulsarscope.model.records import FrameRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pulsarscope.dissect.contract.dissector import Dissector
    from pulsarscope.dissect.framing.skipped_run import SkippedRun
    from pulsarscope.tcp.pieces import Data, Gap, Piece

_packet_of = itemgetter(1)


class StreamSplitter:
    """Cuts one stream; feed it pieces and gaps in order, then finish it."""

    # fmt: off
    __slots__ = (
        "_buffer", "_cut", "_has_gap", "_kept", "_packet", "_position", "_proxy_source", "_searching",
        "_start", "_stream", "_sub", "_sub_of", "_tail", "at_start", "direction",
        "dissector", "failure", "foreign", "frames", "origin", "skipped", "synced",
    )
    # fmt: on

    def __init__(
        self,
        dissector: Dissector,
        kept: KeptBytes,
        *,
        origin: Origin = NOWHERE,
        stream: int = 0,
        synced: bool = False,
        at_start: bool = True,
    ) -> None:
        self.dissector = dissector
        self._stream = stream
        self.origin = origin
        self._kept = kept
        self.frames = 0
        """Whole frames so far, malformed ones included."""
        self.skipped = 0
        """Bytes so far that are not framed."""
        self._cut = self._tail = 0
        self._proxy_source: str | None = None
        self.foreign: str | None = None
        """Name of another protocol that the first bytes show."""
        self.failure: Failure | None = None
        """Exception of the dissector, after which all bytes are skipped."""
        self.synced = synced
        """True when the next byte begins a frame."""
        self.direction: Any = None
        """Sender of this stream, once it is known; until then batches record the stream of each frame."""
        self.at_start = at_start
        """True while no frame was read, if the capture holds the handshake before the stream."""
        self._buffer = StreamBuffer(initial_limits(dissector.framing.largest))
        self._searching: FrameSearch | None = None
        self._position = 0  # of the first unprocessed byte in the buffer, in case the dissector raises
        self._start = 0  # offset at which the protocol begins: after a PROXY protocol header
        self._packet, self._sub = -1, 0  # packet of the latest name, and its sub
        self._has_gap = False  # after a gap, frames are named by their own packets
        self._sub_of: dict[int, int] | None = None  # latest sub by packet, while these packets are not in order

    @property
    def limits(self) -> Limits:
        """Limits on the size of frames, each valid from a moment on."""
        return self._buffer.limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        self._buffer.limits = limits

    @property
    def _search(self) -> FrameSearch:
        """The search for frames, made on first use: most streams never lose sync."""
        if self._searching is None:
            self._searching = FrameSearch(self.dissector, self._buffer)
        return self._searching

    @property
    def _skipped(self) -> SkippedRun | None:
        """The bytes skipped since the last frame; None or empty if there are none."""
        return None if self._searching is None else self._searching.skipped

    def trust(self, moment: int, out: FrameBatch) -> None:
        """Require less proof of a frame: the other stream has proven the protocol at `moment`. A stream seen from its start is in sync."""
        if self.synced or (self.at_start and self._skipped):
            return
        self.synced = self.at_start
        self._buffer.trusted = True
        self._buffer.raise_floor(moment)
        if self._buffer.ends:
            self._consume(out, at_end=False)

    def waits(self) -> int:
        """Return the number of bytes held."""
        return len(self._buffer)

    def account(self) -> StreamAccount:
        """Return the counts of the bytes seen so far."""
        return StreamAccount(self.frames, self.skipped, self._cut, self._tail, self._proxy_source)

    def feed(self, file: int, offset: int, pieces: Sequence[Piece], out: FrameBatch) -> None:
        """Take the next bytes of the stream, from `offset` on."""
        if file != self._buffer.file:
            self._buffer.enter(file)
            if (skipped := self._skipped) is not None:
                skipped.enter_file()
            self._sub_of = self._sub_of and {}
            self._packet = -1
            self.limits = ((0, self.limits[-1][1]),)
        if self._buffer.append(offset, pieces):
            self._consume(out, at_end=False)

    def gap(self, offset: int, size: int, moment: int, out: FrameBatch) -> None:
        """Continue after `size` bytes, from `offset` on, that are not in the capture."""
        if moment < self._buffer.floor:  # given up at a packet of a later file, in which moments start over
            self._buffer.enter(self._buffer.file)
        self._buffer.raise_floor(moment)  # of frames that are complete only because no more bytes follow
        self._buffer.wake = 0
        if self._buffer.ends or self._sub_of is not None:
            self._consume(out, at_end=True)
        self._end_of_bytes(moment, out, tail=False)
        if self._search.expected < offset + size:
            self._search.expected = -1
        self._buffer.clear(offset + size)
        self._has_gap = True
        self.at_start = self.synced = self._buffer.trusted = False

    def feed_cut(self, data: Data, gap: Gap, out: FrameBatch) -> None:
        """Take one piece and the gap behind it, both of one packet: as `feed` and `gap`, without a look at the bytes in between."""
        buffer, search, (payload, packet, _, moment) = self._buffer, self._searching, data.pieces[0]
        rest = search is not None and search.expected >= data.offset + len(payload)
        if data.file != buffer.file or moment < buffer.floor:
            self.feed(data.file, data.offset, data.pieces, out)
        elif self.synced or buffer.ends or self.failure or packet < self._packet or self._sub_of is not None or not rest:
            buffer.append(data.offset, data.pieces)
        else:  # all of it belongs to a cut frame
            self._search.skipped.add(data.offset, len(payload), data.pieces)
            self.skipped += len(payload)
        self.gap(gap.offset, gap.size, gap.moment, out)

    def let_go(self, moment: int, out: FrameBatch) -> None:
        """Continue as if a gap followed the bytes so far: the rest of a frame is skipped."""
        self.gap(self._buffer.base + len(self._buffer), 0, moment, out)

    def finish(self, moment: int, out: FrameBatch, *, is_short: bool = False) -> None:
        """End the stream; `is_short` means that the capture, or the receiver, ended before the sender did."""
        if not (self._buffer.ends or self._skipped):
            return
        self._buffer.raise_floor(moment)
        self._consume(out, at_end=True)
        self._end_of_bytes(moment, out, tail=True, code="frame-unfinished" if is_short else "frame-truncated")

    def _consume(self, out: FrameBatch, *, at_end: bool) -> None:
        buffer = self._buffer
        buffer.join()
        if self._has_gap:
            self._follow_packets()
        position = 0
        if self.failure is None:
            try:
                position = self._read(out, at_end=at_end)
            except Exception as error:  # noqa: BLE001 - other people's code
                self._fail(error)
                position = self._position
        if self.failure is not None and buffer.data:
            self._skip(position, position := len(buffer.data))
        buffer.drop(position)

    def _follow_packets(self) -> None:
        """After a gap, note whether the packets of the next bytes are in order: if so, a frame has the name that its last byte gives it."""
        if self._sub_of is None:
            if not self._buffer.ascends_from(self._packet):
                self._sub_of = {self._packet: self._sub}
        elif self._buffer.ascends_from(latest := max(self._sub_of, default=-1)):
            self._packet, self._sub = latest, self._sub_of.get(latest, 0)
            self._sub_of = None

    def _fail(self, error: Exception) -> None:
        """Stop reading the stream, because the dissector raised."""
        self.failure = failure(self.dissector, raising_function(error, "decode"), error)
        self.synced = self.at_start = False

    def _read(self, out: FrameBatch, *, at_end: bool) -> int:
        """Read the available bytes; return the position of the first unprocessed one."""
        position = self._position = 0
        if self.at_start and not self._buffer.base and not self._start and (position := self._proxy(out, at_end=at_end)) < 0:
            return 0
        lost = -1
        while True:
            if self.synced:
                position = lost = self._split(position, out, at_end=at_end)
            if self.synced:
                break
            position = self._resync(position, out, lost, at_end=at_end)
            if not self.synced:
                break
        return position

    def _split(self, position: int, out: FrameBatch, *, at_end: bool, single: bool = False) -> int:
        """Read frames from `position` on, or a `single` one; return the position of the first unprocessed byte."""
        dissector, buffer, attachments = self.dissector, self._buffer, out.attachments
        decode, unpack = dissector.decode, dissector.framing.length.unpack_from
        sizing, length_adds = dissector.framing.sizing, dissector.framing.adds
        smallest, largest = dissector.framing.smallest, least_limit(self.limits)
        layout_of, (head_start, head_end) = ({} if single else dissector.layouts).get, dissector.layout_head
        announcing, special = dissector.announcing, False
        data, base, file, pieces, ends = buffer.data, buffer.base, buffer.file, buffer.pieces, buffer.ends
        (source, connection, protocol), direction = self.origin, self.direction
        keep_payload, keep_raw = self._kept.payload, self._kept.raw
        available, before = len(data), len(out.rows)
        subs, last_packet, sub, floor = self._sub_of, self._packet, self._sub, buffer.floor
        packet = time = moment = 0
        index = piece_end = -1
        rows, append, append_moment = out.rows, out.rows.append, out.moments.append
        try:
            while available - position >= sizing:
                size = unpack(data, position)[0] + length_adds
                end = position + size
                if size < smallest or (size > largest and size > self._search.limit_at(position)):
                    self._lose_sync(position, size)
                    break
                if end > available:
                    buffer.wake = base + end
                    break
                # Most frames have the layout of an earlier one: they are read at once, are not malformed, and announce nothing.
                layout = layout_of(data[position + head_start : position + head_end])
                decoded = None if layout is None else layout(data, position, end)
                if decoded is None:
                    decoded = decode(data, position, end)
                    if decoded[0] is None and decoded[6] == MALFORMED:
                        if not self._believe(end, decoded, at_end=at_end):
                            break
                        floor = buffer.floor  # later bytes were examined: this frame and all after it become readable no sooner
                        moment = max(moment, floor)
                    special = single or decoded[0] in announcing
                command, fields, entry, checksum, metadata, payload_offset, status, notes = decoded
                # A frame is named by the piece with its last byte, which is looked up only if the frame extends beyond the previous piece.
                stop = base + end
                if stop > piece_end:
                    index += 1
                    if ends[index] < stop:
                        index = bisect_left(ends, stop, index + 1)
                    piece_end = ends[index]
                    _, packet, time, moment = pieces[index]
                    if moment < floor:  # noqa: PLR1730 - a call of max costs more than the rest of the name
                        moment = floor
                    if packet != last_packet:
                        last_packet, sub = packet, 0
                if subs is not None:
                    _, packet, time, _ = buffer.latest(base + position, stop)
                    sub = next_sub(subs, packet)
                else:
                    sub += 1
                payload = None if payload_offset is None or not keep_payload else data[position + payload_offset : end]
                if notes is not None or payload is not None or keep_raw:
                    attachments[len(rows)] = Attachment(notes, payload, data[position:end] if keep_raw else None)
                # fmt: off
                append(FrameRow(
                    source, file, packet, sub, time, connection, protocol, direction, base + position, size, command, fields, entry,
                    checksum, metadata, None if payload_offset is None else size - payload_offset, None, None, None, None, None, None,
                    status,
                ))
                # fmt: on
                append_moment(moment)
                position = end
                if special:
                    if command in announcing:
                        self._announce(fields, moment)
                        largest = least_limit(self.limits)
                    if single:
                        break
                    special = False
        finally:  # frames before one on which the dissector raises are whole
            self._packet, self._sub, self._position = last_packet, sub, position
            self._count(len(out.rows) - before, out)
        return position

    def _count(self, count: int, out: FrameBatch) -> None:
        """Count the last `count` frames of a batch."""
        self.frames += count
        if count:
            self.at_start = False
            if self.direction is None:
                out.streams += [self._stream] * count

    def _announce(self, fields: dict[str, Any] | None, moment: int) -> None:
        announced = self.dissector.max_frame_size(fields or {})
        if announced is not None:
            self.limits = add_limit(self.limits, moment, max(self.dissector.framing.smallest, min(announced, FRAME_HARD_MAX_BYTES)))

    def _believe(self, end: int, decoded: Decoded, *, at_end: bool) -> bool:
        """Return True when the length of a frame that did not decode can be trusted; stay in sync if later bytes will decide."""
        confirmed = self._search.confirm(end, at_end=at_end)
        if confirmed is False:
            self.synced = False
            self._search.skipped.note("frame-malformed", decoded[7][0][1] if decoded[7] else "the command did not decode")
        return confirmed is True

    def _lose_sync(self, position: int, size: int) -> None:
        """Lose sync: no frame of this size can begin at a position."""
        self._search.note_seen(position + self.dissector.framing.sizing)
        self.synced = False
        self._search.skipped.note(*lost_framing(bytes(self._buffer.data[position : position + 4]), size, self._search.limit_at(position)))

    # ---- out of sync

    def _proxy(self, out: FrameBatch, *, at_end: bool) -> int:
        """Skip a PROXY protocol header at the start of the stream; return the position after it, or -1 while it is incomplete."""
        header = proxy_header(self._buffer.data)
        if header is None or header.size == 0:
            return 0 if header is None or at_end else -1
        self._proxy_source = header.source
        self._start = header.size
        self._skip(0, header.size)
        self._end_skip(out, None)
        return header.size

    def _resync(self, position: int, out: FrameBatch, lost: int, *, at_end: bool) -> int:
        """Skip to the next frame, and be in sync there; return the position from which bytes are still needed.

        No frame begins at `lost`, where the framing was lost, even if the dissector recognises one there that it cannot decode.
        """
        data = self._buffer.data
        self._position = position
        if self.at_start and self._buffer.base + position == self._start:
            if position != lost and self.dissector.opens(data, position, len(data)):
                self.synced = True
                return position
            if self.foreign is None and len(data) >= position + FOREIGN_HEAD_BYTES:
                self.foreign = foreign_name(data[position : position + FOREIGN_HEAD_BYTES])
                if self.foreign is not None and position != lost:
                    self._lose_sync(position, 4 + int.from_bytes(data[position : position + 4], "big"))
        start, needed = self._search.find(position, self.skipped, at_end=at_end)
        if 0 <= start == lost:
            self._skip(position, start + 1)
            return self._resync(start + 1, out, -1, at_end=at_end)
        if start >= 0:
            if start > position:
                self._skip(position, start)
            if self._skipped:
                self._end_skip(out)
            self.synced = True
            self._search.expected = -1
            return start
        if needed > position:
            self._skip(position, needed)
        return needed

    def _skip(self, start: int, end: int) -> None:
        """Count the bytes from position `start` to `end` as not framed."""
        buffer = self._buffer
        last = buffer.piece_at(buffer.base + end - 1)
        first = last if self._sub_of is None else buffer.piece_at(buffer.base + start)
        self._search.skipped.add(buffer.base + start, end - start, buffer.pieces[first : last + 1])
        self.skipped += end - start
        self._position = end

    def _end_skip(self, out: FrameBatch, code: str | None = "bytes-skipped") -> None:
        """Append the row of a run of skipped bytes, which ends with the last byte skipped."""
        (packet, time, moment), start, size, skipped = self._search.skipped.end(code)
        self._append(out, (packet, time, max(moment, self._buffer.floor)), start, size, skipped)

    # ---- the end

    def _end_of_bytes(self, moment: int, out: FrameBatch, *, tail: bool, code: str = "frame-truncated") -> None:
        """Handle the last bytes: a truncated frame in sync, skipped bytes otherwise."""
        remaining = len(self._buffer.data)  # all of it: `_consume` comes before
        if remaining and self.synced:
            try:
                self._truncated(moment, out, code, tail=tail)
            except Exception as error:  # noqa: BLE001 - other people's code
                self._fail(error)
                self._skip(0, remaining)
        elif remaining:
            self._skip(0, remaining)
        if self._skipped:
            self._end_skip(out)
        self._buffer.clear(self._buffer.base + remaining)

    def _truncated(self, moment: int, out: FrameBatch, code: str, *, tail: bool) -> None:
        buffer, size = self._buffer, len(self._buffer.data)
        command, fields, entry, checksum, metadata, payload_offset, _, notes = self.dissector.decode_partial(buffer.data, 0, size)
        _, packet, time, _ = buffer.pieces[-1] if self._sub_of is None else max(buffer.pieces, key=_packet_of)
        text = f"only {size:,} of {self._search.expect_rest(size)} bytes are present"
        if tail:
            text += "; its sender ended the connection within it" if code == "frame-truncated" else ""
            self._tail += size
        else:
            self._cut += size
        decoded = command, fields, entry, checksum, metadata, payload_offset, TRUNCATED, [*(notes or ()), (code, text)]
        self._append(out, (packet, time, max(moment, buffer.floor)), buffer.base, size, decoded)

    def _append(self, out: FrameBatch, where: tuple[int, int, int], offset: int, size: int, decoded: Decoded) -> None:
        """Append a row that is not a whole frame; `where` is its packet, time and moment."""
        packet, time, moment = where
        command, fields, entry, checksum, metadata, payload_offset, status, notes = decoded
        if self._sub_of is not None:
            sub = next_sub(self._sub_of, packet)
        else:
            self._sub = sub = self._sub + 1 if packet == self._packet else 1
            self._packet = packet
        start = offset - self._buffer.base
        payload = raw = None
        if self._kept.payload and payload_offset is not None:
            payload = self._buffer.data[start + payload_offset : start + size]
        if self._kept.raw and status != SKIPPED:  # skipped bytes are released as they come, and may hold secrets
            raw = self._buffer.data[start : start + size]
        if notes or payload is not None or raw is not None:
            out.attachments[len(out.rows)] = Attachment(notes or None, payload, raw)
        source, connection, protocol = self.origin
        # fmt: off
        out.rows.append(FrameRow(
            source, self._buffer.file, packet, sub, time, connection, protocol, self.direction, offset, size, command, fields, entry,
            checksum, metadata, None if payload_offset is None else size - payload_offset, None, None, None, None, None, None, status,
        ))
        # fmt: on
        out.moments.append(moment)
        if self.direction is None:
            out.streams.append(self._stream)
