"""Both directions of a connection → frames in the order in which they became readable. The protocol is recognised by content."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import merge
from operator import itemgetter

from pulsarscope.dissect.contract.dissector import Dissector
from pulsarscope.dissect.contract.frames import FrameBatch, KeptBytes, Origin, StreamAccount
from pulsarscope.dissect.framing.column_batch import ColumnBatch
from pulsarscope.dissect.framing.compiled_splitter import CompiledSplitter
from pulsarscope.dissect.framing.splitter import StreamSplitter
from pulsarscope.dissect.plugins.isolation import Failure, failure
from pulsarscope.model.limits import RECOGNITION_WINDOW_BYTES
from pulsarscope.tcp.pieces import Data, Gap, Item

SKIPPED_RUNS_MAX = 1000
"""Runs of skipped bytes kept before the protocol is known; there is one for each gap."""


class Conversation:
    """The frames of one connection. The first dissector that proves a frame determines the protocol of both streams.

    The batches depend only on the bytes and their packets, not on how blocks divide them.
    """

    __slots__ = (
        "_before",
        "_failures",
        "_foreign",
        "_from_start",
        "_kept",
        "_others",
        "_server",
        "_splitters",
        "_tried",
        "dissector",
        "origin",
    )

    def __init__(self, dissectors: Sequence[Dissector], kept: KeptBytes, origin: Origin, *, from_start: bool, forced: bool = False) -> None:
        """Begin both streams.

        Args:
            dissectors: the dissectors to try, in this order.
            kept: bytes to keep in addition to the rows.
            origin: source and connection of the frames, whatever the dissector.
            from_start: the capture holds the handshake.
            forced: the first dissector is the protocol, whatever the content.
        """
        self.dissector: Dissector | None = None
        """The protocol, once the bytes have shown it."""
        self._kept = kept
        self.origin = origin
        """Source and connection of the frames, and the protocol when it is known."""
        self._from_start = from_start
        self._tried: Sequence[Sequence[StreamSplitter]] = ()
        self._others: tuple[Dissector, ...] = tuple(dissectors)
        """Dissectors that have not been tried yet: none is tried before the first byte."""
        self._splitters: Sequence[StreamSplitter] | None = None
        self._server = 1
        self._foreign: str | None = None
        self._failures: tuple[Failure, ...] = ()
        """Exceptions of dissectors that are no longer tried."""
        self._before: Sequence[FrameBatch] = ()
        """Rows of bytes skipped before the protocol was known, for each dissector in use."""
        if forced:
            splitters = self._pair(dissectors[0])
            self._recognise(splitters)
            for splitter in splitters:
                splitter.synced = from_start

    def _pair(self, dissector: Dissector) -> tuple[StreamSplitter, StreamSplitter]:
        """Make a splitter of a dissector for each stream."""
        kept = self._kept._replace(raw=True) if dissector.keeps_frames else self._kept
        origin = self.origin._replace(dissector=dissector.name)
        make = StreamSplitter if dissector.compiled is None else CompiledSplitter
        client, server = (make(dissector, kept, origin=origin, stream=stream, at_start=self._from_start) for stream in (0, 1))
        return client, server

    def _recognise(self, splitters: Sequence[StreamSplitter], frames: FrameBatch | None = None) -> None:
        """Choose the protocol of these splitters, which `frames` prove."""
        self._failures = self.failures
        self._splitters = splitters
        self.origin = splitters[0].origin
        self.dissector = dissector = splitters[0].dissector
        self._tried = self._before = self._others = ()
        try:
            client = None if frames is None else frames.client(dissector.sender)
        except Exception as error:  # noqa: BLE001 - other people's code
            client = None
            self._failures += (failure(dissector, "sender", error),)
        if client is not None:
            self._server = 1 - client

    @property
    def foreign(self) -> str | None:
        """Name of another protocol that the first bytes of a stream show."""
        return self._foreign or next((splitter.foreign for pair in self._tried for splitter in pair if splitter.foreign), None)

    @property
    def failures(self) -> tuple[Failure, ...]:
        """Exceptions of the dissectors so far."""
        splitters = [*(splitter for pair in self._tried for splitter in pair), *(self._splitters or ())]
        failures = [splitter.failure for splitter in splitters if splitter.failure is not None]
        return tuple(dict.fromkeys([*self._failures, *failures])) if failures else self._failures

    def assign(self, directions: Sequence[str]) -> None:
        """Set the directions of stream 0 and stream 1 for the frames that follow."""
        for splitter, direction in zip(self._splitters or (), directions, strict=False):
            splitter.direction = direction

    def account(self, stream: int) -> StreamAccount | None:
        """Return the byte account of a stream; None while no protocol is known."""
        return None if self._splitters is None else self._splitters[stream].account()

    def waits(self) -> int:
        """Return the number of bytes held for incomplete frames."""
        if self._splitters is None:
            return sum(splitter.waits() for pair in self._tried for splitter in pair)
        first, second = self._splitters
        return first.waits() + second.waits()

    def let_go(self, moment: int) -> FrameBatch:
        """Return the incomplete frames so far as truncated ones, at packet `moment`, and hold no bytes; more may follow.

        An unknown protocol remains unknown.
        """
        out = FrameBatch()
        if self._splitters is None:
            self._give_up()
        for splitter in self._splitters or ():
            if splitter.waits():
                splitter.let_go(moment, out)
        out.sort()
        return out

    def feed(self, items: Sequence[Sequence[Item]]) -> FrameBatch:
        """Return the frames that these items of stream 0 and stream 1 complete, ordered by moment."""
        splitters = self._splitters
        if splitters is None:
            if self._others and (items[0] or items[1]):
                self._tried = [self._pair(dissector) for dissector in self._others]
                self._before = [FrameBatch() for _ in self._others]
                self._others = ()
            return self._feed_unknown(items) if self._tried else FrameBatch()
        splitter = splitters[0]
        if isinstance(splitter, CompiledSplitter) and splitter.direction is not None:
            return self._feed_known(items, splitters, ColumnBatch(splitter.dissector.compiled.frames()))
        return self._feed_known(items, splitters, FrameBatch())

    def _feed_known(self, items: Sequence[Sequence[Item]], splitters: Sequence[StreamSplitter], out: FrameBatch) -> FrameBatch:
        """Fill an empty batch with the frames of a known protocol."""
        both = of_server = 0
        for stream in (self._server, 1 - self._server):  # the server's stream first: what it announces applies to the client's frames
            stream_items = items[stream]
            if stream_items:
                both += 1
                splitter = splitters[stream]
                before = splitter.limits[-1]
                position = 0
                while position < len(stream_items):
                    position += _give(splitter, stream_items, position, out)
                if splitter.limits[-1] != before:
                    splitters[1 - stream].limits = splitter.limits
                if stream == self._server:
                    of_server = len(out)
        if both > 1 and len(out) > 1:
            # A packet may end the wait of both streams: for missing bytes, in which case requests come before responses; or for secrets
            # that are now known, in which case all frames are in the order of their own packets.
            if _has_gap(items):
                out.sort(last=of_server)
            elif _begin_together(items):
                out = out.in_rows(self._kept) if isinstance(out, ColumnBatch) else out
                is_servers = [index < of_server for index in range(len(out.rows))]
                out.sort(self._by_packet(out, is_servers, len(is_servers)))
            else:
                out.sort()
        return out.in_rows(self._kept) if isinstance(out, ColumnBatch) and not self._kept.columns else out

    def _of_server(self, frames: FrameBatch) -> list[bool]:
        """Return for each frame, while streams are recorded, whether it is the server's: its frames come after the client's."""
        return [stream == self._server for stream in frames.streams]

    @staticmethod
    def _by_packet(frames: FrameBatch, is_servers: Sequence[bool], held: int) -> list[tuple[int, bool]]:
        """Return the ranks of frames, the first `held` of which became readable at once: the order in which their packets came."""
        latest = [0, 0]
        ranks = []
        for index, (row, of_server) in enumerate(zip(frames.rows, is_servers, strict=True)):
            if index < held:
                latest[of_server] = max(latest[of_server], row.packet)  # the order within a stream stays
            ranks.append((latest[of_server] if index < held else frames.moments[index], of_server))
        return ranks

    def _feed_unknown(self, items: Sequence[Sequence[Item]]) -> FrameBatch:
        """Feed single pieces in the order of their moments, so that the result does not depend on how many come at once."""
        pieces = merge(_pieces(0, items[0]), _pieces(1, items[1]), key=itemgetter(0))
        for moment, stream, item in pieces:
            for pair, frames in zip(self._tried, self._before, strict=True):
                _give(pair[stream], [item], 0, frames)
                if pair[stream].synced or pair[stream].frames:
                    self._recognise(pair, frames)
                    pair[1 - stream].limits = pair[stream].limits
                    pair[1 - stream].trust(moment, frames)
                    remaining: tuple[list[Item], list[Item]] = ([], [])
                    for _, of_stream, following in pieces:
                        remaining[of_stream].append(following)
                    held = len(frames)
                    frames.extend(self.feed(remaining))
                    is_servers = self._of_server(frames)
                    at_once = not _has_gap(items) and _begin_together(items)
                    by_packet = at_once or not self._from_start
                    frames.sort(self._by_packet(frames, is_servers, len(is_servers) if at_once else held) if by_packet else is_servers)
                    return frames
                frames.truncate(SKIPPED_RUNS_MAX)
            if any(splitter.skipped > RECOGNITION_WINDOW_BYTES for pair in self._tried for splitter in pair):
                self._give_up()
                break
        return FrameBatch()

    def _give_up(self) -> None:
        """Stop looking for a protocol."""
        self._foreign = self.foreign
        self._failures = self.failures
        self._tried = self._before = self._others = ()

    def finish(self, moment: int, cut_short: tuple[bool, bool] = (False, False)) -> FrameBatch:
        """Return the last frames: the connection, or its captured part, ended with packet `moment`.

        `cut_short` tells for each stream whether the capture or its receiver ended first.
        """
        out = FrameBatch()
        pairs = zip(self._tried, self._before, strict=True) if self._splitters is None else [(self._splitters, out)]
        for pair, frames in pairs:
            for splitter, is_short in zip(pair, cut_short, strict=True):
                splitter.finish(moment, frames, is_short=is_short)
            if pair is self._splitters or any(splitter.frames for splitter in pair):
                self._recognise(pair, frames)
                out = frames
                break
        if len(out.rows) > 1:
            out.sort(self._of_server(out))
        return out


def _pieces(stream: int, items: Sequence[Item]) -> Iterator[tuple[int, int, Item]]:
    """Yield moment, stream and item: a gap, or data with a single piece."""
    for item in items:
        if isinstance(item, Data):
            offset = item.offset
            for piece in item.pieces:
                yield piece[3], stream, Data(item.file, offset, [piece])
                offset += len(piece[0])
        else:
            yield item.moment, stream, item


def _has_gap(items: Sequence[Sequence[Item]]) -> bool:
    return any(isinstance(item, Gap) for stream_items in items for item in stream_items)


def _begin_together(items: Sequence[Sequence[Item]]) -> bool:
    """Return True when both streams waited for the same packet: for one with secrets, if nothing is missing."""
    return bool(items[0] and items[1]) and _moment_of_first(items[0]) == _moment_of_first(items[1])


def _moment_of_first(items: Sequence[Item]) -> int:
    item = items[0]
    return item.pieces[0][3] if isinstance(item, Data) else item.moment


def _give(splitter: StreamSplitter, items: Sequence[Item], position: int, out: FrameBatch) -> int:
    """Give a splitter the item at a position, with the gap behind it if both are of one packet; return how many items these are."""
    item = items[position]
    if not isinstance(item, Data):
        splitter.gap(item.offset, item.size, item.moment, out)
        return 1
    if position + 1 < len(items) and len(item.pieces) == 1:
        behind = items[position + 1]
        if isinstance(behind, Gap) and behind.moment == item.pieces[0][3]:
            splitter.feed_cut(item, behind, out)
            return 2
    splitter.feed(item.file, item.offset, item.pieces, out)
    return 1
