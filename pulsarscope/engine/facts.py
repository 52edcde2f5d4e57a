"""Facts by rule and key, kept until their key is evaluated."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from operator import itemgetter
from typing import Any, NamedTuple

from pulsarscope.dissect.contract.legs import AnchorRow, LegTable
from pulsarscope.dissect.contract.rules import OUTER, Fact, ReportFinding, UndecidedFacts, Where
from pulsarscope.engine.ordering import RowKey
from pulsarscope.engine.packed_facts import (
    PENDING_BYTES,
    KeySet,
    KeyTable,
    PendingFacts,
    PendingKeys,
    compiled_keys,
    first_and_last,
    least_kept,
    of_leg,
    pack,
    place_of,
    stretches,
    trimmed,
    unpack,
)
from pulsarscope.engine.row_batch import KeyedFact
from pulsarscope.model.limits import EVALUATED_KEYS_MAX, FACTS_MAX_BYTES, FACTS_PER_KEY_MAX, JOURNEYS_MAX_BYTES
from pulsarscope.model.platform import load_native

_SLOTS = EVALUATED_KEYS_MAX * 8 // 7
"""Number of slots: a table that is fuller than 7/8 takes long to search."""


class EvaluatedKeys:
    """A set of keys by 32 bits of their hashes: four bytes each, 2 MiB in all. One key in a billion is mistaken for another one.

    A Python set of hashes would take 36 MiB for as many.
    """

    def __init__(self) -> None:
        self._slots = array("I", bytes(4 * _SLOTS))
        """Slots; 0 is an empty one."""
        self._count = 0

    def count(self, rule: str, keys: Iterable[str]) -> int:
        """Return how many of these keys of a rule are in the set."""
        slots, found = self._slots, 0
        for key in keys:
            number = hash((rule, key))
            slot = number % _SLOTS
            if not slots[slot]:
                continue
            mark = number >> 32 & 0xFFFF_FFFF or 1
            while (there := slots[slot]) and there != mark:
                slot = (slot + 1) % _SLOTS
            found += there == mark
        return found

    def add(self, rule: str, keys: Iterable[str]) -> int:
        """Add keys of a rule; return the number of keys for which there was no room."""
        slots, without_room = self._slots, 0
        for key in keys:
            number = hash((rule, key))
            mark, slot = number >> 32 & 0xFFFF_FFFF or 1, number % _SLOTS
            while (there := slots[slot]) and there != mark:
                slot = (slot + 1) % _SLOTS
            if there:
                continue
            if self._count == EVALUATED_KEYS_MAX:
                without_room += 1
                continue
            self._count += 1
            slots[slot] = mark
        return without_room


def evaluated_keys() -> KeySet:
    """Return an empty set, that of the compiled reader if there is one."""
    native, _ = load_native()
    made: KeySet = EvaluatedKeys() if native is None else native.EvaluatedKeys(EVALUATED_KEYS_MAX, _SLOTS)
    return made


QUIET_NANOSECONDS = 1_000_000_000
"""Time without a fact after which a key is quiet: clients first retry after 100 ms, and users who watch do not wait long."""


_OTHER_BYTES = 1 << 16
"""Upper bound for a fact that is not packed: it has a few names of a connection."""

_LACKS_FACTS = f" Numbers may be too low: of more than {FACTS_PER_KEY_MAX:,} events, only the first and the last ones were compared."

KEYS_TOGETHER = 1_000
"""Keys whose journeys are handed on together at the end."""


class FactRule(NamedTuple):
    """A `KeyRule` in a run."""

    name: str
    """Name, unique among the rules of all dissectors."""
    idle_ns: int
    evaluate: Callable[[str, Sequence[Fact], ReportFinding], None]
    early: bool = False
    decides: Callable[[Fact], bool] | None = None
    compares: bool = False
    journeys: Callable[[str, Sequence[Fact]], None] | None = None
    """Takes the facts of a key once they are complete."""
    all_legs: bool = False
    """See `KeyRule.all_legs`."""

    def is_decided(self, facts: PendingFacts) -> bool:
        """Return True for facts of a key that may cause a finding."""
        return facts.deciding > 0 or (self.compares and facts.count > 1)


class _Pending:
    """Pending facts of one rule."""

    def __init__(self, rule: FactRule, report: ReportFinding, *, compiled: bool) -> None:
        self.rule, self.report = rule, report
        self.idle_ns, self.early = rule.idle_ns, rule.early
        self.keys: KeyTable = compiled_keys() if compiled else PendingKeys()
        """Facts by key, the one silent for longest first."""
        self.unsettled: dict[str, None] = {}
        """Keys that got facts since they were settled, of a rule that can report early."""
        self.reported: dict[str, set[tuple[str, Where]]] = {}
        """Findings reported about keys when they were settled."""
        self.is_decided = False
        """True once a key produced rows, or may have."""


class Facts:
    """Pending facts, bounded: the keys silent for longest are evaluated early if all facts together take too much memory.

    The facts that are evaluated together depend only on the facts of a key, so that every way of running agrees: those of a stretch without
    long silences, or the first and the last ones if they are too many. Keys that are idle by the capture's clock are not evaluated before
    the end, except in a live run: some facts come late, when a connection ends or a hole is given up.
    """

    def __init__(self, rules: Mapping[str, tuple[FactRule, ReportFinding]], anchors: Iterable[str] = ()) -> None:
        """Take the rules by name, each with the function that makes its findings; `anchors`: names of facts that are anchors of legs."""
        self.legs = {name: LegTable() for name in anchors}
        """Leg tables by the name of their anchors. Facts of inner legs are not evaluated: they also come with the outer leg."""
        self.anchors: list[tuple[tuple[int, int], Callable[..., object], tuple[AnchorRow]]] = []
        """Anchors of the current rows, each with its place among these, and the function that takes it."""
        self._native = load_native()[0]
        self._pending = {name: _Pending(*rule, compiled=self._native is not None) for name, rule in rules.items()}
        self.names = [*self._pending, *self.legs]
        """Names of all rules, by the numbers that stand for them between processes."""
        self.numbers = {name: number for number, name in enumerate(self.names)}
        self._pending_of: dict[str | int, _Pending] = {}
        """Pending facts by name and by number."""
        self._tables: dict[str | int, tuple[KeyTable, dict[str, None] | None, str, int]] = {}
        """Tables of the compiled reader, by name and by number, each with the unsettled keys of a rule that can report early, name and
        `idle_ns`."""
        for name, pending in self._pending.items():
            for rule in (name, self.numbers[name]):
                self._pending_of[rule] = pending
                self._tables[rule] = pending.keys, pending.unsettled if pending.early else None, pending.rule.name, pending.idle_ns
        self._decides = {name: pending.rule.decides for name, pending in self._pending.items()}
        """Functions that recognise the facts that may cause a finding, by name of the rule; None if all do."""
        makes_journeys = any(rule.journeys is not None for rule, _ in rules.values())
        self.max_bytes = FACTS_MAX_BYTES + JOURNEYS_MAX_BYTES * makes_journeys
        """Memory that pending facts may take."""
        self._size = 0
        """Bytes of the facts of all rules."""
        self._evaluated: KeySet | None = None
        """Keys evaluated early."""
        self._parted: Counter[str] = Counter()
        """Number of keys by rule that were evaluated in parts, because a fact came for them after they had been evaluated."""
        self._unknown: Counter[str] = Counter()
        """Number of keys by rule that were evaluated early, but are not in `_evaluated`, because there were too many."""

    def add(self, rule: str, key: str, fact: Fact) -> None:
        """Add a fact."""
        self._add_each((self.packed(rule, key, fact),))

    def packed(self, rule: str, key: str, fact: Fact) -> tuple[str, str, bytes, int, bool, RowKey]:
        """Return a packed fact as `add_each` takes it, without the key of its row."""
        decides = self._decides.get(rule)
        return rule, key, pack(fact), fact.where.time, decides is None or bool(decides(fact)), ()

    def add_packed(self, rule: str, key: str, packed: bytes, time: int, *, deciding: bool = True) -> None:
        """Add a packed fact of this time; `deciding` is False if it causes no finding on its own (see `KeyRule.decides`)."""
        self._add_each(((rule, key, packed, time, deciding, ()),))

    def add_each(self, facts: Sequence[KeyedFact], reach: Callable[[RowKey], None] | None = None) -> None:
        """Add packed facts in order; `reach` is called with the row key of a fact that causes findings about other keys."""
        if self._native is None:
            self._add_each(facts, reach)
            return
        start = 0
        while (start := self._add_natively(self._native.add_facts, facts, start)) < len(facts):
            self._add_each((facts[start],), reach)  # needs a closer look
            start += 1

    def _add_natively(self, add: Callable[..., Any], facts: Any, start: int, *rule: str) -> int:
        """Add facts from an index on with a function of the compiled reader; return the index of the first one that it leaves."""
        sizes = PENDING_BYTES, max(self.max_bytes - self._size, 0), least_kept()
        taken, added, parted = add(facts, start, *rule, self._tables, sizes, self._evaluated)
        if parted:
            self._parted.update(parted)
        self._size += added
        return start + int(taken)

    def _add_each(self, facts: Iterable[KeyedFact], reach: Callable[[RowKey], None] | None = None) -> None:
        """Add facts one by one, like `add_each`."""
        pending_of, evaluated, max_bytes, size = self._pending_of, self._evaluated, self.max_bytes, self._size
        for rule, key, packed, time, deciding, place in facts:  # several for each entry: as few calls as possible
            pending = pending_of.get(rule)
            if pending is None:
                self.legs[self.name_of(rule)].add(key, unpack(packed)[0])
                continue
            keys = pending.keys
            of_key = keys.pop(key, None)
            if of_key is None:
                keys[key] = PendingFacts(packed, time, 1, deciding)
                added = PENDING_BYTES + len(packed) + len(key)
                if evaluated is not None and evaluated.count(pending.rule.name, (key,)):
                    self._parted[pending.rule.name] += 1
            else:
                added = of_key.add(packed, time, pending.idle_ns, deciding)
                keys[key] = of_key
            keys.size += added
            size += added
            if pending.early:
                pending.unsettled[key] = None
            if size > max_bytes:
                if reach is not None:
                    reach(place)
                self._size = size
                self._make_room()
                evaluated, size = self._evaluated, self._size
        self._size = size

    def join_anchors(self, brought: Sequence[Any], *, alone: bool) -> Sequence[Any]:
        """Pass the anchors of the current rows to the leg tables at once; return those that must be passed in row order.

        Verdicts depend on legs, but none comes before the end unless memory is short. `brought`: other effects of the rows; `alone`: there
        are no further ones.
        """
        anchors, self.anchors = self.anchors, []
        sizes = (_OTHER_BYTES if take is not None else PENDING_BYTES + 4 * len(values[1]) + len(values[2]) for _, take, values in brought)
        if not alone or self._size + sum(sizes) > self.max_bytes:
            return anchors
        for _, add, row in sorted(anchors, key=itemgetter(0)):  # rows in columns come by connection
            add(*row)
        return ()

    def name_of(self, rule: str | int) -> str:
        """Return the name of a rule given by name or number."""
        return rule if isinstance(rule, str) else self.names[rule]

    def add_undecided(self, rule: str, facts: UndecidedFacts) -> None:
        """Add facts of one rule in the form of the compiled reader, like `add_packed` one by one."""
        start = 0
        while (start := self._add_natively(self._native.add_undecided, facts, start, rule)) < len(facts):
            _, key, packed, time = facts[start]
            self.add_packed(rule, key, packed, time, deciding=False)
            start += 1

    def idle_ns(self, rule: str) -> int:
        """Return the time for which a rule remembers a key."""
        return self._pending[rule].rule.idle_ns

    def is_quiet(self, rule: str) -> bool:
        """Return True when keys of a rule produce nothing unless a fact decides (see `KeyRule.decides`)."""
        of_rule = self._pending[rule].rule
        return of_rule.decides is not None and of_rule.journeys is None and not of_rule.compares

    def settle(self, time: int) -> None:
        """Evaluate keys that have been silent for too long at this time of a live run, nanoseconds since the epoch.

        Keys that are quiet, or in the future because a clock was set back, are evaluated by the rules that can report early, and kept for
        what follows.
        """
        for pending in self._pending.values():
            for key in _silent_since(pending.keys, time - pending.rule.idle_ns):
                self._conclude(pending, key)
            for key in [key for key in pending.unsettled if abs(time - pending.keys[key].time) >= QUIET_NANOSECONDS]:
                del pending.unsettled[key]
                if not pending.rule.is_decided(pending.keys[key]):
                    continue
                facts = pending.keys[key].facts()
                if reported := self._evaluate(pending, key, facts):
                    pending.reported[key] = _still_possible(pending.reported.get(key, set()) | reported, facts, pending.rule.idle_ns)

    def finish_journeys(self) -> Iterator[None]:
        """Evaluate all remaining keys that yield journeys, in the order in which they began; pause regularly, since their rows are many."""
        for pending in self._pending.values():
            if pending.rule.journeys is not None:
                places = {key: place_of(pending.keys[key].facts()[0]) for key in pending.keys}
                for number, key in enumerate(sorted(places, key=places.__getitem__), 1):
                    self._conclude(pending, key)
                    if number % KEYS_TOGETHER == 0:
                        yield

    def finish(self) -> None:
        """Evaluate all remaining keys."""
        for pending in self._pending.values():
            if self._evaluated is not None:  # there are many
                self._conclude_first(pending, len(pending.keys), self._evaluated)
            else:
                for key in [*pending.keys]:
                    self._conclude(pending, key)

    def evaluated_in_parts(self) -> tuple[dict[str, int], int]:
        """Return the number of keys of each rule evaluated in parts, and how many more may have been, if verdicts may depend on it.

        Those of a rule do not as long as no fact decides (see `KeyRule.decides`): neither a part nor the whole then causes a finding.
        """
        decided = {name for name, pending in self._pending.items() if pending.is_decided}
        parted = {name: number for name, number in sorted(self._parted.items()) if name in decided}
        return parted, sum(number for name, number in self._unknown.items() if name in decided)

    def evaluate(self, rule: str, key: str, facts: list[Fact]) -> None:
        """Evaluate the facts of one key, in the order of their places; those after a long silence separately."""
        self._evaluate(self._pending[rule], key, facts, complete=True)

    def _make_room(self) -> None:
        """Evaluate keys of the rule that keeps most: an eighth of its keys at a time, until an eighth of the room is free."""
        while self._size > self.max_bytes * 7 // 8:
            pending = max(self._pending.values(), key=lambda each: each.keys.size)
            self._evaluated = self._evaluated or evaluated_keys()
            self._unknown[pending.rule.name] += self._conclude_first(pending, len(pending.keys) // 8 + 1, self._evaluated)

    def _conclude_first(self, pending: _Pending, count: int, evaluated: KeySet) -> int:
        """Evaluate the `count` keys silent for longest for the last time; return how many could not be remembered for lack of room."""
        rule, keys = pending.rule, pending.keys
        quiet = rule.journeys is None and not rule.early and not rule.compares
        freed, left, unknown = keys.forget(count, PENDING_BYTES, quiet, rule.name, evaluated)
        for key in left:
            self._conclude(pending, key)
        self._size -= freed
        return unknown

    def _conclude(self, pending: _Pending, key: str) -> None:
        """Evaluate a key for the last time."""
        facts = pending.keys.pop(key)
        size = facts.size + len(key)
        self._size -= size
        pending.keys.size -= size
        if pending.rule.is_decided(facts) or pending.rule.journeys is not None:
            pending.is_decided = True
            self._evaluate(pending, key, facts.facts(), complete=True)
        if pending.rule.early:
            pending.unsettled.pop(key, None)
            pending.reported.pop(key, None)

    def _evaluate(self, pending: _Pending, key: str, facts: list[Fact], *, complete: bool = False) -> set[tuple[str, Where]]:
        """Evaluate like `evaluate`; return the new findings. `complete` means for the last time."""
        rule = pending.rule
        before = pending.reported.get(key, ())
        reported = set()

        def report(code: str, where: Where, text: str, evidence: dict[str, Any]) -> None:
            if (code, where) not in before:
                reported.add((code, where))
                pending.report(code, where, f"{text}{_LACKS_FACTS if len(kept) < len(stretch) else ''}", evidence)

        for stretch in stretches(facts, rule.idle_ns):
            kept = first_and_last(stretch)
            of_paths = self._of_paths(kept, all_legs=rule.all_legs)
            if of_paths:
                rule.evaluate(key, of_paths, report)
                if complete and rule.journeys is not None:
                    rule.journeys(key, of_paths)
        return reported

    def _of_paths(self, facts: list[Fact], *, all_legs: bool) -> list[Fact]:
        """Return the facts without those of inner legs, or with these marked."""
        for table in self.legs.values():
            if table.outer_of:
                facts = [of_leg(fact, outer) if (outer := table.outer_of.get(fact.where.connection)) else fact for fact in facts]
        return facts if all_legs else [fact for fact in facts if OUTER not in fact.values]


def _silent_since(keys: KeyTable, time: int) -> list[str]:
    """Return the first keys, all of whose facts are from before a time: finding one at a time takes ever longer as keys are removed."""
    return [*takewhile(lambda key: keys[key].time < time, keys)]


def _still_possible(reported: set[tuple[str, Where]], facts: list[Fact], idle_ns: int) -> set[tuple[str, Where]]:
    """Drop findings about facts that are no longer kept: otherwise a key that is never silent for long would remember them for ever."""
    if len(reported) <= FACTS_PER_KEY_MAX:
        return reported
    places = {fact.where for fact in trimmed(facts, idle_ns)}
    return {finding for finding in reported if finding[1] in places}
