"""Findings that are known and accepted: a diagnosis against a baseline has only the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from pulsarscope.model.records import FindingRow


class Accepted(msgspec.Struct, frozen=True):
    """A kind of findings that is accepted."""

    code: str
    topics: tuple[str, ...] = ()
    """Accept only findings about one of these topics; all findings if empty."""


class _File(msgspec.Struct, frozen=True):
    findings: tuple[Accepted, ...]


class Baseline:
    """The accepted findings of a file, and how often each was found."""

    def __init__(self, content: bytes) -> None:
        """Read the JSON of a diagnosis, or the parts of it that `Accepted` names. Raises ValueError with the reason if it is invalid."""
        try:
            entries = msgspec.json.decode(content, type=_File).findings
        except msgspec.MsgspecError as error:
            raise ValueError(str(error)) from error
        self._by_code: dict[str, list[Accepted]] = {}
        for entry in entries:
            self._by_code.setdefault(entry.code, []).append(entry)
        self._found: set[Accepted] = set()
        self.accepted = 0
        """Number of accepted findings so far."""

    def others(self, rows: Iterable[Any]) -> list[Any]:
        """Return the rows without accepted findings."""
        return [row for row in rows if not (isinstance(row, FindingRow) and self._accepts(row))]

    def _accepts(self, row: FindingRow) -> bool:
        topic = (row.evidence or {}).get("topic")
        for entry in self._by_code.get(row.code, ()):
            if not entry.topics or topic in entry.topics:
                self._found.add(entry)
                self.accepted += 1
                return True
        return False

    def gone(self) -> list[str]:
        """Return the codes of accepted findings that did not occur."""
        return list(dict.fromkeys(entry.code for entries in self._by_code.values() for entry in entries if entry not in self._found))
