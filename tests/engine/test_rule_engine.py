"""Rules are made when they are needed and let go with their connection; a bound that may have changed a verdict is said."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from pulsarscope.analysis import Closed, RuleEngine
from pulsarscope.dissect.rules import ConnectionRule, Fact, Handlers, KeyRule, ReportFinding, RuleContext, Rules, Where, where_of
from pulsarscope.engine import facts
from pulsarscope.model.limits import FACTS_MAX_BYTES
from pulsarscope.model.records import ConnectionRow, FrameRow

MADE: list[str] = []


class Named(ConnectionRule):
    """Tells each SEND under the topic of it."""

    def __init__(self, context: RuleContext) -> None:
        MADE.append("named")
        self._context = context

    def _send(self, row: FrameRow) -> None:
        self._context.emit_fact("topics", row.topic or "", where_of(row), "sent", {})

    frames: ClassVar[Handlers] = {"SEND": _send}


class Other(ConnectionRule):
    """Wants what no other rule names, and is asked at the end."""

    def __init__(self, context: RuleContext) -> None:
        MADE.append("other")
        self._context = context
        self.seen: list[str | None] = []

    def _any(self, row: FrameRow) -> None:
        self.seen.append(row.command)

    def end(self, row: ConnectionRow, last: Where) -> None:  # noqa: ARG002 - the contract's
        MADE.append(f"other ends with {self.seen} at {last.packet}")

    frames: ClassVar[Handlers] = {"*": _any, "PING": lambda _rule, _row: None}


def nothing(_key: str, _facts: Sequence[Fact], _say: ReportFinding) -> None:
    """No verdict."""


def doctor_of() -> RuleEngine:
    MADE.clear()
    rules = Rules({}, (Named, Other), (KeyRule("topics", 1, nothing),))
    return RuleEngine({"d": rules}, {f"0:{number}": ("a:1", "b:2") for number in range(1, 100)}, {f"0:{n}": "d" for n in range(1, 100)})


def frame(packet: int, command: str, topic: str = "t", connection: str = "0:1") -> FrameRow:
    return FrameRow(None, 0, packet, 1, packet, connection, command=command, topic=topic)


def closed(connection: str = "0:1") -> Closed:
    return Closed(ConnectionRow(None, 0, 1, None, 0, connection, end=9))


def test_a_rule_is_made_with_the_first_row_that_it_handles_or_at_the_end() -> None:
    rule_engine = doctor_of()
    rule_engine.feed([frame(1, "PING")])
    assert MADE == ["other"]
    rule_engine.feed([frame(2, "UNKNOWN_77"), frame(3, "PING")])
    assert MADE == ["other"]
    rule_engine.feed([frame(4, "SEND"), frame(5, "SEND")])
    assert MADE == ["other", "named"]
    rule_engine.feed([closed()])
    assert MADE == ["other", "named", "other ends with ['UNKNOWN_77', 'SEND', 'SEND'] at 5"]
    rule_engine.feed([frame(6, "SEND", connection="0:2"), closed("0:2")])
    assert MADE[3:] == ["named", "other", "other ends with ['SEND'] at 6"]


def test_a_connection_that_has_ended_leaves_nothing_to_the_collector() -> None:
    rule_engine = doctor_of()
    rule_engine.feed([frame(1, "SEND")])
    gc.collect()
    gc.disable()
    try:
        for number in range(1, 50):
            rule_engine.feed([frame(number, "SEND", connection=f"0:{number}"), closed(f"0:{number}")])
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_a_bound_that_may_have_changed_a_verdict_is_said_once_with_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "FACTS_MAX_BYTES", 2_000)
    rule_engine = doctor_of()
    found: list[Any] = []
    for number in range(60):
        found += rule_engine.feed([frame(number, "SEND", topic=f"t{number % 20}")])
    assert not found
    (cap,) = rule_engine.finish()
    assert (cap.code, cap.severity, cap.connection) == ("memory-cap", "warning", None)
    assert cap.evidence == {"judged_early": {"topics": 40}, "unknown": 0, "bytes": FACTS_MAX_BYTES}
    assert (cap.text or "").startswith("40 stories told across connections were judged before their end (topics 40): what waits")


def test_a_bound_that_changed_no_verdict_is_not_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "FACTS_MAX_BYTES", 2_000)
    rule_engine = doctor_of()
    for number in range(60):
        rule_engine.feed([frame(number, "SEND", topic=f"t{number}")])
    assert rule_engine.finish() == []
