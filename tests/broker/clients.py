"""Pulsar clients as a program: `clients.py SERVICE_URL` sends messages in many ways and receives them. It writes what was sent (with the id
from the broker) and what was received to standard output, one JSON object per line.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
import time
from collections import Counter
from datetime import datetime, timezone
from functools import partial
from typing import Any

import pulsar

Shape = dict[str, Any]

WAIT_SECONDS = 60
MESSAGES = 100
FIRST_EVENT_MILLISECONDS = 1_700_000_000_000

BATCHES: Shape = {"batching_enabled": True, "batching_max_messages": 20, "batching_max_publish_delay_ms": 20}
CHUNKS: Shape = {"chunking_enabled": True, "batching_enabled": False}
ONE_BY_ONE: Shape = {"batching_enabled": False}
PRODUCERS: dict[str, Shape] = {
    "plain": ONE_BY_ONE,
    "lz4": {**ONE_BY_ONE, "compression_type": pulsar.CompressionType.LZ4},
    "batched": BATCHES,
    **{
        f"batched-{name.lower()}": {**BATCHES, "compression_type": getattr(pulsar.CompressionType, name)}
        for name in ("LZ4", "ZLib", "ZSTD", "SNAPPY")
    },
    "chunked": CHUNKS,
}
"""Options of producers by topic."""

ONE_ENTRY_EACH = ("plain", "lz4")
"""Topics whose entries are one message each."""

SUBSCRIPTIONS = {
    "exclusive": (pulsar.ConsumerType.Exclusive, 1),
    "shared": (pulsar.ConsumerType.Shared, 2),
    "failover": (pulsar.ConsumerType.Failover, 2),
    "key-shared": (pulsar.ConsumerType.KeyShared, 2),
}
"""Type, and number of consumers."""

CHUNKED_BYTES = 12 << 20
"""More bytes than two frames of the default size can hold."""

lock = threading.Lock()
counts: Counter[str] = Counter()


def tell(event: str, topic: str, payload: bytes, message: pulsar.MessageId, **columns: Any) -> None:
    """Write one line with the columns of a message record, without columns that have no value."""
    digest = hashlib.sha256(payload).hexdigest()
    place = {"ledger": message.ledger_id(), "entry": message.entry_id(), "batch_index": message.batch_index()}
    row = {"event": event, "topic": topic, "payload_sha256": digest, "payload_size": len(payload), **place, **columns}
    with lock:
        counts[event] += 1
        print(json.dumps({name: value for name, value in row.items() if value not in (None, "", {})}))  # noqa: T201 - what it is for


def moment(milliseconds: int) -> str | None:
    """Return a time in the form of records."""
    if not milliseconds:
        return None
    seconds = datetime.fromtimestamp(milliseconds // 1000, timezone.utc)
    return f"{seconds:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03}000000Z"


def payloads(topic: str) -> list[bytes]:
    """Return payloads of many sizes, all of them different."""
    if topic == "chunked":
        return [bytes([number]) * CHUNKED_BYTES + b"end" for number in range(2)]
    return [b"%s %d " % (topic.encode(), number) * (1 + number * number % 97) for number in range(MESSAGES)]


def sent(topic: str, payload: bytes, columns: Shape, result: Any, message: pulsar.MessageId) -> None:
    """Report a message whose receipt has arrived."""
    if result == pulsar.Result.Ok:
        tell("sent", topic, payload, message, **columns)


def send(client: pulsar.Client, name: str) -> int:
    """Send all messages of a topic, and wait for their receipts."""
    topic = f"persistent://public/default/{name}"
    producer = client.create_producer(topic, producer_name=f"producer of {name}", **PRODUCERS[name])
    contents = payloads(name)
    for number, payload in enumerate(contents):
        key, properties = f"key {number % 7}" if number % 3 else None, {"number": str(number), "für": "é"} if number % 2 else {}
        event = FIRST_EVENT_MILLISECONDS + number if number % 5 == 0 else 0
        columns = {"key": key, "properties": properties, "event_time": moment(event), "producer_name": producer.producer_name()}
        receipt = partial(sent, topic, payload, columns | {"sequence_id": number})
        producer.send_async(payload, receipt, partition_key=key, properties=properties, event_timestamp=event or None)
    producer.flush()
    return len(contents)


def listen(client: pulsar.Client, name: str, subscription: str) -> None:
    """Subscribe to a topic, acknowledge its messages and report them."""
    kind, consumers = SUBSCRIPTIONS[subscription]
    topic = f"persistent://public/default/{name}"

    def got(consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        columns = {"key": message.partition_key(), "properties": message.properties(), "event_time": moment(message.event_timestamp())}
        columns |= {"producer_name": message.producer_name(), "subscription": subscription, "plain": name in ONE_ENTRY_EACH}
        tell("got", topic, message.data(), message.message_id(), **columns)
        consumer.acknowledge(message)

    for _ in range(consumers):
        client.subscribe(topic, subscription, kind, message_listener=got)


def main(service_url: str) -> None:
    """Start consumers first, on a separate connection; then producers; then wait until all messages have arrived."""
    silent = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    receiving, sending = (pulsar.Client(service_url, logger=silent) for _ in range(2))
    # With key-shared, batches of several keys go to one consumer each only if they are made by key.
    pairs = [(name, one) for name in PRODUCERS for one in SUBSCRIPTIONS if name in ONE_ENTRY_EACH or one != "key-shared"]
    for name, subscription in pairs:
        listen(receiving, name, subscription)
    sizes = {name: send(sending, name) for name in PRODUCERS}
    wanted = sum(sizes[name] for name, _ in pairs)
    end = time.monotonic() + WAIT_SECONDS
    while counts["got"] < wanted and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(1)  # for repeated messages, and for acknowledgments, which are grouped
    sending.close()
    receiving.close()


if __name__ == "__main__":
    main(sys.argv[1])
