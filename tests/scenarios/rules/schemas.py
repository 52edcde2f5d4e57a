"""Definitions of Avro records, with and without a field."""

from __future__ import annotations

import json
from typing import Any


def record(name: str, *fields: dict[str, Any], kind: str = "Avro") -> dict[str, Any]:
    return {"name": "", "type": kind, "schema_data": json.dumps({"type": "record", "name": name, "fields": fields}).encode()}


ID = {"name": "id", "type": "int"}
PRICE = {"name": "price", "type": ["null", "double"], "default": None}
