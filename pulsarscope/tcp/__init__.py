"""Packets become connections with ordered streams (RFC 9293).

`Assembler.feed(block)` gives one `ConnectionEvents` for each connection that the block touched, `Assembler.finish()` the rest. In it,
`items[0]` and `items[1]` hold the runs and gaps of `connection.streams[0]` and `[1]`, each list in stream order, and its flags say
that the connection begins (`opened`), that no more bytes will come (`ended`) and that its row can be written (`finished`). Each of
the three comes once, in this order. A `Data` is contiguous bytes: a list of pieces `(payload, packet, time, moment)`.

Names. `packet` and `time` of a piece name the frames in it, and `file` of its run belongs to them. As long as the stream has no gap, that
is the packet that completed the stream up to here; behind the first gap it is the packet that brought the bytes. `moment` is the
packet at which the bytes became available (a packet of `ConnectionEvents.file`); it never decreases within a stream.

Bytes seen first win. Other bytes at the same offset are an `overlap-conflict` if the first ones still wait, or were delivered within
the last 64 KiB of the stream and the last 8,192 packets of the file: runs handed on must not be changed, they are compared with.

The answer does not depend on how the capture was cut into blocks, unless a bound of the whole process was reached (`memory-cap`).
"""

from __future__ import annotations

from pulsarscope.tcp.assembler import Assembler
from pulsarscope.tcp.connection import Connection, ConnectionEvents
from pulsarscope.tcp.pieces import Data, Gap, Item, Piece
from pulsarscope.tcp.placement import Place, Placement
from pulsarscope.tcp.sequence import sequence_difference
from pulsarscope.tcp.stream import Stream

__all__ = [
    "Assembler",
    "Connection",
    "ConnectionEvents",
    "Data",
    "Gap",
    "Item",
    "Piece",
    "Place",
    "Placement",
    "Stream",
    "sequence_difference",
]
