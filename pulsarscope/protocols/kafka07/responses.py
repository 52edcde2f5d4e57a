"""Readers of the three responses. They have no type: the request decides which one it is, and the bytes only show which ones it can be."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

from pulsarscope.dissect.contract.frames import Note
from pulsarscope.model.text import plural
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
from pulsarscope.protocols.kafka07.cursor import Cursor, ParseError, ShortError
from pulsarscope.protocols.kafka07.framing import ERROR_BYTES, HEADER_BYTES
from pulsarscope.protocols.kafka07.messages import CRC_AT, LEAST_MESSAGE_BYTES, SIZE_BYTES, MessageTotals, read_set
from pulsarscope.protocols.kafka07.requests import MessageSet

COUNT_BYTES = 4
OFFSET_BYTES = 8


class ParsedResponse(NamedTuple):
    """A response, as far as it could be read."""

    command: str
    fields: dict[str, Any]
    sets: Sequence[MessageSet] = ()
    """Message sets that it delivers."""
    short: bool = False
    """True when bytes are missing."""


def read_response(
    command: str, data: bytes, start: int, end: int, requested: Sequence[dict[str, Any]], notes: list[Note]
) -> ParsedResponse:
    """Read data[start:end] as a kind of response to `requested` (empty if unknown); `notes` takes findings. Raises ParseError."""
    cursor = Cursor(data, start + HEADER_BYTES, end)
    fields: dict[str, Any] = {}
    sets: list[MessageSet] = []
    try:
        fields["error"] = _error(cursor, notes)
        if command == FETCH_RESPONSE:
            sets.append(_set(cursor.position, end, requested[0] if requested else {}))
            fields["messages_size"] = end - cursor.position
            cursor.position = end
        elif command == MULTIFETCH_RESPONSE:
            _read_parts(cursor, fields, sets, requested, notes)
        elif command == OFFSETS_RESPONSE:
            _read_offsets(cursor, fields)
        else:
            cursor.position = end
    except ShortError:
        return ParsedResponse(command, fields, sets, short=True)
    if cursor.position < end:
        notes.append(("trailing-bytes", f"{plural(end - cursor.position, 'byte')} behind the response"))
    return ParsedResponse(command, fields, sets)


def _error(cursor: Cursor, notes: list[Note]) -> str:
    code = cursor.int16()
    if code not in ERRORS:
        notes.append(("unknown-enum", f"error {code} has no name"))
    return error_name(code)


def _set(start: int, end: int, part: dict[str, Any]) -> MessageSet:
    return MessageSet(start, end, part.get("topic"), part.get("partition"), part.get("offset"), part.get("max_size"))


def _read_parts(
    cursor: Cursor, fields: dict[str, Any], sets: list[MessageSet], requested: Sequence[dict[str, Any]], notes: list[Note]
) -> None:
    """Read a FETCH response for each part of the request, in order."""
    fields["parts"] = parts = []
    while cursor.position < cursor.end:
        part: dict[str, Any] = {}
        parts.append(part)
        size = cursor.int32()
        if size < ERROR_BYTES:
            raise ParseError(f"a part of {size:,} bytes is impossible")
        part["error"] = _error(cursor, notes)
        part["messages_size"] = size - ERROR_BYTES
        index = len(parts) - 1
        stop = cursor.position + size - ERROR_BYTES
        sets.append(_set(cursor.position, min(stop, cursor.end), requested[index] if index < len(requested) else {}))
        cursor.skip(size - ERROR_BYTES)
    if requested and len(parts) != len(requested):
        notes.append(("response-mismatch", f"{len(parts)} parts answer a request of {len(requested)}"))


def _read_offsets(cursor: Cursor, fields: dict[str, Any]) -> None:
    count = cursor.int32()
    if count < 0:
        raise ParseError(f"{count} offsets are impossible")
    start = cursor.skip(count * OFFSET_BYTES)
    fields["offsets"] = list(struct.unpack_from(f">{count}q", cursor.data, start))


def errors_of(fields: dict[str, Any]) -> Sequence[str]:
    """Return the errors in a response, without codes that mean success."""
    errors = [fields.get("error"), *(part.get("error") for part in fields.get("parts", ()))]
    return [error for error in errors if error is not None and error != NO_ERROR]


# ---- without the request


def shape(data: bytes, start: int, end: int) -> str | None:
    """Return the kind of response in the frame data[start:end]: RESPONSE if several are possible, None if it is not a response."""
    possible = _fitting(data, start, end)
    return possible[0] if len(possible) == 1 else RESPONSE if possible else None


def possible_commands(data: bytes, start: int, end: int) -> dict[str, int]:
    """Return the kinds of response that the complete frame data[start:end] can be, each with its number of message sets.

    If no kind with complete message sets fits, kinds with damaged sets count: a fetch from within a message returns those in complete
    frames.
    """
    possible = _fitting(data, start, end)
    if not possible:
        possible = [command for command in (FETCH_RESPONSE, MULTIFETCH_RESPONSE) if _is_framed_as(command, data, start, end)]
    return {command: len(read_response(command, data, start, end, (), []).sets) for command in possible}


def _fitting(data: bytes, start: int, end: int) -> Sequence[str]:
    """Return the kinds of response with complete message sets that a frame can be; if a checksum proves some, only those."""
    possible = [command for command in RESPONSES if command != RESPONSE and fits(command, data, start, end)]
    if len(possible) > 1:
        possible = [command for command in possible if _is_proven(command, data, start, end)] or possible
    return possible


def _is_framed_as(command: str, data: bytes, start: int, end: int) -> bool:
    """Return True if the complete frame data[start:end], apart from its message sets, can be this response."""
    notes: list[Note] = []
    try:
        response = read_response(command, data, start, end, (), notes)
    except ParseError:
        return False
    if response.short or notes:
        return False
    empty = all(message_set.start == message_set.end for message_set in response.sets)
    return command != FETCH_RESPONSE or response.fields["error"] == NO_ERROR or empty


def fits(command: str, data: bytes, start: int, end: int) -> bool:
    """Return True if the complete frame data[start:end] can be this response."""
    if (command == OFFSETS_RESPONSE and not _is_sized_as_offsets(data, start, end)) or not _is_framed_as(command, data, start, end):
        return False
    response = read_response(command, data, start, end, (), [])
    if command == FETCH_RESPONSE:
        start, end = response.sets[0][:2]
        return _begins_set(data, start, end)
    if response.fields["error"] != NO_ERROR:
        return False  # only a FETCH can fail as a whole
    if command == MULTIFETCH_RESPONSE:
        return all(_begins_set(data, message_set.start, message_set.end) for message_set in response.sets)
    offsets = response.fields["offsets"]
    return all(offset >= 0 for offset in offsets) and offsets == sorted(offsets, reverse=True)


def _is_proven(command: str, data: bytes, start: int, end: int) -> bool:
    """Return True if the first message of this response has the correct CRC32."""
    totals = MessageTotals(end - start, stored=True)
    for message_set in read_response(command, data, start, end, (), []).sets:
        if any(True for _ in islice(read_set(data, message_set.start, message_set.end, totals), 1)):
            return totals.checksum is not None and totals.checksum.status == "good"
    return False


def _is_sized_as_offsets(data: bytes, start: int, end: int) -> bool:
    """Return True if the length of the frame matches its count. This check avoids reading a large set as offsets."""
    position = start + HEADER_BYTES + ERROR_BYTES
    size = end - position - COUNT_BYTES
    return size >= 0 and size == OFFSET_BYTES * int.from_bytes(data[position : position + COUNT_BYTES], "big")


def _begins_set(data: bytes, start: int, end: int) -> bool:
    """Return True if data[start:end] may begin a message set: it is empty, or has the head of an entry as far as available."""
    if end - start <= SIZE_BYTES:
        return True
    size = int.from_bytes(data[start : start + SIZE_BYTES], "big", signed=True)
    return size >= LEAST_MESSAGE_BYTES and data[start + SIZE_BYTES] in CRC_AT
