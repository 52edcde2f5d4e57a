"""Consumers that pause and resume, and messages that they skip shortly before the capture ends."""

from __future__ import annotations

from typing import Any

import msgspec

from pulsarscope.dissect.contract.rules import RuleContext, Where
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.text import duration, plural
from pulsarscope.model.thresholds import Thresholds, counted, in_seconds
from pulsarscope.protocols.pulsar.message_ids import Position, indexes_of
from pulsarscope.protocols.pulsar.rules.evidence import SAMPLES_MAX, TYPICAL_ACKS, may_lack
from pulsarscope.protocols.pulsar.rules.subscriptions.consumers import ConsumerState

CODES = table(
    SESSION.warning(
        "ack-hole",
        "A message stays unacknowledged while later ones are acknowledged: the subscription's backlog cannot be deleted behind it.",
        "Find out what the application did with this message id. After a negative acknowledgement it comes again, within a minute by "
        "default.",
        to_act="the consumer's application",
    ),
    SESSION.note(
        "consumer-paused",
        "A consumer acknowledged nothing for much longer than it usually takes, though it had messages, and then went on.",
        "Look at what its process did at that time: garbage collection, a stopped container, or a slow call to another system.",
    ),
)

THRESHOLDS = (
    in_seconds(
        "consumer-paused-seconds",
        2,
        "Longest wait of messages for an ACK; clients may group ACKs for up to two seconds.",
        "consumer-paused",
    ),
    counted("consumer-paused-times", 10, "times", "Longest wait compared with the next longest one.", "consumer-paused"),
    counted(
        "consumer-paused-messages",
        5,
        "messages",
        "Messages that wait meanwhile; an application may take long for a few.",
        "consumer-paused",
    ),
    in_seconds(
        "ack-hole-seconds",
        90,
        "Age of an unacknowledged message; a negative acknowledgement brings it back after 60 s by default. The rest of a batch is also "
        "twice as old as any acknowledged message was.",
        "ack-hole",
    ),
    counted(
        "ack-hole-later",
        10,
        "entries",
        "Later entries that are acknowledged, or messages of batches of which others are not; an application that works on several "
        "messages at once leaves fewer.",
        "ack-hole",
        least=0,
    ),
    in_seconds(
        "ack-hole-early-seconds",
        5,
        "Age that is enough at the end of a consumer when it acknowledged many later entries ten times as fast.",
        "ack-hole",
    ),
    counted(
        "ack-hole-early-later",
        50,
        "entries",
        "Later entries acknowledged that fast; so many show what is usual for this consumer.",
        "ack-hole",
        least=2,
    ),
    counted(
        "consumer-undecided-hole-turns",
        10,
        "times",
        "Age of an unacknowledged message, while later ones are acknowledged, compared with the longest wait for an ACK; it is also older "
        "than any acknowledged one was.",
        "consumer-undecided",
    ),
)


class Turns(msgspec.Struct):
    """Times, in nanoseconds, for which messages of a consumer waited for its next ACK."""

    longest: int = 0
    second: int = 0
    until: Where | None = None
    """The ACK that ended the longest wait."""
    waiting: int = 0
    """Number of messages that waited during that time."""

    def add(self, turn: int, where: Where, waiting: int) -> None:
        """Add a wait that an ACK ends."""
        if turn <= self.second:
            return
        if turn <= self.longest:
            self.second = turn
        else:
            self.second, self.longest, self.until, self.waiting = self.longest, turn, where, waiting


