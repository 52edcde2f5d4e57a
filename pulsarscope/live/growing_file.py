"""Captures that other programs are still writing, read as they grow."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from errno import ENOENT
from pathlib import Path
from threading import Event
from typing import BinaryIO

from pulsarscope.capture import BlockReader

POLL_SECONDS = 0.1
"""Interval between checks of a file that may have grown: people would notice a longer delay."""

_HEAD_BYTES = 256
"""Number of first bytes that distinguish one capture from another: the file header, and the time of the first packet."""


class GrowingFile:
    """A stream of the bytes of a file. It ends when it is stopped, or when the file is truncated or replaced."""

    def __init__(self, path: str, stop: Event, renewed: Callable[[str], None]) -> None:
        """Prepare to read; `renewed` gets a text about each change of the file."""
        self.name = path
        self._stop = stop
        self._renewed = renewed
        self._file: BinaryIO | None = None
        self._head = b""
        self._end: int | None = None
        """Position at which to end, once the stream is stopped."""

    def read(self, size: int, /) -> bytes:
        """Return bytes as soon as there are any. Raises OSError when the file cannot be read."""
        while True:
            if self._file is None and not self._open():
                raise FileNotFoundError(ENOENT, os.strerror(ENOENT))  # the file never appeared
            is_new = self._begins_otherwise()
            if not is_new and (data := self._available(size)):
                return data
            if is_new or self._stop.is_set() or self._is_renewed():
                self.close()
                return b""
            self._stop.wait(POLL_SECONDS)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _open(self) -> bool:
        """Open the file as soon as it exists; return False if stopped before."""
        while self._file is None:
            with suppress(FileNotFoundError):
                self._file = Path(self.name).open("rb", buffering=0)  # noqa: SIM115 - it is open while it is followed
            if self._file is not None or self._stop.wait(POLL_SECONDS):
                break
        return self._file is not None

    def _available(self, size: int) -> bytes:
        assert self._file is not None  # noqa: S101 - for the type
        if self._stop.is_set():
            if self._end is None:
                self._end = os.fstat(self._file.fileno()).st_size
            size = min(size, max(self._end - self._file.tell(), 0))
        return self._file.read(size)

    def _begins_otherwise(self) -> bool:
        """Return True if the file was rewritten, possibly with as many bytes as before."""
        assert self._file is not None  # noqa: S101 - for the type
        position = self._file.tell()
        self._file.seek(0)
        head = self._file.read(_HEAD_BYTES)
        self._file.seek(position)
        known, self._head = self._head, head
        if head.startswith(known):
            return False
        self._renewed("was written anew")
        return True

    def _is_renewed(self) -> bool:
        """Return True if the path now names another file, or this one has become shorter."""
        assert self._file is not None  # noqa: S101 - for the type
        here = os.fstat(self._file.fileno())
        if here.st_size < self._file.tell():
            self._renewed("is shorter than before")
            return True
        try:
            there = Path(self.name).stat()
        except OSError:
            return False  # no file at the path: the next one is still to come, or there is none
        if (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino) or here.st_size > self._file.tell():
            return False
        self._renewed("was replaced")
        return True


class FollowedBlocks:
    """Blocks of a capture that grows. A file that replaces it is the next file of the run."""

    def __init__(self, path: str, note: Callable[[str], None]) -> None:
        """Prepare to read; `note` gets lines for the user."""
        self.paths = [path]
        """Paths of the files of the run; each new file appends one."""
        self._note = note
        self._stopped = Event()
        self._file: GrowingFile | None = None

    @property
    def stopping(self) -> bool:
        """Return True after `stop`."""
        return self._stopped.is_set()

    def stop(self) -> None:
        """End after the bytes that are there now."""
        self._stopped.set()

    def __call__(self, path: str, file: int) -> BlockReader:
        """Return the blocks of the file at a path; `file` is its number."""

        def renewed(what: str) -> None:
            self._note(f"{path} {what}: it is read from its beginning, as file {file + 1}")
            self.paths.append(path)

        self.close()
        self._file = GrowingFile(path, self._stopped, renewed)
        return BlockReader(self._file, file)

    def close(self) -> None:
        """Close the file that is read."""
        if self._file is not None:
            self._file.close()
