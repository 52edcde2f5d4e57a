"""Subscriptions that repeatedly seek backwards, so that their consumers get the same messages each time."""

from __future__ import annotations

from typing import Any

import msgspec

from pulsarscope.dissect.contract.rules import RuleContext, Where
from pulsarscope.model.bounded_tables import remember
from pulsarscope.model.text import duration, plural
from pulsarscope.model.thresholds import counted, in_seconds
from pulsarscope.protocols.pulsar.message_ids import Position
from pulsarscope.protocols.pulsar.rules.evidence import add_sample, frame_names, may_lack
from pulsarscope.protocols.pulsar.rules.subscriptions.consumers import ConsumerState

THRESHOLDS = (
    counted(
        "redelivery-storm-seeks",
        5,
        "times",
        "Times that a client seeks back and gets messages again, without an ACK; a replay on purpose is rare, or uses a reader.",
        "redelivery-storm",
    ),
    in_seconds(
        "redelivery-storm-seek-seconds",
        0.3,
        "Time that the client has the messages before it seeks; a SEEK drops ACKs that wait to be sent (0.1 s by default).",
        "redelivery-storm",
    ),
    counted(
        "consumer-undecided-seeks",
        3,
        "times",
        "Times that a client seeks back and gets the same messages again; it may stop soon.",
        "consumer-undecided",
    ),
    counted(
        "redelivery-storm-quick-seeks",
        20,
        "times",
        "Times that a client seeks back and gets messages again, without an ACK, each held for less than redelivery-storm-seek-seconds.",
        "redelivery-storm",
    ),
    counted(
        "redelivery-storm-seeks-in-all",
        10,
        "times",
        "Times that a client that sends ACKs seeks back to the same messages, once in each redelivery-storm-window-seconds on average or "
        "more often; a replay on purpose is rare.",
        "redelivery-storm",
        least=2,
    ),
)

_IN_ALL = ("redelivery-storm-seeks-in-all", "redelivery-storm-window-seconds")
"""Thresholds that decide when messages are acknowledged."""

QUICK_FACTOR = 2
"""Factor on the number of SEEKs required for the same note about a quick client."""

SUBSCRIPTIONS_MAX = 1_000
"""Most subscriptions with SEEKs that are followed on one connection."""

_Key = tuple[str | None, str | None, int]
"""Topic, subscription, consumer id."""


class Replay(msgspec.Struct):
    """The seeks of a subscription."""

    seeks: list[Where] = []
    """The first seeks."""
    count: int = 0
    furthest: Position = (-1, -1)
    """Furthest entry delivered since the first seek."""
    sought: bool = False
    """True if nothing was delivered since the latest seek."""
    since: int = 0
    """Time of the first delivery since then, in nanoseconds."""
    again: int = 0
    """Number of seeks after which an earlier entry came again."""
    held: int = 0
    """Number of such seeks before which messages were held for a long time."""
    oldest: Position = (-1, -1)
    delivery: Where | None = None
    """The latest such entry, and its delivery."""
    lowest: Position | None = None
    """Lowest entry delivered since the latest seek."""
    start: Position | None = None
    reached: Position = (-1, -1)
    """Lowest and furthest entries between the first two seeks."""

    @property
    def gets_on(self) -> bool:
        """True when the first and last entries since the latest seek are both later than those after the first seek."""
        return self.start is not None and self.lowest is not None and self.lowest > self.start and self.furthest > self.reached

    def anew(self) -> Replay:
        """Return a replay that starts with the latest seek."""
        return Replay(furthest=self.furthest, start=self.lowest, reached=self.furthest)

    def seek(self, where: Where, least_ns: int) -> None:
        """Count a seek; messages held for at least `least_ns` count as held for a long time."""
        if self.since and where.time - self.since >= least_ns:
            self.held += 1
        add_sample(self.seeks, where)
        self.count += 1
        if self.start is None and self.lowest is not None:
            self.start, self.reached = self.lowest, self.furthest
        self.sought, self.since, self.lowest = True, 0, None

    def deliver(self, position: Position, where: Where) -> None:
        """Note a delivery."""
        if self.sought and position <= self.furthest:
            self.again += 1
            self.oldest, self.delivery = position, where
        self.sought = False
        self.since = self.since or where.time
        self.furthest = max(self.furthest, position)
        self.lowest = min(self.lowest or position, position)


