"""Message sets: consecutive entries, each a message with its CRC32. A compressed message contains a message set.

Entries do not carry their offset in the log: the offset and size of an entry give the offset of the next one. All messages of a compressed
entry have the offset of the entry. A client that has not seen the last of them continues there (ByteBufferMessageSet.makeNext of 0.7).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import NamedTuple
from zlib import crc32

from pulsarscope.dissect.contract.frames import Note
from pulsarscope.inputs.xerial import MAGIC as XERIAL_MAGIC
from pulsarscope.inputs.xerial import decompress_xerial
from pulsarscope.model.limits import BATCH_MESSAGES_MAX, DECOMPRESSED_MAX_BYTES, MESSAGE_SETS_DEPTH_MAX
from pulsarscope.model.records import Checksum
from pulsarscope.protocols.kafka07.commands import CODEC_BITS, CODECS
from pulsarscope.protocols.kafka07.cursor import ParseError

GZIP_WBITS = 16 + zlib.MAX_WBITS
"""Value of `wbits` that makes zlib expect a gzip header (RFC 1952)."""


class Decompressed(NamedTuple):
    """The result of a decompression."""

    data: bytes | None
    """Decompressed bytes; None if that failed."""
    note: tuple[str, str] | None = None
    """Finding code and text of the failure."""


def decompress(codec: str, data: bytes, bound: int) -> Decompressed:
    """Decompress with a codec (GZIP or SNAPPY), up to `bound` bytes."""
    import cramjam  # noqa: PLC0415 - heavy, only when a set is opened

    try:
        output = _gunzip(data, bound) if codec == "GZIP" else _decompress_snappy(data, bound)
    except (zlib.error, ParseError, cramjam.DecompressionError, ValueError, OverflowError, MemoryError) as error:
        return Decompressed(None, ("decompress-failed", f"{codec}: {str(error) or type(error).__name__}"))
    if output is None:
        return Decompressed(None, ("decompress-bomb", f"{codec} gives more than the {bound:,} bytes that are allowed"))
    return Decompressed(output)


def _gunzip(data: bytes, bound: int) -> bytes | None:
    """Return the content of the single gzip member that Kafka writes; None if it is larger than the bound."""
    inflater = zlib.decompressobj(GZIP_WBITS)
    output = inflater.decompress(data, bound + 1)
    if len(output) > bound:
        return None
    if not inflater.eof:
        raise ParseError("the stream ends too soon")
    return output


def _decompress_snappy(data: bytes, bound: int) -> bytes | None:
    if not data.startswith(XERIAL_MAGIC):
        return _decompress_block(data, bound)
    output, damage = decompress_xerial(data, bound)
    if damage is not None:
        raise ParseError(damage)
    return output


def _decompress_block(block: bytes, bound: int) -> bytes | None:
    import cramjam  # noqa: PLC0415

    if cramjam.snappy.decompress_raw_len(block) > bound:
        return None
    return bytes(cramjam.snappy.decompress_raw(block))


SIZE_BYTES = 4
MAGIC_0, MAGIC_1 = 0, 1
CRC_AT = {MAGIC_0: 1, MAGIC_1: 2}
"""Position of the CRC32 in a message, by magic: magic 1 has a byte of attributes before it."""

CRC_BYTES = 4
LEAST_MESSAGE_BYTES = CRC_AT[MAGIC_0] + CRC_BYTES

LARGEST_MESSAGE_BYTES = 104_857_600
"""Most bytes of a request that a broker reads by default (max.socket.request.bytes): no log has a larger message."""

DECOMPRESSED_FACTOR_MAX = 32
"""Bytes per byte of the frame to which all its sets may decompress, in addition to the bound of one entry: text shrinks to a tenth."""

INFLATED_FACTOR_MAX = 1_032
"""Most bytes to which one byte can decompress (zlib's technical details); Snappy yields fewer."""


class Message(NamedTuple):
    """An application message with its place in a set."""

    entry: int
    """Position of its outermost entry in the set."""
    end: int
    """End of that entry in the set."""
    magic: int
    codecs: tuple[str, ...]
    """Codecs of the entries around it, from the outermost one to that of its own set; its own codec if there are none."""
    payload: bytes | None
    """Payload; None if it could not be read."""
    batch_index: int | None = None
    """Index in a compressed entry, from 0."""
    batch_size: int | None = None
    """Number of messages in that entry."""


class MessageTotals:
    """The counts, checksums and findings of all message sets of one frame."""

    def __init__(self, frame_bytes: int, *, stored: bool) -> None:
        """Begin; `stored`: the sets come from a log, which has no message that a broker would refuse."""
        self.stored = stored
        self.messages = 0
        self.cut = 0
        """Bytes of last entries that extend beyond their set."""
        self.notes: dict[str, tuple[int, str]] = {}
        """Count and first text by finding code."""
        self._budget = DECOMPRESSED_MAX_BYTES + DECOMPRESSED_FACTOR_MAX * frame_bytes
        self._first: Checksum | None = None
        self._bad: Checksum | None = None
        self._checked = 0

    def note(self, code: str, text: str) -> None:
        """Add a finding."""
        count, first = self.notes.get(code, (0, text))
        self.notes[code] = count + 1, first

    def texts(self) -> Iterator[Note]:
        """Yield one note for each code."""
        for code, (count, first) in self.notes.items():
            yield code, first if count == 1 else f"{first}, and {count - 1:,} more like it"

    def check(self, stored: int, computed: int, place: str) -> None:
        """Add the CRC32 of one message."""
        self._checked += 1
        if stored == computed and self._first is not None:
            return
        checksum = Checksum("good" if stored == computed else "bad", f"{stored:08x}", f"{computed:08x}")
        self._first = self._first or checksum
        if stored != computed:
            self._bad = self._bad or checksum
            self.note("checksum-mismatch", f"the message at {place} has the CRC32 {stored:08x}, its payload {computed:08x}")

    @property
    def checksum(self) -> Checksum | None:
        """Return the checksum of the first bad message, of the only message, or "good" for all messages."""
        if self._bad is not None or self._first is None or self._checked == 1:
            return self._bad or self._first
        return Checksum("good")

    def decompress(self, codec: str, data: bytes, depth: int) -> bytes | None:
        """Decompress a message within the budget of the frame."""
        bound = min(DECOMPRESSED_MAX_BYTES, self._budget)
        result = decompress(codec, data, bound)
        if result.note is not None:
            self.note(*result.note)
        if result.data is not None:
            self._budget -= len(result.data)
        elif depth > 1:  # a failure also has a cost: a few bytes on the wire can hold millions of such messages
            self._budget -= min(bound, INFLATED_FACTOR_MAX * len(data))
        return result.data


class _Entry(NamedTuple):
    """An entry of a message set."""

    start: int
    end: int
    magic: int
    codec: str | None
    """Name of the codec; None for an unknown one."""
    payload: bytes
    ok: bool
    """True if it has a payload and its magic is known."""


def read_set(data: bytes, start: int, end: int, totals: MessageTotals) -> Iterator[Message]:
    """Yield the messages of the set data[start:end], including those in compressed ones. A last entry without its end is not a message."""
    for entry in _entries(data, start, end, totals, ""):
        position = entry.start - start
        stop = entry.end - start
        if not entry.ok or entry.codec is None:
            totals.messages += 1
            yield Message(position, stop, entry.magic, (entry.codec or "UNKNOWN",), None)
        elif entry.codec == CODECS[0]:
            totals.messages += 1
            yield Message(position, stop, entry.magic, (entry.codec,), entry.payload)
        else:
            payloads = _payloads_in(entry, totals, (entry.codec,), f"offset {position} of the set")
            totals.messages += max(len(payloads), 1)
            if not payloads:
                yield Message(position, stop, entry.magic, (entry.codec,), None)
            for index, (codecs, payload) in enumerate(payloads):
                yield Message(position, stop, entry.magic, codecs, payload, index, len(payloads))


_Payload = tuple[tuple[str, ...], bytes | None]
"""Codecs of the entries around a message, from the outermost one, and its payload (None if it cannot be read)."""


def _payloads_in(entry: _Entry, totals: MessageTotals, codecs: tuple[str, ...], place: str) -> list[_Payload]:
    """Return the payloads in a compressed entry, whose codec is the last of `codecs`."""
    if len(codecs) > MESSAGE_SETS_DEPTH_MAX:
        totals.note("nested-too-deep", f"the message at {place} holds sets in sets, more than {MESSAGE_SETS_DEPTH_MAX} deep")
        return [(codecs, None)]
    data = totals.decompress(codecs[-1], entry.payload, len(codecs))
    if data is None:
        return []
    payloads: list[_Payload] = []
    cut_before = totals.cut
    for inner in _entries(data, 0, len(data), totals, f" in the one at {place}"):
        if not inner.ok or inner.codec is None:
            payloads.append((codecs, None))
        elif inner.codec == CODECS[0]:
            payloads.append((codecs, inner.payload))
        else:
            payloads += _payloads_in(inner, totals, (*codecs, inner.codec), place) or [((*codecs, inner.codec), None)]
        if len(payloads) >= BATCH_MESSAGES_MAX:
            totals.note("message-set-corrupt", f"the message at {place} holds more than the {BATCH_MESSAGES_MAX:,} that are read")
            del payloads[BATCH_MESSAGES_MAX:]
            break
    if totals.cut > cut_before:
        totals.note("message-set-corrupt", f"the set in the message at {place} ends within a message")
        totals.cut = cut_before
    elif not data:
        totals.note("message-set-corrupt", f"the message at {place} holds no messages")
    return payloads


def _entries(data: bytes, start: int, end: int, totals: MessageTotals, inside: str) -> Iterator[_Entry]:
    position = start
    while end - position >= SIZE_BYTES:
        size = int.from_bytes(data[position : position + SIZE_BYTES], "big", signed=True)
        if size < LEAST_MESSAGE_BYTES:
            totals.note("message-set-corrupt", f"a message of {size:,} bytes at offset {position - start} of the set{inside} is impossible")
            return
        stop = position + SIZE_BYTES + size
        suspect = stop > end or (totals.stored and data[position + SIZE_BYTES] not in CRC_AT)
        problem = _head_problem(data, position, end, size) if suspect else None
        if problem is not None:
            totals.note("message-set-corrupt", f"the bytes at offset {position - start} of the set{inside} {problem}")
            return
        if stop > end:
            break
        yield _entry(data, position, stop, totals, f"offset {position - start} of the set{inside}")
        position = stop
    totals.cut += end - position


def _head_problem(data: bytes, position: int, end: int, size: int) -> str | None:
    """Return the reason why no message begins here although the size would be plausible, according to the available part of its head."""
    if size > LARGEST_MESSAGE_BYTES:
        return f"announce a message of {size:,} bytes, more than a broker takes"
    head = data[position + SIZE_BYTES : min(position + SIZE_BYTES + CRC_AT[MAGIC_1], end)]
    if head and head[0] not in CRC_AT:
        return f"are not a message: its magic would be {head[0]}"
    if len(head) > 1 and head[0] == MAGIC_1 and head[1] & CODEC_BITS not in CODECS:
        return f"are not a message: its codec would be {head[1] & CODEC_BITS}"
    return None


def _entry(data: bytes, start: int, end: int, totals: MessageTotals, place: str) -> _Entry:
    magic = data[start + SIZE_BYTES]
    if (crc_at := CRC_AT.get(magic)) is None:
        totals.note("unknown-enum", f"the message at {place} has magic {magic}")
        return _Entry(start, end, magic, None, b"", ok=False)
    crc_start = start + SIZE_BYTES + crc_at
    if crc_start + CRC_BYTES > end:
        totals.note("message-set-corrupt", f"the message at {place} is too small for its magic {magic}")
        return _Entry(start, end, magic, None, b"", ok=False)
    payload = data[crc_start + CRC_BYTES : end]
    totals.check(int.from_bytes(data[crc_start : crc_start + CRC_BYTES], "big"), crc32(payload), place)
    number = data[start + SIZE_BYTES + 1] & CODEC_BITS if magic == MAGIC_1 else 0
    if (codec := CODECS.get(number)) is None:
        totals.note("unknown-enum", f"the message at {place} has codec {number}")
    return _Entry(start, end, magic, codec, payload, ok=True)
