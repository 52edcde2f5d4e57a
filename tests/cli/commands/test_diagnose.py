from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pulsarscope.cli.arguments.options import ReadOptions
from pulsarscope.cli.commands.diagnose import DiagnoseRequest, diagnose
from pulsarscope.model.errors import UsageError
from pulsarscope.model.units import SECOND
from tests.places import ROOT
from tests.scenarios import ACK, RST, SYN, Packet, ethernet, ip_packet, tcp_segment, write_pcap
from tests.scenarios.recapture import packets_of

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
        "No errors, no warnings in what could be judged.\nNot judged:\n  · problems that show only after 436 ms"
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


def test_a_connection_that_there_is_not_is_named(captures: Path, capsys: Captured) -> None:
    assert diagnose(DiagnoseRequest(files=[str(captures / "stuck-consumer.pcap")], filter="connection == #7")) == 0
    assert capsys.readouterr().err == "pulsarscope: no connection is #7: there are #1, #15\n"


def ethernet_captures() -> list[Path]:
    """Plain captures of Ethernet packets in little endian."""
    files = sorted((ROOT / "captures").glob("*.pcap"))
    return [path for path in files if path.read_bytes()[20:24] == bytes([1, 0, 0, 0]) and path.stat().st_size < 200_000]


@pytest.mark.slow
@pytest.mark.parametrize("path", ethernet_captures(), ids=lambda path: path.stem)
def test_no_part_of_a_capture_is_called_healthy_without_reserve(path: Path, tmp_path: Path, capsys: Captured) -> None:
    """If a fault takes long to show, connections that continue, or began before the part, are enough for a reserve."""
    faulty = diagnose(DiagnoseRequest(files=[str(path)], fail_on="warning")) == 1
    capsys.readouterr()
    packets = packets_of(path)
    for percent in (10, 25, 50, 75):
        cut = len(packets) * percent // 100
        for part in (packets[:cut], packets[cut:]):
            request = DiagnoseRequest(
                files=[str(write_pcap(tmp_path / "part.pcap", part))],
                reading=ReadOptions(threshold=["too-short-seconds=0"] if faulty else None),
                format="json",
                fail_on="never",
            )
            assert diagnose(request) == 0
            made = json.loads(capsys.readouterr().out)
            assert made["not_judged"] or not made["verdict"]["text"].startswith("Healthy")
            assert all(part["text"] in made["verdict"]["text"] for part in made["not_judged"])


@pytest.mark.parametrize(("retried", "counts"), [(False, True), (True, False)])
def test_connections_that_a_broker_refuses_count_in_the_verdict(
    captures: Path, tmp_path: Path, capsys: Captured, *, retried: bool, counts: bool
) -> None:
    healthy = packets_of(captures / "compress-zlib.pcap")
    refused = []
    for port in (50_000, 50_001, 50_002):
        syn = tcp_segment(port, 6650, 9, flags=SYN)
        rst = tcp_segment(6650, port, 0, 10, flags=RST | ACK)
        refused.append(ethernet(ip_packet("10.9.0.11", "10.9.0.1", syn)))
        refused.append(ethernet(ip_packet("10.9.0.1", "10.9.0.11", rst)))
    time = healthy[0].time_ns - len(refused) * SECOND if retried else healthy[-1].time_ns
    failures = [Packet(time + number * SECOND, data) for number, data in enumerate(refused)]
    path = write_pcap(tmp_path / "refused.pcap", [*failures, *healthy] if retried else [*healthy, *failures])
    assert diagnose(DiagnoseRequest(files=[str(path)], quiet=True)) == counts
    text = " ".join(capsys.readouterr().out.split())
    assert ("3 connections to 10.9.0.1:6650 failed at the start" in text) == counts
    assert ("broker-unreachable" in text) == counts
    assert ("3 connections to 10.9.0.1:6650 never opened (3 refused)" in text) != counts


def test_accepted_findings_are_left_out_of_the_verdict_and_the_exit_code(captures: Path, tmp_path: Path, capsys: Captured) -> None:
    path, accepted = str(captures / "errors.pcap"), tmp_path / "accepted.json"
    assert diagnose(DiagnoseRequest(files=[path], format="json", out=str(accepted))) == 1
    assert diagnose(DiagnoseRequest(files=[path], baseline=str(accepted))) == 0
    said = capsys.readouterr()
    assert said.out.startswith("Findings that the baseline does not accept: no errors, no warnings.")
    assert "6 findings accepted by" in said.err
    assert diagnose(DiagnoseRequest(files=[str(captures / "stuck-consumer.pcap")], baseline=str(accepted), fail_on="warning")) == 1
    assert "not found: consumer-busy" in capsys.readouterr().err


@pytest.mark.parametrize("content", [None, "", "[]"])
def test_what_is_no_baseline_is_an_error_of_one_line(captures: Path, tmp_path: Path, content: str | None) -> None:
    accepted = tmp_path / "accepted.json"
    if content is not None:
        accepted.write_text(content)
    with pytest.raises(UsageError, match=r"accepted\.json"):
        diagnose(DiagnoseRequest(files=[str(captures / "errors.pcap")], baseline=str(accepted)))


def test_a_baseline_is_not_overwritten_by_the_report(captures: Path, tmp_path: Path) -> None:
    accepted = tmp_path / "accepted.json"
    accepted.write_text('{"findings": []}')
    with pytest.raises(UsageError):
        diagnose(DiagnoseRequest(files=[str(captures / "errors.pcap")], baseline=str(accepted), out=str(accepted)))
    assert accepted.read_text() == '{"findings": []}'


def test_tools_get_sarif_and_junit(captures: Path, capsys: Captured) -> None:
    path = str(captures / "errors.pcap")
    assert diagnose(DiagnoseRequest(files=[path], format="sarif")) == 1
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert {result["ruleId"] for result in run["results"]} == {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert run["artifacts"][0]["location"]["uri"].endswith("captures/errors.pcap")
    assert diagnose(DiagnoseRequest(files=[path], format="junit")) == 1
    assert 'failures="4"' in capsys.readouterr().out
    assert diagnose(DiagnoseRequest(files=[path], format="junit", fail_on="never")) == 0
    assert 'failures="0"' in capsys.readouterr().out
