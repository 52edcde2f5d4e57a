"""Finding a frame by content: the protocol has no magic and no version, so all that can be wrong must be right.

Kafka 0.8 and later begin alike (length, api key) and go on with an api version and a correlation id where 0.7 has a topic: what has no
topic of printable letters there, and sizes that add up to the byte, is not claimed. Message sets are proven by the CRC32 of their first
message, which covers more of it in later versions.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from operator import lt
from struct import Struct
from zlib import crc32

from pulsarscope.dissect.contract import Candidate
from pulsarscope.model.flow import CLIENT
from pulsarscope.model.limits import FRAME_DEFAULT_MAX_BYTES, FRAME_HARD_MAX_BYTES
from pulsarscope.protocols.kafka07.commands import (
    CODECS,
    EARLIEST,
    ERRORS,
    FETCH,
    MULTIFETCH,
    MULTIPRODUCE,
    OFFSETS,
    PRODUCE,
    REQUESTS,
)
from pulsarscope.protocols.kafka07.cursor import Cursor, ShortError
from pulsarscope.protocols.kafka07.messages import CRC_AT, CRC_BYTES, LEAST_MESSAGE_BYTES, MAGIC_1
from pulsarscope.protocols.kafka07.requests import HEADER_BYTES
from pulsarscope.protocols.kafka07.responses import COUNT_BYTES, ERROR_BYTES, OFFSET_BYTES

LEAST_FRAME_BYTES = HEADER_BYTES + ERROR_BYTES
"""A response without anything behind its error."""

LOOKAHEAD_BYTES = 11
"""Length, type, count, length of the topic and its first letter; or length, error, size of a message and its magic."""

PARTS_MAX = 1_000
"""Parts of a request or response that are read to recognise it: clients ask for those of one broker."""

PART_COST = 1_000
"""What reading one part takes: as long as so many bytes take for a checksum."""

TOPIC_MAX_BYTES = 255
"""Longest name of a topic: it names a folder."""

PLACE_BYTES = 8
"""Type, length of the topic, and partition of a request for one partition."""

REST_BYTES = {FETCH: 12, OFFSETS: 12}
"""What follows topic and partition in a request of fixed size."""

OFFSETS_MAX = 10_000
"""Offsets of a response that are read to recognise it: one for each segment of a log."""

PARTITION_MAX = 1 << 20
"""No partition has a greater number."""

OFFSET_MAX = 1 << 56
"""No log has so many bytes, and no time so many milliseconds."""

_HEAD = re.compile(
    rb"(?=(?!\x00{3}[\x00\x01])[\x00-\x04]...(?:"
    rb"\x00[\x00\x01\x04]\x00[\x01-\xff][!-~]|"  # PRODUCE, FETCH, OFFSETS: the topic
    rb"\x00[\x02\x03]..\x00[\x01-\xff][!-~]|"  # MULTIFETCH, MULTIPRODUCE: a count, the first topic
    rb"\x00\x00\x00[\x00-\x50]..[\x00\x01]))",  # a response: no error, a message (or a part, or offsets) of some size
    re.DOTALL,
)

FIRST = Struct(">Ihi")
"""Length, type or error, and what stands behind it."""

_TOPIC = re.compile(rb"[!-~]+")

LIKELY, SURE = PROVEN = ("likely", "sure")


class _UnlikelyError(Exception):
    """It is no frame, as the bytes up to the cursor's position show."""


def find_candidate(data: bytes, position: int, end: int) -> int:
    """The next position whose first bytes could open a frame, or −1."""
    found = _HEAD.search(data, position, end)
    return -1 if found is None else found.start()


class _Look(Cursor):
    """A look at one frame, which may cost no more than a budget."""

    __slots__ = ("budget", "cost")

    def __init__(self, data: bytes, position: int, end: int, budget: int) -> None:
        super().__init__(data, position, end)
        self.budget = budget
        self.cost = 0
        """Beside that of the bytes."""

    def spend(self, cost: int) -> None:
        """More is read, which takes so much."""
        self.cost += cost
        if self.cost > self.budget:
            raise _UnlikelyError


_Reader = Callable[[_Look, int, bool], str]
"""(behind the length, end of the frame, checksums) -> likely or sure; raises ShortError or _UnlikelyError."""


def candidate(data: bytes, position: int, end: int, budget: int, *, checksums: bool = True) -> Candidate | None:
    """See `Dissector.candidate`. Without `checksums`, behind another frame, less is enough."""
    if end - position < LEAST_FRAME_BYTES:
        return Candidate(0, position + LEAST_FRAME_BYTES, "wait", 0)
    length = int.from_bytes(data[position : position + HEADER_BYTES], "big")
    if length == ERROR_BYTES:
        return _judge(_bare, data, position, end, budget, checksums=checksums)
    if end - position < FIRST.size:
        return Candidate(HEADER_BYTES + length, position + FIRST.size, "wait", 0)
    found = None
    for read in _readings(*FIRST.unpack_from(data, position), checksums=checksums):
        other = _judge(read, data, position, end, budget, checksums=checksums)
        # What was looked at in vain was looked at, too.
        found = other if found is None else other._replace(seen=max(found.seen, other.seen), cost=found.cost + other.cost)
        if found.proof != "no":
            break
    return found


