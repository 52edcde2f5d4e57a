"""Known issues of clients and servers: their signs, and the affected versions.

A table has one line per issue, with the columns of `COLUMNS`. A version is three numbers; a range goes from "A" to "B", as in
">=2.11,<2.11.2 | >=3.0,<3.0.1", with one part for each line of releases.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from typing import Any, NamedTuple

from pulsarscope.model.records import ConnectionRow, FindingRow

COLUMNS = ("product", "issue", "affected", "fixed", "codes", "contains", "title", "source", "date")

Version = tuple[int, int, int]
Range = tuple[Version, Version]
"""The first version in the range, and the first one after it."""

_RANGE = re.compile(r"(?:>=(\d+(?:\.\d+){1,2}),)?<(\d+(?:\.\d+){1,2})")


class KnownIssue(NamedTuple):
    """Line of a table."""

    product: str
    """Name of the client library or server that has it, as in `KnownIssues.products`."""
    issue: str
    """Repository and number: apache/pulsar#21155."""
    affected: tuple[Range, ...]
    fixed: tuple[str, ...]
    """Releases with the fix, one for each line of releases."""
    codes: frozenset[str]
    """Findings that may show it."""
    contains: tuple[str, ...]
    """Parts that the text of the finding, or a text in its evidence, must contain."""
    title: str
    source: str
    """Address of the source."""
    date: date
    """Date on which the issue or change was opened, or the release with the fix was published."""

    def fits(self, row: FindingRow) -> bool:
        """Return True when a finding may show it, whatever the versions."""
        if row.code not in self.codes:
            return False
        texts = (row.text, *(row.evidence or {}).values()) if self.contains else ()
        return all(any(isinstance(text, str) and part in text for text in texts) for part in self.contains)

    def affects(self, versions: Mapping[str, Version]) -> bool:
        """Return True when the version of its product is affected; `versions` are those of a connection, by product."""
        version = versions.get(self.product)
        return version is not None and any(first <= version < after for first, after in self.affected)

    def record(self) -> dict[str, Any]:
        """Return the fields that users see, for programs."""
        return {"issue": self.issue, "url": self.source, "product": self.product, "fixed": [*self.fixed], "title": self.title}


class KnownIssues(NamedTuple):
    """The issues that a dissector knows."""

    issues: Sequence[KnownIssue] = ()
    versions: Callable[[ConnectionRow], Mapping[str, Version]] = lambda _row: {}
    """Function that returns the released versions at both ends of a connection, by product; other versions are left out."""
    products: Mapping[str, str] = {}
    """Display names of products."""


def version(text: str) -> Version:
    """Return the version in a text of two or three numbers. Raises ValueError."""
    numbers = [int(number) for number in text.split(".")]
    major, minor, patch = numbers if len(numbers) == 3 else (*numbers, 0)
    return major, minor, patch


def ranges(text: str) -> tuple[Range, ...]:
    """Return the ranges of versions in a text. Raises ValueError."""
    found = []
    for part in text.split(" | "):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise ValueError(f"{part!r} is not a range such as >=2.11,<2.11.2")
        found.append((version(match[1] or "0.0"), version(match[2])))
    return tuple(found)


def read_table(lines: Iterable[str]) -> tuple[KnownIssue, ...]:
    """Return the issues of a table. Raises ValueError."""
    return tuple(
        KnownIssue(
            row["product"],
            row["issue"],
            ranges(row["affected"]),
            tuple(row["fixed"].split()),
            frozenset(row["codes"].split()),
            tuple(filter(None, row["contains"].split("; "))),
            row["title"],
            row["source"],
            date.fromisoformat(row["date"]),
        )
        for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE, strict=True)
    )
