"""The state of the screen of `live --top`, as set by keys. It knows neither terminal nor traffic: callers pass keys and rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum, auto
from typing import Any

import msgspec

from pulsarscope.analysis.tally import ReportRecord
from pulsarscope.dissect.contract.capabilities import ReportColumn, ReportTable
from pulsarscope.output.render.top_tables import COLUMNS, VIEWS, Columns, columns_with, identity

FILTER_CHARACTERS_MAX = 100

HELP = (
    ("q", "quit"),
    ("p", "pause or resume the screen; counting continues"),
    ("/", "filter by a part of a name or address; Esc removes it"),
    ("s  r", "sort by the next column; the other way round"),
    ("Up Down PgUp PgDn", "choose a row; Home and End: the first, the last"),
    ("Enter Right", "open it: a topic, its producer or consumer, its connection"),
    ("Esc Left", "go back"),
    ("Tab  1 to 9", "topics, producers, consumers, connections, requests, and what else there is"),
    ("f", "findings, with their whole text and what to try"),
    ("?", "this help"),
)


class Action(Enum):
    """Effect of a key other than a new picture."""

    NONE = auto()
    QUIT = auto()


class ChosenView(msgspec.Struct):
    """A view, and the choices made in it."""

    view: str
    name: str | None = None
    """Topic or connection that it is about."""
    chosen: tuple[Any, ...] | None = None
    """Identity of the chosen row; None for the first."""
    at: int = 0
    """Position of the chosen row, used when the row is gone."""
    first: int = 0
    """Position of the first row shown."""
    column: int | None = None
    """Column by which rows are sorted; None: in their original order."""
    reverse: bool = False
    pattern: str = ""
    tables: Columns = msgspec.field(default_factory=lambda: COLUMNS)
    """Columns of all views."""

    @property
    def columns(self) -> tuple[ReportColumn, ...]:
        """Columns of its view."""
        return self.tables[self.view]

    @property
    def sort_column(self) -> ReportColumn | None:
        """The column by which rows are sorted."""
        return None if self.column is None else self.columns[self.column]

    def position(self, rows: Sequence[ReportRecord]) -> int:
        """Return the current position of the chosen row."""
        if self.chosen is not None:
            for at, row in enumerate(rows):
                if identity(self.view, row, self.tables) == self.chosen:
                    self.at = at
                    return at
        self.at = max(min(self.at, len(rows) - 1), 0)
        return self.at

    def choose(self, rows: Sequence[ReportRecord], at: int) -> None:
        """Choose the row at a position, or the nearest."""
        self.at = max(min(at, len(rows) - 1), 0)
        self.chosen = identity(self.view, rows[self.at], self.tables) if rows and self.at else None

    def scroll(self, room: int, count: int) -> int:
        """Return the position of the first of `room` rows to show, so that the chosen row is among them."""
        self.first = max(min(self.first, self.at, count - room), self.at - room + 1, 0)
        return self.first


class TopState:
    """The state of the screen."""

    def __init__(self, tables: Iterable[ReportTable] = ()) -> None:
        """Take the tables of protocols that have views of their own."""
        columns = columns_with(tables)
        self.views = {view: ChosenView(view, tables=columns) for view in (*VIEWS, *(name for name in columns if name not in COLUMNS))}
        self.places = [self.views["topics"]]
        """The open views; the last is shown, Esc leads back."""
        self.typing: str | None = None
        """Filter while it is typed."""
        self.paused = False
        self.helping = False
        self.page = 10
        """Rows of the table in the latest picture."""

    @property
    def place(self) -> ChosenView:
        """The place that is shown."""
        return self.places[-1]

    def press(self, key: str, rows: Sequence[ReportRecord]) -> Action:
        """Act on a key: a character, or a name such as up. `rows` are those of the current place, as shown."""
        if self.typing is not None:
            self._type(key)
        elif self.helping and key != "q":
            self.helping = False
        elif key == "q":
            return Action.QUIT
        elif key == "?":
            self.helping = True
        elif key == "p":
            self.paused = not self.paused
        elif key == "/":
            self.typing = self.place.pattern
        elif key in _STEPS or key in _PAGES:
            self.place.choose(rows, self.place.position(rows) + (_STEPS.get(key) or _PAGES[key] * self.page))
        elif key in {"home", "end"}:
            self.place.choose(rows, 0 if key == "home" else len(rows) - 1)
        elif key in {"enter", "right", "l"}:
            self._open(rows)
        elif key in {"escape", "left", "backspace", "h"}:
            self._back()
        elif key in {"s", "r"}:
            self._sort(key)
        elif key == "f":
            self._findings()
        elif key == "tab" or key in DIGITS[: len(self.views)]:
            views = [*self.views.values()]
            at = DIGITS.index(key) if key in DIGITS else (views.index(self.places[0]) + 1) % len(views)
            self.places = [views[at]]
        return Action.NONE

    def _type(self, key: str) -> None:
        text = self.typing or ""
        if key in {"enter", "escape"}:
            self.typing = None
            self.place.pattern = text if key == "enter" else ""
            return
        if key == "backspace":
            text = text[:-1]
        elif key == "ctrl-u":
            text = ""
        elif len(key) == 1 and len(text) < FILTER_CHARACTERS_MAX:
            text += key
        self.typing = self.place.pattern = text

    def _open(self, rows: Sequence[ReportRecord]) -> None:
        """Open the subject of the chosen row."""
        if not rows:
            return
        place = self.place
        row = rows[place.position(rows)]
        if place.view not in {"connection", "requests"} and row.get("connection"):
            self.places.append(ChosenView("connection", row["connection"]))
        elif place.view in self.views and row.get("topic"):
            self.places.append(ChosenView("topic", row["topic"]))

    def _back(self) -> None:
        """Remove the filter of the view, or return to the previous view."""
        if len(self.places) > 1:
            self.places.pop()
        else:
            self.place.pattern = ""

    def _sort(self, key: str) -> None:
        place = self.place
        if key == "r":
            place.reverse = not place.reverse
            return
        following = 0 if place.column is None else place.column + 1
        place.column = following if following < len(place.columns) else None
        place.reverse = False

    def _findings(self) -> None:
        if self.place.view == "findings":
            self.places.pop()
        else:
            self.places = [place for place in self.places if place.view != "findings"]
            self.places.append(ChosenView("findings"))


_STEPS = {"up": -1, "k": -1, "down": 1, "j": 1}
_PAGES = {"page-up": -1, "page-down": 1}
DIGITS = "123456789"
