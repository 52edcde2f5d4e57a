"""Byte-wise reference implementation of reassembly: value, naming packet and moment of each byte of a stream."""

from __future__ import annotations

from collections.abc import Iterable

Byte = tuple[int, int, int]
"""Value, naming packet, moment; a gap byte is (-1, 0, moment)."""


def reassemble(segments: Iterable[tuple[int, int, bytes, int]], last_packet: int) -> list[Byte]:
    """Reassemble (packet, offset, payload, missing) segments, without bytes before offset 0."""
    seen: dict[int, tuple[int, int]] = {}
    cut: set[int] = set()
    stream: list[Byte] = []
    gapped = False

    def release(packet: int) -> None:
        nonlocal gapped
        while (offset := len(stream)) in seen or offset in cut:
            if offset in seen:
                value, own = seen[offset]
                stream.append((value, own if gapped else packet, packet))
            else:
                stream.append((-1, 0, packet))
                gapped = True

    for packet, start, payload, missing in segments:
        for index, value in enumerate(payload):
            if start + index >= len(stream):
                seen.setdefault(start + index, (value, packet))
        cut.update(range(start + len(payload), start + len(payload) + missing))
        release(packet)
    end = max([*seen, *cut], default=-1) + 1
    while len(stream) < end:
        stream.append((-1, 0, last_packet))
        gapped = True
        release(last_packet)
    return stream
