"""Readers of bare Avro data, as sent by Pulsar (Avro specification 1.12, "Binary Encoding").

fastavro cannot be used: with a recursive schema, a megabyte of one repeated byte overflows the C stack and ends the process, and an array
of 2^60 nulls takes no bytes but endless time. These readers count each level and each item. fastavro is the tests' oracle.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from typing import Any

import msgspec

from pulsarscope.model.limits import SCHEMA_DEPTH_MAX, VALUE_DEPTH_MAX
from pulsarscope.model.text import plural
from pulsarscope.protocols.pulsar.values.json_values import (
    Budget,
    UndecodableError,
    base64_text,
    day,
    double,
    moment,
    single,
    time_of_day,
    utf8_text,
)

DECIMAL_MAX_BYTES = 128
"""Largest decimal shown as a number: the digits of larger ones are useless and take quadratic time."""

ITEM_COST = 8
"""Cost of an item in the budget, in addition to its content."""

_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_DURATION = struct.Struct("<III")


class AvroInput:
    """Avro data, and the position up to which they have been read."""

    __slots__ = ("budget", "data", "depth", "position")

    def __init__(self, data: bytes, budget: Budget) -> None:
        self.data = data
        self.position = 0
        self.budget = budget
        self.depth = VALUE_DEPTH_MAX
        """Levels of nesting that may follow."""


Read = Callable[[AvroInput], Any]
"""A function that reads the next value. Raises UndecodableError, or IndexError at the end of the data."""


def avro_reader(definition: bytes) -> Callable[[bytes, Budget], Any]:
    """Return the reader of a schema. Both raise UndecodableError: for a bad definition, and for data that do not match completely."""
    try:
        schema = msgspec.json.decode(definition)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UndecodableError(f"the Avro schema is not JSON: {error}") from None
    read = _Compiler().reader(schema, "", SCHEMA_DEPTH_MAX)

    def read_all(data: bytes, budget: Budget) -> Any:
        source = AvroInput(data, budget)
        try:
            value = read(source)
        except IndexError:
            raise UndecodableError(f"a value does not end within {plural(len(data), 'byte')}") from None
        except RecursionError:  # the caller was already deep in the stack
            raise UndecodableError("values are nested too deeply") from None
        if source.position != len(data):
            raise UndecodableError(f"{plural(len(data) - source.position, 'byte')} behind the value")
        return value

    return read_all


def _long(source: AvroInput) -> int:
    data, position = source.data, source.position
    byte = data[position]
    position += 1
    value = byte & 127
    shift = 7
    while byte > 127:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        shift += 7
        if shift > 70 or value >= 1 << 64:
            raise UndecodableError(f"a number at byte {source.position} has more than 64 bits")
    source.position = position
    return (value >> 1) ^ -(value & 1)


def _int(source: AvroInput) -> int:
    value = _long(source)
    if not -(1 << 31) <= value < 1 << 31:
        raise UndecodableError(f"an int is {value}")
    return value


def _read_bytes(source: AvroInput, size: int) -> bytes:
    start = source.position
    end = start + size
    if size < 0 or end > len(source.data):
        raise UndecodableError(f"{plural(size, 'byte')} claimed at byte {start}, {len(source.data) - start:,} left")
    source.position = end
    return source.data[start:end]


def _null(_cursor: AvroInput) -> None:
    return None


def _boolean(source: AvroInput) -> bool:
    byte = source.data[source.position]
    source.position += 1
    if byte > 1:
        raise UndecodableError(f"a boolean is {byte}")
    return byte == 1


def _float(source: AvroInput) -> float | str:
    return single(*_FLOAT.unpack(_read_bytes(source, 4)))


def _double(source: AvroInput) -> float | str:
    return double(*_DOUBLE.unpack(_read_bytes(source, 8)))


def _bytes(source: AvroInput) -> bytes:
    return _read_bytes(source, _long(source))


def _base64(source: AvroInput) -> str:
    return base64_text(_bytes(source))


def _string(source: AvroInput) -> str:
    return utf8_text(_bytes(source))


_PRIMITIVES: dict[str, Read] = {
    "null": _null,
    "boolean": _boolean,
    "int": _int,
    "long": _long,
    "float": _float,
    "double": _double,
    "bytes": _base64,
    "string": _string,
}

_TIMES: dict[tuple[str, str], Callable[[int], Any]] = {
    ("int", "date"): day,
    ("int", "time-millis"): lambda count: time_of_day(count, 1_000),
    ("long", "time-micros"): lambda count: time_of_day(count, 1_000_000),
    ("long", "timestamp-millis"): lambda count: moment(count, 1_000),
    ("long", "timestamp-micros"): lambda count: moment(count, 1_000_000),
    ("long", "timestamp-nanos"): lambda count: moment(count, 1_000_000_000),
    ("long", "local-timestamp-millis"): lambda count: _local(moment(count, 1_000)),
    ("long", "local-timestamp-micros"): lambda count: _local(moment(count, 1_000_000)),
    ("long", "local-timestamp-nanos"): lambda count: _local(moment(count, 1_000_000_000)),
}
"""Logical types of numbers, by (type, logical type)."""


def _local(text: str | int) -> str | int:
    return text.removesuffix("Z") if isinstance(text, str) else text


def _decimal(data: bytes, scale: int) -> str:
    if len(data) > DECIMAL_MAX_BYTES:
        return base64_text(data)
    number = int.from_bytes(data, "big", signed=True)
    digits = str(abs(number)).rjust(scale + 1, "0")
    text = f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits
    return f"-{text}" if number < 0 else text


def _duration(data: bytes) -> dict[str, int]:
    return dict(zip(("months", "days", "milliseconds"), _DURATION.unpack(data), strict=True))


class _NamedType:
    """A named type, to which the schema may refer before it is complete."""

    __slots__ = ("read",)

    def __init__(self) -> None:
        self.read: Read | None = None

    def read_later(self, source: AvroInput) -> Any:
        """Read a value of the complete type."""
        if self.read is None:  # its definition is malformed
            raise UndecodableError("the Avro schema refers to a type that it does not define")
        return self.read(source)


class _Compiler:
    """The compiler of one schema's readers, with the schema's types by full name."""

    def __init__(self) -> None:
        self._named: dict[str, _NamedType] = {}

    def reader(self, schema: Any, namespace: str, depth: int) -> Read:
        """Return the reader of a schema or a part of a schema; `depth` is the number of levels that may follow."""
        if not depth:
            raise UndecodableError("the Avro schema is nested too deeply")
        if isinstance(schema, list):
            if any(isinstance(branch, list) for branch in schema):
                raise UndecodableError("the Avro schema has a union in a union")
            return _union([self.reader(branch, namespace, depth - 1) for branch in schema])
        if isinstance(schema, str):
            return _PRIMITIVES.get(schema) or self._reference(schema, namespace)
        kind = schema.get("type") if isinstance(schema, dict) else None
        if isinstance(kind, (dict, list)):
            return self.reader(kind, namespace, depth - 1)
        if not isinstance(kind, str):
            raise UndecodableError("the Avro schema has a part without a type")
        if kind in ("record", "error"):
            return self._record(schema, namespace, depth)
        if kind == "array":
            return _array(self.reader(schema.get("items"), namespace, depth - 1))
        if kind == "map":
            return _map(self.reader(schema.get("values"), namespace, depth - 1))
        if kind == "enum":
            return self._define(schema, namespace, _enum(schema.get("symbols")))
        if kind == "fixed":
            return self._define(schema, namespace, _fixed(schema))
        return _logical(kind, schema) or _PRIMITIVES.get(kind) or self._reference(kind, namespace)

    def _reference(self, name: str, namespace: str) -> Read:
        named = None if "." in name else self._named.get(f"{namespace}.{name}")
        named = named or self._named.get(name)
        if named is None:
            raise UndecodableError(f"the Avro schema does not define {name[:100]}")
        return named.read or named.read_later

    def _full_name(self, schema: dict[str, Any], namespace: str) -> str:
        name, prefix = schema.get("name"), schema.get("namespace")
        if prefix is None:  # some writers use null for a type without a namespace
            prefix = namespace
        if not (isinstance(name, str) and isinstance(prefix, str)):
            raise UndecodableError("the Avro schema has a record, an enum or a fixed without a name")
        return name if "." in name or not prefix else f"{prefix}.{name}"

    def _define(self, schema: dict[str, Any], namespace: str, read: Read) -> Read:
        named = self._named[self._full_name(schema, namespace)] = _NamedType()
        named.read = read
        return read

    def _record(self, schema: dict[str, Any], namespace: str, depth: int) -> Read:
        full_name = self._full_name(schema, namespace)
        named = self._named[full_name] = _NamedType()
        inner = full_name.rpartition(".")[0]
        fields = schema.get("fields")
        if not isinstance(fields, list) or not all(isinstance(field, dict) and isinstance(field.get("name"), str) for field in fields):
            raise UndecodableError(f"the record {full_name[:100]} of the Avro schema has no fields, or one without a name")
        named.read = read = _record([(field["name"], self.reader(_field_type(field), inner, depth - 1)) for field in fields])
        return read


def _field_type(field: dict[str, Any]) -> Any:
    """Return the type of a field. Some writers put a logical type beside the type instead of into it."""
    kind = field.get("type")
    if isinstance(kind, str) and "logicalType" in field:
        return {name: value for name, value in field.items() if name not in ("name", "default")}
    return kind


def _record(fields: list[tuple[str, Read]]) -> Read:
    cost = ITEM_COST + sum(ITEM_COST + len(name) for name, _ in fields)

    def read(source: AvroInput) -> dict[str, Any]:
        source.budget.spend(cost)
        _descend(source)
        value = {name: read_field(source) for name, read_field in fields}
        source.depth += 1
        return value

    return read


def _descend(source: AvroInput) -> None:
    source.depth -= 1
    if source.depth < 0:
        raise UndecodableError(f"values are nested deeper than {VALUE_DEPTH_MAX} levels")


def _union(branches: list[Read]) -> Read:
    def read(source: AvroInput) -> Any:
        index = _long(source)
        if not 0 <= index < len(branches):
            raise UndecodableError(f"branch {index} of a union of {len(branches)}")
        return branches[index](source)

    return read


def _blocks(source: AvroInput) -> int:
    """Return the number of items in the next block; 0 after the last one."""
    count = _long(source)
    if count < 0:
        count = -count
        _long(source)  # bytes of the block, for readers that skip it
    source.budget.spend(count * ITEM_COST)
    return count


def _array(read_item: Read) -> Read:
    def read(source: AvroInput) -> list[Any]:
        _descend(source)
        values: list[Any] = []
        while count := _blocks(source):
            values += [read_item(source) for _ in range(count)]
        source.depth += 1
        return values

    return read


def _map(read_item: Read) -> Read:
    def read(source: AvroInput) -> dict[str, Any]:
        _descend(source)
        values: dict[str, Any] = {}
        while count := _blocks(source):
            for _ in range(count):
                key = _string(source)
                values[key] = read_item(source)
        source.depth += 1
        return values

    return read


def _enum(symbols: Any) -> Read:
    if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
        raise UndecodableError("the Avro schema has an enum without symbols")

    def read(source: AvroInput) -> str:
        index = _long(source)
        if not 0 <= index < len(symbols):
            raise UndecodableError(f"symbol {index} of an enum of {len(symbols)}")
        symbol: str = symbols[index]
        source.budget.spend(len(symbol))
        return symbol

    return read


def _fixed(schema: dict[str, Any]) -> Read:
    size, logical = schema.get("size"), schema.get("logicalType")
    if type(size) is not int or size < 0:
        raise UndecodableError("the Avro schema has a fixed without a size")
    if (scale := _scale(schema)) is not None:
        return _charged(lambda source: _decimal(_read_bytes(source, size), scale))
    if logical == "uuid" and size == 16:
        return _charged(lambda source: str(uuid.UUID(bytes=_read_bytes(source, size))))
    if logical == "duration" and size == _DURATION.size:
        return _charged(lambda source: _duration(_read_bytes(source, size)))
    return lambda source: base64_text(_read_bytes(source, size))


def _logical(kind: str, schema: dict[str, Any]) -> Read | None:
    """Return the reader of a known logical type; None for others, which are read as their plain type."""
    if (make := _TIMES.get((kind, str(schema.get("logicalType"))))) is not None:
        number = _PRIMITIVES[kind]
        return _charged(lambda source: make(number(source)))
    scale = _scale(schema) if kind == "bytes" else None
    return None if scale is None else _charged(lambda source: _decimal(_bytes(source), scale))


def _charged(read: Read) -> Read:
    """Return a reader that charges the budget, because its text may be hundreds of times as long as the data."""

    def read_charged(source: AvroInput) -> Any:
        value = read(source)
        source.budget.spend(len(value) if isinstance(value, str) else ITEM_COST)
        return value

    return read_charged


def _scale(schema: dict[str, Any]) -> int | None:
    """Return the number of digits after the point of a decimal; None for other types."""
    scale = schema.get("scale", 0)
    return scale if schema.get("logicalType") == "decimal" and type(scale) is int and 0 <= scale <= 2 * DECIMAL_MAX_BYTES else None
