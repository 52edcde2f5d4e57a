"""Rules are made when they are needed and released with their connection; a bound that may have changed a verdict is reported."""

from __future__ import annotations

import gc
from array import array
from collections.abc import Sequence
from itertools import chain
from typing import Any, ClassVar

import pytest

from pulsarscope.dissect.contract.dissector_rules import Rules
from pulsarscope.dissect.contract.rules import ConnectionRule, Fact, Handlers, KeyRule, ReportFinding, RuleContext, Where, where_of
from pulsarscope.engine import facts
from pulsarscope.engine.column_rows import OrderedKeys
from pulsarscope.engine.ordering import REPORTED, RowKey
from pulsarscope.engine.parallel.channel import facts_in_order, pack_facts
from pulsarscope.engine.row_batch import Closed, KeyedFact, PackedFacts
from pulsarscope.engine.rule_engine import RuleEngine
from pulsarscope.model.findings import SESSION
from pulsarscope.model.records import ConnectionRow, FrameRow
from pulsarscope.model.thresholds import Threshold, Thresholds
from pulsarscope.protocols.pulsar.dissector import PulsarDissector
from tests.scenarios import rows
from tests.scenarios.both_readers import reader
from tests.scenarios.dialogue import dissector_with

MADE: list[str] = []


class Named(ConnectionRule):
    """A rule that emits a fact for each SEND, under its topic."""

    def __init__(self, context: RuleContext) -> None:
        MADE.append("named")
        self._context = context

    def _send(self, row: FrameRow) -> None:
        self._context.emit_fact("topics", row.topic or "", where_of(row), "sent", {})

    frames: ClassVar[Handlers] = {"SEND": _send}


class Other(ConnectionRule):
    """A rule for commands that no other rule names, called at the end."""

    def __init__(self, context: RuleContext) -> None:
        MADE.append("other")
        self._context = context
        self.seen: list[str | None] = []

    def _any(self, row: FrameRow) -> None:
        self.seen.append(row.command)

    def end(self, row: ConnectionRow, last: Where) -> None:  # noqa: ARG002 - the contract's
        MADE.append(f"other ends with {self.seen} at {last.packet}")

    frames: ClassVar[Handlers] = {"*": _any, "PING": lambda _rule, _row: None}


def nothing(_key: str, _facts: Sequence[Fact], _say: ReportFinding, _thresholds: Thresholds) -> None:
    """Report nothing."""


def engine_of() -> RuleEngine:
    MADE.clear()
    rules = Rules({}, (Named, Other), (KeyRule("topics", 1, nothing),))
    return RuleEngine(
        [dissector_with(rules, "d")], {f"0:{number}": ("a:1", "b:2") for number in range(1, 100)}, {f"0:{n}": "d" for n in range(1, 100)}
    )


def frame(packet: int, command: str, topic: str = "t", connection: str = "0:1") -> FrameRow:
    return FrameRow(None, 0, packet, 1, packet, connection, command=command, topic=topic)


def closed(connection: str = "0:1") -> Closed:
    return Closed(ConnectionRow(None, 0, 1, None, 0, connection, end=9))


def test_a_rule_is_made_with_the_first_row_that_it_handles_or_at_the_end() -> None:
    rule_engine = engine_of()
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


@pytest.mark.slow
def test_a_connection_that_has_ended_leaves_nothing_to_the_collector() -> None:
    rule_engine = engine_of()
    rule_engine.feed([frame(1, "SEND")])
    gc.collect()
    gc.disable()
    try:
        for number in range(1, 50):
            rule_engine.feed([frame(number, "SEND", connection=f"0:{number}"), closed(f"0:{number}")])
        assert gc.collect() == 0
    finally:
        gc.enable()


class OrderedFrames:
    """Ordered rows with the keys of some places."""

    def __init__(self, keys: list[RowKey]) -> None:
        self._keys = keys

    def keys(self, _index_of: dict[str, int], *, exchanges: bool) -> bytes:
        assert not exchanges
        return array("q", chain.from_iterable(self._keys)).tobytes()


