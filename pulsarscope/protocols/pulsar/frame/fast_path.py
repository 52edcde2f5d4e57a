"""The usual forms of the frequent commands and of MessageMetadata, read without a table.

Every client writes these fields in this order; each function reads as far as the bytes are so and leaves the rest, or all of it, to
`walk`, whose answer is always the same (a property test holds them together). This is what makes small messages cheap: see the table
of `benchmarks/decode.py` in docs/measurements.md.
"""

from __future__ import annotations

from typing import Any

from pulsarscope.dissect.frames import Note
from pulsarscope.protocols.pulsar.frame.protobuf import Plan, WireError, walk

_MEMO_MAX = 4096
"""Values remembered by their bytes in each memo."""


class Memo(dict[bytes, Any]):
    """Values by their bytes: neighbours share most of them, and a look costs less than reading them again."""

    def put(self, raw: bytes, value: object) -> None:
        """Remember a value; all are forgotten when there are too many."""
        if len(self) >= _MEMO_MAX:
            self.clear()
        self[raw] = value


TIMES = Memo()
"""Tag and value of publish_time, when that has six bytes as times in milliseconds have: many messages share one."""

RESTS = Memo()
"""What follows publish_time in the metadata, when that is short and plain: a key, a codec, a schema version."""

_PROPERTIES_TAG = 34
"""Where there are properties, they come first, and are more than plain values."""

PLAIN_MAX_BYTES = 64
"""More of such bytes are not remembered."""

HIGHER = Memo()
"""All but the first byte of a varint to what they add to that byte: so many ids share them that a look costs less than reading them."""

NAMES = Memo()
"""Tag, length and text of producer_name with the tag of sequence_id: a capture holds few."""

PRODUCERS, PRODUCER_SUCCESSES = (Memo(), Memo()), (Memo(), Memo())
"""Of these commands, what stands in front of the producer_name, with the tag of that, and what stands behind it."""

COMMAND_MIN_BYTES = 4
"""Shorter sub-messages are not of a usual form."""

ENTRY_METADATA_MIN_BYTES = 9
"""A time of six bytes, an index of one."""

METADATA_MIN_BYTES = 11
"""An empty name, a sequence id of one byte, a time of six."""


def send(data: bytes, position: int, end: int, plan: Plan, notes: list[Note]) -> dict[str, Any]:
    """CommandSend: producer_id, sequence_id, num_messages."""
    producer_id = _FIRST_ID.get(data[position : position + 3])
    if producer_id is not None:
        sequence_id = data[position + 3]
        after = position + 4
        if sequence_id > 127:
            byte = data[after]
            after += 1
            sequence_id += (byte << 7) - 128
            if byte > 127:
                byte = data[after]
                after += 1
                sequence_id += (byte << 14) - 16384
                if byte > 127:
                    byte = data[after]
                    after += 1
                    sequence_id += (byte << 21) - 2097152
                    if byte > 127:
                        return walk(data, position, end, plan, notes)
        if after == end:
            return {"producer_id": producer_id, "sequence_id": sequence_id}
        if after + 2 == end and data[after] == 24 and data[after + 1] < 128:
            return {"producer_id": producer_id, "sequence_id": sequence_id, "num_messages": data[after + 1]}
        if after < end:
            return walk(data, after, end, plan, notes, 0, {"producer_id": producer_id, "sequence_id": sequence_id})
    return walk(data, position, end, plan, notes)


def send_receipt(data: bytes, position: int, end: int, plan: Plan, notes: list[Note]) -> dict[str, Any]:
    """CommandSendReceipt: producer_id, sequence_id, message_id, highest_sequence_id."""
    producer_id = _FIRST_ID.get(data[position : position + 3])
    if producer_id is not None:
        sequence_id = data[position + 3]
        after = position + 4
        if sequence_id > 127:
            byte = data[after]
            after += 1
            sequence_id += (byte << 7) - 128
            if byte > 127:
                byte = data[after]
                after += 1
                sequence_id += (byte << 14) - 16384
                if byte > 127:
                    byte = data[after]
                    after += 1
                    sequence_id += (byte << 21) - 2097152
                    if byte > 127:
                        return walk(data, position, end, plan, notes)
        if after + 6 <= end and data[after] == 26:
            stop = after + 2 + data[after + 1]
            message_id = _message_id(data, after + 2, stop) if stop <= end else None
            if message_id is not None:
                if stop == end:
                    return {"producer_id": producer_id, "sequence_id": sequence_id, "message_id": message_id}
                highest = HIGHEST.get(data[stop:end])
                if highest is not None:
                    return {
                        "producer_id": producer_id,
                        "sequence_id": sequence_id,
                        "message_id": message_id,
                        "highest_sequence_id": highest,
                    }
                begun = {"producer_id": producer_id, "sequence_id": sequence_id, "message_id": message_id}
                return walk(data, stop, end, plan, notes, 0, begun)
    return walk(data, position, end, plan, notes)


