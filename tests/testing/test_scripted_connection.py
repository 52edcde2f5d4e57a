"""Scripted connections are readable captures."""

from __future__ import annotations

from pathlib import Path

import pulsarscope as ps
from pulsarscope.testing import ScriptedConnection, pcap_bytes
from tests.scenarios.commands import CONNECT, CONNECTED, PING


def test_a_scripted_connection_is_a_capture_of_it(tmp_path: Path) -> None:
    path = tmp_path / "talk.pcap"
    path.write_bytes(ScriptedConnection(6650).client(CONNECT).server(CONNECTED, PING).close().pcap())
    assert [(frame.packet, frame.command) for frame in ps.open(str(path)).frames()] == [(4, "CONNECT"), (5, "CONNECTED"), (5, "PING")]
    (row,) = ps.open(str(path)).connections()
    assert (row.opened, row.closed, row.client, row.server) == ("syn", "fin", "10.0.0.1:40000", "10.0.0.2:6650")


def test_time_passes_and_two_connections_are_one_capture(tmp_path: Path) -> None:
    path = tmp_path / "two.pcap"
    slow = ScriptedConnection(6650).client(CONNECT).wait(2.5).server(CONNECTED)
    quick = ScriptedConnection(6650, client_port=40_001).client(CONNECT).server(CONNECTED)
    path.write_bytes(pcap_bytes(sorted(slow.packets + quick.packets)))
    made = [(frame.command, (frame.time - slow.packets[0][0]) // 100_000) for frame in ps.open(str(path)).frames()]
    assert made == [("CONNECT", 3), ("CONNECT", 3), ("CONNECTED", 4), ("CONNECTED", 25_004)]


def test_bytes_that_the_capture_lacks_are_a_gap(tmp_path: Path) -> None:
    path = tmp_path / "gap.pcap"
    path.write_bytes(ScriptedConnection(6650).client(CONNECT).lose(0, 100).client(PING * 2).close().pcap())
    (row,) = ps.open(str(path)).connections()
    assert (row.client_missing, row.client_frames) == (100, 3)
