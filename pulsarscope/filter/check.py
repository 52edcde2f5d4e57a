"""What was written → what it means for one kind of rows: names found, types held to, negations moved to the leaves.

A kind of rows that lacks a field is shown neither by a test of it nor by the test's negation: there the answer is unknown, and unknown
it stays unless the other side of an `and` or `or` decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from pulsarscope.filter import expression as tree
from pulsarscope.filter import syntax
from pulsarscope.filter.fields import ANY, UNKNOWN, Catalogue, Known
from pulsarscope.filter.filter_error import FilterError, Mismatch, Place
from pulsarscope.filter.literals import pattern_of, text_of, unquoted, value_of
from pulsarscope.model.records import ROWS

NOWHERE = tree.Always(False)
ORDERED = frozenset({"<", "<=", ">", ">="})
UNORDERED = frozenset({"bool", "kind", "address"})

HOLDERS = ("fields", "metadata")
"""Columns of frames whose fields people look for without naming the column."""

DEEPEST = 8
"""No definition nests objects deeper; longer names are looked at no further to say what is wrong."""


class Checker:
    """Checks one filter."""

    def __init__(self, text: str, catalogue: Catalogue) -> None:
        self._text = text
        self._catalogue = catalogue

    def check(self, written: syntax.Written, kinds: Sequence[str]) -> None:
        """Hold every test to what there is.

        Raises:
            FilterError: a test suits none of the kinds.
        """
        waiting = [written]
        while waiting:
            node = waiting.pop()
            if isinstance(node, (syntax.Both, syntax.Either)):
                waiting += reversed(node.parts)
            elif isinstance(node, syntax.Negation):
                waiting.append(node.part)
            else:
                self._check_test(node, kinds)

    def _check_test(self, test: syntax.Test, kinds: Sequence[str]) -> None:
        misfit: Mismatch | None = None
        for kind in kinds:
            try:
                if self._leaf(test, kind) is not None:
                    return
            except Mismatch as error:
                misfit = misfit or error
        if misfit is None:
            misfit = self._no_field(test.field, kinds)
        raise FilterError(misfit.reason, self._text, misfit.place)

    def meaning(self, written: syntax.Written, kind: str) -> tree.Expression:
        """The tree for rows of a kind; `Always(False)` when none of them can match."""
        return self._meaning(written, kind, holds=True) or NOWHERE

    def _meaning(self, written: syntax.Written, kind: str, *, holds: bool) -> tree.Expression | None:
        """The tree of what was written, or of its negation; None when it is unknown for the kind."""
        if isinstance(written, syntax.Negation):
            return self._meaning(written.part, kind, holds=not holds)
        if isinstance(written, (syntax.Both, syntax.Either)):
            parts = [self._meaning(part, kind, holds=holds) for part in written.parts]
            known = tuple(part for part in parts if part is not None)
            if isinstance(written, syntax.Either) == holds:
                return (known[0] if len(known) == 1 else tree.Or(known)) if known else None
            return tree.And(known) if len(known) == len(parts) else None
        try:
            leaf = self._leaf(written, kind)
        except Mismatch:
            return None
        if leaf is None or holds:
            return leaf
        return tree.Always(not leaf.value) if isinstance(leaf, tree.Always) else tree.Not(leaf)

    # ---- tests

    def _leaf(self, test: syntax.Test, kind: str) -> tree.Leaf | tree.Always | None:
        """A test of rows of a kind; None when the kind lacks the field.

        Raises:
            Mismatch: the field is there, but not of that type.
        """
        found = self._find(test.field, kind)
        if found is None:
            return None
        known, field = found
        if isinstance(test, syntax.Presence):
            if "kind" in known.types:
                return tree.Always(True)
            return tree.Present(field)
        if "kind" in known.types:
            reason = f"{known.name} is a kind of records: it stands alone, or before a field, as in {known.name}.time"
            raise Mismatch(reason, test.field.place)
        if isinstance(test, syntax.Matching):
            return tree.Matches(field, pattern_of(test.pattern, known))
        if isinstance(test, syntax.Membership):
            return tree.Within(field, tuple(self._item(item, known) for item in test.items))
        if test.operator == "contains":
            return tree.Compare(field, test.operator, text_of(test.value, known))
        if test.operator in ORDERED:
            self._must_be_ordered(known, test.field.place)
        return tree.Compare(field, test.operator, value_of(test.value, known, ordered=test.operator in ORDERED))

    def _item(self, item: syntax.Literal | syntax.Range, known: Known) -> tree.Value | tree.Interval:
        if isinstance(item, syntax.Literal):
            return value_of(item, known)
        self._must_be_ordered(known, item.low.place)
        low, high = value_of(item.low, known, ordered=True), value_of(item.high, known, ordered=True)
        if not known.is_open and isinstance(low, tree.Since) != isinstance(high, tree.Since):
            raise Mismatch("both ends of a range are times of day or both are times since the start", item.high.place)
        return tree.Interval(low, high)

    @staticmethod
    def _must_be_ordered(known: Known, place: Place) -> None:
        if known.values or UNORDERED.issuperset(known.types):
            raise Mismatch(f"{known.name} has no order: compare it with ==, != or in", place)

    # ---- names

    def _find(self, name: syntax.Name, kind: str) -> tuple[Known, tree.Field] | None:
        """The field of a kind that a name means; None when the kind has none.

        Raises:
            Mismatch: a step of the name, or its slice, does not suit.
        """
        table = self._catalogue.tables[kind]
        first, *rest = name.parts
        command = None
        if first.name == kind and rest and not rest[0].quoted:
            first, *rest = rest
        known = table.get(first.name)
        if known is None and kind == "frame" and first.name not in ROWS:
            known = self._catalogue.commands.get(first.name.upper())
            command = None if known is None else first.name.upper()
        if known is None:
            return None
        column = known.column or known.name
        many = known.repeated
        steps: list[str | tree.Entry] = []
        for part in rest:
            step, inner = self._step(known, part)
            if inner is None:
                return None
            known = inner
            if known.column is not None:
                column, many = known.column, known.repeated
                continue
            steps.append(step)
            many = many or known.repeated or known.is_open
        field = tree.Field(
            self._text[name.place[0] : name.place[1]], column, tuple(steps), known.types, many or known.is_open, command, name.slice
        )
        if name.slice is not None:
            if {"string", "bytes", "address", ANY}.isdisjoint(known.types):
                raise Mismatch(f"{known.name} is neither text nor bytes: it has no parts by position", name.place)
            if known.values:
                known = Known(known.name, known.types, known.text, (), known.repeated)
        return known, field

    @staticmethod
    def _step(known: Known, part: syntax.Part) -> tuple[str | tree.Entry, Known | None]:
        if part.quoted:
            key = unquoted(syntax.Literal(syntax.STRING, part.name, part.place))
            if known.is_pairs:
                return tree.Entry(key), Known(key, ("string",), known.text)
            if known.is_open or known.name == UNKNOWN:
                return key, Known(key, (ANY,), known.text)
            raise Mismatch(f"{known.name} has no entries by key", part.place)
        inner = known.fields.get(part.name)
        if inner is None and known.is_open:
            inner = Known(part.name, (ANY,), known.text)
        return part.name, inner

    # ---- what is wrong

    def _no_field(self, name: syntax.Name, kinds: Sequence[str]) -> Mismatch:
        """Why no kind has the field: near names, or the kinds that do have it."""
        written = ".".join(part.name for part in name.parts)
        of = f"{' or '.join(kinds)} records"
        elsewhere = [kind for kind in ROWS if kind not in kinds and self._exists(name, kind)]
        if elsewhere:
            inner = (syntax.Name((syntax.Part(holder, name.place), *name.parts), name.slice, name.place) for holder in HOLDERS)
            near = [f"write {one.parts[0].name}.{written}" for one in inner if any(self._exists(one, kind) for kind in kinds)]
            command = name.parts[0].name.upper()
            if command in self._catalogue.commands:
                near.append(f"write {command} for the command")
            near.append(f"use decode --records {elsewhere[0]}")
            return Mismatch(f"{written} is a field of {' and '.join(elsewhere)} records, not of {of}: {', or '.join(near)}", name.place)
        depth = self._known_depth(name, kinds)
        bad = name.parts[min(depth, len(name.parts) - 1)]
        candidates: dict[str, str] = {}
        for kind in kinds:
            for full, _ in self._catalogue.names(kind):
                head, _, last = full.rpartition(".")
                candidates.setdefault(full.lower(), full)
                if depth == 0 and head in HOLDERS:
                    candidates.setdefault(last.lower(), full)
        near_names = get_close_matches(written.lower(), candidates, 3, 0.7)
        near_names = list(dict.fromkeys(candidates[one] for one in near_names))
        hint = f"; did you mean {' or '.join(near_names)}?" if near_names else "; pulsarscope fields lists them"
        return Mismatch(f'no field is named "{written}" in {of}{hint}', bad.place)

    def _exists(self, name: syntax.Name, kind: str) -> bool:
        try:
            return self._find(name, kind) is not None
        except Mismatch:
            return True

    def _known_depth(self, name: syntax.Name, kinds: Sequence[str]) -> int:
        """How many parts of a name, from the first on, some kind has."""
        for depth in range(min(len(name.parts) - 1, DEEPEST), 0, -1):
            shorter = syntax.Name(name.parts[:depth], None, name.place)
            if any(self._exists(shorter, kind) for kind in kinds):
                return depth
        return 0
