"""The details of one frame, as lines."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from types import SimpleNamespace

import msgspec

from pulsarscope.browse.browsed_capture import Browsed
from pulsarscope.model.limits import BROWSED_LANES_FRAMES_MAX
from pulsarscope.model.records import FrameRow
from pulsarscope.output.registry import Output, OutputOptions, RunView, output
from pulsarscope.output.render.cell_text import cell_width, wrap_cells

_FIELD = re.compile(r"( *(?:\S(?:\S| (?! ))*  +)?)(.*)", re.DOTALL)
_SINGLE_SPACE = re.compile(r"(?<=\S) (?=\S)")


class _Lines:
    """A sink that keeps written bytes in memory."""

    name = "the screen"

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: bytes) -> None:
        self.data += data

    def flush(self) -> None:
        """Do nothing: everything is kept."""


def _run(browsed: Browsed, rows: Sequence[FrameRow]) -> RunView:
    """Return the run as outputs see it, with the endpoints of connections that have closed."""
    run = browsed.run
    shown = {row.connection for row in rows}
    return SimpleNamespace(
        endpoints=browsed.endpoints,
        start=run.start,
        packets=run.packets,
        connections=run.connections,
        evaluates_rules=True,
        complete=browsed.ended,
        severities=Counter(finding.severity for finding in browsed.findings if finding.connection in shown),
        dissectors=run.dissectors,
        dissector_of={row.connection: row.dissector for row in rows},
    )


def _written(name: str, browsed: Browsed, rows: Sequence[FrameRow], width: int | None, *, quiet: bool = True) -> list[str]:
    lines = _Lines()
    options = OutputOptions(("frame",), _run(browsed, rows), paths=tuple(browsed.run.inputs.paths), width=width, quiet=quiet)
    made: Output = output(name)(lines, options)  # type: ignore[arg-type]  # it writes, and does nothing else
    made.write(list(rows))
    made.close()
    return lines.data.decode("utf-8", "replace").splitlines()


def tree_lines(browsed: Browsed, row: FrameRow) -> list[str]:
    """Return the fields of a frame, one per line."""
    lines = _written("tree", browsed, [row], None)
    start = next((index for index, line in enumerate(lines) if line.startswith("frame ")), 0)
    return lines[start:]


def folded(line: str, width: int) -> list[str]:
    """Fold a line of the fields to `width` cells. Further lines are indented to its value, and phrases stay whole."""
    if cell_width(line) <= width:
        return [line]
    name, value = _FIELD.fullmatch(line).groups()  # type: ignore[union-attr]  # it matches every line
    if 2 * len(name) > width:
        name, value = line[: len(line) - len(line.lstrip())], line.lstrip()
    room = max(width - len(name), 1)
    if max(map(cell_width, value.split("  "))) <= room:
        value = _SINGLE_SPACE.sub("\N{NO-BREAK SPACE}", value)
    parts = wrap_cells(value, room) or [value]
    first, *others = [part.replace("\N{NO-BREAK SPACE}", " ") for part in parts]
    return [f"{name}{first}", *(f"{' ' * len(name)}{part}" for part in others)]


def lane_lines(browsed: Browsed, connection: str, width: int) -> list[str]:
    """Return the conversation of a connection as a diagram of its first frames."""
    rows: list[FrameRow] = []
    for row in frames_of(browsed, connection):
        rows.append(row)
        if len(rows) >= BROWSED_LANES_FRAMES_MAX:
            break
    return _written("lanes", browsed, rows, width, quiet=False)


def frames_of(browsed: Browsed, connection: str) -> Iterable[FrameRow]:
    """Yield the frames of a connection that have been read."""
    for number in range(browsed.frames.chunks):
        yield from (row for row in browsed.frames.chunk(number) if row.connection == connection)


def copied(browsed: Browsed, row: FrameRow, form: str) -> str:
    """Return the text that copies a frame, in a form: filter, json or command."""
    if form == "json":
        return msgspec.json.encode(row).decode()
    chosen = f"file == {row.file} && packet == {row.packet} && sub == {row.sub}"
    return chosen if form == "filter" else shlex.join(["pulsarscope", "decode", *browsed.run.inputs.paths, "-Y", chosen])