_FIRST_ID = {bytes((8, number, 16)): number for number in range(128)}
"""Tag and value of a first field that is an id, tag of the second: one look instead of three comparisons."""

HIGHEST = {b"\x20" + b"\xff" * 9 + b"\x01": -1, **{bytes((32, number)): number for number in range(128)}}
"""highest_sequence_id: 2^64 − 1 when the SEND had none."""


def _message_id(data: bytes, position: int, end: int) -> dict[str, Any] | None:
    """MessageIdData with ledgerId and entryId of up to four bytes each, maybe a partition; None when it is another form."""
    if data[position] != 8 or end - position < 4:
        return None
    ledger = data[position + 1]
    position += 2
    if ledger > 127:
        byte = data[position]
        position += 1
        ledger += (byte << 7) - 128
        if byte > 127:
            byte = data[position]
            position += 1
            ledger += (byte << 14) - 16384
            if byte > 127:
                byte = data[position]
                position += 1
                ledger += (byte << 21) - 2097152
                if byte > 127:
                    return None
    if data[position] != 16:
        return None
    entry = data[position + 1]
    position += 2
    if entry > 127:
        byte = data[position]
        position += 1
        entry += (byte << 7) - 128
        if byte > 127:
            byte = data[position]
            position += 1
            entry += (byte << 14) - 16384
            if byte > 127:
                byte = data[position]
                position += 1
                entry += (byte << 21) - 2097152
                if byte > 127:
                    return None
    if position == end:
        return {"ledgerId": ledger, "entryId": entry}
    partition = _PARTITIONS.get(data[position:end])
    return None if partition is None else {"ledgerId": ledger, "entryId": entry, "partition": partition}


_PARTITIONS = {b"\x18" + b"\xff" * 9 + b"\x01": -1, **{bytes((24, number)): number for number in range(128)}}
"""Tag and value of MessageIdData.partition: brokers write −1 for none."""


def message(data: bytes, position: int, end: int, plan: Plan, notes: list[Note]) -> dict[str, Any]:
    """CommandMessage: consumer_id, message_id."""
    consumer_id = data[position + 1]
    if data[position] == 8 and consumer_id < 128 and data[position + 2] == 18:
        after = position + 4 + data[position + 3]
        message_id = _message_id(data, position + 4, after) if after <= end else None
        if message_id is not None:
            if after == end:
                return {"consumer_id": consumer_id, "message_id": message_id}
            if after + 2 == end and data[after] == 24 and data[after + 1] < 128:
                return {"consumer_id": consumer_id, "message_id": message_id, "redelivery_count": data[after + 1]}
            return walk(data, after, end, plan, notes, 0, {"consumer_id": consumer_id, "message_id": message_id})
    return walk(data, position, end, plan, notes)


def metadata(data: bytes, position: int, end: int, plan: Plan, notes: list[Note]) -> dict[str, Any]:
    """MessageMetadata: producer_name, sequence_id, publish_time, and whatever else."""
    if end - position < METADATA_MIN_BYTES:
        return walk(data, position, end, plan, notes)
    after = position + data[position + 1] + 3
    name = NAMES.get(data[position:after])
    if name is None:
        name = _name(data[position:after])
    if name is not None and after + 8 <= end:
        sequence_id = data[after]
        after += 1
        if sequence_id > 127:
            byte = data[after]
            after += 1
            sequence_id += (byte << 7) - 128
            if byte > 127:
                byte = data[after]
                after += 1
                sequence_id += (byte << 14) - 16384
                if byte > 127:
                    byte = data[after]
                    after += 1
                    sequence_id += (byte << 21) - 2097152
                    if byte > 127:
                        return walk(data, position, end, plan, notes)
        raw = data[after : after + 7]
        after += 7
        if after <= end:
            publish_time = TIMES.get(raw) or time_of(raw)
            if publish_time:
                out = {"producer_name": name, "sequence_id": sequence_id, "publish_time": publish_time}
                if after != end:
                    rest = RESTS.get(data[after:end]) or rest_of(data[after:end], plan)
                    if rest is None:
                        return walk(data, after, end, plan, notes, 0, out)
                    out.update(rest)
                return out
    return walk(data, position, end, plan, notes)


