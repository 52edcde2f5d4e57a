"""Records as tables of a DuckDB database, for queries in SQL. duckdb is an extra."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from pulsarscope.model.errors import UsageError
from pulsarscope.model.platform import install_command
from pulsarscope.model.records import ROWS
from pulsarscope.model.row_lists import EntryMessages, count_rows
from pulsarscope.model.text import hint_for
from pulsarscope.output.export.arrow import BATCH_ROWS, RecordBatches, require_pyarrow

UNKNOWN_TABLE = re.compile(r"Catalog Error: Table with name (\S+) does not exist")
"""Message of the database about an unknown table; it would also suggest internal tables."""

MEMORY_LIMIT = "512MB"
"""Memory limit of the database; data beyond it goes to its folder."""

FETCHED_ROWS = 10_000
"""Rows of a result held in memory at a time."""

Result = TypeVar("Result")


class RecordDatabase:
    """A database with a table for each kind of record, in a folder that its owner removes."""

    def __init__(self, folder: Path) -> None:
        """Create it with empty tables. Raises UsageError when duckdb or pyarrow is missing."""
        try:
            import duckdb  # noqa: PLC0415 - an extra, which brings pyarrow, too
        except ImportError as error:
            raise UsageError(f"SQL needs duckdb: {install_command('sql')}") from error
        require_pyarrow()
        self._error: type[Exception] = duckdb.Error
        settings: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": MEMORY_LIMIT,
            "temp_directory": str(folder / "spilled"),
            "autoinstall_known_extensions": "false",
        }
        self._database = duckdb.connect(str(folder / "records.duckdb"), config=settings)
        self._batches = {kind: RecordBatches(kind) for kind in ROWS}
        self._waiting: dict[str, list[Any]] = {kind: [] for kind in ROWS}
        for kind, batches in self._batches.items():
            self._insert(f"CREATE TABLE {kind} AS FROM batch", batches.schema.empty_table())

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def tables_of(self, query: str) -> frozenset[str]:
        """Return the kinds of records that a query reads. Raises UsageError when it is not valid."""
        try:
            statements = self._database.extract_statements(query)
            if len(statements) != 1:
                raise UsageError(f"give one query, not {len(statements)}, as in 'DESCRIBE frame'")
            self._database.execute(f"EXPLAIN {query}")
            return frozenset(name.lower() for name in self._database.get_table_names(query)).intersection(ROWS)
        except self._error as error:
            raise UsageError(_message_of(error)) from None

    def add(self, rows: Sequence[Any]) -> None:
        """Take rows, which may include `EntryMessages`."""
        for row in rows:
            self._waiting[row.kind].append(row)
        for kind, waiting in self._waiting.items():
            if len(waiting) >= BATCH_ROWS or (waiting and type(waiting[0]) is EntryMessages and count_rows(waiting) >= BATCH_ROWS):
                self._flush(kind)

    def query(self, query: str) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
        """Return the names of the columns and the rows of a query. Raises UsageError when it fails."""
        for kind in self._waiting:
            self._flush(kind)
        try:
            result = self._answer(lambda: self._database.execute(query))
        except self._error as error:
            raise UsageError(_message_of(error)) from None
        return [column[0] for column in result.description or ()], self._fetch(result)

    def _fetch(self, result: Any) -> Iterator[tuple[Any, ...]]:
        try:
            while rows := self._answer(lambda: result.fetchmany(FETCHED_ROWS)):
                yield from rows
        except self._error as error:  # such as a cast that fails for some row
            raise UsageError(_message_of(error)) from None

    def _answer(self, ask: Callable[[], Result]) -> Result:
        """Let the database answer in a thread, so that a signal ends its work. Otherwise it would ignore the signal or report an error."""
        with ThreadPoolExecutor(1) as thread:
            answer = thread.submit(ask)
            try:
                return answer.result()
            except KeyboardInterrupt:
                self._database.interrupt()
                raise

    def _flush(self, kind: str) -> None:
        if self._waiting[kind]:
            self._insert(f"INSERT INTO {kind} FROM batch", self._batches[kind].batch(self._waiting[kind]))
            self._waiting[kind] = []

    def _insert(self, statement: str, batch: Any) -> None:
        self._database.register("batch", batch)
        self._answer(lambda: self._database.execute(statement))
        self._database.unregister("batch")


def plain(value: Any) -> Any:
    """Return a value of a result as a type of JSON or a text; times of the database become ISO 8601."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, datetime):
        return value.isoformat()
    return value if value is None or isinstance(value, (bool, int, float, str, bytes)) else str(value)


def _message_of(error: Exception) -> str:
    """Return the message of the database in one line, without the query itself. Of tables, it names only those of records."""
    if unknown := UNKNOWN_TABLE.match(str(error)):
        return f"unknown table {unknown[1]}{hint_for(unknown[1], tuple(ROWS))}"
    return " ".join(str(error).partition("\n\nLINE ")[0].split())
