from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from pulsarscope.analysis import known_issues
from pulsarscope.analysis.diagnosis import Diagnosis
from pulsarscope.dissect.contract.known_issues import KnownIssue, KnownIssues
from pulsarscope.model.findings import WARNING, Code, table
from tests.scenarios import rows

CODES = table(Code("slow", WARNING, "session", "It was slow.", "Wait."))


def issue(number: int, product: str) -> KnownIssue:
    return KnownIssue(
        product, f"a/b#{number}", (((1, 0, 0), (1, 2, 0)),), ("1.2.0",), frozenset({"slow"}), (), "It naps.", "https://x", date(2024, 1, 2)
    )


def versions_of(row: Any) -> dict[str, tuple[int, int, int]]:
    found = {"client": row.client_version, "server": row.server_version}
    return {product: (1, int(minor), 0) for product, minor in found.items() if minor}


KNOWN = {"pulsar": KnownIssues((issue(1, "client"), issue(2, "server")), versions_of, {"client": "the client"})}


def slow(name: str | None, **evidence: Any) -> Any:
    return rows.finding(code="slow", severity=WARNING, layer="session", connection=name, dissector="pulsar", evidence=evidence)


def connection(name: str, client: str | None = None, server: str | None = None) -> Any:
    return rows.connection(connection=name, client_version=client, server_version=server)


def matches(*some: Any) -> list[tuple[str, list[str]]]:
    diagnosis = Diagnosis(CODES, known_issues=KNOWN)
    diagnosis.feed(some)
    (symptom,) = diagnosis.symptoms()
    assert diagnosis.records()[0]["known_issues"] == [match.record() for match in diagnosis.known_issues(symptom)]
    return [(match.issue.issue, match.connections) for match in diagnosis.known_issues(symptom)]


def test_a_finding_meets_the_versions_of_its_connection_before_or_after_it() -> None:
    rows_of_it = slow("0:1"), connection("0:1", client="1", server="2")
    assert matches(*rows_of_it) == matches(*reversed(rows_of_it)) == [("a/b#1", ["0:1"])]


def test_no_issue_is_named_for_a_fixed_version_or_an_unknown_one_or_another_connection() -> None:
    assert matches(slow("0:1"), connection("0:1", client="2", server="3"), connection("0:2", client="1")) == []
    assert matches(slow("0:1"), connection("0:1")) == matches(slow("0:1")) == matches(slow(None), connection("0:1", client="1")) == []


def test_a_finding_across_connections_names_those_that_have_the_issue() -> None:
    ends = connection("0:1", client="1"), connection("0:2", client="2"), connection("0:3", client="0", server="1")
    assert matches(slow("0:1", connections=["0:2", "0:3"]), *ends) == [("a/b#1", ["0:1", "0:3"]), ("a/b#2", ["0:3"])]


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_issues, "KNOWN_ISSUE_CONNECTIONS_MAX", 3)
    names = [f"0:{number}" for number in range(9)]
    assert matches(*map(slow, names), *(connection(name, client="1") for name in names)) == [("a/b#1", names[:3])]


def test_programs_get_the_address_and_the_releases_with_the_fix() -> None:
    diagnosis = Diagnosis(CODES, known_issues=KNOWN)
    diagnosis.feed([slow("0:1"), connection("0:1", client="1")])
    (record,) = diagnosis.records()[0]["known_issues"]
    assert record == {
        "issue": "a/b#1",
        "url": "https://x",
        "product": "client",
        "fixed": ["1.2.0"],
        "title": "It naps.",
        "connections": ["0:1"],
    }
