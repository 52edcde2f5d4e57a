"""Producers that publish for a long time, with occasional causes of findings."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.scenarios.commands import TOPIC, close_producer, created, producer, receipt, send, send_error
from tests.scenarios.conversation import MILLISECOND, SECOND, Conversation
from tests.scenarios.frames import PUBLISH_TIME_MS

ODD_METADATA: tuple[dict[str, Any], ...] = (
    {"properties": [{"key": "k", "value": "v"}]},
    {"partition_key": "k", "uncompressed_size": 7},
    {"deliver_at_time": PUBLISH_TIME_MS + 5000},
    {"replicated_from": "west"},
    {"num_messages_in_batch": 2},
    {"uuid": "u", "chunk_id": 0, "num_chunks_from_msg": 2, "total_chunk_msg_size": 14},
    {"publish_time": PUBLISH_TIME_MS + 60_000},
    {"producer_name": "another"},
)
"""Metadata of SENDs that some rules must look at."""

DROPPED = (1 << 64) - 1
"""Ledger and entry of a message that the broker drops."""

WAITS = (0, 0, 0, MILLISECOND, 40 * MILLISECOND, 400 * MILLISECOND, 3 * SECOND)


class Publishers:
    """A conversation of three producers, two of them of one topic; `odd_share` is the share of unusual events."""

    def __init__(self, random: Random, *, odd_share: float) -> None:
        self._random, self._odd_share = random, odd_share
        self._next = dict.fromkeys((1, 2, 3), 0)
        self._waiting: list[tuple[int, int]] = []
        self._entries = 0
        self._known = random.random() < 0.8
        self.conversation = Conversation()
        if self._known:
            self.conversation.handshake()
            for number in self._next:
                self._open(number)

    def publish(self, bursts: int) -> Conversation:
        """Publish in bursts, and close."""
        for _ in range(bursts):
            self.conversation.client(*(self._send() for _ in range(self._random.randint(1, 12))))
            self.conversation.wait(self._random.choice(WAITS))
            count = self._random.randint(0, len(self._waiting))
            answered, self._waiting = self._waiting[:count], self._waiting[count:]
            if answered:
                self.conversation.server(*(answer for each in answered for answer in self._answer(*each)))
            if self._is_odd() and self._is_odd():
                number = self._random.choice([*self._next])
                self.conversation.client(close_producer(number, 900 + number))
                self._open(number)
        return self.conversation.close()

    def _is_odd(self) -> bool:
        return self._random.random() < self._odd_share

    def _open(self, number: int) -> None:
        topic = f"{TOPIC}-DLQ" if number == 3 and self._odd_share > 0.1 else TOPIC
        self.conversation.client(producer(number, f"p{number}", 10 + number, topic)).server(created(f"p{number}", 10 + number))

    def _send(self) -> bytes:
        number = self._random.choice([*self._next])
        sequence = self._next[number]
        if self._is_odd():
            sequence = max(sequence + self._random.choice((-3, -1, 5)), 0)
        self._next[number] = max(sequence, self._next[number]) + 1
        self._waiting.append((number, sequence))
        metadata = {"producer_name": f"p{number}"} | (self._random.choice(ODD_METADATA) if self._is_odd() else {})
        return send(number, sequence, bytes(self._random.randint(0, 40)), metadata)

    def _answer(self, number: int, sequence: int) -> list[bytes]:
        if self._is_odd():
            odd = (
                receipt(number, sequence, 0, 0),
                receipt(number, sequence, DROPPED, DROPPED),
                send_error("ChecksumError", "no", number, sequence),
            )
            return self._random.choice([[], [], *([each] for each in odd)])
        self._entries += 1
        return [receipt(number, sequence, 7, self._entries)]
