"""The reference of all fields: name, type, meaning and a working example of each."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from pulsarscope.filter.fields import CAPTURE_TIMES, Catalogue, KnownField
from pulsarscope.model.records import ROWS


class FieldEntry(msgspec.Struct, frozen=True):
    """A field of the reference."""

    name: str
    records: tuple[str, ...]
    """Kinds of records that have it."""
    type: str
    """Its type; several if commands disagree, a list if a record can have many values."""
    text: str
    example: str
    """A filter that uses the field."""
    values: tuple[str, ...]
    """Values of an enumeration; otherwise empty."""


def field_entries(catalogue: Catalogue, prefix: str = "") -> Iterator[FieldEntry]:
    """Yield the fields whose names begin with a prefix, in the order of the kinds; those that the prefix names exactly come first.

    Commands may be in lower case.
    """
    kinds: dict[tuple[str, str, str], list[str]] = {}
    known_by: dict[tuple[str, str, str], KnownField] = {}
    command, dot, rest = prefix.partition(".")
    starts = (prefix, f"{command.upper()}{dot}{rest}") if command.upper() in catalogue.commands or not dot else (prefix,)
    exact = tuple(f"{start}." for start in starts)
    for kind in ROWS:
        for name, known in sorted(catalogue.names(kind), key=lambda item: not f"{item[0]}.".startswith(exact)):
            if name.startswith(starts):
                place = (name, _type(known), known.text)
                kinds.setdefault(place, []).append(kind)
                known_by.setdefault(place, known)
    for place, records in kinds.items():
        name, type_, text = place
        known = known_by[place]
        yield FieldEntry(name, tuple(records), type_, text, _example(name, known), tuple(known.values))


def _type(known: KnownField) -> str:
    if known.types == ("kind",):
        return "kind of records"
    return f"{'list of ' if known.repeated else ''}{' or '.join(known.types)}"


def _example(name: str, known: KnownField) -> str:
    if known.is_pairs:
        return f'{name}["key"] == "value"'
    if known.values:
        value = next(iter(known.values))
        bare = value.replace("_", "").replace("-", "").isalnum() and not value[0].isdigit()
        return f"{name} == {value}" if bare else f'{name} == "{value}"'
    match known.types[0]:
        case "int64":
            return f"{name} > 4KiB" if known.name.endswith(("size", "bytes")) else f"{name} > 0"
        case "double":
            return f"{name} > 0.5"
        case "bool":
            return f"{name} == true"
        case "string":
            return f'{name} contains "a"'
        case "bytes":
            return f"{name}[0:2] == 0a:0b"
        case "time":
            return f"{name} > 2.5s" if known.name in CAPTURE_TIMES else f"{name} >= 2026-05-01T10:00:00Z"
        case "duration" | "nanoseconds":
            return f"{name} > 50ms"
        case "address":
            return f"{name} == 10.0.0.0/8"
    return name
