"""Tables of statistics in BookKeeper's words: legs, bookies, ledgers."""

from __future__ import annotations

from collections.abc import Sequence

from pulsarscope.dissect.contract.capabilities import ReadReceipt, ReportTable
from pulsarscope.protocols.bookkeeper.tables import bookies, ledgers, legs


def tables(receipts: Sequence[ReadReceipt]) -> tuple[ReportTable, ...]:
    """Return the tables; `receipts` read the answers of the bookies' writers to their own clients."""
    return (legs.table(receipts), bookies.TABLE, ledgers.table(receipts))
