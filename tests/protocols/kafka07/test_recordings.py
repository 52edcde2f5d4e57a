"""Recorded conversations of Kafka 0.7 clients, compared with the clients' reports, with every command and output."""

from __future__ import annotations

import csv
import io
import json
import struct
import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

import pulsarscope as ps
from pulsarscope import cli
from pulsarscope.engine.options import ALL_RECORDS
from pulsarscope.output.export.iso_times import IsoTimes
from tests.places import CAPTURES
from tests.scenarios.capturefile import Packet, pcap
from tests.scenarios.packet_times import packet_times

KAFKA, MIXED = str(CAPTURES / "kafka07.pcap"), str(CAPTURES / "mixed-pulsar-kafka.pcap")


def truth(path: str) -> Any:
    return json.loads(Path(path).with_suffix(".truth.json").read_text())


@pytest.mark.parametrize("path", [KAFKA, MIXED])
@pytest.mark.parametrize(("direction", "what"), [("produce", "produced"), ("deliver", "consumed")])
def test_every_message_is_what_the_client_says(path: str, direction: str, what: str) -> None:
    wanted = Counter(
        (row["topic"], row["partition"], row["size"], row["sha256"], row.get("offset")) for row in truth(path)[what] if "id" not in row
    )
    actual = Counter(
        (row.topic, row.partition, row.payload_size, row.payload_sha256, (row.extra or {}).get("offset"))
        for row in ps.open(path).messages()
        if row.direction == direction and row.ledger is None
    )
    refused = Counter(row for row in actual if row[1] == 77)  # the client does not count what the broker refused
    assert actual - refused == wanted


def test_codecs_and_magics_are_what_the_producer_says() -> None:
    said = Counter((row["codec"].partition(" ")[0], row["magic"]) for row in truth(KAFKA)["produced"])
    actual = Counter((row.compression, (row.extra or {})["magic"]) for row in ps.open(KAFKA).messages() if row.direction == "produce")
    assert actual - said == {("NONE", 1): 1}  # the refused one


def test_protocols_side_by_side_are_distinguished_and_a_later_kafka_is_not_claimed() -> None:
    assert [row.dissector for row in ps.open(MIXED).connections()] == ["pulsar", None, "kafka07"]
    commands = Counter(row.command for row in ps.open(MIXED).frames())
    assert commands == {
        "CONNECT": 1,
        "CONNECTED": 1,
        "PRODUCER": 1,
        "PRODUCER_SUCCESS": 1,
        "SEND": 3,
        "SEND_RECEIPT": 3,
        "PRODUCE": 1,
        "FETCH": 1,
        "FETCH_RESPONSE": 1,
    }


def test_what_went_wrong_is_found() -> None:
    assert Counter(row.code for row in ps.open(KAFKA).findings()) == Counter(
        [
            "connection-closed-by-broker",
            "fetch-too-small",
            "fetched-twice",
            "offset-out-of-range",
            "produce-lost",
            "request-failed",
            "request-retried",
        ]
    )