@pytest.mark.parametrize("odd", [None, "\udc80", 1 << 70])
def test_facts_of_frames_in_columns_get_the_places_that_those_of_rows_get(odd: object) -> None:
    pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")
    places: list[RowKey] = [(1 << 40 | number // 3, number % 7) for number in range(100)]
    collected: dict[str, list[KeyedFact]] = {}
    for mode in ("off", "require"):
        facts: list[PackedFacts] = []
        dissector = dissector_with(Rules({}, (Named,), (KeyRule("topics", 10, nothing),)))
        engine = RuleEngine([dissector], {}, {}, collect=facts.append)
        for phase in (0, REPORTED):
            engine.phase = phase
            for row in (7, 199, 8, 8, 0):
                topic = odd if isinstance(odd, str) and row == 199 else f"t{row}"
                where = Where(None, 0, row, 1, odd if isinstance(odd, int) and row == 199 else row, "0:1")
                engine.emit_fact_of((row, row % 3), engine.facts.names[0], topic, Fact(where, "sent", {}))
            of_rows = [place for place in places for _ in range(2)] if mode == "off" else OrderedKeys(OrderedFrames(places), {})
            with reader(mode):
                engine._give(of_rows, 200)
        assert engine.key == places[-1]
        assert any(isinstance(some, bytes) for some in facts) == (mode == "require" and odd is None)
        with reader("off"):
            collected[mode] = [*facts_in_order(pack_facts(facts))]
    assert len(collected["off"]) == 10
    assert collected["off"] == collected["require"]


def test_a_bound_that_may_have_changed_a_verdict_is_said_once_with_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "FACTS_MAX_BYTES", 2_000)
    rule_engine = engine_of()
    found: list[Any] = []
    for number in range(60):
        rule_engine.feed([frame(number, "SEND", topic=f"t{number % 20}")])
        found += [row for _, row in rule_engine.take()]
    assert not found
    rule_engine.finish()
    ((_, cap),) = rule_engine.take()
    assert (cap.code, cap.severity, cap.connection) == ("memory-cap", "warning", None)
    assert cap.evidence == {"judged_early": {"topics": 40}, "unknown": 0, "bytes": 2_000}
    assert (cap.text or "").startswith("40 verdicts across connections came before all facts did (topics 40): facts that wait")


def test_a_bound_that_changed_no_verdict_is_not_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "FACTS_MAX_BYTES", 2_000)
    rule_engine = engine_of()
    for number in range(60):
        rule_engine.feed([frame(number, "SEND", topic=f"t{number}")])
    rule_engine.finish()
    assert rule_engine.take() == []


# ---- rules that raise


