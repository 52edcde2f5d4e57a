"""Consumers that subscribe to topics by a pattern: one that matches no topic of its namespace gets nothing."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from pulsarscope.dissect.contract.rules import ConnectionRule, Handlers, RuleContext, Where, name_of, where_of
from pulsarscope.model.bounded_tables import remember
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.flow import SERVER
from pulsarscope.model.records import ConnectionRow, FrameRow
from pulsarscope.model.text import duration, plural
from pulsarscope.model.thresholds import in_seconds
from pulsarscope.protocols.pulsar.rules.evidence import may_lack
from pulsarscope.protocols.pulsar.topics import bounded_name

CODES = table(
    SESSION.note(
        "pattern-without-topics",
        "A consumer subscribes to the topics that match a pattern, but no topic does.",
        "Compare the pattern with the names of the topics (pulsar-admin topics list). The consumer gets nothing until a topic with such a "
        "name is created.",
    ),
)

THRESHOLDS = (
    in_seconds(
        "pattern-without-topics-seconds",
        20,
        "Time without a matching topic; topics may appear soon after their consumer.",
        "pattern-without-topics",
    ),
)

PATTERNS_MAX = 1_000
"""Most patterns of a connection, and most requests without an answer."""

_NO_TOPICS = "00000000"
"""Hash of an empty list of topics (PIP-145)."""


Pattern = tuple[str | None, str]
"""Namespace and pattern."""

_NO_PATTERN: Pattern = None, ""


class Unmatched(msgspec.Struct):
    """A pattern whose answers so far contain no topic."""

    first: Where
    answers: int = 0
    latest: str = ""
    until: int = 0
    """Time of the latest answer, or at which its latest watcher was closed, in nanoseconds."""
    matched: bool = False


class PatternRule(ConnectionRule):
    """A rule about the patterns that brokers match for the clients of a connection."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._asked: dict[str, Pattern] = {}
        """Pattern by frame name of the request."""
        self._patterns: dict[Pattern, Unmatched] = {}
        self._watchers: dict[int, Pattern] = {}
        """Pattern by id of an open watcher: the broker tells it of new topics, while other answers soon say nothing any more."""

    def _ask(self, row: FrameRow) -> None:
        fields = row.fields or {}
        if (text := bounded_name(fields.get("topics_pattern"))) is not None:
            asked = bounded_name(fields.get("namespace")), text
            remember(self._asked, name_of(row), asked, PATTERNS_MAX)
            if asked not in self._patterns:
                remember(self._patterns, asked, Unmatched(where_of(row)), PATTERNS_MAX)

    def _answer(self, row: FrameRow) -> None:
        fields = row.fields or {}
        asked = self._asked.pop(row.request or "", _NO_PATTERN)
        if (pattern := self._patterns.get(asked)) is None:
            return
        if row.command == "WATCH_TOPIC_LIST_SUCCESS":
            remember(self._watchers, fields.get("watcher_id", -1), asked, PATTERNS_MAX)
        names = fields.get("topics") or fields.get("topic")
        pattern.matched |= bool(names) or fields.get("topics_hash") != _NO_TOPICS  # an unchanged list is not sent again
        pattern.answers += 1
        pattern.latest, pattern.until = name_of(row), row.time

    def _update(self, row: FrameRow) -> None:
        fields = row.fields or {}
        if (pattern := self._patterns.get(self._watchers.get(fields.get("watcher_id", -1), _NO_PATTERN))) is not None:
            pattern.matched |= bool(fields.get("new_topics"))

    def _close(self, row: FrameRow) -> None:
        watched = self._watchers.pop((row.fields or {}).get("watcher_id", -1), _NO_PATTERN)
        if (pattern := self._patterns.get(watched)) is not None:
            pattern.until = row.time

    def end(self, row: ConnectionRow, last: Where) -> None:  # noqa: ARG002 - the contract's
        """Report the patterns that matched nothing."""
        watched = {*self._watchers.values()}
        for asked, pattern in self._patterns.items():
            namespace, text = asked
            until = row.end if asked in watched else pattern.until
            span = until - pattern.first.time
            if pattern.matched or not pattern.answers or span < self._context.thresholds.ns("pattern-without-topics-seconds"):
                continue
            if may_lack(self._context, pattern.first.time, until, SERVER):
                continue
            sentence = f"For {duration(span)}, no topic of {namespace} matched the pattern {text} of {self._context.client}, according to "
            evidence = {
                "frames": [pattern.first.name, pattern.latest],
                "pattern": text,
                "namespace": namespace,
                "answers": pattern.answers,
                "span_ns": span,
                **self._context.thresholds.evidence("pattern-without-topics-seconds"),
            }
            self._context.report(
                "pattern-without-topics", pattern.first, f"{sentence}{plural(pattern.answers, 'answer')} of the broker.", evidence
            )

    passive = frozenset({_answer, _update, _close})
    frames: ClassVar[Handlers] = {
        "GET_TOPICS_OF_NAMESPACE": _ask,
        "WATCH_TOPIC_LIST": _ask,
        "GET_TOPICS_OF_NAMESPACE_RESPONSE": _answer,
        "WATCH_TOPIC_LIST_SUCCESS": _answer,
        "WATCH_TOPIC_UPDATE": _update,
        "WATCH_TOPIC_LIST_CLOSE": _close,
    }
