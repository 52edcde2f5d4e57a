from __future__ import annotations

import pickle

import pytest

from pulsarscope.model.bounded_tables import NOTHING, drop_oldest, remember


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
