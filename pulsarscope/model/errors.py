"""Public exceptions; anomalies of the traffic are findings instead (`pulsarscope.model.findings`).

PulsarscopeError       an error that the user can correct
├── UsageError         contradictory options, a missing extra                       exit code 2
├── CaptureError       no input could be read as a capture                          exit code 3
├── OutputError        the result could not be written completely                   exit code 5
└── InternalError      a fault of pulsarscope itself, or lack of memory             exit code 6
"""

from __future__ import annotations

import errno

from pulsarscope.model.users import current_user


class PulsarscopeError(Exception):
    """Abstract error with a one-line message: problem, place and remedy."""

    exit_code = 2

    @property
    def lines(self) -> tuple[str, ...]:
        """Return the message, followed by further lines if it points at a place in a text."""
        return (str(self),)


class UsageError(PulsarscopeError):
    """Raised for a command line or call that cannot be carried out."""

    exit_code = 2

    def __init__(self, message: str = "", *more: str) -> None:
        """Take the message, and in `more` the lines that point at a place in a text."""
        self._lines = (message, *more)
        super().__init__("\n".join(self._lines))

    @property
    def lines(self) -> tuple[str, ...]:
        """Return the message and the lines that point at a place in a text."""
        return self._lines


class CaptureError(PulsarscopeError):
    """Raised when no input could be read as a capture."""

    exit_code = 3


class OutputError(PulsarscopeError):
    """Raised when the result could not be written completely."""

    exit_code = 5


def system_reason(error: OSError | ValueError) -> str:
    """Return the system's reason why a file cannot be read or written; a NUL in a path raises ValueError."""
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    denied = isinstance(error, PermissionError) and error.errno in (errno.EACCES, errno.EPERM)  # errors of remote stores have no number
    return f"{reason} for {current_user()}" if denied else reason


def output_error(name: str, error: OSError, action: str = "write", *, has_folder: bool) -> OutputError:
    """Describe why a result could not be written: the system's reason, or a folder that is missing or, like /proc, takes no files."""
    reason = system_reason(error)
    if isinstance(error, FileNotFoundError):
        reason = "its folder takes no files" if has_folder else "its folder does not exist"
    return OutputError(f"cannot {action} {name}: {reason}")


INTERRUPTED = "interrupted; there is no output"


class InternalError(PulsarscopeError):
    """Raised for a fault of pulsarscope itself, or lack of memory: the output is not complete."""

    exit_code = 6


FAULT_CHARACTERS_MAX = 200
"""Longest part of an exception's text that is repeated, characters: it may contain bytes of the traffic."""


NO_THREAD = "can't start new thread"
"""Text of Python's RuntimeError if the system refuses a thread."""


def internal_error(error: BaseException) -> InternalError:
    """Describe an unexpected exception in one line, with the place that raised it."""
    if isinstance(error, MemoryError):
        return InternalError("there is not enough memory; the output is not complete")
    if str(error) == NO_THREAD:
        return InternalError("no thread can be started: there is not enough memory, or too many run; the output is not complete")
    trace, place = error.__traceback__, ""
    while trace is not None:
        place = f" ({trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno})"
        trace = trace.tb_next
    text = " ".join(str(error).split())[:FAULT_CHARACTERS_MAX]
    return InternalError(f"internal error: {type(error).__name__}{f': {text}' if text else ''}{place}; python -X dev shows where")
