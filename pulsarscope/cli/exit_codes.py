"""The exit codes of the commands. Those of errors are defined with the exceptions (`pulsarscope.model.errors`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pulsarscope.cli.arguments.options import NEVER
from pulsarscope.model.findings import SEVERITIES

if TYPE_CHECKING:
    from pulsarscope.engine.row_batch import Totals

EXIT_DONE = 0
EXIT_FINDING = 1
EXIT_DAMAGED = 4
EXIT_INCOMPLETE = 5


def exit_code(fail_on: str, run: Totals) -> int:
    """Return the exit code of a finished run with complete output: damage takes precedence over findings."""
    return EXIT_DAMAGED if run.damaged else findings_exit_code(fail_on, run.severities)


def findings_exit_code(fail_on: str, severities: Mapping[str, int]) -> int:
    """Return the exit code of an undamaged run: it fails on a finding of the severity `fail_on` or worse."""
    return EXIT_FINDING if any(severities.get(severity) for severity in failing_severities(fail_on)) else EXIT_DONE


def failing_severities(fail_on: str) -> tuple[str, ...]:
    """Return the severity `fail_on` and all worse ones; an empty tuple for never."""
    return () if fail_on == NEVER else tuple(SEVERITIES[: SEVERITIES.index(fail_on) + 1])
