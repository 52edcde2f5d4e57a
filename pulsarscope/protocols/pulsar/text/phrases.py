"""Phrases of a frame's summary: each says one thing about a command, or nothing if the frame lacks it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pulsarscope.model.records import FrameRow
from pulsarscope.model.text import plural
from pulsarscope.protocols.pulsar.ack_sets import bitmap, is_left
from pulsarscope.protocols.pulsar.text.formatting import (
    GAP,
    NAMES_MAX,
    Fields,
    as_list,
    date,
    dicts_in,
    message_id_text,
    names_text,
    number_text,
    schema_version_text,
    thousands,
    topic_text,
    value_text,
    without_exception_class,
)

Phrase = Callable[[FrameRow, Fields], str]
"""A function that returns the text for a frame and the fields of its command; empty if they lack its subject."""


# -- builders of phrases about one field


def value_of(field: str, template: str = "{}", to_text: Callable[[Any], str] = value_text) -> Phrase:
    """Build a phrase with the value of a field in a template."""
    before, _, after = template.partition("{}")

    def phrase(_row: FrameRow, fields: Fields) -> str:
        value = fields.get(field)
        return "" if value is None or value == "" else f"{before}{to_text(value)}{after}"

    return phrase


def count_of(field: str, template: str) -> Phrase:
    """Build a phrase with a number and its thousands separators."""
    return value_of(field, template, thousands)


def id_of(field: str, template: str = "{}") -> Phrase:
    """Build a phrase with a message id."""
    return value_of(field, template, message_id_text)


def time_of(field: str, template: str) -> Phrase:
    """Build a phrase with the date of a time in milliseconds."""
    return value_of(field, template, lambda value: date(value) or value_text(value))


def nonzero(field: str, template: str) -> Phrase:
    """Build a phrase with a value other than 0, which clients fill in by default."""
    phrase = value_of(field, template)
    return lambda row, fields: "" if fields.get(field) == 0 else phrase(row, fields)


def flag(field: str, if_true: str, if_false: str = "") -> Phrase:
    """Build a phrase for each value of a boolean field."""
    return lambda _row, fields: if_true if (value := fields.get(field)) is True else if_false if value is False else ""


def list_of(field: str, singular: str, plural: str) -> Phrase:
    """Build a phrase with the count and the first names of a list that may be empty."""
    return lambda _row, fields: names_text(fields.get(field), singular, plural)


def filled_list_of(field: str, singular: str, plural: str) -> Phrase:
    """Build a phrase with the count and the first names of a list that is not empty."""
    return lambda _row, fields: names_text(fields.get(field), singular, plural) if as_list(fields.get(field)) else ""


def pairs_of(field: str, title: str) -> Phrase:
    """Build a phrase with key-value pairs: "properties a=1, b=2"."""

    def phrase(_row: FrameRow, fields: Fields) -> str:
        if not (pairs := as_list(fields.get(field))):
            return ""
        texts = [f"{value_text(pair.get('key'))}={value_text(pair.get('value'))}" for pair in dicts_in(pairs[:NAMES_MAX])]
        more = f", … ({len(pairs):,})" if len(pairs) > NAMES_MAX else ""
        return f"{title} {', '.join(texts)}{more}"

    return phrase


def error_of(field: str = "error", message_field: str = "message") -> Phrase:
    """Build a phrase with the name of an error and the peer's message."""

    def phrase(_row: FrameRow, fields: Fields) -> str:
        error, message = fields.get(field), fields.get(message_field)
        if isinstance(message, str):
            message = without_exception_class(message)
        quoted = "" if message is None or message == "" else f'"{value_text(message)}"'
        return quoted if error is None else f"{value_text(error)} {quoted}" if quoted else value_text(error)

    return phrase


def segments(_row: FrameRow, fields: Fields) -> str:
    """Return the number of segments of a scalable topic, and the number that still accept messages."""
    found = dicts_in(fields.get("segments"))
    active = sum(segment.get("state") == "ACTIVE" for segment in found)
    has_states = any("state" in segment for segment in found)
    return plural(len(found), "segment") + (f", {active:,} active" if has_states else "")


def inside(field: str, *phrases: Phrase) -> Phrase:
    """Build the phrases of a message within the command."""

    def phrase(row: FrameRow, fields: Fields) -> str:
        inner = fields.get(field)
        return GAP.join([text for part in phrases if (text := part(row, inner))]) if type(inner) is dict else ""

    return phrase


# -- phrases of several commands


def topic(row: FrameRow, fields: Fields) -> str:
    """Return the topic of the command, or else of the session."""
    if (topic := fields.get("topic")) is None:
        topic = row.topic
    return "" if topic is None else topic_text(topic)


def subscription(row: FrameRow, fields: Fields) -> str:
    """Return the subscription of the command, or else of the session."""
    if (name := fields.get("subscription")) is None:
        name = row.subscription
    return "" if name is None else f"sub {value_text(name)}"


def request(_row: FrameRow, fields: Fields) -> str:
    """Return the request id, unless it is the -1 of commands that expect no response."""
    number = fields.get("request_id")
    return "" if number is None or number == -1 else f"request {value_text(number)}"


def transaction(_row: FrameRow, fields: Fields) -> str:
    """Return the transaction id: (most significant bits,least significant bits)."""
    most, least = fields.get("txnid_most_bits"), fields.get("txnid_least_bits")
    return "" if most is None and least is None else f"txn ({value_text(most or 0)},{value_text(least or 0)})"


