"""What waits on all connections together is bounded: the longest-waiting part is given up, with a finding; what follows is read."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from pulsarscope.engine import local, timelines
from pulsarscope.engine.ledger import Ledger
from pulsarscope.engine.options import ALL_RECORDS, Options
from pulsarscope.model.records import ConnectionRow, FindingRow, FrameRow, MessageRow
from pulsarscope.protocols import make_dissectors
from tests.scenarios import Conversation, message_metadata, payload_frame, write_pcap
from tests.scenarios.commands import CONNECT, CONNECTED, PING

PAYLOAD = bytes(120_000)

COUNT = 60
"""Number of connections: several blocks of packets."""


def test_a_ledger_knows_the_sum_and_who_has_waited_longest() -> None:
    ledger = Ledger()
    for name, size in (("a", 5), ("b", 7), ("a", 3), ("c", 1)):
        ledger.note(name, size)
    assert (ledger.total, ledger.longest_waiting()) == (11, "a")
    ledger.note("a", 0)
    ledger.note("d", 0)
    assert (ledger.total, ledger.longest_waiting()) == (8, "b")


def send(number: int, **metadata: Any) -> bytes:
    return payload_frame("SEND", message_metadata(sequence_id=number, **metadata), PAYLOAD, producer_id=1, sequence_id=number)


def conversations(first: bytes, last: bytes, count: int = COUNT) -> list[Any]:
    """Packets of connections that all send a few first bytes before any continues."""
    begun = [Conversation(("10.0.0.1", 40_000 + number)).handshake().client(CONNECT).server(CONNECTED) for number in range(count)]
    packets = [packet for one in begun for packet in one.client(first).packets]
    for one in begun:
        before = len(one.packets)
        packets += one.client(last).close().packets[before:]
    return packets


@pytest.mark.slow
def test_bytes_that_wait_are_in_memory_once(tmp_path: Path) -> None:
    frame = payload_frame("SEND", message_metadata(sequence_id=0), bytes(3_000_000), producer_id=1, sequence_id=0)
    count, size = 8, 2_000_000
    capture = write_pcap(tmp_path / "waits.pcap", conversations(frame[:size], PING, count))
    batches = iter(local.run([str(capture)], Options(ALL_RECORDS, dissectors=make_dissectors)))
    next(batches)
    tracemalloc.start()
    try:
        held = max(tracemalloc.get_traced_memory()[0] for _ in batches)
    finally:
        tracemalloc.stop()
    assert 0.8 < held / (count * size) < 1.25


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timelines, "WAITING_MAX_BYTES", COUNT // 2 * len(PAYLOAD))


def rows_of(packets: list[Any], folder: Path) -> list[Any]:
    capture = write_pcap(folder / "waits.pcap", packets)
    return [row for batch in local.run([str(capture)], Options(ALL_RECORDS, dissectors=make_dissectors)) for row in batch.rows]


@pytest.mark.usefixtures("bound")
def test_a_frame_that_waits_longest_is_given_up_and_the_next_one_is_read(tmp_path: Path) -> None:
    frame = send(0) + PING
    rows = rows_of(conversations(frame[:100_000], frame[100_000:]), tmp_path)
    given_up = [row for row in rows if isinstance(row, FindingRow) and row.code == "memory-cap"]
    assert given_up[0].connection == "0:1"
    assert 0 < len(given_up) < COUNT
    for connection in {row.connection for row in rows if isinstance(row, ConnectionRow)}:
        sends = [row for row in rows if isinstance(row, FrameRow) and row.connection == connection and row.command == "SEND"]
        truncated = connection in {row.connection for row in given_up}
        assert [row.status for row in sends] == ["truncated" if truncated else "ok"]
        assert [row.command for row in rows if isinstance(row, FrameRow) and row.connection == connection][-1] == "PING"


@pytest.mark.usefixtures("bound")
def test_every_byte_of_a_connection_that_was_given_up_is_accounted_for(tmp_path: Path) -> None:
    frame = send(0) + PING
    rows = rows_of(conversations(frame[:100_000], frame[100_000:]), tmp_path)
    for row in rows:
        if isinstance(row, ConnectionRow):
            frames = sum(
                each.size or 0
                for each in rows
                if isinstance(each, FrameRow)
                and each.connection == row.connection
                and each.direction == "client"
                and each.status not in {"truncated", "skipped"}
            )
            assert row.client_bytes == frames + (row.client_missing or 0) + (row.client_skipped or 0) + (row.client_tail or 0)


@pytest.mark.usefixtures("bound")
def test_chunks_that_wait_longest_are_given_up(tmp_path: Path) -> None:
    chunks = [send(number, uuid="u", chunk_id=number, num_chunks_from_msg=2, total_chunk_msg_size=2 * len(PAYLOAD)) for number in range(2)]
    rows = rows_of(conversations(chunks[0], chunks[1]), tmp_path)
    given_up = {row.connection for row in rows if isinstance(row, FindingRow) and row.code == "memory-cap"}
    assert 0 < len(given_up) < COUNT
    complete = {row.connection for row in rows if isinstance(row, MessageRow) and row.payload_size == 2 * len(PAYLOAD)}
    assert complete == {row.connection for row in rows if isinstance(row, ConnectionRow)} - given_up
    assert {row.connection for row in rows if isinstance(row, FindingRow) and row.code == "chunk-incomplete"} == given_up


@pytest.mark.parametrize("first", [CONNECT, send(0)[:100_000]])
def test_below_the_bound_nothing_is_given_up(first: bytes, tmp_path: Path) -> None:
    rows = rows_of(conversations(first, PING), tmp_path)
    assert not [row for row in rows if isinstance(row, FindingRow) and row.code == "memory-cap"]
