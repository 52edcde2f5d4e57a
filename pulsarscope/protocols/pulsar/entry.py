"""An entry (what SEND carries and MESSAGE brings) → its application messages: codec undone, batch opened, chunks joined.

Order of wrapping when producing: messages → batch → compress → encrypt → checksum (binary protocol specification, "Batch messages").
"""

from __future__ import annotations

import base64
from hashlib import sha256
from typing import Any

from pulsarscope.limits import BATCH_MESSAGES_MAX, CHUNKED_MESSAGES_MAX, DECOMPRESSED_MAX_BYTES
from pulsarscope.protocols.pulsar.compression import decompress
from pulsarscope.protocols.pulsar.messages import Plan, WireError, walk
from pulsarscope.records import MessageRow
from pulsarscope.wire.contract import TRUNCATED, Frame, Note

_TIME_MAX = (1 << 63) // 1_000_000 - 1

MILLISECOND = 1_000_000
"""Nanoseconds."""

MARKERS = {
    10: "replicated-subscription-request",
    11: "replicated-subscription-response",
    12: "replicated-subscription-snapshot",
    13: "replicated-subscription-update",
    20: "txn-committing",
    21: "txn-commit",
    22: "txn-abort",
}
COMPACTED_OUT = "compacted-out"


def _nanoseconds(milliseconds: int | None) -> int | None:
    """None as well for a time that no int64 of nanoseconds can hold: years before 1677 and after 2262."""
    return milliseconds * MILLISECOND if milliseconds and -_TIME_MAX <= milliseconds <= _TIME_MAX else None


def _properties(pairs: list[dict[str, str]] | None) -> dict[str, str] | None:
    return {pair.get("key", ""): pair.get("value", "") for pair in pairs} if pairs else None


def _text(payload: bytes, form: str) -> str:
    if form == "base64":
        return base64.b64encode(payload).decode()
    return payload.hex() if form == "hex" else payload.decode(errors="backslashreplace")


Owner = tuple[str, int]
"""Whose entry it is: produce and a producer id, or deliver and a consumer id."""


class _Chunks:
    """The chunks of one message so far."""

    __slots__ = ("first_missing", "last", "parts", "size")

    def __init__(self, last: MessageRow) -> None:
        self.last = last
        """Row of the chunk that came last."""
        self.parts: list[bytes] = []
        self.size = 0
        self.first_missing: int | None = None


