"""Contents of a reassembled stream: data that was captured, and gaps."""

from __future__ import annotations

from typing import Literal

import msgspec

Piece = tuple[bytes, int, int, int]
"""(payload, packet, time, moment): packet and time in ns name the frames completed here; the bytes became available at packet `moment`."""

Reason = Literal["hole", "snaplen"]
"""Cause of a gap: segments lost by the capture, or packets cut by its snap length."""
HOLE: Reason = "hole"
SNAPLEN: Reason = "snaplen"


class Data(msgspec.Struct, gc=False):
    """Contiguous bytes of one stream from `offset` on; the packet numbers of its pieces are those of `file`."""

    file: int
    offset: int
    pieces: list[Piece]
    """Pieces in order. The compiled reader's sequence makes each tuple on access."""


class Gap(msgspec.Struct, gc=False):
    """`size` bytes at `offset` that the capture lacks, declared missing at packet `moment`."""

    offset: int
    size: int
    moment: int
    reason: Reason


Item = Data | Gap

NO_ITEMS: tuple[list[Item], list[Item]] = ([], [])
"""Items of both streams when there are none: shared and never appended to, because lists for each connection would take memory."""


def at_moment(item: Item, moment: int) -> Item:
    """Return an item that becomes available at another packet."""
    if isinstance(item, Data):
        return Data(item.file, item.offset, [(payload, packet, time, moment) for payload, packet, time, _ in item.pieces])
    return Gap(item.offset, item.size, moment, item.reason)
