from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from pulsarscope.cli.arguments.options import ListFormat
from pulsarscope.cli.commands.stats import StatsRequest, stats
from pulsarscope.model.errors import UsageError
from tests.scenarios.both_readers import blocks_of, reader
from tests.scenarios.capturefile import write_pcap
from tests.scenarios.commands import created, lookup, producer, receipt, send
from tests.scenarios.connections import connected

Captured = pytest.CaptureFixture[str]


def counted(capsys: Captured, path: Path | str, **values: Any) -> Any:
    assert stats(StatsRequest(files=[str(path)], format="json", **values)) == 0
    return json.loads(capsys.readouterr().out)


def test_statistics_of_a_capture_agree_with_what_its_client_said(captures: Path, capsys: Captured) -> None:
    truth = json.loads((captures / "stuck-consumer.truth.json").read_text())
    made = counted(capsys, captures / "stuck-consumer.pcap")
    assert made["total"]["client_messages"] == len(truth["produced"]) == 100
    assert made["total"]["connections"] == len(made["connections"]) == 2
    delivered = {record["subscription"]: record["server_messages"] for record in made["subscriptions"]}
    assert delivered == {"healthy": 100, "stuck": 8}
    (producer,) = made["producers"]
    assert (producer["producer_name"], producer["client_messages"]) == ("prod-1", 100)
    families = {record["request"]: record for record in made["exchanges"]}
    assert families["SEND"]["count"] == 100
    assert 0 < families["SEND"]["p50_ns"] < families["SEND"]["p99_ns"] <= families["SEND"]["max_ns"]
    assert sum(octave["count"] for octave in families["SEND"]["histogram"]) == 100
    slowest = max(made["slowest"], key=lambda record: record["latency_ns"])
    assert (slowest["request"], slowest["frame"]) == ("SUBSCRIBE", "0:12.1")


def test_refusals_are_counted_where_they_belong(captures: Path, capsys: Captured) -> None:
    made = counted(capsys, captures / "errors.pcap")
    refused = {record["request"]: record["errors"] for record in made["exchanges"] if record["errors"]}
    assert refused == {"PRODUCER": 2, "SUBSCRIBE": 2, "PARTITIONED_METADATA": 2}
    assert made["total"]["errors"] == 6


def test_the_text_has_the_numbers_of_the_json(captures: Path, capsys: Captured) -> None:
    path = str(captures / "quickstart.pcapng")
    made = counted(capsys, path)
    assert stats(StatsRequest(files=[path])) == 0
    out = capsys.readouterr().out
    assert out.startswith("1 connection · ")
    for heading in ("Connections", "Topics", "Producers", "Subscriptions", "Commands", "Exchanges", "Slowest exchanges"):
        assert f"\n{heading}" in out
    assert f"{made['total']['client_messages']} messages" in out


def test_sections_are_chosen_by_name(captures: Path, capsys: Captured) -> None:
    made = counted(capsys, captures / "quickstart.pcapng", by="topics,total")
    assert list(made) == ["total", "topics"]
    made = counted(capsys, captures / "quickstart.pcapng", by="topics", interval="100ms")
    assert list(made) == ["topics", "intervals"]
    assert {record["interval_ns"] for record in made["intervals"]} == {100_000_000}


@pytest.mark.parametrize("by", ["total,intervals", "total,intervals,backlog"])
@pytest.mark.parametrize("name", ["stuck-consumer.pcap", "balancer.pcap", "errors.pcap"])
def test_the_first_interval_begins_with_the_capture(captures: Path, capsys: Captured, name: str, by: str) -> None:
    made = counted(capsys, captures / name, by=by, interval="50ms")
    assert made["intervals"][0]["start"] == made["total"]["start"]


@pytest.mark.parametrize(
    ("by", "interval", "output_format", "said"),
    [
        ("topic", None, None, 'unknown section "topic"; did you mean topics'),
        ("zzz", None, None, "known: total, connections"),
        (",", None, None, "--by is empty"),
        ("intervals", None, None, "needs --interval"),
        (None, "1", None, "--interval 1: give a number with a unit"),
        (None, "0s", None, "give more than zero"),
        (None, "-1s", None, "give a number with a unit"),
        (None, None, "csv", "choose one with --by"),
    ],
)
def test_invalid_requests_are_refused(
    captures: Path, by: str | None, interval: str | None, output_format: ListFormat | None, said: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        stats(StatsRequest(files=[str(captures / "quickstart.pcapng")], format=output_format, by=by, interval=interval))


def test_a_filter_chooses_the_rows_that_are_counted(captures: Path, capsys: Captured) -> None:
    made = counted(capsys, captures / "stuck-consumer.pcap", filter='subscription == "stuck" && command == MESSAGE')
    assert (made["total"]["client_frames"], made["total"]["server_messages"]) == (0, 8)
    assert [record["connection"] for record in made["connections"]] == ["0:1"]
    assert stats(StatsRequest(files=[str(captures / "stuck-consumer.pcap")], filter="command == SEND")) == 0
    assert "Rows that match the filter: 100 of 453" in capsys.readouterr().out


@pytest.mark.parametrize(("quiet", "said"), [(False, "pulsarscope: no subscription is stuk: did you mean stuck?\n"), (True, "")])
def test_a_filter_that_passes_nothing_says_which_names_there_are(captures: Path, capsys: Captured, *, quiet: bool, said: str) -> None:
    request = StatsRequest(files=[str(captures / "stuck-consumer.pcap")], by="total", filter='subscription == "stuk"', quiet=quiet)
    assert stats(request) == 0
    assert capsys.readouterr().err == said


def test_csv_and_ndjson_have_the_same_numbers(captures: Path, capsys: Captured) -> None:
    path = str(captures / "errors.pcap")
    made = counted(capsys, path, by="topics")["topics"]
    assert stats(StatsRequest(files=[path], by="topics", format="csv")) == 0
    table = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["topic"] for row in table] == [record["topic"] for record in made]
    assert [int(row["client_bytes"]) for row in table] == [record["client_bytes"] for record in made]
    assert stats(StatsRequest(files=[path], by="topics", format="ndjson", limit=2)) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["topic"] for line in lines] == [record["topic"] for record in made[:2]]


