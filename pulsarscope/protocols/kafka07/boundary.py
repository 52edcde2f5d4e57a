"""Recognition of frames by content: the protocol has no magic and no version, so every field of a frame must be plausible.

Kafka 0.8 and later versions begin in the same way (length, API key), but continue with an API version and a correlation id where 0.7 has a
topic. Therefore a frame needs a topic of printable letters, and sizes that add up exactly. Message sets are proven by the CRC32 of their
first message, which covers more of the message in later versions.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from operator import lt
from struct import Struct
from zlib import crc32

from pulsarscope.dissect.contract.dissector import Candidate
from pulsarscope.model.flow import CLIENT
from pulsarscope.model.limits import FRAME_DEFAULT_MAX_BYTES, FRAME_HARD_MAX_BYTES
from pulsarscope.protocols.kafka07.commands import CODECS, EARLIEST, ERRORS, FETCH, MULTIFETCH, MULTIPRODUCE, OFFSETS, PRODUCE, REQUESTS
from pulsarscope.protocols.kafka07.cursor import Cursor, ShortError
from pulsarscope.protocols.kafka07.framing import ERROR_BYTES, HEADER_BYTES, LEAST_FRAME_BYTES
from pulsarscope.protocols.kafka07.messages import CRC_AT, CRC_BYTES, LEAST_MESSAGE_BYTES, MAGIC_1
from pulsarscope.protocols.kafka07.responses import COUNT_BYTES, OFFSET_BYTES

PARTS_MAX = 1_000
"""Parts of a request or response that are read to recognise it: a client requests the partitions of one broker."""

PART_COST = 1_000
"""Cost of reading one part, as the number of bytes whose checksum takes as long."""

TOPIC_MAX_BYTES = 255
"""Longest name of a topic, which becomes the name of a folder."""

PLACE_BYTES = 8
"""Type, length of the topic, and partition of a request for one partition."""

REST_BYTES = {FETCH: 12, OFFSETS: 12}
"""Bytes after topic and partition in requests of fixed size."""

OFFSETS_MAX = 10_000
"""Offsets of a response that are read to recognise it; a log has one for each segment."""

PARTITION_MAX = 1 << 20
"""Highest number of a partition."""

OFFSET_MAX = 1 << 56
"""Highest offset in bytes, and highest time in milliseconds."""

_HEAD = re.compile(
    rb"(?=(?!\x00{3}[\x00\x01])[\x00-\x04]...(?:"
    rb"\x00[\x00\x01\x04]\x00[\x01-\xff][!-~]|"  # PRODUCE, FETCH, OFFSETS: the topic
    rb"\x00[\x02\x03]..\x00[\x01-\xff][!-~]|"  # MULTIFETCH, MULTIPRODUCE: a count, the first topic
    rb"\x00\x00\x00[\x00-\x50]..[\x00\x01]))",  # a response: no error, then a message (or a part, or offsets) of some size
    re.DOTALL,
)

FIRST = Struct(">Ihi")
"""Length, type or error, and the next field."""

_TOPIC = re.compile(rb"[!-~]+")

LIKELY, SURE = PROVEN = ("likely", "sure")


class _UnlikelyError(Exception):
    """The bytes up to the cursor's position do not begin a frame."""


def find_candidate(data: bytes, position: int, end: int) -> int:
    """Return the next position at which a frame could begin, or −1."""
    match = _HEAD.search(data, position, end)
    return -1 if match is None else match.start()


class _BoundedCursor(Cursor):
    """A cursor with a budget for reading one frame."""

    __slots__ = ("budget", "cost")

    def __init__(self, data: bytes, position: int, end: int, budget: int) -> None:
        super().__init__(data, position, end)
        self.budget = budget
        self.cost = 0
        """Cost so far, in addition to that of the bytes."""

    def spend(self, cost: int) -> None:
        """Add to the cost."""
        self.cost += cost
        if self.cost > self.budget:
            raise _UnlikelyError


_Reader = Callable[[_BoundedCursor, int, bool], str]
"""A function that returns "likely" or "sure", given a cursor after the length, the end of the frame, and whether checksums count.

Raises ShortError or _UnlikelyError.
"""


