"""Schemas: who declares which schema for a topic, and how the broker answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from pulsarscope.dissect.contract.capabilities import BoundedFold, ReportColumn, ReportTable
from pulsarscope.model.limits import PENDING_REQUESTS_MAX, STATISTICS_NAMES_MAX
from pulsarscope.model.records import FrameRow

_REQUESTS = {"PRODUCER": "producers", "SUBSCRIBE": "consumers", "GET_OR_CREATE_SCHEMA": "asked"}
_ANSWERS = frozenset({"PRODUCER_SUCCESS", "SUCCESS", "ERROR", "GET_OR_CREATE_SCHEMA_RESPONSE"})

_Name = tuple[str | None, str, str]
"""Topic, type and name of a schema."""


class _Schema(msgspec.Struct):
    producers: int = 0
    consumers: int = 0
    asked: int = 0
    refused: int = 0
    bytes: int = 0
    versions: dict[str, None] = {}


class Schemas(BoundedFold):
    """A fold over the commands that declare a schema, and their answers."""

    def __init__(self) -> None:
        self._found: dict[_Name, _Schema] = {}
        self._asked: dict[tuple[str, int], _Schema] = {}

    def feed(self, rows: Iterable[Any], endpoints: Mapping[str, tuple[str, str]]) -> None:
        """Take rows (see `ReportFold`)."""
        del endpoints
        for row in rows:
            if not isinstance(row, FrameRow) or row.fields is None:
                continue
            if row.command in _REQUESTS and type(schema := row.fields.get("schema")) is dict:
                self._ask(row, row.fields, schema)
            elif row.command in _ANSWERS:
                asked = self._asked.pop((row.connection, row.fields.get("request_id", -1)), None)
                if asked is None:
                    continue
                asked.refused += row.fields.get("error") == "IncompatibleSchema" or "error_code" in row.fields
                version = row.fields.get("schema_version")
                if isinstance(version, str) and version and len(asked.versions) < STATISTICS_NAMES_MAX:
                    asked.versions[version] = None

    def _ask(self, row: FrameRow, fields: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
        name = row.topic, str(schema.get("type", "None")), str(schema.get("name", ""))
        if (found := self.item(self._found, name, _Schema)) is None:
            return
        what = _REQUESTS[row.command or ""]
        setattr(found, what, getattr(found, what) + 1)
        found.bytes = max(found.bytes, len(str(schema.get("schema_data", ""))))
        if len(self._asked) < PENDING_REQUESTS_MAX:
            self._asked[row.connection, fields.get("request_id", 0)] = found

    def forget_ended(self) -> None:
        """Drop the schemas that were not refused, once the table is half full."""
        if len(self._found) > STATISTICS_NAMES_MAX // 2:
            self._found = {name: schema for name, schema in self._found.items() if schema.refused}
            self._asked.clear()

    def records(self) -> list[dict[str, Any]]:
        """Return a record for each schema of a topic, refused ones first."""
        records = [
            {
                "topic": topic,
                "type": kind,
                "name": name,
                "producers": schema.producers,
                "consumers": schema.consumers,
                "asked": schema.asked,
                "refused": schema.refused,
                "versions": ", ".join(schema.versions),
            }
            for (topic, kind, name), schema in self._found.items()
        ]
        return sorted(records, key=lambda record: (-record["refused"], record["topic"] or ""))


TABLE = ReportTable(
    "schemas",
    "Schemas",
    "declared by producers and consumers",
    (
        ReportColumn("topic", "topic", "topic"),
        ReportColumn("type", "type", "text"),
        ReportColumn("name", "name", "name", spare=True),
        ReportColumn("producers", "producers"),
        ReportColumn("consumers", "consumers"),
        ReportColumn("refused", "refused"),
        ReportColumn("versions", "versions", "name"),
    ),
    Schemas,
)
