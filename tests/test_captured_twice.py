"""Sessions captured at two points: rows of the copies that come first, no retransmissions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pulsarscope.engine import parallel as jobs
from pulsarscope.engine.local import ALL_RECORDS
from pulsarscope.model.records import ConnectionRow, FindingRow, FrameRow, MessageRow
from tests.places import CAPTURES
from tests.scenarios import write_pcap
from tests.scenarios.options import Options
from tests.scenarios.recapture import packets_of

MILLISECOND = 1_000_000
NAMES = ["quickstart.pcapng", "ipv6.pcap"]
CODES = {"captured-twice", "packet-duplicate"}


def rows_of(path: Path, workers: int = 1) -> list[Any]:
    return [row for batch in jobs.run([str(path)], Options(ALL_RECORDS, rules=True), workers) for row in batch.rows]


def essence(rows: list[Any]) -> tuple[Any, ...]:
    """Return what does not depend on the numbers of packets."""
    return (
        sorted((row.time, row.command, row.direction, row.offset, row.size) for row in rows if isinstance(row, FrameRow)),
        sorted((row.time, row.payload_size, row.payload_sha256 or "") for row in rows if isinstance(row, MessageRow)),
        sorted(row.retransmitted for row in rows if isinstance(row, ConnectionRow)),
        sorted(row.code for row in rows if isinstance(row, FindingRow) and row.code not in CODES),
    )


@pytest.mark.parametrize("skew", [0, MILLISECOND // 2, 20 * MILLISECOND, 3_000 * MILLISECOND])
@pytest.mark.parametrize("name", NAMES)
def test_two_captures_merged_give_the_rows_of_the_first(name: str, skew: int, tmp_path: Path) -> None:
    packets = packets_of(CAPTURES / name)
    copies = [packet._replace(time_ns=packet.time_ns + skew) for packet in packets]
    want = rows_of(write_pcap(tmp_path / "one.pcap", packets))
    merged = write_pcap(tmp_path / "two.pcap", sorted(packets + copies, key=lambda packet: packet.time_ns))
    rows = rows_of(merged)
    assert essence(rows) == essence(want)
    found = {row.code for row in rows if isinstance(row, FindingRow)} & CODES
    assert found == ({"captured-twice"} if skew > MILLISECOND else {"packet-duplicate"})
    assert sorted(map(repr, rows_of(merged, 2))) == sorted(map(repr, rows))


@pytest.mark.parametrize("skew", [-20 * MILLISECOND, 20 * MILLISECOND])
@pytest.mark.parametrize("name", NAMES)
def test_two_files_of_one_session_have_no_retransmissions(name: str, skew: int, tmp_path: Path) -> None:
    packets = packets_of(CAPTURES / name)
    write_pcap(tmp_path / "a.pcap", packets)
    write_pcap(tmp_path / "b.pcap", [packet._replace(time_ns=packet.time_ns + skew) for packet in packets])
    rows = rows_of(tmp_path)
    assert "captured-twice" in {row.code for row in rows if isinstance(row, FindingRow)}
    assert sum(row.retransmitted for row in rows if isinstance(row, ConnectionRow)) == sum(
        row.retransmitted for row in rows_of(tmp_path / "a.pcap") if isinstance(row, ConnectionRow)
    )
