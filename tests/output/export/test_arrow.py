from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.model.errors import UsageError
from pulsarscope.model.records import ROWS, MessageRow
from pulsarscope.model.row_lists import EntryMessages
from pulsarscope.output.export.arrow import RecordBatches, arrow_schema, require_pyarrow, table
from pulsarscope.output.export.columns import json_texts
from pulsarscope.output.export.parquet import repeating
from pulsarscope.output.registry import column_names
from pulsarscope.protocols.pulsar.entry.batch import BatchReader
from pulsarscope.protocols.pulsar.frame.protobuf import Plans
from tests.scenarios import Single, batch, rows
from tests.scenarios.both_readers import reader


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


some_text, some_number = st.none() | st.sampled_from("abä"), st.none() | st.integers(-3, 1 << 40)
some_map = st.none() | st.dictionaries(st.sampled_from("xyz"), st.sampled_from(["", "1", '"']), max_size=2)


def of_entry(shared: MessageRow, columns: list[tuple[Any, ...]] | None) -> MessageRow | EntryMessages:
    if columns is None:
        return shared
    own = dict(zip(("batch_index", "key", "properties", "payload_size"), map(list, zip(*columns, strict=True)), strict=True))
    return EntryMessages(shared, len(columns), own)


shared_rows = st.builds(
    MessageRow,
    **dict.fromkeys(("packet", "time", "index", "batch_index"), some_number),
    **dict.fromkeys(("topic", "subscription", "key"), some_text),
    **dict.fromkeys(("properties", "extra"), some_map),
    encrypted=st.none() | st.booleans(),
    schema_version=st.none() | st.just(b"\x00\xff"),
)
entries = st.builds(of_entry, shared_rows, st.none() | st.lists(st.tuples(some_number, some_text, some_map, some_number), min_size=1))


def rows_of(entry: MessageRow | EntryMessages) -> Iterator[MessageRow]:
    if isinstance(entry, MessageRow):
        yield entry
    else:
        for values in zip(*entry.columns.values(), strict=True):
            yield msgspec.structs.replace(entry.shared, **dict(zip(entry.columns, values, strict=True)))


@pytest.mark.slow
@given(st.lists(entries), st.sampled_from([None, ("time", "key", "topic", "properties")]))
def test_messages_that_stay_together_become_the_columns_of_their_rows(some: list[Any], names: tuple[str, ...] | None) -> None:
    made = RecordBatches("message", names)
    want = made.batch([row for entry in some for row in rows_of(entry)])
    have = made.batch(some)
    have.validate(full=True)
    assert have.equals(want)


def compiled_entry(messages: list[Single]) -> EntryMessages:
    """An entry with columns of the compiled reader."""
    plan = Plans(show_secrets=False).named("SingleMessageMetadata")
    reading = BatchReader(plan, MessageRow.__struct_fields__, None)
    notes: list[Any] = []
    count, columns = reading.read(batch(messages), len(messages), MessageRow(sequence_id=7), notes)
    assert (count, notes) == (len(messages), [])
    return EntryMessages(rows.message(), count, cast("dict[str, Any]", columns))


def in_lists(entry: MessageRow | EntryMessages) -> MessageRow | EntryMessages:
    """An entry with lists as columns."""
    if isinstance(entry, MessageRow):
        return entry
    return EntryMessages(entry.shared, entry.count, {name: [*values] for name, values in entry.columns.items()})


def test_columns_of_the_compiled_reader_become_the_columns_of_their_rows() -> None:
    native = pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")
    fields: dict[str, Any] = {"properties": [{"key": "a", "value": "é\x7f"}, {"key": "b", "value": ""}], "partition_key": "schlüssel"}
    java = {"event_time": 1_777_630_000_000, "partition_key_b64_encoded": True, "null_value": True, "sequence_id": (1 << 64) - 1}
    common = [Single(b"one", fields), Single(b"", {}), Single(b"three", {"partition_key": ""})]
    with reader("require"):
        usual = compiled_entry(common * 5)
        odd = compiled_entry([*common, Single(b"four", java)])
        assert type(odd.columns["event_time"]) is native.MessageColumn
        mixed: list[list[MessageRow | EntryMessages]] = [[usual], [odd], [usual, odd, odd], [usual, rows.message(), odd]]
        for some in mixed:
            made = RecordBatches("message")
            want = made.batch([in_lists(entry) for entry in some])
            have = made.batch(some)
            have.validate(full=True)
            assert have.equals(want)


