"""Key_Shared subscriptions: keys that two consumers hold at once, and entries of a key out of order.

The key is that of the entry, the only one that a broker reads: its ordering key or, without one, its partition key. Key-based batches have
one; keys inside other batches do not decide which consumer gets them, so this rule does not open payloads. A consumer holds a key while it
has unacknowledged entries with this key. Each such period is a fact, under topic, subscription and key, and no two may overlap.
"""

from __future__ import annotations

import base64
import json
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import msgspec

from pulsarscope.dissect.contract.rules import ColumnsHandlers, Fact, Handlers, KeyRule, ReportFinding, RuleContext, Where, where_of
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.records import FrameRow
from pulsarscope.model.text import duration
from pulsarscope.model.thresholds import Thresholds
from pulsarscope.protocols.pulsar.message_ids import Position, position_of, positions_of
from pulsarscope.protocols.pulsar.rules.evidence import SAMPLES_MAX, consumer_of, may_lack
from pulsarscope.protocols.pulsar.rules.subscriptions.blocked import SHARED
from pulsarscope.protocols.pulsar.rules.subscriptions.consumers import BACKLOG, ConsumerRule, ConsumerState
from pulsarscope.protocols.pulsar.waiting import EarlyAcks

CODES = table(
    SESSION.warning(
        "key-on-two-consumers",
        "A key of a Key_Shared subscription went to a consumer while another one still held entries of it: their order is lost.",
        "Look at the consumers that joined or left at that time, at overlapping sticky ranges, and at the broker's version.",
        to_act="the broker's operators",
    ),
    SESSION.warning(
        "key-out-of-order",
        "An entry of a key of a Key_Shared subscription was delivered after a later one of the same key.",
        "It is not marked as a redelivery: look at the consumers that joined or left at that time, and at the broker's version.",
        to_act="the broker's operators",
    ),
)

ENTRIES_MAX = 100_000
"""Most unacknowledged entries followed on one connection: two consumers at the broker's limit."""

LATEST_MAX = 50_000
"""Most keys of one connection whose latest entry is remembered."""

SHARE_MAX = 5_000
"""Number of latest deliveries of one consumer that are emitted, in order to find the entries that no consumer got."""

KEY_BYTES_MAX = 256
"""Longest key that is followed; longer ones are rare and would fill memory."""

COUNTED_MAX = 16
"""Keys whose deliveries are counted for each consumer: enough to find each key with a sixteenth of them."""

KEY_IDLE_NS = 600_000_000_000
"""Time without facts after which a key is evaluated."""

Key = tuple[str, str]
"""Kind of a key ("ordering key" or "key") and its text."""


class HeldKey(msgspec.Struct):
    """A key with unacknowledged entries at a consumer."""

    since: Where
    first: Position
    last: Position
    entries: set[Position]


class KeyCounts(msgspec.Struct):
    """Number of deliveries of the most frequent keys, each exact or too low, by the algorithm of Misra and Gries (1982)."""

    counts: dict[Key, int] = msgspec.field(default_factory=dict)
    total: int = 0
    """Number of all deliveries, those without a key, too."""

    def add(self, key: Key | None) -> None:
        """Count a delivery."""
        counts = self.counts
        self.total += 1
        if key is None:
            return
        if key in counts or len(counts) < COUNTED_MAX:
            counts[key] = counts.get(key, 0) + 1
        else:
            self.counts = {other: count - 1 for other, count in counts.items() if count > 1}

    def busiest(self) -> tuple[str, str, int] | None:
        """Return the kind, the text and the count of a key with more than half of all deliveries."""
        key = max(self.counts, key=self.counts.__getitem__, default=None)
        return (*key, self.counts[key]) if key is not None and 2 * self.counts[key] > self.total else None


class KeySharedState(ConsumerState):
    """A Key_Shared consumer and the keys that it holds."""

    held: dict[Key, HeldKey] = msgspec.field(default_factory=dict)
    key_of: dict[Position, Key] = msgspec.field(default_factory=dict)
    """Keys of the unacknowledged entries."""
    early: EarlyAcks = msgspec.field(default_factory=EarlyAcks)
    latest: OrderedDict[Key, tuple[Position, Where]] = msgspec.field(default_factory=OrderedDict)
    """Latest entry of each key, with its delivery."""
    share: deque[tuple[int, int]] = msgspec.field(default_factory=lambda: deque(maxlen=SHARE_MAX))
    """Latest entries delivered to it."""
    keys: KeyCounts = msgspec.field(default_factory=KeyCounts)
    """Deliveries by key."""
    regressions: int = 0
    """Number of entries delivered after a later one with the same key."""


