"""The results of an engine: rows, facts and counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from pulsarscope.engine.ordering import RowKey
from pulsarscope.model.records import ConnectionRow, FindingRow
from pulsarscope.tcp import ConnectionEvents, StreamStarts

DAMAGE_CODES = frozenset({"file-unreadable", "not-a-capture", "capture-malformed", "capture-truncated", "interface-gone"})
"""Codes of findings that an input is damaged or not a capture: exit code 4."""

KeyedFact = tuple[str | int, str, bytes, int, bool, RowKey]
"""A fact: its rule, by name or number, its key, its packed form, its time, whether it may cause a finding on its own, and the key of its
row."""

PackedFacts = bytes | list[KeyedFact]
"""Facts that a process sends to the merging one: in MessagePack, which takes a third of the time of pickling, or unchanged."""


class Closed(NamedTuple):
    """The end of a connection, among rows. Its row comes later, when late packets have been counted; thousands may wait for that."""

    row: ConnectionRow
    closing: tuple[str, int] | None = None
    """The first FIN or RST and its time, if the connection was closed."""


class Totals:
    """Counts of a run so far."""

    def __init__(self) -> None:
        self.severities: Counter[str] = Counter()
        """Findings by severity."""
        self.damaged = False
        """True when an input is damaged or not a capture."""
        self.start: int | None = None
        """Time of the first packet, nanoseconds since the epoch, from which relative times count; None until it is known."""
        self.packets = 0
        """Packets read, of any kind."""
        self.connections = 0
        """TCP connections, of any protocol."""
        self.fragmented = False
        """True when packets were joined from IP fragments."""
        self.starts: StreamStarts | None = None
        """Where the streams of these connections begin, if the options of a run request places."""
        self.stopped = False
        """True when the rest of the inputs is not read."""

    def stop(self) -> None:
        """End the run here, as if the inputs ended."""
        self.stopped = True

    def note(self, events: Iterable[ConnectionEvents]) -> None:
        """Take the facts of the assembler about connections."""
        self.connections += sum(event.opened for event in events)
        if self.starts is not None:
            self.starts.note(events)

    def count(self, findings: Iterable[FindingRow]) -> None:
        """Count findings."""
        for row in findings:
            self.severities[row.severity] += 1
            self.damaged = self.damaged or row.code in DAMAGE_CODES


class RowBatch(msgspec.Struct):
    """Rows (`records.Row`, and `records.RawFrame` after frame rows), and the progress of the run with them."""

    rows: list[Any]
    file: int
    bytes_read: int
    last_packet: int
    prepared: Any = None
    """Result of another process for the rows, which themselves stayed there."""
    keys: Sequence[RowKey] = ()
    """Order of each row among those of other engines."""
