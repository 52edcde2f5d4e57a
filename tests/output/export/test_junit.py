"""A diagnosis as JUnit XML fails if the command fails, and is well-formed whatever the wire contained."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.output.export.junit import junit_bytes

SAMPLE: dict[str, Any] = {"text": "refused", "places": ["0:9.1"]}
GROUP: dict[str, Any] = {
    "code": "producer-busy",
    "severity": "error",
    "count": 2,
    "meaning": "A producer was refused.",
    "hint": "Wait.",
    "samples": [SAMPLE],
}
UNJUDGED = [{"code": "too-short", "text": "what takes longer"}]


def suite_of(*groups: dict[str, Any], failing: tuple[str, ...] = ("error",)) -> ET.Element:
    suite = ET.fromstring(junit_bytes(groups, "a.pcap", failing, UNJUDGED)).find("testsuite")  # noqa: S314 - our own
    assert suite is not None
    return suite


def test_findings_of_failing_severities_are_failures_and_others_output() -> None:
    suite = suite_of(GROUP, {**GROUP, "code": "slow-requests", "severity": "warning"})
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    failed, passed, skipped = suite.findall("testcase")
    failure = failed.find("failure")
    assert failure is not None
    assert failure.get("message") == "error, 2 times: A producer was refused."
    (once,) = suite_of({**GROUP, "count": 1}).iter("failure")
    assert once.get("message") == "error, 1 time: A producer was refused."
    assert failure.text == "refused  (0:9.1)\nTry: Wait."
    assert passed.find("failure") is None
    assert "slow-requests" in str(passed.get("name"))
    assert skipped.find("skipped") is not None


def test_without_findings_one_case_passes() -> None:
    suite = suite_of()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "0")


@given(st.text())
def test_any_text_is_well_formed(text: str) -> None:
    group = {**GROUP, "code": text, "meaning": text, "hint": text, "samples": [{"text": text, "places": [text]}]}
    assert suite_of(group).get("failures") == "1"


SCHEMA = {
    "testsuites": ({"testsuite"}, {"name", "time", "tests", "failures", "disabled", "errors"}),
    "testsuite": (
        {"properties", "testcase", "system-out", "system-err"},
        {"name", "tests", "failures", "errors", "skipped", "time", "timestamp"},
    ),
    "testcase": ({"skipped", "error", "failure", "system-out", "system-err"}, {"name", "classname", "time"}),
    "failure": (set(), {"message", "type"}),
    "skipped": (set(), {"message", "type"}),
    "system-out": (set(), set()),
}
"""Elements and their possible content, according to junit-10.xsd of Jenkins' xUnit plug-in, as far as we write them."""


def test_elements_and_attributes_are_those_of_the_schema() -> None:
    data = junit_bytes([GROUP, {**GROUP, "code": "slow-requests", "severity": "warning"}], "a.pcap", ("error",), UNJUDGED)
    root = ET.fromstring(data)  # noqa: S314 - our own
    assert root.tag == "testsuites"
    for element in root.iter():
        children, attributes = SCHEMA[element.tag]
        assert {child.tag for child in element} <= children
        assert set(element.attrib) <= attributes
    assert {element.tag for element in root.iter()} == set(SCHEMA)
    assert all(suite.get("name") and str(suite.get("tests")).isdecimal() for suite in root)
