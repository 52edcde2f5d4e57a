"""Write the source of the fast reader: one straight-line function for each message of which connections are full.

Clients and brokers write the fields of a message in the order of their numbers. A generated function reads the required fields in that
order without a table, passes the others to `read_optional`, and raises `UncommonFormError` or another of FALLBACK_ERRORS on anything else:
an unknown field, another order, a field that must not repeat, an unknown number of an enumeration.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

FieldRow = tuple[int, str, str, str, str]
"""As in the generated schema: number, name, type, label, name of the type's message or enumeration."""

ROOTS = (
    "CommandSend",
    "CommandSendReceipt",
    "CommandMessage",
    "CommandAck",
    "CommandFlow",
    "MessageMetadata",
    "BrokerEntryMetadata",
)
"""Messages whose readers are generated, with all messages nested in them; SingleMessageMetadata has its own loop."""

SPLIT = frozenset({"MessageMetadata"})
"""Messages whose optional fields are read by a separate function, for callers that have read the required ones and cached them."""

TIMES = frozenset({"publish_time", "broker_timestamp"})
"""Fields that hold a time in milliseconds, which neighbouring messages share."""

NAMES = frozenset({"producer_name"})
"""Fields that hold a name, of which a capture has few; they are required fields of MessageMetadata."""

HEAD = '''"""The fast reader: made by proto/readers.py; what it cannot read raises one of FALLBACK_ERRORS."""

from __future__ import annotations

from typing import Any

from pulsarscope.protocols.pulsar.frame.fast_path import (
    BOOLS,
    FALLBACK_ERRORS,
    KEYS,
    NAMES,
    RESTS,
    SIZE,
    SIZE_ERROR,
    TIMES,
    UncommonFormError,
    Reader,
    long_int32,
    long_int64,
    long_size,
    long_uint32,
    optional_fields,
    read_name,
    read_optional,
    read_time,
    remember_rest,
)
from pulsarscope.protocols.pulsar.frame.schema import ENUMS

'''

NUMBER = """\
{name} = data[at + 1]
at += 2
if {name} > 127:
    {name}, at = {long}(data, at, {name})
"""
"""A number after its tag; `long` reads one of several bytes."""

TIME = """\
{name} = TIMES.get(data[at + 1 : at + 7], 0)
if {name}:
    at += 7
else:
    {name}, at = read_time(data, at + 1)
"""

NAME = """\
stop = at + 2 + data[at + 1]
{name} = NAMES.get(data[at:stop], "")
if {name}:
    at = stop
else:
    {name}, at = read_name(data, at, end, {tag})
"""

LENGTH = """\
size = data[at + 1]
at += 2
if size > 127:
    size, at = long_size(data, at, size, end)
stop = at + size
"""
"""The length of a text or a message; short ones are not compared with `end`, which is checked once, after the last field."""

REST = """\
    return out if at == end else {name}_rest(data, at, end, out)


def {name}_rest(data: bytes, at: int, end: int, out: dict[str, Any]) -> dict[str, Any]:
    raw = data[at:end]
    rest = RESTS.get(raw)
    if rest is None:
        rest = read_optional(data, at, end, {{}}, _{fields})
        remember_rest(raw, rest)
    out.update(rest)
    return out
"""
"""Optional fields, which neighbouring messages often share, after the required ones."""

BATCH = """\
def single_messages(
    data: bytes,
    position: int,
    limit: int,
    default_id: int | None,
    sizes: list[int],
    keys: list[str | None],
    sequence_ids: list[int | None],
    properties: list[dict[str, str] | None] | None,
    payloads: list[bytes] | None,
) -> int:
    # Read messages of a batch into columns, up to the first with other fields, or an odd one; the position behind them.
    batch_end = len(data)
    unpack = SIZE.unpack_from
    try:
        for _ in range(limit):
            metadata_at = at = position + 4
            end = at + unpack(data, position)[0]
            tag = data[at]
            pairs: dict[str, str] | None = None
            if tag == 10:
                pairs = {{}}
                while tag == 10:
{pair}
                    pair_end = stop
                    if data[at] != 10:
                        return position
{key}
                    key_at, key_end = at, stop
                    at = stop
                    if data[at] != 18:
                        return position
{value}
                    if stop != pair_end:
                        return position
                    if properties is not None:
                        pairs[KEYS[data[key_at:key_end]]] = data[at:stop].decode()
                    at = stop
                    tag = data[at]
                if properties is None and not data[metadata_at:at].isascii():
                    return position
            partition_key = None
            if tag == 18:
{partition_key}
                partition_key = data[at:stop].decode()
                at = stop
                tag = data[at]
            if tag != 24:
                return position
{payload_size}
            sequence_id = default_id
            if at != end:
                if data[at] != 64:
                    return position
{sequence_id}
            after = at + payload_size
            if at != end or payload_size < 0 or after > batch_end:
                return position
            sizes.append(payload_size)
            keys.append(partition_key)
            sequence_ids.append(sequence_id)
            if properties is not None:
                properties.append(pairs)
            if payloads is not None:
                payloads.append(data[at:after])
            position = after
    except (*FALLBACK_ERRORS, SIZE_ERROR):
        pass
    return position
"""
"""A loop over the messages of a batch with the fields properties, partition_key, payload_size and sequence_id, or some of them."""


