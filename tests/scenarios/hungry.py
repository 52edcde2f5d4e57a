"""A task whose unpickling needs more memory than there is."""

from __future__ import annotations


class Hungry:
    def __reduce__(self) -> tuple[object, ...]:
        return bytearray, (1 << 62,)
