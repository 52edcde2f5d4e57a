from __future__ import annotations

import json
from pathlib import Path

import pytest

from pulsarscope.cli.commands.compare import CompareRequest, compare
from pulsarscope.model.errors import CaptureError

Captured = pytest.CaptureFixture[str]


def test_two_captures_are_compared(captures: Path, capsys: Captured) -> None:
    files = (str(captures / "stuck-consumer.pcap"), str(captures / "errors.pcap"))
    assert compare(CompareRequest(before=files[0], after=files[1], format="json")) == 0
    made = json.loads(capsys.readouterr().out)
    changes = {record["code"]: (record["before"], record["after"]) for record in made["findings"] if record["severity"] == "error"}
    assert changes.get("request-failed", (0, 0))[0] == 0
    assert sum(after for _, after in changes.values()) == 6
    assert {record["topic"] for record in made["names"] if record["change"] == "vanished"} == {"persistent://public/default/stuck-t-20"}
    assert compare(CompareRequest(before=files[0], after=files[1])) == 0
    out = capsys.readouterr().out
    assert out.startswith("More findings: ")
    assert "PRODUCER " in out


def test_a_capture_compared_with_itself_has_not_changed(captures: Path, capsys: Captured) -> None:
    path = str(captures / "quickstart.pcapng")
    assert compare(CompareRequest(before=path, after=path, quiet=True)) == 0
    assert capsys.readouterr().out == "No notable change.\n"


@pytest.mark.slow
def test_more_errors_fail_it_when_asked_and_fewer_do_not(captures: Path) -> None:
    healthy, broken = str(captures / "quickstart.pcapng"), str(captures / "errors.pcap")
    assert compare(CompareRequest(before=healthy, after=broken, fail_on="regression", quiet=True)) == 1
    assert compare(CompareRequest(before=broken, after=healthy, fail_on="regression", quiet=True)) == 0
    assert compare(CompareRequest(before=healthy, after=healthy, fail_on="regression", quiet=True)) == 0


@pytest.mark.slow
def test_each_side_may_be_a_folder_or_a_pattern(captures: Path, tmp_path: Path, capsys: Captured) -> None:
    for name, kept in (("a.pcap", "errors.pcap"), ("b.pcap", "raw-stats.pcap")):
        (tmp_path / name).write_bytes((captures / kept).read_bytes())
    assert compare(CompareRequest(before=str(tmp_path), after=str(tmp_path / "a*"), format="json")) == 0
    totals = {record["what"]: record for record in json.loads(capsys.readouterr().out)["totals"]}
    assert totals["frames"]["before"] > totals["frames"]["after"] == 75


def test_a_side_that_is_no_capture_is_refused(captures: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no capture")
    with pytest.raises(CaptureError):
        compare(CompareRequest(before=str(captures / "errors.pcap"), after=str(tmp_path / "text")))


@pytest.mark.slow
def test_a_file_that_ends_in_html_becomes_a_page(captures: Path, tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    out = tmp_path / "compare.html"
    assert compare(CompareRequest(before=str(captures / "stuck-consumer.pcap"), after=str(captures / "errors.pcap"), out=str(out))) == 0
    page = out.read_text()
    assert "stuck-consumer.pcap <span" in page
    assert "More findings: " in page
    assert '<section class="table" id="table-names">' in page
    assert "messages delivered" in page
    assert "Content-Security-Policy" in page
    assert (
        compare(CompareRequest(before=str(captures / "errors.pcap"), after=str(captures / "errors.pcap"), out=str(out), format="json")) == 0
    )
    assert json.loads(out.read_text())["totals"]
