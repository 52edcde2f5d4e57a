"""Stories: facts come out as they were put in, in order, the first and the last of too many, and take little room."""

from __future__ import annotations

import sys
from collections import Counter
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.dissect.rules import Fact, Where
from pulsarscope.engine import packed_facts as module
from pulsarscope.engine.packed_facts import Story, begin, keep
from pulsarscope.model.limits import FACTS_PER_KEY_MAX

NUMBERS = st.integers(-(1 << 90), 1 << 90)  # times off the wire are multiplied
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.floats(allow_nan=False) | st.text(st.characters(), max_size=20) | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
PLACES = st.builds(Where, st.none() | st.text(max_size=3), *[st.integers(0, 3)] * 3, NUMBERS, st.text(max_size=8))
FACTS = st.builds(Fact, PLACES, st.text(max_size=8), st.dictionaries(st.text(max_size=8), VALUES, max_size=4))


def story_of(facts: list[Fact]) -> Story:
    story = begin(facts[0])
    for fact in facts[1:]:
        story.add(fact)
    return story


def kept(facts: list[Fact]) -> list[Fact]:
    found: list[Fact] = []
    for fact in facts:
        keep(found, fact)
    return found


@given(st.lists(FACTS, min_size=1, max_size=12))
def test_facts_come_out_as_they_were_put_in(facts: list[Fact]) -> None:
    story = story_of(facts)
    assert repr(story.facts()) == repr(kept(facts))  # tuples are no lists, numbers no booleans
    assert story.time == max(fact.where.time for fact in facts)


@given(st.lists(FACTS, min_size=1, max_size=60))
def test_of_too_many_the_first_and_the_last_come_out_however_often_a_story_is_trimmed(facts: list[Fact]) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(module, "FACTS_PER_KEY_MAX", 4)
        story = story_of(facts)
        assert story.facts() == kept(facts)
        assert story.count <= module.TRIM_FACTOR * 4


class Size(IntEnum):
    """As a dissector of another package may read one."""

    LARGE = 3


@pytest.mark.parametrize("value", [Size.LARGE, Counter(b"aab"), Where(None, 0, 1, 1, 1, "0:1")], ids=["enumeration", "counter", "place"])
def test_what_only_looks_plain_comes_out_as_it_was_put_in_too(value: Any) -> None:
    facts = [sent(1), sent(2, {"value": value}), sent(3)]
    found = story_of(facts).facts()
    assert found == facts == story_of(facts[1:] + facts[:1]).facts()
    assert type(found[1].values["value"]) is type(value)


def sent(number: int, values: dict[str, Any] | None = None) -> Fact:
    usual = {"topic": "persistent://public/default/orders", "producer_name": "standalone-1-7", "sent": number, "checksum": "good"}
    return Fact(Where(None, 0, number, 1, 1_700_000_000_000_000_000 + number, f"0:{number % 9}"), "received", values or usual)


def test_a_fact_that_says_much_the_same_takes_little() -> None:
    story = story_of([sent(number) for number in range(100)])
    assert story.size < 100 * 90


def test_a_story_never_keeps_many_more_facts_than_it_tells() -> None:
    story = story_of([sent(number) for number in range(5 * FACTS_PER_KEY_MAX)])
    assert len(story.facts()) == FACTS_PER_KEY_MAX
    assert story.count < module.TRIM_FACTOR * FACTS_PER_KEY_MAX


def test_its_size_is_that_of_its_parts() -> None:
    story = story_of([sent(number, {"text": "a" * 10_000}) for number in range(20)])
    assert sys.getsizeof(story.first) + sys.getsizeof(story.rest) <= story.size * 9 // 8
