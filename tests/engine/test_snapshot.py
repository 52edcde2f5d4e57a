from __future__ import annotations

from functools import cached_property
from itertools import chain
from typing import Any

import pytest

from pulsarscope.engine.snapshot import Parts, Shared


class Settings:
    """Settings that each process makes itself."""


def test_what_is_shared_is_the_one_of_the_process_that_goes_on() -> None:
    mine, theirs = Settings(), Settings()
    state: dict[str, Any] = {"a": [mine, 1], "b": mine}
    got = Shared({"settings": theirs}).loads(Shared({"settings": mine}).dumps(state))
    assert got == {"a": [theirs, 1], "b": theirs}


def test_what_is_not_shared_is_one_object_still() -> None:
    own = Settings()
    first, second = Shared({}).loads(Shared({}).dumps([own, own]))
    assert first is second is not own


@pytest.mark.parametrize("value", ["word", 1, (), frozenset(), None, b"x"])
def test_a_plain_value_means_itself_whatever_has_its_name(value: object) -> None:
    assert Shared({"given": "another"}).loads(Shared({"given": value}).dumps([value])) == [value]


def test_an_iterator_goes_on_where_it_stood() -> None:
    numbers = (number for number in range(5))
    next(numbers)
    got = Shared({}).loads(Shared({}).dumps([numbers, chain([1], [2])]))
    assert [list(one) for one in got] == [[1, 2, 3, 4], [1, 2]]


def test_shared_objects_of_any_type_are_found_in_any_place() -> None:
    mine: dict[str, Any] = {"a dict": {}, "a list": [1], "plain": "word", "a class": Settings, "ü" * 300: Settings()}
    theirs: dict[str, Any] = {name: [name] for name in mine}
    state = [{"key": value, "own": [number]} for number, value in enumerate(mine.values())] * 2
    got = Shared(theirs).loads(Shared(mine).dumps(state))
    assert [each["key"] for each in got] == ["word" if name == "plain" else theirs[name] for name in mine] * 2
    assert all(each["key"] is theirs[name] for each, name in zip(got, mine, strict=False) if name != "plain")
    assert [each["own"] for each in got] == [[number] for number in range(5)] * 2
    assert got[0] is got[5]


class Dissector:
    """A dissector with a part that is made on first use."""

    @cached_property
    def decoder(self) -> list[str]:
        return ["made"]


def test_a_part_that_a_dissector_of_this_process_has_not_made_yet_is_made() -> None:
    mine, theirs = Parts({"one": Dissector()}), Parts({"one": (dissector := Dissector())})
    mine["one decoder"] = ["made there"]
    got = Shared(theirs).loads(Shared(mine).dumps([mine["one decoder"], "other"]))
    assert got == [["made"], "other"]
    assert got[0] is dissector.decoder
