"""Frames without the parts that must not be shared: topics are masked, messages blank. No byte moves, and each CRC32 is computed again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from itertools import islice
from zlib import crc32

from pulsarscope.dissect.blanking.blank_content import (
    DISTINCT_BYTES,
    FITTED_MAX_BYTES,
    Area,
    Compress,
    CompressionBudget,
    deflations,
    filler,
    fitted,
    lengthened,
    snappy_blocks,
)
from pulsarscope.dissect.blanking.longer_streams import longer_snappy
from pulsarscope.inputs.xerial import BLOCK_BYTES, BLOCKS_AT, compress_xerial
from pulsarscope.inputs.xerial import MAGIC as XERIAL_MAGIC
from pulsarscope.inputs.xerial import SIZE_BYTES as BLOCK_SIZE_BYTES
from pulsarscope.model.limits import BATCH_MESSAGES_MAX, DECOMPRESSED_MAX_BYTES, MESSAGE_SETS_DEPTH_MAX
from pulsarscope.model.masked_names import MaskedNames
from pulsarscope.model.records import FrameRow
from pulsarscope.protocols.kafka07.commands import (
    CODEC_BITS,
    CODECS,
    FETCH_RESPONSE,
    MULTIFETCH,
    MULTIFETCH_RESPONSE,
    MULTIPRODUCE,
    OFFSETS_RESPONSE,
    PRODUCE,
    REQUESTS,
    RESPONSE,
)
from pulsarscope.protocols.kafka07.framing import HEADER_BYTES
from pulsarscope.protocols.kafka07.messages import (
    CRC_AT,
    CRC_BYTES,
    GZIP_WBITS,
    LARGEST_MESSAGE_BYTES,
    LEAST_MESSAGE_BYTES,
    MAGIC_1,
    SIZE_BYTES,
    decompress,
)
from pulsarscope.protocols.kafka07.responses import shape

UNREADABLE = b"\xff"
"""A byte that begins neither a message nor anything else."""

_EMPTY_BLOCK = b"\0\0\0\1\0"
"""A Snappy block without content, after its size."""

_NO_SIZE, _NO_MAGIC = b"\x7f\xff\xff\xff", b"\xff"
"""Invalid size and magic, to replace other invalid ones: those are bytes from within a message."""


FITTED_FACTOR = 400
"""Bytes that are compressed and decompressed per byte of a frame, in addition to `FITTED_MAX_BYTES`: tenfold content, forty times."""


class Kafka07Redaction:
    """The redaction of frames under a key."""

    def __init__(self, names: MaskedNames) -> None:
        self._names = names
        self._kept = True
        self._budget = CompressionBudget()

    def redact(self, row: FrameRow, data: bytes) -> tuple[bytes, bool]:
        """See `dissect.contract.capabilities.Redact`."""
        self._kept = True
        self._budget = CompressionBudget(FITTED_MAX_BYTES + FITTED_FACTOR * len(data))
        writer = _Writer(data)
        writer.copy(HEADER_BYTES + 2)  # the type, or the error
        command = shape(data, 0, len(data)) if row.command == RESPONSE else row.command
        if command in REQUESTS:
            several = command in (MULTIFETCH, MULTIPRODUCE)
            for _ in range(max(writer.copy(2), 0) if several else 1):
                if writer.ended:
                    break
                writer.put(self._names.name(writer.take(writer.copy(2))))
                writer.copy(4)
                if command in (PRODUCE, MULTIPRODUCE):
                    writer.put(self._set(writer.take(writer.copy(4))))
                else:
                    writer.copy(12)
        elif command == FETCH_RESPONSE:
            writer.put(self._set(writer.take(len(data))))
        elif command == MULTIFETCH_RESPONSE:
            while not writer.ended:
                size = writer.copy(4)
                writer.copy(2)
                writer.put(self._set(writer.take(size - 2)))
        elif command == OFFSETS_RESPONSE:
            writer.copy(len(data))
        writer.put(UNREADABLE * (len(data) - writer.position))
        return bytes(writer.out), self._kept

    def _set(self, data: bytes, depth: int = 0, distinct: int = DISTINCT_BYTES[0]) -> bytes:
        """Return a redacted message set, with at most `distinct` bytes by which inner sets differ. Bytes after its messages are blank."""
        out = bytearray(len(data))
        for start, stop, crc_at in _messages(data):
            head = crc_at + CRC_BYTES if crc_at else SIZE_BYTES + 1
            out[start : start + head] = data[start : start + head]
            if crc_at is None:
                continue
            payload = data[start + head : stop]
            number = data[start + crc_at - 1] & CODEC_BITS if data[start + SIZE_BYTES] == MAGIC_1 else 0
            made = self._payload(CODECS.get(number, ""), payload, depth, distinct)
            if made is None:  # a blank message that is not compressed
                self._kept = False
                out[start + crc_at - 1] &= ~CODEC_BITS & 0xFF
                made = filler(self._names, payload)
            out[start + head : stop] = made
            if stop <= len(data):
                is_bad = crc32(payload) != _number(data[start + crc_at : start + head])
                out[start + crc_at : start + head] = (crc32(made) ^ is_bad).to_bytes(CRC_BYTES, "big")
        begins, ends = _odd_head(data)
        out[begins : begins + len(ends)] = ends
        return bytes(out)

    def _payload(self, codec: str, payload: bytes, depth: int, most: int) -> bytes | None:
        """Return a payload of the same size with as many blank messages of the same sizes; None if that is not possible."""
        if codec not in ("GZIP", "SNAPPY"):
            return filler(self._names, payload)
        if self._budget.left <= 0:
            return None
        opened = decompress(codec, payload, DECOMPRESSED_MAX_BYTES).data if depth < MESSAGE_SETS_DEPTH_MAX else None
        self._budget.spend(len(payload if opened is None else opened))
        if opened is None:
            return filler(self._names, payload)  # it cannot be read either
        if any(True for _ in islice(_messages(opened), BATCH_MESSAGES_MAX, None)):
            return None
        bad = {start for start, end in _blank_areas(opened) if crc32(opened[start:end]) != _number(opened[start - CRC_BYTES : start])}
        compressors = [_behind(partial(_with_checksums, bad=bad), compress) for compress in _compressors(codec, payload)]
        for distinct in (each for each in DISTINCT_BYTES if each <= most):
            content = bytearray(self._set(opened, depth + 1, distinct))
            areas = _blank_areas(content)
            for start, end in areas:
                content[start + distinct : end] = bytes(max(end - start - distinct, 0))
            if (found := fitted(self._names, compressors, bytes(content), areas, len(payload), self._budget)) is not None:
                return found
        return None


class _Writer:
    """The redacted bytes of a frame, up to the end of the available bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.out = bytearray()

    @property
    def position(self) -> int:
        return len(self.out)

    @property
    def ended(self) -> bool:
        return len(self.out) >= len(self._data)

    def take(self, size: int) -> bytes:
        """Return the next bytes, which `put` replaces."""
        return self._data[self.position : self.position + max(size, 0)]

    def put(self, value: bytes) -> None:
        self.out += value

    def copy(self, size: int) -> int:
        """Copy the next bytes, and return them as a number."""
        value = self.take(size)
        self.put(value)
        return int.from_bytes(value[:8], "big", signed=True)


