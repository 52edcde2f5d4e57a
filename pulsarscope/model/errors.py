"""Public exceptions; anomalies of the traffic are findings instead (`pulsarscope.model.findings`).

PulsarscopeError       an error that the user can correct
├── UsageError         contradictory options, a missing extra                       exit code 2
├── CaptureError       no input could be read as a capture                          exit code 3
└── OutputError        the result could not be written completely                   exit code 5
"""

from __future__ import annotations


class PulsarscopeError(Exception):
    """Abstract error with a message of one line: problem, place and remedy."""

    exit_code = 2

    @property
    def lines(self) -> tuple[str, ...]:
        """Return the message, with more lines where it points at a place in a text."""
        return (str(self),)


class UsageError(PulsarscopeError):
    """Raised for a command line or call that cannot be carried out."""

    exit_code = 2


class CaptureError(PulsarscopeError):
    """Raised when no input could be read as a capture."""

    exit_code = 3


class OutputError(PulsarscopeError):
    """Raised when the result could not be written completely."""

    exit_code = 5
