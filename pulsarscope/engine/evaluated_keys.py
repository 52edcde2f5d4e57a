"""Keys that were judged before all had been said of them: a fact that comes for one of them is one that its judgement lacked."""

from __future__ import annotations

from array import array

from pulsarscope.model.limits import EVALUATED_KEYS_MAX

_SLOTS = EVALUATED_KEYS_MAX * 8 // 7
"""A table that is fuller than this takes long to look through."""


class JudgedKeys:
    """A set of keys by 32 bits of their hashes: four bytes each. One key in a billion is taken for another one."""

    def __init__(self) -> None:
        self._slots = array("I", bytes(4 * _SLOTS))
        """Zero is an empty one."""
        self._count = 0

    def __contains__(self, key: tuple[str, str]) -> bool:
        return bool(self._slots[self._slot(key)[0]])

    def add(self, key: tuple[str, str]) -> bool:
        """Whether there is room for it."""
        slot, mark = self._slot(key)
        if not self._slots[slot]:
            if self._count == EVALUATED_KEYS_MAX:
                return False
            self._count += 1
            self._slots[slot] = mark
        return True

    def _slot(self, key: tuple[str, str]) -> tuple[int, int]:
        """Where this key stands, or would, and what stands there for it."""
        number = hash(key)
        mark = number >> 32 & 0xFFFF_FFFF or 1
        slot = number % _SLOTS
        while self._slots[slot] not in (0, mark):
            slot = (slot + 1) % _SLOTS
        return slot, mark
