"""TLS key logs as files: their lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pulsarscope.capture.names import printable
from pulsarscope.errors import UsageError
from pulsarscope.limits import KEY_LOG_LINE_MAX_BYTES


def key_log_lines(path: str) -> Iterator[bytes]:
    """The lines of a key log; one that is too long comes in parts.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        with Path(path).open("rb") as log:
            while line := log.readline(KEY_LOG_LINE_MAX_BYTES):
                yield line
    except (OSError, ValueError) as error:  # a NUL in the path is a ValueError
        reason = getattr(error, "strerror", None) or error
        message = f"the TLS key log {printable(path)} cannot be read: {reason}"
        raise UsageError(message) from error
