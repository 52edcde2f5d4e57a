"""Facts by rule and key, kept until their key falls silent, then judged in order."""

from __future__ import annotations

from collections import OrderedDict  # whose oldest key goes at once; a dict looks through all that went before
from collections.abc import Collection, Mapping
from typing import Any

from pulsarscope.limits import FACT_KEYS_MAX, FACTS_PER_KEY_MAX
from pulsarscope.wire.rules import Fact, KeyRule, Say, Where

QUIET_NANOSECONDS = 1_000_000_000
"""A key without a fact for so long is quiet: clients try again after 100 ms at first, and who watches does not wait for long."""


class Facts:
    """Bounded: the keys silent longest are judged early when there are too many, and a key keeps its first and its last facts."""

    def __init__(self, rules: Mapping[str, tuple[KeyRule, Say]]) -> None:
        """Each rule by its name, with what makes its findings."""
        self._rules = rules
        self._kept: dict[str, OrderedDict[str, list[Fact]]] = {name: OrderedDict() for name in rules}
        """By rule, then by key, the one silent longest first."""
        self._unsettled: dict[str, dict[str, None]] = {name: {} for name, (rule, _) in rules.items() if rule.prompt}
        """Keys with facts since they were settled."""
        self._told: dict[tuple[str, str], set[tuple[str, Where]]] = {}
        """What was said of keys, by rule and key, when they were settled."""

    def add(self, rule: str, key: str, fact: Fact) -> None:
        """One more fact."""
        kept = self._kept[rule]
        facts = kept.pop(key, None)
        if facts is not None and fact.where.time - facts[-1].where.time > self._rules[rule][0].idle_ns:
            self._judge(rule, key, facts)
            facts = None
        if facts is None:
            facts = []
            if len(kept) >= FACT_KEYS_MAX:
                self._judge(rule, *kept.popitem(last=False))
        kept[key] = facts
        if len(facts) >= FACTS_PER_KEY_MAX:
            del facts[FACTS_PER_KEY_MAX // 2]
        facts.append(fact)
        if (unsettled := self._unsettled.get(rule)) is not None:
            unsettled[key] = None

    def settle(self, time: int) -> None:
        """It is this time, and someone watches: keys that are quiet are judged by the rules that can tell, and kept for what follows."""
        for name, unsettled in self._unsettled.items():
            kept = self._kept[name]
            for key in [key for key in unsettled if time - kept[key][-1].where.time >= QUIET_NANOSECONDS]:
                del unsettled[key]
                told = self._told.get((name, key), set())
                if said := self._say_of(name, key, kept[key], told):
                    self._told[name, key] = told | said

    def advance(self, time: int) -> None:
        """The capture has come to this time: keys silent for too long are judged."""
        for name, kept in self._kept.items():
            since = time - self._rules[name][0].idle_ns
            while kept:
                key = next(iter(kept))
                if kept[key][-1].where.time >= since:
                    break
                self._judge(name, key, kept.pop(key))

    def finish(self) -> None:
        """All that are left are judged."""
        for name, kept in self._kept.items():
            for key, facts in kept.items():
                self._judge(name, key, facts)
            kept.clear()

    def _judge(self, rule: str, key: str, facts: list[Fact]) -> None:
        """For the last time."""
        self._unsettled.get(rule, {}).pop(key, None)
        self._say_of(rule, key, facts, self._told.pop((rule, key), set()))

    def _say_of(self, rule: str, key: str, facts: list[Fact], told: Collection[tuple[str, Where]]) -> set[tuple[str, Where]]:
        """Judge a key, and say what was not told of it before."""
        judge, voice = self._rules[rule]
        said = set()

        def say(code: str, where: Where, text: str, evidence: dict[str, Any]) -> None:
            if (code, where) not in told:
                said.add((code, where))
                voice(code, where, text, evidence)

        judge.judge(key, sorted(facts, key=_place), say)
        return said


def _place(fact: Fact) -> tuple[str, int, int, int]:
    where = fact.where
    return where.source or "", where.file, where.packet, where.sub
