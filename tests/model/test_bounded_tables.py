from __future__ import annotations

import pickle

import pytest

from pulsarscope.model.bounded_tables import NOTHING, OldestFirst, drop_oldest, remember


def test_the_oldest_value_makes_room() -> None:
    table: dict[str, int] = {}
    for number, key in enumerate("abca"):
        remember(table, key, number, 2)
    assert table == {"c": 2, "a": 3}


def test_an_eighth_of_a_large_table_makes_room_at_once() -> None:
    table = dict.fromkeys(range(101))
    assert [key for key, _ in drop_oldest(table, 100)] == [*range(13)]
    assert drop_oldest(table, 100) == []
    assert [*table] == [*range(13, 101)]


def test_the_empty_table_stays_empty_and_is_one_in_every_process() -> None:
    with pytest.raises(TypeError):
        NOTHING["key"] = 1
    assert (len(NOTHING), NOTHING.get("key"), NOTHING or {}) == (0, None, {})
    assert pickle.loads(pickle.dumps(NOTHING)) is NOTHING  # noqa: S301 - its own bytes


def test_the_oldest_entries_of_a_table_go_one_by_one_also_after_it_was_sent_elsewhere() -> None:
    table: OldestFirst[str, int] = OldestFirst()
    assert [table.add(name, number) for number, name in enumerate("bac")] == [0, 1, 2]
    assert table.pop_oldest() == ("b", 0)
    table = pickle.loads(pickle.dumps(table))  # noqa: S301 - its own bytes
    table.add("b", 3)
    assert [table.pop_oldest() for _ in range(3)] == [("a", 1), ("c", 2), ("b", 3)]
    with pytest.raises(IndexError):
        table.pop_oldest()
