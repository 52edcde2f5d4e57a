"""Rules about Kafka 0.7 clients and brokers: refusals, missing answers, lost messages, stuck consumers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pulsarscope.dissect.contract.dissector_rules import Rules
from pulsarscope.dissect.contract.exchange_thresholds import SLOW_EXCHANGE, UNANSWERED, UNANSWERED_OPEN
from pulsarscope.dissect.contract.rules import ConnectionRule, Fact, Handlers, KeyRule, ReportFinding, RuleContext, Where, where_of
from pulsarscope.model.findings import ONE_SIDED, SESSION, join_codes, table
from pulsarscope.model.flow import SERVER
from pulsarscope.model.frame_name import frame_name
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FrameRow
from pulsarscope.model.text import duration
from pulsarscope.model.thresholds import Thresholds, in_seconds
from pulsarscope.protocols.kafka07 import log_rules
from pulsarscope.protocols.kafka07.commands import (
    ANSWERED_BY,
    FETCH_RESPONSE,
    MULTIFETCH_RESPONSE,
    OFFSET_OUT_OF_RANGE,
    REQUESTS,
    RESPONSES,
)
from pulsarscope.protocols.kafka07.summary import summary

CODES = table(
    SESSION.error(
        "request-failed",
        "The broker refused a request.",
        "The error says why; the request's frame shows what was asked for.",
        to_act="the application, or the broker's operators",
    ),
    SESSION.error(
        "offset-out-of-range",
        "A consumer asks for an offset that the broker's log does not have.",
        "The log was cleaned past it, or it was lost: compare with OFFSETS, and see autooffset.reset and log.retention.hours.",
        to_act="the consumer's application",
    ),
    SESSION.error(
        "fetch-too-small",
        "The next message is larger than the consumer's fetch size: the consumer is stuck.",
        "Raise fetch.size of the consumer above the size of the message. If none is so large, the offset is within one: compare OFFSETS.",
        to_act="the consumer's application",
    ),
    SESSION.warning(
        "connection-closed-by-broker",
        "The broker closed a connection on which requests were open.",
        "A broker of 0.7 closes on what it cannot read or do, and when it stops; its log says which.",
        to_act="the application, or the broker's operators",
    ),
    SESSION.note(
        "request-retried",
        "A request without an answer was sent again on a new connection.",
        "SimpleConsumer of 0.7 does so once after an error; see why the connection ended.",
    ),
    SESSION.warning(
        "request-unanswered",
        "A request got no answer while the connection went on.",
        "Look at the broker's log at that time; a client gives up after socket.timeout.ms.",
        ("silent-side",),
        to_act="the broker's operators",
    ),
    SESSION.note(
        "response-unrequested",
        "A response to a request that is not in the capture.",
        "The capture began after the request, or lost it. Without the request, the contents of the response are unknown.",
    ),
    SESSION.warning(
        "slow-exchange",
        "A request was answered late.",
        "Brokers of 0.7 answer at once with what they have: look at their disks and the network.",
        to_act="the broker's operators",
    ),
)

THRESHOLDS = (
    SLOW_EXCHANGE,
    UNANSWERED,
    UNANSWERED_OPEN,
    in_seconds(
        "request-retried-seconds",
        10,
        "Time within which a client repeats a request: at once, or when an attempt to connect has timed out.",
        "request-retried",
    ),
)

RETRY_IDLE_NS = 600_000_000_000
"""Time without facts after which a request is forgotten."""

REQUESTS_MAX = 1_000
"""Most unanswered requests, and most partitions with a stuck consumer, kept for one connection."""

RETRIES = "kafka07-retries"


class ExchangeRule(ConnectionRule):
    """A rule about refused, unanswered and late requests of one connection."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._unanswered: list[tuple[Where, str]] = []
        """Places and titles of requests."""
        self._answered = (-1, 0, 0)
        """File, packet and number of the latest answered request, or of an answer whose request is unknown."""
        self._unrequested: tuple[int, Where] | None = None
        """Number of unrequested responses, and the first one."""

    def _exchange(self, row: ExchangeRow) -> None:
        where = where_of(row)
        title = f"{row.request}{f' of {row.topic}' if row.topic else ''}"
        if row.status == "error":
            response = frame_name(row.response_file, row.response_packet, row.response_sub)
            code = "offset-out-of-range" if row.error == OFFSET_OUT_OF_RANGE else "request-failed"
            evidence = {"frames": [where.name, response], "request": row.request, "topic": row.topic, "error": row.error}
            self._context.report(code, where, f"{title} was refused with {row.error}.", evidence)
        elif row.status == "unanswered":
            if len(self._unanswered) < REQUESTS_MAX:
                self._unanswered.append((where, title))
        else:
            self._answered = max(self._answered, where[1:4])
        if row.status == "unrequested":
            count, first = self._unrequested or (0, where)
            self._unrequested = count + 1, first
        if row.latency_ns is not None and row.latency_ns > self._context.thresholds.ns("slow-exchange-seconds"):
            latency_evidence = {"frames": [where.name], "request": row.request, "latency_ns": row.latency_ns}
            self._context.report("slow-exchange", where, f"{title} was answered after {duration(row.latency_ns)}.", latency_evidence)

    def end(self, row: ConnectionRow, last: Where) -> None:  # noqa: ARG002 - the contract's
        """Report unrequested responses and unanswered requests."""
        if self._unrequested is not None:
            count, first = self._unrequested
            answers = "A response answers a request that is" if count == 1 else f"{count:,} responses answer requests that are"
            self._context.report("response-unrequested", first, f"{answers} not in the capture.", {"frames": [first.name], "count": count})
        limit = "request-unanswered-open-seconds" if row.closed == "open" else "request-unanswered-seconds"
        gap_note = "; the capture lacks bytes" if self._context.lost else ""
        # Answers come in order and have no number: after a lost or unreadable one, the last request seems to have none.
        lost = row.server_missing or (row.server_skipped and self._answered[0] < 0)
        for where, title in () if lost else self._unanswered:
            if where[1:4] < self._answered:
                continue
            waited = row.end - where.time
            evidence = {"frames": [where.name], "waited_ns": waited}
            if row.closed_by == SERVER:
                text = f"The broker closed the connection instead of answering {title}{gap_note}."
                self._context.report("connection-closed-by-broker", where, text, evidence)
            elif waited > self._context.thresholds.ns(limit):
                text = f"{title} has no answer, though the connection went on for {duration(waited)}{gap_note}."
                self._context.report("request-unanswered", where, text, evidence | self._context.thresholds.evidence(limit))

    exchanges: ClassVar[Handlers] = {"*": _exchange}


