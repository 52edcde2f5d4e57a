"""Mappings that are made on first use."""

from __future__ import annotations

from pulsarscope.model.on_use import MadeOnUse


def test_a_mapping_is_made_once_when_it_is_used() -> None:
    made = []

    def make() -> dict[str, int]:
        made.append(1)
        return {"a": 1, "b": 2}

    mapping = MadeOnUse(make)
    names = mapping.keys()
    assert not made
    assert (len(names), [*names], mapping["b"], "c" in names) == (2, ["a", "b"], 2, False)
    assert len(made) == 1
