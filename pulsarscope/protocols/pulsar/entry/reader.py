"""Entries of SEND and MESSAGE → application messages: decrypted, chunks joined, decompressed, batches opened.

Order of wrapping when producing: messages → batch → compress → encrypt → checksum (binary protocol specification, "Batch messages").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pulsarscope.dissect.contract.events import MessageEntry
from pulsarscope.dissect.contract.frames import OK, TRUNCATED, Note
from pulsarscope.dissect.contract.payload_forms import payload_text
from pulsarscope.model.digests import sha256_hex
from pulsarscope.model.limits import DECOMPRESS_CONNECTION_FREE_BYTES, DECOMPRESS_RATIO_MAX
from pulsarscope.model.records import FrameRow, MessageRow
from pulsarscope.protocols.pulsar.ack_sets import is_left
from pulsarscope.protocols.pulsar.entry.batch import OWN_COLUMNS, BatchReader, nanoseconds, property_map
from pulsarscope.protocols.pulsar.entry.chunks import ENCRYPTED, METADATA_FACTOR, Chunks, Owner
from pulsarscope.protocols.pulsar.entry.compression import Opened, decompress
from pulsarscope.protocols.pulsar.entry.encryption import Decryption
from pulsarscope.protocols.pulsar.entry.markers import marker_name
from pulsarscope.protocols.pulsar.entry.traces import trace_of
from pulsarscope.protocols.pulsar.frame.protobuf import Plan
from pulsarscope.protocols.pulsar.metadata_fields import METADATA_COMMON_BYTES
from pulsarscope.protocols.pulsar.values.connection_values import Values
from pulsarscope.protocols.pulsar.values.schemas import SchemaName, schema_name

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

MESSAGE_ROW_BYTES = 256
"""Estimated size in memory of a waiting message row, without payload text, value and unusually large metadata."""

VALUE_WEIGHT = 8
"""Estimated size in memory of a value, as a multiple of its JSON."""


class Unread(NamedTuple):
    """A payload that is not read yet, because the consumer may still request its schema from the broker."""

    data: bytes
    owner: Owner
    topic: str
    schema: SchemaName
    """Schema for which it waits."""


class Entry(MessageEntry):
    """An opened entry. The columns of its base may be set until the rows are made."""

    unread: Unread | None = None

    def set_id(self, message_id: dict[str, Any]) -> None:
        """Set the broker's id of the entry."""
        row = self.base
        row.ledger = message_id.get("ledgerId")
        row.entry = message_id.get("entryId")
        partition = message_id.get("partition", -1)
        row.partition = None if partition < 0 else partition

    def acknowledge(self, ack_set: Sequence[int]) -> None:
        """Mark the acknowledged messages: the broker sent them along with the unacknowledged ones of the batch."""
        if self.columns is not None:
            self.columns["acknowledged"] = [None if is_left(ack_set, index) else True for index in range(self.count)]

    def weight(self) -> int:
        """Estimate the size of the rows in memory, in bytes."""
        payload = len(self.base.payload or "") if self.columns is None else sum(map(len, self.columns.get("payload", ())))
        return MESSAGE_ROW_BYTES * self.count + payload + VALUE_WEIGHT * self.value_bytes + METADATA_FACTOR * self.metadata_bytes


