from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pulsarscope.analysis.diagnosis import Diagnosis
from pulsarscope.cli.arguments.application import app
from pulsarscope.dissect.contract.known_issues import KnownIssue, Version, version
from pulsarscope.dissect.plugins.registry import finding_codes
from pulsarscope.protocols.pulsar.dissector import PulsarDissector
from pulsarscope.protocols.pulsar.known_issues import PRODUCTS, known_issues, versions_of
from tests.scenarios import rows
from tests.scenarios.capturefile import write_pcap
from tests.scenarios.commands import subscribe
from tests.scenarios.conversation import Conversation
from tests.scenarios.frames import command_frame

ISSUES = known_issues().issues
PAGE = re.compile(
    r"https://github\.com/(apache/pulsar(?:-client-\w+)?|streamnative/pulsar-rs)/(?:issues|pull)/(\d+)"
    r"|https://pulsar\.apache\.org/release-notes/versioned/pulsar-[\d.]+"
)


def test_each_line_of_the_table_is_whole() -> None:
    codes = finding_codes([PulsarDissector()])
    for issue in ISSUES:
        page = PAGE.fullmatch(issue.source)
        assert page is not None, issue
        assert page[1] is None or f"{page[1]}#{page[2]}" == issue.issue
        assert issue.product in PRODUCTS
        assert issue.codes
        assert issue.codes <= codes.keys(), issue
        assert issue.fixed
        assert issue.affected
        assert all(first < after for first, after in issue.affected)
        assert {version(fixed) for fixed in issue.fixed} <= {after for _, after in issue.affected}, issue
        assert not any(issue.affects({issue.product: version(fixed)}) for fixed in issue.fixed), issue
        assert issue.title
        assert not issue.title.endswith(".")


def test_the_table_is_sorted_and_names_no_issue_twice() -> None:
    keys = [(issue.product, *issue.issue.split("#")) for issue in ISSUES]
    ordered = [(product, repository, int(number)) for product, repository, number in keys]
    assert ordered == sorted(set(ordered))
    assert len(ISSUES) >= 30


WIRE = {"java": "Pulsar-Java-v", "cpp": "Pulsar-CPP-v", "go": "Pulsar-Go-v", "rust": "pulsar-rs-v"}


def named(issue: KnownIssue, number: Version, code: str, text: str) -> bool:
    """Return True if a diagnosis names an issue for a finding of a connection with this version at one end."""
    shown = ".".join(map(str, number))
    ends = {"server_version": f"Pulsar Server{shown}"} if issue.product == "broker" else {"client_version": f"{WIRE[issue.product]}{shown}"}
    codes = finding_codes([PulsarDissector()])
    known = codes[code]
    diagnosis = Diagnosis(codes, known_issues={"pulsar": known_issues()})
    finding = rows.finding(code=code, severity=known.severity, layer=known.layer, connection="0:1", dissector="pulsar", text=text)
    diagnosis.feed([finding, rows.connection(connection="0:1", **ends)])
    (symptom,) = diagnosis.symptoms()
    return issue in [match.issue for match in diagnosis.known_issues(symptom)]


@pytest.mark.parametrize("issue", ISSUES, ids=lambda issue: issue.issue)
def test_an_issue_is_named_only_when_version_and_symptom_fit(issue: KnownIssue) -> None:
    text = " ".join(issue.contains)
    other = next(code for code in sorted(finding_codes([PulsarDissector()])) if code not in issue.codes)
    for first, (major, minor, patch) in issue.affected:
        last = (major, minor, patch - 1) if patch else (major, minor - 1, 99)
        for code in issue.codes:
            assert named(issue, first, code, text)
            assert named(issue, last, code, text)
            assert not issue.contains or not named(issue, last, code, "")
        assert not named(issue, last, other, text)
    for fixed in issue.fixed:
        for code in issue.codes:
            assert not named(issue, version(fixed), code, text)


