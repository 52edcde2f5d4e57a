"""From a source to blocks: one thread takes packets from the kernel and keeps them, the other decodes as fast as it can.

What waits between the two is bounded. When it is full decoding skips packets, and says so; the file that keeps them has them all.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Generator, Iterator
from typing import Any

from pulsarscope.capture import Block
from pulsarscope.capture.formats.pcapng import PcapngDecoder
from pulsarscope.live.source import Captured, Health, Keep, Source
from pulsarscope.model.findings import CAPTURE_CODES, Finding
from pulsarscope.model.limits import LIVE_QUEUE_MAX_BYTES, PACKET_MAX_BYTES, READ_BLOCK_BYTES, READ_BLOCK_PACKETS
from pulsarscope.model.text import plural
from pulsarscope.output.export.pcapng import interface_block, section_block

WAIT_SECONDS = 0.2
"""How long a thread waits before it looks whether it shall stop: more than the kernel holds a packet back."""

REPORT_SECONDS = 10.0
"""Losses are told at once, and then not more often than this."""

LAG_SECONDS = 5.0
"""Decoding that is further behind than this is told."""


class Feed:
    """The blocks of a source, an iterator that ends when `stop` is called, or the source ends.

    The counts may be read at any time, by any thread.
    """

    recognised = True

    def __init__(self, source: Source, *, keep: Keep | None = None, packets_max: int | None = None, by_interface: bool = False) -> None:
        """Begins to take packets when it is iterated.

        Args:
            source: closed by `close`.
            keep: gets all packets, in the thread that captures; what it raises ends the feed.
            packets_max: stop after so many.
            by_interface: as for `capture.read_blocks`.
        """
        self.source = source
        self.packets = 0
        """Taken from the source."""
        self.skipped_packets = 0
        """Taken, and not decoded because decoding was too slow."""
        self.skipped_bytes = 0
        self.waiting_bytes = 0
        """Taken, and still to be decoded."""
        self.lag = 0.0
        """Seconds between a packet's time and now, of the packets that were decoded last."""
        self.failure: Exception | None = None
        """What the keeping raised, or an error of the thread that captures."""
        self._keep = keep
        self._packets_max = packets_max
        self._waiting: deque[Captured | int] = deque()
        """Packets, or how many were left out at this place."""
        self._changed = threading.Condition()
        self._stopping = False
        self._ended = False
        self._gone: OSError | None = None
        self._decoder = PcapngDecoder(0, by_interface=by_interface)
        self._bytes = 0
        self._told_dropped = 0
        self._told_skipped = (0, 0)
        self._ring = 0.0
        self._look_again = self._tell_again = 0.0
        self._late = False
        self._thread = threading.Thread(target=self._capture, name="capture", daemon=True)
        self._blocks = self._decoded()

    @property
    def name(self) -> str:
        """What messages call the source."""
        return self.source.name

    def __iter__(self) -> Iterator[Block]:
        return self

    def __next__(self) -> Block:
        return next(self._blocks)

    def take_secrets(self) -> list[tuple[int, bytes]]:
        """An interface brings none."""
        return []

    def health(self) -> Health:
        """As of a moment ago; from any thread."""
        return Health(self.packets, self.source.dropped, self.skipped_packets, self.waiting_bytes, self._ring, self.lag)

    def stop(self) -> None:
        """Take no more; what was taken is still decoded. May be called from a signal handler or another thread."""
        self._stopping = True

    def close(self) -> None:
        """Stop, and let go of the source."""
        self.stop()
        self._blocks.close()
        if self._thread.is_alive():  # an interrupt has ended the blocks before it
            self._thread.join()
        self.source.close()

    # ---- the thread that captures

    def _capture(self) -> None:
        try:
            try:
                self._take()
            except OSError as error:
                self._gone = error
            if self._keep is not None:
                self._keep.end()
        except Exception as error:  # noqa: BLE001 - of any kind: who runs the feed raises it
            self.failure = error
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify()

    def _take(self) -> None:
        last = False
        stopped = 0
        while True:
            stopping = self._stopping  # asked before the read: what came before the request is taken
            if stopping and not stopped:
                stopped = time.time_ns()
            left = None if self._packets_max is None else self._packets_max - self.packets
            captured = self.source.read(WAIT_SECONDS, left)
            if captured is not None:
                self.packets += captured.packets
                if self._keep is not None:
                    self._keep(captured)
                self._hand_on(captured)
                if self.packets == self._packets_max:
                    return
            if stopping and (captured is None or last or captured.time >= stopped):  # a line that is too fast never leaves nothing
                return
            last = stopping and self.source.fullness() == 0

    def _hand_on(self, captured: Captured) -> None:
        size = len(captured.data)
        with self._changed:
            if self.waiting_bytes + size <= LIVE_QUEUE_MAX_BYTES:
                self._waiting.append(captured)
                self.waiting_bytes += size
            else:
                self.skipped_packets += captured.packets
                self.skipped_bytes += size
                if self._waiting and isinstance(self._waiting[-1], int):
                    self._waiting[-1] += captured.packets
                else:
                    self._waiting.append(captured.packets)
            self._changed.notify()

    # ---- the thread that decodes

    def _decoded(self) -> Generator[Block, None, None]:
        self._thread.start()
        decoder = self._decoder
        decoder.feed(section_block("") + interface_block(self.source.link_type, PACKET_MAX_BYTES, self.source.name), 0)
        try:
            while (waiting := self._next()) is not None:
                if isinstance(waiting, int):
                    decoder.skip(waiting)
                    if not waiting:
                        yield self._now()
                else:
                    self._bytes += len(waiting.data)
                    self.lag = max(time.time() - waiting.time / 1e9, 0.0)
                    size = max(READ_BLOCK_BYTES, len(waiting.data) * READ_BLOCK_PACKETS // max(waiting.packets, 1))
                    for start in range(0, len(waiting.data), size):
                        yield decoder.feed(waiting.data[start : start + size], self._bytes)
                yield from self._told()
            yield from self._told(at_end=True)
            last = decoder.finish(self._bytes)
            if self._gone is not None:
                text = f"{self.source.name} is gone: {self._gone.strerror or self._gone}."
                last.findings.append(CAPTURE_CODES["interface-gone"].at(text, {"interface": self.source.name}, file=0))
            yield last
        finally:
            self._stopping = True
            self._thread.join()
            self.source.close()

    def _now(self) -> Block:
        """A block without packets: nothing happens, and time passes."""
        block = self._decoder.feed(b"", self._bytes)
        block.last_time = time.time_ns()
        self.lag = 0.0
        return block

    def _next(self) -> Captured | int | None:
        """What is to be decoded; None at the end. A place without packets comes now and then."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._ended, WAIT_SECONDS)
            if not self._waiting:
                return None if self._ended else 0
            waiting = self._waiting.popleft()
            if isinstance(waiting, Captured):
                self.waiting_bytes -= len(waiting.data)
            return waiting

    def _told(self, *, at_end: bool = False) -> Iterator[Block]:
        """A block with what is to be told about losses and lag, if anything is."""
        now = time.monotonic()
        if now < self._look_again and not at_end:
            return
        self._look_again = now + WAIT_SECONDS
        self.source.count()
        self._ring = self.source.fullness()
        if now < self._tell_again and not at_end:
            return
        findings = [*self._losses(), *self._slowness()]
        if findings:
            self._tell_again = now + REPORT_SECONDS
            block = self._decoder.feed(b"", self._bytes)
            block.findings += findings
            yield block

    def _losses(self) -> Iterator[Finding]:
        where: dict[str, Any] = {"interface": self.source.name}
        dropped, told = self.source.dropped, self._told_dropped
        if dropped > told:
            self._told_dropped = dropped
            text = f"The kernel dropped {plural(dropped - told, 'packet')}: they came faster than they were taken."
            yield self._finding("packets-dropped", text, {"packets": dropped - told, "packets_so_far": dropped, **where})
        with self._changed:
            packets, size = self.skipped_packets, self.skipped_bytes
        before_packets, before_size = self._told_skipped
        if packets > before_packets:
            self._told_skipped = packets, size
            skipped = packets - before_packets
            lost = size - before_size
            text = f"{plural(skipped, 'packet')} ({plural(lost, 'byte')}) were not decoded: decoding is too slow for this traffic."
            yield self._finding("packets-skipped", text, {"packets": skipped, "bytes": lost, "packets_so_far": packets, **where})

    def _slowness(self) -> Iterator[Finding]:
        late = self.lag > LAG_SECONDS
        if late and not self._late:
            evidence = {"seconds": round(self.lag, 3), "waiting_bytes": self.waiting_bytes, "ring": round(self.source.fullness(), 3)}
            yield self._finding("decode-lag", f"Decoding is {self.lag:.1f} s behind the traffic.", evidence)
        self._late = late

    def _finding(self, code: str, text: str, evidence: dict[str, Any]) -> Finding:
        return CAPTURE_CODES[code].at(text, evidence, file=0, packet=self._decoder.packets or None, time=self._decoder.last_time or None)
