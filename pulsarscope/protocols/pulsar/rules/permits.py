"""Why a consumer gets nothing: the ledger of its permits, and who has to act.

A client grants permits with FLOW; a delivery costs as many as the entry has messages, without those that an ack_set says are acknowledged
(old brokers count the whole entry all the same). Without permits the client must act; with permits and a backlog the broker (`backlog.py`).
"""

from __future__ import annotations

from typing import ClassVar

from pulsarscope.dissect.rules import Handlers, RuleContext, Where, where_of
from pulsarscope.model.findings import NOTE, WARNING, Code, table
from pulsarscope.model.records import FrameRow
from pulsarscope.protocols.pulsar.rules.backlog import BACKLOG, SILENT_NS, TELL_NS
from pulsarscope.protocols.pulsar.rules.consumers import CONSUMERS_MAX, Consumer, ConsumerRule, Position, bitmap, position_of
from pulsarscope.protocols.pulsar.rules.phrases import count, host, seconds

CODES = table(
    Code(
        "consumer-starved",
        WARNING,
        "session",
        "A consumer has no permits: the broker may not send it anything until its client grants some.",
        "Look at the application: clients grant permits as it takes messages, so it is slow, stuck or paused, or never calls receive.",
    ),
    Code(
        "permits-negative",
        NOTE,
        "session",
        "A broker sent more messages than the consumer had permits for.",
        "Batches larger than the permits that are left do this; a larger receiver queue makes it rare.",
    ),
)

CLOSED_STARVED_NS = 5_000_000_000
"""A consumer that ends like that was not served to its end."""

STARVED_NS = 30_000_000_000
"""Without permits, and without an ACK, for so long while it lives. With a backlog a client whose queue is full has no permits until its
application has taken half of it; as long as that acknowledges, or gives messages back, it works at its own pace."""


class Ledger(Consumer):
    """The permits of a consumer."""

    granted: int = 0
    delivered: int = 0
    """Messages."""
    permits: int = 0
    whole: int = 0
    """The permits if each entry is counted whole."""
    lowest: int = 0
    lowest_at: Where | None = None
    dry: Where | None = None
    """The delivery that used up the permits."""
    worked_at: int = 0
    """Time of its latest ACK, or request to have messages again."""
    heard: Where | None = None
    """The latest delivery, or the FLOW behind it that gave permits again."""
    last: Position | None = None
    """Furthest entry delivered, and where."""
    last_at: Where | None = None
    told_at: int = -1
    waited: int = 0
    """Nanoseconds that it had waited when that was told last."""
    active: bool = True
    """Of a failover subscription: the one that is served."""
    said: bool = False


