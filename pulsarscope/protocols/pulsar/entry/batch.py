"""The messages of a batch, read column by column: [size u32, SingleMessageMetadata, payload], one after another.

Messages with the layout of the previous one are read many at a time (see `columnar_batch`), the others one by one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable
from functools import cache
from itertools import chain, repeat
from typing import Any

from pulsarscope.dissect.contract.frames import Note
from pulsarscope.dissect.contract.payload_forms import payload_text
from pulsarscope.model.digests import sha256_hex
from pulsarscope.model.limits import BATCH_MESSAGES_MAX, BATCH_METADATA_MAX_BYTES
from pulsarscope.model.platform import load_native
from pulsarscope.model.records import MessageRow
from pulsarscope.model.text import plural
from pulsarscope.model.units import MILLISECOND
from pulsarscope.protocols.pulsar.entry.columnar_batch import RUN_MAX, MessageShape
from pulsarscope.protocols.pulsar.entry.traces import names_trace, trace_of
from pulsarscope.protocols.pulsar.frame.generated import single_messages
from pulsarscope.protocols.pulsar.frame.protobuf import Plan, WireError, walk
from pulsarscope.protocols.pulsar.frame.secret_fields import is_secret_name

_TIME_MAX = (1 << 63) // MILLISECOND - 1

COMPACTED_OUT = "compacted-out"

RUN_MIN = 16
"""Least number of messages tried at once for a common shape. The number grows while the shape fits."""

SINGLES_MAX = 4096
"""Most messages read one by one before a shape is tried again."""

WITH_PAYLOADS_MAX_BYTES = 512 << 10
"""Largest batch for which the compiled reader gives payloads: it holds more copies of them than Python does."""

_U32 = struct.Struct(">I")
Columns = dict[str, Iterable[Any]]
"""Values by column of MessageRow, one for each message; the properties can be taken only once."""


def nanoseconds(milliseconds: int | None) -> int | None:
    """Return a time in ns; None if there is none, or an int64 cannot hold it: years before 1677 and after 2262."""
    return milliseconds * MILLISECOND if milliseconds and -_TIME_MAX <= milliseconds <= _TIME_MAX else None


def property_map(pairs: list[dict[str, str]] | None) -> dict[str, str] | None:
    """Return repeated KeyValue as one object, with the last value of a repeated key; None if there is none."""
    return {pair.get("key", ""): pair.get("value", "") for pair in pairs} if pairs else None


class BatchColumns:
    """Columns of the messages of a batch that have been read so far."""

    __slots__ = ("_measured", "count", "digests", "keys", "payloads", "position", "properties", "rare", "sequence_ids", "sizes", "traced")

    def __init__(self) -> None:
        self.position = 0
        """End of the last message read."""
        self.count = 0
        self.sizes: list[int] = []
        self.keys: list[str | None] = []
        self.sequence_ids: list[int | None] = []
        self.properties: list[Iterable[dict[str, str] | None]] = []
        """Properties in order; properties of messages that are read together are made when they are taken."""
        self.digests: list[str] = []
        self.payloads: list[str] = []
        self.rare: dict[int, dict[str, Any]] = {}
        """All fields of messages that have a rare field."""
        self.traced = False
        """True if a property of some message has a name used by traces."""
        self._measured = (0, 0)  # number of messages, and the bytes of their payloads

    def metadata_bytes(self) -> int:
        """Return the size of the metadata read so far, including their size fields. Its cost grows with the number of new messages."""
        count, payload_bytes = self._measured
        payload_bytes += sum(self.sizes[count:])
        self._measured = self.count, payload_bytes
        return self.position - payload_bytes


class BatchReader:
    """A reader of batches into the requested columns."""

    def __init__(self, plan: Plan, columns: Collection[str], payload_form: str | None) -> None:
        """Prepare to read with the plan of SingleMessageMetadata, for columns of MessageRow and payloads in a form, or None."""
        self._plan = plan
        self._traces = not {"trace_id", "span_id"}.isdisjoint(columns)
        self._properties = "properties" in columns or self._traces
        self._sha256 = "payload_sha256" in columns
        self._form = payload_form if "payload" in columns else None
        self._payloads = self._sha256 or self._form is not None
        self._shape: MessageShape | None = None
        """Shape of a message that was read alone, for the next messages."""
        self._run_messages = RUN_MIN
        """Number of messages to try for this shape."""
        self._single_messages = 1
        """Number of messages to read one by one if the shape does not fit, doubled each time."""
        self._singles_ahead = 1
        """Number of these that remain, in this batch and the next ones."""

    def read(self, data: bytes, claimed: int, entry: MessageRow, notes: list[Note]) -> tuple[int, Columns]:
        """Read the messages of a batch.

        Args:
            data: the batch, not compressed.
            claimed: number of messages according to the entry's metadata; the bytes decide.
            entry: row with what the messages share.
            notes: receives oddities.

        Returns:
            Number of messages, and their own columns; all messages have the entry's value in any other column.
        """
        if (columns := self.read_compiled(data, claimed, entry.sequence_id, entry.index)) is not None:
            return claimed, columns
        batch = BatchColumns()
        end, limit = len(data), min(claimed, BATCH_MESSAGES_MAX)
        between_looks = SINGLES_MAX if end <= BATCH_METADATA_MAX_BYTES else 1  # messages read between checks of the size of the metadata
        while batch.position < end and batch.count < limit:
            if between_looks == 1 and batch.metadata_bytes() > BATCH_METADATA_MAX_BYTES:
                notes.append(("batch-corrupt", f"the metadata of {batch.count} of {claimed} messages exceed the limit for reading them"))
                break
            if not self._singles_ahead and self._shape is not None and self._read_run(data, limit, entry.sequence_id, batch, self._shape):
                continue
            asked = min(limit - batch.count, self._singles_ahead, between_looks)
            if self._read_common(data, asked, entry.sequence_id, batch) < asked and batch.position < end:
                try:
                    self._read_any(data, entry.sequence_id, batch, notes)
                except WireError as error:
                    notes.append(("batch-corrupt", str(error)))
                    break
        else:
            if batch.count == BATCH_MESSAGES_MAX < claimed:
                notes.append(("batch-corrupt", f"more than {BATCH_MESSAGES_MAX} messages: num_messages_in_batch says {claimed}"))
            elif batch.count != claimed:
                notes.append(("batch-corrupt", f"{batch.count} messages are there, num_messages_in_batch says {claimed}"))
            elif batch.position != end:
                notes.append(("batch-corrupt", f"{plural(end - batch.position, 'byte')} behind the last of {claimed} messages"))
        return batch.count, self._columns(batch, claimed, entry)

    def read_compiled(self, data: bytes, claimed: int, sequence_id: int | None, index: int | None) -> Columns | None:
        """Read all messages with the compiled reader, if it is installed and finds them plain; the numbers are those of the entry."""
        reader = self.compiled()
        if reader is None or not 0 < claimed <= BATCH_MESSAGES_MAX or len(data) > _largest(self._form):
            return None
        columns: Columns | None = reader.read(data, claimed, sequence_id)
        if columns is not None and index is not None:
            columns["index"] = _indexes(index, claimed, claimed)
        return columns

    def compiled(self) -> Any:
        """Return the compiled reader of batches; None if it is not installed."""
        native, _ = load_native()
        return None if native is None else compiled_reader(native, self._properties, self._sha256, self._form)

    def _columns(self, batch: BatchColumns, claimed: int, entry: MessageRow) -> Columns:
        numbers = range(batch.count)
        columns: Columns = {
            "batch_index": numbers,
            "payload_size": batch.sizes,
            "key": batch.keys,
            "sequence_id": batch.sequence_ids,
        }
        if self._properties:
            columns["properties"] = chain.from_iterable(batch.properties)
            if batch.traced:
                columns["properties"] = properties = [*columns["properties"]]
                traces = [(trace_of(pairs) if pairs else None) or (None, None) for pairs in properties]
                columns["trace_id"], columns["span_id"] = zip(*traces, strict=True)
        if self._sha256:
            columns["payload_sha256"] = batch.digests
        if self._form is not None:
            columns["payload"] = batch.payloads
        if entry.index is not None:
            columns["index"] = _indexes(entry.index, claimed, batch.count)
        if batch.rare:
            columns |= {name: [read(batch.rare.get(number, {}), entry) for number in numbers] for name, read in _RARE.items()}
        return columns

    def _read_common(self, data: bytes, limit: int, sequence_id: int | None, batch: BatchColumns) -> int:
        """Add messages up to the first that the fast reader leaves to the reference, at most `limit`; return their number."""
        start, count = batch.position, batch.count
        properties: list[dict[str, str] | None] | None = [] if self._properties else None
        payloads: list[bytes] | None = [] if self._payloads else None
        batch.position = single_messages(data, start, limit, sequence_id, batch.sizes, batch.keys, batch.sequence_ids, properties, payloads)
        batch.count = len(batch.sizes)
        if properties:
            batch.properties.append(properties)
            batch.traced = batch.traced or (self._traces and any(map(names_trace, properties)))
        if payloads:
            self._add_payloads(payloads, batch)
        added = batch.count - count
        self._singles_ahead -= added
        if added and not self._singles_ahead:
            self._shape = MessageShape(data, start, batch.sizes[count], self._plan)
        return added

    def _read_any(self, data: bytes, sequence_id: int | None, batch: BatchColumns, notes: list[Note]) -> None:
        """Add the next message with the reference reader; `sequence_id` is the entry's. Raises WireError if the bytes are not a message."""
        start, end = batch.position + 4, len(data)
        stop = start + _U32.unpack_from(data, batch.position)[0] if start <= end else start
        if stop > end:
            raise WireError(f"the metadata of message {batch.count} ends behind the batch")
        fields = walk(data, start, stop, self._plan, notes)
        size = fields.get("payload_size", -1)
        after = stop + size
        if size < 0 or after > end:
            raise WireError(f"message {batch.count} of {size:,} bytes ends behind the batch")
        batch.sizes.append(size)
        batch.keys.append(fields.get("partition_key"))
        batch.sequence_ids.append(fields.get("sequence_id", sequence_id))
        if self._properties:
            pairs = property_map(fields.get("properties"))
            batch.properties.append((pairs,))
            batch.traced = batch.traced or (self._traces and names_trace(pairs))
        self._add_payloads((data[stop:after],), batch)
        batch.rare[batch.count] = fields
        batch.position = after
        batch.count += 1

    def _add_payloads(self, payloads: Iterable[bytes], batch: BatchColumns) -> None:
        if self._sha256:
            batch.digests += map(sha256_hex, payloads)
        if self._form is not None:
            batch.payloads += [payload_text(payload, self._form) for payload in payloads]

    def _read_run(self, data: bytes, limit: int, entry_sequence_id: int | None, batch: BatchColumns, shape: MessageShape) -> bool:
        """Add messages of a shape; return False if there were too few, so that the next ones should be read one by one."""
        asked = min(self._run_messages, limit - batch.count)
        batch.position, run = shape.read(data, batch.position, asked, properties=self._properties, payloads=self._payloads)
        count = 0
        if run is not None:
            count = run.messages
            batch.count += count
            batch.sizes += repeat(shape.payload_size, count)
            batch.keys += run.keys or repeat(None, count)
            batch.sequence_ids += run.sequence_ids or repeat(entry_sequence_id, count)
            if self._properties:
                batch.properties.append(run.properties or repeat(None, count))
                batch.traced = batch.traced or (self._traces and names_trace(shape.names))
            self._add_payloads(run.payloads, batch)
        if count == asked:
            self._run_messages, self._single_messages = min(max(2 * asked, self._run_messages), RUN_MAX), 1
            return True
        self._run_messages, self._single_messages = RUN_MIN, 1 if count >= RUN_MIN else min(2 * self._single_messages, SINGLES_MAX)
        self._singles_ahead = self._single_messages
        return False


