"""Transactions from NEW_TXN to END_TXN: those that stay open, and those of which a step was refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from pulsarscope.dissect.rules import ConnectionRule, Fact, Handlers, KeyRule, ReportFinding, RuleContext, Where, where_of
from pulsarscope.model.findings import ERROR, WARNING, Code, table
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FrameRow
from pulsarscope.protocols.pulsar.rules.phrases import count, frames, lacking, said, seconds, some

CODES = table(
    Code(
        "txn-open",
        WARNING,
        "session",
        "A transaction was neither committed nor aborted.",
        "Consumers wait behind it until its timeout aborts it: look for a client that died, or forgot to end it.",
    ),
    Code(
        "txn-failed",
        ERROR,
        "session",
        "A step of a transaction was refused.",
        "Abort it and begin anew; at a conflict look for who else acknowledged the same messages, at TransactionNotFound for the timeout.",
    ),
)

ERRORS = frozenset({"TransactionCoordinatorNotFound", "InvalidTxnStatus", "TransactionConflict", "TransactionNotFound"})
"""Refusals that are told here, whatever was asked."""

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
"""Requests of which any refusal is told here, but for a lack of rights."""

TRANSACTIONS = "transactions"

FORGET_NS = 3_600_000_000_000
"""Transactions last a minute by default; what one left open is told again when its connection ends."""

ASKED_MAX = 1_000
"""Requests, and open transactions, of one connection that are remembered."""

SHOWN_STEPS_MAX = 30
"""Steps of one transaction in the evidence."""

_BITS = ("txnid_most_bits", "txnid_least_bits")


def transaction_of(fields: Mapping[str, Any]) -> str | None:
    """(most bits,least bits), as messages name it; None: of no transaction."""
    return None if _BITS[0] not in fields or _BITS[1] not in fields else f"({fields[_BITS[0]]},{fields[_BITS[1]]})"


_WITHIN = ("ADD_PARTITION_TO_TXN", "ADD_SUBSCRIPTION_TO_TXN", "END_TXN_ON_PARTITION", "END_TXN_ON_SUBSCRIPTION", "SEND", "ACK")


class Transactions(ConnectionRule):
    """See `pulsarscope.dissect.rules.ConnectionRule`."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._asked: dict[str, tuple[str | None, int]] = {}
        """Transaction, and time to live in ns of a new one, by name of the request's frame."""
        self._open: dict[str, tuple[Where, int]] = {}
        """Begun here and not ended: NEW_TXN_RESPONSE's place, time to live in ns."""

    def _remember(self, row: FrameRow, transaction: str | None, ttl: int = 0) -> None:
        self._asked[where_of(row).name] = transaction, ttl
        if len(self._asked) > ASKED_MAX:
            del self._asked[next(iter(self._asked))]

    def _new(self, row: FrameRow) -> None:
        self._remember(row, None, (row.fields or {}).get("txn_ttl_millis", 0) * 1_000_000)

    def _begun(self, row: FrameRow) -> None:
        fields = row.fields or {}
        transaction = transaction_of(fields)
        _, ttl = self._asked.get(row.request or "", (None, 0))
        if transaction is None or "error" in fields:
            return
        where = where_of(row)
        self._open[transaction] = where, ttl
        if len(self._open) > ASKED_MAX:
            del self._open[next(iter(self._open))]
        self._context.emit_fact(TRANSACTIONS, transaction, where, "begun", {"command": "NEW_TXN", "ttl": ttl, "request": row.request})

    def _ending(self, row: FrameRow) -> None:
        fields = row.fields or {}
        transaction = transaction_of(fields)
        self._remember(row, transaction)
        if transaction is not None:
            self._open.pop(transaction, None)
            action = fields.get("txn_action", "COMMIT")
            self._context.emit_fact(TRANSACTIONS, transaction, where_of(row), "ending", {"command": "END_TXN", "about": action})

    def _step(self, row: FrameRow) -> None:
        transaction = transaction_of(row.fields or {})
        if transaction is None:
            return
        self._remember(row, transaction)
        fields = row.fields or {}
        about: Any = fields.get("partitions") or fields.get("subscription") or row.topic
        if row.command == "ACK":
            about = f"{row.topic} {row.subscription}"
        if isinstance(about, list):
            about = some([one if isinstance(one, str) else f"{one.get('topic')} {one.get('subscription')}" for one in about[:10]])
        self._context.emit_fact(TRANSACTIONS, transaction, where_of(row), "step", {"command": row.command, "about": about})

    def _exchange(self, row: ExchangeRow) -> None:
        if not self._asked and row.status != "error":
            return
        where = where_of(row)
        transaction, _ = self._asked.pop(where.name, (None, 0))
        if row.status != "error" or not told_here(row):
            return
        response = f"{row.response_file}:{row.response_packet}.{row.response_sub}"
        refused = {"command": row.request, "about": row.topic, "error": row.error, "message": said(row.error_message), "response": response}
        if transaction is not None:
            self._context.emit_fact(TRANSACTIONS, transaction, where, "refused", refused)
        else:
            evidence = {"frames": [where.name, response], "request": row.request, "error": row.error}
            text = f"{row.request} was refused with {row.error}: {said(row.error_message)}; no transaction is known for it."
            self._context.report("txn-failed", where, text, evidence)

    def end(self, row: ConnectionRow, last: Where) -> None:
        """See `ConnectionRule`."""
        end = row.end or last.time
        for transaction, (where, ttl) in self._open.items():
            left = {
                "begun": where.time,
                "frame": where.name,
                "ttl": ttl,
                "until": end,
                "closed": None if row.closed == "open" else row.closed_by,
                "lost": self._context.lost,
            }
            self._context.emit_fact(TRANSACTIONS, transaction, last, "left", left)

    frames: ClassVar[Handlers] = {
        "NEW_TXN": _new,
        "NEW_TXN_RESPONSE": _begun,
        "END_TXN": _ending,
        **dict.fromkeys(_WITHIN, _step),
    }
    exchanges: ClassVar[Handlers] = dict.fromkeys([*STEPS, "SEND", "ACK"], _exchange)


