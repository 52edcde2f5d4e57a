"""Frames without the parts that must not be shared (credentials, payloads, properties, schemas), and with masked names. No byte moves."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from pulsarscope.dissect.blanking.blank_content import (
    DISTINCT_BYTES,
    Area,
    Compress,
    CompressionBudget,
    deflations,
    filler,
    fitted,
    lengthened,
    snappy_blocks,
)
from pulsarscope.dissect.blanking.longer_streams import longer_framed_snappy, longer_zstd
from pulsarscope.model.limits import DECOMPRESSED_MAX_BYTES
from pulsarscope.model.masked_names import MaskedNames
from pulsarscope.model.records import FrameRow
from pulsarscope.protocols.pulsar.entry.compression import decompress
from pulsarscope.protocols.pulsar.entry.stored import STORED_PLANS, read_stored
from pulsarscope.protocols.pulsar.frame.decoder import FrameDecoder
from pulsarscope.protocols.pulsar.frame.field_spans import Span, spans
from pulsarscope.protocols.pulsar.frame.payload_head import BROKER_ENTRY_METADATA_MAGIC, CHECKSUM_MAGIC, crc32c
from pulsarscope.protocols.pulsar.frame.protobuf import BYTES, ENUM, LENGTH_WIRE, MESSAGE, Plan, WireError, varint
from pulsarscope.protocols.pulsar.frame.schema import ENUMS
from pulsarscope.protocols.pulsar.frame.secret_fields import SECRET_FIELDS
from pulsarscope.protocols.pulsar.frame.tokens import bare_token

Mask = Callable[[bytes], bytes]
"""A function from a value to a mask of the same length."""

BLANK = b"x"

UNREADABLE = b"\xff"
"""Replacement for bytes that are not a protobuf message, which is not one either: a varint without an end."""

INTERLEAVED = 4
"""Chunked messages whose compressed form is cached, because chunks of several messages may alternate."""

_AUTH_METHODS = frozenset({b"", b"none", b"token", b"tls", b"basic", b"athenz", b"sasl", b"kerberos", b"oauth2"})
_TEXTS = frozenset({"message", "error_message"})
_VERSIONS = frozenset({"client_version", "server_version", "proxy_version"})
_SYSTEM_PROPERTY = re.compile(
    rb"REAL_TOPIC|REAL_SUBSCRIPTION|RECONSUMETIMES|DELAY_TIME|ORIGIN_MESSAGE_ID|ORIGIN_MESSAGE_IDY_TIME|EXCEPTION_CAUSE|TTL|"
    rb"__pfn_input_[a-z_]+__|traceparent|tracestate|b3|uber-trace-id|sw8"
)
"""Names of properties that clients and tracers set on their own."""

_POSITION = re.compile(rb"[\d:,()-]+")
"""Counts, times and message ids."""


def _blank(value: bytes) -> bytes:
    return BLANK * len(value)


class PulsarRedaction:
    """The redaction of frames under a key."""

    def __init__(self, decoder: FrameDecoder, single_plan: Plan, names: MaskedNames) -> None:
        self._decoder = decoder
        self._single_plan = single_plan
        self._names = names
        self._whole = lru_cache(INTERLEAVED)(self._chunked)
        self._masks: dict[str, Mask] = {
            **dict.fromkeys(_TEXTS, names.text),
            **dict.fromkeys(_VERSIONS, names.version),
            "auth_method_name": lambda value: value if value in _AUTH_METHODS else names.opaque(value),
            "schema_version": lambda value: value if len(value) == 8 else _blank(value),  # a number
            "proxy_to_broker_url": names.endpoint,  # without a scheme
            "partition_key": names.opaque,
            "ordering_key": names.opaque,
            "schema_data": lambda value: b" " * len(value),
        }

    def redact(self, row: FrameRow, data: bytes) -> tuple[bytes, bool]:
        """Return the redacted bytes of a frame, in the same number; also False if its messages could not keep their sizes.

        `data` may lack the end of the frame. Everything that cannot be read is blank.
        """
        out = bytearray(BLANK * len(data))
        out[:8] = data[:8]
        end = min(8 + int.from_bytes(data[4:8], "big"), len(data))
        self._message(data, 8, end, self._decoder.base_plan, out)
        if row.status == "malformed" or (row.payload_size is None and row.metadata is None):
            return bytes(out), True
        kept = self._content(
            data, end, row.metadata or {}, out, is_bad=row.checksum is not None and row.checksum.status == "bad", reads=row.status == "ok"
        )
        return bytes(out), kept

    def stored(self, data: bytes) -> bytes | None:
        """Return a stored entry of a broker, redacted to the same number of bytes; None if it is not an entry of Pulsar."""
        known = read_stored(self._decoder.payload_heads, data, 0, len(data))
        if known is None:
            return None
        out = bytearray(BLANK * len(data))
        if known.kind == "message":
            self._content(data, 0, known.metadata or {}, out, is_bad=known.fields.get("checksum") == "bad", reads=True)
        else:
            self._message(data, 0, len(data), STORED_PLANS[known.kind], out)
        return bytes(out)

    def _content(self, data: bytes, position: int, metadata: dict[str, Any], out: bytearray, *, is_bad: bool, reads: bool) -> bool:
        """Redact an entry from a position on; return False if its messages could not keep their sizes. `reads`: its payload is complete."""
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
            masked = self._payload(metadata, payload) if reads else None
            kept = masked is not None or not reads
            if masked is None:
                masked = filler(self._names, payload)
                self._call_uncompressed(metadata, data, head, position, out)
            out[position:] = masked
        if checked is not None and len(data) >= checked + 4:
            out[checked : checked + 4] = (crc32c(bytes(out[checked + 4 :])) ^ is_bad).to_bytes(4, "big")
        return kept

    def _sized(self, data: bytes, position: int, plan: Plan, out: bytearray) -> int:
        """Redact a u32 size and the message of that size; return the position after it."""
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
            elif span.name in SECRET_FIELDS:  # even if shown in other outputs
                out[span.value : span.end] = bare_token(value) or _blank(value)
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
        """Return True for the type of a schema, which becomes NONE because its definition is redacted."""
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
        """Remove the codec of an entry with one message or a part of one: the replacement of the payload is not compressed."""
        if "num_messages_in_batch" not in metadata or "chunk_id" in metadata:
            for span in spans(data, position, end, self._decoder.payload_heads.metadata_plan):
                if span.name == "compression" and span.end == span.value + 1:
                    out[span.value] = 0

    def _payload(self, metadata: dict[str, Any], payload: bytes) -> bytes | None:
        """Return a payload with blank messages of the same sizes; None if that is not possible."""
        batched = "num_messages_in_batch" in metadata
        codec = metadata.get("compression", "NONE")
        if metadata.get("encryption_keys") or (codec == "NONE" and not batched):
            return filler(self._names, payload)
        if "chunk_id" in metadata and codec != "NONE":
            return self._part(metadata, payload)
        opened = decompress(codec, payload, metadata.get("uncompressed_size", 0))
        if opened.data is None:
            return None
        compressors = _compressors(codec, opened.note)
        for distinct in DISTINCT_BYTES if codec != "NONE" else DISTINCT_BYTES[:1]:
            content = bytearray(filler(self._names, opened.data, distinct))
            areas = [(0, len(content))]
            if batched and "chunk_id" not in metadata:
                areas = self._batch(opened.data, content, distinct)
            if codec == "NONE":
                return bytes(content)
            if (found := fitted(self._names, compressors, bytes(content), areas, len(payload), CompressionBudget())) is not None:
                return found
        return None

    def _part(self, metadata: dict[str, Any], payload: bytes) -> bytes | None:
        """Return the payload of a chunk: a part of a blank message that is compressed as a whole. Only the last chunk has another size."""
        size, total, number = (metadata.get(name, 0) for name in ("uncompressed_size", "total_chunk_msg_size", "chunk_id"))
        if not (0 < size <= DECOMPRESSED_MAX_BYTES and 0 < total <= DECOMPRESSED_MAX_BYTES):
            return None
        is_last = number + 1 == metadata.get("num_chunks_from_msg")
        start = total - len(payload) if is_last else number * len(payload)
        whole = self._whole(metadata["compression"], metadata.get("uuid", ""), size, total)
        return None if whole is None or start < 0 or start + len(payload) > total else whole[start : start + len(payload)]

    def _chunked(self, codec: str, uuid: str, size: int, total: int) -> bytes | None:
        """Return a blank message of a size, compressed to `total` bytes, and different for each message."""
        for distinct in DISTINCT_BYTES:
            content = self._names.noise(uuid.encode(), min(distinct, size)).ljust(size, b"\0")
            if (found := fitted(self._names, _compressors(codec, None), content, [(0, size)], total, CompressionBudget())) is not None:
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
            out[end:position] = filler(self._names, data[end:position], distinct)
            areas.append((end, position))
        return areas


def _compressors(codec: str, note: tuple[str, str] | None) -> list[Compress]:
    """Return the ways to compress with a codec, with the same oddity: one may achieve a size that another cannot."""
    if codec == "LZ4":
        import lz4.block  # noqa: PLC0415 - for this codec only

        usual = partial(lz4.block.compress, store_size=False)
        return [lambda content, _: usual(content), lambda content, _: usual(content, mode="high_compression")]
    if codec == "ZLIB":
        return deflations(ends=note is None)
    if codec == "ZSTD":
        import zstandard  # noqa: PLC0415 - as above

        plain = [zstandard.ZstdCompressor(level=level) for level in (3, 19, 1)]
        odd = zstandard.ZstdCompressor(write_checksum=True), zstandard.ZstdCompressor(write_content_size=False)
        return [lengthened(compressor.compress, longer_zstd) for compressor in (*plain, *odd)]
    if codec == "SNAPPY" and note is not None:
        import cramjam  # noqa: PLC0415 - as above

        return [lengthened(lambda data: bytes(cramjam.snappy.compress(data)), longer_framed_snappy)]
    return snappy_blocks() if codec == "SNAPPY" else []


__all__ = ["PulsarRedaction"]
