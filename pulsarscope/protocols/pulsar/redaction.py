"""Frames without what must not be shared: credentials, payloads, properties, schemas; names are masked. No byte moves."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice, product
from typing import Any

from pulsarscope.model.masked_names import MaskedNames
from pulsarscope.model.records import FrameRow
from pulsarscope.protocols.pulsar.entry.compression import decompress
from pulsarscope.protocols.pulsar.frame.checksum import crc32c
from pulsarscope.protocols.pulsar.frame.decoder import FrameDecoder
from pulsarscope.protocols.pulsar.frame.payload_head import BROKER_ENTRY_METADATA_MAGIC, CHECKSUM_MAGIC
from pulsarscope.protocols.pulsar.frame.protobuf import BYTES, ENUM, LENGTH_WIRE, MESSAGE, SECRET_KINDS, Plan, WireError, varint
from pulsarscope.protocols.pulsar.frame.schema import ENUMS
from pulsarscope.protocols.pulsar.frame.spans import Span, spans

Mask = Callable[[bytes], bytes]
"""Value → mask, of the same length."""

Compress = Callable[[bytes], bytes]

Area = tuple[int, int]
"""Start and end of a payload."""

BLANK = b"x"

UNREADABLE = b"\xff"
"""What no message of protobuf is read from, as from what it stands for: a varint that does not end."""

FIT_NEAR, FIT_BACK, FIT_VARIANTS = 12, (1, 20, 64), 9
"""Numbers of bytes of noise that are tried on either side of the best one; steps back from there; and kinds of noise."""

FITTED_MAX_BYTES, FITTED_TRIES = 32 << 20, 40
"""Bytes that are compressed for one frame, to find what has its size; but as many tries as a search in a large one takes."""

DISTINCT_BYTES = (16, 4, 0)
"""Bytes by which messages of different contents differ. What was compressed well has no room for many."""

_SHORT, _LONG = bytes(byte & 0x7F for byte in range(256)), bytes(byte | 0x90 for byte in range(256))
"""Bytes with a short and with a long code in the fixed Huffman table (RFC 1951, 3.2.6)."""

_AUTH_METHODS = frozenset({b"", b"none", b"token", b"tls", b"basic", b"athenz", b"sasl", b"kerberos", b"oauth2"})
_TEXTS = frozenset({"message", "error_message"})
_VERSIONS = frozenset({"client_version", "server_version", "proxy_version"})
_SYSTEM_PROPERTY = re.compile(
    rb"REAL_TOPIC|REAL_SUBSCRIPTION|RECONSUMETIMES|DELAY_TIME|ORIGIN_MESSAGE_ID|ORIGIN_MESSAGE_IDY_TIME|EXCEPTION_CAUSE|TTL|"
    rb"__pfn_input_[a-z_]+__|traceparent|tracestate|b3|uber-trace-id|sw8"
)
"""Names of properties that clients and tracers give by themselves."""

_POSITION = re.compile(rb"[\d:,()-]+")
"""Counts, times and message ids."""


def _blank(value: bytes) -> bytes:
    return BLANK * len(value)


class PulsarRedaction:
    """Redaction of frames under a key."""

    def __init__(self, decoder: FrameDecoder, single_plan: Plan, names: MaskedNames) -> None:
        self._decoder = decoder
        self._single_plan = single_plan
        self._names = names
        self._masks: dict[str, Mask] = {
            **dict.fromkeys(_TEXTS, names.text),
            **dict.fromkeys(_VERSIONS, names.version),
            "auth_method_name": lambda value: value if value in _AUTH_METHODS else names.opaque(value),
            "schema_version": lambda value: value if len(value) == 8 else _blank(value),  # a number
            "ordering_key": names.opaque,
            "schema_data": lambda value: b" " * len(value),
        }

    def redact(self, row: FrameRow, data: bytes) -> tuple[bytes, bool]:
        """Return the redacted bytes of a frame, as many as there were; False when its messages could not keep their sizes.

        `data` may lack the end of the frame. Whatever cannot be read is blank.
        """
        out = bytearray(BLANK * len(data))
        out[:8] = data[:8]
        end = min(8 + int.from_bytes(data[4:8], "big"), len(data))
        self._message(data, 8, end, self._decoder.base_plan, out)
        if row.status == "malformed" or (row.payload_size is None and row.metadata is None):
            return bytes(out), True
        position = end
        if data[position : position + 2] == BROKER_ENTRY_METADATA_MAGIC:
            out[position : position + 2] = BROKER_ENTRY_METADATA_MAGIC
            position = self._sized(data, position + 2, self._decoder.payload_heads.entry_metadata_plan, out)
        checked = None
        if data[position : position + 2] == CHECKSUM_MAGIC:
            out[position : position + 2] = CHECKSUM_MAGIC
            checked, position = position + 2, position + 6
        head = position + 4
        position = self._sized(data, position, self._decoder.payload_heads.metadata_plan, out)
        kept = True
        if position < len(data):
            payload = data[position:]
            masked = self._payload(row.metadata or {}, payload) if row.status == "ok" else None
            kept = masked is not None
            if masked is None:
                masked = self._filler(payload)
                self._call_uncompressed(row.metadata or {}, data, head, position, out)
            out[position:] = masked
        if checked is not None and len(data) >= checked + 4:
            is_bad = row.checksum is not None and row.checksum.status == "bad"
            out[checked : checked + 4] = (crc32c(bytes(out[checked + 4 :])) ^ is_bad).to_bytes(4, "big")
        return bytes(out), kept

    def _sized(self, data: bytes, position: int, plan: Plan, out: bytearray) -> int:
        """Redact a u32 size and the message of that size; return the position behind it."""
        out[position : position + 4] = data[position : position + 4]
        end = min(position + 4 + int.from_bytes(data[position : position + 4], "big"), len(data))
        self._message(data, min(position + 4, end), end, plan, out)
        return end

    def _message(self, data: bytes, position: int, end: int, plan: Plan, out: bytearray) -> None:
        """Redact the message data[position:end] into the same place of `out`."""
        key = b""
        out[position:end] = UNREADABLE * (end - position)
        for span in spans(data, position, end, plan):
            out[span.start : span.value] = data[span.start : span.value]
            value = data[span.value : span.end]
            if span.row is None or span.row.kind == MESSAGE:
                if span.row is None:
                    out[span.value : span.end] = _blank(value) if data[span.start] & 7 == LENGTH_WIRE else value
                continue
            if data[span.start] & 7 != LENGTH_WIRE:
                out[span.value : span.end] = b"\0" if self._is_schema_type(span) else value
            elif span.row.kind in SECRET_KINDS:
                out[span.value : span.end] = _blank(value)
            elif span.name == "value":
                out[span.value : span.end] = self._property_value(key, value)
            elif span.name == "key" and _SYSTEM_PROPERTY.fullmatch(value):
                out[span.value : span.end] = value
            else:
                mask = self._masks.get(span.name, _blank if span.row.kind == BYTES else self._names.name)
                out[span.value : span.end] = mask(value)
            key = value if span.name == "key" else b""

    @staticmethod
    def _is_schema_type(span: Span) -> bool:
        """Tell the type of a schema, which is none without its definition."""
        return (
            span.name == "type"
            and span.row is not None
            and span.row.kind == ENUM
            and span.row.extra is ENUMS["Schema.Type"]
            and span.end == span.value + 1
        )

    def _property_value(self, key: bytes, value: bytes) -> bytes:
        if _SYSTEM_PROPERTY.fullmatch(key):
            if key.startswith(b"REAL_"):
                return self._names.name(value)
            if _POSITION.fullmatch(value):
                return value
        return _blank(value)

    # ---- payloads

    def _call_uncompressed(self, metadata: dict[str, Any], data: bytes, position: int, end: int, out: bytearray) -> None:
        """Take its codec from an entry with one message, or a part of one: what stands for the payload is not compressed."""
        if "num_messages_in_batch" not in metadata or "chunk_id" in metadata:
            for span in spans(data, position, end, self._decoder.payload_heads.metadata_plan):
                if span.name == "compression" and span.end == span.value + 1:
                    out[span.value] = 0

    def _payload(self, metadata: dict[str, Any], payload: bytes) -> bytes | None:
        """Return the payload with blank messages of the same sizes; None when that is not possible."""
        batched = "num_messages_in_batch" in metadata
        codec = metadata.get("compression", "NONE")
        if metadata.get("encryption_keys") or (codec == "NONE" and not batched):
            return self._filler(payload)
        opened = decompress(codec, payload, metadata.get("uncompressed_size", 0))
        if opened.data is None:
            return None
        for distinct in DISTINCT_BYTES if codec != "NONE" else DISTINCT_BYTES[:1]:
            content = bytearray(self._filler(opened.data, distinct))
            areas = [(0, len(content))]
            if batched and "chunk_id" not in metadata:
                areas = self._batch(opened.data, content, distinct)
            if codec == "NONE":
                return bytes(content)
            if (found := self._fitted(_compressors(codec, opened.note), bytes(content), areas, len(payload))) is not None:
                return found
        return None

    def _batch(self, data: bytes, out: bytearray, distinct: int) -> list[Area]:
        """Redact the messages of a batch; return the places of their payloads."""
        areas = []
        position = 0
        while position + 4 <= len(data):
            end = position + 4 + int.from_bytes(data[position : position + 4], "big")
            if end > len(data):
                break
            out[position : position + 4] = data[position : position + 4]
            self._message(data, position + 4, end, self._single_plan, out)
            try:
                sizes = [
                    varint(data, span.value)[0] for span in spans(data, position + 4, end, self._single_plan) if span.name == "payload_size"
                ]
            except (IndexError, WireError):
                break
            if not sizes or end + sizes[-1] > len(data):
                break
            position = end + sizes[-1]
            out[end:position] = self._filler(data[end:position], distinct)
            areas.append((end, position))
        return areas

    def _filler(self, payload: bytes, distinct: int = DISTINCT_BYTES[0]) -> bytes:
        """Return what stands for a payload: the same for the same one, and different for others, of which rules know copies."""
        return self._names.noise(payload, min(len(payload), distinct)).ljust(len(payload), b"\0")

    def _fitted(self, compressors: Sequence[Compress], content: bytes, areas: Sequence[Area], size: int) -> bytes | None:
        """Return compressed content of exactly `size` bytes, by as much noise in the payloads as that takes; None when none has it."""
        room = sum(end - start for start, end in areas)
        seed = self._names.noise(content, 16)
        tries = max(FITTED_MAX_BYTES // (len(content) + 1), FITTED_TRIES)
        for variant, compress in product(range(FIT_VARIANTS), compressors):
            noise = self._names.noise(seed + bytes([variant]), room)
            if variant % 3:  # ZLIB writes some bytes with 8 bits, others with 9
                noise = noise.translate(_LONG if variant % 3 == 1 else _SHORT)
            sizes: list[int] = []
            for first, last in islice(_counts(room, size, sizes), tries):
                found = compress(_with_noise(content, areas, noise, first, last))
                sizes.append(len(found))
                tries -= 1
                if len(found) == size:
                    return found
        return None


def _with_noise(content: bytes, areas: Sequence[Area], noise: bytes, first: int, last: int) -> bytes:
    """Return the content with noise in so many of the first and of the last bytes of its payloads."""
    out = bytearray(content)
    done, left = 0, len(noise)
    for start, end in areas:
        if (taken := min(end - start, first - done)) <= 0:
            break
        out[start : start + taken] = noise[done : done + taken]
        done += taken
    for start, end in reversed(areas):
        if (taken := min(end - start, left - len(noise) + last)) <= 0:
            break
        out[end - taken : end] = noise[left - taken : left]
        left -= taken
    return bytes(out)


def _counts(room: int, size: int, sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the numbers of first and last bytes of noise to try; the size that each gave is the last of `sizes` when it goes on.

    What is compressed grows with the noise, nearly always: a search, then what is near to where that ended, and then less noise with some
    apart from it, where sizes grow by single bytes.
    """
    yield 0, 0
    if sizes[-1] > size:
        return
    yield room, 0
    if sizes[-1] < size:
        return
    low, high = 0, room
    while low < high:
        middle = (low + high) // 2
        yield middle, 0
        low, high = (middle + 1, high) if sizes[-1] < size else (low, middle)
    for first in range(max(low - FIT_NEAR, 0), min(low + FIT_NEAR, room) + 1):
        yield first, 0
    for back in FIT_BACK:
        first = max(low - back, 0)
        yield first, 0
        missing = size - sizes[-1]
        for last in range(max(missing - FIT_NEAR, 1), min(missing + FIT_NEAR, room - first) + 1):
            yield first, last


