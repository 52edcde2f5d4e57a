"""The application: a list of frames, details of the selected one, and pages of findings, connections and tables."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import ClassVar

import msgspec
from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.css.query import NoMatches
from textual.timer import Timer
from textual.widgets import DataTable, Footer, Input, OptionList, Static, TabbedContent, TabPane
from textual.worker import get_current_worker

from pulsarscope.browse.browsed_capture import Browsed, PassingFrames
from pulsarscope.browse.choices import COLUMNS_MAX, load, save
from pulsarscope.browse.detail_pane import DetailPane
from pulsarscope.browse.details import copied, lane_lines
from pulsarscope.browse.frame_lines import TIMES, FrameLines
from pulsarscope.browse.frame_list import FrameList
from pulsarscope.browse.help import KEYS, Help
from pulsarscope.browse.pages import Lanes, Pages, ShownMessage, table_of
from pulsarscope.browse.prompt import Names, Prompt
from pulsarscope.browse.searching import SearchingApp
from pulsarscope.model.errors import PulsarscopeError, UsageError
from pulsarscope.model.frame_name import FrameName, frame_name
from pulsarscope.model.limits import BROWSED_FINDINGS_MAX
from pulsarscope.model.records import FrameRow
from pulsarscope.model.text import plural
from pulsarscope.model.units import SECOND
from pulsarscope.output.render.cell_text import escape

REFRESH_SECONDS = 0.2

RESIZE_SECONDS = 0.1
"""Time after which the size of the screen counts as final: it changes often while a window is dragged."""

PAINT_SECONDS = 1.0
"""Longest time that reading waits until the first rows are on the screen, which may be closing."""


class BrowseApp(SearchingApp):
    """Browse a capture."""

    TITLE = "pulsarscope"
    ENABLE_COMMAND_PALETTE = False
    CSS = Path(__file__).with_name("app.tcss").read_text()  # read now: a live capture may have no right to read it later
    BINDINGS: ClassVar[list[BindingType]] = KEYS

    def __init__(
        self,
        browsed: Browsed,
        names: Callable[[], list[str]],
        refusals: tuple[str, ...],
        *,
        color: bool,
        filter_text: str = "",
        choices: Path | None = None,
    ) -> None:
        """Show a capture; `names` gives completions, `refusals` are endings of highlighted commands, `choices` keeps the user's choices."""
        super().__init__(browsed, FrameLines(browsed.dissector, refusals, color=color))
        self._choices = choices
        self.lines.several_files = len(browsed.run.inputs.paths) > 1
        self.filter_text = filter_text
        self._names = names
        self._prompting = ""
        self._matches: PassingFrames | None = None
        """The frames that the filter passes; None without a filter."""
        self._row: FrameRow | None = None
        self.pages = Pages(browsed, several_files=self.lines.several_files)
        self._messages_of: str | None = None
        """The filter of the messages on the page; None before there are any."""
        self._resizing: Timer | None = None
        """Timer that redraws the parts that depend on the size of the screen."""
        with suppress(UsageError):
            self.lines.columns = browsed.make_columns(load(choices).columns)

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        yield Static(id="title", markup=False)
        yield Prompt(Names(self._names), id="prompt")
        with TabbedContent(id="pages", initial="frames"):
            with TabPane("1 Frames", id="frames"):
                yield Static(id="heading", markup=False)
                yield FrameList(self.browsed.frames, self.lines, id="list")
                yield DetailPane(self.browsed, id="details")
            yield from self.pages.panes()
        yield Footer()

    def on_mount(self) -> None:
        """Start to read."""
        self.pages.mount(self)
        self.list.tails = self.browsed.live
        self.list.focus()
        if not self.browsed.ended:
            self._read()
        if self.filter_text:
            self._filter(self.filter_text)
        self.set_interval(REFRESH_SECONDS, self._show_progress)
        self.call_after_refresh(self._show_progress)  # the contents of an index are complete at once

    @property
    def prompt(self) -> Prompt:
        """The line of input."""
        return self.query_one("#prompt", Prompt)

    @property
    def details(self) -> DetailPane:
        """The pane with the details of the selected frame."""
        return self.query_one(DetailPane)

    async def action_quit(self) -> None:
        """Leave, and end the reading."""
        self.browsed.stop()
        self.exit()

    # ---- reading

    @work(thread=True, exclusive=True, group="read")
    def _read(self) -> None:
        worker = get_current_worker()
        try:
            shown = False
            for _ in self.browsed.read(lambda: worker.is_cancelled):
                if not shown and len(self.browsed.frames) and not worker.is_cancelled:
                    shown = True
                    self._show_first_rows()
        except PulsarscopeError as error:
            self.browsed.fail("; ".join(error.lines))
        except OSError as error:
            self.browsed.fail(f"cannot keep frames in a temporary file: {error.strerror}")

    def _show_first_rows(self) -> None:
        """Show the frames read so far. The calling thread waits until they are on the screen, because reading would delay them."""
        painted = Event()
        self.call_from_thread(self._show_progress)
        self.call_from_thread(self.call_after_refresh, painted.set)
        painted.wait(PAINT_SECONDS)

    def _show_progress(self) -> None:
        with suppress(NoMatches):  # the keys are shown, or it ends
            self._bring_up_to_date()

    def _bring_up_to_date(self) -> None:
        browsed = self.browsed
        self.lines.start = browsed.start
        if self._matches is not None:
            self._match_on(self._matches)
        self.list.grow()
        self.query_one("#heading", Static).update(self.lines.heading(self.size.width))
        shown = f"{self.list.count:,} of " if self.list.matches is not None else ""
        parts = [browsed.title, f"{shown}{plural(len(browsed.frames), 'frame')}"]
        if browsed.failure:
            parts.append(f"ended early: {browsed.failure}")
        elif not browsed.ended:
            how = "live" if browsed.live else "reading"
            parts.append(f"{how} {100 * browsed.bytes_read // browsed.size} %" if browsed.size else how)
        elif not browsed.frames:
            parts.append("nothing of a known protocol" + (": see Findings (key 2)" if browsed.findings else ""))
        if self.list.paused:
            parts.append(f"paused, {len(browsed.frames) - self.list.shown_of_store:,} more")
        if self.payloads is not None:
            parts.append(self.payloads.summary)
        if self.lines.time != TIMES[0]:
            parts.append(f"times: {self.lines.time}")
        self.query_one("#title", Static).update(escape("  ·  ".join(parts)))
        self._show_page()

    def _show_page(self) -> None:
        """Update the current page."""
        page = str(self.query_one("#pages", TabbedContent).active)
        if self._messages_of != self.filter_text and (page == "messages" or self.browsed.live):
            self._messages_of = self.filter_text
            self.pages.clear_messages(self, self.filter_text)
            if not self.browsed.live:
                self._read_messages(self.filter_text, self.pages.messages)
        if self.browsed.live:
            self.pages.take_live(self)
        if not (self.browsed.live and self.list.paused):
            self.pages.fill(self, page)

    @work(thread=True, exclusive=True, group="messages")
    def _read_messages(self, filter_text: str, shown: list[ShownMessage]) -> None:
        """Decode the messages into the list of this filter; a filter that applies to messages selects among them."""
        worker, pages = get_current_worker(), self.pages
        try:
            for rows, summary in self.browsed.messages(filter_text):
                if worker.is_cancelled:
                    return
                pages.messages_summary = summary
                if not pages.add_messages(rows, shown):
                    pages.messages_summary = f"the first {BROWSED_FINDINGS_MAX:,} messages; a filter shows others"
                    return
        except PulsarscopeError as error:
            pages.messages_summary = "; ".join(error.lines)

    # ---- the selected frame

    def on_frame_list_selected(self, message: FrameList.Selected) -> None:
        """Show the details of a frame."""
        self._row = message.row
        for pane in self.query(DetailPane):  # there is none if the screen closes meanwhile
            pane.show(message.row)

    def action_bytes(self) -> None:
        """Show the bytes of the frame, or its fields again."""
        self.details.toggle()
        if not self.details.shows_bytes:
            self.list.focus()

    def action_lanes(self) -> None:
        """Show the conversation of the connection of the frame."""
        if self.query_one("#pages", TabbedContent).active == "follow":
            self._draw_lanes()
        else:
            self.action_page("follow")  # draws the lanes

    def on_tabbed_content_tab_activated(self, event: TabbedContent.TabActivated) -> None:
        """Draw the diagram when its page is opened by a key or the pointer."""
        if event.pane.id == "follow":
            self._draw_lanes()

    def on_resize(self) -> None:
        """Redraw the diagram for the current width of the screen."""
        if self._resizing is not None:
            self._resizing.stop()
        self._resizing = self.set_timer(RESIZE_SECONDS, self._redraw_lanes)

    def _redraw_lanes(self) -> None:
        with suppress(NoMatches):  # the keys are shown, or it ends
            if self.query_one("#pages", TabbedContent).active == "follow":
                lanes = self.query_one(Lanes)
                self._draw_lanes(None if lanes.highlighted is None else lanes.frame(lanes.highlighted))

    def _draw_lanes(self, selected: str | None = None) -> None:
        if self._row is None or self._row.connection is None:
            self.notify("no frame is selected whose connection could be shown")
            return
        lines = lane_lines(self.browsed, self._row.connection, self.size.width - 2)
        self.query_one(Lanes).show(lines, selected or frame_name(self._row.file, self._row.packet, self._row.sub))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Select the frame of an arrow of the diagram."""
        if isinstance(event.option_list, Lanes) and (name := event.option_list.frame(event.option_index)) is not None:
            self._go_to_frame(name)

    # ---- prompts

    def action_prompt(self, what: str) -> None:
        """Ask for a line."""
        self._prompting = what
        self.action_page("frames")
        chosen = () if self.lines.columns is None else self.lines.columns.names
        self.prompt.ask(what, {"filter": self.filter_text, "columns": ", ".join(chosen)}.get(what, ""))

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show whether a filter is valid."""
        wrong = ""
        if self._prompting == "filter" and event.value:
            try:
                self.browsed.make_filter(event.value)
            except UsageError as error:
                wrong = str(error).splitlines()[0]
        event.input.set_class(bool(wrong), "invalid")  # the screen may have no prompt any more
        event.input.border_subtitle = escape(wrong)[: max(self.size.width - 10, 0)].replace("[", r"\[") if wrong else ""

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Carry out the submitted line."""
        value = event.value.strip()
        if self._prompting == "filter" and self.prompt.has_class("invalid"):
            return
        self.prompt.keep()
        asked: dict[str, Callable[[str], object]] = {
            "filter": self._filter,
            "search": self.search_lines,
            "payloads": self.search_payloads,
            "go": self._go,
            "write": self._write,
            "columns": self._choose_columns,
        }
        done = asked[self._prompting or "filter"]
        self._leave_prompt()
        done(value)

    def _leave_prompt(self) -> None:
        if self._prompting != "filter":
            self.prompt.value = self.filter_text
        self._prompting = ""
        self.prompt.rest()
        self.list.focus()

    def action_leave(self) -> None:
        """Leave the prompt, the page, or the filter."""
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
        self._matches = PassingFrames(self.browsed.make_filter(text)) if text else None
        self.list.show(None if self._matches is None else self._matches.positions)
        if self._matches is not None:
            self._match_on(self._matches)

    @work(thread=True, exclusive=True, group="match")
    def _match_on(self, matches: PassingFrames) -> None:
        """Look for matches in the frames that were read since the last call."""
        worker = get_current_worker()
        matches.look_on(self.browsed.frames, self.browsed.endpoints, lambda: worker.is_cancelled)

    def action_narrow(self, column: str) -> None:
        """Show only frames with the connection, or the topic, of the selected frame."""
        value = getattr(self._row, column, None)
        if value is None:
            self.notify(f"this frame has no {column}")
        else:
            self._filter(f"{column} == {msgspec.json.encode(value).decode()}")

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
            self.notify(f"{text} is not a number of seconds", markup=False)
            return
        self.list.go_to_time(wanted)

    def _write(self, path: str) -> None:
        if path:
            self._write_packets(path, self.filter_text or None)

    @work(thread=True, exclusive=True, group="write")
    def _write_packets(self, path: str, filter_text: str | None) -> None:
        try:
            text = self.browsed.extract(filter_text, path)
        except PulsarscopeError as error:
            text = "; ".join(error.lines)
        self.call_from_thread(self.notify, text, markup=False)

    # ---- the rest

    def _choose_columns(self, text: str) -> None:
        """Show each of these fields in a column, and keep the choice."""
        names = [name.strip() for name in text.split(",") if name.strip()]
        try:
            self.lines.columns = self.browsed.make_columns(names[:COLUMNS_MAX])
        except UsageError as error:
            self.notify(str(error).splitlines()[0], markup=False)
            return
        if not save(self._choices, names[:COLUMNS_MAX]):
            self.notify("the columns are not kept for the next time", markup=False)
        self.list.refresh()

    def action_pause(self) -> None:
        """Stop the list from growing, or let it grow again."""
        self.list.paused = not self.list.paused
        self._show_progress()

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        """Show the full text of a finding."""
        if event.data_table.id == "findings-table" and event.data_table.row_count:
            self.pages.tell(self, event.cursor_row)

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Select the frame of a finding or message, or show the frames of a connection."""
        page = str(event.data_table.id).removesuffix("-table")
        if page == "connections":
            self.action_page("frames")
            self._filter(f"connection == {msgspec.json.encode(event.row_key.value).decode()}")
        elif (name := self.pages.leads_to(page, event)) is not None:
            self._go_to_frame(name)

    def _go_to_frame(self, text: str) -> None:
        name = FrameName.parse(text)
        position = None if name is None else self.browsed.find(name.file, name.packet, name.sub)
        if position is None:
            self.notify("this row names no frame", markup=False)
            return
        self._filter("")
        self.action_page("frames")
        self.list.go_to_position(position)

    def action_page(self, name: str) -> None:
        """Show a page."""
        pages = self.query_one("#pages", TabbedContent)
        pages.active = name
        if name == "frames":
            self.list.focus()
        else:  # the focus must not stay on a hidden page
            (self.query_one(Lanes) if name == "follow" else table_of(self, name)).focus()
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
        """Switch to the next form of times."""
        self.lines.time = TIMES[(TIMES.index(self.lines.time) + 1) % len(TIMES)]
        self.list.refresh()

    def action_theme(self) -> None:
        """Switch between light and dark."""
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
