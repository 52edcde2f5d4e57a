"""Avro compared with fastavro, byte by byte where fastavro differs, and with hostile schemas and data."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsarscope.model.limits import SCHEMA_DEPTH_MAX, VALUE_DEPTH_MAX, VALUES_MAX_BYTES
from pulsarscope.protocols.pulsar.values.avro import DECIMAL_MAX_BYTES, avro_reader
from pulsarscope.protocols.pulsar.values.json_values import Budget, UndecodableError
from tests.scenarios.chance import damaged, randoms


def read(schema: Any, data: bytes, budget: int = VALUES_MAX_BYTES) -> Any:
    return avro_reader(json.dumps(schema).encode())(data, Budget(budget))


def written(schema: Any, value: Any) -> bytes:
    """A value as written by fastavro."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def record(*fields: tuple[str, Any], name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": field, "type": kind} for field, kind in fields], **more}


TREE = record(("left", ["null", "R"]), ("value", "int"), ("right", ["null", "R"]))
ITEM = record(("id", "int"), ("name", ["null", "string"]), ("price", "double"))

CASES: list[tuple[Any, Any]] = [
    ("null", None),
    ("boolean", True),
    ("int", -5),
    ("int", (1 << 31) - 1),
    ("long", -(1 << 63)),
    ("long", (1 << 63) - 1),
    ("double", 1.25),
    ("string", "héllo 世"),
    ("string", ""),
    (ITEM, {"id": 3, "name": "alpha", "price": 0.5}),
    (ITEM, {"id": 3, "name": None, "price": 0.5}),
    (TREE, {"left": {"left": None, "value": 1, "right": None}, "value": 2, "right": None}),
    ({"type": "array", "items": "long"}, [1, -2, 3]),
    ({"type": "array", "items": "long"}, []),
    ({"type": "array", "items": ITEM}, [{"id": 1, "name": "x", "price": 0.0}] * 3),
    ({"type": "map", "values": "int"}, {"a": 1, "b": 2}),
    ({"type": "map", "values": {"type": "array", "items": "string"}}, {"": ["x"], "é": []}),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B"),
    (["null", "string", "long"], 7),
    ({"type": "string", "avro.java.string": "String"}, "x"),
    (record(("e", {"type": "enum", "name": "E", "namespace": "n", "symbols": ["A"]}), ("again", "n.E")), {"e": "A", "again": "A"}),
    (record(("f", {"type": "fixed", "name": "F", "size": 0}), ("n", "null"), namespace="x.y"), {"f": b"", "n": None}),
    (record(("inner", record(("x", "int"), name="Inner")), ("same", "a.Inner"), namespace="a"), {"inner": {"x": 1}, "same": {"x": 2}}),
    (
        record(
            ("outer", record(("x", "int"), name="X", namespace="b")),
            ("nested", record(("y", "string"), name="X", namespace="a.b")),
            ("full", "b.X"),
            namespace="a",
        ),
        {"outer": {"x": 1}, "nested": {"y": "y"}, "full": {"x": 2}},
    ),
]


@pytest.mark.parametrize(("schema", "value"), CASES, ids=lambda value: str(value)[:40])
def test_what_fastavro_writes_is_read(schema: Any, value: Any) -> None:
    expected = json.loads(json.dumps(value, default=lambda data: data.decode()))
    assert read(schema, written(schema, value)) == expected


