from __future__ import annotations

from typing import Any

import pytest

from pulsarscope.filter import FilterError
from pulsarscope.filter.field_columns import FieldColumns
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


def test_a_computed_column_without_any_value_is_told() -> None:
    columns = FieldColumns(("size", "topic-size", "size-payload_size"), ("frame",), CATALOGUE)
    assert columns.empty() == []
    columns.values(SEND, {})
    columns.values(SEND, {})
    assert columns.empty() == ["topic-size is empty: in none of 2 rows is each of its fields a number"]
