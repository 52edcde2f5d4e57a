"""Thresholds of requests that are answered late, or not, in any protocol that pairs requests with answers."""

from __future__ import annotations

from pulsarscope.model.thresholds import in_seconds

SLOW_EXCHANGE = in_seconds(
    "slow-exchange-seconds",
    5,
    "Time without an answer; operations time out after 30 s by default, and users notice long before.",
    "slow-exchange",
)

UNANSWERED = in_seconds(
    "request-unanswered-seconds",
    1,
    "Time without an answer up to the end of the connection; an answer may still be on its way before that.",
    "request-unanswered",
)

UNANSWERED_OPEN = in_seconds(
    "request-unanswered-open-seconds",
    5,
    "Time without an answer when the capture ends before the connection; the answer may only be late.",
    "request-unanswered",
)
