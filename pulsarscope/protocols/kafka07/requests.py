"""Readers of the five requests (kafka.api.ProducerRequest, FetchRequest, MultiFetchRequest, MultiProducerRequest, OffsetRequest)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pulsarscope.dissect.contract.frames import Note
from pulsarscope.protocols.kafka07.commands import FETCH, MULTIFETCH, MULTIPRODUCE, OFFSETS, PRODUCE, REQUESTS
from pulsarscope.protocols.kafka07.cursor import Cursor, ParseError, ShortError
from pulsarscope.protocols.kafka07.framing import HEADER_BYTES

LARGE_BYTES = 1_000_000
"""Largest message that brokers store by default."""

LARGEST_MESSAGE = "largest_message"
"""Name in FrameRow.extra of the size of the largest produced message, if one may exceed that."""


class MessageSet(NamedTuple):
    """The place of a message set in a frame, and in a log."""

    start: int
    end: int
    topic: str | None
    partition: int | None
    offset: int | None = None
    """Offset of its first byte in the log; None if unknown."""
    max_size: int | None = None
    """Bytes requested, for a fetched set."""


class ParsedRequest(NamedTuple):
    """A request, as far as it could be read."""

    command: str
    fields: dict[str, Any]
    sets: Sequence[MessageSet]
    """Message sets that it produces."""
    end: int
    """Position after the last byte that was read."""
    short: bool
    """True when bytes are missing."""


def read_request(data: bytes, start: int, end: int, notes: list[Note]) -> ParsedRequest | None:
    """Return the request in data[start:end] (None for an unknown type); `notes` takes findings. Raises ParseError for a negative length."""
    cursor = Cursor(data, start + HEADER_BYTES, end)
    fields: dict[str, Any] = {}
    sets: list[MessageSet] = []
    try:
        number = cursor.int16()
    except ShortError:
        return None
    if not 0 <= number < len(REQUESTS):
        return None
    command = REQUESTS[number]
    try:
        if command in (MULTIFETCH, MULTIPRODUCE):
            count = cursor.int16()
            if count < 0:
                raise ParseError(f"{count} parts are impossible")
            parts = fields["fetches" if command == MULTIFETCH else "produces"] = []
            single = FETCH if command == MULTIFETCH else PRODUCE
            for _ in range(count):
                part: dict[str, Any] = {}
                parts.append(part)
                _read_part(single, cursor, part, sets, notes)
        else:
            _read_part(command, cursor, fields, sets, notes)
    except ShortError:
        return ParsedRequest(command, fields, sets, end, short=True)
    return ParsedRequest(command, fields, sets, cursor.position, short=False)


def _read_part(command: str, cursor: Cursor, part: dict[str, Any], sets: list[MessageSet], notes: list[Note]) -> None:
    """Read a topic, a partition, and the operation on it."""
    part["topic"] = topic = _text(cursor.short_string(), notes)
    part["partition"] = partition = cursor.int32()
    if command == PRODUCE:
        part["messages_size"] = size = cursor.int32()
        if size < 0:
            raise ParseError(f"{size:,} bytes of messages are impossible")
        sets.append(MessageSet(cursor.position, min(cursor.position + size, cursor.end), topic, partition))
        cursor.skip(size)
    elif command == OFFSETS:
        part["time"] = cursor.int64()
        part["max_offsets"] = cursor.int32()
    else:
        part["offset"] = cursor.int64()
        part["max_size"] = cursor.int32()


def _text(name: bytes | None, notes: list[Note]) -> str | None:
    if name is None:
        return None
    try:
        return name.decode()
    except UnicodeDecodeError:
        notes.append(("invalid-utf8", "the topic is not UTF-8"))
        return name.decode("utf-8", "backslashreplace")


def parts_of(command: str, fields: dict[str, Any]) -> Sequence[dict[str, Any]]:
    """Return the parts of a request, each with its topic and partition; a single request is its only part."""
    if command in (MULTIFETCH, MULTIPRODUCE):
        parts: Sequence[dict[str, Any]] = fields.get("fetches") or fields.get("produces") or ()
        return parts
    return (fields,)


def only_topic(parts: Sequence[dict[str, Any]]) -> str | None:
    """Return the topic that all parts share; None if there are several."""
    topics = {part.get("topic") for part in parts}
    return topics.pop() if len(topics) == 1 else None


def largest_message(data: bytes, sets: Sequence[MessageSet]) -> int:
    """Return the payload size of the largest message of produced sets, as seen by brokers, which do not open compressed messages."""
    largest = 0
    for place in sets:
        start = place.start
        while start + HEADER_BYTES < place.end:
            size = int.from_bytes(data[start : start + HEADER_BYTES], "big", signed=True)
            if size <= 0:
                break
            largest = max(largest, size - (6 if data[start + HEADER_BYTES] else 5))
            start += HEADER_BYTES + size
    return largest
