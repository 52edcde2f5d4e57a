"""The timeline of application messages: a line for each message produced or delivered."""

from __future__ import annotations

from typing import Any

from pulsarscope.export.cells import json_lines
from pulsarscope.export.sink import Sink
from pulsarscope.limits import SHOWN_ITEMS_MAX
from pulsarscope.outputs import OutputOptions
from pulsarscope.records import FindingRow, MessageRow
from pulsarscope.render.escape import cell_width, clip_words, escape
from pulsarscope.render.view import View, count_text
from pulsarscope.topics import short_topic

PRODUCE = "produce"


PREVIEW_CHARACTERS = 2_000
"""Characters of a value or a payload shown where no terminal clips it sooner."""


class Messages:
    """The output `messages`."""

    def __init__(self, sink: Sink, options: OutputOptions) -> None:
        self._view = View(sink, options)
        self._show_notes = "finding" in options.kinds
        self._produced = 0
        self._delivered = 0

    def write(self, rows: list[Any]) -> None:
        """As `Output.write`."""
        self._view.prepare(rows)
        lines: list[str] = []
        for row in rows:
            if type(row) is MessageRow:
                message_line(self._view, row, lines)
                if row.direction == PRODUCE:
                    self._produced += 1
                else:
                    self._delivered += 1
            elif type(row) is FindingRow:
                self._view.finding(row, lines, notes=self._show_notes)
        self._view.emit(lines)

    def close(self) -> None:
        """As `Output.close`."""
        words = f"{count_text(self._produced, 'message')} produced, {self._delivered:,} delivered"
        self._view.emit(self._view.closing([words]))


def message_line(view: View, row: MessageRow, lines: list[str]) -> None:
    """Append the line of a message; its value, and its payload when that was asked for, are lines of their own."""
    look, marks = view.palette, view.symbols
    produced = row.direction == PRODUCE
    mark = marks.to_server if produced else marks.to_client
    start = view.start(row, mark, lines)
    words = escape("  ".join(message_words(row)))
    rest, rest_width = "", 0
    if row.status not in (None, "ok"):
        status = escape(row.status or "")
        rest, rest_width = f"{look.warning}{status}{look.reset}", cell_width(status)
    room = view.room(view.start_width(mark) + 9 + rest_width + 2 * bool(rest))
    words = clip_words(words, room, marks.ellipsis)
    if rest:
        rest = " " * (room - cell_width(words) + 2 if view.width is not None else 2) + rest
    lines.append(f"{start} {'produce' if produced else 'deliver':<7} {words}{rest}")
    for text in (None if row.value is None else json_lines([row.value])[0], row.payload):
        if text:
            indent = " " * (view.name_width + 1)
            more = "" if len(text) <= PREVIEW_CHARACTERS else f"{marks.ellipsis} ({len(text):,} characters)"
            lines.append(indent + view.clip(escape(text[:PREVIEW_CHARACTERS]) + more, view.room(len(indent))))


def message_words(row: MessageRow) -> list[str]:
    """What matters about a message, not escaped."""
    words = [short_topic(row.topic) if row.topic is not None else f"{'producer' if row.direction == PRODUCE else 'consumer'} {_peer(row)}"]
    words.append(_message_id(row))
    if row.key is not None:
        words.append(f"key {row.key}")
    elif row.ordering_key is not None:
        words.append(f"ordering key {_bytes_text(row.ordering_key)}")
    if row.sequence_id is not None:
        words.append(f"seq {row.sequence_id}")
    if row.marker is not None:
        words.append(f"marker {row.marker}")
    if row.null_value:
        words.append("tombstone")
    elif row.payload_size is not None:
        words.append(f"{row.payload_size:,} B")
    if row.subscription is not None:
        words.append(f"sub {row.subscription}")
    if row.compression not in (None, "NONE"):
        words.append(str(row.compression))
    if row.encrypted and row.status != "encrypted":  # else the status says it
        words.append("encrypted")
    if row.chunks is not None:
        words.append(f"{row.chunks} chunks")
    if row.txn is not None:
        words.append(f"txn {row.txn}")
    if row.redelivery_count:
        words.append(f"redelivery {row.redelivery_count}")
    if row.properties:
        words.append(_properties(row.properties))
    return words


def _bytes_text(data: bytes) -> str:
    """Bytes as the text that they mostly are, else in hex."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return f"0x{data.hex()}"
    return text if text.isprintable() else f"0x{data.hex()}"


def _peer(row: MessageRow) -> str:
    number = row.producer_id if row.direction == PRODUCE else row.consumer_id
    return "?" if number is None else str(number)


def _message_id(row: MessageRow) -> str:
    if row.ledger is None or row.entry is None:
        return "no id" if row.direction == PRODUCE else "id ?"
    text = f"{row.ledger}:{row.entry}"
    return text if row.batch_index is None else f"{text}:{row.batch_index}"


def _properties(properties: dict[str, str]) -> str:
    shown = ", ".join([f"{key}={value}" for key, value in list(properties.items())[:SHOWN_ITEMS_MAX]])
    hidden = len(properties) - SHOWN_ITEMS_MAX
    return f"{{{shown}, and {hidden:,} more}}" if hidden > 0 else f"{{{shown}}}"
