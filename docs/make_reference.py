"""Writes the reference pages: commands.md from the command line, records.md from the column table, library.md from the docstrings.

python docs/make_reference.py
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

import pulsarscope
from pulsarscope.api import capture
from pulsarscope.cli.arguments.application import app
from pulsarscope.cli.arguments.command_names import COMMANDS
from pulsarscope.model.records import ROWS, Column, columns

HERE = Path(__file__).resolve().parent

COMMANDS_HEAD = """# Commands

Every command with its options. `pulsarscope mine.pcap` is `pulsarscope decode mine.pcap`; the options `-r`, `-e`, `-T`, `-t`, `-n` and
`-c` of tshark are understood there, too. Exit codes are in the [README](../README.md#exit-codes). This page is made of the help
(`docs/make_reference.py`).
"""

RECORDS_HEAD = """# Records

The columns of each kind of record, in NDJSON, CSV, Parquet, Arrow, SQL and on Spark. In NDJSON a column without a value is left out; a
time is ISO 8601 there and in CSV, elsewhere nanoseconds since the epoch. `json` is an object: nested in NDJSON, a text of JSON elsewhere.
Filters know more names, such as the fields of each command: `pulsarscope fields`. This page is made of the column table
(`docs/make_reference.py`).
"""

LIBRARY_HEAD = """# Library

```python
import pulsarscope as ps

capture = ps.open("captures/quickstart.pcapng")
for frame in capture.frames(filter="command == SEND"):
    print(frame.packet, frame.topic, frame.fields["sequence_id"])
```

What is here stays: names and arguments change with a new major version only. Rows are objects with the columns of the
[records](records.md) as attributes. Errors are `pulsarscope.PulsarscopeError`, with the classes below it for wrong usage, for inputs that
are not captures and for output that cannot be written. This page is made of the docstrings (`docs/make_reference.py`).
"""


def commands_page() -> str:
    """Return the page of the commands."""
    parts = [COMMANDS_HEAD]
    for name in COMMANDS:
        text = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "100"}, catch_exceptions=False).output
        parts.append(f"## {name}\n\n```text\n{text.strip()}\n```\n")
    return "\n".join(parts)


def records_page() -> str:
    """Return the page of the columns."""
    tables = {kind: columns(kind) for kind in ROWS}
    shared = [column for column in tables["frame"] if all(column in table for table in tables.values())]
    parts = [RECORDS_HEAD, _columns("All records", "The first columns of every kind.", shared)]
    for kind, row in ROWS.items():
        own = [column for column in tables[kind] if column not in shared]
        parts.append(_columns(kind, inspect.cleandoc(row.__doc__ or "").splitlines()[0], own))
    return "\n".join(parts)


def _columns(title: str, text: str, table: Iterable[Column]) -> str:
    lines = [f"## {title}\n", f"{text}\n", "| column | type | |", "|---|---|---|"]
    lines += [f"| `{column.name}` | {column.type} | {_cell(column.text)}{_values(column.values)} |" for column in table]
    return "\n".join([*lines, ""])


def library_page() -> str:
    """Return the page of the library."""
    parts = [LIBRARY_HEAD, "## Captures\n", *_entry("pulsarscope.open", capture.open)]
    for name, member in vars(capture.Capture).items():
        if not name.startswith("_") and inspect.isfunction(member):
            parts += _entry(f"Capture.{name}", member)
    parts += ["## Live\n", *_entry("pulsarscope.listen", pulsarscope.listen), "## Errors\n"]
    for name in pulsarscope.__all__:
        member = getattr(pulsarscope, name)
        if inspect.isclass(member) and issubclass(member, Exception):
            parts.append(f"- `pulsarscope.{name}` (exit code {member.exit_code}): {inspect.getdoc(member)}")
    return "\n".join([*parts, ""])


def _entry(name: str, function: Callable[..., Any]) -> Iterator[str]:
    """Yield the lines of a function: its arguments, and its docstring with its sections as lists."""
    parameters = [parameter for parameter in inspect.signature(function).parameters.values() if parameter.name != "self"]
    yield f"### {name}\n\n```python\n{name}({', '.join(map(_parameter, parameters))})\n```\n"
    text = inspect.getdoc(function) or ""
    text = re.sub(r"^(Args|Raises):\n((?: {4}.*\n?)+)", lambda match: f"{match[1]}:\n\n{_items(match[2])}", text, flags=re.MULTILINE)
    text = text.replace("Args:\n", "Arguments:\n")
    yield f"{text.strip()}\n"


def _parameter(parameter: inspect.Parameter) -> str:
    default = "" if parameter.default is inspect.Parameter.empty else f"={parameter.default!r}"
    star = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    return f"{star}{parameter.name}{default}"


def _items(text: str) -> str:
    text = re.sub(r"\n {8}", " ", text)
    lines = re.findall(r"^    (\w+): (.*)$", text, re.MULTILINE)
    return "".join(f"- `{name}`: {meaning}\n" for name, meaning in lines)


def _values(values: tuple[str, ...]) -> str:
    return f" One of {', '.join(f'`{value}`' for value in values)}." if values else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


PAGES: Mapping[str, Callable[[], str]] = {"commands.md": commands_page, "records.md": records_page, "library.md": library_page}


if __name__ == "__main__":
    for file, page in PAGES.items():
        (HERE / file).write_text(page(), encoding="utf-8")
