"""Numbers of connections, which are the same whatever a filter selects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pulsarscope.model.findings import NOTE
from pulsarscope.model.limits import FOLLOW_NAMES_MAX
from pulsarscope.model.records import FindingRow, FrameRow


class ConnectionNumbers:
    """Numbers as `decode` gives them without a filter: in the order of the first frames or warnings."""

    def __init__(self) -> None:
        self.count = 0
        self._numbers: dict[str, int] = {}
        """By name, of the latest connections."""

    def introduce(self, rows: Iterable[Any]) -> None:
        """Give numbers to the connections of rows that no filter has seen."""
        numbers = self._numbers
        for row in rows:
            if isinstance(row, FrameRow) or (isinstance(row, FindingRow) and row.severity != NOTE and row.packet is not None):
                name = row.connection
                if name is not None and name not in numbers:
                    self.count = numbers[name] = self.count + 1
                    if len(numbers) > FOLLOW_NAMES_MAX:
                        del numbers[next(iter(numbers))]

    def of(self, name: str) -> int | None:
        """Return the number of a connection; None when it has not come, or long ago."""
        return self._numbers.get(name)
