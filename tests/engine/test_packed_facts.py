"""Packed facts: they come out as they were put in, in order, the first and the last of too many, and need little memory."""

from __future__ import annotations

import sys
from collections import Counter
from enum import IntEnum
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsarscope.dissect.contract.rules import Fact, Where
from pulsarscope.engine import packed_facts as module
from pulsarscope.engine.packed_facts import PendingFacts, collected, first_and_last, pack, place_of, stretches, unpack
from pulsarscope.model.limits import FACTS_PER_KEY_MAX

NUMBERS = st.integers(-(1 << 90), 1 << 90)  # times from the wire are multiplied
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.floats(allow_nan=False) | st.text(st.characters(), max_size=20) | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
PLACES = st.builds(Where, st.none() | st.text(max_size=3), *[st.integers(0, 3)] * 3, NUMBERS, st.text(max_size=8))
FACTS = st.builds(Fact, PLACES, st.text(max_size=8), st.dictionaries(st.text(max_size=8), VALUES, max_size=4))


IDLE_NS = 100


def pending(facts: list[Fact]) -> PendingFacts:
    found = PendingFacts(pack(facts[0]), facts[0].where.time)
    for fact in facts[1:]:
        found.add(pack(fact), fact.where.time, IDLE_NS)
    return found


def evaluated(facts: list[Fact]) -> list[list[Fact]]:
    return [first_and_last(stretch) for stretch in stretches(facts, IDLE_NS)]


@pytest.mark.slow
@settings(max_examples=50)
@given(st.lists(FACTS, min_size=1, max_size=12))
def test_facts_come_out_as_they_were_put_in(facts: list[Fact]) -> None:
    facts_of_key = pending(facts)
    assert repr(facts_of_key.facts()) == repr(sorted(facts, key=place_of))  # numbers are not booleans
    assert facts_of_key.time == max(fact.where.time for fact in facts)


TIMES = st.lists(st.integers(0, 40 * IDLE_NS), min_size=1, max_size=60)


@pytest.mark.slow
@settings(max_examples=200)
@given(TIMES, st.randoms(use_true_random=False), st.integers(1, 60))
def test_what_is_evaluated_depends_on_all_facts_of_a_key_and_on_nothing_else(times: list[int], random: Random, division: int) -> None:
    """Not on their order of arrival, on how often they are trimmed, nor on which of them were there when."""
    facts = [sent(number, time=time) for number, time in enumerate(times)]
    every = stretches(facts, IDLE_NS)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(module, "FACTS_PER_KEY_MAX", 4)
        want = [stretch if len(stretch) <= 4 else stretch[:2] + stretch[-2:] for stretch in every]
        shuffled = random.sample(facts, len(facts))
        assert evaluated(pending(shuffled).facts()) == want
        assert evaluated(collected(facts, IDLE_NS)) == want
        first = collected(sorted(shuffled[:division], key=place_of), IDLE_NS)
        assert evaluated(collected(sorted([*first, *shuffled[division:]], key=place_of), IDLE_NS)) == want
        assert len(first) <= 2 * 5 * len(every)


def test_stretches_end_where_no_fact_is_for_long_whatever_the_order_of_places() -> None:
    facts = [sent(number, time=time) for number, time in enumerate((0, 250, 90, 400, 180, 1_000, 950))]
    found = [[fact.where.time for fact in stretch] for stretch in stretches(facts, IDLE_NS)]
    assert found == [[0, 250, 90, 180], [400], [1_000, 950]]


class Size(IntEnum):
    """A value as read by a dissector of another package."""

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


def sent(number: int, values: dict[str, Any] | None = None, time: int | None = None) -> Fact:
    usual = {"topic": "persistent://public/default/orders", "producer_name": "standalone-1-7", "sent": number, "checksum": "good"}
    at = 1_700_000_000_000_000_000 + number if time is None else time
    return Fact(Where(None, 0, number, 1, at, f"0:{number % 9}"), "received", values or usual)


def test_a_fact_takes_little() -> None:
    facts_of_key = pending([sent(number) for number in range(100)])
    assert facts_of_key.size < 100 * 160


def test_a_key_never_keeps_many_more_facts_than_it_gives() -> None:
    facts_of_key = pending([sent(number) for number in range(5 * FACTS_PER_KEY_MAX)])
    assert [len(facts) for facts in evaluated(facts_of_key.facts())] == [FACTS_PER_KEY_MAX]
    assert facts_of_key.count < module.TRIM_FACTOR * FACTS_PER_KEY_MAX


def test_its_size_is_that_of_its_parts() -> None:
    facts_of_key = pending([sent(number, {"text": "a" * 10_000}) for number in range(20)])
    assert sys.getsizeof(facts_of_key.packs) <= facts_of_key.size * 9 // 8
