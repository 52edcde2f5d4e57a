"""Messages that an application processed twice: its client requested them again while the application was still at work on them.

The application acknowledges the first copy after the second one has come, and later the second copy, too. A message that was returned by
a negative acknowledgement is acknowledged once.
"""

from __future__ import annotations

from typing import Any

import msgspec

from pulsarscope.dissect.contract.rules import RuleContext, Where
from pulsarscope.model.bounded_tables import remember
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.flow import SERVER
from pulsarscope.model.text import duration
from pulsarscope.model.thresholds import counted, in_seconds
from pulsarscope.protocols.pulsar.message_ids import Position
from pulsarscope.protocols.pulsar.rules.evidence import add_sample, frame_names, may_lack
from pulsarscope.protocols.pulsar.rules.subscriptions.consumers import ConsumerState

CODES = table(
    SESSION.warning(
        "processed-twice",
        "A client requested messages again while its application was still at work on them: it processed them twice.",
        "The ack timeout is shorter than the time from receiving a message to acknowledging it: raise it, acknowledge each message as soon "
        "as it is done, or let each consumer receive fewer at a time.",
        ("most-redelivered", "redeliver-all"),
        to_act="the consumer's application",
    ),
)

THRESHOLDS = (
    counted(
        "processed-twice-entries",
        5,
        "entries",
        "Entries of a consumer that it acknowledged again after they came again, when they are a quarter of those that came again.",
        "processed-twice",
    ),
    in_seconds(
        "processed-twice-seconds", 0.1, "Time between the two ACKs; a client that sends each ACK twice takes less.", "processed-twice"
    ),
)

DONE_MAX = 1_000
"""Most entries of a consumer that are remembered after their ACK."""

_SHARE = 4


class Twice(msgspec.Struct):
    """The entries that a consumer acknowledged after they had come again."""

    done: dict[Position, int] = msgspec.field(default_factory=dict)
    """Time of the ACK by entry, in nanoseconds."""
    count: int = 0
    """Number of entries with a second ACK."""
    longest: int = 0
    """Longest time between two ACKs of an entry, in nanoseconds."""
    frames: list[Where] = msgspec.field(default_factory=list)
    """The first of these second ACKs."""
    first: Position = (-1, -1)

    def acknowledge(self, context: RuleContext, position: Position, where: Where, *, came_again: bool) -> None:
        """Note an ACK of a whole entry; `came_again`: its latest delivery was not the first."""
        earlier, least_ns = self.done.pop(position, None), context.thresholds.ns("processed-twice-seconds")
        # The capture may lack another delivery, whose ACK this is.
        if earlier is not None and where.time - earlier >= least_ns and not may_lack(context, earlier, where.time, SERVER):
            if not self.count:
                self.first = position
            self.count += 1
            self.longest = max(self.longest, where.time - earlier)
            add_sample(self.frames, where)
        elif earlier is not None:
            self.done[position] = earlier
        elif came_again:
            remember(self.done, position, where.time, DONE_MAX)


def report_twice(context: RuleContext, consumer: ConsumerState, twice: Twice, came_again: int, requests: list[Where]) -> bool:
    """Report a consumer whose application processes messages twice; return True for such a consumer."""
    limits = context.thresholds
    if twice.count < max(limits["processed-twice-entries"], came_again / _SHARE) or not requests:
        return False
    ledger, entry = twice.first
    entries = "1 entry" if twice.count == 1 else f"{twice.count:,} entries"
    text = f"{consumer.title} acknowledged {entries} twice, such as {ledger}:{entry}, up to "
    text += f"{duration(twice.longest)} apart: its client requested them again before its application was done with them."
    evidence: dict[str, Any] = {
        "frames": frame_names(where.name for where in (requests[0], *twice.frames)),
        **consumer.evidence,
        "acknowledged_twice": twice.count,
        "came_again": came_again,
        "longest_ns": twice.longest,
        "message_id": [ledger, entry],
        "act": "client",
        **limits.evidence(*(threshold.name for threshold in THRESHOLDS), "most-redelivered-seconds"),
    }
    context.report("processed-twice", requests[0], text, evidence)
    return True