@pytest.mark.parametrize("make", [rows.send, rows.receipt, rows.message, rows.finding, rows.connection, rows.exchange])
def test_tables_of_the_compiled_reader_are_those_of_the_reference(make: Callable[..., Any]) -> None:
    pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")
    full = make()
    empty = type(full)()
    some = [full, full, empty, full, *[full] * 9, empty]
    if hasattr(full, "findings"):
        some.append(msgspec.structs.replace(full, findings=["body-mismatch", "ü"], extra={"ü": 1}, topics={}))
        some.append(msgspec.structs.replace(full, findings=[]))
    if hasattr(full, "schema_version"):
        some.append(msgspec.structs.replace(full, schema_version=b"\0\xff", encrypted=False, acknowledged=True, value=[1, None]))
    for chosen in (
        some,
        [full],
        [empty],
        some[:8],
        some[::-1],
        [*[empty] * 9, *some],
        [*[empty] * 8, *some[::-1], empty],
        [empty] * 20,
        [],
    ):
        with reader("off"):
            expected = RecordBatches(full.kind).batch(chosen)
        with reader("require"):
            made = RecordBatches(full.kind).batch(chosen)
            numbered = RecordBatches(full.kind, None, repeating(full.kind, expected.schema.names)).batch(chosen)
        made.validate(full=True)
        assert made.equals(expected)
        numbered.validate(full=True)
        assert numbered.cast(expected.schema).equals(expected)


def test_texts_that_repeat_are_numbers_in_a_dictionary_of_their_batch() -> None:
    pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")
    with reader("require"):
        made = RecordBatches("frame", ["topic", "command", "packet"], ["topic", "packet"])
        first: Any = made.batch([rows.send(topic=topic) for topic in (None, "b", "", "b", None, "a", "b")])
        second: Any = made.batch([rows.send(topic=topic) for topic in ("a", "a")])
        third = made.batch([rows.send(topic=None)])
    assert first.column("topic").dictionary.to_pylist() == ["b", "", "a"]
    assert first.column("topic").indices.to_pylist() == [None, 0, 1, 0, None, 2, 0]
    assert second.column("topic").dictionary.to_pylist() == ["a"]
    assert second.column("topic").indices.to_pylist() == [0, 0]
    assert third.column("topic").to_pylist() == [None]
    assert [str(field.type) for field in made.schema] == ["dictionary<values=string, indices=int32, ordered=0>", "string", "int64"]


def test_the_reference_makes_no_dictionaries() -> None:
    with reader("off"):
        made = RecordBatches("frame", ["topic"], ["topic"])
        assert made.batch([rows.send()]).schema.equals(arrow_schema("frame", ["topic"]))


@pytest.mark.parametrize(("cells", "error"), [([["a"], ["b"]], ValueError), ([["a"]], IndexError), ([[1]], TypeError)])
def test_rows_that_cannot_be_gathered_leave_no_part_of_them(cells: list[list[Any]], error: type[Exception]) -> None:
    native = pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")
    gathered = native.ArrowTable("frame", [("topic", "string")], json_texts, EntryMessages)
    ordered = native.OrderedRows(exchanges=False)
    ordered.extend("", [rows.send(), rows.receipt(), rows.message()], 0)
    assert gathered.append(ordered, [["a", None]])[0] == 2
    with pytest.raises(error):
        gathered.append(ordered, cells)
    assert gathered.take() == (0, [(0, [], None)])
    assert gathered.append(ordered, [[None, "b"]])[0] == 2
    assert gathered.take()[0] == 2


def test_a_table_takes_any_number_of_rows() -> None:
    assert table("frame", iter(())).num_rows == 0
    assert table("message", (rows.message(schema_version=b"\x01") for _ in range(20_000))).num_rows == 20_000
    together = (EntryMessages(rows.message(), 1000, {"key": ["k"] * 1000}) for _ in range(40))
    assert [batch.num_rows for batch in table("message", together).to_batches()] == [17_000, 17_000, 6_000]


def test_a_missing_pyarrow_is_reported_with_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match=r"^Arrow and Parquet need pyarrow: .* -m pip install .*\[parquet\]"):
        require_pyarrow()


def test_a_pyarrow_that_cannot_be_loaded_is_not_reported_as_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "pyarrow.py").write_text("raise ImportError('libarrow.so: failed to map segment')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "pyarrow")
    with pytest.raises(UsageError, match=r"^Arrow and Parquet need pyarrow, which cannot be loaded: libarrow.so: failed to map segment$"):
        require_pyarrow()
