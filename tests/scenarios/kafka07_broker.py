"""A small broker of Kafka 0.7 on a socket: logs in memory, no disk, no ZooKeeper. It knows nothing of the package."""

from __future__ import annotations

import struct
import threading
from collections import defaultdict
from socket import socket

from tests.scenarios import kafka07
from tests.scenarios.kafka07 import FETCH, MULTIFETCH, MULTIPRODUCE, OFFSETS, PRODUCE

OFFSET_OUT_OF_RANGE, WRONG_PARTITION = 1, 3
PARTITIONS = 4
MESSAGE_MAX_BYTES = 1_000_000
LATEST, EARLIEST = -1, -2


class _Body:
    """A reader of a request from left to right."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def integer(self, size: int) -> int:
        """Take a signed integer of `size` bytes."""
        return int.from_bytes(self.bytes(size), "big", signed=True)

    def bytes(self, size: int) -> bytes:
        """Take `size` bytes."""
        self._at += size
        return self._data[self._at - size : self._at]

    def place(self) -> tuple[str, int]:
        """Take topic and partition."""
        return self.bytes(self.integer(2)).decode(), self.integer(4)


class Broker:
    """A broker that serves one listening socket until it is closed."""

    def __init__(self, listening: socket) -> None:
        self.logs: dict[tuple[str, int], bytearray] = defaultdict(bytearray)
        self.drop_next = False
        """Close the connection instead of answering the next request, like a broker that goes down."""
        self._listening = listening
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket) -> None:
        with connection:
            while request := receive(connection):
                if self.drop_next:
                    self.drop_next = False
                    return
                try:
                    answer = self._answer(_Body(request))
                except ValueError:
                    return  # there is no other way to report a failed PRODUCE
                if answer is not None:
                    connection.sendall(answer)

    def _answer(self, body: _Body) -> bytes | None:
        number = body.integer(2)
        if number in (PRODUCE, MULTIPRODUCE):
            for _ in range(1 if number == PRODUCE else body.integer(2)):
                topic, partition = body.place()
                self._append(topic, max(partition, 0), body.bytes(body.integer(4)))
            return None
        if number == FETCH:
            return self._fetch(body)
        if number == MULTIFETCH:
            return kafka07.multifetch_response(*[self._fetch(body) for _ in range(body.integer(2))])
        assert number == OFFSETS
        place, time, count = body.place(), body.integer(8), body.integer(4)
        ends = [0] if time == EARLIEST else [len(self.logs[place]), 0][:count]
        return kafka07.offsets_response(ends)

    def _append(self, topic: str, partition: int, messages: bytes) -> None:
        at = 0
        while at < len(messages):
            (size,) = struct.unpack_from(">i", messages, at)
            if size > MESSAGE_MAX_BYTES or at + 4 + size > len(messages) or partition >= PARTITIONS:
                raise ValueError(size)
            at += 4 + size
        self.logs[topic, partition] += messages

    def _fetch(self, body: _Body) -> bytes:
        place, offset, size = body.place(), body.integer(8), body.integer(4)
        if place[1] >= PARTITIONS:
            return kafka07.fetch_response(error=WRONG_PARTITION)
        log = self.logs[place]
        if offset > len(log):
            return kafka07.fetch_response(error=OFFSET_OUT_OF_RANGE)
        return kafka07.fetch_response(bytes(log[offset : offset + size]))


def receive(connection: socket) -> bytes:
    """Return one frame without its length; nothing if the other side has closed."""
    head = _exactly(connection, 4)
    return _exactly(connection, int.from_bytes(head, "big")) if head else b""


def _exactly(connection: socket, size: int) -> bytes:
    parts = b""
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            return b""
        parts += part
    return parts
