"""The typed tree of a filter for rows of one kind, from which predicates are compiled.

Names are resolved, values have the type of their field, negations occur only at the leaves, and tests that no row of the kind can meet are
decided: an evaluator needs nothing but the tree.
"""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network

import msgspec

from pulsarscope.filter.syntax import Slice


class KeyStep(msgspec.Struct, frozen=True):
    """A step into a list of objects with `key` and `value`, to the values of one key."""

    key: str


class Since(msgspec.Struct, frozen=True):
    """A time in nanoseconds since the start of the capture."""

    nanoseconds: int


class FieldPath(msgspec.Struct, frozen=True):
    """The path to a value: a column, and steps into its objects."""

    name: str
    """Name as in the filter."""
    column: str
    """A column of the kind, or one of `predicate.DERIVED`."""
    steps: tuple[str | KeyStep, ...] = ()
    types: tuple[str, ...] = ("any",)
    """Types of its values; several if commands disagree; any if unknown."""
    many: bool = False
    """True when a row may have several values: a comparison holds if it holds for one of them, != if it holds for all."""
    command: str | None = None
    """The command whose frames have it; None for all."""
    slice: Slice | None = None
    function: str | None = None
    """`len` or `count`, instead of the values themselves."""
    quantifier: str | None = None
    """`any` or `all` of the values; also applies to !=."""


Value = int | float | str | bytes | bool | Since | IPv4Network | IPv6Network


class Interval(msgspec.Struct, frozen=True):
    """An interval that includes both ends."""

    low: Value
    high: Value


class Always(msgspec.Struct, frozen=True):
    """A constant: the same for every row of the kind."""

    value: bool


class Present(msgspec.Struct, frozen=True):
    """Presence of the field; a boolean field must be true."""

    field: FieldPath


class Compare(msgspec.Struct, frozen=True):
    """A comparison by == != < <= > >= or contains. It never holds for a row without the field, not even with !=."""

    field: FieldPath
    operator: str
    value: Value


class Within(msgspec.Struct, frozen=True):
    """Membership in a set of values and intervals."""

    field: FieldPath
    items: tuple[Value | Interval, ...]


class Matches(msgspec.Struct, frozen=True):
    """A match of a regular expression of Python's `re`, anywhere in the value."""

    field: FieldPath
    pattern: str


Leaf = Present | Compare | Within | Matches


class Not(msgspec.Struct, frozen=True):
    """The negation of a leaf; it holds for a row without the field."""

    part: Leaf


class And(msgspec.Struct, frozen=True):
    """The conjunction of its parts."""

    parts: tuple[Expression, ...]


class Or(msgspec.Struct, frozen=True):
    """The disjunction of its parts."""

    parts: tuple[Expression, ...]


Expression = Always | Leaf | Not | And | Or