def broker_entry_metadata(data: bytes, position: int, end: int, plan: Plan, notes: list[Note]) -> dict[str, Any]:
    """BrokerEntryMetadata: broker_timestamp, index."""
    if end - position >= ENTRY_METADATA_MIN_BYTES and data[position] == 8 and data[position + 7] == 16:
        raw = b"\x18" + data[position + 1 : position + 7]
        broker_timestamp = TIMES.get(raw) or time_of(raw)
        if broker_timestamp:
            index = data[position + 8]
            if position + 9 == end and index < 128:
                return {"broker_timestamp": broker_timestamp, "index": index}
            high = data[position + 9 : end]
            base = HIGHER.get(high)
            if base is None:
                base = higher(high)
            if base is not None and index > 127:
                return {"broker_timestamp": broker_timestamp, "index": base + index}
            return walk(data, position + 7, end, plan, notes, 0, {"broker_timestamp": broker_timestamp})
    return walk(data, position, end, plan, notes)


def producer(data: bytes, position: int, end: int, plan: Plan, notes: list[Note]) -> dict[str, Any]:
    """CommandProducer: topic, producer_id, request_id, producer_name, and whatever else."""
    return _named(data, position, position + 7 + data[position + 1], end, plan, notes, PRODUCERS)


def producer_success(data: bytes, position: int, end: int, plan: Plan, notes: list[Note]) -> dict[str, Any]:
    """CommandProducerSuccess: request_id, producer_name, and whatever else."""
    return _named(data, position, position + 3, end, plan, notes, PRODUCER_SUCCESSES)


def _named(data: bytes, position: int, at: int, end: int, plan: Plan, notes: list[Note], around: tuple[Memo, Memo]) -> dict[str, Any]:
    """A message with the length of its producer_name at `at`: the name is new each time, what stands in front and behind is not."""
    if at < end and (stop := at + 1 + data[at]) <= end and data[at] < 128:
        fronts, backs = around
        raw_front, raw_back = data[position:at], data[stop:end]
        front = fronts.get(raw_front) or _front(raw_front, plan, fronts)
        back = backs.get(raw_back) or _plain(raw_back, end - stop, plan, backs)
        if front is not None and back is not None:
            try:
                fields = {**front, "producer_name": data[at + 1 : stop].decode(), **back}
            except UnicodeDecodeError:
                fields = {}
            if fields.keys() >= plan.required.keys():
                return fields
    return walk(data, position, end, plan, notes)


def _front(raw: bytes, plan: Plan, memo: Memo) -> dict[str, Any] | None:
    """The fields in front of a producer_name, whose tag is the last byte; None when they are odd or the tag is another one's."""
    row = plan.rows.get(raw[-1])
    return None if row is None or row.name != "producer_name" else _plain(raw, len(raw) - 1, plan, memo)


def _plain(raw: bytes, end: int, plan: Plan, memo: Memo) -> dict[str, Any] | None:
    """The fields in raw[:end], remembered under `raw`; None when they are long, odd or more than plain values."""
    if end > PLAIN_MAX_BYTES:
        return None
    notes: list[Note] = []
    try:
        fields = walk(raw, 0, end, plan, notes, checked=False)
    except WireError:
        return None
    if notes or not all(isinstance(value, (str, int, bytes)) for value in fields.values()):
        return None
    memo.put(raw, fields)
    return fields


def higher(raw: bytes) -> int | None:
    """What the bytes after the first one of a varint of at most eight add to the first; None when they are not the rest of one."""
    if not 0 < len(raw) < 8 or raw[-1] > 127 or min(raw[:-1], default=128) < 128:
        return None
    value = sum((byte & 127) << 7 * index for index, byte in enumerate(raw, 1)) - 128
    HIGHER.put(raw, value)
    return value


def rest_of(raw: bytes, plan: Plan) -> dict[str, Any] | None:
    """What follows publish_time in the metadata, remembered in RESTS; None when it is long, odd or more than plain values."""
    return None if raw[0] == _PROPERTIES_TAG else _plain(raw, len(raw), plan, RESTS)


def time_of(raw: bytes) -> int:
    """The value of a varint of exactly six bytes behind the tag of publish_time; 0 when the bytes are none."""
    if len(raw) != 7 or raw[0] != 24:
        return 0
    value = 0
    for shift, byte in enumerate(raw[1:]):
        if (byte > 127) == (shift == 5):
            return 0
        value |= (byte & 127) << 7 * shift
    TIMES.put(raw, value)
    return value


def _name(raw: bytes) -> str | None:
    """The producer's name between its tag and length and the tag of sequence_id; None when the bytes are not so."""
    if len(raw) < 3 or raw[0] != 10 or raw[1] > 127 or raw[-1] != 16 or len(raw) != raw[1] + 3:
        return None
    try:
        name = raw[2:-1].decode()
    except UnicodeDecodeError:
        return None
    NAMES.put(raw, name)
    return name


USUAL = {"SEND": send, "SEND_RECEIPT": send_receipt, "MESSAGE": message, "PRODUCER": producer, "PRODUCER_SUCCESS": producer_success}
"""Readers by command; the others go through `walk`."""