TABLES = ("consumers", "keys", "transactions", "lookups", "schemas", "journeys")


@pytest.mark.slow
@pytest.mark.parametrize("capture", ["stuck-consumer.pcap", "acks-batchindex.pcap"])
def test_tables_of_the_protocol_are_the_same_with_several_processes(capture: str, captures: Path, capsys: Captured) -> None:
    made = [counted(capsys, captures / capture, by=",".join(TABLES), jobs=jobs) for jobs in (1, 2)]
    assert made[0] == made[1]
    assert list(made[0]) == list(TABLES)
    assert made[0]["consumers"]
    assert made[0]["lookups"]
    assert made[0]["journeys"]


def test_the_table_of_consumers_shows_who_is_stuck_and_since_when(captures: Path, capsys: Captured) -> None:
    path = str(captures / "stuck-consumer.pcap")
    assert stats(StatsRequest(files=[path], by="consumers")) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Consumers")
    heading, first = lines[1:3]
    assert {"subscription", "permits", "unacked", "oldest", "for"} <= set(heading.split())
    assert {"stuck", "cons-stuck", "8", "96:0"} <= set(first.split())
    (record,) = [each for each in counted(capsys, path, by="consumers")["consumers"] if each["unacknowledged"]]
    assert (record["delivered"], record["permits_left"], record["oldest_unacknowledged"]) == (8, 0, "96:0")
    assert record["oldest_since"].endswith("Z")


@pytest.mark.parametrize("block", [2000, None])
def test_connections_without_an_entry_of_their_own_count_together_by_both_readers(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, block: int | None
) -> None:
    pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")
    talks = []
    for number in range(9):
        talk = connected(40_000 + number).client(producer(1, "", 2)).server(created(f"p{number % 4}", 2))
        talks.append(talk.client(send(1, number)).server(receipt(1, number)).client(lookup(3)).close())
    path = write_pcap(tmp_path / "many.pcap", [packet for talk in talks for packet in talk.packets])
    made = []
    for most in (4, 4_096):
        monkeypatch.setattr("pulsarscope.analysis.tally.STATISTICS_NAMES_MAX", most)
        for choice in ("off", "require"):
            with reader(choice), blocks_of(block):
                made.append(counted(capsys, path))
    assert made[0] == made[1]
    assert made[2] == made[3]
    *named, others = made[0]["connections"]
    assert (len(named), others["connection"], others["client_frames"]) == (4, None, 20)
    assert others["max_ns"] is not None
    assert made[0]["total"] == made[2]["total"]


@pytest.mark.slow
def test_rows_beyond_a_full_table_are_counted(captures: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    path, by = captures / "stuck-consumer.pcap", "consumers,journeys"
    whole = counted(capsys, path, by=by)
    assert not any("others" in record for section in whole.values() for record in section)
    for module in ("dissect.contract.capabilities", "protocols.pulsar.tables.consumers"):
        monkeypatch.setattr(f"pulsarscope.{module}.STATISTICS_NAMES_MAX", 1)
    for jobs in (1, 2):
        made = counted(capsys, path, by=by, jobs=jobs)
        for section in made.values():
            assert len(section) == 2
            assert section[-1] == {"others": True, "rows": section[-1]["rows"]}
        assert made["journeys"][-1]["rows"] > 0
        assert made["consumers"][-1]["rows"] > 8
    assert stats(StatsRequest(files=[str(path)], by=by)) == 0
    out = capsys.readouterr().out
    assert out.count("rows left out: the table is full") == 2


def test_a_filter_selects_what_the_tables_of_the_protocol_are_about(captures: Path, capsys: Captured) -> None:
    made = counted(capsys, captures / "stuck-consumer.pcap", by="consumers", filter='subscription == "healthy"')
    assert [record["subscription"] for record in made["consumers"]] == ["healthy"]


def test_a_picture_of_latencies_is_drawn_besides(captures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "latency.svg"
    assert stats(StatsRequest(files=[str(captures / "stuck-consumer.pcap")], plot=str(out), by="total")) == 0
    assert "SEND (100)" in out.read_text()
    assert "100 messages" in capsys.readouterr().out


def test_a_picture_of_another_kind_is_refused(captures: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"\.svg"):
        stats(StatsRequest(files=[str(captures / "stuck-consumer.pcap")], plot=str(tmp_path / "latency.png")))
