"""Messages of a batch laid out as one before: the same fields, each as long, read many at a time and column by column.

Of what a producer batches, neighbours mostly differ only in the values of their properties, in the key, the sequence id and the payload.
So a message that was read field by field leaves behind its shape. Messages of one shape stand at equal distances: a slice with that step
is the same byte of all of them. Every byte of the metadata is compared with that message's so, or belongs to one of those values, which
are looked at as well. Where a message does not fit the run ends; it is read field by field, to the same end (a property test holds the
two together).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

FIXED_MAX_BYTES = 256
"""Messages with more bytes that are the same in all of them, each of which takes a slice, are read one by one."""

RUN_MAX = 256
"""Messages of a run that are read at once: more are not faster, and what they are compared with is kept."""

STEPPED_MAX_BYTES = 32
"""Texts up to this length are taken byte by byte of all messages, longer ones message by message."""

Place = tuple[int, int]
"""Offset in the message, and length."""


class Run(NamedTuple):
    """Messages that are alike, by column. A column that they do not have, or that is not wanted, is None."""

    messages: int
    properties: Iterator[dict[str, str]] | None
    """Made when they are taken: a dict takes a hundred times what it says."""
    keys: list[str] | None
    sequence_ids: list[int] | None
    payloads: list[bytes] | None


class Shape:
    """How a message lies in its batch."""

    __slots__ = (
        "_fixed",
        "_key",
        "_names",
        "_offsets",
        "_sequence_id",
        "_size",
        "_values",
        "_want_payloads",
        "_want_properties",
        "payload_size",
    )

    def __init__(self, data: bytes, position: int, payload_size: int, *, want_properties: bool, want_payloads: bool) -> None:
        """Of the message at `position`, whose metadata are in the usual form (see `BatchReader.read_usual`)."""
        self.payload_size = payload_size
        self._want_properties = want_properties
        self._want_payloads = want_payloads
        self._names: list[str] = []
        self._values: list[Place] = []
        self._key: Place | None = None
        self._sequence_id: Place | None = None
        at = position + 4
        stop = at + int.from_bytes(data[position:at], "big")
        self._size = stop - position + payload_size
        while data[at] == 10:
            middle = at + 4 + data[at + 3]
            self._names.append(data[at + 4 : middle].decode())
            self._values.append((middle + 2 - position, data[middle + 1]))
            at += 2 + data[at + 1]
        if data[at] == 18:
            self._key = at + 2 - position, data[at + 1]
            at += 2 + data[at + 1]
        at += 1
        while data[at] > 127:
            at += 1
        if at + 1 < stop:
            self._sequence_id = at + 2 - position, stop - at - 2
        varying = [place for place in (*self._values, self._key, self._sequence_id) if place is not None]
        offsets = set(range(stop - position)).difference(*[range(offset, offset + length) for offset, length in varying])
        self._offsets = sorted(offsets)
        """Of the bytes that are the same in all messages."""
        self._fixed = bytes([data[position + offset] for offset in self._offsets])

    def read(self, data: bytes, position: int, count: int) -> tuple[int, Run | None]:
        """The messages from `position` on that have this shape, `count` at the most; where they end. None when there are none."""
        size = self._size
        count = min(count, (len(data) - position) // size)
        if count < 1 or len(self._fixed) > FIXED_MAX_BYTES or not data.startswith(self._fixed[:4], position):
            return position, None
        stop = position + count * size
        for offset, expected in zip(self._offsets, _columns(self._fixed, count), strict=True):
            column = data[position + offset : stop : size]
            if column != expected:
                stop = min(stop, position + (len(column) - len(column.lstrip(expected[:1]))) * size)
                if stop == position:
                    return position, None
        run = self._read_values(data, position, stop)
        return (position, None) if run is None else (stop, run)

    def _read_values(self, data: bytes, position: int, stop: int) -> Run | None:
        """What differs in these messages. None when it is not all ASCII, or not numbers of that length: that needs a closer look."""
        size = self._size
        values = [_joined(data, position, stop, size, place) for place in self._values]
        keys = None if self._key is None else _joined(data, position, stop, size, self._key)
        if not all(map(bytes.isascii, values)) or not (keys is None or keys.isascii()):
            return None
        sequence_ids = None
        if self._sequence_id is not None:
            offset, length = self._sequence_id
            sequence_ids = _numbers([data[position + at : stop : size] for at in range(offset, offset + length)])
            if sequence_ids is None:
                return None
        count = (stop - position) // size
        payloads = None
        if self._want_payloads:
            payloads = [data[end - self.payload_size : end] for end in range(position + size, stop + 1, size)]
        return Run(
            count,
            self._maps(values, count) if self._want_properties and values else None,
            None if keys is None else _texts(keys, count),
            sequence_ids,
            payloads,
        )

    def _maps(self, values: list[bytes], count: int) -> Iterator[dict[str, str]]:
        names = self._names
        if len(names) == 1:
            (name,) = names
            yield from [{name: value} for value in _texts(values[0], count)]
        else:
            for some in zip(*[_texts(joined, count) for joined in values], strict=True):
                yield dict(zip(names, some, strict=True))


def _joined(data: bytes, position: int, stop: int, size: int, place: Place) -> bytes:
    """The texts at this place of all messages, each with a line end."""
    offset, length = place
    if length > STEPPED_MAX_BYTES:
        return b"".join([data[at : at + length] + b"\n" for at in range(position + offset, stop, size)])
    joined = bytearray(b"\n") * ((length + 1) * ((stop - position) // size))
    for index in range(length):
        joined[index :: length + 1] = data[position + offset + index : stop : size]
    return bytes(joined)


def _texts(joined: bytes, count: int) -> list[str]:
    """Texts of the same length, each with a line end."""
    text = joined.decode()
    texts = text.split("\n")
    if len(texts) == count + 1:
        del texts[-1]
        return texts
    step = len(text) // count  # there are line ends in them
    return [text[at : at + step - 1] for at in range(0, len(text), step)]


def _numbers(columns: list[bytes]) -> list[int] | None:
    """Varints of so many bytes each, given byte by byte. None when one of them is longer or shorter."""
    last = columns.pop()
    if max(last) > 127 or any(min(column) < 128 for column in columns):
        return None
    numbers = list(last)
    for column in reversed(columns):
        numbers = [(high << 7) + low - 128 for high, low in zip(numbers, column, strict=True)]
    return numbers


@lru_cache(64)
def _columns(fixed: bytes, count: int) -> list[bytes]:
    """Each of these bytes as so many messages have it."""
    return [fixed[index : index + 1] * count for index in range(len(fixed))]
