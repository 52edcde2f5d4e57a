"""The pages beside the frames: findings, messages, connections and tables of the protocols."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rich.text import Text
from textual.app import App
from textual.containers import VerticalScroll
from textual.widgets import DataTable, Static, TabPane

from pulsarscope.browse.capture import Browsed
from pulsarscope.browse.cells import cell, place
from pulsarscope.model.connection_name import connection_label
from pulsarscope.model.frame_name import frame_name
from pulsarscope.model.limits import BROWSED_FINDINGS_MAX
from pulsarscope.model.records import MessageRow
from pulsarscope.output.export.columns import json_lines
from pulsarscope.output.render.cell_text import clip, escape
from pulsarscope.output.render.diagnosis import verdict

ROWS_TOGETHER = 200
"""Rows that are added to a page at once: more would be felt while keys are pressed."""

VALUE_CHARACTERS = 200
"""Characters shown of the value of a message."""


class Pages:
    """The contents of the pages, which come up to date when they are shown."""

    def __init__(self, browsed: Browsed, *, several_files: bool) -> None:
        self.browsed = browsed
        self.messages: list[MessageRow] = []
        """Messages of the page, as far as they are read."""
        self.messages_said = ""
        """What stands above them."""
        self._several_files = several_files
        self._shown = dict.fromkeys(("findings", "messages", "connections"), 0)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the pages, in the order of their numbers."""
        return ("findings", "messages", "connections", *self.browsed.tables)

    def panes(self) -> Iterator[TabPane]:
        """Give the pages, empty, and that of the diagram."""
        for number, name in enumerate(self.names, 2):
            table: DataTable[Text] = DataTable(id=f"{name}-table", cursor_type="row", zebra_stripes=True)
            above = [Static(id=f"{name}-said", markup=False)] if name in ("findings", "messages") else []
            yield TabPane(f"{number} {name.capitalize()}", *above, table, id=name)
        yield TabPane(f"{len(self.names) + 2} Follow", VerticalScroll(Static(id="lanes", markup=False)), id="follow")

    def mount(self, app: App[None]) -> None:
        """Give the tables their columns."""
        headings = {
            "findings": ("severity", "code", "frame", "text"),
            "messages": ("frame", "time", "conn", "", "message", "value"),
            "connections": ("conn", "client", "server", "packets", "client bytes", "server bytes", "closed", "client version"),
        }
        for name in self.names:
            own = headings.get(name) or tuple(column.heading for column in self.browsed.tables[name][0].columns)
            table_of(app, name).add_columns(*own)

    def clear_messages(self, app: App[None]) -> None:
        """Empty the page of messages: others come."""
        self.messages, self._shown["messages"] = [], 0
        table_of(app, "messages").clear()

    def fill(self, app: App[None], page: str) -> None:
        """Bring a page up to date."""
        browsed = self.browsed
        if page == "findings":
            text = verdict(browsed.diagnosis, browsed.run.packets)
            app.query_one("#findings-said", Static).update(escape(text if browsed.ended else f"So far: {text}"))
            self._add(app, page, browsed.findings, lambda row: tuple(map(cell, (row.severity, row.code, place(row), row.text))))
        elif page == "messages":
            app.query_one("#messages-said", Static).update(escape(self.messages_said))
            self._add(app, page, self.messages, self._message)
        elif page == "connections":
            self._add(app, page, browsed.connections, self._connection)
        elif page in browsed.tables and browsed.ended and not table_of(app, page).row_count:
            columns = browsed.tables[page][0].columns
            for record in browsed.table(page)[:BROWSED_FINDINGS_MAX]:
                table_of(app, page).add_row(*(cell(record.get(column.key), column.form) for column in columns))

    def _add(self, app: App[None], page: str, rows: Sequence[Any], cells: Callable[[Any], tuple[Text, ...]]) -> None:
        for row in rows[self._shown[page] : self._shown[page] + ROWS_TOGETHER]:
            table_of(app, page).add_row(*cells(row), key=str(self._shown[page]))
            self._shown[page] += 1

    def _message(self, row: MessageRow) -> tuple[Text, ...]:
        dissector = self.browsed.run.dissectors.get(row.dissector or "")
        try:
            summary = "" if dissector is None else dissector.message_summary(row)
        except Exception:  # noqa: BLE001 - other people's code
            summary = ""
        value = row.payload if row.value is None else json_lines([row.value])[0]
        seconds = (row.time - (self.browsed.start or row.time)) / 1e9
        name = frame_name(row.file, row.packet, row.sub)
        texts = (
            name if self._several_files else name.partition(":")[2],
            f"{seconds:.6f}",
            connection_label(row.connection, several_files=self._several_files),
            row.direction,
            summary,
            clip((value or "")[: 4 * VALUE_CHARACTERS], VALUE_CHARACTERS),
        )
        return tuple(map(cell, texts))

    def _connection(self, row: object) -> tuple[Text, ...]:
        label = connection_label(getattr(row, "connection", None), several_files=self._several_files)
        names = ("client", "server", "packets", "client_bytes", "server_bytes", "closed", "client_version")
        return tuple(map(cell, (label, *(getattr(row, name) for name in names))))


def table_of(app: App[None], name: str) -> DataTable[Text]:
    """Return the table of a page."""
    return app.query_one(f"#{name}-table", DataTable)
