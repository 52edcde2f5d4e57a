"""Live packets as blocks for decoding, while a worker beside it captures and records them.

The queue between them is bounded. When it is full, packets are skipped and reported; the recorded file has all packets.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

from pulsarscope.capture import Block
from pulsarscope.capture.steps import LiveStep, StepDecoder
from pulsarscope.live.capture_loop import LATE_SECONDS, RING_FULL, WAIT_SECONDS, CaptureLoop
from pulsarscope.live.capture_worker import CaptureProcess, CaptureState, CaptureThread, CaptureWorker
from pulsarscope.live.key_log_follower import KeyLogFollower
from pulsarscope.live.packet_queue import (
    DROPPED,
    PACKETS,
    RING,
    SHORTENED,
    SKIPPED_BYTES,
    SKIPPED_PACKETS,
    Entry,
    MemoryQueue,
    SharedQueue,
)
from pulsarscope.live.packet_source import CaptureHealth, PacketSource, PacketWriter, interface_blocks
from pulsarscope.model.errors import system_reason
from pulsarscope.model.findings import CAPTURE_CODES, Finding
from pulsarscope.model.limits import READ_BLOCK_BYTES, READ_BLOCK_PACKETS
from pulsarscope.model.live_limits import LIVE_QUEUE_MAX_BYTES
from pulsarscope.model.text import plural
from pulsarscope.output.export.pcapng import section_block

REPORT_SECONDS = 10.0
"""Smallest interval between reports of losses."""

PATIENCE_SECONDS = 1.0
"""Time after the stop of a capture at which packets that still wait to be decoded, or written, are reported."""

WRITING = "still writing captured packets; Ctrl-C does not wait for them"

LAG_SECONDS = 5.0
"""Delay of decoding above which the delay is reported."""


class LiveFeed:
    """An iterator over the blocks of a packet source, which ends with the source or after `stop`. Any thread may read its health."""

    recognised = True

    def __init__(
        self,
        source: PacketSource,
        *,
        recorder: PacketWriter | None = None,
        packets_max: int | None = None,
        by_interface: bool = False,
        queue_bytes: int | None = LIVE_QUEUE_MAX_BYTES,
        key_logs: Sequence[str] = (),
        notify: Callable[[str], object] = str,
        records: bool = False,
        forks: bool = True,
    ) -> None:
        """Prepare to capture up to `packets_max` packets from a source. `start` or iteration starts the capture; `close` closes the source.

        `recorder` receives all packets, independently of decoding; its exceptions end the feed. `by_interface` is as in
        `capture.BlockReader`. At most `queue_bytes` of packets wait to be decoded; None: nothing is decoded, call `wait`. `key_logs` are
        followed while they grow; the recorder also gets their secrets. Raises UsageError when one cannot be read. `notify` gets a line when
        the interface goes down or comes up again, and when decoding takes long after `stop`. With `records`, blocks also keep the packets
        as captured. `forks`: capture in another process, if the source allows it.
        """
        self.name = source.name
        self.lag = 0.0
        """Age of the last decoded packets, in seconds."""
        self.reports_drops = source.reports_drops
        self.stopping = False
        """True after `stop`."""
        self._key_logs = KeyLogFollower(key_logs)
        secrets = KeyLogFollower(key_logs) if recorder is not None and key_logs else None
        forks = forks and source.forks
        queue = (SharedQueue if forks else MemoryQueue)(queue_bytes or 0)
        loop = CaptureLoop(source, recorder, queue, packets_max, secrets, decodes=queue_bytes is not None)
        self._worker: CaptureWorker = CaptureProcess(loop) if forks else CaptureThread(loop)
        self._counts = self._worker.queue.counts
        self._interfaces = interface_blocks(source)
        self._writing = False
        """True when it has been reported that packets wait to be written, and nothing else."""
        self._leaves = False
        """True when a signal came after that, and nobody waits any longer."""
        self._started = False
        self._decoder = StepDecoder(by_interface=by_interface, records=records)
        self._secrets: list[tuple[int, bytes]] = []
        self._bytes = self._number = self._last_time = self._decoded = 0
        self._reported_dropped = 0
        self._reported_skipped = (0, 0)
        self._next_report = 0.0
        self._late = False
        self._down = False
        self._stopped = math.inf
        self._notify = notify
        self.steps = self._captured()
        """The capture in steps, for drivers that decode in other processes."""

    @property
    def process(self) -> int | None:
        """Return the process that captures, None when this one does."""
        return self._worker.process

    @property
    def packets(self) -> int:
        """Return the number of packets captured."""
        return self._counts[PACKETS]

    @property
    def undecoded(self) -> int:
        """Return the number of packets captured but not decoded: skipped, or still waiting."""
        return self.packets - self._decoded

    @property
    def state(self) -> CaptureState:
        """Return the recent state of the capture, or how it ended."""
        return self._worker.state

    @property
    def first_time(self) -> int | None:
        """Return the time of the first packet; None before it has arrived."""
        return self._decoder.first_time

    def __iter__(self) -> Iterator[Block]:
        return self

    def __next__(self) -> Block:
        step = next(self.steps)
        if step.secrets:
            self._secrets.append((0, step.secrets))
        return self._decoder.block(step)

    def take_secrets(self) -> list[tuple[int, bytes]]:
        """Return new secrets from the key logs since the last call; they apply to all packets."""
        secrets, self._secrets = self._secrets, []
        return secrets

    def health(self) -> CaptureHealth:
        """Return the recent state; safe from any thread."""
        counts = self._counts
        return CaptureHealth(
            counts[PACKETS],
            counts[DROPPED],
            counts[SKIPPED_PACKETS],
            self._worker.queue.waiting_bytes,
            counts[RING] / RING_FULL,
            self.lag,
            shortened_triggers=counts[SHORTENED],
        )

    def start(self) -> None:
        """Start to capture."""
        if not self._started:
            self._started = True
            self._worker.start()

    def wait(self) -> None:
        """Capture until the end without decoding."""
        self.start()
        while self._take() is not None:
            self._tell_wait()
            self._watch_interface()

    def _take(self) -> Entry | None:
        try:
            return self._worker.take(WAIT_SECONDS)
        except KeyboardInterrupt:
            self._leaves = self._writing
            raise

    def trigger(self, moment: int) -> None:
        """Record the packets around a time, ns since the epoch."""
        self._worker.trigger(moment)

    def stop(self) -> None:
        """Stop capturing; packets captured so far are still decoded. Safe in a signal handler and from other threads."""
        if not self.stopping:
            self._stopped = time.monotonic()
        self.stopping = True
        self._worker.stop()

    def close(self) -> None:
        """Stop, end the recording, and close the source. Raises KeyboardInterrupt if a signal has ended the wait for the recording."""
        self.steps.close()
        if self._leaves:
            raise KeyboardInterrupt
        self._stopped = time.monotonic()
        self._worker.join(self._tell_writing)

    def _captured(self) -> Generator[LiveStep, None, None]:
        self.start()
        yield LiveStep(section_block("") + self._interfaces)
        skipped = 0
        while (entry := self._take()) is not None:
            if isinstance(entry, int):
                skipped += entry
                self._number += entry
                if not entry:
                    self._tell_wait()
                    self.lag = 0.0
                    yield self._step(present=time.time_ns())
            else:
                self._bytes += len(entry.data)
                self._number += entry.packets
                self._last_time = entry.time
                self.lag = max(time.time() - entry.time / 1e9, 0.0)
                size = max(READ_BLOCK_BYTES, len(entry.data) * READ_BLOCK_PACKETS // max(entry.packets, 1))
                for start in range(0, len(entry.data), size):
                    yield self._step(entry.data[start : start + size], skipped=skipped)
                    skipped = 0
                self._decoded += entry.packets
                self._tell_wait()
            self._watch_interface()
            yield from self._report()
        yield from self._report(at_end=True)
        last = self._step(skipped=skipped, last=True)
        if (error := self.state.source_error) is not None:
            text = f"{self.name} is gone: {system_reason(error)}."
            last.findings = [CAPTURE_CODES["interface-gone"].at(text, {"interface": self.name}, file=0)]
        yield last

    def _step(self, data: bytes = b"", **values: Any) -> LiveStep:
        return LiveStep(data, self._bytes, secrets=self._key_logs.read(), **values)

    def _watch_interface(self) -> None:
        """Notify when the interface goes down or up."""
        if (down := self.state.down) != self._down:
            self._down = down
            self._notify(f"{self.name} is down: waiting for it" if down else f"{self.name} is up again")

    def _tell_wait(self) -> None:
        """Report once, some time after the stop, that packets wait to be decoded or written."""
        if size := self._worker.queue.waiting_bytes:
            self._tell(f"still decoding {plural(size, 'byte')} of packets; Ctrl-C skips them", PATIENCE_SECONDS)
        else:
            self._tell_writing()

    def _tell_writing(self) -> None:
        """Report once, some time after the stop, that packets wait to be written."""
        self._tell(WRITING, PATIENCE_SECONDS + LATE_SECONDS)

    def _tell(self, line: str, seconds: float) -> None:
        if time.monotonic() - self._stopped > seconds:
            self._stopped = math.inf
            self._writing = line is WRITING
            self._notify(line)

    def _report(self, *, at_end: bool = False) -> Iterator[LiveStep]:
        """Yield a step with findings about losses and delay, if there are any."""
        now = time.monotonic()
        if now < self._next_report and not at_end:
            return
        findings = [*self._losses(), *self._slowness()]
        if findings:
            self._next_report = now + REPORT_SECONDS
            yield self._step(findings=findings)

    def _losses(self) -> Iterator[Finding]:
        where: dict[str, Any] = {"interface": self.name}
        dropped, reported = self._counts[DROPPED], self._reported_dropped
        if dropped > reported:
            self._reported_dropped = dropped
            text = f"The kernel dropped {plural(dropped - reported, 'packet')}: they arrived faster than they were captured."
            yield self._finding("packets-dropped", text, {"packets": dropped - reported, "packets_so_far": dropped, **where})
        packets, size = self._counts[SKIPPED_PACKETS], self._counts[SKIPPED_BYTES]
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
            health = self.health()
            evidence = {"seconds": round(self.lag, 3), "waiting_bytes": health.waiting_bytes, "ring": round(health.ring, 3)}
            yield self._finding("decode-lag", f"Decoding is {self.lag:.1f} s behind the traffic.", evidence)
        self._late = late

    def _finding(self, code: str, text: str, evidence: dict[str, Any]) -> Finding:
        return CAPTURE_CODES[code].at(text, evidence, file=0, packet=self._number or None, time=self._last_time or None)
