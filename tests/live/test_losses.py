"""A live run of slow traffic with missing packets: nothing waits for long after a hole."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from pulsarscope.capture import Block
from pulsarscope.capture.formats.pcapng import PcapngDecoder
from pulsarscope.engine.local import run_blocks
from pulsarscope.model.records import FrameRow
from pulsarscope.output.export.pcapng import interface_block, packet_block, section_block
from tests.scenarios.capturefile import Packet
from tests.scenarios.commands import ack, created, message, producer, receipt, send
from tests.scenarios.connections import connected, subscribed
from tests.scenarios.conversation import MILLISECOND, SECOND
from tests.scenarios.options import Options

TICK = 100 * MILLISECOND


class Ticking:
    """Source that gives a block for each tick of the clock, with or without packets, like an interface."""

    recognised = True
    first_time = None

    def __init__(self, packets: list[Packet]) -> None:
        self._packets = packets
        self.now = 0

    def __iter__(self) -> Iterator[Block]:
        decoder = PcapngDecoder(0)
        yield decoder.feed(section_block("test") + interface_block(1, 0, "eth0"), 0)
        start, position = self._packets[0].time_ns, 0
        while position < len(self._packets):
            self.now = start = start + TICK
            came = b""
            while position < len(self._packets) and self._packets[position].time_ns <= self.now:
                packet = self._packets[position]
                came += packet_block(0, packet.time_ns, len(packet.data), packet.data)
                position += 1
            block = decoder.feed(came, 0)
            block.last_time = block.last_time if came else self.now
            yield block

    def take_secrets(self) -> list[tuple[int, bytes]]:
        return []


@pytest.mark.parametrize(("size", "every", "first"), [*product((100, 300, 2000), (32, 16), (5, 12))])
def test_every_frame_comes_within_two_seconds(size: int, every: int, first: int) -> None:
    """3 kB/s: messages of `size` bytes, sent, received and acknowledged; each `every`th packet is lost, except the last ones.

    After a hole, a frame without a checksum is proven by the next one: if none follows, it waits longer.
    """
    talk = subscribed(connected()).client(producer()).server(created())
    for number in range(30_000 // size):
        talk.client(send(1, number, bytes(size))).server(receipt(1, number, entry=number)).wait(size * SECOND // 3_000)
        talk.server(message(1, number, bytes(size))).client(ack(number))
    whole = range(9, len(talk.packets) - 20)
    packets = [packet for index, packet in enumerate(talk.packets) if index not in whole or index % every != first % every]
    source = Ticking([*packets, Packet(packets[-1].time_ns + 3 * SECOND, packets[-1].data)])
    delays = []
    for batch in run_blocks("test", source, Options(frozenset({"frame"}), live=True)):
        delays += [source.now - (row.time or 0) for row in batch.rows if isinstance(row, FrameRow)]
    assert len(delays) > 0.6 * 4 * (30_000 // size)
    assert max(delays) <= 2 * SECOND
