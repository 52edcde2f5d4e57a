"""Deliveries that wait for the schema which their consumer asks the broker for.

A consumer learns from the first message of a version that it needs that version of the schema; by the time the broker has answered, its
queue is full of messages. Without waiting none of them would have a value.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pulsarscope.limits import UNREAD_ENTRIES_MAX, UNREAD_MAX_BYTES, UNREAD_MAX_NANOSECONDS
from pulsarscope.protocols.pulsar.entry import Entry, Unread
from pulsarscope.protocols.pulsar.values.connection import Values
from pulsarscope.protocols.pulsar.values.schemas import SchemaName
from pulsarscope.wire.contract import Note
from pulsarscope.wire.exchange import Response

Late = tuple[Entry, Response, list[Note]]
"""An entry that waits no more, its frame, and what was found."""


class _Waiting(NamedTuple):
    entry: Entry
    unread: Unread
    frame: Response


class UnreadEntries:
    """Those of one connection, by the version of the schema that they wait for.

    When some wait for too long, or all are too many, they are read as far as that goes.
    """

    def __init__(self, values: Values) -> None:
        self._values = values
        self._waiting: dict[SchemaName, list[_Waiting]] = {}
        """In the order of the first of each."""
        self._count = 0
        self._bytes = 0

    def add(self, entry: Entry, unread: Unread, frame: Response) -> list[Late]:
        """One more; those that waited for too long."""
        self._waiting.setdefault(unread.schema, []).append(_Waiting(entry, unread, frame))
        self._count += 1
        self._bytes += len(unread.data)
        late: list[Late] = []
        while self._waiting:
            oldest = next(iter(self._waiting))
            waited = frame.time - self._waiting[oldest][0].frame.time
            if waited <= UNREAD_MAX_NANOSECONDS and self._count <= UNREAD_ENTRIES_MAX and self._bytes <= UNREAD_MAX_BYTES:
                break
            self._values.wait_no_more(oldest)
            late += self._read(oldest)
        return late

    def observe(self, command: str, fields: dict[str, Any]) -> list[Late]:
        """What a command tells of schemas; those that waited for it."""
        told = self._values.observe(command, fields)
        return [] if told is None else self._read(told)

    def finish(self) -> list[Late]:
        """No schema will come: all."""
        self._values.end()
        return [one for schema in list(self._waiting) for one in self._read(schema)]

    def _read(self, schema: SchemaName) -> list[Late]:
        """Those that waited for a schema, which is there, or will never be."""
        late: list[Late] = []
        for entry, unread, frame in self._waiting.pop(schema, ()):
            self._count -= 1
            self._bytes -= len(unread.data)
            notes: list[Note] = []
            entry.value_bytes = self._values.fill(entry.base, entry.columns, unread.data, unread.owner, unread.topic, notes) or 0
            late.append((entry, frame, notes))
        return late
