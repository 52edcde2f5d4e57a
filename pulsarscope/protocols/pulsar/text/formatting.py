"""Text of single values: numbers, durations, names, message ids, dates and lists.

Values come off the wire: any may be missing or have a type other than the protocol says, so no function here raises. The text is not
escaped: the renderer does that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from pulsarscope.model.text import join_words
from pulsarscope.protocols.pulsar.topics import short_topic

Fields = Mapping[str, Any]
"""A decoded protobuf message: values by field name."""

GAP = "  "
"""Separator of the phrases of a summary."""

NAMES_MAX = 3
"""Names of a list shown in a summary; the count is always exact."""

LISTING_MAX = 10
"""Names of a list shown in the text of a finding; the count is always exact."""

VALUE_CHARACTERS_MAX = 256
"""Characters of one value in a summary: a peer may send a name of five megabytes."""

NAME_CHARACTERS_MAX = 100
"""Characters of a name in the text of a finding: keys and the uuids of chunked messages are shorter."""

ERROR_CHARACTERS_MAX = 500
"""Characters of a broker's error message in a finding: some messages append whole schemas."""

LATEST = 2**63 - 1
"""Ledger and entry of the message id "latest"; in "earliest", both are -1 (2^64-1 on the wire)."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

_EXCEPTION_CLASS = re.compile(r"^(?:[a-z0-9]+\.){2,12}[\w$]{1,80}: ")
"""Java class at the beginning of a broker's error message; `-V` shows it."""


def value_text(value: Any) -> str:
    """Return any value as a short text, bytes in hex."""
    if isinstance(value, (bytes, bytearray)):
        value = f"0x{value[:VALUE_CHARACTERS_MAX].hex()}"
    text = value if type(value) is str else str(value)
    return text if len(text) <= VALUE_CHARACTERS_MAX else f"{text[:VALUE_CHARACTERS_MAX]}… ({len(text):,} characters)"


def clipped(name: str) -> str:
    """Return a name; of a long one, its beginning and its length in characters."""
    return name if len(name) <= NAME_CHARACTERS_MAX else f"{name[:NAME_CHARACTERS_MAX]}… ({len(name)} characters)"


def number_text(value: Any) -> str:
    """Return a number without separators; "?" for None."""
    return "?" if value is None else str(value) if type(value) is int else value_text(value)


def thousands(value: Any) -> str:
    """Return a number with thousands separators."""
    return f"{value:,}" if type(value) is int else value_text(value)


def date(milliseconds: Any) -> str | None:
    """Return milliseconds since the epoch as a date in UTC; None if they are not a date."""
    if type(milliseconds) is not int or milliseconds <= 0:
        return None
    try:
        moment = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None
    return f"{moment:%Y-%m-%d %H:%M:%S}.{milliseconds % 1000:03d} UTC"


def host(endpoint: str) -> str:
    """Return an endpoint without its port."""
    return endpoint.rpartition(":")[0]


def port(endpoint: str) -> int:
    """Return the port of an endpoint."""
    return int(endpoint.rpartition(":")[2])


def topic_text(value: Any) -> str:
    """Return the short form of a topic."""
    return short_topic(value) if type(value) is str and len(value) <= VALUE_CHARACTERS_MAX else value_text(value)


def message_id_text(value: Any) -> str:
    """Return a message id as "ledger:entry" or "ledger:entry:batch index", or as "earliest" or "latest"."""
    if type(value) is not dict:
        return value_text(value)
    ledger, entry = value.get("ledgerId"), value.get("entryId")
    if len(value) == 2 and type(ledger) is int and type(entry) is int and ledger != entry:
        return f"{ledger}:{entry}"
    index = value.get("batch_index", -1)
    if ledger == entry:
        if ledger == -1:
            return "earliest"
        if ledger == LATEST:
            return "latest"
    text = f"{number_text(ledger)}:{number_text(entry)}"
    return text if index == -1 else f"{text}:{number_text(index)}"


def schema_version_text(version: Any) -> str:
    """Return a schema version; a broker's version, of eight bytes, as a number."""
    if isinstance(version, bytes) and len(version) == 8:
        return str(int.from_bytes(version, "big", signed=True))
    return value_text(version)


def without_exception_class(message: str) -> str:
    """Return a broker's error message without the Java class at its beginning."""
    return _EXCEPTION_CLASS.sub("", message)


def error_message_text(message: str | None) -> str:
    """Return a broker's error message for the text of a finding, which continues after it; empty if there is no message."""
    text = without_exception_class(message or "").rstrip(". \n")
    return text if len(text) <= ERROR_CHARACTERS_MAX else f"{text[:ERROR_CHARACTERS_MAX]}…"


def error_text(error: Any, message: str | None) -> str:
    """Return an error with the broker's message, if it has one."""
    text = error_message_text(message)
    return f"{error}: {text}" if text else str(error)


def listing(names: Sequence[str], separator: str = ", ", last: str = " and ") -> str:
    """Return the first names, followed by `last` and the number of further ones, or by `last` and the last name."""
    more = len(names) - LISTING_MAX
    shown = names if more <= 0 else [*names[:LISTING_MAX], f"{more:,} more"]
    return join_words(shown, last, separator)


def nouns_text(names: Sequence[str]) -> str:
    """Join names that begin with a noun, with each noun only once: "producers p and q and consumer c"."""
    by_noun: dict[str, list[str]] = {}
    for name in names:
        noun, _, rest = name.partition(" ")
        by_noun.setdefault(noun, []).append(rest)
    return listing([f"{noun}{'s' if len(rests) > 1 else ''} {listing(rests)}" for noun, rests in by_noun.items()])


def names_text(values: Any, singular: str, plural: str) -> str:
    """Return a count and the first names: "12 topics: a, b, c, …"."""
    if not (names := as_list(values)):
        return f"no {plural}"
    first = ", ".join(topic_text(name) for name in names[:NAMES_MAX])
    more = ", …" if len(names) > NAMES_MAX else ""
    return f"{len(names):,} {singular if len(names) == 1 else plural}: {first}{more}"


def as_list(value: Any) -> list[Any]:
    """Return a repeated field as a list, whatever the frame contains."""
    return value if type(value) is list else [] if value is None else [value]


def dicts_in(value: Any) -> list[dict[str, Any]]:
    """Return the messages of a repeated field."""
    return [item for item in as_list(value) if type(item) is dict]


def bytes_text(data: bytes) -> str:
    """Return printable UTF-8 as text, other bytes in hex."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return f"0x{data.hex()}"
    return text if text.isprintable() else f"0x{data.hex()}"
