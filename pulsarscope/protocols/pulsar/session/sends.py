"""Producers of one connection and their SENDs: first in, first out for each producer, checked by sequence id."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from pulsarscope.dissect.contract.events import Event
from pulsarscope.dissect.contract.exchange import Request
from pulsarscope.model.bounded_tables import NOTHING, drop_oldest
from pulsarscope.model.limits import PENDING_MESSAGES_MAX, PENDING_MESSAGES_MAX_BYTES, PENDING_REQUESTS_MAX
from pulsarscope.protocols.pulsar.replication import is_replicator, source_position
from pulsarscope.protocols.pulsar.session.open_requests import OpenRequests

if TYPE_CHECKING:
    from pulsarscope.protocols.pulsar.entry.reader import Entry

KNOWN_IDS_SLACK = 64
"""Sequence ids of SENDs that no longer wait are dropped when all ids exceed twice the number of waiting SENDs by this many."""

SENT_BYTES = 200
"""Size in memory of a waiting SEND, without its messages."""

REFUSED_MAX = 1_000
"""Latest waiting SENDs among which a refused one is looked for: a client sends no more until it learns that its topic has moved."""

IDS_MAX = 65_536
"""Most producers, and most consumers, remembered for one connection. Clients count their ids up from 0; hostile bytes do not."""


class Producer(msgspec.Struct):
    """A producer, and its SENDs that wait for their receipts, oldest first."""

    topic: str | None = None
    name: str | None = None
    waiting: deque[Sent] = msgspec.field(default_factory=deque)
    open: bool = False
    """True from its PRODUCER until that is refused, or either side closes the producer."""
    known: set[int] | None = None
    """Sequence ids of the waiting SENDs, and perhaps of some that no longer wait; made when a receipt does not fit the oldest."""
    copied: dict[tuple[int, int], int] | None = None
    """Sequence ids of the latest SENDs of a replicator, by the ledger and entry of the message in its own cluster."""


class Sent(msgspec.Struct, gc=False):
    """A SEND that waits for its receipt, with its messages."""

    file: int
    packet: int
    sub: int
    time: int
    sequence_id: int
    entry: Entry | None
    ticket: int = 0
    """Key of its messages among the waiting ones, from 1 on; 0 if its messages did not wait."""
    weight: int = 0
    """Counted size of its messages."""


class Sends:
    """Producers by id, and the SENDs and messages that wait for receipts, within bounds."""

    __slots__ = ("_held", "_held_bytes", "_held_rows", "_holding", "_oldest", "_requests", "_tickets", "producers", "waiting")

    def __init__(self, requests: OpenRequests) -> None:
        self.producers: dict[int, Producer] = {}
        self.waiting = 0
        """Number of waiting SENDs of all producers."""
        self._requests = requests
        self._holding: dict[int, Sent] = NOTHING  # SENDs whose messages wait, by ticket, without those that the compiled reader keeps
        self._held = 0  # number of all SENDs whose messages wait
        self._tickets = 0
        self._oldest = 1  # no earlier ticket waits
        self._held_rows = 0
        self._held_bytes = 0

    def add_producer(self, number: int, producer: Producer, events: list[Event]) -> Producer:
        """Register a producer under its id; if there are too many, give up the oldest."""
        self.producers[number] = producer
        for oldest, given_up in drop_oldest(self.producers, IDS_MAX):
            self.give_up(oldest, given_up, events)
        return producer

    def unknown_producer(self, fields: dict[str, Any], events: list[Event]) -> Producer:
        """Register a producer whose PRODUCER is not in the capture."""
        return self.add_producer(fields.get("producer_id", -1), Producer(), events)

    def give_up(self, number: int, producer: Producer, events: list[Event]) -> None:
        """Give up the waiting SENDs of a producer: no receipt will come."""
        self._give_up_oldest(number, producer, len(producer.waiting), events)

    def _give_up_oldest(self, number: int, producer: Producer, count: int, events: list[Event]) -> None:
        for _ in range(count):
            sent = producer.waiting.popleft()
            self.waiting -= 1
            self._requests.report(request_of(number, producer, sent), None, events)
            self.release(sent, None, events)

    def bound(self, producer: Producer, sent: Sent, events: list[Event]) -> None:
        """Keep the waiting SENDs and messages, including this SEND, within bounds."""
        if producer.known is not None:
            producer.known.add(sent.sequence_id)
            if len(producer.known) > 2 * len(producer.waiting) + KNOWN_IDS_SLACK:
                # So many SENDs amortise the next scan of the waiting ones. None lets a compiled reader continue, which knows only sequence
                # ids.
                producer.known = None if producer.copied is None else {waiting.sequence_id for waiting in producer.waiting}
        if sent.entry is not None:
            self.hold(sent, sent.entry, events)
        if self.waiting > PENDING_REQUESTS_MAX:
            self._bound_count(events)

    def _bound_count(self, events: list[Event]) -> None:
        """Give up the longest-waiting SENDs, down to nine tenths of the bound, because finding them takes a scan of all waiting ones."""
        waiting = [(sent.file, sent.packet, sent.sub, number) for number, each in self.producers.items() for sent in each.waiting]
        for _, _, _, number in sorted(waiting)[: max(len(waiting) - PENDING_REQUESTS_MAX * 9 // 10, 1)]:
            self._give_up_oldest(number, self.producers[number], 1, events)

    def note_source(self, producer: Producer, fields: dict[str, Any], metadata: dict[str, Any]) -> None:
        """Note the place of origin of the message in a replicator's SEND."""
        position = source_position(metadata)
        if position is None or "marker_type" in metadata:  # the receipt of a marker has the sequence id
            return
        if producer.copied is None:
            producer.copied = {}
            producer.known = {sent.sequence_id for sent in producer.waiting}
        producer.copied[position] = fields.get("sequence_id", -1)
        drop_oldest(producer.copied, 2 * len(producer.waiting) + KNOWN_IDS_SLACK)

    def take(self, command: str, producer_id: int, sequence_id: int, producer: Producer, events: list[Event]) -> Sent | None:
        """Remove and return the SEND that a SEND_RECEIPT or SEND_ERROR answers and that is not the oldest; None if none waits for it."""
        if producer.known is not None and sequence_id not in producer.known:
            return None
        queue: Sequence[Sent] = producer.waiting  # the compiled reader's has no deletion, and makes its SENDs anew each time
        producer.waiting = queue if isinstance(queue, deque) else deque(queue)
        if command == "SEND_ERROR" and (refused := _take_refused(producer, sequence_id)) is not None:
            return refused
        index = next((index for index, sent in enumerate(producer.waiting) if sent.sequence_id == sequence_id), -1)
        producer.known = {sent.sequence_id for sent in producer.waiting}
        if index < 0:
            return None
        self._give_up_oldest(producer_id, producer, index, events)
        return producer.waiting.popleft()

    def hold(self, sent: Sent, entry: Entry, events: list[Event]) -> None:
        """Let messages wait for their receipt. If too many wait, report the oldest without ledger and entry."""
        self._tickets = sent.ticket = self._tickets + 1
        sent.weight = weight = entry.weight()
        self._holding = self._holding or {}
        self._holding[sent.ticket] = sent
        self.keep(1, entry.count, weight, 0)
        while self._held_rows > PENDING_MESSAGES_MAX or self._held_bytes > PENDING_MESSAGES_MAX_BYTES:
            if len(self._holding) < self._held:
                every = (sent for producer in self.producers.values() for sent in producer.waiting)
                self._holding = {sent.ticket: sent for sent in every if sent.entry is not None}
            while self._oldest not in self._holding:  # as in `Pairing.ask`
                self._oldest += 1
            self.release(self._holding[self._oldest], None, events)

    def keep(self, sends: int, rows: int, size: int, tickets: int) -> None:
        """Count SENDs whose messages now wait: the number of SENDs, of messages, of bytes, and of new tickets."""
        self._held += sends
        self._held_rows += rows
        self._held_bytes += size
        self._tickets += tickets

    def release(self, sent: Sent, message_id: dict[str, Any] | None, events: list[Event]) -> None:
        """Report the messages of a SEND, under the message id of its receipt if there is one."""
        entry = sent.entry
        if entry is None:
            return
        if sent.ticket:
            self._holding.pop(sent.ticket, None)
            self.keep(-1, -entry.count, -sent.weight, 0)
        if message_id is not None:
            entry.set_id(message_id)
        events.append(entry)
        sent.entry = None

    def room(self) -> tuple[int, int, int]:
        """Return how many more messages and bytes may wait, and the latest ticket."""
        return PENDING_MESSAGES_MAX - self._held_rows, PENDING_MESSAGES_MAX_BYTES - self._held_bytes, self._tickets

    def waits(self) -> int:
        """Return the approximate size of the waiting SENDs and messages, in bytes."""
        return self._held_bytes + SENT_BYTES * self.waiting

    def finish(self, events: list[Event]) -> list[Request]:
        """Report the messages of all waiting SENDs; return the SENDs as requests."""
        unanswered = []
        for number, producer in self.producers.items():
            for sent in producer.waiting:
                unanswered.append(request_of(number, producer, sent))
                self.release(sent, None, events)
            producer.waiting.clear()
            producer.known = None if producer.copied is None else set()
        self.waiting = 0
        return unanswered


