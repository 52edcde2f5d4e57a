"""Comparison of the bytes that frames brought of one message, by its own checksum, which stays with it on all its way."""

from __future__ import annotations

from collections import Counter
from textwrap import wrap

from pulsarscope.model.records import Checksum, FrameRow
from pulsarscope.output.render.cell_text import escape
from pulsarscope.output.render.view import View, count_text

FRAMES_MAX = 1_000
"""Frames that are compared: a message is redelivered a few times."""

NAMED_MAX = 5
"""Frames that are named."""


class Contents:
    """The checksums of one message, frame by frame."""

    def __init__(self) -> None:
        self._frames: list[tuple[str, str, Checksum]] = []
        """Command, shown name, and checksum."""

    def add(self, row: FrameRow, view: View) -> None:
        """Take a frame."""
        dissector = view.dissector(row.connection)
        checksum = None if dissector is None else dissector.message_checksum(row)
        if checksum is not None and checksum.stored is not None and len(self._frames) < FRAMES_MAX:
            self._frames.append((row.command or "", view.name(row), checksum))

    def lines(self, view: View) -> list[str]:
        """Return what is to be said below the frames, in a line of its own."""
        if len(self._frames) < 2 or view.options.quiet:
            return []
        look, marks = view.palette, view.symbols
        bad = [frame for frame in self._frames if frame[2].status == "bad"]
        values = {checksum.stored: (command, name) for command, name, checksum in reversed(self._frames)}
        if bad:
            whole = [frame for frame in self._frames if frame[2].status == "good"]
            text = f"damaged in {_names(bad)}" + (f"; whole in {_names(whole)}" if whole else "")
        elif len(values) > 1:
            text = f"the bytes differ: {', '.join(f'{command} {name} has {value}' for value, (command, name) in sorted(values.items()))}"
        else:
            counts = Counter(command for command, _, _ in self._frames)
            kinds = ", ".join(f"{number} {command}" if number > 1 else command for command, number in counts.items())
            text = f"the same bytes at each of {count_text(len(self._frames), 'hop')}: {kinds} (CRC32-C {self._frames[0][2].stored})"
            return ["", *_in_lines(marks.good, look.good, text, view)]
        return ["", *_in_lines(marks.bad, look.bad, text, view)]


def _in_lines(mark: str, color: str, text: str, view: View) -> list[str]:
    """Return a text behind a mark, in as many lines as the terminal needs."""
    hang = " " * (len(mark) + 1)
    lines = [escape(text)] if view.width is None else wrap(escape(text), view.width - len(hang), break_on_hyphens=False)
    first, *rest = lines
    return [f"{color}{mark}{view.palette.reset} {first}", *(f"{hang}{line}" for line in rest)]


def _names(frames: list[tuple[str, str, Checksum]]) -> str:
    more = f" and {len(frames) - NAMED_MAX:,} more" if len(frames) > NAMED_MAX else ""
    return ", ".join(f"{command} {name}" for command, name, _ in frames[:NAMED_MAX]) + more
