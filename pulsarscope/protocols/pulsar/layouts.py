"""Frames laid out as one before: the same fields in the same places, read with one unpack.

A producer writes the same header over and over; of it only the sequence id, the time and the checksum change, of a receipt only the
sequence id and the entry id. So a frame that was read field by field leaves behind a layout, and the next frames that begin with the
same bytes are read by it: every byte in front of the payload is compared with what the layout says, or is one of the values. What does
not fit in each of them is read field by field, to the same end (a property test holds the two together). This takes a third off the
time of small messages; `benchmarks.profile` shows it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache

from crc32c import crc32c

from pulsarscope.protocols.pulsar.usual import HIGHEST, NAMES, TIMES, Memo
from pulsarscope.records import Checksum
from pulsarscope.wire.contract import OK, Decoded

HEAD_START, HEAD_END = 4, 15
"""The bytes of a frame by which its layout is found: size of the command; tag and value of its type; tag and length of its sub-message;
its first field, an id of one byte, and the tag of the next."""

COPY_MAX_BYTES = 4096
"""Up to here the checksum of a copied slice is faster than that of a memoryview."""

LAYOUTS_MAX = 4096
"""Layouts kept: one for each producer id in use, mostly."""

Layout = Callable[[bytes, int, int], Decoded | None]
"""Reads data[start:end] when it is laid out so; else None."""


_HIGHER = Memo()
"""All but the first byte of a varint to what they add to that byte: so many ids share them that a look costs less than reading them."""

_LEDGERS = Memo()
"""Tag and varint of a ledger id with the tag of the entry id behind it, to the ledger id."""

_layout_of = lru_cache(256)(struct.Struct)


def _higher(raw: bytes) -> int | None:
    """What the bytes after the first one of a varint of at most eight add to the first; None when they are not the rest of one."""
    if not 0 < len(raw) < 8 or raw[-1] > 127 or min(raw[:-1], default=128) < 128:
        return None
    value = sum((byte & 127) << 7 * index for index, byte in enumerate(raw, 1)) - 128
    _HIGHER.put(raw, value)
    return value


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
    higher = _higher(raw[2:-1]) if len(raw) > 3 else 0
    if higher is None or (raw[1] > 127) != (len(raw) > 3):
        return None
    _LEDGERS.put(raw, higher + raw[1])
    return higher + raw[1]


def _send_layout(data: bytes, start: int, _end: int, decoded: Decoded) -> Layout | None:
    """SEND of one message without a batch: producer_id, sequence_id; producer_name, sequence_id, publish_time; nothing else."""
    _, fields, _, checksum, metadata, payload_offset, _, notes = decoded
    if fields is None or metadata is None or len(fields) != 2 or len(metadata) != 3 or notes or payload_offset is None or checksum is None:
        return None
    producer_id = data[start + 13]
    sequence_bytes = data[start + 11] - 3
    name_at = 25 + sequence_bytes  # from the start of the frame; its tag and length come first
    name_bytes = data[start + name_at + 1] + 3
    covered_at = 21 + sequence_bytes
    metadata_bytes = name_bytes + sequence_bytes + 7
    if sequence_bytes < 2 or payload_offset != name_at + metadata_bytes:
        return None
    checksum_at = covered_at - 4
    unpack = _layout_of(f">B{sequence_bytes - 1}sHII{name_bytes}sB{sequence_bytes - 1}s7s").unpack_from
    higher, names, times = _HIGHER.get, NAMES.get, TIMES.get

    def read(data: bytes, start: int, end: int) -> Decoded | None:
        if end - start < payload_offset:
            return None
        low, high, magic, stored, size, raw_name, low_again, high_again, raw_time = unpack(data, start + 15)
        base = higher(high)
        name = names(raw_name)
        publish_time = times(raw_time)
        if (
            base is None
            or name is None
            or publish_time is None
            or low < 128
            or low != low_again
            or high != high_again
            or magic != 0x0E01
            or size != metadata_bytes
        ):
            return None
        covered = data[start + covered_at : end] if end - start < COPY_MAX_BYTES else memoryview(data)[start + covered_at : end]
        if crc32c(covered) != stored:
            return None
        text = data[start + checksum_at : start + covered_at].hex()
        sequence_id = base + low
        return (
            "SEND",
            {"producer_id": producer_id, "sequence_id": sequence_id},
            None,
            Checksum("good", text, text),
            {"producer_name": name, "sequence_id": sequence_id, "publish_time": publish_time},
            payload_offset,
            OK,
            None,
        )

    _higher(data[start + 16 : start + 15 + sequence_bytes])
    return read


def _receipt_layout(data: bytes, start: int, end: int, decoded: Decoded) -> Layout | None:
    """SEND_RECEIPT: producer_id, sequence_id; ledgerId, entryId; maybe highest_sequence_id."""
    fields = decoded[1]
    if fields is None or len(fields) < 3 or decoded[7]:
        return None
    producer_id = data[start + 13]
    sequence_bytes = _varint_bytes(data, start + 15, end)
    ident_at = start + 15 + sequence_bytes
    if data[ident_at] != 26:
        return None
    ident_tag = 26 << 8 | data[ident_at + 1]
    ledger_bytes = _varint_bytes(data, ident_at + 3, end) + 2
    entry_bytes = data[ident_at + 1] - ledger_bytes
    tail_bytes = end - ident_at - 2 - ledger_bytes - entry_bytes
    if sequence_bytes < 2 or entry_bytes < 2 or tail_bytes < 0 or _ledger(data[ident_at + 2 : ident_at + 2 + ledger_bytes]) is None:
        return None
    _higher(data[start + 16 : start + 15 + sequence_bytes])
    entry_at = ident_at + 2 + ledger_bytes
    _higher(data[entry_at + 1 : entry_at + entry_bytes])
    unpack = _layout_of(f">B{sequence_bytes - 1}sH{ledger_bytes}sB{entry_bytes - 1}s{tail_bytes}s").unpack_from
    higher, ledgers, highests = _HIGHER.get, _LEDGERS.get, HIGHEST.get
    frame_bytes = end - start

    def read(data: bytes, start: int, end: int) -> Decoded | None:
        if end - start != frame_bytes:
            return None
        low, high, ident, raw_ledger, entry_low, entry_high, tail = unpack(data, start + 15)
        base, entry_base, ledger = higher(high), higher(entry_high), ledgers(raw_ledger)
        if base is None or entry_base is None or ledger is None or low < 128 or entry_low < 128 or ident != ident_tag:
            return None
        fields = {
            "producer_id": producer_id,
            "sequence_id": base + low,
            "message_id": {"ledgerId": ledger, "entryId": entry_base + entry_low},
        }
        if tail:
            highest = highests(tail)
            if highest is None:
                return None
            fields["highest_sequence_id"] = highest
        return "SEND_RECEIPT", fields, None, None, None, None, OK, None

    return read


LEARNERS: dict[str, Callable[[bytes, int, int, Decoded], Layout | None]] = {"SEND": _send_layout, "SEND_RECEIPT": _receipt_layout}
"""By command: the layout of the frame data[start:end], which was decoded so; None when it has none."""


def learn(layouts: dict[bytes, Layout], data: bytes, start: int, end: int, decoded: Decoded) -> None:
    """Keep the layout of this frame for the next one that begins with the same bytes."""
    layout = LEARNERS[decoded[0] or ""](data, start, end, decoded)
    if layout is not None and layout(data, start, end) == decoded:
        if len(layouts) >= LAYOUTS_MAX:
            layouts.clear()
        layouts[data[start + HEAD_START : start + HEAD_END]] = layout
