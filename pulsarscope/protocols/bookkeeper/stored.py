"""Source of the facts on an entry on its way to each bookie, and back."""

from __future__ import annotations

from typing import Any, ClassVar

from pulsarscope.dissect.contract.rules import ConnectionRule, Handlers, RuleContext, Where, where_of
from pulsarscope.model.bounded_tables import remember
from pulsarscope.model.limits import PENDING_REQUESTS_MAX
from pulsarscope.model.records import ConnectionRow, FrameRow
from pulsarscope.protocols.bookkeeper.commands import ADD, EOK, READ, response

JOURNEY = "journey"
"""Key rule, by ledger:entry, of the protocol whose servers store by this one."""

WRITTEN, LOADED = "written", "read"
"""Its facts of an ADD, with the nanoseconds to the answer that says that it is stored, and of the answer to a READ."""

MESSAGE = "message"
"""Kind of the data that have a journey."""


class StoredRule(ConnectionRule):
    """Emits each ADD with the time to its answer, and each entry that is read; those of cursors and the like are nobody's messages."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._waiting: dict[str, tuple[str, Where, str | None]] = {}
        """Entry, place and verdict of the ADDs without an answer, by name."""

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
        """Emit those that nobody answered."""
        del row, last
        for waiting in self._waiting.values():
            self._emit(*waiting, None)

    frames: ClassVar[Handlers] = {ADD: _add, response(ADD): _added, response(READ): _loaded}


def verdict(row: FrameRow) -> str | None:
    """Return whether the message in an entry is intact: bad when the digest, or the message's own checksum, is; None when unknown."""
    own = ((row.fields or {}).get("data") or {}).get("checksum")
    return "bad" if row.checksum is not None and "bad" in (row.checksum.status, own) else own
