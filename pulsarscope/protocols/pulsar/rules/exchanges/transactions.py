"""Transactions from NEW_TXN to END_TXN: facts on those that stay open, and those with a refused step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import msgspec

from pulsarscope.dissect.contract.rules import (
    ColumnsHandlers,
    ConnectionRule,
    Fact,
    Handlers,
    KeyRule,
    ReportFinding,
    RuleContext,
    Where,
    name_of,
    where_of,
)
from pulsarscope.model.bounded_tables import NOTHING, remember
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FrameRow
from pulsarscope.model.text import plural
from pulsarscope.model.thresholds import Thresholds
from pulsarscope.protocols.pulsar.rules.evidence import add_sample, frame_names, may_lack, response_name
from pulsarscope.protocols.pulsar.session.exchanges import ANSWERED_BY
from pulsarscope.protocols.pulsar.text.formatting import error_message_text, error_text, host, listing

CODES = table(
    SESSION.error(
        "txn-failed",
        "A step of a transaction was refused.",
        "Abort it and start again. After a conflict, look for another consumer of the same messages; after TransactionNotFound, "
        "check the timeout.",
        to_act="the application",
    ),
    SESSION.error(
        "txn-unavailable",
        "A client wants transactions, but its broker has no transaction coordinator.",
        "Set transactionCoordinatorEnabled=true on the brokers, and run bin/pulsar initialize-transaction-coordinator-metadata once for "
        "the cluster; or turn transactions off in the client.",
        to_act="the broker's operators",
    ),
)

ERRORS = frozenset({"TransactionCoordinatorNotFound", "InvalidTxnStatus", "TransactionConflict", "TransactionNotFound"})
"""Errors that this rule reports, also of a SEND or an ACK."""

AUTHORIZATION_ERRORS = frozenset({"AuthenticationError", "AuthorizationError"})

STEPS = frozenset(
    {
        "TC_CLIENT_CONNECT_REQUEST",
        "NEW_TXN",
        "ADD_PARTITION_TO_TXN",
        "ADD_SUBSCRIPTION_TO_TXN",
        "END_TXN",
        "END_TXN_ON_PARTITION",
        "END_TXN_ON_SUBSCRIPTION",
    }
)
"""Requests for which this rule reports any error except missing permissions."""

COORDINATORS = "persistent://pulsar/system/transaction_coordinator_assign"
"""Topic whose partitions are the transaction coordinators; only a client with transactions asks for it."""

TRANSACTIONS = "transactions"

CONNECTIONS = "ends-of-client"
"""Key rule of a client's host, which gets the end of each of its connections."""

OPEN = "open-transactions"
"""Key rule, by neighbours: transactions without an END_TXN where they began, and what other connections know of them."""

NEIGHBOURS = 1_000
"""Transactions of one coordinator with consecutive numbers that are evaluated together: in a live run, later ones do not delay them."""

TRANSACTION = "transaction"
"""Kind of a fact of a client: the steps of a transaction that was not ended on a connection."""

FORGET_NS = 3_600_000_000_000
"""Time without facts after which a transaction is evaluated; it lasts a minute by default, and one left open has a fact at its end."""

REQUESTS_MAX = 1_000
"""Most requests, and most open transactions, remembered for one connection."""

EVIDENCE_STEPS_MAX = 30
"""Steps of one transaction that the evidence lists, half of them from the end."""

ENDED_MAX = 100
"""Most ends, on one connection, of transactions that did not begin there; they are facts for the rules about open ones."""

ELSEWHERE_MAX = 100
"""Latest transactions, of those that did not begin on a connection, whose steps there are facts for the rule of the coordinator."""

ITEMS_MAX = 10
"""Partitions or subscriptions of one step listed in its fact."""

_BITS = ("txnid_most_bits", "txnid_least_bits")

_WITHIN = ("ADD_PARTITION_TO_TXN", "ADD_SUBSCRIPTION_TO_TXN", "END_TXN_ON_PARTITION", "END_TXN_ON_SUBSCRIPTION", "SEND", "ACK")
"""Commands that are steps of a transaction when they carry its id."""


def transaction_of(fields: Mapping[str, Any]) -> str | None:
    """Return the transaction id as "(most bits,least bits)", the form of MessageRow; None when there is none."""
    return None if _BITS[0] not in fields or _BITS[1] not in fields else f"({fields[_BITS[0]]},{fields[_BITS[1]]})"


