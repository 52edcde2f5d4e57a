"""Rules that take many rows at a time do the same as their handlers for single rows, whatever the rows."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, ClassVar

import msgspec
import pytest

from pulsarscope.dissect.contract.dissector_rules import Rules
from pulsarscope.dissect.contract.rules import ConnectionRule, Fact, Handler, Handlers, KeyRule, RuleContext, RuleFact, Where, where_of
from pulsarscope.engine import connection_rules, rule_engine
from pulsarscope.engine.local import run
from pulsarscope.engine.options import Options
from pulsarscope.engine.row_batch import Closed
from pulsarscope.engine.rule_engine import RuleEngine
from pulsarscope.engine.rule_set import SEQUENCE_ROWS_MAX, make_rule_set
from pulsarscope.model.findings import SESSION
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FindingRow, FrameRow
from pulsarscope.protocols import make_dissectors
from pulsarscope.protocols.pulsar.rules import RULES
from pulsarscope.protocols.pulsar.rules.connections import clock
from pulsarscope.protocols.pulsar.rules.sends import sequences
from tests.places import CAPTURES
from tests.scenarios.dialogue import dissector_with

KINDS = frozenset({"frame", "exchange", "connection", "finding"})

BUSY = ("acks-batchindex.pcap", "balancer.pcap", "compress-zlib.pcap", "lo-java-txn.pcap", "proxy-keyshared.pcap", "shared-nack-dlq.pcap")


def rows_of(name: str) -> list[Any]:
    """The frames and exchanges of a capture, with the ends of its connections."""
    rows: list[Any] = []
    for batch in run([str(CAPTURES / name)], Options(KINDS, dissectors=make_dissectors)):
        rows += [row for row in batch.rows if isinstance(row, (FrameRow, ExchangeRow, FindingRow))]
        rows += [Closed(row) for row in batch.rows if isinstance(row, ConnectionRow) and row.dissector == "pulsar"]
    return rows


def brought(parts: Sequence[Sequence[Any]]) -> tuple[list[bytes], list[RuleFact]]:
    """Findings and facts that Pulsar's rules make from these rows."""
    names: set[Any] = {row.row.connection if type(row) is Closed else row.connection for part in parts for row in part}
    facts: list[RuleFact] = []

    def emit_fact(rule: str, key: str, fact: Fact) -> None:
        facts.append((rule, key, msgspec.msgpack.decode(msgspec.msgpack.encode(fact), type=Fact)))

    endpoints = dict.fromkeys(names, ("a:1", "b:6650"))
    engine = RuleEngine([dissector_with(RULES, "pulsar")], endpoints, dict.fromkeys(names, "pulsar"), emit_fact)
    for part in parts:
        engine.feed(part)
    engine.finish()
    return [msgspec.json.encode(row) for _, row in engine.take()], facts


def one_by_one(parts: Sequence[Sequence[Any]]) -> tuple[list[bytes], list[RuleFact]]:
    """The same as `brought`, from rules that take single rows only, and are made for any row."""
    with pytest.MonkeyPatch.context() as patch:
        for rule in RULES.connection:
            patch.setattr(rule, "batch", None)
            patch.setattr(rule, "columns", {})
            patch.setattr(rule, "passive", None)
        return brought([[row] for part in parts for row in part])


@pytest.fixture(autouse=True)
def soon_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reduce the number of first rows, of which rules keep more than of later ones."""
    monkeypatch.setattr(sequences, "KEPT_MAX", 3)
    monkeypatch.setattr(clock, "SAMPLES_MAX", 3)
    monkeypatch.setattr(connection_rules, "BATCH_MIN", 1)
    monkeypatch.setattr(rule_engine, "STRETCH_MIN", 1)


@pytest.mark.parametrize("name", BUSY)
def test_rules_bring_about_the_same_of_a_capture_at_once_and_of_one_row_after_the_other(name: str) -> None:
    rows = rows_of(name)
    assert brought([rows]) == one_by_one([rows])


@pytest.mark.parametrize("seed", range(8))
def test_rules_bring_about_the_same_of_rows_that_are_missing_doubled_and_disordered(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - repeatable
    rows = [row for name in random.sample(BUSY, 2) for row in rows_of(name) if random.random() < 0.9]
    for _ in range(len(rows) // 4):
        row = random.choice(rows)
        if isinstance(row, FrameRow):  # rows that no client sends: with less, or of another message
            row = msgspec.structs.replace(row, fields={**(row.fields or {})}, metadata={**(row.metadata or {})} or None)
            for table in (row.fields, row.metadata):
                if table and random.random() < 0.3:
                    del table[random.choice([*table])]
            row.status = random.choice(("ok", "ok", "malformed"))
        rows.insert(random.randrange(len(rows)), row)
    for _ in range(len(rows) // 8):
        rows.insert(random.randrange(len(rows)), rows.pop(random.randrange(len(rows))))
    parts = [rows[: len(rows) // 3], rows[len(rows) // 3 :]]
    assert brought(parts) == one_by_one(parts)


# ---- the contract of a batch


class Counting(ConnectionRule):
    """A rule that skips PINGs, and reports any other frame with the place of the latest one."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self.passed = 0

    def _frame(self, row: FrameRow) -> None:
        if row.command == "FAIL":
            raise ValueError("on purpose")
        self._context.report("seen", where_of(row), f"Frame {self._context.last.name} behind {self.passed}.", {})

    def batch(self, rows: Sequence[Any], handle: Any) -> None:
        for index, row in enumerate(rows):
            if row.command == "PING":
                self.passed += 1
            else:
                handle(index)

    frames: ClassVar[Handlers] = {"*": _frame}


