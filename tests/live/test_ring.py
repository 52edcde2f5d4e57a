"""Kernel packet ring with real packets on the loopback interface."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest

from pulsarscope.capture import Block
from pulsarscope.live.bpf import tcp_program
from pulsarscope.live.feed import LiveFeed
from pulsarscope.live.interfaces import find_interface
from pulsarscope.live.ring import COOKED, ETHERNET, PacketRing
from tests.scenarios.loopback import RING_BYTES, Said, free_port, needs_capturing, replay

pytestmark = needs_capturing

SAID: Said = [(True, b"ask" * 1000), (False, b"answer" * 30_000), (True, b"x")] * 20


def streams(blocks: list[Block]) -> dict[bytes, bytes]:
    """Return the bytes of each direction, ordered by sequence number."""
    pieces: dict[bytes, dict[int, bytes]] = {}
    for block in blocks:
        for key, segments in block.flows.items():
            pieces.setdefault(key, {}).update({segment[2]: segment[6] for segment in segments if segment[6]})
    return {key: b"".join(data for _, data in sorted(parts.items())) for key, parts in pieces.items()}


@pytest.mark.parametrize(("name", "host"), [("lo", "127.0.0.1"), ("lo", "::1"), ("any", "127.0.0.1"), ("any", "::1")])
def test_all_that_was_said_is_captured_once(name: str, host: str) -> None:
    port = free_port()
    ring = PacketRing(find_interface(name), tcp_program({port}), RING_BYTES)
    feed = LiveFeed(ring)

    def talked() -> None:
        replay([SAID], port, host)
        feed.stop()

    talk = threading.Thread(target=talked)
    talk.start()
    with closing(feed):
        blocks = list(feed)
    talk.join()
    heard = sorted(streams(blocks).values(), key=len)
    assert heard == [b"".join(data for asks, data in SAID if asks), b"".join(data for asks, data in SAID if not asks)]
    packets = [segment[0] for block in blocks for segments in block.flows.values() for segment in segments]
    assert sorted(packets) == list(range(1, feed.packets + 1))
    assert ring.link_type == (ETHERNET if name == "lo" else COOKED)
    assert feed.health().dropped == 0


def test_other_ports_are_left_out_by_the_kernel() -> None:
    port, other = free_port(), free_port()
    with closing(PacketRing(find_interface("lo"), tcp_program({port}), RING_BYTES)) as ring:
        replay([SAID], other)
        assert ring.read(0.3) is None
        ring.count()
        assert ring.received == 0


def test_what_finds_no_room_is_counted_as_the_kernel_counts_it() -> None:
    port = free_port()
    with closing(PacketRing(find_interface("lo"), tcp_program({port}), 0)) as ring:  # two blocks, the least
        replay([SAID], port)
        taken = 0
        while (captured := ring.read(0.3)) is not None:
            taken += captured.packets
        ring.count()
    assert ring.dropped > 0
    assert taken == ring.received - ring.dropped


def test_it_takes_no_more_packets_than_asked() -> None:
    port = free_port()
    with closing(PacketRing(find_interface("lo"), tcp_program({port}), RING_BYTES)) as ring:
        replay([SAID], port)
        captured = ring.read(1.0, 3)
        assert captured is not None
        assert captured.packets == 3


def test_a_ring_larger_than_can_be_asked_for_is_an_error_of_the_system() -> None:
    with pytest.raises(OSError, match="Cannot allocate memory"):
        PacketRing(find_interface("lo"), tcp_program({1}), 20 << 40)


def test_what_loopback_shows_twice_is_counted_once_of_all_interfaces() -> None:
    port = free_port()
    with closing(PacketRing(find_interface("any"), tcp_program({port}), 8 * RING_BYTES)) as ring:
        replay([SAID], port)
        taken = 0
        while (captured := ring.read(0.3)) is not None:
            taken += captured.packets
        ring.count()
    assert taken == ring.received > 0
    assert ring.dropped == 0
