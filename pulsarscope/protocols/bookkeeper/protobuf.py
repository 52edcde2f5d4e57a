"""Frames of version 3: a Request or Response of BookkeeperProtocol.proto, read by tables of its fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pulsarscope.protocols.bookkeeper.body import Body
from pulsarscope.protocols.bookkeeper.commands import OPERATIONS, STATUSES, named, response

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
VARINT_MAX_BYTES = 10

UNKNOWN_MAX = 100
"""Unknown fields shown of one message: a frame of 64 MiB can have thirty million."""

HEADER, STATUS, FIRST_BODY, LAST_BODY = 1, 2, 100, 108
"""Field numbers in a request and a response; the number of the body depends on the operation."""

HEADER_NAMES = {1: "version", 2: "operation", 3: "txn_id", 4: "priority"}

_IDS = {1: "ledger", 2: "entry"}
REQUESTS: dict[int, dict[int, str]] = {
    100: {**_IDS, 3: "master_key", 4: "previous_lac", 5: "timeout", 100: "flag"},
    101: {**_IDS, 3: "master_key", 4: "body", 5: "write_flags", 100: "flag"},
    102: {1: "plugin", 2: "payload"},
    103: {1: "ledger", 2: "lac", 3: "master_key", 4: "lac_body"},
    104: {1: "ledger"},
    105: {1: "requested"},
    106: {},
    107: {1: "ledger"},
    108: {1: "ledger"},
}
"""Names of the fields of a request's body by its number."""

_OF_LEDGER = {1: "status", 2: "ledger"}
RESPONSES: dict[int, dict[int, str]] = {
    100: {**_OF_LEDGER, 3: "entry", 4: "body", 5: "max_lac", 6: "lac_time"},
    101: {**_OF_LEDGER, 3: "entry"},
    102: REQUESTS[102],
    103: _OF_LEDGER,
    104: {**_OF_LEDGER, 3: "lac_body", 4: "body"},
    105: {1: "status", 2: "total_bytes", 3: "free_bytes"},
    106: {},
    107: _OF_LEDGER,
    108: {**_OF_LEDGER, 3: "availability"},
}
"""Names of the fields of a response's body by its number."""

FLAGS = {100: {1: "FENCE_LEDGER", 2: "ENTRY_PIGGYBACK"}, 101: {1: "RECOVERY_ADD"}}

_BODIES_OF = {"READ": 100, "ADD": 101, "AUTH": 102, "WRITE_LAC": 103, "READ_LAC": 104, "GET_BOOKIE_INFO": 105}
BODIES = {**_BODIES_OF, "START_TLS": 106, "FORCE_LEDGER": 107, "LIST_ENTRIES": 108}
"""Number of the body by operation."""

SECRETS = frozenset({"master_key", "payload"})
ENTRIES = frozenset({"body"})
_TEXTS = frozenset({"plugin"})


class ProtobufError(Exception):
    """The bytes are not a message. Internal."""


def varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """Return an unsigned varint and the position after it. Raises ProtobufError."""
    value = shift = 0
    for at in range(position, min(end, position + VARINT_MAX_BYTES)):
        byte = data[at]
        value |= (byte & 127) << shift
        if byte < 128:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at + 1
        shift += 7
    raise ProtobufError("a number is cut off, or longer than ten bytes")


def fields_of(data: bytes, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield number, value, and start and end of the contents of each field; only varints have a value, others 0. Raises ProtobufError."""
    while start < end:
        tag, start = varint(data, start, end)
        number, wire = tag >> 3, tag & 7
        value, size = 0, 0
        if wire == VARINT:
            value, behind = varint(data, start, end)
            size = behind - start
        elif wire == LENGTH:
            size, start = varint(data, start, end)
        elif wire in (FIXED32, FIXED64):
            size = 4 if wire == FIXED32 else 8
        else:
            raise ProtobufError(f"field {number} has the wire type {wire}")
        if not number or size > end - start:
            raise ProtobufError(f"field {number} goes beyond its message")
        yield number, value - (1 << 64) if value >> 63 else value, start, start + size
        start += size


def read_auth(data: bytes, start: int, end: int, fields: dict[str, Any]) -> tuple[int, int]:
    """Read an AuthMessage into `fields`; return start and end of the credentials. Raises ProtobufError."""
    secret, _ = _read(data, start, end, REQUESTS[102], {}, fields)
    return secret


def read_message(data: bytes, start: int, end: int) -> Body:
    """Read the Request or Response data[start:end], as far as possible; the defect says where it ends."""
    fields: dict[str, Any] = {}
    bodies: dict[int, tuple[int, int]] = {}
    problem = None
    is_response = False
    secret = (0, 0)
    entries: list[tuple[int, int]] = []
    try:
        for number, value, at, behind in fields_of(data, start, end):
            if number == HEADER:
                _read(data, at, behind, HEADER_NAMES, {}, fields)
            elif number == STATUS:
                is_response = True
                fields["status"] = named(STATUSES, value)
            elif FIRST_BODY <= number <= LAST_BODY:
                bodies[number] = at, behind
        operation = OPERATIONS.get(fields.get("operation", 0))
        for number, (at, behind) in bodies.items():
            found, entries = _read(data, at, behind, (RESPONSES if is_response else REQUESTS)[number], FLAGS.get(number, {}), fields)
            secret = found if found != (0, 0) else secret
        if "txn_id" not in fields:
            problem = "it has no header"
        elif not is_response and operation in BODIES and BODIES[operation] not in bodies:
            problem = "the body of its operation is missing"
    except ProtobufError as error:
        problem = str(error)
    number = fields.pop("operation", 0)
    command = OPERATIONS.get(number, f"UNKNOWN_{number}")
    return Body(response(command) if is_response else command, fields, entries, secret, problem)


def _read(
    data: bytes, start: int, end: int, names: Mapping[int, str], flags: Mapping[int, str], out: dict[str, Any]
) -> tuple[tuple[int, int], list[tuple[int, int]]]:
    """Read the fields of one message by their names; return the places of its secret and its ledger entries."""
    secret = (0, 0)
    entries: list[tuple[int, int]] = []
    for number, value, at, behind in fields_of(data, start, end):
        name = names.get(number)
        if name is None:
            unknown = out.setdefault("unknown", {})
            if len(unknown) < UNKNOWN_MAX:
                unknown[str(number)] = value or data[at:behind]
        elif name in SECRETS:
            secret = at, behind
        elif name in ENTRIES:
            entries = [(at, behind)]
        elif name in _TEXTS:
            out[name] = data[at:behind].decode("utf-8", "backslashreplace")
        elif name == "flag":
            out["flags"] = [named(dict(flags), value)]
        elif name == "status":
            out[name] = named(STATUSES, value)
        elif name in ("availability", "lac_body"):
            out[name] = data[at:behind]
        else:
            out[name] = value
    return secret, entries
