"""Readers of the primitive schemas. Numbers are big-endian (Java's ByteBuffer, which the other clients follow)."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from pulsarscope.protocols.pulsar.values.json_values import (
    UndecodableError,
    base64_text,
    day,
    double,
    local_moment,
    moment,
    single,
    time_of_day,
    utf8_text,
)

MILLIS, NANOS = 1_000, 1_000_000_000
"""Parts of a second."""


def _fixed(name: str, form: str, make: Callable[..., Any]) -> Callable[[bytes], Any]:
    packed = struct.Struct(f">{form}")

    def read(payload: bytes) -> Any:
        if len(payload) != packed.size:
            raise UndecodableError(f"{len(payload)} bytes are there, {name} has {packed.size}")
        return make(*packed.unpack(payload))

    return read


PRIMITIVES: dict[str, Callable[[bytes], Any]] = {
    "BYTES": base64_text,
    "STRING": utf8_text,
    "BOOLEAN": _fixed("BOOLEAN", "B", bool),
    "INT8": _fixed("INT8", "b", int),
    "INT16": _fixed("INT16", "h", int),
    "INT32": _fixed("INT32", "i", int),
    "INT64": _fixed("INT64", "q", int),
    "FLOAT": _fixed("FLOAT", "f", single),
    "DOUBLE": _fixed("DOUBLE", "d", double),
    "DATE": _fixed("DATE", "q", lambda count: moment(count, MILLIS)),
    "TIME": _fixed("TIME", "q", lambda count: moment(count, MILLIS)),
    "TIMESTAMP": _fixed("TIMESTAMP", "q", lambda count: moment(count, MILLIS)),
    "INSTANT": _fixed("INSTANT", "qi", lambda seconds, nanos: moment(seconds * NANOS + nanos, NANOS)),
    "LOCAL_DATE": _fixed("LOCAL_DATE", "q", day),
    "LOCAL_TIME": _fixed("LOCAL_TIME", "q", lambda count: time_of_day(count, NANOS)),
    "LOCAL_DATE_TIME": _fixed("LOCAL_DATE_TIME", "qq", local_moment),
}
"""Readers by type; DATE, TIME and TIMESTAMP are Java's, which all hold milliseconds since the epoch."""