class Permits(ConsumerRule[Ledger]):
    """Keeps the ledger of each consumer of a connection."""

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context, Ledger)
        self._asking: dict[str, int] = {}

    def review(self, consumer: Ledger, now: int, *, ending: bool) -> None:
        """See `ConsumerRule`."""
        self._starved(consumer, now, CLOSED_STARVED_NS if ending else STARVED_NS)
        self._wait(consumer, now, ending=ending)
        if consumer.last_at is not None and consumer.last_at.time > consumer.told_at:
            self._emit_delivered(consumer)
        if ending and consumer.lowest_at is not None and not self.context.lost:
            more = count(-consumer.lowest, "message")
            text = f"{consumer.title} was sent {more} more than it had permits for ({consumer.granted} granted in all)."
            evidence = {"frames": [consumer.lowest_at.name], **consumer.evidence, "permits": consumer.lowest, "granted": consumer.granted}
            self.context.report("permits-negative", consumer.lowest_at, text, evidence)

    def _flow(self, row: FrameRow) -> None:
        consumer = self.find(row)
        if consumer is None:
            return
        self._starved(consumer, row.time or 0, STARVED_NS)
        more = (row.fields or {}).get("messagePermits", 0)
        if consumer.permits <= 0 < consumer.permits + more:
            consumer.dry, consumer.heard = None, where_of(row)
        consumer.granted += more
        consumer.permits += more
        consumer.whole += more

    def _message(self, row: FrameRow) -> None:
        consumer = self.find(row)
        if consumer is None:
            return
        fields = row.fields or {}
        where = where_of(row)
        self._wait(consumer, where.time, ending=True)
        cost = messages = max(row.num_messages or 1, 1)
        if fields.get("ack_set"):
            cost = min(bitmap(fields["ack_set"]).bit_count(), messages)
        consumer.delivered += messages
        consumer.permits -= cost
        consumer.whole -= messages
        consumer.waited = 0
        consumer.heard = where
        if consumer.permits <= 0 and consumer.dry is None:
            consumer.dry = where
        if consumer.permits < consumer.lowest:
            consumer.lowest, consumer.lowest_at = consumer.permits, where
        position = position_of(fields.get("message_id") or {})
        if consumer.last is None or position > consumer.last:
            consumer.last, consumer.last_at = position, where
        if where.time - consumer.told_at >= TELL_NS:
            self._emit_delivered(consumer)

    def _work(self, row: FrameRow) -> None:
        consumer = self.find(row)
        if consumer is not None:
            consumer.worked_at = row.time or 0

    def _active(self, row: FrameRow) -> None:
        consumer = self.find(row)
        if consumer is not None:
            consumer.active = (row.fields or {}).get("is_active", False)
            consumer.heard = where_of(row)

    def _starved(self, consumer: Ledger, now: int, limit: int) -> None:
        """ReportFinding so when it has had no permits for so long, and its application does nothing."""
        since = consumer.dry or consumer.ready
        if consumer.permits > 0 or consumer.said or since is None or now - max(since.time, consumer.worked_at) < limit:
            return
        consumer.said = True
        if consumer.granted == 0:
            text = f"{consumer.title} gave no permits for {seconds(now - since.time)} after it subscribed: its client has to send FLOW"
        else:
            used = f"used up its {count(consumer.granted, 'permit')} with {count(consumer.delivered, 'message')}"
            text = f"{consumer.title} {used} and sent no FLOW that gives more for {seconds(now - since.time)}: its client has to act"
        evidence = {
            "frames": [since.name],
            **consumer.evidence,
            "permits": consumer.permits,
            "granted": consumer.granted,
            "delivered": consumer.delivered,
            "starved_ns": now - since.time,
            "act": "client",
        }
        self.context.report("consumer-starved", since, self.qualified(text), evidence)

    # ---- what other connections know of the topic

    def _wait(self, consumer: Ledger, now: int, *, ending: bool) -> None:
        """Emit facts of a consumer that has permits and got nothing for long: when the wait ends, and before that when it has doubled."""
        since = consumer.heard
        if since is None or now - since.time < SILENT_NS or consumer.permits <= 0 or not consumer.active or consumer.compacted:
            return
        if not ending and now - since.time < 2 * consumer.waited:
            return
        consumer.waited = now - since.time
        if consumer.topic is not None and not consumer.topic.startswith("non-persistent://"):
            values = {
                **consumer.evidence,
                "kind": consumer.kind,
                "title": consumer.title,
                "permits": consumer.permits,
                "whole": consumer.whole,
                "last": consumer.last,
                "since": since.time,
                "lost": self.context.lost,
                "server": host(self.context.server),
            }
            self.context.emit_fact(BACKLOG, consumer.topic, since._replace(time=now), "waiting", values)

    def _emit_delivered(self, consumer: Ledger) -> None:
        if consumer.last is not None and consumer.last_at is not None and consumer.topic is not None:
            consumer.told_at = consumer.last_at.time
            values = {
                "subscription": consumer.subscription,
                "position": consumer.last,
                "consumer_id": consumer.number,
                "server": host(self.context.server),
            }
            self.context.emit_fact(BACKLOG, consumer.topic, consumer.last_at, "delivered", values)

    def _ask_last(self, row: FrameRow) -> None:
        if len(self._asking) < CONSUMERS_MAX:
            self._asking[where_of(row).name] = (row.fields or {}).get("consumer_id", -1)

    def _last(self, row: FrameRow) -> None:
        consumer = self.consumers.get(self._asking.pop(row.request or "", -1))
        if consumer is None or consumer.topic is None:
            return
        fields = row.fields or {}
        position = position_of(fields.get("last_message_id") or {})
        acknowledged = fields.get("consumer_mark_delete_position")
        # A consumer that got nothing yet may begin behind the last message: only what it got, or acknowledged, says what it is due.
        if consumer.last is not None or (acknowledged is not None and position_of(acknowledged) < position):
            values = {"position": position, "consumer_id": consumer.number}
            self.context.emit_fact(BACKLOG, consumer.topic, where_of(row), "backlog", values)

    frames: ClassVar[Handlers] = {
        **ConsumerRule.frames,
        "FLOW": _flow,
        "MESSAGE": _message,
        "ACK": _work,
        "REDELIVER_UNACKNOWLEDGED_MESSAGES": _work,
        "ACTIVE_CONSUMER_CHANGE": _active,
        "GET_LAST_MESSAGE_ID": _ask_last,
        "GET_LAST_MESSAGE_ID_RESPONSE": _last,
    }
