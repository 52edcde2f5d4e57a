"""The secrets of TLS connections, from key logs in the NSS format (draft-ietf-tls-keylogfile).

A secret holds from a place of the capture on: that of the block that brought it, or always, when it was given beforehand. Whoever looks
for one says where it stands, so a run that reads files side by side, and knows all secrets early, decides as one that reads on.
"""

from __future__ import annotations

from binascii import unhexlify
from collections.abc import Iterable

from pulsarscope.model.limits import TLS_SECRETS_MAX

Position = tuple[int, int]
"""A file of the run's list, and how many of its packets come before."""

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
    """Secrets by the random of a client's hello, or by session id; of several for one thing the first is kept."""

    __slots__ = ("_bases", "_kept", "left_out")

    def __init__(self, base: Secrets | None = None) -> None:
        """`base`: others, which come first and stay as they are."""
        self._bases: tuple[Secrets, ...] = () if base is None else (*base._bases, base)  # noqa: SLF001 - of the same kind
        self._kept: dict[bytes, tuple[Position, bytes]] = {}
        self.left_out = 0
        """Secrets that are not kept, for there are too many."""

    def __bool__(self) -> bool:
        return bool(self._kept) or any(self._bases)

    def add(self, lines: Iterable[bytes], position: Position = ALWAYS) -> int:
        """Take the lines of a key log; how many of them are none."""
        malformed = 0
        for line in lines:
            words = line.split()
            if words and not words[0].startswith(b"#"):
                try:
                    self._take(words, position)
                except ValueError:
                    malformed += 1
        return malformed

    def _take(self, words: list[bytes], position: Position) -> None:
        """One line: label, random, secret; or as `openssl` and agents for old Java write it: RSA Session-ID:… Master-Key:….

        Raises:
            ValueError: it is none of a key log.
        """
        label, name, secret = words
        if label == b"RSA" and name.startswith(_SESSION) and secret.startswith(_MASTER_KEY):
            index, key, value = _SESSION_INDEX, unhexlify(name[len(_SESSION) :]), unhexlify(secret[len(_MASTER_KEY) :])
            right = 0 < len(key) <= _RANDOM_BYTES and len(value) == _MASTER_SECRET_BYTES
        else:
            key, value = unhexlify(name), unhexlify(secret)
            known = _LABELS.get(label)
            if known is None:
                return  # of another protocol, or of no use for reading
            index = known
            right = len(key) == _RANDOM_BYTES and (len(value) == _MASTER_SECRET_BYTES if index == 0 else len(value) in _HASH_BYTES)
        if not right:
            raise ValueError
        key = bytes((index,)) + key
        if key not in self._kept:
            if len(self._kept) < TLS_SECRETS_MAX:
                self._kept[key] = (position, value)
            else:
                self.left_out += 1

    def find(self, label: str, client_random: bytes, place: Position) -> bytes | None:
        """The secret of this label for a connection, if it holds at packet `place[1]` of file `place[0]`."""
        return self._find(bytes((_LABELS[label.encode()],)) + client_random, place)

    def find_session(self, session_id: bytes, place: Position) -> bytes | None:
        """The master secret of a TLS 1.2 session."""
        return self._find(bytes((_SESSION_INDEX,)) + session_id, place) if session_id else None

    def _find(self, key: bytes, place: Position) -> bytes | None:
        for one in (*self._bases, self):
            position, secret = one._kept.get(key, (place, b""))  # noqa: SLF001 - as above
            if position < place:
                return secret
        return None