@pytest.mark.parametrize(
    ("client", "server", "expected"),
    [
        ("Pulsar-Java-v4.2.4", "Pulsar Server4.2.4", {"java": (4, 2, 4), "broker": (4, 2, 4)}),
        ("Pulsar-CPP-v4.2.0", "", {"cpp": (4, 2, 0)}),
        ("Pulsar-Go-v0.19.0", "", {"go": (0, 19, 0)}),
        ("pulsar-rs-v6.9.1", "", {"rust": (6, 9, 1)}),
        ("2.10.6", "Pulsar Server2.10.6", {"java": (2, 10, 6), "broker": (2, 10, 6)}),
        ("3.1.0", "", {"cpp": (3, 1, 0)}),
        ("", "", {}),
        ("Pulsar-Java-v3.3.1-SNAPSHOT", "Pulsar Server4.0.0.3", {}),
        ("2.10.0.7-ls", "Pulsar Server5.0.0-M1", {}),
        ("Pulsar-Java-v3.0", "Pulsar Server", {}),
        ("Pulsar-Java-v3.0.٣", "Pulsar Server3.0.1\n", {}),
        ("Pulsar-Java-v3.0." + "9" * 9999, "by hand", {}),
        ("Pulsar-C#-v3.0.1", "Pulsar-Proxy-v3.0.1", {}),
    ],
)
def test_only_released_versions_of_known_products_count(client: str, server: str, expected: dict[str, Any]) -> None:
    assert versions_of(client, server) == expected


def refused(client: str, server: str, message: str = "Exclusive consumer is already connected") -> Conversation:
    """A consumer that the broker refuses as busy."""
    talk = Conversation(("10.0.0.1", 40000), ("10.0.0.2", 6650)).handshake()
    talk.client(command_frame("CONNECT", client_version=client, protocol_version=19))
    talk.server(command_frame("CONNECTED", server_version=server, protocol_version=19))
    talk.client(subscribe(1))
    return talk.server(command_frame("ERROR", request_id=2, error="ConsumerBusy", message=message))


def diagnosis(path: Path, talk: Conversation, *options: str) -> str:
    result = CliRunner().invoke(app, ["diagnose", str(write_pcap(path / "busy.pcap", talk.packets)), "--no-color", *options])
    assert result.exit_code in (0, 1), result.output
    return " ".join(result.output.split())


BROKER = "consistent with apache/pulsar#21183 (broker, fixed in 2.10.6, 2.11.3, 3.0.3)"
CLIENT = "consistent with apache/pulsar#21144 (Java client, fixed in 2.11.3, 3.0.2)"


@pytest.mark.parametrize(
    ("client", "server", "expected"),
    [
        ("Pulsar-Java-v3.0.1", "Pulsar Server3.0.2", {BROKER, CLIENT}),
        ("Pulsar-Java-v3.0.2", "Pulsar Server3.0.2", {BROKER}),
        ("Pulsar-Java-v3.0.1", "Pulsar Server3.0.3", {CLIENT}),
        ("Pulsar-CPP-v3.5.0", "Pulsar Server3.1.0", set()),
        ("Pulsar-Go-v0.19.0", "Pulsar Server4.2.4", set()),
        ("Pulsar-Java-v3.0.1-SNAPSHOT", "Pulsar Server3.0.2.1", set()),
        ("Pulsar-Java-v3.0.2", "", set()),
    ],
)
def test_a_diagnosis_names_the_issues_of_the_versions_at_both_ends(tmp_path: Path, client: str, server: str, expected: set[str]) -> None:
    text = diagnosis(tmp_path, refused(client, server))
    assert "consumer-busy" in text
    assert {line for line in (BROKER, CLIENT) if line in text} == expected


def test_another_message_of_the_broker_is_another_symptom(tmp_path: Path) -> None:
    talk = refused("Pulsar-Java-v3.0.1", "Pulsar Server3.0.2", "Topic reached max consumers limit")
    assert "consistent with" not in diagnosis(tmp_path, talk)


@pytest.mark.slow
def test_programs_and_a_filtered_diagnosis_get_the_issues_as_well(tmp_path: Path) -> None:
    talk = refused("Pulsar-Java-v3.0.1", "Pulsar Server3.0.3")
    assert CLIENT in diagnosis(tmp_path, talk, "-Y", 'code == "consumer-busy"')
    for jobs in "1", "2":
        (group,) = [
            group
            for group in json.loads(diagnosis(tmp_path, talk, "-f", "json", "--jobs", jobs))["findings"]
            if group["code"] == "consumer-busy"
        ]
        (known,) = [known for known in group["known_issues"] if known["issue"] == "apache/pulsar#21144"]
        assert (known["fixed"], known["connections"]) == (["2.11.3", "3.0.2"], ["0:1"])
        assert known["url"] == "https://github.com/apache/pulsar/pull/21144"


def test_a_finding_is_explained_with_its_known_issues() -> None:
    text = " ".join(CliRunner().invoke(app, ["findings", "consumer-busy", "--no-color"]).output.split())
    assert "apache/pulsar#21183 (broker, fixed in 2.10.6, 2.11.3, 3.0.3)" in text
    assert "apache/pulsar#23854" not in text
