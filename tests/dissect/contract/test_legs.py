"""Anchors that join two connections to legs of a path, anchors that contradict this, and what is forgotten."""

from __future__ import annotations

import pickle
from itertools import islice
from random import Random
from typing import Any

import pytest

from pulsarscope.dissect.contract import legs
from pulsarscope.dissect.contract.legs import ANCHOR, LegTable, WaitingAnchors
from pulsarscope.dissect.contract.rules import Fact, Where
from pulsarscope.model.limits import ANCHOR_NANOSECONDS_MAX, ANCHORS_MAX, ANCHORS_OF_KEY_MAX, ANCHORS_WAITING_MAX
from pulsarscope.model.platform import load_native

SECOND = 1_000_000_000
OUTER, INNER = ("10.0.0.1:1", "10.0.0.2:2"), ("10.0.9.2:3", "10.0.0.3:4")


def anchor(name: str, ends: tuple[str, str], first: int, last: int, *, time: int = 0, source: str | None = None, **more: Any) -> Fact:
    """An anchor from one packet to another."""
    values = {"first": [0, first, 1, time + first], "unique": False, "pushed": False, "client": ends[0], "server": ends[1], **more}
    return Fact(Where(source, 0, last, 1, time + last, name), ANCHOR, values)


def add_anchor(table: LegTable, key: object, outer: tuple[int, int], inner: tuple[int, int], **more: Any) -> None:
    """Add an anchor on both legs, in the order of their ends."""
    facts = [anchor("outer", OUTER, *outer, **more), anchor("inner", INNER, *inner, **more)]
    for fact in sorted(facts, key=lambda fact: fact.where.packet):
        table.add(str(key), fact)


@pytest.mark.parametrize(("more", "needed"), [({"unique": True}, 1), ({}, 3), ({"pushed": True}, 3)])
def test_legs_are_known_by_one_anchor_that_nobody_else_can_have_or_three_others(more: dict[str, Any], needed: int) -> None:
    table = LegTable()
    spans = ((2, 3), (1, 4)) if more.get("pushed") else ((1, 4), (2, 3))
    for number in range(needed):
        assert table.outer_of == {}
        add_anchor(table, number, *(tuple(10 * number + at for at in span) for span in spans), **more)  # type: ignore[arg-type]
    assert table.outer_of == {"inner": "outer"}
    (legs,) = table.joined()
    assert (legs.anchors, legs.outer.connection, legs.inner.connection) == (needed, "outer", "inner")
    assert [*table.joined()] == []


def test_anchors_that_cross_speak_against_legs() -> None:
    table = LegTable()
    for number in range(30):
        begin = 10 * number
        add_anchor(table, number, (begin + 1, begin + 4 - 2 * (number % 2)), (begin + 2, begin + 3))
    assert table.outer_of == {}


@pytest.mark.parametrize(
    "change", [{"client": OUTER[0]}, {"server": OUTER[1]}, {"source": "elsewhere"}, {"time": ANCHOR_NANOSECONDS_MAX + SECOND}]
)
def test_connections_with_a_common_end_of_other_points_or_times_are_no_legs(change: dict[str, Any]) -> None:
    table = LegTable()
    table.add("key", anchor("outer", OUTER, 1, 4, unique=True))
    table.add("key", anchor("inner", INNER, 2, 3, unique=True, **change))
    assert table.outer_of == {}


@pytest.mark.parametrize("more", [{"source": "caf\udce9"}, {"time": 1 << 64}])
def test_anchors_that_cannot_be_packed_wait_as_they_are(more: dict[str, Any]) -> None:
    table = LegTable()
    add_anchor(table, "key", (1, 4), (2, 3), unique=True, **more)
    assert table.outer_of == {"inner": "outer"}


def test_order_decides_not_when_an_anchor_is_reported() -> None:
    table = LegTable()
    table.add("key", anchor("outer", OUTER, 1, 4, unique=True))
    table.add("key", anchor("inner", INNER, 2, 3, unique=True))
    assert table.outer_of == {"inner": "outer"}


def test_only_pairs_with_all_anchors_are_complete() -> None:
    table = LegTable()
    for number in range(ANCHORS_MAX):
        assert [*table.joined(complete=True)] == []
        add_anchor(table, number, (10 * number + 1, 10 * number + 4), (10 * number + 2, 10 * number + 3), unique=True)
    assert len([*table.joined(complete=True)]) == 1


def of_python(table: LegTable) -> WaitingAnchors:
    """Anchors that wait in a table."""
    anchors = table.__getstate__()["waiting"]
    assert isinstance(anchors, WaitingAnchors)
    return anchors


def waiting(table: LegTable) -> int:
    """Number of anchors that wait."""
    tables = of_python(table)._recent, of_python(table)._older
    return sum(len(getattr(equal, "anchors", [equal])) for anchors in tables for equal in anchors.values())


