from __future__ import annotations

import csv
import io
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from pulsarscope.cli.reports import compare, diagnose, stats
from pulsarscope.cli.run_command import Request
from pulsarscope.model.errors import CaptureError, UsageError
from tests.cli.test_cli import execute, run
from tests.docs.cases import capture
from tests.docs.test_bad_inputs_rendering import OWN_COLORS, hostile_packets
from tests.places import ROOT

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return capture(tmp_path_factory.mktemp("hostile"), hostile_packets())


def counted(capsys: Captured, path: Path | str, *, by: str | None = None, interval: str | None = None, **values: Any) -> Any:
    assert stats(Request(files=(str(path),), format="json", **values), by, interval) == 0
    return json.loads(capsys.readouterr().out)


# ---- stats


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
    assert stats(Request(files=(path,)), None, None) == 0
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


@pytest.mark.parametrize(
    ("by", "interval", "output_format", "said"),
    [
        ("topic", None, None, 'no section is named "topic"; did you mean topics'),
        ("zzz", None, None, "there are total, connections"),
        (",", None, None, "names no section"),
        ("intervals", None, None, "give --interval"),
        (None, "1", None, "as in 1s, 500ms or 5m"),
        (None, "0s", None, "as in 1s"),
        (None, "-1s", None, "as in 1s"),
        (None, None, "csv", "choose one with --by"),
    ],
)
def test_what_cannot_be_asked_is_said(captures: Path, by: str | None, interval: str | None, output_format: str | None, said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        stats(Request(files=(str(captures / "quickstart.pcapng"),), format=output_format), by, interval)


def test_a_filter_chooses_the_rows_that_are_counted(captures: Path, capsys: Captured) -> None:
    made = counted(capsys, captures / "stuck-consumer.pcap", filter='subscription == "stuck" && command == MESSAGE')
    assert (made["total"]["client_frames"], made["total"]["server_messages"]) == (0, 8)
    assert [record["connection"] for record in made["connections"]] == ["0:1"]
    assert stats(Request(files=(str(captures / "stuck-consumer.pcap"),), filter="command == SEND"), None, None) == 0
    assert "Only what matches the filter: 100 of 453 rows" in capsys.readouterr().out


def test_csv_and_ndjson_have_the_same_numbers(captures: Path, capsys: Captured) -> None:
    path = str(captures / "errors.pcap")
    made = counted(capsys, path, by="topics")["topics"]
    assert stats(Request(files=(path,), format="csv"), "topics", None) == 0
    table = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["topic"] for row in table] == [record["topic"] for record in made]
    assert [int(row["client_bytes"]) for row in table] == [record["client_bytes"] for record in made]
    assert stats(Request(files=(path,), format="ndjson", limit=2), "topics", None) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["topic"] for line in lines] == [record["topic"] for record in made[:2]]


# ---- diagnose


def test_refusals_are_diagnosed_with_their_frames(captures: Path, capsys: Captured) -> None:
    path = str(captures / "errors.pcap")
    assert diagnose(Request(files=(path,), fail_on="error")) == 1
    out = capsys.readouterr().out
    assert re.match(r"6 errors.* in 1 connection: ", out)
    assert "· at 42.1, 45.1: " in out
    assert "ConsumerBusy" in out
    assert "Try: " in out
    assert diagnose(Request(files=(path,), fail_on="never", quiet=True)) == 0
    verdict = capsys.readouterr().out
    assert verdict.startswith("6 errors")
    assert "\n\n" not in verdict


def test_a_healthy_capture_is_healthy(captures: Path, capsys: Captured) -> None:
    assert diagnose(Request(files=(str(captures / "quickstart.pcapng"),), fail_on="warning")) == 0
    assert capsys.readouterr().out.startswith("Healthy: no errors, no warnings")


def test_a_verdict_on_a_capture_with_holes_says_so(captures: Path, capsys: Captured) -> None:
    assert diagnose(Request(files=(str(captures / "rw-capture-loss.pcap.zst"),), fail_on="error")) == 1
    said = " ".join(capsys.readouterr().out.split("\n\n")[0].split())
    assert "but 133,396 bytes are missing from the capture: what was not seen may have been said." in said


def test_programs_get_the_verdict_and_the_groups(captures: Path, capsys: Captured) -> None:
    path = str(captures / "errors.pcap")
    assert diagnose(Request(files=(path,), format="json", fail_on="error")) == 1
    made = json.loads(capsys.readouterr().out)
    assert made["verdict"]["errors"] == sum(group["count"] for group in made["findings"] if group["severity"] == "error")
    assert made["verdict"]["text"].startswith("6 errors")
    (first, *_) = made["findings"]
    assert all(first[name] for name in ("code", "meaning", "hint", "first", "last", "topics", "connections", "samples"))
    assert all(sample["places"] for sample in first["samples"])
    assert diagnose(Request(files=(path,), format="ndjson", limit=1)) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["code"] == first["code"]


def test_a_damaged_input_is_four_and_told(captures: Path, tmp_path: Path, capsys: Captured) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes((captures / "errors.pcap").read_bytes()[:-7])
    assert diagnose(Request(files=(str(cut),), fail_on="error")) == 4
    captured = capsys.readouterr()
    assert "capture-truncated" in captured.out
    assert captured.err == ""
    assert stats(Request(files=(str(cut),)), None, None) == 4
    assert "The capture ends" in capsys.readouterr().err
    assert compare(Request(files=(str(cut), str(captures / "errors.pcap")))) == 4
    assert "The capture ends" in capsys.readouterr().err


# ---- compare


