"""Is the broker silent: consumers that wait with permits while their topic has messages which nobody of their subscription got.

Producers and consumers seldom share a connection, so that all of this is told across connections, by topic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pulsarscope.dissect.rules import ConnectionRule, Fact, Handlers, KeyRule, ReportFinding, RuleContext, Where, where_of
from pulsarscope.model.findings import WARNING, Code, table
from pulsarscope.model.records import ConnectionRow, FrameRow
from pulsarscope.protocols.pulsar.rules.consumers import Position, position_of
from pulsarscope.protocols.pulsar.rules.phrases import count, host, seconds

CODES = table(
    Code(
        "broker-silent",
        WARNING,
        "session",
        "A consumer has permits and there is a backlog, but the broker sends nothing.",
        "Look at the topic's stats on the broker (blockedConsumerOnUnackedMsgs, dispatch rate limits, availablePermits) and at its log.",
    ),
)

SILENT_NS = 5_000_000_000
"""Brokers deliver within milliseconds; rate limits and a restarted dispatcher take a second or two."""

TELL_NS = 1_000_000_000
"""A topic's receipts, and a consumer's deliveries, are told across connections once in so long, and at the end: the last is what counts."""

TOPICS_MAX = 10_000
"""Topics of producers on one connection whose latest receipt is remembered."""

PRODUCERS_MAX = 10_000
"""Producers on one connection known to send what is not delivered at once."""

REPLICATOR = "pulsar.repl."
"""How the names of producers begin that copy a topic to another cluster, where it has positions of its own."""

TOPIC_IDLE_NS = 600_000_000_000
"""A topic on which nothing is sent, received or awaited for ten minutes is judged."""


class Publications(ConnectionRule):
    """Tells what was published; see `pulsarscope.dissect.rules.ConnectionRule`."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._apart: set[int] = set()
        """Producers that send delayed messages or within transactions, whose receipts make no backlog yet, or copy another cluster's."""
        self._receipts: dict[str, tuple[Where, Position]] = {}
        self._told: dict[str, int] = {}

    def end(self, row: ConnectionRow, last: Where) -> None:  # noqa: ARG002 - what was published stays
        """See `ConnectionRule`."""
        for topic, (where, position) in self._receipts.items():
            self._emit(topic, where, position)

    def _send(self, row: FrameRow) -> None:
        metadata, fields = row.metadata or {}, row.fields or {}
        is_apart = "deliver_at_time" in metadata or "txnid_least_bits" in fields or "replicated_from" in metadata
        if is_apart and len(self._apart) < PRODUCERS_MAX:
            self._apart.add(fields.get("producer_id", -1))

    def _receipt(self, row: FrameRow) -> None:
        topic, fields = row.topic, row.fields or {}
        if topic is None or topic.startswith("non-persistent://") or fields.get("producer_id", -1) in self._apart:
            return
        if row.producer_name is not None and row.producer_name.startswith(REPLICATOR):
            return
        position = position_of(fields.get("message_id") or {})
        if position[0] < 0 or (topic not in self._receipts and len(self._receipts) >= TOPICS_MAX):
            return
        where = where_of(row)
        self._receipts[topic] = where, position
        if where.time - self._told.get(topic, -TELL_NS) >= TELL_NS:
            self._told[topic] = where.time
            self._emit(topic, where, position)

    def _emit(self, topic: str, where: Where, position: Position) -> None:
        self._context.emit_fact(BACKLOG, topic, where, "published", {"position": position, "server": host(self._context.server)})

    frames: ClassVar[Handlers] = {"SEND": _send, "SEND_RECEIPT": _receipt}


def evaluate_backlog(topic: str, facts: Sequence[Fact], report: ReportFinding) -> None:
    """See `pulsarscope.dissect.rules.KeyRule`: consumers that waited while the topic had messages that nobody of their subscription got."""
    backlog = [fact for fact in facts if fact.what in ("published", "backlog")]
    delivered = [fact for fact in facts if fact.what == "delivered"]
    ledgers = {(fact.values["server"], fact.values["position"][0]) for fact in delivered}
    said: set[tuple[str, int]] = set()
    for waiting in facts:
        if waiting.what != "waiting" or _holder(waiting) in said:
            continue
        others = [fact for fact in delivered if fact.values["subscription"] == waiting.values["subscription"]]
        if waiting.values["kind"] == "Key_Shared" and any(_holder(fact) != _holder(waiting) for fact in others):
            continue  # the keys of the backlog may be another's
        due = next((fact for fact in backlog if _is_near(fact, waiting, ledgers) and _is_due(fact, waiting, others)), None)
        if due is not None:
            said.add(_holder(waiting))
            _report_silent(topic, waiting, due, report)


def _holder(fact: Fact) -> tuple[str, int]:
    return fact.where.connection, fact.values["consumer_id"]


def _is_near(due: Fact, waiting: Fact, ledgers: set[tuple[str, int]]) -> bool:
    """Whether this consumer's broker has that message: another may have a topic of this name in a cluster of its own.

    `ledgers`: brokers, and the ledgers that they delivered from.
    """
    server = waiting.values["server"]
    return due.what == "backlog" or due.values["server"] == server or (server, due.values["position"][0]) in ledgers


def _is_due(due: Fact, waiting: Fact, others: Sequence[Fact]) -> bool:
    """Whether this consumer should have got that message long before it stopped waiting, and no other one of its subscription did."""
    until, last, position = waiting.where.time, waiting.values["last"], due.values["position"]
    if until - max(due.where.time, waiting.values["since"]) < SILENT_NS:
        return False
    if due.what == "backlog" and _holder(due) != _holder(waiting):
        return False
    if last is None:
        if due.what == "published" and due.where.time < waiting.values["since"]:
            return False  # it may begin behind it
    elif position <= last:
        return False
    return not any(fact.values["position"] >= position and fact.where.time <= until for fact in others)


def _report_silent(topic: str, waiting: Fact, due: Fact, report: ReportFinding) -> None:
    values: dict[str, Any] = waiting.values
    where = waiting.where._replace(time=values["since"])
    silence = waiting.where.time - max(due.where.time, where.time)
    ledger, entry = due.values["position"]
    text = f"{values['title']} has {count(values['permits'], 'permit')} and the topic has {ledger}:{entry}"
    text += f", but the broker sent nothing for {seconds(silence)}"
    if values["whole"] <= 0:
        text += f"; counted by whole entries, as old brokers do, {values['whole']} permits are left"
    text += "; the capture lacks bytes of this connection." if values["lost"] else ": the broker has to act."
    evidence = {
        "frames": [where.name, due.where.name],
        "consumer_id": values["consumer_id"],
        "consumer_name": values["consumer_name"],
        "topic": topic,
        "subscription": values["subscription"],
        "permits": values["permits"],
        "permits_by_whole_entries": values["whole"],
        "last_delivered": values["last"],
        "backlog": [ledger, entry],
        "silent_ns": silence,
        "act": "broker",
    }
    report("broker-silent", where, text, evidence)


BACKLOG = "backlog"
KEYS = (KeyRule(BACKLOG, TOPIC_IDLE_NS, evaluate_backlog),)
