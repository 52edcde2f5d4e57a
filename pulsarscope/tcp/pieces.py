"""What a stream hands on: runs of bytes that the capture has, gaps that it lacks."""

from __future__ import annotations

from typing import Literal

import msgspec

Piece = tuple[bytes, int, int, int]
"""Payload, packet and time (ns) that name the frames in it, moment: the packet at which the bytes became available."""

Reason = Literal["hole", "snaplen"]
HOLE: Reason = "hole"
SNAPLEN: Reason = "snaplen"


class Data(msgspec.Struct, gc=False):
    """Contiguous bytes of one stream. `offset` is that of the first byte; `file` belongs to the packet numbers of the pieces."""

    file: int
    offset: int
    pieces: list[Piece]


class Gap(msgspec.Struct, gc=False):
    """`size` bytes from `offset` on that the capture lacks: a hole, or cut off by the snap length; declared at packet `moment`."""

    offset: int
    size: int
    moment: int
    reason: Reason


Item = Data | Gap
