"""A live run of days in bounded memory."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from pulsarscope.capture import Block, BlockReader, PacketRecord
from pulsarscope.capture.formats.pcapng import PcapngDecoder
from pulsarscope.engine import facts, packed_facts
from pulsarscope.engine.local import ALL_RECORDS, run_blocks
from pulsarscope.output.export.pcapng import interface_block, packet_block, section_block
from tests.scenarios.options import Options

MINUTE = 60 * 1_000_000_000
TCP_AT, FLAGS_AT = 34, 47
CLOSING = 0x05
"""FIN and RST."""


class Days:
    """Source that repeats a capture every minute from other client ports, every second time without closing the connections."""

    recognised = True
    first_time = None

    def __init__(self, capture: Path, minutes: int) -> None:
        self._records = [record for block in BlockReader(str(capture), records=True) for record in block.records]
        self._minutes = minutes

    def __iter__(self) -> Iterator[Block]:
        decoder = PcapngDecoder(0)
        yield decoder.feed(section_block("test") + interface_block(1, 0, "eth0"), 0)
        for minute in range(self._minutes):
            packets = [self._packet(record, minute) for record in self._records if minute % 2 or not record.data[FLAGS_AT] & CLOSING]
            yield decoder.feed(b"".join(packets), 0)

    def _packet(self, record: PacketRecord, minute: int) -> bytes:
        data = bytearray(record.data)
        for at in (TCP_AT, TCP_AT + 2):
            port = int.from_bytes(data[at : at + 2], "big")
            if port != 6650:
                data[at : at + 2] = (1_024 + (port + 17 * minute) % 64_000).to_bytes(2, "big")
        return packet_block(0, record.time + minute * MINUTE, record.wire_bytes, bytes(data))

    def take_secrets(self) -> list[tuple[int, bytes]]:
        return []


def memory_after(capture: Path, connections: tuple[int, ...]) -> list[int]:
    """Return the memory in bytes after a number of connections, two per minute."""
    run = run_blocks("test", Days(capture, connections[-1] // 2), Options(records=ALL_RECORDS, rules=True, live=True))
    held: list[int] = []
    tracemalloc.start()
    try:
        for _ in run:
            if len(held) < len(connections) and run.connections >= connections[len(held)]:
                gc.collect()
                held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert run.complete
    return held


@pytest.mark.slow
def test_memory_is_flat(captures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (facts, packed_facts):
        monkeypatch.setattr(module, "FACTS_PER_KEY_MAX", 10)  # all rows are about the same topics, whose keys fill sooner
    after_hours, after_more = memory_after(captures / "errors.pcap", (180, 420))
    assert after_more < after_hours + 100_000
