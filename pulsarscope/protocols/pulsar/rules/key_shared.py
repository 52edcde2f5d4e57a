"""Key_Shared: each key to one consumer at a time, and in order.

The key is that of the entry, which is all that a broker looks at: its ordering key, else its partition key. Batches by key have it;
keys inside other batches do not steer where they go, so payloads are not opened for this. While a consumer holds unacknowledged entries of
a key it holds the key; each such time is a fact, under topic, subscription and key, and no two may overlap.
"""

from __future__ import annotations

import base64
import json
from collections import OrderedDict
from collections.abc import Sequence
from typing import ClassVar

import msgspec

from pulsarscope.dissect.rules import Fact, Handlers, KeyRule, ReportFinding, RuleContext, Where, where_of
from pulsarscope.model.findings import WARNING, Code, table
from pulsarscope.model.records import FrameRow
from pulsarscope.protocols.pulsar.rules.consumers import Consumer, ConsumerRule, Position, position_of
from pulsarscope.protocols.pulsar.rules.phrases import SHOWN_MAX, seconds

CODES = table(
    Code(
        "key-on-two-consumers",
        WARNING,
        "session",
        "A key of a Key_Shared subscription went to a consumer while another one still held entries of it: their order is lost.",
        "Look at the consumers that joined or left at that time, at overlapping sticky ranges, and at the broker's version.",
    ),
    Code(
        "key-out-of-order",
        WARNING,
        "session",
        "An entry of a key of a Key_Shared subscription was delivered after a later one of the same key.",
        "Nothing says that it was a redelivery: look at the consumers that joined or left at that time, and at the broker's version.",
    ),
)

ENTRIES_MAX = 100_000
"""Entries held by the consumers of one connection: two at the broker's limit of unacknowledged messages. Later ones are not followed."""

LATEST_MAX = 50_000
"""Keys of which the latest entry is remembered, to see their order; of one connection."""

KEY_BYTES_MAX = 256
"""Longer keys are not followed: they would fill the memory, and people use short ones."""

KEY_IDLE_NS = 600_000_000_000
"""A key that nobody held for ten minutes is judged."""

Key = tuple[str, str]
"""What it is ("ordering key", "key") and its text."""


class Held(msgspec.Struct):
    """A key that a consumer holds."""

    since: Where
    first: Position
    last: Position
    entries: set[Position]
    again: bool
    """Its first entry is a redelivery."""


class Keyed(Consumer):
    """A Key_Shared consumer and the keys that it holds."""

    held: dict[Key, Held] = msgspec.field(default_factory=dict)
    key_of: dict[Position, Key] = msgspec.field(default_factory=dict)
    latest: OrderedDict[Key, tuple[Position, Where]] = msgspec.field(default_factory=OrderedDict)
    regressions: int = 0


