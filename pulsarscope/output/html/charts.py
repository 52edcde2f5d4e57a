"""The data of a page's charts: columns of numbers, times in seconds since the start, latencies in milliseconds."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from pulsarscope.analysis.activity import Activity, ActivityMark
from pulsarscope.analysis.overview import Overview
from pulsarscope.analysis.tally import ReportRecord
from pulsarscope.dissect.contract.capabilities import Course
from pulsarscope.model.bins import Bins
from pulsarscope.model.connection_name import connection_label
from pulsarscope.model.flow import CLIENT
from pulsarscope.model.latency import Latencies
from pulsarscope.model.units import SECOND

MESSAGES_PER_INTERVAL, INTERVALS_MIN, INTERVALS_MAX = 5, 40, 200
"""Fewer messages get fewer intervals of rates, down to a minimum; otherwise each single message would be a spike."""

PARTS = ("p50", "p99", "max")

KINDS = ("sent", "delivered", "client", "server", "broken")
"""Kinds of marks: messages sent and delivered, other frames of clients and of servers, and frames that are not well formed."""


def charts(
    overview: Overview, zero: int, connections: Iterable[ReportRecord], troubled: Mapping[str, str], *, several_files: bool
) -> dict[str, Any]:
    """Return the data. `troubled`: worst severity by connection; these connections get the first lanes."""
    end = overview.statistics.end
    return {
        "end": _seconds(end if end is not None else zero, zero),
        "throughput": _throughput(overview, zero),
        "latency": _latencies(overview.activity.latencies, overview.statistics.carriers, zero),
        "timeline": _timeline(overview.activity, zero, connections, troubled, several_files=several_files),
        "courses": [_course(course, zero) for course in overview.courses()],
    }


def _seconds(time: int, zero: int) -> float:
    return round((time - zero) / SECOND, 6)


def _throughput(overview: Overview, zero: int) -> dict[str, Any]:
    """Return counts by interval. Idle intervals beside busy ones are included, so that a curve falls to zero between bursts."""
    series = overview.statistics.series
    if series is None:
        return {}
    series.widen(min(max(sum(overview.statistics.total.messages) // MESSAGES_PER_INTERVAL, INTERVALS_MIN), INTERVALS_MAX))
    names = ("client_messages", "server_messages", "client_bytes", "server_bytes", "errors", "unanswered")
    found = {record["start"]: [record[name] for name in names] for record in series.records()}
    width = series.interval
    starts = sorted({near for start in found for near in (start - width, start, start + width) if near >= min(found)})
    nothing = [0] * len(names)
    columns = zip(*(found.get(start, nothing) for start in starts), strict=True) if starts else [[] for _ in names]
    return {
        "width": width / SECOND,
        "t": [_seconds(start, zero) for start in starts],
        **{name: list(column) for name, column in zip(names, columns, strict=True)},
    }


def _latencies(bins: Bins[str, Latencies], carriers: Collection[str], zero: int) -> list[dict[str, Any]]:
    """Return percentiles over time by request: requests that carry messages first, then the most frequent."""
    bins.widen(INTERVALS_MAX)
    courses: dict[str, dict[str, list[Any]]] = {}
    counts: dict[str, Latencies] = {}
    for start, request, latencies in bins.cells():
        course = courses.setdefault(request, {"t": [], **{part: [] for part in PARTS}})
        course["t"].append(_seconds(max(start, zero), zero))
        for part, value in zip(PARTS, (latencies.percentile(50), latencies.percentile(99), latencies.largest), strict=True):
            course[part].append(None if value is None else round(value / 1e6, 4))
        counts.setdefault(request, Latencies()).merge(latencies)
    return [
        {
            "request": request,
            "count": counts[request].count,
            "width": bins.width / SECOND,
            **course,
            "octaves": [[octave.from_ns / 1e6, octave.to_ns / 1e6, octave.count] for octave in counts[request].octaves()],
        }
        for request, course in sorted(courses.items(), key=lambda item: (item[0] not in carriers, -counts[item[0]].count))
    ]


def _timeline(
    activity: Activity, zero: int, connections: Iterable[ReportRecord], troubled: Mapping[str, str], *, several_files: bool
) -> dict[str, Any]:
    """Return the marks by lane, and the lanes: connections with findings first, then in order of time."""
    ends = {record["connection"]: record for record in connections}
    order = {name: place for place, name in enumerate(sorted(activity.connections, key=lambda name: name not in troubled))}
    commands: dict[tuple[str, str, bool], int] = {}
    columns: dict[str, list[Any]] = {name: [] for name in ("t", "lane", "command", "kind", "frames", "messages", "ms", "frame")}
    for _, (connection, command), mark in activity.marks.cells():
        values = (
            _seconds(mark.time, zero),
            order[connection],
            commands.setdefault(command, len(commands)),
            KINDS.index(_kind(command, mark)),
            mark.frames,
            mark.messages,
            None if mark.slowest is None else round(mark.slowest / 1e6, 3),
            mark.first,
        )
        for column, value in zip(columns.values(), values, strict=True):
            column.append(value)
    lanes = [_lane(connection_label(name, several_files=several_files), ends.get(name), troubled.get(name)) for name in order]
    return {**columns, "width": activity.marks.width / SECOND, "commands": [name for name, _, _ in commands], "lanes": lanes}


def _lane(name: str, record: ReportRecord | None, severity: str | None) -> dict[str, Any]:
    ends = ("", "") if record is None else (record["client"] or "", record["server"] or "")
    return {"name": name, "client": ends[0], "server": ends[1], "severity": severity}


def _kind(command: tuple[str, str, bool], mark: ActivityMark) -> str:
    _, direction, whole = command
    if not whole:
        return "broken"
    sender = direction == CLIENT
    if mark.messages:
        return "sent" if sender else "delivered"
    return "client" if sender else "server"


def _course(course: Course, zero: int) -> dict[str, Any]:
    about = course.record
    return {
        **{name: about.get(name) for name in ("consumer", "subscription", "topic", "type", "state", "connection")},
        "t": [_seconds(time, zero) for time, _ in course.points],
        "lines": {line: [values[place] for _, values in course.points] for place, line in enumerate(course.lines)},
    }
