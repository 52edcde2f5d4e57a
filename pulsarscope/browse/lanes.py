"""The diagram of a conversation, whose arrows lead to their frames."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.widgets import OptionList
from textual.widgets.option_list import Option

_ARROW = re.compile(r" *((?:\d+:)?\d+\.\d+) ")


class Lanes(OptionList):
    """The lines of a diagram; those of frames can be selected."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "cursor_down", show=False),
        Binding("k", "cursor_up", show=False),
        Binding("g", "first", show=False),
        Binding("G", "last", show=False),
        Binding("space", "page_down", show=False),
    ]

    def show(self, lines: Sequence[str], selected: str) -> None:
        """Show a diagram, in which the arrow of a frame, by its name, is selected."""
        names = [frame_of(line) for line in lines]
        self.clear_options()
        self.add_options(Option(Text(line, no_wrap=True), disabled=name is None) for line, name in zip(lines, names, strict=True))
        if selected in names:
            self.highlighted = names.index(selected)

    def frame(self, number: int) -> str | None:
        """Return the name of the frame of a line."""
        return frame_of(str(self.get_option_at_index(number).prompt))


def frame_of(line: str) -> str | None:
    """Return the name of the frame, with its file, of whose arrow this is the line; None for other lines."""
    match = _ARROW.match(line)
    return None if match is None else match[1] if ":" in match[1] else f"0:{match[1]}"
