from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.filter import FilterError
from pulsarscope.filter.column_arithmetic import arithmetic
from pulsarscope.filter.field_columns import FieldColumns
from tests.filter.samples import ACK, CATALOGUE, ENDPOINTS, MESSAGE, RECEIPT


def values(row: Any, *names: str) -> list[Any] | None:
    return FieldColumns(names, ("frame", "message"), CATALOGUE, payload="base64").values(row, ENDPOINTS)


def test_columns_are_computed_beside_others() -> None:
    assert values(RECEIPT, "command", "latency_ns / 1000", "latency", "-latency_ns + 2 * (packet - packet)", "packet") == [
        "SEND_RECEIPT",
        60_000,
        60_000_000,
        -60_000_000,
        RECEIPT.packet,
    ]
    assert values(ACK, "count(ack.message_id) * 10", "len(command) - 1") == [20, 2]
    assert values(MESSAGE, "len(payload) + 1") == [10]


@pytest.mark.parametrize("name", ["latency_ns / 0", "command + 1", "ack.message_id.entryId + 1", "metadata.num_messages_in_batch - 1"])
def test_what_has_no_number_has_no_value(name: str) -> None:
    assert values(ACK, name) == [None]


@pytest.mark.parametrize(
    ("name", "why"),
    [("packet ** 2", "only"), ("packet % 2", "only"), ("packet + comand", "did you mean command"), ("packet + (1 if x else 2)", "field")],
)
def test_other_expressions_are_refused(name: str, why: str) -> None:
    with pytest.raises(FilterError, match=why):
        values(ACK, name)


@pytest.mark.parametrize("text", ["topic", 'metadata.properties["a-b"]', "payload[0-4]", "len(topic)", "", "(" * 400, "1 +", "f(x)"])
def test_fields_are_no_computations(text: str) -> None:
    assert arithmetic(text) is None


@given(st.text(alphabet="ab.12+-*/() []\"',", max_size=40))
def test_any_text_is_a_computation_a_field_or_refused(text: str) -> None:
    try:
        found = arithmetic(text)
    except FilterError:
        return
    if found is not None:
        fields, compute = found
        compute([1] * len(fields))
