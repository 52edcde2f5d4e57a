"""The timeline of application messages: a line for each produced or delivered message."""

from __future__ import annotations

from typing import Any

from pulsarscope.model.records import FindingRow, MessageRow
from pulsarscope.model.text import plural
from pulsarscope.output.export.columns import json_lines
from pulsarscope.output.export.sink import Sink
from pulsarscope.output.registry import OutputOptions
from pulsarscope.output.render.cell_text import cell_width, escape, fit_summary
from pulsarscope.output.render.view import View

PRODUCE, DELIVER = "produce", "deliver"
FROM_CLIENT = frozenset({PRODUCE, "store"})

PREVIEW_CHARACTERS = 2_000
"""Characters shown of a value or a payload, unless a terminal clips it sooner."""


class MessagesOutput:
    """The output `messages`."""

    def __init__(self, sink: Sink, options: OutputOptions) -> None:
        self._view = View(sink, options)
        self._show_notes = "finding" in options.kinds
        self._produced = 0
        self._delivered = 0

    def write(self, rows: list[Any]) -> None:
        """Write rows (see `Output`)."""
        self._view.prepare(rows)
        lines: list[str] = []
        for row in rows:
            if type(row) is MessageRow:
                self._view.columns("message", lines)
                message_line(self._view, row, lines)
                if row.direction == PRODUCE:
                    self._produced += 1
                elif row.direction == DELIVER and not row.acknowledged:
                    self._delivered += 1
            elif type(row) is FindingRow:
                self._view.finding(row, lines, notes=self._show_notes)
        self._view.emit(lines)

    def close(self) -> None:
        """Write pending rows and the end (see `Output`)."""
        counts = f"{plural(self._produced, 'message')} produced, {self._delivered:,} delivered"
        self._view.emit(self._view.closing([counts]))


def message_line(view: View, row: MessageRow, lines: list[str]) -> None:
    """Append the line of a message, and lines of its value and its payload."""
    look, marks = view.palette, view.symbols
    mark = marks.to_server if row.direction in FROM_CLIENT else marks.to_client
    start = view.start(row, mark, lines)
    summary = view.summary("message_summary", row, lines)
    rest, rest_width = "", 0
    if row.status not in (None, "ok"):
        status = escape(row.status)
        rest, rest_width = f"{look.warning}{status}{look.reset}", cell_width(status)
    room = view.room(view.start_width(mark) + 9 + rest_width + 2 * bool(rest))
    summary = fit_summary(summary, room, marks.ellipsis, named=row.topic is not None)
    if rest:
        rest = " " * (room - cell_width(summary) + 2 if view.width is not None else 2) + rest
    lines.append(f"{start} {row.direction or DELIVER:<7} {summary}{rest}")
    for text in (None if row.value is None else json_lines([row.value])[0], row.payload):
        if text:
            indent = " " * (view.name_width + 1)
            more = "" if len(text) <= PREVIEW_CHARACTERS else f"{marks.ellipsis} ({len(text):,} characters)"
            lines.append(indent + view.clip(escape(text[:PREVIEW_CHARACTERS]) + more, view.room(len(indent))))
