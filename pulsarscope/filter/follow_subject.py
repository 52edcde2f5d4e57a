"""Subjects that columns of frames name (connections, producers, subscriptions and topics), and their names in a capture."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from pulsarscope.dissect.contract.capabilities import FollowTest, TopicNames
from pulsarscope.model.connection_name import connection_label, connection_name
from pulsarscope.model.errors import UsageError
from pulsarscope.model.limits import FOLLOW_NAMES_MAX
from pulsarscope.model.records import FrameRow
from pulsarscope.model.text import similar_hint

SHOWN_NAMES_MAX = 10

_COLUMNS = {"topic": "topic", "connection": "connection", "producer": "producer_name", "consumer": "subscription"}

_PLURALS = {"connection": "connections", "producer": "producers", "consumer": "subscriptions", "topic": "topics"}


class Subject:
    """The subject of this kind and name: the test of its frames, and the names of all other subjects of its kind."""

    def __init__(self, kind: str, name: str, topics: TopicNames) -> None:
        """Begin. Raises UsageError for an invalid name of a connection."""
        self._kind = kind
        self._name = name
        self._topics = topics
        self._names: dict[str, None] = {}
        """Names of its kind so far, at most `FOLLOW_NAMES_MAX`."""
        self._connection: str | None = None
        """Name of the followed connection."""
        self._found: str | None = None
        """Topic whose last part alone is the name; None as long as there is none."""
        self.in_full = False
        """True when a topic was found by its full or short name: other topics no longer pass because of their last part."""
        self._answers: dict[str, bool] = {}
        """Topics tested since then, at most `FOLLOW_NAMES_MAX`: True for the one that is followed."""
        self.test: FollowTest | None = {
            "connection": lambda row: row.connection == self._connection,
            "producer": lambda row: row.producer_name == name,
            "consumer": lambda row: row.subscription == name,
            "topic": lambda row: any(map(self._is_topic, row.topics or ())) if row.topic is None else self._is_topic(row.topic),
        }.get(kind)
        """Test of the columns of a frame; None if no column names a subject of this kind."""
        if kind == "connection":
            self._connection = connection_name(name)
            if self._connection is None:
                raise UsageError(
                    f'invalid connection "{name}": give its first packet, as in #17 or 17; #1:17 is that of packet 17 of file 1'
                )

    def introduce(self, rows: Sequence[Any]) -> None:
        """Learn the names in rows."""
        if self.test is None or len(self._names) >= FOLLOW_NAMES_MAX:
            return
        frames = [row for row in rows if isinstance(row, FrameRow)]
        column = attrgetter(_COLUMNS[self._kind])
        if self._names.keys() >= set(map(column, frames)):  # as is nearly always the case
            return
        for row in frames:
            self._learn(row)

    def _learn(self, row: FrameRow) -> None:
        """Learn the names in a row."""
        if len(self._names) >= FOLLOW_NAMES_MAX:
            return
        if self._kind == "topic":
            if row.topic is not None:
                self._names[row.topic] = None
            elif row.topics:
                self._names.update(dict.fromkeys(row.topics))
        elif (name := getattr(row, _COLUMNS[self._kind])) is not None:
            self._names[name] = None

    def _is_topic(self, topic: str) -> bool:
        """Return True for the topic, or its partitioned topic, by its full or short name, or else by its last part.

        Raises UsageError when several topics have the same last part.
        """
        if (answer := self._answers.get(topic)) is None:
            in_full = self.in_full
            answer = self._test_topic(topic)
            if in_full != self.in_full or len(self._answers) >= FOLLOW_NAMES_MAX:
                self._answers.clear()
            self._answers[topic] = answer
        return answer

    def _test_topic(self, topic: str) -> bool:
        topics, name = self._topics, self._name
        row_name = topics.short(topic)
        base = topics.base(row_name)
        if topic == name or topics.short(name) in (row_name, base):
            self.in_full = True
            return True
        if self.in_full or "/" in name or name not in (base.rpartition("/")[2], row_name.rpartition("/")[2]):
            return False
        self._found = self._found or base
        if self._found != base:
            raise UsageError(f"several topics are called {name}: give one in full, {self._found} or {base}")
        return True

    def others(self) -> str:
        """Return the end of a sentence that lists the existing subjects of its kind."""
        if self._kind not in _PLURALS:
            return ""
        names = sorted(self._topics.short(name) if self._kind == "topic" else name for name in self._names)
        if self._kind == "connection":
            several = any(not name.startswith("0:") for name in names)
            names = [connection_label(name, several_files=several) for name in self._names]
        more = f" and {len(names) - SHOWN_NAMES_MAX:,} more" if len(names) > SHOWN_NAMES_MAX else ""
        kinds = _PLURALS[self._kind]
        if len(names) == 1:
            return f": the only {kinds.removesuffix('s')} is {names[0]}"
        if not names:
            return f": there are no {kinds}"
        hint = "" if self._kind == "connection" else similar_hint(self._name, names)
        return hint or f": the {kinds} are {', '.join(names[:SHOWN_NAMES_MAX])}{more}"
