"""Connections are dealt out: each to one process, the same in all of them, about as much to each."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.engine.parallel.share import ProcessShare
from pulsarscope.tcp import Data


def event(number: int, pieces: int, *, opened: bool = False, finished: bool = False) -> Any:
    run = Data(0, 0, [(b"x", 1, 1, 1)] * pieces)
    return SimpleNamespace(
        connection=SimpleNamespace(name=f"0:{number}"), opened=opened, finished=finished, items=([run] if pieces else [], [])
    )


events = st.builds(event, st.integers(1, 9), st.integers(0, 50), opened=st.booleans(), finished=st.booleans())


@pytest.mark.slow
@given(st.lists(st.lists(events, unique_by=lambda one: one.connection.name, max_size=5), max_size=8), st.integers(1, 4))
def test_each_connection_goes_to_one_process_and_stays_there(parts: list[list[Any]], count: int) -> None:
    shares = [ProcessShare(number, count) for number in range(count)]
    owners: dict[str, int] = {}
    for part in parts:
        chosen = [list(share.select(part)) for share in shares]
        assert sorted(index for some in chosen for index, _ in some) == list(range(len(part)))
        for number, some in enumerate(chosen):
            for index, selected in some:
                assert selected is part[index]
                assert owners.setdefault(selected.connection.name, number) == number
        for one in part:
            if one.finished:
                owners.pop(one.connection.name, None)


def test_those_that_open_together_are_spread_and_later_ones_go_where_least_is_to_do() -> None:
    share = ProcessShare(0, 2)
    first = [event(number, 0, opened=True) for number in range(1, 5)]
    assert [index for index, _ in share.select(first)] == [0, 2]
    assert [index for index, _ in share.select([event(1, 100)])] == [0]
    later = [event(number, 10, opened=True) for number in range(5, 9)]
    assert list(share.select(later)) == []
