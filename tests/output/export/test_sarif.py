"""A diagnosis in SARIF has the content of the text, in the words of the standard."""

from __future__ import annotations

from typing import Any

import msgspec

from pulsarscope.output.export.sarif import sarif_bytes

GROUP: dict[str, Any] = {
    "code": "producer-busy",
    "severity": "error",
    "layer": "session",
    "meaning": "A producer was refused.",
    "hint": "Wait.",
    "samples": [
        {"count": 3, "connection": "0:1", "places": ["0:9.1", "1:12"], "text": "refused \x1b[31m\u202e", "evidence": {"topic": "t"}},
        {"count": 1, "connection": None, "places": [], "text": "again", "evidence": {}},
    ],
}


def log_of(*groups: dict[str, Any], files: tuple[str, ...] = ("a b.pcap", "/x/ü.pcap")) -> tuple[bytes, Any]:
    data = sarif_bytes(groups, files, "1.2.3", [{"code": "too-short", "text": "what takes longer"}])
    return data, msgspec.json.decode(data)


def test_a_rule_for_each_code_and_a_result_for_each_text() -> None:
    _, log = log_of(GROUP, {**GROUP, "severity": "note"})
    (run,) = log["runs"]
    assert log["version"] == "2.1.0"
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["producer-busy"]
    assert [result["ruleIndex"] for result in run["results"]] == [0, 0, 0, 0]
    assert [result["level"] for result in run["results"]] == ["error", "error", "note", "note"]
    assert [result["occurrenceCount"] for result in run["results"]] == [3, 1, 3, 1]
    assert len({result["partialFingerprints"]["text/v1"] for result in run["results"]}) == 2


def test_places_are_frames_in_files_whose_names_are_uris() -> None:
    _, log = log_of(GROUP)
    first, second = log["runs"][0]["results"]
    assert [place["physicalLocation"]["artifactLocation"]["uri"] for place in first["locations"]] == ["a%20b.pcap", "file:///x/%C3%BC.pcap"]
    assert [place["logicalLocations"][0]["kind"] for place in first["locations"]] == ["frame", "packet"]
    assert "locations" not in second


def test_active_characters_are_escaped() -> None:
    data, log = log_of(GROUP)
    assert b"\x1b" not in data
    assert "\u202e".encode() not in data
    assert log["runs"][0]["results"][0]["message"]["text"] == "refused \x1b[31m\u202e"


def test_what_was_not_judged_is_a_notification() -> None:
    _, log = log_of()
    (notification,) = log["runs"][0]["invocations"][0]["toolExecutionNotifications"]
    assert notification["message"]["text"] == "Not judged: what takes longer"
    assert log["runs"][0]["results"] == []
