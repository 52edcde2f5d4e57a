"""Keys evaluated early: known again, as many as there is room for."""

from __future__ import annotations

import pytest

from pulsarscope.engine import evaluated_keys as module
from pulsarscope.engine.evaluated_keys import EvaluatedKeys


def test_what_was_added_is_known_and_nothing_else() -> None:
    keys = EvaluatedKeys()
    names = [f"{number}" for number in range(20_000)]
    assert keys.add("rule", names[:10_000]) == 0
    assert [keys.count("rule", [name]) for name in names] == [1] * 10_000 + [0] * 10_000
    assert keys.count("rule", names) == 10_000
    assert keys.count("another rule", ["1"]) == 0


def test_a_full_table_takes_no_more_and_knows_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVALUATED_KEYS_MAX", 7)
    monkeypatch.setattr(module, "_SLOTS", 8)
    keys = EvaluatedKeys()
    names = [f"{number}" for number in range(9)]
    assert keys.add("rule", names) == 2
    assert [keys.count("rule", [name]) for name in names] == [1] * 7 + [0] * 2
    assert keys.add("rule", ["3"]) == 0  # is there
