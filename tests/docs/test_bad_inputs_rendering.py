"""Rows 125 to 129 of docs/bad_inputs.tsv: hostile text, large values, and unwritable destinations."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pulsarscope.cli.arguments.application import app
from pulsarscope.cli.arguments.options import CommandRequest
from pulsarscope.cli.run_command import run_command
from pulsarscope.model.text import show_controls
from tests.scenarios import Packet, message_metadata, payload_frame
from tests.scenarios.bad_inputs import frames, payloads
from tests.scenarios.bad_inputs.cases import between, capture, healthy, look, row
from tests.scenarios.bad_inputs.text import HOSTILE, OWN_COLORS, hostile_packets


def written(path: Path, tmp_path: Path, **options: Any) -> str:
    """The output of a command to a file."""
    out = tmp_path / "out.txt"
    assert run_command(CommandRequest(files=(str(path),), out=str(out), **options)) == 0
    return out.read_bytes().decode()


VIEWS: list[dict[str, Any]] = [
    {},
    {"records": "all"},
    {"detail": True},
    {"hex": True},
    {"records": "message"},
    {"records": "message", "payload": "text"},
    {"records": "exchange", "columns": "request,topic,producer_name,subscription,error_message"},
    {"records": "connection", "columns": "client_version,auth_method"},
    {"records": "finding", "columns": "code,text,evidence"},
]


def name_of(view: dict[str, Any]) -> str:
    return " ".join(map(str, view.values())) or "timeline"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return capture(tmp_path_factory.mktemp("hostile"), hostile_packets())


@row(96, 125)
@pytest.mark.parametrize("view", VIEWS, ids=name_of)
def test_no_view_lets_a_peer_write_to_the_terminal(
    hostile: Path, tmp_path: Path, view: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    plain = written(hostile, tmp_path, **view)
    assert plain
    assert {character for character in plain if not character.isprintable()} <= {"\n"}
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("FORCE_COLOR", "1")
    colored = written(hostile, tmp_path, **view)
    assert OWN_COLORS.sub("", colored) == plain
    if view.get("payload") or view.get("detail"):
        assert "\\x1b[2J" in plain
        assert "\\u202e" in plain
        assert "[bold red]markup[/]" in plain


@row(125)
def test_a_flood_of_marks_does_not_grow_over_other_lines(hostile: Path, tmp_path: Path) -> None:
    text = written(hostile, tmp_path, records="message", payload="text", no_color=True)
    longest = max(len(list(run)) for mark, run in groupby(text, lambda character: "\u0300" <= character <= "\u036f") if mark)
    assert longest <= 3


@row(125)
def test_a_hostile_file_name_reaches_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = tmp_path / "a\x1b]0;x\x07\u202e\nb.pcap"
    other = tmp_path / "b.pcap"
    name.write_bytes(capture(tmp_path, healthy()).read_bytes()[:-3])
    other.write_bytes(name.read_bytes())
    assert run_command(CommandRequest(files=(str(name), str(other)))) == 4
    assert run_command(CommandRequest(files=(str(name), str(other)), format="ndjson")) == 4
    captured = capsys.readouterr()
    assert re.findall("(.)[.]pcap: The capture ends", captured.err) == ["b", "b"]
    assert {character for character in captured.out + captured.err if not character.isprintable()} <= {"\n"}


@row(127)
@pytest.mark.parametrize("kind", ["frame", "message", "exchange", "connection", "finding"])
def test_json_is_one_object_a_line_and_says_what_the_peer_said(hostile: Path, tmp_path: Path, kind: str) -> None:
    payload = "text" if kind == "message" else None
    text = written(hostile, tmp_path, records=kind, format="ndjson", payload=payload)
    lines = text.split("\n")
    assert lines.pop() == ""
    found = [json.loads(line) for line in lines]
    assert {one["record"] for one in found} == {kind}
    assert not {character for line in lines for character in line if character < " "}
    if kind == "message":
        assert {one["payload"] for one in found if "payload" in one} == set(HOSTILE)
        assert {one["topic"] for one in found if "topic" in one} == set(HOSTILE)
    assert json.loads(written(hostile, tmp_path, records=kind, format="json", payload=payload)) == found


@row(127)
def test_a_spreadsheet_runs_no_cell_and_reads_every_other_one_as_it_is(hostile: Path, tmp_path: Path) -> None:
    text = written(hostile, tmp_path, records="message", format="csv", payload="text")
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    seen = look(hostile)
    assert len(rows) == len(seen.messages)
    assert {one["payload"] for one in rows} - {""} == {
        f"'{show_controls(text)}" if text[0] in "=+-@\t\r" else show_controls(text) for text in HOSTILE
    }
    assert not [cell for one in rows for name, cell in one.items() if name in ("payload", "topic", "key") and cell[:1] in "=+-@" and cell]
    assert {int(one["sequence_id"]) for one in rows} >= {1}


@row(126)
def test_a_page_has_no_markup_of_a_peer(hostile: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert CliRunner().invoke(app, ["report", str(hostile), "-o", str(page)]).exit_code == 0
    texts = [text for text in HOSTILE if "<" in text]
    assert texts
    assert not [text for text in texts if text in page.read_text()]


def conversations(odd: list[bytes]) -> list[Packet]:
    """Each of them in a separate connection, between two healthy messages."""
    return [packet for number, one in enumerate(odd) for packet in between(one, client=("10.0.0.1", 20_000 + number))]


ODD_FRAMES = [case.odd for case in frames.CASES if len(case.odd) < 5000]
ODD_ENTRIES = [case.odd for case in payloads.CASES if len(case.odd) < 5000]


@row(125)
@pytest.mark.parametrize("view", VIEWS, ids=name_of)
@pytest.mark.parametrize("odd", [ODD_FRAMES, ODD_ENTRIES], ids=["frames", "entries"])
def test_every_odd_frame_is_shown_in_every_view(tmp_path: Path, view: dict[str, Any], odd: list[bytes]) -> None:
    text = written(capture(tmp_path, conversations(odd)), tmp_path, no_color=True, **view)
    assert {character for character in text if not character.isprintable()} <= {"\n"}
    assert text.count("\n") > (len(odd) // 2 if view.get("records") == "finding" else len(odd))  # not every odd one causes a finding


@row(128)
def test_a_large_payload_is_clipped_with_its_size(tmp_path: Path) -> None:
    size = 3 << 20
    big = payload_frame("SEND", message_metadata(), bytes(range(32, 96)) * (size // 64), producer_id=1, sequence_id=1)
    path = capture(tmp_path, between(big))
    for view in ({}, {"detail": True}, {"hex": True}, {"records": "message", "payload": "text"}):
        text = written(path, tmp_path, **view)
        assert len(text) < 300_000, view
        assert f"{size:,}" in text, view


@row(97, 128)
def test_many_values_are_counted_and_some_are_shown(tmp_path: Path) -> None:
    many = message_metadata(properties=[{"key": f"k{number}", "value": "v"} for number in range(5000)])
    path = capture(tmp_path, between(payload_frame("SEND", many, b"", producer_id=1, sequence_id=2)))
    for view in ({}, {"detail": True}, {"records": "message"}):
        text = written(path, tmp_path, **view)
        assert len(text) < 100_000, view
    assert "4,000 more" in text


@pytest.mark.slow
@row(128)
@pytest.mark.parametrize(
    "settings", [{"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "latin-1"}, {"TERM": "dumb", "COLUMNS": "1"}, {"NO_COLOR": "1"}]
)
def test_any_standard_output_takes_the_text(hostile: Path, settings: dict[str, str]) -> None:
    command = [sys.executable, "-m", "pulsarscope", "messages", "--payload", "text", str(hostile)]
    result = subprocess.run(command, capture_output=True, timeout=60, check=False, env=os.environ | settings)
    assert (result.returncode, result.stderr) == (0, b"")
    assert result.stdout.count(b"\n") > 3 * len(HOSTILE)


# ---- destinations


def execute(*arguments: str, **values: Any) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "pulsarscope", *arguments]
    return subprocess.run(command, stderr=subprocess.PIPE, timeout=60, check=False, **values)


@pytest.mark.slow
@row(129)
def test_what_cannot_be_written_is_five_and_leaves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(capture(tmp_path, healthy()))
    missing = tmp_path / "no" / "such" / "folder" / "out.csv"
    result = execute("decode", path, "--format", "csv", "-o", str(missing), stdout=subprocess.DEVNULL)
    assert result.returncode == 5
    assert len(result.stderr.splitlines()) == 1
    with Path("/dev/full").open("wb") as full:
        result = execute("decode", path, "--format", "ndjson", stdout=full)
    assert result.returncode == 5
    assert b"No space left" in result.stderr
    assert sorted(one.name for one in tmp_path.iterdir()) == ["capture.pcap"]
    assert capsys.readouterr().out == ""


@pytest.mark.slow
@row(129)
def test_a_capture_is_never_overwritten_by_its_own_records(tmp_path: Path) -> None:
    path = capture(tmp_path, healthy())
    before = path.read_bytes()
    link = tmp_path / "link"
    link.symlink_to(path)
    for out in (path, link):
        assert execute("decode", str(path), "--format", "csv", "-o", str(out), stdout=subprocess.DEVNULL).returncode == 2
    assert path.read_bytes() == before


@pytest.mark.slow
@row(129)
def test_a_run_without_standard_streams_does_its_work(tmp_path: Path) -> None:
    path, out = capture(tmp_path, healthy()), tmp_path / "out.ndjson"
    closing = f'exec "$0" -m pulsarscope decode "{path}" --format ndjson -o "{out}" <&- >&- 2>&-'
    assert subprocess.run(["/bin/sh", "-c", closing, sys.executable], timeout=60, check=False).returncode == 0
    assert out.read_text().count("\n") > 5


@pytest.mark.slow
@row(129)
def test_an_old_result_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path, out = capture(tmp_path, healthy()), tmp_path / "out.csv"
    out.write_text("old")
    assert execute("decode", str(tmp_path / "missing"), "--format", "csv", "-o", str(out), stdout=subprocess.DEVNULL).returncode == 3
    assert out.read_text() == "old"
    assert execute("decode", str(path), "--format", "csv", "-o", str(out), stdout=subprocess.DEVNULL).returncode == 0
    assert out.read_text() != "old"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["capture.pcap", "out.csv"]
