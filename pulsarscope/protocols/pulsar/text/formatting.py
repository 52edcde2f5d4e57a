"""How single values of a frame are put into words.

The fields come off the wire: any may be missing or of another type than the protocol says, so every word is found by asking and
nothing here raises. The text is not escaped; that is the renderer's work.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from pulsarscope.model.records import FrameRow
from pulsarscope.protocols.pulsar.topics import short_topic

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

# -- values as text


def show(value: Any) -> str:
    """Any value as a short text."""
    if isinstance(value, (bytes, bytearray)):
        value = f"0x{value[:SHOWN_CHARACTERS].hex()}"
    text = value if type(value) is str else str(value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}… ({len(text):,} characters)"


def topic_of(value: Any) -> str:
    """A topic in its short form."""
    return short_topic(value) if type(value) is str and len(value) <= SHOWN_CHARACTERS else show(value)


def message_id(value: Any) -> str:
    """A message id as ledger:entry, or ledger:entry:batch index; the two special ones by name."""
    if type(value) is not dict:
        return show(value)
    ledger, entry = value.get("ledgerId"), value.get("entryId")
    if len(value) == 2 and type(ledger) is int and type(entry) is int and ledger != entry:
        return f"{ledger}:{entry}"
    index = value.get("batch_index", -1)
    if ledger == entry:
        if ledger == -1:
            return "earliest"
        if ledger == LATEST:
            return "latest"
    text = f"{plain(ledger)}:{plain(entry)}"
    return text if index == -1 else f"{text}:{plain(index)}"


def plain(value: Any) -> str:
    """A number without marks; ? when there is none."""
    return "?" if value is None else str(value) if type(value) is int else show(value)


def thousands(value: Any) -> str:
    """A number with its thousands marked."""
    return f"{value:,}" if type(value) is int else show(value)


def items(value: Any) -> list[Any]:
    """A repeated field, whatever came."""
    return value if type(value) is list else [] if value is None else [value]


def date(milliseconds: Any) -> str | None:
    """Milliseconds since the epoch as a date; None for what is none."""
    if type(milliseconds) is not int or milliseconds <= 0:
        return None
    try:
        moment = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None
    return f"{moment:%Y-%m-%d %H:%M:%S}.{milliseconds % 1000:03d} UTC"


def names_of(values: Any, singular: str, plural: str) -> str:
    """A count and the first few: `12 topics: a, b, c, …`."""
    names = items(values)
    if not names:
        return f"no {plural}"
    first = ", ".join(topic_of(name) for name in names[:SHOWN_NAMES])
    more = ", …" if len(names) > SHOWN_NAMES else ""
    return f"{len(names):,} {singular if len(names) == 1 else plural}: {first}{more}"


# -- words


def value_of(field: str, template: str = "{}") -> Word:
    """The value of a field in a template, if it is there."""
    before, _, after = template.partition("{}")

    def word(_row: FrameRow, fields: Fields) -> str:
        value = fields.get(field)
        return "" if value is None or value == "" else f"{before}{show(value)}{after}"

    return word


def count_of(field: str, template: str) -> Word:
    """A number with its thousands marked."""
    before, _, after = template.partition("{}")

    def word(_row: FrameRow, fields: Fields) -> str:
        value = fields.get(field)
        return "" if value is None else f"{before}{thousands(value)}{after}"

    return word


def nonzero(field: str, template: str) -> Word:
    """A value in a template, unless it is the 0 that clients fill in without meaning it."""
    word = value_of(field, template)
    return lambda row, fields: "" if fields.get(field) == 0 else word(row, fields)


def flag(field: str, text: str, unless: str = "") -> Word:
    """A text when a boolean field is true, another when it is false."""
    return lambda _row, fields: text if (value := fields.get(field)) is True else unless if value is False else ""


def id_of(field: str, template: str = "{}") -> Word:
    """A message id in a template, if it is there."""
    before, _, after = template.partition("{}")
    return lambda _row, fields: "" if (value := fields.get(field)) is None else f"{before}{message_id(value)}{after}"


def time_of(field: str, template: str) -> Word:
    """A time in milliseconds, as a date."""
    before, _, after = template.partition("{}")
    return lambda _row, fields: "" if (value := fields.get(field)) is None else f"{before}{date(value) or show(value)}{after}"


def list_of(field: str, singular: str, plural: str) -> Word:
    """A list of names: count and the first few, also when there are none."""
    return lambda _row, fields: names_of(fields.get(field), singular, plural)


def some_of(field: str, singular: str, plural: str) -> Word:
    """A list of names, if there are any."""
    return lambda _row, fields: names_of(fields.get(field), singular, plural) if items(fields.get(field)) else ""


def pairs_of(field: str, title: str) -> Word:
    """Key-value pairs: `properties a=1, b=2`."""

    def word(_row: FrameRow, fields: Fields) -> str:
        pairs = items(fields.get(field))
        if not pairs:
            return ""
        texts = [f"{show(pair.get('key'))}={show(pair.get('value'))}" for pair in pairs[:SHOWN_NAMES] if type(pair) is dict]
        more = f", … ({len(pairs):,})" if len(pairs) > SHOWN_NAMES else ""
        return f"{title} {', '.join(texts)}{more}"

    return word


def inside(field: str, *words: Word) -> Word:
    """Words about a message within the command."""

    def word(row: FrameRow, fields: Fields) -> str:
        inner = fields.get(field)
        return GAP.join([text for find in words if (text := find(row, inner))]) if type(inner) is dict else ""

    return word


def topic(row: FrameRow, fields: Fields) -> str:
    """The topic of the command, else of the session."""
    topic = fields.get("topic")
    if topic is None:
        topic = row.topic
    return "" if topic is None else topic_of(topic)


def subscription(row: FrameRow, fields: Fields) -> str:
    """The subscription of the command, else of the session."""
    name = fields.get("subscription")
    if name is None:
        name = row.subscription
    return "" if name is None else f"sub {show(name)}"


def request(_row: FrameRow, fields: Fields) -> str:
    """The request id, unless it is the -1 of commands that ask nothing."""
    number = fields.get("request_id")
    return "" if number is None or number == -1 else f"request {show(number)}"


_EXCEPTION_CLASS = re.compile(r"^(?:[a-z0-9]+\.){2,12}[\w$]{1,80}: ")
"""The Java class that a broker puts before what it says; `-V` shows it."""


def without_class(message: str) -> str:
    """What a broker says of an error, without the class of its exception."""
    return _EXCEPTION_CLASS.sub("", message)


def error_of(field: str = "error", message: str = "message") -> Word:
    """Name of the error and what the peer said of it."""

    def word(_row: FrameRow, fields: Fields) -> str:
        error, said = fields.get(field), fields.get(message)
        if isinstance(said, str):
            said = without_class(said)
        if error is None:
            return "" if said is None or said == "" else f'"{show(said)}"'
        return f'{show(error)} "{show(said)}"' if said is not None and said != "" else show(error)

    return word


def txn(_row: FrameRow, fields: Fields) -> str:
    """The transaction id: (most bits,least bits)."""
    most, least = fields.get("txnid_most_bits"), fields.get("txnid_least_bits")
    return "" if most is None and least is None else f"txn ({show(most or 0)},{show(least or 0)})"


def features(_row: FrameRow, fields: Fields) -> str:
    """The feature flags that are set."""
    flags = fields.get("feature_flags")
    if type(flags) is not dict:
        return ""
    names = [str(name).removeprefix("supports_") for name, value in flags.items() if value is True]
    return f"features {', '.join(names)}" if names else ""


def schema(_row: FrameRow, fields: Fields) -> str:
    """Type, name and size of a schema."""
    schema = fields.get("schema")
    if type(schema) is not dict:
        return ""
    name, data = schema.get("name"), schema.get("schema_data")
    words = f"schema {show(schema.get('type', '?'))}"
    if name is not None and name != "":
        words += f' "{show(name)}"'
    return f"{words} {len(data):,} B" if isinstance(data, (bytes, bytearray)) and data else words


def schema_version(_row: FrameRow, fields: Fields) -> str:
    """The schema version."""
    version = fields.get("schema_version")
    return "" if version is None or version == b"" else f"schema version {version_text(version)}"


def version_text(version: Any) -> str:
    """A schema version: eight bytes are a number."""
    if isinstance(version, bytes) and len(version) == 8:
        return str(int.from_bytes(version, "big", signed=True))
    return show(version)


def key_shared(_row: FrameRow, fields: Fields) -> str:
    """How a key-shared subscription divides the keys."""
    meta = fields.get("keySharedMeta")
    if type(meta) is not dict:
        return ""
    ranges = [f"{plain(one.get('start'))}-{plain(one.get('end'))}" for one in items(meta.get("hashRanges")) if type(one) is dict]
    words = show(meta.get("keySharedMode", "?"))
    if ranges:
        words += f" {', '.join(ranges[:SHOWN_NAMES])}{', …' if len(ranges) > SHOWN_NAMES else ''}"
    return words + (" out of order allowed" if meta.get("allowOutOfOrderDelivery") is True else "")


def auth(_row: FrameRow, fields: Fields) -> str:
    """Authentication method and size of its data."""
    method = fields.get("auth_method_name")
    if method is None or method == "":
        method = fields.get("auth_method")
    data = fields.get("auth_data")
    size = f" {data_size(data)}" if data is not None and data != b"" else ""
    return "" if (method is None or method == "") and not size else f"auth {show(method or '?')}{size}"


def data_size(data: Any) -> str:
    """The size of some bytes, or the text that stands for them."""
    return f"{len(data):,} B" if isinstance(data, (bytes, bytearray)) else show(data)


def partitions(_row: FrameRow, fields: Fields) -> str:
    """The number of partitions; 0 means none."""
    count = fields.get("partitions")
    return "" if count is None else "not partitioned" if count == 0 else f"{thousands(count)} partitions"


def lookup_result(_row: FrameRow, fields: Fields) -> str:
    """Connect, Redirect or Failed."""
    result = fields.get("response")
    return "" if result is None else show(result)


def acked(_row: FrameRow, fields: Fields) -> str:
    """The ids of an ACK or a redelivery request: count and the first few."""
    ids = items(fields.get("message_id"))
    if not ids:
        return "no ids"
    if len(ids) == 1:
        one = ids[0]
        partly = " (part of the batch)" if type(one) is dict and one.get("ack_set") else ""
        return f"{message_id(one)}{partly}"
    more = ", …" if len(ids) > SHOWN_NAMES else ""
    return f"{len(ids):,} ids: {', '.join(map(message_id, ids[:SHOWN_NAMES]))}{more}"


def redelivered(_row: FrameRow, fields: Fields) -> str:
    """What is asked for again; an empty list asks for everything."""
    ids = items(fields.get("message_ids"))
    return acked(_row, {"message_id": ids}) if ids else "everything unacknowledged"


def closed_by(row: FrameRow, _fields: Fields) -> str:
    """Who closed, when it was the broker."""
    return "by the broker" if row.direction == "server" else ""


def segments_of(field: str) -> Word:
    """Segments of a scalable topic: count, and how many still take messages."""

    def word(_row: FrameRow, fields: Fields) -> str:
        segments = [one for one in items(fields.get(field)) if type(one) is dict]
        active = sum(one.get("state") == "ACTIVE" for one in segments)
        states = any("state" in one for one in segments)
        return f"{len(segments):,} segment{'' if len(segments) == 1 else 's'}" + (f", {active:,} active" if states else "")

    return word


def assignments(_row: FrameRow, fields: Fields) -> str:
    """Which broker serves which transaction coordinator."""
    rows = [one for one in items(fields.get("assignments")) if type(one) is dict]
    shown = ", ".join(f"{plain(one.get('tc_id'))} at {show(one.get('broker_service_url', '?'))}" for one in rows[:SHOWN_NAMES])
    return f"{len(rows):,} coordinators{': ' if shown else ''}{shown}{', …' if len(rows) > SHOWN_NAMES else ''}"


def unknown(_row: FrameRow, fields: Fields) -> str:
    """A command without a row: its first fields as they are."""
    shown = [f"{name}={show(value)}" for name, value in list(fields.items())[:SHOWN_NAMES]]
    return GAP.join(shown) + (f"{GAP}…" if len(fields) > SHOWN_NAMES else "")


def subscribed(value: Any) -> str:
    """A `Subscription`: topic and name."""
    if type(value) is not dict:
        return show(value)
    return f"{topic_of(value.get('topic', '?'))} sub {show(value.get('subscription', '?'))}"
