"""The details of the selected frame: its fields, or its bytes with the fields beside them."""

from __future__ import annotations

from textual import work
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import ContentSwitcher, Static
from textual.worker import get_current_worker

from pulsarscope.browse.browsed_capture import Browsed
from pulsarscope.browse.details import folded, tree_lines
from pulsarscope.browse.frame_bytes import FrameBytes
from pulsarscope.model.errors import PulsarscopeError
from pulsarscope.model.records import FrameRow, RawFrame

FIELDS, BYTES = "fields", "bytes"

BESIDE = 4
"""Cells of the pane's padding and scrollbar."""


class DetailPane(ContentSwitcher):
    """The fields of a frame, or its bytes."""

    def __init__(self, browsed: Browsed, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id, initial=FIELDS)
        self.row: FrameRow | None = None
        """The frame that is shown."""
        self._browsed = browsed

    def compose(self) -> ComposeResult:
        """Lay out both."""
        with VerticalScroll(id=FIELDS):
            yield Static(id="tree", markup=False)
        yield FrameBytes(id=BYTES)

    @property
    def shows_bytes(self) -> bool:
        """The bytes are shown."""
        return self.current == BYTES

    def show(self, row: FrameRow) -> None:
        """Show a frame."""
        self.row = row
        if self.shows_bytes:
            self._read_bytes(row)
        else:
            self._show_fields()

    def toggle(self) -> None:
        """Show the bytes of the frame, or its fields again."""
        if self.shows_bytes or self.row is None:
            self.current = FIELDS
            self._show_fields()
        else:
            self._show_text("reading the bytes of the frame …")
            self._read_bytes(self.row)

    def on_resize(self) -> None:
        """Fold the fields anew."""
        if not self.shows_bytes:
            self._show_fields()

    def _show_fields(self) -> None:
        if self.row is not None:
            try:
                width = max(self.size.width - BESIDE, 1)
                self._show_text("\n".join(part for line in tree_lines(self._browsed, self.row) for part in folded(line, width)))
            except Exception as error:  # noqa: BLE001 - a frame that cannot be shown leaves the others
                self._show_text(f"cannot show this frame: {error}")

    def _show_text(self, text: str) -> None:
        self.query_one("#tree", Static).update(text)

    @work(thread=True, exclusive=True, group="bytes")
    def _read_bytes(self, row: FrameRow) -> None:
        worker = get_current_worker()
        reason = "the bytes of this frame are not kept"
        try:
            raw = self._browsed.raw(row, lambda: worker.is_cancelled)
        except PulsarscopeError as error:  # the capture is gone
            raw, reason = None, "; ".join(error.lines)
        if not worker.is_cancelled and row is self.row:
            self.app.call_from_thread(self._show_bytes, raw, reason)

    def _show_bytes(self, raw: RawFrame | None, reason: str) -> None:
        """Show the bytes of the frame, or the reason why there are none."""
        if raw is None:
            self.current = FIELDS
            self._show_text(reason)
            return
        view = self.query_one(FrameBytes)
        view.show(raw)
        if not self.shows_bytes:
            self.current = BYTES
            view.fields.focus()
