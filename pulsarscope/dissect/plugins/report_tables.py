"""The tables of dissectors in statistics; one that fails does not affect the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from pulsarscope.dissect.contract.capabilities import ReportTable
from pulsarscope.dissect.contract.dissector import Dissector
from pulsarscope.dissect.plugins.isolation import contained
from pulsarscope.model.errors import UsageError

_NUMBERS = frozenset({"count", "duration", "moment"})
"""Forms of columns with numbers."""


def report_tables(dissectors: Iterable[Dissector]) -> dict[str, ReportTable]:
    """Return the tables of the dissectors by name; none, with a PluginWarning, of one that fails to provide them.

    Raises:
        UsageError: two dissectors have a table of the same name.
    """
    tables: dict[str, ReportTable] = {}
    for dissector in dissectors:
        none: dict[str, ReportTable] = {}
        own = contained(dissector, "tables", _tables_of, none, dissector)
        if shared := sorted(tables.keys() & own):
            raise UsageError(f"the dissector {dissector.name} of {dissector.package} has a table {shared[0]}, which another one has, too")
        tables |= own
    return tables


def _tables_of(dissector: Dissector) -> dict[str, ReportTable]:
    return {table.name: table._replace(make=partial(_ContainedFold, dissector, table)) for table in dissector.tables}


class _ContainedFold:
    """A wrapper with the methods of a table's fold. If one of them raises, it takes no more rows and has no records."""

    def __init__(self, dissector: Dissector, table: ReportTable) -> None:
        self._member = f"the table {table.name}"
        self._dissector = dissector
        self._failed = False
        self._numbers = [column.key for column in table.columns if column.form in _NUMBERS]
        self._fold: Any = self._call(table.make)
        for name in ("feed", *(name for name in dir(self._fold) if not name.startswith("_"))):
            if name != "records" and callable(method := getattr(self._fold, name, None)):
                setattr(self, name, partial(self._call, method))  # so that it is a LiveFold if the wrapped one is

    @property
    def left_out(self) -> int:
        """See `ReportFold`."""
        return getattr(self._fold, "left_out", 0)

    def feed(self, *_rows: Any) -> None:
        """Take rows of a table whose fold could not be made."""

    def records(self) -> list[dict[str, Any]]:
        """Return the records, if they have the form of the contract."""
        return self._call(self._checked) or []

    def _checked(self) -> list[dict[str, Any]]:
        records: list[dict[str, Any]] = self._fold.records()
        for record in records:
            for name in self._numbers:
                if not isinstance(record.get(name), int | float | None):
                    message = f"{name} is a {type(record[name]).__name__}, and its column has numbers"
                    raise TypeError(message)
        return records

    def _call(self, method: Callable[..., Any], *arguments: Any) -> Any:
        """Return the result of a method; an empty list after a failure."""
        if self._failed:
            return []
        self._failed = True
        made = contained(self._dissector, self._member, method, self, *arguments)
        self._failed = made is self
        return [] if self._failed else made
