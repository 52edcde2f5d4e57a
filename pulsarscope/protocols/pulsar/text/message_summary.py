"""One line of words for each application message: its topic, its id, and what sets it apart."""

from __future__ import annotations

from pulsarscope.model.limits import SHOWN_ITEMS_MAX
from pulsarscope.model.records import MessageRow
from pulsarscope.protocols.pulsar.text.formatting import GAP
from pulsarscope.protocols.pulsar.topics import short_topic

PRODUCE = "produce"


def message_summary(row: MessageRow) -> str:
    """The words of one message that matter, not escaped."""
    words = [short_topic(row.topic) if row.topic is not None else f"{'producer' if row.direction == PRODUCE else 'consumer'} {_peer(row)}"]
    words.append(_message_id(row))
    if row.key is not None:
        words.append(f"key {row.key}")
    elif row.ordering_key is not None:
        words.append(f"ordering key {_bytes_text(row.ordering_key)}")
    if row.sequence_id is not None:
        words.append(f"seq {row.sequence_id}")
    if row.marker is not None:
        words.append(f"marker {row.marker}")
    if row.null_value:
        words.append("tombstone")
    elif row.payload_size is not None:
        words.append(f"{row.payload_size:,} B")
    if row.subscription is not None:
        words.append(f"sub {row.subscription}")
    if row.compression not in (None, "NONE"):
        words.append(str(row.compression))
    if row.encrypted and row.status != "encrypted":  # else the status says it
        words.append("decrypted" if row.status == "ok" else "encrypted")
    if row.chunks is not None:
        words.append(f"{row.chunks} chunks")
    if row.txn is not None:
        words.append(f"txn {row.txn}")
    if row.redelivery_count:
        words.append(f"redelivery {row.redelivery_count}")
    if row.properties:
        words.append(_properties(row.properties))
    return GAP.join(words)


def _bytes_text(data: bytes) -> str:
    """Bytes as the text that they mostly are, else in hex."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return f"0x{data.hex()}"
    return text if text.isprintable() else f"0x{data.hex()}"


def _peer(row: MessageRow) -> str:
    number = row.producer_id if row.direction == PRODUCE else row.consumer_id
    return "?" if number is None else str(number)


def _message_id(row: MessageRow) -> str:
    if row.ledger is None or row.entry is None:
        return "no id" if row.direction == PRODUCE else "id ?"
    text = f"{row.ledger}:{row.entry}"
    return text if row.batch_index is None else f"{text}:{row.batch_index}"


def _properties(properties: dict[str, str]) -> str:
    shown = ", ".join([f"{key}={value}" for key, value in list(properties.items())[:SHOWN_ITEMS_MAX]])
    hidden = len(properties) - SHOWN_ITEMS_MAX
    return f"{{{shown}, and {hidden:,} more}}" if hidden > 0 else f"{{{shown}}}"
