"""A diagnosis as JUnit XML, in the form used by Ant and Maven. CI systems show it among the tests."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree as ET

from pulsarscope.analysis.tally import ReportRecord
from pulsarscope.model.text import plural, show_controls

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold (2.2)."""


def junit_bytes(groups: Sequence[ReportRecord], name: str, failing: Sequence[str], not_judged: Sequence[ReportRecord]) -> bytes:
    """Return a suite with a case for each kind of finding and each part that was not judged, or one passing case if there are none.

    Args:
        groups: `Diagnosis.records`.
        name: name of the suite.
        failing: severities of findings that fail; others pass, with their text as output.
        not_judged: what the diagnosis could not judge, with code and text; these cases are skipped.
    """
    failures = sum(group["severity"] in failing for group in groups)
    total = max(len(groups), 1) + len(not_judged)
    suites = ET.Element("testsuites")
    counts = {"tests": str(total), "failures": str(failures), "errors": "0", "skipped": str(len(not_judged))}
    suite = ET.SubElement(suites, "testsuite", {"name": _clean(name), **counts})
    for group in groups:
        case = _case(suite, group["code"])
        lines = [f"{sample['text']}  ({', '.join(map(str, sample['places']))})" for sample in group["samples"]]
        text = "\n".join([*lines, *([f"Try: {group['hint']}"] if group["hint"] else ())])
        if group["severity"] in failing:
            message = f"{group['severity']}, {plural(group['count'], 'time')}: {group['meaning'] or group['code']}"
            ET.SubElement(case, "failure", {"type": _clean(group["code"]), "message": _clean(message)}).text = _clean(text)
        else:
            ET.SubElement(case, "system-out").text = _clean(f"{group['severity']}: {text}")
    if not groups:
        _case(suite, "no findings")
    for part in not_judged:
        ET.SubElement(_case(suite, f"not judged: {part['code']}"), "skipped", {"message": _clean(part["text"])})
    ET.indent(suites)
    written: bytes = ET.tostring(suites, encoding="utf-8", xml_declaration=True)
    return written + b"\n"


def _case(suite: ET.Element, name: str) -> ET.Element:
    return ET.SubElement(suite, "testcase", {"classname": "pulsarscope.diagnose", "name": _clean(name), "time": "0"})


def _clean(text: str) -> str:
    """Return a text with escapes for characters that XML cannot hold or that control a terminal."""
    return show_controls(_NOT_IN_XML.sub(lambda match: f"\\u{ord(match[0]):04x}", text))
