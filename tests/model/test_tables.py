from __future__ import annotations

from pulsarscope.model.tables import drop_oldest, remember


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
