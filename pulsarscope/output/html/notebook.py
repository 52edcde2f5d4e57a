"""Rows as an HTML table for notebooks, which style it themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape as markup
from itertools import islice
from typing import Any

import msgspec

from pulsarscope.model.records import Checksum, Row, columns
from pulsarscope.model.text import duration, escape
from pulsarscope.output.render.times import instant_text

ROWS_SHOWN = 20
"""Rows of a table: a notebook only shows a sample, and programs read the rest."""

CHARACTERS_MAX = 120
"""Characters of a cell; its title has ten times as many."""


def rows_html(kind: str, rows: Iterable[Row]) -> str:
    """Return the first rows of a kind; columns without a value in any of them are left out."""
    shown = list(islice(rows, ROWS_SHOWN + 1))
    more, shown = len(shown) > ROWS_SHOWN, shown[:ROWS_SHOWN]
    if not shown:
        return f"<p>no {kind}s</p>"
    named = [(column.name, column.type) for column in columns(kind) if any(_value(row, column.name) is not None for row in shown)]
    head = "".join(f"<th>{_text(name)}</th>" for name, _ in named)
    body = "".join(f"<tr>{''.join(_cell(name, type_, _value(row, name)) for name, type_ in named)}</tr>" for row in shown)
    note = f"<p>the first {ROWS_SHOWN} {kind}s</p>" if more else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"


def capture_html(paths: Sequence[str], kinds: Iterable[str]) -> str:
    """Return the names of the captures and the kinds of rows that can be read from them, without reading anything."""
    named = "".join(f"<li><code>{_text(path)}</code></li>" for path in paths)
    calls = ", ".join(f"<code>.{_text(kind)}s()</code>" for kind in kinds)
    return f"<p>Capture of pulsarscope</p><ul>{named}</ul><p>{calls}, <code>.table(kind)</code></p>"


def _value(row: Row, name: str) -> Any:
    return getattr(row, name, None)


def _cell(name: str, type_: str, value: Any) -> str:
    if value is None:
        return "<td></td>"
    if type_ == "time":
        text = instant_text(value)
    elif name.endswith("_ns"):
        text = duration(value)
    elif isinstance(value, (dict, list, Checksum)):
        text = msgspec.json.encode(value, enc_hook=repr).decode(errors="backslashreplace")
    else:
        text = str(value)
    if len(text) <= CHARACTERS_MAX:
        return f"<td>{_text(text)}</td>"
    return f'<td title="{_text(text[: 10 * CHARACTERS_MAX])}">{_text(text[:CHARACTERS_MAX])}…</td>'


def _text(text: str) -> str:
    return markup(escape(text))
