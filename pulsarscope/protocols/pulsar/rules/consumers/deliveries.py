"""Deliveries: consecutive plain MESSAGEs to the consumers of one connection, and their ACKs, whose values rules read in columns.

Getting consumer, position and messages from each row takes longer than most rules need to process them. The compiled reader has its own
deliveries, with the same attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from pulsarscope.dissect.contract.rules import PackedFact, Where, where_of
from pulsarscope.model.flow import CLIENT, SERVER
from pulsarscope.model.records import FrameRow, Row
from pulsarscope.protocols.pulsar.message_ids import Position, positions_of
from pulsarscope.protocols.pulsar.metadata_fields import QUIET_ACKNOWLEDGED, QUIET_DELIVERED

_PLACE = tuple[Any, ...]
"""The parts of a `Where`."""

_encode = msgspec.msgpack.Encoder().encode

_COMMANDS = frozenset({"MESSAGE", "ACK"})

_TRIPLE = b"\x93"
"""Beginning of a fact in MessagePack: its place, its kind, its values."""


Acknowledged = tuple[int, int, Sequence[Position], tuple[int, int, int]]
"""An ACK of whole entries: its index among all frames, its time, their positions, and its name (file, packet, sub)."""


class Delivered(msgspec.Struct):
    """The deliveries to one consumer, and its ACKs, in order."""

    id: int
    topic: str | None
    subscription: str | None
    places: list[int] = msgspec.field(default_factory=list)
    """Indexes of the deliveries among all frames."""
    positions: list[Position] = msgspec.field(default_factory=list)
    messages: list[int] = msgspec.field(default_factory=list)
    """Number of messages of each delivery."""
    times: list[int] = msgspec.field(default_factory=list)
    """Time of each delivery, in nanoseconds."""
    published: list[int] = msgspec.field(default_factory=list)
    """Publish time of each delivery, in ms."""
    ascending: bool = True
    """True if each delivery's position is after the previous ones."""
    acks: list[Acknowledged] = msgspec.field(default_factory=list)
    turns: list[tuple[int, int]] = msgspec.field(default_factory=list)
    """Numbers of deliveries and of ACKs at the end of each turn: a turn is deliveries, and the ACKs that follow them."""

    def end_turn(self) -> None:
        """Note the numbers of deliveries and ACKs so far, in place of those of the same deliveries with fewer ACKs."""
        if self.turns and self.turns[-1][0] == len(self.places):
            self.turns.pop()
        self.turns.append((len(self.places), len(self.acks)))


