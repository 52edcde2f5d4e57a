"""One line about each application message: its topic, its id and its distinctive properties."""

from __future__ import annotations

from pulsarscope.model.limits import SHOWN_ITEMS_MAX
from pulsarscope.model.records import MessageRow
from pulsarscope.protocols.pulsar.text.formatting import GAP, bytes_text
from pulsarscope.protocols.pulsar.topics import short_topic

PRODUCE = "produce"


def message_summary(row: MessageRow) -> str:
    """Return the summary of one message, not escaped."""
    texts = [_participant(row) if row.topic is None else short_topic(row.topic), _message_id(row)]
    if row.key is not None:
        texts.append(f"key {row.key}")
    elif row.ordering_key is not None:
        texts.append(f"ordering key {bytes_text(row.ordering_key)}")
    if row.sequence_id is not None:
        texts.append(f"seq {row.sequence_id}")
    if row.marker is not None:
        texts.append(f"marker {row.marker}")
    if row.null_value:
        texts.append("tombstone")
    elif row.payload_size is not None:
        texts.append(f"{row.payload_size:,} B")
    if row.subscription is not None:
        texts.append(f"sub {row.subscription}")
    if row.compression not in (None, "NONE"):
        texts.append(str(row.compression))
    if row.encrypted and row.status != "encrypted":  # else the status says it
        texts.append("decrypted" if row.status == "ok" else "encrypted")
    if row.chunks is not None:
        texts.append(f"{row.chunks} chunks")
    if row.txn is not None:
        texts.append(f"txn {row.txn}")
    if row.redelivery_count:
        texts.append(f"redelivery {row.redelivery_count}")
    if row.acknowledged:
        texts.append("acknowledged before")
    if row.properties:
        texts.append(_properties(row.properties))
    return GAP.join(texts)


def _participant(row: MessageRow) -> str:
    role, number = ("producer", row.producer_id) if row.direction == PRODUCE else ("consumer", row.consumer_id)
    return f"{role} {'?' if number is None else number}"


def _message_id(row: MessageRow) -> str:
    if row.ledger is None or row.entry is None:
        return "no id" if row.direction == PRODUCE else "id ?"
    text = f"{row.ledger}:{row.entry}"
    return text if row.batch_index is None else f"{text}:{row.batch_index}"


def _properties(properties: dict[str, str]) -> str:
    first = ", ".join([f"{key}={value}" for key, value in list(properties.items())[:SHOWN_ITEMS_MAX]])
    hidden = len(properties) - SHOWN_ITEMS_MAX
    return f"{{{first}, and {hidden:,} more}}" if hidden > 0 else f"{{{first}}}"
