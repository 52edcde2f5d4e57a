"""Connections that the compiled reader has followed from SYN to both FINs."""

from __future__ import annotations

from typing import Any

from pulsarscope.model.flow import reverse_key
from pulsarscope.tcp.connection import Connection
from pulsarscope.tcp.copies import identity
from pulsarscope.tcp.stream import Stream


def closed_connection(key: bytes, file: int, found: Any) -> Connection:
    """Return an ended connection that the compiled reader has followed block by block. `key` is the client's."""
    (packet, start), (closed_packet, ending), (last_file, last_packet, last_time), packets, (closed_by, closing_time), *streams = found
    keys = key, reverse_key(key)
    # fmt: off
    first, second = (
        Stream(
            keys[index], index, sequence=sequence, length=length, segments=segments, newest=identity(identification, options, size),
            captured=True, handshake=True, fin=length,
        )
        for index, (sequence, length, identification, options, size, segments) in enumerate(streams)
    )
    return Connection(
        key=key, name=f"{file}:{packet}", file=file, packet=packet, start=start, streams=(first, second), end=last_time, opened="syn",
        last_file=last_file, last_packet=last_packet, last_time=last_time, packets=packets, closed_by=closed_by, closing_time=closing_time,
        client=0, closing=True, announced=True, closed="fin", ended=True, ended_file=file, ending=ending,
        closed_file=file, closed_packet=closed_packet,
    )
    # fmt: on
