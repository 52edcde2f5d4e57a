"""Lists of rows, in which the many rows of an entry can stand together, or be made when they are taken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, ClassVar

import msgspec

from pulsarscope.model.limits import ROWS_MAX
from pulsarscope.model.records import MessageRow, Row


class EntryMessages(msgspec.Struct, gc=False):
    """The messages of one entry in place of their rows, which columnar outputs do not need and which take longest to make.

    Alternatively, consecutive messages of one connection and day that share values and are not parts of batches.
    """

    kind: ClassVar[str] = MessageRow.kind

    shared: MessageRow
    """Values that all of them share."""
    count: int
    columns: Mapping[str, Sequence[Any]]
    """Values of each message, by column; they replace the shared ones."""

    @property
    def is_run(self) -> bool:
        """True for messages that are not parts of a batch, even a single one: the columns distinguish their entries."""
        return self.shared.batch_size is None and "packet" in self.columns

    def rows(self) -> list[MessageRow]:
        """Return the messages as rows."""
        columns = {name: [*values] for name, values in self.columns.items()}
        return [
            msgspec.structs.replace(self.shared, **{name: values[index] for name, values in columns.items()}) for index in range(self.count)
        ]


def count_rows(rows: Iterable[Any]) -> int:
    """Return the number of these rows."""
    return sum([row.count if type(row) is EntryMessages else 1 for row in rows])


class RowList(list[Any]):
    """Rows; the many rows of an entry can be appended lazily and are made when taken: a row takes ten times the memory of its content."""

    def __init__(self, *, later: bool, together: bool = False) -> None:
        """Make all rows at once unless `later`; with `together`, the consumer of the rows also accepts `EntryMessages`."""
        super().__init__()
        self.later: list[tuple[int, Iterator[Row]]] = []
        """Rows yet to be made, each with the number of list items before them: nothing may be inserted before these positions."""
        self.together = together
        self._allowed = later
        self._messages = 0
        """Number of messages in `EntryMessages` since rows were last handed on."""

    def extend_later(self, rows: Iterator[Row]) -> None:
        """Append rows that are made when they are taken."""
        if self._allowed:
            self.later.append((len(self), rows))
        else:
            self.extend(rows)

    def hand_on(self) -> None:
        """Hand over the rows so far before anything follows."""
        self.extend_later(iter(()))
        self._messages = 0

    def append_together(self, messages: EntryMessages) -> None:
        """Append messages, and hand the rows on before there are too many."""
        self.append(messages)
        self._messages += messages.count
        if self._messages > ROWS_MAX:
            self.hand_on()

    def take(self, size: int) -> Iterator[list[Any]]:
        """Take all rows, at most `size` at a time, and leave the list empty."""
        parts: list[Iterator[Any]] = []
        start = 0
        for stop, rows in self.later:
            parts.append(chain(self[start:stop], rows))
            start = stop
        parts.append(iter(self[start:]))
        self.later = []
        self._messages = 0
        self.clear()
        for part in parts:
            while piece := list(islice(part, size)):
                yield piece
