"""Messages that repeatedly go to their retry topic. Clients publish them again for each try, so there is no redelivery."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import msgspec

from pulsarscope.dissect.contract.rules import RuleContext, Where, where_of
from pulsarscope.model.bounded_tables import remember
from pulsarscope.model.records import FrameRow
from pulsarscope.model.text import duration, plural
from pulsarscope.model.thresholds import counted, in_seconds
from pulsarscope.protocols.pulsar.rules.evidence import add_sample, frame_names
from pulsarscope.protocols.pulsar.topics import bounded_name

THRESHOLDS = (
    counted(
        "redelivery-storm-retries",
        10,
        "times",
        "Times that a message goes to its retry topic within a window; clients wait for seconds before a retry.",
        "redelivery-storm",
        least=2,
    ),
    counted(
        "redelivery-storm-retries-in-all",
        20,
        "times",
        "Retries that a message counts itself; clients move it to a dead letter topic after 16 by default.",
        "redelivery-storm",
        least=2,
    ),
    in_seconds(
        "redelivery-storm-retries-seconds",
        60,
        "Time from one retry to the next, on average, of a message that counts so many; longer delays are chosen to wait for something.",
        "redelivery-storm",
    ),
)

SEEN_LEAST = 3
"""Minimum number of retries in the capture for a message whose own count is high: a single retry may be the last."""

ORIGIN, TIMES = "ORIGIN_MESSAGE_ID", "RECONSUMETIMES"
"""Properties of a message to retry: the id of the original message, and the number of retries."""

RETRIED_MAX = 1_000
"""Most messages whose retries are counted on one connection."""


class Retried(msgspec.Struct):
    """A message on its way through a retry topic."""

    times: deque[int]
    """Times of its latest retries in nanoseconds."""
    frames: list[Where] = msgspec.field(default_factory=list)
    seen: int = 0
    highest: int = 0
    """Number of retries according to the message's own count."""
    is_storm: bool = False
    """True when it went to the retry topic too often within a window, or a few more times after very many."""


class Retries:
    """The retries of the messages that one connection publishes."""

    def __init__(self, context: RuleContext) -> None:
        """Start without any retries."""
        self._context = context
        self._messages: dict[tuple[str | None, str | None], Retried] = {}
        """Messages by retry topic and original message; each subscription has its own retry topic."""

    def note(self, row: FrameRow, properties: Mapping[str, Any]) -> None:
        """Count a SEND with these properties if it is a retry."""
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
        is_full, span = len(message.times) == message.times.maxlen, where.time - message.times[0]
        is_late = message.seen >= SEEN_LEAST and message.highest > limits["redelivery-storm-retries-in-all"]
        message.is_storm |= is_full and span <= limits.ns("redelivery-storm-window-seconds")
        message.is_storm |= is_late and span <= (len(message.times) - 1) * limits.ns("redelivery-storm-retries-seconds")

    def report(self) -> None:
        """Report the message that was retried most often, if that is too often."""
        endless = {key: message for key, message in self._messages.items() if message.is_storm}
        if not endless:
            return
        (topic, origin), worst = max(endless.items(), key=lambda item: item[1].highest)
        first = worst.frames[0]
        text = f"Client {self._context.client} sent message {origin} to {f'retry topic {topic}' if topic else 'its retry topic'} "
        text += f"{plural(worst.seen, 'time')} in {duration(worst.times[-1] - first.time)}; its latest retry count is {worst.highest:,}."
        if others := len(endless) - 1:
            text += f" {plural(others, 'more message')} {'was' if others == 1 else 'were'} retried as often."
        evidence = {
            "frames": frame_names(where.name for where in worst.frames),
            "topic": topic,
            "origin": origin,
            "retries": worst.seen,
            "highest": worst.highest,
            "messages": len(endless),
            **self._context.thresholds.evidence(
                "redelivery-storm-retries",
                "redelivery-storm-retries-in-all",
                "redelivery-storm-retries-seconds",
                "redelivery-storm-window-seconds",
            ),
        }
        self._context.report("redelivery-storm", first, text, evidence)
