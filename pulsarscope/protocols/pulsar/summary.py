"""The words of a frame that matter, one row of words for each command, and single values explained.

The fields come off the wire: any may be missing or of another type than the protocol says, so every word is found by asking and
nothing here raises. The text is not escaped; that is the renderer's work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import Any

from pulsarscope.records import FrameRow

Fields = Mapping[str, Any]
Word = Callable[[FrameRow, Fields], str]
"""A word, or some that belong together; empty when the frame says nothing of it."""

GAP = "  "
"""Between words."""

SHOWN_NAMES = 3
"""Names of a list that are shown; the count is always exact."""

SHOWN_CHARACTERS = 256
"""Characters of one value that are shown: a peer may send a name of five megabytes."""

LATEST = 2**63 - 1
"""Ledger and entry of the id "latest"; both are -1 (2^64-1 on the wire) in "earliest"."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

MARKERS = {
    10: "replicated subscription snapshot request",
    11: "replicated subscription snapshot response",
    12: "replicated subscription snapshot",
    13: "replicated subscription update",
    20: "transaction committing",
    21: "transaction commit",
    22: "transaction abort",
}
"""MessageMetadata.marker_type: entries that no application sees."""


def summary(row: FrameRow) -> str:
    """The words of one frame. Never raises, whatever the fields hold or lack."""
    command = row.command
    fields = row.fields
    words = _HOT.get(command)  # type: ignore[arg-type]
    if fields is None or type(fields) is not dict:
        return _size_only(row)
    if words is not None:
        return words(row, fields)
    return GAP.join([word for find in COMMANDS.get(command or "", _ANY) if (word := find(row, fields))])


# -- values as text


def _text(value: Any) -> str:
    """Any value as a short text."""
    if isinstance(value, (bytes, bytearray)):
        value = f"0x{value[:SHOWN_CHARACTERS].hex()}"
    text = value if type(value) is str else str(value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}… ({len(text):,} characters)"


def short_topic(topic: Any) -> str:
    """A topic as clients let their users write it: without the scheme and namespace that they add themselves."""
    return _short(topic) if type(topic) is str and len(topic) <= SHOWN_CHARACTERS else _text(topic)


@lru_cache(1024)
def _short(topic: str) -> str:
    if topic.startswith("persistent://"):
        return topic[13:].removeprefix("public/default/")
    return topic


def message_id(value: Any) -> str:
    """A message id as ledger:entry, or ledger:entry:batch index; the two special ones by name."""
    if type(value) is not dict:
        return _text(value)
    ledger, entry, index = value.get("ledgerId"), value.get("entryId"), value.get("batch_index", -1)
    if type(ledger) is int and type(entry) is int and index == -1 and ledger != entry:
        return f"{ledger}:{entry}"
    if ledger == entry:
        if ledger == -1:
            return "earliest"
        if ledger == LATEST:
            return "latest"
    text = f"{_plain(ledger)}:{_plain(entry)}"
    return text if index == -1 else f"{text}:{_plain(index)}"


def _plain(value: Any) -> str:
    return "?" if value is None else str(value) if type(value) is int else _text(value)


def _number(value: Any) -> str:
    return f"{value:,}" if type(value) is int else _text(value)


def _items(value: Any) -> list[Any]:
    """A repeated field, whatever came."""
    return value if type(value) is list else [] if value is None else [value]


def _date(milliseconds: Any) -> str | None:
    """Milliseconds since the epoch as a date; None for what is none."""
    if type(milliseconds) is not int or milliseconds <= 0:
        return None
    try:
        moment = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None
    return f"{moment:%Y-%m-%d %H:%M:%S}.{milliseconds % 1000:03d} UTC"


def _names(values: Any, singular: str, plural: str) -> str:
    """A count and the first few: `12 topics: a, b, c, …`."""
    names = _items(values)
    if not names:
        return f"no {plural}"
    first = ", ".join(short_topic(name) for name in names[:SHOWN_NAMES])
    more = ", …" if len(names) > SHOWN_NAMES else ""
    return f"{len(names):,} {singular if len(names) == 1 else plural}: {first}{more}"


