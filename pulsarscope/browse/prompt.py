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


IDLE = "f filter   / search   : go to frame or seconds   ? keys"

_QUESTIONS = {
    "filter": ("filter", 'as in latency > 5ms && topic contains "orders"'),
    "search": ("search", "a text in lines and fields"),
    "payloads": ("search in payloads", "a text in payloads and values"),
    "go": ("go to", "a frame or packet, as in 12.1 or 12, or a time, as in 3.5s"),
    "write": ("write to", "a file, as in shown.pcapng"),
    "columns": ("columns", "fields, as in topic, send.sequence_id"),
}
"""Title and example of each question."""

_COMPLETED = {"filter", "columns"}


class Names(Suggester):
    """Completion of the last word of a filter."""

    def __init__(self, names: Callable[[], list[str]]) -> None:
        """Complete to one of the names, which are requested when the first word is typed."""
        super().__init__(use_cache=False, case_sensitive=True)
        self._names = cache(names)

    async def get_suggestion(self, value: str) -> str | None:
        """Return the whole value with its last word completed."""
        if (match := _LAST_WORD.search(value)) is None:
            return None
        found = next((name for name in self._names() if name.startswith(match[0]) and name != match[0]), None)
        return None if found is None else value[: match.start()] + found


class Prompt(Input):
    """A line of input, with a history of earlier lines on the arrow keys."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("up", "earlier", show=False), Binding("down", "later", show=False)]

    def __init__(self, names: Suggester, **options: Any) -> None:
        """Complete fields and commands by `names` where these may occur."""
        super().__init__(placeholder=IDLE, **options)
        self.history: list[str] = []
        self._at = 0
        self._names = names

    def ask(self, what: str, value: str) -> None:
        """Ask for a line, with a proposed value."""
        self.border_title, self.placeholder = _QUESTIONS[what]
        self.suggester = self._names if what in _COMPLETED else None
        self.value = value
        self.focus()

    def rest(self) -> None:
        """Return to the idle state, which shows the keys that open a prompt."""
        self.border_title = self.border_subtitle = ""
        self.placeholder = IDLE
        self.remove_class("invalid")

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """Return True for keys that insert a character. Textual does not know the character of "slash", and would show its binding."""
        return key == "slash" or super().check_consume_key(key, character)

    def keep(self) -> None:
        """Add the line to the history."""
        if self.value and self.value not in self.history[-1:]:
            self.history.append(self.value)
        self._at = len(self.history)

    def action_earlier(self) -> None:
        """Show the previous line of the history."""
        self._show(self._at - 1)

    def action_later(self) -> None:
        """Show the next line of the history."""
        self._show(self._at + 1)

    def _show(self, at: int) -> None:
        self._at = min(max(at, 0), len(self.history))
        self.value = self.history[self._at] if self._at < len(self.history) else ""
        self.cursor_position = len(self.value)