class Raising(ConnectionRule):
    """A rule that raises at each SEND, and at the end."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context

    def _send(self, row: FrameRow) -> None:
        raise KeyError(row.command)

    def end(self, row: ConnectionRow, last: Where) -> None:
        raise ValueError(row.connection, last)

    frames: ClassVar[Handlers] = {"SEND": _send}


def raise_at_once(_key: str, _facts: Sequence[Fact], _report: ReportFinding, _thresholds: Thresholds) -> None:
    raise ZeroDivisionError


def line_of(function: Any) -> int:
    """Return the last line of a function."""
    lines: list[int] = [line for *_, line in function.__code__.co_lines() if line is not None]
    return max(lines)


def raising_engine(*rules: Rules) -> RuleEngine:
    MADE.clear()
    names = [f"d{number}" for number in range(len(rules))]
    connections = {f"0:{number + 1}": name for number, name in enumerate(names)}
    dissectors = [dissector_with(each, name) for name, each in zip(names, rules, strict=True)]
    return RuleEngine(dissectors, dict.fromkeys(connections, ("a:1", "b:2")), connections)


def test_a_rule_that_raises_is_a_finding_once_and_the_others_go_on() -> None:
    engine = raising_engine(Rules({}, (Raising, Other)))
    engine.feed([frame(1, "SEND"), frame(2, "SEND"), frame(3, "FLOW"), Closed(ConnectionRow(connection="0:1"))])
    assert MADE == ["other", "other ends with ['SEND', 'SEND', 'FLOW'] at 3"]
    ((_, row),) = engine.take()
    exception = f"KeyError: 'SEND' (test_rule_engine.py:{line_of(Raising._send)})"
    assert (row.code, row.severity, row.packet, row.text) == (
        "rule-failed",
        "warning",
        1,
        f"The dissector d0 of pulsarscope failed in the rule Raising: {exception}.",
    )
    assert row.evidence == {"package": "pulsarscope", "dissector": "d0", "member": "the rule Raising", "exception": exception}


def test_a_rule_across_connections_that_raises_is_a_finding_at_its_last_fact() -> None:
    engine = raising_engine(Rules({}, (Named,), (KeyRule("topics", 1, raise_at_once),)))
    engine.feed([frame(1, "SEND"), frame(2, "SEND")])
    engine.finish()
    ((_, row),) = engine.take()
    assert (row.code, row.packet) == ("rule-failed", 2)
    assert (row.evidence or {})["exception"] == f"ZeroDivisionError (test_rule_engine.py:{line_of(raise_at_once)})"


def test_two_dissectors_may_use_one_name_for_rules_across_connections() -> None:
    heard: list[str] = []

    def key_rule(name: str) -> KeyRule:
        return KeyRule("topics", 1, lambda key, facts, *_: heard.append(f"{name} {key} {len(facts)}"))

    engine = raising_engine(Rules({}, (Named,), (key_rule("first"),)), Rules({}, (Named,), (key_rule("second"),)))
    engine.feed([frame(1, "SEND"), frame(2, "SEND", connection="0:2"), frame(3, "SEND", connection="0:2")])
    engine.finish()
    assert heard == ["first t 1", "second t 2"]


def test_rules_that_cannot_be_had_are_a_finding_of_each_connection() -> None:
    class Ruleless(PulsarDissector):
        @property
        def rules(self) -> Rules:
            raise OSError

    connections = ("0:1", "0:2")
    engine = RuleEngine([Ruleless()], dict.fromkeys(connections, ("client", "server")), dict.fromkeys(connections, "pulsar"))
    engine.feed([frame(packet, "SEND", connection=name) for name in connections for packet in (1, 2)])
    engine.finish()
    line = line_of(vars(Ruleless)["rules"].fget)
    text = f"The dissector pulsar of pulsarscope failed in rules: OSError (test_rule_engine.py:{line})."
    assert [(row.connection, row.code, row.text) for _, row in engine.take()] == [(name, "rule-failed", text) for name in connections]


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ({}, {"a-seconds": 2, "b-count": 3}),
        ({"threshold": {"b-count": 3}}, {"b-count": 3}),
        ({"threshold": {}}, None),
    ],
)
def test_evidence_names_the_thresholds_of_the_code_unless_the_rule_says_which(said: dict[str, object], named: object) -> None:
    code = SESSION.note("odd", "Odd.", "Look.")
    thresholds = (Threshold("a-seconds", 1, "s", "Why.", ("odd",)), Threshold("b-count", 3, "messages", "Why.", ("odd",)))

    class Odd(ConnectionRule):
        def __init__(self, context: RuleContext) -> None:
            self._context = context

        def _send(self, row: FrameRow) -> None:
            self._context.report("odd", where_of(row), f"{self._context.thresholds.ns('a-seconds')}", {"frames": [], **said})

        frames: ClassVar[Handlers] = {"SEND": _send}

    rules = Rules({"odd": code}, (Odd,), thresholds=thresholds)
    engine = RuleEngine([dissector_with(rules, "d")], {"0:1": ("a:1", "b:2")}, {"0:1": "d"}, thresholds={"a-seconds": 2})
    engine.feed([frame(1, "SEND")])
    ((_, row),) = engine.take()
    assert row.text == "2000000000"
    assert (row.evidence or {}).get("threshold") == named
    assert next(iter(row.evidence or {})) == "frames"


@pytest.mark.parametrize(
    ("values", "emitted"),
    [
        ({}, True),
        ({"client_bytes": 60}, True),
        ({"server_bytes": 1}, False),
        ({"server_bytes": 1, "tls": "TLSv1.3"}, True),
        ({"opened": "midstream"}, False),
        ({"dissector": "d"}, False),
    ],
)
def test_connections_without_a_readable_answer_are_facts_for_the_rule_that_asks(values: dict[str, Any], *, emitted: bool) -> None:
    heard: list[tuple[str, str, Any, str]] = []

    def note(key: str, facts: Sequence[Fact], _report: ReportFinding, _thresholds: Thresholds) -> None:
        heard.extend((key, fact.what, fact.values["server"], fact.where.name) for fact in facts)

    rules = Rules({}, (), (KeyRule("addresses", 1, note),), unread=("addresses",))
    engine = RuleEngine([dissector_with(rules, "d"), dissector_with(Rules({}), "e")], {}, {})
    silent = {"dissector": None, "client_bytes": 0, "server_bytes": 0, "packet": 4, "connection": "0:4", **values}
    engine.feed([Closed(rows.connection(**silent))])
    engine.finish()
    assert heard == [("10.0.0.1", "unread", "10.0.0.2:6650", "0:4.0")] * emitted
