"""SENDs that the broker answered late or never, by producer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import msgspec

from pulsarscope.dissect.rules import ConnectionRule, Handlers, RuleContext, Where, where_of
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FrameRow
from pulsarscope.model.tables import NOTHING, remember
from pulsarscope.model.thresholds import SECONDS, Threshold, Thresholds
from pulsarscope.protocols.pulsar.rules.evidence import frame_names, gap_note, response_name, unanswered
from pulsarscope.protocols.pulsar.rules.message_ids import entry_key
from pulsarscope.protocols.pulsar.rules.publish_legs import PASSED, PUBLISHED, PUBLISHES, SLOW, WINDOW_NS
from pulsarscope.protocols.pulsar.rules.rounded_latencies import percentile, rounded
from pulsarscope.protocols.pulsar.rules.sequences import REPLICATOR
from pulsarscope.protocols.pulsar.text.formatting import duration, quantity

CODES = table(
    SESSION.warning(
        "slow-publish",
        "A producer waits long for its receipts.",
        "The text names the leg that took longest when the capture has the broker's links to its bookies, or both sides of a proxy. When "
        "the broker closed its window it had stopped reading: look at its publish limits and memory; else at the latency of its bookies.",
    ),
    SESSION.warning(
        "send-unanswered",
        "SENDs got neither a receipt nor an error while the connection went on.",
        "The producer gives up after its send time-out and may send them again: look at the broker's log at that time.",
    ),
    SESSION.warning(
        "replication-stalled",
        "A replicator waits for its receipts, or falls further behind the clients that publish.",
        "Look at the remote cluster first: its write latency, quotas and dispatch limits; then at the link between the two.",
    ),
)

THRESHOLDS = (
    Threshold(
        "slow-publish-seconds",
        1,
        SECONDS,
        "99th percentile, or the median of a few, of the latencies of a producer: healthy brokers answer in milliseconds.",
        ("slow-publish", "replication-stalled"),
    ),
    Threshold(
        "slow-publish-sends",
        10,
        "SENDs",
        "From so many on the percentile counts: the first SEND opens a ledger and is not typical.",
        ("slow-publish",),
        1,
    ),
    Threshold(
        "slow-publish-median-sends",
        3,
        "SENDs",
        "From so many on the median counts: a client that waits for each receipt sends few while the capture lasts.",
        ("slow-publish",),
        1,
    ),
    Threshold(
        "slow-publish-longest-seconds",
        10,
        SECONDS,
        "Latency of a single SEND: a third of the default send time-out of 30 s.",
        ("slow-publish",),
    ),
    Threshold(
        "slow-publish-jump-seconds",
        2.5,
        SECONDS,
        "Latency of a SEND that is a hundred times that of another one of its producer: disks and pauses of a healthy broker take less.",
        ("slow-publish",),
    ),
    Threshold("send-unanswered-seconds", 1, SECONDS, "A receipt may be on its way when the connection ends.", ("send-unanswered",)),
    Threshold("replication-stalled-seconds", 1, SECONDS, "Receipts cross continents in less.", ("replication-stalled",)),
    Threshold(
        "replication-lag-seconds", 2, SECONDS, "Growth of the age of what is sent: batches and retries take less.", ("replication-stalled",)
    ),
    Threshold("replication-lag-sends", 10, "SENDs", "Fewer ages show no trend.", ("replication-stalled",), 1),
    Threshold(
        "replication-lag-share", 0.5, "of the time", "Growth in that time: a backlog that is worked off shrinks.", ("replication-stalled",)
    ),
)

PRODUCERS_MAX = 10_000
"""Producers of one connection that are followed at a time, and closed ones whose late SENDs are recognised."""

SLOW_MAX = 1_000
"""Slow producers that wait for the end of the connection, which alone shows when the broker had closed its window."""

UNANSWERED_MAX = 1_000
"""Unanswered SENDs of one producer that are kept until the end of the connection."""

JUMP = 100
"""So many times the latency of another SEND of its producer tells a pause from a broker or a link that is slow."""

BROKER_WINDOW = "zero-window"

STORAGE = "adds"
"""Key rule of a storage, by host of the broker and window, for the facts about the slowest SEND of that time."""


class ReplicationLag(msgspec.Struct):
    """Ages of the messages that a replicator sends: capture time less publish time, ns. Only differences count: clocks differ."""

    first: Where
    first_age: int
    last: Where
    last_age: int
    sends: int = 0

    @property
    def growth(self) -> int:
        """Nanoseconds that the last message is older than the first."""
        return self.last_age - self.first_age


class Publisher(msgspec.Struct):
    """SENDs of one producer and their answers."""

    topic: str | None = None
    name: str | None = None
    latencies: Counter[int] = msgspec.field(default_factory=Counter)
    """SENDs by latency in nanoseconds, rounded to three digits: a few thousand different ones at most."""
    slowest: tuple[int, Where, str, str] | None = None
    """(latency, SEND, its answer, entry)."""
    answered_at: int = 0
    """Time of the first answer, in nanoseconds."""
    in_flight: int = 0
    in_flight_max: int = 0
    """Most SENDs without an answer at a time."""
    unanswered: list[Where] = msgspec.field(default_factory=list)
    reset: Where | None = None
    """Latest PRODUCER or CLOSE_PRODUCER: a client sends again what it had sent before that."""
    closed: bool = False
    lag: ReplicationLag | None = None
    """Age of what a replicator sends; None of other producers."""
    is_known: bool = False
    """True after its first SEND, which tells whether it is a replicator."""

    @property
    def replicates(self) -> bool:
        """True for a replicator: by what it sends, or by its name."""
        return self.lag is not None or (self.name or "").startswith(REPLICATOR)

    @property
    def title(self) -> str:
        """Name of the producer in a sentence."""
        return f"{'Replicator' if self.replicates else 'Producer'} {self.name or '?'}{f' on {self.topic}' if self.topic else ''}"

    def is_resent(self, send: Where) -> bool:
        """Return True when the client knows to send this again."""
        reset = self.reset
        return reset is not None and (send.file, send.packet, send.sub) < (reset.file, reset.packet, reset.sub)


class SlowPublisher(NamedTuple):
    """Finding on a slow producer, without what the end of the connection adds."""

    code: str
    where: Where
    text: str
    evidence: dict[str, Any]
    latency: int
    """Of the slowest SEND, whose place is `where`."""
    entry: str


class PublishRule(ConnectionRule):
    """Rule about late and missing receipts of one connection."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._publishers: dict[str, Publisher] = {}
        """Open publishers by producer id."""
        self._closed: dict[str, None] = {}
        """Ids of closed producers that are forgotten."""
        self._slow: list[SlowPublisher] = []
        """Closed slow producers."""
        self._window = -1
        self._window_end = self._fastest = 0
        """End of the window, and the shortest latency in it."""
        self._slowest: tuple[int, Where, str, str, str | None] | None = None
        """(latency, SEND, its answer, entry, topic) of the window."""
        self._longest = 0
        """Latency of the slowest."""
        self._latest: tuple[str, Any] = "", None
        """Name of the latest receipt, and its message id."""

    def _publisher(self, number: str) -> Publisher | None:
        publisher = self._publishers.get(number)
        if publisher is None and number not in self._closed and len(self._publishers) < PRODUCERS_MAX:
            publisher = self._publishers[number] = Publisher()
        return publisher

    def _send(self, row: FrameRow) -> None:
        if (publisher := self._publisher(str((row.fields or {}).get("producer_id", -1)))) is not None:
            publisher.in_flight += 1
            publisher.in_flight_max = max(publisher.in_flight_max, publisher.in_flight)
            if publisher.lag is not None or not publisher.is_known:
                publisher.is_known = True
                _note_lag(publisher, row)

    def _receipt(self, row: FrameRow) -> None:
        self._latest = row.request or "", (row.fields or {}).get("message_id")

    def _entry(self, send: Where) -> str:
        """Return the entry that the receipt of a SEND names; "" when it is not the latest one, or names none."""
        name, message_id = self._latest
        return entry_key(message_id) or "" if name == send.name else ""

    def _reset(self, row: FrameRow) -> None:
        number = str((row.fields or {}).get("producer_id", -1))
        if row.command == "PRODUCER":
            self._closed.pop(number, None)
        if (publisher := self._publisher(number)) is not None:
            publisher.reset, publisher.closed = where_of(row), row.command == "CLOSE_PRODUCER"
            self._forget(number, publisher)

    def _forget(self, number: str, publisher: Publisher) -> None:
        """Drop a closed producer once all its SENDs are answered."""
        if not publisher.closed or publisher.in_flight > 0:
            return
        del self._publishers[number]
        self._evaluate_lag(publisher)
        remember(self._closed, number, None, PRODUCERS_MAX)
        if (slow := _evaluate_latency(publisher, self._context.thresholds)) is not None and len(self._slow) < SLOW_MAX:
            self._slow.append(slow)
        elif slow is not None:
            self._report_slow(slow)

    def _exchange(self, row: ExchangeRow) -> None:
        number = (row.key or "").partition(":")[0]
        if (publisher := self._publisher(number)) is None:
            return
        publisher.in_flight -= 1
        publisher.topic, publisher.name = row.topic, row.producer_name
        latency = row.latency_ns
        if row.status == "unanswered":
            if len(publisher.unanswered) < UNANSWERED_MAX:
                publisher.unanswered.append(where_of(row))
        elif latency is not None:
            if latency < self._fastest or latency > self._longest or row.time >= self._window_end:
                self._note(row, latency)
            publisher.latencies[rounded(latency)] += 1
            if publisher.slowest is None:
                publisher.answered_at = (row.time or 0) + latency
            if publisher.slowest is None or latency > publisher.slowest[0]:
                where = where_of(row)
                publisher.slowest = latency, where, response_name(row), self._entry(where)
        self._forget(number, publisher)

    def _note(self, row: ExchangeRow, latency: int) -> None:
        """Note the latency for the window in which the answer came."""
        window = (row.time + latency) // WINDOW_NS
        if window > self._window:
            self._end_window()
            self._window, self._fastest, self._longest = window, latency, -1
            self._window_end = (window + 1) * WINDOW_NS
        elif latency < self._fastest:
            self._fastest = latency
        if latency > self._longest:
            where = where_of(row)
            self._longest = latency
            self._slowest = latency, where, response_name(row), self._entry(where), row.topic

    def _end_window(self) -> None:
        if self._slowest is None:
            return
        latency, where, answer, entry, topic = self._slowest
        values = {"latency": latency, "fastest": self._fastest, "topic": topic, "frames": [where.name, answer], "entry": entry}
        values["host"] = host = self._context.server.rpartition(":")[0]
        for window, what in ((self._window, PUBLISHED), (self._window + 1, PASSED)):
            self._context.emit_fact(STORAGE, f"{host} {window}", where, what, values)
            self._context.emit_fact(PUBLISHES, str(window), where, what, values)
        self._slowest = None

    def end(self, row: ConnectionRow, last: Where) -> None:  # noqa: ARG002 - the contract's
        """Report slow producers and unanswered SENDs."""
        self._end_window()
        for slow in self._slow:
            self._report_slow(slow)
        for publisher in self._publishers.values():
            if (slow_publisher := _evaluate_latency(publisher, self._context.thresholds)) is not None:
                self._report_slow(slow_publisher)
            self._evaluate_unanswered(publisher, row)
            self._evaluate_lag(publisher)

    def _report_slow(self, slow: SlowPublisher) -> None:
        windows = [finding for finding in self._context.reported(BROKER_WINDOW) if finding.text.startswith(f"{self._context.server} ")]
        closed = sum(window.evidence.get("closed_ns", 0) for window in windows)
        count = sum(window.evidence.get("count", 0) for window in windows)
        text = f"; meanwhile the broker closed its window for {duration(closed)} in all" if windows else ""
        values = {
            "code": slow.code,
            "text": f"{slow.text}{text}{gap_note(lost=self._context.lost)}",
            "evidence": slow.evidence | {"zero_windows": count, "window_closed_ns": closed},
            "latency": slow.latency,
            "entry": slow.entry,
            "answered": (answered := slow.where.time + slow.latency),
            "host": self._context.server.rpartition(":")[0],
        }
        self._context.emit_fact(PUBLISHES, str(answered // WINDOW_NS), slow.where, SLOW, values)

    def _evaluate_unanswered(self, publisher: Publisher, row: ConnectionRow) -> None:
        begin = publisher.answered_at if row.opened == "midstream" else 0  # the other direction may begin later in the capture
        asked = [where for where in publisher.unanswered if where.time >= begin]
        code, limit = "send-unanswered", "send-unanswered-seconds"
        if publisher.replicates:
            code, limit = "replication-stalled", "replication-stalled-seconds"
        answer_ns = self._context.thresholds.ns(limit)
        late = [where for where in unanswered(self._context, asked) if row.end - where.time > answer_ns]
        late = [where for where in late if not publisher.is_resent(where)]
        if not late or publisher.closed:
            return
        waited = row.end - late[0].time
        evidence: dict[str, Any] = {
            "frames": frame_names(where.name for where in late),
            "topic": publisher.topic,
            "producer_name": publisher.name,
            "count": len(late),
            "waited_ns": waited,
        }
        if publisher.replicates:
            evidence |= self._context.thresholds.evidence(limit)
        rest = f"though the connection went on for {duration(waited)} after the first{gap_note(lost=self._context.lost)}"
        self._context.report(code, late[0], f"{publisher.title} got no answer to {quantity(len(late), 'SEND')}, {rest}.", evidence)

    def _evaluate_lag(self, publisher: Publisher) -> None:
        """Report a replicator whose messages get older and older."""
        lag, thresholds = publisher.lag, self._context.thresholds
        if lag is None or lag.sends < thresholds["replication-lag-sends"] or publisher.unanswered:
            return
        took = lag.last.time - lag.first.time
        if lag.growth < max(thresholds.ns("replication-lag-seconds"), thresholds["replication-lag-share"] * took):
            return
        text = (
            f"{publisher.title} falls behind: within {duration(took)} the age of what it sends grew by "
            f"{duration(lag.growth)}, over {quantity(lag.sends, 'SEND')}{gap_note(lost=self._context.lost)}."
        )
        evidence: dict[str, Any] = {
            "frames": [lag.first.name, lag.last.name],
            "topic": publisher.topic,
            "producer_name": publisher.name,
            "sends": lag.sends,
            "growth_ns": lag.growth,
            **thresholds.evidence("replication-lag-seconds", "replication-lag-sends", "replication-lag-share"),
        }
        self._context.report("replication-stalled", lag.last, text, evidence)

    def batch(self, rows: Sequence[Any], handle: Callable[[int], None]) -> None:
        """Count plain SENDs and their answers; see `ConnectionRule.batch`."""
        publishers = self._publishers
        for index, row in enumerate(rows):
            if type(row) is not ExchangeRow:
                fields = row.fields or NOTHING
                if row.command == "SEND_RECEIPT":
                    self._latest = row.request or "", fields.get("message_id")
                    continue
                publisher = publishers.get(str(fields.get("producer_id", -1)))
                if row.command != "SEND" or publisher is None or publisher.lag is not None or not publisher.is_known:
                    handle(index)
                    continue
                publisher.in_flight = in_flight = publisher.in_flight + 1
                publisher.in_flight_max = max(publisher.in_flight_max, in_flight)
                continue
            publisher, latency = publishers.get((row.key or "").partition(":")[0]), row.latency_ns
            if (
                latency is None
                or publisher is None
                or publisher.closed
                or row.status == "unanswered"
                or publisher.slowest is None
                or latency > publisher.slowest[0]
                or latency < self._fastest
                or latency > self._longest
                or row.time >= self._window_end
            ):
                handle(index)
                continue
            publisher.in_flight -= 1
            publisher.topic, publisher.name = row.topic, row.producer_name
            publisher.latencies[rounded(latency)] += 1

    frames: ClassVar[Handlers] = {"SEND": _send, "SEND_RECEIPT": _receipt, "PRODUCER": _reset, "CLOSE_PRODUCER": _reset}
    exchanges: ClassVar[Handlers] = {"SEND": _exchange}


def _note_lag(publisher: Publisher, row: FrameRow) -> None:
    """Note the age of what a replicator sends: its messages name the cluster that they come from."""
    metadata = row.metadata or {}
    published = metadata.get("publish_time")
    if not metadata.get("replicated_from") or type(published) is not int:
        return
    where, age = where_of(row), row.time - published * 1_000_000
    if publisher.lag is None:
        publisher.lag = ReplicationLag(where, age, where, age)
    lag = publisher.lag
    lag.last, lag.last_age, lag.sends = where, age, lag.sends + 1


def _evaluate_latency(publisher: Publisher, thresholds: Thresholds) -> SlowPublisher | None:
    if publisher.slowest is None:
        return None
    longest, where, answer, entry = publisher.slowest
    sends = sum(publisher.latencies.values())
    median, high = percentile(publisher.latencies, 50), percentile(publisher.latencies, 99)
    slow_ns = thresholds.ns("slow-publish-seconds")
    if sends >= thresholds["slow-publish-sends"] and high > slow_ns:
        deciding = thresholds.evidence("slow-publish-seconds", "slow-publish-sends")
    elif sends >= thresholds["slow-publish-median-sends"] and median > slow_ns:
        deciding = thresholds.evidence("slow-publish-seconds", "slow-publish-median-sends")
    elif longest > thresholds.ns("slow-publish-longest-seconds"):
        deciding = thresholds.evidence("slow-publish-longest-seconds")
    elif longest > max(thresholds.ns("slow-publish-jump-seconds"), JUMP * min(publisher.latencies)):
        deciding = thresholds.evidence("slow-publish-jump-seconds")
    else:
        return None
    evidence: dict[str, Any] = {
        "frames": [where.name, answer],
        "topic": publisher.topic,
        "producer_name": publisher.name,
        "sends": sends,
        "p50_ns": median,
        "p99_ns": high,
        "max_ns": longest,
        "in_flight_max": publisher.in_flight_max,
        **deciding,
    }
    text = (
        f"{publisher.title} waits for its receipts: half of {quantity(sends, 'SEND')} at least {duration(median)}, "
        f"one in a hundred {duration(high)}, the slowest {duration(longest)}, with up to {publisher.in_flight_max} in flight"
    )
    return SlowPublisher("replication-stalled" if publisher.replicates else "slow-publish", where, text, evidence, longest, entry)
