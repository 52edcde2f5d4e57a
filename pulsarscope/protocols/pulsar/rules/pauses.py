"""Consumers that pause and go on, and messages that they skip shortly before the capture ends."""

from __future__ import annotations

import msgspec

from pulsarscope.dissect.rules import RuleContext, Where
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.text import plural
from pulsarscope.model.thresholds import SECONDS, Threshold
from pulsarscope.protocols.pulsar.rules.consumers import ConsumerState
from pulsarscope.protocols.pulsar.rules.evidence import USUAL_ACKS, may_lack
from pulsarscope.protocols.pulsar.text.formatting import duration

CODES = table(
    SESSION.note(
        "consumer-paused",
        "A consumer acknowledged nothing for much longer than it usually takes, though it had messages, and then went on.",
        "Look at what its process did at that time: garbage collection, a stopped container, or a slow call to another system.",
    ),
)

THRESHOLDS = (
    Threshold("consumer-paused-seconds", 2, SECONDS, "Clients group ACKs for up to two seconds.", ("consumer-paused",)),
    Threshold("consumer-paused-times", 10, "times", "The next longest wait for an ACK.", ("consumer-paused",), 1),
    Threshold("consumer-paused-messages", 5, "messages", "That waited: a few may take long.", ("consumer-paused",), 1),
    Threshold(
        "consumer-undecided-hole-turns",
        10,
        "times",
        "The longest wait for an ACK, in which a message stays unacknowledged that others passed; an ack-hole if it goes on.",
        ("consumer-undecided",),
        1,
    ),
)


class Turns(msgspec.Struct):
    """Times for which the messages of a consumer waited for any ACK of it, in nanoseconds."""

    longest: int = 0
    second: int = 0
    until: Where | None = None
    """ACK that ended the longest wait."""
    waiting: int = 0
    """Messages that waited then."""

    def add(self, turn: int, where: Where, waiting: int) -> None:
        """Add a wait that an ACK ends."""
        if turn <= self.second:
            return
        if turn <= self.longest:
            self.second = turn
        else:
            self.second, self.longest, self.until, self.waiting = self.longest, turn, where, waiting


def report_pause(context: RuleContext, consumer: ConsumerState, turns: Turns, acks: int) -> None:
    """Report the longest wait when it stands out."""
    thresholds = context.thresholds
    if (
        turns.until is None
        or acks < USUAL_ACKS
        or turns.longest < thresholds.ns("consumer-paused-seconds")
        or turns.longest < thresholds["consumer-paused-times"] * turns.second
        or turns.waiting < thresholds["consumer-paused-messages"]
        or may_lack(context, turns.until.time - turns.longest, turns.until.time)
    ):
        return
    text = f"{consumer.title} acknowledged nothing for {duration(turns.longest)} while {plural(turns.waiting, 'message')} waited, and "
    text += f"then went on; the next longest wait was {duration(turns.second)}."
    evidence = {"frames": [turns.until.name], **consumer.evidence, "waited_ns": turns.longest, "second_ns": turns.second}
    context.report("consumer-paused", turns.until, text, evidence | {"unacknowledged": turns.waiting, "acks": acks, "act": "client"})


def report_skipped(context: RuleContext, consumer: ConsumerState, oldest: tuple[str, Where], now: int, later: int, turn: int) -> None:
    """Report the oldest message (id, delivery), which is not acknowledged though so many later ones are, before that is a hole."""
    name, where = oldest
    thresholds = context.thresholds
    age = now - where.time
    if (
        later < thresholds["ack-hole-later"]
        or age < thresholds["consumer-undecided-hole-turns"] * turn
        or may_lack(context, where.time, now)
    ):
        return
    text = (
        f"{consumer.title} holds {name} unacknowledged for {duration(age)}, though it acknowledged {later:,} later entries and lets none "
    )
    text += f"wait for more than {duration(turn)}; a longer capture would show whether it comes back to it."
    evidence = {"frames": [where.name], **consumer.evidence, "age_ns": age, "later_acknowledged": later, "act": "client"}
    decided = thresholds.evidence("consumer-undecided-hole-turns", "ack-hole-later")
    context.report("consumer-undecided", where, text, evidence | decided)
