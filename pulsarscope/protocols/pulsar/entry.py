"""An entry (what SEND carries and MESSAGE brings) → its application messages: codec undone, batch opened, chunks joined.

Order of wrapping when producing: messages → batch → compress → encrypt → checksum (binary protocol specification, "Batch messages").
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from itertools import repeat
from typing import Any

import msgspec

from pulsarscope.limits import CHUNKED_MESSAGES_MAX, DECOMPRESSED_MAX_BYTES, ROWS_MAX
from pulsarscope.protocols.pulsar.batch import OWN_COLUMNS, BatchReader, Columns, nanoseconds, payload_text, property_map
from pulsarscope.protocols.pulsar.compression import decompress
from pulsarscope.protocols.pulsar.markers import marker_name
from pulsarscope.protocols.pulsar.messages import Plan
from pulsarscope.records import MessageRow, Row, RowList, row_type
from pulsarscope.wire.contract import TRUNCATED, Frame, Note

Owner = tuple[str, int]
"""Whose entry it is: produce and a producer id, or deliver and a consumer id."""


class Entry(msgspec.Struct):
    """An entry that was opened: its messages, not yet rows."""

    base: MessageRow
    """What its messages share; the row itself when it is no batch. Its columns may be set until the rows are made."""
    count: int = 1
    columns: Columns | None = None
    """What each message of a batch has for itself."""

    def payload_characters(self) -> int:
        """Length of the payloads that the rows will hold."""
        return len(self.base.payload or "") if self.columns is None else sum(map(len, self.columns.get("payload", ())))


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

    def __init__(
        self,
        source: str | None,
        connection: str,
        single_plan: Plan,
        payload_form: str | None,
        columns: Sequence[str] | None = None,
    ) -> None:
        """`columns`: those of MessageRow that are wanted, None for all."""
        self._where = (source, connection)
        self._columns = MessageRow.__struct_fields__ if columns is None else tuple(columns)
        self._row_type: type[Any] = MessageRow if columns is None else row_type(MessageRow.kind, self._columns)
        self._form = payload_form if "payload" in self._columns else None
        self._digest = "payload_sha256" in self._columns
        self._batches = BatchReader(single_plan, self._columns, payload_form)
        self._chunks: dict[tuple[Owner, str], _Chunks] = {}
        self._chunk_bytes = 0

    def open(self, frame: Frame, owner: Owner, notes: list[Note]) -> Entry | None:
        """The messages that this frame completes. `owner` keeps the chunks of different producers and consumers apart."""
        metadata = frame.metadata
        if metadata is None:
            return None
        base = self._base_row(frame, metadata)
        payload = frame.payload or b""
        if frame.status == TRUNCATED:
            base.status = TRUNCATED
            return Entry(base)
        if metadata.get("encryption_keys"):
            base.status = "encrypted"
            base.encrypted = True
            notes.append(("encrypted-payload", f"{len(payload)} bytes under {_key_names(metadata)}"))
            base.batch_size = metadata.get("num_messages_in_batch")
            return Entry(base)
        if metadata.get("num_chunks_from_msg", 1) > 1 and "uuid" in metadata:
            joined = self._join(metadata, payload, owner, base, notes)
            if joined is None:
                return Entry(base) if base.status == "incomplete" else None
            payload = joined
        opened = decompress(metadata.get("compression", "NONE"), payload, metadata.get("uncompressed_size", 0))
        if opened.note is not None:
            notes.append(opened.note)
        if opened.data is None:
            base.status = "undecodable"
            base.batch_size = metadata.get("num_messages_in_batch")
        elif "num_messages_in_batch" in metadata and "num_chunks_from_msg" not in metadata:
            return self._open_batch(base, metadata["num_messages_in_batch"], opened.data, notes)
        else:
            base.payload_size = len(opened.data)
            if self._digest:
                base.payload_sha256 = sha256(opened.data).hexdigest()
            if self._form is not None:
                base.payload = payload_text(opened.data, self._form)
        return Entry(base)

    def _open_batch(self, base: MessageRow, claimed: int, data: bytes, notes: list[Note]) -> Entry:
        count, columns = self._batches.read(data, claimed, base, notes)
        base.batch_size = claimed
        if not count:
            base.status = "undecodable"
            return Entry(base)
        for name in OWN_COLUMNS:
            setattr(base, name, None)
        return Entry(base, count, columns)

    def give(self, entry: Entry, out: list[Row]) -> None:
        """Append the rows of an entry: whole ones, or of the columns that are wanted; very many to a RowList, to be made later."""
        base, columns = entry.base, entry.columns
        if columns is not None:
            own = columns.get
            values = [own(name) or repeat(getattr(base, name), entry.count) for name in self._columns]
            rows = map(self._row_type, *values)
            if entry.count > ROWS_MAX and isinstance(out, RowList):
                out.extend_later(rows)
            else:
                out.extend(rows)
        elif self._row_type is MessageRow:
            out.append(base)
        else:
            out.append(self._row_type(*[getattr(base, name) for name in self._columns]))

    def _base_row(self, frame: Frame, metadata: dict[str, Any]) -> MessageRow:
        """What all messages of an entry share."""
        source, connection = self._where
        row = MessageRow(source, frame.file, frame.packet, frame.sub, frame.time, connection)
        row.producer_name = metadata.get("producer_name")
        row.sequence_id = metadata.get("sequence_id")
        row.publish_time = nanoseconds(metadata.get("publish_time"))
        row.event_time = nanoseconds(metadata.get("event_time"))
        row.deliver_at = nanoseconds(metadata.get("deliver_at_time"))
        row.compression = metadata.get("compression", "NONE")
        row.encrypted = False
        row.key = metadata.get("partition_key")
        row.key_is_bytes = metadata.get("partition_key_b64_encoded")
        row.ordering_key = metadata.get("ordering_key")
        row.properties = property_map(metadata.get("properties"))
        row.schema_version = metadata.get("schema_version")
        row.null_value = metadata.get("null_value")
        if "txnid_least_bits" in metadata or "txnid_most_bits" in metadata:
            row.txn = f"({metadata.get('txnid_most_bits', 0)},{metadata.get('txnid_least_bits', 0)})"
        if "marker_type" in metadata:
            row.marker = marker_name(metadata["marker_type"])
        entry = frame.broker_entry_metadata
        if entry is not None:
            row.broker_time = nanoseconds(entry.get("broker_timestamp"))
            row.index = entry.get("index")
        row.status = "ok"
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
