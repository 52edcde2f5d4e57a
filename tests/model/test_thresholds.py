from __future__ import annotations

import pytest

from pulsarscope.model.errors import UsageError
from pulsarscope.model.thresholds import MOST, SECONDS, Threshold, Thresholds, checked_thresholds, join_thresholds

SLOW = Threshold("slow-seconds", 5, SECONDS, "Users notice.", ("slow",))
COUNT = Threshold("storm-count", 20, "messages", "Policies give up.", ("storm",), 1)
TABLE = {threshold.name: threshold for threshold in (SLOW, COUNT)}


def test_values_are_those_of_the_table_unless_others_are_given() -> None:
    thresholds = Thresholds(TABLE.values(), {"slow-seconds": 0.25})
    assert (thresholds.ns("slow-seconds"), thresholds["storm-count"]) == (250_000_000, 20)
    assert thresholds.evidence("slow-seconds") == {"threshold": {"slow-seconds": 0.25}}


def test_a_rule_that_asks_for_an_unknown_name_gets_an_error() -> None:
    thresholds = Thresholds(TABLE.values())
    for ask in (thresholds.ns, thresholds.__getitem__, thresholds.evidence):
        with pytest.raises(KeyError, match="no such threshold: slow-second"):
            ask("slow-second")


@pytest.mark.parametrize(
    ("given", "value"), [("2", 2), ("2.50", 2.5), ("0", 0), (" 7 ", 7), ("1e3", 1_000), (3.0, 3), (str(MOST), 1_000_000_000)]
)
def test_a_number_within_range_is_taken(given: float | str, value: float) -> None:
    checked = checked_thresholds({"slow-seconds": given}, TABLE)["slow-seconds"]
    assert (checked, type(checked)) == (value, type(value))


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("slow-second", "1", 'unknown threshold "slow-second"; did you mean slow-seconds?'),
        ("x\x1b", "1", 'unknown threshold "x\\x1b"; pulsarscope findings CODE lists those of a finding'),
        ("slow-seconds", "five", "threshold slow-seconds: 'five' is not a number (s)"),
        ("slow-seconds", "nan", "threshold slow-seconds: 'nan' is not a number (s)"),
        ("slow-seconds", "1e999", "threshold slow-seconds: '1e999' is not a number (s)"),
        ("slow-seconds", "-1", "threshold slow-seconds: -1 is out of range, 0 to 1000000000 s"),
        ("slow-seconds", "1e10", "threshold slow-seconds: 1e+10 is out of range, 0 to 1000000000 s"),
        ("storm-count", "0", "threshold storm-count: 0 is out of range, 1 to 1000000000 messages"),
        ("storm-count", "1.5", "threshold storm-count: '1.5' is not a whole number (messages)"),
    ],
)
def test_anything_else_is_refused_with_one_line(name: str, given: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        checked_thresholds({name: given}, TABLE)
    assert str(refused.value) == message


def test_protocols_share_a_threshold_of_one_value() -> None:
    other = Threshold("slow-seconds", 5, SECONDS, "For another reason.", ("slow", "slower"))
    assert join_thresholds([(SLOW,), (other, COUNT)]) == {"slow-seconds": SLOW._replace(codes=("slow", "slower")), "storm-count": COUNT}
    with pytest.raises(ValueError, match=r"the threshold slow-seconds is defined as 5 s and as 6 s"):
        join_thresholds([(SLOW,), (other._replace(value=6),)])
