"""Partition columns of tables, as in Hive: `date=2026-05-01/source=host1` has the rows of a day and a vantage point."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from typing import Any

from pulsarscope.model.errors import UsageError
from pulsarscope.model.row_lists import EntryMessages
from pulsarscope.model.text import hint_for

DATE, SOURCE = "date", "source"

COLUMNS = (DATE, SOURCE)
"""Columns by which tables can be partitioned; date is the date of `time` in UTC."""

NAME_MAX_BYTES = 255
"""Longest name of a folder in Linux file systems, and in HDFS by default (dfs.namenode.fs-limits.max-component-length)."""

SHOWN = 40
"""Characters shown of a name that is too long."""

_NULL = "__HIVE_DEFAULT_PARTITION__"
_EPOCH = date(1970, 1, 1)
_DAY_NANOSECONDS = 86_400 * 10**9
_ESCAPED = re.compile(r"""[\x00-\x1f"#%'*/:=?\\\x7f{\[\]^]""")
"""Characters that names of such folders escape as % and two digits."""


def partition_columns(text: str) -> tuple[str, ...]:
    """Return the columns in a comma-separated list. Raises UsageError for a name that is unknown or repeated."""
    names = tuple(part.strip() for part in text.split(",")) if text else ()
    for name in names:
        if name not in COLUMNS or names.count(name) > 1:
            raise UsageError(f"--partition-by {text}: give {' or '.join(COLUMNS)}, each once{hint_for(name, COLUMNS)}")
    return names


def check_sources(sources: Iterable[str | None], columns: Sequence[str]) -> None:
    """Raise UsageError when the name of a vantage point is too long for a folder."""
    if SOURCE in columns:
        for source in dict.fromkeys(sources):
            _folder((SOURCE,), None, source)


def by_folder(rows: Sequence[Any], columns: Sequence[str]) -> dict[str, list[Any]]:
    """Return rows by the relative path of their folder, which ends with a slash unless it is empty; see `check_sources`."""
    folders: dict[tuple[int | None, str | None], list[Any]] = {}
    has_date, has_source = DATE in columns, SOURCE in columns
    for each in rows:
        row = each.shared if type(each) is EntryMessages else each
        day = row.time // _DAY_NANOSECONDS if has_date and row.time is not None else None
        folders.setdefault((day, row.source if has_source else None), []).append(each)
    return {_folder(columns, *key): of_folder for key, of_folder in folders.items()}


def columns_of(folder: str) -> tuple[str, ...]:
    """Return the partition columns in a path of folders."""
    return tuple(name for part in folder.split("/") if (name := part.partition("=")[0]) in COLUMNS and "=" in part)


def _folder(columns: Sequence[str], day: int | None, source: str | None) -> str:
    texts = {DATE: None if day is None else (_EPOCH + timedelta(day)).isoformat(), SOURCE: source}
    names = [f"{name}={_ESCAPED.sub(_escape, text) if (text := texts[name]) else _NULL}" for name in columns]
    if source and any(len(name.encode("utf-8", "surrogateescape")) > NAME_MAX_BYTES for name in names):
        raise UsageError(
            f"--partition-by source: the vantage point {source[:SHOWN]}… is too long for the name of a folder: "
            "give --source-by a regular expression that finds a part of it"
        )
    return "".join(f"{name}/" for name in names)


def _escape(match: re.Match[str]) -> str:
    return f"%{ord(match[0]):02X}"
