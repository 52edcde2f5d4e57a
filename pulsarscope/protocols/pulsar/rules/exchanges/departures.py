"""Facts on the clients of a topic that were closed by the broker, sent to another broker, refused, or connected again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

from pulsarscope.dissect.contract.rules import ColumnsHandlers, ConnectionRule, Handlers, RuleContext, Where, name_of, where_of
from pulsarscope.model.bounded_tables import NOTHING, remember
from pulsarscope.model.flow import SERVER
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FrameRow
from pulsarscope.model.thresholds import in_seconds
from pulsarscope.protocols.pulsar.rules.evidence import may_lack, response_name
from pulsarscope.protocols.pulsar.rules.exchanges.transactions import OTHER_REQUESTS
from pulsarscope.protocols.pulsar.session.exchanges import ANSWERED_BY
from pulsarscope.protocols.pulsar.text.formatting import error_message_text, host
from pulsarscope.protocols.pulsar.topics import bounded_name, named_topic

QUOTA_ERRORS = frozenset({"ProducerBlockedQuotaExceededError", "ProducerBlockedQuotaExceededException"})
TERMINATED_ERRORS = frozenset({"TopicTerminatedError"})
ERRORS = QUOTA_ERRORS | TERMINATED_ERRORS
"""Errors that the key rules of this theme report."""

FENCED = "fenced"
"""Refusal of a SEND to a topic that the broker is about to close; the client resends it when its producer is back."""

UNLOADING = "is being unloaded"
"""Part of the refusal of a LOOKUP by a broker that is about to give up the topic's bundle, as when it stops."""

THRESHOLDS = (
    in_seconds(
        "broker-down-closing-seconds",
        30,
        "Time from the last client that a broker closed to a request that it refused, and from the last such request to the end of the "
        "connection: a broker that stops gives up its topics first.",
        "broker-down",
    ),
)

REACH, CUT, WITHDRAWN = "brokers-of-client", "cut", "withdrawn"
"""Key rule about the brokers to which a client was sent, the fact on a connection that its broker closed, on which it fell silent, or on
which it refused requests shortly before the end as it gave up topics, and the code of the latter."""

TOPICS, BROKERS = "clients-of-topic", "closings-of-broker"
SEEN = "seen"
"""End of a client's connection, or of its part of the capture."""
AGAIN = "again"
"""A consumer that came back gets messages that its subscription had acknowledged."""
UNRETURNED = "unreturned"
"""A consumer that came back does not get messages again that it had not acknowledged."""

CLIENTS_MAX = 10_000
"""Most producers and consumers followed on one connection."""

_IDENTIFIERS = {
    "PRODUCER": ("producer_id", "producer", "producer_name"),
    "SUBSCRIBE": ("consumer_id", "consumer", "consumer_name"),
    "CLOSE_PRODUCER": ("producer_id", "producer", ""),
    "CLOSE_CONSUMER": ("consumer_id", "consumer", ""),
}
"""Id field, noun and name field by command."""


_REQUESTS = frozenset({*OTHER_REQUESTS, "SEND"})
"""Requests whose refusals the key rules of this theme report; those of all others only show that a broker gives up topics."""


def is_moving(error: str | None, message: str | None) -> bool:
    """Return True for a refusal by a broker that is about to close the topic, or does not serve it yet."""
    is_unloading = error == "MetadataError" and UNLOADING in (message or "")
    return error == "ServiceNotReady" or is_unloading or (error == "PersistenceError" and message == FENCED)


def is_reported(row: ExchangeRow) -> bool:
    """Return True for a refusal that the key rules of this theme report."""
    return row.error in ERRORS and row.topic is not None and row.request in _REQUESTS


class Closing(NamedTuple):
    """A CLOSE_PRODUCER or CLOSE_CONSUMER from the broker."""

    where: Where
    url: str | None
    """Broker to which the client is sent."""
    subscription: str | None
    unknown: bool = False
    """True when the client is from before the capture."""