def _batch_function(rows: Iterable[FieldRow]) -> str:
    """Return the loop of BATCH with its varints and lengths filled in."""
    kinds = {row[1]: row[2] for row in rows}
    numbers = {name: NUMBER.format(name=name, long=_LONG[kinds[name]]) for name in ("payload_size", "sequence_id")}
    return BATCH.format(
        pair=_indented(LENGTH, 5).rstrip(),
        key=_indented(LENGTH, 5).rstrip(),
        value=_indented(LENGTH, 5).rstrip(),
        partition_key=_indented(LENGTH, 4).rstrip(),
        payload_size=_indented(numbers["payload_size"], 3).rstrip(),
        sequence_id=_indented(numbers["sequence_id"], 4).rstrip(),
    )


_LONG = {"int64": "long_int64", "uint64": "long_int64", "int32": "long_int32", "uint32": "long_uint32"}


def readers_text(messages: Mapping[str, tuple[FieldRow, ...]], enums: Mapping[str, Mapping[int, str]]) -> str:
    """Return the generated module: a function for each message that the roots reach, and the table of these functions."""
    names = list(reached(messages))
    used = sorted({row[4] for name in names for row in messages[name] if row[2] == "enum" and row[3] == "required"})
    lines = [HEAD]
    for name in used:
        if max(enums[name]) > 127:
            message = f"{name} has numbers of more than one byte"
            raise ValueError(message)
        lines.append(f'{_enum(name)} = ENUMS["{name}"]\n')
    for name in names:
        lines += ["\n\n", *_function(name, messages[name])]
    lines += ["\n\n", _batch_function(messages["SingleMessageMetadata"])]
    lines += ["\n\nREADERS: dict[str, Reader] = {\n", *[f'    "{name}": {_snake(name)},\n' for name in names], "}\n"]
    lines.append('"""Readers by message."""\n')
    return "".join(lines)


def reached(messages: Mapping[str, tuple[FieldRow, ...]]) -> Iterator[str]:
    """Yield the roots and the messages nested in them, inner ones first."""
    seen: set[str] = set()

    def visit(name: str) -> Iterator[str]:
        if name in seen:
            return
        seen.add(name)
        for row in messages[name]:
            if row[2] == "message":
                yield from visit(row[4])
        yield name

    for root in ROOTS:
        yield from visit(root)


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.replace(".", "")).lower()


def _local(row: FieldRow) -> str:
    """Return the variable of a required field, with a suffix that keeps it distinct."""
    return f"{row[1]}_"


def _enum(name: str) -> str:
    return f"_{_snake(name).upper()}"


def _indented(text: str, levels: int) -> str:
    return "".join(f"{'    ' * levels}{line}\n" for line in text.splitlines())


def _function(message: str, rows: Iterable[FieldRow]) -> Iterator[str]:
    """Generate the function of a message, whose required fields come first and go into a literal, and the table of its other fields."""
    rows = sorted(rows)
    required = [row for row in rows if row[3] == "required"]
    others = rows[len(required) :]
    if required != rows[: len(required)]:
        problem = f"{message} has a required field after an optional one"
        raise ValueError(problem)
    if others:
        inner = sorted({row[4] for row in others if row[2] == "message" and row[4] != message})
        readers = "".join(f", {name}={_snake(name)}" for name in inner)
        yield f'_{_snake(message).upper()} = optional_fields("{message}"{readers})\n\n\n'
    yield f"def {_snake(message)}(data: bytes, at: int, end: int) -> dict[str, Any]:\n"
    for row in required:
        if message in SPLIT and row[1] in NAMES:
            yield _indented(NAME.format(name=_local(row), tag=_tag(row)), 1)
        else:
            yield _indented(f"if data[at] != {_tag(row)}:\n    raise UncommonFormError", 1)
            yield _indented(_value(row, _local(row)), 1)
    literal = ", ".join(f'"{row[1]}": {_local(row)}' for row in required)
    yield f"    out: dict[str, Any] = {{{literal}}}\n"
    if message in SPLIT:
        yield REST.format(name=_snake(message), fields=_snake(message).upper())
    elif others:
        yield f"    return out if at == end else read_optional(data, at, end, out, _{_snake(message).upper()})\n"
    else:
        yield "    if at != end:\n        raise UncommonFormError\n    return out\n"


def _tag(row: FieldRow) -> int:
    """Return the tag of a field, which has one byte."""
    return row[0] << 3 | (2 if row[2] in {"string", "bytes", "message"} else 0)


def _value(row: FieldRow, name: str) -> str:
    """Return lines that read a tag and the value after it into a variable."""
    _, field, kind, _, inner = row
    if field in TIMES:
        return TIME.format(name=name)
    if kind in _LONG:
        return NUMBER.format(name=name, long=_LONG[kind])
    if kind in {"bool", "enum"}:
        return f"{name} = {'BOOLS' if kind == 'bool' else _enum(inner)}[data[at + 1]]\nat += 2\n"
    text = "KEYS[data[at:stop]]" if name == "key_" else "data[at:stop].decode()"
    read = {"string": text, "bytes": "data[at:stop]"}.get(kind) or f"{_snake(inner)}(data, at, stop)"
    return f"{LENGTH}{name} = {read}\nat = stop\n"
