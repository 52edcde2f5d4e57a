"""The journey of an entry: SEND → SEND_RECEIPT → each MESSAGE → its ACK, across connections, and where it was corrupted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from pulsarscope.dissect.rules import ConnectionRule, Fact, Handlers, KeyRule, ReportFinding, RuleContext, Where, where_of
from pulsarscope.model.findings import ERROR, Code, table
from pulsarscope.model.limits import PENDING_REQUESTS_MAX
from pulsarscope.model.records import FrameRow
from pulsarscope.protocols.pulsar.rules.phrases import frames

CODES = table(
    Code(
        "message-corrupted",
        ERROR,
        "session",
        "A message was damaged, and the checksums at both hops say on which.",
        "Suspect what stands on that hop: a proxy, a network card that offloads checksums, memory, the broker's disk.",
    ),
)

JOURNEY = "journey"
"""Name of the key rule; its keys are ledger:entry."""

IDLE_NS = 300_000_000_000
"""An entry of which nothing is heard for five minutes: acknowledgement time-outs and redelivery delays are about one."""

RECEIVED, DELIVERED, ACKED, CONFIRMED = "received", "delivered", "acked", "confirmed"
"""What the facts of a journey say: SEND_RECEIPT (with its SEND: one fact, because there are very many), MESSAGE, ACK, ACK_RESPONSE."""


class Delivery(NamedTuple):
    """One MESSAGE, and what came of it."""

    where: Where
    topic: str | None
    subscription: str | None
    consumer_id: int
    attempt: int
    """From 1, within the subscription."""
    checksum: str
    """good, bad, absent or unverified."""
    acked: Where | None = None
    """The ACK that names the entry; a cumulative one that names a later entry is not counted."""
    confirmed: Where | None = None
    """The ACK_RESPONSE."""


class Journey(NamedTuple):
    """What the capture has of one entry. Times are those of the capture, so no two clocks are compared."""

    entry: str
    """ledger:entry."""
    topic: str | None
    producer_name: str | None
    sent: Where | None
    received: Where | None
    checksum: str | None
    """That of SEND."""
    deliveries: tuple[Delivery, ...]

    def latency_ns(self, delivery: Delivery) -> int | None:
        """From SEND to this delivery; None when the capture lacks SEND or has it after the delivery."""
        return None if self.sent is None else elapsed(self.sent, delivery.where)


def elapsed(begin: Where, end: Where) -> int | None:
    """Nanoseconds from one frame to a later one; None when the capture has them the other way round, for no latency is negative."""
    return end.time - begin.time if (begin.file, begin.packet) <= (end.file, end.packet) and begin.time <= end.time else None


def journeys(entry: str, facts: Sequence[Fact]) -> list[Journey]:
    """The journeys that the facts of one entry tell: one for each topic, because each cluster counts its ledgers on its own.

    A frame whose topic is not in the capture belongs to the only one that is known, if it is the only one.
    """
    topics = {values["topic"] for _, what, values in facts if what in (RECEIVED, DELIVERED)} - {None}
    only = next(iter(topics)) if len(topics) == 1 else None
    receipts: dict[str | None, Fact] = {}
    deliveries: list[Delivery] = []
    attempts: dict[tuple[str | None, str | None], int] = {}
    for fact in facts:
        where, what, values = fact
        if what == RECEIVED:
            receipts[values["topic"] or only] = fact
        elif what == DELIVERED:
            group = values["topic"] or only, values["subscription"]
            attempts[group] = attempts.get(group, 0) + 1
            deliveries.append(Delivery(where, *group, values["consumer_id"], attempts[group], values["checksum"]))
        else:
            _settle(deliveries, where, what, values["consumer_id"])
    of_topic: dict[str | None, list[Delivery]] = {topic: [] for topic in receipts}
    for one in deliveries:
        of_topic.setdefault(one.topic, []).append(one)
    return [_journey(entry, topic, receipts.get(topic), found) for topic, found in of_topic.items()]


def _journey(entry: str, topic: str | None, receipt: Fact | None, deliveries: Sequence[Delivery]) -> Journey:
    if receipt is None:
        return Journey(entry, topic, None, None, None, None, tuple(deliveries))
    values = receipt.values
    sent = None if values["sent"] is None else Where(*values["sent"])
    return Journey(entry, topic, values["producer_name"], sent, receipt.where, values["checksum"], tuple(deliveries))


def _settle(deliveries: list[Delivery], where: Where, what: str, consumer_id: int) -> None:
    """An ACK, or its response, is about the latest delivery to its consumer."""
    for index in range(len(deliveries) - 1, -1, -1):
        one = deliveries[index]
        if (one.where.connection, one.consumer_id) == (where.connection, consumer_id):
            if what == ACKED and one.acked is None:
                deliveries[index] = one._replace(acked=where)
            elif what == CONFIRMED and one.acked is not None and one.confirmed is None:
                deliveries[index] = one._replace(confirmed=where)
            return


def entry_key(message_id: Any) -> str | None:
    """ledger:entry, unless the id stands for no stored entry: those of non-persistent topics are 0:0, of dropped duplicates -1:-1."""
    if type(message_id) is not dict:
        return None
    ledger, entry = message_id.get("ledgerId", -1), message_id.get("entryId", -1)
    return f"{ledger}:{entry}" if ledger > 0 and entry >= 0 else None


class Journeys(ConnectionRule):
    """Tells the facts of journeys. See `pulsarscope.dissect.rules.ConnectionRule`."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._sends: dict[str, tuple[list[Any], str]] = {}
        """Place and checksum of the SENDs that wait, by name."""
        self._acks: dict[str, tuple[list[str], int]] = {}
        """Entries and consumer of the ACKs that ask for a response, by name."""

    def _send(self, row: FrameRow) -> None:
        where = where_of(row)
        _keep(self._sends, where.name, ([*where], checksum_of(row)))

    def _receipt(self, row: FrameRow) -> None:
        sent, checksum = self._sends.pop(row.request or "", _NOT_SEEN)
        key = entry_key((row.fields or {}).get("message_id"))
        if key is not None:
            values = {"topic": row.topic, "producer_name": row.producer_name, "sent": sent, "checksum": checksum}
            self._context.emit_fact(JOURNEY, key, where_of(row), RECEIVED, values)

    def _refused(self, row: FrameRow) -> None:
        self._sends.pop(row.request or "", None)

    def _message(self, row: FrameRow) -> None:
        fields = row.fields or {}
        key = entry_key(fields.get("message_id"))
        if key is not None:
            values = {
                "topic": row.topic,
                "subscription": row.subscription,
                "consumer_id": fields.get("consumer_id", -1),
                "checksum": checksum_of(row),
            }
            self._context.emit_fact(JOURNEY, key, where_of(row), DELIVERED, values)

    def _ack(self, row: FrameRow) -> None:
        fields = row.fields or {}
        where, consumer_id = where_of(row), fields.get("consumer_id", -1)
        ids = fields.get("message_id")
        keys = list(dict.fromkeys(key for one in (ids if type(ids) is list else ()) if (key := entry_key(one)) is not None))
        for key in keys:
            self._context.emit_fact(JOURNEY, key, where, ACKED, {"consumer_id": consumer_id})
        if "request_id" in fields:
            _keep(self._acks, where.name, (keys, consumer_id))

    def _ack_response(self, row: FrameRow) -> None:
        keys, consumer_id = self._acks.pop(row.request or "", ((), -1))
        for key in keys:
            self._context.emit_fact(JOURNEY, key, where_of(row), CONFIRMED, {"consumer_id": consumer_id})

    frames: ClassVar[Handlers] = {
        "SEND": _send,
        "SEND_RECEIPT": _receipt,
        "SEND_ERROR": _refused,
        "MESSAGE": _message,
        "ACK": _ack,
        "ACK_RESPONSE": _ack_response,
    }


