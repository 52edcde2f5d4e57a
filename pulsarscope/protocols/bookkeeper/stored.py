"""The source of the facts about an entry on its way to each bookie and back."""

from __future__ import annotations

from typing import Any, ClassVar

from pulsarscope.dissect.contract.rules import ConnectionRule, Handlers, RuleContext, Where, where_of
from pulsarscope.model.bounded_tables import remember
from pulsarscope.model.limits import PENDING_REQUESTS_MAX
from pulsarscope.model.records import ConnectionRow, FrameRow
from pulsarscope.protocols.bookkeeper.commands import ADD, EOK, READ, response

JOURNEY = "journey"
"""Key rule, by ledger:entry, of the protocol whose servers use this one for storage."""

WRITTEN, LOADED = "written", "read"
"""Its facts: an ADD, with the nanoseconds to the answer that confirms it, and the answer to a READ."""

MESSAGE = "message"
"""Kind of data with a journey."""


class StoredRule(ConnectionRule):
    """A rule that emits each ADD with the time to its answer, and each entry that is read, except entries without messages."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._waiting: dict[str, tuple[str, Where, str | None]] = {}
        """Entry, place and verdict of ADDs without an answer, by frame name."""

    def _add(self, row: FrameRow) -> None:
        fields = row.fields or {}
        if "ledger" in fields and "entry" in fields and (fields.get("data") or {}).get("kind", MESSAGE) == MESSAGE:
            where = where_of(row)
            remember(self._waiting, where.name, (f"{fields['ledger']}:{fields['entry']}", where, verdict(row)), PENDING_REQUESTS_MAX)

    def _added(self, row: FrameRow) -> None:
        waiting = self._waiting.pop(row.request or "", None)
        if waiting is not None:
            self._emit(*waiting, row.latency_ns if (row.fields or {}).get("status") == EOK else None)

    def _loaded(self, row: FrameRow) -> None:
        fields = row.fields or {}
        if (fields.get("data") or {}).get("kind") == MESSAGE:
            entry = f"{fields['ledger']}:{fields.get('stored_entry', fields['entry'])}"
            values = {"checksum": verdict(row), "server": self._context.server}
            self._context.emit_fact(JOURNEY, entry, where_of(row), LOADED, values)

    def _emit(self, entry: str, where: Where, checksum: str | None, answered_ns: int | None) -> None:
        values: dict[str, Any] = {"checksum": checksum, "server": self._context.server, "answered_ns": answered_ns}
        self._context.emit_fact(JOURNEY, entry, where, WRITTEN, values)

    def end(self, row: ConnectionRow, last: Where) -> None:
        """Emit the unanswered ADDs."""
        del row, last
        for waiting in self._waiting.values():
            self._emit(*waiting, None)

    frames: ClassVar[Handlers] = {ADD: _add, response(ADD): _added, response(READ): _loaded}


def verdict(row: FrameRow) -> str | None:
    """Return whether the message in an entry is intact: bad if the digest or the message's own checksum is bad; None if unknown."""
    own = ((row.fields or {}).get("data") or {}).get("checksum")
    return "bad" if row.checksum is not None and "bad" in (row.checksum.status, own) else own
