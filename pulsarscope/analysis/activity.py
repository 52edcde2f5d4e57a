"""The course of a run: frames by connection and command, and latencies by request, in a bounded number of time bins."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from pulsarscope.analysis.tally import cut
from pulsarscope.model.bins import Bins
from pulsarscope.model.frame_name import frame_name
from pulsarscope.model.latency import Latencies
from pulsarscope.model.limits import ACTIVITY_CELLS_MAX, ACTIVITY_CONNECTIONS_MAX, LATENCY_CELLS_MAX
from pulsarscope.model.records import ExchangeRow, FrameRow

COMMANDS_MAX = 100
"""Commands that are counted separately: no protocol uses this many."""

REQUESTS_MAX = 50
"""Requests with latencies over time, likewise."""

OTHERS = "(others)"
"""Common name of the commands beyond the bound."""

Command = tuple[str, str, bool]
"""Name, sender, and False if frames are incomplete or malformed."""


class ActivityMark(msgspec.Struct):
    """The frames of one command on one connection within a bin."""

    frames: int = 0
    messages: int = 0
    slowest: int | None = None
    """Longest latency of frames that answer, nanoseconds."""
    time: int = 0
    """Time of the first frame."""
    first: str = ""
    """Name of the first frame."""

    def join(self, later: ActivityMark) -> None:
        """Add the counts of the next bin."""
        self.frames += later.frames
        self.messages += later.messages
        if later.slowest is not None:
            self.slowest = max(self.slowest or 0, later.slowest)


class Activity:
    """A fold over frame and exchange rows."""

    def __init__(self) -> None:
        self.marks = Bins[tuple[str, Command], ActivityMark](ACTIVITY_CELLS_MAX, ActivityMark, ActivityMark.join)
        self.latencies = Bins[str, Latencies](LATENCY_CELLS_MAX, Latencies, Latencies.merge)
        """Latencies by request; an exchange counts at the time of its request."""
        self.connections: dict[str, None] = {}
        """Names of the connections with marks, the first ones."""
        self.frames_left_out = 0
        self._commands: set[Command] = set()
        self._requests: set[str] = set()

    def feed(self, rows: Iterable[Any]) -> None:
        """Count rows."""
        for row in rows:
            if isinstance(row, FrameRow):
                self._frame(row)
            elif isinstance(row, ExchangeRow) and row.latency_ns is not None:
                request = cut(row.request) or OTHERS
                if request in self._requests or len(self._requests) < REQUESTS_MAX:
                    self._requests.add(request)
                    self.latencies.of(row.time, request).add(row.latency_ns)

    def _frame(self, row: FrameRow) -> None:
        if row.connection not in self.connections:
            if len(self.connections) >= ACTIVITY_CONNECTIONS_MAX:
                self.frames_left_out += 1
                return
            self.connections[row.connection] = None
        command = cut(row.command) or f"({row.status})", row.direction, row.status == "ok"
        if command not in self._commands:
            if len(self._commands) < COMMANDS_MAX:
                self._commands.add(command)
            else:
                command = OTHERS, row.direction, row.status == "ok"
        mark = self.marks.of(row.time, (row.connection, command))
        mark.frames += 1
        mark.messages += max(row.num_messages or 0, 0)
        if row.latency_ns is not None and (mark.slowest is None or row.latency_ns > mark.slowest):
            mark.slowest = row.latency_ns
        if not mark.first:
            mark.time, mark.first = row.time, frame_name(row.file, row.packet, row.sub)