class KeyShared(ConsumerRule[Keyed]):
    """Follows the Key_Shared consumers of one connection."""

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context, Keyed)
        self._entries = self._latest = 0

    def review(self, consumer: Keyed, now: int, *, ending: bool) -> None:
        """See `ConsumerRule`."""
        if ending:
            for key in list(consumer.held):
                self._release(consumer, key, now)
            self._entries -= len(consumer.key_of)
            self._latest -= len(consumer.latest)

    def _find(self, row: FrameRow) -> Keyed | None:
        consumer = self.find(row)
        return consumer if consumer is not None and consumer.kind == "Key_Shared" and not consumer.out_of_order else None

    def _message(self, row: FrameRow) -> None:
        consumer, key = self._find(row), key_of(row)
        if consumer is None or key is None:
            return
        fields, where = row.fields or {}, where_of(row)
        position = position_of(fields.get("message_id") or {})
        again = fields.get("redelivery_count", 0) > 0
        self._check_order(consumer, key, position, where, again=again)
        if position not in consumer.key_of:
            if self._entries >= ENTRIES_MAX:
                return
            self._entries += 1
        consumer.key_of[position] = key
        held = consumer.held.get(key)
        if held is None:
            consumer.held[key] = Held(where, position, position, {position}, again)
        else:
            held.last = max(held.last, position)
            held.entries.add(position)

    def _check_order(self, consumer: Keyed, key: Key, position: Position, where: Where, *, again: bool) -> None:
        latest = consumer.latest.get(key)
        if latest is None:
            self._latest += 1
        if latest is None or position > latest[0]:
            latest = position, where
        elif position < latest[0] and not again:
            consumer.regressions += 1
            if consumer.regressions <= SHOWN_MAX:
                (ledger, entry), before = latest
                text = f"{consumer.title} got {position[0]}:{position[1]} of {key[0]} {key[1]} after {ledger}:{entry} of the same key."
                evidence = {
                    "frames": [before.name, where.name],
                    **consumer.evidence,
                    "key": key[1],
                    "message_id": list(position),
                    "after": [ledger, entry],
                }
                self.context.report("key-out-of-order", where, text, evidence)
        consumer.latest[key] = latest
        if self._latest > LATEST_MAX:
            self._latest -= 1
            consumer.latest.popitem(last=False)

    def _ack(self, row: FrameRow) -> None:
        consumer = self._find(row)
        if consumer is not None:
            for one in (row.fields or {}).get("message_id") or ():
                if not one.get("ack_set"):
                    self._settle(consumer, position_of(one), row.time or 0)

    def _redeliver(self, row: FrameRow) -> None:
        """What the client gives back it does not hold any more."""
        consumer = self._find(row)
        if consumer is None:
            return
        for position in [position_of(one) for one in (row.fields or {}).get("message_ids") or ()] or list(consumer.key_of):
            self._settle(consumer, position, row.time or 0)

    def _settle(self, consumer: Keyed, position: Position, now: int) -> None:
        key = consumer.key_of.pop(position, None)
        if key is None:
            return
        self._entries -= 1
        held = consumer.held[key]
        held.entries.discard(position)
        if not held.entries:
            self._release(consumer, key, now)

    def _release(self, consumer: Keyed, key: Key, now: int) -> None:
        """Emit how long it was held, and by whom."""
        held = consumer.held.pop(key)
        values = {
            **consumer.evidence,
            "title": consumer.title,
            "key": list(key),
            "since": held.since.time,
            "first": list(held.first),
            "last": list(held.last),
            "again": held.again,
            "lost": self.context.lost,
        }
        under = json.dumps([consumer.topic, consumer.subscription, *key])
        self.context.emit_fact(HOLDING, under, held.since._replace(time=now), "held", values)

    frames: ClassVar[Handlers] = {**ConsumerRule.frames, "MESSAGE": _message, "ACK": _ack, "REDELIVER_UNACKNOWLEDGED_MESSAGES": _redeliver}


def key_of(row: FrameRow) -> Key | None:
    """What a broker chooses the consumer by; None when the entry has no key."""
    metadata = row.metadata or {}
    ordering = metadata.get("ordering_key")
    if ordering:
        return ("ordering key", base64.b64encode(ordering).decode()) if len(ordering) <= KEY_BYTES_MAX else None
    partition = metadata.get("partition_key")
    return ("key", partition) if partition and len(partition) <= KEY_BYTES_MAX else None


def evaluate_holding(_: str, facts: Sequence[Fact], report: ReportFinding) -> None:
    """See `pulsarscope.dissect.rules.KeyRule`: times in which two consumers held one key."""
    longest: Fact | None = None
    said = set()
    for fact in facts:
        if longest is not None and _holder(longest) != _holder(fact) and fact.values["since"] < longest.where.time:
            pair = _holder(longest), _holder(fact)
            if pair not in said:
                said.add(pair)
                _report_two(longest, fact, report)
        if longest is None or fact.where.time > longest.where.time:
            longest = fact


def _holder(fact: Fact) -> tuple[str, int]:
    return fact.where.connection, fact.values["consumer_id"]


def _report_two(before: Fact, after: Fact, report: ReportFinding) -> None:
    first, second = before.values, after.values
    what, key = first["key"]
    last = f"{first['last'][0]}:{first['last'][1]}"
    where = after.where._replace(time=second["since"])
    overlap = before.where.time - where.time
    other = f"consumer {first['consumer_id']} ({first['consumer_name']})"
    text = f"{second['title']} got {what} {key} while {other} held it (up to {last}) for {seconds(overlap)} more"
    text += "; the capture lacks bytes of a connection, so an ACK may be unseen." if first["lost"] or second["lost"] else "."
    evidence = {
        "frames": [before.where.name, after.where.name],
        "topic": second["topic"],
        "subscription": second["subscription"],
        "key": key,
        "consumers": [
            {"connection": fact.where.connection, "consumer_id": fact.values["consumer_id"], "consumer_name": fact.values["consumer_name"]}
            for fact in (before, after)
        ],
        "message_ids": [first["first"], second["first"]],
        "overlap_ns": overlap,
    }
    report("key-on-two-consumers", where, text, evidence)


HOLDING = "key-holding"
KEYS = (KeyRule(HOLDING, KEY_IDLE_NS, evaluate_holding),)
