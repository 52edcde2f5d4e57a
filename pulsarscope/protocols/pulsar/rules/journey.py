"""Journeys of entries across connections: SEND → SEND_RECEIPT → each MESSAGE → its ACK, and the hop that corrupted an entry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from pulsarscope.dissect.contract.rules import (
    BatchFact,
    ColumnsHandlers,
    ConnectionRule,
    Fact,
    Handlers,
    ReportFinding,
    RuleContext,
    Where,
    where_of,
)
from pulsarscope.model.bounded_tables import NOTHING, drop_oldest, remember
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.limits import PENDING_REQUESTS_MAX
from pulsarscope.model.records import FrameRow
from pulsarscope.model.thresholds import Thresholds
from pulsarscope.protocols.pulsar.message_ids import entry_key
from pulsarscope.protocols.pulsar.rules.evidence import capitalized, frame_names
from pulsarscope.protocols.pulsar.topics import named_topic

CODES = table(
    SESSION.error(
        "message-corrupted",
        "A message was damaged; the checksums at both hops show where.",
        "Suspect what stands on that hop: a proxy, a network card that offloads checksums, memory, the broker's disk.",
        ("checksum-mismatch",),
        to_act="the network's operators",
    ),
)

JOURNEY = "journey"
"""Name of the key rule; its keys are ledger:entry."""

IDLE_NS = 300_000_000_000
"""Time without facts after which an entry is evaluated: acknowledgement time-outs and redelivery delays are about one minute."""

RECEIVED, DELIVERED, ACKED, CONFIRMED = "received", "delivered", "acked", "confirmed"
"""Kinds of facts: SEND_RECEIPT (one fact with its SEND, because there are very many), MESSAGE, ACK, ACK_RESPONSE. `SOURCE` is the original
cluster of a replicated message."""

SOURCE = "from"

MESSAGES = "messages"
"""Kind of facts: the contents of a SEND or a MESSAGE. Values: messages, each (index in the batch, sequence id, trace, span), size of the
batch, partition. Emitted only for records of journeys, like the ACKs for which a cumulative ACK stands."""


WRITTEN, READ = "written", "read"
"""Kinds of facts about storage: an entry on its way to a storage server, and back. Values: checksum; server: its endpoint; for a write,
answered_ns: nanoseconds to the answer, None without an answer that confirms it."""


class EntryDelivery(NamedTuple):
    """A delivery of an entry, with its acknowledgement."""

    where: Where
    topic: str | None
    subscription: str | None
    consumer_id: int
    attempt: int
    """Number of the delivery within the subscription, from 1."""
    checksum: str
    """good, bad, absent or unverified."""
    acked: Where | None = None
    """ACK of the whole entry. A cumulative ACK of a later entry counts only for records of journeys."""
    parts: tuple[tuple[Where, Sequence[int]], ...] = ()
    """ACKs of some of its messages, with their ack sets."""
    confirmed: Where | None = None
    """ACK_RESPONSE to that ACK."""


class Journey(NamedTuple):
    """Everything in the capture about one entry. It uses only capture times, so that no two clocks are compared."""

    entry: str
    """ledger:entry."""
    topic: str | None
    producer_name: str | None
    sent: Where | None
    received: Where | None
    checksum: str | None
    """Checksum status of SEND."""
    deliveries: tuple[EntryDelivery, ...]
    source: str | None = None
    """Cluster from which a replicator copied it."""

    def latency_ns(self, delivery: EntryDelivery) -> int | None:
        """Return the time from SEND to a delivery; None if the capture lacks the SEND or has it after the delivery."""
        return None if self.sent is None else elapsed(self.sent, delivery.where)


def elapsed(begin: Where, end: Where) -> int | None:
    """Return the nanoseconds from one frame to a later one; None if the capture has them in reverse order: latencies are never negative."""
    return end.time - begin.time if (begin.file, begin.packet) <= (end.file, end.packet) and begin.time <= end.time else None


def journeys(entry: str, facts: Sequence[Fact]) -> list[Journey]:
    """Return the journeys in the facts of one entry, one for each topic and cluster of origin: clusters number ledgers independently.

    A frame whose topic is not in the capture belongs to the topic of the other frames, if they have only one.
    """
    topics = {values["topic"] for _, what, values in facts if what in (RECEIVED, DELIVERED)} - {None}
    only = next(iter(topics)) if len(topics) == 1 else None
    receipts: dict[_Name, Fact] = {}
    deliveries: list[EntryDelivery] = []
    sources: list[str | None] = []
    attempts: dict[tuple[str | None, str | None], int] = {}
    for fact in facts:
        where, what, values = fact
        if what == RECEIVED:
            receipts[values["topic"] or only, values.get(SOURCE)] = fact
        elif what == DELIVERED:
            group = values["topic"] or only, values["subscription"]
            attempts[group] = attempts.get(group, 0) + 1
            sources.append(values.get(SOURCE))
            deliveries.append(EntryDelivery(where, *group, values["consumer_id"], attempts[group], values["checksum"]))
        elif what in (ACKED, CONFIRMED):
            _settle(deliveries, where, what, values)
    by_name: dict[_Name, list[EntryDelivery]] = {name: [] for name in receipts}
    for delivery, source in zip(deliveries, sources, strict=True):
        by_name.setdefault((delivery.topic, source), []).append(delivery)
    return [_journey(entry, name, receipts.get(name), group) for name, group in by_name.items()]


_Name = tuple[str | None, str | None]
"""Topic, and the cluster of origin of the message."""


def _journey(entry: str, name: _Name, receipt: Fact | None, deliveries: Sequence[EntryDelivery]) -> Journey:
    topic, source = name
    if receipt is None:
        return Journey(entry, topic, None, None, None, None, tuple(deliveries), source)
    values = receipt.values
    sent = None if values["sent"] is None else Where(*values["sent"])
    return Journey(entry, topic, values["producer_name"], sent, receipt.where, values["checksum"], tuple(deliveries), source)


def _settle(deliveries: list[EntryDelivery], where: Where, what: str, values: Mapping[str, Any]) -> None:
    """Add an ACK, or its response, to the latest delivery to its consumer."""
    for index in range(len(deliveries) - 1, -1, -1):
        delivery = deliveries[index]
        if (delivery.where.connection, delivery.consumer_id) == (where.connection, values["consumer_id"]):
            if "ack_set" in values:
                deliveries[index] = delivery._replace(parts=(*delivery.parts, (where, values["ack_set"])))
            elif what == ACKED and delivery.acked is None:
                deliveries[index] = delivery._replace(acked=where)
            elif what == CONFIRMED and delivery.acked is not None and delivery.confirmed is None:
                deliveries[index] = delivery._replace(confirmed=where)
            return


_UNSENT = None, None, None
"""Place, checksum and cluster of origin of a SEND that the capture lacks."""


class JourneyRule(ConnectionRule):
    """The source of the facts on the journeys through one connection."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._sends: dict[str, tuple[list[Any], str, str | None]] = {}
        """Place and checksum status of the SENDs without a receipt, and the cluster of origin of their message, by frame name."""
        self._acks: dict[str, tuple[list[str], int]] = {}
        """Entries and consumer of the ACKs that request a response, by frame name."""

    def _send(self, row: FrameRow) -> None:
        # As `where_of` and `remember`, without the calls: this is done for every SEND.
        file, packet, sub, checksum = row.file or 0, row.packet or 0, row.sub or 0, row.checksum
        place = [row.source, file, packet, sub, row.time, row.connection]
        metadata = row.metadata
        source = None if metadata is None else metadata.get("replicated_from")
        self._sends[f"{file}:{packet}.{sub}"] = place, "unverified" if checksum is None else checksum.status, source
        if len(self._sends) > PENDING_REQUESTS_MAX:
            drop_oldest(self._sends, PENDING_REQUESTS_MAX)

    def _receipt(self, row: FrameRow) -> None:
        sent, checksum, source = self._sends.pop(row.request or "", _UNSENT)
        if (key := entry_key((row.fields or {}).get("message_id"))) is not None:
            values = {"topic": named_topic(row.topic), "producer_name": row.producer_name, "sent": sent, "checksum": checksum}
            if source is not None:
                values[SOURCE] = source
            self._context.emit_fact(JOURNEY, key, where_of(row), RECEIVED, values)

    def _send_error(self, row: FrameRow) -> None:
        self._sends.pop(row.request or "", None)

    def _message(self, row: FrameRow) -> None:
        fields = row.fields or {}
        if (key := entry_key(fields.get("message_id"))) is not None:
            values = {
                "topic": named_topic(row.topic),
                "subscription": row.subscription,
                "consumer_id": fields.get("consumer_id", -1),
                "checksum": _checksum_status(row),
            }
            if row.metadata is not None and (source := row.metadata.get("replicated_from")):
                values[SOURCE] = source
            self._context.emit_fact(JOURNEY, key, where_of(row), DELIVERED, values)

    def _ack(self, row: FrameRow) -> None:
        fields = row.fields or {}
        where, consumer_id = where_of(row), fields.get("consumer_id", -1)
        ids = fields.get("message_id")
        left = {key: item.get("ack_set") for item in (ids if type(ids) is list else ()) if (key := entry_key(item)) is not None}
        if left and not any(left.values()):
            self._context.emit_facts(JOURNEY, [*left], where, ACKED, {"consumer_id": consumer_id})
        for key, ack_set in left.items() if any(left.values()) else ():
            values = {"consumer_id": consumer_id, "ack_set": ack_set} if ack_set else {"consumer_id": consumer_id}
            self._context.emit_fact(JOURNEY, key, where, ACKED, values)
        if "request_id" in fields:
            remember(self._acks, where.name, ([*left], consumer_id), PENDING_REQUESTS_MAX)

    def _ack_response(self, row: FrameRow) -> None:
        keys, consumer_id = self._acks.pop(row.request or "", ((), -1))
        if keys:
            self._context.emit_facts(JOURNEY, keys, where_of(row), CONFIRMED, {"consumer_id": consumer_id})

    def batch(self, rows: Sequence[Any], handle: Callable[[int], None]) -> None:
        """Note the SENDs, and emit the facts on receipts together; see `ConnectionRule.batch`."""
        facts: list[BatchFact] = []
        try:
            self._batch(rows, handle, facts)
        finally:
            if facts:
                self._context.emit_batch(JOURNEY, facts)

    def _batch(self, rows: Sequence[Any], handle: Callable[[int], None], facts: list[BatchFact]) -> None:
        sends, topic, named = self._sends, "", None
        for index, row in enumerate(rows):
            command = row.command
            if command == "SEND_RECEIPT":
                sent, status, source = sends.pop(row.request or "", _UNSENT)
                if (key := entry_key((row.fields or NOTHING).get("message_id"))) is not None:
                    if row.topic is not topic:
                        topic = row.topic
                        named = named_topic(topic)
                    values = {"topic": named, "producer_name": row.producer_name, "sent": sent, "checksum": status}
                    if source is not None:
                        values[SOURCE] = source
                    facts.append((index, key, where_of(row), RECEIVED, values))
            elif command == "SEND":
                self._send(row)
            else:
                handle(index)

    def sends(self, frames: Any, _handle: Callable[[int], None]) -> bool:
        """Emit the facts on receipts; see `ConnectionRule.columns`."""
        if len(self._sends) + len(frames) > PENDING_REQUESTS_MAX:
            return False
        if isinstance(self._sends, dict):
            self._sends = frames.waiting_sends(self._sends)
        self._context.emit_packed(JOURNEY, frames.received(self._sends, RECEIVED, named_topic))
        return True

    def deliveries(self, frames: Any, _handle: Callable[[int], None]) -> bool:
        """Emit the facts on deliveries and ACKs; see `ConnectionRule.columns`."""
        try:
            facts = frames.facts((DELIVERED, ACKED), named_topic)
        except (OverflowError, UnicodeEncodeError):  # `pack` keeps these in another form
            return False
        self._context.emit_packed(JOURNEY, facts)
        return True

    columns: ClassVar[ColumnsHandlers] = {"SEND": sends, "MESSAGE": deliveries}
    frames: ClassVar[Handlers] = {
        "SEND": _send,
        "SEND_RECEIPT": _receipt,
        "SEND_ERROR": _send_error,
        "MESSAGE": _message,
        "ACK": _ack,
        "ACK_RESPONSE": _ack_response,
    }


