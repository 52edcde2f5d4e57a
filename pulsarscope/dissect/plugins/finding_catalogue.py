"""The catalogue of findings: the meaning of each code in each protocol, what to try, the limits that decide it, and an example."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pulsarscope.dissect.contract.dissector import Dissector
from pulsarscope.dissect.contract.generic_codes import GENERIC_CODES
from pulsarscope.dissect.contract.known_issues import KnownIssue
from pulsarscope.dissect.plugins.registry import finding_codes, known_issues_of, rules_of, threshold_table
from pulsarscope.model.findings import LAYERS, LIVE_CODES, SEVERITIES, Code
from pulsarscope.model.thresholds import SECONDS, Threshold


class Wording(NamedTuple):
    """The words of some protocols for a code."""

    protocols: tuple[str, ...]
    """Names of their dissectors; empty for a code of the layers below."""
    meaning: str
    hint: str
    to_act: str | None


class FindingEntry(NamedTuple):
    """A finding code as users read it."""

    code: str
    severity: str
    layer: str
    wordings: tuple[Wording, ...]
    """Wordings, at least one."""
    thresholds: tuple[Threshold, ...]
    example: str
    """A command line that shows such findings in a capture FILE."""
    known_issues: tuple[tuple[str, KnownIssue], ...]
    """Issues that it may indicate, each with its product in words."""

    def record(self) -> dict[str, Any]:
        """Return the entry for programs."""
        wordings = [wording._asdict() for wording in self.wordings]
        limits = [{name: getattr(threshold, name) for name in ("name", "value", "unit", "why")} for threshold in self.thresholds]
        known = [issue.record() for _, issue in self.known_issues]
        return {**self._asdict(), "wordings": wordings, "thresholds": limits, "known_issues": known}


def codes_of(dissector: Dissector) -> dict[str, Code]:
    """Return the codes that a dissector and its rules define."""
    return {**GENERIC_CODES, **dissector.codes, **rules_of(dissector).codes}


def finding_entries(dissectors: Sequence[Dissector]) -> dict[str, FindingEntry]:
    """Return all codes by name, ordered by layer, severity and name."""
    own = {dissector.name: codes_of(dissector) for dissector in dissectors}
    thresholds = threshold_table(dissectors).values()
    tables = [known_issues_of(dissector) for dissector in dissectors]
    known = [(table.products.get(issue.product, issue.product), issue) for table in tables for issue in table.issues]
    entries = [_entry(code, own, thresholds, known) for code in finding_codes(dissectors).values()]
    ordered = sorted(entries, key=lambda entry: (_position(entry.layer, LAYERS), _position(entry.severity, SEVERITIES), entry.code))
    return {entry.code: entry for entry in ordered}


def _position(name: str, names: Sequence[str]) -> int:
    """Return the position of a name. Unknown names, which other packages may define, come last."""
    return names.index(name) if name in names else len(names)


def _entry(
    code: Code, own: Mapping[str, Mapping[str, Code]], thresholds: Iterable[Threshold], known: Iterable[tuple[str, KnownIssue]]
) -> FindingEntry:
    protocols: dict[tuple[str, str, str | None], list[str]] = {}
    for name, codes in own.items():
        if code.code in codes:
            protocols.setdefault(_words(codes[code.code]), []).append(name)
    wordings = tuple(Wording(tuple(names), *words) for words, names in protocols.items()) or (Wording((), *_words(code)),)
    limits = tuple(threshold for threshold in thresholds if code.code in threshold.codes)
    issues = tuple((product, issue) for product, issue in known if code.code in issue.codes)
    return FindingEntry(code.code, code.severity, code.layer, wordings, limits, _example(code.code, limits), issues)


def _words(code: Code) -> tuple[str, str, str | None]:
    return code.meaning, code.hint, code.to_act


def _example(code: str, thresholds: Sequence[Threshold]) -> str:
    if code in LIVE_CODES:
        return f"pulsarscope live -i eth0 --records finding -Y 'code == \"{code}\"'"
    command = f"pulsarscope diagnose FILE -Y 'code == \"{code}\"'"
    if not thresholds:
        return command
    name, value, unit, *_ = thresholds[0]
    return f"{command} --threshold {name}={value / 2 if unit == SECONDS else value + 1:g}"
