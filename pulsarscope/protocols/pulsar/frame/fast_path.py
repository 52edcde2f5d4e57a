"""Primitives of the fast reader: functions that its generated code calls, and exceptions with which it defers to the reference.

The generated functions are in `generated.py`, one for each frequent message, written by `proto/readers.py` from the table of the protocol.
They read the form that clients and brokers write, and raise one of FALLBACK_ERRORS on any other bytes. `walk` then reads these from the
start, and its answer is authoritative. A property test compares the two.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, TypeVar

from pulsarscope.protocols.pulsar.frame.protobuf import WireError, varint
from pulsarscope.protocols.pulsar.frame.schema import ENUMS, MESSAGES
from pulsarscope.protocols.pulsar.frame.secret_fields import is_secret_name

MEMO_MAX = 4096
"""Values in each memo."""

BOOLS = (False, True)
"""Booleans by their byte; other numbers are left to the reference."""

SIZE, SIZE_ERROR = struct.Struct(">I"), struct.error
"""Size of the metadata of a message in a batch, and the error for data that end within this size."""

Value = TypeVar("Value")

Reader = Callable[[bytes, int, int], dict[str, Any]]
"""A function that reads the message in data[start:end], or raises one of FALLBACK_ERRORS."""


_MINUS_ONE = b"\xff" * 9 + b"\x01"
"""The varint of -1, which means none in many fields."""


class UncommonFormError(Exception):
    """The bytes do not have the common form; the reference reads them."""


FALLBACK_ERRORS = (UncommonFormError, WireError, IndexError, KeyError, UnicodeDecodeError)
"""Exceptions of the fast reader: bytes that end too soon, numbers without a name, invalid text."""


class Memo(dict[bytes, Value]):
    """A cache of values by their bytes: neighbours share most values, and a lookup costs less than reading them again."""

    def put(self, raw: bytes, value: Value) -> None:
        """Add a value; drop all values when there are too many."""
        if len(self) >= MEMO_MAX:
            self.clear()
        self[raw] = value


TIMES: Memo[int] = Memo()
"""Varints of six bytes, such as times in milliseconds: many messages share one."""


NAMES: Memo[str] = Memo()
"""Producer names of less than 128 bytes, by their tag, length and text: a capture has few."""


class _PlainNames(Memo[str]):
    """Names of properties by their bytes, except names of credentials: the reference masks those."""

    def __missing__(self, raw: bytes) -> str:
        name = raw.decode()
        if is_secret_name(name):
            raise UncommonFormError
        if len(raw) <= KEY_MAX_BYTES:
            self.put(raw, name)
        return name


KEY_MAX_BYTES = 64
"""Longest property name in the memo, in bytes."""

KEYS = _PlainNames()

RESTS: Memo[dict[str, Any]] = Memo()
"""Optional fields of a message's metadata, such as a key, a codec, or a schema version."""

REST_MAX_BYTES = 64
"""Most bytes of such fields in the memo."""


def read_name(data: bytes, at: int, end: int, tag: int) -> tuple[str, int]:
    """Return a short text that follows `tag`, cached in NAMES, and the position after it. Raises UncommonFormError otherwise."""
    stop = at + 2 + data[at + 1]
    if data[at] != tag or data[at + 1] > 127 or stop > end:
        raise UncommonFormError
    name = data[at + 2 : stop].decode()
    NAMES.put(data[at:stop], name)
    return name, stop


def read_time(data: bytes, at: int) -> tuple[int, int]:
    """Return a varint as int64, cached in TIMES if it has six bytes, and the position after it."""
    value, after = varint(data, at)
    if after - at == 6:
        TIMES.put(data[at:after], value)
    return _int64(value), after


def remember_time(raw: bytes) -> int:
    """Return the number in a varint of exactly six bytes, and cache it in TIMES; 0 if the bytes are not such a varint."""
    if raw[5] > 127 or min(raw[:5]) < 128:
        return 0
    return read_time(raw, 0)[0]


def remember_rest(raw: bytes, rest: dict[str, Any]) -> None:
    """Cache optional fields by their bytes if they are short and have only plain values, which rows may share."""
    if len(raw) <= REST_MAX_BYTES and not any(isinstance(value, (dict, list)) for value in rest.values()):
        RESTS.put(raw, rest)


