"""Holes in a capture do not delay what the peer has received."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path

import pytest

from benchmarks.memory import idle_connections, write
from pulsarscope.capture import BlockReader
from pulsarscope.engine.local import run_blocks
from pulsarscope.model.bounded_tables import NOTHING
from pulsarscope.model.records import ExchangeRow, FrameRow
from tests.scenarios import Conversation, Packet, write_pcap
from tests.scenarios.commands import CONNECT, CONNECTED, receipt, send
from tests.scenarios.options import Options

MILLISECOND = 1_000_000
SECOND = 1_000 * MILLISECOND


def lossy(step_ns: int, lost: int, strangers: int = 0) -> list[Packet]:
    """Publish thirty messages; a packet is lost, and some packets of another connection follow each message."""
    talk = Conversation(step_ns=step_ns).handshake().client(CONNECT).server(CONNECTED)
    for number in range(30):
        talk.client(send(1, number)).server(receipt(1, number, entry=number))
    other = Conversation(client=("10.0.0.3", 40_001), step_ns=step_ns // (strangers + 1)).handshake()
    while other.time_ns < talk.time_ns:
        other.client(b"?")
    packets = [packet for number, packet in enumerate(talk.packets) if number != lost]
    return sorted([*packets, *(other.packets if strangers else ())], key=lambda packet: packet.time_ns)


QUESTION, ANSWER = 7 + 4 * 5, 7 + 4 * 5 + 2
"""Positions of packets with a SEND and a SEND_RECEIPT."""


@pytest.mark.parametrize(
    ("step_ms", "lost"),
    [(1, QUESTION), (1, ANSWER), (30, QUESTION), (30, ANSWER), (100, ANSWER), (400, QUESTION)],  # a receipt is accepted with the next one
)
@pytest.mark.parametrize("strangers", [0, 3])
def test_live_gives_what_the_peer_acknowledged_within_a_second(step_ms: int, lost: int, strangers: int, tmp_path: Path) -> None:
    packets = lossy(step_ms * MILLISECOND, lost, strangers)
    path = str(write_pcap(tmp_path / "a.pcap", packets))
    live = run_blocks(path, BlockReader(path, 0, read_bytes=200), Options(frozenset({"frame"}), live=True))
    seen = 0
    for batch in live:
        for row in batch.rows:
            seen += 1
            delay = packets[batch.last_packet - 1].time_ns - row.time if batch.last_packet else 0
            assert delay <= SECOND + step_ms * MILLISECOND, row
    assert seen == 2 + 60 - 1


@pytest.mark.parametrize("lost", [QUESTION, ANSWER], ids=["question", "answer"])
def test_questions_behind_a_hole_find_their_answers(lost: int, tmp_path: Path) -> None:
    path = str(write_pcap(tmp_path / "a.pcap", lossy(30 * MILLISECOND, lost)))
    batches = run_blocks(path, BlockReader(path, 0), Options(frozenset({"frame", "exchange"})))
    rows = [row for batch in batches for row in batch.rows]
    frames = [row for row in rows if isinstance(row, FrameRow)]
    hole = next(index for index, row in enumerate(frames) if row.offset and row.offset > 0 and row.packet > lost)
    assert [row.packet for row in frames[hole + 20 :]] == sorted(row.packet for row in frames[hole + 20 :])
    answered = [row.status for row in rows if isinstance(row, ExchangeRow) and row.request == "SEND" and row.packet > lost + 20]
    assert set(answered) == {"ok"}


CONNECTIONS = 300


def held(path: Path, options: Options) -> int:
    """Return the memory at the end of the file, in bytes, before connections end. Small blocks are used, as their packets would count.

    Collecting garbage also empties the lists of freed objects, whose use would not count.
    """
    gc.collect()
    tracemalloc.start()
    try:
        batches = iter(run_blocks(str(path), BlockReader(str(path), 0, read_bytes=1 << 14), options))
        while next(batches).bytes_read < path.stat().st_size:
            pass
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize(("rules", "most"), [(False, 4_500), (True, 6_000)], ids=["decoded", "diagnosed"])
def test_an_idle_connection_takes_a_few_kilobytes(tmp_path: Path, rules: bool, most: int) -> None:
    options = Options(frozenset({"frame"}), rules=rules)
    path = tmp_path / "idle.pcap"
    sizes = []
    for count in (CONNECTIONS, CONNECTIONS, 3 * CONNECTIONS):  # the first run includes what is made only once
        write(path, idle_connections, count)
        sizes.append(held(path, options))
    assert (sizes[2] - sizes[1]) / (2 * CONNECTIONS) <= most
    assert not NOTHING
