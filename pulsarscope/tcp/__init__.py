"""Reassembly of TCP segments into connections with ordered streams (RFC 9293).

`Assembler.feed(block)` returns one `ConnectionEvents` for each connection that the block touched; `Assembler.finish()` returns those of the
connections still open. `items[0]` and `items[1]` of the events hold the data and gaps of `connection.streams[0]` and `[1]`, each list in
stream order. Three flags are each set once, in this order: `opened` when the connection begins, `ended` when no more bytes will come,
`finished` when its row can be written. `Data` is a stretch of contiguous bytes, as a list of pieces `(payload, packet, time, moment)`.

Names: `packet` and `time` of a piece name the frames completed in it; `packet` belongs to the `file` of its `Data`. In a stream without
gaps, it is the packet that completed the stream up to there. After the first gap, it is the packet that carried the bytes. `moment` is the
packet of `ConnectionEvents.file` at which the bytes became available; it never decreases within a stream.

Overlaps: the bytes seen first are kept. Different bytes at the same offset are an `overlap-conflict` if the first ones are still buffered,
or were delivered within the last 64 KiB of the stream, the last 8,192 packets of the file, and the 64 MiB kept for all streams. Delivered
`Data` must therefore not be modified: later segments are compared with it.

The result does not depend on how the capture was cut into blocks, nor on other connections, unless a bound of the whole process was reached
(`memory-cap`), or a closed connection gets late packets after more than a minute.
"""

from __future__ import annotations

from pulsarscope.tcp.assembler import Assembler
from pulsarscope.tcp.connection import Connection, ConnectionEvents
from pulsarscope.tcp.selected_places import PacketPlace, SelectedPlaces
from pulsarscope.tcp.sequence import sequence_difference
from pulsarscope.tcp.stream_starts import StreamStarts

__all__ = [
    "Assembler",
    "Connection",
    "ConnectionEvents",
    "PacketPlace",
    "SelectedPlaces",
    "StreamStarts",
    "sequence_difference",
]