def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Exit code and output of the command line."""
    monkeypatch.setattr(sys, "argv", ["pulsarscope", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    code = ended.value.code
    assert code is None or isinstance(code, int)
    return code or 0, captured.out


@pytest.mark.parametrize("path", [KAFKA, MIXED])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["decode"], "FETCH_RESPONSE"),
        (["decode", "-V"], "messages_size"),
        (["decode", "-x"], "CRC32"),
        (["decode", "--records", "all"], "kafka07"),
        (["decode", "--records", "exchange"], "FETCH "),
        (["messages", "--payload", "text"], "order 0003 of customer 757"),
        (["messages", "-Y", "extra.offset >= 0"], "deliver orders-0 at 0"),
        (["stats"], "PRODUCE"),
        (["diagnose", "--fail-on", "never"], "note "),
        (["compare", KAFKA], "FETCH"),
        (["follow", "--topic", "orders"], "PRODUCE"),
        (["decode", "-Y", "command == FETCH && extra.offset == 0"], "orders-0 at 0"),
        (["decode", "-Y", "PRODUCE.partition == 0"], "PRODUCE"),
    ],
)
def test_every_command_works_on_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], path: str, arguments: list[str], words: str
) -> None:
    command, *rest = arguments
    files = [path, rest.pop()] if command == "compare" else [path]
    code, out = run(monkeypatch, capsys, command, *files, *rest)
    assert code == 0
    assert words in out


def test_extract_takes_its_packets(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    target = str(tmp_path / "out.pcapng")
    assert run(monkeypatch, capsys, "extract", MIXED, "-Y", "command == PRODUCE || command == FETCH", "-o", target)[0] == 0
    assert [row.command for row in ps.open(target).frames()] == ["PRODUCE", "FETCH"]


@pytest.mark.parametrize("kind", sorted(ALL_RECORDS))
def test_every_format_says_the_same(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, kind: str) -> None:
    lines = run(monkeypatch, capsys, "decode", KAFKA, "--records", kind, "--format", "ndjson")[1].splitlines()
    rows = [json.loads(line) for line in lines]
    assert rows
    assert json.loads(run(monkeypatch, capsys, "decode", KAFKA, "--records", kind, "--format", "json")[1]) == rows
    import pyarrow.parquet as pq  # noqa: PLC0415 - heavy, only here

    table = list(csv.DictReader(io.StringIO(run(monkeypatch, capsys, "decode", KAFKA, "--records", kind, "--format", "csv")[1])))
    target = str(tmp_path / "out.parquet")
    assert run(monkeypatch, capsys, "decode", KAFKA, "--records", kind, "--format", "parquet", "-o", target)[0] == 0
    flat = pq.read_table(target).to_pylist()
    times = IsoTimes()
    for row, line, cells in zip(rows, table, flat, strict=True):
        assert times.text(cells["time"]) == line["time"] == row["time"]
        for name in ("packet", "topic", "command", "payload_size"):
            if name in cells:
                assert (cells[name], line[name]) == (row.get(name), str(row.get(name, "")))
        if kind in ("frame", "message"):
            assert json.loads(cells["extra"] or "null") == json.loads(line["extra"] or "null") == row.get("extra")


def pairs(path: Path, packets: list[Packet]) -> set[tuple[int, int, str | None]]:
    """Times of requests and of their responses."""
    path.write_bytes(pcap(packets))
    times = [packet.time_ns for packet in packets]
    exchanges = [row for row in ps.open(str(path)).exchanges() if row.request is not None and row.response_packet is not None]
    return {(times[(row.packet or 0) - 1], times[(row.response_packet or 0) - 1], row.response) for row in exchanges}


@pytest.mark.parametrize("seed", range(40))
def test_whatever_packets_are_lost_no_response_is_given_to_another_request(tmp_path: Path, seed: int) -> None:
    random = Random(seed)  # noqa: S311 - for tests
    frames = packet_bytes(Path(KAFKA))
    packets = [Packet(time, data) for time, data in zip(packet_times(Path(KAFKA)), frames, strict=True)]
    whole = pairs(tmp_path / "whole.pcap", packets)
    first = random.choice((0, 0, random.randrange(60)))
    lost = {*range(first), *random.sample(range(len(packets)), random.choice((1, 2, 5, 12)))}
    kept = [packet for number, packet in enumerate(packets) if number not in lost]
    assert len(whole) == 10
    assert pairs(tmp_path / "kept.pcap", kept) <= whole


def packet_bytes(path: Path) -> list[bytes]:
    """Return the packets of a small pcap file from this repository."""
    data = path.read_bytes()
    actual, at = [], 24
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at + 8)
        actual.append(data[at + 16 : at + 16 + size])
        at += 16 + size
    return actual