def candidate(data: bytes, position: int, end: int, budget: int, *, checksums: bool = True) -> Candidate | None:
    """See `Dissector.recognise`. Without `checksums`, after another frame, weaker proof is enough."""
    if end - position < LEAST_FRAME_BYTES:
        return Candidate(0, position + LEAST_FRAME_BYTES, "wait", 0)
    length = int.from_bytes(data[position : position + HEADER_BYTES], "big")
    if length == ERROR_BYTES:
        return _examine(_error_response, data, position, end, budget, checksums=checksums)
    if end - position < FIRST.size:
        return Candidate(HEADER_BYTES + length, position + FIRST.size, "wait", 0)
    best = None
    for read in _readers(*FIRST.unpack_from(data, position), checksums=checksums):
        result = _examine(read, data, position, end, budget, checksums=checksums)
        # Bytes that were read without a result also count.
        best = result if best is None else result._replace(seen=max(best.seen, result.seen), cost=best.cost + result.cost)
        if best.proof != "no":
            break
    return best


def opens(data: bytes, position: int, end: int) -> str | None:
    """Return the client if a request begins here, checked up to the head of its first message."""
    if end - position < FIRST.size:
        return None
    readers = _readers(*FIRST.unpack_from(data, position), checksums=False)
    is_request = any(
        _examine(read, data, position, end, PARTS_MAX * PART_COST, checksums=False).proof in PROVEN for read in readers if read is _request
    )
    return CLIENT if is_request else None


def _readers(length: int, kind: int, first: int, *, checksums: bool) -> Iterator[_Reader]:
    """Yield a reader for each kind of frame that the length, the type or error, and the next field allow."""
    if not FIRST.size - HEADER_BYTES <= length <= FRAME_HARD_MAX_BYTES - HEADER_BYTES:
        return
    if 0 <= kind < len(REQUESTS):
        command = REQUESTS[kind]
        several = command in (MULTIFETCH, MULTIPRODUCE)
        count, size = (first >> 16, first & 0xFFFF) if several else (1, first >> 16)
        rest = REST_BYTES.get(command)
        has_letter = several or ord("!") <= first >> 8 & 0xFF <= ord("~")  # the first character of the topic
        if has_letter and 1 <= count <= PARTS_MAX and 1 <= size <= TOPIC_MAX_BYTES and rest in (None, length - PLACE_BYTES - size):
            yield _request
    if kind == 0 and first >= 1 and (not checksums or first <= length - ERROR_BYTES - COUNT_BYTES):
        if length == ERROR_BYTES + COUNT_BYTES + first * OFFSET_BYTES:
            yield _offsets_response
        yield _fetch_response
        yield _multifetch_response


def _examine(read: _Reader, data: bytes, position: int, end: int, budget: int, *, checksums: bool) -> Candidate:
    """Return the candidate found by one reader in the bytes."""
    size = HEADER_BYTES + int.from_bytes(data[position : position + HEADER_BYTES], "big")
    stop = position + size
    cursor = _BoundedCursor(data, position + HEADER_BYTES, min(stop, end), budget)
    seen = None
    try:
        proof = read(cursor, stop, checksums)
    except ShortError as short:
        proof = "no" if short.needed > stop else "wait"
        if proof == "wait":  # for twice as much: the frame is read again each time, which must not happen for each part
            seen = max(short.needed, min(2 * cursor.position - position, stop))
    except _UnlikelyError:
        proof = "no"
    if proof == SURE and size > FRAME_DEFAULT_MAX_BYTES:  # a message within a set does not prove the length before it
        proof = LIKELY
    return Candidate(size, seen or cursor.position, proof, cursor.position - position + cursor.cost)


def _request(cursor: _BoundedCursor, stop: int, checksums: bool) -> str:
    number = cursor.int16()
    if not 0 <= number < len(REQUESTS):
        raise _UnlikelyError
    command = REQUESTS[number]
    count = cursor.int16() if command in (MULTIFETCH, MULTIPRODUCE) else 1
    if not 1 <= count <= PARTS_MAX:
        raise _UnlikelyError
    for index in range(count):
        if index:
            cursor.spend(PART_COST)
        size = cursor.int16()
        if not 1 <= size <= TOPIC_MAX_BYTES:
            raise _UnlikelyError
        _skip_topic(cursor, size)
        if not -1 <= cursor.int32() <= PARTITION_MAX:
            raise _UnlikelyError
        if command in (PRODUCE, MULTIPRODUCE):
            messages_end = cursor.int32() + cursor.position
            if messages_end > stop or messages_end < cursor.position or (command == PRODUCE and messages_end != stop):
                raise _UnlikelyError
            # The other parts of a request may be far away: the first message is proof enough.
            return LIKELY if messages_end == cursor.position else _first_message(cursor, messages_end, checksums) or LIKELY
        if not (EARLIEST if command == OFFSETS else 0) <= cursor.int64() <= OFFSET_MAX or cursor.int32() <= 0:
            raise _UnlikelyError
    if cursor.position != stop:
        raise _UnlikelyError
    return SURE  # more than sixty bits had to match


