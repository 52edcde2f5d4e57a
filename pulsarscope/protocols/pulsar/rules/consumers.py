"""The consumers of one connection, as the rules about consuming follow them: subscribed, looked at now and then, closed.

A rule that waits for something not to happen needs a clock: PING and PONG, which pass every half minute on a connection that lives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from pulsarscope.dissect.rules import ConnectionRule, Handlers, RuleContext, Where, where_of
from pulsarscope.model.records import ConnectionRow, FrameRow

CONSUMERS_MAX = 10_000
"""Consumers followed on one connection; those of a client that reads thousands of partitions fit."""

SHARING = frozenset({"Shared", "Key_Shared"})
"""Subscription types whose messages are spread over several consumers, each acknowledged by itself."""

WORD = (1 << 64) - 1

Position = tuple[int, int]
"""(ledger, entry): entries of a topic are in this order."""

TICK_NS = 1_000_000_000
"""Consumers are looked at so often, while their connection lives."""


class Consumer(msgspec.Struct):
    """A SUBSCRIBE; rules add fields of their own."""

    number: int
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
    """Its SUCCESS; None when it is not in the capture."""

    @property
    def title(self) -> str:
        """How a sentence names it."""
        name = f"Consumer {self.number}" + (f" ({self.name})" if self.name else "")
        return f"{name} of subscription {self.subscription} on {self.topic}" if self.topic else name

    @property
    def evidence(self) -> dict[str, Any]:
        """How evidence names it."""
        return {"consumer_id": self.number, "consumer_name": self.name, "topic": self.topic, "subscription": self.subscription}

    @property
    def persistent(self) -> bool:
        """Whether the broker keeps messages for it until they are acknowledged."""
        return self.durable and not (self.topic or "").startswith("non-persistent://")


State = TypeVar("State", bound=Consumer)


class ConsumerRule(ConnectionRule, Generic[State]):
    """A connection rule that looks at consumers; see `pulsarscope.dissect.rules.ConnectionRule`."""

    def __init__(self, context: RuleContext, state: type[State]) -> None:
        """`state`: what is kept of each consumer."""
        self.context = context
        self.consumers: dict[int, State] = {}
        self._state = state
        self._subscribing: dict[str, int] = {}
        self._ticked = -TICK_NS

    def find(self, row: FrameRow) -> State | None:
        """The consumer that a frame names; None when it is not known."""
        return self.consumers.get((row.fields or {}).get("consumer_id", -1))

    def find_or_add(self, row: FrameRow) -> State:
        """The same; one whose SUBSCRIBE is not in the capture becomes known by its number."""
        return self.find(row) or self._add(
            self._state((row.fields or {}).get("consumer_id", -1), row.topic, row.subscription), row.time or 0
        )

    def review(self, consumer: State, now: int, *, ending: bool) -> None:
        """Look at a consumer, at this capture time in nanoseconds; `ending`: for the last time."""

    def opened(self, consumer: State) -> None:
        """A SUBSCRIBE came."""

    def closed(self, consumer: State, row: FrameRow) -> None:
        """Its CLOSE_CONSUMER came, from either side."""

    def qualified(self, text: str) -> str:
        """A sentence without its full stop: with what must be known of the capture."""
        return (
            f"{text}; the capture lacks bytes of this connection, so some may have been said unseen." if self.context.lost else f"{text}."
        )

    def end(self, row: ConnectionRow, last: Where) -> None:
        """See `ConnectionRule`."""
        for consumer in self.consumers.values():
            self.review(consumer, row.end or last.time, ending=True)

    def _add(self, consumer: State, now: int) -> State:
        if len(self.consumers) >= CONSUMERS_MAX:
            self._forget(next(iter(self.consumers)), now)
        self.consumers[consumer.number] = consumer
        return consumer

    def _subscribe(self, row: FrameRow) -> None:
        fields = row.fields or {}
        number = fields.get("consumer_id", -1)
        self._forget(number, row.time or 0)
        shared = fields.get("keySharedMeta") or {}
        consumer = self._state(
            number,
            fields.get("topic"),
            fields.get("subscription"),
            fields.get("subType"),
            fields.get("consumer_name"),
            fields.get("durable", True),
            fields.get("read_compacted", False),
            shared.get("allowOutOfOrderDelivery", False),
        )
        self._add(consumer, row.time or 0)
        self.opened(consumer)
        if len(self._subscribing) < CONSUMERS_MAX:
            self._subscribing[where_of(row).name] = number

    def _success(self, row: FrameRow) -> None:
        consumer = self.consumers.get(self._subscribing.pop(row.request or "", -1))
        if consumer is not None:
            consumer.ready = where_of(row)

    def _refused(self, row: FrameRow) -> None:
        self.consumers.pop(self._subscribing.pop(row.request or "", -1), None)

    def _close(self, row: FrameRow) -> None:
        consumer = self._forget((row.fields or {}).get("consumer_id", -1), row.time or 0)
        if consumer is not None:
            self.closed(consumer, row)

    def _tick(self, row: FrameRow) -> None:
        """Look at all, at most once a second: no rule is more impatient, and a flood of PINGs must not cost a flood of looks."""
        if (row.time or 0) - self._ticked < TICK_NS:
            return
        self._ticked = row.time or 0
        for consumer in self.consumers.values():
            self.review(consumer, row.time or 0, ending=False)

    def _forget(self, number: int, now: int) -> State | None:
        consumer = self.consumers.pop(number, None)
        if consumer is not None:
            self.review(consumer, now, ending=True)
        return consumer

    frames: ClassVar[Handlers] = {
        "SUBSCRIBE": _subscribe,
        "SUCCESS": _success,
        "ERROR": _refused,
        "CLOSE_CONSUMER": _close,
        "PING": _tick,
        "PONG": _tick,
    }


def position_of(message_id: Mapping[str, Any]) -> Position:
    """(ledger, entry) of a MessageIdData."""
    return message_id.get("ledgerId", -1), message_id.get("entryId", -1)


def indexes_of(bits: int, limit: int) -> list[int]:
    """The first indexes whose bits are set."""
    found: list[int] = []
    while bits and len(found) < limit:
        lowest = bits & -bits
        found.append(lowest.bit_length() - 1)
        bits ^= lowest
    return found


def bitmap(words: list[int]) -> int:
    """An ack_set as one number: bit n is set when index n is NOT acknowledged."""
    return int.from_bytes(b"".join([(word & WORD).to_bytes(8, "little") for word in words]), "little")