def _neighbours(transaction: str) -> str:
    """Return the key of a transaction and its neighbours: its coordinator, and the range of its number."""
    coordinator, _, number = transaction[1:-1].partition(",")
    return f"{coordinator}\n{int(number) // NEIGHBOURS}"


_MEMBERS = ("SEND", "ACK")
"""Other requests that may belong to a transaction."""

OTHER_REQUESTS = tuple(request for request in ANSWERED_BY if request not in STEPS and request != "ACK")
"""Requests of which no rule reports refusals whatever the error, as this one does for steps, and `acks.py` for an ACK."""


def is_transaction_error(row: ExchangeRow) -> bool:
    """Return True for an error that this rule reports."""
    if row.request in STEPS:
        return row.error not in AUTHORIZATION_ERRORS
    return row.error in ERRORS and row.request in _MEMBERS


def step_at(where: Where, step: Mapping[str, Any]) -> dict[str, Any]:
    """Return the evidence of a step."""
    return {"frame": where.name, "connection": where.connection, "command": step["command"], "about": step.get("about")}


class Steps(msgspec.Struct):
    """The steps of a transaction on one connection."""

    first: int
    latest: int
    """Times of the first and the latest step, in nanoseconds."""
    pause: int = 0
    """Longest time between two steps, in nanoseconds."""
    count: int = 0
    answered: int = 0
    """Time of the latest answer, in nanoseconds."""
    waiting: bool = False
    """True when a step has no answer."""
    commands: dict[str, int] = {}
    """Steps by command."""
    topics: list[str] = []
    samples: list[dict[str, Any]] = []

    def add(self, where: Where, step: Mapping[str, Any]) -> None:
        """Add a step."""
        self.count += 1
        command, now = step["command"], where.time
        self.commands[command] = self.commands.get(command, 0) + 1
        self.pause, self.latest = max(self.pause, now - self.latest), now
        add_sample(self.samples, step_at(where, step))
        for topic in step["topics"]:
            if topic not in self.topics:
                add_sample(self.topics, topic)


