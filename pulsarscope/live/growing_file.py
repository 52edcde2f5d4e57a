"""Captures that other programs still write: each is read as it grows."""

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
"""Time between two looks at a file that may have grown: what people notice as a delay."""

_HEAD_BYTES = 256
"""First bytes, which distinguish a capture from another one: its head, and the time of its first packet."""


class GrowingFile:
    """A stream of the bytes of a file. It ends when it is stopped, or when the file is cut short or replaced."""

    def __init__(self, path: str, stop: Event, renewed: Callable[[str], None]) -> None:
        """Read nothing; `renewed` gets what has happened to the file, in words."""
        self.name = path
        self._stop = stop
        self._renewed = renewed
        self._file: BinaryIO | None = None
        self._head = b""
        self._end: int | None = None
        """Position at which to end, once it is stopped."""

    def read(self, size: int, /) -> bytes:
        """Return bytes as soon as there are some. Raises OSError when the file cannot be read."""
        while True:
            if self._file is None and not self._open():
                raise FileNotFoundError(ENOENT, os.strerror(ENOENT))  # it never came
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
        """Open the file as soon as there is one; False when it is stopped before."""
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
        """Tell whether the file was written anew, and perhaps has as many bytes as before."""
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
        """Tell whether the name stands for another file now, or for less of this one."""
        assert self._file is not None  # noqa: S101 - for the type
        here = os.fstat(self._file.fileno())
        if here.st_size < self._file.tell():
            self._renewed("is shorter than before")
            return True
        try:
            there = Path(self.name).stat()
        except OSError:
            return False  # between two files, or the last of them
        if (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino) or here.st_size > self._file.tell():
            return False
        self._renewed("was replaced")
        return True


class FollowedBlocks:
    """Blocks of a capture that grows; what stands in its place later is the next file of the run."""

    def __init__(self, path: str, note: Callable[[str], None]) -> None:
        """Read nothing; `note` gets lines for the user."""
        self.paths = [path]
        """Grows with each file."""
        self._note = note
        self._stopped = Event()
        self._file: GrowingFile | None = None

    @property
    def stopping(self) -> bool:
        """Return True after `stop`."""
        return self._stopped.is_set()

    def stop(self) -> None:
        """End after what there is now."""
        self._stopped.set()

    def __call__(self, path: str, file: int) -> BlockReader:
        """Return the blocks of the file at a path, the one of this number."""

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
