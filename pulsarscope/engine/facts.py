"""Facts by rule and key, kept until their key is judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from pulsarscope.dissect.rules import Fact, KeyRule, ReportFinding, Where
from pulsarscope.engine.evaluated_keys import JudgedKeys
from pulsarscope.engine.packed_facts import Story, begin
from pulsarscope.model.limits import FACTS_MAX_BYTES, FACTS_PER_KEY_MAX

QUIET_NANOSECONDS = 1_000_000_000
"""A key without a fact for so long is quiet: clients try again after 100 ms at first, and who watches does not wait for long."""


class _Waiting:
    """What waits for one rule."""

    def __init__(self, rule: KeyRule, report: ReportFinding) -> None:
        self.rule, self.report = rule, report
        self.stories: dict[str, Story] = {}
        """By key, the one silent longest first."""
        self.size = 0
        """Bytes."""
        self.unsettled: dict[str, None] = {}
        """Keys with facts since they were settled, of a rule that can tell early."""
        self.told: dict[str, set[tuple[str, Where]]] = {}
        """What was said of keys when they were settled."""


class Facts:
    """Bounded: the keys silent longest are judged early when the facts of all take too much memory.

    A key keeps its first and its last facts.

    What is judged together depends on the facts of a key alone, in the order of their places, so that every way of running agrees. Keys
    of which the capture's clock says that they are idle are not judged before the end, unless someone watches: some facts are told late,
    when a connection ends or a hole is given up.
    """

    def __init__(self, rules: Mapping[str, tuple[KeyRule, ReportFinding]]) -> None:
        """Each rule by its name, with what makes its findings."""
        self._waiting = {name: _Waiting(*rule) for name, rule in rules.items()}
        self._size = 0
        """Bytes that wait for all rules."""
        self._judged: JudgedKeys | None = None
        """Keys judged early."""
        self.parted: Counter[str] = Counter()
        """Keys by rule that were judged in parts, because a fact came for them when they had been judged."""
        self.unknown = 0
        """Keys judged early of which that is not known: there were too many."""

    def add(self, rule: str, key: str, fact: Fact) -> None:
        """One more fact."""
        waiting = self._waiting[rule]
        story = waiting.stories.pop(key, None)
        if story is None:
            story = begin(fact)
            added = story.size + len(key)
            if self._judged is not None and (rule, key) in self._judged:
                self.parted[rule] += 1
        else:
            before = story.size
            story.add(fact)
            added = story.size - before
        waiting.stories[key] = story
        waiting.size += added
        self._size += added
        if waiting.rule.early:
            waiting.unsettled[key] = None
        if self._size > FACTS_MAX_BYTES:
            self._make_room()

    def settle(self, time: int) -> None:
        """It is this time, and someone watches: keys silent for too long are judged.

        Those that are quiet are judged by the rules that can tell, and kept for what follows.
        """
        for waiting in self._waiting.values():
            since = time - waiting.rule.idle_ns
            while waiting.stories and waiting.stories[key := next(iter(waiting.stories))].time < since:
                self._conclude(waiting, key)
            for key in [key for key in waiting.unsettled if time - waiting.stories[key].time >= QUIET_NANOSECONDS]:
                del waiting.unsettled[key]
                facts = waiting.stories[key].facts()
                if said := self._evaluate(waiting, key, facts):
                    waiting.told[key] = _still_possible(waiting.told.get(key, set()) | said, facts)

    def finish(self) -> None:
        """All that are left are judged."""
        for waiting in self._waiting.values():
            for key in [*waiting.stories]:
                self._conclude(waiting, key)

    def evaluate(self, rule: str, key: str, facts: Sequence[Fact]) -> None:
        """Judge the facts of one key, sorted, those behind a long silence on their own."""
        self._evaluate(self._waiting[rule], key, facts)

    def _make_room(self) -> None:
        """Judge keys of the rule that keeps most: an eighth of its keys at a time, until an eighth of the room is free."""
        while self._size > FACTS_MAX_BYTES * 7 // 8:
            waiting = max(self._waiting.values(), key=lambda each: each.size)
            self._judged = self._judged or JudgedKeys()
            for key in [*islice(waiting.stories, len(waiting.stories) // 8 + 1)]:
                self._conclude(waiting, key)
                self.unknown += not self._judged.add((waiting.rule.name, key))

    def _conclude(self, waiting: _Waiting, key: str) -> None:
        """Judge a key for the last time."""
        story = waiting.stories.pop(key)
        size = story.size + len(key)
        self._size -= size
        waiting.size -= size
        self._evaluate(waiting, key, story.facts())
        waiting.unsettled.pop(key, None)
        waiting.told.pop(key, None)

    def _evaluate(self, waiting: _Waiting, key: str, facts: Sequence[Fact]) -> set[tuple[str, Where]]:
        """The same as `judge`; what was said that was not told before."""
        rule = waiting.rule
        told = waiting.told.get(key, ())
        said = set()

        def report(code: str, where: Where, text: str, evidence: dict[str, Any]) -> None:
            if (code, where) not in told:
                said.add((code, where))
                waiting.report(code, where, text, evidence)

        start = 0
        for index in range(1, len(facts)):
            if facts[index].where.time - facts[index - 1].where.time > rule.idle_ns:
                rule.evaluate(key, facts[start:index], report)
                start = index
        rule.evaluate(key, facts[start:], report)
        return said


def _still_possible(told: set[tuple[str, Where]], facts: Sequence[Fact]) -> set[tuple[str, Where]]:
    """Without what was said of facts that are no longer kept: a key that is never silent for long would remember it for ever."""
    if len(told) <= FACTS_PER_KEY_MAX:
        return told
    places = {fact.where for fact in facts}
    return {one for one in told if one[1] in places}
