from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.filter import FilterError
from pulsarscope.filter.field_columns import FieldColumns, arithmetic
from tests.filter.samples import ACK, CATALOGUE, ENDPOINTS, MESSAGE, RECEIPT, SEND


def values(row: Any, *names: str) -> list[Any] | None:
    return FieldColumns(names, ("frame", "message"), CATALOGUE, payload="base64").values(row, ENDPOINTS)


def test_fields_have_the_values_that_a_filter_compares() -> None:
    assert values(SEND, "send.sequence_id", "metadata.producer_name", "command") == [7, "orders-1", "SEND"]
    assert values(RECEIPT, "latency", "latency_ns") == [60_000_000, 60_000_000]
    assert values(ACK, "client.ip", "server.port", "ip") == ["2001:db8::7", 6651, ["2001:db8::7", "2001:db8::1"]]


def test_several_values_are_a_list_one_is_alone_none_is_absent() -> None:
    assert values(ACK, "ack.message_id.entryId", "ack.message_id.ack_set") == [[14, 1], [3, 5]]
    assert values(SEND, 'metadata.properties["n"]', 'metadata.properties["color"]', 'metadata.properties["x"]') == [
        "12",
        ["red", "blue"],
        None,
    ]
    assert values(SEND, "ack.message_id.entryId", "topics") == [None, None]


def test_functions_measure() -> None:
    assert values(ACK, "count(ack.message_id)", "len(command)") == [2, 3]
    assert values(MESSAGE, "len(payload)", "payload") == [9, "AQIDBGhlbGxv"]


def test_a_kind_that_lacks_a_field_has_no_value_and_other_kinds_no_row() -> None:
    assert values(MESSAGE, "command", "key") == [None, MESSAGE.key]
    assert FieldColumns(("command",), ("frame",), CATALOGUE).values(MESSAGE, ENDPOINTS) is None


@pytest.mark.parametrize(
    ("name", "why"),
    [("comand", "did you mean command"), ("len(size)", "no length"), ("a b", "operator"), ("", "name of a field"), ("topic[", "positions")],
)
def test_what_is_no_field_is_refused_with_its_place(name: str, why: str) -> None:
    with pytest.raises(FilterError, match=why) as refused:
        FieldColumns((name,), ("frame",), CATALOGUE)
    assert "== 0" not in str(refused.value)


def test_payloads_are_read_only_when_a_field_is_made_of_them() -> None:
    assert FieldColumns(("len(payload)",), ("message",), CATALOGUE).reads_payload
    assert not FieldColumns(("payload_size", "len(key)"), ("message",), CATALOGUE).reads_payload


def test_a_computed_column_without_any_value_is_reported() -> None:
    columns = FieldColumns(("size", "topic-size", "size-payload_size"), ("frame",), CATALOGUE)
    assert columns.empty() == []
    columns.values(SEND, {})
    columns.values(SEND, {})
    assert columns.empty() == ["topic-size is empty: in none of 2 rows is each of its fields a number"]


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
