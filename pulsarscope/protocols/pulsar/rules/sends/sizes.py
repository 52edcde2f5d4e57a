"""Entries larger than the broker accepts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from pulsarscope.model.flow import SERVER
from pulsarscope.model.limits import DIAGNOSIS_NAMES_MAX
from pulsarscope.model.records import ConnectionRow, FrameRow
from pulsarscope.model.text import duration, plural
from pulsarscope.model.thresholds import Thresholds
from pulsarscope.model.units import SECOND
from pulsarscope.protocols.pulsar.rules.evidence import SAMPLES_MAX, frame_names
from pulsarscope.protocols.pulsar.text.formatting import host, listing

CODES = table(
    SESSION.error(
        "message-too-large",
        "A SEND is larger than the broker, or a policy of its topic, allows.",
        "The broker refuses it or closes the connection: use chunking or compression, or raise maxMessageSize on all brokers, or of the "
        "topic's policies. Until then the client sends it again on each new connection, and nothing behind it gets through.",
        ("connection-closed-by-broker", "connection-reset", "reconnect-loop", "request-failed", "send-unanswered"),
        to_act="the producer's application, or the broker's operators",
    ),
)

LARGE = "large-messages"
"""Key rule, by client host, topic, producer and sequence id of the first SEND above the limit."""

FORGET_NS = 600 * SECOND
"""Time without such a SEND after which a message is evaluated: ten of the client's longest waits."""


class SizeRule(ConnectionRule):
    """A rule about the size of the SENDs of one connection."""

    __slots__ = ("_context", "_count", "_exceeded", "_first", "_largest", "_limit", "_producers", "_sends")

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._limit: int | None = None
        """CONNECTED.max_message_size in bytes."""
        self._exceeded = 0
        """The limit that the last reported SEND exceeded: another CONNECTED may announce a different limit, or none."""
        self._sends: tuple[Where, ...] = ()
        """First SENDs above the limit."""
        self._count = self._largest = 0
        """Number of SENDs above the limit, and the largest in bytes of payload."""
        self._first = ""
        """Client host, topic, producer and sequence id of the first of these SENDs."""
        self._producers: dict[str, None] = NOTHING
        """Producers of these SENDs, in order."""

    def _connected(self, row: FrameRow) -> None:
        limit = (row.fields or {}).get("max_message_size")
        self._limit = limit if isinstance(limit, int) and limit > 0 else None

    def _send(self, row: FrameRow) -> None:
        size = row.payload_size or 0
        if self._limit is None or size <= self._limit:
            return
        self._count += 1
        self._exceeded = self._limit
        self._largest = max(self._largest, size)
        client = host(self._context.client) if row.producer_name else self._context.client
        names = client, row.topic, row.producer_name, (row.fields or NOTHING).get("sequence_id")
        self._first = self._first or "\n".join(map(str, names))
        if len(self._sends) < SAMPLES_MAX:
            self._sends += (where_of(row),)
            self._producers = self._producers or {}
            self._producers[f"{row.producer_name or 'an unnamed producer'} to {row.topic or 'an unknown topic'}"] = None

    def end(self, row: ConnectionRow, last: Where) -> None:  # noqa: ARG002 - the contract's
        """Emit the SENDs above the limit."""
        if self._sends:
            sends = f"{plural(self._count, 'SEND')} of {self._context.client} ({listing([*self._producers])})"
            text = f"{sends} with up to {self._largest:,} bytes of payload: the broker allows {self._exceeded:,}."
            evidence = {
                "frames": frame_names(where.name for where in self._sends),
                "count": self._count,
                "largest": self._largest,
                "max_message_size": self._exceeded,
            }
            values = {"text": text, "evidence": evidence, "closed": row.closed_by == SERVER}
            self._context.emit_fact(LARGE, self._first, self._sends[0], "sent", values)

    def batch(self, rows: Sequence[Any], handle: Callable[[int], None]) -> None:
        """Skip the SENDs within the limit; see `ConnectionRule.batch`."""
        for index, row in enumerate(rows):
            if row.command != "SEND" or (self._limit is not None and (row.payload_size or 0) > self._limit):
                handle(index)

    def sends(self, frames: Any, _handle: Callable[[int], None]) -> bool:
        """Skip the SENDs within the limit; see `ConnectionRule.columns`."""
        return self._limit is None or frames.largest <= self._limit

    columns: ClassVar[ColumnsHandlers] = {"SEND": sends}
    frames: ClassVar[Handlers] = {"CONNECTED": _connected, "SEND": _send}


def _evaluate(_key: str, facts: Sequence[Fact], report: ReportFinding, _thresholds: Thresholds) -> None:
    """Report a message above the limit, and on how many connections it was sent again."""
    first, *again = facts
    text, evidence = first.values["text"], first.values["evidence"]
    if again:
        closed = sum(fact.values["closed"] for fact in facts)
        went_on = duration(again[-1].where.time - first.where.time)
        text += f" The client sent it again on {plural(len(again), 'later connection')}, until {went_on} after the first time"
        text += f"; the broker closed {closed:,} of the {len(facts):,} connections." if closed else "."
        connections = [fact.where.connection for fact in facts[:DIAGNOSIS_NAMES_MAX]]
        evidence = evidence | {"connections": connections, "times": len(facts), "closed": closed}
    report("message-too-large", first.where, text, evidence)


KEYS = (KeyRule(LARGE, FORGET_NS, _evaluate, early=True),)
