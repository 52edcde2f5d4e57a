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
from typing import Any

from crc32c import crc32c

from pulsarscope.protocols.pulsar.usual import HIGHER, HIGHEST, NAMES, RESTS, TIMES, Memo, higher
from pulsarscope.records import Checksum
from pulsarscope.wire.contract import OK, Decoded, Layout

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

_LEDGERS = Memo()
"""Tag and varint of a ledger id with the tag of the entry id behind it, to the ledger id."""

_layout_of = lru_cache(256)(struct.Struct)


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


def _send_layout(data: bytes, start: int, decoded: Decoded) -> Layout | None:
    """SEND of one message: producer_id, sequence_id; producer_name, sequence_id, publish_time, then what is remembered in RESTS."""
    _, fields, _, _, metadata, payload_offset, _, _ = decoded
    if fields is None or len(fields) != 2 or metadata is None or payload_offset is None:
        return None
    producer_id, sequence_bytes = data[start + 13], data[start + 11] - 3
    if sequence_bytes < 2:
        return None
    covered_at = 21 + sequence_bytes  # from the start of the frame; the checksum comes before
    name_bytes = data[start + covered_at + 5] + 3  # with its tag and length, and the tag of the sequence id
    plain_bytes = name_bytes + sequence_bytes + 7
    rest_at = covered_at + 4 + plain_bytes
    higher(data[start + 16 : start + 15 + sequence_bytes])
    unpack = _layout_of(f">B{sequence_bytes - 1}sHII{name_bytes}sB{sequence_bytes - 1}s7s").unpack_from
    bases, names, times, rests = HIGHER.get, NAMES.get, TIMES.get, RESTS.get

    def read(data: bytes, start: int, end: int) -> Decoded | None:
        if end - start < rest_at:
            return None
        low, high, magic, stored, metadata_bytes, raw_name, low_again, high_again, raw_time = unpack(data, start + 15)
        base, name, publish_time = bases(high), names(raw_name), times(raw_time)
        if base is None or name is None or publish_time is None or low < 128 or magic != 0x0E01 or low != low_again or high != high_again:
            return None
        sequence_id = base + low
        metadata = {"producer_name": name, "sequence_id": sequence_id, "publish_time": publish_time}
        payload_offset = rest_at
        if metadata_bytes != plain_bytes:
            payload_offset += metadata_bytes - plain_bytes
            rest = rests(data[start + rest_at : start + payload_offset]) if payload_offset <= end - start else None
            if rest is None:
                return None
            metadata.update(rest)
        covered = data[start + covered_at : end] if end - start < COPY_MAX_BYTES else memoryview(data)[start + covered_at : end]
        if crc32c(covered) != stored:
            return None
        text = data[start + covered_at - 4 : start + covered_at].hex()
        fields = {"producer_id": producer_id, "sequence_id": sequence_id}
        return "SEND", fields, None, Checksum("good", text, text), metadata, payload_offset, OK, None

    return read


def _receipt_layout(data: bytes, start: int, decoded: Decoded) -> Layout | None:
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
    unpack = _layout_of(form).unpack_from
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


LEARNERS: dict[str, Callable[[bytes, int, Decoded], Layout | None]] = {"SEND": _send_layout, "SEND_RECEIPT": _receipt_layout}
"""By command: the layout of the frame that begins at a position, and was decoded so; None when it has none."""


def learn(layouts: dict[bytes, Layout], data: bytes, start: int, end: int, decoded: Decoded) -> None:
    """Keep the layout of this frame for the next one that begins with the same bytes."""
    layout = LEARNERS[decoded[0] or ""](data, start, decoded)
    if layout is not None and layout(data, start, end) == decoded:
        keep(layouts, data, start, layout)


def keep(layouts: dict[bytes, Layout], data: bytes, start: int, layout: Layout) -> None:
    """Frames that begin with the same bytes as the one at `start` are to be tried with this layout."""
    if len(layouts) >= LAYOUTS_MAX:
        layouts.clear()
    layouts[data[start + HEAD_START : start + HEAD_END]] = layout
