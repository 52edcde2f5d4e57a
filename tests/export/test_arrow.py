from __future__ import annotations

import sys

import pytest

from pulsarscope.errors import UsageError
from pulsarscope.export.arrow import RecordBatches, arrow_schema, require_pyarrow, table
from pulsarscope.outputs import column_names
from pulsarscope.records import ROWS
from tests.render import rows


@pytest.mark.parametrize("kind", ROWS)
def test_the_schema_of_each_kind_has_its_flat_columns_with_their_meaning(kind: str) -> None:
    schema = arrow_schema(kind)
    assert tuple(schema.names) == column_names(kind, flat=True)
    assert all((field.metadata or {}).get(b"description") for field in schema)


def test_rows_become_columns() -> None:
    made = RecordBatches("frame", ["time", "checksum_status", "findings", "fields"]).batch([rows.send(findings=["a"]), rows.receipt()])
    assert made.to_pylist() == [
        {"time": rows.START + 4_000_000, "checksum_status": "good", "findings": ["a"], "fields": '{"producer_id":0,"sequence_id":7}'},
        {
            "time": rows.START + 6_000_000,
            "checksum_status": None,
            "findings": None,
            "fields": '{"producer_id":0,"sequence_id":7,"message_id":{"ledgerId":26,"entryId":14}}',
        },
    ]


def test_a_table_takes_any_number_of_rows() -> None:
    assert table("frame", iter(())).num_rows == 0
    assert table("message", (rows.message(schema_version=b"\x01") for _ in range(20_000))).num_rows == 20_000


def test_a_missing_pyarrow_is_told_with_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match=r'pip install "pulsarscope\[parquet\]"'):
        require_pyarrow()
