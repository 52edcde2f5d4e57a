"""The catalogue of findings as text: a list of codes, or everything about one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from pulsarscope.dissect.plugins.finding_catalogue import FindingEntry
from pulsarscope.model.findings import SEVERITIES
from pulsarscope.model.thresholds import VERDICT_THRESHOLDS, Threshold
from pulsarscope.output.render.cell_text import escape
from pulsarscope.output.render.text_report import ReportOptions, TextReport

SEVERITY_WIDTH = max(map(len, SEVERITIES))


def catalogue_text(entries: Sequence[FindingEntry], options: ReportOptions) -> bytes:
    """Return the list of codes by layer, each with its severity and meaning."""
    report = TextReport(options)
    width = max(len(entry.code) for entry in entries)
    for layer, group in groupby(entries, lambda entry: entry.layer):
        report.heading(escape(layer))
        for entry in group:
            head = f"{escape(entry.code):{width}}  {entry.severity:{SEVERITY_WIDTH}}  "
            # Spaces at which the text must not wrap are NULs until it is wrapped.
            report.paragraph(head.replace(" ", "\0") + escape(entry.wordings[0].meaning), 2, hang=len(head))
    _limits(report, "limits of the verdict", VERDICT_THRESHOLDS)
    return report.text().replace(b"\0", b" ")


def entry_text(entry: FindingEntry, options: ReportOptions) -> bytes:
    """Return meaning, advice, limits and example of one code."""
    report = TextReport(options)
    look = report.palette
    head = f"{report.severity(entry.severity, entry.severity)} {look.bold}{escape(entry.code)}{look.reset}"
    report.lines.append(f"{head}{look.dim}  layer {escape(entry.layer)}{look.reset}")
    for wording in entry.wordings:
        protocols = f"{', '.join(wording.protocols)}: " if len(entry.wordings) > 1 else ""
        report.paragraph(escape(protocols + wording.meaning), 2)
        report.paragraph(f"Try: {escape(wording.hint)}", 2, hang=5)
        if wording.to_act:
            report.paragraph(f"Who must act: {escape(wording.to_act)}.", 2)
    if entry.thresholds:
        _limits(report, "limits", entry.thresholds)
    if entry.known_issues:
        report.heading("known issues", "diagnose names one when the version fits as well")
    for product, issue in entry.known_issues:
        report.paragraph(escape(f"{issue.issue} ({product}, fixed in {', '.join(issue.fixed)}): {issue.title}"), 2, hang=2)
    report.heading("example")
    report.lines.append(f"  {escape(entry.example)}")
    return report.text()


def _limits(report: TextReport, title: str, thresholds: Sequence[Threshold]) -> None:
    report.heading(title, "--threshold NAME=VALUE sets one")
    for threshold in thresholds:
        limit = f"{threshold.name}={threshold.value:g} ({threshold.unit})"
        report.paragraph(f"{escape(limit)}: {escape(threshold.why)}", 2, hang=2)
