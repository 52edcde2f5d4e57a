"""What statistics keep of the row of a connection: a fifth of it, as there are very many."""

from __future__ import annotations

from operator import attrgetter

import msgspec

from pulsarscope.model.records import ConnectionRow


class EndedConnection(msgspec.Struct, gc=False):
    """Columns of a row of a connection, under their names there."""

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
        """Return what TCP counted."""
        return {
            "retransmitted": self.retransmitted or 0,
            "out_of_order": self.out_of_order or 0,
            "missing_bytes": (self.client_missing or 0) + (self.server_missing or 0),
        }


_columns = attrgetter(*EndedConnection.__struct_fields__)


def ended_connection(row: ConnectionRow) -> EndedConnection:
    """Return what is kept of a row."""
    return EndedConnection(*_columns(row))