# -- words


def _value(field: str, template: str = "{}") -> Word:
    """The value of a field in a template, if it is there."""
    before, _, after = template.partition("{}")

    def word(_row: FrameRow, fields: Fields) -> str:
        value = fields.get(field)
        return "" if value is None or value == "" else f"{before}{_text(value)}{after}"

    return word


def _count(field: str, template: str) -> Word:
    """A number with its thousands marked."""
    before, _, after = template.partition("{}")

    def word(_row: FrameRow, fields: Fields) -> str:
        value = fields.get(field)
        return "" if value is None else f"{before}{_number(value)}{after}"

    return word


def _nonzero(field: str, template: str) -> Word:
    """A value in a template, unless it is the 0 that clients fill in without meaning it."""
    word = _value(field, template)
    return lambda row, fields: "" if fields.get(field) == 0 else word(row, fields)


def _flag(field: str, text: str, unless: str = "") -> Word:
    """A text when a boolean field is true, another when it is false."""
    return lambda _row, fields: text if (value := fields.get(field)) is True else unless if value is False else ""


def _id(field: str, template: str = "{}") -> Word:
    """A message id in a template, if it is there."""
    before, _, after = template.partition("{}")
    return lambda _row, fields: "" if (value := fields.get(field)) is None else f"{before}{message_id(value)}{after}"


def _time(field: str, template: str) -> Word:
    """A time in milliseconds, as a date."""
    before, _, after = template.partition("{}")
    return lambda _row, fields: "" if (value := fields.get(field)) is None else f"{before}{_date(value) or _text(value)}{after}"


def _list(field: str, singular: str, plural: str) -> Word:
    """A list of names: count and the first few, also when there are none."""
    return lambda _row, fields: _names(fields.get(field), singular, plural)


def _some(field: str, singular: str, plural: str) -> Word:
    """A list of names, if there are any."""
    return lambda _row, fields: _names(fields.get(field), singular, plural) if _items(fields.get(field)) else ""


def _pairs(field: str, title: str) -> Word:
    """Key-value pairs: `properties a=1, b=2`."""

    def word(_row: FrameRow, fields: Fields) -> str:
        pairs = _items(fields.get(field))
        if not pairs:
            return ""
        texts = [f"{_text(pair.get('key'))}={_text(pair.get('value'))}" for pair in pairs[:SHOWN_NAMES] if type(pair) is dict]
        more = f", … ({len(pairs):,})" if len(pairs) > SHOWN_NAMES else ""
        return f"{title} {', '.join(texts)}{more}"

    return word


def _inside(field: str, *words: Word) -> Word:
    """Words about a message within the command."""

    def word(row: FrameRow, fields: Fields) -> str:
        inner = fields.get(field)
        return GAP.join([text for find in words if (text := find(row, inner))]) if type(inner) is dict else ""

    return word


def _topic(row: FrameRow, fields: Fields) -> str:
    topic = fields.get("topic")
    if topic is None:
        topic = row.topic
    return "" if topic is None else short_topic(topic)


def _subscription(row: FrameRow, fields: Fields) -> str:
    name = fields.get("subscription")
    if name is None:
        name = row.subscription
    return "" if name is None else f"sub {_text(name)}"


def _request(_row: FrameRow, fields: Fields) -> str:
    number = fields.get("request_id")
    return "" if number is None or number == -1 else f"request {_text(number)}"


def _error(field: str = "error", message: str = "message") -> Word:
    """Name of the error and what the peer said of it."""

    def word(_row: FrameRow, fields: Fields) -> str:
        error, said = fields.get(field), fields.get(message)
        if error is None:
            return "" if said is None or said == "" else f'"{_text(said)}"'
        return f'{_text(error)} "{_text(said)}"' if said is not None and said != "" else _text(error)

    return word


