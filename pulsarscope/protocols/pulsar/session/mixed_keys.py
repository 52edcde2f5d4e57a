"""Batches with several keys that Key_Shared consumers get.

A broker does not open batches: it chooses the consumer by the key of the entry, which clients take from the first message. Messages with
other keys come along, so that the messages of these keys go to several consumers.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import repeat
from typing import Any, NamedTuple

import msgspec

from pulsarscope.dissect.contract.events import Event, MessageEntry, Remark
from pulsarscope.model.bounded_tables import remember
from pulsarscope.model.records import FrameRow
from pulsarscope.model.units import MILLISECOND
from pulsarscope.protocols.pulsar.message_ids import Position, position_of
from pulsarscope.protocols.pulsar.session.names import Consumer, Names
from pulsarscope.protocols.pulsar.session.sends import IDS_MAX
from pulsarscope.protocols.pulsar.topics import bounded_name

ENTRIES_MAX = 500
"""Entries of a consumer that are examined. Producers rarely change how they batch, and the compiled reader does not see these entries."""

PRODUCERS_MAX = 20
"""Most producers of a consumer whose latest entries are kept."""

JUMPS_MIN = 3
"""Times that a consumer must skip batches until others certainly get them: brokers may also filter entries."""

EXAMINED_MAX = 1000
"""Most consumers of a connection that are examined at a time: one for each partition of several topics."""


class SequencePlace(NamedTuple):
    """The place of an entry among those of its producer."""

    position: Position
    number: int
    """Its number among the entries that came behind all before."""
    first: int
    """Sequence id of its first message."""
    following: int
    """Sequence id behind its last message."""
    published: int
    """Publish time, in nanoseconds."""
    in_transaction: bool

    @classmethod
    def of(cls, metadata: Mapping[str, Any], position: Position, number: int) -> SequencePlace:
        """Return the place that the metadata of an entry states: metadata may be very large."""
        first = metadata.get("sequence_id", 0)
        following = first + metadata.get("num_messages_in_batch", 1)
        published = metadata.get("publish_time", 0) * MILLISECOND
        return cls(position, number, first, following, published, "txnid_most_bits" in metadata)


class KeyConsumer(Consumer):
    """A Key_Shared consumer that promises order, and what its first entries show."""

    since: int = 0
    """Time of its SUBSCRIBE, in nanoseconds."""
    entries: int = 0
    """Number of entries so far."""
    latest: Position = (-1, -1)
    advances: int = 0
    """Number of entries that came behind all before."""
    places: dict[str | None, SequencePlace] = msgspec.field(default_factory=dict)
    """That of the latest entry of each producer, by its name."""
    jumps: int = 0
    """Number of times that it did not get a batch before an entry of the same producer."""
    mixed: Remark | None = None
    """Finding about its first batch with several keys."""

    def take(self, frame: FrameRow, entry: MessageEntry | None) -> None:
        """Take an entry, opened if there was something to open."""
        position = position_of((frame.fields or {}).get("message_id"))
        if position > self.latest:
            metadata = frame.metadata or {}
            self.latest, self.advances = position, self.advances + 1
            place, name = SequencePlace.of(metadata, position, self.advances), bounded_name(metadata.get("producer_name"))
            before = self.places.get(name)
            self.jumps += before is not None and self._misses(before, place)
            remember(self.places, name, place, PRODUCERS_MAX)
        self.entries += 1
        if self.mixed is None and entry is not None and entry.columns is not None and len(keys := _keys(entry.columns)) > 1:
            self.mixed = self._remark(frame, position, len(keys))

    def _misses(self, before: SequencePlace, place: SequencePlace) -> bool:
        """Return True if the sequence ids of two entries of a producer show that there is a batch among those between that others got.

        Other entries may have reasons: ends of transactions, and snapshots of replicated subscriptions, have no messages, those of aborted
        transactions are never delivered, and what is delivered later is in no batch. An earlier consumer may have acknowledged what was
        published before this one came.
        """
        if place.position[0] != before.position[0] or place.in_transaction or before.in_transaction or before.published < self.since:
            return False
        entries = place.position[1] - before.position[1] - (place.number - before.number)
        return 0 < entries < place.first - before.following

    def _remark(self, frame: FrameRow, position: Position, keys: int) -> Remark:
        messages = (frame.metadata or {}).get("num_messages_in_batch", 1)
        consumer, producer = (frame.fields or {}).get("consumer_id", -1), bounded_name(frame.producer_name)
        text = (
            f"Batch {position[0]}:{position[1]} of producer {producer} has {messages:,} messages with {keys:,} keys. By the "
            f"first key alone, consumer {consumer} of subscription {self.subscription} on {self.topic} got it; others get other batches."
        )
        evidence = {
            "topic": self.topic,
            "subscription": self.subscription,
            "consumer_id": consumer,
            "producer_name": producer,
            "message_id": [*position],
            "messages": messages,
            "keys": keys,
        }
        where = FrameRow(file=frame.file, packet=frame.packet, sub=frame.sub, time=frame.time)
        return Remark("batch-mixes-keys", where, text, evidence, whole=True)


def add_consumer(
    consumers: dict[int, Consumer], examined: dict[int, KeyConsumer] | None, subscribe: dict[str, Any], names: Names, now: int
) -> None:
    """Add the consumer of a SUBSCRIBE to those whose entries are examined, unless that is None or full, or else to the others.

    One without a topic is among the others, because it gets that of a message id later.
    `subscribe`: its fields, `names`: the names in it.
    """
    topic, _, subscription = names
    number = subscribe.get("consumer_id", -1)
    if examined:
        examined.pop(number, None)
    if examined is not None and topic is not None and len(examined) < EXAMINED_MAX and _promises_order(subscribe):
        consumers.pop(number, None)
        examined[number] = KeyConsumer(topic, subscription, now)
    else:
        remember(consumers, number, Consumer(topic, subscription), IDS_MAX)


def examine(
    examined: dict[int, KeyConsumer], consumers: dict[int, Consumer], frame: FrameRow, entry: MessageEntry | None, events: list[Event]
) -> None:
    """Examine the entry in a MESSAGE of an examined consumer, which moves to the others with the last one."""
    number = (frame.fields or {}).get("consumer_id", -1)
    consumer = examined[number]
    consumer.take(frame, entry)
    found = consumer.mixed if consumer.jumps >= JUMPS_MIN else None
    if found is not None:
        events.append(found)
    if found is not None or consumer.entries >= ENTRIES_MAX:
        del examined[number]
        remember(consumers, number, Consumer(consumer.topic, consumer.subscription), IDS_MAX)


def _promises_order(subscribe: Mapping[str, Any]) -> bool:
    """Return True for the fields of a SUBSCRIBE to whose consumer the messages of each key are promised in order."""
    return subscribe.get("subType") == "Key_Shared" and not (subscribe.get("keySharedMeta") or {}).get("allowOutOfOrderDelivery")


def _keys(columns: Mapping[str, Any]) -> set[Any]:
    """Return the keys of the messages of a batch by which consumers are chosen."""
    return {ordering or key for ordering, key in zip(columns.get("ordering_key") or repeat(None), columns["key"], strict=False)} - {None}
