"""The words of a frame that matter, one row of words for each command. The text is not escaped; that is the renderer's work."""

from __future__ import annotations

from typing import Any

from pulsarscope.model.records import FrameRow
from pulsarscope.protocols.pulsar.entry.markers import marker_text
from pulsarscope.protocols.pulsar.text import formatting as words
from pulsarscope.protocols.pulsar.text.formatting import (
    GAP,
    SHOWN_CHARACTERS,
    Fields,
    Word,
    acked,
    date,
    message_id,
    plain,
    request,
    show,
    thousands,
    topic_of,
    txn,
)


def summary(row: FrameRow) -> str:
    """The words of one frame. Never raises, whatever the fields hold or lack."""
    fields = row.fields
    if type(fields) is not dict:
        return "" if row.size is None else f"{thousands(row.size)} B"
    hot = _HOT.get(row.command)  # type: ignore[arg-type]
    if hot is not None:
        return hot(row, fields)
    return GAP.join([word for find in COMMANDS.get(row.command or "", _ANY) if (word := find(row, fields))])


# -- the hot commands: one function each, nearly without calls, because each is a third of what a line costs


def _send(row: FrameRow, fields: Fields) -> str:
    topic, sequence, producer = row.topic, fields.get("sequence_id"), fields.get("producer_id")
    start = "" if topic is None else _TOPICS.get(topic) or _topic(topic)
    highest = fields.get("highest_sequence_id")
    if highest is not None and highest not in (0, sequence):
        sequence = f"{plain(sequence)}-{plain(highest)}"
    elif type(sequence) is not int:
        sequence = plain(sequence)
    return f"{start}seq {sequence}{GAP}{_payload(row, fields)}producer {producer if type(producer) is int else plain(producer)}"


def _send_receipt(row: FrameRow, fields: Fields) -> str:
    topic, sequence, producer, identity = row.topic, fields.get("sequence_id"), fields.get("producer_id"), fields.get("message_id")
    start = "" if topic is None else _TOPICS.get(topic) or _topic(topic)
    if identity is not None:
        text = message_id(identity)
        start += f"dropped as a duplicate{GAP}" if text == "earliest" else f"id {text}{GAP}"
    return (
        f"{start}seq {sequence if type(sequence) is int else plain(sequence)}{GAP}"
        f"producer {producer if type(producer) is int else plain(producer)}"
    )


def _message(row: FrameRow, fields: Fields) -> str:
    topic, subscription, consumer = row.topic, row.subscription, fields.get("consumer_id")
    start = "" if topic is None else _TOPICS.get(topic) or _topic(topic)
    words = _payload(row, fields)
    if redeliveries := fields.get("redelivery_count"):
        words += f"redelivery {show(redeliveries)}{GAP}"
    if fields.get("ack_set"):
        words += f"partly acknowledged{GAP}"
    if subscription is not None:
        words += f"sub {show(subscription)}{GAP}"
    return f"{start}id {message_id(fields.get('message_id'))}{GAP}{words}consumer {consumer if type(consumer) is int else plain(consumer)}"


_TOPICS: dict[str, str] = {}
"""The topics of the hot commands as lines begin with them, a gap behind. Emptied when there are many."""

_TOPICS_MAX = 1024


def _topic(topic: str) -> str:
    start = topic_of(topic) + GAP
    if len(topic) <= SHOWN_CHARACTERS:
        if len(_TOPICS) >= _TOPICS_MAX:
            _TOPICS.clear()
        _TOPICS[topic] = start
    return start


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

_lacks_rare = _RARE.isdisjoint


def _payload(row: FrameRow, fields: Fields) -> str:
    """What the metadata of SEND and MESSAGE says of the payload, with a gap after it."""
    metadata, count, size = row.metadata, row.num_messages, row.payload_size
    if type(metadata) is not dict:
        metadata = {}
    words = "" if count is None or count == 1 else f"batch of {thousands(count)}{GAP}"
    if size is not None:
        words += f"{size} B" if size < 1000 else f"{size:,} B"  # formatting with , takes three times as long
        compression = metadata.get("compression")
        words += GAP if compression is None or compression == "NONE" else f" {show(compression)}{GAP}"
    if _lacks_rare(metadata) and _lacks_rare(fields):
        return words
    rare: list[str] = []
    _rarely(row, metadata, fields, rare)
    return words + "".join([word + GAP for word in rare])