def features(_row: FrameRow, fields: Fields) -> str:
    """Return the feature flags that are set."""
    flags = fields.get("feature_flags")
    if type(flags) is not dict:
        return ""
    names = [str(name).removeprefix("supports_") for name, value in flags.items() if value is True]
    return f"features {', '.join(names)}" if names else ""


def schema(_row: FrameRow, fields: Fields) -> str:
    """Return the type, name and size of a schema."""
    schema = fields.get("schema")
    if type(schema) is not dict:
        return ""
    name, data = schema.get("name"), schema.get("schema_data")
    text = f"schema {value_text(schema.get('type', '?'))}"
    if name is not None and name != "":
        text += f' "{value_text(name)}"'
    return f"{text} {len(data):,} B" if isinstance(data, (bytes, bytearray)) and data else text


def schema_version(_row: FrameRow, fields: Fields) -> str:
    """Return the schema version."""
    version = fields.get("schema_version")
    return "" if version is None or version == b"" else f"schema version {schema_version_text(version)}"


def key_shared(_row: FrameRow, fields: Fields) -> str:
    """Return the way in which a Key_Shared subscription divides the keys."""
    meta = fields.get("keySharedMeta")
    if type(meta) is not dict:
        return ""
    ranges = [f"{number_text(hashes.get('start'))}-{number_text(hashes.get('end'))}" for hashes in dicts_in(meta.get("hashRanges"))]
    text = value_text(meta.get("keySharedMode", "?"))
    if ranges:
        text += f" {', '.join(ranges[:NAMES_MAX])}{', …' if len(ranges) > NAMES_MAX else ''}"
    return text + (" out of order allowed" if meta.get("allowOutOfOrderDelivery") is True else "")


def auth(_row: FrameRow, fields: Fields) -> str:
    """Return the authentication method and the size of its data."""
    if (method := fields.get("auth_method_name")) is None or method == "":
        method = fields.get("auth_method")
    data = fields.get("auth_data")
    size = "" if not data else f" {len(data):,} B" if isinstance(data, (bytes, bytearray)) else f" {value_text(data)}"
    return "" if (method is None or method == "") and not size else f"auth {value_text(method or '?')}{size}"


def partitions(_row: FrameRow, fields: Fields) -> str:
    """Return the number of partitions; a topic without partitions has 0."""
    count = fields.get("partitions")
    return "" if count is None else "not partitioned" if count == 0 else f"{thousands(count)} partitions"


INDEXES_MAX = 1_000
"""Messages of a batch whose acknowledgment is shown: the default maximum of clients."""


def acked(row: FrameRow, fields: Fields) -> str:
    """Return the count and the first message ids of an ACK."""
    if not (ids := as_list(fields.get("message_id"))):
        return "no ids"
    sizes = as_list((row.extra or {}).get("batch_sizes")) or [None] * len(ids)
    first = ", ".join(map(_acked_text, ids[:NAMES_MAX], sizes))
    return first if len(ids) == 1 else f"{len(ids):,} ids: {first}{', …' if len(ids) > NAMES_MAX else ''}"


def _acked_text(message_id: Any, size: Any) -> str:
    """Return a message id, with the acknowledged indexes of its batch if not all are; without a size, those below the last missing one."""
    text = message_id_text(message_id)
    ack_set = message_id.get("ack_set") if type(message_id) is dict else None
    if type(ack_set) is not list or not ack_set or not all(type(word) is int for word in ack_set):
        return text
    known = size if type(size) is int else bitmap(ack_set).bit_length()
    indexes = [str(index) for index in range(min(known, INDEXES_MAX)) if not is_left(ack_set, index)]
    if known > INDEXES_MAX or type(size) is not int:
        indexes.append("…")
    return f"{text}[{','.join(indexes)}]"


def redelivered(row: FrameRow, fields: Fields) -> str:
    """Return the message ids that a client requests again; an empty list requests everything."""
    ids = as_list(fields.get("message_ids"))
    return acked(row, {"message_id": ids}) if ids else "everything unacknowledged"


def closed_by(row: FrameRow, _fields: Fields) -> str:
    """Return a note that the broker closed a producer or consumer."""
    return "by the broker" if row.direction == "server" else ""


def subscriptions(_row: FrameRow, fields: Fields) -> str:
    """Return topic and name of one `Subscription` or several."""
    return ", ".join(_subscription_text(item) for item in as_list(fields.get("subscription"))[:NAMES_MAX])


def _subscription_text(value: Any) -> str:
    if type(value) is not dict:
        return value_text(value)
    return f"{topic_text(value.get('topic', '?'))} sub {value_text(value.get('subscription', '?'))}"


def assignments(_row: FrameRow, fields: Fields) -> str:
    """Return the brokers that serve the transaction coordinators."""
    rows = dicts_in(fields.get("assignments"))
    first = ", ".join(f"{number_text(row.get('tc_id'))} at {value_text(row.get('broker_service_url', '?'))}" for row in rows[:NAMES_MAX])
    return f"{len(rows):,} coordinators{': ' if first else ''}{first}{', …' if len(rows) > NAMES_MAX else ''}"


def first_fields(_row: FrameRow, fields: Fields) -> str:
    """Return the first fields of a command that has no phrases of its own."""
    texts = [f"{name}={value_text(value)}" for name, value in list(fields.items())[:NAMES_MAX]]
    return GAP.join(texts) + (f"{GAP}…" if len(fields) > NAMES_MAX else "")
