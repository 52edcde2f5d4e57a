"""Lines of ordered rows (`model.ordered_rows`): most are written by the compiled reader, those between them by Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pulsarscope.model.records import FrameRow


def write_ordered(
    ordered: Any, compiled: Callable[[int], int], of_rows: Callable[[list[Any]], None], note_last: Callable[[FrameRow], None]
) -> None:
    """Write rows in their order.

    `compiled` writes rows from a place on, and returns the place of the row that it leaves to Python; `of_rows` writes rows. `note_last`
    gets the last row that `compiled` wrote, before anything else is written.
    """
    place, size, in_columns = 0, len(ordered), False
    while place < size:
        rows = ordered.of_python(place)
        if not rows:
            behind = compiled(place)
            if behind > place:
                place, in_columns = behind, True
                continue
            rows = [ordered.row(place)]
        if in_columns:
            note_last(ordered.row(place - 1))
        of_rows(rows)
        place, in_columns = place + len(rows), False
    if in_columns:
        note_last(ordered.row(place - 1))
