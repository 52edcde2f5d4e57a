"""The usual forms of the frequent commands and of MessageMetadata, read without a table.

Every client writes these fields in this order; each function reads as far as the bytes are so and leaves the rest, or all of it, to
`walk`, whose answer is always the same (a property test holds them together). This is what makes small messages cheap: see the table
of `benchmarks/decode.py` in docs/measurements.md.
"""

from __future__ import annotations

from typing import Any

from pulsarscope.protocols.pulsar.messages import Plan, walk
from pulsarscope.wire.contract import Note

_TIMES: dict[bytes, int] = {}
"""Values of six-byte varints, which times in milliseconds are: many messages share one. Emptied when it gets large."""

_TIMES_MAX = 4096

COMMAND_MIN_BYTES = 4
"""Shorter sub-messages are not of a usual form."""

ENTRY_METADATA_MIN_BYTES = 9
"""A time of six bytes, an index of one."""

METADATA_MIN_BYTES = 11
"""An empty name, a sequence id of one byte, a time of six."""


def send(data: bytes, position: int, end: int, plan: Plan, notes: list[Note]) -> dict[str, Any]:
    """CommandSend: producer_id, sequence_id, num_messages."""
    start = position
    producer_id = data[position + 1]
    if data[position] == 8 and producer_id < 128 and data[position + 2] == 16:
        sequence_id = data[position + 3]
        position += 4
        if sequence_id > 127:
            byte = data[position]
            position += 1
            sequence_id += (byte << 7) - 128
            if byte > 127:
                byte = data[position]
                position += 1
                sequence_id += (byte << 14) - 16384
                if byte > 127:
                    byte = data[position]
                    position += 1
                    sequence_id += (byte << 21) - 2097152
                    if byte > 127:
                        return walk(data, start, end, plan, notes)
        if position == end:
            return {"producer_id": producer_id, "sequence_id": sequence_id}
        if position < end:
            return walk(data, position, end, plan, notes, 0, {"producer_id": producer_id, "sequence_id": sequence_id})
    return walk(data, start, end, plan, notes)


def send_receipt(data: bytes, position: int, end: int, plan: Plan, notes: list[Note]) -> dict[str, Any]:
    """CommandSendReceipt: producer_id, sequence_id, message_id, highest_sequence_id."""
    start = position
    producer_id = data[position + 1]
    if data[position] == 8 and producer_id < 128 and data[position + 2] == 16:
        sequence_id = data[position + 3]
        position += 4
        if sequence_id > 127:
            byte = data[position]
            position += 1
            sequence_id += (byte << 7) - 128
            if byte > 127:
                byte = data[position]
                position += 1
                sequence_id += (byte << 14) - 16384
                if byte > 127:
                    byte = data[position]
                    position += 1
                    sequence_id += (byte << 21) - 2097152
                    if byte > 127:
                        return walk(data, start, end, plan, notes)
        if position < end and data[position] == 26:
            size = data[position + 1] if position + 6 <= end else 0
            message_id = _message_id(data, position + 2, size) if 4 <= size <= end - position - 2 else None
            if message_id is not None:
                position += 2 + size
                out = {"producer_id": producer_id, "sequence_id": sequence_id, "message_id": message_id}
                if position == end:
                    return out
                if position + 11 == end and data[position:end] == _NO_HIGHEST:
                    out["highest_sequence_id"] = -1
                    return out
                if position + 2 == end and data[position] == 32 and data[position + 1] < 128:
                    out["highest_sequence_id"] = data[position + 1]
                    return out
                if position < end:
                    return walk(data, position, end, plan, notes, 0, out)
    return walk(data, start, end, plan, notes)


_NO_HIGHEST = b"\x20" + b"\xff" * 9 + b"\x01"
"""highest_sequence_id = 2^64 − 1: the SEND had none."""


def _message_id(data: bytes, position: int, size: int) -> dict[str, Any] | None:
    """MessageIdData with ledgerId and entryId of up to four bytes each, and nothing else; None when it is another form."""
    end = position + size
    if data[position] != 8:
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
    return {"ledgerId": ledger, "entryId": entry} if position == end else None


def message(data: bytes, position: int, end: int, plan: Plan, notes: list[Note]) -> dict[str, Any]:
    """CommandMessage: consumer_id, message_id."""
    consumer_id = data[position + 1]
    if data[position] == 8 and consumer_id < 128 and data[position + 2] == 18:
        size = data[position + 3]
        message_id = _message_id(data, position + 4, size) if 4 <= size <= end - position - 4 else None
        if message_id is not None:
            out = {"consumer_id": consumer_id, "message_id": message_id}
            after = position + 4 + size
            if after == end:
                return out
            if after + 2 == end and data[after] == 24 and data[after + 1] < 128:
                out["redelivery_count"] = data[after + 1]
                return out
            if after < end:
                return walk(data, after, end, plan, notes, 0, out)
    return walk(data, position, end, plan, notes)


def metadata(data: bytes, position: int, end: int, plan: Plan, notes: list[Note]) -> dict[str, Any]:
    """MessageMetadata: producer_name, sequence_id, publish_time, and whatever else."""
    if end - position < METADATA_MIN_BYTES:
        return walk(data, position, end, plan, notes)
    start = position
    size = data[position + 1]
    if data[position] == 10 and size < 128:
        position += 2 + size
        if position + 9 <= end and data[position] == 16:
            sequence_id = data[position + 1]
            stop = position
            position += 2
            if sequence_id > 127:
                byte = data[position]
                position += 1
                sequence_id += (byte << 7) - 128
                if byte > 127:
                    byte = data[position]
                    position += 1
                    sequence_id += (byte << 14) - 16384
                    if byte > 127:
                        byte = data[position]
                        position += 1
                        sequence_id += (byte << 21) - 2097152
                        if byte > 127:
                            return walk(data, start, end, plan, notes)
            if data[position] == 24 and position + 7 <= end:
                raw = data[position + 1 : position + 7]
                publish_time = _TIMES.get(raw) or _time(raw)
                if publish_time:
                    try:
                        name = data[start + 2 : stop].decode()
                    except UnicodeDecodeError:
                        return walk(data, start, end, plan, notes)
                    out = {"producer_name": name, "sequence_id": sequence_id, "publish_time": publish_time}
                    position += 7
                    return out if position == end else walk(data, position, end, plan, notes, 0, out)
    return walk(data, start, end, plan, notes)


def broker_entry_metadata(data: bytes, position: int, end: int, plan: Plan, notes: list[Note]) -> dict[str, Any]:
    """BrokerEntryMetadata: broker_timestamp, index."""
    if end - position >= ENTRY_METADATA_MIN_BYTES and data[position] == 8:
        raw = data[position + 1 : position + 7]
        broker_timestamp = _TIMES.get(raw) or _time(raw)
        if broker_timestamp and data[position + 7] == 16:
            return walk(data, position + 7, end, plan, notes, 0, {"broker_timestamp": broker_timestamp})
    return walk(data, position, end, plan, notes)


def _time(raw: bytes) -> int:
    """The value of a varint of exactly these six bytes; 0 when they are none."""
    value = 0
    for shift, byte in enumerate(raw):
        if (byte > 127) == (shift == 5):
            return 0
        value |= (byte & 127) << 7 * shift
    if len(_TIMES) >= _TIMES_MAX:
        _TIMES.clear()
    _TIMES[raw] = value
    return value


USUAL = {"SEND": send, "SEND_RECEIPT": send_receipt, "MESSAGE": message}
"""Readers by command; the others go through `walk`."""
