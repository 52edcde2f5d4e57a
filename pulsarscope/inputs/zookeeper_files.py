"""Files of a ZooKeeper server: snapshots (FileSnap.serialize) and transaction logs (FileTxnLog)."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple
from zlib import adler32

SNAPSHOT_MAGIC, LOG_MAGIC = b"ZKSN", b"ZKLG"

_VERSION = 2
_BYTE, _INT, _LONG = Struct(">b"), Struct(">i"), Struct(">q")

_BEFORE_OWNER_BYTES = 8 + 4 * 8 + 3 * 4
"""Size of the fields after the value of a node: access list number, then times and versions of StatPersisted; owner and pzxid follow."""

_END_OF_RECORD = b"B"

_CREATE, _DELETE, _SET_DATA, _MULTI, _CREATE_2, _RECONFIGURE = 1, 2, 5, 14, 15, 16
_CREATE_CONTAINER, _DELETE_CONTAINER, _CREATE_TTL = 19, 20, 21
_CLOSE_SESSION = -11
_CREATES = frozenset({_CREATE, _CREATE_2, _CREATE_CONTAINER, _CREATE_TTL})


class Change(NamedTuple):
    """Change of a node, or the end of a session with all nodes that it owns."""

    place: str
    """Position in the file, in words."""
    path: str
    """Empty for the end of a session."""
    value: str | None
    """Text of the node, None when it was deleted."""
    owner: int | None = None
    """Session whose end deletes the node; 0 if it is not ephemeral; None if unchanged."""
    zxid: int = 0


class DamageError(Exception):
    """Raised where a file cannot be read any further, with the place and the reason."""

    def __init__(self, place: str, text: str) -> None:
        super().__init__(text)
        self.place = place
        self.text = text


class _CutError(Exception):
    """Raised for a length that is invalid or beyond the end."""


class _Cursor:
    """Cursor over big-endian records."""

    def __init__(self, data: bytes, position: int = 0) -> None:
        self._data = data
        self.position = position

    @property
    def place(self) -> str:
        return f"byte {self.position}"

    def skip(self, size: int) -> None:
        if not 0 <= size <= len(self._data) - self.position:
            raise _CutError
        self.position += size

    def expect(self, end: bytes) -> None:
        """Skip the marker at the end of a record; an empty marker is never present."""
        if not end or not self._data.startswith(end, self.position):
            raise _CutError
        self.position += len(end)

    def number(self, struct: Struct = _INT) -> int:
        start = self.position
        self.skip(struct.size)
        value: int = struct.unpack_from(self._data, start)[0]
        return value

    def count(self, minimum: int) -> int:
        """Read the number of items of at least `minimum` bytes; an absent list has -1."""
        count = max(self.number(), 0)
        if count * minimum > len(self._data) - self.position:
            raise _CutError
        return count

    def buffer(self) -> bytes:
        """Read a buffer or string; an absent one has size -1."""
        size = self.number()
        start = self.position
        self.skip(max(size, 0))
        return self._data[start : self.position]

    def text(self) -> str:
        return self.buffer().decode("utf-8", "backslashreplace")

    def access_list(self) -> None:
        for _ in range(self.count(12)):
            self.skip(4)  # permissions
            self.buffer()  # scheme
            self.buffer()  # id


def read_snapshot(data: bytes) -> Iterator[Change]:
    """Parse header, sessions and access lists, then nodes in any order up to the path "/". Raises DamageError."""
    cursor = _Cursor(data, len(SNAPSHOT_MAGIC))
    try:
        _check_version(cursor, "snapshot")
        cursor.skip(8)
        for _ in range(cursor.count(12)):
            cursor.skip(12)  # session id, time-out
        for _ in range(cursor.count(12)):
            cursor.skip(8)
            cursor.access_list()
        while True:
            place = cursor.place
            path = cursor.text()
            if path == "/":
                return
            value = cursor.text()
            cursor.skip(_BEFORE_OWNER_BYTES)
            owner = cursor.number(_LONG)
            cursor.skip(8)
            yield Change(place, path or "/", value, owner)
    except _CutError:
        raise DamageError(cursor.place, "the snapshot is cut or damaged here; what came before is given") from None


def read_log(data: bytes) -> Iterator[Change]:
    """Parse the changes in a log, in order, up to the zeros that servers preallocate. Raises DamageError."""
    cursor = _Cursor(data, len(LOG_MAGIC))
    place = cursor.place
    try:
        _check_version(cursor, "log")
        cursor.skip(8)
        while cursor.position < len(data):
            place = cursor.place
            checksum = cursor.number(_LONG)
            transaction = cursor.buffer()
            if not transaction:
                return
            cursor.expect(_END_OF_RECORD if adler32(transaction) == checksum else b"")
            yield from _transaction(_Cursor(transaction), place)
    except _CutError:
        raise DamageError(place, "the log is cut or damaged here; what came before is given") from None


def _check_version(cursor: _Cursor, name: str) -> None:
    version = cursor.number()
    if version != _VERSION:
        raise DamageError("the file", f"a {name} of version {version}: only version {_VERSION} is known")


def _transaction(cursor: _Cursor, place: str) -> Iterator[Change]:
    session = cursor.number(_LONG)
    cursor.skip(4)  # number of the request in its session
    zxid = cursor.number(_LONG)
    cursor.skip(8)  # time
    kind = cursor.number()
    if kind == _MULTI:
        for _ in range(cursor.count(8)):
            kind = cursor.number()
            yield from _changes(_Cursor(cursor.buffer()), place, kind, session, zxid)
    else:
        yield from _changes(cursor, place, kind, session, zxid)


def _changes(cursor: _Cursor, place: str, kind: int, session: int, zxid: int) -> Iterator[Change]:
    if kind in _CREATES:
        path, value = cursor.text(), cursor.text()
        cursor.access_list()
        ephemeral = kind in (_CREATE, _CREATE_2) and cursor.number(_BYTE)
        yield Change(place, path, value, session if ephemeral else 0, zxid)
    elif kind in (_SET_DATA, _RECONFIGURE):
        path = cursor.text()
        yield Change(place, path, cursor.text(), None, zxid)
    elif kind in (_DELETE, _DELETE_CONTAINER):
        yield Change(place, cursor.text(), None, None, zxid)
    elif kind == _CLOSE_SESSION:
        yield Change(place, "", None, session, zxid)
