"""Facts across connections: judged once, or early when someone watches, and then not told again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pulsarscope.analysis import facts as module
from pulsarscope.analysis.facts import QUIET_NANOSECONDS, Facts
from pulsarscope.wire.rules import Fact, KeyRule, Say, Where

HOUR = 3_600_000_000_000


def fact(packet: int, time: int, what: str = "refused") -> Fact:
    return Fact(Where(None, 0, packet, 1, time, "0:1"), what, {})


def judge(key: str, facts: Sequence[Fact], say: Say) -> None:
    for one in facts:
        if one.what == "refused":
            say("refusal", one.where, key, {"facts": len(facts)})


class Told:
    """Facts of one rule, and what was said of them: packets."""

    def __init__(self, *, prompt: bool) -> None:
        self.packets: list[int] = []
        self.facts = Facts({"rule": (KeyRule("rule", HOUR, judge, prompt=prompt), self.say)})

    def say(self, _code: str, where: Where, _text: str, _evidence: dict[str, Any]) -> None:
        self.packets.append(where.packet)

    def add(self, *facts: Fact) -> None:
        for one in facts:
            self.facts.add("rule", "key", one)


def test_a_key_is_judged_in_the_end() -> None:
    told = Told(prompt=True)
    told.add(fact(2, 5), fact(1, 4))
    assert told.packets == []
    told.facts.finish()
    assert told.packets == [1, 2]


def test_who_watches_hears_of_a_quiet_key_and_hears_nothing_twice() -> None:
    told = Told(prompt=True)
    told.add(fact(1, 0))
    told.facts.settle(QUIET_NANOSECONDS - 1)
    assert told.packets == []
    told.facts.settle(QUIET_NANOSECONDS)
    assert told.packets == [1]
    told.facts.settle(2 * QUIET_NANOSECONDS)
    assert told.packets == [1]
    told.add(fact(2, 3 * QUIET_NANOSECONDS))
    told.facts.settle(4 * QUIET_NANOSECONDS)
    assert told.packets == [1, 2]
    told.facts.finish()
    assert told.packets == [1, 2]


def test_a_rule_that_hears_absence_is_not_asked_early() -> None:
    told = Told(prompt=False)
    told.add(fact(1, 0))
    told.facts.settle(HOUR)
    assert told.packets == []
    told.facts.finish()
    assert told.packets == [1]


def test_a_key_that_begins_anew_is_told_anew() -> None:
    told = Told(prompt=True)
    told.add(fact(1, 0))
    told.facts.settle(QUIET_NANOSECONDS)
    told.facts.settle(2 * HOUR)
    told.add(fact(1, 3 * HOUR))
    told.facts.settle(4 * HOUR)
    assert told.packets == [1, 1]


def test_a_key_that_is_silent_for_too_long_is_judged_when_someone_watches() -> None:
    told = Told(prompt=False)
    told.add(fact(1, 0))
    told.facts.settle(HOUR)
    assert told.packets == []
    told.facts.settle(HOUR + 1)
    assert told.packets == [1]
    told.facts.finish()
    assert told.packets == [1]


def test_what_stands_behind_a_long_silence_is_judged_on_its_own_in_whatever_order_it_comes() -> None:
    counts = []

    def count(_key: str, facts: Sequence[Fact], _say: Say) -> None:
        counts.append(len(facts))

    facts = Facts({"rule": (KeyRule("rule", HOUR, count), lambda *_: None)})
    for packet, time in ((4, 3 * HOUR), (1, 0), (3, 3 * HOUR), (2, HOUR), (5, 3 * HOUR)):
        facts.add("rule", "key", fact(packet, time))
    facts.finish()
    assert counts == [2, 3]


def test_facts_of_a_rule_are_bounded_over_all_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FACTS_MAX", 10)
    told = Told(prompt=False)
    for number in range(12):
        told.facts.add("rule", f"key {number // 4}", fact(number, number))
    assert told.packets == [0, 1, 2, 3]  # of the key that was silent longest; what remains has room
    told.facts.add("rule", "key 1", fact(12, 12))
    told.facts.add("rule", "key 1", fact(13, 13))
    told.facts.add("rule", "key 1", fact(14, 14))
    assert told.packets == [0, 1, 2, 3, 8, 9, 10, 11]
    told.facts.finish()
    assert sorted(told.packets) == list(range(15))


def test_a_key_that_never_ends_remembers_no_more_than_it_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FACTS_PER_KEY_MAX", 4)
    told = Told(prompt=True)
    for number in range(50):
        told.add(fact(number, 2 * number * QUIET_NANOSECONDS))
        told.facts.settle((2 * number + 1) * QUIET_NANOSECONDS)
    assert told.packets == list(range(50))
    assert len(told.facts._told["rule", "key"]) <= 4
