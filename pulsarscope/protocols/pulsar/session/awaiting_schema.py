"""Deliveries that wait for the schema which their consumer asks the broker for.

A consumer learns from the first message of a version that it needs that version of the schema; by the time the broker has answered, its
queue is full of messages. Without waiting none of them would have a value.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pulsarscope.dissect.contract.exchange import Response
from pulsarscope.dissect.contract.frames import Note
from pulsarscope.model.limits import UNREAD_ENTRIES_MAX, UNREAD_MAX_BYTES, UNREAD_MAX_NANOSECONDS
from pulsarscope.protocols.pulsar.entry.reader import Entry, Unread
from pulsarscope.protocols.pulsar.values.connection_values import Values
from pulsarscope.protocols.pulsar.values.schemas import SchemaName

NEVER = 1 << 64
"""A time that does not come."""

Late = tuple[Entry, Response, list[Note]]
"""An entry that waits no more, its frame, and findings about its values."""


class _Waiting(NamedTuple):
    entry: Entry
    unread: Unread
    frame: Response


class UnreadEntries:
    """Entries of one connection that wait, by the version of the schema that they wait for.

    When some wait for too long, or all are too many, they are read as far as that goes.
    """

    def __init__(self, values: Values) -> None:
        self._values = values
        self._waiting: dict[SchemaName, list[_Waiting]] = {}
        """In the order of the first of each."""
        self.deadline = NEVER
        """Time at which the first that waits has waited for too long."""
        self._count = 0
        self._bytes = 0

    def add(self, entry: Entry, unread: Unread, frame: Response) -> list[Late]:
        """Let one more wait; return those that have waited for too long."""
        self._waiting.setdefault(unread.schema, []).append(_Waiting(entry, unread, frame))
        self._count += 1
        self._bytes += len(unread.data)
        self._set_deadline()
        return self.overdue(frame.time)

    def overdue(self, time: int) -> list[Late]:
        """Return those that have waited for too long by now, or are too many."""
        late: list[Late] = []
        while self.deadline < time or self._count > UNREAD_ENTRIES_MAX or self._bytes > UNREAD_MAX_BYTES:
            oldest = next(iter(self._waiting))
            self._values.wait_no_more(oldest)
            late += self._read(oldest)
        return late

    def _set_deadline(self) -> None:
        first = next(iter(self._waiting.values()), None)
        self.deadline = NEVER if first is None else first[0].frame.time + UNREAD_MAX_NANOSECONDS

    def observe(self, command: str, fields: dict[str, Any]) -> list[Late]:
        """Take the schemas in a command; return the messages that waited for them."""
        schema = self._values.observe(command, fields)
        return [] if schema is None else self._read(schema)

    def finish(self) -> list[Late]:
        """No schema will come: all."""
        self._values.end()
        return [one for schema in list(self._waiting) for one in self._read(schema)]

    def _read(self, schema: SchemaName) -> list[Late]:
        """Return those that waited for a schema, which is there, or will never be."""
        late: list[Late] = []
        for entry, unread, frame in self._waiting.pop(schema, ()):
            self._count -= 1
            self._bytes -= len(unread.data)
            notes: list[Note] = []
            entry.value_bytes = self._values.fill(entry.base, entry.columns, unread.data, unread.owner, unread.topic, notes) or 0
            late.append((entry, frame, notes))
        self._set_deadline()
        return late
