"""The limits that decide findings: complete, explained, and configurable in every way of running."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from typer.testing import CliRunner

import pulsarscope as ps
from pulsarscope.cli.arguments.application import app
from pulsarscope.dissect.plugins.finding_catalogue import codes_of
from pulsarscope.dissect.plugins.registry import finding_codes, threshold_table
from pulsarscope.model.findings import NOTE, SESSION
from pulsarscope.model.thresholds import MOST, VERDICT_THRESHOLDS
from pulsarscope.protocols import make_dissectors
from tests.places import ROOT

DISSECTORS = tuple(made for made in make_dissectors() if made.package == ps.wire.Dissector.package)
TABLE = threshold_table(DISSECTORS)
RULES = [*(ROOT / "pulsarscope/protocols/pulsar/rules").rglob("*.py"), *(ROOT / "pulsarscope/protocols").glob("*/*rules.py")]


UNKNOWN_ACTOR = frozenset(
    {
        "ack-failed",
        "connection-closed-by-broker",
        "consumer-corrupt",
        "foreign-protocol",
        "keepalive-lost",
        "reconnect-loop",
        "request-failed",
        "session-cap",
        "tls-handshake-failed",
    }
)
"""Codes of faults that may be caused by either side, or by the network between them."""


def constants(path: Path) -> Iterator[str]:
    """Return the names of times and counts that a module of rules defines itself."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id


@pytest.mark.parametrize("threshold", TABLE.values(), ids=lambda threshold: threshold.name)
def test_each_says_why_and_which_findings_it_decides(threshold: ps.wire.Threshold) -> None:
    assert threshold.why.endswith(".")
    assert threshold.codes
    assert threshold in VERDICT_THRESHOLDS or set(threshold.codes) <= finding_codes(DISSECTORS).keys()
    assert threshold.name.endswith("-seconds") == (threshold.unit == "s")
    assert threshold.checked(threshold.value) == threshold.value


@pytest.mark.parametrize("threshold", [threshold for threshold in TABLE.values() if threshold not in VERDICT_THRESHOLDS])
def test_each_is_read_by_a_rule(threshold: ps.wire.Threshold) -> None:
    assert sum(path.read_text(encoding="utf-8").count(f'"{threshold.name}"') for path in RULES) > 1


@pytest.mark.parametrize("dissector", DISSECTORS, ids=lambda dissector: dissector.name)
def test_errors_and_warnings_of_sessions_name_who_must_act(dissector: ps.wire.Dissector) -> None:
    codes = [code for code in codes_of(dissector).values() if code.layer == SESSION.name and code.severity != NOTE]
    assert {code.code for code in codes if code.to_act is None} <= UNKNOWN_ACTOR
    assert all(code.to_act.startswith("the ") for code in codes if code.to_act is not None)


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.stem)
def test_no_rule_has_a_limit_of_its_own(path: Path) -> None:
    """The remaining constants bound memory, forget, or sample."""
    remaining = (
        "IDLE_NS",
        "FORGET_NS",
        "HOLDING_NS",
        "KNOWN_NS",
        "LOOKUP_NS",
        "EMIT_NS",
        "REVIEW_NS",
        "WINDOW_NS",
        "PERIOD_MIN",
    )
    assert [name for name in constants(path) if name.endswith(("_NS", "_MIN", "_LIMIT", "_STORM")) and not name.endswith(remaining)] == []


def late(path: Path, jobs: int, value: float) -> list[tuple[str | None, object]]:
    findings = ps.open(str(path), thresholds={"slow-exchange-seconds": value}, jobs=jobs).findings()
    return [(row.text, (row.evidence or {})["threshold"]) for row in findings if row.code == "slow-exchange"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["errors.pcap", "kafka07.pcap"])
def test_a_value_that_is_given_decides_and_stands_in_the_evidence(captures: Path, name: str) -> None:
    path = captures / name
    assert late(path, 1, 5) == []
    rows = late(path, 1, 0)
    assert rows == late(path, 2, 0)
    assert rows
    assert {cast("dict[str, float]", limits)["slow-exchange-seconds"] for _, limits in rows} == {0}


@pytest.mark.parametrize("name", ["errors.pcap", "raw-strange.pcap", "java-errors.pcap", "acks-batchindex.pcap", "kafka07.pcap"])
def test_no_value_that_may_be_given_breaks_a_rule(captures: Path, name: str) -> None:
    for values in ({limit.name: limit.least for limit in TABLE.values()}, dict.fromkeys(TABLE, MOST)):
        codes = {row.code for row in ps.open(str(captures / name), thresholds=values).findings()}
        assert "rule-failed" not in codes


@pytest.mark.parametrize("command", [["decode", "--records", "finding", "-f", "ndjson"], ["diagnose", "-f", "json", "--fail-on", "never"]])
def test_the_command_line_takes_it(captures: Path, command: list[str]) -> None:
    arguments = [*command, str(captures / "errors.pcap"), "--threshold", "slow-exchange-seconds=0", "--threshold", "clock-skew-seconds=99"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0
    assert '"slow-exchange-seconds":0' in result.output.replace(" ", "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("slow-exchange-second=2", 'unknown threshold "slow-exchange-second"; did you mean slow-exchange-seconds?'),
        ("slow-exchange-seconds=soon", "threshold slow-exchange-seconds: 'soon' is not a number (s)"),
        ("slow-exchange-seconds", "--threshold slow-exchange-seconds: give a name and a value"),
        ("=1", "--threshold =1: give a name and a value"),
    ],
)
@pytest.mark.parametrize("command", ["decode", "diagnose"])
def test_a_wrong_one_is_refused(captures: Path, command: str, text: str, message: str) -> None:
    with pytest.raises(ps.UsageError) as refused:
        CliRunner().invoke(app, [command, str(captures / "errors.pcap"), "--threshold", text], catch_exceptions=False)
    assert str(refused.value).startswith(message)


def test_the_library_refuses_it_before_it_reads() -> None:
    with pytest.raises(ps.UsageError, match="unknown threshold"):
        ps.open("nothing.pcap", thresholds={"slow": 1})