def _txn(_row: FrameRow, fields: Fields) -> str:
    most, least = fields.get("txnid_most_bits"), fields.get("txnid_least_bits")
    return "" if most is None and least is None else f"txn ({_text(most or 0)},{_text(least or 0)})"


def _features(_row: FrameRow, fields: Fields) -> str:
    flags = fields.get("feature_flags")
    if type(flags) is not dict:
        return ""
    names = [str(name).removeprefix("supports_") for name, value in flags.items() if value is True]
    return f"features {', '.join(names)}" if names else ""


def _schema(_row: FrameRow, fields: Fields) -> str:
    schema = fields.get("schema")
    if type(schema) is not dict:
        return ""
    name, data = schema.get("name"), schema.get("schema_data")
    words = f"schema {_text(schema.get('type', '?'))}"
    if name is not None and name != "":
        words += f' "{_text(name)}"'
    return f"{words} {len(data):,} B" if isinstance(data, (bytes, bytearray)) and data else words


def _schema_version(_row: FrameRow, fields: Fields) -> str:
    version = fields.get("schema_version")
    return "" if version is None or version == b"" else f"schema version {_version(version)}"


def _version(version: Any) -> str:
    if isinstance(version, bytes) and len(version) == 8:
        return str(int.from_bytes(version, "big", signed=True))
    return _text(version)


def _key_shared(_row: FrameRow, fields: Fields) -> str:
    meta = fields.get("keySharedMeta")
    if type(meta) is not dict:
        return ""
    ranges = [f"{_plain(one.get('start'))}-{_plain(one.get('end'))}" for one in _items(meta.get("hashRanges")) if type(one) is dict]
    words = _text(meta.get("keySharedMode", "?"))
    if ranges:
        words += f" {', '.join(ranges[:SHOWN_NAMES])}{', …' if len(ranges) > SHOWN_NAMES else ''}"
    return words + (" out of order allowed" if meta.get("allowOutOfOrderDelivery") is True else "")


def _auth(_row: FrameRow, fields: Fields) -> str:
    method = fields.get("auth_method_name")
    if method is None or method == "":
        method = fields.get("auth_method")
    data = fields.get("auth_data")
    size = f" {_data_size(data)}" if data is not None and data != b"" else ""
    return "" if (method is None or method == "") and not size else f"auth {_text(method or '?')}{size}"


def _data_size(data: Any) -> str:
    return f"{len(data):,} B" if isinstance(data, (bytes, bytearray)) else _text(data)


def _partitions(_row: FrameRow, fields: Fields) -> str:
    count = fields.get("partitions")
    return "" if count is None else "not partitioned" if count == 0 else f"{_number(count)} partitions"


def _lookup_result(_row: FrameRow, fields: Fields) -> str:
    result = fields.get("response")
    return "" if result is None else _text(result)


def _acked(_row: FrameRow, fields: Fields) -> str:
    """The ids of an ACK or a redelivery request: count and the first few."""
    ids = _items(fields.get("message_id"))
    if not ids:
        return "no ids"
    if len(ids) == 1:
        one = ids[0]
        partly = " (part of the batch)" if type(one) is dict and one.get("ack_set") else ""
        return f"{message_id(one)}{partly}"
    more = ", …" if len(ids) > SHOWN_NAMES else ""
    return f"{len(ids):,} ids: {', '.join(map(message_id, ids[:SHOWN_NAMES]))}{more}"


def _redelivered(_row: FrameRow, fields: Fields) -> str:
    ids = _items(fields.get("message_ids"))
    return _acked(_row, {"message_id": ids}) if ids else "everything unacknowledged"


def _closed_by(row: FrameRow, _fields: Fields) -> str:
    return "by the broker" if row.direction == "server" else ""


