"""Logs of TLS secrets, those that the user gives and those that captures bring: what they say, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pulsarscope.capture import key_log_lines
from pulsarscope.capture.names import printable
from pulsarscope.capture.tally import plural
from pulsarscope.findings import TLS_CODES, Finding
from pulsarscope.tls.secrets import ALWAYS, Position, Secrets


class KeyLogs(NamedTuple):
    """What key logs say."""

    secrets: Secrets = Secrets()
    findings: tuple[Finding, ...] = ()


def read_key_logs(paths: Sequence[str]) -> KeyLogs:
    """The TLS secrets in these files.

    Raises:
        UsageError: one of them cannot be read.
    """
    secrets = Secrets()
    findings = [found for path in paths for found in take_key_log(secrets, key_log_lines(path), printable(path))]
    return KeyLogs(secrets, tuple(findings))


def take_key_log(secrets: Secrets, lines: Iterable[bytes], name: str, position: Position = ALWAYS) -> list[Finding]:
    """Add what a key log says; what is wrong with it."""
    malformed = secrets.add(lines, position)
    if not malformed:
        return []
    known = TLS_CODES["tls-key-log-malformed"]
    text = f"{plural(malformed, 'line')} of the TLS key log {'in ' if position != ALWAYS else ''}{name} cannot be read."
    file = None if position == ALWAYS else position[0]
    return [Finding(known.code, known.severity, known.layer, text, {"lines": malformed, "path": name}, known.hint, file)]
