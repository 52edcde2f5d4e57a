"""Secrets of TLS connections, from key logs in the NSS format (draft-ietf-tls-keylogfile).

A secret is known from a position in the capture on: that of the block that contains it, or from the start if the user gave it. A search
names its own position, so that a parallel run, which has read all secrets before, decides like a sequential one.
"""

from __future__ import annotations

from binascii import unhexlify
from collections.abc import Iterable

from pulsarscope.model.limits import TLS_SECRETS_MAX

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
    """Secrets by client random or session id; of several for one key the first is kept."""

    __slots__ = ("_bases", "_secrets", "dropped", "lines")

    def __init__(self, base: Secrets | None = None) -> None:
        """Initialize an empty store, with the secrets of `base` before its own."""
        self._bases: tuple[Secrets, ...] = () if base is None else (*base._bases, base)  # noqa: SLF001 - of the same kind
        self._secrets: dict[bytes, tuple[Position, bytes]] = {}
        self.dropped = 0
        """Number of secrets dropped above the bound."""
        self.lines = 0
        """Number of lines with a secret of TLS, of those that were known, too."""

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
        """Return the secret of a connection with this label of key logs, None when it is not known at a place in the capture."""
        return self._find(bytes((_LABELS[label.encode()],)) + client_random, place)

    def find_session(self, session_id: bytes, place: Position) -> bytes | None:
        """Return the master secret of a TLS 1.2 session, None when it is not known at position `place`."""
        return self._find(bytes((_SESSION_INDEX,)) + session_id, place) if session_id else None

    def _find(self, key: bytes, place: Position) -> bytes | None:
        for store in (*self._bases, self):
            position, secret = store._secrets.get(key, (place, b""))  # noqa: SLF001 - as above
            if position < place:
                return secret
        return None
