"""A TCP connection built step by step: who sent what, in which segments, and what was acknowledged."""

from __future__ import annotations

from tests.scenarios.capturefile import Packet
from tests.scenarios.packets import ACK, FIN, PSH, RST, SYN, ethernet, ip_packet, tcp_segment

Endpoint = tuple[str, int]

START_NS = 1_700_000_000_000_000_000
MILLISECOND = 1_000_000
SECOND = 1_000 * MILLISECOND
STEP_NS = 100_000
"""Time between packets: 0.1 ms."""


class Conversation:
    """A builder of the packets of one connection; its methods return self.

    Usage: `Conversation().handshake().client(frame).server(frame).close().packets`. To disturb it, change the list `packets`.
    """

    def __init__(
        self,
        client: Endpoint = ("10.0.0.1", 40000),
        server: Endpoint = ("10.0.0.2", 6650),
        *,
        mss: int = 1448,
        client_isn: int = 1000,
        server_isn: int = 5000,
        start_ns: int = START_NS,
        step_ns: int = STEP_NS,
        acknowledge: bool = True,
    ) -> None:
        self.packets: list[Packet] = []
        self.mss = mss
        self.time_ns = start_ns
        self._step_ns = step_ns
        self._acknowledge = acknowledge
        self._ends = (client, server)
        self._next = [client_isn + 1, server_isn + 1]
        """Next sequence number of each side."""

    def handshake(self) -> Conversation:
        """SYN, SYN ACK, ACK."""
        self._add(0, flags=SYN, sequence=self._next[0] - 1, options=b"\x02\x04" + self.mss.to_bytes(2, "big"))
        self._add(1, flags=SYN | ACK, sequence=self._next[1] - 1, options=b"\x02\x04" + self.mss.to_bytes(2, "big"))
        self._add(0)
        return self

    def client(self, *frames: bytes, mss: int | None = None) -> Conversation:
        """Write these bytes as the client, at once; the last segment is acknowledged."""
        return self._send(0, b"".join(frames), mss)

    def server(self, *frames: bytes, mss: int | None = None) -> Conversation:
        """Write these bytes as the server, at once; the last segment is acknowledged."""
        return self._send(1, b"".join(frames), mss)

    def lose(self, side: str, count: int) -> Conversation:
        """Send `count` bytes that the capture lacks from `side` ("client" or "server")."""
        self._next[("client", "server").index(side)] += count
        return self

    def wait(self, nanoseconds: int) -> Conversation:
        """Let time pass."""
        self.time_ns += nanoseconds
        return self

    def close(self, by: str = "client") -> Conversation:
        """Close with FIN from one side, FIN from the other, and a last ACK."""
        other = "server" if by == "client" else "client"
        self.end(by).end(other)._add(("client", "server").index(by))
        return self

    def half_close(self) -> Conversation:
        """Close with a FIN from the server, which the client's host only acknowledges."""
        self.end("server")._add(0)
        return self

    def end(self, by: str = "client") -> Conversation:
        """Send a FIN from one side."""
        side = ("client", "server").index(by)
        self._add(side, flags=FIN | ACK)
        self._next[side] += 1
        return self

    def confirm(self, by: str = "server", *, options: bytes = b"") -> Conversation:
        """Acknowledge what came, without data."""
        self._add(("client", "server").index(by), options=options)
        return self

    def reset(self, by: str = "server", *, foreign: bool = False) -> Conversation:
        """Send a RST from one side, or, like a device that does not know the connection, in its name."""
        self._add(("client", "server").index(by), flags=RST if foreign else RST | ACK)
        return self

    def _send(self, side: int, data: bytes, mss: int | None) -> Conversation:
        size = mss or self.mss
        for start in range(0, len(data), size):
            piece = data[start : start + size]
            self._add(side, piece, flags=ACK | PSH if start + size >= len(data) else ACK)
            self._next[side] += len(piece)
        if data and self._acknowledge:
            self._add(1 - side)
        return self

    def _add(self, side: int, payload: bytes = b"", *, flags: int = ACK, sequence: int | None = None, options: bytes = b"") -> None:
        (source, source_port), (destination, destination_port) = self._ends[side], self._ends[1 - side]
        segment = tcp_segment(
            source_port,
            destination_port,
            self._next[side] if sequence is None else sequence,
            self._next[1 - side] if flags & ACK else 0,
            payload,
            flags=flags,
            options=options,
        )
        packet = ethernet(ip_packet(source, destination, segment, identification=len(self.packets)))
        self.packets.append(Packet(self.time_ns, packet))
        self.time_ns += self._step_ns
