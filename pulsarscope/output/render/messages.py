"""The timeline of application messages: a line for each produced or delivered message."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from pulsarscope.model.bounded_tables import remember
from pulsarscope.model.ordered_rows import in_columns, in_rows
from pulsarscope.model.platform import load_native
from pulsarscope.model.records import FindingRow, MessageRow
from pulsarscope.model.row_lists import EntryMessages
from pulsarscope.model.text import plural
from pulsarscope.output.export.columns import json_lines
from pulsarscope.output.export.sink import Sink
from pulsarscope.output.registry import OutputOptions
from pulsarscope.output.render.cell_text import cell_width, escape, fit_summary
from pulsarscope.output.render.view import LOOKS_MAX, View

PRODUCE, DELIVER = "produce", "deliver"
FROM_CLIENT = frozenset({PRODUCE, "store"})

PREVIEW_CHARACTERS = 2_000
"""Characters shown of a value or a payload, unless a terminal clips it sooner."""


_PROBE_ID = 1 << 62, 1 << 61
_PROBE_NAME = f"{_PROBE_ID[0]}:{_PROBE_ID[1]}:5"
_PROBE = "  key k  seq 3  4 B"
_PROBE_BEHIND = "  {a=b}"
"""The part of a summary that the compiled reader writes, with placeholder values."""


class _Wording(NamedTuple):
    """The dissector's own words in the line of a message: topic, the text in place of an id, and what follows the size."""

    topic: str
    unnamed: str
    behind: str


class MessagesOutput:
    """The output `messages`."""

    def __init__(self, sink: Sink, options: OutputOptions) -> None:
        self._view = View(sink, options)
        self._wordings: dict[tuple[Any, ...], _Wording | None] = {}
        """Wordings by everything they depend on; None if Python writes the lines."""
        self._show_notes = "finding" in options.kinds
        self._produced = 0
        self._delivered = 0

    def write(self, rows: list[Any]) -> None:
        """Write rows (see `Output`)."""
        if in_columns(rows):
            rows = in_rows(rows)
        self._view.prepare(rows)
        lines: list[str] = []
        for row in rows:
            if type(row) is MessageRow:
                self._message(row, lines)
            elif type(row) is EntryMessages:
                if not self._compiled_lines(row, lines):
                    for message in row.rows():
                        self._message(message, lines)
            elif type(row) is FindingRow:
                self._view.finding(row, lines, notes=self._show_notes)
        self._view.emit(lines)

    def _message(self, row: MessageRow, lines: list[str]) -> None:
        """Append the lines of a message."""
        self._view.columns("message", lines)
        message_line(self._view, row, lines)
        if row.direction == PRODUCE:
            self._produced += 1
        elif row.direction == DELIVER and not row.acknowledged:
            self._delivered += 1

    def _compiled_lines(self, entry: EntryMessages, lines: list[str]) -> bool:
        """Append the lines of `message_line` for the messages of an entry, by the compiled reader. Return False if it cannot."""
        view, shared = self._view, entry.shared
        clock, look = view.clock, view.palette
        native, _ = load_native()
        if native is None or view.width is not None or clock.seconds is None or not _is_plain(shared):
            return False
        dissector = view.dissector(shared.connection)
        names = shared.direction, shared.topic, shared.subscription, shared.compression, shared.redelivery_count
        if (key := (dissector, *names)) not in self._wordings:
            remember(self._wordings, key, _wording_of(dissector, shared), LOOKS_MAX)
        if (wording := self._wordings[key]) is None:
            return False
        first: int = entry.columns["time"][0] if "time" in entry.columns else shared.time
        if clock.second(first) is None:  # a line with the date comes before that of the connection
            return False
        heading: list[str] = []
        view.columns("message", heading)
        label = f"{view.introduce(shared.connection, heading, shared.source):>{view.label_width}}"
        mark = view.symbols.to_server if shared.direction in FROM_CLIENT else view.symbols.to_client
        color = view.color(shared.connection)
        middle = f"{look.reset} {color}{label} {mark}{look.reset if color else ''} {shared.direction or DELIVER:<7} {wording.topic}  "
        lines += heading
        place = shared.file, shared.packet, shared.sub, shared.time, shared.ledger, shared.entry
        marks = look.dim, middle, wording.unnamed, wording.behind
        preview = escape, PREVIEW_CHARACTERS, view.symbols.ellipsis
        made = native.message_text(entry.columns, place, marks, clock.seconds, (clock.width, view.name_width), view.several_files, preview)
        if made is None:
            return False
        text, (time_width, view.name_width) = made
        clock.widen(time_width)
        lines.append(text)
        if shared.direction == PRODUCE:
            self._produced += entry.count
        elif shared.direction == DELIVER:
            self._delivered += entry.count
        return True

    def close(self) -> None:
        """Write pending rows and the end (see `Output`)."""
        counts = f"{plural(self._produced, 'message')} produced, {self._delivered:,} delivered"
        self._view.emit(self._view.closing([counts]))


def _is_plain(shared: MessageRow) -> bool:
    """Return True if the compiled reader can write everything that the messages of an entry share."""
    rare = (
        *(shared.batch_index, shared.key, shared.ordering_key, shared.properties, shared.payload, shared.value),
        *(shared.marker, shared.null_value, shared.chunks, shared.txn, shared.acknowledged),
    )
    return shared.status == "ok" and not shared.encrypted and rare.count(None) == len(rare)


def _wording_of(dissector: Any, shared: MessageRow) -> _Wording | None:
    """Return a dissector's wording for the messages of an entry; None if it differs from the wording of the compiled reader."""
    if dissector is None or dissector.compiled is None or shared.topic is None:
        return None
    own = {"batch_index": 5, "key": "k", "sequence_id": 3, "payload_size": 4, "properties": {"a": "b"}}
    ledger, entry = _PROBE_ID
    try:
        summary = dissector.message_summary(msgspec.structs.replace(shared, ledger=ledger, entry=entry, **own))
        without = dissector.message_summary(msgspec.structs.replace(shared, ledger=None, entry=None, **own))
    except Exception:  # noqa: BLE001 - a plug-in may raise anything: the line of Python says so
        return None
    topic, _, behind = summary.partition(f"  {_PROBE_NAME}{_PROBE}")
    unnamed = without.removeprefix(f"{topic}  ").removesuffix(f"{_PROBE}{behind}")
    behind = behind.removesuffix(_PROBE_BEHIND)
    with_name, nameless = (f"{topic}  {name}{_PROBE}{behind}{_PROBE_BEHIND}" for name in (_PROBE_NAME, unnamed))
    known = summary == with_name and without == nameless and all(text.isascii() and text.isprintable() for text in (summary, without))
    return _Wording(topic, unnamed, behind) if known else None


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
