"""Logs of TLS secrets, those that the user gives and those that captures bring: what they say, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pulsarscope.capture import key_log_lines
from pulsarscope.capture.names import printable
from pulsarscope.capture.tally import plural
from pulsarscope.findings import TLS_CODES, Finding
from pulsarscope.limits import TLS_SECRETS_MAX
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
    left_out = secrets.left_out
    malformed = secrets.add(lines, position)
    left_out = secrets.left_out - left_out
    file = None if position == ALWAYS else position[0]
    log = f"the TLS key log {'' if file is None else 'in '}{name}"
    found = []
    for count, code, text in (
        (malformed, "tls-key-log-malformed", f"{plural(malformed, 'line')} of {log} cannot be read."),
        (left_out, "tls-secrets-cap", f"{plural(left_out, 'secret')} of {log} had no room beside {TLS_SECRETS_MAX:,} others."),
    ):
        if count:
            known = TLS_CODES[code]
            found.append(Finding(code, known.severity, known.layer, text, {"lines": count, "path": name}, known.hint, file))
    return found
