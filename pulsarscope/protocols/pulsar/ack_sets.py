"""Ack sets: which messages of a batch are acknowledged. Bit n is set while the message with batch index n is not."""

from __future__ import annotations

from collections.abc import Sequence

WORD_BITS = 64
_WORD = (1 << WORD_BITS) - 1


def bitmap(ack_set: Sequence[int]) -> int:
    """Return an ack set as one number."""
    return int.from_bytes(b"".join([(word & _WORD).to_bytes(8, "little") for word in ack_set]), "little")


def left_of(ack_set: Sequence[int], messages: int) -> int:
    """Return the number of unacknowledged messages of a batch."""
    return (bitmap(ack_set) & (1 << max(min(messages, WORD_BITS * len(ack_set)), 0)) - 1).bit_count()


def is_left(ack_set: Sequence[int], index: int) -> bool:
    """Return True if the message with this index is not acknowledged."""
    word, bit = divmod(index, WORD_BITS)
    return word < len(ack_set) and bool(ack_set[word] >> bit & 1)
