"""Writes the table of metrics in docs/live.md, from that of the package.

python docs/make_metrics.py
"""

from __future__ import annotations

from pathlib import Path

from pulsarscope.live.metrics import METRICS, PREFIX

PAGE = Path(__file__).resolve().parent / "live.md"
BEGIN, END = "<!-- metrics -->\n", "<!-- end of metrics -->\n"


def table() -> str:
    """Return the table, between its marks."""
    lines = ["| metric | labels | |", "|---|---|---|"]
    for metric in METRICS:
        name = f"{PREFIX}_{metric.name}{'_total' if metric.kind == 'counter' else ''}"
        lines.append(f"| `{name}` ({metric.kind}) | {', '.join(metric.labels)} | {metric.text} |")
    return BEGIN + "\n".join(lines) + "\n" + END


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    PAGE.write_text(before + table() + rest.partition(END)[2], encoding="utf-8")
