"""What `follow` selects: the frames of one connection, producer, consumer, topic, message or transaction."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pulsarscope.dissect.capabilities import FollowTest, TopicNames, join_topic_names
from pulsarscope.dissect.contract import Dissector
from pulsarscope.filter.selection import TOLD_LAYER, Filter
from pulsarscope.model.errors import UsageError
from pulsarscope.model.limits import PENDING_REQUESTS_MAX, STORY_REQUESTS_MAX
from pulsarscope.model.records import FindingRow, FrameRow, RawFrame

KINDS = ("connection", "producer", "consumer", "topic", "message", "txn")
"""What can be followed."""

Place = tuple[int | None, int | None, int | None]


class Story:
    """Chooses rows as a `Filter` does. What a frame is about is told by its columns, and beyond them by the dissectors.

    A request comes along with the answer that belongs to the story, and an answer with its request: a SEND gets its message id only with
    the receipt, and a producer may get its name only with PRODUCER_SUCCESS.
    """

    def __init__(self, kind: str, name: str, dissectors: Iterable[Dissector]) -> None:
        """`kind` is one of KINDS.

        Raises:
            UsageError: no such thing can be named so, in any protocol.
        """
        self.words = f"belong to {kind} {name}"
        self.payload: str | None = None
        """Frames have none."""
        self.start: int | None = None
        """Time of the first frame that belongs to it."""
        self.seen = {FrameRow.kind: 0}
        self.kept = {FrameRow.kind: 0}
        dissectors = tuple(dissectors)
        column = _column_test(kind, name, join_topic_names(dissector.topics for dissector in dissectors))
        self._tests = [] if column is None else [column]
        refusal = UsageError(f"no protocol here knows what a {kind} is")
        for make in [one.follow_kinds[kind] for one in reversed(dissectors) if kind in one.follow_kinds]:
            try:
                self._tests.append(make(name))
            except UsageError as error:
                refusal = error  # protocols name things each in its own way
        if not self._tests:
            raise refusal
        self._requests: dict[str, FrameRow] = {}
        """Frames of earlier batches that an answer may bring along, by name."""
        self._asked: dict[str, None] = {}
        """Frames of the story, by name."""

    def select(self, rows: Sequence[Any], endpoints: Mapping[str, tuple[str, str]]) -> list[Any]:
        """As `Filter.select`."""
        del endpoints
        early: list[FrameRow] = []
        chosen: set[int] = set()
        others: dict[str, int] = {}
        for index, row in enumerate(rows):
            if not isinstance(row, FrameRow):
                continue
            self.seen[row.kind] += 1
            name = f"{row.file}:{row.packet}.{row.sub}"
            request = row.request
            if any(test(row) for test in self._tests) or (request is not None and request in self._asked):
                chosen.add(index)
                self._ask(name)
                if request is not None and request not in self._asked:
                    self._ask(request)
                    if request in others:
                        chosen.add(others[request])
                    elif request in self._requests:
                        early.append(self._requests.pop(request))
            elif request is None:
                others[name] = index
            else:
                self._requests.pop(request, None)
        self._remember((name, rows[index]) for name, index in others.items() if index not in chosen)
        passed = [*early, *self._with_others(rows, chosen)]
        count = len(early) + len(chosen)
        self.kept[FrameRow.kind] += count
        if self.start is None and count:
            self.start = next(row.time for row in passed if isinstance(row, FrameRow))
        return passed

    def _with_others(self, rows: Sequence[Any], chosen: set[int]) -> list[Any]:
        """The chosen frames, findings about them or about the input itself, and connections, which outputs introduce."""
        places: set[Place] = {(rows[index].file, rows[index].packet, rows[index].sub) for index in chosen}
        passed = []
        for index, row in enumerate(rows):
            if isinstance(row, (FrameRow, RawFrame)):
                if index in chosen:
                    passed.append(row)
            elif type(row) is not FindingRow or row.layer == TOLD_LAYER or (row.file, row.packet, row.sub) in places:
                passed.append(row)
        return passed

    def _ask(self, name: str) -> None:
        self._asked[name] = None
        if len(self._asked) > PENDING_REQUESTS_MAX:
            del self._asked[next(iter(self._asked))]

    def _remember(self, frames: Iterable[tuple[str, FrameRow]]) -> None:
        self._requests.update(frames)
        for name in list(self._requests)[: max(len(self._requests) - STORY_REQUESTS_MAX, 0)]:
            del self._requests[name]


def _column_test(kind: str, name: str, topics: TopicNames) -> FollowTest | None:
    """What the columns of a frame can tell."""
    if kind == "connection":
        full = name if ":" in name else f"0:{name}"
        if not re.fullmatch(r"\d+:\d+", full, re.ASCII):
            message = f'"{name}" is no connection: give the number of its first packet, as in 17, or FILE:PACKET, as in 0:17'
            raise UsageError(message)
        return lambda row: row.connection == full
    if kind == "producer":
        return lambda row: row.producer_name == name
    if kind == "consumer":
        return lambda row: row.subscription == name
    if kind == "topic":
        wanted = topics.short(name)
        return lambda row: (
            row.topic is not None and (row.topic == name or wanted in ((short := topics.short(row.topic)), topics.base(short)))
        )
    return None


class Narrowed:
    """The rows of a story that a filter chooses, too."""

    def __init__(self, story: Story, chosen: Filter) -> None:
        self.words = f"{story.words} and match the filter"
        self.payload = story.payload
        self.seen, self.kept = story.seen, chosen.kept
        self._story = story
        self._chosen = chosen

    @property
    def start(self) -> int | None:
        """Time of the first frame of the story."""
        return self._story.start

    def select(self, rows: Sequence[Any], endpoints: Mapping[str, tuple[str, str]]) -> list[Any]:
        """As `Filter.select`."""
        return self._chosen.select(self._story.select(rows, endpoints), endpoints)
