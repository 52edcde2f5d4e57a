"""Known issues that are consistent with findings and the versions of their connections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pulsarscope.dissect.contract.known_issues import KnownIssue, KnownIssues, Version
from pulsarscope.model.bounded_tables import remember
from pulsarscope.model.limits import KNOWN_ISSUE_CONNECTIONS_MAX
from pulsarscope.model.records import ConnectionRow, FindingRow

VERSIONS_MAX = 256
"""Pairs of versions for which it is cached whether they have an issue."""


class IssueMatch(NamedTuple):
    """A known issue that fits findings of one code."""

    issue: KnownIssue
    product: str
    """Product in words."""
    connections: list[str]
    """Names of the connections whose version has the issue."""

    def record(self) -> dict[str, Any]:
        """Return the match, for programs."""
        return {**self.issue.record(), "connections": self.connections}


class AffectedConnections:
    """Versions of the connections that have a known issue; they come before or after their findings."""

    def __init__(self) -> None:
        self._versions: dict[str, Mapping[str, Version]] = {}
        self._known: dict[tuple[Any, ...], Mapping[str, Version]] = {}
        """Affected versions by dissector and versions; empty if they have no issue. Most connections have the same versions."""

    def add(self, row: ConnectionRow, known: KnownIssues) -> None:
        """Add a connection."""
        if row.connection is None or len(self._versions) >= KNOWN_ISSUE_CONNECTIONS_MAX:
            return
        versions = known.versions(row)
        if not versions:
            return
        key = row.dissector, *versions.items()
        if (affected := self._known.get(key)) is None:
            affected = versions if any(issue.affects(versions) for issue in known.issues) else {}
            remember(self._known, key, affected, VERSIONS_MAX)
        if affected:
            self._versions[row.connection] = affected

    def has(self, connection: str, issue: KnownIssue) -> bool:
        """Return True when a version at an end of a connection has this issue."""
        return issue.affects(self._versions.get(connection, {}))


class Suspects:
    """Connections of the findings of one code, by the known issue that the findings may indicate."""

    def __init__(self, known: KnownIssues) -> None:
        self._issues = known.issues
        self._of_code: dict[str | None, list[tuple[int, KnownIssue]]] = {}
        self._connections: dict[int, dict[str, None]] = {}

    def add(self, row: FindingRow, connections: Sequence[str]) -> None:
        """Add a finding about these connections."""
        if (issues := self._of_code.get(row.code)) is None:
            issues = [(number, issue) for number, issue in enumerate(self._issues) if row.code in issue.codes]
            self._of_code[row.code] = issues
        for number, issue in issues:
            if issue.fits(row):
                names = self._connections.setdefault(number, {})
                for name in connections:
                    if len(names) < KNOWN_ISSUE_CONNECTIONS_MAX:
                        names[name] = None

    def matches(self, affected: AffectedConnections, products: Mapping[str, str]) -> list[IssueMatch]:
        """Return the issues that the version of some connection has, in the order of the table."""
        found = []
        for number, names in sorted(self._connections.items()):
            issue = self._issues[number]
            if connections := [name for name in names if affected.has(name, issue)]:
                found.append(IssueMatch(issue, products.get(issue.product, issue.product), connections))
        return found
