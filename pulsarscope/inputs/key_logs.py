"""Logs of TLS secrets, those that the user gives and those that captures bring: what they say, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pulsarscope.inputs.tls_secrets import ALWAYS, Position, Secrets
from pulsarscope.model.errors import UsageError
from pulsarscope.model.findings import TLS_CODES, Finding
from pulsarscope.model.limits import KEY_LOG_LINE_MAX_BYTES, TLS_SECRETS_MAX
from pulsarscope.model.text import plural, printable


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


def take_key_log(secrets: Secrets, lines: Iterable[bytes], name: str, position: Position = ALWAYS) -> list[Finding]:
    """Add what a key log says; what is wrong with it."""
    left_out = secrets.left_out
    malformed = secrets.add(lines, position)
    left_out = secrets.left_out - left_out
    file = None if position == ALWAYS else position[0]
    log = f"the TLS key log {'' if file is None else 'in '}{name}"
    found = []
    for count, code, text in (
        (malformed, "tls-key-log-malformed", f"{plural(malformed, 'line')} of {log} are not valid."),
        (left_out, "tls-secrets-cap", f"{plural(left_out, 'secret')} of {log} dropped: at most {TLS_SECRETS_MAX:,} are kept."),
    ):
        if count:
            found.append(TLS_CODES[code].at(text, {"lines": count, "path": name}, file=file))
    return found
