"""Dumps of ZooKeeper as text, JSON or files of its servers, recognised by content.

Text is read line by line; the formats of several tools may be mixed:

    /path<tab>value                   also with spaces or " = " between them
    /path                             and the value in the line below, indented or not
    [zk: host:2181(CONNECTED) 1] get /path        a session of zkCli.sh, the value in the line below
      data = dmFsdWU=                 below a path: SnapshotFormatter of ZooKeeper 3.6 and later, with -d

JSON is an object of values by path, or objects with `path` and `value` (or `data`), in a list or one per line.
"""

from __future__ import annotations

import re
import sys
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from pulsarscope.inputs.xerial import MAGIC as XERIAL_MAGIC
from pulsarscope.inputs.xerial import decompress_xerial
from pulsarscope.inputs.zookeeper_files import LOG_MAGIC, SNAPSHOT_MAGIC, Change, DamageError, read_log, read_snapshot
from pulsarscope.model.errors import CaptureError, system_reason
from pulsarscope.model.findings import Finding
from pulsarscope.model.limits import READ_BLOCK_MAX_BYTES, REGISTRY_MAX_BYTES
from pulsarscope.model.text import STANDARD_INPUT, input_name

TEXT_PROBE_BYTES = 1024
"""Bytes at the start of a file in which a NUL shows that it is not text."""

_NOT_A_DUMP = "it is neither text, nor a snapshot or a log of a server"

_GET = re.compile(r"(?:\[zk: [^\]]*\] )?get (?:-s )?(/\S*)\s*")
_PROMPT = re.compile(r"\[zk: [^\]]*\]")
_PROMPT_BYTES = re.compile(_PROMPT.pattern.encode())
_SNAPSHOT_NAME, _LOG_NAME = re.compile(r"snapshot\.([0-9a-f]{1,16})\b"), re.compile(r"log\.([0-9a-f]{1,16})\b")
_WRAP = re.compile(rb" \r(?!\n)")
"""Wrap from the last column of a terminal to the first column of its next line, in a recording of zkCli."""

_NARROWEST_TERMINAL = 60
"""Columns: a shorter line is not wrapped."""
_NODE = re.compile(r"(/[^\t]*)\t(.*)|(/\S*)(?:\s+=)?\s+(.*)|(/\S*)")
_STATISTIC = re.compile(r"(?:[cmp]Zxid|[cm]time|cversion|dataVersion|aclVersion|ephemeralOwner|dataLength|numChildren) ?= ?")
_REFUSED = re.compile(r"(?:Node does not exist|Authentication is not valid|Insufficient permission) ?: (/\S*)")
"""Responses of zkCli for a node that it does not show."""

