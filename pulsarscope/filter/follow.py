"""The filter of `follow`: the frames of one connection, producer, consumer, topic, message or transaction."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

from pulsarscope.dissect.contract.capabilities import FOLLOW_SUBJECTS, FollowTest, MessageTest
from pulsarscope.dissect.contract.dissector import Dissector
from pulsarscope.dissect.plugins.isolation import PluginWarning, contained, failure
from pulsarscope.dissect.plugins.topic_names import join_topic_names
from pulsarscope.filter.follow_subject import Subject
from pulsarscope.filter.selection import INPUT_LAYER, Filter, Timed
from pulsarscope.model.bounded_tables import drop_oldest, remember
from pulsarscope.model.errors import UsageError
from pulsarscope.model.frame_name import frame_name
from pulsarscope.model.limits import FOLLOW_NAMES_MAX, FOLLOW_REQUESTS_MAX, PENDING_REQUESTS_MAX
from pulsarscope.model.ordered_rows import as_ordered, in_columns, in_rows
from pulsarscope.model.platform import load_native
from pulsarscope.model.records import FindingRow, FrameRow, MessageRow, RawFrame, Row

FramePlace = tuple[int | None, int | None, int | None]
"""File, packet and sub."""


class FollowFilter:
    """A filter, used like `Filter`, for the frames of one subject: by their columns, and otherwise by tests of the dissectors.

    A request passes with its answer, and an answer with its request: a SEND gets its message id only with the receipt, and a producer may
    get its name only with PRODUCER_SUCCESS.
    """

    def __init__(self, kind: str, name: str, dissectors: Iterable[Dissector]) -> None:
        """Follow the subject of a kind (connection, topic, message …) and name. Raises UsageError if no protocol has such a subject."""
        self.description = f"belong to {kind} {name}"
        """End of a sentence about the rows that pass."""
        self.payload: str | None = None
        """Payload form that message rows need: none, since only frames pass."""
        self.seen = {FrameRow.kind: 0}
        self.kept = {FrameRow.kind: 0}
        dissectors = tuple(dissectors)
        self._kind, self._name, self._topics = kind, name, join_topic_names(dissectors)
        self._subject = Subject(kind, name, self._topics)
        self._tests = [] if self._subject.test is None else [self._subject.test]
        self._message_tests: list[tuple[Dissector, MessageTest]] = []
        refusals: dict[str, str] = {}  # each protocol has its own form of names
        for dissector in dissectors:
            try:
                test = contained(dissector, "follow_kinds", _test_of, None, dissector, kind, name)
            except UsageError as error:
                refusals[dissector.name] = str(error)
                continue
            if test is None:
                continue
            if callable(test):
                self._tests.append(partial(_contained_test, dissector, test))
            else:
                self._message_tests.append((dissector, test))
        if not (self._tests or self._message_tests):
            raise UsageError(_refusal(refusals) or f"unknown to every protocol: {kind}")
        self._unanswered: dict[str, FrameRow] = {}
        """Frames of earlier batches that did not pass, by name: their answers may pass."""
        self._passed: dict[str, None] = {}
        """Names of the latest frames that passed."""
        self._carriers: dict[str, None] = {}
        """Names of frames that carried a followed message, according to another run."""
        self.learn = self._learn if self._message_tests else None
        """Takes the message rows of another run of the same capture, if they must be known first; `select` then needs them as well."""
        native = None if self.subject_column() is None else load_native()[0]
        self._followed: Any = None if native is None else native.Followed(PENDING_REQUESTS_MAX, FOLLOW_REQUESTS_MAX)
        """State of the compiled reader about frames, instead of `_passed` and `_unanswered`."""

    def begin(self, run: Timed) -> None:
        """Do nothing: no subject is a time."""

    def _learn(self, rows: Iterable[Any]) -> None:
        for dissector, test, row in self._tested(rows):
            if contained(dissector, "follow_kinds", test.learn, False, row) and len(self._carriers) < FOLLOW_NAMES_MAX:
                self._carriers[frame_name(row.file, row.packet, row.sub)] = None

    def select(self, rows: Sequence[Any], endpoints: Mapping[str, tuple[str, str]]) -> list[Any]:
        """Return the rows that pass, like `Filter.select`."""
        del endpoints
        if self._followed is not None:
            selected = self._select_columns(as_ordered(rows))
            return selected if in_columns(rows) else in_rows(selected)
        rows = in_rows(rows)
        self._subject.introduce(rows)
        return self._selected(rows)

    def _select_columns(self, ordered: Any) -> list[Any]:
        """Do the same as `_selected`: the compiled reader selects in ordered rows, and asks once for each connection or topic."""
        places, earlier, seen = self._followed.select(ordered, self._kind == "connection", FrameRow, self._ask)
        self.seen[FrameRow.kind] += seen
        self.kept[FrameRow.kind] += len(earlier) + len(places)
        placed = ordered.placed()
        if others := [(place, row) for place, row in placed if not isinstance(row, (FrameRow, RawFrame, MessageRow))]:
            frames: Collection[FramePlace] = ()
            if FindingRow in {type(row) for _, row in others}:
                selected = {*places}
                rows = (row for place, row in placed if place in selected)
                frames = ordered.names_at(places) | {(row.file, row.packet, row.sub) for row in rows}
            places = sorted([*places, *(place for place, row in others if _explains(row, frames))])
        chosen = ordered.chosen(places, earlier)
        return [chosen] if len(chosen) else []

    def _ask(self, row: FrameRow) -> tuple[bool, bool]:
        """Return whether a frame belongs to the subject, and a value that changes when earlier answers no longer hold."""
        self._subject.introduce((row,))
        return any(test(row) for test in self._tests), self._subject.in_full

    def _selected(self, rows: Sequence[Any]) -> list[Any]:
        """Return the rows that pass."""
        carriers = self._carriers | self._carriers_in(rows) if self._message_tests else self._carriers
        earlier: list[FrameRow] = []
        selected: set[int] = set()
        others: dict[str, int] = {}
        tests, already = self._tests, self._passed
        seen = 0
        for index, row in enumerate(rows):
            if not isinstance(row, FrameRow):
                continue
            seen += 1
            name = f"{row.file}:{row.packet}.{row.sub}"  # as `frame_name`, without the call
            request = row.request
            passes = name in carriers
            if not passes:
                for test in tests:
                    if passes := test(row):
                        break
            if passes or (request is not None and request in already):
                selected.add(index)
                already[name] = None
                if len(already) > PENDING_REQUESTS_MAX:
                    drop_oldest(already, PENDING_REQUESTS_MAX)
                if request is not None and request not in already:
                    remember(already, request, None, PENDING_REQUESTS_MAX)
                    if (asked := others.get(request)) is not None:
                        selected.add(asked)
                    elif (frame := self._unanswered.pop(request, None)) is not None:
                        earlier.append(frame)
            elif request is None:
                others[name] = index
            elif others.pop(request, None) is None:
                self._unanswered.pop(request, None)
        self.seen[FrameRow.kind] += seen
        if self._message_tests:
            earlier += [frame for name in carriers if (frame := self._unanswered.pop(name, None)) is not None]
        unanswered = [(name, index) for name, index in others.items() if index not in selected][-FOLLOW_REQUESTS_MAX:]
        self._remember_unanswered((name, rows[index]) for name, index in unanswered)
        passed = [*earlier, *_with_explanations(rows, selected)]
        self.kept[FrameRow.kind] += len(earlier) + len(selected)
        return passed

    def subject_column(self) -> tuple[str, FollowTest] | None:
        """Return the column that alone determines the frames of the subject, and a test of it; None if more must be known."""
        if self._kind not in ("connection", "topic") or len(self._tests) != 1 or self._message_tests:
            return None
        fresh = Subject(self._kind, self._name, self._topics)
        return None if fresh.test is None else (self._kind, fresh.test)

    def absence(self) -> str | None:
        """Return a sentence about subjects that can be followed instead, if nothing has passed; else None."""
        if self.kept[FrameRow.kind]:
            return None
        others = self._subject.others()
        for dissector, test in self._message_tests:
            others = others or contained(dissector, "follow_kinds", test.others, "")
        return f"there is no {self._kind} {self._name}{others}"

    def _carriers_in(self, rows: Sequence[Any]) -> dict[str, None]:
        """Return the names of the frames that carried a followed message, according to message rows."""
        carriers = (
            frame_name(row.file, row.packet, row.sub)
            for dissector, test, row in self._tested(rows)
            if contained(dissector, "follow_kinds", test.carries, False, row)
        )
        return dict.fromkeys(carriers)

    def _tested(self, rows: Iterable[Any]) -> Iterator[tuple[Dissector, MessageTest, MessageRow]]:
        """Yield the messages among rows, each with the tests of its dissector."""
        for dissector, test in self._message_tests:
            for row in rows:
                if type(row) is MessageRow and row.dissector == dissector.name:
                    yield dissector, test, row

    def _remember_unanswered(self, frames: Iterable[tuple[str, FrameRow]]) -> None:
        self._unanswered.update(frames)
        for name in [*islice(self._unanswered, max(len(self._unanswered) - FOLLOW_REQUESTS_MAX, 0))]:
            del self._unanswered[name]


class JoinedFilter:
    """A filter for the rows that pass a `FollowFilter` and then a `Filter`."""

    def __init__(self, follow_filter: FollowFilter, display_filter: Filter) -> None:
        self.description = f"{follow_filter.description} and {display_filter.description}"
        self.learn = follow_filter.learn
        self.payload = follow_filter.payload
        self.seen, self.kept = follow_filter.seen, display_filter.kept
        self.first = follow_filter
        self._display_filter = display_filter

    def absence(self) -> str | None:
        """Return a sentence about subjects that can be followed instead, if the subject has no frame; else None."""
        return self.first.absence()

    def begin(self, run: Timed) -> None:
        """Make times without a date count from the first packet of a run."""
        self._display_filter.begin(run)

    def select(self, rows: Sequence[Any], endpoints: Mapping[str, tuple[str, str]]) -> list[Any]:
        """Return the rows that pass both."""
        return self._display_filter.select(self.first.select(rows, endpoints), endpoints)


def _refusal(refusals: Mapping[str, str]) -> str:
    """Return one sentence for the refusals of a name by each protocol: the first, and the differing forms of others."""
    sentence = ""
    for name, text in refusals.items():
        form = text.rpartition(": give ")[2]
        if not sentence:
            sentence = text
        elif form.partition(",")[0] not in sentence:
            sentence += f"; in {name}, {form}"
    return sentence


UserFilter = Filter | FollowFilter | JoinedFilter


def _with_explanations(rows: Sequence[Any], selected: set[int]) -> list[Any]:
    """Return the selected frames, the findings about them or about the input, and all connections, which outputs introduce."""
    frames: set[FramePlace] = set()
    if FindingRow in set(map(type, rows)):
        frames = {(row.file, row.packet, row.sub) for row in map(rows.__getitem__, selected)}
    passed = []
    for index, row in enumerate(rows):
        if isinstance(row, (FrameRow, RawFrame)):
            if index in selected:
                passed.append(row)
        elif type(row) is not MessageRow and _explains(row, frames):
            passed.append(row)
    return passed


def _explains(row: Row, frames: Collection[FramePlace]) -> bool:
    """Return False for a finding that is neither about the input nor about one of these frames."""
    return type(row) is not FindingRow or row.layer == INPUT_LAYER or (row.file, row.packet, row.sub) in frames


def _test_of(dissector: Dissector, kind: str, name: str) -> FollowTest | MessageTest | None:
    kinds = dissector.follow_kinds
    for unknown in sorted(kinds.keys() - set(FOLLOW_SUBJECTS)):
        reason = ValueError(f"unknown kind {unknown}: the kinds are {', '.join(FOLLOW_SUBJECTS)}")
        warnings.warn(failure(dissector, "follow_kinds", reason).text, PluginWarning, stacklevel=2)
    make = kinds.get(kind)
    return None if make is None else make(name)


def _contained_test(dissector: Dissector, test: FollowTest, row: FrameRow) -> bool:
    return contained(dissector, "follow_kinds", test, False, row)