class DepartureRule(ConnectionRule):
    """Source of the facts on the producers and consumers of one connection."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._clients: dict[tuple[str, int], tuple[str, str]] = NOTHING
        """Topic and name by noun and id."""
        self._requests: dict[str, tuple[str, int]] = NOTHING
        """Noun and id by name of the request's frame."""
        self._unnamed: dict[tuple[str, int], None] = NOTHING
        """Noun and id of producers that asked without a name."""
        self._chosen: dict[tuple[str, int], str] = NOTHING
        """First name that the broker chose, by topic and id of producers that always ask without a name, even when they come back."""
        self._unknown: dict[tuple[str, int], Closing] = NOTHING
        """By noun and id, clients from before the capture, until one comes back with this id and names its topic."""
        self._seeks: dict[tuple[str, str | None], None] = NOTHING
        """Topics and subscriptions with a SEEK, after which the broker closes their consumers."""
        self._sought: dict[int, None] = NOTHING
        """Ids of consumers from before the capture with a SEEK."""
        self._gave_up_at: int | None = None
        """Time at which the broker last closed a client, in nanoseconds."""
        self._refused_at: int | None = None
        """Time of the last refusal of a request by a broker that gives up topics."""
        self._moving: dict[str, int] = NOTHING
        """Time of the first refusal of topics that move, in nanoseconds."""

    def _request(self, row: FrameRow) -> None:
        fields = row.fields or {}
        id_field, noun, name_field = _IDENTIFIERS[row.command or ""]
        if len(self._clients) < CLIENTS_MAX and row.topic is not None:
            number = fields.get(id_field, -1)
            chosen = self._chosen.get((row.topic, number)) if noun == "producer" else None
            name = f"{noun} {bounded_name(fields.get(name_field)) or chosen or number}"
            if noun == "producer" and not fields.get(name_field):
                self._unnamed = self._unnamed or {}
                self._unnamed[noun, number] = None
            else:
                self._unnamed.pop((noun, number), None)
            self._clients, self._requests = self._clients or {}, self._requests or {}
            self._clients[noun, number] = client = row.topic, f"{name} of {row.subscription}" if row.subscription else name
            if (closing := self._unknown.pop((noun, number), None)) is not None:
                self._closed(*client, noun, closing._replace(subscription=row.subscription))
            remember(self._requests, name_of(row), (noun, number), CLIENTS_MAX)

    def _named(self, row: FrameRow) -> None:
        """Take the name that the broker chose for a producer, which the producer uses when it comes back."""
        request = self._requests.get(row.request or "")
        name = bounded_name((row.fields or {}).get("producer_name"))
        if name and request is not None and (client := self._clients.get(request)) is not None and client[1] == f"producer {request[1]}":
            self._clients[request] = client[0], f"producer {name}"
            self._chosen = self._chosen or {}
            remember(self._chosen, (client[0], request[1]), name, CLIENTS_MAX)

    def _response(self, row: ExchangeRow) -> None:
        where = where_of(row)
        request = self._requests.pop(where.name, None)
        client = None if request is None else self._clients.get(request)
        if client is None:
            self._refusal(row)
            return
        self._note_error(row)
        topic, name = client
        response = response_name(row)
        if row.status == "ok":
            # The place is that of the request; the time of coming back is that of the answer.
            back = where.time + (row.latency_ns or 0)
            self._emit(topic, where, "back", name, frame=response, back=back, subscription=row.subscription, **self._asked(request))
        elif row.status == "error":
            self._emit_refusal(topic, name, row, **self._asked(request))

    def _note_error(self, row: ExchangeRow) -> None:
        if row.error is None:
            return
        now, latest_ns = row.time + (row.latency_ns or 0), self._context.thresholds.ns("broker-down-closing-seconds")
        gives_up = self._gave_up_at is not None and now - self._gave_up_at < latest_ns
        if gives_up or is_moving(row.error, row.error_message):
            self._refused_at = now

    def _refusal(self, row: ExchangeRow) -> None:
        self._note_error(row)
        is_moved = named_topic(row.topic) is not None and row.request in _REQUESTS and is_moving(row.error, row.error_message)
        if row.topic is not None and (is_moved or is_reported(row)):
            self._emit_refusal(row.topic, f"{row.request} of {row.producer_name or self._context.client}", row)

    def _close(self, row: FrameRow) -> None:
        id_field, noun, _ = _IDENTIFIERS[row.command or ""]
        fields = row.fields or {}
        number = fields.get(id_field, -1)
        client = self._clients.pop((noun, number), None)
        if row.direction != SERVER:
            if client is not None:
                self._emit(client[0], where_of(row), "left", client[1])
            return
        topic, name = client or (named_topic(row.topic), f"{noun} {number}")
        url = fields.get("assignedBrokerServiceUrl") or fields.get("assignedBrokerServiceUrlTls")
        if topic is not None:
            self._closed(topic, name, noun, Closing(where_of(row), url, row.subscription), **self._asked((noun, number)))
        elif self._context.lost and number not in self._sought:
            self._unknown = self._unknown or {}
            remember(self._unknown, (noun, number), Closing(where_of(row), url, None, unknown=True), CLIENTS_MAX)

    def _asked(self, client: tuple[str, int] | None) -> dict[str, Any]:
        """Return the id of a producer that asked without a name. On another connection, only this id identifies it."""
        return {"asked": client[1]} if client is not None and client in self._unnamed else {}

    def _closed(self, topic: str, name: str, noun: str, closing: Closing, **asked: Any) -> None:
        values = {"url": closing.url, "subscription": closing.subscription, "noun": noun, "unknown": closing.unknown, **asked}
        self._emit(topic, closing.where, "closed", name, **values)
        if (topic, closing.subscription) not in self._seeks:
            self._gave_up_at = closing.where.time
            self._context.emit_fact(BROKERS, self._context.server, closing.where, "closed", {"topic": topic, "kind": noun})

    def _seek(self, row: FrameRow) -> None:
        if named_topic(row.topic) is None:
            self._sought = self._sought or {}
            remember(self._sought, (row.fields or {}).get("consumer_id", -1), None, CLIENTS_MAX)
        elif row.topic is not None:
            if len(self._seeks) < CLIENTS_MAX:
                self._seeks = self._seeks or {}
                self._seeks[row.topic, row.subscription] = None
            self._emit(row.topic, where_of(row), "seek", "", subscription=row.subscription)

    def _migrated(self, row: FrameRow) -> None:
        fields = row.fields or {}
        noun = str(fields.get("resource_type", "")).lower()
        topic, name = self._clients.get((noun, fields.get("resource_id", -1)), (None, ""))
        if topic is not None:
            url = fields.get("brokerServiceUrl") or fields.get("brokerServiceUrlTls")
            self._emit(topic, where_of(row), "migrated", name, url=url)

    def _end_of_topic(self, row: FrameRow) -> None:
        number = (row.fields or {}).get("consumer_id", -1)
        topic, name = self._clients.get(("consumer", number), (row.topic, f"consumer {number}"))
        if topic is not None:
            self._emit(topic, where_of(row), "end", name)

    def _deletion(self, row: FrameRow) -> None:
        """Emit that topics of clients are deleted, at the broker's notification to a pattern consumer."""
        deleted = set((row.fields or {}).get("deleted_topics", ()))
        for topic in dict.fromkeys(topic for topic, _ in self._clients.values() if topic in deleted):
            self._emit(topic, where_of(row), "deleted", "")

    def end(self, row: ConnectionRow, last: Where) -> None:
        """Emit that the clients of a closed connection are gone, and how long clients of a moving topic were seen."""
        latest_ns = self._context.thresholds.ns("broker-down-closing-seconds")
        if self._refused_at is not None and row.closed != "open" and row.end - self._refused_at < latest_ns:
            self._context.emit_fact(REACH, host(self._context.client), last, CUT, {"code": WITHDRAWN})
        for topic, since in self._moving.items():
            unseen = may_lack(self._context, since, row.end) or may_lack(self._context, since, row.end, SERVER)
            self._emit(topic, last._replace(time=row.end), SEEN, "", open=row.closed == "open", unseen=unseen)
        if row.closed != "open":
            for topic, name in self._clients.values():
                self._emit(topic, last._replace(time=row.end), "left", name)

    def _emit(self, topic: str, where: Where, what: str, name: str, **values: Any) -> None:
        self._context.emit_fact(TOPICS, topic, where, what, {"name": name, "client": self._context.client, **values})

    def _emit_refusal(self, topic: str, name: str, row: ExchangeRow, **asked: Any) -> None:
        message = error_message_text(row.error_message)
        if is_moving(row.error, row.error_message) and len(self._moving) < CLIENTS_MAX:
            self._moving = self._moving or {}
            self._moving.setdefault(topic, row.time)
        answer = {"frame": response_name(row), "error": row.error, "message": message, **asked}
        self._emit(topic, where_of(row), "refused", name, request=row.request, **answer)

    def batch(self, rows: Sequence[Any], handle: Callable[[int], None]) -> None:
        """Skip the messages that are not refused; see `ConnectionRule.batch`."""
        for index, row in enumerate(rows):
            if type(row) is not ExchangeRow or row.error is not None or row.request not in {"SEND", "ACK"}:
                handle(index)

    def sends(self, _frames: Any, _handle: Callable[[int], None]) -> bool:
        """Skip the answered SENDs; see `ConnectionRule.columns`."""
        return True

    columns: ClassVar[ColumnsHandlers] = {"SEND": sends}
    frames: ClassVar[Handlers] = {
        "PRODUCER": _request,
        "PRODUCER_SUCCESS": _named,
        "SUBSCRIBE": _request,
        "CLOSE_PRODUCER": _close,
        "CLOSE_CONSUMER": _close,
        "SEEK": _seek,
        "TOPIC_MIGRATED": _migrated,
        "REACHED_END_OF_TOPIC": _end_of_topic,
        "WATCH_TOPIC_UPDATE": _deletion,
    }
    exchanges: ClassVar[Handlers] = {
        **dict.fromkeys([*ANSWERED_BY, "CONNECT", "SEND"], _refusal),
        "PRODUCER": _response,
        "SUBSCRIBE": _response,
    }
