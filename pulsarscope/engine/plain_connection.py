"""What the engine knows of a connection that the compiled reader reads alone."""

from __future__ import annotations

import msgspec

from pulsarscope.engine.connection import EndedTimeline, packed_row
from pulsarscope.model.flow import reverse_key, source_endpoint
from pulsarscope.model.records import ConnectionRow, FrameRow


class PlainConnection(msgspec.Struct, gc=False, frozen=True):
    """A recognised connection, from its SYN on and without TLS, as who asks for a `Timeline` needs it."""

    key: bytes
    """Flow key of the client."""
    dissector: str | None

    def endpoints(self) -> tuple[str, str]:
        """Return (client, server)."""
        return source_endpoint(self.key), source_endpoint(reverse_key(self.key))

    def place(self, row: FrameRow) -> tuple[int, int]:
        """Return start and end of the bytes of a frame in its stream."""
        return row.offset, row.offset + row.size

    def in_tls(self) -> bool:
        """Return False: it is not."""
        return False

    def preamble(self) -> tuple[int, int]:
        """Return how much of both streams comes before the first frame: nothing."""
        return 0, 0


def ended_timeline(of: PlainConnection, name: str, begin: tuple[int, int, int], source: str | None, dissector: str | None) -> EndedTimeline:
    """Return the rest of such a connection, of which late packets come: what text says of it if there are findings.

    `begin`: file and number of its first packet, and its time.
    """
    file, packet, start = begin
    row = ConnectionRow(source, file, packet, None, start, name, dissector)
    row.client, row.server = of.endpoints()
    row.start, row.opened = start, "syn"
    return EndedTimeline(packed_row(row), None, source, dissector)
