"""Live decoding in two threads: one captures and records packets, the other decodes them.

The queue between them is bounded. When it is full, packets are skipped and reported; the recorded file has all packets.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Generator, Iterator
from typing import Any

from pulsarscope.capture import Block
from pulsarscope.capture.formats.pcapng import PcapngDecoder
from pulsarscope.live.source import CapturedPackets, CaptureHealth, PacketSource, PacketWriter
from pulsarscope.model.findings import CAPTURE_CODES, Finding
from pulsarscope.model.limits import LIVE_QUEUE_MAX_BYTES, PACKET_MAX_BYTES, READ_BLOCK_BYTES, READ_BLOCK_PACKETS
from pulsarscope.model.text import plural
from pulsarscope.output.export.pcapng import interface_block, section_block

WAIT_SECONDS = 0.2
"""Interval in which the threads check for a stop; longer than the kernel delays a packet."""

REPORT_SECONDS = 10.0
"""Smallest interval between reports of losses."""

LAG_SECONDS = 5.0
"""Delay of decoding above which it is reported."""


class LiveFeed:
    """Iterator over the blocks of a packet source, which ends with the source or after `stop`. Any thread may read the counts."""

    recognised = True

    def __init__(
        self, source: PacketSource, *, recorder: PacketWriter | None = None, packets_max: int | None = None, by_interface: bool = False
    ) -> None:
        """Prepare to capture up to `packets_max` packets from a source, which `close` closes; iteration starts the capturing thread.

        `recorder` receives all packets in that thread; its exceptions end the feed. `by_interface` is that of `capture.BlockReader`.
        """
        self.source = source
        self.packets = 0
        """Packets captured."""
        self.skipped_packets = 0
        """Packets captured but not decoded, because decoding was too slow."""
        self.skipped_bytes = 0
        self.waiting_bytes = 0
        """Bytes that wait to be decoded."""
        self.lag = 0.0
        """Age of the last decoded packets, seconds."""
        self.failure: Exception | None = None
        """Exception of the recorder or the capturing thread."""
        self._recorder = recorder
        self._packets_max = packets_max
        self._waiting: deque[CapturedPackets | int] = deque()
        """Captured packets, or the number of packets skipped at this position."""
        self._changed = threading.Condition()
        self._stopping = False
        self._ended = False
        self._source_error: OSError | None = None
        self._decoder = PcapngDecoder(0, by_interface=by_interface)
        self._bytes = 0
        self._reported_dropped = 0
        self._reported_skipped = (0, 0)
        self._ring = 0.0
        self._next_check = self._next_report = 0.0
        self._late = False
        self._thread = threading.Thread(target=self._capture, name="capture", daemon=True)
        self._blocks = self._decode()

    @property
    def name(self) -> str:
        """Return the name of the source for messages."""
        return self.source.name

    def __iter__(self) -> Iterator[Block]:
        return self

    def __next__(self) -> Block:
        return next(self._blocks)

    def take_secrets(self) -> list[tuple[int, bytes]]:
        """Return no TLS key logs: an interface has none."""
        return []

    def health(self) -> CaptureHealth:
        """Return the recent state; safe from any thread."""
        return CaptureHealth(self.packets, self.source.dropped, self.skipped_packets, self.waiting_bytes, self._ring, self.lag)

    def stop(self) -> None:
        """Stop capturing; packets captured so far are still decoded. Safe in a signal handler and from other threads."""
        self._stopping = True

    def close(self) -> None:
        """Stop, and close the source."""
        self.stop()
        self._blocks.close()
        if self._thread.is_alive():  # an interrupt has ended the blocks before it
            self._thread.join()
        self.source.close()

    def _capture(self) -> None:
        try:
            try:
                self._capture_packets()
            except OSError as error:
                self._source_error = error
            if self._recorder is not None:
                self._recorder.end()
        except Exception as error:  # noqa: BLE001 - raised by the user of the feed
            self.failure = error
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify()

    def _capture_packets(self) -> None:
        last = False
        stopped = 0
        while True:
            stopping = self._stopping  # before the read, so that packets before the request are captured
            if stopping and not stopped:
                stopped = time.time_ns()
            remaining = None if self._packets_max is None else self._packets_max - self.packets
            if (captured := self.source.read(WAIT_SECONDS, remaining)) is not None:
                self.packets += captured.packets
                if self._recorder is not None:
                    self._recorder(captured)
                self._enqueue(captured)
                if self.packets == self._packets_max:
                    return
            if stopping and (captured is None or last or captured.time >= stopped):  # on a fast line the source is never empty
                return
            last = stopping and self.source.fullness() == 0

    def _enqueue(self, captured: CapturedPackets) -> None:
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

    def _decode(self) -> Generator[Block, None, None]:
        self._thread.start()
        decoder = self._decoder
        decoder.feed(section_block("") + interface_block(self.source.link_type, PACKET_MAX_BYTES, self.source.name), 0)
        try:
            while (entry := self._dequeue()) is not None:
                if isinstance(entry, int):
                    decoder.skip(entry)
                    if not entry:
                        yield self._idle_block()
                else:
                    self._bytes += len(entry.data)
                    self.lag = max(time.time() - entry.time / 1e9, 0.0)
                    size = max(READ_BLOCK_BYTES, len(entry.data) * READ_BLOCK_PACKETS // max(entry.packets, 1))
                    for start in range(0, len(entry.data), size):
                        yield decoder.feed(entry.data[start : start + size], self._bytes)
                yield from self._report()
            yield from self._report(at_end=True)
            last = decoder.finish(self._bytes)
            if self._source_error is not None:
                text = f"{self.source.name} is gone: {self._source_error.strerror or self._source_error}."
                last.findings.append(CAPTURE_CODES["interface-gone"].at(text, {"interface": self.source.name}, file=0))
            yield last
        finally:
            self._stopping = True
            self._thread.join()
            self.source.close()

    def _idle_block(self) -> Block:
        """Return a block without packets, which carries the present time."""
        block = self._decoder.feed(b"", self._bytes)
        block.last_time = time.time_ns()
        self.lag = 0.0
        return block

    def _dequeue(self) -> CapturedPackets | int | None:
        """Return the next packets or number of skipped packets; 0 after an interval without any, None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._ended, WAIT_SECONDS)
            if not self._waiting:
                return None if self._ended else 0
            entry = self._waiting.popleft()
            if isinstance(entry, CapturedPackets):
                self.waiting_bytes -= len(entry.data)
            return entry

    def _report(self, *, at_end: bool = False) -> Iterator[Block]:
        """Yield a block with findings on losses and delay, if there are any."""
        now = time.monotonic()
        if now < self._next_check and not at_end:
            return
        self._next_check = now + WAIT_SECONDS
        self.source.count()
        self._ring = self.source.fullness()
        if now < self._next_report and not at_end:
            return
        findings = [*self._losses(), *self._slowness()]
        if findings:
            self._next_report = now + REPORT_SECONDS
            block = self._decoder.feed(b"", self._bytes)
            block.findings += findings
            yield block

    def _losses(self) -> Iterator[Finding]:
        where: dict[str, Any] = {"interface": self.source.name}
        dropped, reported = self.source.dropped, self._reported_dropped
        if dropped > reported:
            self._reported_dropped = dropped
            text = f"The kernel dropped {plural(dropped - reported, 'packet')}: they arrived faster than they were captured."
            yield self._finding("packets-dropped", text, {"packets": dropped - reported, "packets_so_far": dropped, **where})
        with self._changed:
            packets, size = self.skipped_packets, self.skipped_bytes
        before_packets, before_size = self._reported_skipped
        if packets > before_packets:
            self._reported_skipped = packets, size
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