def _rarely(row: FrameRow, metadata: Fields, fields: Fields, words: list[str]) -> None:
    """Append the words of the fields in `_RARE`."""
    get = metadata.get
    if (key := get("partition_key")) is not None:
        words.append(f"key {show(key)}")
    if (chunks := get("num_chunks_from_msg")) is not None and chunks != 1:
        chunk = get("chunk_id", 0)
        words.append(f"chunk {plain(chunk + 1 if type(chunk) is int else chunk)} of {plain(chunks)}")
    if get("encryption_keys"):
        words.append("encrypted")
    if (marker := get("marker_type")) is not None:
        words.append(_marker(marker))
    if get("null_value") is True:
        words.append("tombstone")
    if (moment := date(get("deliver_at_time"))) is not None:
        words.append(f"deliver at {moment}")
    if (transaction := txn(row, metadata) or txn(row, fields)) != "":
        words.append(transaction)


def _marker(marker: Any) -> str:
    return f"marker: {marker_text(marker) or '?'} ({show(marker)})"


def _ack(row: FrameRow, fields: Fields) -> str:
    words = [] if row.topic is None else [topic_of(row.topic)]
    kind = fields.get("ack_type")
    ids = acked(row, fields)
    words.append(ids if kind == "Individual" else f"up to {ids}" if kind == "Cumulative" else f"{show(kind)} {ids}")
    if row.subscription is not None:
        words.append(f"sub {show(row.subscription)}")
    error = fields.get("validation_error")
    if error is not None:
        words.append(show(error))
    words += filter(None, (txn(row, fields), f"consumer {plain(fields.get('consumer_id'))}", request(row, fields)))
    return GAP.join(words)


def _flow(row: FrameRow, fields: Fields) -> str:
    permits = f"{thousands(fields.get('messagePermits'))} permits{GAP}"
    consumer = f"consumer {plain(fields.get('consumer_id'))}"
    if row.topic is None:
        return permits + consumer
    subscription = "" if row.subscription is None else f"sub {show(row.subscription)}{GAP}"
    return f"{topic_of(row.topic)}{GAP}{permits}{subscription}{consumer}"


_HOT: dict[str, Word] = {"SEND": _send, "SEND_RECEIPT": _send_receipt, "MESSAGE": _message, "ACK": _ack, "FLOW": _flow}


# -- the table

_ANY: tuple[Word, ...] = (words.unknown,)
_producer = words.value_of("producer_id", "producer {}")
_consumer = words.value_of("consumer_id", "consumer {}")
_protocol = words.value_of("protocol_version", "protocol v{}")
_namespace = words.value_of("namespace", "namespace {}")
_pattern = words.value_of("topics_pattern", "pattern {}")
_brokers = (words.value_of("brokerServiceUrl", "{}"), words.value_of("brokerServiceUrlTls", "{}"))
_assigned = (words.value_of("assignedBrokerServiceUrl", "next {}"), words.value_of("assignedBrokerServiceUrlTls", "next {}"))
_coordinator = words.value_of("tc_id", "coordinator {}")
_watch = words.value_of("watch_id", "watch {}")
_watcher = words.value_of("watcher_id", "watcher {}")
_session = words.value_of("session_id", "session {}")
_action = words.value_of("txn_action")
_txn_response: tuple[Word, ...] = (words.error_of(), words.txn, words.request)
_auth_data = (words.auth,)

