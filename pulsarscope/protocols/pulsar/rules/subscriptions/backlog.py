"""Silent brokers: a consumer with permits waits while its topic has messages that no consumer of its subscription got.

Producers and consumers seldom share a connection, so positions and waits are facts, which are compared by topic across connections.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from pulsarscope.dissect.contract.rules import (
    ColumnsHandlers,
    ConnectionRule,
    Fact,
    Handlers,
    KeyRule,
    ReportFinding,
    RuleContext,
    Where,
    where_of,
)
from pulsarscope.model.bounded_tables import NOTHING
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.records import ConnectionRow, FrameRow
from pulsarscope.model.text import duration, plural
from pulsarscope.model.thresholds import Thresholds, counted, in_seconds
from pulsarscope.protocols.pulsar.message_ids import Position, position_of
from pulsarscope.protocols.pulsar.replication import is_replicator
from pulsarscope.protocols.pulsar.rules.evidence import consumer_of
from pulsarscope.protocols.pulsar.rules.subscriptions.blocked import evaluate_blocked
from pulsarscope.protocols.pulsar.rules.subscriptions.consumers import BACKLOG, SHARED_TYPES
from pulsarscope.protocols.pulsar.rules.subscriptions.delays import FACTS_MAX, emit_sent
from pulsarscope.protocols.pulsar.rules.subscriptions.dispatch import evaluate_limited
from pulsarscope.protocols.pulsar.rules.subscriptions.lag import evaluate_lag
from pulsarscope.protocols.pulsar.rules.subscriptions.partitions import PARTITIONS, PUBLISHED, SUFFIX, PartitionReceipts
from pulsarscope.protocols.pulsar.rules.subscriptions.positions import evaluate_beginnings
from pulsarscope.protocols.pulsar.rules.subscriptions.resting import evaluate_resting
from pulsarscope.protocols.pulsar.rules.subscriptions.spans import (
    WITHHELD,
    evaluate_slow_keys,
    evaluate_spans,
    may_be_elsewhere,
    spans_of,
)
from pulsarscope.protocols.pulsar.rules.subscriptions.stuck import BUSY, HOLDING, PASSED, evaluate_dropped, evaluate_stuck
from pulsarscope.protocols.pulsar.rules.subscriptions.uneven import evaluate_uneven
from pulsarscope.protocols.pulsar.rules.subscriptions.unknown_acks import evaluate_unknown
from pulsarscope.protocols.pulsar.text.formatting import host

CODES = table(
    SESSION.warning(
        "broker-silent",
        "A consumer has permits and there is a backlog, but the broker sends nothing.",
        "Look at the topic's stats on the broker (blockedConsumerOnUnackedMsgs, dispatch rate limits, availablePermits) and at its log. "
        "In a capture at the client, a network that drops large segments looks the same: capture at the broker, too.",
        to_act="the broker's operators",
    ),
)

THRESHOLDS = (
    counted(
        "broker-silent-rate",
        100_000,
        "bytes/s",
        "Rate of a thin link: while a large frame is on its way there, its broker is not silent.",
        "broker-silent",
    ),
    in_seconds(
        "broker-silent-seconds",
        5,
        "Time without a delivery, although there are permits and messages; rate limits and a restarted dispatcher take a second or two.",
        "broker-silent",
    ),
)

EMIT_NS = 1_000_000_000
"""Time between two facts on a topic's receipts or a consumer's deliveries. The last one of each, which decides, follows at the end."""

TOPICS_MAX = 10_000
"""Most topics of producers on one connection whose latest receipt is remembered."""

PRODUCERS_MAX = 10_000
"""Most producers of one connection whose messages are known not to be delivered at once."""

TOPIC_IDLE_NS = 600_000_000_000
"""Time without facts after which a topic is evaluated."""


class PublicationRule(ConnectionRule):
    """The source of the facts on messages published to the topics of one connection."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._exempt: set[int] = set()
        """Ids of producers whose messages are not backlog yet, or backlog of another cluster: delayed, transactional and replicated
        messages."""
        self._delayed = 0
        """Number of emitted SENDs with a time of delivery."""
        self._partitions: dict[str, PartitionReceipts] = {}
        self._receipts: dict[str, tuple[Where, Position]] = {}
        """Latest receipt by topic."""
        self._emitted_at: dict[str, int] = {}
        """Time of the latest fact by topic, in nanoseconds."""

    def end(self, row: ConnectionRow, last: Where) -> None:  # noqa: ARG002 - what was published stays
        """Emit the latest receipt of each topic, and the duration of the connection in the capture."""
        for topic, (where, position) in self._receipts.items():
            self._emit(topic, where, position, row.end)
            if (receipts := self._partitions.get(topic)) is not None:
                values = {"topic": topic, "count": receipts.count, "course": receipts.course, "seen": row.end}
                self._context.emit_fact(PARTITIONS, topic.rpartition(SUFFIX)[0], receipts.first, PUBLISHED, values)

    def _send(self, row: FrameRow) -> None:
        metadata, fields = row.metadata or {}, row.fields or {}
        is_exempt = "deliver_at_time" in metadata or "txnid_least_bits" in fields or "replicated_from" in metadata
        if "deliver_at_time" in metadata and self._delayed < FACTS_MAX:
            self._delayed += 1
            emit_sent(self._context, row)
        if is_exempt and len(self._exempt) < PRODUCERS_MAX:
            if (number := fields.get("producer_id", -1)) not in self._exempt and row.topic is not None:
                self._context.emit_fact(BACKLOG, row.topic, where_of(row), WITHHELD, {"txn": "txnid_least_bits" in fields})
            self._exempt.add(number)

    def _receipt(self, row: FrameRow) -> None:
        topic, fields = row.topic, row.fields or {}
        if topic is None or fields.get("producer_id", -1) in self._exempt:
            return
        if is_replicator(row.producer_name):
            return  # in another cluster, the topic has its own positions
        position = position_of(fields.get("message_id"))
        if topic.startswith("non-persistent://"):  # all positions are 0:0, so messages are counted instead
            position = 0, self._receipts.get(topic, (None, (0, 0)))[1][1] + 1
        if position[0] < 0 or (topic not in self._receipts and len(self._receipts) >= TOPICS_MAX):
            return
        where = where_of(row)
        self._receipts[topic] = where, position
        if SUFFIX in topic:
            if topic not in self._partitions:
                self._partitions[topic] = PartitionReceipts(where)
            self._partitions[topic].add(where, position)
        if where.time - self._emitted_at.get(topic, -EMIT_NS) >= EMIT_NS:
            self._emitted_at[topic] = where.time
            self._emit(topic, where, position)

    def _emit(self, topic: str, where: Where, position: Position, seen: int = 0) -> None:
        values = {"position": position, "server": host(self._context.server), "seen": seen or where.time}
        what = PASSED if topic.startswith("non-persistent://") else "published"
        self._context.emit_fact(BACKLOG, topic, where, what, values)

    def batch(self, rows: Sequence[Any], handle: Callable[[int], None]) -> None:
        """Handle only the latest of many receipts of a topic, and skip plain SENDs; see `ConnectionRule.batch`."""
        latest: dict[str, int] = {}
        plain: dict[tuple[str | None, str | None], bool] = {}
        for index, row in enumerate(rows):
            fields, topic = row.fields or NOTHING, row.topic
            if row.command == "SEND":
                metadata = row.metadata or NOTHING
                if "deliver_at_time" in metadata or "txnid_least_bits" in fields or "replicated_from" in metadata:
                    for before in latest.values():
                        handle(before)
                    latest.clear()
                    handle(index)
                continue
            producer = topic, row.producer_name
            if (is_plain := plain.get(producer)) is None:
                is_plain = plain[producer] = self._is_plain(*producer)
            if is_plain and topic is not None and not self._exempt and row.time - self._emitted_at[topic] < EMIT_NS:
                if (fields.get("message_id") or NOTHING).get("ledgerId", -1) >= 0:
                    latest[topic] = index
            else:
                if topic in latest:
                    handle(latest.pop(topic))
                handle(index)
                plain.clear()
        for index in latest.values():
            handle(index)

    def sends(self, frames: Any, handle: Callable[[int], None]) -> bool:
        """Handle the receipts that are due, and the latest of each topic; see `ConnectionRule.columns`."""
        producers = [producer for producer in frames.producers if producer.receipts]
        if self._exempt or not all(self._is_plain(producer.topic, producer.name) for producer in producers):
            return False
        latest: dict[str, int] = {}
        for producer in producers:
            latest[producer.topic] = max(latest.get(producer.topic, -1), producer.receipts[-1])
        for topic, last in latest.items():
            place = -1
            while (place := frames.receipt_since(topic, self._emitted_at[topic] + EMIT_NS, place + 1)) is not None:
                handle(place)
            handle(last)
        return True

    def _is_plain(self, topic: str | None, producer_name: str | None) -> bool:
        """Return True when only the latest receipt of a topic counts, until the next fact is due."""
        if topic is None or topic not in self._emitted_at or topic.startswith("non-persistent://") or SUFFIX in topic:
            return False
        return not is_replicator(producer_name)

    columns: ClassVar[ColumnsHandlers] = {"SEND": sends}
    frames: ClassVar[Handlers] = {"SEND": _send, "SEND_RECEIPT": _receipt}


