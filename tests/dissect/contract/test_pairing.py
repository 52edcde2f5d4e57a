"""Requests wait for their responses."""

from __future__ import annotations

from random import Random
from time import process_time

import pytest
from hypothesis import given, settings

from pulsarscope.dissect.contract import pairing as module
from pulsarscope.dissect.contract.exchange import Request, Response, elapsed
from pulsarscope.dissect.contract.pairing import Pairing
from pulsarscope.model.limits import PENDING_REQUESTS_MAX
from tests.scenarios.chance import randoms


def request(number: int) -> Request:
    return Request(0, number, 1, number * 10, "ASK", str(number))


def packet(found: Request | None) -> int | None:
    return None if found is None else found.packet


def test_each_key_is_first_in_first_out() -> None:
    pairing = Pairing()
    for number, key in enumerate("abaab"):
        assert not pairing.ask(key, request(number))
    assert [packet(pairing.answer(key)) for key in "aabbab"] == [0, 2, 1, 4, 3, None]


def test_an_unknown_key_has_no_request() -> None:
    pairing = Pairing()
    assert (pairing.answer("a"), pairing.peek("a"), pairing.answer_first("ab"), pairing.rest()) == (None, None, None, [])


def test_a_look_leaves_the_request_waiting() -> None:
    pairing = Pairing()
    pairing.ask("a", request(1))
    pairing.ask("a", request(2))
    assert [packet(pairing.peek("a")), packet(pairing.peek("a")), packet(pairing.answer("a")), packet(pairing.peek("a"))] == [1, 1, 1, 2]


def test_of_several_keys_the_longest_waiting_is_answered() -> None:
    pairing = Pairing()
    for number, key in enumerate("cab"):
        pairing.ask(key, request(number))
    assert [packet(pairing.answer_first("abc")) for _ in range(4)] == [0, 1, 2, None]
    pairing.ask("a", request(7))
    pairing.ask("b", request(8))
    assert packet(pairing.answer_first("bx")) == 8


def test_the_rest_is_given_in_the_order_of_asking_and_once() -> None:
    pairing = Pairing()
    for number, key in enumerate("cabca"):
        pairing.ask(key, request(number))
    pairing.answer("a")
    assert [packet(one) for one in pairing.rest()] == [0, 2, 3, 4]
    assert pairing.rest() == []
    assert pairing.answer("a") is None


def test_beyond_the_bound_the_longest_waiting_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PENDING_REQUESTS_MAX", 3)
    pairing = Pairing()
    for number, key in enumerate("aba"):
        assert not pairing.ask(key, request(number))
    assert packet(pairing.answer("a")) == 0
    assert not pairing.ask("c", request(3))
    assert [packet(one) for one in pairing.ask("d", request(4))] == [1], "the key a is older, but its request that waits is not"
    assert [packet(one) for one in pairing.rest()] == [2, 3, 4]


def test_long_names_make_room_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PENDING_NAMES_MAX_BYTES", 1_000)
    pairing = Pairing()

    def ask(number: int, characters: int) -> list[int | None]:
        named = Request(0, number, 1, number, "ASK", None, "t" * characters)
        return [packet(one) for one in pairing.ask(number, named)]

    assert [ask(number, 400) for number in (1, 2)] == [[], []]
    assert packet(pairing.answer(1)) == 1
    assert ask(3, 400) == []
    assert ask(4, 300) == [2]
    assert ask(5, 2_000) == [3, 4], "one of any length may wait"
    assert ask(6, 0) == [5]
    assert [packet(one) for one in pairing.rest()] == [6]
    assert ask(7, 900) == []


@pytest.mark.slow
def test_giving_up_takes_no_longer_the_more_were_given_up() -> None:
    pairing = Pairing()
    for number in range(PENDING_REQUESTS_MAX):
        pairing.ask(number, request(number))
    start = process_time()
    for number in range(100_000):
        assert [packet(one) for one in pairing.ask(("more", number), request(number))]
    assert process_time() - start < 1.5, "to find the first of a table that is emptied from its front takes 4 s"


@given(randoms)
@settings(max_examples=80)
def test_it_does_what_a_list_does(random: Random) -> None:
    bound = random.choice((3, 5, 1000))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PENDING_REQUESTS_MAX", bound)
        pairing = Pairing()
        waiting: list[tuple[str, int]] = []
        for number in range(80):
            key = random.choice("abcd")
            if random.random() < 0.55:
                waiting.append((key, number))
                want = [waiting.pop(0)[1]] if len(waiting) > bound else []
                assert [packet(one) for one in pairing.ask(key, request(number))] == want
            else:
                keys = random.sample("abcd", random.randint(1, 3))
                chosen = next((entry for entry in waiting if entry[0] in keys), None)
                if chosen is not None:
                    waiting.remove(chosen)
                assert packet(pairing.answer_first(keys)) == (chosen and chosen[1])
        assert [packet(one) for one in pairing.rest()] == [number for _, number in waiting]


@pytest.mark.parametrize(
    ("asked", "asked_time", "answered", "answered_time", "want"),
    [
        ((0, 1), 100, (0, 2), 150, 50),
        ((0, 1), 100, (0, 1), 100, 0),
        ((0, 9), 100, (1, 1), 150, 50),
        ((0, 2), 100, (0, 1), 150, None),
        ((1, 1), 100, (0, 9), 150, None),
        ((0, 1), 100, (0, 2), 99, None),
    ],
)
def test_time_passes_only_forward(
    asked: tuple[int, int], asked_time: int, answered: tuple[int, int], answered_time: int, want: int | None
) -> None:
    request = Request(*asked, 1, asked_time, "LOOKUP", "7")
    assert elapsed(request, Response(*answered, 1, answered_time, "LOOKUP_RESPONSE", {})) == want
