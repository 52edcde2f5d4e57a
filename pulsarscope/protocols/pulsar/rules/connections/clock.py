"""Offsets between the clock of the capture and the clocks of producers and brokers, from the times that these write into messages.

A time is written before its frame is captured, so that offset = clock − capture ≥ written − captured. A frame that is captured before the
time is written bounds the offset from the other side: a broker stamps an entry after its SEND has passed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

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
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.limits import DIAGNOSIS_NAMES_MAX, FACTS_PER_KEY_MAX
from pulsarscope.model.records import ConnectionRow, FrameRow
from pulsarscope.model.text import duration, plural
from pulsarscope.model.thresholds import Thresholds, in_seconds
from pulsarscope.model.units import MILLISECOND
from pulsarscope.protocols.pulsar.message_ids import entry_key

CODES = table(
    SESSION.note(
        "clock-skew",
        "The clock of a client or broker and that of the capturing host differ.",
        "Latencies in Pulsar's own metrics and message times mix clocks and can even be negative; those of the capture use one clock. "
        "Look at NTP on that host.",
    ),
)

THRESHOLDS = (
    in_seconds("clock-skew-seconds", 0.5, "Difference between two clocks; hosts that run NTP differ by a few milliseconds.", "clock-skew"),
)

BROKER_CLOCK = "broker clock"
"""Name of the key rule; its keys are the endpoints of brokers."""

PRODUCER_CLOCK = "producer clock"
"""Name of the key rule and of its only key; each host of producers has one clock for all its connections."""

IDLE_NS = 3_600_000_000_000
"""Time without facts after which a broker is evaluated: clocks drift slowly, so that an hour makes one estimate."""

SINGLE_HOSTS = 5
"""Hosts with wrong clocks, all ahead or all behind, that get a finding each; more get one together."""

SAMPLES_MAX = 100
"""Facts of each kind from one connection: ordinary traffic has the tightest bounds early."""


class OffsetBound(NamedTuple):
    """A bound on the offset of a clock."""

    offset_ns: int
    """Written time minus capture time."""
    frames: tuple[Where, ...]
    """Frames that prove the bound; the last one is the place of the finding."""


class ClockRule(ConnectionRule):
    """The source of the facts on the clocks of the producer and the broker."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._producer: OffsetBound | None = None
        """Bound from the SEND that followed its publish time most closely."""
        self._sends = 0
        """Number of SENDs with a publish time."""
        self._emitted = {"sent": 0, "delivered": 0}
        """Number of emitted facts by kind."""
        self._awaiting_receipt: dict[str, Where] = {}
        """SENDs without a receipt, by frame name."""

    def _send(self, row: FrameRow) -> None:
        metadata = row.metadata or {}
        published = metadata.get("publish_time", 0)
        if published > 0 and "replicated_from" not in metadata:  # a replicator keeps the times of another cluster
            self._sends += 1
            offset = published * MILLISECOND - row.time
            if self._producer is None or offset > self._producer.offset_ns:
                self._producer = OffsetBound(offset, (where_of(row),))
        if len(self._awaiting_receipt) < SAMPLES_MAX and self._emitted["sent"] < SAMPLES_MAX:
            where = where_of(row)
            self._awaiting_receipt[where.name] = where

    def _receipt(self, row: FrameRow) -> None:
        sent = self._awaiting_receipt.pop(row.request or "", None) if self._awaiting_receipt else None
        if sent is not None and (key := entry_key((row.fields or {}).get("message_id"))) is not None:
            self._emit("sent", sent, {"entry": key})

    def _message(self, row: FrameRow) -> None:
        if self._emitted["delivered"] >= SAMPLES_MAX:
            return
        written = (row.broker_entry_metadata or {}).get("broker_timestamp", 0)
        key = entry_key((row.fields or {}).get("message_id"))
        if written > 0 and key is not None:
            self._emit("delivered", where_of(row), {"entry": key, "written": written * MILLISECOND})

    def _emit(self, what: str, where: Where, values: dict[str, Any]) -> None:
        if self._emitted[what] < SAMPLES_MAX:
            self._emitted[what] += 1
            self._context.emit_fact(BROKER_CLOCK, self._context.server, where, what, values)

    def end(self, row: ConnectionRow, last: Where) -> None:  # noqa: ARG002 - the contract's
        """Emit the offset of the producer's clock."""
        if (bound := self._producer) is None or abs(bound.offset_ns) <= self._context.thresholds.ns("clock-skew-seconds"):
            return
        host = self._context.client.rpartition(":")[0]
        values = {"host": host, "offset": bound.offset_ns, "sends": self._sends}
        self._context.emit_fact(PRODUCER_CLOCK, PRODUCER_CLOCK, bound.frames[-1], PRODUCER_CLOCK, values)

    def batch(self, rows: Sequence[Any], handle: Callable[[int], None]) -> None:
        """Only count the SENDs that do not tighten the bound, once enough have been sampled; see `ConnectionRule.batch`."""
        for index, row in enumerate(rows):
            command = row.command
            if command == "SEND_RECEIPT":
                if self._awaiting_receipt:
                    handle(index)
                continue
            sampled = command == "SEND" and (self._emitted["sent"] >= SAMPLES_MAX or len(self._awaiting_receipt) >= SAMPLES_MAX)
            metadata, bound = row.metadata, self._producer
            if not sampled or metadata is None or bound is None or "replicated_from" in metadata:
                handle(index)
            elif (published := metadata.get("publish_time", 0)) > 0:
                if published * MILLISECOND - row.time > bound.offset_ns:
                    handle(index)
                else:
                    self._sends += 1

    def sends(self, frames: Any, handle: Callable[[int], None]) -> bool:
        """Only count the SENDs that do not tighten the bound, once enough have been sampled; see `ConnectionRule.columns`."""
        bound = self._producer
        if bound is None or (self._emitted["sent"] < SAMPLES_MAX and len(self._awaiting_receipt) < SAMPLES_MAX):
            return False
        timed, closest = frames.published()
        self._sends += timed
        if closest is not None and closest[1] > bound.offset_ns:
            self._sends -= 1
            handle(closest[0])
        for place in frames.answers(self._awaiting_receipt) if self._awaiting_receipt else ():
            handle(place)
        return True

    def deliveries(self, frames: Any, handle: Callable[[int], None]) -> bool:
        """Pass on deliveries that the broker has stamped, until enough have been sampled; see `ConnectionRule.columns`."""
        for place in frames.stamped if self._emitted["delivered"] < SAMPLES_MAX else ():
            if self._emitted["delivered"] >= SAMPLES_MAX:
                break
            handle(place)
        return True

    columns: ClassVar[ColumnsHandlers] = {"SEND": sends, "MESSAGE": deliveries}
    frames: ClassVar[Handlers] = {"SEND": _send, "SEND_RECEIPT": _receipt, "MESSAGE": _message}