class KeySharedRule(ConsumerRule[KeySharedState]):
    """A rule about the Key_Shared consumers of one connection."""

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context, KeySharedState)
        self._entries = self._latest = 0
        """Number of unacknowledged entries, and of keys with a latest entry, of all consumers."""

    def review(self, consumer: KeySharedState, now: int, *, ending: bool) -> None:
        """Release all keys of a consumer at its end."""
        if ending:
            self._emit_share(consumer, now)
            for key in list(consumer.held):
                self._release(consumer, key, now)
            self._entries -= len(consumer.key_of)
            self._latest -= len(consumer.latest)

    def _find_ordered(self, row: FrameRow) -> KeySharedState | None:
        consumer = self.find(row)
        return consumer if consumer is not None and _is_ordered(consumer) else None

    def _emit_share(self, consumer: KeySharedState, now: int) -> None:
        """Emit which entries a consumer got, and which of them it holds."""
        known = consumer.share or consumer.ready is not None
        if known and consumer.kind == "Key_Shared" and consumer.topic is not None and consumer.persistent and not self.context.lost:
            held = min(consumer.held.values(), key=lambda held: held.since.time, default=None)
            values = {
                **consumer.evidence,
                "title": consumer.title,
                "entries": list(consumer.share),
                "begun": consumer.ready.time if consumer.ready is not None else 0,
                "held": list(held.first) if held is not None else None,
                "since": held.since.time if held is not None else now,
                "unacknowledged": len(consumer.key_of),
                "closed": not self.open,
                "busiest": consumer.keys.busiest(),
                "delivered": consumer.keys.total,
            }
            where = held.since if held is not None else consumer.ready
            if where is not None:
                self.context.emit_fact(BACKLOG, consumer.topic, where._replace(time=now), SHARED, values)

    def _message(self, row: FrameRow) -> None:
        if (consumer := self._find_ordered(row)) is None:
            return
        fields, where = row.fields or {}, where_of(row)
        position = position_of(fields.get("message_id"))
        consumer.share.append(position)
        key = key_of(row)
        consumer.keys.add(key)
        if key is None:
            return
        is_late = fields.get("redelivery_count", 0) > 0 or "deliver_at_time" in (row.metadata or {})
        self._check_order(consumer, key, position, where, is_late=is_late)
        if consumer.early.acks and consumer.early.of(position, (where.file, where.packet), where.time)[0]:
            return
        if position not in consumer.key_of:
            if self._entries >= ENTRIES_MAX:
                return
            self._entries += 1
        consumer.key_of[position] = key
        if (held := consumer.held.get(key)) is None:
            consumer.held[key] = HeldKey(where, position, position, {position})
        else:
            held.last = max(held.last, position)
            held.entries.add(position)

    def _check_order(self, consumer: KeySharedState, key: Key, position: Position, where: Where, *, is_late: bool) -> None:
        if (latest := consumer.latest.get(key)) is None:
            self._latest += 1
        if latest is None or position > latest[0]:
            latest = position, where
        elif position < latest[0] and not is_late:
            consumer.regressions += 1
            if consumer.regressions <= SAMPLES_MAX:
                self._report_regression(consumer, key, position, where, latest)
        consumer.latest[key] = latest
        if self._latest > LATEST_MAX:
            self._latest -= 1
            consumer.latest.popitem(last=False)

    def _report_regression(
        self, consumer: KeySharedState, key: Key, position: Position, where: Where, latest: tuple[Position, Where]
    ) -> None:
        (ledger, entry), previous = latest
        text = f"{consumer.title} got {position[0]}:{position[1]} of {key[0]} {key[1]} after {ledger}:{entry} of the same key."
        evidence = {
            "frames": [previous.name, where.name],
            **consumer.evidence,
            "key": key[1],
            "message_id": list(position),
            "after": [ledger, entry],
        }
        self.context.report("key-out-of-order", where, text, evidence)

    def _ack(self, row: FrameRow) -> None:
        if (consumer := self._find_ordered(row)) is not None and not consumer.ignores(row.fields or {}):
            for message_id in (row.fields or {}).get("message_id") or ():
                position = position_of(message_id)
                if not message_id.get("ack_set") and not self._settle(consumer, position, row.time):
                    consumer.early.add(position, (row.file, row.packet), row.time, None)

    def _redeliver(self, row: FrameRow) -> None:
        """Remove entries that the client returns for redelivery: it no longer holds them."""
        if (consumer := self._find_ordered(row)) is not None:
            for position in positions_of((row.fields or {}).get("message_ids")) or list(consumer.key_of):
                self._settle(consumer, position, row.time)

    def _settle(self, consumer: KeySharedState, position: Position, now: int) -> bool:
        """Return False when the consumer does not hold the entry."""
        if (key := consumer.key_of.pop(position, None)) is None:
            return False
        self._entries -= 1
        held = consumer.held[key]
        held.entries.discard(position)
        if not held.entries:
            self._release(consumer, key, now)
        return True

    def _release(self, consumer: KeySharedState, key: Key, now: int) -> None:
        """Emit the period in which a consumer held a key."""
        held = consumer.held.pop(key)
        values = {
            **consumer.evidence,
            "title": consumer.title,
            "key": list(key),
            "since": held.since.time,
            "first": list(held.first),
            "last": list(held.last),
            "lost": self.context.lost,
            "unseen": may_lack(self.context, held.since.time, now),
        }
        fact_key = json.dumps([consumer.topic, consumer.subscription, *key])
        self.context.emit_fact(HOLDING, fact_key, held.since._replace(time=now), "held", values)

    def deliveries(self, frames: Any, _handle: Callable[[int], None]) -> bool:
        """Skip deliveries to consumers of other types; see `ConnectionRule.columns`."""
        known = (self.consumers.get(group.id) for group in frames.consumers)
        return not any(consumer is not None and _is_ordered(consumer) for consumer in known)

    columns: ClassVar[ColumnsHandlers] = {"MESSAGE": deliveries}
    frames: ClassVar[Handlers] = {**ConsumerRule.frames, "MESSAGE": _message, "ACK": _ack, "REDELIVER_UNACKNOWLEDGED_MESSAGES": _redeliver}