class EntryOpener:
    """An opener of the entries of one connection. It holds only data keys and the chunks of incomplete messages."""

    entry = Entry
    """Type of the opened entries."""

    def __init__(
        self,
        single_plan: Plan,
        payload_form: str | None,
        columns: Sequence[str] | None = None,
        private_keys: Sequence[RSAPrivateKey] = (),
        values: Values | None = None,
        *,
        from_start: bool = True,
    ) -> None:
        """Prepare to open entries.

        Args:
            single_plan: plan of SingleMessageMetadata.
            payload_form: base64, hex or text; None for no payload.
            columns: requested columns of MessageRow; None for all.
            private_keys: private keys of consumers, for end-to-end encryption.
            values: reader of the values of payloads; None if they are not requested.
            from_start: True if the capture has the beginning of the connection.
        """
        self._columns = MessageRow.__struct_fields__ if columns is None else tuple(columns)
        self._form = payload_form if "payload" in self._columns else None
        self._digest = "payload_sha256" in self._columns
        self._values = values
        own = {*self._columns, "properties"} if values is not None and values.need_properties else self._columns
        self._batches = BatchReader(single_plan, own, payload_form)
        self._chunks = Chunks(from_start=from_start)
        self._decryption = Decryption(private_keys)
        self.allowed = DECOMPRESS_CONNECTION_FREE_BYTES
        """Bytes to which compressed payloads may still expand."""

    def open(self, frame: FrameRow, wire_payload: bytes, owner: Owner, notes: list[Note]) -> Entry | None:
        """Return the entry that a frame completes, or None; `owner` keeps chunks of different producers and consumers apart."""
        metadata = frame.metadata
        if metadata is None:
            return None
        base = self._base_row(frame, metadata)
        if frame.status == TRUNCATED:
            base.status = TRUNCATED
            return Entry(base)
        payload: bytes | None = wire_payload
        if metadata.get("encryption_keys"):
            base.encrypted = True
            payload = self._decrypted(metadata, wire_payload, notes)
        if metadata.get("num_chunks_from_msg", 1) > 1 and "uuid" in metadata:
            metadata_bytes = frame.size - len(wire_payload)
            payload = self._chunks.add(owner, metadata, metadata_bytes, payload, base, notes)
            if payload is None:
                return None if base.status == OK else Entry(base)
        elif payload is None:
            base.status = ENCRYPTED
            base.batch_size = metadata.get("num_messages_in_batch")
            return Entry(base)
        opened = self._decompressed(metadata.get("compression", "NONE"), payload, metadata.get("uncompressed_size", 0))
        if opened.note is not None:
            notes.append(opened.note)
        if opened.data is None:
            base.status = "undecodable"
            base.batch_size = metadata.get("num_messages_in_batch")
        elif "num_messages_in_batch" in metadata and "num_chunks_from_msg" not in metadata:
            return self._open_batch(base, metadata["num_messages_in_batch"], opened.data, owner, frame, notes)
        else:
            base.payload_size = len(opened.data)
            if self._digest:
                base.payload_sha256 = sha256_hex(opened.data)
            if self._form is not None:
                base.payload = payload_text(opened.data, self._form)
            return self._with_values(Entry(base), opened.data, owner, frame, notes)
        return Entry(base)

    def _decompressed(self, codec: str, payload: bytes, uncompressed_size: int) -> Opened:
        """Decompress a payload, unless the connection's payloads have expanded far too much: each bomb may cost a second."""
        if codec == "NONE":
            return Opened(payload, None)
        self.allowed += DECOMPRESS_RATIO_MAX * len(payload)
        if self.allowed < 0:
            text = f"the compressed payloads of the connection give more than {DECOMPRESS_RATIO_MAX:,} times their size"
            return Opened(None, ("decompress-bomb", text))
        opened = decompress(codec, payload, uncompressed_size)
        self.allowed -= opened.given_up if opened.data is None else len(opened.data)
        return opened

    def _decrypted(self, metadata: dict[str, Any], payload: bytes, notes: list[Note]) -> bytes | None:
        opened = self._decryption.open(metadata, payload)
        if opened.note is not None:
            notes.append(opened.note)
        return opened.data

    def _open_batch(self, base: MessageRow, claimed: int, data: bytes, owner: Owner, frame: FrameRow, notes: list[Note]) -> Entry:
        count, columns = self._batches.read(data, claimed, base, notes)
        base.batch_size = claimed
        if not count:
            base.status = "undecodable"
            return Entry(base)
        for name in OWN_COLUMNS:
            setattr(base, name, None)
        entry = Entry(base, count, columns, _large_metadata_bytes(data, count, columns))
        return self._with_values(entry, data, owner, frame, notes)

    @property
    def compiled(self) -> tuple[Any, int] | None:
        """Compiled reader of plain batches, and the most bytes to which each compressed byte may expand; None if it cannot be used."""
        reader = self._batches.compiled()
        return None if reader is None else (reader, DECOMPRESS_RATIO_MAX)

    def open_plain_batch(
        self, payload: bytes, codec: str, uncompressed_size: int, claimed: int, sequence_id: int | None, index: int | None
    ) -> tuple[dict[str, Any], int] | None:
        """Return the columns of a batch and the size of unusually large metadata; None if the compiled reader does not find it plain.

        `claimed`, `sequence_id` and `index` belong to the entry.
        """
        allowed = self.allowed
        data, note, _ = self._decompressed(codec, payload, uncompressed_size)
        columns = None if data is None or note is not None else self._batches.read_compiled(data, claimed, sequence_id, index)
        if data is None or columns is None:
            self.allowed = allowed  # it is opened again
            return None
        return columns, _large_metadata_bytes(data, claimed, columns)

    def is_sound(self, payload: bytes, codec: str, uncompressed_size: int) -> bool:
        """Return True if the payload of one message decompresses without a finding."""
        allowed = self.allowed
        data, note, _ = self._decompressed(codec, payload, uncompressed_size)
        if data is not None and note is None:
            return True
        self.allowed = allowed  # it is opened again
        return False

    def _with_values(self, entry: Entry, data: bytes, owner: Owner, frame: FrameRow, notes: list[Note]) -> Entry:
        if self._values is not None:
            topic = frame.topic or ""
            filled = self._values.fill(entry.base, entry.columns, data, owner, topic, notes)
            if filled is None:
                entry.unread = Unread(data, owner, topic, schema_name(topic, entry.base.schema_version or b""))
            else:
                entry.value_bytes = filled
        return entry

    def _base_row(self, frame: FrameRow, metadata: dict[str, Any]) -> MessageRow:
        """Return a row with the columns that all messages of an entry share."""
        row = MessageRow(frame.source, frame.file, frame.packet, frame.sub, frame.time, frame.connection, frame.dissector)
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
        if row.properties is not None and (trace := trace_of(row.properties)) is not None:
            row.trace_id, row.span_id = trace
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
        row.status = OK
        return row

    def waits(self) -> int:
        """Return the approximate size of the waiting chunks, in bytes."""
        return self._chunks.bytes

    def rest(self) -> list[tuple[Owner, MessageRow]]:
        """Return owner and row of the latest chunk for each chunked message that is incomplete at the end."""
        return self._chunks.rest()


def _large_metadata_bytes(data: bytes, count: int, columns: dict[str, Any]) -> int:
    """Return by how much the metadata of the messages of a batch exceed the usual size, in bytes."""
    more = len(data) - METADATA_COMMON_BYTES * count
    return max(more - sum(columns["payload_size"]), 0) if more > 0 else 0
