"""Readers of all kinds of schemas; the key and value of a KEY_VALUE, together and separate."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.dissect.contract.capabilities import PayloadContext
from pulsarscope.model.limits import SCHEMAS_MAX, SCHEMAS_MAX_BYTES, VALUE_DEPTH_MAX, VALUES_MAX_BYTES
from pulsarscope.protocols.pulsar.values.definition import Definition
from pulsarscope.protocols.pulsar.values.json_values import Budget, UndecodableError
from pulsarscope.protocols.pulsar.values.reader import _ReaderCache, definition_bytes, needs_writer, reader_of

CONTEXT = PayloadContext("t", None, False, {}, None)
INT_ITEM = b'{"type":"record","name":"R","fields":[{"name":"id","type":"int"}]}'


def read(definition: Definition, payload: bytes, context: PayloadContext = CONTEXT) -> Any:
    reader = reader_of(definition)
    if isinstance(reader, UndecodableError):
        raise reader
    return reader(payload, context, Budget(VALUES_MAX_BYTES))


@pytest.mark.parametrize(
    ("payload", "value"),
    [
        (b'{"a": [1, 2.5, null, true, "\xc3\xa9"]}', {"a": [1, 2.5, None, True, "é"]}),
        (b"9007199254740993", 9007199254740993),
        (b"123456789012345678901234567890", 123456789012345678901234567890),
        (b' "x" ', "x"),
        (b'{"a":1,"a":2}', {"a": 2}),
    ],
)
def test_json_is_what_it_says(payload: bytes, value: Any) -> None:
    assert read(Definition("JSON", b"whatever"), payload) == value


@pytest.mark.parametrize(
    "payload", [b"", b"{", b"nope", b"NaN", b"[Infinity]", b'"\xff"', b'"\\ud800"', b"1e999", b"{} {}", b"[" * 200_000]
)
def test_what_is_no_json_is_a_problem(payload: bytes) -> None:
    with pytest.raises(UndecodableError, match="no JSON"):
        read(Definition("JSON"), payload)


def test_json_may_be_long_but_not_deep() -> None:
    wide = [[number] for number in range(1000)]
    assert read(Definition("JSON"), json.dumps(wide).encode()) == wide
    text = json.dumps(["[" * 1000, '\\"[', {"{": '\\"]'}])
    assert read(Definition("JSON"), text.encode()) == json.loads(text)
    deep = b'{"a":[' * (VALUE_DEPTH_MAX // 2) + b"1" + b"]}" * (VALUE_DEPTH_MAX // 2)
    assert read(Definition("JSON"), deep)["a"]
    with pytest.raises(UndecodableError, match="deeper"):
        read(Definition("JSON"), b"[" + deep + b"]")


@pytest.mark.slow
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda x: st.lists(x, max_size=4) | st.dictionaries(st.text(max_size=4), x, max_size=4),
    )
)
def test_any_json_comes_back(value: Any) -> None:
    assert read(Definition("JSON"), json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")) == value


@pytest.mark.parametrize(
    ("definition", "payload", "value"),
    [
        (Definition("STRING", b"null"), b"hi", "hi"),
        (Definition("AVRO", INT_ITEM), b"\x06", {"id": 3}),
        (
            Definition("PROTOBUF", b"", (("__PARSING_INFO__", '[{"number":1,"name":"a","type":"INT32","label":""}]'),)),
            b"\x08\x05",
            {"a": 5},
        ),
    ],
)
def test_each_kind_has_its_reader(definition: Definition, payload: bytes, value: Any) -> None:
    assert read(definition, payload) == value


def test_why_there_is_no_reader_is_remembered() -> None:
    broken = Definition("AVRO", b"{")
    assert isinstance(reader_of(broken), UndecodableError)
    assert reader_of(broken) is reader_of(broken)
    for kind in ("PROTOBUF", "PROTOBUF_NATIVE", "KEY_VALUE"):
        assert isinstance(reader_of(Definition(kind, b"")), UndecodableError)


def test_readers_are_forgotten_when_their_schemas_are_too_large_together() -> None:
    readers = _ReaderCache()
    size = SCHEMAS_MAX_BYTES // 4
    for number in range(10):
        readers.get(Definition("STRING", bytes([number]) * size))
    assert sum(map(definition_bytes, readers._readers)) <= SCHEMAS_MAX_BYTES
    assert len(readers._readers) == 4


def test_readers_of_very_many_small_schemas_are_forgotten_too() -> None:
    readers = _ReaderCache()
    for number in range(SCHEMAS_MAX + 10):
        readers.get(Definition("STRING", number.to_bytes(2, "big")))
    assert len(readers._readers) == SCHEMAS_MAX


def sized(data: bytes | None) -> bytes:
    return b"\xff\xff\xff\xff" if data is None else len(data).to_bytes(4, "big") + data


def key_value(key: str, value: str, encoding: str = "INLINE", definitions: tuple[bytes, bytes] = (b"", b""), own: str = "") -> Definition:
    properties = {"key.schema.type": key, "value.schema.type": value, "kv.encoding.type": encoding, "value.schema.properties": own}
    return Definition("KEY_VALUE", sized(definitions[0]) + sized(definitions[1]), tuple(properties.items()))


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        (b"k", b"\0\0\0\x07", {"key": "k", "value": 7}),
        (None, b"\0\0\0\x07", {"key": None, "value": 7}),
        (b"k", None, {"key": "k", "value": None}),
        (b"", b"\0\0\0\0", {"key": "", "value": 0}),
    ],
)
def test_key_and_value_in_the_payload(key: bytes | None, value: bytes | None, expected: Any) -> None:
    assert read(key_value("STRING", "INT32"), sized(key) + sized(value)) == expected


@pytest.mark.parametrize(("text", "is_bytes"), [("k", False), ("aw==", True)])
def test_a_key_apart_is_the_message_s(text: str, is_bytes: bool) -> None:
    apart = key_value("STRING", "AVRO", "SEPARATED", (b"", INT_ITEM))
    assert read(apart, b"\x06", CONTEXT._replace(key=text, key_is_bytes=is_bytes)) == {"key": "k", "value": {"id": 3}}
    assert read(apart, b"\x06") == {"key": None, "value": {"id": 3}}


def test_each_part_has_properties_of_its_own() -> None:
    info = json.dumps([{"number": 1, "name": "a", "type": "INT32", "label": ""}])
    both = key_value("BYTES", "PROTOBUF", own=json.dumps({"__PARSING_INFO__": info}))
    assert read(both, sized(b"\xff") + sized(b"\x08\x05")) == {"key": "/w==", "value": {"a": 5}}
    broken = key_value("BYTES", "STRING", own="[7")
    assert read(broken, sized(b"") + sized(b"x")) == {"key": "", "value": "x"}


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        (b"", "0 bytes left for a length"),
        (sized(b"k"), "0 bytes left for a length"),
        (b"\0\0\0\x09k", "a length of 9"),
        (b"\x80\0\0\0", "a length of -2147483648"),
        (sized(b"k") + sized(b"\0\0\0\x07") + b"?", "1 byte behind"),
        (sized(b"\xff") + sized(b"\0\0\0\x07"), "not UTF-8"),
    ],
)
def test_lengths_that_lie_are_a_problem(payload: bytes, problem: str) -> None:
    with pytest.raises(UndecodableError, match=problem):
        read(key_value("STRING", "INT32"), payload)


def test_a_key_that_is_not_base64_matters_only_where_it_is_read() -> None:
    context = CONTEXT._replace(key="?", key_is_bytes=True)
    assert read(Definition("STRING"), b"x", context) == "x"
    with pytest.raises(UndecodableError, match="not base64"):
        read(key_value("STRING", "STRING", "SEPARATED"), b"x", context)


def test_parts_of_no_known_type_are_a_problem() -> None:
    for kind in ("KEY_VALUE", "NOTHING"):
        assert "is a " + kind in str(reader_of(key_value(kind, "STRING")))


def test_only_avro_needs_the_very_schema_of_its_writer() -> None:
    assert needs_writer(Definition("AVRO", INT_ITEM))
    assert needs_writer(key_value("STRING", "AVRO"))
    assert not needs_writer(key_value("STRING", "JSON"))
    assert not any(needs_writer(Definition(kind)) for kind in ("JSON", "STRING", "PROTOBUF", "PROTOBUF_NATIVE"))