def _segments(field: str) -> Word:
    """Segments of a scalable topic: count, and how many still take messages."""

    def word(_row: FrameRow, fields: Fields) -> str:
        segments = [one for one in _items(fields.get(field)) if type(one) is dict]
        active = sum(one.get("state") == "ACTIVE" for one in segments)
        states = any("state" in one for one in segments)
        return f"{len(segments):,} segment{'' if len(segments) == 1 else 's'}" + (f", {active:,} active" if states else "")

    return word


def _assignments(_row: FrameRow, fields: Fields) -> str:
    rows = [one for one in _items(fields.get("assignments")) if type(one) is dict]
    shown = ", ".join(f"{_plain(one.get('tc_id'))} at {_text(one.get('broker_service_url', '?'))}" for one in rows[:SHOWN_NAMES])
    return f"{len(rows):,} coordinators{': ' if shown else ''}{shown}{', …' if len(rows) > SHOWN_NAMES else ''}"


def _unknown(_row: FrameRow, fields: Fields) -> str:
    """A command without a row: its first fields as they are."""
    shown = [f"{name}={_text(value)}" for name, value in list(fields.items())[:SHOWN_NAMES]]
    return GAP.join(shown) + (f"{GAP}…" if len(fields) > SHOWN_NAMES else "")


def _size_only(row: FrameRow) -> str:
    return "" if row.size is None else f"{_number(row.size)} B"


# -- the hot commands: one function each


def _send(row: FrameRow, fields: Fields) -> str:
    first, highest = fields.get("sequence_id"), fields.get("highest_sequence_id")
    sequence = f"seq {first if type(first) is int else _plain(first)}"
    if highest is not None and highest not in (0, first):
        sequence = f"{sequence}-{_plain(highest)}"
    producer = fields.get("producer_id")
    return (
        f"{'' if row.topic is None else short_topic(row.topic) + GAP}{sequence}{GAP}{_payload(row, fields)}"
        f"producer {producer if type(producer) is int else _plain(producer)}"
    )


def _send_receipt(row: FrameRow, fields: Fields) -> str:
    identity, sequence, producer = fields.get("message_id"), fields.get("sequence_id"), fields.get("producer_id")
    received = ""
    if identity is not None:
        text = message_id(identity)
        received = f"dropped as a duplicate{GAP}" if text == "earliest" else f"id {text}{GAP}"
    return (
        f"{'' if row.topic is None else short_topic(row.topic) + GAP}"
        f"{received}seq {sequence if type(sequence) is int else _plain(sequence)}{GAP}"
        f"producer {producer if type(producer) is int else _plain(producer)}"
    )


def _message(row: FrameRow, fields: Fields) -> str:
    subscription, redeliveries, consumer = row.subscription, fields.get("redelivery_count"), fields.get("consumer_id")
    return (
        f"{'' if row.topic is None else short_topic(row.topic) + GAP}id {message_id(fields.get('message_id'))}{GAP}"
        f"{_payload(row, fields)}{f'redelivery {_text(redeliveries)}{GAP}' if redeliveries else ''}"
        f"{f'partly acknowledged{GAP}' if fields.get('ack_set') else ''}{'' if subscription is None else f'sub {_text(subscription)}{GAP}'}"
        f"consumer {consumer if type(consumer) is int else _plain(consumer)}"
    )


def _payload(row: FrameRow, fields: Fields) -> str:
    """What the metadata of SEND and MESSAGE says of the payload, with a gap after it."""
    metadata = row.metadata
    if type(metadata) is not dict:
        metadata = {}
    words = ""
    count = row.num_messages
    if count is not None and count != 1:
        words = f"batch of {_number(count)}{GAP}"
    size = row.payload_size
    if size is not None:
        compression = metadata.get("compression")
        words += f"{size:,} B{GAP}" if compression is None or compression == "NONE" else f"{size:,} B {_text(compression)}{GAP}"
    if _RARE.isdisjoint(metadata) and _RARE.isdisjoint(fields):
        return words
    rare: list[str] = []
    _rarely(row, metadata, fields, rare)
    return words + "".join([word + GAP for word in rare])


