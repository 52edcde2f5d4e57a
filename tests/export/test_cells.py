from __future__ import annotations

import pytest

from pulsarscope.export.cells import cell_types, cells
from pulsarscope.outputs import column_names
from pulsarscope.records import ROWS
from tests.render import rows


@pytest.mark.parametrize("kind", ROWS)
def test_there_is_a_type_for_each_flat_column(kind: str) -> None:
    assert tuple(cell_types(kind)) == column_names(kind, flat=True)
    assert "checksum" not in cell_types(kind).values()


def test_a_checksum_is_three_values() -> None:
    some = [rows.send(), rows.receipt()]
    assert cells(some, "checksum_status", "string") == ["good", None]
    assert cells(some, "checksum_computed", "string") == ["e3069283", None]


def test_objects_are_compact_json_in_their_own_order() -> None:
    assert cells([rows.frame(fields={"b": 1, "a": b"\xff"}), rows.frame(fields=None)], "fields", "json") == ['{"b":1,"a":"/w=="}', None]


def test_other_values_stay_as_they_are() -> None:
    assert cells([rows.frame(findings=["a"])], "findings", "strings") == [["a"]]