def evaluate(key: str, facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report the offset of a broker's clock, from the times at which entries were sent, stamped by the broker, and delivered."""
    sent = {fact.values["entry"]: fact.where for fact in facts if fact.what == "sent"}
    least: OffsetBound | None = None
    most: OffsetBound | None = None
    delivered = [fact for fact in facts if fact.what == "delivered"]
    for where, _, values in delivered:
        offset = values["written"] - where.time
        if least is None or offset > least.offset_ns:
            least = OffsetBound(offset, (where,))
        if (begin := sent.get(values["entry"])) is not None:
            offset = values["written"] + MILLISECOND - begin.time  # times in messages are truncated
            if most is None or offset < most.offset_ns:
                most = OffsetBound(offset, (begin, where))
    skew_ns = thresholds.ns("clock-skew-seconds")
    if least is not None and least.offset_ns > skew_ns:
        bound, direction = least, "ahead of"
    elif most is not None and most.offset_ns < -skew_ns:
        bound, direction = most, "behind"
    else:
        return
    names = [where.name for where in bound.frames]
    evidence = {"frames": names, "host": key, "offset_ns": bound.offset_ns, "entries": len(delivered)}
    offset_text = f"at least {duration(abs(bound.offset_ns))} {direction} the capture's"
    text = f"The clock of the broker {key} is {offset_text}: by its times in {plural(len(delivered), 'message')}."
    report("clock-skew", bound.frames[-1], text, evidence)


def evaluate_producers(key: str, facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:  # noqa: ARG001 - of key rules
    """Report the clock offsets of hosts whose producers write wrong times, once for each vantage point; those of many hosts together."""
    by_source: dict[str | None, dict[str, list[Fact]]] = {}
    for fact in facts:
        by_source.setdefault(fact.where.source, {}).setdefault(fact.values["host"], []).append(fact)
    for by_host in by_source.values():
        clocks = [_alike(some) for some in by_host.values()]
        for ahead in (True, False):
            same = [clock for clock in clocks if (_offset(clock[0]) > 0) == ahead]
            for some in [same] if len(same) > SINGLE_HOSTS else [[clock] for clock in same]:
                _report_hosts(some, report, more=len(facts) >= FACTS_PER_KEY_MAX)


def _offset(fact: Fact) -> int:
    return int(fact.values["offset"])


def _alike(facts: Sequence[Fact]) -> list[Fact]:
    """Return the facts of a host with the offset that is closest to that of its clock, and that one first."""
    closest = max(facts, key=_offset)  # a time that was written later is closer to the clock
    return [closest, *(fact for fact in facts if fact is not closest and (_offset(fact) > 0) == (_offset(closest) > 0))]


def _report_hosts(clocks: Sequence[Sequence[Fact]], report: ReportFinding, *, more: bool) -> None:
    """Report hosts whose clocks deviate in the same direction; `more`: there may be others, which have been left out."""
    clocks = sorted(clocks, key=lambda clock: -abs(_offset(clock[0])))
    worst, hosts = clocks[0][0], [clock[0].values["host"] for clock in clocks]
    offset = duration(abs(_offset(worst)))
    alike = sorted((fact for clock in clocks for fact in clock), key=lambda fact: fact.where)
    sends = sum(fact.values["sends"] for fact in alike)
    evidence = {"frames": [worst.where.name], "host": hosts[0], "offset_ns": _offset(worst), "sends": sends}
    evidence["connections"] = [fact.where.connection for fact in alike[:DIAGNOSIS_NAMES_MAX]]
    if len(hosts) == 1:
        clock = f"The clock of the producers at {hosts[0]} is"
    else:
        evidence |= {"hosts": len(hosts), "names": hosts[:DIAGNOSIS_NAMES_MAX]}
        smallest = duration(abs(_offset(clocks[-1][0])))
        offset = offset if offset == smallest else f"{smallest} to {offset}"
        clock = f"The clocks of the producers at {len(hosts):,} hosts{' or more' if more else ''}, such as {hosts[0]}, are"
    if _offset(worst) > 0:
        text = f"{clock} at least {offset} ahead of the capture's"
    else:
        text = f"{clock} {offset} behind the capture's, or they held each message for so long"
    proof = f"{plural(sends, 'SEND')} on {plural(len(alike), 'connection')}"
    report("clock-skew", worst.where, f"{text}: by the publish times of {proof}.", evidence)


KEYS = (KeyRule(BROKER_CLOCK, IDLE_NS, evaluate), KeyRule(PRODUCER_CLOCK, IDLE_NS, evaluate_producers))