def _compressors(codec: str, note: tuple[str, str] | None) -> list[Compress]:
    """Return the ways to compress with a codec, with the same oddity: one may reach a size that another cannot."""
    if codec == "LZ4":
        import lz4.block  # noqa: PLC0415 - for this codec only

        return [partial(lz4.block.compress, store_size=False), partial(lz4.block.compress, store_size=False, mode="high_compression")]
    if codec == "ZLIB":
        return [partial(_deflated, level=level, ends=note is None) for level in (6, 9, 1)]
    if codec == "ZSTD":
        import zstandard  # noqa: PLC0415 - as above

        return [zstandard.ZstdCompressor(level=level).compress for level in (3, 19, 1)]
    if codec == "SNAPPY":
        import cramjam  # noqa: PLC0415 - as above

        compress = cramjam.snappy.compress_raw if note is None else cramjam.snappy.compress
        return [lambda data: bytes(compress(data))]
    return []


def _deflated(data: bytes, level: int, *, ends: bool) -> bytes:
    """Return a ZLIB stream, perhaps without its last block."""
    compressor = zlib.compressobj(level)
    return compressor.compress(data) + compressor.flush(zlib.Z_FINISH if ends else zlib.Z_SYNC_FLUSH)


__all__ = ["PulsarRedaction"]
