"""Names of topics: short names, names of partitioned topics, and matching by patterns."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from pulsarscope.model.limits import NAME_MAX_CHARACTERS
from pulsarscope.model.records import FrameRow

SCHEME, NAMESPACE = "persistent://", "public/default/"

STAND_IN = "topic of ledger "
LEDGER_MAX = (1 << 63) - 1

_PARTITION = re.compile(r"-partition-\d+$")


def bounded_name(name: str | None) -> str | None:
    """Return a name off the wire, cut to NAME_MAX_CHARACTERS."""
    return name if name is None or len(name) <= NAME_MAX_CHARACTERS else f"{name[: NAME_MAX_CHARACTERS - 1]}…"


def topic_of_ledger(message_id: Any) -> str | None:
    """Return the placeholder for the topic of a message id's ledger, used until a command names the topic; None for no stored message."""
    ledger = message_id.get("ledgerId") if type(message_id) is dict else None
    return f"{STAND_IN}{ledger}" if type(ledger) is int and 0 < ledger <= LEDGER_MAX else None


def named_topic(topic: str | None) -> str | None:
    """Return a topic that a command named; None for a placeholder."""
    return None if topic is None or topic.startswith(STAND_IN) else topic


def stood_in(row: FrameRow) -> str | None:
    """Return the placeholder for the topic of a frame, used where no command names it; None if this frame does not show both."""
    return topic_of_ledger((row.fields or {}).get("message_id")) if named_topic(row.topic) is not None else None


def short_topic(topic: str) -> str:
    """Return a topic without the scheme and namespace that clients add themselves."""
    return topic[len(SCHEME) :].removeprefix(NAMESPACE) if topic.startswith(SCHEME) else topic


def base_topic(topic: str) -> str:
    """Return the partitioned topic of a partition; any other topic unchanged."""
    return _PARTITION.sub("", topic)


@lru_cache(maxsize=1_024)
def topic_matches(pattern: str, topic: str) -> bool:
    """Return True if a pattern, in which * matches anything, matches the full or short name of a topic, or of a partition's topic."""
    first, *others = pattern.split("*")
    return any(_matches(first, others, name) for full in (topic, base_topic(topic)) for name in (full, short_topic(full)))


def _matches(first: str, others: list[str], name: str) -> bool:
    # No regular expression: with several *, its time grows at least with the square of a long name's length, and names come off the wire.
    if not others:
        return name == first
    *between, last = others
    at, end = len(first), len(name) - len(last)
    if at > end or not (name.startswith(first) and name.endswith(last)):
        return False
    for piece in between:
        match = name.find(piece, at, end)
        if match < 0:
            return False
        at = match + len(piece)
    return True