def evaluate_backlog(topic: str, facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report the consumers that waited while the topic had messages that no consumer of their subscription got, and those that stopped."""
    evaluate_stuck(facts, report, thresholds)
    evaluate_dropped(facts, report, thresholds)
    evaluate_beginnings(facts, report, thresholds)
    evaluate_blocked(topic, facts, report, thresholds)
    evaluate_unknown(topic, facts, report, thresholds)
    evaluate_limited(topic, facts, report, thresholds)
    spans = spans_of(topic, facts, report, thresholds)
    slow = evaluate_slow_keys(spans, facts)
    behind = evaluate_lag(topic, facts, slow, report, thresholds)
    evaluate_spans({name: each for name, each in spans.items() if name not in slow}, facts, behind)
    evaluate_resting(topic, facts, report, thresholds)
    evaluate_uneven(facts, report, thresholds)
    if any(fact.what == WITHHELD and fact.values["txn"] for fact in facts):
        return  # messages published after a transaction wait for its end
    backlog = [fact for fact in facts if fact.what in ("published", "backlog")]
    delivered = [fact for fact in facts if fact.what == "delivered"]
    ledgers = {(fact.values["server"], fact.values["position"][0]) for fact in delivered}
    # Missing bytes may be known only later, when the wait is emitted again.
    undecided = {(consumer_of(fact), fact.values["since"]) for fact in facts if fact.what == "waiting" and fact.values["undecided"]}
    reported: set[tuple[str, int]] = set()
    silent_ns = thresholds.ns("broker-silent-seconds")
    for waiting in facts:
        if waiting.what != "waiting" or consumer_of(waiting) in reported or (consumer_of(waiting), waiting.values["since"]) in undecided:
            continue
        deliveries = [fact for fact in delivered if fact.values["subscription"] == waiting.values["subscription"]]
        if waiting.values["kind"] == "Key_Shared" and any(consumer_of(fact) != consumer_of(waiting) for fact in deliveries):
            continue  # the keys of the backlog may belong to another consumer
        if _may_be_at_limit(waiting, facts):
            continue  # consumer-not-acking says who has to act
        due = next((fact for fact in backlog if _is_near(fact, waiting, ledgers) and _is_due(fact, waiting, deliveries, silent_ns)), None)
        if due is not None and not _may_be_shared(due, waiting, facts):
            reported.add(consumer_of(waiting))
            _report_silent(topic, waiting, due, report)


def _may_be_at_limit(waiting: Fact, facts: Sequence[Fact]) -> bool:
    """Return True when a consumer of this Shared or Key_Shared subscription holds messages and acknowledges none, now or ever.

    The broker may have a low limit of unacknowledged messages for each consumer, or for all consumers of a subscription together.
    """
    values = waiting.values
    if values["kind"] not in SHARED_TYPES:
        return False  # brokers limit only these types
    held = (fact.values for fact in facts if fact.what in (HOLDING, BUSY) and fact.values["subscription"] == values["subscription"])
    return any((other["reported"] and not other["acks"]) or _stopped(other, values["since"]) for other in held)


def _stopped(holder: Mapping[str, Any], since: int) -> bool:
    """Return True for a consumer with enough unacknowledged messages and no ACK since a time, at which a wait began."""
    return bool(holder["enough"] and holder["acks"] and holder["active_at"] <= since and not holder["undecided"])


def _may_be_shared(due: Fact, waiting: Fact, facts: Sequence[Fact]) -> bool:
    """Return True when another consumer, which is missing or incomplete in the capture, may have got the message that is due."""
    values = waiting.values
    if values["kind"] not in SHARED_TYPES:
        return False
    return may_be_elsewhere(values["subscription"], values["server"], tuple(due.values["position"]), due.where.time, facts)


def _is_near(due: Fact, waiting: Fact, ledgers: set[tuple[str, int]]) -> bool:
    """Return True when this consumer's broker has that message: another cluster may have a topic of the same name."""
    server = waiting.values["server"]
    return due.what == "backlog" or due.values["server"] == server or (server, due.values["position"][0]) in ledgers


def _is_due(due: Fact, waiting: Fact, deliveries: Sequence[Fact], silent_ns: int) -> bool:
    """Return True when a message that is in none of the subscription's `deliveries` was due long before the wait ended."""
    until, last, position = waiting.where.time, waiting.values["last"], due.values["position"]
    if until - max(due.where.time, waiting.values["since"]) < silent_ns:
        return False
    if due.what == "backlog" and consumer_of(due) != consumer_of(waiting):
        return False
    if last is None:
        if due.what == "published" and due.where.time < waiting.values["since"]:
            return False  # the subscription may begin after it
    elif position <= last:
        return False
    return not any(fact.values["position"] >= position and fact.where.time <= until for fact in deliveries)


def _report_silent(topic: str, waiting: Fact, due: Fact, report: ReportFinding) -> None:
    values: dict[str, Any] = waiting.values
    where = waiting.where._replace(time=values["since"])
    silence = waiting.where.time - max(due.where.time, where.time)
    ledger, entry = due.values["position"]
    text = f"{values['title']} has {plural(values['permits'], 'permit')} and the topic has {ledger}:{entry}"
    text += f", but the broker sent nothing for {duration(silence)}"
    if values["entry_permits"] <= 0:
        text += f"; counted by whole entries, as old brokers do, {values['entry_permits']} permits are left"
    text += "; the capture lacks bytes of this connection." if values["lost"] else "."
    evidence = {
        "frames": [where.name, due.where.name],
        "consumer_id": values["consumer_id"],
        "consumer_name": values["consumer_name"],
        "topic": topic,
        "subscription": values["subscription"],
        "permits": values["permits"],
        "permits_by_whole_entries": values["entry_permits"],
        "last_delivered": values["last"],
        "backlog": [ledger, entry],
        "silent_ns": silence,
        "act": "broker",
    }
    report("broker-silent", where, text, evidence)


KEYS = (KeyRule(BACKLOG, TOPIC_IDLE_NS, evaluate_backlog),)
