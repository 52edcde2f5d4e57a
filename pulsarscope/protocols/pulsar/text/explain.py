"""Explanations of single values for the detail tree, where a number alone says too little."""

from __future__ import annotations

from typing import Any

import msgspec

from pulsarscope.model.text import plural
from pulsarscope.protocols.pulsar.entry.markers import MARKERS
from pulsarscope.protocols.pulsar.text.formatting import (
    GAP,
    NAMES_MAX,
    Fields,
    date,
    message_id_text,
    number_text,
    schema_version_text,
)

TIMES = frozenset(
    {"publish_time", "event_time", "deliver_at_time", "broker_timestamp", "message_publish_time", "created_at_ms", "sealed_at_ms"}
)
"""Fields in milliseconds since the epoch."""

_MINUS_ONE = {
    "request_id": "none",
    "partition": "not partitioned",
    "batch_index": "not in a batch",
    "sequence_id": "none",
    "highest_sequence_id": "none",
    "last_sequence_id": "none sent yet",
}
"""Meaning of -1, by field."""

_MESSAGE_ID_FIELDS = {"ledgerId", "entryId", "partition", "batch_index", "batch_size"}


def explain(name: str, value: Any) -> str | None:
    """Return a field's value with its meaning; None if the value is self-explanatory."""
    if type(value) is int:
        if name in TIMES:
            moment = date(value)
            return None if moment is None else f"{value}  {moment}"
        if value == -1 and name in _MINUS_ONE:
            return f"-1  {_MINUS_ONE[name]}"
        return f"{value}  {MARKERS[value].text}" if name == "marker_type" and value in MARKERS else None
    if type(value) is dict:
        return _explain_message_id(value) if value.keys() <= _MESSAGE_ID_FIELDS and "ledgerId" in value and "entryId" in value else None
    if name == "schema_data" and isinstance(value, bytes):
        return _schema_text(value)
    if name == "schema_version" and isinstance(value, bytes) and len(value) == 8:
        return f"{value.hex()}  version {schema_version_text(value)}"
    if name == "ack_set" and type(value) is list and value and all(type(word) is int for word in value):
        unacknowledged = sum((word & (2**64 - 1)).bit_count() for word in value)
        return f"{', '.join(f'{word & (2**64 - 1):016x}' for word in value[:NAMES_MAX])}  {unacknowledged:,} not acknowledged yet"
    return None


def _schema_text(definition: bytes) -> str | None:
    """Return the definition of a schema as text, with JSON on separate lines below its length; None if it is not text."""
    try:
        text = msgspec.json.format(definition, indent=2).decode()
    except (msgspec.DecodeError, UnicodeDecodeError):
        text = definition.decode("utf-8", "replace")
        if not text.isprintable() or "\ufffd" in text:
            return None
    size = plural(len(definition), "byte")
    return text if not definition else f"{size}\n{text}" if "\n" in text else f"{text}  ({size})"


def _explain_message_id(value: Fields) -> str:
    texts = [message_id_text({"ledgerId": value.get("ledgerId"), "entryId": value.get("entryId")})]
    if texts[0] in ("earliest", "latest"):
        texts = [f"{number_text(value.get('ledgerId'))}:{number_text(value.get('entryId'))}", texts[0]]
    for name, label in (("partition", "partition"), ("batch_index", "batch index"), ("batch_size", "batch size")):
        if (number := value.get(name)) is not None and number != -1:
            texts.append(f"{label} {number_text(number)}")
    return GAP.join(texts)
