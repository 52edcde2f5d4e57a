"""The public exceptions. What the traffic does never raises: it becomes a finding (`pulsarscope.model.findings`).

PulsarscopeError       the person running us can act on it
├── UsageError         options that contradict each other, a missing extra          exit code 2
├── CaptureError       no input could be read as a capture                          exit code 3
└── OutputError        the result could not be written in full                      exit code 5
"""

from __future__ import annotations


class PulsarscopeError(Exception):
    """Abstract: one line that says what, where and what to do."""

    exit_code = 2

    @property
    def lines(self) -> tuple[str, ...]:
        """The line; a few more where it points at a place in a text."""
        return (str(self),)


class UsageError(PulsarscopeError):
    """The command line or the call cannot be carried out as asked."""

    exit_code = 2


class CaptureError(PulsarscopeError):
    """No input could be read as a capture."""

    exit_code = 3


class OutputError(PulsarscopeError):
    """The result could not be written in full."""

    exit_code = 5
