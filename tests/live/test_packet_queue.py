"""Both queues against a model: every loss is counted, and order is kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.live.packet_queue import SKIPPED_BYTES, SKIPPED_PACKETS, MemoryQueue, PacketQueue, SharedQueue
from pulsarscope.live.packet_source import CapturedPackets

steps = st.lists(st.one_of(st.just(None), st.tuples(st.integers(1, 300), st.integers(1, 9))), max_size=60)


def drained(queue: PacketQueue) -> list[CapturedPackets | int]:
    entries = []
    while (entry := queue.take(0)) is not None:
        if entry:
            entries.append(entry)
    return entries


@pytest.mark.parametrize("kind", [MemoryQueue, SharedQueue])
@given(steps)
def test_packets_come_in_order_and_what_does_not_fit_is_counted_where_it_was(
    kind: type[PacketQueue], script: list[tuple[int, int] | None]
) -> None:
    queue: PacketQueue = kind(1_024)  # type: ignore[call-arg]
    taken: list[CapturedPackets | int] = []
    put = []
    for number, step in enumerate(script):
        if step is None:
            if entry := queue.take(0):
                taken.append(entry)
        else:
            size, packets = step
            put.append(CapturedPackets(bytes([number]) * size, packets, number))
            queue.put(put[-1])
        assert 0 <= queue.waiting_bytes <= 1_024
    queue.end()
    taken += drained(queue)
    assert queue.take(0) is None
    position = skipped = skipped_bytes = 0
    for entry in taken:
        if isinstance(entry, CapturedPackets):
            assert entry == put[position]
            position += 1
            continue
        skipped += entry
        left = entry
        while left > 0:
            left -= put[position].packets
            skipped_bytes += len(put[position].data)
            position += 1
        assert left == 0
    rest = put[position:]  # skipped at the very end, where there may be no room to report it
    assert queue.counts[SKIPPED_PACKETS] == skipped + sum(each.packets for each in rest)
    assert queue.counts[SKIPPED_BYTES] == skipped_bytes + sum(len(each.data) for each in rest)


@pytest.mark.parametrize("kind", [MemoryQueue, SharedQueue])
def test_an_empty_queue_waits_and_an_ended_one_does_not(kind: type[PacketQueue]) -> None:
    queue: PacketQueue = kind(1_024)  # type: ignore[call-arg]
    queue.put(CapturedPackets(b"data", 1, 7))
    assert queue.take(60) == CapturedPackets(b"data", 1, 7)
    assert queue.take(0.01) == 0
    queue.end()
    assert queue.take(60) is None
