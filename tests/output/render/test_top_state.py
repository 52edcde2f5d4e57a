"""The effect of the keys of the screen."""

from __future__ import annotations

import pytest

from pulsarscope.output.render.top_state import FILTER_CHARACTERS_MAX, Action, TopState

ROWS = [{"topic": f"t{number}"} for number in range(20)]


def test_q_quits_but_not_while_a_filter_is_typed() -> None:
    state = TopState()
    assert state.press("q", ROWS) is Action.QUIT
    state.press("/", ROWS)
    assert state.press("q", ROWS) is Action.NONE
    assert state.place.pattern == "q"


@pytest.mark.parametrize(
    ("keys", "at"),
    [("down", 1), ("down down up", 1), ("up", 0), ("end", 19), ("end down", 19), ("page-down", 10), ("end page-up home", 0), ("j j k", 1)],
)
def test_arrows_move_within_the_rows(keys: str, at: int) -> None:
    state = TopState()
    for key in keys.split():
        state.press(key, ROWS)
    assert state.place.position(ROWS) == at


def test_the_chosen_row_is_followed_when_rows_move_and_its_neighbour_takes_over_when_it_is_gone() -> None:
    state = TopState()
    state.press("down", ROWS)
    assert state.place.position(ROWS[::-1]) == 18
    assert state.place.position(ROWS[:1]) == 0


def test_without_rows_every_key_is_harmless() -> None:
    state = TopState()
    for key in [
        "down",
        "end",
        "page-down",
        "enter",
        "escape",
        "s",
        "r",
        "f",
        "f",
        "?",
        "?",
        "tab",
        "1",
        "9",
        "0",
        "ä",
        "²",
        "/",
        "enter",
        "p",
    ]:
        assert state.press(key, []) is Action.NONE


def test_a_filter_has_a_bounded_length() -> None:
    state = TopState()
    for key in ["/", *"x" * 500]:
        state.press(key, ROWS)
    assert len(state.place.pattern) == FILTER_CHARACTERS_MAX
    state.press("ctrl-u", ROWS)
    assert state.place.pattern == ""


def test_tab_goes_round_the_views() -> None:
    state = TopState()
    seen = []
    for _ in range(5):
        seen.append(state.place.view)
        state.press("tab", ROWS)
    assert seen == ["topics", "producers", "consumers", "connections", "requests"]
    assert state.place.view == "topics"


def test_sorting_goes_through_all_columns_and_back_to_none() -> None:
    state = TopState()
    seen = set()
    while True:
        state.press("s", ROWS)
        if (column := state.place.sort_column) is None:
            break
        seen.add(column.key)
    assert {"topic", "messages_in", "messages_out", "p99_ns"} <= seen
