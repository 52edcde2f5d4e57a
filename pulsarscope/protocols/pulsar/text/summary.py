"""A line about each frame: the phrases that matter, not escaped, because the renderer does that."""

from __future__ import annotations

from pulsarscope.model.limits import SHOWN_ITEMS_MAX
from pulsarscope.model.records import FrameRow, MessageRow
from pulsarscope.protocols.pulsar.entry.markers import marker_text
from pulsarscope.protocols.pulsar.metadata_fields import RARE
from pulsarscope.protocols.pulsar.text.command_phrases import PHRASES
from pulsarscope.protocols.pulsar.text.formatting import (
    GAP,
    VALUE_CHARACTERS_MAX,
    Fields,
    bytes_text,
    date,
    message_id_text,
    number_text,
    thousands,
    topic_text,
    value_text,
)
from pulsarscope.protocols.pulsar.text.phrases import Phrase, acked, first_fields, request, transaction
from pulsarscope.protocols.pulsar.topics import short_topic


def summary(row: FrameRow) -> str:
    """Return the summary of one frame. Never raises, whatever the fields contain or lack."""
    fields = row.fields
    if type(fields) is not dict:
        return f"{thousands(row.size)} B"
    frequent = FREQUENT.get(row.command)  # type: ignore[arg-type]
    if frequent is not None:
        return frequent(row, fields)
    return GAP.join([text for phrase in PHRASES.get(row.command or "", _UNKNOWN) if (text := phrase(row, fields))])


# -- the most frequent commands: one function each, with almost no calls, because a summary takes a third of the time of a line


def _send(row: FrameRow, fields: Fields) -> str:
    topic, sequence, producer = row.topic, fields.get("sequence_id"), fields.get("producer_id")
    start = "" if topic is None else _TOPICS.get(topic) or _topic(topic)
    if (highest := fields.get("highest_sequence_id")) is not None and highest not in (0, sequence):
        sequence = f"{number_text(sequence)}-{number_text(highest)}"
    elif type(sequence) is not int:
        sequence = number_text(sequence)
    return f"{start}seq {sequence}{GAP}{_payload(row, fields)}producer {producer if type(producer) is int else number_text(producer)}"


def _send_receipt(row: FrameRow, fields: Fields) -> str:
    topic, sequence, producer, message_id = row.topic, fields.get("sequence_id"), fields.get("producer_id"), fields.get("message_id")
    start = "" if topic is None else _TOPICS.get(topic) or _topic(topic)
    if message_id is not None:
        text = message_id_text(message_id)
        start += f"dropped as a duplicate{GAP}" if text == "earliest" else f"id {text}{GAP}"
    return (
        f"{start}seq {sequence if type(sequence) is int else number_text(sequence)}{GAP}"
        f"producer {producer if type(producer) is int else number_text(producer)}"
    )


def _message(row: FrameRow, fields: Fields) -> str:
    topic, subscription, consumer = row.topic, row.subscription, fields.get("consumer_id")
    start = "" if topic is None else _TOPICS.get(topic) or _topic(topic)
    text = _payload(row, fields)
    if redeliveries := fields.get("redelivery_count"):
        text += f"redelivery {value_text(redeliveries)}{GAP}"
    if fields.get("ack_set"):
        text += f"partly acknowledged{GAP}"
    if subscription is not None:
        text += f"sub {value_text(subscription)}{GAP}"
    number = consumer if type(consumer) is int else number_text(consumer)
    return f"{start}id {message_id_text(fields.get('message_id'))}{GAP}{text}consumer {number}"


_TOPICS: dict[str, str] = {}
"""Short topics followed by a gap, by topic. Emptied when full."""

_TOPICS_MAX = 1024


def _topic(topic: str) -> str:
    start = topic_text(topic) + GAP
    if len(topic) <= VALUE_CHARACTERS_MAX:
        if len(_TOPICS) >= _TOPICS_MAX:
            _TOPICS.clear()
        _TOPICS[topic] = start
    return start


_lacks_rare = RARE.isdisjoint


def _payload(row: FrameRow, fields: Fields) -> str:
    """Return the phrases about the payload of SEND and MESSAGE, each followed by a gap."""
    metadata, count, size = row.metadata, row.num_messages, row.payload_size
    if type(metadata) is not dict:
        metadata = {}
    text = "" if count is None or count == 1 else f"batch of {thousands(count)}{GAP}"
    if size is not None:
        text += f"{size} B" if size < 1000 else f"{size:,} B"  # formatting with , takes three times as long
        compression = metadata.get("compression")
        text += GAP if compression is None or compression == "NONE" else f" {value_text(compression)}{GAP}"
    if _lacks_rare(metadata) and _lacks_rare(fields):
        return text
    return text + "".join([phrase + GAP for phrase in _rare_phrases(row, metadata, fields)])


def _rare_phrases(row: FrameRow, metadata: Fields, fields: Fields) -> list[str]:
    """Return the phrases about the fields in `RARE`."""
    texts: list[str] = []
    get = metadata.get
    if (key := get("partition_key")) is not None:
        texts.append(f"key {value_text(key)}")
    if (chunks := get("num_chunks_from_msg")) is not None and chunks != 1:
        chunk = get("chunk_id", 0)
        texts.append(f"chunk {number_text(chunk + 1 if type(chunk) is int else chunk)} of {number_text(chunks)}")
    if get("encryption_keys"):
        texts.append("encrypted")
    if (marker := get("marker_type")) is not None:
        texts.append(f"marker: {marker_text(marker) or '?'} ({value_text(marker)})")
    if get("null_value") is True:
        texts.append("tombstone")
    if (moment := date(get("deliver_at_time"))) is not None:
        texts.append(f"deliver at {moment}")
    if (text := transaction(row, metadata) or transaction(row, fields)) != "":
        texts.append(text)
    return texts


def _ack(row: FrameRow, fields: Fields) -> str:
    texts = [] if row.topic is None else [topic_text(row.topic)]
    kind = fields.get("ack_type")
    ids = acked(row, fields)
    texts.append(ids if kind == "Individual" else f"up to {ids}" if kind == "Cumulative" else f"{value_text(kind)} {ids}")
    if row.subscription is not None:
        texts.append(f"sub {value_text(row.subscription)}")
    if (error := fields.get("validation_error")) is not None:
        texts.append(value_text(error))
    texts += filter(None, (transaction(row, fields), f"consumer {number_text(fields.get('consumer_id'))}", request(row, fields)))
    return GAP.join(texts)


def _flow(row: FrameRow, fields: Fields) -> str:
    permits = f"{thousands(fields.get('messagePermits'))} permits{GAP}"
    consumer = f"consumer {number_text(fields.get('consumer_id'))}"
    if row.topic is None:
        return permits + consumer
    subscription = "" if row.subscription is None else f"sub {value_text(row.subscription)}{GAP}"
    return f"{topic_text(row.topic)}{GAP}{permits}{subscription}{consumer}"


FREQUENT: dict[str, Phrase] = {"SEND": _send, "SEND_RECEIPT": _send_receipt, "MESSAGE": _message, "ACK": _ack, "FLOW": _flow}
"""Whole summaries by command."""

_UNKNOWN = (first_fields,)


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
    if row.encrypted and row.status != "encrypted":  # otherwise, the status says it
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
