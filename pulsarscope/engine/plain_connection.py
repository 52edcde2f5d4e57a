"""The engine's view of a connection that the compiled reader reads alone."""

from __future__ import annotations

from typing import Any

import msgspec

from pulsarscope.engine.ended_timeline import EndedTimeline, packed_row
from pulsarscope.model.flow import CLIENT, FILE_SHIFT, SERVER, endpoints_of
from pulsarscope.model.records import ConnectionRow, FrameRow


class PlainConnection(msgspec.Struct, gc=False, frozen=True):
    """A recognised connection, seen from its SYN on and without TLS; serves where a `Timeline` is expected."""

    key: bytes
    """Flow key of the client."""
    dissector: str | None

    def endpoints(self) -> tuple[str, str]:
        """Return (client, server)."""
        return endpoints_of(self.key)

    def place(self, row: FrameRow) -> tuple[int, int]:
        """Return start and end of the bytes of a frame in its stream."""
        return row.offset, row.offset + row.size

    def in_tls(self) -> bool:
        """Return False: it is not inside TLS."""
        return False

    def preamble(self) -> tuple[int, int]:
        """Return the number of bytes of both streams before the first frame: none."""
        return 0, 0


class PlainEnd(msgspec.Struct, gc=False, frozen=True):
    """A connection of this kind that ended with FINs of both sides, with frames of both."""

    of: PlainConnection
    source: str | None
    file: int
    state: tuple[Any, ...]
    """State of TCP, as taken by `tcp.closed_connections.closed_connection`."""
    told: tuple[tuple[int, int], dict[str, Any]]
    """Number of frames of client and server, and their statements about themselves, for columns of the row."""

    @property
    def name(self) -> str:
        """Name of the connection."""
        return f"{self.file}:{self.state[0][0]}"

    @property
    def last_at(self) -> int:
        """Return the place of the last packet; see `FILE_SHIFT`."""
        file, packet, _ = self.state[2]
        return int(file << FILE_SHIFT | packet)

    @property
    def closing(self) -> tuple[str, int]:
        """First FIN and its time."""
        return "fin", self.state[4][1]

    def row(self, *, complete: bool = False) -> ConnectionRow:
        """Return its row as of its end; with `complete`, including its packet counts, since no more will come."""
        (packet, start), (_, ending), (*_, latest), packets, (closed_by, _), client, server = self.state
        (of_client, of_server), described = self.told
        ends = self.of.endpoints()
        row = ConnectionRow(self.source, self.file, packet, None, start, self.name, self.of.dissector, *ends, start, ending, **described)
        row.client_bytes, row.client_frames, row.client_missing, row.client_skipped, row.client_tail = client[1], of_client, 0, 0, 0
        row.server_bytes, row.server_frames, row.server_missing, row.server_skipped, row.server_tail = server[1], of_server, 0, 0, 0
        row.opened, row.closed, row.closed_by = "syn", "fin", SERVER if closed_by else CLIENT
        row.client_dropped = row.server_dropped = 0
        if complete:
            row.end, row.packets, row.retransmitted, row.out_of_order = latest, packets, 0, 0
        return row

    def timeline(self, row: ConnectionRow) -> EndedTimeline:
        """Return the state that is kept for late packets, with its row."""
        return EndedTimeline(packed_row(row), None, self.source, self.of.dissector)


def ended_timeline(of: PlainConnection, name: str, begin: tuple[int, int, int], source: str | None, dissector: str | None) -> EndedTimeline:
    """Return the remainder of a connection that may get late packets: what text output shows about it if there are findings.

    `begin`: file and number of its first packet, and its time.
    """
    file, packet, start = begin
    row = ConnectionRow(source, file, packet, None, start, name, dissector)
    row.client, row.server = of.endpoints()
    row.start, row.opened = start, "syn"
    return EndedTimeline(packed_row(row), None, source, dissector)
