"""The loop that empties a packet source: it queues all packets for the recorder and for decoding. It never waits for decoding."""

from __future__ import annotations

import time
from typing import Protocol

from pulsarscope.live.key_log_follower import KeyLogFollower
from pulsarscope.live.packet_queue import DROPPED, PACKETS, RECEIVED, RING, SHORTENED, PacketQueue
from pulsarscope.live.packet_source import PacketSource, PacketWriter
from pulsarscope.live.write_queue import WriteQueue
from pulsarscope.output.export.pcapng import secrets_block

WAIT_SECONDS = 0.2
"""Interval in which a loop checks for a stop; longer than the kernel delays a packet."""

LATE_SECONDS = 2.0
"""Longest wait at a stop for packets that the kernel has received but not handed over, which it does late on a busy machine."""

CHECK_NANOSECONDS = 200_000_000
"""Interval in which counts are read from the kernel."""

RING_FULL = 1_000


class Control(Protocol):
    """Requests from the decoding side to the capturing side."""

    def stopping(self) -> bool:
        """Return True once the capture is to stop."""

    def triggers(self) -> list[int]:
        """Return the triggers since the last call: times in ns since the epoch."""

    def wait_for_end(self) -> None:
        """Wait for the next trigger, or until no trigger can come any more."""

    def ended(self) -> bool:
        """Return True when no trigger can come any more."""


class CaptureLoop:
    """Capture of up to `packets_max` packets into a recorder, if there is one, and into a queue, which also holds the counts."""

    def __init__(
        self,
        source: PacketSource,
        recorder: PacketWriter | None,
        queue: PacketQueue,
        packets_max: int | None,
        secrets: KeyLogFollower | None = None,
        *,
        decodes: bool = True,
    ) -> None:
        """Initialize; the recorder gets the TLS `secrets`. Without `decodes` no packets are queued."""
        self.source = source
        self.source_error: OSError | None = None
        """Error that ended the capture because the interface is gone."""
        self.ended = False
        """True when no packets follow."""
        self.recorder = recorder
        self.queue = queue
        self._secrets = secrets
        self._decodes = decodes
        self._packets_max = packets_max
        self._next_check = 0
        self._writes: WriteQueue | None = None
        """Queue to the recorder while the loop runs."""

    def run(self, control: Control) -> None:
        """Capture until a stop or the end of the source, record packets for triggers until no more can come, and end the recorder.

        Raises the exceptions of the recorder.
        """
        if self.recorder is not None:
            self._writes = WriteQueue(self.recorder)  # only here, because its thread does not survive a fork
        try:
            self._run(control)
        finally:
            if self._writes is not None:
                self._writes.close()

    def _run(self, control: Control) -> None:
        try:
            try:
                self._capture(control)
            except OSError as error:
                self.source_error = error
        finally:
            self._check(time.monotonic_ns())
            self.ended = True
            self.queue.end()
        if self._writes is None:
            return
        while not control.ended():
            control.wait_for_end()
            self._record_triggers(control)
        self._record_secrets()
        self._writes.end()
        self._count_shortened()

    def _capture(self, control: Control) -> None:
        last = False
        stopped = packets = 0
        end = 0.0
        while True:
            stopping = control.stopping()  # checked before the read, so that packets before the request are captured
            if stopping and not stopped:
                stopped = time.time_ns()
            remaining = None if self._packets_max is None else self._packets_max - packets
            if (captured := self.source.read(WAIT_SECONDS, remaining)) is not None:
                packets += captured.packets
                if self._writes is not None:
                    self._record_secrets()
                    self._writes.write(captured)
                self.queue.counts[PACKETS] = packets
                if self._decodes:
                    self.queue.put(captured)
                if packets == self._packets_max:
                    return
            self._record_triggers(control)
            if (now := time.monotonic_ns()) >= self._next_check:
                self._check(now)
            if stopping and captured is not None and captured.time >= stopped:  # on a fast line the source is never empty
                return
            if stopping and (captured is None or last):
                end = end or time.monotonic() + LATE_SECONDS
                if time.monotonic() >= end or not self._is_behind(packets):
                    return
            last = stopping and self.source.fullness() == 0

    def _is_behind(self, packets: int) -> bool:
        """Return True when the kernel has received more packets than it dropped and `packets` that were read."""
        self.source.count()
        return self.source.received - self.source.dropped > packets

    def _record_triggers(self, control: Control) -> None:
        if self.recorder is not None and self._writes is not None:
            self._writes.check()
            for moment in control.triggers():
                self.recorder.trigger(moment)
            self._count_shortened()

    def _count_shortened(self) -> None:
        if self.recorder is not None:
            self.queue.counts[SHORTENED] = self.recorder.shortened

    def _record_secrets(self) -> None:
        """Record new secrets. They come before packets, because a reader of the file may need them there."""
        if self._writes is not None and self._secrets is not None and (lines := self._secrets.read()):
            self._writes.describe(secrets_block(lines))

    def _check(self, now: int) -> None:
        """Update the counts."""
        self._next_check = now + CHECK_NANOSECONDS
        self.source.count()
        counts = self.queue.counts
        counts[RECEIVED], counts[DROPPED] = self.source.received, self.source.dropped
        counts[RING] = int(self.source.fullness() * RING_FULL)
