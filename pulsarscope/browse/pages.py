"""The pages other than frames: findings, messages, connections and tables of protocols."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from time import monotonic
from typing import Any, ClassVar

from rich.text import Text
from textual.app import App
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, OptionList, Static, TabPane
from textual.widgets.option_list import Option

from pulsarscope.browse.browsed_capture import Browsed
from pulsarscope.dissect.plugins.topic_names import join_topic_names
from pulsarscope.filter import Filter
from pulsarscope.model.connection_name import connection_label, with_labels
from pulsarscope.model.frame_name import frame_name
from pulsarscope.model.limits import BROWSED_FINDINGS_MAX
from pulsarscope.model.live_limits import BROWSED_LIVE_MESSAGES_MAX
from pulsarscope.model.records import FindingRow, MessageRow
from pulsarscope.model.text import duration, plural
from pulsarscope.output.export.columns import json_lines
from pulsarscope.output.render.cell_text import clip, escape
from pulsarscope.output.render.diagnosis import verdict

_ARROW = re.compile(r" *((?:\d+:)?\d+\.\d+) ")


class Lanes(OptionList):
    """The lines of a diagram; lines of frames can be selected."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "cursor_down", show=False),
        Binding("k", "cursor_up", show=False),
        Binding("g", "first", show=False),
        Binding("G", "last", show=False),
        Binding("space", "page_down", show=False),
    ]

    def show(self, lines: Sequence[str], selected: str) -> None:
        """Show a diagram, and select the arrow of the frame with this name."""
        names = [frame_of(line) for line in lines]
        self.clear_options()
        self.add_options(Option(Text(line, no_wrap=True), disabled=name is None) for line, name in zip(lines, names, strict=True))
        if selected in names:
            self.highlighted = names.index(selected)

    def frame(self, number: int) -> str | None:
        """Return the name of the frame on a line."""
        return frame_of(str(self.get_option_at_index(number).prompt))


def frame_of(line: str) -> str | None:
    """Return the name (with its file) of the frame whose arrow is on this line; None for other lines."""
    match = _ARROW.match(line)
    return None if match is None else match[1] if ":" in match[1] else f"0:{match[1]}"


def cell(value: object, form: str = "") -> Text:
    """Return a value as inert text: numbers right-aligned, durations (nanoseconds) with a unit."""
    if isinstance(value, int):
        return Text(duration(value) if form == "duration" else f"{value:,}", justify="right")
    return Text("" if value is None else escape(str(value)))


def place(row: FindingRow) -> str:
    """Return the name of the first frame of a finding; "" if it names none."""
    named = (row.evidence or {}).get("frames")
    if isinstance(named, list) and named:
        return str(named[0])
    return "" if row.packet is None else f"{row.file or 0}:{row.packet}.{row.sub or 1}"


ROWS_TOGETHER = 200
"""Rows added to a page at once: more would delay the response to keys."""

VALUE_CHARACTERS = 200
"""Characters shown of a message and of its value."""

TABLE_SECONDS = 1
"""Time after which a table of current activity is refreshed."""


ShownMessage = tuple[str, tuple[Text, ...]]
"""Name of the frame of a message, and its cells."""


