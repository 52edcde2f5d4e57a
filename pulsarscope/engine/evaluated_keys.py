"""Keys that were evaluated before all facts about them were there: a later fact is one that the evaluation lacked."""

from __future__ import annotations

from array import array

from pulsarscope.model.limits import EVALUATED_KEYS_MAX

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

    def __contains__(self, key: tuple[str, str]) -> bool:
        # As `add`, without a call for what both do: there are very many keys.
        slots, number = self._slots, hash(key)
        mark, slot = number >> 32 & 0xFFFF_FFFF or 1, number % _SLOTS
        while there := slots[slot]:
            if there == mark:
                return True
            slot = (slot + 1) % _SLOTS
        return False

    def add(self, key: tuple[str, str]) -> bool:
        """Add a key; return False when the set is full."""
        slots, number = self._slots, hash(key)
        mark, slot = number >> 32 & 0xFFFF_FFFF or 1, number % _SLOTS
        while there := slots[slot]:
            if there == mark:
                return True
            slot = (slot + 1) % _SLOTS
        if self._count == EVALUATED_KEYS_MAX:
            return False
        self._count += 1
        slots[slot] = mark
        return True