_RARE = frozenset(
    {
        "partition_key",
        "num_chunks_from_msg",
        "encryption_keys",
        "marker_type",
        "null_value",
        "txnid_most_bits",
        "txnid_least_bits",
        "deliver_at_time",
    }
)
"""Fields of the metadata, or of SEND itself, that are worth a word and that most frames lack."""


def _rarely(row: FrameRow, metadata: Fields, fields: Fields, words: list[str]) -> None:
    """Append the words of the fields in `_RARE`."""
    get = metadata.get
    if (key := get("partition_key")) is not None:
        words.append(f"key {_text(key)}")
    if (chunks := get("num_chunks_from_msg")) is not None and chunks != 1:
        chunk = get("chunk_id", 0)
        words.append(f"chunk {_plain(chunk + 1 if type(chunk) is int else chunk)} of {_plain(chunks)}")
    if get("encryption_keys"):
        words.append("encrypted")
    if (marker := get("marker_type")) is not None:
        words.append(_marker(marker))
    if get("null_value") is True:
        words.append("tombstone")
    if (date := _date(get("deliver_at_time"))) is not None:
        words.append(f"deliver at {date}")
    if (txn := _txn(row, metadata) or _txn(row, fields)) != "":
        words.append(txn)


def _marker(marker: Any) -> str:
    return f"marker: {MARKERS.get(marker, '?') if type(marker) is int else '?'} ({_text(marker)})"


def _ack(row: FrameRow, fields: Fields) -> str:
    words = [] if row.topic is None else [short_topic(row.topic)]
    kind = fields.get("ack_type")
    ids = _acked(row, fields)
    words.append(ids if kind == "Individual" else f"up to {ids}" if kind == "Cumulative" else f"{_text(kind)} {ids}")
    if row.subscription is not None:
        words.append(f"sub {_text(row.subscription)}")
    error = fields.get("validation_error")
    if error is not None:
        words.append(_text(error))
    txn = _txn(row, fields)
    if txn:
        words.append(txn)
    words.append(f"consumer {_plain(fields.get('consumer_id'))}")
    request = _request(row, fields)
    if request:
        words.append(request)
    return GAP.join(words)


def _flow(row: FrameRow, fields: Fields) -> str:
    permits = f"{_number(fields.get('messagePermits'))} permits{GAP}"
    consumer = f"consumer {_plain(fields.get('consumer_id'))}"
    if row.topic is None:
        return permits + consumer
    subscription = "" if row.subscription is None else f"sub {_text(row.subscription)}{GAP}"
    return f"{short_topic(row.topic)}{GAP}{permits}{subscription}{consumer}"


_HOT: dict[str, Word] = {"SEND": _send, "SEND_RECEIPT": _send_receipt, "MESSAGE": _message, "ACK": _ack, "FLOW": _flow}


# -- the table

_ANY: tuple[Word, ...] = (_unknown,)
_producer = _value("producer_id", "producer {}")
_consumer = _value("consumer_id", "consumer {}")
_protocol = _value("protocol_version", "protocol v{}")
_namespace = _value("namespace", "namespace {}")
_pattern = _value("topics_pattern", "pattern {}")
_brokers = (_value("brokerServiceUrl", "{}"), _value("brokerServiceUrlTls", "{}"))
_assigned = (_value("assignedBrokerServiceUrl", "next {}"), _value("assignedBrokerServiceUrlTls", "next {}"))
_coordinator = _value("tc_id", "coordinator {}")
_watch = _value("watch_id", "watch {}")
_watcher = _value("watcher_id", "watcher {}")
_session = _value("session_id", "session {}")
_action = _value("txn_action")
_txn_response: tuple[Word, ...] = (_error(), _txn, _request)
_auth_data = (_auth,)

