"""The three responses. None says what it answers: which one it is, is known from the request; from its bytes only what it can be."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

from pulsarscope.dissect.frames import Note
from pulsarscope.protocols.kafka07.commands import (
    ERRORS,
    FETCH_RESPONSE,
    MULTIFETCH_RESPONSE,
    NO_ERROR,
    OFFSETS_RESPONSE,
    RESPONSE,
    RESPONSES,
    error_name,
)
from pulsarscope.protocols.kafka07.cursor import Cursor, ShortError, WireError
from pulsarscope.protocols.kafka07.messages import CRC_AT, LEAST_MESSAGE_BYTES, SIZE_BYTES, Sums, read_set
from pulsarscope.protocols.kafka07.requests import HEADER_BYTES, MessageSet

ERROR_BYTES = 2
COUNT_BYTES = 4
OFFSET_BYTES = 8


class Response(NamedTuple):
    """A response as far as it could be read."""

    command: str
    fields: dict[str, Any]
    sets: Sequence[MessageSet] = ()
    """What it delivers."""
    short: bool = False
    """Bytes are missing."""


def read_response(command: str, data: bytes, start: int, end: int, asked: Sequence[dict[str, Any]], notes: list[Note]) -> Response:
    """The frame data[start:end] as one of RESPONSES; `asked` has the parts of its request, if that is known.

    Raises:
        WireError: it is none.
    """
    cursor = Cursor(data, start + HEADER_BYTES, end)
    fields: dict[str, Any] = {}
    sets: list[MessageSet] = []
    try:
        fields["error"] = _error(cursor, notes)
        if command == FETCH_RESPONSE:
            sets.append(_set(cursor.position, end, asked[0] if asked else {}))
            fields["messages_size"] = end - cursor.position
            cursor.position = end
        elif command == MULTIFETCH_RESPONSE:
            _read_parts(cursor, fields, sets, asked, notes)
        elif command == OFFSETS_RESPONSE:
            _read_offsets(cursor, fields)
        else:
            cursor.position = end
    except ShortError:
        return Response(command, fields, sets, short=True)
    if cursor.position < end:
        notes.append(("trailing-bytes", f"{end - cursor.position} bytes follow the response"))
    return Response(command, fields, sets)


def _error(cursor: Cursor, notes: list[Note]) -> str:
    code = cursor.int16()
    if code not in ERRORS:
        notes.append(("unknown-enum", f"error {code} has no name"))
    return error_name(code)


def _set(start: int, end: int, part: dict[str, Any]) -> MessageSet:
    return MessageSet(start, end, part.get("topic"), part.get("partition"), part.get("offset"), part.get("max_size"))


def _read_parts(cursor: Cursor, fields: dict[str, Any], sets: list[MessageSet], asked: Sequence[dict[str, Any]], notes: list[Note]) -> None:
    """A FETCH response for each part of the request, in its order."""
    fields["parts"] = parts = []
    while cursor.position < cursor.end:
        part: dict[str, Any] = {}
        parts.append(part)
        size = cursor.int32()
        if size < ERROR_BYTES:
            raise WireError(f"a part of {size} bytes cannot be")
        part["error"] = _error(cursor, notes)
        part["messages_size"] = size - ERROR_BYTES
        index = len(parts) - 1
        stop = cursor.position + size - ERROR_BYTES
        sets.append(_set(cursor.position, min(stop, cursor.end), asked[index] if index < len(asked) else {}))
        cursor.skip(size - ERROR_BYTES)
    if asked and len(parts) != len(asked):
        notes.append(("response-mismatch", f"{len(parts)} parts answer a request of {len(asked)}"))


def _read_offsets(cursor: Cursor, fields: dict[str, Any]) -> None:
    count = cursor.int32()
    if count < 0:
        raise WireError(f"{count} offsets cannot be")
    start = cursor.skip(count * OFFSET_BYTES)
    fields["offsets"] = list(struct.unpack_from(f">{count}q", cursor.data, start))


def errors_of(fields: dict[str, Any]) -> Sequence[str]:
    """The errors in a response that are some."""
    errors = [fields.get("error"), *(part.get("error") for part in fields.get("parts", ()))]
    return [error for error in errors if error is not None and error != NO_ERROR]


# ---- without the request


def shape(data: bytes, start: int, end: int) -> str | None:
    """What the frame data[start:end] must be: one of RESPONSES, RESPONSE when it can be several; None when it is no response."""
    possible = [command for command in RESPONSES if command != RESPONSE and fits(command, data, start, end)]
    if len(possible) > 1:
        possible = [command for command in possible if _is_proven(command, data, start, end)] or possible
    return possible[0] if len(possible) == 1 else RESPONSE if possible else None


def fits(command: str, data: bytes, start: int, end: int) -> bool:
    """Whether the whole frame data[start:end] can be this response."""
    notes: list[Note] = []
    if command == OFFSETS_RESPONSE and not _is_sized_as_offsets(data, start, end):
        return False
    try:
        response = read_response(command, data, start, end, (), notes)
    except WireError:
        return False
    if response.short or notes:
        return False
    if command == FETCH_RESPONSE:
        (one,) = response.sets
        return one.start == one.end or (response.fields["error"] == NO_ERROR and _begins_set(data, one.start, one.end))
    if response.fields["error"] != NO_ERROR:
        return False  # only single ones fail as a whole
    if command == MULTIFETCH_RESPONSE:
        return all(_begins_set(data, one.start, one.end) for one in response.sets)
    offsets = response.fields["offsets"]
    return all(offset >= 0 for offset in offsets) and offsets == sorted(offsets, reverse=True)


def _is_proven(command: str, data: bytes, start: int, end: int) -> bool:
    """Whether, read as this, its first message has the right CRC32."""
    sums = Sums(end - start)
    for one in read_response(command, data, start, end, (), []).sets:
        if any(True for _ in islice(read_set(data, one.start, one.end, sums), 1)):
            return sums.checksum is not None and sums.checksum.status == "good"
    return False


def _is_sized_as_offsets(data: bytes, start: int, end: int) -> bool:
    """Whether it has the length that its count says: a look that spares reading a large set as offsets."""
    at = start + HEADER_BYTES + ERROR_BYTES
    return end - at >= COUNT_BYTES and end - at - COUNT_BYTES == OFFSET_BYTES * int.from_bytes(data[at : at + COUNT_BYTES], "big")


def _begins_set(data: bytes, start: int, end: int) -> bool:
    """Whether data[start:end] may be a message set, or the cut beginning of one: nothing, or an entry's head as far as it goes."""
    if end - start <= SIZE_BYTES:
        return True
    size = int.from_bytes(data[start : start + SIZE_BYTES], "big", signed=True)
    return size >= LEAST_MESSAGE_BYTES and data[start + SIZE_BYTES] in CRC_AT