def opens(data: bytes, position: int, end: int) -> str | None:
    """The client, when a request stands here: as far as the head of its first message, if it has any."""
    if end - position < FIRST.size:
        return None
    readings = _readings(*FIRST.unpack_from(data, position), checksums=False)
    found = any(
        _judge(read, data, position, end, PARTS_MAX * PART_COST, checksums=False).proof in PROVEN for read in readings if read is _request
    )
    return CLIENT if found else None


def _readings(length: int, kind: int, first: int, *, checksums: bool) -> Iterator[_Reader]:
    """What a frame of this length can be, by its type or error and the size behind it: of most bytes nothing."""
    if not FIRST.size - HEADER_BYTES <= length <= FRAME_HARD_MAX_BYTES - HEADER_BYTES:
        return
    if 0 <= kind < len(REQUESTS):
        command = REQUESTS[kind]
        several = command in (MULTIFETCH, MULTIPRODUCE)
        count, size = (first >> 16, first & 0xFFFF) if several else (1, first >> 16)
        rest = REST_BYTES.get(command)
        lettered = several or ord("!") <= first >> 8 & 0xFF <= ord("~")  # the topic begins so
        if lettered and 1 <= count <= PARTS_MAX and 1 <= size <= TOPIC_MAX_BYTES and rest in (None, length - PLACE_BYTES - size):
            yield _request
    if kind == 0 and first >= 1 and (not checksums or first <= length - ERROR_BYTES - COUNT_BYTES):
        if length == ERROR_BYTES + COUNT_BYTES + first * OFFSET_BYTES:
            yield _offsets
        yield _fetched
        yield _parts_fetched


def _judge(read: _Reader, data: bytes, position: int, end: int, budget: int, *, checksums: bool) -> Candidate:
    """What the bytes are as a request, or as one of the responses."""
    size = HEADER_BYTES + int.from_bytes(data[position : position + HEADER_BYTES], "big")
    stop = position + size
    cursor = _Look(data, position + HEADER_BYTES, min(stop, end), budget)
    seen = None
    try:
        proof = read(cursor, stop, checksums)
    except ShortError as short:
        proof = "no" if short.needed > stop else "wait"
        if proof == "wait":  # for as much again: what is read anew each time is not read for each part
            seen = max(short.needed, min(2 * cursor.position - position, stop))
    except _UnlikelyError:
        proof = "no"
    return Candidate(size, seen or cursor.position, proof, cursor.position - position + cursor.cost)


def _request(cursor: _Look, stop: int, checksums: bool) -> str:
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
            # A request's other parts may be far behind: its first message says enough.
            return LIKELY if messages_end == cursor.position else _first_message(cursor, messages_end, checksums) or LIKELY
        if not (EARLIEST if command == OFFSETS else 0) <= cursor.int64() <= OFFSET_MAX or cursor.int32() <= 0:
            raise _UnlikelyError
    if cursor.position != stop:
        raise _UnlikelyError
    return SURE  # more than sixty bits that had to be as they are


def _skip_topic(cursor: Cursor, size: int) -> None:
    """Go behind a topic; as much of it as there is must be letters, so that no other bytes are waited for."""
    there = min(cursor.position + size, cursor.end)
    letters = _TOPIC.match(cursor.data, cursor.position, there)
    good = cursor.position if letters is None else letters.end()
    if good < there:
        cursor.position = good + 1
        raise _UnlikelyError
    cursor.skip(size)


def _begin(cursor: Cursor, stop: int) -> None:
    """Go behind the error of a response that has something there."""
    if cursor.int16() != 0 or cursor.position == stop:
        raise _UnlikelyError


def _offsets(cursor: _Look, stop: int, checksums: bool) -> str:
    del checksums
    _begin(cursor, stop)
    count = cursor.int32()
    if not 1 <= count <= OFFSETS_MAX or stop - cursor.position != count * OFFSET_BYTES:
        raise _UnlikelyError
    cursor.spend(count * OFFSET_BYTES)
    offsets = struct.unpack_from(f">{count}q", cursor.data, cursor.skip(count * OFFSET_BYTES))
    if offsets[-1] < 0 or any(map(lt, offsets, offsets[1:])):
        raise _UnlikelyError
    return LIKELY


def _bare(cursor: _Look, stop: int, checksums: bool) -> str:
    """A response without anything behind its error: too little to begin with, enough to follow another frame."""
    del stop
    if checksums or cursor.int16() not in ERRORS:
        raise _UnlikelyError
    return LIKELY


def _fetched(cursor: _Look, stop: int, checksums: bool) -> str:
    _begin(cursor, stop)
    return _needed(_first_message(cursor, stop, checksums))


def _parts_fetched(cursor: _Look, stop: int, checksums: bool) -> str:
    """A MULTIFETCH response, by the first of its parts that has messages."""
    _begin(cursor, stop)
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
            return _needed(_first_message(cursor, messages_end, checksums))
    if checksums or cursor.position < stop:
        raise _UnlikelyError
    return LIKELY


def _needed(proof: str | None) -> str:
    if proof is None:
        raise _UnlikelyError
    return proof


def _first_message(cursor: _Look, messages_end: int, checksums: bool) -> str | None:
    """How sure the first message of a set makes us; None when it is no whole message, or its CRC32 is wrong, and that was to be proven."""
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
        return None  # of no bytes the CRC32 is 0: any zeros would do
    stored = cursor.int32() & 0xFFFFFFFF
    start = cursor.skip(message + size - cursor.position)
    return SURE if crc32(cursor.data[start : message + size]) == stored else None
