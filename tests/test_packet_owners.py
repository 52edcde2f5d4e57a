"""Connections have the owners of their sockets in every way of running."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import pulsarscope as ps
from pulsarscope.capture import BlockReader, expand_inputs
from pulsarscope.output.export.pcapng import PcapngWriter
from pulsarscope.output.export.sink import Sink
from tests.places import CAPTURES
from tests.scenarios.command_line import execute_here

CLIENT = "PID: 4711\nCmd: /usr/bin/python3\nArgs: \x1b[31mevil\nPodName: web-0\nPodNamespace: shop\x1b[2J"
BROKER = "PID: 1\nCmd: /opt/java/bin/java\nContainerName: broker"


@pytest.fixture(scope="module")
def commented(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two captures in one, with comments on some packets of the second."""
    path = tmp_path_factory.mktemp("owners") / "ptcpdump.pcapng"
    with path.open("wb") as stream:
        writer = PcapngWriter(Sink(stream, "a test"), "ptcpdump")
        for name in ("errors.pcap", "quickstart.pcapng"):
            for block in BlockReader(str(CAPTURES / name), records=True):
                for record in block.records:
                    comment = "" if name == "errors.pcap" else {0: CLIENT, 1: BROKER}.get(record.number % 3, "")
                    writer.packets([(record, [comment] if comment else [])])
    return path


@pytest.mark.slow
def test_connections_name_who_has_their_sockets(commented: Path) -> None:
    rows = list(ps.open(commented).connections())
    assert [(row.process, row.pod) for row in rows] == [(None, None)] * 2 + [("java (1), python3 (4711)", "shop\x1b[2J/web-0")]
    assert list(ps.open(commented, jobs=2).connections()) == rows
    assert [row.process for row in ps.open(commented).connections(filter='process contains "java" && pod matches "web"')] == [
        rows[-1].process
    ]


def test_text_escapes_and_programs_get_them(commented: Path) -> None:
    text = execute_here("decode", str(commented), "--records", "connection").stdout
    assert b"process java (1), python3 (4711)" in text
    assert b"\x1b" not in text
    lines = execute_here("decode", str(commented), "--records", "connection", "--format", "ndjson").stdout.splitlines()
    assert [json.loads(line).get("pod") for line in lines] == [None, None, "shop\x1b[2J/web-0"]
    masked = execute_here("decode", str(commented), "--records", "connection", "--format", "csv", "--redact").stdout
    assert b"web-0" not in masked


@pytest.mark.parametrize("by_packet", [False, True])
def test_a_cluster_gives_the_same_rows(commented: Path, *, by_packet: bool) -> None:
    from tests.spark.inside import Cluster, local  # noqa: PLC0415

    inputs = expand_inputs([str(commented)], "none")
    assert Cluster(inputs, partitions=3, by_packet=by_packet).tables() == local(inputs)
