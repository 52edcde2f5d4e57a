from __future__ import annotations

import pytest

from pulsarscope.dissect.contract.known_issues import COLUMNS, KnownIssue, ranges, read_table
from tests.scenarios import rows

LINE = (
    "java",
    "a/b#7",
    ">=2.11,<2.11.2 | >=3.0,<3.0.1",
    "2.11.2 3.0.1",
    "slow odd",
    "held; dead",
    "It sleeps.",
    "https://x/7",
    "2024-02-29",
)


def issue(**values: str) -> KnownIssue:
    given = dict(zip(COLUMNS, LINE, strict=True)) | values
    (read,) = read_table(["\t".join(COLUMNS), "\t".join(given[column] for column in COLUMNS)])
    return read


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ((2, 11, 0), True),
        ((2, 11, 1), True),
        ((2, 11, 2), False),
        ((2, 11, 9), False),
        ((2, 10, 9), False),
        ((2, 12, 0), False),
        ((3, 0, 0), True),
        ((3, 0, 1), False),
        ((3, 1, 0), False),
    ],
)
def test_a_version_is_affected_in_the_ranges_of_its_line_up_to_the_fix(version: tuple[int, int, int], expected: bool) -> None:
    assert issue().affects({"java": version}) is expected
    assert not issue().affects({"go": version, "broker": version})


def test_a_range_without_a_beginning_begins_with_the_first_version() -> None:
    assert ranges("<0.10") == (((0, 0, 0), (0, 10, 0)),)


@pytest.mark.parametrize("text", ["", "2.11", ">=2.11", ">=2.11,<2.11.2,<3", "<3 |<4", ">=2.11, <2.12", "<2.11.2.1"])
def test_a_text_that_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="range"):
        ranges(text)


def test_a_finding_fits_by_code_and_by_all_that_it_must_contain_in_its_text_or_evidence() -> None:
    assert issue().fits(rows.finding(code="slow", text="held by a dead one"))
    assert issue().fits(rows.finding(code="odd", text="held", evidence={"message": "dead", "count": 3, "names": ["dead"]}))
    assert not issue().fits(rows.finding(code="slow", text="held", evidence={"names": ["dead"]}))
    assert not issue().fits(rows.finding(code="other", text="held by a dead one"))
    assert issue(contains="").fits(rows.finding(code="slow", text="anything", evidence=None))