def _take_refused(producer: Producer, sequence_id: int) -> Sent | None:
    """Remove and return a SEND that was refused while earlier ones are being stored, whose receipts follow."""
    waiting = producer.waiting
    if producer.known is None:  # leaves the producer to Python for a while: handing over all waiting SENDs takes long
        producer.known = {sent.sequence_id for sent in waiting}
    for index in range(len(waiting) - 1, max(len(waiting) - REFUSED_MAX, 0) - 1, -1):
        sent = waiting[index]
        if sent.sequence_id == sequence_id:
            del waiting[index]
            return sent
    return None


def opened(topic: str | None, name: str | None) -> Producer:
    """Return a producer opened by a PRODUCER."""
    copies = is_replicator(name)
    return Producer(topic, name, open=True, known=set() if copies else None, copied={} if copies else None)


def receipt_key(producer_id: int, producer: Producer, fields: dict[str, Any]) -> tuple[str, int, Hashable]:
    """Return the key under which a receipt of an unknown SEND waits: receipts for replicators do not have the sequence id."""
    sequence_id = fields.get("sequence_id", -1)
    return "SEND", producer_id, sequence_id if producer.copied is None else (sequence_id, fields.get("highest_sequence_id", 0))


def early_key(producer_id: int, producer: Producer, sequence_id: int) -> tuple[str, int, Hashable]:
    """Return the key under which an early receipt of a producer's latest SEND waits."""
    if producer.copied:
        position, copied = next(reversed(producer.copied.items()))
        if copied == sequence_id:
            return "SEND", producer_id, position
    return "SEND", producer_id, sequence_id


def request_of(producer_id: int, producer: Producer, sent: Sent) -> Request:
    """Return a SEND as a request."""
    key = f"{producer_id}:{sent.sequence_id}"
    return Request(sent.file, sent.packet, sent.sub, sent.time, "SEND", key, producer.topic, producer.name)
