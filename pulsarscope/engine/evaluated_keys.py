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
        return self._slots[hash(key) % _SLOTS] != 0 and self._slots[self._slot(key)[0]] != 0

    def add(self, key: tuple[str, str]) -> bool:
        """Add a key; return False when the set is full."""
        slot, mark = self._slot(key)
        if not self._slots[slot]:
            if self._count == EVALUATED_KEYS_MAX:
                return False
            self._count += 1
            self._slots[slot] = mark
        return True

    def _slot(self, key: tuple[str, str]) -> tuple[int, int]:
        """Return where this key stands, or would, and what stands there for it."""
        number = hash(key)
        mark = number >> 32 & 0xFFFF_FFFF or 1
        slot = number % _SLOTS
        while self._slots[slot] not in (0, mark):
            slot = (slot + 1) % _SLOTS
        return slot, mark
