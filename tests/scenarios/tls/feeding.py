"""Feeding of TLS connections, cut into packets and blocks in any way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from pulsarscope.inputs.key_logs import Secrets
from pulsarscope.tcp.pieces import HOLE, Data, Gap, Item, Piece
from pulsarscope.tls.connection import TlsConnection
from tests.scenarios import Conversation
from tests.scenarios import Packet as CapturedPacket

SECOND = 1_000_000_000


class Packet(NamedTuple):
    """Packet of one side: its bytes, or the number of missing bytes."""

    side: int
    data: bytes
    lost: int = 0


def cut(flights: Iterable[tuple[int, bytes]], sizes: Iterable[int]) -> list[Packet]:
    """Split each flight into packets, with sizes repeated in a cycle."""
    chosen = list(sizes)
    packets: list[Packet] = []
    for side, data in flights:
        position = 0
        while position < len(data):
            size = chosen[len(packets) % len(chosen)]
            packets.append(Packet(side, data[position : position + size]))
            position += size
    return packets


class Delivered(NamedTuple):
    """Items delivered by a connection, by side."""

    items: tuple[list[Item], list[Item]]
    connection: TlsConnection

    def plain(self, side: int) -> bytes:
        """Return the bytes, with question marks for gaps."""
        return b"".join(
            b"".join(piece[0] for piece in item.pieces) if isinstance(item, Data) else b"?" * item.size for item in self.items[side]
        )

    def pieces(self, side: int) -> list[Piece]:
        """Return all pieces."""
        return [piece for item in self.items[side] if isinstance(item, Data) for piece in item.pieces]

    def gaps(self, side: int) -> list[Gap]:
        """Return all gaps."""
        return [item for item in self.items[side] if isinstance(item, Gap)]


def feed(connection: TlsConnection, packets: Sequence[Packet], block: int = 1 << 30) -> Delivered:
    """Feed packets numbered from 1, `block` per block."""
    delivered: tuple[list[Item], list[Item]] = ([], [])
    offsets = [0, 0]
    for start in range(0, len(packets), block):
        items: tuple[list[Item], list[Item]] = ([], [])
        for number, packet in enumerate(packets[start : start + block], start + 1):
            size = packet.lost or len(packet.data)
            if packet.lost:
                items[packet.side].append(Gap(offsets[packet.side], size, number, HOLE))
            else:
                items[packet.side].append(Data(0, offsets[packet.side], [(packet.data, number, number * SECOND, number)]))
            offsets[packet.side] += size
        _collect(delivered, connection.feed(items, 0))
    _collect(delivered, connection.finish(len(packets), 0))
    return Delivered(delivered, connection)


def _collect(delivered: tuple[list[Item], list[Item]], items: Sequence[Sequence[Item]]) -> None:
    for side in (0, 1):
        delivered[side].extend(items[side])


def secrets_of(key_log: bytes) -> Secrets:
    """Return secrets as from a key log of the user."""
    known = Secrets()
    assert known.add(key_log.splitlines()) == 0
    return known


def packets_of(flights: Iterable[tuple[int, bytes]], port: int = 6651, **options: Any) -> list[CapturedPacket]:
    """Return a complete TCP connection that carries the packets."""
    conversation = Conversation(server=("10.0.0.2", port), **options).handshake()
    for side, data in flights:
        (conversation.client, conversation.server)[side](data)
    return conversation.close().packets