COMMANDS: dict[str, tuple[Word, ...]] = {
    "CONNECT": (
        _value("client_version"),
        _protocol,
        _auth,
        _value("proxy_to_broker_url", "to {}"),
        _value("proxy_version", "proxy {}"),
        _value("original_principal", "for {}"),
        _value("original_auth_method", "with {}"),
        _features,
    ),
    "CONNECTED": (_value("server_version"), _protocol, _count("max_message_size", "max message {} B"), _features),
    "SUBSCRIBE": (
        _topic,
        _subscription,
        _value("subType"),
        _key_shared,
        _value("initialPosition", "from {}"),
        _id("start_message_id", "start {}"),
        _count("start_message_rollback_duration_sec", "back {} s"),
        _flag("durable", "", "not durable"),
        _flag("read_compacted", "compacted"),
        _flag("replicate_subscription_state", "replicated"),
        _schema,
        _nonzero("priority_level", "priority {}"),
        _consumer,
        _value("consumer_name", "name {}"),
        _nonzero("consumer_epoch", "epoch {}"),
        _pairs("metadata", "metadata"),
        _pairs("subscription_properties", "properties"),
        _request,
    ),
    "PRODUCER": (
        _topic,
        _producer,
        _value("producer_name", "name {}"),
        _value("producer_access_mode"),
        _flag("encrypted", "encrypted"),
        _flag("txn_enabled", "transactions"),
        _schema,
        _value("initial_subscription_name", "initial sub {}"),
        _nonzero("epoch", "epoch {}"),
        _value("topic_epoch", "topic epoch {}"),
        _pairs("metadata", "metadata"),
        _request,
    ),
    "SEND": (_send,),
    "SEND_RECEIPT": (_send_receipt,),
    "SEND_ERROR": (_topic, _error(), _value("sequence_id", "seq {}"), _producer),
    "MESSAGE": (_message,),
    "ACK": (_ack,),
    "FLOW": (_flow,),
    "UNSUBSCRIBE": (_topic, _subscription, _flag("force", "forced"), _consumer, _request),
    "SUCCESS": (_schema, _request),
    "ERROR": (_error(), _request),
    "CLOSE_PRODUCER": (_topic, _producer, _closed_by, *_assigned, _request),
    "CLOSE_CONSUMER": (_topic, _subscription, _consumer, _closed_by, *_assigned, _request),
    "PRODUCER_SUCCESS": (
        _topic,
        _value("producer_name", "name {}"),
        _flag("producer_ready", "", "waits for exclusive access"),
        _value("last_sequence_id", "last seq {}"),
        _schema_version,
        _value("topic_epoch", "topic epoch {}"),
        _request,
    ),
    "PING": (),
    "PONG": (),
    "REDELIVER_UNACKNOWLEDGED_MESSAGES": (_topic, _redelivered, _subscription, _consumer, _nonzero("consumer_epoch", "epoch {}")),
    "PARTITIONED_METADATA": (
        _topic,
        _flag("metadata_auto_creation_enabled", "", "without creating it"),
        _value("original_principal", "for {}"),
        _request,
    ),
    "PARTITIONED_METADATA_RESPONSE": (_partitions, _error(), _request),
    "LOOKUP": (
        _topic,
        _flag("authoritative", "authoritative"),
        _value("advertised_listener_name", "listener {}"),
        _value("original_principal", "for {}"),
        _pairs("properties", "properties"),
        _request,
    ),
    "LOOKUP_RESPONSE": (
        _lookup_result,
        *_brokers,
        _error(),
        _flag("authoritative", "authoritative"),
        _flag("proxy_through_service_url", "through the proxy"),
        _request,
    ),
    "CONSUMER_STATS": (_topic, _consumer, _request),
    "CONSUMER_STATS_RESPONSE": (
        _error("error_code", "error_message"),
        _value("consumerName", "name {}"),
        _value("type"),
        _count("msgBacklog", "backlog {}"),
        _count("unackedMessages", "{} unacknowledged"),
        _count("availablePermits", "{} permits"),
        _flag("blockedConsumerOnUnackedMsgs", "blocked"),
        _value("msgRateOut", "{} messages/s"),
        _value("address", "from {}"),
        _request,
    ),
    "REACHED_END_OF_TOPIC": (_topic, _subscription, _consumer),
    "SEEK": (_topic, _id("message_id", "to {}"), _time("message_publish_time", "to {}"), _subscription, _consumer, _request),
    "GET_LAST_MESSAGE_ID": (_topic, _consumer, _request),
    "GET_LAST_MESSAGE_ID_RESPONSE": (
        _id("last_message_id", "last {}"),
        _id("consumer_mark_delete_position", "mark-delete {}"),
        _request,
    ),
    "ACTIVE_CONSUMER_CHANGE": (_topic, _flag("is_active", "active", "standby"), _subscription, _consumer),
    "GET_TOPICS_OF_NAMESPACE": (_namespace, _value("mode"), _pattern, _pairs("properties", "properties"), _request),
    "GET_TOPICS_OF_NAMESPACE_RESPONSE": (
        _list("topics", "topic", "topics"),
        _flag("filtered", "filtered"),
        _flag("changed", "", "unchanged"),
        _request,
    ),
    "GET_SCHEMA": (_topic, _schema_version, _request),
    "GET_SCHEMA_RESPONSE": (_error("error_code", "error_message"), _schema, _schema_version, _request),
    "AUTH_CHALLENGE": (_value("server_version"), _protocol, _inside("challenge", *_auth_data)),
    "AUTH_RESPONSE": (_value("client_version"), _protocol, _inside("response", *_auth_data)),
    "ACK_RESPONSE": (_topic, _error(), _txn, _consumer, _request),
    "GET_OR_CREATE_SCHEMA": (_topic, _schema, _value("producerName", "producer {}"), _request),
    "GET_OR_CREATE_SCHEMA_RESPONSE": (_error("error_code", "error_message"), _schema_version, _request),
    "NEW_TXN": (_coordinator, _count("txn_ttl_millis", "time-out {} ms"), _flag("scalable", "scalable"), _request),
    "NEW_TXN_RESPONSE": _txn_response,
    "ADD_PARTITION_TO_TXN": (_txn, _list("partitions", "partition", "partitions"), _flag("scalable", "scalable"), _request),
    "ADD_PARTITION_TO_TXN_RESPONSE": _txn_response,
    "ADD_SUBSCRIPTION_TO_TXN": (
        _txn,
        lambda _row, fields: ", ".join(_subscribed(one) for one in _items(fields.get("subscription"))[:SHOWN_NAMES]),
        _flag("scalable", "scalable"),
        _request,
    ),
    "ADD_SUBSCRIPTION_TO_TXN_RESPONSE": _txn_response,
    "END_TXN": (_action, _txn, _flag("scalable", "scalable"), _request),
    "END_TXN_RESPONSE": _txn_response,
    "END_TXN_ON_PARTITION": (_topic, _action, _txn, _request),
    "END_TXN_ON_PARTITION_RESPONSE": _txn_response,
    "END_TXN_ON_SUBSCRIPTION": (
        lambda _row, fields: "" if fields.get("subscription") is None else _subscribed(fields["subscription"]),
        _action,
        _txn,
        _request,
    ),
    "END_TXN_ON_SUBSCRIPTION_RESPONSE": _txn_response,
    "TC_CLIENT_CONNECT_REQUEST": (_coordinator, _flag("scalable", "scalable"), _request),
    "TC_CLIENT_CONNECT_RESPONSE": (_error(), _request),
    "WATCH_TOPIC_LIST": (_namespace, _pattern, _watcher, _request),
    "WATCH_TOPIC_LIST_SUCCESS": (_list("topic", "topic", "topics"), _watcher, _request),
    "WATCH_TOPIC_UPDATE": (_some("new_topics", "new topic", "new topics"), _some("deleted_topics", "deleted", "deleted"), _watcher),
    "WATCH_TOPIC_LIST_CLOSE": (_watcher, _request),
    "TOPIC_MIGRATED": (_value("resource_type"), _value("resource_id"), *(_value(f"brokerServiceUrl{tls}", "to {}") for tls in ("", "Tls"))),
    "SCALABLE_TOPIC_LOOKUP": (_topic, _flag("create_if_missing", "create if missing"), _session),
    "SCALABLE_TOPIC_UPDATE": (
        _value("resolved_topic_name"),
        _error(),
        _inside("dag", _segments("segments"), _value("epoch", "epoch {}"), _value("controller_broker_url", "controller {}")),
        _session,
    ),
    "SCALABLE_TOPIC_CLOSE": (_session,),
    "SCALABLE_TOPIC_SUBSCRIBE": (
        _topic,
        _subscription,
        _value("consumer_type"),
        _consumer,
        _value("consumer_name", "name {}"),
        _request,
    ),
    "SCALABLE_TOPIC_SUBSCRIBE_RESPONSE": (
        _error(),
        _inside("assignment", _segments("segments"), _value("layout_epoch", "epoch {}")),
        _request,
    ),
    "SCALABLE_TOPIC_ASSIGNMENT_UPDATE": (_inside("assignment", _segments("segments"), _value("layout_epoch", "epoch {}")), _consumer),
    "WATCH_SCALABLE_TOPICS": (_namespace, _pairs("property_filters", "with"), _watch),
    "WATCH_SCALABLE_TOPICS_UPDATE": (
        _error(),
        _inside("snapshot", _list("topics", "topic", "topics")),
        _inside("diff", _some("added", "added", "added"), _some("removed", "removed", "removed")),
        _watch,
    ),
    "WATCH_SCALABLE_TOPICS_CLOSE": (_watch,),
    "WATCH_TC_ASSIGNMENTS": (_watch,),
    "WATCH_TC_ASSIGNMENTS_UPDATE": (_error(), _inside("snapshot", _count("parallelism", "parallelism {}"), _assignments), _watch),
    "WATCH_TC_ASSIGNMENTS_CLOSE": (_watch,),
}
"""Command -> its words, the most telling first: a narrow terminal cuts from the right."""


