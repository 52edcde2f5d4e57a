"""Frames laid out as one before: the same fields in the same places, read with one unpack.

A producer writes the same header over and over; of it only the sequence id, the time and the checksum change, of a receipt only the
sequence id and the entry id, of an acknowledgment the entry id. So a frame that was read field by field leaves behind a layout, and the
next frames that begin with the same bytes are read by it: every byte in front of the payload is compared with what the layout says, or
is one of the values. What does not fit in each of them is read field by field, to the same end (a property test holds the two
together). This takes a third off the time of small messages; `benchmarks.profile` shows it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from pulsarscope.dissect.contract import Layout
from pulsarscope.dissect.frames import OK, Decoded
from pulsarscope.model.records import Checksum
from pulsarscope.protocols.pulsar.frame.checksum import crc32c
from pulsarscope.protocols.pulsar.frame.fast_path import (
    HIGHER,
    HIGHEST,
    METADATA_MIN_BYTES,
    NAMES,
    RESTS,
    TIMES,
    Memo,
    higher,
    rest_of,
    time_of,
)
from pulsarscope.protocols.pulsar.frame.protobuf import Plan

HEAD_START, HEAD_END = 4, 15
"""The bytes of a frame by which its layout is found: size of the command; tag and value of its type; tag and length of its sub-message;
its first field, an id of one byte, and the tag of the next."""

COPY_MAX_BYTES = 4096
"""Up to here the checksum of a copied slice is faster than that of a memoryview."""

LAYOUTS_MAX = 4096
"""Layouts kept: one for each producer id in use, mostly."""

REPEATED_MAX_BYTES = 256
"""Longest frame that is remembered as a whole."""

REPEATED_MAX = 4096
"""So many are; all are forgotten when there are more."""

CHECKED = struct.Struct(">HII")
"""Checksum magic, checksum, metadata size."""

_LEDGERS = Memo()
"""Tag and varint of a ledger id with the tag of the entry id behind it, to the ledger id."""

_COUNTS = Memo()
"""Tag and varint of num_messages to their number."""

_struct_of = lru_cache(256)(struct.Struct)


def _varint_bytes(data: bytes, position: int, end: int) -> int:
    """Bytes of the varint at `position`."""
    after = position
    while after < end and data[after] > 127:
        after += 1
    return after + 1 - position


def _ledger(raw: bytes) -> int | None:
    """The ledger id between its tag and the tag of the entry id."""
    if len(raw) < 3 or raw[0] != 8 or raw[-1] != 16:
        return None
    base = higher(raw[2:-1]) if len(raw) > 3 else 0
    if base is None or (raw[1] > 127) != (len(raw) > 3):
        return None
    _LEDGERS.put(raw, base + raw[1])
    return base + raw[1]


def _count(raw: bytes) -> int | None:
    """The num_messages behind its tag."""
    if len(raw) < 2 or raw[0] != 24:
        return None
    base = higher(raw[2:]) if len(raw) > 2 else 0
    if base is None or (raw[1] > 127) != (len(raw) > 2):
        return None
    _COUNTS.put(raw, base + raw[1])
    return base + raw[1]


def _send_layout(data: bytes, start: int, decoded: Decoded, plan: Plan) -> Layout | None:
    """SEND: producer_id, sequence_id, maybe num_messages; producer_name, sequence_id, publish_time, then what is remembered in RESTS."""
    _, fields, entry, _, metadata, payload_offset, _, _ = decoded
    if fields is None or entry is not None or metadata is None or payload_offset is None:
        return None
    command_end = 12 + data[start + 11]  # from the start of the frame, as all that follows
    producer_id, sequence_bytes = data[start + 13], _varint_bytes(data, start + 15, start + command_end)
    count_bytes = command_end - 15 - sequence_bytes
    if sequence_bytes < 2 or (count_bytes and _count(data[start + command_end - count_bytes : start + command_end]) is None):
        return None
    covered_at = command_end + 6  # the checksum comes before
    name_bytes = data[start + covered_at + 5] + 3  # with its tag and length, and the tag of the sequence id
    plain_bytes = name_bytes + sequence_bytes + 7
    rest_at = covered_at + 4 + plain_bytes
    higher(data[start + 16 : start + 15 + sequence_bytes])
    form = f">B{sequence_bytes - 1}s{count_bytes}sHII{name_bytes}sB{sequence_bytes - 1}s7s"
    unpack = _struct_of(form).unpack_from
    bases, counts, names, times, rests = HIGHER.get, _COUNTS.get, NAMES.get, TIMES.get, RESTS.get

    def read(data: bytes, start: int, end: int) -> Decoded | None:
        if end - start < rest_at:
            return None
        low, high, raw_count, magic, stored, metadata_bytes, raw_name, low_again, high_again, raw_time = unpack(data, start + 15)
        base, name, publish_time = bases(high), names(raw_name), times(raw_time) or time_of(raw_time)
        if base is None or name is None or not publish_time or low < 128 or magic != 0x0E01 or low != low_again or high != high_again:
            return None
        sequence_id = base + low
        fields = {"producer_id": producer_id, "sequence_id": sequence_id}
        if raw_count:
            count = counts(raw_count) or _count(raw_count)
            if count is None:
                return None
            fields["num_messages"] = count
        metadata = {"producer_name": name, "sequence_id": sequence_id, "publish_time": publish_time}
        payload_offset = rest_at
        if metadata_bytes != plain_bytes:
            payload_offset += metadata_bytes - plain_bytes
            if not rest_at < payload_offset <= end - start:
                return None
            raw_rest = data[start + rest_at : start + payload_offset]
            rest = rests(raw_rest) or rest_of(raw_rest, plan)
            if rest is None:
                return None
            metadata.update(rest)
        covered = data[start + covered_at : end] if end - start < COPY_MAX_BYTES else memoryview(data)[start + covered_at : end]
        if crc32c(covered) != stored:
            return None
        text = data[start + covered_at - 4 : start + covered_at].hex()
        return "SEND", fields, None, Checksum("good", text, text), metadata, payload_offset, OK, None

    return read


def _receipt_layout(data: bytes, start: int, decoded: Decoded, _: Plan) -> Layout | None:
    """SEND_RECEIPT: producer_id, sequence_id; ledgerId, entryId; maybe highest_sequence_id."""
    fields = decoded[1]
    end = start + 4 + int.from_bytes(data[start : start + 4], "big")
    if fields is None or len(fields) < 3:
        return None
    producer_id, sequence_bytes = data[start + 13], _varint_bytes(data, start + 15, end)
    ident_at = start + 15 + sequence_bytes
    if sequence_bytes < 2 or data[ident_at] != 26:
        return None
    ident_tag = 26 << 8 | data[ident_at + 1]
    ledger_bytes = _varint_bytes(data, ident_at + 3, end) + 2  # with its tag and that of the entry id
    entry_at, entry_end = ident_at + 2 + ledger_bytes, ident_at + 2 + data[ident_at + 1]
    if entry_end - entry_at < 2 or entry_end > end or _ledger(data[ident_at + 2 : entry_at]) is None:
        return None
    higher(data[start + 16 : ident_at])
    higher(data[entry_at + 1 : entry_end])
    form = f">B{sequence_bytes - 1}sH{ledger_bytes}sB{entry_end - entry_at - 1}s{end - entry_end}s"
    unpack = _struct_of(form).unpack_from
    bases, ledgers, highests = HIGHER.get, _LEDGERS.get, HIGHEST.get
    frame_bytes = end - start

    def read(data: bytes, start: int, end: int) -> Decoded | None:
        if end - start != frame_bytes:
            return None
        low, high, tag, raw_ledger, entry_low, entry_high, tail = unpack(data, start + 15)
        base, ledger, entry_base = bases(high), ledgers(raw_ledger), bases(entry_high)
        if base is None or ledger is None or entry_base is None or low < 128 or entry_low < 128 or tag != ident_tag:
            return None
        message_id = {"ledgerId": ledger, "entryId": entry_base + entry_low}
        fields = {"producer_id": producer_id, "sequence_id": base + low, "message_id": message_id}
        if tail:
            highest = highests(tail)
            if highest is None:
                return None
            fields["highest_sequence_id"] = highest
        return "SEND_RECEIPT", fields, None, None, None, None, OK, None

    return read


def _message_layout(data: bytes, start: int, decoded: Decoded, plan: Plan) -> Layout | None:
    """MESSAGE: consumer_id; ledgerId, entryId, maybe partition; maybe redelivery_count. Behind it, maybe what the broker says of the entry,
    and metadata as in SEND, which take as many bytes as they take: the messages of many producers come to one consumer.
    """
    _, fields, _, _, metadata, _, _, _ = decoded
    if fields is None or metadata is None or tuple(fields) not in _MESSAGE_NAMES or tuple(fields["message_id"]) not in _ENTRY_NAMES:
        return None
    consumer_id, partition, redelivery_count = data[start + 13], fields["message_id"].get("partition"), fields.get("redelivery_count")
    command_end = 12 + data[start + 11]  # from the start of the frame, as `entry_at`
    ident_bytes, ledger_bytes = data[start + 15], _varint_bytes(data, start + 17, start + command_end) + 2
    entry_at = 16 + ledger_bytes
    entry_bytes = _varint_bytes(data, start + entry_at, start + command_end)
    rest = data[start + entry_at + entry_bytes : start + command_end]
    if entry_bytes < 2 or _ledger(data[start + 16 : start + entry_at]) is None:
        return None
    higher(data[start + entry_at + 1 : start + entry_at + entry_bytes])
    unpack = _struct_of(f">B{ledger_bytes}sB{entry_bytes - 1}s{len(rest)}sHII").unpack_from
    bases, ledgers, names, times, rests = HIGHER.get, _LEDGERS.get, NAMES.get, TIMES.get, RESTS.get
    least = 10 + METADATA_MIN_BYTES

    def read(data: bytes, start: int, end: int) -> Decoded | None:
        at = start + command_end
        if at + least > end:
            return None
        raw_bytes, raw_ledger, low, high, raw_rest, magic, stored, size = unpack(data, start + 15)
        ledger, base = ledgers(raw_ledger), bases(high)
        if ledger is None or base is None or low < 128 or raw_bytes != ident_bytes or raw_rest != rest:
            return None
        message_id = {"ledgerId": ledger, "entryId": base + low}
        if partition is not None:
            message_id["partition"] = partition
        entry = None
        if magic == 0x0E02:  # what stands where otherwise the checksum does is the size of what the broker says
            broker_time, at = at + 7, at + 6 + stored
            if at + least > end or data[broker_time - 1] != 8 or data[broker_time + 6] != 16:
                return None
            raw_time = b"\x18" + data[broker_time : broker_time + 6]  # as behind the tag of publish_time
            timestamp, low, base = times(raw_time) or time_of(raw_time), data[broker_time + 7], bases(data[broker_time + 8 : at])
            if not timestamp or base is None or low < 128:
                return None
            entry = {"broker_timestamp": timestamp, "index": base + low}
            magic, stored, size = CHECKED.unpack_from(data, at)
        name_at, payload_at = at + 10, at + 10 + size
        sequence_at = name_at + data[name_at + 1] + 3
        name, time_at = names(data[name_at:sequence_at]), sequence_at + 1
        if magic != 0x0E01 or name is None or payload_at > end or time_at + 7 > payload_at:
            return None
        sequence_id = data[sequence_at]
        if sequence_id > 127:
            while data[time_at] > 127 and time_at < payload_at - 8:
                time_at += 1
            time_at += 1
            base = bases(data[sequence_at + 1 : time_at])
            if base is None:
                return None
            sequence_id += base
        raw_time, rest_at = data[time_at : time_at + 7], time_at + 7
        publish_time = times(raw_time) or time_of(raw_time)
        if not publish_time or rest_at > payload_at:
            return None
        metadata = {"producer_name": name, "sequence_id": sequence_id, "publish_time": publish_time}
        if rest_at < payload_at:
            raw_more = data[rest_at:payload_at]
            more = rests(raw_more) or rest_of(raw_more, plan)
            if more is None:
                return None
            metadata.update(more)
        covered = data[at + 6 : end] if end - at < COPY_MAX_BYTES else memoryview(data)[at + 6 : end]
        if crc32c(covered) != stored:
            return None
        text = data[at + 2 : at + 6].hex()
        fields: dict[str, Any] = {"consumer_id": consumer_id, "message_id": message_id}
        if redelivery_count is not None:
            fields["redelivery_count"] = redelivery_count
        return "MESSAGE", fields, entry, Checksum("good", text, text), metadata, payload_at - start, OK, None

    return read


_MESSAGE_NAMES = {("consumer_id", "message_id"), ("consumer_id", "message_id", "redelivery_count")}
_ENTRY_NAMES = {("ledgerId", "entryId"), ("ledgerId", "entryId", "partition")}
"""Fields in the order in which they are written."""


def _ack_layout(data: bytes, start: int, decoded: Decoded, _: Plan) -> Layout | None:
    """ACK of one entry: consumer_id, ack_type; ledgerId, entryId, maybe partition."""
    fields = decoded[1]
    if fields is None or tuple(fields) != ("consumer_id", "ack_type", "message_id") or len(fields["message_id"]) != 1:
        return None
    (ident,) = fields["message_id"]
    if tuple(ident) not in _ENTRY_NAMES:
        return None
    partition, end = ident.get("partition"), start + 4 + int.from_bytes(data[start : start + 4], "big")
    consumer_id, ack_type, ident_head = data[start + 13], data[start + 15], 26 << 8 | end - start - 18
    ledger_bytes = _varint_bytes(data, start + 19, end) + 2  # with its tag and that of the entry id
    entry_at = start + 18 + ledger_bytes
    entry_bytes = _varint_bytes(data, entry_at, end)
    rest = data[entry_at + entry_bytes : end]
    if entry_bytes < 2 or _ledger(data[start + 18 : entry_at]) is None:
        return None
    higher(data[entry_at + 1 : entry_at + entry_bytes])
    unpack = _struct_of(f">BH{ledger_bytes}sB{entry_bytes - 1}s{len(rest)}s").unpack_from
    bases, ledgers, type_name, frame_bytes = HIGHER.get, _LEDGERS.get, fields["ack_type"], end - start

    def read(data: bytes, start: int, end: int) -> Decoded | None:
        if end - start != frame_bytes:
            return None
        type_number, head, raw_ledger, low, high, raw_rest = unpack(data, start + 15)
        ledger, base = ledgers(raw_ledger), bases(high)
        if ledger is None or base is None or low < 128 or type_number != ack_type or head != ident_head or raw_rest != rest:
            return None
        ident = {"ledgerId": ledger, "entryId": base + low}
        if partition is not None:
            ident["partition"] = partition
        return "ACK", {"consumer_id": consumer_id, "ack_type": type_name, "message_id": [ident]}, None, None, None, None, OK, None

    return read


class Repeated:
    """Whole frames without a payload that come again and again, by their bytes: a look costs less than reading them."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[str, dict[str, Any], tuple[str, ...]]] = {}  # command, fields, names of the messages in them

    def read(self, data: bytes, start: int, end: int) -> Decoded | None:
        """What the frame data[start:end] says, if it was met before: as a copy, for rows are handed over, and whoever has them may change
        them.
        """
        found = self._known.get(data[start:end])
        if found is None:
            return None
        name, fields, inner = found
        fields = fields.copy()
        for one in inner:
            fields[one] = fields[one].copy()
        return name, fields, None, None, None, None, OK, None

    def put(self, frame: bytes, name: str, fields: dict[str, Any]) -> None:
        """Remember a frame without any oddity, unless it is long or says more than plain values."""
        if len(frame) <= REPEATED_MAX_BYTES and all(map(_is_plain, fields.values())):
            if len(self._known) >= REPEATED_MAX:
                self._known.clear()
            inner = tuple(one for one, value in fields.items() if isinstance(value, dict))
            self._known[frame] = name, {one: value.copy() if one in inner else value for one, value in fields.items()}, inner


