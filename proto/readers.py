"""Write the source of the fast reader: one straight-line function for each message of which connections are full.

Clients and brokers write the fields of a message in the order of their numbers. A generated function follows that order without a table
and raises `UncommonFormError` or another of FALLBACK_ERRORS on anything else: an unknown field, another order, a field that must not
repeat, an unknown number of an enumeration.
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
    read_name,
    read_time,
    remember_rest,
)
from pulsarscope.protocols.pulsar.frame.schema import ENUMS

'''

NUMBER = """\
{name} = data[at + {tag_bytes}]
at += {read_bytes}
if {name} > 127:
    {name}, at = {long}(data, at, {name})
"""
"""A number after its tag; `long` reads one of several bytes."""

TIME = """\
{name} = TIMES.get(data[at + {tag_bytes} : at + {tag_bytes} + 6], 0)
if {name}:
    at += {tag_bytes} + 6
else:
    {name}, at = read_time(data, at + {tag_bytes})
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
size = data[at + {tag_bytes}]
at += {read_bytes}
if size > 127:
    size, at = long_size(data, at, size, end)
stop = at + size
"""
"""The length of a text or a message; short ones are not compared with `end`, which is checked once, after the last field."""

REST = """\
    return {name}_rest(data, at, end, out)


def {name}_rest(data: bytes, at: int, end: int, out: dict[str, Any]) -> dict[str, Any]:
    raw = data[at:end]
    rest = RESTS.get(raw)
    if rest is None:
        rest = {name}_optional(data, at, end, {{}})
        remember_rest(raw, rest)
    out.update(rest)
    return out


def {name}_optional(data: bytes, at: int, end: int, out: dict[str, Any]) -> dict[str, Any]:
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
    length = LENGTH.format(tag_bytes=1, read_bytes=2)
    numbers = {
        name: NUMBER.format(name=name, tag_bytes=1, read_bytes=2, long=_LONG[kinds[name]]) for name in ("payload_size", "sequence_id")
    }
    return BATCH.format(
        pair=_indented(length, 5).rstrip(),
        key=_indented(length, 5).rstrip(),
        value=_indented(length, 5).rstrip(),
        partition_key=_indented(length, 4).rstrip(),
        payload_size=_indented(numbers["payload_size"], 3).rstrip(),
        sequence_id=_indented(numbers["sequence_id"], 4).rstrip(),
    )


_LONG = {"int64": "long_int64", "uint64": "long_int64", "int32": "long_int32", "uint32": "long_uint32"}


def readers_text(messages: Mapping[str, tuple[FieldRow, ...]], enums: Mapping[str, Mapping[int, str]]) -> str:
    """Return the generated module: a function for each message that the roots reach, and the table of these functions."""
    names = list(reached(messages))
    used = sorted({row[4] for name in names for row in messages[name] if row[2] == "enum"})
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
    """Generate the function of a message: leading required fields go into a literal, the others follow in order of their numbers."""
    rows = sorted(rows)
    leading = next((index for index, row in enumerate(rows) if row[3] != "required" or row[0] > 15), len(rows))
    required, others = rows[:leading], rows[leading:]
    yield f"def {_snake(message)}(data: bytes, at: int, end: int) -> dict[str, Any]:\n"
    for row in required:
        if message in SPLIT and row[1] in NAMES:
            yield _indented(NAME.format(name=_local(row), tag=_tag(row)), 1)
        else:
            yield _indented(f"if data[at] != {_tag(row)}:\n    raise UncommonFormError", 1)
            yield _indented(_value(row, _local(row)), 1)
    literal = ", ".join(f'"{row[1]}": {_local(row)}' for row in required)
    yield f"    out: dict[str, Any] = {{{literal}}}\n"
    if not any(row[3] == "required" for row in others):
        yield "    if at == end:\n        return out\n"
    if message in SPLIT:
        yield REST.format(name=_snake(message))
    if others:
        yield "    value: Any\n"
        if any(row[3] == "repeated" for row in others):
            yield "    items: list[Any]\n"
        yield "    tag = data[at]\n"
    wide = False
    for index, row in enumerate(others):
        if row[0] > 15 and not wide:
            wide = True
            yield "    if tag > 127:\n        tag += data[at + 1] << 8\n"
        yield from _optional(row, message, ends=all(later[3] != "required" for later in others[index + 1 :]))
    yield "    raise UncommonFormError\n"


def _optional(row: FieldRow, message: str, *, ends: bool) -> Iterator[str]:
    """Generate an optional field, or a required one after an optional field; with `ends`, the message may end after it."""
    number, name, _, label, inner = row
    if inner == message:  # only the reference counts the nesting of messages
        return
    following = "tag = data[at] + (data[at + 1] << 8)" if number > 15 else "tag = data[at]"
    after = (["if at == end:", "    return out"] if ends else []) + [following]
    if label == "repeated":
        yield _indented(f'if tag == {_tag(row)}:\n    items = out["{name}"] = []\n    while tag == {_tag(row)}:', 1)
        loop = [*after[:-1], "if at >= end:", "    raise UncommonFormError", after[-1]]
        yield _indented(_value(row, "value", "items.append({})") + "\n".join(loop), 3)
        return
    read = _value(row, "value", f'out["{name}"] = {{}}') + "\n".join(after)
    if label == "required":
        yield _indented(f"if tag != {_tag(row)}:\n    raise UncommonFormError", 1)
        yield _indented(read, 1)
    else:
        yield _indented(f"if tag == {_tag(row)}:", 1)
        yield _indented(read, 2)


def _tag(row: FieldRow) -> int:
    """Return the bytes of a field's tag as a little-endian number."""
    tag = row[0] << 3 | (2 if row[2] in {"string", "bytes", "message"} else 0)
    return tag if tag < 128 else (tag & 127 | 128) + (tag >> 7 << 8)


def _value(row: FieldRow, variable: str, store: str = "") -> str:
    """Return lines that read a tag and the value after it into a variable, or pass the value to the statement `store`, at its {}."""
    number, field, kind, _, inner = row
    tag_bytes = 2 if number > 15 else 1
    sizes = {"tag_bytes": tag_bytes, "read_bytes": tag_bytes + 1}
    if field in TIMES or kind in _LONG:
        form = TIME if field in TIMES else NUMBER
        return form.format(name=variable, long=_LONG[kind], **sizes) + (f"{store.format(variable)}\n" if store else "")
    store = store or f"{variable} = {{}}"
    if kind in {"bool", "enum"}:
        names = "BOOLS" if kind == "bool" else _enum(inner)
        return f"{store.format(f'{names}[data[at + {tag_bytes}]]')}\nat += {tag_bytes + 1}\n"
    text = "KEYS[data[at:stop]]" if variable == "key_" else "data[at:stop].decode()"
    read = {"string": text, "bytes": "data[at:stop]"}.get(kind) or f"{_snake(inner)}(data, at, stop)"
    return f"{LENGTH.format(**sizes)}{store.format(read)}\nat = stop\n"
