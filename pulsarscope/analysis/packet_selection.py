"""The packets that selected rows stand for: a fold over rows, then an answer for each packet, with the lines of its comment.

A packet is selected when it carried bytes of a selected frame, even as an unneeded copy. Frames lie in streams, so the place and the name
of each frame are kept, in arrays of numbers: 40 bytes, or about six with the compiled reader.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from pulsarscope.model.byte_ranges import NO_RANGES, ByteRanges
from pulsarscope.model.flow import CLIENT
from pulsarscope.model.frame_name import FrameName
from pulsarscope.model.limits import EXTRACT_FINDINGS_MAX, EXTRACT_NAMED_FRAMES_MAX
from pulsarscope.model.platform import load_native
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FindingRow, FrameRow, Row
from pulsarscope.model.tcp_flags import ACK, FIN, RST, SYN
from pulsarscope.model.text import escape

_SUB_BITS = 24
"""Bits of sub in a number of packet and sub: no packet completes 2^24 frames. Sub 0 names the packet itself."""

_SUB_MAX = (1 << _SUB_BITS) - 1


class FramePlaces(Protocol):
    """Places of frames in TCP streams, where rows do not have them: inside TLS."""

    def place(self, row: FrameRow) -> tuple[int, int]:
        """Return start and end of a frame."""

    def in_tls(self, connection: str) -> bool:
        """Return True when the frames of a connection are inside TLS."""

    def preamble(self, connection: str) -> tuple[int, int]:
        """Return the bytes at the start of the client's and of the server's stream without which a connection cannot be decrypted."""


_COLUMNS = "_starts", "_ends", "_files", "_names", "_commands"

_FrameInPacket = tuple[int, int, int, int]
"""A selected frame with bytes in a packet: file, name, command, and the end of its bytes in the stream."""


class _SelectedFrames:
    """The selected frames of one stream, in the order of the stream."""

    __slots__ = ("_commands", "_ends", "_files", "_names", "_packed", "_starts")

    def __init__(self) -> None:
        self._starts: Any = ()
        self._ends: Any = ()
        self._files: Any = ()
        self._names: Any = ()  # 0: unnamed, possibly several frames
        self._commands: Any = ()
        self._packed: Any = None
        """All frames, instead of the arrays, as long as few come late: `PackedFrames` of the compiled reader."""

    def add(self, start: int, end: int, file: int, name: int, command: int) -> bool:
        """Add a frame and return True, or False if it is already present. Inside TLS, several frames share the bytes of a record."""
        if self._starts:
            if name and start > self._starts[-1]:  # as nearly all do
                self._starts.append(start)
                self._ends.append(end)
                self._files.append(file)
                self._names.append(name)
                self._commands.append(command)
                return True
        else:
            if name and (packed := self._packing()) is not None and packed.add(start, end, file, name, command):
                return True
            if self._packed is not None:
                self._fill(self._packed.columns())
                self._packed = None
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
        self._insert(at, start, end, file, name, command)
        return True

    def extend(self, packed: Sequence[bytes], commands: Sequence[int]) -> bool:
        """Add frames after all others and return True, or False if others come after them.

        `packed`: starts in ascending order, ends, files and names.
        """
        columns = *packed, array("q", commands).tobytes()
        if (packing := self._packing()) is not None:
            return bool(packing.extend(*columns))
        if array("q", packed[0][:8])[0] <= self._starts[-1]:
            return False
        self._fill(columns)
        return True

    def _packing(self) -> Any:
        """Return the packed frames, None if there are arrays or no compiled reader."""
        if self._packed is None and not self._starts and (native := load_native()[0]) is not None:
            self._packed = native.PackedFrames(_SUB_BITS)
        return self._packed

    def _fill(self, columns: Iterable[bytes]) -> None:
        for name, values in zip(_COLUMNS, columns, strict=True):
            column = getattr(self, name) or array("q")
            column.frombytes(values)
            setattr(self, name, column)

    def _insert(self, at: int, start: int, end: int, file: int, name: int, command: int) -> None:
        if not self._starts:
            self._fill([b""] * len(_COLUMNS))
        self._starts.insert(at, start)
        self._ends.insert(at, end)
        self._files.insert(at, file)
        self._names.insert(at, name)
        self._commands.insert(at, command)

    def ranges(self, at_packets: tuple[Any, ...]) -> ByteRanges:
        """Return the bytes of all frames, with `ByteRanges.at_packets`; no more can be added afterwards."""
        if self._starts and (native := load_native()[0]) is not None:
            self._packed = native.PackedFrames(_SUB_BITS)
            self._packed.extend(*(getattr(self, name).tobytes() for name in _COLUMNS))
            self._starts = self._ends = self._files = self._names = self._commands = ()
        return ByteRanges(self._starts, self._ends, self._packed, at_packets)

    def within(self, start: int, end: int) -> Sequence[_FrameInPacket]:
        """Return the frames with bytes from `start` to `end`."""
        if self._packed is not None:
            packed: list[_FrameInPacket] = self._packed.within(start, end)
            return packed
        starts, ends, frames = self._starts, self._ends, []
        at = bisect_right(ends, start)
        while at < len(starts) and starts[at] < end:  # usually one frame
            frames.append((self._files[at], self._names[at], self._commands[at], ends[at]))
            at += 1
        return frames


class _SelectedStreams:
    """The selected frames of a connection."""

    __slots__ = ("client", "from_client", "from_server")

    def __init__(self, client: str) -> None:
        self.client = client
        """Endpoint of the client."""
        self.from_client: _SelectedFrames | None = None
        self.from_server: _SelectedFrames | None = None

    def of(self, *, client: bool) -> _SelectedFrames | None:
        """Return the frames that one side sent, None if there are none."""
        return self.from_client if client else self.from_server

    def made(self, *, client: bool) -> _SelectedFrames:
        """Return the frames that one side sent, to add to them."""
        if (frames := self.of(client=client)) is None:
            frames = _SelectedFrames()
            if client:
                self.from_client = frames
            else:
                self.from_server = frames
        return frames


class PacketSelection:
    """The packets of selected rows. Select rows, resolve all frames if `needs_frames`, then request the comment of each packet in order."""

    def __init__(self, opening: frozenset[str] | None = None) -> None:
        """With each connection, also select the packets that open and close it, if `opening` names the commands that open one."""
        self.frames = 0
        """Number of selected frames."""
        self.unnamed = 0
        """Number of selected frames without a name in comments."""
        self._opening = opening
        self._names: dict[int, array[int]] = {}  # by file: frames and packets so far known only by name
        self._sorted = True
        self._complete_connections: set[str] = set()  # all their packets are selected
        self._connections: set[str] = set()  # some of their packets are selected
        self._streams: dict[str, _SelectedStreams] = {}  # by connection
        self._commands: dict[str, int] = {}
        self._command_names: list[str] = []
        """Escaped names of commands."""
        self._findings: dict[tuple[int, int], list[str]] = {}
        self._findings_count = 0
        self._at_packets = self._command_names, (_SUB_BITS, self._findings)
        """What is written to the packets of all frames; see `ByteRanges.at_packets`."""
        self._answering: dict[str, str] = {}  # by connection: sender of the SYN|ACK whose acknowledgment is expected

    def select(self, row: Row, endpoints: Mapping[str, tuple[str, str]], places: FramePlaces | None = None) -> None:
        """Select the packets of a row of any kind; `places` are those of frames, None if their rows have them."""
        if row.connection is not None and self._opening is not None:
            self._connections.add(row.connection)
        if isinstance(row, FrameRow):
            self._add(row, endpoints, places)
        elif isinstance(row, ConnectionRow):
            self._complete_connections.add(row.connection or "")
        elif isinstance(row, FindingRow):
            frames = (row.evidence or {}).get("frames")
            names = [name for name in map(FrameName.parse, map(str, frames)) if name] if isinstance(frames, list) else []
            for name in names:
                self._add_name(*name)
            if not names:
                self._add_name(row.file, row.packet, row.sub)
        else:
            self._add_name(row.file, row.packet, row.sub)
            if isinstance(row, ExchangeRow):
                self._add_name(row.response_file, row.response_packet, row.response_sub)

    def select_frames(self, rows: Iterable[FrameRow], endpoints: Mapping[str, tuple[str, str]], places: FramePlaces) -> None:
        """Select the packets of frame rows like `select`: of very many in less than half the time."""
        streams: dict[tuple[str, str | None], tuple[_SelectedFrames, bool]] = {}
        numbers: dict[str | None, int] = {}
        for row in rows:
            connection, direction, command = row.connection, row.direction, row.command
            if command is None:
                self.select(row, endpoints, places)
                continue
            if (found := streams.get((connection, direction))) is None:
                if self._opening is not None:
                    self._connections.add(connection)
                of_stream = self._stream(connection, endpoints, places, client=direction == CLIENT)
                found = streams[connection, direction] = of_stream, places.in_tls(connection)
            if (number := numbers.get(command)) is None:
                number = numbers[command] = self._command_number(command)
            frames, in_tls = found
            start = row.offset
            start, end = places.place(row) if in_tls else (start, start + row.size)
            self._add_place(frames, start, end, row.file, (row.packet or 0) << _SUB_BITS | (row.sub or 0), number)

    def select_columns(self, ordered: Any, endpoints: Mapping[str, tuple[str, str]], places: FramePlaces) -> bool:
        """Select the packets of the frames in columns of ordered rows (`model.ordered_rows`); return False if some are inside TLS."""
        if any(map(places.in_tls, ordered.connections())):
            return False
        for connection, client, ascending, packed, numbers, names in ordered.frame_places(_SUB_BITS):
            if self._opening is not None:
                self._connections.add(connection)
            frames = self._stream(connection, endpoints, None, client=client)
            of_number = {number: self._command_number(name) for number, name in names.items()}
            commands = [of_number[number] for number in numbers]
            all_named = self.frames - self.unnamed + len(commands) <= EXTRACT_NAMED_FRAMES_MAX
            if ascending and all_named and frames.extend(packed, commands):
                self.frames += len(commands)
                continue
            for place in zip(*(array("q", column) for column in packed), commands, strict=True):
                self._add_place(frames, *place)
        return True

    def select_packets(self, file: int, packets: Iterable[int]) -> None:
        """Select packets of a file by their numbers."""
        for packet in packets:
            self._add_name(file, packet, None)

    def annotate(self, row: FindingRow) -> None:
        """Add a finding to the comment of its packet, in case the packet is selected."""
        if row.file is not None and row.packet is not None and self._findings_count < EXTRACT_FINDINGS_MAX:
            self._findings_count += 1
            texts = self._findings.setdefault((row.file, row.packet << _SUB_BITS | (row.sub or 0)), [])
            texts.append(escape(f"{row.code}: {row.text}"))

    @property
    def needs_frames(self) -> bool:
        """True when frames are known only by their names or connections: `resolve` then needs all frames."""
        return bool(self._names or self._complete_connections or self._connections)

    def resolve(self, row: FrameRow, endpoints: Mapping[str, tuple[str, str]], places: FramePlaces | None = None) -> None:
        """Take the place of a frame if it is selected. Arguments are those of `select`."""
        named = self._is_named(row.file or 0, (row.packet or 0) << _SUB_BITS | (row.sub or 0))
        if named or (row.connection in self._connections and self._opens(row)) or row.connection in self._complete_connections:
            self._add(row, endpoints, places)

    def resolve_columns(self, ordered: Any, endpoints: Mapping[str, tuple[str, str]], places: FramePlaces) -> list[Any]:
        """Take the places of the selected frames in columns; return the rows to `resolve`, including those of other frames."""
        names = {file: array("q", self._sorted_names(file)).tobytes() for file in self._names}
        tests: list[Any] = [("frames", names, _SUB_BITS), ("connections", self._complete_connections)]
        if self._opening is not None:
            tests.append(("and", [("connections", self._connections), ("command", self._opens)]))
        chosen, _ = ordered.matching(("or", tests))
        in_columns = self.select_columns(ordered.chosen(chosen), endpoints, places)
        rows: list[Any] = ordered.others() if in_columns else ordered.all()
        return rows

    def _opens(self, row: FrameRow) -> bool:
        return self._opening is not None and row.command in self._opening

    def _add_name(self, file: int | None, packet: int | None, sub: int | None) -> None:
        if file is not None and packet is not None:
            self._names.setdefault(file, array("q")).append(packet << _SUB_BITS | (sub or 0))
            self._sorted = False

    def _is_named(self, file: int, name: int) -> bool:
        names = self._sorted_names(file)
        at = bisect_left(names, name)
        return at < len(names) and names[at] == name

    def _sorted_names(self, file: int) -> Sequence[int]:
        if not self._sorted:
            self._names = {each: array("q", sorted(names)) for each, names in self._names.items()}
            self._sorted = True
        return self._names.get(file, ())

    def _add(self, row: FrameRow, endpoints: Mapping[str, tuple[str, str]], places: FramePlaces | None) -> None:
        frames = self._stream(row.connection, endpoints, places, client=row.direction == CLIENT)
        start = row.offset
        start, end = (start, start + row.size) if places is None else places.place(row)
        name, command = (row.packet or 0) << _SUB_BITS | (row.sub or 0), self._command_number(row.command or row.status or "")
        self._add_place(frames, start, end, row.file, name, command)

    def _add_place(self, frames: _SelectedFrames, start: int, end: int, file: int, name: int, command: int) -> None:
        if self.frames - self.unnamed >= EXTRACT_NAMED_FRAMES_MAX:
            name = 0
        if frames.add(start, end, file, name, command):
            self.frames += 1
            self.unnamed += not name

    def _stream(
        self, connection: str, endpoints: Mapping[str, tuple[str, str]], places: FramePlaces | None, *, client: bool
    ) -> _SelectedFrames:
        """Return the selected frames of one side of a connection."""
        if (streams := self._streams.get(connection)) is None:
            streams = self._streams[connection] = _SelectedStreams(endpoints[connection][0])
            preamble = (0, 0) if places is None else places.preamble(connection)
            for of_client, end in zip((True, False), preamble, strict=True):
                if end:
                    streams.made(client=of_client).add(0, end, 0, 0, 0)
        return streams.made(client=client)

    def _command_number(self, command: str) -> int:
        if (number := self._commands.get(command)) is None:
            number = self._commands[command] = len(self._command_names)
            self._command_names.append(escape(command))
        return number

    def carries(self, connection: str | None) -> bool:
        """Return True when packets of a connection may be selected. Call it after all rows have been seen."""
        return (
            bool(self._names) or connection in self._complete_connections or connection in self._connections or connection in self._streams
        )

    def ranges(self, connection: str, source: str) -> ByteRanges | None:
        """Return the ranges of a sender's stream whose packets are selected, if any: a `model.byte_ranges.Ranges`.

        Call it after all rows have been seen.
        """
        streams = self._streams.get(connection)
        sent = None if streams is None else streams.of(client=source == streams.client)
        none = NO_RANGES._replace(at_packets=self._at_packets)
        ranges = None if sent is None else sent.ranges(self._at_packets)
        if connection in self._complete_connections:
            return (ranges or none)._replace(complete=True)
        if connection in self._connections:  # a packet without bytes may be selected because of the one before it
            awaited = connection in self._answering
            return (ranges or none)._replace(complete=awaited, apart=awaited or None)
        return ranges

    def named(self, file: int, first: int, last: int) -> frozenset[int]:
        """Return the packets from the first to the last that are selected by number."""
        names = self._sorted_names(file)
        some = names[bisect_left(names, first << _SUB_BITS) : bisect_right(names, last << _SUB_BITS)]
        return frozenset(name >> _SUB_BITS for name in some if not name & _SUB_MAX)

    def comments(self, file: int, packet: int, connection: str | None, source: str, flags: int, start: int, end: int) -> list[str] | None:
        """Return the comment lines of a packet with the bytes from `start` to `end` of a stream; None when it is not selected."""
        lines: list[str] = []
        selected = bool(self._names) and self._is_named(file, packet << _SUB_BITS)
        if connection is not None:
            selected = selected or connection in self._complete_connections
            if not selected and connection in self._connections:
                selected = self._opens_or_closes(connection, source, flags)
            if start < end and (streams := self._streams.get(connection)) is not None:
                sent = streams.from_client if source == streams.client else streams.from_server
                if sent is not None and (frames := sent.within(start, end)):
                    selected = True
                    lines = self._lines(frames, end)
        if not selected:
            return None
        return lines + self._findings.get((file, packet << _SUB_BITS), [])

    def _lines(self, frames: Sequence[_FrameInPacket], end: int) -> list[str]:
        """Return the lines on frames with bytes in a packet, and the findings of those that it completes; its bytes end at `end`."""
        lines = []
        commands, findings = self._command_names, self._findings
        for file, name, command, frame_end in frames:
            if name:
                lines.append(f"{file}:{name >> _SUB_BITS}.{name & _SUB_MAX} {commands[command]}")  # as `frame_name`, without the call
                if findings and frame_end <= end:
                    lines += findings.get((file, name), ())
        return lines

    def _opens_or_closes(self, connection: str, source: str, flags: int) -> bool:
        """Return True for a packet of the handshake, a FIN or a RST of a connection."""
        if flags & SYN and flags & ACK:
            self._answering[connection] = source
        elif flags & ACK and self._answering.get(connection, source) != source:
            del self._answering[connection]  # the acknowledgment that ends the handshake
            return True
        return bool(flags & (SYN | FIN | RST))
