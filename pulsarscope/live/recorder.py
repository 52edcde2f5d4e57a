"""Live packets into pcapng files: one, a ring of several, or only what happened around a finding."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import BinaryIO

import msgspec

from pulsarscope.live.source import Captured
from pulsarscope.model.errors import OutputError
from pulsarscope.model.limits import LIVE_TRIGGER_MAX_BYTES

NANOSECONDS = 1_000_000_000

LATE_SECONDS = 60
"""How late a trigger may come: findings about what did not happen wait until it cannot happen any more."""


class Rotation(msgspec.Struct, frozen=True):
    """When a file is full, and how many are kept; None: no bound."""

    size: int | None = None
    """Bytes of a file."""
    seconds: float | None = None
    """From the first to the last packet of a file."""
    files: int | None = None
    """The oldest is removed when there would be more."""
    numbered: bool = False
    """There may be several files even so."""


class Keeper:
    """Takes all packets into files. Not for several threads, but for `written`."""

    def __init__(self, path: str, head: bytes, rotation: Rotation, tail: Callable[[], bytes]) -> None:
        """Opens the first file.

        Args:
            path: of the file; when there may be several, each has a number and its first moment between name and suffix.
            head: what each file begins with.
            rotation: when the next one begins.
            tail: what each file ends with, asked for at its end.

        Raises:
            OutputError: the file cannot be written.
        """
        self.written: list[str] = []
        """The files that are there, the oldest first."""
        self.files = 0
        """All that were begun."""
        self._path = Path(path)
        self._head = head
        self._tail = tail
        self._rotation = rotation
        self._file: BinaryIO | None = None
        self._name = path
        self._size = 0
        self._since = 0
        if not self._rotates:
            self._begin(0)

    @property
    def _rotates(self) -> bool:
        return self._rotation.numbered or self._rotation.size is not None or self._rotation.seconds is not None

    def describe(self, interface: bytes) -> None:
        """See `Keep`."""
        self._head += interface
        if self._file is not None:
            self._write(interface)

    def __call__(self, captured: Captured) -> None:
        """Keep some packets. Raises OutputError when they cannot be written; the file then ends with the packets before."""
        if self._file is None or self._is_full(captured):
            self.end()
            self._begin(captured.time)
        self._write(captured.data)

    def end(self) -> None:
        """The packets that come go into another file."""
        if self._file is not None:
            try:
                self._write(self._tail())
            finally:
                self._close()

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with _told_errors(self._name):
                file.close()

    def _is_full(self, captured: Captured) -> bool:
        if not self._rotates or self._size <= len(self._head):
            return False
        size, seconds = self._rotation.size, self._rotation.seconds
        return (size is not None and self._size + len(captured.data) > size) or (
            seconds is not None and captured.time - self._since >= seconds * NANOSECONDS
        )

    def _begin(self, first_time: int) -> None:
        self.files += 1
        name = self._path
        if self._rotates:
            moment = datetime.fromtimestamp(first_time // NANOSECONDS, timezone.utc).strftime("%Y%m%d%H%M%S")
            name = name.with_name(f"{name.stem}_{self.files:05}_{moment}{name.suffix}")
        self._name = str(name)
        while self._rotation.files is not None and len(self.written) >= self._rotation.files:
            oldest = self.written.pop(0)
            with _told_errors(oldest, "remove"):
                Path(oldest).unlink(missing_ok=True)
        with _told_errors(self._name):
            self._file = name.open("wb", buffering=0)
        self.written.append(self._name)
        self._size = 0
        self._since = first_time
        self._write(self._head)

    def _write(self, data: bytes) -> None:
        """All or nothing: a file that cannot grow ends where a packet ends."""
        file = self._file
        if file is None:
            return
        try:
            view = memoryview(data)
            while view:
                view = view[file.write(view) :]
        except OSError as error:
            with suppress(OSError):  # a device has no end to be moved
                os.ftruncate(file.fileno(), self._size)
            with suppress(OutputError):
                self._close()
            message = f"cannot write {self._name}: {error.strerror or error}; it has the packets before"
            raise OutputError(message) from error
        self._size += len(data)


@contextmanager
def _told_errors(name: str, what: str = "write") -> Iterator[None]:
    """Turn what the system refuses into OutputError: an OSError would say that the interface is gone."""
    try:
        yield
    except OSError as error:
        message = f"cannot {what} {name}: {error.strerror or error}"
        raise OutputError(message) from error


class TriggeredKeeper:
    """Keeps the packets around what triggers it: each time a file of its own, longer when it happens again meanwhile."""

    def __init__(self, keeper: Keeper, seconds: float) -> None:
        """`keeper` writes the files, `seconds` before and after the trigger."""
        self._keeper = keeper
        self._around = int(seconds * NANOSECONDS)
        self._before: deque[Captured] = deque()
        self._bytes = 0
        self._triggers: deque[int] = deque()
        self._until = 0
        self._gone = 0
        """When the last packet was taken that has not been kept."""
        self.shortened = 0
        """Triggers before which packets are missing: they came too late, or the packets needed more memory than there is for them."""

    def trigger(self, moment: int) -> None:
        """Something has happened, nanoseconds since the epoch. May be called from another thread."""
        self._triggers.append(moment)

    def describe(self, interface: bytes) -> None:
        """See `Keep`."""
        self._keeper.describe(interface)

    def end(self) -> None:
        """See `Keep`."""
        self._answer()
        self._keeper.end()

    def __call__(self, captured: Captured) -> None:
        """Keep these packets when they are close enough to a trigger; else have them ready for one."""
        self._answer()
        if captured.time <= self._until:
            self._keeper(captured)
            return
        self._before.append(captured)
        self._bytes += len(captured.data)
        longest = self._around + LATE_SECONDS * NANOSECONDS
        while self._bytes > LIVE_TRIGGER_MAX_BYTES or captured.time - self._before[0].time > longest:
            self._gone = self._before[0].time
            self._bytes -= len(self._before.popleft().data)

    def _answer(self) -> None:
        """Save what has waited for the triggers that have come."""
        while self._triggers:
            self._save_from(self._triggers.popleft())

    def _save_from(self, moment: int) -> None:
        if self._gone >= moment - self._around:
            self.shortened += 1
        if moment - self._around > self._until:
            self._keeper.end()  # not sooner: a trigger that comes late may continue the file
        self._until = max(self._until, moment + self._around)
        while self._before and self._before[0].time <= self._until:
            captured = self._before.popleft()
            self._bytes -= len(captured.data)
            if captured.time >= moment - self._around:
                self._keeper(captured)
