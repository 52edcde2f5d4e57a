"""Message rows from the messages that a session reports: requested columns, payload forms, and rows made later."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any

from pulsarscope.dissect.contract.events import LaterMessages, MessageEntry, SingleMessage
from pulsarscope.dissect.contract.payload_forms import payload_text
from pulsarscope.model.digests import sha256_hex
from pulsarscope.model.limits import ROWS_MAX
from pulsarscope.model.records import MessageRow, row_type
from pulsarscope.model.row_lists import EntryMessages, RowList

LARGE_METADATA_BYTES = 1 << 20
"""Memory of an entry's metadata above which its rows are handed on before others are made."""

VALUES_TOGETHER_MAX_BYTES = 256 << 10
"""Size of values above which the rows of one connection are handed on at once: a value takes ten times the memory of its JSON."""


class MessageRows:
    """Makes the message rows of one connection."""

    def __init__(self, columns: Sequence[str] | None, form: str | None) -> None:
        """Prepare for `columns` (None for all) and a payload form."""
        self._columns = MessageRow.__struct_fields__ if columns is None else tuple(columns)
        self._type: type[Any] = MessageRow if columns is None else row_type(MessageRow.kind, self._columns)
        self._form = form if "payload" in self._columns else None
        self._digest = "payload_sha256" in self._columns
        self._value_bytes = 0
        """Bytes of values in rows since rows were last passed on because of their size."""

    def add(self, message: SingleMessage, out: list[Any]) -> None:
        """Append the row of one message."""
        out.append(self._row(message))

    def add_several(self, messages: LaterMessages, out: list[Any]) -> None:
        """Append the rows of messages; if there are very many, to a RowList, to be made later."""
        rows = map(self._row, messages.make())
        if messages.count > ROWS_MAX and isinstance(out, RowList):
            out.extend_later(rows)
        else:
            out.extend(rows)

    def add_entry(self, entry: MessageEntry, out: list[Any]) -> None:
        """Append the rows of an entry; if there are very many or they are large, to a RowList, to be made later.

        If a RowList takes them together, the rows of a batch are not made.
        """
        base, columns = entry.base, entry.columns
        if columns is None:
            out.append(self._chosen(base))
        else:
            large = entry.count > ROWS_MAX or entry.metadata_bytes > LARGE_METADATA_BYTES
            if not large and isinstance(out, RowList) and out.together:
                properties: Any = columns.get("properties")
                if hasattr(properties, "__next__"):  # an iterator, whose values can be taken only once
                    columns["properties"] = [*properties]
                out.append_together(EntryMessages(base, entry.count, columns))
            elif large and isinstance(out, RowList):
                out.extend_later(self._rows(entry))
            else:
                out.extend(self._rows(entry))
        if entry.value_bytes:
            self._value_bytes += entry.value_bytes
            if self._value_bytes > VALUES_TOGETHER_MAX_BYTES and isinstance(out, RowList):
                out.hand_on()
                self._value_bytes = 0

    def _rows(self, entry: MessageEntry) -> Iterator[Any]:
        own, base = (entry.columns or {}).get, entry.base
        values: Iterable[Iterable[Any]] = [own(name) or repeat(getattr(base, name), entry.count) for name in self._columns]
        return map(self._type, *values)

    def _row(self, message: SingleMessage) -> Any:
        row, payload = message.row, message.payload
        if payload is not None:
            row.payload_size = len(payload)
            if self._digest:
                row.payload_sha256 = sha256_hex(payload)
            if self._form is not None:
                row.payload = payload_text(payload, self._form)
        return self._chosen(row)

    def _chosen(self, row: MessageRow) -> Any:
        """Return a row with the requested columns."""
        return row if self._type is MessageRow else self._type(*[getattr(row, name) for name in self._columns])
