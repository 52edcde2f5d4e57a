"""What clients of a topic go through: closed by the broker, sent elsewhere, refused, back again."""

from __future__ import annotations

from typing import Any, ClassVar

from pulsarscope.dissect.rules import ConnectionRule, Handlers, RuleContext, where_of
from pulsarscope.model.flow import SERVER
from pulsarscope.model.records import ExchangeRow, FrameRow
from pulsarscope.protocols.pulsar.rules.phrases import said
from pulsarscope.protocols.pulsar.session.exchanges import ANSWERED_BY

QUOTA_ERRORS = frozenset({"ProducerBlockedQuotaExceededError", "ProducerBlockedQuotaExceededException"})
TERMINATED_ERRORS = frozenset({"TopicTerminatedError"})
ERRORS = QUOTA_ERRORS | TERMINATED_ERRORS
"""Refusals that are told here."""

TOPICS, BROKERS = "clients-of-topic", "closings-of-broker"

CLIENTS_MAX = 10_000
"""Producers and consumers of one connection that are watched."""

_KINDS = {
    "PRODUCER": ("producer_id", "producer", "producer_name"),
    "SUBSCRIBE": ("consumer_id", "consumer", "consumer_name"),
    "CLOSE_PRODUCER": ("producer_id", "producer", ""),
    "CLOSE_CONSUMER": ("consumer_id", "consumer", ""),
}


class Departures(ConnectionRule):
    """See `pulsarscope.dissect.rules.ConnectionRule`."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._clients: dict[tuple[str, int], tuple[str, str]] = {}
        """Topic and name by kind and id."""
        self._asked: dict[str, tuple[str, int]] = {}
        """Kind and id by name of the request's frame."""
        self._sought: set[tuple[str, str | None]] = set()
        """Topics and subscriptions that were told to begin at another place, for which the broker closes their consumers."""

    def _ask(self, row: FrameRow) -> None:
        fields = row.fields or {}
        field, kind, named = _KINDS[row.command or ""]
        if len(self._clients) < CLIENTS_MAX and row.topic is not None:
            number = fields.get(field, -1)
            label = f"{kind} {fields.get(named) or number}"
            self._clients[kind, number] = row.topic, f"{label} of {row.subscription}" if row.subscription else label
            self._asked[where_of(row).name] = kind, number
            if len(self._asked) > CLIENTS_MAX:
                del self._asked[next(iter(self._asked))]

    def _answer(self, row: ExchangeRow) -> None:
        asked = self._asked.pop(where_of(row).name, None)
        client = None if asked is None else self._clients.get(asked)
        if client is None:
            self._refusal(row)
            return
        topic, name = client
        values = self._values(name, f"{row.response_file}:{row.response_packet}.{row.response_sub}")
        if row.status == "ok":
            # The place is the request's, the time of coming back the answer's.
            values["back"] = (row.time or 0) + (row.latency_ns or 0)
            self._context.emit_fact(TOPICS, topic, where_of(row), "back", values)
        elif row.status == "error":
            self._context.emit_fact(
                TOPICS, topic, where_of(row), "refused", values | {"error": row.error, "message": said(row.error_message)}
            )

    def _refusal(self, row: ExchangeRow) -> None:
        if row.topic is not None and (row.error in ERRORS or row.error == "ServiceNotReady"):
            values = self._values(f"{row.request} of {row.producer_name or self._context.client}", None)
            response = f"{row.response_file}:{row.response_packet}.{row.response_sub}"
            values |= {"frame": response, "error": row.error, "message": said(row.error_message)}
            self._context.emit_fact(TOPICS, row.topic, where_of(row), "refused", values)

    def _close(self, row: FrameRow) -> None:
        field, kind, _ = _KINDS[row.command or ""]
        fields = row.fields or {}
        number = fields.get(field, -1)
        client = self._clients.pop((kind, number), None)
        if row.direction != SERVER:
            return
        topic, name = client or (row.topic, f"{kind} {number}")
        if topic is not None:
            url = fields.get("assignedBrokerServiceUrl") or fields.get("assignedBrokerServiceUrlTls")
            closed = self._values(name, None) | {"url": url, "subscription": row.subscription}
            self._context.emit_fact(TOPICS, topic, where_of(row), "closed", closed)
            if (topic, row.subscription) not in self._sought:
                self._context.emit_fact(BROKERS, self._context.server, where_of(row), "closed", {"topic": topic, "kind": kind})

    def _seek(self, row: FrameRow) -> None:
        if row.topic is not None:
            if len(self._sought) < CLIENTS_MAX:
                self._sought.add((row.topic, row.subscription))
            self._context.emit_fact(TOPICS, row.topic, where_of(row), "seek", self._values("", None) | {"subscription": row.subscription})

    def _migrated(self, row: FrameRow) -> None:
        fields = row.fields or {}
        kind = str(fields.get("resource_type", "")).lower()
        topic, name = self._clients.get((kind, fields.get("resource_id", -1)), (None, ""))
        if topic is not None:
            url = fields.get("brokerServiceUrl") or fields.get("brokerServiceUrlTls")
            self._context.emit_fact(TOPICS, topic, where_of(row), "migrated", self._values(name, None) | {"url": url})

    def _at_end(self, row: FrameRow) -> None:
        number = (row.fields or {}).get("consumer_id", -1)
        topic, name = self._clients.get(("consumer", number), (row.topic, f"consumer {number}"))
        if topic is not None:
            self._context.emit_fact(TOPICS, topic, where_of(row), "end", self._values(name, None))

    def _values(self, name: str, frame: str | None) -> dict[str, Any]:
        return {"name": name, "client": self._context.client, "frame": frame}

    frames: ClassVar[Handlers] = {
        "PRODUCER": _ask,
        "SUBSCRIBE": _ask,
        "CLOSE_PRODUCER": _close,
        "CLOSE_CONSUMER": _close,
        "SEEK": _seek,
        "TOPIC_MIGRATED": _migrated,
        "REACHED_END_OF_TOPIC": _at_end,
    }
    exchanges: ClassVar[Handlers] = {
        **dict.fromkeys([*ANSWERED_BY, "SEND"], _refusal),
        "PRODUCER": _answer,
        "SUBSCRIBE": _answer,
    }
