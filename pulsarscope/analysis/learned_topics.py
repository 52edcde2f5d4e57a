"""Topic names that are unknown on some connections, learned from others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from pulsarscope.model.limits import STATISTICS_NAMES_MAX
from pulsarscope.model.records import ExchangeRow, FrameRow, MessageRow


class LearnedTopics:
    """A stage for all rows of a live run: placeholders of topics are replaced by names as soon as any connection shows them."""

    def __init__(self, stood_in: Callable[[FrameRow], str | None]) -> None:
        """Take the function `stood_in` of `dissect.contract.capabilities.TopicNames`."""
        self._stood_in = stood_in
        self._names: dict[str, str] = {}

    def name_of(self, topic: str) -> str:
        """Return the name that a placeholder stands for, if it is known; any other topic itself."""
        return self._names.get(topic, topic)

    def named(self, rows: Iterable[Any]) -> list[Any]:
        """Return the rows with known names; rows that change are copied."""
        names = self._names
        out = []
        for row in rows:
            kind = type(row)
            if kind is FrameRow and row.topic is not None and (stood_in := self._stood_in(row)) is not None:
                self._learn(stood_in, row.topic)
            elif names and (kind is FrameRow or kind is ExchangeRow or kind is MessageRow) and row.topic in names:
                row = msgspec.structs.replace(row, topic=names[row.topic])  # noqa: PLW2901 - the one to give
            out.append(row)
        return out

    def _learn(self, stood_in: str, topic: str) -> None:
        known = self._names.get(stood_in)
        if known is None:
            if len(self._names) < STATISTICS_NAMES_MAX:
                self._names[stood_in] = topic
        elif known != topic:
            self._names[stood_in] = stood_in  # of two clusters: names neither