LOGICAL = [
    ({"type": "int", "logicalType": "date"}, "02", "1970-01-02"),
    ({"type": "int", "logicalType": "time-millis"}, "02", "00:00:00.001"),
    ({"type": "long", "logicalType": "time-micros"}, "02", "00:00:00.000001"),
    ({"type": "long", "logicalType": "timestamp-millis"}, "02", "1970-01-01T00:00:00.001Z"),
    ({"type": "long", "logicalType": "timestamp-micros"}, "01", "1969-12-31T23:59:59.999999Z"),
    ({"type": "long", "logicalType": "timestamp-nanos"}, "02", "1970-01-01T00:00:00.000000001Z"),
    ({"type": "long", "logicalType": "local-timestamp-millis"}, "02", "1970-01-01T00:00:00.001"),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, "02", "1970-01-01T00:00:00.000001"),
    ({"type": "long", "logicalType": "local-timestamp-nanos"}, "02", "1970-01-01T00:00:00.000000001"),
    ({"type": "long", "logicalType": "local-timestamp-millis"}, "feffffffffffffffff01", (1 << 63) - 1),
    ({"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}, "0404d2", "12.34"),
    ({"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}, "02ff", "-0.01"),
    ({"type": "bytes", "logicalType": "decimal", "precision": 6}, "027b", "123"),
    ({"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": -1}, "027b", "ew=="),
    ({"type": "fixed", "name": "D", "size": 2, "logicalType": "decimal", "precision": 4, "scale": 1}, "fffe", "-0.2"),
    (
        {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"},
        "00112233445566778899aabbccddeeff",
        "00112233-4455-6677-8899-aabbccddeeff",
    ),
    (
        {"type": "fixed", "name": "P", "size": 12, "logicalType": "duration"},
        "010000000200000003000000",
        {"months": 1, "days": 2, "milliseconds": 3},
    ),
    ({"type": "fixed", "name": "F", "size": 2}, "00ff", "AP8="),
    ({"type": "bytes"}, "0400ff", "AP8="),
    ({"type": "string", "logicalType": "uuid"}, "0261", "a"),
    ({"type": "int", "logicalType": "something"}, "02", 1),
    ({"type": "string", "logicalType": "date"}, "0261", "a"),
    ("float", "cdcccc3d", 0.1),
    ("double", "000000000000f07f", "Infinity"),
    (
        record(("t", "long")) | {"fields": [{"name": "t", "type": "long", "logicalType": "timestamp-millis"}]},
        "00",
        {"t": "1970-01-01T00:00:00.000Z"},
    ),
]


@pytest.mark.parametrize(("schema", "data", "value"), LOGICAL)
def test_what_json_has_no_type_for_is_text(schema: Any, data: str, value: Any) -> None:
    assert read(schema, bytes.fromhex(data)) == value


@given(st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**9), max_value=10**9))
def test_decimals_are_exact(value: Decimal) -> None:
    schema = {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 3}
    assert Decimal(read(schema, written(schema, value))) == value


def test_a_decimal_beyond_use_stays_bytes() -> None:
    huge = {"type": "fixed", "name": "D", "size": DECIMAL_MAX_BYTES + 1, "logicalType": "decimal", "precision": 400}
    assert read(huge, bytes(DECIMAL_MAX_BYTES + 1)).startswith("AAAA")


def test_a_type_may_be_wrapped_in_another() -> None:
    assert read({"type": {"type": "string", "avro.java.string": "String"}}, b"\x02x") == "x"


def test_no_namespace_may_be_said_as_null() -> None:
    inner = record(("x", "int"), name="Inner", namespace=None)
    assert read(record(("a", inner), ("b", "n.Inner"), namespace="n"), b"\x02\x04") == {"a": {"x": 1}, "b": {"x": 2}}


def test_blocks_may_say_how_long_they_are() -> None:
    assert read({"type": "array", "items": "int"}, bytes.fromhex("03040204020600")) == [1, 2, 3]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)
ANYTHING = record(
    (
        "v",
        [
            "null",
            "boolean",
            "long",
            "string",
            {"type": "array", "items": "R"},
            {"type": "map", "values": "R"},
        ],
    )
)


def wrapped(value: Any) -> Any:
    if isinstance(value, list):
        value = [wrapped(one) for one in value]
    elif isinstance(value, dict):
        value = {key: wrapped(one) for key, one in value.items()}
    return {"v": value}


@pytest.mark.slow
@given(VALUES)
def test_any_value_comes_back(value: Any) -> None:
    assert read(ANYTHING, written(ANYTHING, wrapped(value))) == wrapped(value)


@settings(max_examples=300)
@given(randoms, st.sampled_from(CASES))
def test_damaged_data_are_a_value_or_a_problem(random: Any, case: tuple[Any, Any]) -> None:
    schema, value = case
    data = damaged(written(schema, value), random)
    try:
        json.dumps(read(schema, data), allow_nan=False)
    except UndecodableError:
        return


@pytest.mark.parametrize(
    ("schema", "data", "problem"),
    [
        ("string", "", "does not end within"),
        ("string", "0a6162", "5 bytes claimed at byte 1, 2 left"),
        ("string", "01", "-1 bytes claimed"),
        ("string", "02ff", "not UTF-8"),
        ("int", "0200", "1 byte behind"),
        ("long", "ffffffffffffffffffff7f", "more than 64 bits"),
        ("int", "8080808010", "an int is 2147483648"),
        ("int", "8180808010", "an int is -2147483649"),
        ({"type": "int", "logicalType": "date"}, "8080808010", "an int is"),
        ("boolean", "02", "a boolean is 2"),
        (["null", "int"], "04", "branch 2 of a union of 2"),
        (["null", "int"], "01", "branch -1"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "02", "symbol 1 of an enum of 1"),
        ("double", "00", "8 bytes claimed"),
        (ITEM, "06", "does not end within"),
    ],
)
def test_data_that_do_not_fit_are_a_problem(schema: Any, data: str, problem: str) -> None:
    with pytest.raises(UndecodableError, match=problem):
        read(schema, bytes.fromhex(data))


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (b"{", "not JSON"),
        (b'"\xff"', "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'"Unknown"', "does not define Unknown"),
        (b"7", "without a type"),
        (b"{}", "without a type"),
        (b'{"type": 7}', "without a type"),
        (b'{"type": "record", "name": "R"}', "no fields"),
        (b'{"type": "record", "name": "R", "fields": [7]}', "no fields"),
        (b'{"type": "record", "fields": []}', "without a name"),
        (b'{"type": "enum", "name": "E", "symbols": [1]}', "without symbols"),
        (b'{"type": "fixed", "name": "F", "size": -1}', "without a size"),
        (b'{"type": "array"}', "without a type"),
        (b'["null", ["int"]]', "a union in a union"),
        (b'{"type": "array", "items": ' * (SCHEMA_DEPTH_MAX + 1) + b'"int"' + b"}" * (SCHEMA_DEPTH_MAX + 1), "too deeply"),
    ],
)
def test_what_is_no_schema_is_a_problem(schema: bytes, problem: str) -> None:
    with pytest.raises(UndecodableError, match=problem):
        avro_reader(schema)


