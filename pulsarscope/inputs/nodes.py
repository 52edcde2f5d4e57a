"""What servers and clients of a protocol keep in ZooKeeper, as a dissector reads it from a dump."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Node(NamedTuple):
    """A node of the dump, not escaped."""

    path: str
    """Absolute, as in /brokers/ids/0."""
    value: str
    """"" when it has none."""
    place: str
    """Where in the dump it stands, in words: line 7."""


class Note(NamedTuple):
    """Something odd about one node, or about the dump."""

    place: str
    path: str
    text: str
    """What is odd, without place and path; not escaped."""


class Section(NamedTuple):
    """Records of one kind."""

    about: str
    """What a reader must know of the numbers; may be empty."""
    records: list[dict[str, Any]]
    """All with the same keys in the same order; values are text, whole numbers, objects of them, or None."""


class Registry(NamedTuple):
    """What a dissector has read."""

    sections: dict[str, Section]
    """By name, in the order in which they are shown."""
    unknown: list[Node]
    """The nodes that are none of its own."""
    notes: list[Note]


ReadRegistry = Callable[[Sequence[Node]], Registry]
"""Reads the nodes of a dump. Never raises on any of them."""
