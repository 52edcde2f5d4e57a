"""Names in the commands of a connection: topics, producers and subscriptions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from pulsarscope.protocols.pulsar.frame.commands import commands_with

Names = tuple[str | None, str | None, str | None]
"""Topic, producer name, subscription."""

NO_NAMES: Names = (None, None, None)

NAMING_COMMANDS = commands_with("topic", "producer_name", "subscription", "consumer_id", "producer_id")

TOPICS_OF: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "ADD_PARTITION_TO_TXN": lambda fields: list(fields.get("partitions") or ()),
    "ADD_SUBSCRIPTION_TO_TXN": lambda fields: [part["topic"] for part in fields.get("subscription") or () if "topic" in part],
}
"""Commands about any number of topics, with a function that reads these."""


class Consumer(msgspec.Struct):
    """The names in a SUBSCRIBE."""

    topic: str | None = None
    subscription: str | None = None
