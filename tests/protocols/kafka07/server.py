"""A server that answers as brokers of Kafka 0.7.2 do, from its byte tables: logs are kept as bytes, message sets are not looked into."""

from __future__ import annotations

import struct
from collections import defaultdict
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Lock

PRODUCE, FETCH, MULTIFETCH, MULTIPRODUCE, OFFSETS = range(5)
NO_ERROR, OFFSET_OUT_OF_RANGE, WRONG_PARTITION = 0, 1, 3
LATEST, EARLIEST = -1, -2
REQUEST_MAX_BYTES = 104_857_600
PARTITIONS = 2
"""Of every topic."""


class Reader:
    """Takes fields from the front of a request."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self, form: str) -> int:
        value: int = struct.unpack(form, self.take(struct.calcsize(form)))[0]
        return value

    def topic_and_partition(self) -> tuple[str, int]:
        topic = self.take(self.number(">h")).decode()
        return topic, self.number(">i")


class Broker(ThreadingTCPServer):
    """Listens on 127.0.0.1; logs live as long as it does."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, port: int) -> None:
        self._logs: defaultdict[tuple[str, int], bytearray] = defaultdict(bytearray)
        self._lock = Lock()
        super().__init__(("127.0.0.1", port), Connection)

    def answer(self, request: bytes) -> bytes | None:
        """The response, its length before it; None for requests that have none."""
        reader = Reader(request)
        kind = reader.number(">h")
        with self._lock:
            if kind in (PRODUCE, MULTIPRODUCE):
                for _ in range(reader.number(">h") if kind == MULTIPRODUCE else 1):
                    self._append(reader)
                return None
            if kind == FETCH:
                return framed(self._read(reader))
            if kind == MULTIFETCH:
                return framed(struct.pack(">h", NO_ERROR) + b"".join(framed(self._read(reader)) for _ in range(reader.number(">h"))))
            if kind == OFFSETS:
                return framed(struct.pack(">h", NO_ERROR) + self._offsets(reader))
        message = f"there is no request of type {kind}"
        raise ValueError(message)

    def _append(self, reader: Reader) -> None:
        topic, partition = reader.topic_and_partition()
        self._logs[topic, max(partition, 0)] += reader.take(reader.number(">i"))

    def _read(self, reader: Reader) -> bytes:
        place = reader.topic_and_partition()
        offset, size = reader.number(">q"), reader.number(">i")
        if place[1] >= PARTITIONS:
            return struct.pack(">h", WRONG_PARTITION)
        log = self._logs[place]
        if not 0 <= offset <= len(log):
            return struct.pack(">h", OFFSET_OUT_OF_RANGE)
        return struct.pack(">h", NO_ERROR) + bytes(log[offset : offset + size])

    def _offsets(self, reader: Reader) -> bytes:
        log = self._logs[reader.topic_and_partition()]
        time, most = reader.number(">q"), reader.number(">i")
        offsets = [0] if time == EARLIEST else [len(log), 0] if log else [0]
        return struct.pack(f">i{len(offsets[:most])}q", len(offsets[:most]), *offsets[:most])


class Connection(BaseRequestHandler):
    """One request after the other, until the client goes or sends what cannot be answered."""

    server: Broker

    def handle(self) -> None:
        while (size := self._bytes(4)) and 0 < (length := struct.unpack(">i", size)[0]) <= REQUEST_MAX_BYTES:
            request = self._bytes(length)
            try:
                response = self.server.answer(request)
            except (ValueError, struct.error):
                return
            if response is not None:
                self.request.sendall(response)

    def _bytes(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self.request.recv(size - len(data))
            if not piece:
                return b""
            data += piece
        return bytes(data)


def framed(body: bytes) -> bytes:
    """With its length before it."""
    return struct.pack(">i", len(body)) + body
