"""Facts by rule and key, kept until their key falls silent, then judged in order."""

from __future__ import annotations

from collections import OrderedDict  # whose oldest key goes at once; a dict looks through all that went before
from collections.abc import Mapping

from pulsarscope.limits import FACT_KEYS_MAX, FACTS_PER_KEY_MAX
from pulsarscope.wire.rules import Fact, KeyRule, Say


class Facts:
    """Bounded: the keys silent longest are judged early when there are too many, and a key keeps its first and its last facts."""

    def __init__(self, rules: Mapping[str, tuple[KeyRule, Say]]) -> None:
        """Each rule by its name, with what makes its findings."""
        self._rules = rules
        self._kept: dict[str, OrderedDict[str, list[Fact]]] = {name: OrderedDict() for name in rules}
        """By rule, then by key, the one silent longest first."""

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
        facts.sort(key=_place)
        judge, say = self._rules[rule]
        judge.judge(key, facts, say)


def _place(fact: Fact) -> tuple[str, int, int, int]:
    where = fact.where
    return where.source or "", where.file, where.packet, where.sub