def _indexes(last: int, claimed: int, count: int) -> list[int]:
    """Return the indexes of the messages: the index of the entry is that of its last message."""
    return [max(last - (claimed - 1 - number), -(1 << 63)) for number in range(count)]


@cache
def compiled_reader(module: Any, properties: bool, digests: bool, form: str | None) -> Any:
    """Return the batch reader of pulsarscope-native, which caches names. `form`: form of payloads; None if they are not requested."""
    return module.BatchReader(_is_plain_name, properties, digests, form, (BATCH_MESSAGES_MAX, _largest(form)))


def _largest(form: str | None) -> int:
    """Return the size of the largest batch that the compiled reader opens, in bytes."""
    return BATCH_METADATA_MAX_BYTES if form is None else WITH_PAYLOADS_MAX_BYTES


def _is_plain_name(name: str) -> bool:
    """Return True for the name of a property that is neither a credential nor a trace."""
    return not (is_secret_name(name) or names_trace((name,)))


_RARE: dict[str, Callable[[dict[str, Any], MessageRow], Any]] = {
    "key_is_bytes": lambda fields, _: fields.get("partition_key_b64_encoded"),
    "ordering_key": lambda fields, _: fields.get("ordering_key"),
    "event_time": lambda fields, _: nanoseconds(fields.get("event_time")),
    "null_value": lambda fields, _: fields.get("null_value"),
    "marker": lambda fields, entry: COMPACTED_OUT if fields.get("compacted_out") else entry.marker,
}
"""Columns that are empty for most messages, made from the fields of a message and the row of its entry."""

OWN_COLUMNS = ("key", "key_is_bytes", "ordering_key", "properties", "trace_id", "span_id", "event_time", "null_value")
"""Columns that a message of a batch has itself or not at all, whatever the metadata of the entry say."""
