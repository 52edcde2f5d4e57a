"""Subscriptions that are sought back again and again, without any message acknowledged: their consumers get the same each time."""

from __future__ import annotations

from typing import Any

import msgspec

from pulsarscope.dissect.rules import RuleContext, Where
from pulsarscope.model.bounded_tables import remember
from pulsarscope.model.text import plural
from pulsarscope.model.thresholds import SECONDS, Threshold
from pulsarscope.protocols.pulsar.rules.consumers import ConsumerState
from pulsarscope.protocols.pulsar.rules.evidence import add_sample, frame_names, may_lack
from pulsarscope.protocols.pulsar.rules.message_ids import Position
from pulsarscope.protocols.pulsar.text.formatting import duration

THRESHOLDS = (
    Threshold(
        "redelivery-storm-seeks",
        5,
        "times",
        "Times that a client seeks back and gets the same messages again without an ACK; a replay on purpose acknowledges, or "
        "uses a reader.",
        ("redelivery-storm",),
        1,
    ),
    Threshold(
        "redelivery-storm-seek-seconds",
        0.3,
        SECONDS,
        "Time that the client has the messages before it seeks; a SEEK drops ACKs that wait to be sent (0.1 s by default).",
        ("redelivery-storm",),
    ),
    Threshold(
        "consumer-undecided-seeks",
        3,
        "times",
        "Times that a client seeks back and gets the same messages again; it may stop soon.",
        ("consumer-undecided",),
        1,
    ),
    Threshold(
        "redelivery-storm-quick-seeks",
        20,
        "times",
        "Times that a client seeks back when it has the messages for less than that.",
        ("redelivery-storm",),
        1,
    ),
)

QUICK_FACTOR = 2
"""Factor of the number of SEEKs for the same note about a client that is quick."""

SUBSCRIPTIONS_MAX = 1_000
"""Subscriptions of one connection that were sought back."""

_Key = tuple[str | None, str | None, int]
"""Topic, subscription, consumer id."""


class Replay(msgspec.Struct):
    """The seeks of a subscription since its latest ACK."""

    seeks: list[Where] = []
    """First ones."""
    count: int = 0
    furthest: Position = (-1, -1)
    """Furthest entry delivered since the first seek."""
    sought: bool = False
    """Nothing was delivered since the latest seek."""
    since: int = 0
    """Time of the first delivery since then, in nanoseconds."""
    again: int = 0
    """Seeks after which an entry came that had come before."""
    held: int = 0
    """Number of those before which messages were held for long."""
    oldest: Position = (-1, -1)
    delivery: Where | None = None
    """The latest such entry, and its delivery."""


class Replays:
    """The subscriptions of one connection that were sought back."""

    __slots__ = ("_context", "_replays")

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._replays: dict[_Key, tuple[ConsumerState, Replay]] = {}

    def __bool__(self) -> bool:
        return bool(self._replays)

    def seek(self, consumer: ConsumerState, where: Where) -> None:
        """Count a seek of a consumer for which the broker keeps messages; one from before the capture may be a reader."""
        if not consumer.persistent or consumer.connection is not None:
            return
        _, replay = self._replays.get(_key(consumer), (None, Replay()))
        remember(self._replays, _key(consumer), (consumer, replay), SUBSCRIPTIONS_MAX)
        if replay.since and where.time - replay.since >= self._context.thresholds.ns("redelivery-storm-seek-seconds"):
            replay.held += 1
        add_sample(replay.seeks, where)
        replay.count += 1
        replay.sought, replay.since = True, 0

    def deliver(self, consumer: ConsumerState, position: Position, where: Where) -> None:
        """Note a delivery."""
        _, replay = self._replays.get(_key(consumer), (None, None))
        if replay is None:
            return
        if replay.sought and position <= replay.furthest:
            replay.again += 1
            replay.oldest, replay.delivery = position, where
        replay.sought = False
        replay.since = replay.since or where.time
        replay.furthest = max(replay.furthest, position)

    def acknowledge(self, consumer: ConsumerState) -> None:
        """Forget the seeks: the consumer gets on."""
        self._replays.pop(_key(consumer), None)

    def report(self) -> None:
        """Report the subscriptions that were sought back to the end."""
        thresholds = self._context.thresholds
        for consumer, replay in self._replays.values():
            first, where = replay.seeks[0], replay.delivery
            if where is None or may_lack(self._context, first.time, where.time):
                continue
            times_held = min(replay.again, replay.held + 1)  # nobody saw what was held before the first seek
            code = "redelivery-storm"
            deciding: tuple[str, ...] = ("redelivery-storm-seeks", "redelivery-storm-seek-seconds")
            if times_held < thresholds["redelivery-storm-seeks"]:
                if replay.again >= thresholds["redelivery-storm-quick-seeks"]:
                    deciding = ("redelivery-storm-quick-seeks",)
                elif max(times_held, replay.again // QUICK_FACTOR) >= thresholds["consumer-undecided-seeks"]:
                    code, deciding = "consumer-undecided", ("consumer-undecided-seeks",)
                else:
                    continue
            (ledger, entry), times = replay.oldest, plural(replay.count, "time")
            text = (
                f"The client of {consumer.title} sought back {times} within {duration(where.time - first.time)} and acknowledged nothing: "
            )
            text += f"it got {ledger}:{entry} again {plural(replay.again, 'time')}."
            evidence: dict[str, Any] = {
                "frames": frame_names([where.name, *(seek.name for seek in replay.seeks)]),
                **consumer.evidence,
                "seeks": replay.count,
                "message_id": [ledger, entry],
                "redelivery_count": replay.again,
                "act": "client",
                **thresholds.evidence(*deciding),
            }
            self._context.report(code, where, text, evidence)


def _key(consumer: ConsumerState) -> _Key:
    return consumer.topic, consumer.subscription, consumer.number