def told_here(row: ExchangeRow) -> bool:
    """Whether a refusal is one of a transaction."""
    return row.error in ERRORS or (row.request in STEPS and row.error not in ("AuthenticationError", "AuthorizationError"))


class Story(NamedTuple):
    """What is known of one transaction."""

    counts: Counter[str]
    """Steps by command."""
    steps: list[dict[str, Any]]
    refused: list[Fact]

    @property
    def so_far(self) -> str:
        """The steps in a few words."""
        return ", ".join(f"{times:,} {command}" for command, times in self.counts.items()) or "no step"


def _evaluate_transaction(transaction: str, facts: Sequence[Fact], report: ReportFinding) -> None:
    """One transaction from its beginning to its end, as far as the capture has them."""
    told = [fact for fact in facts if fact.what != "left"]
    steps = [
        {
            "frame": fact.where.name,
            "connection": fact.where.connection,
            "command": fact.values["command"],
            "about": fact.values.get("about"),
        }
        for fact in told
        if fact.what != "refused"
    ]
    counts = Counter(fact.values["command"] for fact in told if fact.what != "refused")
    story = Story(counts, steps, [fact for fact in told if fact.what == "refused"])
    if story.refused:
        _report_failed(transaction, story, report)
    left = next((fact for fact in facts if fact.what == "left"), None)
    if left is not None and not any(fact.what == "ending" for fact in facts):
        _report_open(transaction, story, left, report)


def _evidence(transaction: str, story: Story, names: Sequence[str | None]) -> dict[str, Any]:
    shown = (
        story.steps if len(story.steps) <= SHOWN_STEPS_MAX else story.steps[: SHOWN_STEPS_MAX // 2] + story.steps[-SHOWN_STEPS_MAX // 2 :]
    )
    return {"frames": frames(names), "txn": transaction, "steps": shown, "counts": dict(story.counts)}


def _report_failed(transaction: str, story: Story, report: ReportFinding) -> None:
    first = story.refused[0]
    values = first.values
    times = f" ({count(len(story.refused), 'refusal')} in all)" if len(story.refused) > 1 else ""
    about = f" for {values['about']}" if values["about"] else ""
    text = (
        f"{values['command']}{about} of transaction {transaction} was refused with {values['error']}: "
        f"{values['message']}{times}; seen of it: {story.so_far}."
    )
    names = [name for fact in story.refused for name in (fact.where.name, fact.values["response"])]
    extra = {"error": values["error"], "count": len(story.refused)}
    report("txn-failed", first.where, text, _evidence(transaction, story, names) | extra)


def _report_open(transaction: str, story: Story, left: Fact, report: ReportFinding) -> None:
    values = left.values
    age = values["until"] - values["begun"]
    late = bool(values["ttl"]) and age > values["ttl"]
    if not late and values["closed"] is None:
        return  # The capture ended before it had to.
    limit = f", its timeout is {seconds(values['ttl'])}" if values["ttl"] else ""
    closed = f"the {values['closed']} closed the connection" if values["closed"] else "its connection is open"
    text = (
        f"Transaction {transaction} has no END_TXN after {seconds(age)}{limit}; {closed}; seen of it: {story.so_far}"
        f"{lacking(lost=values['lost'])}."
    )
    extra = {"age_ns": age, "ttl_ns": values["ttl"], "closed_by": values["closed"]}
    file, packet, sub = _place(values["frame"])
    where = Where(left.where.source, file, packet, sub, values["begun"], left.where.connection)
    report("txn-open", where, text, _evidence(transaction, story, [values["frame"], *(step["frame"] for step in story.steps)]) | extra)


def _place(name: str) -> tuple[int, int, int]:
    file, _, rest = name.partition(":")
    packet, _, sub = rest.partition(".")
    return int(file), int(packet), int(sub)


KEYS = (KeyRule(TRANSACTIONS, FORGET_NS, _evaluate_transaction),)
