"""SENDs that the broker answered late or not at all, by producer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from pulsarscope.dissect.contract.rules import ColumnsHandlers, ConnectionRule, Handlers, RuleContext, Where, where_of
from pulsarscope.model.bounded_tables import NOTHING, remember
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FrameRow
from pulsarscope.model.text import duration, plural
from pulsarscope.model.thresholds import counted, in_seconds
from pulsarscope.protocols.pulsar.message_ids import entry_key
from pulsarscope.protocols.pulsar.rules.evidence import closed_windows, gap_note, held_up, lacks_acks, response_name, unanswered, way_delay
from pulsarscope.protocols.pulsar.rules.sends.ages import AGES, SENT_LATE, Aging, emit_stored_late
from pulsarscope.protocols.pulsar.rules.sends.early_receipts import EarlyReceipts
from pulsarscope.protocols.pulsar.rules.sends.publish_legs import EXCUSED, PASSED, PUBLISHED, PUBLISHES, SLOW, UNSURE, WINDOW_NS
from pulsarscope.protocols.pulsar.rules.sends.publishers import Publisher, SlowPublisher, evaluate_latency, note_lag
from pulsarscope.protocols.pulsar.rules.sends.rounded_latencies import rounded
from pulsarscope.protocols.pulsar.text.formatting import host

CODES = table(
    SESSION.warning(
        "slow-publish",
        "A producer waits long for its receipts.",
        "The text names the leg that took longest when the capture has the broker's links to its bookies, or both sides of a proxy. When "
        "the broker closed its window it had stopped reading: look at its publish limits and memory. If receipts come at a steady rate, "
        "look at its publish limits, too; if nothing comes for a while, at its pauses; else at the latency of its bookies.",
        ("request-unanswered",),
        to_act="the broker's operators",
    ).by_cause(
        ("proxy", "the operators of the proxy, or of the network between it and the broker"),
        ("network", "the network's operators"),
        ("unknown", "the broker's or the network's operators"),
        ("bookies", "the bookies' operators"),
    ),
    SESSION.warning(
        "send-unanswered",
        "SENDs got neither a receipt nor an error while the connection went on.",
        "The producer gives up after its send time-out and may send them again: look at the broker's log at that time.",
        to_act="the broker's operators",
    ),
    SESSION.warning(
        "replication-stalled",
        "A replicator waits for its receipts, or falls further behind the clients that publish.",
        "Look at the remote cluster first: its write latency, quotas and dispatch limits; then at the link between the two.",
        to_act="the remote cluster's operators",
    ),
)

THRESHOLDS = (
    in_seconds(
        "slow-publish-seconds",
        1,
        "Publish latency of a producer, its 99th percentile or the median of a few; healthy brokers answer in milliseconds. One pause, in "
        "which a minority of the SENDs waited at the same time, has the limit of slow-publish-jump-seconds.",
        "slow-publish",
        "replication-stalled",
    ),
    counted(
        "slow-publish-sends",
        10,
        "SENDs",
        "SENDs from which the percentile counts; the first one opens a ledger and is not typical.",
        "slow-publish",
    ),
    counted(
        "slow-publish-median-sends",
        3,
        "SENDs",
        "SENDs from which the median counts; a client that waits for each receipt sends few.",
        "slow-publish",
    ),
    in_seconds(
        "slow-publish-longest-seconds", 10, "Latency of a single SEND: a third of the default send timeout of 30 s.", "slow-publish"
    ),
    in_seconds(
        "slow-publish-jump-seconds",
        2.5,
        "Latency of a SEND that is a hundred times that of another one of its producer; disks and pauses of a healthy broker explain less.",
        "slow-publish",
    ),
    counted(
        "slow-publish-bytes",
        1_000_000,
        "bytes/s",
        "What was on its way at the same time, by the time of the slowest SEND, unless that is above slow-publish-longest-seconds: "
        "a producer that sends as fast as it can waits for its own bytes.",
        "slow-publish",
    ),
    in_seconds(
        "slow-publish-held-seconds",
        0.1,
        "Latency of a third of the SENDs of a producer that waits for each receipt, when half of them take equally long and the"
        " fastest takes a tenth.",
        "slow-publish",
    ),
    in_seconds(
        "send-unanswered-seconds",
        1,
        "Time without a receipt up to the end of the connection; a receipt may still be on its way before that.",
        "send-unanswered",
        "slow-publish",
    ),
    in_seconds(
        "send-unanswered-open-seconds",
        2.5,
        "The same where the capture ends before the connection does: it may end within a pause of a healthy broker.",
        "send-unanswered",
        "slow-publish",
    ),
    in_seconds("replication-stalled-seconds", 1, "Time without a receipt; receipts cross continents in less.", "replication-stalled"),
    in_seconds(
        "replication-lag-seconds", 2, "Growth of the age of replicated messages; batches and retries explain less.", "replication-stalled"
    ),
    counted("replication-lag-sends", 10, "SENDs", "Replicated messages; the ages of fewer show no trend.", "replication-stalled"),
    counted(
        "replication-lag-share",
        0.5,
        "of the time",
        "Growth of the age compared with the time it takes; while a backlog is worked off, the age shrinks.",
        "replication-stalled",
        least=0,
    ),
)

PRODUCERS_MAX = 10_000
"""Most producers of one connection that are followed at a time, and most closed ones whose late SENDs are recognised."""

SLOW_MAX = 1_000
"""Most slow producers kept until the end of the connection: only then is it known when the broker had closed its window."""

UNANSWERED_MAX = 1_000
"""Most unanswered SENDs of one producer kept until the end of the connection."""

STORAGE = "adds"
"""Key rule of the storage protocol, by broker host and window, which gets the facts about the slowest SEND of that time."""


class PublishRule(ConnectionRule):
    """A rule about late and missing receipts of one connection."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._publishers: dict[str, Publisher] = {}
        """Open publishers by producer id."""
        self._closed: dict[str, None] = {}
        """Ids of closed producers whose state was dropped."""
        self._slow: list[SlowPublisher] = []
        """Closed slow producers."""
        self._aging: list[Aging] = []
        """Producers that fall behind."""
        self._window, self._window_end, self._fastest = -1, 0, 0
        """End of the window, and the shortest latency in it."""
        self._slowest: tuple[int, Where, str, str, str | None] | None = None
        """(latency, SEND, its answer, entry, topic) of the slowest SEND in the window."""
        self._longest = 0
        """Latency of that SEND."""
        self._largest = 0
        """Bytes of the largest payload."""
        self._latest: tuple[str, Any] = "", None
        """Name of the latest receipt, and its message id."""
        self._early = EarlyReceipts()

    def _publisher(self, number: str) -> Publisher | None:
        publisher = self._publishers.get(number)
        if publisher is None and number not in self._closed and len(self._publishers) < PRODUCERS_MAX:
            publisher = self._publishers[number] = Publisher()
        return publisher

    def _send(self, row: FrameRow) -> None:
        if (publisher := self._publisher(str((row.fields or {}).get("producer_id", -1)))) is not None:
            publisher.in_flight += 1
            publisher.in_flight_max = max(publisher.in_flight_max, publisher.in_flight)
            publisher.ages.add(row)
            self._largest = max(self._largest, row.payload_size or 0)
            if publisher.lag is not None or not publisher.is_known:
                publisher.is_known = True
                note_lag(publisher, row)

    def _receipt(self, row: FrameRow) -> None:
        fields = row.fields or {}
        self._latest = row.request or "", fields.get("message_id")
        if row.request is None:
            if (publisher := self._publisher(str(fields.get("producer_id", -1)))) is not None:
                publisher.earlier_at = row.time
            self._early.add(row)

    def _entry(self, send: Where) -> str:
        """Return the entry in the receipt of a SEND; "" if the receipt is not the latest one, or names no entry."""
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
        self._evaluate_ages(publisher)
        remember(self._closed, number, None, PRODUCERS_MAX)
        if (slow := evaluate_latency(publisher, self._context.thresholds)) is not None and len(self._slow) < SLOW_MAX:
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
            is_answered = self._early.answers(row, self._context.thresholds.ns("send-unanswered-seconds"))
            if not is_answered and len(publisher.unanswered) < UNANSWERED_MAX:
                publisher.unanswered.append(where_of(row))
        elif latency is not None:
            if latency < self._fastest or latency > self._longest or row.time >= self._window_end:
                self._note(row, latency)
            publisher.latencies[rounded(latency)] += 1
            publisher.latest, publisher.latest_at = row, row.time + latency
            if publisher.slowest is None:
                publisher.answered_at = publisher.latest_at
            if publisher.slowest is None or latency > publisher.slowest[0]:
                where = where_of(row)
                publisher.slowest = latency, where, response_name(row), self._entry(where)
        self._forget(number, publisher)

    def _note(self, row: ExchangeRow, latency: int) -> None:
        """Note a latency in the window of the answer."""
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
        host, frames = self._context.server.rpartition(":")[0], [where.name, answer]
        values = {"latency": latency, "fastest": self._fastest, "topic": topic, "frames": frames, "entry": entry, "host": host}
        emit_stored_late(self._context, topic, where, latency)
        for window, what in ((self._window, PUBLISHED), (self._window + 1, PASSED)):
            self._context.emit_fact(STORAGE, f"{host} {window}", where, what, values)
            self._context.emit_fact(PUBLISHES, str(window), where, what, values)
        self._slowest = None

    def end(self, row: ConnectionRow, last: Where) -> None:  # noqa: ARG002 - the contract's
        """Report slow producers and unanswered SENDs."""
        self._end_window()
        for slow in self._slow:
            self._report_slow(slow, row)
        for publisher in self._publishers.values():
            if (slow_publisher := evaluate_latency(publisher, self._context.thresholds)) is not None:
                self._report_slow(slow_publisher, row)
            self._evaluate_unanswered(publisher, row, slow_publisher)
            self._evaluate_lag(publisher)
            self._evaluate_ages(publisher)
        self._report_aging(row)

    def _report_aging(self, row: ConnectionRow) -> None:
        """Report the producers that fall behind, unless the broker had closed its window: it then reads too slowly."""
        for aging in self._aging:
            if aging.topic is not None:
                self._context.emit_fact(AGES, aging.topic, aging.last.where, SENT_LATE, {})
        if self._aging and not closed_windows(self._context, self._context.server):
            for aging in self._aging:
                self._context.report(*aging.finding(row.client_bytes * 1e9 / max(row.end - row.start, 1)))

    def _waits_for_bytes(self, slow: SlowPublisher, row: ConnectionRow) -> bool:
        """Return True if sending the bytes that a producer had in flight, some of them again, takes as long as its slowest SEND took."""
        thresholds = self._context.thresholds
        on_its_way = self._largest + row.client_bytes * slow.evidence["in_flight_max"] / slow.evidence["sends"]
        takes = round(on_its_way * 1e9 / thresholds["slow-publish-bytes"])
        held = held_up(self._context, slow.where.time, slow.where.time + slow.latency)
        if held and not slow.is_held_back:
            takes += held + thresholds.ns("slow-publish-seconds")
        return bool(slow.latency <= min(takes, thresholds.ns("slow-publish-longest-seconds")))

    def _report_slow(self, slow: SlowPublisher, row: ConnectionRow | None = None) -> None:
        answered = slow.where.time + slow.latency
        legs: dict[str, Any] = {"latency": slow.latency, "entry": slow.entry, "answered": answered, "host": host(self._context.server)}
        legs["network"] = way_delay(self._context, slow.where.time, answered)
        if row is not None and slow.code == "slow-publish" and self._waits_for_bytes(slow, row):
            self._context.emit_fact(PUBLISHES, str(answered // WINDOW_NS), slow.where, EXCUSED, legs)
            return
        unsure = lacks_acks(self._context) and slow.latency >= self._context.thresholds.ns("slow-publish-seconds")
        windows = closed_windows(self._context, self._context.server)
        closed = sum(window.evidence.get("closed_ns", 0) for window in windows)
        count = sum(window.evidence.get("count", 0) for window in windows)
        text = f"; meanwhile the broker closed its window for {duration(closed)} in all" if windows else ""
        values = {
            "code": slow.code,
            "text": f"{slow.text}{text}{gap_note(lost=self._context.lost)}{UNSURE if unsure else ''}",
            "evidence": slow.evidence | {"zero_windows": count, "window_closed_ns": closed} | ({"leg": "unknown"} if unsure else {}),
            **legs,
        }
        self._context.emit_fact(PUBLISHES, str(answered // WINDOW_NS), slow.where, SLOW, values)

    def _evaluate_unanswered(self, publisher: Publisher, row: ConnectionRow, slow: SlowPublisher | None) -> None:
        """Report SENDs without an answer, unless those of an application wait their turn behind slow ones."""
        begin = publisher.answered_at if row.opened == "midstream" else 0  # the other direction may begin later in the capture
        asked = [where for where in publisher.unanswered if where.time >= begin]
        code, limit = "send-unanswered", "send-unanswered-seconds"
        if publisher.replicates:
            code, limit = "replication-stalled", "replication-stalled-seconds"
        elif row.closed == "open":
            limit = "send-unanswered-open-seconds"
        answer_ns = self._context.thresholds.ns(limit)
        waiting = publisher.waiting(unanswered(self._context, asked), row.end, answer_ns, self._context.thresholds)
        late = [where for where in waiting if not publisher.is_resent(where)]
        if not late or publisher.closed:
            return
        waited = row.end - late[0].time
        is_queue = not publisher.replicates and publisher.is_queue(late[0], row.end - answer_ns)
        passed = publisher.is_passed_over(late[0])
        if slow is not None and not publisher.replicates and not passed and (is_queue or slow.may_take(waited)):
            return
        limit = "send-unanswered-passed-seconds" if passed else limit
        evidence = publisher.unanswered_evidence(late, waited) | self._context.thresholds.evidence(limit)
        text = publisher.unanswered_text(late, waited, is_queue=is_queue)
        self._context.report("slow-publish" if is_queue else code, late[0], f"{text}{gap_note(lost=self._context.lost)}.", evidence)

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
            f"{duration(lag.growth)}, over {plural(lag.sends, 'SEND')}{gap_note(lost=self._context.lost)}."
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

    def _evaluate_ages(self, publisher: Publisher) -> None:
        """Emit that a producer waited long for the broker, and keep one whose messages get older and older.

        It is known only later whether the broker had closed its window.
        """
        if publisher.slowest is not None:
            latency, where, *_ = publisher.slowest
            emit_stored_late(self._context, publisher.topic, where, latency)
        if (grown := publisher.ages.growth(self._context.thresholds)) is not None and len(self._aging) < SLOW_MAX:
            self._aging.append(Aging(publisher.title, publisher.topic, publisher.name, *grown, publisher.ages.count))

    def batch(self, rows: Sequence[Any], handle: Callable[[int], None]) -> None:
        """Count plain SENDs and their answers; see `ConnectionRule.batch`."""
        publishers = self._publishers
        for index, row in enumerate(rows):
            if type(row) is not ExchangeRow:
                fields = row.fields or NOTHING
                if row.command == "SEND_RECEIPT" and row.request is not None:
                    self._latest = row.request, fields.get("message_id")
                    continue
                publisher = publishers.get(str(fields.get("producer_id", -1)))
                if row.command != "SEND" or publisher is None or publisher.lag is not None or not publisher.is_known:
                    handle(index)
                    continue
                publisher.ages.add(row)
                publisher.in_flight = in_flight = publisher.in_flight + 1
                self._largest = max(self._largest, row.payload_size or 0)
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
            publisher.topic, publisher.name, publisher.latest = row.topic, row.producer_name, row
            publisher.latest_at = row.time + latency
            publisher.latencies[rounded(latency)] += 1

    def sends(self, frames: Any, handle: Callable[[int], None]) -> bool:
        """Count plain SENDs and their answers; see `ConnectionRule.columns`."""
        followed = [(producer, self._publishers.get(str(producer.id))) for producer in frames.producers]
        publishers = [publisher for _, publisher in followed if publisher is not None and publisher.is_plain]
        if len(publishers) != len(followed):
            return False
        self._largest = max(self._largest, frames.largest)
        for publisher, (producer, _) in zip(publishers, followed, strict=True):
            if producer.sends:
                publisher.in_flight_max = max(publisher.in_flight_max, publisher.in_flight + producer.peak)
            publisher.in_flight += len(producer.sends)
            for at in publisher.ages.due(len(producer.sends)):
                publisher.ages.note(frames.row(producer.sends[at])[0][0])
            if producer.receipts:
                publisher.topic, publisher.name = producer.topic, producer.name
        start, stop = 0, -1
        while start < len(frames):
            slowest = [publisher.slowest[0] for publisher in publishers if publisher.slowest is not None]
            stop = frames.unusual(start, self._fastest, self._longest, self._window_end, slowest)
            counts = frames.add_latencies(start, stop, [publisher.latencies for publisher in publishers])
            for publisher, count in zip(publishers, counts, strict=True):
                publisher.in_flight -= count
            if stop < len(frames):
                handle(stop)
            start = stop + 1
        for publisher, (producer, _) in zip(publishers, followed, strict=True):
            if producer.receipts:
                (_, latest, *_), _ = frames.row(producer.receipts[-1])
                publisher.latest, publisher.latest_at = latest, latest.time + (latest.latency_ns or 0)
        return True

    columns: ClassVar[ColumnsHandlers] = {"SEND": sends}
    frames: ClassVar[Handlers] = {"SEND": _send, "SEND_RECEIPT": _receipt, "PRODUCER": _reset, "CLOSE_PRODUCER": _reset}
    exchanges: ClassVar[Handlers] = {"SEND": _exchange}