def _is_ordered(consumer: KeySharedState) -> bool:
    """Return True for a consumer to which the messages of each key are promised in order."""
    return consumer.kind == "Key_Shared" and not consumer.out_of_order


def key_of(row: FrameRow) -> Key | None:
    """Return the key by which a broker chooses the consumer; None if the entry has none."""
    metadata = row.metadata or {}
    if ordering := metadata.get("ordering_key"):
        return ("ordering key", base64.b64encode(ordering).decode()) if len(ordering) <= KEY_BYTES_MAX else None
    partition = metadata.get("partition_key")
    return ("key", partition) if partition and len(partition) <= KEY_BYTES_MAX else None


def evaluate_holding(_: str, facts: Sequence[Fact], report: ReportFinding, _thresholds: Thresholds) -> None:
    """Report the periods in which two consumers held one key."""
    longest: Fact | None = None
    reported = set()
    for fact in facts:
        if longest is not None and consumer_of(longest) != consumer_of(fact) and fact.values["since"] < longest.where.time:
            pair = consumer_of(longest), consumer_of(fact)
            if pair not in reported and not longest.values["unseen"]:
                reported.add(pair)
                _report_overlap(longest, fact, report)
        if longest is None or fact.where.time > longest.where.time:
            longest = fact


def _report_overlap(before: Fact, after: Fact, report: ReportFinding) -> None:
    first, second = before.values, after.values
    kind, key = first["key"]
    last = f"{first['last'][0]}:{first['last'][1]}"
    where = after.where._replace(time=second["since"])
    overlap = before.where.time - where.time
    other = f"consumer {first['consumer_id']} ({first['consumer_name']})"
    text = f"{second['title']} got {kind} {key} while {other} held it (up to {last}) for {duration(overlap)} more"
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
