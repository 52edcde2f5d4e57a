"""Templates of repeated layouts: frames with the same fields in the same places as an earlier one are read with one unpack.

A producer writes the same header over and over. Only the sequence id, the time and the checksum change in it; in a receipt, only the
sequence id and the entry id; in an acknowledgment, the entry id. So a frame that was read field by field leaves a template, which reads the
next frames that begin with the same bytes: it compares each byte before the payload with the earlier frame, or reads it as a part of one of
those values. A frame that does not fit everywhere is read field by field, with the same result (a property test compares the two).
`benchmarks.readers` reads a capture with and without templates.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from pulsarscope.dissect.contract.dissector import Layout
from pulsarscope.dissect.contract.frames import OK, Decoded
from pulsarscope.model.records import Checksum
from pulsarscope.protocols.pulsar.frame.fast_path import FALLBACK_ERRORS, NAMES, TIMES, Memo, remember_time
from pulsarscope.protocols.pulsar.frame.generated import message_metadata_rest
from pulsarscope.protocols.pulsar.frame.payload_head import CHECKSUM_NUMBER, COPY_MAX_BYTES, crc32c, read_payload_head

HEAD_START, HEAD_END = 4, 15
"""Bytes of a frame by which its template is found: size of the command; tag and value of its type; tag and length of its body; the first
field of the body, an id of one byte, and the tag of the next field."""

TEMPLATES_MAX = 4096
"""Number of templates: mostly one for each producer id in use."""

HIGH_BYTES: Memo[int] = Memo()
"""What the bytes after the first one of a varint add to its value: many ids share these bytes."""

LEDGERS: Memo[int] = Memo()
"""Ledger ids by their tag, their varint, and the tag of the entry id."""

COUNTS: Memo[int | None] = Memo({b"": None})
"""num_messages by its tag and varint."""

HIGHEST_IDS = {b"": None, b"\x20" + b"\xff" * 9 + b"\x01": -1, **{bytes((32, number)): number for number in range(128)}}
"""highest_sequence_id by its tag and varint: 2^64 − 1 if the SEND had none."""

_SEQUENCE_TAG, _TIME_TAG = 16 << 8, 24
"""Tags of sequence_id (before a byte) and publish_time in MessageMetadata."""

_struct_of = lru_cache(256)(struct.Struct)


class _MessageIdSizes(NamedTuple):
    """Sizes within a MessageIdData."""

    ledger: int
    """Bytes of the ledger id with its tag and the tag of the entry id."""
    entry: int
    """Bytes of the entry id alone, at least two."""


def _varint_size(data: bytes, at: int, end: int) -> int:
    """Return the size of the varint at a position."""
    after = at
    while after < end and data[after] > 127:
        after += 1
    return after + 1 - at


def high_bytes(raw: bytes) -> int | None:
    """Return the value of the bytes after the first one of a varint of at most eight bytes; None if they are not the rest of one."""
    if not 0 < len(raw) < 8 or raw[-1] > 127 or min(raw[:-1], default=128) < 128:
        return None
    value = sum((byte & 127) << 7 * index for index, byte in enumerate(raw, 1)) - 128
    HIGH_BYTES.put(raw, value)
    return value


def _tagged(raw: bytes, tag: int) -> int | None:
    """Return the number in a tag and a varint of at most eight bytes; None if the bytes have another form."""
    if len(raw) < 2 or raw[0] != tag or (raw[1] > 127) != (len(raw) > 2):
        return None
    base = high_bytes(raw[2:]) if len(raw) > 2 else 0
    return None if base is None else base + raw[1]


def _message_id_sizes(data: bytes, at: int, end: int) -> _MessageIdSizes | None:
    """Measure the MessageIdData data[at:end], and cache the bytes that its numbers share with others; None if its entry id is short."""
    ledger = _varint_size(data, at + 1, end) + 2
    entry_at = at + ledger
    entry = _varint_size(data, entry_at, end)
    number = _tagged(data[at : entry_at - 1], 8)
    if entry < 2 or number is None or data[entry_at - 1] != 16 or high_bytes(data[entry_at + 1 : entry_at + entry]) is None:
        return None
    LEDGERS.put(data[at:entry_at], number)
    return _MessageIdSizes(ledger, entry)


def _send_template(data: bytes, start: int, decoded: Decoded) -> Layout | None:
    """SEND: producer_id, sequence_id, perhaps num_messages; producer_name, sequence_id, publish_time and any other fields."""
    _, sample, entry, _, metadata, _, _, _ = decoded
    if data[start + 15] < 128 or sample is None or entry is not None or metadata is None:
        return None
    command_end = 12 + data[start + 11]  # from the start of the frame, like all positions below
    producer_id, sequence_bytes = data[start + 13], _varint_size(data, start + 15, start + command_end)
    raw_count = data[start + 15 + sequence_bytes : start + command_end]
    if raw_count and _tagged(raw_count, 24) is None:
        return None
    COUNTS.put(raw_count, sample.get("num_messages"))
    name_at = command_end + 10
    name_bytes = data[start + name_at + 1] + 2  # including its tag and length
    high_bytes(data[start + 16 : start + 15 + sequence_bytes])
    plain_bytes = name_bytes + 1 + sequence_bytes + 7
    rest_at = name_at + plain_bytes
    unpack = _struct_of(f">B{sequence_bytes - 1}s{len(raw_count)}sHII{name_bytes}sH{sequence_bytes - 1}sB6s").unpack_from
    bases, counts, names, times = HIGH_BYTES.get, COUNTS.get, NAMES.get, TIMES.get

    def read(data: bytes, start: int, end: int) -> Decoded | None:
        if end - start < rest_at:
            return None
        low, high, raw_count, magic, stored, metadata_bytes, raw_name, low_again, high_again, time_tag, raw_time = unpack(data, start + 15)
        base, name, publish_time = bases(high), names(raw_name), times(raw_time) or remember_time(raw_time)
        if base is None or name is None or not publish_time or low < 128 or low_again != _SEQUENCE_TAG + low or high != high_again:
            return None
        if magic != CHECKSUM_NUMBER or time_tag != _TIME_TAG:
            return None
        sequence_id = base + low
        fields = {"producer_id": producer_id, "sequence_id": sequence_id}
        if raw_count:
            if (count := counts(raw_count)) is None:
                return None
            fields["num_messages"] = count
        metadata = {"producer_name": name, "sequence_id": sequence_id, "publish_time": publish_time}
        payload_offset = rest_at
        if metadata_bytes != plain_bytes:
            payload_offset += metadata_bytes - plain_bytes
            if not rest_at < payload_offset <= end - start:
                return None
            try:
                message_metadata_rest(data, start + rest_at, start + payload_offset, metadata)
            except FALLBACK_ERRORS:
                return None
        covered_at = start + command_end + 6
        covered = data[covered_at:end] if end - covered_at < COPY_MAX_BYTES else memoryview(data)[covered_at:end]
        if crc32c(covered) != stored:
            return None
        text = data[covered_at - 4 : covered_at].hex()
        return "SEND", fields, None, Checksum("good", text, text), metadata, payload_offset, OK, None

    return read


def _receipt_template(data: bytes, start: int, decoded: Decoded) -> Layout | None:
    """SEND_RECEIPT: producer_id, sequence_id; ledgerId, entryId; perhaps highest_sequence_id."""
    sample = decoded[1]
    if data[start + 15] < 128 or sample is None or "message_id" not in sample or len(sample["message_id"]) != 2:
        return None
    end = start + 4 + int.from_bytes(data[start : start + 4], "big")
    producer_id, sequence_bytes = data[start + 13], _varint_size(data, start + 15, end)
    id_at = start + 15 + sequence_bytes
    id_head, id_end = 26 << 8 | data[id_at + 1], id_at + 2 + data[id_at + 1]
    sizes = _message_id_sizes(data, id_at + 2, id_end)
    if sizes is None or high_bytes(data[start + 16 : id_at]) is None:
        return None
    form = f">B{sequence_bytes - 1}sH{sizes.ledger}sB{sizes.entry - 1}s{end - id_end}s"
    unpack, frame_bytes = _struct_of(form).unpack_from, end - start
    bases, ledgers, highest_ids = HIGH_BYTES.get, LEDGERS.get, HIGHEST_IDS.get

    def read(data: bytes, start: int, end: int) -> Decoded | None:
        if end - start != frame_bytes:
            return None
        low, high, head, raw_ledger, entry_low, entry_high, tail = unpack(data, start + 15)
        base, ledger, entry_base = bases(high), ledgers(raw_ledger), bases(entry_high)
        if base is None or ledger is None or entry_base is None or low < 128 or entry_low < 128 or head != id_head:
            return None
        message_id = {"ledgerId": ledger, "entryId": entry_base + entry_low}
        fields = {"producer_id": producer_id, "sequence_id": base + low, "message_id": message_id}
        if tail:
            if (highest := highest_ids(tail)) is None:
                return None
            fields["highest_sequence_id"] = highest
        return "SEND_RECEIPT", fields, None, None, None, None, OK, None

    return read


_MESSAGE_FIELDS = {("consumer_id", "message_id"), ("consumer_id", "message_id", "redelivery_count")}
_MESSAGE_ID_FIELDS = {("ledgerId", "entryId"), ("ledgerId", "entryId", "partition")}
"""Fields in the order in which they are written."""


def _message_template(data: bytes, start: int, decoded: Decoded) -> Layout | None:
    """MESSAGE: consumer_id; ledgerId, entryId, perhaps partition; perhaps redelivery_count; then any head of a payload."""
    sample = decoded[1]
    if sample is None or tuple(sample) not in _MESSAGE_FIELDS or tuple(sample["message_id"]) not in _MESSAGE_ID_FIELDS:
        return None
    consumer_id, partition, redelivery_count = data[start + 13], sample["message_id"].get("partition"), sample.get("redelivery_count")
    command_end = 12 + data[start + 11]  # from the start of the frame
    id_bytes, id_end = data[start + 15], start + 16 + data[start + 15]
    if (sizes := _message_id_sizes(data, start + 16, id_end)) is None:
        return None
    tail = data[start + 16 + sizes.ledger + sizes.entry : start + command_end]
    unpack = _struct_of(f">B{sizes.ledger}sB{sizes.entry - 1}s{len(tail)}s").unpack_from
    bases, ledgers = HIGH_BYTES.get, LEDGERS.get

    def read(data: bytes, start: int, end: int) -> Decoded | None:
        if start + command_end > end:
            return None
        own_bytes, raw_ledger, low, high, own_tail = unpack(data, start + 15)
        ledger, base = ledgers(raw_ledger), bases(high)
        if ledger is None or base is None or low < 128 or own_bytes != id_bytes or own_tail != tail:
            return None
        message_id = {"ledgerId": ledger, "entryId": base + low}
        if partition is not None:
            message_id["partition"] = partition
        fields: dict[str, Any] = {"consumer_id": consumer_id, "message_id": message_id}
        if redelivery_count is not None:
            fields["redelivery_count"] = redelivery_count
        try:
            entry, checksum, metadata, payload_at = read_payload_head(data, start + command_end, end)
        except FALLBACK_ERRORS:
            return None
        return "MESSAGE", fields, entry, checksum, metadata, payload_at - start, OK, None

    return read


def _ack_template(data: bytes, start: int, decoded: Decoded) -> Layout | None:
    """ACK of one entry: consumer_id, ack_type; ledgerId, entryId, perhaps partition."""
    sample = decoded[1]
    if sample is None or tuple(sample) != ("consumer_id", "ack_type", "message_id") or len(sample["message_id"]) != 1:
        return None
    (message_id,) = sample["message_id"]
    end = start + 4 + int.from_bytes(data[start : start + 4], "big")
    sizes = _message_id_sizes(data, start + 18, end)
    if tuple(message_id) not in _MESSAGE_ID_FIELDS or sizes is None:
        return None
    consumer_id, partition, type_name = data[start + 13], message_id.get("partition"), sample["ack_type"]
    ack_type, id_head, frame_bytes = data[start + 15], 26 << 8 | end - start - 18, end - start
    tail = data[start + 18 + sizes.ledger + sizes.entry : end]
    unpack = _struct_of(f">BH{sizes.ledger}sB{sizes.entry - 1}s{len(tail)}s").unpack_from
    bases, ledgers = HIGH_BYTES.get, LEDGERS.get

    def read(data: bytes, start: int, end: int) -> Decoded | None:
        if end - start != frame_bytes:
            return None
        own_type, head, raw_ledger, low, high, own_tail = unpack(data, start + 15)
        ledger, base = ledgers(raw_ledger), bases(high)
        if ledger is None or base is None or low < 128 or own_type != ack_type or head != id_head or own_tail != tail:
            return None
        message_id = {"ledgerId": ledger, "entryId": base + low}
        if partition is not None:
            message_id["partition"] = partition
        fields = {"consumer_id": consumer_id, "ack_type": type_name, "message_id": [message_id]}
        return "ACK", fields, None, None, None, None, OK, None

    return read


MAKERS: dict[str, Callable[[bytes, int, Decoded], Layout | None]] = {
    "SEND": _send_template,
    "SEND_RECEIPT": _receipt_template,
    "MESSAGE": _message_template,
    "ACK": _ack_template,
}
"""Makers of templates by command. They return the template of a frame that was read without a finding, or None if it has none."""


def learn(templates: dict[bytes, Layout], data: bytes, start: int, end: int, decoded: Decoded) -> None:
    """Keep the template of data[start:end], which was decoded without a finding, for the next frame with the same head."""
    known = templates.get(data[start + HEAD_START : start + HEAD_END])
    if known is not None and known(data, start, end) == decoded:  # it lacked only a name or a time, which are cached by now
        return
    template = MAKERS[decoded[0] or ""](data, start, decoded)
    if template is not None and template(data, start, end) == decoded:
        keep_template(templates, data, start, template)


def keep_template(templates: dict[bytes, Layout], data: bytes, start: int, template: Layout) -> None:
    """Keep a template under the head of the frame at a position."""
    if len(templates) >= TEMPLATES_MAX:
        templates.clear()
    templates[data[start + HEAD_START : start + HEAD_END]] = template