class PlainDeliveries:
    """MESSAGEs and ACKs in columns, made from rows: see `dissect.contract.rules.FramesInColumns`."""

    command = "MESSAGE"

    def __init__(self, rows: Sequence[FrameRow], positions: Sequence[int]) -> None:
        """Take rows for which `is_quiet` is True, and their positions among all current rows."""
        self._rows, self._positions = rows, positions
        groups: dict[tuple[int, str | None, str | None], Delivered] = {}
        self._of: list[Delivered] = []
        """Consumer of each row."""
        for place, row in enumerate(rows):
            fields, metadata = row.fields or {}, row.metadata or {}
            name = fields["consumer_id"], row.topic, row.subscription
            if (group := groups.get(name)) is None:
                group = groups[name] = Delivered(*name)
            self._of.append(group)
            if row.command == "ACK":
                group.acks.append((place, row.time, positions_of(fields["message_id"]), (row.file, row.packet, row.sub or 0)))
                group.end_turn()
                continue
            ident = fields["message_id"]
            position = ident["ledgerId"], ident["entryId"]
            if group.positions and position <= group.positions[-1]:
                group.ascending = False
            messages = metadata.get("num_messages_in_batch", 1)
            group.places.append(place)
            group.positions.append(position)
            group.messages.append(messages if messages > 0 else 1)
            group.times.append(row.time)
            group.published.append(metadata["publish_time"])
        self.consumers = [*groups.values()]
        """Consumers in the order of their first frames."""
        for group in self.consumers:
            group.end_turn()
        self.tells_apart = len({group.id for group in self.consumers}) == len(groups)
        """True if no consumer gets messages of two topics; for a consumer from before the capture, the ledger tells the topic."""

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def position(self) -> int:
        """See `FramesInColumns.position`."""
        return self._positions[0]

    @property
    def stamped(self) -> list[int]:
        """Indexes of the deliveries that the broker has stamped."""
        return [place for place, row in enumerate(self._rows) if row.broker_entry_metadata is not None]

    def commands(self) -> tuple[Sequence[str], Sequence[str]]:
        """See `FramesInColumns.commands`."""
        return [*{row.command or "" for row in self._rows}], ()

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
        """Return the places of some deliveries in the capture."""
        rows = self._rows
        return [where_of(rows[place]) for place in places]

    def idents(self) -> list[tuple[int, _PLACE, str]]:
        """Return, for each delivery, its index, the values that a copy with another id shares, and its own id, checksum and name as a text.

        The shared values are topic, subscription, producer, sequence id and publish time.
        """
        made: list[tuple[int, _PLACE, str]] = []
        for place, (row, group) in enumerate(zip(self._rows, self._of, strict=True)):
            if row.command == "ACK":
                continue
            fields, metadata = row.fields or {}, row.metadata or {}
            ident, stored = fields["message_id"], None if row.checksum is None else row.checksum.stored
            key = group.topic, group.subscription, metadata["producer_name"], metadata["sequence_id"], metadata["publish_time"]
            made.append((place, key, f"{ident['ledgerId']}:{ident['entryId']} {stored} {row.file}:{row.packet}.{row.sub}"))
        return made

    def facts(self, kinds: tuple[str, str], of_topic: Callable[[str | None], str | None]) -> list[PackedFact]:
        """Return the facts on the deliveries and the acknowledged entries, of one kind each, with keys "ledger:entry".

        `of_topic` makes the topic in the facts on deliveries.
        """
        values: dict[tuple[int, bool], bytes] = {}
        for group in self.consumers:
            delivery = {"topic": of_topic(group.topic), "subscription": group.subscription, "consumer_id": group.id, "checksum": "good"}
            values[id(group), False] = _encode(kinds[0]) + _encode(delivery)
            values[id(group), True] = _encode(kinds[1]) + _encode({"consumer_id": group.id})
        facts: list[PackedFact] = []
        for row, position, group in zip(self._rows, self._positions, self._of, strict=True):
            ids, acknowledges = (row.fields or {})["message_id"], row.command == "ACK"
            packed = _TRIPLE + _encode(where_of(row)) + values[id(group), acknowledges]
            keys = positions_of(ids if acknowledges else (ids,))
            facts += [(position, f"{ledger}:{entry}", packed, row.time or 0) for ledger, entry in keys]
        return facts


def is_quiet(row: FrameRow) -> bool:
    """Return True for a MESSAGE or an ACK about which rules need only the data in `PlainDeliveries`."""
    if row.command == "ACK":
        return _is_quiet_ack(row)
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


def _is_quiet_ack(row: FrameRow) -> bool:
    """Return True for an ACK of whole entries, which requests no response."""
    fields = row.fields
    if fields is None or row.status != "ok" or row.direction != CLIENT or not row.topic or not fields.keys() <= QUIET_ACKNOWLEDGED:
        return False
    if fields.get("ack_type") != "Individual" or fields.get("consumer_id", -1) < 0 or not (ids := fields.get("message_id")):
        return False
    positions = positions_of(ids)
    is_stored = all(ledger > 0 and entry >= 0 for ledger, entry in positions)
    return is_stored and len({*positions}) == len(positions) and not any("ack_set" in ident for ident in ids)


def deliveries_of(rows: Sequence[Row], positions: Sequence[int], least: int) -> Iterator[tuple[int, PlainDeliveries]]:
    """Yield runs of at least `least` consecutive deliveries and ACKs in rows, each with the index of its first; see `StretchesOf`."""
    start = 0
    for at, row in enumerate([*rows, None]):
        if type(row) is FrameRow and row.command in _COMMANDS:
            continue
        if at - start >= least:  # most runs are short: what takes longer to find out follows for the others
            yield from _quiet_runs(rows, positions, range(start, at), least)
        start = at + 1


def _quiet_runs(rows: Sequence[Row], positions: Sequence[int], run: range, least: int) -> Iterator[tuple[int, PlainDeliveries]]:
    """Yield as `deliveries_of` for a run of MESSAGEs and ACKs of any kind."""
    start = run.start
    for at in (*run, None):
        if at is not None and is_quiet(rows[at]):
            continue
        stop = run.stop if at is None else at
        if stop - start >= least:
            made = PlainDeliveries(rows[start:stop], positions[start:stop])  # type: ignore[arg-type]
            if made.tells_apart:
                yield start, made
        start = stop + 1