def report_pause(context: RuleContext, consumer: ConsumerState, turns: Turns, acks: int) -> None:
    """Report the longest wait if it is exceptional."""
    thresholds = context.thresholds
    if (
        turns.until is None
        or acks < TYPICAL_ACKS
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


_EARLY_TIMES = 10
"""An entry counts as forgotten after this multiple of the longest wait of an acknowledged one."""


_PART_TIMES = 2
"""The rest of a batch counts as forgotten only after this multiple of the longest wait of an acknowledged message."""

_RETURN_TIMES = 3
"""A consumer that returned entries after some time may wait for this multiple of it: clients double it when an entry fails again."""


class Hole(msgspec.Struct, frozen=True):
    """The oldest entry that a consumer has not acknowledged, although it acknowledged later ones."""

    position: Position
    where: Where
    """Delivery of the entry."""
    age: int
    """Time since its delivery, in nanoseconds."""
    later: int
    """Number of later entries, or messages of batches, that are acknowledged."""
    in_part: bool
    """True when batches are acknowledged in part."""
    messages: int
    """Number of the consumer's unacknowledged messages."""
    indexes: int | None
    """Bitmap of the entry's unacknowledged messages; None for all."""
    all: list[Position]
    """The first unacknowledged entries."""
    longest_returned: int = 0
    """Longest time for which the consumer held an entry that it then returned for another delivery, in nanoseconds."""

    @property
    def name(self) -> str:
        """The position of the entry as text."""
        return f"{self.position[0]}:{self.position[1]}"

    def is_decided(self, thresholds: Thresholds, longest_held: int, *, ending: bool) -> bool:
        """Return True when the entry will no longer be acknowledged; `longest_held`: longest wait of an acknowledged entry."""
        if self.is_at_work(longest_held):
            return False
        if self.age >= thresholds.ns("ack-hole-seconds"):
            return self.later >= thresholds["ack-hole-later"]
        is_old = self.age >= max(thresholds.ns("ack-hole-early-seconds"), _EARLY_TIMES * longest_held)
        return ending and is_old and self.later >= thresholds["ack-hole-early-later"]

    def is_at_work(self, longest_held: int) -> bool:
        """Return True for one that may be returned soon, or the rest of a batch that waits for hardly longer than others did.

        The messages of a batch take long together.
        """
        return self.age < _RETURN_TIMES * self.longest_returned or (self.in_part and self.age < _PART_TIMES * longest_held)

    def text(self, consumer: ConsumerState) -> str:
        """Return the beginning of a sentence about the entry."""
        later = f"{self.later:,} later entries{' or messages of batches' if self.in_part else ''}"
        return f"{consumer.title} holds {self.name} unacknowledged for {duration(self.age)}, though it acknowledged {later}"

    def evidence(self, consumer: ConsumerState) -> dict[str, Any]:
        """Return the evidence of an entry that its consumer forgot."""
        return {
            "frames": [self.where.name],
            **consumer.evidence,
            "message_id": list(self.position),
            "batch_indexes": None if self.indexes is None else indexes_of(self.indexes, SAMPLES_MAX),
            "age_ns": self.age,
            "later_acknowledged": self.later,
            "holes": self.all,
            "unacknowledged": self.messages,
            "act": "client",
        }


def report_skipped(context: RuleContext, consumer: ConsumerState, hole: Hole, now: int, turn: int, longest_held: int) -> None:
    """Report an entry that is not acknowledged although many later ones are, before it counts as a hole.

    `longest_held`: longest wait of an acknowledged one. Batches wait for all of their messages, of which each ends the wait for an ACK.
    """
    where, age, later = hole.where, hole.age, hole.later
    thresholds = context.thresholds
    if (
        later < thresholds["ack-hole-later"]
        or age < max(thresholds["consumer-undecided-hole-turns"] * turn, longest_held)
        or hole.is_at_work(longest_held)
        or may_lack(context, where.time, now)
    ):
        return
    text = f"{hole.text(consumer)} and lets none wait for more than {duration(turn)}."
    evidence = {"frames": [where.name], **consumer.evidence, "age_ns": age, "later_acknowledged": later, "act": "client"}
    decided = thresholds.evidence("consumer-undecided-hole-turns", "ack-hole-later")
    context.report("consumer-undecided", where, text, evidence | decided)
