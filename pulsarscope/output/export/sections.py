"""Reports for programs: sections of records as JSON, NDJSON or CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pulsarscope.model.errors import UsageError
from pulsarscope.output.export.csv import safe_text
from pulsarscope.output.export.times import IsoTimes

TIMES = frozenset({"start", "end", "time", "first", "last"})
"""Keys whose values are times; they are written as in records."""

Record = dict[str, Any]


def report_bytes(sections: Mapping[str, Sequence[Record]], output_format: str, *, single: frozenset[str] = frozenset()) -> bytes:
    """The sections: in JSON one object of lists (of `single` ones their only object), in NDJSON each object a line with its section.

    Raises:
        UsageError: CSV is asked for, which holds one section, and there are several.
    """
    written = {name: [_with_times(record) for record in records] for name, records in sections.items()}
    if output_format == "json":
        whole = {name: records[0] if name in single else records for name, records in written.items()}
        return msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n"
    if output_format == "ndjson":
        lines = [{"section": name, **_present(record)} for name, records in written.items() for record in records]
        return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
    if len(written) != 1:
        message = f"a CSV file holds one section, not {', '.join(written)}: choose one with --by"
        raise UsageError(message)
    return _csv(next(iter(written.values())))


def _with_times(record: Record) -> Record:
    """A record with its times as text, those of objects in it too."""
    text = IsoTimes().text
    made: Record = {}
    for key, value in record.items():
        if key in TIMES and isinstance(value, int):
            made[key] = text(value)
        elif isinstance(value, list):
            made[key] = [_with_times(one) if isinstance(one, dict) else one for one in value]
        else:
            made[key] = value
    return made


def _present(record: Record) -> Record:
    """NDJSON leaves out what is absent, as for records."""
    return {key: value for key, value in record.items() if value is not None}


def _csv(records: Sequence[Record]) -> bytes:
    names = list(dict.fromkeys(name for record in records for name in record))
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerow(names)
    for record in records:
        writer.writerow([_cell(record.get(name)) for name in names])
    return file.getvalue().encode("utf-8", "backslashreplace")


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        return safe_text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return msgspec.json.encode(value).decode() if isinstance(value, (list, dict)) else value