def test_two_captures_are_compared(captures: Path, capsys: Captured) -> None:
    files = (str(captures / "stuck-consumer.pcap"), str(captures / "errors.pcap"))
    assert compare(Request(files=files, format="json")) == 0
    made = json.loads(capsys.readouterr().out)
    changes = {record["code"]: (record["before"], record["after"]) for record in made["findings"] if record["severity"] == "error"}
    assert changes.get("request-failed", (0, 0))[0] == 0
    assert sum(after for _, after in changes.values()) == 6
    assert {record["topic"] for record in made["names"] if record["change"] == "vanished"} == {"persistent://public/default/stuck-t-20"}
    assert compare(Request(files=files)) == 0
    out = capsys.readouterr().out
    assert out.startswith("More findings: ")
    assert "PRODUCER " in out


def test_a_capture_compared_with_itself_has_not_changed(captures: Path, capsys: Captured) -> None:
    path = str(captures / "quickstart.pcapng")
    assert compare(Request(files=(path, path), quiet=True)) == 0
    assert capsys.readouterr().out == "No notable change.\n"


def test_each_side_may_be_a_folder_or_a_pattern(captures: Path, tmp_path: Path, capsys: Captured) -> None:
    for name, kept in (("a.pcap", "errors.pcap"), ("b.pcap", "raw-stats.pcap")):
        (tmp_path / name).write_bytes((captures / kept).read_bytes())
    assert compare(Request(files=(str(tmp_path), str(tmp_path / "a*")), format="json")) == 0
    totals = {record["what"]: record for record in json.loads(capsys.readouterr().out)["totals"]}
    assert totals["frames"]["before"] > totals["frames"]["after"] == 75


def test_a_side_that_is_no_capture_is_refused(captures: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no capture")
    with pytest.raises(CaptureError):
        compare(Request(files=(str(captures / "errors.pcap"), str(tmp_path / "text"))))


# ---- all three


COMMANDS = [("stats", "--interval", "1ms"), ("diagnose", "--fail-on", "never"), ("compare",)]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_no_report_lets_a_peer_write_to_the_terminal(
    hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    files = [str(hostile)] * (2 if command[0] == "compare" else 1)
    out = tmp_path / "out"

    def written() -> str:
        assert run(monkeypatch, *command, *files, "-o", str(out), "--limit", "100") == 0
        return out.read_text()

    monkeypatch.setenv("NO_COLOR", "1")
    plain = written()
    assert {character for character in plain if not character.isprintable()} <= {"\n"}
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert OWN_COLORS.sub("", written()) == plain
    if command[0] != "compare":
        assert "\\x1b" in plain


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_capture_is_never_overwritten_by_its_report(
    captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured, command: tuple[str, ...]
) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes((captures / "errors.pcap").read_bytes())
    files = [str(path)] * (2 if command[0] == "compare" else 1)
    assert run(monkeypatch, *command, *files, "-o", str(path)) == 2
    assert "is one of the captures" in capsys.readouterr().err
    assert path.read_bytes() == (captures / "errors.pcap").read_bytes()


def examples() -> list[tuple[str, str]]:
    """Commands of README.md with what they are said to write."""
    blocks = re.findall(r"^```console\n\$ pulsarscope (.*?)\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    return [(command, shown) for command, shown in blocks]


@pytest.mark.parametrize(("command", "shown"), examples())
def test_the_readme_shows_what_commands_write(monkeypatch: pytest.MonkeyPatch, capsys: Captured, command: str, shown: str) -> None:
    monkeypatch.chdir(ROOT)
    for name in ("COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    run(monkeypatch, *shlex.split(command))
    assert capsys.readouterr().out == shown


def test_the_page_on_reports_names_every_key(captures: Path, capsys: Captured) -> None:
    page = (ROOT / "docs" / "reports.md").read_text()
    made = counted(capsys, captures / "rw-capture-loss.pcap.zst", interval="100ms")
    keys = {key for section in made.values() for record in ([section] if isinstance(section, dict) else section) for key in record}
    path = str(captures / "rw-capture-loss.pcap.zst")
    assert diagnose(Request(files=(path,), format="json")) == 0
    diagnosed = json.loads(capsys.readouterr().out)
    keys |= diagnosed["verdict"].keys() | diagnosed["findings"][0].keys() | diagnosed["findings"][0]["samples"][0].keys()
    assert compare(Request(files=(path, str(captures / "errors.pcap")), format="json")) == 0
    compared = json.loads(capsys.readouterr().out)
    keys |= compared.keys() | compared["verdict"].keys() | {key for name in compared.keys() - {"verdict"} for key in compared[name][0]}
    assert {key for key in keys if f"`{key}`" not in page} == set()


def test_a_report_goes_to_a_pipe_of_any_encoding(captures: Path) -> None:
    result = execute("stats", str(captures / "quickstart.pcapng"), env={"PYTHONIOENCODING": "ascii", "COLUMNS": "80"})
    assert result.returncode == 0
    assert b"#####" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


@pytest.mark.parametrize(
    ("wanted", "code", "words"),
    [
        ("code == consumer-busy", 1, "Of the findings that match the filter: 2 errors in 1 connection: consumer-busy (2)."),
        ("code == stream-gap", 0, "Of the findings that match the filter: Healthy: no errors, no warnings"),
        ('text contains "IncompatibleSchema" && severity == error', 1, "schema-incompatible (1)."),
    ],
)
def test_a_filter_chooses_the_findings_to_judge(captures: Path, capsys: Captured, wanted: str, code: int, words: str) -> None:
    request = Request(files=(str(captures / "errors.pcap"),), filter=wanted, fail_on="error", quiet=True)
    assert diagnose(request) == code
    assert words in capsys.readouterr().out.replace("\n", " ")
