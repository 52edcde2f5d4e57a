"""`pulsarscope live` beside real clients: it reports exactly the messages that they sent and received, all of them and none twice."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from typing import Any

import pytest

from tests.broker.standalone import CLIENTS, CLIENTS_SECONDS, missing
from tests.scenarios.loopback import needs_capturing

pytestmark = [pytest.mark.broker, needs_capturing, pytest.mark.skipif(missing() is not None, reason=str(missing()))]

SENT = ("topic", "payload_sha256", "payload_size", "key", "properties", "event_time", "producer_name", "sequence_id", "ledger", "entry")
GOT = ("topic", "subscription", "payload_sha256", "payload_size", "key", "properties", "event_time", "producer_name", "ledger", "entry")


@pytest.fixture(scope="module")
def recorded(port: int, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[dict[str, Any]], list[dict[str, Any]], str]:
    """The clients' messages, those of `live`, and its closing words."""
    pytest.importorskip("pulsar", reason="the clients need the wheel pulsar-client")
    folder = tmp_path_factory.mktemp("live")
    kept, rows = folder / "kept.pcapng", folder / "rows.ndjson"
    options = ("-i", "lo", "--port", str(port), "--records", "all", "--format", "ndjson", "-o", str(rows), "-w", str(kept))
    with subprocess.Popen([sys.executable, "-m", "pulsarscope", "live", *options], stderr=subprocess.PIPE, text=True) as sniffer:
        try:
            while not kept.exists() and sniffer.poll() is None:
                time.sleep(0.05)
            program = [sys.executable, str(CLIENTS), f"pulsar://127.0.0.1:{port}"]
            clients = subprocess.run(program, capture_output=True, text=True, check=True, timeout=CLIENTS_SECONDS)
            sniffer.send_signal(signal.SIGINT)
            _, words = sniffer.communicate(timeout=60)
        finally:
            sniffer.kill()
    assert sniffer.returncode == 0, words
    return _rows(clients.stdout), _rows(rows.read_text()), words


def _rows(lines: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines.split("\n") if line]


def test_nothing_was_lost(recorded: tuple[list[dict[str, Any]], list[dict[str, Any]], str]) -> None:
    _, rows, words = recorded
    assert "none dropped by the kernel" in words
    assert "not decoded" not in words
    connections = [row for row in rows if row["record"] == "connection" and row["opened"] == "syn"]
    assert connections
    for row in connections:
        assert all(row[f"{side}_{what}"] == 0 for side in ("client", "server") for what in ("missing", "skipped", "tail"))
    assert {row["severity"] for row in rows if row["record"] == "finding"} <= {"note"}


def test_frames_follow_each_other_without_a_hole(recorded: tuple[list[dict[str, Any]], list[dict[str, Any]], str]) -> None:
    ends: dict[tuple[str, str], int] = {}
    for row in recorded[1]:
        if row["record"] == "frame":
            stream = row["connection"], row["direction"]
            assert row["offset"] == ends.get(stream, 0)
            assert row["status"] == "ok"
            ends[stream] = row["offset"] + row["size"]


@pytest.mark.parametrize(("event", "direction", "names"), [("sent", "produce", SENT), ("got", "deliver", GOT)])
def test_messages_are_what_clients_say(
    event: str, direction: str, names: tuple[str, ...], recorded: tuple[list[dict[str, Any]], list[dict[str, Any]], str]
) -> None:
    said, rows, _ = recorded
    of_clients = Counter(_columns_of(row, names) for row in said if row["event"] == event)
    topics = {row["topic"] for row in said}  # the broker has topics of its own
    messages = [row for row in rows if row["record"] == "message" and row["direction"] == direction and row["topic"] in topics]
    of_live = Counter(_columns_of(row, names) for row in messages)
    assert of_clients.total() > 500
    assert of_live == of_clients


def test_acknowledgments_are_those_of_the_clients(recorded: tuple[list[dict[str, Any]], list[dict[str, Any]], str]) -> None:
    said, rows, _ = recorded
    plain = [row for row in said if row["event"] == "got" and row["plain"]]
    got = {(row["topic"], row["subscription"], row["ledger"], row["entry"]) for row in plain}
    topics = {row["topic"] for row in plain}
    acknowledged = {
        (row["topic"], row["subscription"], one["ledgerId"], one["entryId"])
        for row in rows
        if row["record"] == "frame" and row["command"] == "ACK" and row.get("topic") in topics
        for one in row["fields"]["message_id"]
    }
    assert acknowledged == got


def _columns_of(row: dict[str, Any], names: tuple[str, ...]) -> str:
    """Return some columns of a message."""
    return json.dumps([*map(row.get, names), row.get("batch_index", -1)], sort_keys=True)
