"""SENDs of producers that the broker has not confirmed: it closes the connection instead of storing them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import msgspec

from pulsarscope.dissect.contract.rules import ColumnsHandlers, ConnectionRule, Handlers, RuleContext, Where, where_of
from pulsarscope.model.bounded_tables import remember
from pulsarscope.model.flow import SERVER
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FrameRow
from pulsarscope.model.text import plural
from pulsarscope.protocols.pulsar.rules.evidence import add_sample, frame_names, may_lack_frames

PRODUCERS_MAX = 1_000
"""Most unconfirmed producers of one connection; clients have a few at a time."""


class Unconfirmed(msgspec.Struct):
    """A PRODUCER without an answer, and the SENDs after it."""

    where: Where
    topic: str | None
    sends: list[Where] = []
    count: int = 0


class EarlySendRule(ConnectionRule):
    """A rule about SENDs before PRODUCER_SUCCESS, on a connection that the broker closes."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._unconfirmed: dict[str, Unconfirmed] = {}
        """By producer id."""

    def _producer(self, row: FrameRow) -> None:
        number = str((row.fields or {}).get("producer_id", -1))
        remember(self._unconfirmed, number, Unconfirmed(where_of(row), row.topic), PRODUCERS_MAX)

    def _answer(self, row: FrameRow) -> None:
        if self._unconfirmed and (row.fields or {}).get("producer_ready") is not False:
            for number in [number for number, producer in self._unconfirmed.items() if producer.where.name == row.request]:
                del self._unconfirmed[number]

    def _close(self, row: FrameRow) -> None:
        self._unconfirmed.pop(str((row.fields or {}).get("producer_id", -1)), None)

    def _exchange(self, row: ExchangeRow) -> None:
        if row.status != "unanswered" or not self._unconfirmed:
            return
        producer, where = self._unconfirmed.get((row.key or "").partition(":")[0]), where_of(row)
        if producer is not None and where[1:4] > producer.where[1:4]:
            producer.count += 1
            add_sample(producer.sends, where)

    def end(self, row: ConnectionRow, last: Where) -> None:  # noqa: ARG002 - the contract's
        """Report the SENDs of each unconfirmed producer."""
        if row.closed_by != SERVER or may_lack_frames(self._context):
            return
        for number, producer in self._unconfirmed.items():
            if producer.sends:
                sends = plural(producer.count, "SEND")
                text = f"{self._context.client} sent {sends} under the producer id {number} before the answer to its PRODUCER "
                evidence = {
                    "frames": frame_names([producer.where.name, *(send.name for send in producer.sends)]),
                    "count": producer.count,
                    "producer_id": int(number),
                    "topic": producer.topic,
                }
                text += f"({producer.where.name}), which never came: the broker closed the connection."
                self._context.report("send-without-producer", producer.sends[0], text, evidence)

    def batch(self, rows: Sequence[Any], handle: Callable[[int], None]) -> None:
        """Skip answered SENDs; see `ConnectionRule.batch`."""
        for index, row in enumerate(rows):
            if type(row) is not ExchangeRow or row.status == "unanswered":
                handle(index)

    def sends(self, _frames: Any, _handle: Callable[[int], None]) -> bool:
        """Skip SENDs; see `ConnectionRule.columns`."""
        return True

    passive = frozenset({_answer, _close, _exchange})
    columns: ClassVar[ColumnsHandlers] = {"SEND": sends}
    frames: ClassVar[Handlers] = {
        "PRODUCER": _producer,
        "PRODUCER_SUCCESS": _answer,
        "ERROR": _answer,
        "CLOSE_PRODUCER": _close,
    }
    exchanges: ClassVar[Handlers] = {"SEND": _exchange}
