from __future__ import annotations

from pulsarscope.protocols.pulsar.rules.bounded import remember


def test_the_oldest_value_makes_room() -> None:
    table: dict[str, int] = {}
    for number, key in enumerate("abca"):
        remember(table, key, number, 2)
    assert table == {"c": 2, "a": 3}
