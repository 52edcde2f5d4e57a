"""The bytes of one stream that are not framed yet, and the packets that brought them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pulsarscope.dissect.framing.frame_limits import Limits
    from pulsarscope.tcp.pieces import Piece

_packet_of = itemgetter(1)

SUB_WINDOW_PACKETS = 4096
"""Packets whose subs are remembered after a gap: names go back only within a reordering window."""

HELD_TWICE_MAX_BYTES = 64 << 10
"""Bytes that may be held twice, joined and in their pieces. For fewer bytes, releasing the pieces is not worth the work."""

_NONE: Any = ()
"""No pieces. A list is made only when a piece arrives, because most of very many streams are idle."""


class StreamBuffer:
    """Bytes from stream offset `base` on. A position counts from the start of `data`, an offset from the start of the stream."""

    __slots__ = ("_more", "base", "begun", "data", "ends", "file", "floor", "limits", "pieces", "trusted", "wake")

    def __init__(self, limits: Limits) -> None:
        self.data = b""
        self.base = 0
        self.begun = 0
        """Offset at which the first piece begins, if any: at or before the base."""
        self.file = 0
        self.limits = limits
        """Largest frame sizes, each from a moment on."""
        self.pieces: list[Piece] = _NONE
        """Pieces that brought the data; sequences of the compiled reader, like `ends`, while it reads the latest bytes."""
        self.ends: list[int] = _NONE
        """Offset after each piece."""
        self.wake = 0
        """Offset up to which bytes are needed to continue."""
        self.floor = 0
        """Earliest moment of the next frame."""
        self.trusted = False
        """True when the other direction has proven the protocol: a frame that fills whole segments then needs no second one."""
        self._more: list[bytes] = _NONE
        """Bytes after the data, too few to continue. They are joined once there are enough."""

    def __len__(self) -> int:
        return self.ends[-1] - self.base if self.ends else 0

    def enter(self, file: int) -> None:
        """Continue in another file, whose packets are all later than those of the data."""
        self.file = file
        self.floor = 0
        self.pieces = [(piece[0], 0, piece[2], 0) for piece in self.pieces]

    def append(self, offset: int, pieces: Sequence[Piece]) -> bool:
        """Append the next bytes, which begin at `offset`; return True when there are enough to continue."""
        if not self.ends:
            self.base = self.begun = offset
            self.pieces = [*pieces]
            self.ends = []
        else:
            self.pieces += pieces
        if len(pieces) == 1:
            payload = pieces[0][0]
            if self._more:
                self._more.append(payload)
            elif self.data:
                self._more = [payload]
            else:
                self.data = payload
            self.ends.append(offset + len(payload))
        else:
            payloads = [piece[0] for piece in pieces]
            if self._more:
                self._more += payloads
            else:
                self._more = payloads
            self.ends += islice(accumulate(map(len, payloads), initial=offset), 1, None)
        return self.ends[-1] >= self.wake

    def append_joined(self, offset: int, pieces: Sequence[Piece], join: Any) -> None:
        """Append the next bytes, pieces of the compiled reader, with its function that joins them with the present ones."""
        if not self.ends:
            self.base = self.begun = offset
        self.join()
        joined = join(self.data, self.pieces, self.ends, offset, pieces)
        self.data, self.pieces, self.ends = joined.data, joined.pieces, joined.ends

    def hold(self, base: int, joined: Any) -> None:
        """Hold only these bytes, which the compiled reader has joined, from offset `base` on; None for no bytes."""
        if joined is None:
            self.clear(base)
        else:
            self.base, self.data, self.pieces, self.ends = base, joined.data, joined.pieces, joined.ends
            self.begun = self.begun if joined.begun is None else joined.begun
            self._let_payloads_go()

    def keep_lists(self) -> None:
        """Turn the remaining sequences into lists."""
        if type(self.ends) is not list:
            self.pieces, self.ends = self.pieces[:], self.ends[:]

    def join(self) -> None:
        """Move all bytes into `data`; a single piece is not copied."""
        if self._more:
            self.data = b"".join((self.data, *self._more) if self.data else self._more)
            self._more = _NONE
        self.wake = 0

    def _let_payloads_go(self) -> None:
        """Release the payloads of all pieces, since `data` has their bytes: an incomplete frame may wait for a long time."""
        if len(self.data) > HELD_TWICE_MAX_BYTES:
            self.pieces = [(b"", packet, time, moment) for _, packet, time, moment in self.pieces]

    def drop(self, position: int) -> None:
        """Forget the bytes before a position. This copies the bytes after it, once per feed."""
        if position:
            self.base += position
            if position == len(self.data):
                self.clear(self.base)
                return
            self.data = self.data[position:]
            first = bisect_right(self.ends, self.base)
            if first:
                self.begun = self.ends[first - 1]
                self.pieces, self.ends = self.pieces[first:], self.ends[first:]
        self._let_payloads_go()

    def clear(self, base: int) -> None:
        """Forget all bytes; the next ones begin at offset `base`."""
        self.base = base
        self.data = b""
        self.pieces = self.ends = _NONE

    def piece_at(self, offset: int) -> int:
        """Return the index of the piece with the byte at an offset, or of the last one."""
        return min(bisect_right(self.ends, offset), len(self.pieces) - 1)

    def moment_at(self, offset: int) -> int:
        """Return the moment at which the byte at an offset became available."""
        return self.pieces[self.piece_at(offset)][3]

    def fills_pieces(self, start: int, stop: int) -> bool:
        """Return True when the bytes from position `start` to `stop` are present, and are whole pieces."""
        first = bisect_right(self.ends, self.base + start)
        begins = self.base + start == (self.ends[first - 1] if first else self.begun)
        last = bisect_left(self.ends, self.base + stop)
        return begins and last < len(self.ends) and self.ends[last] == self.base + stop

    def raise_floor(self, moment: int) -> None:
        """Make no later frame readable before `moment`."""
        self.floor = max(self.floor, moment)

    def ascends_from(self, packet: int) -> bool:
        """Return True when the packets of the pieces are in order, none of them before this one."""
        packets = [piece[1] for piece in self.pieces]
        return not packets or (packets[0] >= packet and packets == sorted(packets))

    def latest(self, start: int, stop: int) -> Piece:
        """Return the piece with the highest packet number among those with the bytes of offsets `start` to `stop`."""
        return max(self.pieces[bisect_right(self.ends, start) : bisect_left(self.ends, stop) + 1], key=_packet_of)


def next_sub(subs: dict[int, int], packet: int) -> int:
    """Return the sub of a frame after a gap, where names may go back to earlier packets."""
    subs[packet] = sub = subs.get(packet, 0) + 1
    if len(subs) > SUB_WINDOW_PACKETS:
        del subs[next(iter(subs))]
    return sub