def _is_plain(value: object) -> bool:
    """Whether copying a dict with this value, and the value if that is a dict, copies all that can be changed."""
    return not isinstance(value, list) and not (isinstance(value, dict) and any(isinstance(part, (dict, list)) for part in value.values()))


LEARNERS: dict[str, Callable[[bytes, int, Decoded, Plan], Layout | None]] = {
    "SEND": _send_layout,
    "SEND_RECEIPT": _receipt_layout,
    "MESSAGE": _message_layout,
    "ACK": _ack_layout,
}
"""By command: the layout of the frame that begins at a position, and was decoded so without an oddity; None when it has none."""


def learn(layouts: dict[bytes, Layout], data: bytes, start: int, end: int, decoded: Decoded, plan: Plan) -> None:
    """Keep the layout of this frame for the next one that begins with the same bytes."""
    name, _, _, _, metadata, _, _, _ = decoded
    learner = LEARNERS.get(name or "")
    if learner is None or (metadata is not None and "properties" in metadata):  # they are never as in the frame before
        return
    known = layouts.get(data[start + HEAD_START : start + HEAD_END])
    if known is not None and known(data, start, end) == decoded:
        return  # what it did not know was a value, and that is remembered now
    layout = learner(data, start, decoded, plan)
    if layout is not None and layout(data, start, end) == decoded:
        keep(layouts, data, start, layout)


def keep(layouts: dict[bytes, Layout], data: bytes, start: int, layout: Layout) -> None:
    """Frames that begin with the same bytes as the one at `start` are to be tried with this layout."""
    if len(layouts) >= LAYOUTS_MAX:
        layouts.clear()
    layouts[data[start + HEAD_START : start + HEAD_END]] = layout
