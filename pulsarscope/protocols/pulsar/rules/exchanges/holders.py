"""Facts on exclusive access: requests for a producer's or consumer's place, their answers, and the end of each tenure."""

from __future__ import annotations

from typing import Any, ClassVar

from pulsarscope.dissect.contract.rules import ConnectionRule, Handlers, RuleContext, Where, name_of, where_of
from pulsarscope.model.bounded_tables import remember
from pulsarscope.model.flow import CLIENT, SERVER
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FrameRow
from pulsarscope.protocols.pulsar.rules.evidence import frame_names, response_name
from pulsarscope.protocols.pulsar.text.formatting import error_message_text, error_text
from pulsarscope.protocols.pulsar.topics import bounded_name

ERRORS = frozenset({"ProducerBusy", "ProducerFenced", "ConsumerBusy"})
"""Errors that the rules of this theme report."""

PRODUCERS, CONSUMERS = "producers-of-topic", "consumers-of-subscription"

QUEUED = "queued"
"""Kind of a fact of a topic: a producer waited for exclusive access until the end of its connection or the capture."""

REQUESTS_MAX = 1_000
"""Requests kept until their answer; clients have a few at a time."""

HOLDERS_MAX = 10_000
"""Most producers and consumers followed on one connection."""

_KEY_RULES = {"PRODUCER": PRODUCERS, "SUBSCRIBE": CONSUMERS}


def is_reported(row: ExchangeRow) -> bool:
    """Return True for a refusal that this rule reports."""
    return row.error in ERRORS and (row.request == "SEND" or (row.request in _KEY_RULES and row.topic is not None))


class HolderRule(ConnectionRule):
    """The source of the facts on places of producers and consumers of one connection: requested, granted, given up."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._requests: dict[str, dict[str, Any]] = {}
        """Values of requests by frame name."""
        self._holders: dict[tuple[str, int], str] = {}
        """Key of the facts, by key rule and id."""
        self._queued: list[tuple[str, Where, dict[str, Any]]] = []
        """Topic, request and values of producers that wait for exclusive access."""
        self._pinged: int | None = None
        """Time in nanoseconds of the first PING of the broker that the client has not answered."""

    def _producer(self, row: FrameRow) -> None:
        fields = row.fields or {}
        self._request(
            row,
            id=fields.get("producer_id", -1),
            name=row.producer_name,
            mode=fields.get("producer_access_mode", "Shared"),
            epoch=fields.get("epoch", 0),
            had_topic="topic_epoch" in fields,
        )

    def _subscribe(self, row: FrameRow) -> None:
        fields = row.fields or {}
        self._request(row, id=fields.get("consumer_id", -1), name=bounded_name(fields.get("consumer_name")), mode=fields.get("subType", ""))

    def _producer_success(self, row: FrameRow) -> None:
        """Note that a producer must wait for its turn, or the name that the broker chose for it."""
        if (request := self._requests.get(row.request or "")) is None:
            return
        if (row.fields or {}).get("producer_ready") is False:
            request["queued_by"] = name_of(row)
        elif not request["name"]:
            request["name"], request["is_chosen"] = row.producer_name, True

    def _request(self, row: FrameRow, **values: Any) -> None:
        remember(self._requests, name_of(row), values | {"client": self._context.client}, REQUESTS_MAX)

    def _response(self, row: ExchangeRow) -> None:
        where = where_of(row)
        request = self._requests.pop(where.name, None)
        rule = _KEY_RULES[row.request or ""]
        if request is None or row.topic is None:
            return
        if row.status == "unanswered" and "queued_by" in request and len(self._queued) < REQUESTS_MAX:
            self._queued.append((row.topic, where, request))
        key = row.topic if rule == PRODUCERS else f"{row.topic}\n{row.subscription}"
        # A producer may wait long for its turn: the time of its final answer decides.
        values = request | {"response": response_name(row), "answered": where.time + (row.latency_ns or 0)}
        if row.status == "ok":
            self._context.emit_fact(rule, key, where, "held", values)
            if len(self._holders) < HOLDERS_MAX:
                self._holders[rule, request["id"]] = key
        elif row.error in ERRORS:
            message = error_message_text(row.error_message)
            error = {"error": row.error, "message": message, "topic": row.topic, "subscription": row.subscription}
            self._context.emit_fact(rule, key, where, "refused", values | error)

    def _send_error(self, row: FrameRow) -> None:
        fields = row.fields or {}
        if fields.get("error") not in ERRORS:
            return
        where = where_of(row)
        text = f"A SEND of producer {row.producer_name or 'without a name'} to {row.topic or 'an unknown topic'} was refused"
        evidence = {"frames": frame_names([row.request, where.name]), "topic": row.topic, "producer_name": row.producer_name}
        error = error_text(fields["error"], fields.get("message"))
        self._context.report("producer-fenced", where, f"{text} with {error}.", evidence)

    def _close_producer(self, row: FrameRow) -> None:
        number = (row.fields or {}).get("producer_id", -1)
        self._close(row, PRODUCERS, number)
        for request in self._requests.values():
            if "queued_by" in request and request["id"] == number:
                request["until"] = row.time

    def _close_consumer(self, row: FrameRow) -> None:
        self._close(row, CONSUMERS, (row.fields or {}).get("consumer_id", -1))

    def _close(self, row: FrameRow, rule: str, number: int) -> None:
        if (key := self._holders.pop((rule, number), None)) is not None:
            left = row.time if row.direction == CLIENT else None
            self._context.emit_fact(rule, key, where_of(row), "closed", {"id": number, "until": row.time, "left_at": left})

    def _ping(self, row: FrameRow) -> None:
        if row.direction == SERVER and self._pinged is None:
            self._pinged = row.time

    def _pong(self, row: FrameRow) -> None:
        if row.direction == CLIENT:
            self._pinged = None

    def end(self, row: ConnectionRow, last: Where) -> None:
        """Emit the end of every tenure that the client has not given up."""
        end, dead_ns = row.end, self._context.thresholds.ns("dead-holder-seconds")
        dead_since = self._pinged if self._pinged is not None and end - self._pinged > dead_ns else None
        until = None if row.closed == "open" else end
        left = self._context.closing[1] if self._context.closing is not None and row.closed_by == CLIENT else None
        for (rule, number), key in self._holders.items():
            values = {"id": number, "last_active": last.time, "dead_since": dead_since, "until": until, "left_at": left}
            self._context.emit_fact(rule, key, last, "gone", values)
        for topic, where, request in self._queued:
            values = {"until": end, "lost": self._context.lost, **request, "since": where.time}
            self._context.emit_fact(PRODUCERS, topic, where._replace(time=end), QUEUED, values)

    frames: ClassVar[Handlers] = {
        "PRODUCER": _producer,
        "PRODUCER_SUCCESS": _producer_success,
        "SUBSCRIBE": _subscribe,
        "CLOSE_PRODUCER": _close_producer,
        "CLOSE_CONSUMER": _close_consumer,
        "UNSUBSCRIBE": _close_consumer,
        "SEND_ERROR": _send_error,
        "PING": _ping,
        "PONG": _pong,
    }
    exchanges: ClassVar[Handlers] = {"PRODUCER": _response, "SUBSCRIBE": _response}