class EntryOpener:
    """Opens the entries of one connection; holds only the chunks of messages that are not complete."""

    def __init__(self, source: str | None, connection: str, single_plan: Plan, payload_form: str | None) -> None:
        self._where = (source, connection)
        self._single_plan = single_plan
        self._form = payload_form
        self._chunks: dict[tuple[Owner, str], _Chunks] = {}
        self._chunk_bytes = 0

    def open(self, frame: Frame, owner: Owner, rows: list[MessageRow], notes: list[Note]) -> None:
        """Append the messages that this frame completes. `owner` keeps the chunks of different producers and consumers apart."""
        metadata = frame.metadata
        if metadata is None:
            return
        base = self._base_row(frame, metadata)
        payload = frame.payload or b""
        if frame.status == TRUNCATED:
            base.status = TRUNCATED
            rows.append(base)
            return
        if metadata.get("encryption_keys"):
            base.status = "encrypted"
            base.encrypted = True
            notes.append(("encrypted-payload", f"{len(payload)} bytes under {_key_names(metadata)}"))
            if "num_messages_in_batch" in metadata:
                base.batch_size = metadata["num_messages_in_batch"]
            rows.append(base)
            return
        if metadata.get("num_chunks_from_msg", 1) > 1 and "uuid" in metadata:
            joined = self._join(metadata, payload, owner, base, notes)
            if joined is None:
                if base.status == "incomplete":
                    rows.append(base)
                return
            payload = joined
        opened = decompress(metadata.get("compression", "NONE"), payload, metadata.get("uncompressed_size", 0))
        if opened.note is not None:
            notes.append(opened.note)
        if opened.data is None:
            base.status = "undecodable"
            base.batch_size = metadata.get("num_messages_in_batch")
            rows.append(base)
        elif "num_messages_in_batch" in metadata and "num_chunks_from_msg" not in metadata:
            self._open_batch(base, metadata, opened.data, rows, notes)
        else:
            self._finish(base, opened.data)
            rows.append(base)

    def _base_row(self, frame: Frame, metadata: dict[str, Any]) -> MessageRow:
        """What all messages of an entry share."""
        source, connection = self._where
        row = MessageRow(source, frame.file, frame.packet, frame.sub, frame.time, connection)
        row.producer_name = metadata.get("producer_name")
        row.sequence_id = metadata.get("sequence_id")
        row.publish_time = _nanoseconds(metadata.get("publish_time"))
        row.event_time = _nanoseconds(metadata.get("event_time"))
        row.deliver_at = _nanoseconds(metadata.get("deliver_at_time"))
        row.compression = metadata.get("compression", "NONE")
        row.encrypted = False
        row.key = metadata.get("partition_key")
        row.key_is_bytes = metadata.get("partition_key_b64_encoded")
        row.ordering_key = metadata.get("ordering_key")
        row.properties = _properties(metadata.get("properties"))
        row.schema_version = metadata.get("schema_version")
        row.null_value = metadata.get("null_value")
        if "txnid_least_bits" in metadata or "txnid_most_bits" in metadata:
            row.txn = f"({metadata.get('txnid_most_bits', 0)},{metadata.get('txnid_least_bits', 0)})"
        if "marker_type" in metadata:
            row.marker = MARKERS.get(metadata["marker_type"], f"marker-{metadata['marker_type']}")
        entry = frame.broker_entry_metadata
        if entry is not None:
            row.broker_time = _nanoseconds(entry.get("broker_timestamp"))
            row.index = entry.get("index")
        row.status = "ok"
        return row

    def _finish(self, row: MessageRow, payload: bytes) -> None:
        row.payload_size = len(payload)
        row.payload_sha256 = sha256(payload).hexdigest()
        if self._form is not None:
            row.payload = _text(payload, self._form)

    def _open_batch(self, base: MessageRow, metadata: dict[str, Any], data: bytes, rows: list[MessageRow], notes: list[Note]) -> None:
        """Messages as [size u32, SingleMessageMetadata, payload]; n is the metadata's word, the bytes are believed."""
        claimed = metadata["num_messages_in_batch"]
        position, end, index = 0, len(data), 0
        first = len(rows)
        while position < end and index < min(claimed, BATCH_MESSAGES_MAX):
            try:
                size = int.from_bytes(data[position : position + 4], "big")
                start = position + 4
                if start + size > end:
                    raise WireError(f"the metadata of message {index} ends behind the batch")  # noqa: TRY301, TRY003, EM102
                single = walk(data, start, start + size, self._single_plan, notes)
                length = single.get("payload_size", -1)
                start += size
                if length < 0 or start + length > end:
                    raise WireError(f"message {index} of {length} bytes ends behind the batch")  # noqa: TRY301, TRY003, EM102
            except WireError as error:
                notes.append(("batch-corrupt", str(error)))
                break
            rows.append(self._batched_row(base, single, data[start : start + length], index))
            position = start + length
            index += 1
        else:
            if index == BATCH_MESSAGES_MAX < claimed:
                notes.append(("batch-corrupt", f"more than {BATCH_MESSAGES_MAX} messages: num_messages_in_batch says {claimed}"))
            elif index != claimed:
                notes.append(("batch-corrupt", f"{index} messages are there, num_messages_in_batch says {claimed}"))
            elif position != end:
                notes.append(("batch-corrupt", f"{end - position} bytes follow the last of {claimed} messages"))
        last = base.index
        for row in rows[first:]:
            row.batch_size = claimed
            if last is not None and row.batch_index is not None:
                row.index = max(last - (claimed - 1 - row.batch_index), -(1 << 63))  # the entry's index is its last message's
        if len(rows) == first:
            base.status = "undecodable"
            base.batch_size = claimed
            rows.append(base)

    def _batched_row(self, base: MessageRow, single: dict[str, Any], payload: bytes, index: int) -> MessageRow:
        row = MessageRow(base.source, base.file, base.packet, base.sub, base.time, base.connection)
        row.producer_name = base.producer_name
        row.sequence_id = single.get("sequence_id", base.sequence_id)
        row.batch_index = index
        row.key = single.get("partition_key")
        row.key_is_bytes = single.get("partition_key_b64_encoded")
        row.ordering_key = single.get("ordering_key")
        row.properties = _properties(single.get("properties"))
        row.publish_time = base.publish_time
        row.event_time = _nanoseconds(single.get("event_time"))
        row.deliver_at = base.deliver_at
        row.broker_time = base.broker_time
        row.schema_version = base.schema_version
        row.compression = base.compression
        row.encrypted = False
        row.txn = base.txn
        row.null_value = single.get("null_value")
        row.marker = COMPACTED_OUT if single.get("compacted_out") else base.marker
        row.status = "ok"
        self._finish(row, payload)
        return row

    def _join(self, metadata: dict[str, Any], payload: bytes, owner: Owner, base: MessageRow, notes: list[Note]) -> bytes | None:
        """The whole payload at the last chunk; before that None. `base.status` "incomplete" when it will never be whole."""
        number, count = metadata.get("chunk_id", 0), metadata["num_chunks_from_msg"]
        base.chunks = count
        key = (owner, metadata["uuid"])
        chunks = self._chunks.get(key)
        if chunks is None or number == 0:
            self._forget(key)
            chunks = self._chunks[key] = _Chunks(base)
        chunks.last = base
        if number < len(chunks.parts):
            return None  # the same chunk again
        if number > len(chunks.parts) and chunks.first_missing is None:
            chunks.first_missing = len(chunks.parts)
        self._chunk_bytes += len(payload)
        chunks.size += len(payload)
        if chunks.first_missing is None:
            chunks.parts.append(payload)
        while self._chunk_bytes > DECOMPRESSED_MAX_BYTES or len(self._chunks) > CHUNKED_MESSAGES_MAX:
            oldest = next(iter(self._chunks))
            notes.append(("chunk-missing", f"chunks of {oldest[1]} are given up: too many messages or bytes wait"))
            self._forget(oldest)
        if number != count - 1:
            return None
        self._forget(key)
        if chunks.first_missing is not None or len(chunks.parts) != count:
            notes.append(("chunk-missing", f"chunk {chunks.first_missing or 0} of {count} of message {key[1]}"))
            base.status = "incomplete"
            return None
        return b"".join(chunks.parts)

    def rest(self) -> list[tuple[Owner, MessageRow]]:
        """(owner, row of the last chunk seen) of the messages that are not complete at the end."""
        left = [(owner, chunks.last) for (owner, _), chunks in self._chunks.items()]
        for _, row in left:
            row.status = "incomplete"
        self._chunks.clear()
        self._chunk_bytes = 0
        return left

    def _forget(self, key: tuple[Owner, str]) -> None:
        chunks = self._chunks.pop(key, None)
        if chunks is not None:
            self._chunk_bytes -= chunks.size


def _key_names(metadata: dict[str, Any]) -> str:
    return ", ".join(str(key.get("key")) for key in metadata["encryption_keys"])
