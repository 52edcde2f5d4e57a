"""A baseline removes what it accepts from a diagnosis, and says which parts of it are gone."""

from __future__ import annotations

import msgspec
import pytest

from pulsarscope.analysis.baseline import Baseline
from pulsarscope.model.records import FindingRow


def finding(code: str, topic: str | None = None) -> FindingRow:
    return FindingRow(code=code, severity="error", layer="session", text=code, evidence={} if topic is None else {"topic": topic})


def baseline(*entries: dict[str, object]) -> Baseline:
    return Baseline(msgspec.json.encode({"findings": entries, "verdict": {}}))


def test_findings_of_an_accepted_code_are_left_out_and_counted() -> None:
    accepted = baseline({"code": "producer-busy"})
    rows = [finding("producer-busy", "a"), finding("consumer-busy"), finding("producer-busy")]
    assert [row.code for row in accepted.others(rows)] == ["consumer-busy"]
    assert accepted.accepted == 2
    assert accepted.gone() == []


def test_an_entry_with_topics_accepts_only_findings_about_those() -> None:
    accepted = baseline({"code": "producer-busy", "topics": ["a"]}, {"code": "slow-requests", "topics": []})
    rows = [finding("producer-busy", "a"), finding("producer-busy", "b"), finding("producer-busy")]
    assert accepted.others(rows) == rows[1:]
    assert accepted.gone() == ["slow-requests"]


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"findings":[{"topics":[]}]}', b'{"findings":[{"code":1}]}', b"\xff\xfe"])
def test_anything_else_is_refused_with_the_reason(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"JSON|Expected|missing|utf-8|truncated"):
        Baseline(content)
