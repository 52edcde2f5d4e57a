"""Keys that were evaluated before all facts about them were there: a later fact is one that the evaluation lacked."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any

from pulsarscope.model.limits import EVALUATED_KEYS_MAX
from pulsarscope.model.platform import load_native

_SLOTS = EVALUATED_KEYS_MAX * 8 // 7
"""A table that is fuller than this takes long to look through."""


class EvaluatedKeys:
    """A set of keys by 32 bits of their hashes: four bytes each, 2 MiB in all. One key in a billion is taken for another one.

    A set of Python's, of hashes, takes 36 MiB for as many.
    """

    def __init__(self) -> None:
        self._slots = array("I", bytes(4 * _SLOTS))
        """Zero is an empty one."""
        self._count = 0

    def count(self, rule: str, keys: Iterable[str]) -> int:
        """Return how many of some keys of a rule are here."""
        slots, found = self._slots, 0
        for key in keys:
            number = hash((rule, key))
            slot = number % _SLOTS
            if not slots[slot]:
                continue
            mark = number >> 32 & 0xFFFF_FFFF or 1
            while (there := slots[slot]) and there != mark:
                slot = (slot + 1) % _SLOTS
            found += there == mark
        return found

    def add(self, rule: str, keys: Iterable[str]) -> int:
        """Add keys of a rule; return for how many there was no room."""
        slots, without_room = self._slots, 0
        for key in keys:
            number = hash((rule, key))
            mark, slot = number >> 32 & 0xFFFF_FFFF or 1, number % _SLOTS
            while (there := slots[slot]) and there != mark:
                slot = (slot + 1) % _SLOTS
            if there:
                continue
            if self._count == EVALUATED_KEYS_MAX:
                without_room += 1
                continue
            self._count += 1
            slots[slot] = mark
        return without_room


def evaluated_keys() -> Any:
    """Return an empty set: that of the compiled reader, where there is one."""
    native, _ = load_native()
    return EvaluatedKeys() if native is None else native.EvaluatedKeys(EVALUATED_KEYS_MAX, _SLOTS)