def _skip_topic(cursor: Cursor, size: int) -> None:
    """Skip a topic. All its available bytes must be letters, so that the reader does not wait for other data."""
    stop = min(cursor.position + size, cursor.end)
    letters = _TOPIC.match(cursor.data, cursor.position, stop)
    letters_end = cursor.position if letters is None else letters.end()
    if letters_end < stop:
        cursor.position = letters_end + 1
        raise _UnlikelyError
    cursor.skip(size)


def _skip_error(cursor: Cursor, stop: int) -> None:
    """Skip the error of a response that continues after it."""
    if cursor.int16() != 0 or cursor.position == stop:
        raise _UnlikelyError


def _offsets_response(cursor: _BoundedCursor, stop: int, checksums: bool) -> str:
    del checksums
    _skip_error(cursor, stop)
    count = cursor.int32()
    if not 1 <= count <= OFFSETS_MAX or stop - cursor.position != count * OFFSET_BYTES:
        raise _UnlikelyError
    cursor.spend(count * OFFSET_BYTES)
    offsets = struct.unpack_from(f">{count}q", cursor.data, cursor.skip(count * OFFSET_BYTES))
    if offsets[-1] < 0 or any(map(lt, offsets, offsets[1:])):
        raise _UnlikelyError
    return LIKELY


def _error_response(cursor: _BoundedCursor, stop: int, checksums: bool) -> str:
    """Read a response with nothing after its error: too little proof at the beginning of a stream, enough after another frame."""
    del stop
    if checksums or cursor.int16() not in ERRORS:
        raise _UnlikelyError
    return LIKELY


def _fetch_response(cursor: _BoundedCursor, stop: int, checksums: bool) -> str:
    _skip_error(cursor, stop)
    return _required(_first_message(cursor, stop, checksums))


def _multifetch_response(cursor: _BoundedCursor, stop: int, checksums: bool) -> str:
    """Read a MULTIFETCH response, up to the first of its parts that has messages."""
    _skip_error(cursor, stop)
    for index in range(PARTS_MAX):
        if cursor.position == stop:
            break
        if index:
            cursor.spend(PART_COST)
        size = cursor.int32()
        messages_end = cursor.position + size
        if size < ERROR_BYTES or messages_end > stop or cursor.int16() not in ERRORS:
            raise _UnlikelyError
        if cursor.position < messages_end:
            return _required(_first_message(cursor, messages_end, checksums))
    if checksums or cursor.position < stop:
        raise _UnlikelyError
    return LIKELY


def _required(proof: str | None) -> str:
    if proof is None:
        raise _UnlikelyError
    return proof


def _first_message(cursor: _BoundedCursor, messages_end: int, checksums: bool) -> str | None:
    """Return the proof from the first message of a set; None if it is malformed or, where checksums count, cut or corrupt."""
    size = cursor.int32()
    message = cursor.position
    magic = cursor.data[cursor.skip(1)]
    if size < LEAST_MESSAGE_BYTES or magic not in CRC_AT:
        return None
    if magic == MAGIC_1 and cursor.data[cursor.skip(1)] not in CODECS:
        return None
    if not checksums:
        return LIKELY
    if message + size > messages_end or size > min(cursor.budget, FRAME_DEFAULT_MAX_BYTES):
        return None
    if size <= CRC_AT[magic] + CRC_BYTES:
        return None  # the CRC32 of no bytes is 0: any zeros would match
    stored = cursor.int32() & 0xFFFFFFFF
    start = cursor.skip(message + size - cursor.position)
    return SURE if crc32(cursor.data[start : message + size]) == stored else None