class Replays:
    """The subscriptions with SEEKs on one connection."""

    __slots__ = ("_all", "_context", "_replays")

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._replays: dict[_Key, tuple[ConsumerState, Replay]] = {}
        """Replays since the latest ACK."""
        self._all: dict[_Key, tuple[ConsumerState, Replay]] = {}
        """Replays since the beginning, or since the consumer made progress."""

    def __bool__(self) -> bool:
        return bool(self._all)

    def seek(self, consumer: ConsumerState, where: Where) -> None:
        """Count a seek of a consumer for which the broker keeps messages; one from before the capture may be a reader."""
        if not consumer.persistent or consumer.connection is not None:
            return
        key, least_ns = _key(consumer), self._context.thresholds.ns("redelivery-storm-seek-seconds")
        for replays in (self._replays, self._all):
            _, replay = replays.get(key, (None, Replay()))
            if replays is self._all and replay.gets_on:
                replay = replay.anew()
            remember(replays, key, (consumer, replay), SUBSCRIPTIONS_MAX)
            replay.seek(where, least_ns)

    def deliver(self, consumer: ConsumerState, position: Position, where: Where) -> None:
        """Note a delivery."""
        for replays in (self._replays, self._all):
            if (known := replays.get(_key(consumer))) is not None:
                known[1].deliver(position, where)

    def acknowledge(self, consumer: ConsumerState) -> None:
        """Restart the count, as the consumer makes progress."""
        self._replays.pop(_key(consumer), None)

    def report(self) -> None:
        """Report the subscriptions that kept seeking backwards to the end."""
        for key, (consumer, replay) in self._all.items():
            _, unacknowledged = self._replays.get(key, (None, Replay()))
            code, deciding = self._judge(unacknowledged, replay)
            if code is not None:
                self._report(code, consumer, replay if deciding is _IN_ALL else unacknowledged, deciding)

    def _judge(self, unacknowledged: Replay, replay: Replay) -> tuple[str | None, tuple[str, ...]]:
        """Return a code or None, and the names of the deciding thresholds."""
        thresholds = self._context.thresholds
        times_held = min(unacknowledged.again, unacknowledged.held + 1)  # messages held before the first seek are unknown
        if times_held >= thresholds["redelivery-storm-seeks"]:
            return "redelivery-storm", ("redelivery-storm-seeks", "redelivery-storm-seek-seconds")
        if unacknowledged.again >= thresholds["redelivery-storm-quick-seeks"]:
            return "redelivery-storm", ("redelivery-storm-quick-seeks",)
        if (
            replay.again > unacknowledged.again
            and replay.again >= thresholds["redelivery-storm-seeks-in-all"]
            and self._is_frequent(replay)
        ):
            return "redelivery-storm", _IN_ALL
        if max(times_held, unacknowledged.again // QUICK_FACTOR) >= thresholds["consumer-undecided-seeks"]:
            return "consumer-undecided", ("consumer-undecided-seeks",)
        return None, ()

    def _is_frequent(self, replay: Replay) -> bool:
        """Return True when there is, on average, a seek in each window."""
        window = self._context.thresholds.ns("redelivery-storm-window-seconds")
        return replay.delivery is not None and replay.delivery.time - replay.seeks[0].time <= replay.again * window

    def _report(self, code: str, consumer: ConsumerState, replay: Replay, deciding: tuple[str, ...]) -> None:
        first, where = replay.seeks[0], replay.delivery
        if where is None or may_lack(self._context, first.time, where.time):
            return
        (ledger, entry), times = replay.oldest, plural(replay.count, "time")
        done = "acknowledged messages meanwhile" if deciding is _IN_ALL else "acknowledged nothing"
        text = f"{consumer.title} sought back {times} within {duration(where.time - first.time)} and {done}: "
        text += f"{plural(replay.again, 'time')} it got again what it had got before, at last {ledger}:{entry}."
        evidence: dict[str, Any] = {
            "frames": frame_names([where.name, *(seek.name for seek in replay.seeks)]),
            **consumer.evidence,
            "seeks": replay.count,
            "message_id": [ledger, entry],
            "redelivery_count": replay.again,
            "act": "client",
            **self._context.thresholds.evidence(*deciding),
        }
        self._context.report(code, where, text, evidence)


def _key(consumer: ConsumerState) -> _Key:
    return consumer.topic, consumer.subscription, consumer.number
