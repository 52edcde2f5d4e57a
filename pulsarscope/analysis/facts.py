"""Facts by rule and key, kept until their key is judged."""

from __future__ import annotations

from bisect import insort
from collections import OrderedDict  # whose oldest key goes at once; a dict looks through all that went before
from collections.abc import Mapping, Sequence
from typing import Any

from pulsarscope.limits import FACT_KEYS_MAX, FACTS_MAX, FACTS_PER_KEY_MAX
from pulsarscope.wire.rules import Fact, KeyRule, Say, Where

QUIET_NANOSECONDS = 1_000_000_000
"""A key without a fact for so long is quiet: clients try again after 100 ms at first, and who watches does not wait for long."""


class Facts:
    """Bounded: the keys silent longest are judged early when there are too many, of them or of their facts.

    A key keeps its first and its last facts.

    What is judged together depends on the facts of a key alone, in the order of their places, so that every way of running agrees.
    """

    def __init__(self, rules: Mapping[str, tuple[KeyRule, Say]]) -> None:
        """Each rule by its name, with what makes its findings."""
        self._rules = rules
        self._kept: dict[str, OrderedDict[str, list[Fact]]] = {name: OrderedDict() for name in rules}
        """By rule, then by key, the one silent longest first."""
        self._counts = dict.fromkeys(rules, 0)
        """Facts of each rule."""
        self._unsettled: dict[str, dict[str, None]] = {name: {} for name, (rule, _) in rules.items() if rule.prompt}
        """Keys with facts since they were settled."""
        self._told: dict[tuple[str, str], set[tuple[str, Where]]] = {}
        """What was said of keys, by rule and key, when they were settled."""

    def add(self, rule: str, key: str, fact: Fact) -> None:
        """One more fact."""
        kept = self._kept[rule]
        facts = kept.pop(key, None)
        if facts is None:
            facts = []
            if len(kept) >= FACT_KEYS_MAX:
                self._conclude(rule, *kept.popitem(last=False))
        kept[key] = facts
        self._counts[rule] -= len(facts)
        keep(facts, fact)
        self._counts[rule] += len(facts)
        while self._counts[rule] > FACTS_MAX and len(kept) > 1:
            self._conclude(rule, *kept.popitem(last=False))
        if (unsettled := self._unsettled.get(rule)) is not None:
            unsettled[key] = None

    def settle(self, time: int) -> None:
        """It is this time, and someone watches: keys silent for too long are judged.

        Those that are quiet are judged by the rules that can tell, and kept for what follows.
        """
        for name, kept in self._kept.items():
            since = time - self._rules[name][0].idle_ns
            while kept and kept[next(iter(kept))][-1].where.time < since:
                self._conclude(name, *kept.popitem(last=False))
        for name, unsettled in self._unsettled.items():
            kept = self._kept[name]
            for key in [key for key in unsettled if time - kept[key][-1].where.time >= QUIET_NANOSECONDS]:
                del unsettled[key]
                if said := self.judge(name, key, kept[key]):
                    self._told[name, key] = _still_possible(self._told.get((name, key), set()) | said, kept[key])

    def finish(self) -> None:
        """All that are left are judged."""
        for name, kept in self._kept.items():
            while kept:
                self._conclude(name, *kept.popitem(last=False))

    def _conclude(self, rule: str, key: str, facts: Sequence[Fact]) -> None:
        """Judge a key for the last time."""
        self._counts[rule] -= len(facts)
        self.judge(rule, key, facts)
        self._unsettled.get(rule, {}).pop(key, None)
        self._told.pop((rule, key), None)

    def judge(self, rule: str, key: str, facts: Sequence[Fact]) -> set[tuple[str, Where]]:
        """Judge the facts of one key, sorted, those behind a long silence on their own; what was said that was not told before."""
        known, voice = self._rules[rule]
        told = self._told.get((rule, key), ())
        said = set()

        def say(code: str, where: Where, text: str, evidence: dict[str, Any]) -> None:
            if (code, where) not in told:
                said.add((code, where))
                voice(code, where, text, evidence)

        start = 0
        for index in range(1, len(facts)):
            if facts[index].where.time - facts[index - 1].where.time > known.idle_ns:
                known.judge(key, facts[start:index], say)
                start = index
        known.judge(key, facts[start:], say)
        return said


def _still_possible(told: set[tuple[str, Where]], facts: Sequence[Fact]) -> set[tuple[str, Where]]:
    """Without what was said of facts that are no longer kept: a key that is never silent for long would remember it for ever."""
    if len(told) <= FACTS_PER_KEY_MAX:
        return told
    places = {fact.where for fact in facts}
    return {one for one in told if one[1] in places}


def keep(facts: list[Fact], fact: Fact) -> None:
    """Put a fact among those of its key, in the order of their places. Of too many the first and the last are kept, however they come."""
    if facts and place_of(fact) < place_of(facts[-1]):
        insort(facts, fact, key=place_of)
    else:
        facts.append(fact)
    if len(facts) > FACTS_PER_KEY_MAX:
        del facts[FACTS_PER_KEY_MAX // 2]


def place_of(fact: Fact) -> tuple[str, int, int, int, str]:
    """By what facts are sorted; those of one place in the order in which their connection told them."""
    where = fact.where
    return where.source or "", where.file, where.packet, where.sub, where.connection
