"""Messages that a consumer gave up on and its client moved to a dead letter topic: a few, or most of its messages.

A client may publish them on a connection other than the delivering one, so both are facts, compared by the original topic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pulsarscope.dissect.contract.rules import Fact, KeyRule, ReportFinding, RuleContext, Where, where_of
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.limits import DIAGNOSIS_NAMES_MAX
from pulsarscope.model.records import FrameRow
from pulsarscope.model.text import plural
from pulsarscope.model.thresholds import Thresholds, counted
from pulsarscope.protocols.pulsar.rules.evidence import add_sample, consumer_of, frame_names, title_of
from pulsarscope.protocols.pulsar.rules.subscriptions.consumers import ConsumerState
from pulsarscope.protocols.pulsar.text.formatting import listing

CODES = table(
    SESSION.warning(
        "most-dead-lettered",
        "Most of what a consumer got ended in its dead letter topic.",
        "Its application fails on nearly every message: look at its log, at what it depends on, and at what changed (a schema, a "
        "deployment). The messages are not lost: they wait in the dead letter topic, and must be published again from there.",
        ("dead-lettered", "most-redelivered", "redelivery-storm"),
        to_act="the consumer's application",
    ),
    SESSION.note(
        "dead-lettered",
        "A consumer gave up on a message and moved it to a dead letter topic.",
        "The properties of the message name the topic and the id that it came from.",
    ),
)

THRESHOLDS = (
    counted(
        "most-dead-lettered-messages",
        10,
        "messages",
        "Messages of a subscription that end in its dead letter topic, when they are at least half of what it got; a few fail everywhere.",
        "most-dead-lettered",
    ),
)

TOPICS_MAX = 1_000
"""Most dead letter topics counted on one connection."""

DEAD_LETTERS = "dead-letters"

MOVED, GOT = "moved", "got"
"""Kinds of facts of a topic: the messages moved to one dead letter topic, and the messages that a consumer got."""

TOPIC_IDLE_NS = 600_000_000_000
"""Time without facts after which a topic is evaluated, as for backlogs."""


class MovedMessages(msgspec.Struct):
    """The messages moved to one dead letter topic."""

    frames: list[Where]
    """The first SENDs."""
    origin: str | None
    """Original topic of the messages."""
    count: int = 0


class DeadLetters:
    """The dead letters of one connection, by topic."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._topics: dict[str, MovedMessages] = {}
        self.any = False
        """True once a message was moved to a dead letter topic or a retry topic."""

    def note(self, row: FrameRow, properties: Mapping[str | None, Any]) -> None:
        """Note a SEND if it moves a message to a dead letter topic."""
        topic = row.topic or ""
        # A message to retry has the same properties, and also a time of delivery.
        is_retry = "deliver_at_time" in (row.metadata or {})
        moved = "REAL_TOPIC" in properties and "ORIGIN_MESSAGE_ID" in properties
        self.any |= moved
        moved = moved and not is_retry
        if not (moved or topic.endswith("-DLQ")) or (topic not in self._topics and len(self._topics) >= TOPICS_MAX):
            return
        letters = self._topics.setdefault(topic, MovedMessages([], properties.get("REAL_TOPIC")))
        letters.count += 1
        add_sample(letters.frames, where_of(row))

    def got(self, consumer: ConsumerState, messages: int) -> None:
        """Emit how many messages a consumer got, each counted once, when it or the capture ends."""
        where = consumer.ready or self._context.last
        if consumer.topic is not None and messages:
            values = {**consumer.evidence, "title": consumer.title, "messages": messages}
            self._context.emit_fact(DEAD_LETTERS, consumer.topic, where, GOT, values)

    def report(self) -> None:
        """Report the messages moved to each topic."""
        for topic, letters in self._topics.items():
            origin = f" from {letters.origin}" if letters.origin else ""
            text = f"{plural(letters.count, 'message')}{origin} went to the dead letter topic {topic}."
            names = [where.name for where in letters.frames]
            evidence = {"frames": names, "topic": topic, "origin": letters.origin, "count": letters.count}
            self._context.report("dead-lettered", letters.frames[0], text, evidence)
            if letters.origin:
                self._context.emit_fact(DEAD_LETTERS, letters.origin, letters.frames[0], MOVED, evidence)


def evaluate_dead_letters(topic: str, facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report the subscriptions of a topic most of whose messages were moved to a dead letter topic."""
    moved = [fact for fact in facts if fact.what == MOVED]
    subscriptions: dict[str, list[Fact]] = {}
    for fact in facts:
        if fact.what == GOT:
            subscriptions.setdefault(fact.values["subscription"] or "", []).append(fact)
    for subscription, got in subscriptions.items():
        letters = [fact for fact in moved if _moved_by(fact, subscription, subscriptions)]
        count, messages = (sum(fact.values[name] for fact in some) for name, some in (("count", letters), ("messages", got)))
        # If more were moved than delivered, they were delivered before the capture, and so may many that did not fail.
        if count >= thresholds["most-dead-lettered-messages"] and messages <= 2 * count <= 4 * messages:
            _report_most(topic, got, letters, report, thresholds)


def _moved_by(letters: Fact, subscription: str, subscriptions: Mapping[str, Sequence[Fact]]) -> bool:
    """Return True when consumers of this subscription moved these messages, as the name of their topic or their connection shows."""
    named = [name for name in subscriptions if letters.values["topic"].endswith(f"-{name}-DLQ")]
    if not named:
        here = [name for name, got in subscriptions.items() if any(fact.where.connection == letters.where.connection for fact in got)]
        named = here or [*subscriptions]
    return subscription == max(named, key=len) if letters.values["topic"].endswith("-DLQ") else named == [subscription]


def _report_most(topic: str, got: Sequence[Fact], letters: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    first = got[0].values
    count, messages = sum(fact.values["count"] for fact in letters), sum(fact.values["messages"] for fact in got)
    dead = list(dict.fromkeys(fact.values["topic"] for fact in letters))
    share = "all of them" if count == messages else f"{count:,}"
    who = title_of(got[0], len({consumer_of(fact) for fact in got}), topic)
    text = f"{who} got {plural(messages, 'message')}, and {share} went to the dead letter topic {listing(dead)}."
    evidence = {
        "frames": frame_names(name for fact in letters for name in fact.values["frames"]),
        "topic": topic,
        "subscription": first["subscription"],
        "consumer_id": first["consumer_id"],
        "consumer_name": first["consumer_name"],
        "dead_letter_topics": dead[:DIAGNOSIS_NAMES_MAX],
        "messages": messages,
        "count": count,
        "connections": list(dict.fromkeys(fact.where.connection for fact in (*got, *letters)))[:DIAGNOSIS_NAMES_MAX],
        "act": "client",
        **thresholds.evidence("most-dead-lettered-messages"),
    }
    report("most-dead-lettered", letters[0].where, text, evidence)


KEYS = (KeyRule(DEAD_LETTERS, TOPIC_IDLE_NS, evaluate_dead_letters, decides=lambda fact: fact.what == MOVED),)
