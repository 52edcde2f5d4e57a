"""One direction of a connection → frames with names. Knows lengths and positions, no commands; the dissector knows those.

In sync the splitter follows the length fields. Out of sync (a gap, a middle start, a length that cannot be) it looks for the next frame
by content and counts what it skips. Every answer depends only on the bytes and the packets they came in, never on how they were
handed over: a frame that had to wait for more bytes than its own carries the moment of those in `Frame.moment`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from pulsarscope.dissect.contract import Candidate, Dissector
from pulsarscope.dissect.foreign import FOREIGN_HEAD_BYTES, foreign_name, proxy_header
from pulsarscope.dissect.frame_limits import Limit, add_limit, least_limit, limit_at
from pulsarscope.dissect.frames import MALFORMED, NOWHERE, SKIPPED, TRUNCATED, Decoded, Frame, Note, Origin
from pulsarscope.model.limits import FRAME_HARD_MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pulsarscope.tcp.pieces import Piece

SCAN_WORK_BYTES = 8 << 20
"""Bytes of a stream that may be looked at to prove candidates where the framing is lost: one largest frame of the default bound."""

SCAN_WORK_FACTOR = 4
"""More of them, for each byte of the stream that is searched."""

SUB_WINDOW_PACKETS = 4096
"""Packets whose subs are remembered behind a gap: names go back only within a reordering window."""

_packet_of = itemgetter(1)


class Keep(NamedTuple):
    """Which bytes frames are to hold beside what they say: each costs a copy."""

    payload: bool = False
    raw: bool = False


class StreamSplitter:
    """Cuts one stream; feed it runs and gaps in order, then finish it."""

    __slots__ = (
        "_base",
        "_data",
        "_ends",
        "_expected",
        "_file",
        "_floor",
        "_gapped",
        "_keep",
        "_more",
        "_origin",
        "_packet",
        "_pieces",
        "_seen",
        "_skip_notes",
        "_skip_packets",
        "_skip_size",
        "_skip_start",
        "_start",
        "_stream",
        "_sub",
        "_sub_of",
        "_wake",
        "_work",
        "at_start",
        "cut",
        "direction",
        "dissector",
        "foreign",
        "frames",
        "limits",
        "proxy_source",
        "skipped",
        "synced",
        "tail",
    )

    def __init__(
        self,
        dissector: Dissector,
        keep: Keep,
        *,
        origin: Origin = NOWHERE,
        stream: int = 0,
        synced: bool = False,
        at_start: bool = True,
    ) -> None:
        self.dissector = dissector
        self._stream = stream
        self._origin = origin
        self.frames = 0
        """Whole frames given, malformed ones included."""
        self.skipped = 0
        self.cut = 0
        """Bytes of frame heads whose rest fell into a gap."""
        self.tail = 0
        self.proxy_source: str | None = None
        self.foreign: str | None = None
        self.synced = synced
        self.direction: str | None = None
        """Who sends this stream, once that is known: frames have it from then on, and no `stream`."""
        self.limits: list[Limit] = [(0, dissector.framing.largest)]
        """Largest frames, each from a moment on; the last one is the newest."""
        self._keep = keep
        self.at_start = at_start
        """Nothing of it was dealt with, and the capture holds the handshake before it."""
        self._data = b""
        self._more: list[bytes] = []  # bytes behind _data that are not enough to go on with: joined once, when they are
        self._wake = 0  # stream offset up to which bytes must be there to go on
        self._base = 0  # stream offset of _data[0]
        self._pieces: list[Piece] = []  # those that hold _data
        self._ends: list[int] = []  # stream offset after each of them
        self._file = 0
        self._gapped = False  # frames are named by their own packets
        self._floor = 0  # earliest moment of the next frame
        self._sub_of: dict[int, int] = {}
        self._packet = -1
        self._sub = 0
        self._skip_start = -1  # where the current run of skipped bytes began
        self._skip_size = 0
        self._skip_packets: tuple[int, int, int] = (0, 0, 0)  # packet, time, moment of its last byte so far
        self._skip_notes: list[Note] = []
        self._start = 0  # where the protocol begins: behind a PROXY protocol header
        self._expected = -1  # where a frame must begin, when the length of a cut one tells
        self._work = 0  # what proving candidates has cost
        self._seen = 0  # stream offset after the last byte looked at for that

    # ---- what the conversation calls

    def trust(self, moment: int, out: list[Frame]) -> None:
        """The other direction has proven the protocol at `moment`: a stream seen from its start is in sync."""
        if self.at_start and not self.synced and self._skip_start < 0:
            self.synced = True
            self._floor = max(self._floor, moment)
            if self._ends:
                self._consume(out, at_end=False)

    @property
    def max_frame(self) -> int:
        """Bytes that a frame may have, as last announced."""
        return self.limits[-1][1]

    def waits(self) -> int:
        """Bytes held."""
        return self._ends[-1] - self._base if self._ends else 0

    def feed(self, file: int, offset: int, pieces: Sequence[Piece], out: list[Frame]) -> None:
        """The next bytes of the stream, from `offset` on."""
        if file != self._file:
            self._file = file
            self._sub_of.clear()
            self._packet = -1
            self._floor = 0
            self.limits = [(0, self.limits[-1][1])]
            self._pieces = [(piece[0], 0, piece[2], 0) for piece in self._pieces]  # any packet of this file is later
        if not self._ends:
            self._base = offset
        payloads = [piece[0] for piece in pieces]
        ends = list(accumulate(map(len, payloads), initial=offset))
        del ends[0]
        self._more += payloads
        self._pieces += pieces
        self._ends += ends
        if ends[-1] >= self._wake:
            self._consume(out, at_end=False)

    def gap(self, offset: int, size: int, moment: int, out: list[Frame]) -> None:
        """`size` bytes from `offset` on are not in the capture."""
        self._floor = max(self._floor, moment)  # what is given only because no more bytes follow
        self._consume(out, at_end=True)
        self._end_of_bytes(moment, out, tail=False)
        if self._expected < offset + size:
            self._expected = -1
        self._data = b""
        self._pieces = []
        self._ends = []
        self._base = offset + size
        if not self._gapped:
            self._gapped = True
            self._sub_of = {self._packet: self._sub}
        self.at_start = False
        self.synced = False

    def finish(self, moment: int, out: list[Frame]) -> None:
        """No more bytes will come."""
        if not self._ends and self._skip_start < 0:
            return
        self._floor = max(self._floor, moment)
        self._consume(out, at_end=True)
        self._end_of_bytes(moment, out, tail=True)

    # ---- in sync

    def _consume(self, out: list[Frame], *, at_end: bool) -> None:
        if self._more:
            # A single piece is not copied.
            self._data = b"".join((self._data, *self._more) if self._data else self._more)
            self._more = []
        self._wake = 0
        position = 0
        if self.at_start and not self._base and not self._start:
            position = self._proxy(out, at_end=at_end)
            if position < 0:
                return
        lost = -1
        while True:
            if self.synced:
                position = lost = self._split(position, out, at_end=at_end)
            if self.synced:
                break
            position = self._search(position, out, lost, at_end=at_end)
            if not self.synced:
                break
        if position:
            self._drop(position)

    def _drop(self, position: int) -> None:
        """Forget what has been dealt with; one copy of what is left, once per feed."""
        self._base += position
        if position == len(self._data):
            self._data = b""
            self._pieces = []
            self._ends = []
            return
        self._data = self._data[position:]
        first = bisect_right(self._ends, self._base)
        if first:
            del self._pieces[:first], self._ends[:first]

    def _split(self, position: int, out: list[Frame], *, at_end: bool) -> int:
        """Frames from `position` on while their lengths can be; returns the position of the first byte not dealt with."""
        dissector = self.dissector
        decode = dissector.decode
        framing = dissector.framing
        unpack = framing.length.unpack_from
        length_bytes, length_adds = framing.length.size, framing.adds
        smallest, largest = framing.smallest, least_limit(self.limits)
        data, base, file = self._data, self._base, self._file
        pieces, ends = self._pieces, self._ends
        keep_payload, keep_raw = self._keep
        layout_of, head_start, head_end = dissector.layouts.get, *dissector.layout_head
        announcing, announces = dissector.announcing, False
        available = len(data)
        last_packet, sub = self._packet, self._sub
        gapped, direction = self._gapped, self.direction
        stream = self._stream if direction is None else 0
        source, connection, protocol = self._origin
        packet = time = moment = first = 0
        index = piece_end = -1
        floor = self._floor
        append = out.append
        before = len(out)
        while available - position >= length_bytes:
            size = unpack(data, position)[0] + length_adds
            end = position + size
            if size < smallest or (size > largest and size > self._limit_at(position)):
                self._seen = max(self._seen, base + position + length_bytes)
                self._lose_sync(size, self._limit_at(position))
                break
            if end > available:
                self._wake = base + end
                break
            # Most frames are laid out as one before: they are read at once, and neither are malformed nor announce anything.
            layout = layout_of(data[position + head_start : position + head_end])
            decoded = None if layout is None else layout(data, position, end)
            if decoded is None:
                decoded = decode(data, position, end)
                if decoded[0] is None and decoded[6] == MALFORMED:
                    if not self._length_holds(end, at_end=at_end):
                        if not self.synced:  # else it is not known yet: wait for the bytes that tell
                            self._skip_notes.append(("frame-malformed", decoded[7][0][1] if decoded[7] else "the command did not decode"))
                        break
                    floor = self._floor  # later bytes were looked at: this frame and all behind it were readable no sooner
                    moment = max(moment, floor)
                announces = decoded[0] in announcing
            command, fields, entry, checksum, metadata, payload_offset, status, notes = decoded
            # Its name: that of the piece with its last byte, looked for only when the frame goes beyond the one before's.
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
                    last_packet = packet
                    sub = 0
            if gapped:
                while ends[first] <= base + position:
                    first += 1
                _, packet, time, _ = max(pieces[first : index + 1], key=_packet_of)
                sub = self._next_sub(packet)
            else:
                sub += 1
            payload_size = payload = None
            if payload_offset is not None:
                payload_size = size - payload_offset
                if keep_payload:
                    payload = data[position + payload_offset : end]
            # fmt: off
            append(Frame(
                source, file, packet, sub, time, connection, protocol, direction, base + position, size, command, fields, entry, checksum,
                metadata, payload_size, None, None, None, None, None, None, status, None, None, moment, stream, notes, payload,
                data[position:end] if keep_raw else None,
            ))
            # fmt: on
            if announces:
                self._announce(fields, moment)
                largest = least_limit(self.limits)
                announces = False
            position = end
        self._packet, self._sub = last_packet, sub
        count = len(out) - before
        self.frames += count
        if count:
            self.at_start = False
        return position

    def _announce(self, fields: dict[str, Any] | None, moment: int) -> None:
        announced = self.dissector.max_frame_size(fields or {})
        if announced is not None:
            add_limit(self.limits, moment, max(self.dissector.framing.smallest, min(announced, FRAME_HARD_MAX_BYTES)))

    def _limit_at(self, position: int) -> int:
        """The largest frame that may begin at a position: what was announced before the moment of its first byte."""
        index = min(bisect_right(self._ends, self._base + position), len(self._pieces) - 1)
        moment = self._pieces[index][3]
        return limit_at(self.limits, moment)

    def _size_at(self, position: int) -> int:
        """The size of a frame that begins at a position, as its length field says."""
        framing = self.dissector.framing
        length: int = framing.length.unpack_from(self._data, position)[0]
        return length + framing.adds

    def _next_sub(self, packet: int) -> int:
        """The sub of a frame behind a gap, where names may go back to earlier packets."""
        sub = self._sub_of.get(packet, 0) + 1
        self._sub_of[packet] = sub
        if len(self._sub_of) > SUB_WINDOW_PACKETS:
            del self._sub_of[next(iter(self._sub_of))]
        return sub

    def _length_holds(self, end: int, *, at_end: bool) -> bool:
        """Whether what follows a frame that did not decode looks like a frame, so that its length can be believed."""
        available = len(self._data)
        if available - end < self.dissector.framing.smallest:
            self._wake = self._base + end + self.dissector.framing.smallest
            if at_end and end != available:
                self.synced = False
            return at_end and end == available
        follow = self.dissector.recognise(self._data, end, available, SCAN_WORK_BYTES, checksums=False)
        if follow is not None and follow.proof == "wait" and not at_end:
            self._wake = self._base + follow.seen
            return False
        self._look(end, follow)
        if follow is None or follow.proof == "no" or not self.dissector.framing.smallest <= self._size_at(end) <= self._limit_at(end):
            self.synced = False
            return False
        self._prove(follow.seen)
        return True

    def _lose_sync(self, size: int, largest: int) -> None:
        self.synced = False
        if size > largest:
            self._skip_notes.append(("frame-too-large", f"a frame of {size} bytes is announced, the limit is {largest}"))
        else:
            self._skip_notes.append(("frame-malformed", f"a frame of {size} bytes cannot be"))

    # ---- out of sync

    def _proxy(self, out: list[Frame], *, at_end: bool) -> int:
        """Skip a PROXY protocol header at the start of the stream; the position behind it, −1 when it is not all there yet."""
        header = proxy_header(self._data)
        if header is None:
            return 0
        if header.size == 0:
            return 0 if at_end else -1
        self.proxy_source = header.source
        self._start = header.size
        self._skip(0, header.size)
        self._end_skip(out, None)
        return header.size

    def _search(self, position: int, out: list[Frame], lost: int, *, at_end: bool) -> int:
        """Skip to the next frame; sets `synced` when one is found. Returns the position from which bytes are still needed.

        No frame begins at `lost`, where the framing was lost, even if the dissector takes for one there what it cannot decode.
        """
        if self.at_start and self._base + position == self._start:
            if self.dissector.opens(self._data, position, len(self._data)):
                self.synced = True
                return position
            if self.foreign is None and len(self._data) >= position + FOREIGN_HEAD_BYTES:
                self.foreign = foreign_name(self._data[position : position + FOREIGN_HEAD_BYTES])
        found, needed = self._find(position, at_end=at_end)
        if 0 <= found == lost:
            self._skip(position, found + 1)
            return self._search(found + 1, out, -1, at_end=at_end)
        if found >= 0:
            if found > position:
                self._skip(position, found)
            if self._skip_start >= 0:
                self._end_skip(out)
            self.synced = True
            self._expected = -1
            return found
        if needed > position:
            self._skip(position, needed)
        return needed

    def _find(self, position: int, *, at_end: bool) -> tuple[int, int]:
        """(position of the next proven frame, or −1; position from which bytes are needed to go on)."""
        data, dissector = self._data, self.dissector
        available = len(data)
        if self._expected >= 0:
            expected = self._expected - self._base
            if expected >= available:
                return -1, available
            if expected >= position:
                position = expected
                only = dissector.recognise(data, position, available, SCAN_WORK_BYTES, checksums=False)
                if only is not None and only.proof == "wait" and not at_end:
                    self._wake = self._base + only.seen
                    return -1, position
                if only is not None and only.proof in ("sure", "likely") and only.size <= self._limit_at(position):
                    self._prove(only.seen)
                    return position, position
                self._look(position, only)
            self._expected = -1
        start = position
        while True:
            start = dissector.find_candidate(data, start, available)
            if start < 0:
                return -1, available if at_end else max(position, available - dissector.framing.lookahead + 1)
            if self._size_at(start) > self._limit_at(start):
                self._look(start, None)  # the length alone tells: how much of the command is there must not matter
                start += 1
                continue
            # How much may be spent on proofs depends on the stream alone: hostile bytes can hold a candidate every ten.
            budget = SCAN_WORK_FACTOR * (self.skipped + start - position) + SCAN_WORK_BYTES - self._work
            first = dissector.recognise(data, start, available, budget, checksums=True)
            if first is None or first.proof == "no":
                self._look(start, first)
                start += 1
            elif first.proof == "wait":
                if not at_end:
                    self._wake = self._base + first.seen
                    return -1, start
                start += 1
            else:
                second = start + first.size
                follow = None
                if first.proof == "likely" and second < available:
                    follow = dissector.recognise(data, second, available, budget, checksums=False)
                if first.proof == "likely" and not at_end and (second >= available or (follow is not None and follow.proof == "wait")):
                    self._wake = self._base + (second + dissector.framing.lookahead if follow is None else follow.seen)
                    return -1, start
                self._look(start, first)
                if first.proof == "sure" or second == available:  # or the stream ends exactly where the frame does
                    self._prove(first.seen)
                    return start, start
                if second < available:
                    self._look(second, follow)
                if follow is not None and follow.proof != "no" and 0 < follow.size <= self._limit_at(second):
                    self._prove(follow.seen)
                    return start, start
                start += 1

    def _look(self, position: int, candidate: Candidate | None) -> None:
        """Account for what was looked at to decide about a candidate."""
        seen = position + self.dissector.framing.lookahead
        if candidate is not None:
            self._work += candidate.cost
            seen = candidate.seen
        # At the end of the stream a candidate may ask for more bytes than there are: those were not looked at.
        self._seen = max(self._seen, self._base + min(seen, len(self._data)))

    def _prove(self, seen: int) -> None:
        """Frames found here were readable no sooner than the byte before position `seen` was, and all that was looked at before."""
        offset = max(self._base + seen, self._seen)
        index = min(bisect_right(self._ends, offset - 1), len(self._pieces) - 1)
        self._floor = max(self._floor, self._pieces[index][3])

    def _skip(self, start: int, end: int) -> None:
        """The bytes from position `start` to `end` are not framed."""
        if self._skip_start < 0:
            self._skip_start = self._base + start
        first = min(bisect_right(self._ends, self._base + start), len(self._pieces) - 1)
        last = min(bisect_right(self._ends, self._base + end - 1), len(self._pieces) - 1)
        for piece in self._pieces[first : last + 1] if self._gapped else (self._pieces[last],):
            if piece[1] >= self._skip_packets[0]:
                self._skip_packets = (piece[1], piece[2], piece[3])
        self.skipped += end - start
        self._skip_size += end - start

    def _end_skip(self, out: list[Frame], code: str | None = "bytes-skipped") -> None:
        """Give the row of a run of skipped bytes, which ends with the last byte skipped."""
        packet, time, moment = self._skip_packets
        notes = self._skip_notes
        if code is not None:
            notes.append((code, f"{self._skip_size} bytes at stream offset {self._skip_start} are not framed"))
        self._give_rest(out, packet, time, max(moment, self._floor), self._skip_start, self._skip_size, SKIPPED, notes)
        self._skip_start = -1
        self._skip_size = 0
        self._skip_packets = (0, 0, 0)
        self._skip_notes = []

    # ---- the end

    def _end_of_bytes(self, moment: int, out: list[Frame], *, tail: bool) -> None:
        """Bytes that no more will follow: a truncated frame in sync, skipped ones otherwise."""
        left = len(self._data)  # all of it: `_consume` comes before
        if left and self.synced:
            self._truncated(moment, out, tail=tail)
        elif left:
            self._skip(0, left)
        if self._skip_start >= 0:
            self._end_skip(out)
        self._data = b""

    def _truncated(self, moment: int, out: list[Frame], *, tail: bool) -> None:
        data, dissector = self._data, self.dissector
        left = len(data)
        decoded = dissector.decode_partial(data, 0, left)
        piece = max(self._pieces, key=_packet_of) if self._gapped else self._pieces[-1]
        need = None
        if left >= dissector.framing.length.size:
            need = self._size_at(0)
            self._expected = self._base + need
        text = f"{left} of {need if need is not None else 'at least ' + str(dissector.framing.smallest)} bytes are there"
        notes = [*(decoded[7] or ()), ("frame-truncated", text)]
        if tail:
            self.tail += left
        else:
            self.cut += left
        moment = max(moment, self._floor)
        self._give_rest(out, piece[1], piece[2], moment, self._base, left, TRUNCATED, notes, decoded)

    def _give_rest(
        self,
        out: list[Frame],
        packet: int,
        time: int,
        moment: int,
        offset: int,
        size: int,
        status: str,
        notes: list[Note],
        decoded: Decoded = (None, None, None, None, None, None, SKIPPED, None),
    ) -> None:
        """A row that is no whole frame."""
        command, fields, entry, checksum, metadata, payload_offset, _, _ = decoded
        if self._gapped:
            sub = self._next_sub(packet)
        else:
            self._sub = sub = self._sub + 1 if packet == self._packet else 1
            self._packet = packet
        payload_size = None if payload_offset is None else size - payload_offset
        keep_payload = self._keep.payload and payload_offset is not None
        start = offset - self._base
        source, connection, protocol = self._origin
        # fmt: off
        frame = Frame(
            source, self._file, packet, sub, time, connection, protocol, self.direction, offset, size, command, fields, entry, checksum,
            metadata, payload_size,
        )
        # fmt: on
        frame.status = status
        frame.moment = moment
        frame.stream = self._stream if self.direction is None else 0
        frame.notes = notes or None
        if keep_payload:
            frame.payload = self._data[start + (payload_offset or 0) : start + size]
        if self._keep.raw and status != SKIPPED:  # skipped bytes are let go as they come, and nobody knows what secrets they hold
            frame.raw = self._data[start : start + size]
        out.append(frame)