def _checksum_status(row: FrameRow) -> str:
    return "unverified" if row.checksum is None else row.checksum.status


def is_damaged(fact: Fact) -> bool:
    """Return True for the fact about a MESSAGE that does not match its checksum."""
    return fact.what == DELIVERED and fact.values.get("checksum") == "bad"


def evaluate(key: str, facts: Sequence[Fact], report: ReportFinding, _thresholds: Thresholds) -> None:
    """Report where an entry was corrupted, if one of its MESSAGEs does not match the checksum."""
    if any(map(is_damaged, facts)):
        for journey in journeys(key, facts):
            _evaluate_journey(journey, [fact for fact in facts if fact.what in (WRITTEN, READ)], report)


def _evaluate_journey(journey: Journey, stored: Sequence[Fact], report: ReportFinding) -> None:
    bad = [delivery for delivery in journey.deliveries if delivery.checksum == "bad"]
    good = [delivery for delivery in journey.deliveries if delivery.checksum == "good"]
    if not bad or journey.checksum == "bad" or not (good or journey.checksum == "good"):
        return
    first = bad[0]
    entry = f"entry {journey.entry}{f' of {journey.topic}' if journey.topic else ''}"
    message = f"MESSAGE {first.where.name} to subscription {first.subscription or '?'}"
    damaged = next((fact for fact in stored if fact.values["checksum"] == "bad"), None)
    whole = next((fact for fact in stored if fact.values["checksum"] == "good"), None)
    if damaged is not None:
        server = damaged.values["server"]
        hop = f"in the broker, before {server} stored it" if damaged.what == WRITTEN else f"by {server}, which stored it, or on its link"
        proof = f"as it has in {damaged.where.name}"
    elif whole is not None:
        hop = "between the broker and the consumer" if good else "in the broker, or between the broker and the consumer"
        proof = f"it was whole when it was stored, in {whole.where.name}"
    elif good:
        hop = "between the broker and the consumer"
        proof = f"it arrived whole with {good[0].where.name}"
    else:
        hop = "in the broker, or between the broker and the consumer"
        proof = f"it was whole in SEND {journey.sent.name if journey.sent else '?'}"
    sent = [journey.sent.name] if journey.sent is not None and journey.checksum == "good" else []
    places = [fact.where.name for fact in (damaged, whole) if fact is not None]
    evidence = {
        "frames": frame_names([*sent, first.where.name, *(delivery.where.name for delivery in (*good[:1], *bad)), *places]),
        "entry": journey.entry,
        "topic": journey.topic,
        "producer_name": journey.producer_name,
        "subscriptions": list(dict.fromkeys(delivery.subscription for delivery in bad)),
        "bad": len(bad),
        "good": len(good),
    }
    deliveries = f"{len(bad)} of its {len(journey.deliveries)} deliveries are bad"
    text = f"{entry} was corrupted {hop}: {message} has a wrong checksum, {proof}; {deliveries}."
    report("message-corrupted", first.where, capitalized(text), evidence)