COMMANDS: dict[str, tuple[Word, ...]] = {
    "CONNECT": (
        words.value_of("client_version"),
        _protocol,
        words.auth,
        words.value_of("proxy_to_broker_url", "to {}"),
        words.value_of("proxy_version", "proxy {}"),
        words.value_of("original_principal", "for {}"),
        words.value_of("original_auth_method", "with {}"),
        words.features,
    ),
    "CONNECTED": (words.value_of("server_version"), _protocol, words.count_of("max_message_size", "max message {} B"), words.features),
    "SUBSCRIBE": (
        words.topic,
        words.subscription,
        words.value_of("subType"),
        words.key_shared,
        words.value_of("initialPosition", "from {}"),
        words.id_of("start_message_id", "start {}"),
        words.count_of("start_message_rollback_duration_sec", "back {} s"),
        words.flag("durable", "", "not durable"),
        words.flag("read_compacted", "compacted"),
        words.flag("replicate_subscription_state", "replicated"),
        words.schema,
        words.nonzero("priority_level", "priority {}"),
        _consumer,
        words.value_of("consumer_name", "name {}"),
        words.nonzero("consumer_epoch", "epoch {}"),
        words.pairs_of("metadata", "metadata"),
        words.pairs_of("subscription_properties", "properties"),
        words.request,
    ),
    "PRODUCER": (
        words.topic,
        _producer,
        words.value_of("producer_name", "name {}"),
        words.value_of("producer_access_mode"),
        words.flag("encrypted", "encrypted"),
        words.flag("txn_enabled", "transactions"),
        words.schema,
        words.value_of("initial_subscription_name", "initial sub {}"),
        words.nonzero("epoch", "epoch {}"),
        words.value_of("topic_epoch", "topic epoch {}"),
        words.pairs_of("metadata", "metadata"),
        words.request,
    ),
    "SEND": (_send,),
    "SEND_RECEIPT": (_send_receipt,),
    "SEND_ERROR": (words.topic, words.error_of(), words.value_of("sequence_id", "seq {}"), _producer),
    "MESSAGE": (_message,),
    "ACK": (_ack,),
    "FLOW": (_flow,),
    "UNSUBSCRIBE": (words.topic, words.subscription, words.flag("force", "forced"), _consumer, words.request),
    "SUCCESS": (words.schema, words.request),
    "ERROR": (words.error_of(), words.request),
    "CLOSE_PRODUCER": (words.topic, _producer, words.closed_by, *_assigned, words.request),
    "CLOSE_CONSUMER": (words.topic, words.subscription, _consumer, words.closed_by, *_assigned, words.request),
    "PRODUCER_SUCCESS": (
        words.topic,
        words.value_of("producer_name", "name {}"),
        words.flag("producer_ready", "", "waits for exclusive access"),
        words.value_of("last_sequence_id", "last seq {}"),
        words.schema_version,
        words.value_of("topic_epoch", "topic epoch {}"),
        words.request,
    ),
    "PING": (),
    "PONG": (),
    "REDELIVER_UNACKNOWLEDGED_MESSAGES": (
        words.topic,
        words.redelivered,
        words.subscription,
        _consumer,
        words.nonzero("consumer_epoch", "epoch {}"),
    ),
    "PARTITIONED_METADATA": (
        words.topic,
        words.flag("metadata_auto_creation_enabled", "", "without creating it"),
        words.value_of("original_principal", "for {}"),
        words.request,
    ),
    "PARTITIONED_METADATA_RESPONSE": (words.partitions, words.error_of(), words.request),
    "LOOKUP": (
        words.topic,
        words.flag("authoritative", "authoritative"),
        words.value_of("advertised_listener_name", "listener {}"),
        words.value_of("original_principal", "for {}"),
        words.pairs_of("properties", "properties"),
        words.request,
    ),
    "LOOKUP_RESPONSE": (
        words.lookup_result,
        *_brokers,
        words.error_of(),
        words.flag("authoritative", "authoritative"),
        words.flag("proxy_through_service_url", "through the proxy"),
        words.request,
    ),
    "CONSUMER_STATS": (words.topic, _consumer, words.request),
    "CONSUMER_STATS_RESPONSE": (
        words.error_of("error_code", "error_message"),
        words.value_of("consumerName", "name {}"),
        words.value_of("type"),
        words.count_of("msgBacklog", "backlog {}"),
        words.count_of("unackedMessages", "{} unacknowledged"),
        words.count_of("availablePermits", "{} permits"),
        words.flag("blockedConsumerOnUnackedMsgs", "blocked"),
        words.value_of("msgRateOut", "{} messages/s"),
        words.value_of("address", "from {}"),
        words.request,
    ),
    "REACHED_END_OF_TOPIC": (words.topic, words.subscription, _consumer),
    "SEEK": (
        words.topic,
        words.id_of("message_id", "to {}"),
        words.time_of("message_publish_time", "to {}"),
        words.subscription,
        _consumer,
        words.request,
    ),
    "GET_LAST_MESSAGE_ID": (words.topic, _consumer, words.request),
    "GET_LAST_MESSAGE_ID_RESPONSE": (
        words.id_of("last_message_id", "last {}"),
        words.id_of("consumer_mark_delete_position", "mark-delete {}"),
        words.request,
    ),
    "ACTIVE_CONSUMER_CHANGE": (words.topic, words.flag("is_active", "active", "standby"), words.subscription, _consumer),
    "GET_TOPICS_OF_NAMESPACE": (_namespace, words.value_of("mode"), _pattern, words.pairs_of("properties", "properties"), words.request),
    "GET_TOPICS_OF_NAMESPACE_RESPONSE": (
        words.list_of("topics", "topic", "topics"),
        words.flag("filtered", "filtered"),
        words.flag("changed", "", "unchanged"),
        words.request,
    ),
    "GET_SCHEMA": (words.topic, words.schema_version, words.request),
    "GET_SCHEMA_RESPONSE": (words.error_of("error_code", "error_message"), words.schema, words.schema_version, words.request),
    "AUTH_CHALLENGE": (words.value_of("server_version"), _protocol, words.inside("challenge", *_auth_data)),
    "AUTH_RESPONSE": (words.value_of("client_version"), _protocol, words.inside("response", *_auth_data)),
    "ACK_RESPONSE": (words.topic, words.error_of(), words.txn, _consumer, words.request),
    "GET_OR_CREATE_SCHEMA": (words.topic, words.schema, words.value_of("producerName", "producer {}"), words.request),
    "GET_OR_CREATE_SCHEMA_RESPONSE": (words.error_of("error_code", "error_message"), words.schema_version, words.request),
    "NEW_TXN": (_coordinator, words.count_of("txn_ttl_millis", "time-out {} ms"), words.flag("scalable", "scalable"), words.request),
    "NEW_TXN_RESPONSE": _txn_response,
    "ADD_PARTITION_TO_TXN": (
        words.txn,
        words.list_of("partitions", "partition", "partitions"),
        words.flag("scalable", "scalable"),
        words.request,
    ),
    "ADD_PARTITION_TO_TXN_RESPONSE": _txn_response,
    "ADD_SUBSCRIPTION_TO_TXN": (
        words.txn,
        lambda _row, fields: ", ".join(words.subscribed(one) for one in words.items(fields.get("subscription"))[: words.SHOWN_NAMES]),
        words.flag("scalable", "scalable"),
        words.request,
    ),
    "ADD_SUBSCRIPTION_TO_TXN_RESPONSE": _txn_response,
    "END_TXN": (_action, words.txn, words.flag("scalable", "scalable"), words.request),
    "END_TXN_RESPONSE": _txn_response,
    "END_TXN_ON_PARTITION": (words.topic, _action, words.txn, words.request),
    "END_TXN_ON_PARTITION_RESPONSE": _txn_response,
    "END_TXN_ON_SUBSCRIPTION": (
        lambda _row, fields: "" if fields.get("subscription") is None else words.subscribed(fields["subscription"]),
        _action,
        words.txn,
        words.request,
    ),
    "END_TXN_ON_SUBSCRIPTION_RESPONSE": _txn_response,
    "TC_CLIENT_CONNECT_REQUEST": (_coordinator, words.flag("scalable", "scalable"), words.request),
    "TC_CLIENT_CONNECT_RESPONSE": (words.error_of(), words.request),
    "WATCH_TOPIC_LIST": (_namespace, _pattern, _watcher, words.request),
    "WATCH_TOPIC_LIST_SUCCESS": (words.list_of("topic", "topic", "topics"), _watcher, words.request),
    "WATCH_TOPIC_UPDATE": (
        words.some_of("new_topics", "new topic", "new topics"),
        words.some_of("deleted_topics", "deleted", "deleted"),
        _watcher,
    ),
    "WATCH_TOPIC_LIST_CLOSE": (_watcher, words.request),
    "TOPIC_MIGRATED": (
        words.value_of("resource_type"),
        words.value_of("resource_id"),
        *(words.value_of(f"brokerServiceUrl{tls}", "to {}") for tls in ("", "Tls")),
    ),
    "SCALABLE_TOPIC_LOOKUP": (words.topic, words.flag("create_if_missing", "create if missing"), _session),
    "SCALABLE_TOPIC_UPDATE": (
        words.value_of("resolved_topic_name"),
        words.error_of(),
        words.inside(
            "dag",
            words.segments_of("segments"),
            words.value_of("epoch", "epoch {}"),
            words.value_of("controller_broker_url", "controller {}"),
        ),
        _session,
    ),
    "SCALABLE_TOPIC_CLOSE": (_session,),
    "SCALABLE_TOPIC_SUBSCRIBE": (
        words.topic,
        words.subscription,
        words.value_of("consumer_type"),
        _consumer,
        words.value_of("consumer_name", "name {}"),
        words.request,
    ),
    "SCALABLE_TOPIC_SUBSCRIBE_RESPONSE": (
        words.error_of(),
        words.inside("assignment", words.segments_of("segments"), words.value_of("layout_epoch", "epoch {}")),
        words.request,
    ),
    "SCALABLE_TOPIC_ASSIGNMENT_UPDATE": (
        words.inside("assignment", words.segments_of("segments"), words.value_of("layout_epoch", "epoch {}")),
        _consumer,
    ),
    "WATCH_SCALABLE_TOPICS": (_namespace, words.pairs_of("property_filters", "with"), _watch),
    "WATCH_SCALABLE_TOPICS_UPDATE": (
        words.error_of(),
        words.inside("snapshot", words.list_of("topics", "topic", "topics")),
        words.inside("diff", words.some_of("added", "added", "added"), words.some_of("removed", "removed", "removed")),
        _watch,
    ),
    "WATCH_SCALABLE_TOPICS_CLOSE": (_watch,),
    "WATCH_TC_ASSIGNMENTS": (_watch,),
    "WATCH_TC_ASSIGNMENTS_UPDATE": (
        words.error_of(),
        words.inside("snapshot", words.count_of("parallelism", "parallelism {}"), words.assignments),
        _watch,
    ),
    "WATCH_TC_ASSIGNMENTS_CLOSE": (_watch,),
}
"""Command -> its words, the most telling first: a narrow terminal cuts from the right."""
