"""The loop that empties a packet source: it queues all packets for the recorder and for decoding. It never waits for decoding."""

from __future__ import annotations

import stat
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from pulsarscope.live.packet_queue import DROPPED, PACKETS, RECEIVED, RING, SHORTENED, PacketQueue
from pulsarscope.live.packet_source import PacketSource, PacketWriter
from pulsarscope.live.write_queue import WriteQueue
from pulsarscope.model.errors import UsageError, system_reason
from pulsarscope.model.limits import KEY_LOG_READ_MAX_BYTES
from pulsarscope.model.text import printable
from pulsarscope.output.export.pcapng import secrets_block


class _Log(msgspec.Struct):
    path: Path
    inode: int = 0
    offset: int = 0
    """Bytes read, of whole lines."""


class KeyLogFollower:
    """A reader of the lines that programs append to key logs."""

    def __init__(self, paths: Sequence[str]) -> None:
        """Prepare to follow the files. Raises UsageError for a path that exists and cannot be read, or is not a file."""
        self._logs = [_Log(Path(path)) for path in paths]
        for log in self._logs:
            _check(log.path)

    def read(self) -> bytes:
        """Return the new complete lines, or b"" if there are none. A file that shrank or was replaced is read from its beginning."""
        return b"".join(map(_new_lines, self._logs))


def _check(path: Path) -> None:
    """Raise UsageError for a path that exists and cannot be read line by line."""
    name = f"the TLS key log {printable(str(path))}"
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UsageError(f"{name} is not a regular file: no other can be followed")
        path.open("rb").close()
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise UsageError(f"{name} cannot be read: {system_reason(error)}") from error


def _new_lines(log: _Log) -> bytes:
    try:
        status = log.path.stat()
        if status.st_ino != log.inode or status.st_size < log.offset:
            log.inode, log.offset = status.st_ino, 0
        if status.st_size == log.offset:
            return b""
        with log.path.open("rb") as file:
            file.seek(log.offset)
            data = file.read(KEY_LOG_READ_MAX_BYTES)
    except OSError:  # it may appear, or become readable, later
        return b""
    end = data.rfind(b"\n") + 1
    if not end and len(data) == KEY_LOG_READ_MAX_BYTES:
        end = len(data)  # no valid line is so long; its remainder counts as malformed
    log.offset += end
    return data[:end]


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
