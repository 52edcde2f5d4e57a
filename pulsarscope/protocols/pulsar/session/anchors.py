"""The anchors of one connection: frames that all legs of its path through a proxy share."""

from __future__ import annotations

from typing import Any

from pulsarscope.dissect.contract.events import Event
from pulsarscope.dissect.contract.exchange import Placed, Request
from pulsarscope.dissect.contract.legs import Anchor
from pulsarscope.model.bounded_tables import NOTHING
from pulsarscope.model.limits import ANCHORS_MAX
from pulsarscope.model.records import FrameRow
from pulsarscope.protocols.pulsar.message_ids import Position, position_of, positions_of
from pulsarscope.protocols.pulsar.session.exchanges import ANSWERED_BY, OF_LOOKUP
from pulsarscope.protocols.pulsar.topics import bounded_name

DELIVERED_MAX = 64
"""Number of first MESSAGEs that are kept until an ACK names them."""

ANCHORING = ANSWERED_BY.keys() - OF_LOOKUP - {"ACK"}
"""Requests that make anchors: none that a proxy answers, and not every acknowledgment."""

_NONE: frozenset[str] = frozenset()


class Anchors:
    """The first anchors of a connection, if requested."""

    __slots__ = ("_delivered", "_watched", "left")

    def __init__(self, *, wanted: bool) -> None:
        self.left = ANCHORS_MAX if wanted else 0
        """Number of anchors still to report."""
        self._delivered: dict[tuple[int, Position], Request] = NOTHING
        self._watched = DELIVERED_MAX
        """Number of MESSAGEs still to keep."""

    @property
    def commands(self) -> frozenset[str]:
        """The commands of the data path that may still become anchors."""
        if not self.left:
            return _NONE
        messages = {"MESSAGE"} if self._watched else _NONE
        return frozenset({"SEND_RECEIPT", *messages, *({"ACK"} if messages or self._delivered else _NONE)})

    def asked(self, request: Request, frame: FrameRow) -> None:
        """Note the name that a client chose for a consumer in its request."""
        request.chosen_name = bounded_name((frame.fields or {}).get("consumer_name"))

    def answered(self, request: Request, frame: FrameRow, fields: dict[str, Any], events: list[Event]) -> None:
        """Report a request and its response."""
        if request.command in ANCHORING and fields.get("producer_ready") is not False:
            name = fields.get("producer_name") or request.chosen_name
            content = request.command, request.key, request.topic, request.subscription, frame.command, name
            self._report(Anchor(content, request, frame, unique=bool(name)), events)

    def received(self, sent: Placed, frame: FrameRow, fields: dict[str, Any], events: list[Event]) -> None:
        """Report a SEND and its receipt."""
        entry_id = position_of(fields.get("message_id"))
        content = "SEND", fields.get("producer_id"), fields.get("sequence_id"), entry_id
        self._report(Anchor(content, sent, frame, unique=entry_id[0] > 0), events)

    def delivered(self, frame: FrameRow, fields: dict[str, Any]) -> None:
        """Keep one of the first MESSAGEs."""
        if self._watched:
            self._watched -= 1
            self._delivered = self._delivered or {}
            key = fields.get("consumer_id", -1), position_of(fields.get("message_id"))
            self._delivered[key] = Request(frame.file, frame.packet, frame.sub, frame.time, "MESSAGE", None)

    def acknowledged(self, frame: FrameRow, fields: dict[str, Any], events: list[Event]) -> None:
        """Report an ACK and the first of the kept MESSAGEs that it names."""
        if not (self.left and self._delivered):
            return
        number = fields.get("consumer_id", -1)
        ids = positions_of(fields.get("message_id"))
        kept = [first for entry_id in ids if (first := self._delivered.pop((number, entry_id), None)) is not None]
        if kept:
            self._report(Anchor(("MESSAGE", number, *ids), kept[0], frame, pushed=True), events)

    def _report(self, anchor: Anchor, events: list[Event]) -> None:
        self.left -= 1
        events.append(anchor)
