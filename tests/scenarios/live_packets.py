"""Packets from a live source, numbered in their payloads."""

from __future__ import annotations

from collections.abc import Iterable

from pulsarscope.capture import Block
from pulsarscope.live.packet_source import CapturedPackets
from pulsarscope.output.export.pcapng import packet_block
from tests.scenarios.capture_bytes import segment_packet

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND


def captured(number: int, seconds: float | None = None) -> CapturedPackets:
    """Return a packet with a number in its payload."""
    data = segment_packet(number.to_bytes(4, "big"), sequence=1000 + 4 * number)
    time = START + int((number if seconds is None else seconds) * SECOND)
    return CapturedPackets(packet_block(0, time, len(data), data), 1, time)


def numbers(blocks: Iterable[Block]) -> list[tuple[int, int]]:
    """Return (packet number, number in the payload) of all packets."""
    return sorted(
        (segment[0], int.from_bytes(segment[6], "big")) for block in blocks for segments in block.flows.values() for segment in segments
    )
