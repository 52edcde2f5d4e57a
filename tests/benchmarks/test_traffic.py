"""Captures of the benchmarks must be what they claim to be."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from benchmarks import dpkt_decoder, traffic

Rows = list[dict[str, object]]


def decode(path: Path, capsys: pytest.CaptureFixture[str]) -> Rows:
    capsys.readouterr()
    dpkt_decoder.main(str(path))
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def counts(rows: Rows) -> Counter[object]:
    return Counter(row["command"] for row in rows)


@pytest.mark.parametrize("name", ["tiny", "sync", "batch", "big"])
def test_every_entry_is_sent_confirmed_delivered_and_acknowledged(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.pcap"
    traffic.main([name, str(path), "--megabytes", "1"])
    rows = decode(path, capsys)
    found = counts(rows)
    assert found["SEND"] == found["SEND_RECEIPT"] == found["MESSAGE"] == found["ACK"] > 0
    assert {row["checksum"] for row in rows if "checksum" in row} == {"good"}
    assert 1e6 <= path.stat().st_size < 4e6


def test_equal_arguments_give_equal_bytes(tmp_path: Path) -> None:
    for name in ("a.pcap", "b.pcap"):
        traffic.main(["--seed", "3", "batch", str(tmp_path / name), "--megabytes", "0.1"])
    assert (tmp_path / "a.pcap").read_bytes() == (tmp_path / "b.pcap").read_bytes()


def test_every_short_connection_is_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.pcap"
    traffic.main(["connections", str(path), "--count", "150"])
    rows = decode(path, capsys)
    assert len({row["source"] for row in rows if row["command"] == "CONNECT"}) == 150
    assert counts(rows)["MESSAGE"] == 300


def test_replicas_have_other_clients_and_the_same_frames(captures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = captures / "raw-coalesce.pcap"
    path = tmp_path / "x.pcap"
    traffic.main(["replicate", str(source), str(path), "--times", "3"])
    once, thrice = decode(source, capsys), decode(path, capsys)
    assert counts(thrice) == Counter({command: 3 * count for command, count in counts(once).items()})
    assert len({row["source"] for row in thrice if row["command"] == "CONNECT"}) == 3


def test_disorder_changes_the_order_of_packets_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tidy, untidy = tmp_path / "tidy.pcap", tmp_path / "untidy.pcap"
    traffic.main(["tiny", str(tidy), "--megabytes", "1"])
    traffic.main(["disorder", str(tidy), str(untidy), "--share", "0.05"])
    before, after = list(traffic.records(tidy)), list(traffic.records(untidy))
    assert len(after) > len(before)
    assert {packet for _, packet in after} == {packet for _, packet in before}
    times = [time for time, _ in after]
    assert times == sorted(times)
    assert counts(decode(untidy, capsys)) == counts(decode(tidy, capsys))


def test_another_kind_of_file_is_refused(captures: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a little-endian pcap"):
        traffic.main(["disorder", str(captures / "quickstart.pcapng"), str(tmp_path / "x")])
