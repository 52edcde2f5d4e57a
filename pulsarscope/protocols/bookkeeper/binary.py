"""Frames of versions 0 to 2: a head of four bytes and a body of fixed fields."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Any

from pulsarscope.protocols.bookkeeper.body import Body
from pulsarscope.protocols.bookkeeper.commands import (
    ADD,
    AUTH,
    BATCH_READ,
    BINARY_OPERATIONS,
    BINARY_STATUSES,
    EOK,
    FENCING,
    READ,
    flag_names,
    named,
    response,
)
from pulsarscope.protocols.bookkeeper.framing import BODY, HEAD, LENGTH_BYTES
from pulsarscope.protocols.bookkeeper.protobuf import ProtobufError, read_auth

MASTER_KEY_BYTES = 20
IDS = Struct(">qq")
ANSWER = Struct(">iqq")
BATCH = Struct(">qqqiq")
BATCH_ANSWER = Struct(">iqqq")
SIZE = Struct(">i")

ENTRIES_MAX = 1_000
"""Entries listed for the answer to a BATCH_READ; a frame of 64 MiB can claim two million."""


def is_response(operation: str, size: int) -> bool:
    """Distinguish an answer from a request by the size of its frame: sizes never overlap. AUTH looks the same in both directions."""
    body = size - BODY
    if operation == ADD:
        return body == ANSWER.size
    if operation == READ:
        return body not in (IDS.size, IDS.size + MASTER_KEY_BYTES)
    return operation == BATCH_READ and body not in (BATCH.size, BATCH.size + MASTER_KEY_BYTES)


def head_of(data: bytes, start: int) -> tuple[int, int, int]:
    """Return version, operation and flags of the frame at `start`."""
    version, operation, flags = HEAD.unpack_from(data, start + LENGTH_BYTES)
    return (0, operation << 16 | flags, 0) if version == 0 else (version, operation, flags)


def read_binary(data: bytes, start: int, end: int, size: int) -> Body:
    """Read the available bytes data[start:end] of a frame of `size` bytes, which have at least its head."""
    version, number, flags = head_of(data, start)
    operation = BINARY_OPERATIONS.get(number)
    fields: dict[str, Any] = {"version": version}
    if flags:
        fields["flags"] = flag_names(flags)
    if operation is None:
        return Body(f"UNKNOWN_{number}", fields, [])
    at = start + BODY
    if operation in (ADD, READ, BATCH_READ):
        if is_response(operation, size):
            return _answer(operation, fields, data, at, end, start + size)
        return _request(operation, fields, flags, data, at, end, start + size)
    secret = (0, 0)
    problem = None
    if operation == AUTH:
        try:
            secret = read_auth(data, at, end, fields)
        except ProtobufError as error:
            problem = str(error)
    return Body(operation, fields, [], secret, problem)


def _request(operation: str, fields: dict[str, Any], flags: int, data: bytes, at: int, end: int, stop: int) -> Body:
    secret = (0, 0)
    entries = []
    if operation == ADD:
        secret, at = (at, at + MASTER_KEY_BYTES), at + MASTER_KEY_BYTES
        entries = [(at, stop)] if at < stop else []
        if at + IDS.size <= end:
            fields["ledger"], fields["entry"] = IDS.unpack_from(data, at)
        problem = None if entries else "it holds no entry"
    else:
        layout, names = (IDS, _READ) if operation == READ else (BATCH, _BATCH_READ)
        if at + layout.size <= end:
            fields |= zip(names, layout.unpack_from(data, at), strict=True)
        has_key = stop - at > layout.size
        if has_key:
            secret = (at + layout.size, stop)
        problem = None if has_key == bool(flags & FENCING) else "its size does not fit its flags"
    return Body(operation, fields, entries, secret, problem)


_READ = ("ledger", "entry")
_BATCH_READ = ("ledger", "entry", "request_id", "max_count", "max_size")


def _answer(operation: str, fields: dict[str, Any], data: bytes, at: int, end: int, stop: int) -> Body:
    layout, names = (BATCH_ANSWER, ("status", "ledger", "entry", "request_id")) if operation == BATCH_READ else (ANSWER, ("status", *_READ))
    command = response(operation)
    entries: list[tuple[int, int]] = []
    if at + layout.size > stop:
        return Body(command, fields, entries, problem="its body is too short")
    if at + layout.size > end:
        return Body(command, fields, entries)
    fields |= zip(names, layout.unpack_from(data, at), strict=True)
    fields["status"] = named(BINARY_STATUSES, fields["status"])
    at += layout.size
    problem = None
    if operation == READ:
        if at < stop:
            entries.append((at, stop))
        problem = None if (fields["status"] == EOK) == bool(entries) else "its size does not fit its status"
    for first, last in batch_entries(data, at, end, stop) if operation == BATCH_READ else ():
        if not first <= last <= stop:
            problem = f"an entry of {last - first:,} bytes goes beyond the frame"
        elif len(entries) < ENTRIES_MAX:
            entries.append((first, last))
    return Body(command, fields, entries, problem=problem)


def batch_entries(data: bytes, at: int, end: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of each entry in the available bytes data[at:end] of an answer to a BATCH_READ, up to an impossible one."""
    while at + SIZE.size <= end:
        (size,) = SIZE.unpack_from(data, at)
        at += SIZE.size
        yield at, at + size
        if not 0 <= size <= stop - at:
            return
        at += size
