from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pulsarscope.cli.diagnose import DiagnoseRequest, diagnose
from pulsarscope.cli.options import ReadOptions

Captured = pytest.CaptureFixture[str]


def test_refusals_are_diagnosed_with_their_frames(captures: Path, capsys: Captured) -> None:
    path = str(captures / "errors.pcap")
    assert diagnose(DiagnoseRequest(files=[path], fail_on="error")) == 1
    out = capsys.readouterr().out
    assert re.match(r"6 errors.* in 1 connection: ", out)
    assert "· at 42.1, 45.1: " in out
    assert "ConsumerBusy" in out
    assert "Try: " in out
    assert diagnose(DiagnoseRequest(files=[path], fail_on="never", quiet=True)) == 0
    verdict = capsys.readouterr().out
    assert verdict.startswith("6 errors")
    assert "\n\n" not in verdict


def test_a_healthy_capture_is_healthy(captures: Path, capsys: Captured) -> None:
    path = str(captures / "quickstart.pcapng")
    assert diagnose(DiagnoseRequest(files=[path], fail_on="warning")) == 0
    assert capsys.readouterr().out.startswith(
        "No errors, no warnings in what could be judged.\nNot judged:\n  · what takes longer than the 436 ms"
    )
    reading = ReadOptions(threshold=["too-short-seconds=0.4"])
    assert diagnose(DiagnoseRequest(files=[path], fail_on="warning", reading=reading)) == 0
    assert capsys.readouterr().out == "Healthy: no errors, no warnings.\n"


def test_a_verdict_on_a_capture_with_holes_says_so(captures: Path, capsys: Captured) -> None:
    assert diagnose(DiagnoseRequest(files=[str(captures / "rw-capture-loss.pcap.zst")], fail_on="error")) == 1
    said = " ".join(capsys.readouterr().out.split("\n\n")[0].split())
    assert "133,396 bytes of 4 connections that the capture lacks" in said


def test_programs_get_the_verdict_and_the_groups(captures: Path, capsys: Captured) -> None:
    path = str(captures / "errors.pcap")
    assert diagnose(DiagnoseRequest(files=[path], format="json", fail_on="error")) == 1
    made = json.loads(capsys.readouterr().out)
    assert made["verdict"]["errors"] == sum(group["count"] for group in made["findings"] if group["severity"] == "error")
    assert made["verdict"]["text"].startswith("6 errors")
    (unjudged,) = made["not_judged"]
    assert unjudged["code"] == "too-short"
    assert unjudged["text"] in made["verdict"]["text"]
    assert unjudged["counts"].keys() == {"duration_ns", "least_ns"}
    (first, *_) = made["findings"]
    assert all(first[name] for name in ("code", "meaning", "hint", "first", "last", "topics", "connections", "samples"))
    assert all(sample["places"] for sample in first["samples"])
    assert diagnose(DiagnoseRequest(files=[path], format="ndjson", limit=1, fail_on="never")) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["code"] == first["code"]


@pytest.mark.parametrize(
    ("wanted", "code", "words"),
    [
        ("code == consumer-busy", 1, "Findings that match the filter: 2 errors in 1 connection: consumer-busy (2)."),
        ("code == stream-gap", 0, "Findings that match the filter: no errors, no warnings."),
        ('text contains "IncompatibleSchema" && severity == error', 1, "schema-incompatible (1)."),
    ],
)
def test_a_filter_chooses_the_findings_to_judge(captures: Path, capsys: Captured, wanted: str, code: int, words: str) -> None:
    request = DiagnoseRequest(files=[str(captures / "errors.pcap")], filter=wanted, fail_on="error", quiet=True)
    assert diagnose(request) == code
    assert words in capsys.readouterr().out.replace("\n", " ")
