"""Which packets the chosen rows stand for: a fold over rows, then the answer for each packet, with what can be said of it.

A packet is wanted when it carried bytes of a wanted frame, a copy that nobody needed included. Frames lie in streams, so what is kept
of each is its place there and its name, in arrays of numbers: 40 bytes.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

from pulsarscope.model.flow import CLIENT
from pulsarscope.model.limits import EXTRACT_FINDINGS_MAX, EXTRACT_NAMED_FRAMES_MAX
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FindingRow, FrameRow, Row
from pulsarscope.model.text import escape

FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10
"""TCP flags (RFC 9293 section 3.1)."""

_SUB_BITS = 24
"""Packet and sub in one number: no packet completes 2^24 frames. Sub 0 names the packet itself."""

_FRAME_NAME = re.compile(r"(\d{1,9}):(\d{1,11})(?:\.(\d{1,7}))?")


class Places(Protocol):
    """Where frames inside TLS lie in the streams of TCP."""

    def place(self, row: FrameRow) -> tuple[int, int]:
        """Start and end of a frame."""

    def preamble(self, connection: str) -> tuple[int, int]:
        """How much of the start of the client's and of the server's stream is needed to read anything of a connection, in bytes."""


class _Named(NamedTuple):
    """A frame in a packet."""

    file: int
    name: int
    command: int
    ends: bool
    """The packet carried its last byte."""


class _Frames:
    """The wanted frames of one stream, in the order of the stream."""

    __slots__ = ("_commands", "_ends", "_files", "_names", "_starts")

    def __init__(self) -> None:
        self._starts = array("q")
        self._ends = array("q")
        self._files = array("q")
        self._names = array("q")  # 0: nameless, and perhaps several
        self._commands = array("q")

    def add(self, start: int, end: int, file: int, name: int, command: int) -> bool:
        """One more; false when it is there already. Inside TLS several share the bytes of a record."""
        at = bisect_right(self._starts, start)
        if at and not name and not self._names[at - 1] and self._ends[at - 1] >= end:
            return False
        before = at
        while before and self._starts[before - 1] == start:
            before -= 1
            if name and (self._files[before], self._names[before]) == (file, name):
                return False
            if self._ends[before] > end:
                at = before
        if at and not name and not self._names[at - 1] and self._ends[at - 1] == start:
            self._ends[at - 1] = end
            return True
        for column, value in zip(
            (self._starts, self._ends, self._files, self._names, self._commands), (start, end, file, name, command), strict=True
        ):
            column.insert(at, value)
        return True

    def within(self, start: int, end: int) -> Iterator[_Named]:
        """Those with bytes from `start` to `end`."""
        for at in range(bisect_right(self._ends, start), bisect_left(self._starts, end)):
            yield _Named(self._files[at], self._names[at], self._commands[at], self._ends[at] <= end)


class _Streams(NamedTuple):
    """The wanted frames of a connection."""

    client: str
    """Endpoint."""
    from_client: _Frames
    from_server: _Frames

    def of(self, *, client: bool) -> _Frames:
        """Those of one side."""
        return self.from_client if client else self.from_server


class Wanted:
    """Take rows; let the frames be looked up where `needs_frames` says so; then ask for each packet.

    With `opening`, the commands that open a connection, packets of each wanted connection come along that open or close it.
    """

    def __init__(self, opening: frozenset[str] | None = None) -> None:
        self.frames = 0
        """Frames wanted."""
        self.nameless = 0
        """Those of them that packets will not name."""
        self._opening = opening
        self._names: dict[int, array[int]] = {}  # by file: frames and packets known only by their names so far
        self._sorted = True
        self._whole: set[str] = set()  # connections of which everything is wanted
        self._met: set[str] = set()  # connections of which anything is wanted
        self._streams: dict[str, _Streams] = {}  # by connection
        self._commands: dict[str, int] = {}
        self._command_names: list[str] = []
        self._findings: dict[tuple[int, int], list[str]] = {}
        self._told = 0
        self._answering: dict[str, str] = {}  # by connection: who is to acknowledge the SYN|ACK of the other side

    # ---- rows

    def take(self, row: Row, endpoints: Mapping[str, tuple[str, str]], places: Places | None = None) -> None:
        """What this row stands for is wanted.

        Args:
            row: of any kind.
            endpoints: client and server of the connections that are known, by name.
            places: where frames lie; None: where their rows say.
        """
        if row.connection is not None and self._opening is not None:
            self._met.add(row.connection)
        if isinstance(row, FrameRow):
            self._add(row, endpoints, places)
        elif isinstance(row, ConnectionRow):
            self._whole.add(row.connection or "")
        elif isinstance(row, FindingRow):
            frames = (row.evidence or {}).get("frames")
            found = [match for match in map(_FRAME_NAME.fullmatch, map(str, frames)) if match] if isinstance(frames, list) else []
            for match in found:
                self._name(int(match[1]), int(match[2]), int(match[3] or 0))
            if not found:
                self._name(row.file, row.packet, row.sub)
        else:
            self._name(row.file, row.packet, row.sub)
            if isinstance(row, ExchangeRow):
                self._name(row.response_file, row.response_packet, row.response_sub)

    def take_packets(self, file: int, packets: Iterable[int]) -> None:
        """These packets of a file, by number, are wanted for themselves."""
        for packet in packets:
            self._name(file, packet, None)

    def tell(self, row: FindingRow) -> None:
        """A finding, to be told in the comment of its packet if that is wanted."""
        if row.file is not None and row.packet is not None and self._told < EXTRACT_FINDINGS_MAX:
            self._told += 1
            texts = self._findings.setdefault((row.file, row.packet << _SUB_BITS | (row.sub or 0)), [])
            texts.append(escape(f"{row.code}: {row.text}"))

    @property
    def needs_frames(self) -> bool:
        """Whether something is wanted of which only the name is known, or frames that no row named."""
        return bool(self._names or self._whole or self._met)

    def resolve(self, row: FrameRow, endpoints: Mapping[str, tuple[str, str]], places: Places | None = None) -> None:
        """A frame, of all in the capture; as `take`."""
        named = self._is_named(row.file or 0, (row.packet or 0) << _SUB_BITS | (row.sub or 0))
        opens = self._opening is not None and row.command in self._opening and row.connection in self._met
        if named or opens or row.connection in self._whole:
            self._add(row, endpoints, places)

    def _name(self, file: int | None, packet: int | None, sub: int | None) -> None:
        if file is not None and packet is not None:
            self._names.setdefault(file, array("q")).append(packet << _SUB_BITS | (sub or 0))
            self._sorted = False

    def _is_named(self, file: int, name: int) -> bool:
        if not self._sorted:
            self._names = {each: array("q", sorted(set(names))) for each, names in self._names.items()}
            self._sorted = True
        names = self._names.get(file)
        if names is None:
            return False
        at = bisect_left(names, name)
        return at < len(names) and names[at] == name

    def _add(self, row: FrameRow, endpoints: Mapping[str, tuple[str, str]], places: Places | None) -> None:
        connection = row.connection or ""
        name, command = (row.packet or 0) << _SUB_BITS | (row.sub or 0), self._number(row.command or row.status or "")
        if self.frames - self.nameless >= EXTRACT_NAMED_FRAMES_MAX:
            name = 0
        if connection not in self._streams:
            self._streams[connection] = streams = _Streams(endpoints[connection][0], _Frames(), _Frames())
            preamble = (0, 0) if places is None else places.preamble(connection)
            for frames, end in zip((streams.from_client, streams.from_server), preamble, strict=True):
                if end:
                    frames.add(0, end, 0, 0, 0)
        frames = self._streams[connection].of(client=row.direction == CLIENT)
        start = row.offset or 0
        place = (start, start + (row.size or 0)) if places is None else places.place(row)
        if frames.add(*place, row.file or 0, name, command):
            self.frames += 1
            self.nameless += not name

    def _number(self, command: str) -> int:
        number = self._commands.get(command)
        if number is None:
            number = self._commands[command] = len(self._command_names)
            self._command_names.append(command)
        return number

    # ---- packets, in the order of the capture

    def comments(self, file: int, packet: int, connection: str | None, source: str, flags: int, start: int, end: int) -> list[str] | None:
        """What can be said of a packet, None when it is not wanted.

        Args:
            file: position of its file.
            packet: its number there.
            connection: to which it belongs; None: to none.
            source: endpoint that sent it.
            flags: of TCP.
            start: offset in its stream of the first byte in it.
            end: offset after the last one.
        """
        lines: list[str] = []
        wanted = self._is_named(file, packet << _SUB_BITS)
        if connection is not None:
            wanted = wanted or connection in self._whole or self._opens_or_closes(connection, source, flags)
            known = self._streams.get(connection)
            if known is not None and start < end:
                for frame in known.of(client=source == known.client).within(start, end):
                    wanted = True
                    if frame.name:
                        lines += self._lines(frame)
        if not wanted:
            return None
        return lines + self._findings.get((file, packet << _SUB_BITS), [])

    def _lines(self, frame: _Named) -> list[str]:
        packet, sub = divmod(frame.name, 1 << _SUB_BITS)
        line = escape(f"{frame.file}:{packet}.{sub} {self._command_names[frame.command]}")
        return [line, *self._findings.get((frame.file, frame.name), [])] if frame.ends else [line]

    def _opens_or_closes(self, connection: str, source: str, flags: int) -> bool:
        """Handshake, FIN and RST of a wanted connection."""
        if connection not in self._met:
            return False
        if flags & SYN and flags & ACK:
            self._answering[connection] = source
        elif flags & ACK and self._answering.get(connection, source) != source:
            del self._answering[connection]  # this is the acknowledgment that ends the handshake
            return True
        return bool(flags & (SYN | FIN | RST))
