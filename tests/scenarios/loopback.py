"""Traffic on the loopback interface: the streams of a capture, sent again through sockets."""

from __future__ import annotations

import socket
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pulsarscope.capture import BlockReader
from pulsarscope.live.bpf import tcp_program
from pulsarscope.live.interfaces import find_interface
from pulsarscope.live.ring import PacketRing
from pulsarscope.model.flow import reverse_key, source_port
from pulsarscope.tcp import Assembler
from pulsarscope.tcp.pieces import Data

RING_BYTES = 8 << 20


def may_capture() -> bool:
    """Return True if this process may open a packet socket."""
    try:
        PacketRing(find_interface("lo"), tcp_program({1}), RING_BYTES).close()
    except OSError:
        return False
    return True


needs_capturing = pytest.mark.skipif(not may_capture(), reason="capturing needs CAP_NET_RAW, and Linux")


def free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        return int(server.getsockname()[1])


Said = list[tuple[bool, bytes]]
"""Writes of both sides of a connection, in order: whether it is the client, and the bytes."""


def said_in(capture: Path, port: int = 6650) -> list[Said]:
    """Return the bytes of the streams of each connection, in capture order."""
    assembler = Assembler()
    turns: dict[str, Said] = defaultdict(list)
    events = [event for block in BlockReader(str(capture)) for event in assembler.feed(block)] + assembler.finish()
    for event in events:
        key = event.connection.key
        client = 1 if source_port(key) == port else 0
        pieces = [
            (piece[3], stream == client, piece[0])
            for stream, items in enumerate(event.items)
            for item in items
            if isinstance(item, Data)
            for piece in item.pieces
        ]
        assert reverse_key(reverse_key(key)) == key
        for _, from_client, data in sorted(pieces, key=lambda piece: piece[0]):
            turns[event.connection.name].append((from_client, data))
    return [said for said in turns.values() if said]


def replay(connections: list[Said], port: int, host: str = "127.0.0.1") -> None:
    """Send the streams again, one connection after the other, to a local server on this port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with closing(socket.create_server((host, port), family=family)) as server:
        for said in connections:
            with closing(socket.create_connection((host, port))) as client, closing(server.accept()[0]) as other:
                for from_client, data in said:
                    sender, receiver = (client, other) if from_client else (other, client)
                    for start in range(0, len(data), 60_000):
                        part = data[start : start + 60_000]
                        sender.sendall(part)
                        _receive(receiver, len(part))


def _receive(receiver: socket.socket, size: int) -> None:
    for _ in _pieces(receiver, size):
        pass


def _pieces(receiver: socket.socket, size: int) -> Iterator[bytes]:
    while size:
        piece = receiver.recv(size)
        size -= len(piece)
        yield piece
