"""Detail tree: all data of each frame, a line for each field."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from pulsarscope.model.flow import SERVER
from pulsarscope.model.limits import SHOWN_ITEMS_MAX
from pulsarscope.model.records import ConnectionRow, FindingRow, FrameRow, RawFrame, Row, columns
from pulsarscope.model.text import duration, plural
from pulsarscope.output.export.sink import Sink
from pulsarscope.output.registry import OutputOptions
from pulsarscope.output.render.cell_text import cell_width, escape
from pulsarscope.output.render.hex import HexLines
from pulsarscope.output.render.times import instant_text, moment_text
from pulsarscope.output.render.view import View

VALUE_COLUMN = 32
"""Column of values, at any depth of their labels; a longer label shifts its value."""

SHOWN_BYTES = 64
"""Bytes of a value shown as hex, before its length."""

SHOWN_CHARACTERS = 4_096
"""Characters shown of a text; a longer one is followed by its length."""

Explain = Callable[[str, Any], "str | None"]
"""A function of the name and the value of a field that returns an explanation of the value, or None."""


class TreeOutput:
    """The output `tree`."""

    def __init__(self, sink: Sink, options: OutputOptions) -> None:
        self._view = View(sink, options)
        self._shown: Counter[str] = Counter()
        """Number of rows written so far, by kind."""
        self._show_notes = "finding" in options.kinds
        self._hex = HexLines(options)
        self._before: int | None = None
        """Time of the previous frame."""

    def write(self, rows: list[Any]) -> None:
        """Write rows (see `Output`)."""
        view = self._view
        view.prepare(rows)
        lines: list[str] = []
        for row in rows:
            if isinstance(row, FrameRow):
                self._frame(row, lines)
            elif type(row) is RawFrame:
                lines += [f"  {plural(len(row.data), 'byte')}", *self._hex(row)]
            elif type(row) is FindingRow:
                view.finding(row, lines, notes=self._show_notes)
            elif type(row) is not ConnectionRow or "connection" in view.options.kinds:
                self._other(row, lines)
        view.emit(lines)

    def close(self) -> None:
        """Write pending rows and the end (see `Output`)."""
        self._view.emit(self._view.closing([plural(count, kind) for kind, count in self._shown.items()] or ["0 frames"]))

    def _begin(self, kind: str, lines: list[str]) -> None:
        """Count a row, and separate it from the previous one by an empty line."""
        if lines or self._shown:
            lines.append("")
        self._shown[kind] += 1

    def _other(self, row: Row, lines: list[str]) -> None:
        """Append the columns of a row of another kind than frame."""
        look = self._view.palette
        self._begin(row.kind, lines)
        lines.append(f"{look.bold}{row.kind} {self._view.name(row)}{look.reset}")
        lines += [self._fit(line) for line in _branch(_present(row), 1, _no_explanation, look.dim, look.reset)]

    def _frame(self, row: FrameRow, lines: list[str]) -> None:
        view = self._view
        look, marks = view.palette, view.symbols
        self._begin(row.kind, lines)
        connection = view.introduce(row.connection, lines, row.source)
        color = view.color(row.connection)
        ends = ("server", "client") if row.direction == SERVER else ("client", "server")
        way = f"{ends[0]} {marks.to_server} {ends[1]}"
        command = escape(row.command or "(no command)")
        lines.append(
            f"{look.bold}frame {view.name(row)}  {command}{look.reset}  {color}{way}{look.reset}"
            f"{look.dim}  connection {connection}{look.reset}"
        )
        sections, dissector = self._sections(row), view.dissector(row.connection)
        self._before = row.time
        begin = len(lines)
        try:
            self._branches(sections, _no_explanation if dissector is None else dissector.explain, lines)
        except Exception as error:
            del lines[begin:]
            if dissector is None:
                raise
            self._branches(sections, _no_explanation, lines)
            view.dissector_failed(dissector, "explain", error, row, lines)

    def _branches(self, sections: list[tuple[str, Any]], explain: Explain, lines: list[str]) -> None:
        dim, reset = self._view.palette.dim, self._view.palette.reset
        for title, value in sections:
            if isinstance(value, Mapping):
                lines.append(f"  {title}{'' if value else f'  {dim}empty{reset}'}")
                lines += [self._fit(line) for line in _branch(value, 2, explain, dim, reset)]
            else:
                lines.append(self._fit(f"{_label(title, 1, dim, reset)}{value}"))

    def _sections(self, row: FrameRow) -> list[tuple[str, Any]]:
        """Return the titles of sections, each with a text or the object of a branch; absent values are omitted."""
        view = self._view
        look = view.palette
        place = f"{row.packet} of {view.file_name(row.file)}" if view.several_files else str(row.packet)
        sections: list[tuple[str, Any]] = [
            ("packet", place),
            ("time", moment_text(row.time, view.options.time, view.run.start, self._before)),
            ("stream offset", f"{row.offset:,}"),
            ("size", plural(row.size, "byte")),
        ]
        if row.status != "ok":
            sections.append(("status", f"{look.bad}{escape(row.status)}{look.reset}"))
        if row.findings:
            sections.append(("findings", view.codes(row.findings)[0]))
        if row.request is not None:
            latency = "" if row.latency_ns is None else f"  after {duration(row.latency_ns, view.symbols.micro)}"
            sections.append(("answers", f"{view.reference(row.request)}{latency}"))
        for title in ("topic", "producer_name", "subscription"):
            value = getattr(row, title)
            if value is not None and value != (row.fields or {}).get(title):
                sections.append((title.replace("_", " "), _text(value)))
        if row.fields is not None:
            sections.append(("command", row.fields))
        if row.broker_entry_metadata is not None:
            sections.append(("broker entry metadata", row.broker_entry_metadata))
        if row.checksum is not None:
            sections.append(("checksum", self._checksum(row.checksum)))
        if row.metadata is not None:
            sections.append(("metadata", row.metadata))
        if row.payload_size is not None:
            count = "" if row.num_messages is None else f"  {plural(row.num_messages, 'message')}"
            sections.append(("payload", f"{plural(row.payload_size, 'byte')}{count}"))
        if row.extra is not None:
            sections.append(("extra", row.extra))
        return sections

    def _checksum(self, checksum: Any) -> str:
        look, marks = self._view.palette, self._view.symbols
        status = escape(checksum.status)
        if status == "good":
            return f"{look.good}{marks.good} good{look.reset}  {escape(checksum.stored or '')}"
        if status == "bad":
            stored, computed = escape(checksum.stored or ""), escape(checksum.computed or "")
            return f"{look.bad}{marks.bad} bad{look.reset}  stored {stored}, computed {computed}"
        return status

    def _fit(self, line: str) -> str:
        """Return a line clipped to the terminal, unless its value has a colour (those lines are short)."""
        view = self._view
        if view.width is None:
            return line
        look = view.palette
        plain = line.replace(look.dim, "").replace(look.reset, "") if look.dim else line
        if "\x1b" in plain or cell_width(plain) <= view.width:
            return line
        return view.clip(plain, max(view.width, 40))


def _branch(value: Mapping[str, Any], depth: int, explain: Explain, dim: str, reset: str) -> list[str]:
    lines = []
    for key, item in value.items():
        lines += _leaf(str(key), item, depth, explain, dim, reset)
    return lines


def _leaf(name: str, value: Any, depth: int, explain: Explain, dim: str, reset: str) -> list[str]:
    """Return the lines of a field: one, or a heading and the lines below it."""
    label = _label(name, depth, dim, reset)
    if (explanation := explain(name, value)) is not None:
        first, *others = explanation.splitlines() or [""]
        return [f"{label}{escape(first)}", *(f"{'  ' * (depth + 1)}{escape(line)}" for line in others)]
    if isinstance(value, Mapping):
        return [f"{'  ' * depth}{escape(name)}", *_branch(value, depth + 1, explain, dim, reset)]
    if not isinstance(value, (list, tuple)):
        return [f"{label}{_text(value)}"]
    hidden = len(value) - SHOWN_ITEMS_MAX
    shown = value[:SHOWN_ITEMS_MAX]
    more = [f"{'  ' * (depth + 1)}{dim}and {hidden:,} more{reset}"] if hidden > 0 else []
    if all(isinstance(item, Mapping) and item.keys() == {"key", "value"} for item in shown):
        pairs = [f"{_label(str(item['key']), depth + 1, dim, reset)}{_text(item['value'])}" for item in shown]
        return [f"{label}{len(value):,}", *pairs, *more]
    texts = [
        None if isinstance(item, (Mapping, list)) and explain(name, item) is None else explain(name, item) or _text(item) for item in shown
    ]
    if not hidden > 0 and None not in texts and sum(map(len, filter(None, texts))) <= 2 * VALUE_COLUMN:
        return [f"{label}{len(value):,}  {', '.join(escape(text or '') for text in texts)}"]
    below = []
    for index, (item, text) in enumerate(zip(shown, texts, strict=True)):
        below += _leaf(f"[{index}]", item, depth + 1, explain, dim, reset) if text is None else [f"{'  ' * (depth + 1)}{escape(text)}"]
    return [f"{label}{len(value):,}", *below, *more]


def _label(name: str, depth: int, dim: str, reset: str) -> str:
    """Return the name of a field, indented, with the space up to its value."""
    text = escape(name)
    space = max(VALUE_COLUMN - 2 * depth - cell_width(text), 2)
    return f"{'  ' * depth}{dim}{text}{reset}{' ' * space}"


def _text(value: Any) -> str:
    """Return a scalar as escaped text; bytes as hex with their length."""
    if isinstance(value, (bytes, bytearray)):
        more = "…" if len(value) > SHOWN_BYTES else ""
        return f"{value[:SHOWN_BYTES].hex(' ')}{more}  ({plural(len(value), 'byte')})" if value else "(0 bytes)"
    if value is True or value is False:
        return "true" if value else "false"
    text = str(value)
    if len(text) > SHOWN_CHARACTERS:
        return f"{escape(text[:SHOWN_CHARACTERS])}…  ({len(text):,} characters)"
    return escape(text)


def _present(row: Row) -> dict[str, Any]:
    """Return the present columns of a row, with times as text."""
    present = {column.name: (column.type, getattr(row, column.name)) for column in columns(row.kind)}
    return {name: instant_text(value) if kind == "time" else value for name, (kind, value) in present.items() if value is not None}


def _no_explanation(_name: str, _value: Any) -> str | None:
    return None
