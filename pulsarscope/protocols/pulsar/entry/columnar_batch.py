"""Messages of a batch with the layout of an earlier one (the same fields with the same lengths), read many at a time, column by column.

Neighbours in a batch mostly differ only in the values of their properties, the key, the sequence id and the payload. So a message that was
read alone leaves its shape. Messages of one shape are at equal distances: a slice with that step gives the same byte of all of them. In
this way, each byte of the metadata is compared with that of the first message, or belongs to one of those values. The run ends at a message
that does not fit. That message is read alone, with the same result (a property test compares the two). `benchmarks.readers` reads batches
with and without shapes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from pulsarscope.protocols.pulsar.frame.field_spans import spans
from pulsarscope.protocols.pulsar.frame.protobuf import Plan

FIXED_MAX_BYTES = 256
"""Most bytes that are the same in all messages, each of which takes a slice; messages with more are read one by one."""

RUN_MAX = 256
"""Messages of a run that are read at once: more would not be faster, and the bytes for comparison are kept."""

STEPPED_MAX_BYTES = 32
"""Texts up to this length are taken byte by byte from all messages, longer ones message by message."""

Place = tuple[int, int]
"""Offset in the message, and length."""


class MessageRun(NamedTuple):
    """Messages of one shape, by column. A column that they lack, or that is not requested, is None."""

    messages: int
    properties: Iterator[dict[str, str]] | None
    """Made when they are taken: a dict takes a hundred times the memory of its bytes."""
    keys: list[str] | None
    sequence_ids: list[int] | None
    payloads: list[bytes]
    """Empty if not requested."""


class MessageShape:
    """Places of the fields of a message, relative to its start in the batch."""

    __slots__ = ("_fixed", "_key", "_offsets", "_sequence_id", "_size", "_values", "names", "payload_size")

    def __init__(self, data: bytes, position: int, payload_size: int, plan: Plan) -> None:
        """Take the shape of a message that `single_messages` has read; `position` is the start of the size of its metadata."""
        stop = position + 4 + int.from_bytes(data[position : position + 4], "big")
        self.payload_size = payload_size
        self._size = stop + payload_size - position
        self.names: list[str] = []
        self._values: list[Place] = []
        self._key: Place | None = None
        self._sequence_id: Place | None = None
        offsets = set(range(stop - position))
        for span in spans(data, position + 4, stop, plan):
            place = span.value - position, span.end - span.value
            if span.name == "key":
                self.names.append(data[span.value : span.end].decode())
                continue
            if span.name == "value":
                self._values.append(place)
            elif span.name == "partition_key":
                self._key = place
            elif span.name == "sequence_id":
                self._sequence_id = place
            else:
                continue
            offsets.difference_update(range(place[0], sum(place)))
        self._offsets = sorted(offsets)
        """Offsets of the bytes that are the same in all messages."""
        self._fixed = bytes([data[position + offset] for offset in self._offsets])

    def read(self, data: bytes, position: int, count: int, *, properties: bool, payloads: bool) -> tuple[int, MessageRun | None]:
        """Read up to `count` messages of this shape from a position on; return the position after them, and the messages (None if none)."""
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
        run = self._read_values(data, position, stop, properties=properties, payloads=payloads)
        return (position, None) if run is None else (stop, run)

    def _read_values(self, data: bytes, position: int, stop: int, *, properties: bool, payloads: bool) -> MessageRun | None:
        """Read the fields that differ; None if they are not all ASCII, or not numbers of that length: such messages are read alone."""
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
        return MessageRun(
            count,
            self._maps(values, count) if properties and values else None,
            None if keys is None else _texts(keys, count),
            sequence_ids,
            [data[end - self.payload_size : end] for end in range(position + size, stop + 1, size)] if payloads else [],
        )

    def _maps(self, values: list[bytes], count: int) -> Iterator[dict[str, str]]:
        names = self.names
        if len(names) == 1:
            (name,) = names
            yield from [{name: value} for value in _texts(values[0], count)]
        else:
            for texts in zip(*[_texts(joined, count) for joined in values], strict=True):
                yield dict(zip(names, texts, strict=True))


def _joined(data: bytes, position: int, stop: int, size: int, place: Place) -> bytes:
    """Return the texts at a place in all messages, each with a line end."""
    offset, length = place
    if length > STEPPED_MAX_BYTES:
        return b"".join([data[at : at + length] + b"\n" for at in range(position + offset, stop, size)])
    joined = bytearray(b"\n") * ((length + 1) * ((stop - position) // size))
    for index in range(length):
        joined[index :: length + 1] = data[position + offset + index : stop : size]
    return bytes(joined)


def _texts(joined: bytes, count: int) -> list[str]:
    """Split texts of the same length, each with a line end."""
    text = joined.decode()
    texts = text.split("\n")
    if len(texts) == count + 1:
        del texts[-1]
        return texts
    step = len(text) // count  # the texts contain line ends
    return [text[at : at + step - 1] for at in range(0, len(text), step)]


def _numbers(columns: list[bytes]) -> list[int] | None:
    """Read varints given byte by byte; None if one of them has more or fewer bytes."""
    last = columns.pop()
    if max(last) > 127 or any(min(column) < 128 for column in columns):
        return None
    numbers = list(last)
    for column in reversed(columns):
        numbers = [(high << 7) + low - 128 for high, low in zip(numbers, column, strict=True)]
    if len(columns) > 8:  # in the contract, unsigned ids are int64
        numbers = [(number + (1 << 63) & 0xFFFF_FFFF_FFFF_FFFF) - (1 << 63) for number in numbers]
    return numbers


@lru_cache(64)
def _columns(fixed: bytes, count: int) -> list[bytes]:
    """Return each of these bytes repeated once per message."""
    return [fixed[index : index + 1] * count for index in range(len(fixed))]
