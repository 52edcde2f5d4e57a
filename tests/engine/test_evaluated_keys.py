"""Keys evaluated early: known again, as many as there is room for."""

from __future__ import annotations

import pytest

from pulsarscope.engine import evaluated_keys as module
from pulsarscope.engine.evaluated_keys import EvaluatedKeys


def test_what_was_added_is_known_and_nothing_else() -> None:
    keys = EvaluatedKeys()
    assert all(keys.add(("rule", f"{number}")) for number in range(10_000))
    assert all(("rule", f"{number}") in keys for number in range(10_000))
    assert not any(("rule", f"{number}") in keys for number in range(10_000, 20_000))
    assert ("another rule", "1") not in keys


def test_a_full_table_takes_no_more_and_knows_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVALUATED_KEYS_MAX", 7)
    monkeypatch.setattr(module, "_SLOTS", 8)
    keys = EvaluatedKeys()
    assert [keys.add(("rule", f"{number}")) for number in range(9)] == [True] * 7 + [False] * 2
    assert [("rule", f"{number}") in keys for number in range(9)] == [True] * 7 + [False] * 2
    assert keys.add(("rule", "3"))  # is there
