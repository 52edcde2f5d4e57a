"""What is left of a connection whose streams have ended."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import astuple

from pulsarscope.model.findings import Finding
from pulsarscope.model.flow import source_endpoint
from pulsarscope.model.records import ConnectionRow, RawFrame, Row, finding_row

if TYPE_CHECKING:
    from pulsarscope.tcp import Connection
    from pulsarscope.tcp.connection import ClosedConnection


class EndedTimeline(msgspec.Struct, gc=False, frozen=True):
    """The small remainder of a connection whose streams have ended; there may be very many. Late packets still change its counts."""

    row: bytes | ConnectionRow | None
    """The packed row, if connection rows are requested."""
    doubt: Finding | None
    """The finding about parts that were not read."""
    source: str | None
    dissector: str | None
    """Name of the protocol, if it was recognised."""
    held: tuple[Finding, ...] = ()
    """What is wrong with the network of a connection in TLS that was not read."""

    @property
    def is_empty(self) -> bool:
        """Return True when it will yield nothing in the end."""
        return self.row is None and self.doubt is None

    def findings(self, found: Sequence[Finding]) -> list[Finding]:
        """Return the findings to report, like `Timeline.findings`."""
        return [finding for finding in found if finding.layer != "tcp" or self.dissector is not None]

    def so_far(self) -> ConnectionRow | None:
        """Return the row of the connection as of the end of its streams; it lacks packet counts, because late packets may come."""
        return ConnectionRow(*_decode(self.row)) if isinstance(self.row, bytes) else self.row

    def finish(self, of: Connection | ClosedConnection, out: list[Row | RawFrame]) -> None:
        """Append the row of the connection `of`, which gets no more packets."""
        if self.doubt is not None:
            out += [finding_row(found, self.source, self.dissector) for found in (self.doubt, *self.held)]
        if (row := self.so_far()) is not None:
            row.end, row.packets, dropped, row.retransmitted, row.out_of_order = of.counts()
            row.client_dropped, row.server_dropped = dropped if row.client == source_endpoint(of.key) else dropped[::-1]
            out.append(row)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


def packed_row(row: ConnectionRow) -> bytes | ConnectionRow:
    """Return a row in a third of the memory, unless MessagePack cannot hold its values: longer integers, surrogates of a path."""
    try:
        return _encode(astuple(row))
    except (OverflowError, UnicodeEncodeError):
        return row


@lru_cache(maxsize=64)
def nothing_left(source: str | None, dissector: str | None) -> EndedTimeline:
    """Return the shared remainder of connections that yield nothing in the end."""
    return EndedTimeline(None, None, source, dissector)