_NOT_SEEN = (None, None)


def _keep(table: dict[str, Any], name: str, value: Any) -> None:
    """What waits for an answer, as many as a session remembers."""
    table[name] = value
    if len(table) > PENDING_REQUESTS_MAX:
        del table[next(iter(table))]


def checksum_of(row: FrameRow) -> str:
    """The verdict on a frame's CRC32-C."""
    return "unverified" if row.checksum is None else row.checksum.status


def evaluate(key: str, facts: Sequence[Fact], report: ReportFinding) -> None:
    """ReportFinding where an entry was corrupted, when a MESSAGE of it does not fit its checksum."""
    if any(fact.what == DELIVERED and fact.values["checksum"] == "bad" for fact in facts):
        for found in journeys(key, facts):
            _evaluate_journey(found, report)


def _evaluate_journey(found: Journey, report: ReportFinding) -> None:
    bad = [one for one in found.deliveries if one.checksum == "bad"]
    good = [one for one in found.deliveries if one.checksum == "good"]
    if not bad or found.checksum == "bad" or not (good or found.checksum == "good"):
        return
    first = bad[0]
    about = f"entry {found.entry}{f' of {found.topic}' if found.topic else ''}"
    to = f"MESSAGE {first.where.name} to subscription {first.subscription or '?'}"
    if good:
        hop = "between the broker and the consumer"
        proof = f"it arrived whole with {good[0].where.name}"
    else:
        hop = "in the broker, or between the broker and the consumer"
        proof = f"it was whole in SEND {found.sent.name if found.sent else '?'}"
    sent = [found.sent.name] if found.sent is not None and found.checksum == "good" else []
    evidence = {
        "frames": frames([*sent, bad[0].where.name, *(one.where.name for one in (*good[:1], *bad))]),
        "entry": found.entry,
        "topic": found.topic,
        "producer_name": found.producer_name,
        "subscriptions": list(dict.fromkeys(one.subscription for one in bad)),
        "bad": len(bad),
        "good": len(good),
    }
    text = f"{about} was corrupted {hop}: {to} has a wrong checksum, {proof}; bad are {len(bad)} of its {len(found.deliveries)} deliveries."
    report("message-corrupted", first.where, text[0].upper() + text[1:], evidence)


KEYS = (KeyRule(JOURNEY, IDLE_NS, evaluate),)
