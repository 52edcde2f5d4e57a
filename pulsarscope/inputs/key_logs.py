"""TLS key logs, given by the user or embedded in captures, and findings on their lines."""

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
    """Contents of key logs."""

    secrets: Secrets = Secrets()
    findings: tuple[Finding, ...] = ()


def read_key_logs(paths: Sequence[str]) -> KeyLogs:
    """Read the TLS secrets in key log files. Raises UsageError when a file cannot be read."""
    secrets = Secrets()
    findings: list[Finding] = []
    for path in paths:
        name, before = printable(path), secrets.lines
        found = add_key_log(secrets, key_log_lines(path), name)
        if not found and secrets.lines == before:
            found = [TLS_CODES["tls-key-log-empty"].at(f"The TLS key log {name} holds no secrets.", {"path": name})]
        findings += found
    return KeyLogs(secrets, tuple(findings))


def key_log_lines(path: str) -> Iterator[bytes]:
    """Yield the lines of a key log, overlong ones in parts. Raises UsageError when the file cannot be read."""
    try:
        with Path(path).open("rb") as log:
            while line := log.readline(KEY_LOG_LINE_MAX_BYTES):
                yield line
    except (OSError, ValueError) as error:  # a NUL in the path is a ValueError
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"the TLS key log {printable(path)} cannot be read: {reason}") from error


def add_key_log(secrets: Secrets, lines: Iterable[bytes], name: str, position: Position = ALWAYS) -> list[Finding]:
    """Add the lines of a key log, known from a position in the capture on; return findings on malformed lines and dropped secrets."""
    dropped = secrets.dropped
    malformed = secrets.add(lines, position)
    dropped = secrets.dropped - dropped
    file = None if position == ALWAYS else position[0]
    log = f"the TLS key log {'' if file is None else 'in '}{name}"
    findings = []
    for count, code, text in (
        (malformed, "tls-key-log-malformed", f"{plural(malformed, 'line')} of {log} {'is' if malformed == 1 else 'are'} not valid."),
        (dropped, "tls-secrets-cap", f"{plural(dropped, 'secret')} of {log} dropped: at most {TLS_SECRETS_MAX:,} are kept."),
    ):
        if count:
            findings.append(TLS_CODES[code].at(text, {"lines": count, "path": name}, file=file))
    return findings
