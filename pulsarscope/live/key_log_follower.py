"""TLS key logs, followed while programs append to them."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from pathlib import Path

import msgspec

from pulsarscope.model.errors import UsageError, system_reason
from pulsarscope.model.limits import KEY_LOG_READ_MAX_BYTES
from pulsarscope.model.text import printable


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