@pytest.mark.slow
def test_what_waits_is_bounded() -> None:
    table = LegTable()
    for number in range(3 * ANCHORS_WAITING_MAX):
        table.add(str(number), anchor(f"c{number}", (f"h{number}:1", f"s{number}:1"), number, number))
    assert waiting(table) <= 2 * ANCHORS_WAITING_MAX
    for number in range(6 * ANCHORS_WAITING_MAX):
        table.add(str(number % 1_000), anchor(f"e{number}", (f"h{number}:1", "s:1"), number, number))
    assert waiting(table) <= 2 * ANCHORS_WAITING_MAX
    for number in range(5 * ANCHORS_OF_KEY_MAX):
        table.add("same", anchor(f"d{number}", (f"h{number}:1", "s:1"), number, number))
    assert len(of_python(table)._recent["same"].anchors) <= ANCHORS_OF_KEY_MAX  # type: ignore[union-attr]


@pytest.mark.skipif(load_native()[0] is None, reason="pulsarscope-native is not installed")
@pytest.mark.parametrize("seed", range(20))
def test_the_compiled_reader_lets_the_same_anchors_wait(seed: int) -> None:
    chance = Random(seed)  # noqa: S311 - for a test
    limits = chance.randrange(1, 40), chance.randrange(1, 30), chance.randrange(1, 6)
    compiled, in_python, time = load_native()[0].WaitingAnchors(), WaitingAnchors(), 0
    for number in range(400):
        time += chance.choice((0, 1, 5, -3, 1 << 64 if number % 100 == 99 else 2))
        server = chance.choice(("s:1", "s:2", "other-s:1", "s:11"))
        fact = anchor(f"c{number}", (f"h{chance.randrange(9)}:1", server), number, number)
        key, packed = f"k{chance.randrange(1 + seed)}", chance.choice((fact, *3 * [legs._pack(fact)]))
        ours = [legs._unpack(each) for each in compiled.add(key, packed, time, server, limits) or ()]
        theirs = [legs._unpack(each) for each in in_python.add(key, packed, time, server, limits) or ()]
        assert [each for each in ours if each.values["server"] != server] == [each for each in theirs if each.values["server"] != server]
        converted = WaitingAnchors.of_compiled(compiled)
        for table, expected in ((converted._recent, in_python._recent), (converted._older, in_python._older)):
            assert {key: getattr(equal, "anchors", equal) for key, equal in table.items()} == {
                key: getattr(equal, "anchors", equal) for key, equal in expected.items()
            }
        assert converted._count == in_python._count


def test_a_table_goes_on_in_another_process() -> None:
    table = LegTable()
    for number in range(2):
        add_anchor(table, number, (10 * number + 1, 10 * number + 4), (10 * number + 2, 10 * number + 3))
    table.add("last", anchor("outer", OUTER, 31, 34))
    table = pickle.loads(pickle.dumps(table))  # noqa: S301 - our own
    assert table.outer_of == {}
    table.add("last", anchor("inner", INNER, 32, 33))
    assert table.outer_of == {"inner": "outer"}


@pytest.mark.parametrize(("keys", "before", "during"), [(1, 0, 5 * ANCHORS_WAITING_MAX), (700, 64 * 700, 2 * 700)])
def test_crowds_of_equal_anchors_make_no_others_forgotten(keys: int, before: int, during: int) -> None:
    """Anchors before the latest ones do not count again, either, because others equal them."""
    numbers = iter(range(10, before + during + 10))

    def crowd(count: int) -> None:
        for number in islice(numbers, count):
            table.add(f"same {number % keys}", anchor(f"c{number}", (f"h{number}:1", "s:1"), number, number))

    table = LegTable()
    crowd(before)
    table.add("pair", anchor("inner", INNER, 1_000_002, 1_000_003, unique=True))
    crowd(during)
    table.add("pair", anchor("outer", OUTER, 1_000_001, 1_000_004, unique=True))
    assert table.outer_of == {"inner": "outer"}


def test_equal_anchors_join_though_some_are_older_than_the_latest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(legs, "ANCHORS_WAITING_MAX", 2)
    table = LegTable()
    for number, key in enumerate(["same", "other", "same", "same"]):
        table.add(key, anchor(f"c{number}", (f"h{number}:1", f"s{number}:1"), number + 1, 20 - number, unique=True))
    assert table.outer_of == {"c2": "c0", "c3": "c0"}


@pytest.mark.parametrize("crowd", [0, 1, ANCHORS_OF_KEY_MAX - 2])
def test_legs_are_found_among_equal_clients_of_one_server(crowd: int) -> None:
    table = LegTable()
    for number in range(crowd):
        table.add("same", anchor(f"c{number}", (f"10.0.1.1:{number}", OUTER[1]), number, number + 1))
    add_anchor(table, "same", (crowd + 3, crowd + 6), (crowd + 4, crowd + 5), unique=True)
    table.add("same", anchor("late", ("10.0.1.1:1", OUTER[1]), crowd + 7, crowd + 8))
    add_anchor(table, "same", (crowd + 11, crowd + 14), (crowd + 12, crowd + 13), unique=True)
    assert table.outer_of == {"inner": "outer"}
    (legs,) = table.joined()
    assert legs.anchors >= 2
