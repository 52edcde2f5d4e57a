"""Requests that were refused, not answered, or answered late: the same for every family that has no rule of its own."""

from __future__ import annotations

from typing import Any, ClassVar

from pulsarscope.dissect.rules import ConnectionRule, Handlers, RuleContext, Where, where_of
from pulsarscope.model.findings import ERROR, NOTE, WARNING, Code, table
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FrameRow
from pulsarscope.protocols.pulsar.rules import departures, holders, lookups, schemas, transactions

CODES = table(
    Code(
        "request-failed",
        ERROR,
        "session",
        "The broker refused a request.",
        "The error and its message say why; the request's frame has what was asked for.",
    ),
    Code(
        "auth-failed",
        ERROR,
        "session",
        "The broker refused who the client is, or what it may do.",
        "Check the token or certificate and its expiry, and the permissions of its role on the namespace.",
    ),
    Code(
        "request-unanswered",
        WARNING,
        "session",
        "A request got no answer while the connection went on.",
        "Look at the broker's log at that time; a client gives up after its operation timeout.",
    ),
    Code(
        "response-unrequested",
        NOTE,
        "session",
        "An answer came to a request that is not in the capture.",
        "The capture began after the request, or lost it.",
    ),
    Code(
        "slow-exchange",
        WARNING,
        "session",
        "A request was answered late.",
        "Compare with the latencies of its family in the statistics, and with the broker's metrics at that time.",
    ),
)

SLOW_NS = 5_000_000_000
"""An answer later than this: operations time out after 30 s by default, and users notice long before."""

ANSWER_NS = 1_000_000_000
"""A request may still be answered within so long behind the end of the capture."""

AUTHENTICATION_ERRORS = frozenset({"AuthenticationError", "AuthorizationError"})

SPECIALISED_SENDS = holders.ERRORS | departures.ERRORS
SPECIALISED_ERRORS = SPECIALISED_SENDS | lookups.ERRORS | schemas.ERRORS
"""Refusals of which another rule tells more, of a SEND and of all else."""

WAITING_MAX = 1_000
"""Unanswered requests kept until the end of the connection."""


class Requests(ConnectionRule):
    """See `pulsarscope.dissect.rules.ConnectionRule`."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._unanswered: list[tuple[Where, str]] = []
        self._unrequested: dict[str, tuple[int, Where]] = {}
        """Count and first place by response: a capture of one side alone has nothing else."""
        self._queued: set[tuple[int | None, int | None, int | None]] = set()

    def _producer(self, row: FrameRow) -> None:
        """One that asks to wait for its turn is not slow when it does."""
        if (row.fields or {}).get("producer_access_mode") == "WaitForExclusive" and len(self._queued) < WAITING_MAX:
            self._queued.add((row.file, row.packet, row.sub))

    def _left_out(self, row: ExchangeRow) -> None:
        """A family with a rule of its own."""

    def _refused(self, row: ExchangeRow) -> None:
        if row.status != "error" or _told_elsewhere(row):
            return
        where = where_of(row)
        code = "auth-failed" if row.error in AUTHENTICATION_ERRORS else "request-failed"
        response = f"{row.response_file}:{row.response_packet}.{row.response_sub}"
        evidence = {"frames": [where.name, response], "request": row.request, "topic": row.topic, "error": row.error}
        self._context.report(code, where, f"{_asked(row)} was refused with {row.error}: {row.error_message or 'no message'}.", evidence)

    def _exchange(self, row: ExchangeRow) -> None:
        self._refused(row)
        where = where_of(row)
        evidence: dict[str, Any]
        asked = _asked(row)
        if row.status == "unanswered":
            if (row.file, row.packet, row.sub) not in self._queued and len(self._unanswered) < WAITING_MAX:
                self._unanswered.append((where, asked))
        elif row.status == "unrequested":
            count, first = self._unrequested.get(row.response or "", (0, where))
            self._unrequested[row.response or ""] = count + 1, first
        if row.latency_ns is not None and row.latency_ns > SLOW_NS and (row.file, row.packet, row.sub) not in self._queued:
            evidence = {"frames": [where.name], "request": row.request, "latency_ns": row.latency_ns}
            self._context.report("slow-exchange", where, f"{asked} was answered after {row.latency_ns / 1e9:.1f} s.", evidence)

    def end(self, row: ConnectionRow, last: Where) -> None:
        """See `ConnectionRule`."""
        for response, (count, first) in self._unrequested.items():
            requests = "a request that is" if count == 1 else f"requests that are, {count:,} times,"
            evidence: dict[str, Any] = {"frames": [first.name], "response": response, "count": count}
            self._context.report("response-unrequested", first, f"{response} answers {requests} not in the capture.", evidence)
        patience = SLOW_NS if row.closed == "open" else ANSWER_NS
        for where, asked in self._unanswered:
            waited = (row.end or last.time) - where.time
            if waited > patience:
                evidence = {"frames": [where.name], "waited_ns": waited}
                text = f"{asked} has no answer, though the connection went on for {waited / 1e9:.1f} s"
                self._context.report(
                    "request-unanswered", where, f"{text}{'; the capture lacks bytes' if self._context.lost else ''}.", evidence
                )

    frames: ClassVar[Handlers] = {"PRODUCER": _producer}
    # ACK: acks.py; PING: closing.py; late receipts: publishing.py
    exchanges: ClassVar[Handlers] = {"*": _exchange, "ACK": _left_out, "PING": _left_out, "SEND": _refused}


def _told_elsewhere(row: ExchangeRow) -> bool:
    return row.error in (SPECIALISED_SENDS if row.request == "SEND" else SPECIALISED_ERRORS) or transactions.told_here(row)


def _asked(row: ExchangeRow) -> str:
    return f"{row.request or 'A request'}{f' for {row.topic}' if row.topic else ''}"
