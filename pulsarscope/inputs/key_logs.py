"""TLS key logs, given by the user or embedded in captures, and findings on their lines."""

from __future__ import annotations

from binascii import unhexlify
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pulsarscope.model.errors import UsageError, system_reason
from pulsarscope.model.findings import TLS_CODES, Finding
from pulsarscope.model.limits import KEY_LOG_LINE_MAX_BYTES, TLS_SECRETS_MAX
from pulsarscope.model.text import plural, printable

Position = tuple[int, int]
"""(file, number of its packets before the position)."""

ALWAYS: Position = (-1, 0)

MASTER_SECRET = "CLIENT_RANDOM"  # noqa: S105 - a label
EARLY = "CLIENT_EARLY_TRAFFIC_SECRET"
HANDSHAKE = ("CLIENT_HANDSHAKE_TRAFFIC_SECRET", "SERVER_HANDSHAKE_TRAFFIC_SECRET")
TRAFFIC = ("CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0")

_RANDOM_BYTES = 32
_MASTER_SECRET_BYTES = 48
_HASH_BYTES = frozenset({32, 48})
_LABELS = {label.encode(): index for index, label in enumerate((MASTER_SECRET, EARLY, *HANDSHAKE, *TRAFFIC))}
_SESSION, _MASTER_KEY = b"Session-ID:", b"Master-Key:"
_SESSION_INDEX = len(_LABELS)


class Secrets:
    """Secrets by client random or session id; the first of several with the same key is kept."""

    __slots__ = ("_bases", "_secrets", "dropped", "lines")

    def __init__(self, base: Secrets | None = None) -> None:
        """Create an empty store, with the secrets of `base` taking precedence over its own."""
        self._bases: tuple[Secrets, ...] = () if base is None else (*base._bases, base)  # noqa: SLF001 - of the same kind
        self._secrets: dict[bytes, tuple[Position, bytes]] = {}
        self.dropped = 0
        """Number of secrets dropped because of the bound."""
        self.lines = 0
        """Number of lines with a TLS secret, including known ones."""

    def __bool__(self) -> bool:
        return bool(self._secrets) or any(self._bases)

    def add(self, lines: Iterable[bytes], position: Position = ALWAYS) -> int:
        """Add the lines of a key log; return the number of malformed ones."""
        malformed = 0
        for line in lines:
            if (words := line.split()) and not words[0].startswith(b"#"):
                try:
                    self._add_line(words, position)
                except ValueError:
                    malformed += 1
        return malformed

    def _add_line(self, words: list[bytes], position: Position) -> None:
        """Add a line: label, client random and secret, or RSA Session-ID:… Master-Key:…. Raises ValueError when it is malformed."""
        label, name, secret = words
        if label == b"RSA" and name.startswith(_SESSION) and secret.startswith(_MASTER_KEY):
            index, key, value = _SESSION_INDEX, unhexlify(name[len(_SESSION) :]), unhexlify(secret[len(_MASTER_KEY) :])
            valid = 0 < len(key) <= _RANDOM_BYTES and len(value) == _MASTER_SECRET_BYTES
        else:
            key, value = unhexlify(name), unhexlify(secret)
            if (label_index := _LABELS.get(label)) is None:
                return  # a label of another protocol, or not needed for decryption
            index = label_index
            valid = len(key) == _RANDOM_BYTES and (len(value) == _MASTER_SECRET_BYTES if index == 0 else len(value) in _HASH_BYTES)
        if not valid:
            raise ValueError
        self.lines += 1
        key = bytes((index,)) + key
        if key not in self._secrets:
            if len(self._secrets) < TLS_SECRETS_MAX:
                self._secrets[key] = (position, value)
            else:
                self.dropped += 1

    def find(self, label: str, client_random: bytes, place: Position) -> bytes | None:
        """Return a connection's secret for this key log label, None when it is unknown at this place in the capture."""
        return self._find(bytes((_LABELS[label.encode()],)) + client_random, place)

    def find_session(self, session_id: bytes, place: Position) -> bytes | None:
        """Return the master secret of a TLS 1.2 session, None when it is unknown at position `place`."""
        return self._find(bytes((_SESSION_INDEX,)) + session_id, place) if session_id else None

    def _find(self, key: bytes, place: Position) -> bytes | None:
        for store in (*self._bases, self):
            position, secret = store._secrets.get(key, (place, b""))  # noqa: SLF001 - as above
            if position < place:
                return secret
        return None


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
    except (OSError, ValueError) as error:
        raise UsageError(f"the TLS key log {printable(path)} cannot be read: {system_reason(error)}") from error


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
