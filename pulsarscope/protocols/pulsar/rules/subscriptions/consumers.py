"""The base of rules about consumers: state by consumer, from SUBSCRIBE to CLOSE_CONSUMER, reviewed while the connection exists.

A rule about something that does not happen needs a clock. PING and PONG serve as that clock: an open connection has them every half minute.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from pulsarscope.dissect.contract.rules import ConnectionRule, Handler, Handlers, RuleContext, Where, name_of, where_of
from pulsarscope.model.flow import CLIENT
from pulsarscope.model.records import ConnectionRow, FrameRow
from pulsarscope.protocols.pulsar.topics import bounded_name

BACKLOG = "backlog"
"""Name of the key rule about what the consumers of a topic get and what they lack."""

CONSUMERS_MAX = 10_000
"""Most consumers followed on one connection, enough for a client that reads thousands of partitions."""

SHARED_TYPES = frozenset({"Shared", "Key_Shared"})
"""Subscription types that spread their messages over several consumers, each of which acknowledges its own."""

REVIEW_NS = 1_000_000_000
"""Time between two reviews of the consumers of an open connection: no rule has a shorter limit, and a flood of PINGs must stay cheap."""


class ConsumerState(msgspec.Struct):
    """A consumer as described by its SUBSCRIBE; rules add their own fields."""

    number: int
    """Consumer id."""
    topic: str | None = None
    subscription: str | None = None
    kind: str | None = None
    """Subscription type."""
    name: str | None = None
    durable: bool = True
    compacted: bool = False
    out_of_order: bool = False
    """Key_Shared without the promise of order."""
    ready: Where | None = None
    """Place of its SUCCESS; None when the capture lacks it."""
    connection: str | None = None
    """Its connection, if the capture lacks its SUBSCRIBE."""
    seen: int = 0
    """Time of its SUBSCRIBE, or of its first frame in the capture, in nanoseconds."""
    seen_at: tuple[int, int] = (0, 0)
    """File and packet of that frame, which increase even if a clock is set back."""
    closed_by: str | None = None
    """Side whose CLOSE_CONSUMER closed it."""

    @property
    def title(self) -> str:
        """Name of the consumer in a sentence."""
        name = f"Consumer {self.number}" + (f" ({self.name})" if self.name else "")
        if self.connection:
            return f"{name} of connection {self.connection}" + (f" on {self.topic}" if self.topic else "")
        return f"{name} of subscription {self.subscription} on {self.topic}" if self.topic else name

    @property
    def evidence(self) -> dict[str, Any]:
        """Evidence that identifies the consumer."""
        return {"consumer_id": self.number, "consumer_name": self.name, "topic": self.topic, "subscription": self.subscription}

    @property
    def persistent(self) -> bool:
        """True when the broker keeps messages for it until they are acknowledged."""
        return self.durable and not (self.topic or "").startswith("non-persistent://")

    def ignores(self, ack: Mapping[str, Any]) -> bool:
        """Return True for the fields of an ACK without effect: a cumulative ACK on a subscription with shared delivery."""
        return ack.get("ack_type") == "Cumulative" and self.kind in SHARED_TYPES


State = TypeVar("State", bound=ConsumerState)


class ConsumerRule(ConnectionRule, Generic[State]):
    """A connection rule with a state for each consumer."""

    def __init__(self, context: RuleContext, state: type[State]) -> None:
        """Create the rule with a class for the state of a consumer."""
        self.context = context
        self.consumers: dict[int, State] = {}
        """State by consumer id."""
        self._state = state
        self._subscribing: dict[str, int] = {}
        """Consumer id by frame name of its SUBSCRIBE, until that is answered."""
        self._unsubscribing: dict[str, int] = {}
        """Consumer id by frame name of its UNSUBSCRIBE, until that is answered."""
        self._reviewed_at = -REVIEW_NS
        self.unreadable: dict[str, int] = {}
        """By sender: time of the latest frame that is so incomplete that its command is unknown, or that it may hide other frames."""
        self.ended: str | None = None
        """How the connection ended, once it has: "open" when the capture ended first, and its consumers may still exist."""

    def note_unreadable(self, row: FrameRow) -> None:
        """Note a frame without a command, or without its end."""
        self.unreadable[row.direction] = row.time

    def may_hide(self, since: int) -> bool:
        """Return True when a frame of the client since that time could not be read."""
        return self.unreadable.get(CLIENT, -1) >= since

    def find(self, row: FrameRow) -> State | None:
        """Return the consumer named in a frame; None if it is unknown."""
        return self.consumers.get((row.fields or {}).get("consumer_id", -1))

    def find_or_add(self, row: FrameRow) -> State:
        """Return the consumer named in a frame; add one whose SUBSCRIBE is not in the capture."""
        if (consumer := self.find(row)) is None:
            consumer = self._state(
                (row.fields or {}).get("consumer_id", -1),
                row.topic,
                row.subscription,
                connection=self.context.connection,
                seen=row.time,
                seen_at=_place(row),
            )
            self._add(consumer, row.time)
        return consumer

    def has_room(self, count: int) -> bool:
        """Return True if `count` consumers may be added without dropping one."""
        return len(self.consumers) + count <= CONSUMERS_MAX

    def review(self, consumer: State, now: int, *, ending: bool) -> None:
        """Review a consumer at this capture time in nanoseconds; `ending`: it is the last review."""

    def reviewed(self) -> None:
        """Act on what the reviews of all consumers of an open connection have shown."""

    def opened(self, consumer: State) -> None:
        """Handle the SUBSCRIBE of a consumer."""

    def closed(self, consumer: State, row: FrameRow) -> None:
        """Handle the CLOSE_CONSUMER of a consumer, from either side."""

    @property
    def open(self) -> bool:
        """True when the capture ended before the connection: its consumers may still exist."""
        return self.ended == "open"

    def sentence(self, text: str) -> str:
        """Return a sentence with its full stop, qualified if bytes of the connection are missing."""
        lost = "; the capture lacks bytes of this connection, so that frames may be missing"
        return f"{text}{lost if self.context.lost else ''}."

    def end(self, row: ConnectionRow, last: Where) -> None:  # noqa: ARG002 - the contract's
        """Review all consumers for the last time."""
        self.ended = row.closed
        for consumer in self.consumers.values():
            self.review(consumer, row.end, ending=True)

    def _add(self, consumer: State, now: int) -> State:
        if len(self.consumers) >= CONSUMERS_MAX:
            for number in [*islice(self.consumers, 1 + CONSUMERS_MAX // 8)]:  # many at once, as in `tables.drop_oldest`
                self._remove(number, now)
        self.consumers[consumer.number] = consumer
        return consumer

    def _subscribe(self, row: FrameRow) -> None:
        fields = row.fields or {}
        number = fields.get("consumer_id", -1)
        consumer = self.consumers.get(number)
        if consumer is None or _place(row) >= consumer.seen_at or not consumer.connection:
            self._remove(number, row.time)
            consumer = self._add(self._state(number), row.time)
        # Otherwise, it is the consumer that got messages: after a hole in the capture, its SUBSCRIBE was read late.
        consumer.topic, consumer.subscription, consumer.kind = row.topic, row.subscription, fields.get("subType")
        consumer.name = bounded_name(fields.get("consumer_name"))
        consumer.durable = fields.get("durable", True)
        consumer.compacted = fields.get("read_compacted", False)
        consumer.out_of_order = (fields.get("keySharedMeta") or {}).get("allowOutOfOrderDelivery", False)
        consumer.connection, consumer.seen, consumer.seen_at = None, row.time, _place(row)
        self.opened(consumer)
        if len(self._subscribing) < CONSUMERS_MAX:
            self._subscribing[name_of(row)] = number

    def _success(self, row: FrameRow) -> None:
        if (consumer := self.consumers.get(self._subscribing.pop(row.request or "", -1))) is not None:
            consumer.ready = where_of(row)
        if (number := self._unsubscribing.pop(row.request or "", None)) is not None:
            self._remove(number, row.time)

    def _error(self, row: FrameRow) -> None:
        self._unsubscribing.pop(row.request or "", None)
        self.consumers.pop(self._subscribing.pop(row.request or "", -1), None)

    def _close(self, row: FrameRow) -> None:
        if (consumer := self.find(row)) is not None:
            if _place(row) < consumer.seen_at:
                return  # about the previous consumer, read late after a hole in the capture
            consumer.closed_by = row.direction
        if (consumer := self._remove((row.fields or {}).get("consumer_id", -1), row.time)) is not None:
            self.closed(consumer, row)

    def _unsubscribe(self, row: FrameRow) -> None:
        """Note a consumer that ends with its subscription; a refusal leaves both."""
        if (consumer := self.find(row)) is not None and len(self._unsubscribing) < CONSUMERS_MAX:
            self._unsubscribing[name_of(row)] = consumer.number

    def _keep_alive(self, row: FrameRow) -> None:
        now = row.time
        if now - self._reviewed_at >= REVIEW_NS:
            self._reviewed_at = now
            for consumer in self.consumers.values():
                self.review(consumer, now, ending=False)
            self.reviewed()

    def _remove(self, number: int, now: int) -> State | None:
        if (consumer := self.consumers.pop(number, None)) is not None:
            self.review(consumer, now, ending=True)
        return consumer

    frames: ClassVar[Handlers] = {
        "SUBSCRIBE": _subscribe,
        "SUCCESS": _success,
        "ERROR": _error,
        "CLOSE_CONSUMER": _close,
        "UNSUBSCRIBE": _unsubscribe,
        "": note_unreadable,
        "PING": _keep_alive,
        "PONG": _keep_alive,
    }
    passive: ClassVar[frozenset[Handler] | None] = frozenset({_success, _error, _unsubscribe})


def _place(row: FrameRow) -> tuple[int, int]:
    return row.file, row.packet