_DATA = re.compile(r"data =\s*(.*)")
_CHATTER = re.compile(
    r"-+$|\[[^\]]*\]$|WATCHER::|WatchedEvent |ZNode Details|Session Details|0x[0-9a-f]+, \d+, \d+$|Last zxid|"
    r"Connecting to |Welcome to ZooKeeper|JLine support|SLF4J: |Script (?:started|done) on |'[^']*,'|: [cdrwa]+$"
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
    """Anomaly of a node or of the whole dump."""

    place: str
    path: str
    text: str
    """Description without place and path, not escaped."""


class Decompression(Protocol):
    """State of a decompression."""

    damage: Finding | None


Decompress = Callable[[Iterator[bytes]], tuple[Iterator[bytes], Decompression]]
"""Function that decompresses one file, and reports damage."""


def read_dump(paths: Sequence[str], decompress: Decompress) -> Dump:
    """Read one dump from files, server folders or, for "-", standard input; later files add to earlier ones; logs come last, in order.

    Raises CaptureError when one cannot be read or is too large, or none has nodes.
    """
    files = sorted((file for path in paths for file in _files_of(path)), key=_log_number)
    snapshots = [number for file in files if (number := _number(_SNAPSHOT_NAME, file)) is not None]
    dump = Dump()
    for file in files:
        data, damage = _read(file, decompress)
        dump.add(data, f"{Path(file).name}: " if len(files) > 1 else "", after=max(snapshots, default=-1))
        if damage is not None:
            dump.damage("the file", damage.text)
    if not dump.nodes:
        name = ", ".join(map(input_name, files or paths))
        note = dump.notes[0] if dump.notes else DumpNote("", "", "it is empty")
        why = note.text if note.text == _NOT_A_DUMP else f"{note.place}: {note.text}".removeprefix(": ")
        raise CaptureError(f"{name} is not a dump of ZooKeeper: {why}")
    return dump


def _files_of(path: str) -> list[str]:
    """Return the latest snapshot and the logs of a folder, or the file itself."""
    try:
        names = [str(file) for file in Path(path).iterdir()] if path != STANDARD_INPUT and Path(path).is_dir() else [path]
    except (OSError, ValueError):  # reading it reports the error
        return [path]
    if names == [path]:
        return names
    snapshots = sorted((number, name) for name in names if (number := _number(_SNAPSHOT_NAME, name)) is not None)
    found = [name for _, name in snapshots[-1:]] + [name for name in names if _number(_LOG_NAME, name) is not None]
    if not found:
        raise CaptureError(f"{path} holds no snapshot.N or log.N of a server of ZooKeeper")
    return found


def _number(name: re.Pattern[str], path: str) -> int | None:
    found = name.match(Path(path).name)
    return None if found is None else int(found[1], 16)


def _log_number(path: str) -> int:
    """Return the first transaction of a log, -1 for other files: those come first."""
    number = _number(_LOG_NAME, path)
    return -1 if number is None else number


def _read(path: str, decompress: Decompress) -> tuple[bytes, Finding | None]:
    too_large = CaptureError(f"{input_name(path)} is larger than the {REGISTRY_MAX_BYTES >> 20} MiB of a dump that are read")
    data = bytearray()
    try:
        with nullcontext(sys.stdin.buffer) if path == STANDARD_INPUT else Path(path).open("rb") as stream:
            pieces, decompression = decompress(iter(partial(stream.read, READ_BLOCK_MAX_BYTES), b""))
            for piece in pieces:
                data += piece
                if len(data) > REGISTRY_MAX_BYTES:
                    raise too_large
    except (OSError, ValueError) as error:
        raise CaptureError(f"{input_name(path)} cannot be read: {system_reason(error)}") from None
    return bytes(data), decompression.damage


class Dump:
    """Contents of a dump."""

    def __init__(self, data: bytes = b"") -> None:
        """Parse a dump; no input raises an exception."""
        self.notes: list[DumpNote] = []
        self.damaged = False
        """True when the dump ends early; `notes` gives the place."""
        self._nodes: dict[str, Node] = {}
        self._owners: dict[str, int] = {}
        """Sessions by the paths of their ephemeral nodes."""
        self._owned: dict[int, set[str]] = {}
        """Paths by session."""
        self._prefix = ""
        """Name of the file, put before all places in it."""
        self.add(data)

    def add(self, data: bytes, prefix: str = "", *, after: int = -1) -> None:
        """Parse one more file; `after` is the last transaction that the preceding snapshot includes."""
        self._prefix = prefix
        if data.startswith(XERIAL_MAGIC):
            unpacked, damage = decompress_xerial(data, REGISTRY_MAX_BYTES)
            if unpacked is None:
                damage = f"larger than the {REGISTRY_MAX_BYTES >> 20} MiB of a dump that are read"
            if damage is not None:
                self.damage("the file", f"Snappy: {damage}")
            data = unpacked or b""
        if data.startswith(SNAPSHOT_MAGIC):
            self._server_file(read_snapshot(data), -1)
        elif data.startswith(LOG_MAGIC):
            self._server_file(read_log(data), after)
        elif data.lstrip()[:1] in (b"{", b"[") and not _PROMPT_BYTES.match(data.lstrip()):
            self._store(self._json(data))
        elif b"\0" in data[:TEXT_PROBE_BYTES]:
            self._note("the file", "", _NOT_A_DUMP)
        else:
            self._store(self._text(data))

    @property
    def nodes(self) -> list[Node]:
        """Return the nodes in order; the last duplicate with a value counts."""
        return list(self._nodes.values())

    def _store(self, nodes: Iterator[Node]) -> None:
        for node in nodes:
            if node.value or node.path not in self._nodes:
                self._nodes[node.path] = node._replace(place=self._prefix + node.place)

    def _note(self, place: str, path: str, text: str) -> None:
        self.notes.append(DumpNote(self._prefix + place, path, text))

    def _text(self, data: bytes) -> Iterator[Node]:
        path = ""  # path whose value the next line may be
        for place, line in _lines(data):
            text = line.strip()
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
            elif refused := _REFUSED.fullmatch(text):
                if path == refused[1] and not self._nodes[path].value:
                    del self._nodes[path]
                path = ""
            elif not text or _PROMPT.match(text) or _STATISTIC.match(text) or _CHATTER.match(text):
                continue
            elif path:
                yield Node(path, text, place)
                path = ""
            else:
                self._note(place, "", f'"{text[:60]}" is neither a path nor a value')

    def _encoded(self, path: str, text: str, place: str) -> Node:
        try:
            value = b64decode(text, validate=True)
        except ValueError:
            self._note(place, path, "its data is not base64")
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
            self._note(place, "", "not an object with a path and a value")
        elif isinstance(path := item.get("path"), str):
            yield Node(path, _as_text(item.get("value", item.get("data"))), place)
        else:
            for path, value in item.items():
                if path.startswith("/"):
                    yield Node(path, _as_text(value), place)
                else:
                    self._note(place, "", f'the key "{path[:60]}" is not a path')

    # ---- files of the server

    def _server_file(self, changes: Iterator[Change], after: int) -> None:
        """Apply the changes with a transaction id above `after`."""
        try:
            for change in changes:
                if change.zxid > after:
                    self._apply(change)
        except DamageError as damage:
            self.damage(damage.place, damage.text)

    def _apply(self, change: Change) -> None:
        path, value, owner = change.path, change.value, change.owner
        if not path:
            for owned in self._owned.pop(owner or 0, ()):
                self._nodes.pop(owned, None)
        elif value is None:
            self._nodes.pop(path, None)
            self._owned.get(self._owners.pop(path, 0), set()).discard(path)
        else:
            self._nodes[path] = Node(path, value, self._prefix + change.place)
            if owner:
                self._owners[path] = owner
                self._owned.setdefault(owner, set()).add(path)

    def damage(self, place: str, text: str) -> None:
        """Note that the dump ends early."""
        self.damaged = True
        self._note(place, "", text)


def _as_text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return msgspec.json.encode(value).decode()


def _lines(data: bytes) -> Iterator[tuple[str, str]]:
    """Yield each line with its place; a `get` whose path a terminal has wrapped is one line."""
    lines = [line.decode("utf-8", "backslashreplace") for line in _WRAP.sub(b"", data).splitlines()]
    number = 0
    while number < len(lines):
        line = lines[number]
        place = f"line {number + 1}"
        width = len(line)
        while width >= _NARROWEST_TERMINAL and _GET.fullmatch(line.strip()) and _goes_on(line, lines[number + 1 : number + 3]):
            number += 1
            line += lines[number]
            if len(lines[number]) < width:
                break
        yield place, line
        number += 1


def _goes_on(line: str, following: Sequence[str]) -> bool:
    """Return True when the next line is the rest of a path: a value, or a response of zkCli, comes only after it."""
    if len(following) < 2:
        return False
    rest, answer = following
    refused = _REFUSED.fullmatch(answer.strip())
    if refused is not None:
        return line.endswith(refused[1].removesuffix(rest)) if refused[1].endswith(rest) else False
    return not any(map(_is_no_value, following)) and not answer.startswith("/") and not re.search(r"\s", rest)


def _is_no_value(line: str) -> bool:
    text = line.strip()
    return not text or any(pattern.match(text) for pattern in (_PROMPT, _STATISTIC, _CHATTER, _GET, _REFUSED))
