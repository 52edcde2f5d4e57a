"""What a filter means for rows of one kind: a typed tree, which becomes a predicate, or a Spark column.

Names are resolved, values have the type of their field, negations stand at the leaves only, and what a kind of rows cannot have is
decided: the tree is all that an evaluator needs to know.
"""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network

import msgspec

from pulsarscope.filter.syntax import Slice


class Entry(msgspec.Struct, frozen=True):
    """A step into a list of objects with `key` and `value`: to the values of one key."""

    key: str


class Since(msgspec.Struct, frozen=True):
    """A time, as nanoseconds since the start of the capture."""

    nanoseconds: int


class Field(msgspec.Struct, frozen=True):
    """What is compared: from a column, by steps into its objects."""

    name: str
    """As written."""
    column: str
    """A column of the kind, or one of `predicate.DERIVED`."""
    steps: tuple[str | Entry, ...] = ()
    types: tuple[str, ...] = ("any",)
    """The types that its values may have; several where commands disagree; any: that is not known."""
    many: bool = False
    """It may have several values at once: a comparison holds when it holds for one of them, != when it holds for all."""
    command: str | None = None
    """Only in frames of this command."""
    slice: Slice | None = None


Value = int | float | str | bytes | bool | Since | IPv4Network | IPv6Network


class Interval(msgspec.Struct, frozen=True):
    """Both ends belong to it."""

    low: Value
    high: Value


class Always(msgspec.Struct, frozen=True):
    """The same for every row of the kind."""

    value: bool


class Present(msgspec.Struct, frozen=True):
    """The row has the field; a field that is only true or false is true."""

    field: Field


class Compare(msgspec.Struct, frozen=True):
    """`operator` is one of == != < <= > >= contains. Never holds for a row without the field, != included."""

    field: Field
    operator: str
    value: Value


class Within(msgspec.Struct, frozen=True):
    """One of these values, or in one of these intervals."""

    field: Field
    items: tuple[Value | Interval, ...]


class Matches(msgspec.Struct, frozen=True):
    """A regular expression of Python's `re` is found in it."""

    field: Field
    pattern: str


Leaf = Present | Compare | Within | Matches


class Not(msgspec.Struct, frozen=True):
    """The leaf does not hold; so, too, in a row without the field."""

    part: Leaf


class And(msgspec.Struct, frozen=True):
    """All hold."""

    parts: tuple[Expression, ...]


class Or(msgspec.Struct, frozen=True):
    """At least one holds."""

    parts: tuple[Expression, ...]


Expression = Always | Leaf | Not | And | Or