class Pages:
    """The contents of the pages, which are updated when they are shown."""

    def __init__(self, browsed: Browsed, *, several_files: bool) -> None:
        self.browsed = browsed
        self.messages: list[ShownMessage] = []
        """Messages of the page."""
        self.messages_summary = ""
        """Text above the messages."""
        self._several_files = several_files
        self._short_topic = join_topic_names(browsed.run.dissectors.values()).short
        self._shown = dict.fromkeys(("findings", "messages"), 0)
        self._revision = 0  # of the connections that are shown
        self._filled = dict.fromkeys(browsed.tables, 0.0)  # clock time of the last update; infinite when a table is final
        self._chosen: Filter | None = None  # of live messages
        self._why_all = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the pages, in the order of their numbers."""
        return ("findings", "messages", "connections", *self.browsed.tables)

    def panes(self) -> Iterator[TabPane]:
        """Yield the empty pages, including the page of the diagram."""
        for number, name in enumerate(self.names, 2):
            table: DataTable[Text] = DataTable(id=f"{name}-table", cursor_type="row", zebra_stripes=True)
            above = [Static(id=f"{name}-summary", markup=False)] if name in ("findings", "messages") else []
            below = [Static(id="finding", markup=False)] if name == "findings" else []
            yield TabPane(f"{number} {name.capitalize()}", *above, table, *below, id=name)
        yield TabPane(f"{len(self.names) + 2} Follow", Lanes(id="lanes", markup=False), id="follow")

    def mount(self, app: App[None]) -> None:
        """Add the columns of the tables."""
        headings = {
            "findings": ("severity", "code", "frame", "text"),
            "messages": ("frame", "time", "conn", "", "message", "value"),
            "connections": ("conn", "client", "server", "packets", "client bytes", "server bytes", "closed", "client version"),
        }
        for name in self.names:
            own = headings.get(name) or tuple(column.heading for column in self.browsed.tables[name][0].columns)
            for heading in own:
                table_of(app, name).add_column(heading, key=heading)

    # ---- messages

    def clear_messages(self, app: App[None], filter_text: str) -> None:
        """Empty the page of messages, before those of another filter come."""
        self.messages, self._shown["messages"] = [], 0
        table_of(app, "messages").clear()
        if self.browsed.live:
            self._chosen, self._why_all = self.browsed.message_filter(filter_text)

    def add_messages(self, rows: Iterable[MessageRow], shown: list[ShownMessage]) -> bool:
        """Add messages to the page, and return whether there is room for more."""
        for row in rows:
            if len(shown) < BROWSED_FINDINGS_MAX:
                shown.append((frame_name(row.file, row.packet, row.sub), self._message(row)))
        return len(shown) < BROWSED_FINDINGS_MAX

    def take_live(self, app: App[None]) -> None:
        """Take the messages that came since the last call, and drop the oldest."""
        fresh = self.browsed.fresh_messages
        rows: list[Any] = [fresh.popleft() for _ in range(len(fresh))]
        self.add_messages(rows if self._chosen is None else self._chosen.select(rows, self.browsed.endpoints), self.messages)
        if (gone := len(self.messages) - BROWSED_LIVE_MESSAGES_MAX) > BROWSED_LIVE_MESSAGES_MAX:
            del self.messages[:gone]
            table_of(app, "messages").clear()
            self._shown["messages"] = 0
        self.messages_summary = f"{plural(self.browsed.live_messages, 'message')}, the latest below. {self._why_all}"

    def _message(self, row: MessageRow) -> tuple[Text, ...]:
        dissector = self.browsed.run.dissectors.get(row.dissector or "")
        try:
            summary = "" if dissector is None else dissector.message_summary(row)
        except Exception:  # noqa: BLE001 - other people's code
            summary = ""
        value = row.payload if row.value is None else json_lines([row.value])[0]
        seconds = (row.time - (self.browsed.start or row.time)) / 1e9
        texts = (
            self._label(frame_name(row.file, row.packet, row.sub)),
            f"{seconds:.6f}",
            connection_label(row.connection, several_files=self._several_files),
            row.direction,
            clip(summary[: 4 * VALUE_CHARACTERS], VALUE_CHARACTERS),
            clip((value or "")[: 4 * VALUE_CHARACTERS], VALUE_CHARACTERS),
        )
        return tuple(map(cell, texts))

    def _label(self, name: str) -> str:
        """Return the displayed name of a frame, with the number of its file if there are several."""
        return name if self._several_files else name.partition(":")[2]

    # ---- filling

    def fill(self, app: App[None], page: str) -> None:
        """Update a page."""
        browsed = self.browsed
        if page == "findings":
            text = with_labels(verdict(browsed.diagnosis, browsed.run.packets), several_files=self._several_files)
            app.query_one("#findings-summary", Static).update(escape(text if browsed.ended else f"So far: {text}"))
            self._add(
                app,
                page,
                browsed.findings,
                lambda row: tuple(map(cell, (row.severity, row.code, self._label(place(row)), self._finding_text(row)))),
            )
        elif page == "messages":
            app.query_one("#messages-summary", Static).update(escape(self.messages_summary))
            self._add(app, page, self.messages, lambda row: row[1])
        elif page == "connections":
            self._fill_connections(table_of(app, page))
        elif page in browsed.tables and monotonic() - self._filled[page] >= TABLE_SECONDS:
            self._fill_table(table_of(app, page), page)

    def _add(self, app: App[None], page: str, rows: Sequence[Any], cells: Callable[[Any], tuple[Text, ...]]) -> None:
        """Add new rows. In a live capture, a selection of the last row follows them."""
        table, together = table_of(app, page), ROWS_TOGETHER
        if self.browsed.live and not self._shown[page]:
            together = BROWSED_LIVE_MESSAGES_MAX
        follows = self.browsed.live and table.cursor_row >= table.row_count - 1
        for row in rows[self._shown[page] : self._shown[page] + together]:
            table.add_row(*cells(row))
            self._shown[page] += 1
        if follows and table.row_count:
            table.move_cursor(row=table.row_count - 1)

    def _fill_connections(self, table: DataTable[Text]) -> None:
        revision, rows = self.browsed.connections.take_changed(ROWS_TOGETHER)
        if self._revision != revision:
            self._revision = revision
            table.clear()
        for row in rows:
            label = connection_label(row.connection, several_files=self._several_files)
            values = (row.client, row.server, row.packets, row.client_bytes, row.server_bytes, row.closed, row.client_version)
            cells = tuple(map(cell, (label, *values)))
            if row.connection in table.rows:
                for column, value in zip(table.columns, cells, strict=True):
                    table.update_cell(row.connection or "", column, value, update_width=True)
            else:
                table.add_row(*cells, key=row.connection)

    def _fill_table(self, table: DataTable[Text], page: str) -> None:
        """Refresh a table, and keep the place of the selected row."""
        ended, columns, at = self.browsed.ended, self.browsed.tables[page][0].columns, table.cursor_row
        table.clear()
        for record in self.browsed.table(page)[: BROWSED_FINDINGS_MAX if ended else BROWSED_LIVE_MESSAGES_MAX]:
            table.add_row(*(self._table_cell(record.get(column.key), column.form) for column in columns))
        if table.row_count:
            table.move_cursor(row=min(at, table.row_count - 1))
        self._filled[page] = math.inf if ended else monotonic()

    def _table_cell(self, value: object, form: str) -> Text:
        return cell(self._short_topic(value) if form == "topic" and isinstance(value, str) else value, form)

    def tell(self, app: App[None], number: int) -> None:
        """Show the whole text of a finding and its advice below the list."""
        row = self.browsed.findings[number]
        lines = [self._finding_text(row), *([f"Try: {row.hint}"] if row.hint else [])]
        app.query_one("#finding", Static).update("\n".join(map(escape, lines)))

    def _finding_text(self, row: FindingRow) -> str:
        return with_labels(row.text or "", several_files=self._several_files)

    def leads_to(self, page: str, row: DataTable.RowSelected) -> str | None:
        """Return the name of the frame of a row; None if it has none."""
        if page == "findings":
            return place(self.browsed.findings[row.cursor_row])
        return self.messages[row.cursor_row][0] if page == "messages" else None


def table_of(app: App[None], name: str) -> DataTable[Text]:
    """Return the table of a page."""
    return app.query_one(f"#{name}-table", DataTable)