def _subscribed(value: Any) -> str:
    """A `Subscription`: topic and name."""
    if type(value) is not dict:
        return _text(value)
    return f"{short_topic(value.get('topic', '?'))} sub {_text(value.get('subscription', '?'))}"


# -- single values, for the detail tree

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
            date = _date(value)
            return None if date is None else f"{value}  {date}"
        if value == -1 and name in _NONE_WHEN_MINUS_ONE:
            return f"-1  {_NONE_WHEN_MINUS_ONE[name]}"
        return f"{value}  {MARKERS[value]}" if name == "marker_type" and value in MARKERS else None
    if type(value) is dict:
        return _explain_id(value) if value.keys() <= _ID_FIELDS and "ledgerId" in value and "entryId" in value else None
    if name == "schema_version" and isinstance(value, bytes) and len(value) == 8:
        return f"{value.hex()}  version {_version(value)}"
    if name == "ack_set" and type(value) is list and value and all(type(word) is int for word in value):
        left = sum((word & (2**64 - 1)).bit_count() for word in value)
        return f"{', '.join(f'{word & (2**64 - 1):016x}' for word in value[:SHOWN_NAMES])}  {left:,} not acknowledged yet"
    return None


def _explain_id(value: Fields) -> str:
    words = [message_id({"ledgerId": value.get("ledgerId"), "entryId": value.get("entryId")})]
    if words[0] in ("earliest", "latest"):
        words = [f"{_plain(value.get('ledgerId'))}:{_plain(value.get('entryId'))}", words[0]]
    for name, label in (("partition", "partition"), ("batch_index", "batch index"), ("batch_size", "batch size")):
        part = value.get(name)
        if part is not None and part != -1:
            words.append(f"{label} {_plain(part)}")
    return GAP.join(words)