class Second(ConnectionRule):
    """A rule that reports each PING, and the end."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context

    def _ping(self, row: FrameRow) -> None:
        self._context.report("pinged", where_of(row), "Ping.", {})

    def end(self, row: ConnectionRow, last: Where) -> None:  # noqa: ARG002 - the contract's
        self._context.report("ended", last, "End.", {})

    frames: ClassVar[Handlers] = {"PING": _ping}


def reported(*rows: Any, stretches: Any = None) -> list[tuple[str | None, int | None, str | None]]:
    """Code, packet and connection of the findings of both rules on rows, or on consecutive lists of rows."""
    codes = {code: SESSION.note(code, "A frame.", "Nothing.") for code in ("seen", "pinged", "ended")}
    rules = Rules(codes, (Counting, Second), stretches=stretches)
    engine = RuleEngine([dissector_with(rules, "d")], {f"0:{n}": ("a:1", "b:2") for n in (1, 2)}, {f"0:{n}": "d" for n in (1, 2)})
    for some in rows if rows and isinstance(rows[0], list) else [rows]:
        engine.feed(some)
    return [(row.code, row.packet, row.connection) for _, row in engine.take()]


def frame(packet: int, command: str, connection: str = "0:1") -> FrameRow:
    return FrameRow(None, 0, packet, 1, packet, connection, command=command, status="ok")


def test_findings_stand_in_the_order_of_the_rows_whichever_rule_saw_them_first() -> None:
    end = Closed(ConnectionRow(None, 0, 1, None, 0, "0:1", end=9))
    rows = [frame(1, "SEND"), frame(2, "PING", "0:2"), frame(3, "PING"), frame(4, "SEND", "0:2"), end, frame(5, "PING", "0:2")]
    of_first, of_second = ("0:1",), ("0:2",)
    assert reported(*rows) == [
        ("seen", 1, *of_first),
        ("pinged", 2, *of_second),
        ("pinged", 3, *of_first),
        ("seen", 4, *of_second),
        ("ended", 3, *of_first),
        ("pinged", 5, *of_second),
    ]


def test_few_rows_go_to_their_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_rules, "BATCH_MIN", 4)
    few = [frame(number, "PING") for number in (1, 2, 3)]
    assert reported(*few) == [(code, number, "0:1") for number in (1, 2, 3) for code in ("seen", "pinged")]
    assert reported(*few, frame(4, "PING")) == [("pinged", number, "0:1") for number in (1, 2, 3, 4)]


def test_a_rule_without_an_end_is_not_made_at_the_end_of_a_connection() -> None:
    class Unmade(ConnectionRule):
        def __init__(self, context: RuleContext) -> None:
            raise NotImplementedError

    codes = {"ended": SESSION.note("ended", "The end.", "Nothing.")}
    engine = RuleEngine([dissector_with(Rules(codes, (Unmade, Second)), "d")], {"0:1": ("a:1", "b:2")}, {"0:1": "d"})
    engine.feed([frame(1, "SEND"), Closed(ConnectionRow(None, 0, 1, None, 0, "0:1", end=9))])
    assert [row.code for _, row in engine.take()] == ["ended"]


def test_a_rule_is_not_made_for_rows_that_are_nothing_to_it() -> None:
    made = []

    class Passive(Second):
        def __init__(self, context: RuleContext) -> None:
            super().__init__(context)
            made.append(context.connection)

        def _passed(self, row: FrameRow) -> None:
            pass

        frames: ClassVar[Handlers] = {"PING": Second._ping, "PONG": _passed}
        passive: ClassVar[frozenset[Handler] | None] = frozenset({_passed})

    names = ("0:1", "0:2")
    ends = [Closed(ConnectionRow(None, 0, 1, None, 0, name, end=9)) for name in names]
    rows = [frame(1, "PONG"), frame(2, "PONG", "0:2"), frame(3, "PING", "0:2"), *ends]
    codes = {code: SESSION.note(code, "A frame.", "Nothing.") for code in ("pinged", "ended")}
    engine = RuleEngine([dissector_with(Rules(codes, (Passive,)), "d")], dict.fromkeys(names, ("a:1", "b:2")), dict.fromkeys(names, "d"))
    engine.feed(rows)
    assert made == ["0:2"]
    assert [(row.code, row.connection) for _, row in engine.take()] == [("pinged", "0:2"), ("ended", "0:2")]


def test_a_rule_that_fails_in_a_batch_says_no_more_and_the_others_go_on() -> None:
    assert reported(frame(1, "SEND"), frame(2, "FAIL"), frame(3, "SEND"), frame(4, "PING")) == [
        ("seen", 1, "0:1"),
        ("rule-failed", 2, "0:1"),
        ("pinged", 4, "0:1"),
    ]


def test_a_dissector_whose_columns_fail_gets_rows() -> None:
    def stretches(*_: Any) -> Any:
        raise ValueError("on purpose")

    rows = [frame(1, "SEND"), frame(2, "PING"), frame(3, "PING")]
    for batches in ([rows], [rows[:1], rows[1:]]):
        found = reported(*batches, stretches=stretches)
        assert sorted(found) == [("pinged", 2, "0:1"), ("pinged", 3, "0:1"), ("rule-failed", 1, "0:1"), ("seen", 1, "0:1")]


def test_what_rules_do_with_a_sequence_of_rows_is_remembered_unless_it_is_long() -> None:
    rule_set = make_rule_set(dissector_with(RULES, "pulsar"), {}, findings=True, journeys=False)
    send, answer, other = rule_set.frames["SEND"], rule_set.frames["SEND_RECEIPT"], rule_set.frames["PRODUCER"]
    sequences_of_calls = [[other, send, answer], [other, answer, send], [send] * 3, [other, send, answer] * SEQUENCE_ROWS_MAX]
    for calls in sequences_of_calls:
        of_rows = [*map(id, calls)]
        first, second = (rule_set.steps(of_rows, calls) for _ in range(2))
        assert (first is second) == (len(calls) <= SEQUENCE_ROWS_MAX)
        assert second == first
        for number, handlers, indexes, _ in first:
            assert {at: handlers[of_rows[at]] for at in indexes} == {
                at: handler for at, each in enumerate(calls) for rule, handler in each if rule == number
            }


# ---- facts for several keys


class Emitting(ConnectionRule):
    """A rule that emits one fact for three keys, together or one by one."""

    together = True

    def __init__(self, context: RuleContext) -> None:
        self._context = context

    def _frame(self, row: FrameRow) -> None:
        keys = ["a", "b", "a"]
        if self.together:
            self._context.emit_facts("both", keys, where_of(row), "seen", {"packet": row.packet})
        for key in () if self.together else keys:
            self._context.emit_fact("both", key, where_of(row), "seen", {"packet": row.packet})

    frames: ClassVar[Handlers] = {"*": _frame}


@pytest.mark.parametrize("packed", [True, False])
def test_one_fact_for_several_keys_is_one_for_each(monkeypatch: pytest.MonkeyPatch, *, packed: bool) -> None:
    both = KeyRule("both", 1, lambda *_: None, decides=lambda fact: bool(fact.values["packet"] % 2))
    dissector = dissector_with(Rules({}, (Emitting,), keys=(both,)), "pulsar")
    found = []
    for together in (True, False):
        facts: list[Any] = []
        monkeypatch.setattr(Emitting, "together", together)
        takes: dict[str, Any] = {"collect": facts.extend} if packed else {"emit_fact": lambda *fact, facts=facts: facts.append(fact)}
        engine = RuleEngine([dissector], {"0:1": ("a:1", "b:6650")}, {"0:1": "pulsar"}, **takes)
        frames = [FrameRow(None, 0, packet, 1, packet, "0:1", command="PING") for packet in (1, 2, 3)]
        engine.feed(frames, [(packet, 0) for packet in (1, 2, 3)])
        found.append(facts)
    assert found[0] == found[1]
    assert len(found[0]) == 9
