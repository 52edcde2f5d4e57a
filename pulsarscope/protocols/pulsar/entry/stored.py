"""Entries as stored by a broker: messages, cursor positions, schemas. The protocol of bookies carries them.

A message is stored as it came in SEND, after the metadata that the broker adds, and without a topic. The others are protobuf messages of
the managed ledger (MLDataFormats.proto: PositionInfo) and of the schema registry (SchemaStorageFormat.proto: SchemaEntry).
"""

from __future__ import annotations

from typing import Any

from pulsarscope.dissect.contract.capabilities import Stored
from pulsarscope.dissect.contract.frames import Note
from pulsarscope.protocols.pulsar.frame.payload_head import BROKER_ENTRY_METADATA_MAGIC, CHECKSUM_MAGIC, PayloadHeadReader
from pulsarscope.protocols.pulsar.frame.protobuf import BOOL, BYTES, INT64, MESSAGE, STRING, Field, Plan, WireError, walk

ACKS_MAX = 1_000
"""Individually acknowledged entries listed for a cursor."""

_WORD_BITS = 64


def _plan(name: str, *fields: tuple[int, str, int, bool, Plan | None]) -> Plan:
    """Return a plan of fields: number, name, kind, whether it is repeated, and the plan of a message."""
    plan = Plan(name)
    plan.rows = {number << 3 | (0 if kind <= BOOL else 2): Field(text, kind, many, inner) for number, text, kind, many, inner in fields}
    return plan


_OPAQUE = BYTES, True, None
_CURSOR = _plan(
    "PositionInfo",
    (1, "ledger", INT64, False, None),
    (2, "entry", INT64, False, None),
    (3, "ranges", *_OPAQUE),
    (
        4,
        "properties",
        MESSAGE,
        True,
        _plan("LongProperty", (1, "name", STRING, False, None), (2, "value", INT64, False, None)),
    ),
    (5, "batches", *_OPAQUE),
    (
        6,
        "acks",
        MESSAGE,
        True,
        _plan("LongListMap", (1, "ledger", INT64, False, None), (2, "words", INT64, True, None)),
    ),
)
_SCHEMA = _plan(
    "SchemaEntry",
    (
        2,
        "info",
        MESSAGE,
        False,
        _plan(
            "SchemaInfo",
            (1, "topic", STRING, False, None),
            (2, "user", STRING, False, None),
            (3, "type", INT64, False, None),
            (4, "definition", BYTES, False, None),
            (5, "timestamp", INT64, False, None),
            (6, "deleted", BOOL, False, None),
            (7, "properties", *_OPAQUE),
        ),
    ),
    (5, "index", *_OPAQUE),
)


STORED_PLANS = {"cursor": _CURSOR, "schema": _SCHEMA}
"""Plans of entries that are not messages, by kind."""


def read_stored(heads: PayloadHeadReader, data: bytes, start: int, end: int) -> Stored | None:
    """Read the stored entry data[start:end]; None if it is not an entry of Pulsar. Never raises on any bytes."""
    if data[start : min(start + 2, end)] in (BROKER_ENTRY_METADATA_MAGIC, CHECKSUM_MAGIC):
        return _message(heads, data, start, end)
    return _cursor(_known(data, start, end, _CURSOR)) or _schema(_known(data, start, end, _SCHEMA))


def _message(heads: PayloadHeadReader, data: bytes, start: int, end: int) -> Stored | None:
    notes: list[Note] = []
    entry, checksum, metadata, payload_at = heads.read(data, start, end, notes)
    if metadata is None or payload_at < 0:
        return None
    fields = {} if checksum is None else {"checksum": checksum.status}
    if checksum is not None and checksum.stored is not None:
        fields["crc32c"] = checksum.stored
    return Stored("message", fields, entry, metadata, payload_at)


def _known(data: bytes, start: int, end: int, plan: Plan) -> dict[str, Any] | None:
    """Read a message without unknown fields or oddities; None otherwise."""
    notes: list[Note] = []
    try:
        fields = walk(data[start:end], 0, end - start, plan, notes)
    except WireError:
        return None
    return None if notes or "unknown" in fields else fields


def _cursor(fields: dict[str, Any] | None) -> Stored | None:
    if fields is None or fields.get("ledger", -1) < 0 or fields.get("entry", -2) < -1:
        return None
    out: dict[str, Any] = {"ledger": fields["ledger"], "entry": fields["entry"]}
    left = ACKS_MAX
    for acks in fields.get("acks", ()):
        if entries := _bits(acks.get("words", ()), left):
            left -= len(entries)
            out.setdefault("individual_acks", []).append({"ledger": acks.get("ledger"), "entries": entries})
    if properties := fields.get("properties"):
        out["properties"] = {str(item.get("name")): item.get("value") for item in properties}
    return Stored("cursor", out)


def _bits(words: list[int], most: int) -> list[int]:
    """Return the numbers of the first `most` set bits."""
    found: list[int] = []
    for place, word in enumerate(words):
        if len(found) >= most:
            break
        found += [place * _WORD_BITS + bit for bit in range(_WORD_BITS) if word >> bit & 1] if word else ()
    return found[:most]


def _schema(fields: dict[str, Any] | None) -> Stored | None:
    info = (fields or {}).get("info")
    if not info or "/" not in info.get("topic", "") or "unknown" in info:
        return None
    return Stored("schema", {name: info[name] for name in ("topic", "type", "timestamp", "deleted", "definition") if name in info})
