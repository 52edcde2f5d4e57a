"""A steady load as a program: `load.py SERVICE_URL TOPIC SECONDS RATE [LISTENER]` publishes RATE messages per second, one per entry, to a
consumer that acknowledges them, and prints the numbers of sent and confirmed messages.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import pulsar

SIZE = 200


def main(url: str, topic: str, seconds: float, rate: float, *listener: str) -> None:
    """Send, wait for all receipts, and close."""
    silent = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(url, logger=silent, listener_name=listener[0] if listener else None)
    client.subscribe(topic, "audit", pulsar.ConsumerType.Shared, message_listener=lambda own, message: own.acknowledge(message))
    producer = client.create_producer(topic, producer_name="load", batching_enabled=False, block_if_queue_full=True)
    confirmed = 0

    def receive(result: Any, _: Any) -> None:
        nonlocal confirmed
        confirmed += result == pulsar.Result.Ok

    begun, sent = time.monotonic(), 0
    while (now := time.monotonic() - begun) < seconds:
        if sent <= now * rate:
            producer.send_async(b"%d " % sent * SIZE, receive)
            sent += 1
        else:
            time.sleep(0.5 / rate)
    producer.flush()
    time.sleep(1)  # for the last acknowledgments
    client.close()
    print(json.dumps({"sent": sent, "confirmed": confirmed}))  # noqa: T201 - what it is for


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4]), *sys.argv[5:])
