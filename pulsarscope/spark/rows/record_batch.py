"""Conversion of tuples to record batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa


def to_record_batch(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    """Return a record batch of one or more rows with the columns of a schema."""
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays([pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema)
