"""Permits of a consumer, as its frames show them."""

from __future__ import annotations

from typing import Any

from pulsarscope.dissect.contract.rules import RuleContext, Where
from pulsarscope.model.flow import SERVER
from pulsarscope.model.records import FrameRow
from pulsarscope.model.text import plural
from pulsarscope.protocols.pulsar.message_ids import Position
from pulsarscope.protocols.pulsar.rules.evidence import may_lack
from pulsarscope.protocols.pulsar.rules.subscriptions.blocked import JOINED
from pulsarscope.protocols.pulsar.rules.subscriptions.consumers import ConsumerState

SLOW_LINK_NS_PER_BYTE = 125_000
"""Time that a byte takes on the slowest link (64 kbit/s): a large message that takes long was perhaps on its way all the time."""


class PermitState(ConsumerState):
    """Permits of a consumer."""

    granted: int = 0
    delivered: int = 0
    """Messages delivered."""
    permits: int = 0
    """Permits left."""
    entry_permits: int = 0
    """Permits left when each entry is counted whole."""
    lowest: int = 0
    """Fewest permits ever left, when negative."""
    lowest_at: Where | None = None
    exhausted: Where | None = None
    """Delivery that used up the permits."""
    refilled: int = 0
    """Times that it got permits again after it had none left."""
    lacking_ns: int = 0
    """Time without permits before those."""
    rested_ns: int = 0
    """Time for which the broker rested though it had permits, and the number of rests; see `note_rest`."""
    rests: int = 0
    active_at: int = 0
    """Time of its latest ACK, FLOW or request for redelivery, in nanoseconds."""
    pending: int = 0
    """Time of the first delivery since then, in nanoseconds; 0 when there is none."""
    turn: int = 0
    """Longest time from a first delivery to the next of those, or without permits, in nanoseconds."""
    last_service: Where | None = None
    """Latest delivery, or FLOW behind it that ended a lack of permits."""
    last: Position | None = None
    """Furthest entry delivered."""
    last_at: Where | None = None
    emitted: Position | None = None
    """That in the latest fact."""
    reported_at: int = -1
    """Time of the delivery in the latest fact, in nanoseconds."""
    waited: int = 0
    """Wait in the latest fact, in nanoseconds."""
    active: bool = True
    """False for the standby consumers of a failover subscription."""
    singles: int = 0
    """FLOWs of one permit."""
    single: Where | None = None
    """First of them."""
    latest: bool = False
    """A new subscription begins at the latest message."""
    start: Position | None = None
    """Message at which a reader begins."""
    first: Position | None = None
    promised: Position = (-1, -1)
    """Last message of the topic by GET_LAST_MESSAGE_ID."""
    promised_at: Where | None = None
    able: int = 0
    """Time of the FLOW since which it has had permits, in nanoseconds."""
    switched: bool = False
    """True when it was told that it is active, or standby, and got nothing since."""
    metadata: dict[str, Any] | None = None
    """Metadata of the furthest message."""
    reported: bool = False

    @property
    def rest_values(self) -> dict[str, Any]:
        """Values of a fact about how long the broker rested."""
        return {"kind": self.kind, "title": self.title, "rested_ns": self.rested_ns, "rests": self.rests}

    def act(self, now: int) -> None:
        """Note that its client did something."""
        if self.pending:
            self.turn = max(self.turn, now - self.pending)
            self.pending = 0
        self.active_at = now


def note_rest(context: RuleContext, consumer: PermitState, row: FrameRow) -> None:
    """Note the time before this delivery in which neither a consumer with permits nor its broker did anything.

    What follows an ACK may have waited for it, as the broker limits unacknowledged messages.
    """
    since = consumer.last_service
    if since is None or consumer.permits <= 0 or consumer.compacted or not consumer.active:
        return
    rest, shortest = row.time - max(since.time, consumer.active_at), context.thresholds.ns("dispatch-limited-rest-seconds")
    if rest >= max(shortest, SLOW_LINK_NS_PER_BYTE * row.size) and not may_lack(context, since.time, row.time, SERVER):
        consumer.rested_ns += rest
        consumer.rests += 1


def report_excess(context: RuleContext, consumer: PermitState) -> None:
    """Report messages beyond the permits; FLOWs may be among missing bytes."""
    if consumer.lowest_at is None or context.lost:
        return
    excess = plural(-consumer.lowest, "message")
    text = f"{consumer.title} was sent {excess} more than it had permits for ({consumer.granted:,} granted in all)."
    evidence = {"frames": [consumer.lowest_at.name], **consumer.evidence, "permits": consumer.lowest, "granted": consumer.granted}
    context.report("permits-negative", consumer.lowest_at, text, evidence)


def emit_joined(context: RuleContext, rule: str, consumer: PermitState, now: int, *, closed: bool) -> None:
    """Emit that a consumer of a Key_Shared subscription got nothing, though it has permits."""
    if consumer.kind != "Key_Shared" or consumer.ready is None or consumer.topic is None or context.lost:
        return
    if consumer.delivered == 0 < consumer.permits:
        since = max(consumer.ready.time, consumer.able)
        values = {**consumer.evidence, "title": consumer.title, "since": since, "closed": closed}
        context.emit_fact(rule, consumer.topic, consumer.ready._replace(time=now), JOINED, values)
