"""Deliveries that wait for the schema that their consumer requests from the broker.

A consumer learns from the first message with a schema version that it needs that version. By the time the broker has answered, its queue is
full of messages. Without waiting, none of them would have a value.
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
"""A time that never comes."""

Late = tuple[Entry, Response, list[Note]]
"""An entry that no longer waits, its frame, and findings about its values."""


class _Waiting(NamedTuple):
    entry: Entry
    unread: Unread
    frame: Response


class UnreadEntries:
    """The waiting entries of one connection, by the schema version for which they wait.

    If some wait for too long, or too many wait, they are read as far as possible.
    """

    def __init__(self, values: Values) -> None:
        self._values = values
        self._waiting: dict[SchemaName, list[_Waiting]] = {}
        """Entries by schema, in the order of the first entry of each schema."""
        self.deadline = NEVER
        """Time at which the first waiting entry has waited for too long."""
        self._count = 0
        self._bytes = 0

    def add(self, entry: Entry, unread: Unread, frame: Response) -> list[Late]:
        """Add a waiting entry; return the entries that have waited for too long."""
        self._waiting.setdefault(unread.schema, []).append(_Waiting(entry, unread, frame))
        self._count += 1
        self._bytes += len(unread.data)
        self._set_deadline()
        return self.overdue(frame.time)

    def overdue(self, time: int) -> list[Late]:
        """Return the entries that have waited for too long by now, or are beyond the bound."""
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
        """Learn the schema in a command; return the entries that waited for it."""
        schema = self._values.observe(command, fields)
        return [] if schema is None else self._read(schema)

    def finish(self) -> list[Late]:
        """Return all waiting entries, as no further schema will come."""
        self._values.end()
        return [one for schema in list(self._waiting) for one in self._read(schema)]

    def _read(self, schema: SchemaName) -> list[Late]:
        """Return the entries that waited for a schema, which is known now or never will be."""
        late: list[Late] = []
        for entry, unread, frame in self._waiting.pop(schema, ()):
            self._count -= 1
            self._bytes -= len(unread.data)
            notes: list[Note] = []
            entry.value_bytes = self._values.fill(entry.base, entry.columns, unread.data, unread.owner, unread.topic, notes) or 0
            late.append((entry, frame, notes))
        self._set_deadline()
        return late
