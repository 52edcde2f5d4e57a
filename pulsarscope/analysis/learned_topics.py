"""Names of topics that some connections do not know, learned from those that do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from pulsarscope.model.limits import STATISTICS_NAMES_MAX
from pulsarscope.model.records import ExchangeRow, FrameRow, MessageRow


class LearnedTopics:
    """A stage for all rows of a live run: what stands for a topic becomes its name as soon as any connection names it."""

    def __init__(self, stood_in: Callable[[FrameRow], str | None]) -> None:
        """`stood_in` is that of `dissect.contract.capabilities.TopicNames`."""
        self._stood_in = stood_in
        self._names: dict[str, str] = {}

    def name_of(self, topic: str) -> str:
        """Return the name of what stands for a topic, as far as it is known; any other topic itself."""
        return self._names.get(topic, topic)

    def named(self, rows: Iterable[Any]) -> list[Any]:
        """Return the rows with the names that are known, copies where they had others."""
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
            self._names[stood_in] = stood_in  # of two clusters: it names neither
