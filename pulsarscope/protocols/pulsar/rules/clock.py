"""How far the clocks of producers and brokers are off the clock of the capture, from the times that they write into messages.

A time is written before its frame is seen, so clock − capture ≥ written − seen. What is seen before the time was written bounds the
difference from the other side: a broker stamps an entry after its SEND has passed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from pulsarscope.dissect.rules import ConnectionRule, Fact, Handlers, KeyRule, ReportFinding, RuleContext, Where, where_of
from pulsarscope.model.findings import NOTE, Code, table
from pulsarscope.model.records import ConnectionRow, FrameRow
from pulsarscope.protocols.pulsar.rules.journey import entry_key
from pulsarscope.protocols.pulsar.rules.phrases import count

CODES = table(
    Code(
        "clock-skew",
        NOTE,
        "session",
        "The clock of a client or broker and that of the capturing host differ.",
        "Latencies in Pulsar's own metrics and message times mix clocks and can even be negative; "
        "those of the capture do not. Look at NTP on that host.",
    ),
)

BROKER_CLOCK = "broker clock"
"""Name of the key rule; its keys are the endpoints of brokers."""

SKEW_NS = 500_000_000
"""A difference worth a note: hosts that keep time by NTP are within a few milliseconds."""

MILLISECOND_NS = 1_000_000
"""Times in messages are whole milliseconds, cut off."""

IDLE_NS = 3_600_000_000_000
"""Clocks drift slowly: an hour of facts is one estimate."""

SAMPLES_MAX = 100
"""Facts of each kind that a connection tells: the tightest bounds come with ordinary traffic, not with much of it."""


class Bound(NamedTuple):
    """One frame's word on a clock: `offset_ns` is written time minus capture time."""

    offset_ns: int
    where: Where


class Clocks(ConnectionRule):
    """See `pulsarscope.dissect.rules.ConnectionRule`."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._producer: Bound | None = None
        """The SEND that followed its publish time most closely."""
        self._sends = 0
        self._told = {"sent": 0, "delivered": 0}
        self._sent: dict[str, Where] = {}
        """SENDs whose receipt is awaited, by name; as many as are told."""

    def _send(self, row: FrameRow) -> None:
        metadata = row.metadata or {}
        published = metadata.get("publish_time", 0)
        if published > 0 and "replicated_from" not in metadata:  # a replicator keeps the times of another cluster
            self._sends += 1
            offset = published * MILLISECOND_NS - (row.time or 0)
            if self._producer is None or offset > self._producer.offset_ns:
                self._producer = Bound(offset, where_of(row))
        if len(self._sent) < SAMPLES_MAX and self._told["sent"] < SAMPLES_MAX:
            where = where_of(row)
            self._sent[where.name] = where

    def _receipt(self, row: FrameRow) -> None:
        sent = self._sent.pop(row.request or "", None) if self._sent else None
        if sent is not None:
            key = entry_key((row.fields or {}).get("message_id"))
            if key is not None:
                self._emit("sent", sent, {"entry": key})

    def _message(self, row: FrameRow) -> None:
        if self._told["delivered"] >= SAMPLES_MAX:
            return
        written = (row.broker_entry_metadata or {}).get("broker_timestamp", 0)
        key = entry_key((row.fields or {}).get("message_id"))
        if written > 0 and key is not None:
            self._emit("delivered", where_of(row), {"entry": key, "written": written * MILLISECOND_NS})

    def _emit(self, what: str, where: Where, values: dict[str, Any]) -> None:
        if self._told[what] < SAMPLES_MAX:
            self._told[what] += 1
            self._context.emit_fact(BROKER_CLOCK, self._context.server, where, what, values)

    def end(self, row: ConnectionRow, last: Where) -> None:
        """See `ConnectionRule`."""
        del row, last
        bound = self._producer
        if bound is None or abs(bound.offset_ns) <= SKEW_NS:
            return
        offset, where = bound
        clock, seconds = f"The clock of the producer at {self._context.client}", f"{abs(offset) / 1e9:.3f} s"
        if offset > 0:
            text = f"{clock} is at least {seconds} ahead of the capture's"
        else:
            text = f"{clock} is {seconds} behind the capture's, or it held each message so long"
        evidence = {"frames": [where.name], "host": self._context.client, "offset_ns": offset, "sends": self._sends}
        self._context.report("clock-skew", where, f"{text}: by the publish times of {count(self._sends, 'SEND')}.", evidence)

    frames: ClassVar[Handlers] = {"SEND": _send, "SEND_RECEIPT": _receipt, "MESSAGE": _message}


def evaluate(key: str, facts: Sequence[Fact], report: ReportFinding) -> None:
    """ReportFinding how far a broker's clock is off, from when entries were sent, stamped by the broker, and delivered."""
    sent = {fact.values["entry"]: fact.where for fact in facts if fact.what == "sent"}
    least: Bound | None = None
    most: tuple[int, Where, Where] | None = None
    entries = 0
    for where, what, values in facts:
        if what != "delivered":
            continue
        entries += 1
        offset = values["written"] - where.time
        if least is None or offset > least.offset_ns:
            least = Bound(offset, where)
        begin = sent.get(values["entry"])
        if begin is not None:
            offset = values["written"] + MILLISECOND_NS - begin.time
            if most is None or offset < most[0]:
                most = offset, begin, where
    if least is not None and least.offset_ns > SKEW_NS:
        offset, frames = least.offset_ns, [least.where]
        word = "ahead of"
    elif most is not None and most[0] < -SKEW_NS:
        offset, frames = most[0], list(most[1:])
        word = "behind"
    else:
        return
    evidence = {"frames": [where.name for where in frames], "host": key, "offset_ns": offset, "entries": entries}
    size = f"{abs(offset) / 1e9:.3f} s"
    text = f"The clock of the broker {key} is at least {size} {word} the capture's: by its times in {count(entries, 'message')}."
    report("clock-skew", frames[-1], text, evidence)


KEYS = (KeyRule(BROKER_CLOCK, IDLE_NS, evaluate),)
