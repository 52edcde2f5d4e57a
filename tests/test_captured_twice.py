"""Sessions captured at two points: rows of the first copies, without retransmissions."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pulsarscope.engine import parallel as jobs
from pulsarscope.engine.local import ALL_RECORDS
from pulsarscope.engine.parallel import driver
from pulsarscope.model.records import ConnectionRow, FindingRow, FrameRow, MessageRow
from tests.faults.consumers import consuming, publishing
from tests.places import CAPTURES
from tests.scenarios import write_pcap
from tests.scenarios.capturefile import Packet
from tests.scenarios.inside import Inside
from tests.scenarios.options import Options
from tests.scenarios.recapture import packets_of

MILLISECOND = 1_000_000
NAMES = ["quickstart.pcapng", "ipv6.pcap"]
CODES = {"captured-twice", "packet-duplicate"}


def rows_of(path: Path, workers: int = 1) -> list[Any]:
    return [row for batch in jobs.run([str(path)], Options(ALL_RECORDS, rules=True), workers) for row in batch.rows]


def essence(rows: list[Any]) -> tuple[Any, ...]:
    """Return what does not depend on packet numbers."""
    return (
        sorted((row.time, row.command, row.direction, row.offset, row.size) for row in rows if isinstance(row, FrameRow)),
        sorted((row.time, row.payload_size, row.payload_sha256 or "") for row in rows if isinstance(row, MessageRow)),
        sorted(row.retransmitted for row in rows if isinstance(row, ConnectionRow)),
        sorted(row.code for row in rows if isinstance(row, FindingRow) and row.code not in CODES),
    )


@pytest.fixture(autouse=True)
def inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep workers in this process."""
    monkeypatch.setattr(driver, "Process", Inside)


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


@pytest.mark.parametrize("skew", [3_000 * MILLISECOND, 9_000 * MILLISECOND])
def test_the_clock_of_the_copies_makes_no_consumer_wait(skew: int, tmp_path: Path) -> None:
    talks = consuming(20, 20, until=0), publishing(70, 20 * MILLISECOND, until=1_600 * MILLISECOND)
    packets = [packet for talk in talks for packet in talk.packets]
    copies = [packet._replace(time_ns=packet.time_ns + skew) for packet in packets]
    rows = rows_of(write_pcap(tmp_path / "two.pcap", sorted(packets + copies, key=lambda packet: packet.time_ns)))
    found = {row.code: row.severity for row in rows if isinstance(row, FindingRow)}
    assert "captured-twice" in found
    assert {code for code, severity in found.items() if severity != "note"} == set()


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


COOKED: dict[int, Callable[[bytes, int], bytes]] = {
    113: lambda data, interface: struct.pack(">HHH", interface, 1, 6) + data[6:12] + b"\0\0" + data[12:],
    276: lambda data, interface: data[12:14] + b"\0\0" + struct.pack(">IHBB", interface, 1, 4, 6) + data[6:12] + b"\0\0" + data[14:],
}
"""Headers of the link types written by `tcpdump -i any`, which distinguish interfaces by number or by direction."""


@pytest.mark.parametrize("link_type", COOKED)
@pytest.mark.parametrize("later", [0, 3_000, 400_000])
def test_packets_on_two_interfaces_of_one_host_are_read_once(later: int, link_type: int, tmp_path: Path) -> None:
    """A capture of all interfaces has each packet of a container twice: at its own interface and at the bridge."""
    packets = packets_of(CAPTURES / "quickstart.pcapng")
    want = rows_of(write_pcap(tmp_path / "one.pcap", packets))
    seen = [
        Packet(packet.time_ns + skew, COOKED[link_type](packet.data, interface))
        for packet in packets
        for interface, skew in ((0, 0), (4, later))
    ]
    seen.sort(key=lambda packet: packet.time_ns)
    rows = rows_of(write_pcap(tmp_path / "any.pcap", seen, link_type=link_type))
    assert essence(rows) == essence(want)
    assert [row.code for row in rows if isinstance(row, FindingRow)] == ["packet-duplicate"]


@pytest.mark.parametrize("skew", [0, 3_000, 20 * MILLISECOND])
def test_the_two_sides_of_a_translation_of_addresses_are_two_connections(skew: int, tmp_path: Path) -> None:
    packets = packets_of(CAPTURES / "quickstart.pcapng")
    inside, outside = packets[0].data[26:30], bytes([192, 0, 2, 9])
    translated = [
        packet._replace(
            time_ns=packet.time_ns + skew, data=packet.data[:26] + packet.data[26:34].replace(inside, outside, 1) + packet.data[34:]
        )
        for packet in packets
    ]
    want = [row for row in rows_of(write_pcap(tmp_path / "one.pcap", packets)) if isinstance(row, FrameRow)]
    merged = sorted(packets + translated, key=lambda packet: packet.time_ns)
    rows = rows_of(write_pcap(tmp_path / "nat.pcap", merged))
    connections = [row for row in rows if isinstance(row, ConnectionRow)]
    assert {row.client.split(":")[0] for row in connections} == {"192.0.2.9", ".".join(map(str, inside))}
    assert [row.retransmitted for row in connections] == [0, 0]
    assert not CODES & {row.code for row in rows if isinstance(row, FindingRow)}
    for connection in connections:
        frames = [row.command for row in rows if isinstance(row, FrameRow) and row.connection == connection.connection]
        assert frames == [row.command for row in want]
