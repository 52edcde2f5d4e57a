"""Filters for frames in columns: a table of filters, for numbers, names and rows."""

from __future__ import annotations

from typing import Any

import pytest

from pulsarscope.filter import Filter
from pulsarscope.filter.column_mask import mask_of
from tests.filter.samples import CATALOGUE

START = 1_700_000_000_000_000_000

CASES: list[tuple[str, Any]] = [
    ("command == SEND", "command"),
    ("send", "command"),
    ('command matches "^SE"', "command"),
    ('topic matches "orders"', "names"),
    ("client.ip == 10.0.0.0/8 and subscription", ("and", ["names", "names"])),
    ("size > 100", ("number", "size", ">", 100)),
    ("latency <= 1ms", ("number", "latency_ns", "<=", 1_000_000)),
    ("time >= 2s", ("number", "time", ">=", START + 2_000_000_000)),
    ("not (packet == 7 or send.sequence_id == 3)", ("and", [("not", ("number", "packet", "==", 7)), ("not", "row")])),
    ("size in {1..5}", "row"),
    ("metadata.publish_time", "row"),
    ("request", "row"),
    ("len(topic) > 5", "names"),
    ("command == SEND or latency > 5ns", ("or", ["command", ("number", "latency_ns", ">", 5)])),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_numbers_are_compared_in_columns_and_names_and_commands_asked_once(text: str, expected: Any) -> None:
    made = Filter(text, ("frame",), CATALOGUE)
    made.context.start = START
    assert shape(mask_of(made.trees["frame"], made.context)) == expected


def shape(mask: Any) -> Any:
    kind = mask[0]
    if kind in ("names", "command", "row"):
        return kind
    if kind in ("and", "or"):
        return kind, [shape(part) for part in mask[1]]
    return (kind, shape(mask[1])) if kind == "not" else mask