class TransactionRule(ConnectionRule):
    """The source of the facts on the transactions of one connection."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._requests: dict[str, tuple[str | None, int]] = {}
        """Transaction, or time to live of a new one in nanoseconds, by the frame name of the request."""
        self._open: dict[str, tuple[Where, int]] = {}
        """NEW_TXN_RESPONSE and time to live in nanoseconds of the transactions that began here."""
        self._steps: dict[str, Steps] = {}
        """Steps of transactions without an END_TXN on this connection."""
        self._ended = 0
        """Number of transactions that ended but did not begin here."""
        self._is_refused = False
        """True when the broker has said that it has no transaction coordinator."""
        self._longest = 0
        """Longest time from NEW_TXN_RESPONSE to END_TXN, in nanoseconds."""

    def _remember(self, row: FrameRow, transaction: str | None, ttl: int = 0) -> None:
        remember(self._requests, name_of(row), (transaction, ttl), REQUESTS_MAX)

    def _new(self, row: FrameRow) -> None:
        self._remember(row, None, (row.fields or {}).get("txn_ttl_millis", 0) * 1_000_000)

    def _new_response(self, row: FrameRow) -> None:
        fields = row.fields or {}
        transaction = transaction_of(fields)
        _, ttl = self._requests.get(row.request or "", (None, 0))
        if transaction is None or "error" in fields:
            return
        where = where_of(row)
        remember(self._open, transaction, (where, ttl), REQUESTS_MAX)
        self._context.emit_fact(TRANSACTIONS, transaction, where, "begun", {"command": "NEW_TXN", "ttl": ttl, "request": row.request})

    def _end_request(self, row: FrameRow) -> None:
        fields = row.fields or {}
        transaction = transaction_of(fields)
        self._remember(row, transaction)
        if transaction is not None:
            if (begun := self._open.pop(transaction, None)) is not None:
                self._longest = max(self._longest, row.time - begun[0].time)
            elif self._ended < ENDED_MAX:  # it may have begun on another connection
                self._ended += 1
                self._context.emit_fact(CONNECTIONS, host(self._context.client), where_of(row), TRANSACTION, {"txn": transaction})
                self._context.emit_fact(OPEN, _neighbours(transaction), where_of(row), "ending", {"txn": transaction})
            self._steps.pop(transaction, None)
            action = fields.get("txn_action", "COMMIT")
            self._context.emit_fact(TRANSACTIONS, transaction, where_of(row), "ending", {"command": "END_TXN", "about": action})

    def _step(self, row: FrameRow) -> None:
        fields = row.fields or {}
        if (transaction := transaction_of(fields)) is None:
            return
        self._remember(row, transaction)
        about: Any = fields.get("partitions") or fields.get("subscription") or row.topic
        named = [item.get("topic") if isinstance(item, dict) else item for item in about] if isinstance(about, list) else [row.topic]
        if row.command == "ACK":
            about = f"{row.topic} {row.subscription}"
        if isinstance(about, list):
            about = listing(
                [item if isinstance(item, str) else f"{item.get('topic')} {item.get('subscription')}" for item in about[:ITEMS_MAX]]
            )
        step = {"command": row.command, "about": about, "topics": [name for name in named[:ITEMS_MAX] if isinstance(name, str)]}
        self._context.emit_fact(TRANSACTIONS, transaction, where_of(row), "step", step)
        if (steps := self._steps.get(transaction)) is None:
            steps = Steps(row.time, row.time)
            remember(self._steps, transaction, steps, REQUESTS_MAX)
        steps.add(where_of(row), step)

    def _coordinators(self, row: FrameRow) -> None:
        fields = row.fields or {}
        if self._is_refused or row.topic != COORDINATORS or fields.get("response") != "Success" or fields.get("partitions"):
            return
        self._is_refused = True
        client, server = host(self._context.client), self._context.server
        text = f"Client {client} wants transactions, but broker {server} has no transaction coordinator: {COORDINATORS} has no partitions."
        where = where_of(row)
        evidence = {"frames": frame_names([row.request, where.name]), "client": client, "server": server}
        self._context.report("txn-unavailable", where, text, evidence)

    def _exchange(self, row: ExchangeRow) -> None:
        if not self._requests and row.status != "error":
            return
        where = where_of(row)
        transaction, _ = self._requests.pop(where.name, (None, 0))
        if (steps := self._steps.get(transaction or "")) is not None:
            steps.waiting |= row.status == "unanswered"
            steps.answered = max(steps.answered, row.time + (row.latency_ns or 0))
        if row.status != "error" or not is_transaction_error(row):
            return
        response, message = response_name(row), error_message_text(row.error_message)
        if transaction is not None:
            values = {"command": row.request, "about": row.topic, "error": row.error, "message": message, "response": response}
            self._context.emit_fact(TRANSACTIONS, transaction, where, "refused", values)
        else:
            evidence = {"frames": [where.name, response], "request": row.request, "error": row.error}
            text = f"{row.request} was refused with {error_text(row.error, message)}; no transaction is known for it."
            self._context.report("txn-failed", where, text, evidence)

    def end(self, row: ConnectionRow, last: Where) -> None:
        """Emit the transactions that are left open."""
        end = row.end
        for transaction, (where, ttl) in self._open.items():
            values = {
                "begun": [*where],
                "ttl": ttl,
                "until": end,
                "closed": None if row.closed == "open" else row.closed_by,
                "client": host(self._context.client),
                "lost": self._context.lost,
                "unseen": may_lack(self._context, where.time, end),
            }
            self._emit_open(transaction, last, self._steps.get(transaction), values)
        elsewhere = [transaction for transaction in self._steps if transaction not in self._open]
        for transaction in elsewhere[-ELSEWHERE_MAX:]:
            self._emit_open(transaction, last, self._steps[transaction], {})
        for transaction, steps in self._steps.items():
            begun = self._open.get(transaction)
            values = {
                "txn": transaction,
                "begun": None if begun is None else [*begun[0]],
                "ttl": 0 if begun is None else begun[1],
                "longest": self._longest,
                "first": steps.first,
                "latest": max(steps.latest, steps.answered),
                "pause": steps.pause,
                "count": steps.count,
                "waiting": steps.waiting,
                "topics": steps.topics,
                "frames": [step["frame"] for step in steps.samples],
                "decided": row.closed != "open",
                "unseen": may_lack(self._context, steps.first if begun is None else begun[0].time, end),
            }
            self._context.emit_fact(CONNECTIONS, host(self._context.client), last, TRANSACTION, values)

    def _emit_open(self, transaction: str, last: Where, steps: Steps | None, values: dict[str, Any]) -> None:
        steps = steps or Steps(0, 0)
        seen = {"txn": transaction, "commands": steps.commands, "topics": steps.topics, "steps": steps.samples}
        self._context.emit_fact(OPEN, _neighbours(transaction), last, "open", seen | values)

    def batch(self, rows: Sequence[Any], handle: Callable[[int], None]) -> None:
        """Skip commands outside transactions; see `ConnectionRule.batch`."""
        for index, row in enumerate(rows):
            if type(row) is ExchangeRow:
                if self._requests or row.status == "error":
                    handle(index)
            elif row.command not in {"SEND", "ACK"} or _BITS[0] in (row.fields or NOTHING):
                handle(index)

    def sends(self, _frames: Any, _handle: Callable[[int], None]) -> bool:
        """Skip commands outside transactions; see `ConnectionRule.columns`."""
        return not self._requests

    columns: ClassVar[ColumnsHandlers] = {"SEND": sends, "MESSAGE": sends}
    frames: ClassVar[Handlers] = {
        "NEW_TXN": _new,
        "NEW_TXN_RESPONSE": _new_response,
        "END_TXN": _end_request,
        "PARTITIONED_METADATA_RESPONSE": _coordinators,
        **dict.fromkeys(_WITHIN, _step),
    }
    exchanges: ClassVar[Handlers] = dict.fromkeys([*STEPS, *_MEMBERS], _exchange)


class TransactionHistory(NamedTuple):
    """Steps and refusals of one transaction."""

    transaction: str
    counts: Counter[str]
    """Steps by command."""
    steps: list[dict[str, Any]]
    refused: list[Fact]
    topics: list[str]
    """Topics of its steps, in their order."""

    @property
    def on_topics(self) -> str:
        """Topics as part of a sentence, with a leading space; empty if no step names one."""
        return f" on {listing(self.topics)}" if self.topics else ""

    @property
    def summary(self) -> str:
        """Number of steps by command."""
        return ", ".join(f"{times:,} {command}" for command, times in self.counts.items()) or "no step"

    def evidence(self, names: Sequence[str | None]) -> dict[str, Any]:
        """Return the evidence of any finding on the transaction."""
        steps = self.steps
        if len(steps) > EVIDENCE_STEPS_MAX:
            steps = steps[: EVIDENCE_STEPS_MAX // 2] + steps[-EVIDENCE_STEPS_MAX // 2 :]
        return {
            "frames": frame_names(names),
            "txn": self.transaction,
            "topic": next(iter(self.topics), None),
            "steps": steps,
            "counts": dict(self.counts),
        }


def _evaluate_transaction(transaction: str, facts: Sequence[Fact], report: ReportFinding, _thresholds: Thresholds) -> None:
    """Report a transaction with a refused step."""
    steps = [step_at(fact.where, fact.values) for fact in facts if fact.what != "refused"]
    counts = Counter(step["command"] for step in steps)
    topics = list(dict.fromkeys(topic for fact in facts for topic in fact.values.get("topics", ())))
    history = TransactionHistory(transaction, counts, steps, [fact for fact in facts if fact.what == "refused"], topics[:ITEMS_MAX])
    if history.refused:
        _report_failed(history, report)


def _report_failed(history: TransactionHistory, report: ReportFinding) -> None:
    first = history.refused[0]
    values = first.values
    times = f" ({plural(len(history.refused), 'refusal')} in all)" if len(history.refused) > 1 else ""
    about = f" for {values['about']}" if values["about"] else ""
    text = (
        f"{values['command']}{about} of transaction {history.transaction} was refused with "
        f"{error_text(values['error'], values['message'])}{times}; steps seen: {history.summary}."
    )
    names = [name for fact in history.refused for name in (fact.where.name, fact.values["response"])]
    error = {"error": values["error"], "count": len(history.refused)}
    report("txn-failed", first.where, text, history.evidence(names) | error)


KEYS = (KeyRule(TRANSACTIONS, FORGET_NS, _evaluate_transaction),)
