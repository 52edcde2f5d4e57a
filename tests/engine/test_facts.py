"""Facts across connections: evaluated once, or early in a live run, and then not reported again."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from random import Random
from time import process_time
from typing import Any

import pytest

from pulsarscope.dissect.contract.rules import Fact, ReportFinding, Where
from pulsarscope.engine import facts as module
from pulsarscope.engine import packed_facts
from pulsarscope.engine.facts import QUIET_NANOSECONDS, EvaluatedKeys, FactRule, Facts
from pulsarscope.engine.ordering import RowKey
from pulsarscope.engine.packed_facts import PendingFacts, PendingKeys, compiled_keys, pack
from pulsarscope.engine.parallel.channel import facts_in_order, pack_facts
from pulsarscope.engine.row_batch import KeyedFact
from tests.scenarios.both_readers import reader

HOUR = 3_600_000_000_000


def fact(packet: int, time: int, what: str = "refused") -> Fact:
    return Fact(Where(None, 0, packet, 1, time, "0:1"), what, {})


def evaluate(key: str, facts: Sequence[Fact], report: ReportFinding) -> None:
    for one in facts:
        if one.what == "refused":
            report("refusal", one.where, key, {"facts": len(facts)})


class ReportedFacts:
    """Facts of one rule, and the packets of the reported ones."""

    def __init__(self, *, early: bool) -> None:
        self.packets: list[int] = []
        self.facts = Facts({"rule": (FactRule("rule", HOUR, evaluate, early=early), self.report)})

    def report(self, _code: str, where: Where, _text: str, _evidence: dict[str, Any]) -> None:
        self.packets.append(where.packet)

    def add(self, *facts: Fact) -> None:
        for one in facts:
            self.facts.add("rule", "key", one)


def test_a_key_is_evaluated_at_the_end() -> None:
    reported = ReportedFacts(early=True)
    reported.add(fact(2, 5), fact(1, 4))
    assert reported.packets == []
    reported.facts.finish()
    assert reported.packets == [1, 2]


def test_a_quiet_key_is_reported_to_a_live_run_and_nothing_twice() -> None:
    reported = ReportedFacts(early=True)
    reported.add(fact(1, 0))
    reported.facts.settle(QUIET_NANOSECONDS - 1)
    assert reported.packets == []
    reported.facts.settle(QUIET_NANOSECONDS)
    assert reported.packets == [1]
    reported.facts.settle(2 * QUIET_NANOSECONDS)
    assert reported.packets == [1]
    reported.add(fact(2, 3 * QUIET_NANOSECONDS))
    reported.facts.settle(4 * QUIET_NANOSECONDS)
    assert reported.packets == [1, 2]
    reported.facts.finish()
    assert reported.packets == [1, 2]


def test_a_rule_about_absence_is_not_evaluated_early() -> None:
    reported = ReportedFacts(early=False)
    reported.add(fact(1, 0))
    reported.facts.settle(HOUR)
    assert reported.packets == []
    reported.facts.finish()
    assert reported.packets == [1]


def test_a_key_that_begins_anew_is_reported_anew() -> None:
    reported = ReportedFacts(early=True)
    reported.add(fact(1, 0))
    reported.facts.settle(QUIET_NANOSECONDS)
    reported.facts.settle(2 * HOUR)
    reported.add(fact(1, 3 * HOUR))
    reported.facts.settle(4 * HOUR)
    assert reported.packets == [1, 1]


def test_a_key_that_is_silent_for_too_long_is_evaluated_in_a_live_run() -> None:
    reported = ReportedFacts(early=False)
    reported.add(fact(1, 0))
    reported.facts.settle(HOUR)
    assert reported.packets == []
    reported.facts.settle(HOUR + 1)
    assert reported.packets == [1]
    reported.facts.finish()
    assert reported.packets == [1]


def test_facts_after_a_long_silence_are_evaluated_on_their_own_in_any_order() -> None:
    counts = []

    def count(_key: str, facts: Sequence[Fact], _say: ReportFinding) -> None:
        counts.append(len(facts))

    facts = Facts({"rule": (FactRule("rule", HOUR, count), lambda *_: None)})
    for packet, time in ((4, 3 * HOUR), (1, 0), (3, 3 * HOUR), (2, HOUR), (5, 3 * HOUR)):
        facts.add("rule", "key", fact(packet, time))
    facts.finish()
    assert counts == [2, 3]


@pytest.mark.parametrize("mode", ["off", "auto"])
def test_a_fact_that_decides_nothing_is_evaluated_with_others_of_its_key_alone(mode: str) -> None:
    judged: list[str] = []

    def rule_of(name: str, *, compares: bool) -> tuple[FactRule, ReportFinding]:
        def note(key: str, facts: Sequence[Fact], _report: ReportFinding) -> None:
            judged.append(f"{name} {key} {len(facts)}")

        return FactRule(name, HOUR, note, decides=lambda one: one.what == "refused", compares=compares), lambda *_: None

    with reader(mode):
        facts = Facts({name: rule_of(name, compares=name == "compares") for name in ("compares", "decides")})
    for name in ("compares", "decides"):
        assert facts.is_quiet(name) == (name == "decides")
        facts.add(name, "one", fact(1, 1, "heard"))
        facts.add(name, "refused", fact(1, 1))
        for number in (1, 2):
            facts.add(name, "two", fact(number, number, "heard"))
    facts.finish()
    assert judged == ["compares refused 1", "compares two 2", "decides refused 1"]


def bounded(monkeypatch: pytest.MonkeyPatch, keys: int) -> None:
    """Limit the room to this number of keys with one fact."""
    monkeypatch.setattr(module, "FACTS_MAX_BYTES", keys * (PendingFacts(pack(fact(0, 0)), 0).size + len("key 10")))


def test_keys_silent_longest_are_evaluated_when_the_facts_of_all_take_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    bounded(monkeypatch, 8)
    reported = ReportedFacts(early=False)
    for number in range(10, 18):
        reported.facts.add("rule", f"key {number}", fact(number, number))
    assert reported.packets == []
    reported.facts.add("rule", "key 10", fact(18, 18))
    assert reported.packets == [11, 12]  # an eighth of the room is free again
    reported.facts.finish()
    assert reported.packets == [11, 12, 13, 14, 15, 16, 17, 10, 18]
    assert reported.facts.evaluated_in_parts() == ({}, 0)


def test_the_rule_that_keeps_most_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    bounded(monkeypatch, 8)
    judged = []
    rules = {name: (FactRule(name, HOUR, lambda key, _facts, _say: judged.append(key)), lambda *_: None) for name in ("few", "many")}
    facts = Facts(rules)
    facts.add("few", "oldest", fact(0, 0))
    for number in range(10, 60):
        facts.add("many", f"key {number}", fact(number, number))
    assert judged
    assert "oldest" not in judged


def test_a_fact_of_a_key_that_was_evaluated_to_make_room_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    bounded(monkeypatch, 8)
    reported = ReportedFacts(early=False)
    for number in range(10, 20):
        reported.facts.add("rule", f"key {number}", fact(number, number))
    reported.facts.add("rule", "key 10", fact(20, 20))
    reported.facts.add("rule", "key 20", fact(21, 21))
    assert reported.facts.evaluated_in_parts() == ({"rule": 1}, 0)


@pytest.mark.parametrize(("what", "counted"), [("lookup", 0), ("refused", 1)])
def test_keys_in_parts_count_once_a_fact_decides(what: str, counted: int, monkeypatch: pytest.MonkeyPatch) -> None:
    bounded(monkeypatch, 8)
    facts = Facts({"rule": (FactRule("rule", HOUR, evaluate, decides=lambda fact: fact.what == "refused"), lambda *_: None)})
    for number in range(10, 20):
        facts.add("rule", f"key {number}", fact(number, number, "lookup"))
    facts.add("rule", "key 10", fact(20, 20, "lookup"))
    facts.add("rule", "key 20", fact(21, 21, what))
    facts.finish()
    assert facts.evaluated_in_parts() == ({"rule": 1} if counted else {}, 0)


@pytest.mark.slow
@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("deciding", [0, 0.03, 0.9])
@pytest.mark.parametrize("placed", [False, True])
def test_facts_by_the_compiled_reader_leave_what_those_of_python_leave(
    monkeypatch: pytest.MonkeyPatch, early: bool, deciding: float, placed: bool
) -> None:
    pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")
    random = Random(f"{early} {deciding}")  # noqa: S311 - repeatable
    monkeypatch.setattr(packed_facts, "FACTS_PER_KEY_MAX", 4)
    bounded(monkeypatch, 200)
    reached: list[list[RowKey]] = [[], []]

    def rule_of(name: str, report: ReportFinding) -> tuple[FactRule, ReportFinding]:
        return FactRule(name, HOUR, evaluate, early=early and name == "b", decides=lambda one: one.what == "refused"), report

    findings: list[list[Any]] = [[], []]
    made = []
    for mode, said in zip(("off", "require"), findings, strict=True):
        with reader(mode):
            made.append(Facts({name: rule_of(name, lambda *found, said=said: said.append(found)) for name in "ab"}, ["anchors"]))
            made[-1]._evaluated = EvaluatedKeys() if mode == "off" else module.evaluated_keys()
    alone, together = made
    numbers = iter(range(100_000))
    for size in [*range(1, 60), 400]:
        batch: list[KeyedFact] = []
        for number in islice(numbers, size):
            name = alone.numbers[random.choice("aab")] if placed else random.choice(("a", "a", "b", alone.numbers["a"]))
            key = random.choice(("1:", "1:", "ключ ", "1:" if placed else "\udc80")) + str(random.randrange(150))
            time = number if placed or random.random() < 0.98 else 1 << 70  # beyond 64 bits
            one = fact(number, time, "refused" if random.random() < deciding else "heard")
            rule, of_rule, packed, when, decides, _ = alone.packed(alone.name_of(name), key, one)
            batch.append((name, of_rule, packed, when, decides, (number, 1)))
            assert rule == alone.name_of(name)
        with reader("off"):
            alone.add_each(batch, reached[0].append)
        with reader("require"):
            together.add_each(facts_in_order(pack_facts([batch])) if placed else batch, reached[1].append)
        states = [
            (
                [(key, of_key(pending.keys[key])) for key in pending.keys],
                [*pending.unsettled],
                pending.keys.size,
                facts._size,
                {**facts._parted},
                {**facts._unknown},
            )
            for facts in (alone, together)
            for pending in facts._pending.values()
        ]
        assert states[:2] == states[2:]
        assert findings[0] == findings[1]
        assert reached[0] == reached[1]
    assert alone._parted["a"] > 100
    assert isinstance(alone._pending["a"].keys, PendingKeys)
    assert not isinstance(together._pending["a"].keys, PendingKeys)
    assert bool(findings[0]) == bool(deciding)


def any_fact(random: Random, number: int, hours: int) -> Fact:
    """A fact anywhere, within some hours, with values of any kind."""
    time = random.choice((number, random.randrange(hours * HOUR), -number))
    place = random.choice((None, "", "a", "ключ")), random.randrange(2), random.randrange(60), random.randrange(3)
    values = ([-1, [300, {"a": 1.5}]], {"b": None, "c": [True] * 20}, "x" * 40, "x" * 300, {str(key): key << 20 for key in range(20)})
    value = random.choice(values) if random.random() < 0.99 else 1 << 70  # beyond 64 bits
    return Fact(Where(*place, time, f"0:{random.randrange(9)}"), "heard", {"number": number, "value": value})


@pytest.mark.parametrize("seed", range(30))
def test_the_compiled_reader_trims_keys_as_python_does(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")
    random = Random(seed)  # noqa: S311 - repeatable
    most, hours = random.randrange(2, 12), random.choice((1, 9, 90))
    monkeypatch.setattr(packed_facts, "FACTS_PER_KEY_MAX", most)
    made = []
    for mode in ("off", "require"):
        with reader(mode):
            made.append(Facts({"rule": (FactRule("rule", HOUR, evaluate), lambda *_: None)}))
    for first in range(0, 600, 20):
        facts = [made[0].packed("rule", f"key {number % 2}", any_fact(random, number, hours)) for number in range(first, first + 20)]
        for each in made:
            each.add_each(facts)
        states = [{key: of_key(pending.keys[key]) for key in pending.keys} for each in made for pending in each._pending.values()]
        assert states[0] == states[1]
        assert made[0]._size == made[1]._size
    assert any(state[-1] for state in states[0].values())


def of_key(facts: PendingFacts) -> tuple[Any, ...]:
    return bytes(facts.packs), facts.time, facts.count, facts.deciding, facts.trimmed


@pytest.mark.parametrize("quiet", [False, True])
def test_compiled_keys_hold_what_those_of_python_hold(quiet: bool) -> None:
    pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")
    random = Random(2)  # noqa: S311 - repeatable
    expected = PendingKeys()
    with reader("require"):
        compiled, theirs = compiled_keys(), module.evaluated_keys()
    ours = EvaluatedKeys()
    for number in range(5_000):
        key = random.choice(("1:", "\udc80", "ключ ")) + str(random.randrange(200))
        if random.random() < 0.02:
            count = len(expected) // 8 + 1
            assert compiled.forget(count, 280, quiet, "rule", theirs) == expected.forget(count, 280, quiet, "rule", ours)
        elif random.random() < 0.5:
            assert compiled.pop(key, None) == expected.pop(key, None)
        else:
            compiled[key] = expected[key] = PendingFacts(bytes(number % 7), number, 1, number % 2)
        assert [*compiled] == [*expected]
        assert len(compiled) == len(expected)
        assert theirs.count("rule", [key]) == ours.count("rule", [key])
    assert {key: compiled[key] for key in compiled} == expected
    with pytest.raises(KeyError):
        compiled["not there"]


def test_keys_evaluated_to_make_room_are_counted_when_there_are_too_many_to_remember(monkeypatch: pytest.MonkeyPatch) -> None:
    bounded(monkeypatch, 8)
    monkeypatch.setattr(module, "EVALUATED_KEYS_MAX", 5)
    reported = ReportedFacts(early=False)
    for number in range(100):
        reported.facts.add("rule", f"key {number:02}", fact(number, number))
    assert reported.facts._unknown["rule"] == len(reported.packets) - 5 > 0


def test_what_is_counted_is_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FACTS_MAX_BYTES", 4_000)
    reported = ReportedFacts(early=True)
    for number in range(1_000):
        reported.facts.add("rule", f"key {number * number % 37}", fact(number, number))
        (pending,) = reported.facts._pending.values()
        kept = sum(pending.keys[key].size + len(key) for key in pending.keys)
        assert reported.facts._size == pending.keys.size == kept <= 4_000
    reported.facts.settle(2 * HOUR)
    assert reported.facts._size == pending.keys.size == 0
    assert not pending.unsettled
    assert not pending.reported


def test_a_key_that_never_ends_remembers_no_more_than_it_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FACTS_PER_KEY_MAX", 4)
    monkeypatch.setattr(packed_facts, "FACTS_PER_KEY_MAX", 4)
    reported = ReportedFacts(early=True)
    for number in range(50):
        reported.add(fact(number, 2 * number * QUIET_NANOSECONDS))
        reported.facts.settle((2 * number + 1) * QUIET_NANOSECONDS)
    assert reported.packets == list(range(50))
    (pending,) = reported.facts._pending.values()
    assert len(pending.reported["key"]) <= 4


@pytest.mark.slow
def test_many_keys_that_are_idle_at_once_take_no_longer_each() -> None:
    def seconds(count: int) -> float:
        reported = ReportedFacts(early=False)
        for number in range(count):
            reported.facts.add("rule", str(number), fact(1, 0, "nothing"))
        begun = process_time()
        reported.facts.settle(2 * HOUR)
        return process_time() - begun

    assert seconds(100_000) < 30 * seconds(10_000)


def test_what_was_added_is_known_and_nothing_else() -> None:
    keys = EvaluatedKeys()
    names = [f"{number}" for number in range(20_000)]
    assert keys.add("rule", names[:10_000]) == 0
    assert [keys.count("rule", [name]) for name in names] == [1] * 10_000 + [0] * 10_000
    assert keys.count("rule", names) == 10_000
    assert keys.count("another rule", ["1"]) == 0


def test_a_full_table_takes_no_more_and_knows_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVALUATED_KEYS_MAX", 7)
    monkeypatch.setattr(module, "_SLOTS", 8)
    keys = EvaluatedKeys()
    names = [f"{number}" for number in range(9)]
    assert keys.add("rule", names) == 2
    assert [keys.count("rule", [name]) for name in names] == [1] * 7 + [0] * 2
    assert keys.add("rule", ["3"]) == 0  # is still present


@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize("alone", [False, True])
def test_legs_have_their_anchors_at_once_unless_a_verdict_may_come_before(
    monkeypatch: pytest.MonkeyPatch, short: bool, alone: bool
) -> None:
    reported = ReportedFacts(early=False)
    values = reported.facts.packed("rule", "key", fact(1, 4))
    if short:
        monkeypatch.setattr(reported.facts, "max_bytes", packed_facts.PENDING_BYTES)
    taken: list[str] = []
    anchors: list[Any] = [((2, 0), taken.append, ("first",)), ((5, 0), taken.append, ("second",))]
    reported.facts.anchors = [*anchors]
    left = reported.facts.join_anchors([((1, 0), None, values)], alone=alone)
    at_once = alone and not short
    assert taken == (["first", "second"] if at_once else [])
    assert [*left] == ([] if at_once else anchors)
    assert reported.facts.anchors == []
