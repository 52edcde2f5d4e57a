"""Primitives of the fast reader: what its generated functions call, and what they raise where the reference has to read.

The functions are in `generated.py`, one for each frequent message, written by `proto/readers.py` from the table of the protocol. They
read the form that clients and brokers write and raise one of FALLBACK_ERRORS on any other bytes; `walk` then reads those from the start,
to the answer that holds (a property test holds the two together).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, TypeVar

from pulsarscope.protocols.pulsar.frame.protobuf import WireError, varint
from pulsarscope.protocols.pulsar.frame.secret_fields import is_secret_name

MEMO_MAX = 4096
"""Values remembered by their bytes in each memo."""

BOOLS = (False, True)
"""Booleans by their byte; any other number is left to the reference."""

SIZE, SIZE_ERROR = struct.Struct(">I"), struct.error
"""Size of the metadata of a message in a batch, and the error of data that end within it."""

Value = TypeVar("Value")

Reader = Callable[[bytes, int, int], dict[str, Any]]
"""Reads the message in data[start:end]; raises one of FALLBACK_ERRORS."""


_MINUS_ONE_LOW, _MINUS_ONE_HIGH = (1 << 22) - 1, b"\xff" * 6 + b"\x01"
"""The two parts of -1, which stands for none in many fields."""


class UncommonFormError(Exception):
    """The bytes are not in the common form; the reference reads them."""


FALLBACK_ERRORS = (UncommonFormError, WireError, IndexError, KeyError, UnicodeDecodeError)
"""Exceptions of the fast reader: bytes that end too soon, numbers without a name, invalid text."""


class Memo(dict[bytes, Value]):
    """Values by their bytes: neighbours share most of them, and a look-up costs less than reading them again."""

    def put(self, raw: bytes, value: Value) -> None:
        """Remember a value; forget all of them when there are too many."""
        if len(self) >= MEMO_MAX:
            self.clear()
        self[raw] = value


TIMES: Memo[int] = Memo()
"""Varints of six bytes, as times in milliseconds are: many messages share one."""


NAMES: Memo[str] = Memo()
"""Producer names of less than 128 bytes by their tag, length and text: a capture has few."""


class _PlainNames(Memo[str]):
    """Names of properties by their bytes, if they are not those of credentials, which the reference masks."""

    def __missing__(self, raw: bytes) -> str:
        name = raw.decode()
        if is_secret_name(name):
            raise UncommonFormError
        if len(raw) <= KEY_MAX_BYTES:
            self.put(raw, name)
        return name


KEY_MAX_BYTES = 64
"""Bytes of the names of properties that are remembered."""

KEYS = _PlainNames()

RESTS: Memo[dict[str, Any]] = Memo()
"""Optional fields of a message's metadata: a key, a codec, a schema version."""

REST_MAX_BYTES = 64
"""Bytes of such fields that are remembered."""


def read_name(data: bytes, at: int, end: int, tag: int) -> tuple[str, int]:
    """Return a short text behind its tag, remembered in NAMES, and the position behind it. Raises UncommonFormError otherwise."""
    stop = at + 2 + data[at + 1]
    if data[at] != tag or data[at + 1] > 127 or stop > end:
        raise UncommonFormError
    name = data[at + 2 : stop].decode()
    NAMES.put(data[at:stop], name)
    return name, stop


def read_time(data: bytes, at: int) -> tuple[int, int]:
    """Return a varint as int64, remembered in TIMES if it has six bytes, and the position behind it."""
    value, after = varint(data, at)
    if after - at == 6:
        TIMES.put(data[at:after], value)
    return _int64(value), after


def remember_time(raw: bytes) -> int:
    """Return the number in a varint of exactly six bytes and remember it in TIMES; 0 when the bytes are none."""
    if raw[5] > 127 or min(raw[:5]) < 128:
        return 0
    return read_time(raw, 0)[0]


def remember_rest(raw: bytes, rest: dict[str, Any]) -> None:
    """Remember optional fields by their bytes, if they are short and hold plain values alone, which rows may share."""
    if len(raw) <= REST_MAX_BYTES and not any(isinstance(value, (dict, list)) for value in rest.values()):
        RESTS.put(raw, rest)


def long_int64(data: bytes, at: int, low: int) -> tuple[int, int]:
    """Return the int64 whose fourth byte is at `at`, with `low` (three bytes, and the sign of the third), and the position behind it."""
    if low == _MINUS_ONE_LOW and data.startswith(_MINUS_ONE_HIGH, at):
        return -1, at + 7
    high, at = varint(data, at, 43)
    return _int64(low - (1 << 21) + (high << 21) & 0xFFFF_FFFF_FFFF_FFFF), at


def long_int32(data: bytes, at: int, low: int) -> tuple[int, int]:
    """Do as `long_int64`, for an int32: protobuf keeps the low bits."""
    value, at = long_int64(data, at, low)
    return ((value & 0xFFFF_FFFF) ^ 0x8000_0000) - 0x8000_0000, at


def long_uint32(data: bytes, at: int, low: int) -> tuple[int, int]:
    """Do as `long_int64`, for a uint32."""
    value, at = long_int64(data, at, low)
    return value & 0xFFFF_FFFF, at


def _int64(value: int) -> int:
    return value - (1 << 64) if value > 0x7FFF_FFFF_FFFF_FFFF else value
