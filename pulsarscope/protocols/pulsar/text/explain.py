"""Single values explained, for the detail tree: what a number means where it alone says too little."""

from __future__ import annotations

from typing import Any

from pulsarscope.protocols.pulsar.entry.markers import MARKERS
from pulsarscope.protocols.pulsar.text.formatting import GAP, SHOWN_NAMES, Fields, date, message_id, plain, version_text

TIMES = frozenset(
    {
        "publish_time",
        "event_time",
        "deliver_at_time",
        "broker_timestamp",
        "message_publish_time",
        "created_at_ms",
        "sealed_at_ms",
    }
)
"""Fields in milliseconds since the epoch."""

_NONE_WHEN_MINUS_ONE = {
    "request_id": "none",
    "partition": "not partitioned",
    "batch_index": "not in a batch",
    "sequence_id": "none",
    "highest_sequence_id": "none",
    "last_sequence_id": "none sent yet",
}

_ID_FIELDS = {"ledgerId", "entryId", "partition", "batch_index", "batch_size"}


def explain(name: str, value: Any) -> str | None:
    """A field's value with its meaning in words, where the number alone says too little; else None."""
    if type(value) is int:
        if name in TIMES:
            moment = date(value)
            return None if moment is None else f"{value}  {moment}"
        if value == -1 and name in _NONE_WHEN_MINUS_ONE:
            return f"-1  {_NONE_WHEN_MINUS_ONE[name]}"
        return f"{value}  {MARKERS[value].text}" if name == "marker_type" and value in MARKERS else None
    if type(value) is dict:
        return _explain_id(value) if value.keys() <= _ID_FIELDS and "ledgerId" in value and "entryId" in value else None
    if name == "schema_version" and isinstance(value, bytes) and len(value) == 8:
        return f"{value.hex()}  version {version_text(value)}"
    if name == "ack_set" and type(value) is list and value and all(type(word) is int for word in value):
        left = sum((word & (2**64 - 1)).bit_count() for word in value)
        return f"{', '.join(f'{word & (2**64 - 1):016x}' for word in value[:SHOWN_NAMES])}  {left:,} not acknowledged yet"
    return None


def _explain_id(value: Fields) -> str:
    words = [message_id({"ledgerId": value.get("ledgerId"), "entryId": value.get("entryId")})]
    if words[0] in ("earliest", "latest"):
        words = [f"{plain(value.get('ledgerId'))}:{plain(value.get('entryId'))}", words[0]]
    for name, label in (("partition", "partition"), ("batch_index", "batch index"), ("batch_size", "batch size")):
        part = value.get(name)
        if part is not None and part != -1:
            words.append(f"{label} {plain(part)}")
    return GAP.join(words)
