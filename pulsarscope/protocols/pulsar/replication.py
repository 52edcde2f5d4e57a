"""Statements of replicators (the producers that copy a topic to another cluster) about themselves and the messages that they copy."""

from __future__ import annotations

import re
from typing import Any

_REPLICATOR = "pulsar.repl."
"""Prefix of the names of replicators."""

_SOURCE_POSITION = "__MSG_PROP_REPL_SOURCE_POSITION"
"""Property with which replicators give the ledger and entry of a message in its own cluster (brokers from 4.0 on)."""

_POSITION = re.compile("([0-9]{1,19}):([0-9]{1,19})")


def is_replicator(producer_name: str | None) -> bool:
    """Return True if a producer has the name of a replicator."""
    return producer_name is not None and producer_name.startswith(_REPLICATOR)


def source_position(metadata: dict[str, Any]) -> tuple[int, int] | None:
    """Return the ledger and entry of a replicated message in its original cluster; None if its metadata does not give them."""
    if not metadata.get("replicated_from"):
        return None
    said = next((item.get("value") for item in metadata.get("properties") or () if item.get("key") == _SOURCE_POSITION), None)
    position = _POSITION.fullmatch(str(said))
    return None if position is None else (int(position[1]), int(position[2]))
