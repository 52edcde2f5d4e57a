"""The command `fields`."""

from __future__ import annotations

import csv
import io
import shutil
import sys
from collections.abc import Sequence
from textwrap import wrap
from typing import Annotated

import msgspec

from pulsarscope.cli.arguments.declarations import argument
from pulsarscope.cli.arguments.options import CommandRequest, ListFormatOption, OutOption
from pulsarscope.cli.command_output import CommandOutput, with_output
from pulsarscope.cli.exit_codes import EXIT_DONE
from pulsarscope.filter import Catalogue
from pulsarscope.filter.reference import FieldEntry, field_entries
from pulsarscope.model.errors import UsageError
from pulsarscope.model.text import hint_for
from pulsarscope.output.render.style import encoded, is_terminal, text_encoding

NAME_WIDTH, TYPE_WIDTH = 36, 16
TEXT_WIDTH = 100
"""Cells of a line of values."""

BESIDE_MIN = 40
"""Least cells for a meaning beside the type of its field."""

BELOW = " " * 6
"""Indent of a meaning below the name of its field."""

VALUES_SHOWN = 8
"""Values listed per field when several fields are shown; a single field shows all."""


class FieldsRequest(CommandRequest, frozen=True, kw_only=True):
    """Options of `fields`."""

    prefix: Annotated[str | None, argument(metavar="PREFIX", help="Only names with this prefix.", show_default=False)] = None
    format: ListFormatOption = None
    out: OutOption = None


@with_output
def fields(request: FieldsRequest, output: CommandOutput) -> int:
    """List the fields that a filter (-Y) can name.

    With their types, their meaning and an example of each.
    """
    if not (entries := list(field_entries(catalogue(), request.prefix or ""))):
        names = [entry.name for entry in field_entries(catalogue())]
        raise UsageError(f'no field begins with "{request.prefix}"{hint_for(request.prefix or "", names, "pulsarscope fields lists all")}')
    width = shutil.get_terminal_size().columns if request.out in (None, "-") and is_terminal(sys.stdout) else None
    output.write(request, encoded(_text(entries, request.format, width), text_encoding(request.out)))
    return EXIT_DONE


def catalogue() -> Catalogue:
    """Return the fields of all records that the installed dissectors can give."""
    from pulsarscope.protocols import make_dissectors

    return Catalogue.of(make_dissectors())


def _text(entries: Sequence[FieldEntry], output_format: str | None, width: int | None) -> str:
    if output_format == "json":
        return "[\n" + ",\n".join(msgspec.json.encode(entry).decode() for entry in entries) + "\n]\n"
    if output_format == "ndjson":
        return "".join(f"{msgspec.json.encode(entry).decode()}\n" for entry in entries)
    return _csv(entries) if output_format == "csv" else _list(entries, width)


def _list(entries: Sequence[FieldEntry], width: int | None) -> str:
    alone = len(entries) == 1
    lines: list[str] = []
    kinds: tuple[str, ...] = ()
    for entry in entries:
        if entry.records != kinds:
            kinds = entry.records
            lines += ["", f"{', '.join(kinds)} records"] if lines else [f"{', '.join(kinds)} records"]
        texts = [f"one of {', '.join(entry.values)}"] if entry.values and (alone or len(entry.values) <= VALUES_SHOWN) else []
        lines += _lines(entry, [*texts, *([f"as in: {entry.example}"] if alone else [])], width)
    return "\n".join([*lines, ""])


def _lines(entry: FieldEntry, more: Sequence[str], width: int | None) -> list[str]:
    """Return a field with its meaning, beside its type or (in a narrow terminal) below its name, and `more` below that."""
    head = f"  {entry.name:<{NAME_WIDTH}}  {entry.type:<{TYPE_WIDTH}}  "
    beside = width is None or width - len(head) >= BESIDE_MIN
    space = len(head) if beside else len(BELOW)
    meaning = [entry.text] if width is None else wrap(entry.text, width - space, break_on_hyphens=False, break_long_words=False)
    indent = " " * (NAME_WIDTH + 6) if beside else BELOW
    room = TEXT_WIDTH if width is None else max(min(TEXT_WIDTH, width - len(indent)), BESIDE_MIN // 2)
    below = [f"{indent}{line}" for text in more for line in wrap(text, room, break_on_hyphens=False)]
    if not beside:
        return [head.rstrip(), *(f"{BELOW}{line}" for line in meaning), *below]
    first, *rest = meaning or [""]
    return [f"{head}{first}", *(f"{'':{len(head)}}{line}" for line in rest), *below]


def _csv(entries: Sequence[FieldEntry]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(FieldEntry.__struct_fields__)
    for entry in entries:
        writer.writerow([entry.name, " ".join(entry.records), entry.type, entry.text, entry.example, " ".join(entry.values)])
    return file.getvalue()
