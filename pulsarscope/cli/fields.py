"""The command `fields`: the reference of filters, for people and for programs."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Sequence
from contextlib import suppress
from textwrap import wrap

import msgspec

from pulsarscope.dissect.registry import finding_codes
from pulsarscope.filter import Catalogue
from pulsarscope.filter.reference import Entry, entries
from pulsarscope.model.errors import UsageError
from pulsarscope.output.export.sink import Sink, opened_sink
from pulsarscope.protocols import make_dissectors

NAME_WIDTH, TYPE_WIDTH = 36, 16
TEXT_WIDTH = 100
"""Cells of a line of values."""


def catalogue() -> Catalogue:
    """All fields of the records that a run can give."""
    dissectors = make_dissectors()
    return Catalogue((dissector.vocabulary for dissector in dissectors), finding_codes(dissectors))


def show_fields(prefix: str | None, output_format: str | None, out: str | None) -> None:
    """Write the list.

    Raises:
        UsageError: no name begins so. OutputError: the list could not be written.
    """
    listed = list(entries(catalogue(), prefix or ""))
    if not listed:
        message = f'no field begins with "{prefix}"; pulsarscope fields lists all'
        raise UsageError(message)
    with suppress(BrokenPipeError), opened_sink(out) as sink:  # whoever closes the pipe has seen enough
        sink.write(_text(listed, output_format, one=len(listed) == 1).encode(_encoding(sink), "backslashreplace"))
        sink.finish()


def _encoding(sink: Sink) -> str:
    stream = sys.stdout
    return "utf-8" if stream is None or sink.stream is not getattr(stream, "buffer", None) else stream.encoding or "utf-8"


def _text(listed: Sequence[Entry], output_format: str | None, *, one: bool) -> str:
    if output_format == "json":
        return "[\n" + ",\n".join(msgspec.json.encode(entry).decode() for entry in listed) + "\n]\n"
    if output_format == "ndjson":
        return "".join(f"{msgspec.json.encode(entry).decode()}\n" for entry in listed)
    if output_format == "csv":
        return _csv(listed)
    lines: list[str] = []
    kinds: tuple[str, ...] = ()
    for entry in listed:
        if entry.records != kinds:
            kinds = entry.records
            lines += ["", f"{', '.join(kinds)} records"] if lines else [f"{', '.join(kinds)} records"]
        lines.append(f"  {entry.name:<{NAME_WIDTH}}  {entry.type:<{TYPE_WIDTH}}  {entry.text}")
        if one or len(entry.values) <= 8:
            values = f"one of {', '.join(entry.values)}" if entry.values else ""
            lines += [f"{'':{NAME_WIDTH + 6}}{line}" for line in wrap(values, TEXT_WIDTH, break_on_hyphens=False)]
        if one:
            lines.append(f"{'':{NAME_WIDTH + 6}}as in: {entry.example}")
    return "\n".join([*lines, ""])


def _csv(listed: Sequence[Entry]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(Entry.__struct_fields__)
    for entry in listed:
        writer.writerow([entry.name, " ".join(entry.records), entry.type, entry.text, entry.example, " ".join(entry.values)])
    return file.getvalue()
