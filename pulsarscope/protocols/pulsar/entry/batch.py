"""The messages of a batch: [size u32, SingleMessageMetadata, payload] one after another, read column by column.

Clients write SingleMessageMetadata in the order of its field numbers, short: `BatchReader.read_usual` reads that
form without a table, and leaves any other to `walk`, whose answer is always the same (a property test holds them together).
Of messages laid out as the one before, `pulsarscope.protocols.pulsar.entry.columnar_batch` reads many at once.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable
from hashlib import sha256
from itertools import chain, repeat
from typing import Any

from pulsarscope.dissect.frames import Note
from pulsarscope.dissect.payload_forms import payload_text
from pulsarscope.model.limits import BATCH_MESSAGES_MAX, BATCH_METADATA_MAX_BYTES
from pulsarscope.model.records import MessageRow
from pulsarscope.protocols.pulsar.entry.columnar_batch import RUN_MAX, Shape
from pulsarscope.protocols.pulsar.frame.protobuf import Plan, WireError, walk

MILLISECOND = 1_000_000
"""Nanoseconds."""

_TIME_MAX = (1 << 63) // MILLISECOND - 1

COMPACTED_OUT = "compacted-out"

ALIKE_MIN = 16
"""So many messages at the least are tried at once for being alike; the more, the longer they have been."""

ODD_MAX = 4096
"""So many messages at the most are read one by one before alike ones are looked for again."""

_U32 = struct.Struct(">I")
_START = struct.Struct(">IBBBB")
"""Size of the metadata, and their first bytes: tag and length of a property, tag and length of its key."""

Columns = dict[str, Iterable[Any]]
"""Values by column of MessageRow, one for each message; the properties may be taken once."""


def nanoseconds(milliseconds: int | None) -> int | None:
    """None as well for a time that no int64 of nanoseconds can hold: years before 1677 and after 2262."""
    return milliseconds * MILLISECOND if milliseconds and -_TIME_MAX <= milliseconds <= _TIME_MAX else None


def property_map(pairs: list[dict[str, str]] | None) -> dict[str, str] | None:
    """Repeated KeyValue as one object: the last of a repeated key; None when there is none."""
    return {pair.get("key", ""): pair.get("value", "") for pair in pairs} if pairs else None


class Batch:
    """What the messages of a batch say for themselves, read so far."""

    __slots__ = ("_measured", "count", "digests", "keys", "payloads", "position", "properties", "rare", "sequence_ids", "sizes")

    def __init__(self) -> None:
        self.position = 0
        """Behind the last message read."""
        self.count = 0
        self.sizes: list[int] = []
        self.keys: list[str | None] = []
        self.sequence_ids: list[int | None] = []
        self.properties: list[Iterable[dict[str, str] | None]] = []
        """One after the other; those of alike messages are yet to be made."""
        self.digests: list[str] = []
        self.payloads: list[str] = []
        self.rare: dict[int, dict[str, Any]] = {}
        """All fields of those messages that may have other ones."""
        self._measured = (0, 0)  # messages, and the bytes of their payloads

    def metadata_bytes(self) -> int:
        """Of all messages read so far, with the sizes in front of them; takes as long as there are new ones."""
        count, payload_bytes = self._measured
        payload_bytes += sum(self.sizes[count:])
        self._measured = self.count, payload_bytes
        return self.position - payload_bytes


class BatchReader:
    """Reads batches into the columns that are wanted."""

    def __init__(self, plan: Plan, wanted: Collection[str], payload_form: str | None) -> None:
        """`plan`: of SingleMessageMetadata. `wanted`: columns of MessageRow. `payload_form`: base64, hex, text; None for none."""
        self._plan = plan
        self._properties = "properties" in wanted
        self._sha256 = "payload_sha256" in wanted
        self._form = payload_form if "payload" in wanted else None
        self._shape: Shape | None = None
        """Of a message read one by one."""
        self._alike = ALIKE_MIN
        """How many messages to try for this shape."""
        self._odd = 1
        """How many to read one by one where it does not fit."""
        self._odd_left = 1
        """How many of them are left to read, in this batch and those that follow."""

    def read(self, data: bytes, claimed: int, entry: MessageRow, notes: list[Note]) -> tuple[int, Columns]:
        """How many messages there are, and what each says for itself; a column that is not there is the entry's for all.

        `claimed` is the metadata's word for how many there are; the bytes are believed. `entry` has what the messages share.
        """
        batch = Batch()
        end, limit = len(data), min(claimed, BATCH_MESSAGES_MAX)
        many = ODD_MAX if end <= BATCH_METADATA_MAX_BYTES else 1  # messages to read before one looks how large their metadata are
        while batch.position < end and batch.count < limit:
            if many == 1 and batch.metadata_bytes() > BATCH_METADATA_MAX_BYTES:
                notes.append(("batch-corrupt", f"the metadata of {batch.count} of {claimed} messages take more than is read of them"))
                break
            if not self._odd_left and self._shape is not None and self.read_alike(data, limit, entry.sequence_id, batch, self._shape):
                continue
            start, count, stop = batch.position, batch.count, min(limit, batch.count + min(self._odd_left, many))
            self.read_usual(data, stop, entry.sequence_id, batch)
            self._odd_left -= batch.count - count
            if not self._odd_left and batch.count > count:
                size, wants_payloads = batch.sizes[count], self._sha256 or self._form is not None
                self._shape = Shape(data, start, size, want_properties=self._properties, want_payloads=wants_payloads)
            if batch.position < end and batch.count < stop:
                try:
                    self.read_any(data, entry.sequence_id, batch, notes)
                except WireError as error:
                    notes.append(("batch-corrupt", str(error)))
                    break
        else:
            if batch.count == BATCH_MESSAGES_MAX < claimed:
                notes.append(("batch-corrupt", f"more than {BATCH_MESSAGES_MAX} messages: num_messages_in_batch says {claimed}"))
            elif batch.count != claimed:
                notes.append(("batch-corrupt", f"{batch.count} messages are there, num_messages_in_batch says {claimed}"))
            elif batch.position != end:
                notes.append(("batch-corrupt", f"{end - batch.position} bytes follow the last of {claimed} messages"))
        return batch.count, self._columns(batch, claimed, entry)

    def _columns(self, batch: Batch, claimed: int, entry: MessageRow) -> Columns:
        numbers = range(batch.count)
        columns: Columns = {
            "batch_index": numbers,
            "payload_size": batch.sizes,
            "key": batch.keys,
            "sequence_id": batch.sequence_ids,
        }
        if self._properties:
            columns["properties"] = chain.from_iterable(batch.properties)
        if self._sha256:
            columns["payload_sha256"] = batch.digests
        if self._form is not None:
            columns["payload"] = batch.payloads
        if entry.index is not None:  # the entry's index is its last message's
            columns["index"] = [max(entry.index - (claimed - 1 - number), -(1 << 63)) for number in numbers]
        if batch.rare:
            columns |= {name: [read(batch.rare.get(number, {}), entry) for number in numbers] for name, read in _RARE.items()}
        return columns

    def read_any(self, data: bytes, sequence_id: int | None, batch: Batch, notes: list[Note]) -> None:
        """Add the next message. `sequence_id`: the entry's. Raises WireError when the bytes hold none."""
        start, end = batch.position + 4, len(data)
        stop = start + _U32.unpack_from(data, batch.position)[0] if start <= end else start
        if stop > end:
            message = f"the metadata of message {batch.count} ends behind the batch"
            raise WireError(message)
        fields = walk(data, start, stop, self._plan, notes)
        size = fields.get("payload_size", -1)
        position = stop + size
        if size < 0 or position > end:
            message = f"message {batch.count} of {size} bytes ends behind the batch"
            raise WireError(message)
        batch.sizes.append(size)
        batch.keys.append(fields.get("partition_key"))
        batch.sequence_ids.append(fields.get("sequence_id", sequence_id))
        if self._properties:
            batch.properties.append((property_map(fields.get("properties")),))
        if self._sha256:
            batch.digests.append(sha256(data[stop:position]).hexdigest())
        if self._form is not None:
            batch.payloads.append(payload_text(data[stop:position], self._form))
        batch.rare[batch.count] = fields
        batch.position = position
        batch.count += 1

    def read_alike(self, data: bytes, limit: int, entry_sequence_id: int | None, batch: Batch, shape: Shape) -> bool:
        """Add messages of this shape. False when there were so few of them that the next ones are better read one by one."""
        wanted = min(self._alike, limit - batch.count)
        batch.position, run = shape.read(data, batch.position, wanted)
        count = 0
        if run is not None:
            count = run.messages
            batch.count += count
            batch.sizes += repeat(shape.payload_size, count)
            batch.keys += run.keys or repeat(None, count)
            batch.sequence_ids += run.sequence_ids or repeat(entry_sequence_id, count)
            if self._properties:
                batch.properties.append(run.properties or repeat(None, count))
            if self._sha256 and run.payloads is not None:
                batch.digests += [sha256(payload).hexdigest() for payload in run.payloads]
            if self._form is not None and run.payloads is not None:
                batch.payloads += [payload_text(payload, self._form) for payload in run.payloads]
        if count == wanted:
            self._alike, self._odd = min(max(2 * wanted, self._alike), RUN_MAX), 1
            return True
        self._alike, self._odd = ALIKE_MIN, 1 if count >= ALIKE_MIN else min(2 * self._odd, ODD_MAX)
        self._odd_left = self._odd
        return False

    def read_usual(self, data: bytes, limit: int, entry_sequence_id: int | None, batch: Batch) -> None:
        """Add messages up to the first whose metadata are not in the usual form, or `limit` of them.

        That is: of properties, partition_key, payload_size, sequence_id those that are there, in this order, each short. Properties that
        are not wanted are looked through for what is odd, all the same.
        """
        want_properties, want_sha256, form = self._properties, self._sha256, self._form
        add_size, add_key, add_sequence_id = batch.sizes.append, batch.keys.append, batch.sequence_ids.append
        wants_payload = want_sha256 or form is not None
        position, end = batch.position, len(data)
        properties: list[dict[str, str] | None] = []
        add_properties = properties.append
        unpack = _START.unpack_from
        pairs: dict[str, str] | None
        key: str | None
        sequence_id: int | None
        try:
            for _ in range(batch.count, limit):
                metadata_size, tag, length, inner, name_length = unpack(data, position)
                start = at = position + 4
                if tag == 10:
                    pairs = {} if want_properties else None
                    while True:
                        middle = at + 4 + name_length
                        stop = at + 2 + length
                        if inner != 10 or data[middle] != 18 or middle + 2 + data[middle + 1] != stop or length > 127:
                            return
                        if pairs is not None:
                            pairs[data[at + 4 : middle].decode()] = data[middle + 2 : stop].decode()
                        at = stop
                        tag = data[at]
                        if tag != 10:
                            break
                        length, inner, name_length = data[at + 1], data[at + 2], data[at + 3]
                    if pairs is None and not data[start:at].isascii():
                        return
                else:
                    pairs = None
                if tag == 18:
                    length = data[at + 1]
                    stop = at + 2 + length
                    if length > 127:
                        return
                    key = data[at + 2 : stop].decode()
                    at = stop
                    tag = data[at]
                else:
                    key = None
                if tag != 24:
                    return
                size = data[at + 1]
                at += 2
                if size > 127:
                    byte = data[at]
                    at += 1
                    size += (byte << 7) - 128
                    if byte > 127:
                        byte = data[at]
                        at += 1
                        size += (byte << 14) - 16384
                        if byte > 127:
                            return
                sequence_id = entry_sequence_id
                if at != start + metadata_size:
                    if data[at] != 64:
                        return
                    sequence_id = data[at + 1]
                    at += 2
                    if sequence_id > 127:
                        byte = data[at]
                        at += 1
                        sequence_id += (byte << 7) - 128
                        if byte > 127:
                            byte = data[at]
                            at += 1
                            sequence_id += (byte << 14) - 16384
                            if byte > 127:
                                byte = data[at]
                                at += 1
                                sequence_id += (byte << 21) - 2097152
                                if byte > 127:
                                    return
                    if at != start + metadata_size:
                        return
                if at + size > end:
                    return
                position = at + size
                add_size(size)
                add_key(key)
                add_sequence_id(sequence_id)
                if want_properties:
                    add_properties(pairs)
                if wants_payload:
                    payload = data[at:position]
                    if want_sha256:
                        batch.digests.append(sha256(payload).hexdigest())
                    if form is not None:
                        batch.payloads.append(payload_text(payload, form))
        except (IndexError, UnicodeDecodeError, struct.error):
            return
        finally:
            batch.position, batch.count = position, len(batch.sizes)
            batch.properties.append(properties)


_RARE: dict[str, Callable[[dict[str, Any], MessageRow], Any]] = {
    "key_is_bytes": lambda fields, _: fields.get("partition_key_b64_encoded"),
    "ordering_key": lambda fields, _: fields.get("ordering_key"),
    "event_time": lambda fields, _: nanoseconds(fields.get("event_time")),
    "null_value": lambda fields, _: fields.get("null_value"),
    "marker": lambda fields, entry: COMPACTED_OUT if fields.get("compacted_out") else entry.marker,
}
"""Columns for which most messages say nothing, from the fields of one that does and the row of its entry."""

OWN_COLUMNS = ("key", "key_is_bytes", "ordering_key", "properties", "event_time", "null_value")
"""Columns that a message of a batch has for itself or not at all, whatever the metadata of the entry say."""
