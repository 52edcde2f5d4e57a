"""Messages that go to their retry topic again and again: clients publish them anew for each try, so that none of them is redelivered."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import msgspec

from pulsarscope.dissect.rules import RuleContext, Where, where_of
from pulsarscope.model.bounded_tables import remember
from pulsarscope.model.records import FrameRow
from pulsarscope.model.thresholds import Threshold
from pulsarscope.protocols.pulsar.rules.evidence import add_sample, frame_names
from pulsarscope.protocols.pulsar.text.formatting import duration
from pulsarscope.protocols.pulsar.topics import bounded_name

THRESHOLDS = (
    Threshold(
        "redelivery-storm-retries",
        10,
        "times",
        "Times that a message goes to its retry topic within a window; clients wait for seconds before a retry.",
        ("redelivery-storm",),
        2,
    ),
    Threshold(
        "redelivery-storm-retries-in-all",
        20,
        "times",
        "Retries that a message counts itself; clients move it to a dead letter topic after 16 by default.",
        ("redelivery-storm",),
        2,
    ),
)

ORIGIN, TIMES = "ORIGIN_MESSAGE_ID", "RECONSUMETIMES"
"""Properties of a message that is to be retried: the one that it was at first, and how often."""

RETRIED_MAX = 1_000
"""Messages whose retries are counted on one connection."""


class Retried(msgspec.Struct):
    """A message on its way through a retry topic."""

    times: deque[int]
    """Times of its latest retries in nanoseconds."""
    frames: list[Where] = msgspec.field(default_factory=list)
    seen: int = 0
    highest: int = 0
    """Retries that it counts itself."""
    in_window: bool = False
    """It went to the retry topic as often as is too often within a window."""


class Retries:
    """Retries of the messages that one connection publishes."""

    def __init__(self, context: RuleContext) -> None:
        """Count for the findings of this context."""
        self._context = context
        self._messages: dict[tuple[str | None, str | None], Retried] = {}
        """By retry topic and the message that it was at first: each subscription has a retry topic of its own."""

    def note(self, row: FrameRow, properties: Mapping[str, Any]) -> None:
        """Count a SEND with these properties, when it is a retry."""
        origin, count = properties.get(ORIGIN), properties.get(TIMES)
        if not isinstance(origin, str) or not isinstance(count, str) or not count.isdecimal():
            return
        limits, where = self._context.thresholds, where_of(row)
        key = row.topic, bounded_name(origin)
        message = self._messages.get(key)
        if message is None:
            message = Retried(deque(maxlen=int(limits["redelivery-storm-retries"])))
            remember(self._messages, key, message, RETRIED_MAX)
        message.seen += 1
        message.highest = max(message.highest, int(count[:9]))
        message.times.append(where.time)
        add_sample(message.frames, where)
        is_full = len(message.times) == message.times.maxlen
        message.in_window |= is_full and where.time - message.times[0] <= limits.ns("redelivery-storm-window-seconds")

    def report(self) -> None:
        """Report the message that was retried most often, when that is too often."""
        limits = self._context.thresholds
        most = limits["redelivery-storm-retries-in-all"]
        endless = {key: message for key, message in self._messages.items() if message.in_window or message.highest > most}
        if not endless:
            return
        (topic, origin), worst = max(endless.items(), key=lambda item: item[1].highest)
        first = worst.frames[0]
        span = duration(worst.times[-1] - first.time)
        text = f"{self._context.client} sent message {origin} to {topic or 'its retry topic'} to be tried again {worst.seen:,} times "
        text += f"in {span}, at last as retry number {worst.highest:,}"
        text += f"; so it did with {len(endless) - 1:,} more." if len(endless) > 1 else "."
        evidence = {
            "frames": frame_names(where.name for where in worst.frames),
            "topic": topic,
            "origin": origin,
            "retries": worst.seen,
            "highest": worst.highest,
            "messages": len(endless),
            **limits.evidence("redelivery-storm-retries", "redelivery-storm-retries-in-all", "redelivery-storm-window-seconds"),
        }
        self._context.report("redelivery-storm", first, text, evidence)
