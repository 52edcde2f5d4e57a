"""Message sets: entries one behind the other, each a message with its CRC32; a compressed message holds a message set.

No entry says at which offset of the log it stands: the next one's is this one's and its size. All messages of a compressed entry stand at
the offset of the entry (ByteBufferMessageSet.makeNext of 0.7).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from zlib import crc32

from pulsarscope.dissect.frames import Note
from pulsarscope.model.limits import BATCH_MESSAGES_MAX, DECOMPRESSED_MAX_BYTES, MESSAGE_SETS_DEPTH_MAX
from pulsarscope.model.records import Checksum
from pulsarscope.protocols.kafka07.commands import CODEC_BITS, CODECS
from pulsarscope.protocols.kafka07.compression import decompress

SIZE_BYTES = 4
MAGIC_0, MAGIC_1 = 0, 1
CRC_AT = {MAGIC_0: 1, MAGIC_1: 2}
"""Where the CRC32 stands in a message: magic 1 has a byte of attributes before it."""

CRC_BYTES = 4
LEAST_MESSAGE_BYTES = CRC_AT[MAGIC_0] + CRC_BYTES

DECOMPRESSED_FACTOR_MAX = 32
"""Bytes that all sets of a frame may decompress to, for each byte of it, above what one entry may: text comes to a tenth of its size."""

INFLATED_FACTOR_MAX = 1_032
"""Bytes that one byte can decompress to, at most (zlib's technical details); Snappy's give fewer."""


class Message(NamedTuple):
    """One application message."""

    entry: int
    """Bytes of the set before the outermost entry that it stands in."""
    end: int
    """Bytes of the set up to behind that entry."""
    magic: int
    codec: str
    """Of the outermost entry."""
    payload: bytes | None
    """None: it could not be read."""
    batch_index: int | None = None
    """In a compressed entry, from 0."""
    batch_size: int | None = None
    """Messages in that entry."""


class Sums:
    """What was found in the sets of one frame, whatever becomes of their messages."""

    def __init__(self, frame_bytes: int) -> None:
        self.messages = 0
        self.cut = 0
        """Bytes of the last entry of a set that are there, when its end is not."""
        self.notes: dict[str, tuple[int, str]] = {}
        """How often, and what was said the first time, by finding code."""
        self._budget = DECOMPRESSED_MAX_BYTES + DECOMPRESSED_FACTOR_MAX * frame_bytes
        self._first: Checksum | None = None
        self._bad: Checksum | None = None
        self._checked = 0

    def note(self, code: str, text: str) -> None:
        """Something odd."""
        count, first = self.notes.get(code, (0, text))
        self.notes[code] = count + 1, first

    def texts(self) -> Iterator[Note]:
        """One note for each code."""
        for code, (count, first) in self.notes.items():
            yield code, first if count == 1 else f"{first}, and {count - 1:,} more like it"

    def check(self, stored: int, computed: int, place: str) -> None:
        """The CRC32 of one message."""
        self._checked += 1
        if stored == computed and self._first is not None:
            return
        verdict = Checksum("good" if stored == computed else "bad", f"{stored:08x}", f"{computed:08x}")
        self._first = self._first or verdict
        if stored != computed:
            self._bad = self._bad or verdict
            self.note("checksum-mismatch", f"the message at {place} has the CRC32 {stored:08x}, its payload {computed:08x}")

    @property
    def checksum(self) -> Checksum | None:
        """The verdict on all messages together: the first bad one's, or that they are good."""
        if self._bad is not None or self._first is None or self._checked == 1:
            return self._bad or self._first
        return Checksum("good")

    def open(self, codec: str, data: bytes, depth: int) -> bytes | None:
        """The bytes in a compressed message, within what the frame may still give."""
        bound = min(DECOMPRESSED_MAX_BYTES, self._budget)
        opened = decompress(codec, data, bound)
        if opened.note is not None:
            self.note(*opened.note)
        if opened.data is not None:
            self._budget -= len(opened.data)
        elif depth > 1:  # in vain, too: a few bytes on the wire can hold millions of such messages
            self._budget -= min(bound, INFLATED_FACTOR_MAX * len(data))
        return opened.data


class _Entry(NamedTuple):
    """One entry of a set."""

    start: int
    end: int
    magic: int
    codec: str | None
    """None for one without a name."""
    payload: bytes
    ok: bool
    """It has a payload, of a magic that is known."""


def read_set(data: bytes, start: int, end: int, sums: Sums) -> Iterator[Message]:
    """The messages of the set data[start:end], compressed ones opened. A last entry without its end is no message."""
    for entry in _entries(data, start, end, sums, ""):
        place = entry.start - start
        stop = entry.end - start
        if not entry.ok or entry.codec is None:
            sums.messages += 1
            yield Message(place, stop, entry.magic, entry.codec or "UNKNOWN", None)
        elif entry.codec == CODECS[0]:
            sums.messages += 1
            yield Message(place, stop, entry.magic, entry.codec, entry.payload)
        else:
            payloads = _open(entry, sums, 1, f"offset {place} of the set")
            sums.messages += max(len(payloads), 1)
            if not payloads:
                yield Message(place, stop, entry.magic, entry.codec, None)
            for index, payload in enumerate(payloads):
                yield Message(place, stop, entry.magic, entry.codec, payload, index, len(payloads))


def _open(entry: _Entry, sums: Sums, depth: int, place: str) -> list[bytes | None]:
    """The payloads in a compressed entry: None for one that cannot be read."""
    if depth > MESSAGE_SETS_DEPTH_MAX:
        sums.note("nested-too-deep", f"the message at {place} holds sets in sets, more than {MESSAGE_SETS_DEPTH_MAX} deep")
        return [None]
    data = sums.open(entry.codec or "", entry.payload, depth)
    if data is None:
        return []
    payloads: list[bytes | None] = []
    before = sums.cut
    for inner in _entries(data, 0, len(data), sums, f" in the one at {place}"):
        if not inner.ok or inner.codec is None:
            payloads.append(None)
        elif inner.codec == CODECS[0]:
            payloads.append(inner.payload)
        else:
            payloads += _open(inner, sums, depth + 1, place) or [None]
        if len(payloads) >= BATCH_MESSAGES_MAX:
            sums.note("message-set-corrupt", f"the message at {place} holds more than the {BATCH_MESSAGES_MAX:,} that are read")
            del payloads[BATCH_MESSAGES_MAX:]
            break
    if sums.cut > before:
        sums.note("message-set-corrupt", f"the set in the message at {place} ends within a message")
        sums.cut = before
    elif not data:
        sums.note("message-set-corrupt", f"the message at {place} holds no messages")
    return payloads


def _entries(data: bytes, start: int, end: int, sums: Sums, inside: str) -> Iterator[_Entry]:
    position = start
    while end - position >= SIZE_BYTES:
        size = int.from_bytes(data[position : position + SIZE_BYTES], "big", signed=True)
        if size < LEAST_MESSAGE_BYTES:
            sums.note("message-set-corrupt", f"a message of {size} bytes at offset {position - start} of the set{inside} cannot be")
            return
        stop = position + SIZE_BYTES + size
        if stop > end:
            break
        yield _entry(data, position, stop, sums, f"offset {position - start} of the set{inside}")
        position = stop
    sums.cut += end - position


def _entry(data: bytes, start: int, end: int, sums: Sums, place: str) -> _Entry:
    magic = data[start + SIZE_BYTES]
    crc_at = CRC_AT.get(magic)
    if crc_at is None:
        sums.note("unknown-enum", f"the message at {place} has magic {magic}")
        return _Entry(start, end, magic, None, b"", ok=False)
    crc_start = start + SIZE_BYTES + crc_at
    if crc_start + CRC_BYTES > end:
        sums.note("message-set-corrupt", f"the message at {place} is too small for its magic {magic}")
        return _Entry(start, end, magic, None, b"", ok=False)
    payload = data[crc_start + CRC_BYTES : end]
    sums.check(int.from_bytes(data[crc_start : crc_start + CRC_BYTES], "big"), crc32(payload), place)
    number = data[start + SIZE_BYTES + 1] & CODEC_BITS if magic == MAGIC_1 else 0
    codec = CODECS.get(number)
    if codec is None:
        sums.note("unknown-enum", f"the message at {place} has codec {number}")
    return _Entry(start, end, magic, codec, payload, ok=True)
