"""Reports for programs: sections of records as JSON, NDJSON or CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pulsarscope.analysis.tally import ReportRecord
from pulsarscope.model.errors import UsageError
from pulsarscope.model.text import escape_json
from pulsarscope.output.export.csv import safe_text
from pulsarscope.output.export.iso_times import IsoTimes

TIMES = frozenset({"start", "end", "time", "first", "last", "oldest_since", "last_delivery", "last_flow", "last_ack"})
"""Keys whose values are times, written as in records."""


SINGLE = frozenset({"total", "verdict"})
"""Sections of one record, which is an object instead of a list in JSON."""


def with_objects(sections: Mapping[str, Sequence[ReportRecord]]) -> dict[str, Any]:
    """Return sections, with the record of each in `SINGLE` as an object."""
    return {name: records[0] if name in SINGLE else records for name, records in sections.items()}


def report_bytes(sections: Mapping[str, Sequence[ReportRecord]], output_format: str) -> bytes:
    """Return the sections of a report: in JSON one object of lists, in NDJSON a line for each record, with its section.

    The record of a section in `SINGLE` is an object in JSON. Raises UsageError for several sections as CSV.
    """
    written = {name: [_with_times(record) for record in records] for name, records in sections.items()}
    if output_format == "json":
        return msgspec.json.format(escape_json(msgspec.json.encode(with_objects(written))), indent=2) + b"\n"
    if output_format == "ndjson":
        lines = [{"section": name, **_present(record)} for name, records in written.items() for record in records]
        return escape_json(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    if len(written) != 1:
        raise UsageError(f"a CSV file has one section, not {', '.join(written)}: choose one with --by")
    return _csv(next(iter(written.values())))


def _with_times(record: ReportRecord) -> ReportRecord:
    """Return a record with its times as text, including times in nested objects."""
    text = IsoTimes().text
    converted: ReportRecord = {}
    for key, value in record.items():
        if key in TIMES and isinstance(value, int):
            converted[key] = text(value)
        elif isinstance(value, list):
            converted[key] = [_with_times(item) if isinstance(item, dict) else item for item in value]
        else:
            converted[key] = value
    return converted


def _present(record: ReportRecord) -> ReportRecord:
    """Return a record without absent values: NDJSON omits them as in rows."""
    return {key: value for key, value in record.items() if value is not None}


def _csv(records: Sequence[ReportRecord]) -> bytes:
    names = list(dict.fromkeys(name for record in records for name in record))
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerow(names)
    for record in records:
        writer.writerow([csv_cell(record.get(name)) for name in names])
    return file.getvalue().encode("utf-8", "backslashreplace")


def csv_cell(value: Any) -> Any:
    """Return a value as a cell of CSV: objects and lists become JSON, and a formula becomes a text."""
    if isinstance(value, str):
        return safe_text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return escape_json(msgspec.json.encode(value)).decode() if isinstance(value, (list, dict)) else value
