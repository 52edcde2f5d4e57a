"""Dumps of ZooKeeper as text, JSON or snapshot files of its servers, recognised by content.

Text is read line by line; the formats of several tools may be mixed:

    /path<tab>value                   also with spaces or " = " between them
    /path                             and the value in the line below, indented or not
    [zk: host:2181(CONNECTED) 1] get /path        a session of zkCli.sh, the value in the line below
      data = dmFsdWU=                 below a path: SnapshotFormatter of ZooKeeper 3.6 and later, with -d

JSON is an object of values by path, or objects with `path` and `value` (or `data`), in a list or one a line.
"""

from __future__ import annotations

import re
import sys
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple, Protocol

import msgspec

from pulsarscope.model.errors import CaptureError
from pulsarscope.model.findings import Finding
from pulsarscope.model.limits import READ_BLOCK_MAX_BYTES, REGISTRY_MAX_BYTES

SNAPSHOT_MAGIC = b"ZKSN"

_STANDARD_INPUT = "-"

_GET = re.compile(r"(?:\[zk: [^\]]*\] )?get (?:-s )?(/\S*)\s*")
_PROMPT = re.compile(r"\[zk: [^\]]*\]")
_NODE = re.compile(r"(/[^\t]*)\t(.*)|(/\S*)(?:\s+=)?\s+(.*)|(/\S*)")
_STATISTIC = re.compile(r"(?:[cmp]Zxid|[cm]time|cversion|dataVersion|aclVersion|ephemeralOwner|dataLength|numChildren) ?= ?")
_DATA = re.compile(r"data =\s*(.*)")
_CHATTER = re.compile(
    r"-+$|\[[^\]]*\]$|WATCHER::|WatchedEvent |ZNode Details|Session Details|0x[0-9a-f]+, \d+, \d+$|Last zxid|"
    r"Connecting to |Welcome to ZooKeeper|JLine support"
)
"""Other output of the tools: rules, lists of children, events, sessions."""


class Node(NamedTuple):
    """A node of a dump, not escaped."""

    path: str
    """Absolute path, as in /brokers/ids/0."""
    value: str
    """Value as text, "" when there is none."""
    place: str
    """Position in the dump, in words: line 7."""


class DumpNote(NamedTuple):
    """Anomaly of a node or of the dump."""

    place: str
    path: str
    text: str
    """Description without place and path, not escaped."""


class Decompression(Protocol):
    """State of a decompression."""

    damage: Finding | None


def read_dump(path: str, decompressed: Callable[[Iterator[bytes]], Iterator[bytes]], progress: Decompression) -> Dump:
    """Read a dump from a file or "-", through `decompressed`. Raises CaptureError when it cannot be read, is empty or too large."""
    name = "standard input" if path == _STANDARD_INPUT else path
    data = bytearray()
    try:
        with nullcontext(sys.stdin.buffer) if path == _STANDARD_INPUT else Path(path).open("rb") as stream:
            for piece in decompressed(iter(partial(stream.read, READ_BLOCK_MAX_BYTES), b"")):
                data += piece
                if len(data) > REGISTRY_MAX_BYTES:
                    raise CaptureError(f"{name} is larger than the {REGISTRY_MAX_BYTES >> 20} MiB of a dump that are read")
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise CaptureError(f"{name} cannot be read: {reason}") from None
    dump = Dump(bytes(data))
    if progress.damage is not None:
        dump.damage("the file", progress.damage.text)
    if not dump.nodes:
        why = f"{dump.notes[0].place}: {dump.notes[0].text}" if dump.notes else "it is empty"
        raise CaptureError(f"{name} is not a dump of ZooKeeper: {why}")
    return dump


