"""Lines of connections, exchanges and findings, and chosen columns of any kind as an aligned table."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import msgspec

from pulsarscope.model.records import Checksum, ConnectionRow, ExchangeRow, FindingRow, JourneyRow, MessageRow, columns
from pulsarscope.model.text import duration, plural
from pulsarscope.output.export.iso_times import IsoTimes
from pulsarscope.output.export.sink import Sink
from pulsarscope.output.registry import OutputOptions, choose_columns
from pulsarscope.output.render.cell_text import cell_width, clip_middle, escape, fit_summary
from pulsarscope.output.render.journeys import journey_line
from pulsarscope.output.render.messages import message_line
from pulsarscope.output.render.times import SLOW_NANOSECONDS
from pulsarscope.output.render.view import View

CELL_WIDTH_MAX = 60
"""Widest column of an aligned table; longer values are not padded, and are clipped on a terminal."""

REQUEST_WIDTH = 20
"""Cells of the column of requests."""


class TableOutput:
    """The output `table`."""

    def __init__(self, sink: Sink, options: OutputOptions) -> None:
        self._view = View(sink, options)
        self._chosen = None if options.columns is None else choose_columns(options.columns, options.kinds)
        self._types = {kind: {column.name: column.type for column in columns(kind)} for kind in options.kinds}
        self._widths = {kind: {name: len(name) for name in names} for kind, names in (self._chosen or {}).items()}
        self._times = IsoTimes()
        self._last_kind: str | None = None
        self._counts = dict.fromkeys(options.kinds, 0)

    def write(self, rows: list[Any]) -> None:
        """Write rows (see `Output`)."""
        view = self._view
        view.prepare(rows)
        lines: list[str] = []
        if self._chosen is not None:
            self._grid([row for row in rows if row.kind in self._chosen], lines)
        else:
            for row in rows:
                self._line(row, lines)
        for row in rows:
            if row.kind in self._counts:
                self._counts[row.kind] += 1
        view.emit(lines)

    def close(self) -> None:
        """Write pending rows and the end (see `Output`)."""
        if self._chosen is None:
            self._view.emit(
                self._view.closing([plural(count, kind) for kind, count in self._counts.items() if kind not in ("connection", "finding")])
            )

    def _line(self, row: Any, lines: list[str]) -> None:
        view = self._view
        if type(row) is FindingRow:
            view.finding(row, lines, notes="finding" in self._counts)
        elif row.kind not in self._counts:
            return
        elif type(row) is ExchangeRow:
            if len(self._counts) == 1:
                view.columns(f"{'latency':>9} {'request':<{REQUEST_WIDTH}} response", lines)
            exchange_line(view, row, lines)
        elif type(row) is ConnectionRow:
            connection_line(view, row, lines)
        elif type(row) is MessageRow:
            message_line(view, row, lines)
        elif type(row) is JourneyRow:
            journey_line(view, row, lines)

    def _grid(self, rows: list[Any], lines: list[str]) -> None:
        chosen = self._chosen or {}
        texts = [(row.kind, [self._cell(row, name) for name in chosen[row.kind]]) for row in rows]
        for kind, cells in texts:
            widths = self._widths[kind]
            for name, cell in zip(widths, cells, strict=True):
                widths[name] = max(widths[name], min(cell_width(cell), CELL_WIDTH_MAX))
        look = self._view.palette
        for kind, cells in texts:
            if kind != self._last_kind:
                self._last_kind = kind
                if not self._view.options.quiet:
                    lines.append(f"{look.heading}{self._join(kind, list(chosen[kind]))}{look.reset}")
            lines.append(self._join(kind, cells))

    def _join(self, kind: str, cells: list[str]) -> str:
        parts = []
        for (name, width), cell in zip(self._widths[kind].items(), cells, strict=True):
            text = cell if self._view.width is None else self._view.clip(cell, CELL_WIDTH_MAX)
            padding = " " * (width - cell_width(text))
            parts.append(padding + text if self._types[kind][name] == "int64" else text + padding)
        line = "  ".join(parts).rstrip()
        return line if self._view.width is None else self._view.clip(line, self._view.width)

    def _cell(self, row: Any, name: str) -> str:
        if (value := getattr(row, name)) is None:
            return "-"
        match self._types[row.kind][name]:
            case "time":
                return self._times.text(value) or str(value)
            case "json":
                return escape(msgspec.json.encode(value).decode())
            case "strings":
                return escape(" ".join(value))
            case "bytes":
                return b64encode(value).decode()
            case "bool":
                return "true" if value else "false"
        if isinstance(value, Checksum):
            return escape(" ".join(part for part in (value.status, value.stored, value.computed) if part))
        return escape(str(value))


def exchange_line(view: View, row: ExchangeRow, lines: list[str]) -> None:
    """Append the line of an exchange."""
    look, marks = view.palette, view.symbols
    start = view.start(row, marks.answers, lines)
    request = escape(row.request or "(unrequested)")
    summary = escape(
        "  ".join(
            part
            for part in (
                row.response or "",
                view.short_topic(row.topic) if row.topic is not None else "",
                f"sub {row.subscription}" if row.subscription is not None else "",
                row.error or "",
                row.error_message or "",
                f"key {row.key}" if row.key is not None else "",
            )
            if part
        )
    )
    latency = "" if row.latency_ns is None else duration(row.latency_ns, marks.micro)
    status, rest_width = "", 0
    if row.status not in (None, "ok"):
        text = escape(row.status)
        status, rest_width = f"{look.bad if text == 'error' else look.warning}{text}{look.reset}", cell_width(text) + 2
    if view.width is not None:
        request = clip_middle(request, REQUEST_WIDTH, marks.ellipsis)
    color = view.family_color(row.request or "")
    request = f"{color}{request}{look.reset if color else ''}{' ' * (REQUEST_WIDTH - cell_width(request))}"
    room = view.room(view.start_width(marks.answers) + 12 + REQUEST_WIDTH + rest_width)
    summary = fit_summary(summary, room, marks.ellipsis, named=False)
    if status:
        summary += " " * (room - cell_width(summary) + 2 if view.width is not None else 2)
    slow = row.latency_ns is not None and row.latency_ns >= SLOW_NANOSECONDS
    lines.append(f"{start} {look.warning if slow else ''}{latency:>9}{look.reset if slow else ''} {request} {summary}{status}")


def connection_line(view: View, row: ConnectionRow, lines: list[str]) -> None:
    """Append the lines of a connection: endpoints, protocol, course, and the traffic of each side."""
    look, marks = view.palette, view.symbols
    name = row.connection or "?"
    is_introduced = name in view.introduced
    label = view.introduce(name, [], row.source)
    head = view.heading(name, row.source)
    if is_introduced and "frame" in view.options.kinds:
        head = f"{view.color(name)}{look.bold}connection {label}{look.reset} ended"
    lines.append(head)
    lasted = duration(row.end - row.start, marks.micro)
    closed = row.closed if row.closed_by is None else f"{row.closed} by {row.closed_by}"
    versions = f" {marks.dot} ".join(escape(text) for text in (row.client_version, row.server_version) if text)
    protocol = [
        escape(row.dissector or "protocol not recognised") + (f" v{row.protocol_version}" if row.protocol_version is not None else ""),
        versions,
        escape(row.tls or ""),
        f"auth {escape(row.auth_method)}" if row.auth_method else "",
        f"via proxy from {escape(row.proxy_source)}" if row.proxy_source else "",
        f"process {escape(row.process)}" if row.process else "",
        f"pod {escape(row.pod)}" if row.pod else "",
    ]
    course = [f"opened {row.opened}", f"closed {closed}", f"lasted {lasted}" if lasted else "", plural(row.packets, "packet")]
    course += [f"{row.retransmitted:,} retransmitted" if row.retransmitted else ""]
    course += [f"{row.out_of_order:,} out of order" if row.out_of_order else ""]
    indent = " " * 4
    lines += [view.clip(indent + "  ".join(filter(None, parts)), view.room(0)) for parts in (protocol, course)]
    lines += [_side(view, row, side, indent) for side in ("client", "server")]


def _side(view: View, row: ConnectionRow, side: str, indent: str) -> str:
    look = view.palette
    size, frames, missing, skipped, tail = (
        getattr(row, f"{side}_{column}") or 0 for column in ("bytes", "frames", "missing", "skipped", "tail")
    )
    lost = [f"{count:,} B {label}" for count, label in ((missing, "missing"), (skipped, "skipped"), (tail, "unfinished")) if count]
    color = look.warning if lost else ""
    text = f"{indent}{side}  {plural(frames, 'frame'):>16}  {size:>15,} B"
    return f"{text}  {color}{', '.join(lost)}{look.reset if color else ''}".rstrip()
