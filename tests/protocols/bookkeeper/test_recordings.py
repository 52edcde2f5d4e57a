"""Real traffic of bookies: what the clients say they sent and received, and the responses to a handmade client."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import pulsarscope as ps
from pulsarscope.model.records import FrameRow
from tests.places import CAPTURES

FOLDER = CAPTURES / "bookkeeper"
NAMES = sorted(path.name.partition(".")[0] for path in FOLDER.glob("*.pcap.zst"))
OPERATIONS = {1: "ADD", 2: "READ", 3: "AUTH", 7: "BATCH_READ"}
V3_OPERATIONS = ["", "READ", "ADD", "RANGE_READ", "RANGE_ADD", "AUTH", "WRITE_LAC", "READ_LAC", "GET_BOOKIE_INFO", "START_TLS"]
V3_OPERATIONS += ["FORCE_LEDGER", "LIST_ENTRIES", "BATCH_READ"]
STATUSES = {0: "EOK", 1: "ENOLEDGER", 2: "ENOENTRY", 102: "EUA", 104: "EFENCED"}
V3_STATUSES = {0: "EOK", 402: "ENOLEDGER", 403: "ENOENTRY", 404: "EBADREQ", 502: "EUA", 504: "EFENCED"}


def path(name: str) -> str:
    return str(FOLDER / f"{name}.pcap.zst")


def frames(name: str, **options: Any) -> list[FrameRow]:
    return [row for row in ps.open(path(name), **options).frames() if row.dissector == "bookkeeper"]


def truth(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(FOLDER, f"{name}.truth.jsonl").read_text().splitlines()]


def ids(rows: list[FrameRow], command: str) -> set[tuple[int, int]]:
    return {(row.fields["ledger"], row.fields["entry"]) for row in rows if row.command == command and row.fields and row.checksum}


@pytest.mark.parametrize("name", NAMES)
def test_every_frame_is_whole_and_every_digest_right(name: str) -> None:
    rows = frames(name)
    assert {row.status for row in rows} == {"ok"}
    entries = [row for row in rows if row.checksum is not None]
    assert entries
    assert {row.checksum.status for row in entries if row.checksum} == {"good"}
    assert {row.fields["digest"] for row in entries if row.fields} == {"CRC32C"}


@pytest.mark.parametrize("name", NAMES)
def test_every_answer_has_its_request(name: str) -> None:
    answers = [row for row in frames(name) if str(row.command).endswith("_RESPONSE")]
    assert answers
    assert all(row.request is not None for row in answers)


@pytest.mark.parametrize("name", ["v2", "v3", "e3"])
def test_what_clients_sent_is_added_and_what_they_read_back_is_read(name: str) -> None:
    rows = frames(name)
    said = truth(name)
    sent = {tuple(row["id"][:2]) for row in said if row["kind"] == "sent"}
    again = {tuple(row["id"][:2]) for row in said if row["kind"] == "read"}
    assert sent <= ids(rows, "ADD")
    assert again <= ids(rows, "READ_RESPONSE")


def test_each_entry_goes_to_the_bookies_of_its_write_quorum() -> None:
    copies = Counter((row.fields["ledger"], row.fields["entry"]) for row in frames("e3") if row.command == "ADD" and row.fields)
    assert set(copies.values()) == {2}


@pytest.mark.parametrize("name", ["v2", "v3", "e3"])
def test_messages_are_counted_once_and_stored_copies_are_read_as_entries(name: str) -> None:
    stored = [row for row in frames(name) if row.command == "ADD" and row.metadata]
    assert {row.metadata["producer_name"] for row in stored if row.metadata} >= {"p-single", "p-batch", "p-after"}
    assert all(row.num_messages is None for row in stored)
    messages = list(ps.open(path(name)).messages())
    assert {row.direction for row in messages if row.dissector == "bookkeeper"} == {"store", "load"}
    assert {row.direction for row in messages if row.dissector == "pulsar"} == {"produce", "deliver"}


@pytest.mark.parametrize("name", ["v2", "v3", "e3"])
def test_the_messages_of_stored_entries_are_those_that_clients_sent(name: str) -> None:
    messages = [row for row in ps.open(path(name)).messages() if row.ledger is not None]
    of_client = {row.payload_sha256: (row.ledger, row.entry, row.batch_index, row.key) for row in messages if row.direction == "produce"}
    stored = {row.payload_sha256: (row.ledger, row.entry, row.batch_index, row.key) for row in messages if row.direction == "store"}
    assert len(of_client) > 50
    assert of_client.items() <= stored.items()
    assert {row["sha256"] for row in truth(name) if row["kind"] == "sent"} <= stored.keys()


def test_a_names_file_gives_stored_messages_their_topic(tmp_path: Path) -> None:
    names = tmp_path / "orders.json"
    names.write_text(json.dumps({"ledgers": [{"ledgerId": 8}]}))
    stored = [row for row in ps.open(path("e3"), names=names).messages() if row.direction == "store" and row.ledger == 8]
    assert {row.topic for row in stored} == {"persistent://public/default/orders"}


def test_cursors_and_schemas_are_read_as_what_they_are() -> None:
    data = [row.fields["data"] for row in frames("v2") + frames("v2-start") if row.fields and "data" in row.fields]
    assert {item["kind"] for item in data} == {"message", "cursor", "schema"}
    assert {"ledger": 14, "entries": [3, 7, 11]} in [acks for item in data for acks in item.get("individual_acks", ())]
    assert "public/default/__transaction_buffer_snapshot" in {item.get("topic") for item in data}


def expected(answer: bytes) -> tuple[str, str | None]:
    """Operation and status of a response, read without the dissector."""
    if answer[0] == 0x0A:  # header; no status exceeds two bytes
        at = 2 + answer[1]
        status = answer[at + 1] if answer[at + 1] < 128 else answer[at + 1] - 128 | answer[at + 2] << 7
        return V3_OPERATIONS[answer[5]], V3_STATUSES[status]
    operation = OPERATIONS[answer[1] if answer[0] else answer[3]]
    return operation, None if operation == "AUTH" else STATUSES[int.from_bytes(answer[4:8], "big")]


def test_operations_and_statuses_are_those_that_the_client_was_given() -> None:
    want = [expected(bytes.fromhex(row["response"])) for row in truth("raw") if "response" in row]
    answers = [row for row in frames("raw") if str(row.command).endswith("_RESPONSE")]
    assert len(want) == 47
    assert [(str(row.command).removesuffix("_RESPONSE"), (row.fields or {}).get("status")) for row in answers] == want


def test_refusals_and_fencing_are_findings() -> None:
    codes = Counter(finding.code for finding in ps.open(path("raw")).findings())
    assert codes["ledger-fenced"] == 2
    assert codes["bookie-refused"] == 10


@pytest.mark.parametrize(("name", "secret"), [("raw", "850bf1071c5e3d8c24235676f8816ae0cbe2f14f"), ("auth", "726573706f6e73653d")])
def test_credentials_are_shown_only_when_asked_for(name: str, secret: str) -> None:
    def texts(rows: list[FrameRow]) -> str:
        return " ".join(str(row.fields) for row in rows)

    assert secret not in texts(frames(name))
    assert secret in texts(frames(name, show_secrets=True))
