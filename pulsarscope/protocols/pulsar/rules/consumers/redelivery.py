"""Redelivered messages: the requests for them, loops and their period."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, ClassVar

import msgspec

from pulsarscope.dissect.contract.rules import ColumnsHandlers, Handlers, RuleContext, Where, where_of
from pulsarscope.model.bounded_tables import NOTHING, remember
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.records import ConnectionRow, FrameRow
from pulsarscope.model.text import duration, plural
from pulsarscope.model.thresholds import counted, in_seconds
from pulsarscope.protocols.pulsar.message_ids import Position, batch_size, position_of
from pulsarscope.protocols.pulsar.rules.consumers.dead_letters import DeadLetters
from pulsarscope.protocols.pulsar.rules.consumers.request_periods import goes_on, is_regular, period_of
from pulsarscope.protocols.pulsar.rules.consumers.retries import Retries
from pulsarscope.protocols.pulsar.rules.consumers.twice import Twice, report_twice
from pulsarscope.protocols.pulsar.rules.evidence import add_sample, frame_names, may_lack
from pulsarscope.protocols.pulsar.rules.subscriptions.consumers import SHARED_TYPES, ConsumerRule, ConsumerState
from pulsarscope.protocols.pulsar.rules.subscriptions.seeks import Replays

CODES = table(
    SESSION.warning(
        "redelivery-storm",
        "A consumer gets the same messages again and again.",
        "Look at what the application does with the named message; a longer ack timeout, a backoff or a dead letter topic breaks the loop.",
        ("data-after-close", "reconnect-loop"),
        to_act="the consumer's application",
    ),
    SESSION.note(
        "most-redelivered",
        "Most messages of a consumer came again, because its client asked for them.",
        "If its ack timeout is shorter than its work takes, each message is processed twice: raise the timeout, or set a smaller receiver "
        "queue. If it acknowledges negatively, look at why most messages fail.",
    ),
    SESSION.note(
        "redeliver-all",
        "A client asked for all of a consumer's unacknowledged messages again.",
        "All that it holds is sent again. Exclusive and failover consumers ask so for one negative acknowledgement or ack timeout; "
        "any other does when the application calls redeliverUnacknowledgedMessages.",
    ),
)

THRESHOLDS = (
    counted(
        "redelivery-storm-count",
        20,
        "redeliveries",
        "Redeliveries of one message; dead letter policies give up sooner by default.",
        "redelivery-storm",
    ),
    counted(
        "redelivery-storm-requests-for-all",
        10,
        "requests",
        "Requests of a consumer for all its messages; an Exclusive or Failover consumer sends one for a negative acknowledgement.",
        "redelivery-storm",
    ),
    in_seconds(
        "redelivery-storm-window-seconds",
        10,
        "Window in which redeliveries are counted; ack timeouts and redelivery delays are longer than a second.",
        "redelivery-storm",
    ),
    counted(
        "redelivery-storm-window-redeliveries",
        100,
        "redeliveries",
        "Redeliveries to a consumer within a window when they are at least half of its deliveries.",
        "redelivery-storm",
    ),
    counted(
        "redelivery-storm-unresolved",
        4,
        "redeliveries",
        "Redeliveries of one message within a window when it is never acknowledged, nor any other message after as many; a "
        "client acknowledges a message that goes to a dead letter topic.",
        "redelivery-storm",
    ),
    counted(
        "redelivery-storm-nothing-done",
        3,
        "redeliveries",
        "Redeliveries of each message that a consumer holds when it acknowledges none, for longer than a window or at equal intervals.",
        "redelivery-storm",
    ),
    counted(
        "redelivery-storm-nothing-done-messages",
        3,
        "messages",
        "Messages of a consumer that acknowledges none; with one or two, the messages themselves may be at fault.",
        "redelivery-storm",
    ),
    counted(
        "redelivery-storm-window-requests",
        3,
        "requests",
        "Redelivery requests of a consumer within a window; a failover makes one.",
        "redelivery-storm",
        least=0,
    ),
    counted("most-redelivered-entries", 4, "entries", "Entries that came again, at least half of what a consumer got.", "most-redelivered"),
    in_seconds(
        "most-redelivered-seconds",
        10,
        "Time from the first request of a consumer for messages again to the latest; any application may fail for a moment.",
        "most-redelivered",
        "processed-twice",
    ),
    counted(
        "consumer-undecided-redeliveries",
        3,
        "redeliveries",
        "Redeliveries of one message that is never acknowledged; any application returns a message once or twice.",
        "consumer-undecided",
    ),
)

TIMES_MAX = 33
"""Number of latest requests whose times are kept to find a period."""

REPEATED_MAX = 1_000
"""Most redelivered entries of a consumer whose deliveries are counted until they are acknowledged."""


class RedeliveryState(ConsumerState):
    """The redelivery requests and redelivered entries of a consumer."""

    requests: list[Where] = msgspec.field(default_factory=list)
    """The first requests."""
    request_count: int = 0
    requested_ids: int = 0
    """Number of message ids in all requests."""
    all_requests: list[Where] = msgspec.field(default_factory=list)
    """The first requests for everything."""
    all_count: int = 0
    times: deque[int] = msgspec.field(default_factory=lambda: deque(maxlen=TIMES_MAX))
    """Times of the latest requests, in nanoseconds."""
    deliveries: int = 0
    messages: int = 0
    """Number of messages that it got, each counted once."""
    redelivered: int = 0
    came_again: int = 0
    """Number of entries that came again at least once."""
    highest: int = 0
    """Largest redelivery count, with the message that has it and its delivery."""
    highest_id: Position = (-1, -1)
    highest_at: Where | None = None
    repeated: dict[Position, deque[int]] = msgspec.field(default_factory=dict)
    """Times of the latest redeliveries by entry, until it is acknowledged."""
    delivered: dict[Position, tuple[int, int]] = msgspec.field(default_factory=dict)
    """By latest entry: number of earlier requests that return it, and how often it came again after one. Brokers count only for Shared."""
    twice: Twice = msgspec.field(default_factory=Twice)
    acknowledges: bool = False
    """True once it has acknowledged a message after one came again."""
    resolves: bool = False
    """True once it has acknowledged a message that had come again as often as in a storm."""
    window: int = 0
    """Start of the window, in nanoseconds, followed by the counts within it."""
    window_deliveries: int = 0
    window_redelivered: int = 0
    window_requests: int = 0
    peak: int = 0
    """Most redeliveries in a window that was a storm."""
    reported: bool = False

    @property
    def returns(self) -> int:
        """Number of requests that return everything: for Exclusive and Failover consumers, brokers ignore the ids in a request."""
        return self.all_count if self.kind in SHARED_TYPES else self.request_count

    def advance(self, now: int, window_ns: int) -> None:
        """Start a new window when the current one is over."""
        if now - self.window > window_ns:
            self.window = now
            self.window_deliveries = self.window_redelivered = self.window_requests = 0


class RedeliveryRule(ConsumerRule[RedeliveryState]):
    """A rule about redeliveries and dead letters of one connection."""

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context, RedeliveryState)
        self._dead_letters = DeadLetters(context)
        self._replays = Replays(context)
        self._retries = Retries(context)
        self._repeats = False
        """True when any entry came again."""
        self._hears_client = True
        self._unresolved = round(context.thresholds["redelivery-storm-unresolved"])
        self._window_ns = context.thresholds.ns("redelivery-storm-window-seconds")

    def review(self, consumer: RedeliveryState, now: int, *, ending: bool) -> None:  # noqa: ARG002 - counts, not waiting times
        """Report a storm as soon as there is one, and requests for everything at the end."""
        deciding = () if consumer.reported else self._deciding(consumer, ending=ending)
        if deciding:
            consumer.reported = True
            self._report_storm(consumer, deciding)
        elif ending and not consumer.reported:
            self._report_undecided(consumer)
            self._report_most(consumer)
        if ending and consumer.all_requests:
            times = "once" if consumer.all_count == 1 else f"{consumer.all_count:,} times"
            text = f"{consumer.title} requested redelivery of all its unacknowledged messages {times}."
            evidence = {
                "frames": frame_names(where.name for where in consumer.all_requests),
                **consumer.evidence,
                "count": consumer.all_count,
                "subscription_type": consumer.kind,
            }
            self.context.report("redeliver-all", consumer.all_requests[0], text, evidence)
        if ending and (consumer.request_count or self._dead_letters.any):
            self._dead_letters.got(consumer, consumer.messages)

    def _deciding(self, consumer: RedeliveryState, *, ending: bool) -> tuple[str, ...]:
        """Return the thresholds by which a consumer has a redelivery storm; an empty tuple if it has none."""
        if consumer.highest >= self.context.thresholds["redelivery-storm-count"]:
            return ("redelivery-storm-count",)
        if consumer.peak:
            return "redelivery-storm-window-seconds", "redelivery-storm-window-redeliveries", "redelivery-storm-window-requests"
        if consumer.all_count >= self.context.thresholds["redelivery-storm-requests-for-all"]:
            return ("redelivery-storm-requests-for-all",)
        if ending and not consumer.resolves and any(map(self._is_unresolved, consumer.repeated.values())):
            return "redelivery-storm-unresolved", "redelivery-storm-window-seconds"
        if ending and not consumer.acknowledges and self._does_nothing(consumer):
            return "redelivery-storm-nothing-done", "redelivery-storm-nothing-done-messages"
        return ()

    def _is_unresolved(self, times: deque[int]) -> bool:
        """Return True for the latest redeliveries of an entry that was not acknowledged; without the client's frames, if they go on."""
        often = len(times) == self._unresolved and times[-1] - times[0] <= self._window_ns
        return often and (self._hears_client or goes_on(times, self.context.last.time))

    def _does_nothing(self, consumer: RedeliveryState) -> bool:
        """Return True when everything that a consumer got came again, until it ended or for longer than a window."""
        thresholds = self.context.thresholds
        often = [times for times in consumer.repeated.values() if len(times) >= thresholds["redelivery-storm-nothing-done"]]
        if len(often) < max(thresholds["redelivery-storm-nothing-done-messages"], consumer.deliveries - consumer.redelivered):
            return False
        since = min(times[0] for times in often)
        goes_on = not self.open or self.context.last.time - since > self._window_ns or is_regular(consumer.times)
        return goes_on and not may_lack(self.context, since, self.context.last.time)

    def end(self, row: ConnectionRow, last: Where) -> None:
        """Review all consumers, and report the dead letters."""
        self._hears_client = bool(row.client_bytes or not row.server_bytes)
        super().end(row, last)
        self._replays.report()
        self._retries.report()
        self._dead_letters.report()

    def _message(self, row: FrameRow) -> None:
        consumer = self.find_or_add(row)
        fields = row.fields or {}
        redeliveries = fields.get("redelivery_count", 0)
        position = position_of(fields.get("message_id"))
        if self._replays:
            self._replays.deliver(consumer, position, where_of(row))
        consumer.twice.done.pop(position, None)  # an ACK of this copy is no second one of the same work
        consumer.deliveries += 1
        consumer.advance(row.time, self._window_ns)
        consumer.window_deliveries += 1
        if redeliveries <= 0 and consumer.kind not in SHARED_TYPES:
            returns = consumer.returns
            requests, again = consumer.delivered.get(position, (returns, 0))
            redeliveries = again + (requests < returns)
            remember(consumer.delivered, position, (returns, redeliveries), REPEATED_MAX)
            if requests == returns and redeliveries > 0:
                return
        if redeliveries <= 0:
            consumer.messages += batch_size(row)
            return
        consumer.redelivered += 1
        consumer.came_again += redeliveries == 1
        consumer.window_redelivered += 1
        if redeliveries > consumer.highest:
            consumer.highest, consumer.highest_at, consumer.highest_id = redeliveries, where_of(row), position
        self._repeats = True
        if position in consumer.repeated or len(consumer.repeated) < REPEATED_MAX:
            consumer.repeated.setdefault(position, deque(maxlen=self._unresolved)).append(row.time)
        number, thresholds = consumer.window_redelivered, self.context.thresholds
        if (
            number >= thresholds["redelivery-storm-window-redeliveries"]
            and 2 * number >= consumer.window_deliveries
            and consumer.window_requests >= thresholds["redelivery-storm-window-requests"]
        ):
            consumer.peak = max(consumer.peak, number)

    def _seek(self, row: FrameRow) -> None:
        consumer = self.find_or_add(row)
        consumer.twice.done.clear()
        self._replays.seek(consumer, where_of(row))

    def _ack(self, row: FrameRow) -> None:
        consumer = self.find(row) if self._repeats or self._replays else None
        if consumer is not None and self._replays:
            self._replays.acknowledge(consumer)
        if consumer is not None and (consumer.repeated or consumer.twice.done):
            fields = row.fields or {}
            consumer.acknowledges |= bool(consumer.repeated)
            for message_id in fields.get("message_id") or ():
                position = position_of(message_id)
                done = [position]
                if fields.get("ack_type") == "Cumulative":
                    done += [other for other in consumer.repeated if other < position]
                elif not message_id.get("ack_set"):
                    consumer.twice.acknowledge(self.context, position, where_of(row), came_again=position in consumer.repeated)
                for entry in done:
                    consumer.resolves |= len(consumer.repeated.pop(entry, ())) == self._unresolved

    def _redeliver(self, row: FrameRow) -> None:
        consumer = self.find_or_add(row)
        ids = (row.fields or {}).get("message_ids") or ()
        where = where_of(row)
        consumer.advance(where.time, self._window_ns)
        consumer.window_requests += 1
        consumer.request_count += 1
        consumer.requested_ids += len(ids)
        consumer.times.append(where.time)
        add_sample(consumer.requests, where)
        if not ids:
            consumer.all_count += 1
            add_sample(consumer.all_requests, where)

    def _report_storm(self, consumer: RedeliveryState, deciding: tuple[str, ...]) -> None:
        period = period_of(consumer.times)
        ledger, entry = consumer.highest_id
        text = f"{consumer.title} got {consumer.redelivered:,} of its {consumer.deliveries:,} entries again"
        if consumer.highest:
            text += f", {ledger}:{entry} as often as {consumer.highest:,} times"
        if consumer.request_count:
            text += f": its client asked {plural(consumer.request_count, 'time')}" + (f", about every {duration(period)}" if period else "")
        elif consumer.kind or consumer.acknowledges:  # else its client may not be in the capture
            text += ", though its client did not ask: another consumer of the subscription does, or consumers come and go"
        where = consumer.highest_at or consumer.requests[0]
        evidence = {
            "frames": frame_names([where.name, *(request.name for request in consumer.requests)]),
            **consumer.evidence,
            "requests": consumer.request_count,
            "ids_asked": consumer.requested_ids,
            "asked_for_all": consumer.all_count,
            "deliveries": consumer.deliveries,
            "redelivered": consumer.redelivered,
            "most_in_window": consumer.peak or None,
            "message_id": [ledger, entry],
            "redelivery_count": consumer.highest,
            "period_ns": period,
            **self.context.thresholds.evidence(*deciding),
        }
        self.context.report("redelivery-storm", where, self.sentence(text), evidence)

    def _report_undecided(self, consumer: RedeliveryState) -> None:
        """Report the message that came again most often, when the capture ends before it is acknowledged."""
        (ledger, entry), times = max(consumer.repeated.items(), key=lambda item: len(item[1]), default=((-1, -1), deque[int]()))
        if len(times) < self.context.thresholds["consumer-undecided-redeliveries"]:
            return
        span = duration(times[-1] - times[0])
        text = f"{consumer.title} got {ledger}:{entry} again {len(times):,} times in {span} and did not acknowledge it"
        evidence = {
            "frames": frame_names(where.name for where in (consumer.highest_at, *consumer.requests) if where is not None),
            **consumer.evidence,
            "message_id": [ledger, entry],
            "redelivery_count": len(times),
            **self.context.thresholds.evidence("consumer-undecided-redeliveries"),
        }
        where = consumer.highest_at or self.context.last
        rest = "" if self.open else " before it ended"
        self.context.report("consumer-undecided", where, f"{text}{rest}.", evidence)

    def _report_most(self, consumer: RedeliveryState) -> None:
        """Report a consumer whose client requested messages again during its work on them, or most, though they were acknowledged."""
        limits = "most-redelivered-entries", "most-redelivered-seconds"
        least, least_ns = self.context.thresholds[limits[0]], self.context.thresholds.ns(limits[1])
        if not consumer.requests or (asked_for := consumer.times[-1] - consumer.requests[0].time) <= least_ns:
            return
        if report_twice(self.context, consumer, consumer.twice, consumer.came_again, consumer.requests):
            return
        first = consumer.deliveries - consumer.redelivered
        if consumer.came_again < max(least, first / 2):
            return
        asked = f"its client asked {plural(consumer.request_count, 'time')} in {duration(asked_for)}"
        text = self.sentence(f"{consumer.title} got {consumer.came_again:,} of its {first:,} entries again: {asked}")
        evidence = {"frames": frame_names(request.name for request in consumer.requests), **consumer.evidence, "entries": first}
        evidence |= {"came_again": consumer.came_again, "requests": consumer.request_count, **self.context.thresholds.evidence(*limits)}
        self.context.report("most-redelivered", consumer.requests[0], text, evidence)

    def _send(self, row: FrameRow) -> None:
        metadata = row.metadata or {}
        if not (pairs := metadata.get("properties")) and not (row.topic or "").endswith("-DLQ"):
            return
        properties = {pair.get("key"): pair.get("value") for pair in pairs or ()}
        if "deliver_at_time" in metadata:
            self._retries.note(row, properties)
        self._dead_letters.note(row, properties)

    def batch(self, rows: Sequence[Any], handle: Callable[[int], None]) -> None:
        """Skip the SENDs that are not dead letters; see `ConnectionRule.batch`."""
        for index, row in enumerate(rows):
            if row.command != "SEND" or "properties" in (row.metadata or NOTHING) or (row.topic or "").endswith("-DLQ"):
                handle(index)

    def sends(self, frames: Any, _handle: Callable[[int], None]) -> bool:
        """Skip the SENDs that are not dead letters; see `ConnectionRule.columns`."""
        return not (frames.properties or any((producer.topic or "").endswith("-DLQ") for producer in frames.producers))

    def deliveries(self, frames: Any, handle: Callable[[int], None]) -> bool:
        """Count entries that come for the first time; see `ConnectionRule.columns`."""
        if self._replays or not self.has_room(len(frames.consumers)) or any(map(self._comes_again, frames.consumers)):
            return False
        for group in filter(attrgetter("places"), frames.consumers):
            if is_new := group.id not in self.consumers:
                handle(group.places[0])
            consumer = self.consumers[group.id]
            counted = consumer.kind not in SHARED_TYPES
            for index in range(int(is_new), len(group.places)):
                position = group.positions[index]
                if position in consumer.twice.done or (counted and consumer.returns and position in consumer.delivered):
                    handle(group.places[index])
                    continue
                if group.times[index] - consumer.window > self._window_ns:
                    consumer.advance(group.times[index], self._window_ns)
                consumer.deliveries += 1
                consumer.messages += group.messages[index]
                consumer.window_deliveries += 1
                if counted:
                    remember(consumer.delivered, position, (consumer.returns, 0), REPEATED_MAX)
        return True

    def _comes_again(self, group: Any) -> bool:
        """Return True for a consumer that acknowledges, and some of whose entries came again or may do so."""
        consumer = self.consumers.get(group.id) if group.acks else None
        return consumer is not None and bool(consumer.repeated or consumer.twice.done or consumer.returns)

    columns: ClassVar[ColumnsHandlers] = {"SEND": sends, "MESSAGE": deliveries}
    frames: ClassVar[Handlers] = {
        **ConsumerRule.frames,
        "MESSAGE": _message,
        "ACK": _ack,
        "REDELIVER_UNACKNOWLEDGED_MESSAGES": _redeliver,
        "SEEK": _seek,
        "SEND": _send,
    }
