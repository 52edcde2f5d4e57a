"""Syntax tree → typed tree for one kind of rows: names resolved, types checked, negations moved to the leaves.

For a kind of rows that lacks a field, both a test of the field and its negation are unknown, so neither matches; the result stays unknown
unless the other side of an `and` or `or` decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from pulsarscope.filter import expression as tree
from pulsarscope.filter import syntax
from pulsarscope.filter.fields import ANY, UNKNOWN, Catalogue, KnownField
from pulsarscope.filter.filter_error import FilterError, Mismatch, Place
from pulsarscope.filter.literals import WIRESHARK_NAMES, pattern_of, text_of, unquoted, value_of
from pulsarscope.model.records import ROWS
from pulsarscope.model.text import both, either

NEVER = tree.Always(False)
ORDERED = frozenset({"<", "<=", ">", ">="})
UNORDERED = frozenset({"bool", "kind", "address"})
NAMES_OF_PACKETS = frozenset({"connection", "request"})
"""Columns of names that begin with numbers: compared as text, #15 would come before #2."""

HOLDERS = ("fields", "metadata")
"""Columns of frames whose fields are written without the column."""

DEEPEST = 8
"""Parts of a name that error messages examine: no definition nests objects deeper."""


class Checker:
    """The checker of one filter."""

    def __init__(self, text: str, catalogue: Catalogue) -> None:
        self._text = text
        self._catalogue = catalogue

    def check(self, syntax_tree: syntax.SyntaxTree, kinds: Sequence[str]) -> None:
        """Check every test of a filter. Raises FilterError when a test is invalid for all of the kinds."""
        pending = [syntax_tree]
        while pending:
            node = pending.pop()
            if isinstance(node, (syntax.Conjunction, syntax.Disjunction)):
                pending += reversed(node.parts)
            elif isinstance(node, syntax.Negation):
                pending.append(node.part)
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

    def field(self, name: syntax.Name, kind: str) -> tuple[KnownField, tree.FieldPath] | None:
        """Return what a name means in rows of a kind, or None. Raises Mismatch when a step or the slice is invalid for it."""
        return self._resolve(name, kind)

    def missing(self, name: syntax.Name, kinds: Sequence[str]) -> Mismatch:
        """Return the message for a name that none of the kinds has."""
        return self._no_field(name, kinds)

    def meaning(self, syntax_tree: syntax.SyntaxTree, kind: str) -> tree.Expression:
        """Return the typed tree for rows of a kind; `Always(False)` when none of them can match."""
        return self._meaning(syntax_tree, kind, holds=True) or NEVER

    def _meaning(self, syntax_tree: syntax.SyntaxTree, kind: str, *, holds: bool) -> tree.Expression | None:
        """Return the typed tree of a syntax tree, or of its negation unless `holds`; None when it is unknown for the kind."""
        if isinstance(syntax_tree, syntax.Negation):
            return self._meaning(syntax_tree.part, kind, holds=not holds)
        if isinstance(syntax_tree, (syntax.Conjunction, syntax.Disjunction)):
            parts = [self._meaning(part, kind, holds=holds) for part in syntax_tree.parts]
            known = tuple(part for part in parts if part is not None)
            if isinstance(syntax_tree, syntax.Disjunction) == holds:
                return (known[0] if len(known) == 1 else tree.Or(known)) if known else None
            return tree.And(known) if len(known) == len(parts) else None
        try:
            leaf = self._leaf(syntax_tree, kind)
        except Mismatch:
            return None
        if leaf is None or holds:
            return leaf
        return tree.Always(not leaf.value) if isinstance(leaf, tree.Always) else tree.Not(leaf)

    def _leaf(self, test: syntax.Test, kind: str) -> tree.Leaf | tree.Always | None:
        """Return the typed test for rows of a kind; None when the kind lacks the field. Raises Mismatch when the field has another type."""
        if (resolved := self._resolve(test.field, kind)) is None:
            return None
        known, field = resolved
        if isinstance(test, syntax.PresenceTest):
            if "kind" in known.types:
                return tree.Always(True)
            return tree.Present(field)
        if "kind" in known.types:
            raise Mismatch(f"{known.name} is a kind of records: use it alone, or before a field, as in {known.name}.time", test.field.place)
        if isinstance(test, syntax.PatternTest):
            return tree.Matches(field, pattern_of(test.pattern, known))
        if isinstance(test, syntax.MembershipTest):
            return tree.Within(field, tuple(self._item(item, known) for item in test.items))
        if test.operator == "contains":
            return tree.Compare(field, test.operator, text_of(test.value, known))
        if test.operator in ORDERED:
            self._must_be_ordered(known, test.field.place)
        return tree.Compare(field, test.operator, value_of(test.value, known, ordered=test.operator in ORDERED))

    def _item(self, item: syntax.Literal | syntax.Range, known: KnownField) -> tree.Value | tree.Interval:
        if isinstance(item, syntax.Literal):
            return value_of(item, known)
        self._must_be_ordered(known, item.low.place)
        low, high = value_of(item.low, known, ordered=True), value_of(item.high, known, ordered=True)
        if not known.is_open and isinstance(low, tree.Since) != isinstance(high, tree.Since):
            raise Mismatch("both ends of a range must be dates, or both times since the start", item.high.place)
        if _is_above(low, high):
            raise Mismatch("the range is empty: give the smaller value first", item.low.place)
        return tree.Interval(low, high)

    @staticmethod
    def _must_be_ordered(known: KnownField, place: Place) -> None:
        if known.values or known.column in NAMES_OF_PACKETS or UNORDERED.issuperset(known.types):
            raise Mismatch(f"{known.name} has no order: compare it with ==, != or in", place)

    def _resolve(self, name: syntax.Name, kind: str) -> tuple[KnownField, tree.FieldPath] | None:
        """Return the field that a name means in rows of a kind, or None. Raises Mismatch when a step or the slice is invalid for it."""
        table = self._catalogue.tables[kind]
        first, *rest = name.parts
        command = None
        if first.name == kind and rest and not rest[0].quoted:
            first, *rest = rest
        if (known := table.get(first.name)) is None and kind == "frame" and first.name not in ROWS:
            known = self._catalogue.commands.get(first.name.upper())
            command = None if known is None else first.name.upper()
        if known is None:
            return None
        column = known.column or known.name
        many = known.repeated
        steps: list[str | tree.KeyStep] = []
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
        field = tree.FieldPath(
            self._text[name.place[0] : name.place[1]],
            column,
            tuple(steps),
            known.types,
            many or known.is_open,
            command,
            name.slice,
            name.function,
            name.quantifier,
        )
        if name.slice is not None:
            if {"string", "bytes", "address", ANY}.isdisjoint(known.types):
                raise Mismatch(f"{known.name} is neither text nor bytes: it has no parts by position", name.place)
            if known.values:
                known = KnownField(known.name, known.types, known.text, (), known.repeated)
        return self._measured(known, name, steps=bool(field.steps) or command is None), field

    @staticmethod
    def _measured(known: KnownField, name: syntax.Name, *, steps: bool) -> KnownField:
        """Return the number that a function makes of a field, or the field. Raises Mismatch when it has no length or number."""
        if name.function is None:
            return known
        if "kind" in known.types or not steps:
            raise Mismatch(f"{known.name} is not a field: {name.function} takes one, as in {name.function}(topic)", name.place)
        if name.function == "len" and {"string", "bytes", ANY}.isdisjoint(known.types):
            raise Mismatch(f"{known.name} is neither text nor bytes: it has no length; use count({known.name})", name.place)
        return KnownField(f"{name.function}({known.name})", ("int64",), known.text)

    @staticmethod
    def _step(known: KnownField, part: syntax.NamePart) -> tuple[str | tree.KeyStep, KnownField | None]:
        if part.quoted:
            key = unquoted(syntax.Literal(syntax.STRING, part.name, part.place))
            if known.is_pairs:
                return tree.KeyStep(key), KnownField(key, ("string",), known.text)
            if known.is_open or known.name == UNKNOWN:
                return key, KnownField(key, (ANY,), known.text)
            raise Mismatch(f"{known.name} has no entries by key", part.place)
        if (inner := known.fields.get(part.name)) is None and known.is_open:
            inner = KnownField(part.name, (ANY,), known.text)
        return part.name, inner

    def _no_field(self, name: syntax.Name, kinds: Sequence[str]) -> Mismatch:
        """Return the message for an unknown field, with similar names or the kinds that have it."""
        name_text = ".".join(part.name for part in name.parts)
        of = f"{either(kinds)} records"
        if (ours := WIRESHARK_NAMES.get(name_text)) is not None and not self._exists(name, kinds[0]):
            return Mismatch(f'unknown field "{name_text}" in {of}: write {ours}', name.place)
        elsewhere = [kind for kind in ROWS if kind not in kinds and self._exists(name, kind)]
        if elsewhere:
            inner = (syntax.Name((syntax.NamePart(holder, name.place), *name.parts), name.slice, name.place) for holder in HOLDERS)
            near = [
                f"write {full_name.parts[0].name}.{name_text}"
                for full_name in inner
                if any(self._exists(full_name, kind) for kind in kinds)
            ]
            command = name.parts[0].name.upper()
            if command in self._catalogue.commands:
                near.append(f"write {command} for the command")
            near.append(f"use decode --records {elsewhere[0]}")
            return Mismatch(f"{name_text} is a field of {both(elsewhere)} records, not of {of}: {', or '.join(near)}", name.place)
        depth = self._known_depth(name, kinds)
        unknown_part = name.parts[min(depth, len(name.parts) - 1)]
        known = [full for kind in kinds for full, _ in self._catalogue.names(kind)]
        candidates = {full.lower(): full for full in reversed(known)}
        for full in known if depth == 0 else ():
            head, _, last = full.rpartition(".")
            if head in HOLDERS:
                candidates.setdefault(last.lower(), full)
        near_names = get_close_matches(name_text.lower(), candidates, 3, 0.7)
        near_names = list(dict.fromkeys(candidates[near] for near in near_names))
        hint = f"; did you mean {either(near_names)}?" if near_names else "; pulsarscope fields lists them"
        return Mismatch(f'unknown field "{name_text}" in {of}{hint}', unknown_part.place)

    def _exists(self, name: syntax.Name, kind: str) -> bool:
        try:
            return self._resolve(name, kind) is not None
        except Mismatch:
            return True

    def _known_depth(self, name: syntax.Name, kinds: Sequence[str]) -> int:
        """Return the number of parts of a name, from the first on, that some kind has."""
        for depth in range(min(len(name.parts) - 1, DEEPEST), 0, -1):
            shorter = syntax.Name(name.parts[:depth], None, name.place)
            if any(self._exists(shorter, kind) for kind in kinds):
                return depth
        return 0


def _is_above(low: tree.Value, high: tree.Value) -> bool:
    """Return True when the first of two values of a kind is the greater one."""
    first, second = (end.nanoseconds if isinstance(end, tree.Since) else end for end in (low, high))
    if isinstance(first, (int, float)) and isinstance(second, (int, float)):
        return first > second
    return isinstance(first, str) and isinstance(second, str) and first > second
