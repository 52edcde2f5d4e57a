"""The line of input above the list."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar

from textual.binding import Binding, BindingType
from textual.suggester import Suggester
from textual.widgets import Input

_LAST_WORD = re.compile(r"[A-Za-z_][\w.]*$")


class Names(Suggester):
    """Completion of the last word of a filter."""

    def __init__(self, names: Callable[[], list[str]]) -> None:
        """Complete to one of the names, which are asked for when the first word is written."""
        super().__init__(use_cache=False, case_sensitive=True)
        self._names = cache(names)

    async def get_suggestion(self, value: str) -> str | None:
        """Return the whole value with its last word completed."""
        if (match := _LAST_WORD.search(value)) is None:
            return None
        found = next((name for name in self._names() if name.startswith(match[0]) and name != match[0]), None)
        return None if found is None else value[: match.start()] + found


class Prompt(Input):
    """A line of input with the lines given before, by the arrow keys."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("up", "earlier", show=False), Binding("down", "later", show=False)]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.history: list[str] = []
        self._at = 0

    def keep(self) -> None:
        """Remember what was given."""
        if self.value and self.value not in self.history[-1:]:
            self.history.append(self.value)
        self._at = len(self.history)

    def action_earlier(self) -> None:
        """Show the line before."""
        self._show(self._at - 1)

    def action_later(self) -> None:
        """Show the line after."""
        self._show(self._at + 1)

    def _show(self, at: int) -> None:
        self._at = min(max(at, 0), len(self.history))
        self.value = self.history[self._at] if self._at < len(self.history) else ""
        self.cursor_position = len(self.value)
