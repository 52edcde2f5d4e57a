"""Results that are ready before their turn: a queue of bytes in memory, then in a temporary file; beyond that, the producer waits."""

from __future__ import annotations

from collections import deque
from threading import Condition
from typing import Any, BinaryIO

from pulsarscope.model.limits import JOB_DISK_MAX_BYTES, JOB_MEMORY_MAX_BYTES


class Spool:
    """Queue that one thread fills and another empties."""

    def __init__(self) -> None:
        self._queue: deque[bytes | tuple[int, int]] = deque()
        """Messages in order: the bytes themselves, or position in the file and size."""
        self._changed = Condition()
        self._memory = 0
        self._disk: BinaryIO | None = None
        self._disk_end = 0
        self._disk_messages = 0
        self._disk_max = JOB_DISK_MAX_BYTES
        self._ended = False
        self._closed = False

    def put(self, message: bytes) -> bool:
        """Add a message of any size when there is room; return False if nobody reads any more."""
        with self._changed:
            while not (self._closed or self._keep(message)):
                self._changed.wait()
            self._changed.notify_all()
            return not self._closed

    def end(self) -> None:
        """End the queue: no message follows."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def get(self) -> bytes | None:
        """Take the oldest message, once there is one; None at the end."""
        with self._changed:
            while not self._queue:
                if self._ended:
                    return None
                self._changed.wait()
            message = self._take(self._queue.popleft())
            self._changed.notify_all()
            return message

    def close(self) -> None:
        """Drop all messages."""
        with self._changed:
            self._closed = self._ended = True
            self._queue.clear()
            if self._disk is not None:
                self._disk.close()
            self._changed.notify_all()

    def _keep(self, message: bytes) -> bool:
        if not self._queue or self._memory + len(message) <= JOB_MEMORY_MAX_BYTES:
            self._queue.append(message)
            self._memory += len(message)
            return True
        if self._disk_end + len(message) > self._disk_max:
            return False
        try:
            if self._disk is None:
                import tempfile  # noqa: PLC0415 - few runs need it

                self._disk = tempfile.TemporaryFile(prefix="pulsarscope-")  # noqa: SIM115 - open until the spool is closed
            self._disk.seek(self._disk_end)
            self._disk.write(message)
            self._disk.flush()
        except OSError:  # treated as full: go on without it
            self._disk_max = 0
            return False
        self._queue.append((self._disk_end, len(message)))
        self._disk_end += len(message)
        self._disk_messages += 1
        return True

    def _take(self, entry: bytes | tuple[int, int]) -> bytes:
        if isinstance(entry, bytes):
            self._memory -= len(entry)
            return entry
        offset, size = entry
        disk: Any = self._disk
        disk.seek(offset)
        message: bytes = disk.read(size)
        self._disk_messages -= 1
        if not self._disk_messages:
            disk.truncate(0)
            self._disk_end = 0
        return message
