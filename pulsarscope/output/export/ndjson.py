"""NDJSON: one object per line, in UTF-8. Absent values are left out."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby, repeat
from operator import attrgetter
from typing import Any

import msgspec
from msgspec.structs import astuple

from pulsarscope.model.platform import load_native
from pulsarscope.model.records import ExchangeRow, FrameRow, MessageRow, columns, row_type
from pulsarscope.model.row_lists import EntryMessages
from pulsarscope.model.text import escape_json
from pulsarscope.model.units import SECOND
from pulsarscope.output.export.iso_times import IsoTimes
from pulsarscope.output.export.sink import Sink
from pulsarscope.output.registry import OutputOptions, RowEncoder, choose_columns


class LinesOutput:
    """An output that writes the lines of an encoder to a sink."""

    def __init__(self, sink: Sink, encoder: RowEncoder) -> None:
        self._sink = sink
        self._encoder = encoder

    def write(self, rows: list[Any]) -> None:
        """Encode and write rows (see `Output`)."""
        self.put(self._encoder.encode(rows))

    def put(self, encoded: bytes | Iterable[bytes]) -> None:
        """Write encoded rows (see `EncodedOutput`), all at once or in parts."""
        for lines in (encoded,) if isinstance(encoded, bytes) else encoded:
            if lines:
                self.put_lines(lines)

    def put_lines(self, lines: bytes) -> None:
        """Write lines."""
        self._sink.write(lines)

    def close(self) -> None:
        """Do nothing: no row is pending."""


class _TimeColumns(dict[str, tuple[str, ...]]):
    """Columns with times other than `time`, by record kind, made on use: all kinds would take 5 ms at the start, and few runs have all."""

    def __missing__(self, kind: str) -> tuple[str, ...]:
        names = self[kind] = tuple(column.name for column in columns(kind) if column.type == "time" and column.name != "time")
        return names


TIME_COLUMNS = _TimeColumns()

TEXTS_MAX = 4096
"""Times whose text is cached: the messages of a batch share them."""

_AS_JSON = frozenset({"properties", "value", "ordering_key"})
"""Columns of messages that are not texts, numbers or times."""


class _TimeTexts(dict[int | None, str | None]):
    """A cache of times as text."""

    def __init__(self) -> None:
        self._times = IsoTimes()

    def __missing__(self, time: int | None) -> str | None:
        if len(self) >= TEXTS_MAX:
            self.clear()
        text = self[time] = None if time is None else self._times.text(time)
        return text


class JsonLines:
    """An encoder of rows to lines of JSON."""

    def __init__(self, kinds: Sequence[str], names: Sequence[str] | None) -> None:
        self._times = IsoTimes()
        self._base = 0
        self._second = "1970-01-01T00:00:00.%09dZ"
        self._several = tuple(kinds) != ("frame",)
        self._together = MessageRow.kind in kinds
        """True when `EntryMessages` may be among the rows."""
        self._texts = _TimeTexts()
        self._encode = msgspec.json.Encoder().encode_lines
        chosen = {} if names is None else choose_columns(names, kinds)
        self._subsets = {kind: _Subset(kind, chosen_names) for kind, chosen_names in chosen.items()}
        self._chosen = None if names is None else (chosen.get(FrameRow.kind, ()), chosen.get(ExchangeRow.kind, ()))
        self._message_columns = chosen.get(MessageRow.kind, MessageRow.__struct_fields__)
        self._subset_times = {kind: subset.times for kind, subset in self._subsets.items()}

    def encode(self, rows: list[Any]) -> bytes:
        """Return the lines, with their ends, of rows that may include `EntryMessages`. The times in the rows become text."""
        if self._has_entries(rows):
            parts = groupby(rows, lambda row: type(row) is EntryMessages)
            return b"".join([self._entries(part) if together else self.encode([*part]) for together, part in parts])
        if self._subsets:
            rows = self._subset(rows)
        else:
            self._write_times(rows)
        return escape_json(self._encode(rows))

    def lines(self, rows: list[Any]) -> list[bytes] | bytes:
        """Encode each row to a line (see `LineEncoder`), `EntryMessages` to several."""
        if self._has_entries(rows):
            return [self.encode([row]) for row in rows]
        return self.encode(rows)  # JSON text has no raw line end

    def ordered(self, ordered: Any, following: Sequence[Any], encode: Callable[[list[Any]], bytes]) -> Iterator[bytes]:
        """Encode ordered rows and the rows after them in parts; `encode` takes the Python rows (see `ColumnEncoder`)."""
        messages, place = self._message_lines if self._together else None, 0
        while place < len(ordered):
            lines, place = ordered.ndjson(encode, messages, place, self._chosen)
            yield lines
        if following:
            yield encode([*following])

    def _write_times(self, rows: list[Any]) -> None:
        # The encoder owns the rows, so the text takes the place of the number: no copy, and no hook of the encoder.
        base, second = self._base, self._second
        last_time: int | None = None
        last_text: str | None = None
        text = self._times.text
        for row in rows:
            time = row.time
            if time != last_time:
                fraction = time - base if time is not None else -1
                if 0 <= fraction < SECOND:
                    last_text = second % fraction
                elif time is None:
                    last_text = None
                elif (last_text := text(time)) is not None:
                    base, second = time - time % SECOND, last_text[:20] + "%09dZ"
                last_time = time
            row.time = last_text
        self._base, self._second = base, second
        if self._several:
            self._write_columns(rows, TIME_COLUMNS)

    def _write_columns(self, rows: list[Any], names: Mapping[str, tuple[str, ...]]) -> None:
        """Turn the times in these columns into text, by kind. Work column by column, because most rows have no time in most columns."""
        types: set[Any] = set(map(type, rows))
        for row_class in types:
            of_class = [row for row in rows if type(row) is row_class] if len(types) > 1 and names[row_class.kind] else rows
            for name in names[row_class.kind]:
                times = list(map(attrgetter(name), of_class))
                if times.count(None) < len(times):
                    deque(map(setattr, of_class, repeat(name), map(self._texts.__getitem__, times)), maxlen=0)

    def _has_entries(self, rows: list[Any]) -> bool:
        return self._together and EntryMessages in set(map(type, rows))

    def _entries(self, entries: Iterable[EntryMessages]) -> bytes:
        """Return the lines of the messages of entries; the compiled reader makes them entry by entry."""
        lines: bytes = self._message_lines.lines([(entry.shared, entry.count, entry.columns) for entry in entries])
        return lines

    @cached_property
    def _message_lines(self) -> Any:
        native, _ = load_native()
        times = {"time", *TIME_COLUMNS[MessageRow.kind]}
        values = self._subsets[MessageRow.kind].values if self._subsets else astuple
        return native.MessageLines(MessageRow.kind, self._message_columns, times, self._own_json, self._json, values)

    def _own_json(self, name: str, values: Sequence[Any]) -> Iterable[Any]:
        """Return the values of a column of messages in the form for the compiled reader: texts, numbers, and JSON in bytes."""
        if name in TIME_COLUMNS[MessageRow.kind]:
            return [None if text is None else b'"%s"' % text.encode() for text in map(self._texts.__getitem__, values)]
        if name not in _AS_JSON:
            return values
        values = [*values]
        lines = escape_json(self._encode(values)).split(b"\n")  # JSON text has no raw line end
        return [None if value is None else line for value, line in zip(values, lines, strict=False)]

    def _json(self, value: Any) -> bytes:
        """Return the JSON of a value."""
        return escape_json(self._encode([value]))[:-1]

    def _subset(self, rows: list[Any]) -> list[Any]:
        """Return rows of the chosen columns; rows that already have only these stay as they are."""
        subsets = self._subsets
        types = {subset.type for subset in subsets.values()}
        if not types.issuperset(map(type, rows)):
            rows = [row if type(row) in types else subsets[row.kind].make(row) for row in rows]
        self._write_columns(rows, self._subset_times)
        return rows


class _Subset:
    """A converter of rows of a kind to rows of chosen columns."""

    __slots__ = ("times", "type", "values")

    def __init__(self, kind: str, names: tuple[str, ...]) -> None:
        self.type = row_type(kind, names)
        self.times = tuple(column.name for column in columns(kind) if column.type == "time" and column.name in names)
        self.values: Callable[[Any], tuple[Any, ...]] = attrgetter(*names) if len(names) > 1 else lambda row: (getattr(row, names[0]),)

    def make(self, row: Any) -> Any:
        """Return a row of the chosen columns."""
        return self.type(*self.values(row))


class NdjsonOutput(LinesOutput):
    """The output `ndjson`."""

    def __init__(self, sink: Sink, options: OutputOptions) -> None:
        super().__init__(sink, JsonLines(options.kinds, options.columns))


class JsonOutput(LinesOutput):
    """The output `json`."""

    def __init__(self, sink: Sink, options: OutputOptions) -> None:
        super().__init__(sink, JsonLines(options.kinds, options.columns))
        self._before = b"[\n"

    def put_lines(self, lines: bytes) -> None:
        """Write lines as elements of the array."""
        # JSON text has no raw line end, so each one is the end of a row.
        self._sink.write(self._before + lines[:-1].replace(b"\n", b",\n"))
        self._before = b",\n"

    def close(self) -> None:
        """End the array."""
        self._sink.write(b"[]\n" if self._before == b"[\n" else b"\n]\n")
