"""The application: a list of frames, details of the selected one, and pages of findings, connections and tables."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import ClassVar

import msgspec
from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import DataTable, Footer, Input, Static, TabbedContent, TabPane
from textual.worker import get_current_worker

from pulsarscope.browse.capture import Browsed
from pulsarscope.browse.cells import cell, place
from pulsarscope.browse.details import copied, hex_lines, lane_lines, tree_lines
from pulsarscope.browse.frame_lines import TIMES, FrameLines
from pulsarscope.browse.frame_list import FrameList
from pulsarscope.browse.help import Help
from pulsarscope.browse.prompt import Names, Prompt
from pulsarscope.model.connection_name import connection_label
from pulsarscope.model.errors import PulsarscopeError, UsageError
from pulsarscope.model.frame_name import FrameName
from pulsarscope.model.limits import BROWSED_FINDINGS_MAX
from pulsarscope.model.records import FrameRow
from pulsarscope.model.units import SECOND
from pulsarscope.output.render.cell_text import escape
from pulsarscope.output.render.diagnosis import verdict
from pulsarscope.output.render.view import count_text

REFRESH_SECONDS = 0.2


class BrowseApp(App[None]):
    """Browse a capture."""

    TITLE = "pulsarscope"
    ENABLE_COMMAND_PALETTE = False
    CSS_PATH = "app.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("question_mark", "help", "Keys"),
        Binding("f", "prompt('filter')", "Filter"),
        Binding("slash", "prompt('search')", "Search"),
        Binding("n", "search_on", "Next", show=False),
        Binding("colon", "prompt('go')", "Go to"),
        Binding("x", "bytes", "Bytes"),
        Binding("l", "lanes", "Follow"),
        Binding("c", "narrow('connection')", "Connection", show=False),
        Binding("t", "narrow('topic')", "Topic", show=False),
        Binding("escape", "leave", "All", show=False),
        Binding("m", "mark", "Mark", show=False),
        Binding("apostrophe", "next_mark", "Next mark", show=False),
        Binding("T", "time", "Times", show=False),
        Binding("y", "copy('filter')", "Copy", show=False),
        Binding("Y", "copy('json')", "Copy JSON", show=False),
        Binding("C", "copy('command')", "Copy command", show=False),
        Binding("w", "prompt('write')", "Write", show=False),
        Binding("D", "theme", "Light or dark", show=False),
        Binding("1", "page('frames')", show=False),
        Binding("2", "page('findings')", show=False),
        Binding("3", "page('connections')", show=False),
        Binding("4", "page('consumers')", show=False),
        Binding("5", "page('follow')", show=False),
    ]

    def __init__(self, browsed: Browsed, names: list[str], refusals: tuple[str, ...], *, color: bool, filter_text: str = "") -> None:
        """Show a capture; `names` complete filters, `refusals` are endings of commands that stand out."""
        super().__init__()
        self.browsed = browsed
        self.lines = FrameLines(browsed.dissector, refusals, color=color)
        self.lines.several_files = len(browsed.run.inputs.paths) > 1
        self.filter_text = filter_text
        self._names = names
        self._prompting = ""
        self._searched = ""
        self._row: FrameRow | None = None
        self._shows_bytes = False
        self._findings_shown = self._connections_shown = 0

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        yield Static(id="title", markup=False)
        yield Prompt(id="prompt", suggester=Names(self._names), placeholder="f filter   / search   : go to frame or seconds   ? keys")
        with TabbedContent(id="pages", initial="frames"):
            with TabPane("1 Frames", id="frames"):
                yield Static(id="heading", markup=False)
                yield FrameList(self.browsed.frames, self.lines, id="list")
                with VerticalScroll(id="details"):
                    yield Static(id="fields", markup=False)
            for number, name in enumerate(("findings", "connections", *self.browsed.tables), 2):
                with TabPane(f"{number} {name.capitalize()}", id=name):
                    if name == "findings":
                        yield Static(id="verdict", markup=False)
                    yield DataTable(id=f"{name}-table", cursor_type="row", zebra_stripes=True)
            with TabPane(f"{len(self.browsed.tables) + 4} Follow", id="follow"), VerticalScroll():
                yield Static(id="lanes", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        """Begin to read."""
        self._table("findings").add_columns("severity", "code", "frame", "text")
        self._table("connections").add_columns(
            "conn", "client", "server", "packets", "client bytes", "server bytes", "closed", "client version"
        )
        for name, (table, _) in self.browsed.tables.items():
            self._table(name).add_columns(*(column.heading for column in table.columns))
        self.list.focus()
        if not self.browsed.ended:
            self._read()
        if self.filter_text:
            self._filter(self.filter_text)
        self.set_interval(REFRESH_SECONDS, self._show_progress)

    @property
    def list(self) -> FrameList:
        """The list of frames."""
        return self.query_one("#list", FrameList)

    @property
    def prompt(self) -> Prompt:
        """The line of input."""
        return self.query_one("#prompt", Prompt)

    def _table(self, name: str) -> DataTable[Text]:
        return self.query_one(f"#{name}-table", DataTable)

    # ---- reading

    @work(thread=True, exclusive=True, group="read")
    def _read(self) -> None:
        worker = get_current_worker()
        try:
            for _ in self.browsed.read(lambda: worker.is_cancelled):
                pass
        except PulsarscopeError as error:
            self.browsed.failure = "; ".join(error.lines)
        except OSError as error:
            self.browsed.failure = f"cannot keep frames in a temporary file: {error.strerror}"

    def _show_progress(self) -> None:
        if len(self.screen_stack) != 1 or not self.query("#list"):
            return  # the keys are shown, or it ends
        browsed = self.browsed
        self.lines.start = browsed.start
        if self.filter_text and self.list.matches is not None:
            self._match_on()
        self.list.grow()
        self.query_one("#heading", Static).update(self.lines.heading(self.size.width))
        shown = f"{self.list.count:,} of " if self.list.matches is not None else ""
        parts = [browsed.title, f"{shown}{count_text(len(browsed.frames), 'frame')}"]
        if browsed.failure:
            parts.append(f"ended early: {browsed.failure}")
        elif not browsed.ended:
            parts.append(f"reading {100 * browsed.bytes_read // browsed.size} %" if browsed.size else "reading")
        if self.lines.time != TIMES[0]:
            parts.append(f"times: {self.lines.time}")
        self.query_one("#title", Static).update(escape("  ·  ".join(parts)))
        self._show_page()

    def _show_page(self) -> None:
        """Bring the page up to date that is shown."""
        page = str(self.query_one("#pages", TabbedContent).active)
        if page == "findings":
            text = verdict(self.browsed.diagnosis, self.browsed.run.packets)
            self.query_one("#verdict", Static).update(escape(text if self.browsed.ended else f"So far: {text}"))
            for row in self.browsed.findings[self._findings_shown : self._findings_shown + 200]:
                self._findings_shown += 1
                self._table(page).add_row(*map(cell, (row.severity, row.code, place(row), row.text)), key=str(self._findings_shown - 1))
        elif page == "connections":
            for each in self.browsed.connections[self._connections_shown : self._connections_shown + 200]:
                self._connections_shown += 1
                cells = (
                    connection_label(each.connection, several_files=self.lines.several_files),
                    each.client,
                    each.server,
                    each.packets,
                    each.client_bytes,
                    each.server_bytes,
                    each.closed,
                    each.client_version or "",
                )
                self._table(page).add_row(*(Text(escape(str(cell))) for cell in cells), key=each.connection)
        elif page in self.browsed.tables and not self._table(page).row_count and self.browsed.ended:
            table, _ = self.browsed.tables[page]
            for record in self.browsed.table(page)[:BROWSED_FINDINGS_MAX]:
                self._table(page).add_row(*(cell(record.get(column.key), column.form) for column in table.columns))

    # ---- the selected frame

    def on_frame_list_selected(self, message: FrameList.Selected) -> None:
        """Show the fields of a frame."""
        self._row = message.row
        self._shows_bytes = False
        self._show_fields()

    def _show_fields(self) -> None:
        if self._row is not None:
            try:
                text = "\n".join(tree_lines(self.browsed, self._row))
            except Exception as error:  # noqa: BLE001 - a frame that cannot be shown leaves the others
                text = f"cannot show this frame: {error}"
            self.query_one("#fields", Static).update(text)

    def action_bytes(self) -> None:
        """Show the bytes of the frame, or its fields again."""
        self._shows_bytes = not self._shows_bytes
        if self._shows_bytes and self._row is not None:
            self.query_one("#fields", Static).update("reading the bytes of the frame …")
            self._read_bytes(self._row)
        else:
            self._show_fields()

    @work(thread=True, exclusive=True, group="bytes")
    def _read_bytes(self, row: FrameRow) -> None:
        worker = get_current_worker()
        raw = self.browsed.raw(row, lambda: worker.is_cancelled)
        if not worker.is_cancelled and row is self._row and self._shows_bytes:
            width = self.query_one("#details").size.width
            lines = ["the bytes of this frame are not kept"] if raw is None else hex_lines(self.browsed, raw, width)
            self.call_from_thread(self.query_one("#fields", Static).update, "\n".join(lines))

    def action_lanes(self) -> None:
        """Show the conversation of the connection of the frame."""
        if self._row is None or self._row.connection is None:
            return
        self.action_page("follow")
        lines = lane_lines(self.browsed, self._row.connection, self.size.width - 2)
        self.query_one("#lanes", Static).update("\n".join(lines))

    # ---- prompts

    def action_prompt(self, what: str) -> None:
        """Ask for a line."""
        self._prompting = what
        self.action_page("frames")
        self.prompt.value = self.filter_text if what == "filter" else ""
        self.prompt.border_title = {"filter": "filter", "search": "search", "go": "go to", "write": "write to"}[what]
        self.prompt.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show whether a filter is valid."""
        wrong = ""
        if self._prompting == "filter" and event.value:
            try:
                self.browsed.make_filter(event.value)
            except UsageError as error:
                wrong = str(error).splitlines()[0]
        self.prompt.set_class(bool(wrong), "invalid")
        self.prompt.border_subtitle = escape(wrong)[: max(self.size.width - 10, 0)].replace("[", r"\[") if wrong else ""

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Do what was asked for."""
        value = event.value.strip()
        if self._prompting == "filter" and self.prompt.has_class("invalid"):
            return
        self.prompt.keep()
        done: Callable[[str], object] = {"filter": self._filter, "search": self._search, "go": self._go, "write": self._write}[
            self._prompting or "filter"
        ]
        self._leave_prompt()
        done(value)

    def _leave_prompt(self) -> None:
        if self._prompting != "filter":
            self.prompt.value = self.filter_text
        self._prompting = ""
        self.prompt.border_title = self.prompt.border_subtitle = ""
        self.prompt.remove_class("invalid")
        self.list.focus()

    def action_leave(self) -> None:
        """Leave the prompt, or the page, or the filter."""
        if self.prompt.has_focus:
            self.prompt.value = self.filter_text
            self._leave_prompt()
        elif self.query_one("#pages", TabbedContent).active != "frames":
            self.action_page("frames")
        else:
            self.prompt.value = ""
            self._filter("")

    # ---- filter, search, go to

    def _filter(self, text: str) -> None:
        self.filter_text = text
        self.prompt.value = text
        if not text:
            self.list.show(None)
            return
        self._filter_used = self.browsed.make_filter(text)
        self._matched = 0
        self.list.show(array("q"))
        self._match_on()

    @work(thread=True, exclusive=True, group="match")
    def _match_on(self) -> None:
        """Look for matches in the frames that were read since."""
        worker, matches, frames, chosen = get_current_worker(), self.list.matches, self.browsed.frames, self._filter_used
        while matches is not None and not worker.is_cancelled and self._matched < len(frames):
            number = self._matched // max(frames.start(1), 1)
            rows = frames.chunk(number)[:]
            fresh = rows[self._matched - frames.start(number) :]
            passed = set(map(id, chosen.select(fresh, self.browsed.endpoints)))
            matches.extend(self._matched + at for at, row in enumerate(fresh) if id(row) in passed)
            self._matched += len(fresh)

    def action_narrow(self, column: str) -> None:
        """Show only frames of the connection, or the topic, of this one."""
        value = getattr(self._row, column, None)
        if value is None:
            self.notify(f"this frame has no {column}")
        else:
            self._filter(f"{column} == {msgspec.json.encode(value).decode()}")

    def _search(self, text: str) -> None:
        self._searched = text.lower()
        self.action_search_on()

    @work(thread=True, exclusive=True, group="search")
    def action_search_on(self) -> None:
        """Select the next frame that has the text in its line or its fields."""
        worker, wanted = get_current_worker(), self._searched
        if not wanted:
            return
        line = self.list.at + 1
        for at in range(line, self.list.count):
            if worker.is_cancelled:
                return
            row = self.browsed.frames[self.list.position(at)]
            if wanted in self.lines.summary(row).lower() or wanted in msgspec.json.encode(row).decode("utf-8", "replace").lower():
                self.call_from_thread(self.list.select, at)
                return
        self.call_from_thread(self.notify, "not found below this frame", markup=False)

    def _go(self, text: str) -> None:
        """Select a frame by its name (12.1, 0:12.1, 12) or its time (3.5s)."""
        if text.endswith("s"):
            self._go_to_time(text[:-1])
            return
        full = text if ":" in text else f"0:{text}"
        name = FrameName.parse(full if "." in full else f"{full}.1")
        position = None if name is None else self.browsed.find(name.file, name.packet, name.sub)
        if position is None:
            self.notify(f"no frame {text}: write a name as in the first column, or a time as in 3.5s", markup=False)
        else:
            self.list.go_to_position(position)

    def _go_to_time(self, text: str) -> None:
        try:
            wanted = (self.browsed.start or 0) + int(float(text) * SECOND)
        except (ValueError, OverflowError):
            self.notify(f"{text} is no number of seconds", markup=False)
            return
        self.list.go_to_time(wanted)

    def _write(self, path: str) -> None:
        if path:
            self._write_packets(path, self.filter_text or None)

    @work(thread=True, exclusive=True, group="write")
    def _write_packets(self, path: str, filter_text: str | None) -> None:
        try:
            said = self.browsed.extract(filter_text, path)
        except PulsarscopeError as error:
            said = "; ".join(error.lines)
        self.call_from_thread(self.notify, said, markup=False)

    # ---- the rest

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Go from a finding to its frame, from a connection to its frames."""
        page, key = str(event.data_table.id).removesuffix("-table"), str(event.row_key.value)
        if page == "findings":
            finding = self.browsed.findings[int(key)]
            name = FrameName.parse(place(finding))
            position = None if name is None else self.browsed.find(name.file, name.packet, name.sub)
            if position is None:
                self.notify("this finding names no frame", markup=False)
                return
            self._filter("")
            self.action_page("frames")
            self.list.go_to_position(position)
        elif page == "connections":
            self.action_page("frames")
            self._filter(f"connection == {msgspec.json.encode(key).decode()}")

    def action_page(self, name: str) -> None:
        """Show a page."""
        pages = self.query_one("#pages", TabbedContent)
        pages.active = name
        if name == "frames":
            self.list.focus()
        else:  # what has the focus must not be on a hidden page
            (pages.get_pane(name).query_one(VerticalScroll) if name == "follow" else self._table(name)).focus()
        self._show_page()

    def action_mark(self) -> None:
        """Mark the frame."""
        self.list.mark()

    def action_next_mark(self) -> None:
        """Select the next marked frame."""
        here = self.list.position(self.list.at) if self.list.count else 0
        later = sorted(self.list.marks, key=lambda position: (position <= here, position))
        if later:
            self.list.go_to_position(later[0])

    def action_time(self) -> None:
        """Show times in the next form."""
        self.lines.time = TIMES[(TIMES.index(self.lines.time) + 1) % len(TIMES)]
        self.list.refresh()

    def action_theme(self) -> None:
        """Change between light and dark."""
        self.theme = "textual-light" if self.theme == "textual-dark" else "textual-dark"

    def action_copy(self, form: str) -> None:
        """Copy the frame as a filter, as JSON or as a command line."""
        if self._row is None:
            return
        text = copied(self.browsed, self._row, form)
        self.copy_to_clipboard(text)
        self.notify(text[:200], title="copied", markup=False)

    def action_help(self) -> None:
        """Show the keys."""
        self.push_screen(Help())
