"""Paths with both legs in the capture, in all commands: counted once in messages and findings, complete in `decode`."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from pulsarscope.engine.parallel import driver
from tests.places import CAPTURES
from tests.scenarios.command_line import execute, execute_here
from tests.scenarios.inside import Inside

NAME = str(CAPTURES / "proxy-keyshared.pcap")
MESSAGES = 120
CODE = "proxy-legs"


@pytest.fixture(autouse=True)
def inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep workers in this process."""
    monkeypatch.setattr(driver, "Process", Inside)


def lines(*arguments: str, **values: Any) -> list[dict[str, Any]]:
    done = execute(*arguments, **values) if values else execute_here(*arguments)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("jobs", "more"), [*product(("1", "2"), ((), ("--columns", "topic,payload_size"), ("-Y", "payload_size > 0"), ("--payload", "hex")))]
)
def test_messages_are_given_once(jobs: str, more: tuple[str, ...]) -> None:
    rows = lines("messages", NAME, "-f", "ndjson", "--jobs", jobs, *more)
    assert len(rows) == MESSAGES
    if not more:
        assert rows == lines("messages", NAME, "-f", "ndjson")


def later_part(name: str, percent: int, folder: Path) -> str:
    """The rest of a capture without this percentage of its first packets."""
    data = (CAPTURES / name).read_bytes()
    packets, at = [], 24
    while at < len(data):
        end = at + 16 + int.from_bytes(data[at + 8 : at + 12], "little")
        packets.append(data[at:end])
        at = end
    path = folder / "later.pcap"
    path.write_bytes(data[:24] + b"".join(packets[len(packets) * percent // 100 :]))
    return str(path)


def entry_of(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["direction"], row.get("ledger"), row.get("entry")


@pytest.mark.parametrize("percent", [10, 50, 90])
@pytest.mark.parametrize("name", [Path(NAME).name, "balancer.pcap"])
def test_messages_are_given_once_wherever_the_capture_begins(name: str, percent: int, tmp_path: Path) -> None:
    later = later_part(name, percent, tmp_path)
    rows = lines("messages", later, "-f", "ndjson")
    identities = [
        (row["direction"], row.get("consumer_id"), row.get("producer_name"), row.get("sequence_id"), row["ledger"], row["entry"])
        for row in rows
        if "entry" in row
    ]
    assert len(identities) == len(set(identities)) > 0
    legs = lines("decode", later, "-f", "ndjson", "--records", "message")
    assert {entry_of(row) for row in legs} == {entry_of(row) for row in rows}
    assert lines("messages", later, "-f", "ndjson", "--jobs", "2") == rows
    assert lines("messages", later, "-f", "ndjson", "-Y", "message.payload_size >= 0") == rows
    total = json.loads(execute_here("stats", later, "-f", "json").stdout)["total"]
    delivered = sum(row["direction"] == "deliver" for row in rows)
    assert total["server_messages"] == delivered or (percent >= 70 and total["server_messages"] <= 2 * delivered)  # a single acknowledgment


def test_a_limit_counts_what_is_given() -> None:
    assert len(lines("messages", NAME, "-f", "ndjson", "--limit", "100")) == 100


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_every_format_has_them_once(form: str, tmp_path: Path) -> None:
    out = tmp_path / f"messages.{form}"
    assert execute_here("messages", NAME, "-f", form, "-o", str(out)).returncode == 0
    if form == "csv":
        assert len(out.read_text().splitlines()) == MESSAGES + 1
    else:
        assert pytest.importorskip("pyarrow.parquet").read_table(out).num_rows == MESSAGES


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_decode_has_all_legs(jobs: str) -> None:
    assert len(lines("decode", NAME, "-f", "ndjson", "--records", "message", "--jobs", jobs)) == 2 * MESSAGES


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_statistics_count_once_and_show_each_leg_for_itself(jobs: str) -> None:
    sections = json.loads(execute_here("stats", NAME, "-f", "json", "--jobs", jobs).stdout)
    total = sections["total"]
    assert (total["client_messages"], total["server_messages"]) == (MESSAGES // 2, MESSAGES // 2)
    counts = {record["command"]: record["frames"] for record in sections["commands"]}
    assert (counts["SEND"], counts["MESSAGE"], counts["PRODUCER"], counts["SUBSCRIBE"]) == (60, 60, 2, 2)
    by_name = {record["connection"]: record for record in sections["connections"]}
    inner = [record for record in sections["connections"] if record["leg_of"] is not None]
    assert len(inner) == 4
    for record in inner:
        outer = by_name[record["leg_of"]]
        assert (record["client_messages"], record["server_messages"]) == (outer["client_messages"], outer["server_messages"])
        assert record["p50_ns"] is None or 0 < record["p50_ns"] < outer["p50_ns"]


@pytest.mark.parametrize("table", ["consumers", "keys", "journeys"])
def test_tables_of_the_protocol_count_once(table: str) -> None:
    records = json.loads(execute_here("stats", NAME, "--by", table, "-f", "json").stdout)[table]
    whole = json.dumps(records)
    assert records
    if table == "consumers":
        assert sorted(record["consumer"] for record in records) == ["consumer-0", "consumer-1"]
    if table == "keys":
        assert whole.count('"key-') == 8


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_the_diagnosis_has_each_finding_once(jobs: str) -> None:
    found = json.loads(execute_here("diagnose", NAME, "-f", "json", "--jobs", jobs).stdout)
    assert {(symptom["code"], symptom["count"]) for symptom in found["findings"]} == {(CODE, 4)}


@pytest.mark.slow
@pytest.mark.parametrize("form", ["ndjson", "csv"])
def test_frames_alone_of_live_are_those_of_decode(form: str) -> None:
    with Path(NAME).open("rb") as capture:
        live = execute("live", "-i", "-", "--format", form, "-q", stdin=capture)
    assert live.stdout == execute_here("decode", NAME, "-f", form, "-q").stdout
    assert len(live.stdout.splitlines()) > MESSAGES


@pytest.mark.slow
def test_live_gives_messages_once_and_frames_of_both_legs() -> None:
    with Path(NAME).open("rb") as capture:
        rows = lines("live", "-i", "-", "--records", "message", "--format", "ndjson", "-q", stdin=capture)
    assert len(rows) == MESSAGES
    with Path(NAME).open("rb") as capture:
        rows = lines("live", "-i", "-", "--records", "frame,finding", "--format", "ndjson", "-q", stdin=capture)
    assert sum(row.get("command") == "SEND" for row in rows) == MESSAGES
    assert {row["code"] for row in rows if row["record"] == "finding"} == {CODE}
