"""Avro: a schema → a reader of bare data, as Pulsar sends them (Avro specification 1.12, "Binary Encoding").

Not fastavro's: with a schema that names itself, a megabyte of one repeated byte ends the process there (the C stack overflows), and an
array of 2^60 nulls takes no byte and all time. Here each level and each item counts. fastavro is the tests' oracle.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from typing import Any

import msgspec

from pulsarscope.model.limits import SCHEMA_DEPTH_MAX, VALUE_DEPTH_MAX
from pulsarscope.protocols.pulsar.values.json_values import (
    Budget,
    ValueProblem,
    base64_text,
    day,
    double,
    moment,
    single,
    time_of_day,
    utf8_text,
)

DECIMAL_MAX_BYTES = 128
"""Largest decimal given as a number; larger ones stay bytes: no digits of use, and text of it takes quadratic time."""

ITEM_COST = 8
"""What an item is reckoned to take, beside its content."""

_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_DURATION = struct.Struct("<III")


class Cursor:
    """Where a reader is in the data."""

    __slots__ = ("at", "budget", "data", "depth")

    def __init__(self, data: bytes, budget: Budget) -> None:
        self.data = data
        self.at = 0
        self.budget = budget
        self.depth = VALUE_DEPTH_MAX
        """Levels left."""


Read = Callable[[Cursor], Any]
"""Takes the next value. Raises ValueProblem, or IndexError at the end of the data."""


def avro_reader(definition: bytes) -> Callable[[bytes, Budget], Any]:
    """The reader of a schema, which takes the whole of its data.

    Raises:
        ValueProblem: this is no schema. The reader raises it for data that do not fit.
    """
    try:
        schema = msgspec.json.decode(definition)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        message = f"the Avro schema is no JSON: {error}"
        raise ValueProblem(message) from None
    read = _Compiler().reader(schema, "", SCHEMA_DEPTH_MAX)

    def read_all(data: bytes, budget: Budget) -> Any:
        cursor = Cursor(data, budget)
        try:
            value = read(cursor)
        except IndexError:
            message = f"the {len(data)} bytes end within a value"
            raise ValueProblem(message) from None
        except RecursionError:  # who called was deep down already
            message = "values are nested too deeply"
            raise ValueProblem(message) from None
        if cursor.at != len(data):
            message = f"{len(data) - cursor.at} bytes follow the value"
            raise ValueProblem(message)
        return value

    return read_all


# ---- single values


def _long(cursor: Cursor) -> int:
    data, at = cursor.data, cursor.at
    byte = data[at]
    at += 1
    value = byte & 127
    shift = 7
    while byte > 127:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if shift > 70 or value >= 1 << 64:
            message = f"a number at byte {cursor.at} has more than 64 bits"
            raise ValueProblem(message)
    cursor.at = at
    return (value >> 1) ^ -(value & 1)


def _int(cursor: Cursor) -> int:
    value = _long(cursor)
    if not -(1 << 31) <= value < 1 << 31:
        message = f"an int is {value}"
        raise ValueProblem(message)
    return value


def _take(cursor: Cursor, size: int) -> bytes:
    start = cursor.at
    end = start + size
    if size < 0 or end > len(cursor.data):
        message = f"{size} bytes are claimed at byte {start}, {len(cursor.data) - start} are left"
        raise ValueProblem(message)
    cursor.at = end
    return cursor.data[start:end]


def _null(_cursor: Cursor) -> None:
    return None


def _boolean(cursor: Cursor) -> bool:
    byte = cursor.data[cursor.at]
    cursor.at += 1
    if byte > 1:
        message = f"a boolean is {byte}"
        raise ValueProblem(message)
    return byte == 1


def _float(cursor: Cursor) -> float | str:
    return single(*_FLOAT.unpack(_take(cursor, 4)))


def _double(cursor: Cursor) -> float | str:
    return double(*_DOUBLE.unpack(_take(cursor, 8)))


def _bytes(cursor: Cursor) -> bytes:
    return _take(cursor, _long(cursor))


def _base64(cursor: Cursor) -> str:
    return base64_text(_bytes(cursor))


def _string(cursor: Cursor) -> str:
    return utf8_text(_bytes(cursor))


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


# ---- schemas


class _Named:
    """A type with a name, which may be referred to before it is complete."""

    __slots__ = ("read",)

    def __init__(self) -> None:
        self.read: Read | None = None

    def take(self, cursor: Cursor) -> Any:
        """What the complete type reads."""
        if self.read is None:  # what named it was given up
            message = "the Avro schema refers to a type that it does not define"
            raise ValueProblem(message)
        return self.read(cursor)


class _Compiler:
    """Makes readers; remembers the types of one schema by their full names."""

    def __init__(self) -> None:
        self._named: dict[str, _Named] = {}

    def reader(self, schema: Any, namespace: str, depth: int) -> Read:
        """The reader of a (part of a) schema; `depth`: levels that may follow."""
        if not depth:
            message = "the Avro schema is nested too deeply"
            raise ValueProblem(message)
        if isinstance(schema, list):
            if any(isinstance(branch, list) for branch in schema):
                message = "the Avro schema has a union in a union"
                raise ValueProblem(message)
            return _union([self.reader(branch, namespace, depth - 1) for branch in schema])
        if isinstance(schema, str):
            return _PRIMITIVES.get(schema) or self._reference(schema, namespace)
        kind = schema.get("type") if isinstance(schema, dict) else None
        if isinstance(kind, (dict, list)):
            return self.reader(kind, namespace, depth - 1)
        if not isinstance(kind, str):
            message = "the Avro schema has a part without a type"
            raise ValueProblem(message)
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
        found = None if "." in name else self._named.get(f"{namespace}.{name}")
        found = found or self._named.get(name)
        if found is None:
            message = f"the Avro schema does not define {name[:100]}"
            raise ValueProblem(message)
        return found.read or found.take

    def _full_name(self, schema: dict[str, Any], namespace: str) -> str:
        name, own = schema.get("name"), schema.get("namespace")
        if own is None:  # some writers say null for none of its own
            own = namespace
        if not (isinstance(name, str) and isinstance(own, str)):
            message = "the Avro schema has a record, an enum or a fixed without a name"
            raise ValueProblem(message)
        return name if "." in name or not own else f"{own}.{name}"

    def _define(self, schema: dict[str, Any], namespace: str, read: Read) -> Read:
        named = self._named[self._full_name(schema, namespace)] = _Named()
        named.read = read
        return read

    def _record(self, schema: dict[str, Any], namespace: str, depth: int) -> Read:
        full = self._full_name(schema, namespace)
        named = self._named[full] = _Named()
        inner = full.rpartition(".")[0]
        fields = schema.get("fields")
        if not isinstance(fields, list) or not all(isinstance(field, dict) and isinstance(field.get("name"), str) for field in fields):
            message = f"the record {full[:100]} of the Avro schema has no fields, or one without a name"
            raise ValueProblem(message)
        named.read = read = _record([(field["name"], self.reader(_field_type(field), inner, depth - 1)) for field in fields])
        return read


def _field_type(field: dict[str, Any]) -> Any:
    """The type of a field. Some writers put a logical type beside it instead of into it."""
    kind = field.get("type")
    if isinstance(kind, str) and "logicalType" in field:
        return {name: value for name, value in field.items() if name not in ("name", "default")}
    return kind


def _record(fields: list[tuple[str, Read]]) -> Read:
    cost = ITEM_COST + sum(ITEM_COST + len(name) for name, _ in fields)

    def read(cursor: Cursor) -> dict[str, Any]:
        cursor.budget.spend(cost)
        _descend(cursor)
        value = {name: read_field(cursor) for name, read_field in fields}
        cursor.depth += 1
        return value

    return read


def _descend(cursor: Cursor) -> None:
    cursor.depth -= 1
    if cursor.depth < 0:
        message = f"values are nested deeper than {VALUE_DEPTH_MAX} levels"
        raise ValueProblem(message)


def _union(branches: list[Read]) -> Read:
    def read(cursor: Cursor) -> Any:
        index = _long(cursor)
        if not 0 <= index < len(branches):
            message = f"branch {index} of a union of {len(branches)}"
            raise ValueProblem(message)
        return branches[index](cursor)

    return read


def _blocks(cursor: Cursor) -> int:
    """How many items the next block has; 0 after the last one."""
    count = _long(cursor)
    if count < 0:
        count = -count
        _long(cursor)  # the block's bytes, for those who skip it
    cursor.budget.spend(count * ITEM_COST)
    return count


def _array(read_item: Read) -> Read:
    def read(cursor: Cursor) -> list[Any]:
        _descend(cursor)
        values: list[Any] = []
        while count := _blocks(cursor):
            values += [read_item(cursor) for _ in range(count)]
        cursor.depth += 1
        return values

    return read


def _map(read_item: Read) -> Read:
    def read(cursor: Cursor) -> dict[str, Any]:
        _descend(cursor)
        values: dict[str, Any] = {}
        while count := _blocks(cursor):
            for _ in range(count):
                key = _string(cursor)
                values[key] = read_item(cursor)
        cursor.depth += 1
        return values

    return read


def _enum(symbols: Any) -> Read:
    if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
        message = "the Avro schema has an enum without symbols"
        raise ValueProblem(message)

    def read(cursor: Cursor) -> str:
        index = _long(cursor)
        if not 0 <= index < len(symbols):
            message = f"symbol {index} of an enum of {len(symbols)}"
            raise ValueProblem(message)
        symbol: str = symbols[index]
        cursor.budget.spend(len(symbol))
        return symbol

    return read


def _fixed(schema: dict[str, Any]) -> Read:
    size, logical = schema.get("size"), schema.get("logicalType")
    if type(size) is not int or size < 0:
        message = "the Avro schema has a fixed without a size"
        raise ValueProblem(message)
    scale = _scale(schema)
    if scale is not None:
        return _paid(lambda cursor: _decimal(_take(cursor, size), scale))
    if logical == "uuid" and size == 16:
        return _paid(lambda cursor: str(uuid.UUID(bytes=_take(cursor, size))))
    if logical == "duration" and size == _DURATION.size:
        return _paid(lambda cursor: _duration(_take(cursor, size)))
    return lambda cursor: base64_text(_take(cursor, size))


def _logical(kind: str, schema: dict[str, Any]) -> Read | None:
    """The reader of a primitive type with a logical type that is known; None: it reads as if it had none."""
    make = _TIMES.get((kind, str(schema.get("logicalType"))))
    if make is not None:
        number = _PRIMITIVES[kind]
        return _paid(lambda cursor: make(number(cursor)))
    scale = _scale(schema) if kind == "bytes" else None
    return None if scale is None else _paid(lambda cursor: _decimal(_bytes(cursor), scale))


def _paid(read: Read) -> Read:
    """The same reader: the text it makes may be hundreds of times as long as what it is made of."""

    def read_paid(cursor: Cursor) -> Any:
        value = read(cursor)
        cursor.budget.spend(len(value) if isinstance(value, str) else ITEM_COST)
        return value

    return read_paid


def _scale(schema: dict[str, Any]) -> int | None:
    """Digits behind the point; None when this is no decimal."""
    scale = schema.get("scale", 0)
    return scale if schema.get("logicalType") == "decimal" and type(scale) is int and 0 <= scale <= 2 * DECIMAL_MAX_BYTES else None