class RetryRule(ConnectionRule):
    """The source of the facts about requests of one connection that may be sent again on the next."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._last: tuple[Where, str] | None = None
        """Latest request until it is answered, and the key of the facts about its retry."""
        self._has_request = False

    def _request(self, row: FrameRow) -> None:
        command, where = row.command or "", where_of(row)
        self._last = None
        if command in ANSWERED_BY:
            key = f"{self._context.client.rpartition(':')[0]} {self._context.server} {command} {summary(row)}"
            self._last = where, key
            if not self._has_request:
                self._context.emit_fact(RETRIES, key, where, "first", {})
        self._has_request = True

    def _response(self, _row: FrameRow) -> None:
        self._last = None

    def end(self, row: ConnectionRow, last: Where) -> None:  # noqa: ARG002 - the contract's
        """Emit a request that may be sent again."""
        if self._last is not None and not self._context.reported(ONE_SIDED):
            where, key = self._last
            self._context.emit_fact(RETRIES, key, where, "unanswered", {})

    frames: ClassVar[Handlers] = dict.fromkeys(REQUESTS, _request) | dict.fromkeys(RESPONSES, _response)


class FetchRule(ConnectionRule):
    """A rule about fetches on one connection that return only a piece of the next message."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._stuck: set[tuple[Any, Any]] = set()
        """Topics and partitions with a reported finding."""

    def _response(self, row: FrameRow) -> None:
        fields, extra = row.fields or {}, row.extra or {}
        if row.status != "ok" or row.request is None:
            return
        for part, place in zip(fields.get("parts") or (fields,), extra.get("parts") or (extra,), strict=False):
            size = part.get("messages_size")
            topic, partition = place.get("topic", row.topic), place.get("partition")
            if not size or part.get("cut") != size or (topic, partition) in self._stuck or len(self._stuck) >= REQUESTS_MAX:
                continue
            self._stuck.add((topic, partition))
            where = where_of(row)
            text = f"The fetch of {topic} partition {partition} at offset {place.get('offset')} returned only {size:,} bytes of a larger "
            text += "message."
            evidence = {"frames": [row.request, where.name], "topic": topic, "partition": partition, "bytes": size}
            self._context.report("fetch-too-small", where, text, evidence)

    frames: ClassVar[Handlers] = {FETCH_RESPONSE: _response, MULTIFETCH_RESPONSE: _response}


def _evaluate_retries(_key: str, facts: Sequence[Fact], report: ReportFinding, thresholds: Thresholds) -> None:
    """Report an unanswered request that is repeated as the first one of a new connection."""
    unanswered: Fact | None = None
    for fact in facts:
        if fact.what == "unanswered":
            unanswered = fact
        elif unanswered is not None:
            delay = fact.where.time - unanswered.where.time
            if fact.where.connection != unanswered.where.connection and delay <= thresholds.ns("request-retried-seconds"):
                text = (
                    f"The request {unanswered.where.name} got no answer and was sent again as {fact.where.name}, {duration(delay)} later."
                )
                report("request-retried", fact.where, text, {"frames": [unanswered.where.name, fact.where.name]})
            unanswered = None


_NEED_BOTH_DIRECTIONS = frozenset({"request-unanswered", "response-unrequested"})
"""Findings about missing frames of the other side."""

RULES = Rules(
    join_codes((CODES, log_rules.CODES)),
    (ExchangeRule, RetryRule, FetchRule, log_rules.LogRule),
    (KeyRule(RETRIES, RETRY_IDLE_NS, _evaluate_retries), *log_rules.KEYS),
    thresholds=(*THRESHOLDS, *log_rules.THRESHOLDS),
    needs_both=_NEED_BOTH_DIRECTIONS,
)
