"""Stories: facts come out as they were put in, in order, the first and the last of too many, and take little room."""

from __future__ import annotations

import sys
from collections import Counter
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsarscope.dissect.rules import Fact, Where
from pulsarscope.engine import packed_facts as module
from pulsarscope.engine.packed_facts import PendingFacts, keep, pack, unpack
from pulsarscope.model.limits import FACTS_PER_KEY_MAX

NUMBERS = st.integers(-(1 << 90), 1 << 90)  # times off the wire are multiplied
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.floats(allow_nan=False) | st.text(st.characters(), max_size=20) | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
PLACES = st.builds(Where, st.none() | st.text(max_size=3), *[st.integers(0, 3)] * 3, NUMBERS, st.text(max_size=8))
FACTS = st.builds(Fact, PLACES, st.text(max_size=8), st.dictionaries(st.text(max_size=8), VALUES, max_size=4))


def pending(facts: list[Fact]) -> PendingFacts:
    found = PendingFacts(pack(facts[0]), facts[0].where.time)
    for fact in facts[1:]:
        found.add(pack(fact), fact.where.time)
    return found


def kept(facts: list[Fact]) -> list[Fact]:
    found: list[Fact] = []
    for fact in facts:
        keep(found, fact)
    return found


@pytest.mark.slow
@settings(max_examples=50)
@given(st.lists(FACTS, min_size=1, max_size=12))
def test_facts_come_out_as_they_were_put_in(facts: list[Fact]) -> None:
    facts_of_key = pending(facts)
    assert repr(facts_of_key.facts()) == repr(kept(facts))  # numbers are no booleans
    assert facts_of_key.time == max(fact.where.time for fact in facts)


@pytest.mark.slow
@settings(max_examples=50)
@given(st.lists(FACTS, min_size=1, max_size=60))
def test_the_first_and_the_last_of_too_many_facts_remain_however_often_they_are_trimmed(facts: list[Fact]) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(module, "FACTS_PER_KEY_MAX", 4)
        facts_of_key = pending(facts)
        assert facts_of_key.facts() == kept(facts)
        assert facts_of_key.count <= module.TRIM_FACTOR * 4


class Size(IntEnum):
    """As a dissector of another package may read one."""

    LARGE = 3


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Size.LARGE, 3),
        (Counter(b"aab"), {97: 2, 98: 1}),
        (Where(None, 0, 1, 1, 1, "0:1"), [None, 0, 1, 1, 1, "0:1"]),
        ((1, (2, 3)), [1, [2, 3]]),
        ({(1, 2): 3}, {(1, 2): 3}),
        ([1 << 70, (1,)], [1 << 70, (1,)]),
    ],
    ids=["enumeration", "counter", "place", "tuple", "key-of-a-tuple", "large"],
)
def test_values_come_out_plain_or_as_they_were(value: Any, plain: Any) -> None:
    (found,) = unpack(pack(sent(2, {"value": value})))
    assert found.values["value"] == plain
    assert found._replace(values={}) == sent(2, {})._replace(values={})


def sent(number: int, values: dict[str, Any] | None = None) -> Fact:
    usual = {"topic": "persistent://public/default/orders", "producer_name": "standalone-1-7", "sent": number, "checksum": "good"}
    return Fact(Where(None, 0, number, 1, 1_700_000_000_000_000_000 + number, f"0:{number % 9}"), "received", values or usual)


def test_a_fact_takes_little() -> None:
    facts_of_key = pending([sent(number) for number in range(100)])
    assert facts_of_key.size < 100 * 160


def test_a_key_never_keeps_many_more_facts_than_it_gives() -> None:
    facts_of_key = pending([sent(number) for number in range(5 * FACTS_PER_KEY_MAX)])
    assert len(facts_of_key.facts()) == FACTS_PER_KEY_MAX
    assert facts_of_key.count < module.TRIM_FACTOR * FACTS_PER_KEY_MAX


def test_its_size_is_that_of_its_parts() -> None:
    facts_of_key = pending([sent(number, {"text": "a" * 10_000}) for number in range(20)])
    assert sys.getsizeof(facts_of_key.packs) <= facts_of_key.size * 9 // 8
