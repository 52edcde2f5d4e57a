from __future__ import annotations

import pytest

from pulsarscope.model.records import ROWS, row_type
from pulsarscope.output.export.columns import cell_types, cells, is_constant, json_texts
from pulsarscope.output.registry import column_names
from tests.scenarios import rows


@pytest.mark.parametrize("kind", ROWS)
def test_there_is_a_type_for_each_flat_column(kind: str) -> None:
    assert tuple(cell_types(kind)) == column_names(kind, flat=True)
    assert "checksum" not in cell_types(kind).values()


def test_a_checksum_is_three_values() -> None:
    some = [rows.send(), rows.receipt()]
    assert cells(some, ["checksum_status", "packet", "checksum_computed"]) == [["good", None], (4, 6), ["e3069283", None]]


def test_values_stay_as_they_are() -> None:
    assert cells([rows.frame(findings=["a"], fields={"a": 1})], ["findings", "fields"]) == [(["a"],), ({"a": 1},)]
    assert cells([rows.message()], ["topic"]) == [(rows.TOPIC,)]


def test_rows_of_some_columns_have_their_values() -> None:
    some = row_type("message", ("key", "topic"))
    assert cells([some("k", "t"), some(None, "u")], ["topic", "key"]) == [("t", "u"), ("k", None)]


def test_no_rows_have_empty_columns() -> None:
    assert cells([], ["topic", "checksum_status"]) == [(), []]


def test_objects_are_compact_json_in_their_own_order() -> None:
    assert json_texts([{"b": 1, "a": b"\xff"}, None, "x\ny"]) == ['{"b":1,"a":"/w=="}', None, '"x\\ny"']
    assert json_texts([1, True]) == ["1", "true"]
    assert json_texts([None]) == [None]
    assert json_texts([]) == []


@pytest.mark.parametrize(("values", "constant"), [([1, 1], True), ([1, 2], False), ([None], True), ([None, 1], False), ([], False)])
def test_a_column_of_one_single_value_is_constant(values: list[object], constant: bool) -> None:
    assert is_constant(values) is constant
