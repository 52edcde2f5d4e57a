"""Deliveries: plain MESSAGEs to the consumers of one connection, with nothing else of it between, whose values rules read in columns.

A rule that asks each row for its consumer, its position and its messages takes longer than what most do with these. The compiled reader
has deliveries of its own, with the same attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from pulsarscope.dissect.contract.rules import PackedFact, Where, where_of
from pulsarscope.model.flow import SERVER
from pulsarscope.model.records import FrameRow, Row
from pulsarscope.protocols.pulsar.message_ids import Position
from pulsarscope.protocols.pulsar.metadata_fields import QUIET_DELIVERED

_PLACE = tuple[Any, ...]
"""The parts of a `Where`."""

_encode = msgspec.msgpack.Encoder().encode

_TRIPLE = b"\x93"
"""Begins a fact in MessagePack: its place, its kind, its values."""


class Delivered(msgspec.Struct):
    """What one consumer gets in deliveries, in their order."""

    id: int
    topic: str | None
    subscription: str | None
    places: list[int] = msgspec.field(default_factory=list)
    """Places among the deliveries."""
    positions: list[Position] = msgspec.field(default_factory=list)
    messages: list[int] = msgspec.field(default_factory=list)
    """Messages in each."""
    times: list[int] = msgspec.field(default_factory=list)
    """Time of each, in nanoseconds."""
    ascending: bool = True
    """Each position is above those before."""
    earliest: tuple[int, int] = (0, 0)
    """First file and packet."""
    published: int = 0
    """Publish time of the last one, in ms."""


class PlainDeliveries:
    """MESSAGEs in columns, made of rows: see `dissect.contract.rules.FramesInColumns`."""

    command = "MESSAGE"

    def __init__(self, rows: Sequence[FrameRow], positions: Sequence[int]) -> None:
        """Take rows, each of which `is_quiet`, and their positions among all rows at hand."""
        self._rows, self._positions = rows, positions
        groups: dict[tuple[int, str | None, str | None], Delivered] = {}
        self._of: list[Delivered] = []
        """Consumer of each row."""
        last: Position
        for place, row in enumerate(rows):
            fields, metadata = row.fields or {}, row.metadata or {}
            ident = fields["message_id"]
            name = fields["consumer_id"], row.topic, row.subscription
            position = ident["ledgerId"], ident["entryId"]
            if (group := groups.get(name)) is None:
                group = groups[name] = Delivered(*name, earliest=(row.file, row.packet))
                last = (-1, -1)
            else:
                last = group.positions[-1]
            self._of.append(group)
            if position <= last:
                group.ascending = False
            group.earliest = min(group.earliest, (row.file, row.packet))
            messages = metadata.get("num_messages_in_batch", 1)
            group.places.append(place)
            group.positions.append(position)
            group.messages.append(messages if messages > 0 else 1)
            group.times.append(row.time)
            group.published = metadata["publish_time"]
        self.consumers = [*groups.values()]
        """In the order of their first frames."""
        self.tells_apart = len({group.id for group in self.consumers}) == len(groups)
        """No consumer gets messages of two topics: of one from before the capture, a topic is told by the ledger."""

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def position(self) -> int:
        """See `FramesInColumns.position`."""
        return self._positions[0]

    @property
    def stamped(self) -> list[int]:
        """Places of those that the broker has stamped."""
        return [place for place, row in enumerate(self._rows) if row.broker_entry_metadata is not None]

    def commands(self) -> tuple[Sequence[str], Sequence[str]]:
        """See `FramesInColumns.commands`."""
        return ("MESSAGE",), ()

    def rows(self) -> tuple[Sequence[Row], Sequence[int]]:
        """See `FramesInColumns.rows`."""
        return self._rows, self._positions

    def row(self, place: int) -> tuple[Sequence[Row], Sequence[int]]:
        """See `FramesInColumns.row`."""
        return (self._rows[place],), (self._positions[place],)

    def where_of(self, place: int) -> Where:
        """See `FramesInColumns.where_of`."""
        return where_of(self._rows[place])

    def wheres(self, places: Sequence[int]) -> list[Where]:
        """Return the places in the capture of some of them."""
        rows = self._rows
        return [where_of(rows[place]) for place in places]

    def idents(self) -> list[tuple[_PLACE, str]]:
        """Return of each what a copy under another id has, too, and its own id, checksum and name in a text.

        That is the topic, the subscription, the producer, the sequence id and the publish time.
        """
        made: list[tuple[_PLACE, str]] = []
        for row, group in zip(self._rows, self._of, strict=True):
            fields, metadata = row.fields or {}, row.metadata or {}
            ident, stored = fields["message_id"], None if row.checksum is None else row.checksum.stored
            key = group.topic, group.subscription, metadata["producer_name"], metadata["sequence_id"], metadata["publish_time"]
            made.append((key, f"{ident['ledgerId']}:{ident['entryId']} {stored} {row.file}:{row.packet}.{row.sub}"))
        return made

    def delivered(self, what: str, of_topic: Callable[[str | None], str | None]) -> list[PackedFact]:
        """Return the facts of this kind on the deliveries, whose keys are "ledger:entry"; `of_topic` makes the topic that they name."""
        values = {
            id(group): _encode(what)
            + _encode(
                {"topic": of_topic(group.topic), "subscription": group.subscription, "consumer_id": group.id, "checksum": "good"},
            )
            for group in self.consumers
        }
        facts: list[PackedFact] = []
        for row, position, group in zip(self._rows, self._positions, self._of, strict=True):
            ident = (row.fields or {})["message_id"]
            packed = _TRIPLE + _encode(where_of(row)) + values[id(group)]
            facts.append((position, f"{ident['ledgerId']}:{ident['entryId']}", packed, row.time or 0))
        return facts


def is_quiet(row: FrameRow) -> bool:
    """Return True for a MESSAGE of which rules need no more than `PlainDeliveries` have."""
    fields, metadata = row.fields, row.metadata
    if fields is None or metadata is None or row.status != "ok" or row.direction != SERVER or not row.topic:
        return False
    if row.checksum is None or row.checksum.status != "good":
        return False
    if not (fields.keys() <= QUIET_DELIVERED and metadata.keys() <= QUIET_DELIVERED):
        return False
    ident = fields.get("message_id") or {}
    if ident.get("ledgerId", -1) <= 0 or ident.get("entryId", -1) < 0 or "ack_set" in ident or fields.get("consumer_id", -1) < 0:
        return False
    return metadata.get("sequence_id", -1) >= 0 and metadata.get("publish_time", 0) > 0 and "producer_name" in metadata


def deliveries_of(rows: Sequence[Row], positions: Sequence[int], least: int) -> Iterator[tuple[int, PlainDeliveries]]:
    """Give the deliveries in rows, at least so many that stand together, with the index of the first; see `StretchesOf`."""
    start = 0
    for at, row in enumerate([*rows, None]):
        if type(row) is FrameRow and row.command == "MESSAGE" and is_quiet(row):
            continue
        if at - start >= least:
            made = PlainDeliveries(rows[start:at], positions[start:at])  # type: ignore[arg-type]
            if made.tells_apart:
                yield start, made
        start = at + 1