class TestHarm:
    """Each of these breaks fastavro: by stack, memory or time."""

    def test_a_record_that_holds_itself_takes_no_data_and_has_an_end(self) -> None:
        with pytest.raises(UndecodableError, match=f"deeper than {VALUE_DEPTH_MAX}"):
            read(record(("r", "R")), b"")

    def test_a_list_of_a_million_links_has_an_end(self) -> None:
        with pytest.raises(UndecodableError, match=f"deeper than {VALUE_DEPTH_MAX}"):
            read(record(("next", ["null", "R"])), b"\x02" * 1_000_000)

    @pytest.mark.parametrize("items", ["null", {"type": "fixed", "name": "F", "size": 0}, record(("n", "null"))])
    def test_items_of_no_bytes_are_counted(self, items: Any) -> None:
        count = b"\x80\x80\x80\x80\x80\x80\x80\x80\x20"  # 2^60
        with pytest.raises(UndecodableError, match="too large"):
            read({"type": "array", "items": items}, count + b"\x00")

    def test_many_fields_of_no_bytes_are_counted(self) -> None:
        wide = record(*[(f"f{number}", "null") for number in range(1000)], ("one", "boolean"))
        with pytest.raises(UndecodableError, match="too large"):
            read({"type": "array", "items": wide}, b"\x80\x89\x7a" + b"\x01" * 1_000_000)

    def test_long_names_are_counted(self) -> None:
        symbol = {"type": "enum", "name": "E", "symbols": ["A" * 10_000]}
        with pytest.raises(UndecodableError, match="too large"):
            read({"type": "array", "items": symbol}, b"\xd0\x0f" + bytes(1000) + b"\x00")

    @pytest.mark.parametrize(
        ("item", "bytes_each"),
        [
            ({"type": "fixed", "name": "D", "size": 0, "logicalType": "decimal", "precision": 1, "scale": 256}, 0),
            ({"type": "bytes", "logicalType": "decimal", "precision": 1, "scale": 256}, 1),
            ({"type": "long", "logicalType": "timestamp-nanos"}, 1),
        ],
    )
    def test_what_is_longer_as_text_is_counted(self, item: Any, bytes_each: int) -> None:
        array = {"type": "array", "items": item}
        data = b"\xd0\x0f" + bytes(1000 * bytes_each) + b"\x00"
        text = len(json.dumps(read(array, data)))
        with pytest.raises(UndecodableError, match="too large"):
            read(array, data, text - 3 * 1000)

    def test_blocks_without_items_do_not_go_on_for_ever(self) -> None:
        assert read({"type": "array", "items": "null"}, b"\x02\x02\x00") == [None, None]
