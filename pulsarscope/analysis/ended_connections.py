"""The part of connection rows that statistics keep: a fifth, since there are very many."""

from __future__ import annotations

from operator import attrgetter

import msgspec

from pulsarscope.model.records import ConnectionRow


class EndedConnection(msgspec.Struct, gc=False):
    """Columns of a connection row, under the same names."""

    client: str | None = None
    server: str | None = None
    dissector: str | None = None
    start: int | None = None
    end: int | None = None
    opened: str | None = None
    closed: str | None = None
    packets: int | None = None
    retransmitted: int | None = None
    out_of_order: int | None = None
    client_missing: int | None = None
    server_missing: int | None = None

    def tcp_counts(self) -> dict[str, int]:
        """Return the counts of TCP."""
        return {
            "retransmitted": self.retransmitted or 0,
            "out_of_order": self.out_of_order or 0,
            "missing_bytes": (self.client_missing or 0) + (self.server_missing or 0),
        }


_columns = attrgetter(*EndedConnection.__struct_fields__)


def ended_connection(row: ConnectionRow) -> EndedConnection:
    """Return the part of a row that is kept."""
    return EndedConnection(*_columns(row))
