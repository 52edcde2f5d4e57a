"""Kernel packet ring with real packets on the loopback interface."""

from __future__ import annotations

import shlex
import shutil
import struct
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from pulsarscope.capture import Block
from pulsarscope.capture.reader import BlockReader
from pulsarscope.live.bpf import tcp_program
from pulsarscope.live.feed import LiveFeed
from pulsarscope.live.interfaces import find_interface
from pulsarscope.live.ring import COOKED, ETHERNET, PacketRing
from pulsarscope.model.flow import source_of_key
from pulsarscope.model.live_limits import LIVE_RING_BYTES
from pulsarscope.model.platform import load_native
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
    with closing(PacketRing(find_interface("lo"), tcp_program({port}), 0)) as ring:  # two blocks, the minimum
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


def test_packets_of_all_interfaces_are_named_by_their_own() -> None:
    port = free_port()
    ring = PacketRing(find_interface("any"), tcp_program({port}), 8 * RING_BYTES)
    feed = LiveFeed(ring, by_interface=True)
    feed.start()
    replay([SAID[:3]], port)
    feed.stop()
    with closing(feed):
        assert {source_of_key(key) for block in feed for key in block.flows} == {"lo"}


IN_NAMESPACE = """
set -e
echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6  # its own packets would count
ip link set lo up
{before}
{command} &
pid=$!
for _ in $(seq 100); do test -s {ready} && break; sleep 0.1; done
{during}
sleep 0.5
kill -INT $pid
wait $pid
"""
ADDED = "ip link add v0 type veth peer name v1; ip addr add 10.99.0.1/24 dev v0; ip link set v0 up; ip link set v1 up"
SAY = "for _ in 1 2 3; do (timeout 0.3 bash -c 'exec 3<>/dev/tcp/10.99.0.2/6650' || true) 2>/dev/null; done"
NEIGHBOUR = "ip neigh replace 10.99.0.2 lladdr 02:00:00:00:00:02 dev v0"


def in_namespace(tmp_path: Path, *options: str, before: str, during: str) -> tuple[str, int]:
    """What `live` reports in a separate network namespace where these commands run before and meanwhile, and its saved packets."""
    saved = tmp_path / "saved.pcapng"
    command = shlex.join([sys.executable, "-m", "pulsarscope", "live", "-i", "v0", "-w", str(saved), *options])
    ready = tmp_path / "err"
    script = IN_NAMESPACE.format(
        before=before, command=f"{command} 2>{shlex.quote(str(ready))}", during=during, ready=shlex.quote(str(ready))
    )
    done = subprocess.run(
        [shutil.which("unshare") or "unshare", "-n", "bash", "-c", script], capture_output=True, text=True, timeout=120, check=False
    )
    said = ready.read_text()
    assert done.returncode == 0, (done.stderr, said)
    return said, sum(block.packets for block in BlockReader(str(saved)))


@pytest.mark.slow
def test_an_interface_that_goes_down_is_waited_for(tmp_path: Path) -> None:
    during = f"{NEIGHBOUR}; {SAY}; ip link set v0 down; sleep 1.5; ip link set v0 up; sleep 1.5; {NEIGHBOUR}; {SAY}"
    said, packets = in_namespace(tmp_path, before=ADDED, during=during)
    assert "v0 is down: waiting for it" in said
    assert "v0 is up again" in said
    assert packets == 6


@pytest.mark.slow
def test_an_interface_that_is_not_there_yet_or_made_anew_is_waited_for_when_asked(tmp_path: Path) -> None:
    during = f"{ADDED}; sleep 3; {NEIGHBOUR}; {SAY}; ip link del v0; sleep 1.5; {ADDED}; sleep 2; {NEIGHBOUR}; {SAY}"
    said, packets = in_namespace(tmp_path, "--wait-for-interface", before="true", during=during)
    assert "waiting for interface v0" in said
    assert "v0 is up again" in said
    assert packets == 6


@pytest.mark.slow
def test_an_interface_that_is_removed_ends_it_otherwise(tmp_path: Path) -> None:
    said, packets = in_namespace(tmp_path, before=ADDED, during=f"{NEIGHBOUR}; {SAY}; ip link del v0; sleep 2; exit 0")
    assert "3 packets from v0" in said
    assert packets == 3


@pytest.mark.skipif(load_native()[0] is None, reason="pulsarscope-native is not installed")
@pytest.mark.parametrize("packets_max", [None, 1, 7])
def test_the_compiled_conversion_gives_the_same_bytes(packets_max: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    with closing(PacketRing(find_interface("lo"), tcp_program({port}), RING_BYTES)) as ring:
        replay([SAID[:2] + [(True, bytes(size)) for size in range(1, 40)]], port)
        time.sleep(0.2)  # the kernel passes on a partial block after 0.1 s
        compiled = ring._captured(0, packets_max)
        monkeypatch.setattr(ring, "_compiled", None)
        assert ring._captured(0, packets_max) == compiled
        assert compiled.packets == packets_max or packets_max is None


@pytest.mark.skipif(load_native()[0] is None, reason="pulsarscope-native is not installed")
def test_the_compiled_conversion_leaves_to_python_what_is_not_plain() -> None:
    convert = load_native()[0].ring_packets
    plain = struct.pack("=IIIIIIH6x", 40, 1, 2, 5, 9, 0, 32) + b"bytes   "
    tagged = struct.pack("=IIIIIIH6x", 40, 1, 2, 5, 9, 0x10, 32) + b"bytes   "
    data, last = convert(plain + plain, 0, 2)
    assert (len(data), last) == (80, 1_000_000_002)
    for block, first, packets in ((plain + tagged, 0, 2), (plain, 0, 2), (plain, 30, 1), (plain[:36], 0, 1), (b"", 0, 1)):
        assert convert(block, first, packets) is None
    assert convert(plain, 0, 0) == (b"", 0)


@pytest.mark.slow
def test_nothing_is_lost_while_the_capture_stalls_for_seconds() -> None:
    port = free_port()
    with closing(PacketRing(find_interface("lo"), tcp_program({port}), LIVE_RING_BYTES)) as ring:
        end = time.monotonic() + 8
        while time.monotonic() < end:
            replay([[(True, b"ask")]], port, "127.0.0.1")
            time.sleep(0.02)
        ring.count()
        assert ring.received > 500
        assert ring.dropped == 0
        packets = 0
        while (captured := ring.read(0.5)) is not None:
            packets += captured.packets
        assert packets == ring.received
