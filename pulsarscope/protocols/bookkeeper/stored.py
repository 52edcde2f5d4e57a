"""Source of the facts on the writes of entries, for records of journeys."""

from __future__ import annotations

from typing import ClassVar

from pulsarscope.dissect.rules import ConnectionRule, Handlers, RuleContext, Where, where_of
from pulsarscope.model.limits import PENDING_REQUESTS_MAX
from pulsarscope.model.records import ConnectionRow, FrameRow
from pulsarscope.model.tables import remember
from pulsarscope.protocols.bookkeeper.commands import ADD, EOK, response

JOURNEY, STORED = "journey", "stored"
"""Key rule, by ledger:entry, of the protocol whose servers store by this one, and its fact of a write."""


class StoredRule(ConnectionRule):
    """Emits each ADD with the time to its answer."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._waiting: dict[str, tuple[str, Where]] = {}
        """Entry and place of the ADDs without an answer, by name."""

    def _add(self, row: FrameRow) -> None:
        fields = row.fields or {}
        if "ledger" in fields and "entry" in fields:
            where = where_of(row)
            remember(self._waiting, where.name, (f"{fields['ledger']}:{fields['entry']}", where), PENDING_REQUESTS_MAX)

    def _added(self, row: FrameRow) -> None:
        waiting = self._waiting.pop(row.request or "", None)
        if waiting is not None:
            self._emit(*waiting, row.latency_ns if (row.fields or {}).get("status") == EOK else None)

    def _emit(self, key: str, where: Where, answered_ns: int | None) -> None:
        self._context.emit_fact(JOURNEY, key, where, STORED, {"server": self._context.server, "answered_ns": answered_ns})

    def end(self, row: ConnectionRow, last: Where) -> None:
        """Emit those that nobody answered."""
        del row, last
        for key, where in self._waiting.values():
            self._emit(key, where, None)

    frames: ClassVar[Handlers] = {ADD: _add, response(ADD): _added}
