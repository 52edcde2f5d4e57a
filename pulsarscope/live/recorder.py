"""Recording of live packets to pcapng files: a single file, a ring of files, or only the packets around a finding."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from struct import Struct
from typing import BinaryIO

import msgspec

from pulsarscope.live.packet_source import CapturedPackets
from pulsarscope.model.errors import OutputError, output_error, system_reason
from pulsarscope.model.live_limits import LIVE_TRIGGER_MAX_BYTES
from pulsarscope.model.units import SECOND

LATE_SECONDS = 60
"""Longest delay of a trigger: findings about missing events are reported only when the event can no longer occur."""


_block_size = Struct("<I").unpack_from
"""Unpacks the length of a pcapng block, which is at offset 4."""


def _complete_bytes(blocks: bytes, size: int) -> int:
    """Return the size of the pcapng blocks that are complete within the first `size` bytes."""
    end = 0
    while end < len(blocks) and (following := end + _block_size(blocks, end + 4)[0]) <= size:
        end = following
    return end


def rotated_name(path: Path, number: int, seconds: int) -> Path:
    """Return the name of one of several files, with its number and its first time, given in seconds since the epoch."""
    moment = datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y%m%d%H%M%S")
    return path.with_name(f"{path.stem}_{number:05}_{moment}{path.suffix}")


class Rotation(msgspec.Struct, frozen=True):
    """Bounds on files; None for no bound."""

    size: int | None = None
    """Largest file, in bytes."""
    seconds: float | None = None
    """Longest time from the first to the last packet of a file, in seconds."""
    files: int | None = None
    """Number of files kept; beyond it, the oldest is removed."""
    numbered: bool = False
    """True when there may be several files even without bounds."""


class Recorder:
    """A recorder of all packets."""

    shortened = 0

    def __init__(self, path: str, head: bytes, rotation: Rotation, tail: Callable[[], bytes]) -> None:
        """Open the first file. Files begin with `head` and end with the result of `tail`. Raises OutputError when it cannot be written.

        If there are several files, each has its number and first time between name and suffix.
        """
        self.written: list[str] = []
        """Existing files, oldest first."""
        self.files = 0
        """Number of files started."""
        self._path = Path(path)
        self._head = head
        self._tail = tail
        self._rotation = rotation
        self._file: BinaryIO | None = None
        self._name = path
        self._size = 0
        self._first_time = 0
        if not self._rotates:
            self._begin(0)

    def recorded(self) -> tuple[int, str]:
        """Return the number of files and the name of the latest; safe from another thread."""
        return len(self.written), self._name if self.written else ""

    def detach(self) -> None:
        """Close the open file without ending it: another process goes on."""
        self._close()

    def trigger(self, moment: int) -> None:
        """Do nothing: all packets are recorded."""

    @property
    def _rotates(self) -> bool:
        return self._rotation.numbered or self._rotation.size is not None or self._rotation.seconds is not None

    def describe(self, interface: bytes) -> None:
        """Add an interface to this and all further files."""
        self._head += interface
        if self._file is not None:
            self._write(interface)

    def __call__(self, captured: CapturedPackets) -> None:
        """Write packets. Raises OutputError when some cannot be written; the file then ends with the packets before these."""
        for part in self._parts(captured):
            if self._file is None or self._is_full(part):
                self.end()
                self._begin(part.time)
            self._write(part.data)

    def _parts(self, captured: CapturedPackets) -> Iterator[CapturedPackets]:
        """Split packets that are too large for one file."""
        largest = None if self._rotation.size is None else max(self._rotation.size - len(self._head), 0)
        if largest is None or len(captured.data) <= largest:
            yield captured
            return
        data, start, end = captured.data, 0, 0
        while end < len(data):
            following = end + _block_size(data, end + 4)[0]
            if end > start and following - start > largest:
                yield CapturedPackets(data[start:end], 0, captured.time)
                start = end
            end = following
        yield CapturedPackets(data[start:], 0, captured.time)

    def end(self) -> None:
        """End the current file; further packets begin another."""
        if self._file is not None:
            try:
                self._write(self._tail())
            finally:
                self._close()

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with _output_errors(self._name):
                file.close()

    def _is_full(self, captured: CapturedPackets) -> bool:
        if not self._rotates or self._size <= len(self._head):
            return False
        size, seconds = self._rotation.size, self._rotation.seconds
        return (size is not None and self._size + len(captured.data) > size) or (
            seconds is not None and captured.time - self._first_time >= seconds * SECOND
        )

    def _begin(self, first_time: int) -> None:
        self.files += 1
        name = self._path
        if self._rotates:
            name = rotated_name(name, self.files, first_time // SECOND)
        self._name = str(name)
        while self._rotation.files is not None and len(self.written) >= self._rotation.files:
            oldest = self.written.pop(0)
            with _output_errors(oldest, "remove"):
                Path(oldest).unlink(missing_ok=True)
        with _output_errors(self._name):
            self._file = name.open("wb", buffering=0)
        self.written.append(self._name)
        self._size = 0
        self._first_time = first_time
        self._write(self._head)

    def _write(self, data: bytes) -> None:
        """Write pcapng blocks; a file that cannot grow ends after the last complete one."""
        if (file := self._file) is None:
            return
        written = 0
        try:
            while written < len(data):
                written += file.write(memoryview(data)[written:])
        except OSError as error:
            with suppress(OSError):  # a device cannot be truncated
                os.ftruncate(file.fileno(), self._size + _complete_bytes(data, written))
            with suppress(OutputError):
                self._close()
            raise OutputError(f"cannot write {self._name}: {system_reason(error)}; the packets before are in it") from error
        self._size += len(data)


@contextmanager
def _output_errors(name: str, action: str = "write") -> Iterator[None]:
    """Convert OSError to OutputError, because an OSError of the capture means that the interface is gone."""
    try:
        yield
    except OSError as error:
        raise output_error(name, error, action, has_folder=Path(name).parent.is_dir()) from error


class TriggeredRecorder:
    """A recorder of the packets around triggers. Each trigger gets its own file; triggers in the meantime extend the file."""

    def __init__(self, recorder: Recorder, seconds: float) -> None:
        """Initialize with the recorder of the files and the number of seconds to record before and after a trigger."""
        self._recorder = recorder
        self._margin = int(seconds * SECOND)
        self._before: deque[CapturedPackets] = deque()
        self._bytes = 0
        self._triggers: deque[int] = deque()
        self._until = 0
        self._dropped_until = 0
        """Time of the last packet dropped without being recorded, in ns."""
        self.shortened = 0
        """Number of triggers with missing packets before them: they came too late, or the memory for packets was full."""

    def recorded(self) -> tuple[int, str]:
        """Return the number of files and the name of the latest; safe from another thread."""
        return self._recorder.recorded()

    def detach(self) -> None:
        """Close the open file without ending it: another process goes on."""
        self._recorder.detach()

    def trigger(self, moment: int) -> None:
        """Add a trigger at a time in ns since the epoch; safe from another thread."""
        self._triggers.append(moment)

    def describe(self, interface: bytes) -> None:
        """Add an interface (see `PacketWriter`)."""
        self._recorder.describe(interface)

    def end(self) -> None:
        """Handle the pending triggers, and end the current file."""
        self._handle_triggers()
        self._recorder.end()

    def __call__(self, captured: CapturedPackets) -> None:
        """Write packets that follow a trigger closely enough; keep others for a later trigger."""
        self._handle_triggers()
        if captured.time <= self._until:
            self._recorder(captured)
            return
        self._before.append(captured)
        self._bytes += len(captured.data)
        longest = self._margin + LATE_SECONDS * SECOND
        while self._bytes > LIVE_TRIGGER_MAX_BYTES or captured.time - self._before[0].time > longest:
            self._dropped_until = self._before[0].time
            self._bytes -= len(self._before.popleft().data)

    def _handle_triggers(self) -> None:
        """Record the kept packets of the pending triggers."""
        while self._triggers:
            self._save_from(self._triggers.popleft())

    def _save_from(self, moment: int) -> None:
        if self._dropped_until >= moment - self._margin:
            self.shortened += 1
        if moment - self._margin > self._until:
            self._recorder.end()  # only here, because a late trigger may extend the file
        self._until = max(self._until, moment + self._margin)
        while self._before and self._before[0].time <= self._until:
            captured = self._before.popleft()
            self._bytes -= len(captured.data)
            if captured.time >= moment - self._margin:
                self._recorder(captured)