def _messages(data: bytes | bytearray) -> Iterator[tuple[int, int, int | None]]:
    """Yield start and end of each message of a set, and the offset of its CRC32 in it (None if it has none).

    The last message may extend beyond the set.
    """
    start = 0
    while start + SIZE_BYTES < len(data):
        size = int.from_bytes(data[start : start + SIZE_BYTES], "big", signed=True)
        if not LEAST_MESSAGE_BYTES <= size <= LARGEST_MESSAGE_BYTES:
            return
        stop = start + SIZE_BYTES + size
        crc_at = CRC_AT.get(data[start + SIZE_BYTES])
        if crc_at is None and stop > len(data):
            return
        yield start, stop, None if crc_at is None or crc_at + CRC_BYTES > size else SIZE_BYTES + crc_at
        start = stop


def _odd_head(data: bytes) -> tuple[int, bytes]:
    """Return where the messages of a set end, and the replacement for an invalid head there."""
    behind = 0
    for _, behind, _ in _messages(data):  # noqa: B007 - the end of the last
        pass
    rest = data[behind:]
    if len(rest) < SIZE_BYTES:
        return behind, b""
    if len(rest) == SIZE_BYTES:
        return behind, rest if LEAST_MESSAGE_BYTES <= _number(rest) <= LARGEST_MESSAGE_BYTES else bytes(SIZE_BYTES)
    if int.from_bytes(rest[:SIZE_BYTES], "big", signed=True) < LEAST_MESSAGE_BYTES:
        return behind, bytes(SIZE_BYTES) + rest[SIZE_BYTES : SIZE_BYTES + (rest[SIZE_BYTES] in CRC_AT)]
    return behind, _NO_SIZE + (rest[SIZE_BYTES : SIZE_BYTES + 1] if rest[SIZE_BYTES] in CRC_AT else _NO_MAGIC)


def _blank_areas(content: bytes | bytearray) -> list[Area]:
    """Return the places of uncompressed payloads in a set."""
    areas = []
    for start, stop, crc_at in _messages(content):
        if crc_at is None or stop > len(content):
            continue
        if content[start + SIZE_BYTES] != MAGIC_1 or not content[start + crc_at - 1] & CODEC_BITS:
            areas.append((start + crc_at + CRC_BYTES, stop))
    return areas


def _with_checksums(content: bytes, bad: Collection[int]) -> bytes:
    """Return a set with the CRC32 of each uncompressed payload; it is wrong for payloads whose start is in `bad`."""
    out = bytearray(content)
    for start, end in _blank_areas(content):
        out[start - CRC_BYTES : start] = (crc32(content[start:end]) ^ (start in bad)).to_bytes(CRC_BYTES, "big")
    return bytes(out)


def _behind(first: Callable[[bytes], bytes], second: Compress) -> Compress:
    return lambda content, size: second(first(content), size)


def _number(value: bytes) -> int:
    return int.from_bytes(value, "big")


def _compressors(codec: str, payload: bytes) -> list[Compress]:
    """Return the ways to compress like a given payload."""
    if codec == "GZIP":
        return deflations(GZIP_WBITS)
    if payload.startswith(XERIAL_MAGIC):
        return [lengthened(partial(compress_xerial, head=payload), _longer_xerial)]
    return snappy_blocks()


def _longer_xerial(stream: bytes, lacks: int, content: bytes) -> bytes | None:
    """Add empty blocks, and make one of the others longer by the remaining bytes."""
    count, rest = divmod(lacks, len(_EMPTY_BLOCK))
    behind = stream + _EMPTY_BLOCK * count
    position = BLOCKS_AT
    for at in range(0, len(content), BLOCK_BYTES) if rest else ():
        start = position + BLOCK_SIZE_BYTES
        end = start + _number(stream[position:start])
        if (longer := longer_snappy(stream[start:end], rest, content[at : at + BLOCK_BYTES])) is not None:
            return stream[:position] + len(longer).to_bytes(BLOCK_SIZE_BYTES, "big") + longer + behind[end:]
        position = end
    return None if rest else behind
