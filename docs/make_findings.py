"""Writes docs/findings.md: every finding code, and what pulsarscope does with every kind of bad input.

    python docs/make_findings.py

The codes come from the package, the kinds of bad input from bad_inputs.tsv beside this file; tests/docs checks both.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from pulsarscope.dissect.plugins.finding_catalogue import FindingEntry, finding_entries
from pulsarscope.model.thresholds import VERDICT_THRESHOLDS, Threshold
from pulsarscope.protocols import make_dissectors

HERE = Path(__file__).resolve().parent
BAD_INPUTS = HERE / "bad_inputs.tsv"
PAGE = HERE / "findings.md"

INTRODUCTION = """# Findings

A finding says what is odd, where, and with which numbers. Its code is stable: scripts may rely on it. There are three severities:
**error** (data are lost or wrong, or a peer refused), **warning** (will hurt soon), **note** (worth knowing). A healthy run has only
notes. `pulsarscope findings` lists the codes, `pulsarscope findings CODE` explains one. This page comes from the same table
(`docs/make_findings.py`).

A list below a finding names the limits that decide it: `--threshold NAME=VALUE` sets one, as in the examples, and the evidence of the
finding names it with its value.

```
pulsarscope decode FILE --records finding
```
"""

VERDICT = """## Verdict

Limits of what the verdict of `diagnose` calls [not judged](reports.md#diagnose):
"""

CATALOGUE = """
## Bad inputs

What pulsarscope does with inputs that are damaged, hostile or merely unusual. None of them raises, and none loses a byte unsaid. The exit
code is that of `decode` without `--fail-on`: 0 done, 2 usage, 3 no input is a capture, 4 some input is damaged or no capture, 5 the
output is not complete.
"""


class BadInput(NamedTuple):
    """A row of the catalogue."""

    number: int
    section: str
    input: str
    codes: tuple[str, ...]
    """Findings that it may cause."""
    exits: tuple[int, ...]
    """Exit codes that it may cause; none if the product has no such part yet."""
    handling: str


def all_codes() -> dict[str, FindingEntry]:
    """Return every finding code by name."""
    return finding_entries(make_dissectors())


def bad_inputs() -> list[BadInput]:
    """Return the catalogue in the order of its numbers."""
    with BAD_INPUTS.open(encoding="utf-8", newline="") as file:
        return [
            BadInput(
                int(row["row"]),
                row["section"],
                row["input"],
                tuple(row["codes"].split()),
                tuple(map(int, row["exit"].split())),
                row["handling"],
            )
            for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        ]


def page() -> str:
    """Return the page as Markdown."""
    return "\n".join([INTRODUCTION, *_codes(), VERDICT, *_limits(VERDICT_THRESHOLDS), CATALOGUE, *_catalogue()]) + "\n"


def _codes() -> Iterator[str]:
    for layer, entries in groupby(all_codes().values(), lambda entry: entry.layer):
        yield f"## {layer.capitalize() if layer not in {'tcp', 'tls'} else layer.upper()}\n"
        for entry in entries:
            yield f"### {entry.code}\n"
            for protocols, meaning, hint, to_act in entry.wordings:
                whose = f" ({', '.join(protocols)})" if len(entry.wordings) > 1 else ""
                actor = f" *Who must act:* {to_act}." if to_act else ""
                yield f"**{entry.severity}**{whose}: {_cell(meaning)} *Try:* {_cell(hint)}{actor}\n"
            yield from _limits(entry.thresholds)
            yield f"{chr(10) * bool(entry.thresholds)}```\n{entry.example}\n```\n"
            yield from _known_issues(entry)


def _known_issues(entry: FindingEntry) -> Iterator[str]:
    if not entry.known_issues:
        return
    yield "Known issues with this symptom, each with the versions that fix it:\n"
    for product, issue in entry.known_issues:
        yield f"- [{issue.issue}]({issue.source}) ({product}, {', '.join(issue.fixed)}, {issue.date}): {_cell(issue.title)}"
    yield ""


def _limits(thresholds: Iterable[Threshold]) -> Iterator[str]:
    for limit in thresholds:
        yield f"- `{limit.name}` = {limit.value:g} {limit.unit}: {_cell(limit.why)}"


def _catalogue() -> Iterator[str]:
    for section, rows in groupby(bad_inputs(), lambda row: row.section):
        yield f"### {section}\n"
        yield "| # | input | findings | exit | what happens |"
        yield "|---:|---|---|---|---|"
        for row in rows:
            codes = " ".join(f"`{code}`" for code in row.codes) or "–"
            exits = ", ".join(map(str, row.exits)) or "–"
            yield f"| {row.number} | {_cell(row.input)} | {codes} | {exits} | {_cell(row.handling)} |"
        yield ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