def long_int64(data: bytes, at: int, low: int) -> tuple[int, int]:
    """Return the int64 whose second byte is at `at`, and the position after it; `low`: its first byte."""
    byte = data[at]
    low += (byte << 7) - 128
    if byte < 128:
        return low, at + 1
    byte = data[at + 1]
    low += (byte << 14) - 16384
    if byte < 128:
        return low, at + 2
    if data.startswith(_MINUS_ONE, at - 1):
        return -1, at + 9
    high, at = varint(data, at + 2, 43)
    return _int64(low - (1 << 21) + (high << 21) & 0xFFFF_FFFF_FFFF_FFFF), at


def long_int32(data: bytes, at: int, low: int) -> tuple[int, int]:
    """Like `long_int64`, for an int32: protobuf keeps the low bits."""
    value, at = long_int64(data, at, low)
    return ((value & 0xFFFF_FFFF) ^ 0x8000_0000) - 0x8000_0000, at


def long_uint32(data: bytes, at: int, low: int) -> tuple[int, int]:
    """Like `long_int64`, for a uint32."""
    value, at = long_int64(data, at, low)
    return value & 0xFFFF_FFFF, at


def long_time(data: bytes, at: int, low: int) -> tuple[int, int]:
    """Like `long_int64`, for a time that neighbouring messages share."""
    if low > 127 and (time := TIMES.get(data[at - 1 : at + 5], 0)):
        return time, at + 5
    return read_time(data, at - 1)


def long_size(data: bytes, at: int, low: int, end: int) -> tuple[int, int]:
    """Like `long_int64`, for the size of what follows, up to `end` at most. Raises UncommonFormError for a larger one."""
    size, at = long_int64(data, at, low)
    if not 0 <= size <= end - at:
        raise UncommonFormError
    return size, at


OptionalField = tuple[str, Any, Any, bool]
"""Name; function that reads a longer number, or what follows a size (None: text); values of an enumeration; whether it may repeat."""


def optional_fields(message: str, **readers: Reader) -> dict[int, OptionalField]:
    """Return the fields of a message that are not required, by the bytes of their tag as a little-endian number.

    `readers`: those of the messages nested in it. Others are left out, because only the reference counts the nesting of messages.
    """
    fields = {}
    for number, name, kind, label, inner in MESSAGES[message]:
        if label != "required" and (kind != "message" or inner in readers):
            tag = number << 3 | (2 if kind in {"string", "bytes", "message"} else 0)
            tag = tag if tag < 128 else (tag & 127 | 128) + (tag >> 7 << 8)
            reader = long_time if name == "broker_timestamp" else readers.get(inner) or _READ.get(kind)
            values = ENUMS[inner] if kind == "enum" else BOOLS if kind == "bool" else None
            fields[tag] = name, reader, values, label == "repeated"
    return fields


_READ: dict[str, Any] = {
    "bytes": lambda data, at, stop: data[at:stop],
    "int64": long_int64,
    "uint64": long_int64,
    "int32": long_int32,
    "uint32": long_uint32,
}
"""Functions that read a value by its type, as in `OptionalField`."""


def read_optional(data: bytes, at: int, end: int, out: dict[str, Any], fields: dict[int, OptionalField]) -> dict[str, Any]:
    """Add the fields in data[at:end] to `out` and return it. Raises one of FALLBACK_ERRORS unless all are in the order of their tags."""
    before = 0
    while at < end:
        tag = data[at]
        if tag > 127:
            at += 1
            tag += data[at] << 8
        name, read, values, repeats = fields[tag]
        value: Any = data[at + 1]
        at += 2
        if tag & 7:
            if value > 127:
                value, at = long_size(data, at, value, end)
            stop = at + value
            value = data[at:stop].decode() if read is None else read(data, at, stop)
            at = stop
        elif values is not None:
            value = values[value]
        elif value > 127:
            value, at = read(data, at, value)
        if tag > before:
            out[name] = [value] if repeats else value
            before = tag
        elif tag == before and repeats:
            out[name].append(value)
        else:
            raise UncommonFormError
    if at > end:
        raise UncommonFormError
    return out


def _int64(value: int) -> int:
    return value - (1 << 64) if value > 0x7FFF_FFFF_FFFF_FFFF else value
