"""Who asks for a place as a producer of a topic or a consumer of a subscription, who gets it, and until when."""

from __future__ import annotations

from typing import Any, ClassVar

from pulsarscope.dissect.rules import ConnectionRule, Handlers, RuleContext, Where, where_of
from pulsarscope.model.flow import CLIENT, SERVER
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FrameRow
from pulsarscope.protocols.pulsar.rules.phrases import frames, said

ERRORS = frozenset({"ProducerBusy", "ProducerFenced", "ConsumerBusy"})
"""Refusals that are told here."""

PRODUCERS, CONSUMERS = "producers-of-topic", "consumers-of-subscription"

ASKED_MAX = 1_000
"""Requests kept until their answer; clients have a few on the way."""

HELD_MAX = 10_000
"""Producers and consumers of one connection that are watched."""

PING_NS = 10_000_000_000
"""A PING without a PONG for so long: round trips, and pauses of the garbage collector, are shorter."""

_KINDS = {"PRODUCER": PRODUCERS, "SUBSCRIBE": CONSUMERS}


class Holders(ConnectionRule):
    """Tells who asked for a place, who got it, and when it was free again. See `pulsarscope.dissect.rules.ConnectionRule`."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._asked: dict[str, dict[str, Any]] = {}
        """By name of the request's frame."""
        self._held: dict[tuple[str, int], tuple[str, dict[str, Any]]] = {}
        """Key and description, by kind and id."""
        self._pinged: int | None = None
        """Time of the first PING of the broker that the client has not answered."""

    def _ask_producer(self, row: FrameRow) -> None:
        fields = row.fields or {}
        self._ask(
            row,
            id=fields.get("producer_id", -1),
            name=fields.get("producer_name"),
            mode=fields.get("producer_access_mode", "Shared"),
            epoch=fields.get("epoch", 0),
        )

    def _ask_consumer(self, row: FrameRow) -> None:
        fields = row.fields or {}
        self._ask(row, id=fields.get("consumer_id", -1), name=fields.get("consumer_name"), mode=fields.get("subType", ""))

    def _ask(self, row: FrameRow, **asked: Any) -> None:
        self._asked[where_of(row).name] = asked | {"client": self._context.client}
        if len(self._asked) > ASKED_MAX:
            del self._asked[next(iter(self._asked))]

    def _answer(self, row: ExchangeRow) -> None:
        where = where_of(row)
        asked = self._asked.pop(where.name, None)
        kind = _KINDS[row.request or ""]
        if asked is None or row.topic is None:
            return
        key = row.topic if kind == PRODUCERS else f"{row.topic}\n{row.subscription}"
        response = f"{row.response_file}:{row.response_packet}.{row.response_sub}"
        # A producer may wait long for its turn: what counts is when it was answered at last.
        answered = {"response": response, "answered": where.time + (row.latency_ns or 0)}
        if row.status == "ok":
            self._context.emit_fact(kind, key, where, "held", asked | answered)
            if len(self._held) < HELD_MAX:
                self._held[kind, asked["id"]] = key, asked
        elif row.error in ERRORS:
            refused = {"error": row.error, "message": said(row.error_message), "topic": row.topic, "subscription": row.subscription}
            self._context.emit_fact(kind, key, where, "refused", asked | answered | refused)

    def _send_error(self, row: FrameRow) -> None:
        fields = row.fields or {}
        if fields.get("error") not in ERRORS:
            return
        where = where_of(row)
        text = f"A SEND of producer {row.producer_name or 'without a name'} to {row.topic or 'an unknown topic'} was refused"
        evidence = {"frames": frames([row.request, where.name]), "topic": row.topic, "producer_name": row.producer_name}
        why = f"{fields['error']}: {said(fields.get('message'))}"
        self._context.report("producer-fenced", where, f"{text} with {why}.", evidence)

    def _close_producer(self, row: FrameRow) -> None:
        self._close(row, PRODUCERS, (row.fields or {}).get("producer_id", -1))

    def _close_consumer(self, row: FrameRow) -> None:
        self._close(row, CONSUMERS, (row.fields or {}).get("consumer_id", -1))

    def _close(self, row: FrameRow, kind: str, number: int) -> None:
        held = self._held.pop((kind, number), None)
        if held is not None:
            self._context.emit_fact(kind, held[0], where_of(row), "closed", {"id": number, "until": row.time})

    def _ping(self, row: FrameRow) -> None:
        if row.direction == SERVER and self._pinged is None:
            self._pinged = row.time

    def _pong(self, row: FrameRow) -> None:
        if row.direction == CLIENT:
            self._pinged = None

    def end(self, row: ConnectionRow, last: Where) -> None:
        """See `ConnectionRule`."""
        end = row.end or last.time
        dead = self._pinged if self._pinged is not None and end - self._pinged > PING_NS else None
        for (kind, number), (key, _) in self._held.items():
            until = None if row.closed == "open" else end
            self._context.emit_fact(kind, key, last, "gone", {"id": number, "spoke": last.time, "dead": dead, "until": until})

    frames: ClassVar[Handlers] = {
        "PRODUCER": _ask_producer,
        "SUBSCRIBE": _ask_consumer,
        "CLOSE_PRODUCER": _close_producer,
        "CLOSE_CONSUMER": _close_consumer,
        "UNSUBSCRIBE": _close_consumer,
        "SEND_ERROR": _send_error,
        "PING": _ping,
        "PONG": _pong,
    }
    exchanges: ClassVar[Handlers] = {"PRODUCER": _answer, "SUBSCRIBE": _answer}
