"""Topics by ledger, from the output of `pulsar-admin topics stats-internal`, `partitioned-stats-internal` and `stats`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from pulsarscope.model.limits import NAME_MAX_CHARACTERS, NAMES_MAX, NAMES_MAX_DEPTH
from pulsarscope.protocols.pulsar.topics import NAMESPACE, SCHEME, topic_of_ledger

_TOPIC = re.compile(r"(?:non-)?persistent://[^/]+/.+")
_POSITION = re.compile(r"(\d+):-?\d+")
_OTHER_LEDGERS = frozenset({"schemaLedgers", "compactedLedger", "cursorLedger"})
"""Keys of ledgers without messages of the topic."""


def ledger_names(content: bytes, name: str) -> dict[str, str]:
    """Return topics by their placeholders in rows. A topic without a name in the file is named after the file.

    The content is an object for one topic, an object for several topics by name, or several such objects, one per line. Raises ValueError
    if it has no ledger.
    """
    topic = name if _TOPIC.fullmatch(name) else f"{SCHEME}{NAMESPACE}{name}"
    names: dict[str, str] = {}
    for value in _values(content):
        for ledger, of_topic in _ledgers(value, topic, 0):
            stand_in = topic_of_ledger({"ledgerId": ledger})
            if stand_in is not None:
                names[stand_in] = of_topic
            if len(names) > NAMES_MAX:
                raise ValueError(f"it has more than {NAMES_MAX:,} ledgers")
    if not names:
        raise ValueError("it has no ledgers, as pulsar-admin topics stats-internal prints them")
    return names


def _values(content: bytes) -> list[Any]:
    """Return the JSON values: a single one, or one per line."""
    try:
        return [msgspec.json.decode(content)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        whole = str(error)
    try:
        return [msgspec.json.decode(line) for line in content.splitlines() if line.strip()]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ValueError(f"it is not JSON: {whole.removeprefix('JSON is malformed: ')}") from None


def _ledgers(value: Any, topic: str, depth: int) -> Iterator[tuple[int, str]]:
    """Yield the ledgers of messages in a value, each with its topic."""
    if depth > NAMES_MAX_DEPTH:
        return
    if isinstance(value, list):
        for each in value:
            yield from _ledgers(each, topic, depth + 1)
    elif isinstance(value, dict):
        named = value.get("topic", value.get("topicName"))
        if isinstance(named, str) and _TOPIC.fullmatch(named):
            topic = named[:NAME_MAX_CHARACTERS]
        if isinstance(ledger := value.get("ledgerId"), int):
            yield ledger, topic
        for key, each in value.items():
            if isinstance(each, str):
                if (position := _POSITION.fullmatch(each)) is not None:
                    yield int(position[1]), topic
            elif key not in _OTHER_LEDGERS:
                yield from _ledgers(each, key[:NAME_MAX_CHARACTERS] if _TOPIC.fullmatch(key) else topic, depth + 1)