class Dump:
    """Contents of a dump."""

    def __init__(self, data: bytes) -> None:
        """Parse a dump; no input raises an exception."""
        self.notes: list[DumpNote] = []
        self.damaged = False
        """True when the dump ends early; `notes` has the place."""
        self._nodes: dict[str, Node] = {}
        if data.startswith(SNAPSHOT_MAGIC):
            self._store(self._snapshot(data))
        elif data.lstrip()[:1] in (b"{", b"["):
            self._store(self._json(data))
        else:
            self._store(self._text(data))

    @property
    def nodes(self) -> list[Node]:
        """Return the nodes in order; of duplicates the last one with a value counts."""
        return list(self._nodes.values())

    def _store(self, nodes: Iterator[Node]) -> None:
        for node in nodes:
            if node.value or node.path not in self._nodes:
                self._nodes[node.path] = node

    def _text(self, data: bytes) -> Iterator[Node]:
        path = ""  # path whose value the next line may be
        for number, raw_line in enumerate(data.splitlines(), 1):
            line = raw_line.decode("utf-8", "backslashreplace").rstrip("\r")
            text = line.strip()
            place = f"line {number}"
            if get_command := _GET.fullmatch(text):
                path = get_command[1]
                yield Node(path, "", place)
            elif node_line := _NODE.fullmatch(line.rstrip(" ")):
                path = node_line[1] or node_line[3] or node_line[5]
                value = (node_line[2] or node_line[4] or "").strip()
                yield Node(path, value, place)
                if value:
                    path = ""
            elif path and (encoded := _DATA.fullmatch(text)):
                yield self._encoded(path, encoded[1], place)
            elif not text or _PROMPT.match(text) or _STATISTIC.match(text) or _CHATTER.match(text):
                continue
            elif path:
                yield Node(path, text, place)
                path = ""
            else:
                self.notes.append(DumpNote(place, "", f'"{text[:60]}" is neither a path nor a value'))

    def _encoded(self, path: str, text: str, place: str) -> Node:
        try:
            value = b64decode(text, validate=True)
        except ValueError:
            self.notes.append(DumpNote(place, path, "its data is not base64"))
            value = b""
        return Node(path, value.decode("utf-8", "backslashreplace"), place)

    def _json(self, data: bytes) -> Iterator[Node]:
        lines = data.splitlines()
        if len(lines) > 1 and all(line.strip()[:1] + line.strip()[-1:] in (b"{}", b"") for line in lines):
            for number, line in enumerate(lines, 1):
                yield from self._objects(line or b"[]", f"line {number}")
        else:
            yield from self._objects(data, "")

    def _objects(self, data: bytes, place: str) -> Iterator[Node]:
        try:
            document = msgspec.json.decode(data)
        except (ValueError, RecursionError) as error:
            self.damage(place or "the file", f"not valid JSON: {error}")
            return
        for number, item in enumerate(document if isinstance(document, list) else [document], 1):
            yield from self._object(item, place or f"object {number}")

    def _object(self, item: Any, place: str) -> Iterator[Node]:
        if not isinstance(item, dict):
            self.notes.append(DumpNote(place, "", "not an object with a path and a value"))
        elif isinstance(path := item.get("path"), str):
            yield Node(path, _as_text(item.get("value", item.get("data"))), place)
        else:
            for path, value in item.items():
                if path.startswith("/"):
                    yield Node(path, _as_text(value), place)
                else:
                    self.notes.append(DumpNote(place, "", f'the key "{path[:60]}" is not a path'))

    def _snapshot(self, data: bytes) -> Iterator[Node]:
        """Parse the format of FileSnap.serialize: header, sessions, access lists, then nodes in any order up to the path "/"."""
        cursor = _Cursor(data, 4)
        try:
            version = cursor.number(_INT)
            if version != 2:
                self.damage("the file", f"a snapshot of version {version}: only version 2 is known")
                return
            cursor.skip(8)
            for _ in range(cursor.count(12)):
                cursor.skip(12)  # session id, time-out
            for _ in range(cursor.count(12)):
                cursor.skip(8)
                for _ in range(cursor.count(12)):
                    cursor.skip(4)  # permissions
                    cursor.text()  # scheme
                    cursor.text()  # id
            while True:
                place = f"byte {cursor.position}"
                path = cursor.text()
                if path == "/":
                    return
                value = cursor.text()
                cursor.skip(_AFTER_VALUE_BYTES)
                yield Node(path or "/", value, place)
        except _CutError:
            self.damage(f"byte {cursor.position}", "the snapshot is cut or damaged here; what came before is given")

    def damage(self, place: str, text: str) -> None:
        """Note that the dump ends early."""
        self.damaged = True
        self.notes.append(DumpNote(place, "", text))


def _as_text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return msgspec.json.encode(value).decode()


_INT = Struct(">i")
_AFTER_VALUE_BYTES = 8 + 4 * 8 + 3 * 4 + 8 + 8
"""Fields behind the value of a node: number of the access list, then StatPersisted with four times, three versions, owner, pzxid."""


class _CutError(Exception):
    """Raised for a length that is invalid or beyond the end."""


class _Cursor:
    """Cursor over big-endian records."""

    def __init__(self, data: bytes, position: int) -> None:
        self._data = data
        self.position = position

    def skip(self, size: int) -> None:
        if not 0 <= size <= len(self._data) - self.position:
            raise _CutError
        self.position += size

    def number(self, struct: Struct) -> int:
        start = self.position
        self.skip(struct.size)
        value: int = struct.unpack_from(self._data, start)[0]
        return value

    def count(self, minimum: int) -> int:
        """Read the number of items of at least `minimum` bytes; an absent list has -1."""
        count = max(self.number(_INT), 0)
        if count * minimum > len(self._data) - self.position:
            raise _CutError
        return count

    def text(self) -> str:
        """Read a buffer or string; an absent one has size -1."""
        size = self.number(_INT)
        start = self.position
        self.skip(max(size, 0))
        return self._data[start : self.position].decode("utf-8", "backslashreplace")
