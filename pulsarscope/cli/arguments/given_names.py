"""What the names of inputs and outputs on a command line reveal before anything is read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec

from pulsarscope.cli.standard_error import warn
from pulsarscope.model.errors import UsageError
from pulsarscope.model.text import STANDARD_INPUT

FORMATS = {
    ".arrow": (),
    ".csv": ("csv",),
    ".feather": (),
    ".htm": (),
    ".html": (),
    ".json": ("json", "sarif", "otlp"),
    ".jsonl": ("ndjson", "otlp"),
    ".ndjson": ("ndjson", "otlp"),
    ".parquet": ("parquet",),
    ".pftrace": ("perfetto",),
    ".sarif": ("sarif",),
}
"""Formats of files whose names have these suffixes, the usual one first."""

_LABELS = {"csv": "CSV", "json": "JSON", "ndjson": "NDJSON", "parquet": "Parquet", "perfetto": "a Perfetto trace", "sarif": "SARIF"}


def refuse_terminal(request: Any) -> None:
    """Raise UsageError if a capture is expected from a terminal. A hex dump may be pasted there."""
    if STANDARD_INPUT in request.files and not request.hexdump and sys.stdin is not None and sys.stdin.isatty():
        raise UsageError("- is standard input, and nothing is piped in: name a file, or write PROGRAM | pulsarscope …")


def warn_of_suffix(request: Any) -> None:
    """Warn if the name of the output has the suffix of a format that a command does not write."""
    if request.out is None or request.quiet or request.writes_page or request.export is not None:
        return
    choices = _choices(next(field.type for field in msgspec.structs.fields(type(request)) if field.name == "format"))
    if not choices:
        return
    from pulsarscope.capture.formats.compression import COMPRESSED_SUFFIXES  # few runs write files

    suffix = next((suffix for each in reversed(Path(request.out).suffixes) if (suffix := each.lower()) not in COMPRESSED_SUFFIXES), "")
    formats = FORMATS.get(suffix)
    if formats is None or request.format in formats:
        return
    wanted = next((each for each in formats if each in choices), None)
    if request.format is None and wanted is not None:
        warn(f"writing text to {request.out}: add --format {wanted} for {_LABELS[wanted]}")
    else:
        written = "text" if request.format is None else _LABELS.get(request.format, request.format)
        warn(f"writing {written} to {request.out}, though its name ends in {suffix}")


def _choices(hint: Any) -> tuple[str, ...]:
    """Return the values that an option takes; an empty tuple for an attribute that is no option with choices."""
    return get_args(hint) if get_origin(hint) is Literal else tuple(each for part in get_args(hint) for each in _choices(part))
