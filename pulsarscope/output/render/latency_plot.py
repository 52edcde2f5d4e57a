"""Latencies as a picture (SVG): the percentiles of each request, on an axis on which 90, 99 and 99.9 % are equally far apart."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape as markup
from math import ceil, floor, log10

from pulsarscope.model.latency import Latencies
from pulsarscope.model.text import duration, escape

REQUESTS = 6
"""Number of curves: those of the most frequent requests."""

COLORS = ("#2563eb", "#0d9668", "#d97706", "#9333ea", "#dc2626", "#0891b2")

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 900, 440, 76, 230, 56, 44
LINE = 17.0
"""Distance of two labels, in pixels."""

STEPS = 20
"""Points of a curve for each nine of its percentiles."""

_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1c2024}.dim{fill:#646b73;font-size:12px}.line{fill:none;stroke-width:1.8}"
    ".grid{stroke:#e3e6e9}.paper{fill:#fff}"
    "@media(prefers-color-scheme:dark){text{fill:#e4e7ea}.dim{fill:#98a1ab}.grid{stroke:#2b3137}.paper{fill:#14171a}}"
)


def latency_plot(title: str, requests: Sequence[tuple[str, Latencies]]) -> bytes:
    """Return the picture of the requests with the most latencies; without any it says so."""
    shown = sorted((each for each in requests if each[1].count), key=lambda each: -each[1].count)[:REQUESTS]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}">',
        f'<style>{_STYLE}</style><rect class="paper" width="{WIDTH}" height="{HEIGHT}"/>',
        f'<text x="{LEFT}" y="24" font-weight="600">Latency by percentile</text>',
        f'<text class="dim" x="{LEFT}" y="42">{_text(title)}</text>',
    ]
    if not shown:
        parts.append(f'<text class="dim" x="{LEFT}" y="{TOP + 40}">no request with an answer</text>')
    else:
        parts += _curves(shown)
    return "".join([*parts, "</svg>\n"]).encode(errors="backslashreplace")


def _curves(shown: Sequence[tuple[str, Latencies]]) -> list[str]:
    curves = [_curve(latencies) for _, latencies in shown]
    values = [value for curve in curves for _, value in curve]
    low, high = floor(log10(min(values))), ceil(log10(max(values) * 1.001))
    nines = max(max(x for x, _ in curve) for curve in curves)

    def across(x: float) -> float:
        return round(LEFT + x / nines * (WIDTH - LEFT - RIGHT), 1)

    def down(value: float) -> float:
        return round(TOP + (high - log10(value)) / (high - low) * (HEIGHT - TOP - BOTTOM), 1)

    parts = []
    for decade in range(low, high + 1):
        y = down(10**decade)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text class="dim" x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{_round(10**decade)}</text>')
    for percent, x in ((0, 0.0), (50, log10(2)), (90, 1.0), (99, 2.0), (99.9, 3.0), (99.99, 4.0), (99.999, 5.0)):
        if x <= nines:
            parts.append(f'<line class="grid" x1="{across(x)}" x2="{across(x)}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
            parts.append(f'<text class="dim" x="{across(x)}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{percent:g} %</text>')
    ends = _apart([down(curve[-1][1]) for curve in curves])
    for (name, latencies), curve, color, end in zip(shown, curves, COLORS, ends, strict=False):
        points = " ".join(f"{across(x)},{down(value)}" for x, value in curve)
        parts.append(f'<polyline class="line" stroke="{color}" points="{points}"/>')
        label = f"{name} ({latencies.count:,})"
        text = _text(label if len(label) <= 26 else f"{label[:25]}…")
        parts.append(f'<text x="{WIDTH - RIGHT + 10}" y="{end + 4}"><tspan style="fill:{color}">● </tspan>{text}</text>')
    return parts


def _curve(latencies: Latencies) -> list[tuple[float, int]]:
    """Return the percentiles as nines (1: 90 %, 2: 99 %) and nanoseconds, up to the last one that the count separates from the maximum."""
    last = max(log10(latencies.count), 0.3)
    places = [step / STEPS for step in range(int(last * STEPS) + 1)] + [last]
    return [(place, max(latencies.percentile(100 - 100 * 10**-place) or 1, 1)) for place in places]


def _apart(places: list[float]) -> list[float]:
    """Return places of labels that do not overlap, in the order of `places`."""
    moved: dict[int, float] = {}
    before = -LINE
    for index in sorted(range(len(places)), key=places.__getitem__):
        moved[index] = before = max(places[index], before + LINE)
    over = max(before - (HEIGHT - BOTTOM), 0)
    return [moved[index] - over for index in range(len(places))]


def _round(nanoseconds: float) -> str:
    """Return a power of ten without unnecessary digits."""
    number, unit = duration(int(nanoseconds)).split(" ")[:2]
    return f"{float(number):g} {unit}" if nanoseconds < 1e11 else duration(int(nanoseconds))


def _text(text: str) -> str:
    return markup(escape(text))
