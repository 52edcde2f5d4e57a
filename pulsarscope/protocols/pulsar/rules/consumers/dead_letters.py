"""Messages that a consumer gave up on, and its client moved to a dead letter topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from pulsarscope.dissect.rules import RuleContext, Where, where_of
from pulsarscope.model.records import FrameRow
from pulsarscope.model.text import plural
from pulsarscope.protocols.pulsar.rules.evidence import add_sample

TOPICS_MAX = 1_000
"""Dead letter topics counted on one connection."""


class MovedMessages(msgspec.Struct):
    """Messages moved to one dead letter topic."""

    frames: list[Where]
    """First SENDs."""
    origin: str | None
    """Topic from which they came."""
    count: int = 0


class DeadLetters:
    """Dead letters of one connection, by topic."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._topics: dict[str, MovedMessages] = {}

    def note(self, row: FrameRow, properties: Mapping[str | None, Any]) -> None:
        """Note a SEND if it moves a message to a dead letter topic."""
        topic = row.topic or ""
        # A message that is to be retried has the same properties, and a time of delivery.
        is_retry = "deliver_at_time" in (row.metadata or {})
        moved = "REAL_TOPIC" in properties and "ORIGIN_MESSAGE_ID" in properties and not is_retry
        if not (moved or topic.endswith("-DLQ")) or (topic not in self._topics and len(self._topics) >= TOPICS_MAX):
            return
        letters = self._topics.setdefault(topic, MovedMessages([], properties.get("REAL_TOPIC")))
        letters.count += 1
        add_sample(letters.frames, where_of(row))

    def report(self) -> None:
        """Report what was moved to each topic."""
        for topic, letters in self._topics.items():
            origin = f" from {letters.origin}" if letters.origin else ""
            text = f"{plural(letters.count, 'message')}{origin} went to the dead letter topic {topic}."
            names = [where.name for where in letters.frames]
            evidence = {"frames": names, "topic": topic, "origin": letters.origin, "count": letters.count}
            self._context.report("dead-lettered", letters.frames[0], text, evidence)
